//! Decides where in a model's words the JSON object with its directives is.

use serde_json::{Map, Value};

use super::REPLY_BYTES_MAX;
use crate::json::parse_strict;
use crate::limits::Limits;

/// Words in which no such object is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// `EMPTY`, `TOO_LARGE`, `INVALID_JSON` or `NOT_OBJECT`.
    pub code: &'static str,
    /// The same in words.
    pub message: String,
    /// How the words begin.
    pub sample: String,
}

/// Characters of a sample.
const SAMPLE_CHARS_MAX: usize = 200;
/// Tags that models put around JSON.
const TAGS: &[&str] = &["directives", "json"];

/// The object in a model's words: they may be wrapped in a tag or a fence, or stand in prose.
pub fn parse(text: &str) -> Result<Map<String, Value>, Unreadable> {
    let refuse = |code, message: String| {
        Err(Unreadable { code, message, sample: text.chars().take(SAMPLE_CHARS_MAX).collect() })
    };
    if text.len() > REPLY_BYTES_MAX {
        let (bytes, max) = (text.len(), REPLY_BYTES_MAX);
        return refuse("TOO_LARGE", format!("the reply has {bytes} bytes; at most {max} are read"));
    }
    let inner = unfenced(untagged(text.trim())).trim();
    if inner.is_empty() {
        return refuse("EMPTY", "the reply is empty".to_owned());
    }
    let reason = match strict(inner) {
        Ok(Value::Object(object)) => return Ok(object),
        Ok(_) => {
            return refuse("NOT_OBJECT", "the reply is JSON, and no object".to_owned());
        }
        Err(reason) => reason,
    };
    match first_object(inner).map(strict) {
        Some(Ok(Value::Object(object))) => Ok(object),
        _ => refuse("INVALID_JSON", format!("the reply is no JSON: {reason}")),
    }
}

/// The words for a person in a reply that is not whole: what it says where it is no object, else
/// what has come of the text in it.
pub fn words_so_far(reply: &str) -> String {
    // A tag may have come in part.
    let wraps = |begin: &str| {
        let mut tags = TAGS.iter().map(|tag| format!("<{tag}>"));
        tags.any(|tag| begin.starts_with(&tag) || tag.starts_with(begin))
    };
    let begin = reply.trim_start();
    if !begin.starts_with(['{', '`']) && !wraps(begin) {
        return reply.to_owned();
    }
    let text = || {
        let (_, rest) = begin.split_once("\"assistant_text\"")?;
        rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')
    };
    text().map(unquoted).unwrap_or_default()
}

/// What a text says whose opening quote is gone, up to the closing one or to where it breaks off.
fn unquoted(rest: &str) -> String {
    let mut escaped = false;
    let end = rest.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    let mut text = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
    // What broke off inside an escape, or between two that are one character, is left out.
    for _ in 0..3 {
        if let Ok(said) = serde_json::from_str(&format!("\"{}\"", text.replace('\n', "\\n"))) {
            return said;
        }
        text = text.rfind('\\').and_then(|at| text.get(..at)).unwrap_or_default();
    }
    String::new()
}

fn strict(text: &str) -> Result<Value, String> {
    let limits = Limits { args_items_max: 100_000, ..Limits::default() };
    parse_strict(text, &limits).map_err(|refusal| refusal.to_string())
}

/// What stands between the tags, when a text has one of them.
fn untagged(text: &str) -> &str {
    let inside = |tag: &&str| {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        let start = text.find(&open)? + open.len();
        let rest = text.get(start..)?;
        rest.get(..rest.rfind(&close)?)
    };
    TAGS.iter().find_map(inside).unwrap_or(text)
}

/// What stands in the first fence, when a text has one.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inside = || {
        // In the middle of JSON a fence is a word like any other.
        let start =
            text.find("```").filter(|at| !text.get(..*at).is_some_and(|t| t.contains('{')))?;
        let rest = text.get(start + 3..)?;
        let (language, body) = rest.split_once('\n')?;
        let plain = language.trim().chars().all(|c| c.is_ascii_alphanumeric());
        body.get(..body.rfind("```")?).filter(|_| plain)
    };
    inside().unwrap_or(text)
}

/// The first object of a text whose brackets close.
fn first_object(text: &str) -> Option<&str> {
    let start = text.find('{')?;
    let text = text.get(start..)?;
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' if !in_text => depth += 1,
            b'}' if !in_text => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return text.get(..=at);
                }
            }
            _ => {}
        }
    }
    None
}
