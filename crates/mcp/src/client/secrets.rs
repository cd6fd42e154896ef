//! Which secrets a server was given, and how they are removed from what it says.

use toolgate_kernel::redact::Redactor;

use super::call::Answered;
use super::fault::{CallFault, ServerFault};
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
    Answered { text: redactor.redact_json(answered.text), ..answered }
}

/// What a server says when it refuses a call or answers with no result, without secrets.
pub(super) fn redact_call_fault(redactor: &Redactor, fault: CallFault) -> CallFault {
    match fault {
        CallFault::Refused { code, message } => {
            CallFault::Refused { code, message: redactor.redact_error(&message) }
        }
        CallFault::Misfit(what) => CallFault::Misfit(redactor.redact_error(&what)),
        // Faults of a server are redacted where it is connected to.
        CallFault::NotSent(_)
        | CallFault::Changed
        | CallFault::Lost(_)
        | CallFault::TimedOut { .. }
        | CallFault::TooLarge { .. }
        | CallFault::WantsInput(_) => fault,
    }
}

/// What a server says when it is connected to, without secrets.
pub(super) fn redact_server_fault(redactor: &Redactor, fault: ServerFault) -> ServerFault {
    if let ServerFault::Protocol(words) = fault {
        return ServerFault::Protocol(redactor.redact_error(&words));
    }
    if let ServerFault::Misunderstood(words) = fault {
        return ServerFault::Misunderstood(redactor.redact_error(&words));
    }
    fault
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;
    use toolgate_kernel::hidden::Hidden;

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
