//! Decides how the bytes of an answer become JSON. Arguments that are not one clear value, or are
//! nested deeper than JSON is read with, stay the text they were written as; the gate refuses them,
//! and the rest of the answer counts.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;
use toolgate_kernel::json::{inexact_number, parse_strict, text_end};
use toolgate_kernel::limits::Limits;

use crate::halves;
use crate::lent::Lent;

/// Keys under which the dialects send arguments as JSON.
const ARGUMENTS: [&[u8]; 3] = [b"args", b"arguments", b"input"];
/// Levels of arguments that are read as JSON.
const DEPTH_MAX: usize = 64;
/// Levels of an answer. The reader stops at 128, and the log puts some around what it keeps of it.
const ANSWER_DEPTH_MAX: usize = 96;
/// Levels of arguments that are sent back: as many as any configuration lets a call have.
const SENT_DEPTH_MAX: usize = 120;

/// Why an answer could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// It is no JSON.
    NoJson,
    /// Something that is no argument is nested deeper than can be read.
    TooDeep,
}

/// Reads an answer.
pub fn read(bytes: &[u8]) -> Result<Value, Unread> {
    // Some servers mark their bytes as UTF-8; streams are read in the same way.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let quoted = shallow(bytes)?;
    let bytes = quoted.as_deref().unwrap_or(bytes);
    let value = |bytes: &[u8]| serde_json::from_slice::<Lent<'_>>(bytes).ok().map(|it| it.value());
    value(bytes).or_else(|| value(&halves::lost(bytes)?)).ok_or(Unread::NoJson)
}

/// One event of an answer, where it is as almost every one is: shallow, and without arguments that
/// are more than a text.
pub(crate) fn at_a_glance(text: &str) -> Option<Lent<'_>> {
    if may_be_deep(text.as_bytes()) {
        return None;
    }
    let event = serde_json::from_str(text).ok()?;
    (!has_arguments(&event)).then_some(event)
}

/// Whether arguments stand somewhere in an event as JSON with something in it.
fn has_arguments(event: &Lent<'_>) -> bool {
    let empty = |value: &Lent<'_>| {
        value.fields().is_empty() && value.list().is_none_or(<[Lent<'_>]>::is_empty)
    };
    match event {
        Lent::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !empty(value))
            .any(|(key, value)| is_arguments(key.as_bytes()) || has_arguments(value)),
        Lent::List(items) => items.iter().any(has_arguments),
        Lent::Null | Lent::Bool(_) | Lent::Number(_) | Lent::Text(_) => false,
    }
}

/// One event of an answer, as it can be read.
pub(crate) fn event(text: &str) -> Result<Cow<'_, str>, Unread> {
    match shallow(text.as_bytes())?.map(String::from_utf8) {
        None => Ok(Cow::Borrowed(text)),
        Some(quoted) => quoted.map(Cow::Owned).map_err(|_| Unread::NoJson),
    }
}

/// The bytes with arguments as texts that cannot be read as one clear value; nothing where all can.
/// A key that is there twice, or a number that is too large, must not be resolved before the gate:
/// arguments that are streamed in pieces come there as they were written.
fn shallow(bytes: &[u8]) -> Result<Option<Vec<u8>>, Unread> {
    let mut found = arguments(bytes);
    found.retain(|(place, depth)| *depth > DEPTH_MAX || !is_clear(bytes, place));
    let quoted = quoted(bytes, &found);
    if may_be_deep(bytes) && deepest(quoted.as_deref().unwrap_or(bytes)) > ANSWER_DEPTH_MAX {
        return Err(Unread::TooDeep);
    }
    Ok(quoted)
}

/// Whether a text is nested deeper than most servers read.
pub(crate) fn is_deep(text: &str) -> bool {
    may_be_deep(text.as_bytes()) && deepest(text.as_bytes()) > SENT_DEPTH_MAX
}

/// A quick look that almost every answer passes: few enough brackets cannot be nested deep.
fn may_be_deep(bytes: &[u8]) -> bool {
    // `[` and `{` differ in one bit, and so do no others. A block has no more of them than fit into
    // a byte, so that many bytes are counted at once.
    let brackets =
        |block: &[u8]| block.iter().map(|byte| u8::from(byte | 0x20 == b'{')).sum::<u8>();
    bytes.chunks(128).map(|block| usize::from(brackets(block))).sum::<usize>() > DEPTH_MAX
}

