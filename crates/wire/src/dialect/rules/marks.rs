//! Decides what the messages of each dialect are, in words that all dialects share.

use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::Dialect;
use crate::dialect::chat::CALL_EXTRAS;
use crate::dialect::shared::text;
use crate::transform::SKIP_SIGNATURE;

/// Something that a request says.
#[derive(Debug)]
pub(super) enum Mark<'a> {
    /// A reply begins, where replies are messages of their own.
    Reply,
    /// Words of the system.
    System,
    /// Words or a picture of the user.
    User { blank: bool },
    /// Words of the model.
    Words { blank: bool },
    /// A thought of the model.
    Thought { sealed: bool },
    /// A call.
    Call { id: Option<&'a str>, name: &'a str, object: bool, signed: Signed },
    /// A result.
    Result { id: Option<&'a str>, name: Option<&'a str> },
    /// A message that the dialect does not know.
    Strange,
    /// The request ends; here is the rest of it.
    End(&'a Map<String, Value>),
}

/// Whether a call is signed, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signed {
    No,
    /// By the provider; it comes back as it was.
    Theirs,
    /// With the word that we put in its place.
    Ours,
}

impl Signed {
    fn of<'a>(signatures: impl IntoIterator<Item = &'a Value>) -> Self {
        let found = signatures.into_iter().filter(|value| !value.is_null() && **value != "");
        found.fold(Self::No, |before, value| match before {
            Self::Theirs => Self::Theirs,
            Self::No | Self::Ours if *value == SKIP_SIGNATURE => Self::Ours,
            Self::No | Self::Ours => Self::Theirs,
        })
    }
}

/// What a message says, in order.
pub(super) fn marks(dialect: Dialect, message: &Value) -> Vec<Mark<'_>> {
    match dialect {
        Dialect::Chat => chat(message),
        Dialect::Responses => responses(message),
        Dialect::Anthropic => anthropic(message),
        Dialect::Gemini => gemini(message),
    }
}

fn list<'a>(message: &'a Value, key: &str) -> &'a [Value] {
    message.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn is_object(args: Option<&Value>) -> bool {
    let parsed = |args: &str| {
        args.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(args).is_ok()
    };
    args.and_then(Value::as_str).is_some_and(parsed)
}

/// Whether words are blank: no text, and no list with anything in it.
fn blank(content: Option<&Value>) -> bool {
    match content {
        Some(Value::String(words)) => words.trim().is_empty(),
        Some(Value::Array(parts)) => parts.is_empty(),
        _ => true,
    }
}

fn chat(message: &Value) -> Vec<Mark<'_>> {
    let content = message.get("content");
    match text(message, "role") {
        Some("system" | "developer") => vec![Mark::System],
        Some("user") => vec![Mark::User { blank: blank(content) }],
        Some("tool") => vec![Mark::Result { id: text(message, "tool_call_id"), name: None }],
        Some("assistant") => {
            let mut said = vec![Mark::Reply];
            let calls = list(message, "tool_calls");
            if !blank(content) || calls.is_empty() {
                said.push(Mark::Words { blank: blank(content) });
            }
            said.extend(calls.iter().map(|call| {
                let function = call.get("function").unwrap_or(&Value::Null);
                Mark::Call {
                    id: text(call, "id"),
                    name: text(function, "name").unwrap_or_default(),
                    object: is_object(function.get("arguments")),
                    signed: Signed::of(CALL_EXTRAS.iter().filter_map(|key| call.get(*key))),
                }
            }));
            said
        }
        _ => vec![Mark::Strange],
    }
}

fn responses(item: &Value) -> Vec<Mark<'_>> {
    let content = item.get("content");
    let mark = match (text(item, "type").unwrap_or("message"), text(item, "role")) {
        ("message", Some("system" | "developer")) => Mark::System,
        ("message", Some("user")) => Mark::User { blank: blank(content) },
        ("message", Some("assistant")) => Mark::Words { blank: blank(content) },
        ("reasoning", _) => {
            let sealed =
                text(item, "encrypted_content").is_some() || !list(item, "content").is_empty();
            Mark::Thought { sealed }
        }
        ("function_call", _) => Mark::Call {
            id: text(item, "call_id"),
            name: text(item, "name").unwrap_or_default(),
            object: is_object(item.get("arguments")),
            signed: Signed::No,
        },
        ("function_call_output", _) => Mark::Result { id: text(item, "call_id"), name: None },
        ("message", _) => Mark::Strange,
        // An item of the provider's own, such as a tool of its, what that gave, or a summary of
        // what was said. It came from there and is taken there.
        _ => Mark::Words { blank: false },
    };
    vec![mark]
}

fn anthropic(message: &Value) -> Vec<Mark<'_>> {
    let content = message.get("content");
    let user = match text(message, "role") {
        Some("user") => true,
        Some("assistant") => false,
        _ => return vec![Mark::Strange],
    };
    let words = |blank: bool| if user { Mark::User { blank } } else { Mark::Words { blank } };
    let mut said = if user { Vec::new() } else { vec![Mark::Reply] };
    let Some(blocks) = content.and_then(Value::as_array).filter(|blocks| !blocks.is_empty()) else {
        said.push(words(blank(content)));
        return said;
    };
    said.extend(blocks.iter().map(|block| match text(block, "type") {
        Some("text") => words(blank(block.get("text"))),
        Some("tool_result") => Mark::Result { id: text(block, "tool_use_id"), name: None },
        Some("tool_use") => Mark::Call {
            id: text(block, "id"),
            name: text(block, "name").unwrap_or_default(),
            object: block.get("input").is_some_and(Value::is_object),
            signed: Signed::No,
        },
        Some("thinking") => Mark::Thought { sealed: text(block, "signature").is_some() },
        Some("redacted_thinking") => Mark::Thought { sealed: text(block, "data").is_some() },
        Some(_) => words(false),
        None => Mark::Strange,
    }));
    said
}

fn gemini(content: &Value) -> Vec<Mark<'_>> {
    let user = match text(content, "role") {
        Some("user" | "function") => true,
        Some("model") => false,
        _ => return vec![Mark::Strange],
    };
    let words = |blank: bool| if user { Mark::User { blank } } else { Mark::Words { blank } };
    let mut said = if user { Vec::new() } else { vec![Mark::Reply] };
    let parts = list(content, "parts");
    if parts.is_empty() {
        said.push(words(true));
    }
    said.extend(parts.iter().map(|part| {
        if let Some(call) = part.get("functionCall") {
            let object = call.get("args").is_none_or(Value::is_object);
            let name = text(call, "name").unwrap_or_default();
            let signed = Signed::of(part.get("thoughtSignature"));
            return Mark::Call { id: text(call, "id"), name, object, signed };
        }
        if let Some(result) = part.get("functionResponse") {
            return Mark::Result { id: text(result, "id"), name: text(result, "name") };
        }
        if part.get("thought").and_then(Value::as_bool) == Some(true) {
            return Mark::Thought { sealed: true };
        }
        // A signature may come with words that are blank.
        let signed = text(part, "thoughtSignature").is_some();
        words(part.get("text").is_some_and(|words| blank(Some(words))) && !signed)
    }));
    said
}
