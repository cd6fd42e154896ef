//! Decides that a secret which a server was given does not come out of it again.

use std::ops::Range;
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
            Reach::Nowhere { .. } => Self::default(),
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
        let secrets = secrets.filter(|secret| !secret.is_open());
        Self { fixed: secrets.flat_map(spellings).collect(), keeper: None }
    }

    fn secrets(&self) -> Vec<Hidden> {
        let renewed = self.keeper.as_ref().map(|keeper| keeper.known()).unwrap_or_default();
        self.fixed.iter().cloned().chain(renewed.iter().flat_map(spellings)).collect()
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

fn without(text: String, secrets: &[Hidden]) -> String {
    let find = |secret: &Hidden| {
        let secret = secret.reveal();
        text.match_indices(secret).map(|(at, _)| at..at + secret.len()).collect()
    };
    match drawn(text.as_bytes(), secrets.iter().flat_map(|secret| -> Vec<_> { find(secret) })) {
        // Whole texts were taken out of a text.
        Some(new) => String::from_utf8(new).unwrap_or_else(|_| COVERED.to_owned()),
        None => text,
    }
}

/// Bytes with some places covered; nothing where there are none. A secret may be within another one:
/// what one of them covers is covered.
fn drawn(bytes: &[u8], places: impl Iterator<Item = Range<usize>>) -> Option<Vec<u8>> {
    let mut places: Vec<Range<usize>> = places.collect();
    if places.is_empty() {
        return None;
    }
    places.sort_unstable_by_key(|place| place.start);
    let (mut out, mut end) = (Vec::with_capacity(bytes.len()), 0);
    for place in &places {
        if place.start >= end {
            out.extend_from_slice(bytes.get(end..place.start).unwrap_or_default());
            out.extend_from_slice(COVERED.as_bytes());
        }
        end = end.max(place.end);
    }
    out.extend_from_slice(bytes.get(end..).unwrap_or_default());
    Some(out)
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
    let bytes = decoded(text);
    let places = secrets.iter().flat_map(|secret| {
        let secret = secret.reveal().as_bytes();
        let parts = bytes.windows(secret.len()).enumerate();
        parts.filter(move |(_, part)| *part == secret).map(|(at, part)| at..at + part.len())
    });
    let found = drawn(&bytes, places);
    if let Some(new) = &found {
        *text = STANDARD.encode(new);
    }
    found.is_some()
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

/// A secret as it may be written: as it is, and as a text within JSON, which may be within a text of
/// JSON again. Writers differ in what they escape.
fn spellings(secret: &Hidden) -> Vec<Hidden> {
    if !is_long(secret) {
        return Vec::new();
    }
    let mut all = vec![secret.reveal().to_owned()];
    for level in 0..2 {
        let before = all.clone();
        let inner = before.iter().filter(|text| level == 0 || text.contains('\\'));
        for (text, escapes) in inner.flat_map(|text| ESCAPES.map(|escapes| (text, escapes))) {
            let written = quoted(text, escapes);
            if !all.contains(&written) {
                all.push(written);
            }
        }
    }
    all.into_iter().map(Hidden::new).collect()
}

/// What writers of JSON escape beside what they must.
const ESCAPES: [fn(char) -> bool; 4] = [
    |_| false,
    |letter| !letter.is_ascii(),
    |letter| matches!(letter, '<' | '>' | '&'),
    |letter| letter == '/',
];

/// A text as it stands between quotes.
fn quoted(text: &str, escapes: fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '/' if escapes(letter) => out.push_str("\\/"),
            _ if escapes(letter) => {
                let mut units = [0; 2];
                let units = letter.encode_utf16(&mut units);
                units.iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
            }
            _ => {
                let written = Value::from(letter.to_string()).to_string();
                out.push_str(written.trim_start_matches('"').strip_suffix('"').unwrap_or(&written));
            }
        }
    }
    out
}

fn is_long(secret: &Hidden) -> bool {
    secret.reveal().len() >= SECRET_BYTES_MIN
}

/// What stands behind the scheme in a header, such as `Bearer`.
fn without_its_scheme(value: &Hidden) -> Option<Hidden> {
    let (_, rest) = value.reveal().split_once(' ').filter(|_| !value.is_open())?;
    Some(Hidden::new(rest.trim()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
    #[test]
    fn a_secret_within_another_one_uncovers_nothing() {
        let secrets = ["customers", "postgres://u:Hunter2@db/customers-Tail99", "Tail99-more"];
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let cover = Cover::over(order.map(|at| Hidden::new(secrets[at])).iter());
            let said = "url: postgres://u:Hunter2@db/customers-Tail99-more; db: customers.";
            assert_eq!(cover.draw(said.to_owned()), "url: ***; db: ***.");
            let file = |text: &str| format!(r#"{{"blob":"{}"}}"#, STANDARD.encode(text));
            assert_eq!(cover.draw_result(file(said)), file("url: ***; db: ***."));
        }
    }

    #[test]
    fn a_secret_is_covered_in_json_that_is_written_as_a_text() {
        let secrets = ["--BEGIN--\nab\"c/\\d\n--END--", "pässwörd/<😀>&99"].map(Hidden::new);
        let cover = Cover::over(secrets.iter());
        for secret in &secrets {
            let plain = json!({ "env": secret.reveal() }).to_string();
            let ascii: String = (plain.chars())
                .map(
                    |c| if c.is_ascii() { c.to_string() } else { quoted(&c.to_string(), |_| true) },
                )
                .collect();
            let html = plain.replace('<', "\\u003c").replace('>', "\\u003e");
            let html = html.replace('&', "\\u0026");
            for written in [plain.clone(), ascii, html, plain.replace('/', "\\/")] {
                let twice = json!({ "text": written }).to_string();
                for text in [&written, &twice] {
                    let told = cover.draw(text.clone());
                    assert!(told.contains("***") && !told.contains("99") && !told.contains("END"));
                    let part = json!({ "content": [{ "type": "text", "text": text }] }).to_string();
                    let told = cover.draw_result(part);
                    assert!(told.contains("***") && !told.contains("99") && !told.contains("END"));
                }
            }
        }
    }
}