/// Whether arguments are one value that all readers see alike.
fn is_clear(bytes: &[u8], place: &Range<usize>) -> bool {
    let text = bytes.get(place.clone()).and_then(|text| std::str::from_utf8(text).ok());
    text.is_some_and(|text| {
        parse_strict(text, &Limits::default()).is_ok() && inexact_number(text).is_none()
    })
}

/// The most levels a text is nested.
fn deepest(bytes: &[u8]) -> usize {
    let (mut at, mut depth, mut deepest) = (0, 0_usize, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = text_end(bytes, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
        at += 1;
    }
    deepest
}

/// Where arguments stand, and how deep they are nested. Nothing here recurses.
fn arguments(bytes: &[u8]) -> Vec<(Range<usize>, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    let mut depth = 0_usize;
    // The last text, and whether a colon follows it: then it is the key of what comes next.
    let (mut text, mut is_key) = (0..0, false);
    let mut open: Option<Arguments> = None;
    while let Some(byte) = bytes.get(at).copied() {
        match byte {
            b'"' => {
                let end = text_end(bytes, at);
                text = at + 1..end.saturating_sub(1);
                at = end;
                continue;
            }
            b':' => is_key = true,
            b'{' | b'[' => {
                depth += 1;
                let named = is_key && bytes.get(text.clone()).is_some_and(means_arguments);
                if open.is_none() && named {
                    open = Some(Arguments { start: at, outside: depth - 1, deepest: depth });
                }
                if let Some(arguments) = &mut open {
                    arguments.deepest = arguments.deepest.max(depth);
                }
                is_key = false;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if let Some(arguments) = open.take_if(|arguments| arguments.outside >= depth) {
                    let deepest = arguments.deepest - arguments.outside;
                    found.push((arguments.start..at + 1, deepest));
                }
                is_key = false;
            }
            b' ' | b'\n' | b'\r' | b'\t' => {}
            _ => is_key = false,
        }
        at += 1;
    }
    found
}

/// Arguments whose end has not come yet.
struct Arguments {
    start: usize,
    /// Levels around them.
    outside: usize,
    /// The deepest level inside.
    deepest: usize,
}

fn is_arguments(key: &[u8]) -> bool {
    ARGUMENTS.contains(&key)
}

/// The same of a key as it is written: what it means counts, and any letter can be written as an
/// escape.
fn means_arguments(written: &[u8]) -> bool {
    if !written.contains(&b'\\') {
        return is_arguments(written);
    }
    let quoted = [b"\"".as_slice(), written, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).is_ok_and(|key| is_arguments(key.as_bytes()))
}

/// The bytes with some parts written as texts; nothing where there are none, or one is no text.
fn quoted(bytes: &[u8], parts: &[(Range<usize>, usize)]) -> Option<Vec<u8>> {
    if parts.is_empty() {
        return None;
    }
    let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 8);
    let mut from = 0;
    for (part, _) in parts {
        out.extend_from_slice(bytes.get(from..part.start)?);
        let text = std::str::from_utf8(bytes.get(part.clone())?).ok()?;
        serde_json::to_writer(&mut out, text).ok()?;
        from = part.end;
    }
    out.extend_from_slice(bytes.get(from..)?);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn nested(depth: usize) -> String {
        format!("{}1{}", "{\"a\":[".repeat(depth / 2), "]}".repeat(depth / 2))
    }

    #[test]
    fn what_is_not_deep_is_read_as_it_is() {
        let many = json!({ "args": vec![json!([1, "{[\"", { "args": {} }]); 200] });
        assert_eq!(read(format!("\u{feff}{many}").as_bytes()), Ok(many.clone()));
        assert_eq!(read(many.to_string().as_bytes()), Ok(many));
        let kept = nested(DEPTH_MAX);
        let answer = format!("{{\"args\": {kept}}}");
        assert!(read(answer.as_bytes()).unwrap()["args"].is_object());
        for text in ["", "{", "<html>", "{\"a\":\"\u{1}\"}", "{} {}", "\"", "\"\\"] {
            assert_eq!(read(text.as_bytes()), Err(Unread::NoJson), "{text}");
        }
    }

    #[test]
    fn arguments_that_are_too_deep_stay_what_was_written() {
        for depth in [DEPTH_MAX + 2, 120, 126, 128, 130, 1_000, 200_000] {
            let deep = nested(depth);
            for key in ["args", "arguments", "input"] {
                let answer = format!(
                    "{{\"x\":[{{\"{key}\" : {deep}, \"b\":\"\\\"{{\"}},{{\"{key}\":{{\"c\":1}}}}]}}"
                );
                let wanted = json!({ "x": [
                    { key: deep, "b": "\"{" }, { key: { "c": 1 } },
                ] });
                assert_eq!(read(answer.as_bytes()), Ok(wanted), "{depth}");
            }
        }
    }

    #[test]
    fn arguments_that_are_not_one_clear_value_stay_what_was_written() {
        let unclear = [
            r#"{"a":1,"a":2}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"b":[{"a":1,"a":1}]}"#,
            r#"{"a":1e400}"#,
            r#"{"a":18446744073709551616}"#,
            r#"{"a":9007199254740993.0}"#,
            r#"{"a":[1,{"b":1E-400}]}"#,
            r#"{"a":"\ud800"}"#,
            r#"{"a":"\u0000"}"#,
            r#"[{"a":1,"a":2}]"#,
        ];
        for args in unclear {
            for (key, written) in [
                ("args", "args"),
                ("arguments", "arguments"),
                ("input", "input"),
                ("arguments", "\\u0061rguments"),
                ("input", "inp\\u0075\\u0074"),
            ] {
                let answer = format!("{{\"x\":[{{\"{written}\"\n: {args}, \"b\":[1]}}]}}");
                let wanted = json!({ "x": [{ key: args, "b": [1] }] });
                assert_eq!(read(answer.as_bytes()).as_ref(), Ok(&wanted), "{args}");
                let told = event(&answer).unwrap();
                assert_eq!(serde_json::from_str::<Value>(&told).unwrap(), wanted, "{args}");
                assert!(at_a_glance(&answer).is_none(), "{args}");
            }
        }
        for args in [r#"{"a":18446744073709551615}"#, r#"{"a":-0.0}"#, "{}", r#"{"a":{"b":1}}"#] {
            let answer = format!("{{\"args\":{args}}}");
            let plain: Value = serde_json::from_str(&answer).unwrap();
            assert_eq!(read(answer.as_bytes()), Ok(plain), "{args}");
            assert!(matches!(event(&answer), Ok(Cow::Borrowed(_))), "{args}");
            assert_eq!(at_a_glance(&answer).is_some(), args == "{}", "{args}");
        }
        // What only speaks of arguments is left alone.
        let answer = json!({ "text": "\"args\": {\"a\":1,\"a\":2}", "args": "x" });
        assert!(at_a_glance(&answer.to_string()).is_some());
        assert_eq!(read(answer.to_string().as_bytes()), Ok(answer));
    }

    #[test]
    fn arguments_inside_arguments_are_part_of_them() {
        let deep = format!("{{\"input\":{}}}", nested(300));
        let answer = format!("{{\"args\":{deep}}}");
        assert_eq!(read(answer.as_bytes()), Ok(json!({ "args": deep })));
    }

    #[test]
    fn nothing_else_may_be_so_deep() {
        let answer = format!("{{\"thought\":{}}}", nested(300));
        assert_eq!(read(answer.as_bytes()), Err(Unread::TooDeep));
        // A value that is named like arguments and is a text, and a list after it.
        let answer = format!("[\"args\", {}]", nested(300));
        assert_eq!(read(answer.as_bytes()), Err(Unread::TooDeep));
    }

    #[test]
    fn what_is_broken_and_deep_is_refused() {
        let deep = nested(300);
        let open = "{\"args\":[".repeat(5_000);
        let bad = [format!("{{\"args\":{deep}"), format!("{{\"args\":{deep}}}}}"), open];
        for text in bad {
            assert!(read(text.as_bytes()).is_err(), "{text:.40}");
        }
        // Brackets that do not match are found by whoever reads the text later.
        let crossed = format!("{}{}", "[".repeat(100), "}".repeat(100));
        let answer = format!("{{\"args\":{crossed}}}");
        assert_eq!(read(answer.as_bytes()), Ok(json!({ "args": crossed })));
        let mut bytes = format!("{{\"args\":{deep}}}").into_bytes();
        bytes[20] = 0xff;
        assert!(read(&bytes).is_err());
    }

    #[test]
    fn depth_is_counted_outside_of_texts() {
        assert!(!is_deep(&nested(SENT_DEPTH_MAX)));
        assert!(is_deep(&nested(SENT_DEPTH_MAX + 2)));
        assert!(!is_deep(&format!("{{\"a\":\"{}\"}}", "[".repeat(500))));
        assert!(!is_deep(&"[],".repeat(500)));
    }
}
