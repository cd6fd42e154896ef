//! Decides what of a request all dialects look at, and how they complain.

use serde_json::Value;

use super::http::Asked;

/// Complains in words when something does not hold.
pub(super) fn ensure(holds: bool, words: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(words.into()) }
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Whether a name has only letters, digits, `_` and `-`, and not too many.
pub(super) fn plain_name(name: &str, max: usize) -> bool {
    (1..=max).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// Only these keys may stand in an object.
pub(super) fn only(value: &Value, keys: &[&str], whose: &str) -> Result<(), String> {
    let Some(object) = value.as_object() else { return Err(format!("{whose} must be an object")) };
    match object.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(format!("{whose}: unknown name \"{key}\"")),
        None => Ok(()),
    }
}

/// Whether a request carries the key, in whichever header.
pub(super) fn carries(asked: &Asked, key: &str) -> bool {
    let bearer = format!("Bearer {key}");
    asked.header("authorization") == Some(&bearer)
        || asked.header("x-api-key") == Some(key)
        || asked.header("x-goog-api-key") == Some(key)
}

/// Whether a stream is wanted.
pub(super) fn streams(asked: &Asked, body: &Value) -> bool {
    asked.path.contains(":streamGenerateContent")
        || body.get("stream").and_then(Value::as_bool).unwrap_or(false)
}

/// The model that is asked.
pub(super) fn model(asked: &Asked, body: &Value) -> String {
    let in_path = asked.path.split("/models/").nth(1).and_then(|rest| rest.split(':').next());
    in_path.map_or_else(|| text(body, "model").to_owned(), str::to_owned)
}

/// An event of a stream, with a name or without.
pub(super) fn event(name: &str, data: &Value) -> String {
    if name.is_empty() {
        format!("data: {data}\n\n")
    } else {
        format!("event: {name}\ndata: {data}\n\n")
    }
}
