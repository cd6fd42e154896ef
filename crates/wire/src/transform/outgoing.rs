//! Decides what is changed in what is sent: messages with calls, tools, and results.

use serde_json::{Map, Value};

use super::SKIP_SIGNATURE;

pub(super) fn content_null_if_blank(message: &mut Map<String, Value>) {
    if let Some(content) = message.get_mut("content").filter(|content| is_blank(content)) {
        *content = Value::Null;
    }
}

pub(super) fn reasoning_if_missing(message: &mut Map<String, Value>) {
    message.entry("reasoning_content").or_insert_with(|| Value::String(String::new()));
}

pub(super) fn signature_if_missing(message: &mut Map<String, Value>) {
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    calls.into_iter().flatten().filter_map(Value::as_object_mut).for_each(sign);
}

/// Whether a message is one of the assistant with calls in it.
pub(super) fn has_calls(message: &Map<String, Value>) -> bool {
    let assistant = message.get("role").is_none_or(|role| role == "assistant");
    let calls = message.get("tool_calls").and_then(Value::as_array);
    assistant && calls.is_some_and(|calls| !calls.is_empty())
}

pub(super) fn is_blank(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.trim().is_empty())
}

fn sign(call: &mut Map<String, Value>) {
    let signature = call.entry("signature").or_insert(Value::Null);
    if signature.is_null() || is_blank(signature) {
        *signature = Value::String(SKIP_SIGNATURE.to_owned());
    }
}

/// The descriptions of their parameters stay.
pub(super) fn strip_descriptions(tools: &mut [Value]) {
    for function in tools.iter_mut().filter_map(|tool| tool.get_mut("function")?.as_object_mut()) {
        function.shift_remove("description");
    }
}

pub(super) fn compact_envelope(envelope: &mut Map<String, Value>) {
    envelope.retain(|key, value| match key.as_str() {
        "warnings" | "errors" | "data" => !is_empty(value),
        _ => true,
    });
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
