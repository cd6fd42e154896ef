//! Which secrets a server was given, and how they are removed from what it says.

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;
use toolgate_kernel::redact::{REDACTED, Redactor};

use super::call::Answered;
use super::fault::{CallFault, ServerFault, shown};
use super::plan::Reach;

/// Adds the secrets of a server to a redactor, also those that are renewed later.
pub(super) fn register(reach: &Reach, redactor: &Redactor) {
    match reach {
        Reach::Nowhere { .. } => {}
        Reach::Stdio { env, .. } => redactor.add(env.values()),
        Reach::Http { headers, bearer, keeper, .. } => {
            redactor.add(headers.iter().map(|(_, value)| value).chain(bearer));
            if let Some(keeper) = keeper {
                keeper.share_secrets(redactor);
            }
        }
    }
}

/// An answer without secrets.
pub(super) fn redact_answer(redactor: &Redactor, answered: Answered) -> Answered {
    let mut text = redactor.redact_json(answered.text);
    let may_have_files = text.contains("\"data\"") || text.contains("\"blob\"");
    if may_have_files
        && let Ok(mut value) = serde_json::from_str::<Value>(&text)
        && redact_files(redactor, &mut value)
    {
        text = value.to_string();
    }
    Answered { text, ..answered }
}

/// Removes files and pictures in whose bytes a secret stands in any form. Whether there were any.
fn redact_files(redactor: &Redactor, value: &mut Value) -> bool {
    match value {
        Value::Array(items) => {
            items.iter_mut().fold(false, |found, item| redact_files(redactor, item) | found)
        }
        Value::Object(fields) => fields.iter_mut().fold(false, |found, (name, value)| {
            let file = value.as_str().filter(|_| name == "data" || name == "blob");
            let bytes = file.and_then(|text| INDIFFERENT.decode(text).ok());
            let text = bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            if text.is_some_and(|text| redactor.redact(&text) != text) {
                *value = Value::from(REDACTED);
                return true;
            }
            redact_files(redactor, value) | found
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Reads base64 with or without padding.
const INDIFFERENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Characters of a server's words that a message keeps.
const MESSAGE_CHARS_MAX: usize = 500;

/// What a server says when it refuses a call or answers with no result, without secrets.
pub(super) fn redact_call_fault(redactor: &Redactor, fault: CallFault) -> CallFault {
    let words = |words: &str| shown(&redactor.redact_error(words), MESSAGE_CHARS_MAX);
    match fault {
        CallFault::Refused { code, message } => {
            CallFault::Refused { code, message: words(&message) }
        }
        CallFault::Misfit(what) => CallFault::Misfit(words(&what)),
        CallFault::NotSent(fault) => CallFault::NotSent(redact_server_fault(redactor, fault)),
        CallFault::Lost(fault) => CallFault::Lost(redact_server_fault(redactor, fault)),
        CallFault::Changed
        | CallFault::TimedOut { .. }
        | CallFault::TooLarge { .. }
        | CallFault::WantsInput(_) => fault,
    }
}

/// What is wrong with a server, without secrets: everything that it may have said itself.
pub(super) fn redact_server_fault(redactor: &Redactor, fault: ServerFault) -> ServerFault {
    let words = |words: &str| redactor.redact_error(words);
    match fault {
        ServerFault::Ended(said) => ServerFault::Ended(words(&said)),
        ServerFault::Denied { what, advice, words: said } => {
            ServerFault::Denied { what: words(&what), advice: words(&advice), words: words(&said) }
        }
        ServerFault::Noisy { max, words: said } => ServerFault::Noisy { max, words: words(&said) },
        ServerFault::TimedOut { what, ms, words: said } => {
            ServerFault::TimedOut { what, ms, words: words(&said) }
        }
        ServerFault::Unauthorized { status, challenge } => {
            let challenge = challenge.as_deref().map(words);
            ServerFault::Unauthorized { status, challenge }
        }
        ServerFault::WantsLogin { server, challenge } => {
            ServerFault::WantsLogin { server, challenge: challenge.as_deref().map(words) }
        }
        ServerFault::WantsMore { server, scopes } => {
            ServerFault::WantsMore { server, scopes: words(&scopes) }
        }
        ServerFault::Protocol(said) => ServerFault::Protocol(words(&said)),
        ServerFault::Misunderstood(said) => ServerFault::Misunderstood(words(&said)),
        ServerFault::Failed { failures, last } => {
            let last = Box::new(redact_server_fault(redactor, *last));
            ServerFault::Failed { failures, last }
        }
        ServerFault::Unknown
        | ServerFault::Lacking(_)
        | ServerFault::NotStarted(_)
        | ServerFault::Hung
        | ServerFault::Http(_)
        | ServerFault::Address(_)
        | ServerFault::Header(_)
        | ServerFault::Status(_)
        | ServerFault::SessionEnded
        | ServerFault::Elsewhere
        | ServerFault::TooMany { .. }
        | ServerFault::Unsure { .. }
        | ServerFault::Loop
        | ServerFault::Closed => fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;
    use toolgate_kernel::hidden::Hidden;

    #[test]
    fn a_picture_with_a_secret_in_its_bytes_is_removed() {
        let secret = "s3cr3t-VALUE99";
        let redactor = Redactor::new(&[Hidden::new(secret)]);
        let escaped: String = secret.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
        let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
        let reversed: String = secret.chars().rev().collect();
        for form in [secret.to_owned(), escaped, hex, reversed, STANDARD.encode(secret)] {
            let bytes = [b"\x89PNG\r\n\x1a\n".as_slice(), form.as_bytes()].concat();
            for key in ["data", "blob"] {
                let part = json!({ "type": "image", key: STANDARD.encode(&bytes) });
                let text = json!({ "content": [part, { "data": "Zm9v" }] }).to_string();
                let answered = Answered { text, is_error: Some(false), cut_at: None };
                let told = redact_answer(&redactor, answered).text;
                assert!(told.contains("***") && told.contains("Zm9v"), "{form}: {told}");
            }
        }
    }

    #[test]
    fn a_result_has_no_secret_however_it_is_written() {
        let secret = "s3cr/3t\"VALUE99";
        let redactor = Redactor::new(&[Hidden::new(secret)]);
        let inner = json!({ "env": secret }).to_string();
        let file = STANDARD.encode(format!("key={secret};{secret};and more"));
        for text in [secret.to_owned(), inner.clone(), json!({ "text": inner }).to_string(), file] {
            let part = json!({ "type": "text", "text": text, text.clone(): 1 });
            let text =
                json!({ "content": [part], "structuredContent": { "a": [text] } }).to_string();
            let answered = Answered { text, is_error: Some(false), cut_at: None };
            let told = redact_answer(&redactor, answered).text;
            assert!(told.matches("***").count() >= 3 && !told.contains("VALUE99"), "{told}");
            assert!(serde_json::from_str::<serde_json::Value>(&told).is_ok(), "{told}");
        }
    }
}
