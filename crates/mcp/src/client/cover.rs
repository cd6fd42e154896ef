//! Decides that a secret which a server was given does not come out of it again.

use std::sync::Arc;

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use serde_json::{Map, Value};
use toolgate_kernel::hidden::Hidden;

use super::fault::{CallFault, ServerFault};
use super::oauth::Keeper;
use super::plan::Reach;

/// Shorter ones are words that anybody may say.
const SECRET_BYTES_MIN: usize = 8;
const COVERED: &str = "***";

/// Reads base64 that may end within a byte.
const UNPADDED: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The secrets of one server.
#[derive(Clone, Default)]
pub(super) struct Cover {
    fixed: Arc<[Hidden]>,
    /// Who has those of a login, which are renewed.
    keeper: Option<Arc<Keeper>>,
}

impl Cover {
    pub(super) fn of(reach: &Reach) -> Self {
        match reach {
            Reach::Stdio { env, .. } => Self::over(env.values()),
            Reach::Http { headers, bearer, keeper, .. } => {
                let whole = headers.iter().map(|(_, value)| value);
                // A server that repeats `Bearer abc` may well repeat `abc` alone.
                let named: Vec<Hidden> = whole.clone().filter_map(without_its_scheme).collect();
                let fixed = Self::over(whole.chain(bearer).chain(&named));
                Self { keeper: keeper.clone(), ..fixed }
            }
        }
    }

    pub(super) fn over<'a>(secrets: impl Iterator<Item = &'a Hidden>) -> Self {
        let secrets = secrets.filter(|secret| !secret.is_open()).filter(is_long);
        Self { fixed: secrets.cloned().collect(), keeper: None }
    }

    fn secrets(&self) -> Vec<Hidden> {
        let renewed = self.keeper.as_ref().map(|keeper| keeper.known()).unwrap_or_default();
        self.fixed.iter().cloned().chain(renewed.into_iter().filter(|it| is_long(&it))).collect()
    }

    /// The text without them.
    pub(super) fn draw(&self, text: String) -> String {
        without(text, &self.secrets())
    }

    /// A result, which is JSON, without them: also where they are written with escapes, or within the
    /// base64 of a file, a picture or a sound.
    pub(super) fn draw_result(&self, text: String) -> String {
        let secrets = self.secrets();
        let text = without(text, &secrets);
        let may_hide = ["\\", "\"blob\"", "\"data\""].iter().any(|sign| text.contains(sign));
        if secrets.is_empty() || !may_hide {
            return text;
        }
        let Ok(mut result) = serde_json::from_str::<Value>(&text) else { return text };
        if covered(&mut result, &secrets) { result.to_string() } else { text }
    }

    /// The same of what a server says when it refuses a call, or answers with no result.
    pub(super) fn draw_over(&self, fault: CallFault) -> CallFault {
        match fault {
            CallFault::Refused { code, message } => {
                CallFault::Refused { code, message: self.draw(message) }
            }
            CallFault::Misfit(what) => CallFault::Misfit(self.draw(what)),
            // Faults of a server are covered where it is connected to.
            CallFault::NotSent(_)
            | CallFault::Changed
            | CallFault::Lost(_)
            | CallFault::TimedOut { .. }
            | CallFault::TooLarge { .. }
            | CallFault::WantsInput(_) => fault,
        }
    }
}

impl Cover {
    /// The same of what a server says when it is connected to.
    pub(super) fn draw_over_server(&self, fault: ServerFault) -> ServerFault {
        if let ServerFault::Protocol(words) = fault {
            return ServerFault::Protocol(self.draw(words));
        }
        if let ServerFault::Misunderstood(words) = fault {
            return ServerFault::Misunderstood(self.draw(words));
        }
        fault
    }
}

fn without(mut text: String, secrets: &[Hidden]) -> String {
    for secret in secrets {
        if text.contains(secret.reveal()) {
            text = text.replace(secret.reveal(), COVERED);
        }
    }
    text
}

