//! Other forms of a text: what stands in it when addresses, base64, digits or JSON are decoded.

use std::borrow::Cow;
use std::collections::BTreeSet;

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use super::address::{AddressSet, Addresses};

/// How often decoded text is decoded again.
const LAYERS_MAX: usize = 3;

/// Forms of one text that are looked at.
const FORMS_MAX: usize = 256;

/// Bytes of all forms of one text together.
const BYTES_MAX: usize = 2 << 20;

/// Shortest stretch of digits that could hold a run of sixteen characters.
const ENCODED_CHARS_MIN: usize = 20;

/// Reads base64 as others write it, with or without padding.
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_allow_trailing_bits(true)
    .with_decode_padding_mode(DecodePaddingMode::Indifferent);

/// A text in every form that it can be decoded to.
#[derive(Debug, Default)]
pub struct DecodedForms {
    /// The forms, the text itself first.
    pub texts: Vec<String>,
    /// Whether there are more than are looked at.
    pub is_cut: bool,
}

/// A text, and what it is when it is decoded: as part of an address, as base64, as digits of base 16,
/// as JSON, backwards, and without separators; and each of these again.
pub fn decoded_forms(text: &str) -> DecodedForms {
    let mut more = Vec::new();
    for text in [text, &percent_decoded(text)] {
        more.push(text.chars().rev().collect());
        // Digits may stand in several labels of a host or segments of a path.
        let joined: String = text.chars().filter(|c| !". /\n\r\t".contains(*c)).collect();
        more.extend((joined.len() < text.len()).then_some(joined));
    }
    forms_of(text, more)
}

/// Takes in the destinations that a text names, also where they are encoded.
pub fn decoded_addresses(text: &str, into: &mut AddressSet) {
    let forms = forms_of(text, Vec::new());
    forms.texts.iter().for_each(|form| into.add(&Addresses::of(form)));
    if forms.is_cut {
        into.add_unknown();
    }
}

/// A text and what it is when it is decoded, again and again. `more` are other forms to begin with.
fn forms_of(text: &str, more: Vec<String>) -> DecodedForms {
    let mut forms = DecodedForms::default();
    let (mut seen, mut bytes) = (BTreeSet::new(), 0);
    let mut layer = vec![text.to_owned()];
    layer.extend(more);
    for depth in 0..=LAYERS_MAX {
        let mut next = Vec::new();
        for form in layer {
            bytes += form.len();
            if forms.texts.len() >= FORMS_MAX || bytes > BYTES_MAX {
                forms.is_cut = true;
                return forms;
            }
            if !seen.insert(form.clone()) {
                continue;
            }
            if depth < LAYERS_MAX {
                decode(&form, &mut next);
            }
            forms.texts.push(form);
        }
        layer = next;
    }
    forms
}

fn decode(text: &str, out: &mut Vec<String>) {
    if text.contains(['%', '+']) {
        out.push(percent_decoded(text));
    }
    if text.contains('\\') {
        out.extend(unescaped(text));
    }
    if text.starts_with(['{', '[', '"'])
        && let Ok(value) = serde_json::from_str::<Value>(text)
    {
        out.extend(text_leaves(&value).map(|(_, leaf)| leaf.into_owned()));
    }
    for (engine, more) in [(&STANDARD, "+/"), (&URL_SAFE, "-_")] {
        let is_digit = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
        for run in text.split(|c| !is_digit(c)).filter(|run| run.len() >= ENCODED_CHARS_MIN) {
            // Other letters may stand right before it.
            for start in 0..4 {
                let Some(part) = run.get(start..) else { continue };
                let whole = part.len() - usize::from(part.len() % 4 == 1);
                let decoded = part.get(..whole).and_then(|part| engine.decode(part).ok());
                out.extend(decoded.and_then(|bytes| readable(&bytes)));
            }
        }
    }
    let runs = text.split(|c: char| !c.is_ascii_hexdigit());
    for run in runs.filter(|run| run.len() >= 2 * ENCODED_CHARS_MIN.min(16)) {
        for start in 0..2 {
            let pairs = run.as_bytes().get(start..).unwrap_or_default().chunks_exact(2);
            let bytes: Option<Vec<u8>> = pairs.map(hex_byte).collect();
            out.extend(bytes.and_then(|bytes| readable(&bytes)));
        }
    }
}

