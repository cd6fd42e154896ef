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