/// Covers the secrets within a value; whether there were any. The reader of JSON bounds its depth.
fn covered(value: &mut Value, secrets: &[Hidden]) -> bool {
    match value {
        Value::String(text) => {
            let new = without(text.clone(), secrets);
            let found = new != *text;
            *text = new;
            found
        }
        Value::Array(items) => {
            items.iter_mut().fold(false, |found, item| covered(item, secrets) | found)
        }
        Value::Object(fields) => {
            let names = covered_names(fields, secrets);
            fields.iter_mut().fold(names, |found, (name, value)| {
                let may_hide = name == "blob" || name == "data";
                let here = if let (true, Value::String(text)) = (may_hide, &mut *value) {
                    covered_bytes(text, secrets)
                } else {
                    false
                };
                covered(value, secrets) | here | found
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The same of the names in an object.
fn covered_names(fields: &mut Map<String, Value>, secrets: &[Hidden]) -> bool {
    let hides = |name: &String| secrets.iter().any(|secret| name.contains(secret.reveal()));
    if !fields.keys().any(hides) {
        return false;
    }
    let named = std::mem::take(fields).into_iter();
    *fields = named.map(|(name, value)| (without(name, secrets), value)).collect();
    true
}

/// The same of what is written as base64.
fn covered_bytes(text: &mut String, secrets: &[Hidden]) -> bool {
    let mut bytes = decoded(text);
    let mut found = false;
    for secret in secrets.iter().map(|secret| secret.reveal().as_bytes()) {
        if let Some(new) = bytes_without(&bytes, secret) {
            (bytes, found) = (new, true);
        }
    }
    if found {
        *text = STANDARD.encode(bytes);
    }
    found
}

/// What somebody could read in a text as base64: with or without padding, of either alphabet, in
/// lines, several one behind the other, or cut off anywhere.
fn decoded(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'-' => Some(b'+'),
        b'_' => Some(b'/'),
        b'+' | b'/' => Some(byte),
        other => other.is_ascii_alphanumeric().then_some(other),
    };
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for part in text.split('=') {
        let mut digits: Vec<u8> = part.bytes().filter_map(digit).collect();
        // One digit alone is no byte.
        if digits.len() % 4 == 1 {
            digits.pop();
        }
        // Nothing but digits is left, and their number fits: it cannot fail.
        drop(UNPADDED.decode_vec(digits, &mut bytes));
    }
    bytes
}

/// Bytes without a secret; nothing where it is not in them.
fn bytes_without(bytes: &[u8], secret: &[u8]) -> Option<Vec<u8>> {
    let place = |rest: &[u8]| rest.windows(secret.len()).position(|part| part == secret);
    let mut at = place(bytes)?;
    let (mut out, mut rest) = (Vec::with_capacity(bytes.len()), bytes);
    loop {
        let (before, after) = rest.split_at_checked(at)?;
        out.extend_from_slice(before);
        out.extend_from_slice(COVERED.as_bytes());
        rest = after.get(secret.len()..)?;
        match place(rest) {
            Some(next) => at = next,
            None => break,
        }
    }
    out.extend_from_slice(rest);
    Some(out)
}

fn is_long(secret: &&Hidden) -> bool {
    secret.reveal().len() >= SECRET_BYTES_MIN
}

/// What stands behind the scheme in a header, such as `Bearer`.
fn without_its_scheme(value: &Hidden) -> Option<Hidden> {
    let (_, rest) = value.reveal().split_once(' ').filter(|_| !value.is_open())?;
    Some(Hidden::new(rest.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_is_covered_and_nothing_else() {
        let secrets =
            [Hidden::new("s3cr3tVALUE99"), Hidden::open("/srv/books"), Hidden::new("yes")];
        let cover = Cover::over(secrets.iter());
        let said = "token s3cr3tVALUE99 in /srv/books, yes".to_owned();
        assert_eq!(cover.draw(said), "token *** in /srv/books, yes");
    }

    #[test]
    fn what_is_secret_is_covered_in_whatever_way_a_result_writes_it() {
        let secrets = [Hidden::new("s3cr/3t\"VALUE99")];
        let cover = Cover::over(secrets.iter());
        let file = STANDARD.encode("key=s3cr/3t\"VALUE99;s3cr/3t\"VALUE99\n");
        let said = format!(
            r#"{{"content":[{{"type":"text","text":"a s3cr\/3t\u0022VALUE99"}},
               {{"type":"resource","resource":{{"uri":"a:b","blob":"{file}"}}}}],"n":1.0}}"#
        );
        let plain = STANDARD.encode("key=***;***\n");
        assert_eq!(
            cover.draw_result(said),
            format!(
                r#"{{"content":[{{"type":"text","text":"a ***"}},{{"type":"resource","resource":{{"uri":"a:b","blob":"{plain}"}}}}],"n":1.0}}"#
            )
        );
        for same in [r#"{"data":"c2VjcmV0", "text":"a\nb"}"#, r#"{"blob":"no base64 \" "#] {
            assert_eq!(cover.draw_result(same.to_owned()), same);
        }
    }

    #[test]
    fn base64_is_looked_into_however_it_is_written_and_wherever_it_is_cut() {
        let secret = "s3cr3t?>VALUE~99";
        let cover = Cover::over([Hidden::new(secret)].iter());
        let whole = STANDARD.encode(format!("key={secret};{secret};and then some more"));
        let is_open = |blob: &str| {
            let said = format!(r#"{{"blob":{}}}"#, Value::from(blob));
            let told: Value = serde_json::from_str(&cover.draw_result(said)).unwrap();
            let told: String = told["blob"].as_str().unwrap().split_whitespace().collect();
            let told = told.replace('-', "+").replace('_', "/");
            let told = told.trim_end_matches('=');
            // As whoever takes it however it ends.
            let rest = if told.len() % 4 == 1 { told.len() - 1 } else { told.len() };
            let bytes = UNPADDED.decode(&told[..rest]).unwrap();
            String::from_utf8_lossy(&bytes).contains(secret)
        };
        let long_enough = whole.len() / 2;
        for end in long_enough..=whole.len() {
            assert!(!is_open(&whole[..end]), "cut at {end}");
        }
        let lines: Vec<&str> =
            whole.as_bytes().chunks(7).map(|it| str::from_utf8(it).unwrap()).collect();
        for written in [
            whole.trim_end_matches('=').to_owned(),
            whole.replace('+', "-").replace('/', "_"),
            lines.join("\r\n"),
        ] {
            assert!(!is_open(&written), "{written}");
        }
        // Two texts, one behind the other.
        let two = format!("{}{}", STANDARD.encode("a"), STANDARD.encode(secret));
        let told = cover.draw_result(format!(r#"{{"data":"{two}"}}"#));
        assert_eq!(told, format!(r#"{{"data":"{}"}}"#, STANDARD.encode("a***")));
    }

    #[test]
    fn names_are_covered_too() {
        let cover = Cover::over([Hidden::new("s3cr/3tVALUE99")].iter());
        let said = r#"{"a":{"s3cr\/3tVALUE99":1,"b":[{"\u00733cr/3tVALUE99":"x"}]}}"#;
        assert_eq!(cover.draw_result(said.to_owned()), r#"{"a":{"***":1,"b":[{"***":"x"}]}}"#);
    }
}