/// What was decoded, where most of it is text; the rest is by chance.
fn readable(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let odd = text.chars().filter(|c| c.is_control() || *c == char::REPLACEMENT_CHARACTER).count();
    (odd * 4 <= text.chars().count()).then(|| text.into_owned())
}

fn hex_byte(pair: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()
}

/// A text with `%41` as `A` and `+` as a blank, as a query has it.
pub fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.get(..2).filter(|_| *first == b'%').and_then(hex_byte);
        rest = match escaped {
            Some(byte) => {
                bytes.push(byte);
                after.get(2..).unwrap_or_default()
            }
            None => {
                bytes.push(if *first == b'+' { b' ' } else { *first });
                after
            }
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A text with the escapes of JSON resolved.
fn unescaped(text: &str) -> Option<String> {
    let plain: String = text.chars().filter(|c| !c.is_control() && *c != '"').collect();
    serde_json::from_str(&format!("\"{plain}\"")).ok()
}

/// Every text and number in a value, with its place as a JSON Pointer. The names of members are texts
/// too, at a place that no pointer has: a value can be hidden there.
pub fn text_leaves(value: &Value) -> impl Iterator<Item = (String, Cow<'_, str>)> {
    let mut found = Vec::new();
    let mut left = vec![(String::new(), value)];
    while let Some((path, value)) = left.pop() {
        match value {
            Value::String(text) => found.push((path, Cow::Borrowed(text.as_str()))),
            Value::Number(number) => found.push((path, Cow::Owned(number.to_string()))),
            Value::Array(items) => {
                left.extend(items.iter().enumerate().map(|(at, it)| (format!("{path}/{at}"), it)));
            }
            Value::Object(members) => {
                for (name, inner) in members {
                    found.push((format!("{path}/~"), Cow::Borrowed(name.as_str())));
                    left.push((format!("{path}/{name}"), inner));
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }
    found.into_iter().rev()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn has(text: &str, wanted: &str) -> bool {
        decoded_forms(text).texts.iter().any(|form| form.contains(wanted))
    }

    #[test]
    fn what_was_encoded_is_found() {
        const SECRET: &str = "door code is 4711-0815";
        for text in [
            "https://a.test/?d=door%20code%20is%204711-0815",
            "https://a.test/?d=door+code+is+4711-0815",
            "https://a.test/ZG9vciBjb2RlIGlzIDQ3MTEtMDgxNQ==",
            "https://a.test/xZG9vciBjb2RlIGlzIDQ3MTEtMDgxNQ",
            "ZG9vciBjb2Rl.IGlzIDQ3MTEt.MDgxNQ.a.test",
            "64 = 646f6f7220636f646520697320343731312d30383135",
            r#"{"a":{"b":"door code is 4711-0815"}}"#,
            r"door\u0020code is 4711-0815",
            "5180-1174 si edoc rood",
            // Twice.
            "ZG9vciUyMGNvZGUlMjBpcyUyMDQ3MTEtMDgxNQ",
        ] {
            assert!(has(text, SECRET), "{text}: {:?}", decoded_forms(text).texts);
        }
    }

    #[test]
    fn forms_are_bounded_and_say_so() {
        let text = "QUFB".repeat(300_000);
        let forms = decoded_forms(&text);
        assert!(forms.is_cut && forms.texts.len() <= FORMS_MAX);
        assert!(!decoded_forms("a plain sentence about nothing").is_cut);
    }

    #[test]
    fn leaves_have_their_places() {
        let value = json!({ "a": "x", "b": ["y", { "c": "z" }], "d": 1 });
        let leaves = text_leaves(&value).map(|(path, leaf)| format!("{path}={leaf}"));
        let mut leaves: Vec<String> = leaves.collect();
        leaves.sort();
        let expected = ["/a=x", "/b/0=y", "/b/1/c=z", "/b/1/~=c", "/d=1", "/~=a", "/~=b", "/~=d"];
        assert_eq!(leaves, expected);
    }
}
