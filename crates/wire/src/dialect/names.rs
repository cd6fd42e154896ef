//! Decides how names and arguments that a provider would not take are written on its wire, and read back.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use toolgate_kernel::json::{inexact_number, parse_strict};
use toolgate_kernel::limits::Limits;

/// Most characters of a name on the wire.
const CHARS_MAX: usize = 64;

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// A name as a model wrote it, made legal: letters, digits, `_` and `-`, at most 64. The names of
/// our tools are legal as they are; this is for what no tool is called.
pub(super) fn plain(name: &str) -> Cow<'_, str> {
    if (1..=CHARS_MAX).contains(&name.len()) && name.bytes().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = name.trim().chars().take(CHARS_MAX).map(legal).collect();
    Cow::Owned(if name.is_empty() { "unnamed".to_owned() } else { name })
}

/// A name for a provider that wants a letter or `_` first. Our names have no capitals, so a capital
/// put before it can be taken away again; where there is no room, one stands for the first sign.
pub(super) fn lettered(name: &str) -> Cow<'_, str> {
    let Cow::Borrowed(legal) = plain(name) else {
        return Cow::Owned(lettered(&plain(name)).into_owned());
    };
    let Some(at) = legal.bytes().next().and_then(sign) else { return Cow::Borrowed(legal) };
    match legal.get(1..) {
        Some(rest) if legal.len() == CHARS_MAX => Cow::Owned(format!("{}{rest}", char::from(at))),
        _ => Cow::Owned(format!("T{legal}")),
    }
}

/// The name that `lettered` wrote.
pub(super) fn unlettered(name: &str) -> Cow<'_, str> {
    if let Some(rest) = name.strip_prefix('T')
        && rest.bytes().next().is_some_and(|first| sign(first).is_some())
    {
        return Cow::Borrowed(rest);
    }
    let first = name.bytes().next().unwrap_or_default();
    let replaced = SIGNS.iter().find(|(_, letter)| *letter == first);
    match (replaced, name.get(1..)) {
        (Some((sign, _)), Some(rest)) if name.len() == CHARS_MAX => {
            Cow::Owned(format!("{}{rest}", char::from(*sign)))
        }
        _ => Cow::Borrowed(name),
    }
}

/// Signs no name may begin with there, each with the capital that stands for it.
const SIGNS: &[(u8, u8)] = &[
    (b'0', b'A'),
    (b'1', b'B'),
    (b'2', b'C'),
    (b'3', b'D'),
    (b'4', b'E'),
    (b'5', b'F'),
    (b'6', b'G'),
    (b'7', b'H'),
    (b'8', b'I'),
    (b'9', b'J'),
    (b'-', b'K'),
];

fn sign(first: u8) -> Option<u8> {
    SIGNS.iter().find(|(sign, _)| *sign == first).map(|(_, letter)| *letter)
}

/// Arguments where only an object is taken. What is none is shown as it was written.
pub(super) fn object(args: &str) -> Map<String, Value> {
    if matches!(args.trim(), "" | "null") {
        return Map::new();
    }
    match serde_json::from_str(args) {
        Ok(Value::Object(map)) => map,
        _ => Map::from_iter([("unreadable".to_owned(), json!(args))]),
    }
}

/// Arguments that were streamed as text: read where they are one clear value, else as written. They
/// are read as those of a plain answer are, so that both give the same.
pub(super) fn streamed(text: String) -> Value {
    let clear = parse_strict(&text, &Limits::default()).is_ok() && inexact_number(&text).is_none();
    let read = clear.then(|| serde_json::from_str(&text).ok()).flatten();
    read.unwrap_or(Value::String(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_legal() {
        let long = "a".repeat(80);
        for (name, wanted) in [
            ("read_file", "read_file"),
            ("Read File!", "Read_File_"),
            ("state.get", "state_get"),
            ("", "unnamed"),
            ("żółć", "____"),
            (long.as_str(), &long[..64]),
        ] {
            assert_eq!(plain(name), wanted);
        }
    }

    #[test]
    fn every_name_of_ours_survives_the_way_there_and_back() {
        let full = format!("3{}", "a".repeat(63));
        let dash = format!("-{}", "z".repeat(63));
        for name in ["read_file", "_x", "3d-render", "-", "0", "t3", &full, &dash] {
            let wire = lettered(name);
            let first = wire.chars().next().unwrap();
            assert!(first.is_ascii_alphabetic() || first == '_', "{wire}");
            assert!(wire.len() <= CHARS_MAX, "{wire}");
            assert_eq!(unlettered(&wire), name);
        }
        for name in ["Test", "T", "Track_3", "Apple"] {
            assert_eq!(unlettered(name), name, "a name the model made up stays");
        }
    }

    #[test]
    fn arguments_are_objects() {
        for (args, wanted) in [
            ("", json!({})),
            (" \n", json!({})),
            ("{\"a\":1}", json!({ "a": 1 })),
            ("[1]", json!({ "unreadable": "[1]" })),
            ("{\"a\":", json!({ "unreadable": "{\"a\":" })),
        ] {
            assert_eq!(Value::Object(object(args)), wanted);
        }
        assert_eq!(streamed("{\"a\": 1}".into()), json!({ "a": 1 }));
        assert_eq!(streamed("{\"a\":1,\"a\":2}".into()), json!("{\"a\":1,\"a\":2}"));
        assert_eq!(streamed("{\"a\":".into()), json!("{\"a\":"));
    }
}
