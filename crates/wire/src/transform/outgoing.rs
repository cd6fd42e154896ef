//! Decides what is changed in what is sent: messages with calls, tools, and results.

use serde_json::{Map, Value};
use toolgate_kernel::config::Transform;

/// What takes the place of a signature that is missing.
const SKIP_SIGNATURE: &str = "skip_thought_signature_validator";

/// Mends a message of the assistant with calls in it; every other message stays as it is.
pub(super) fn message(transform: Transform, message: &mut Value) {
    let Some(message) = message.as_object_mut().filter(|message| has_calls(message)) else {
        return;
    };
    match transform {
        Transform::ContentNullIfBlank => {
            if let Some(content) = message.get_mut("content").filter(|content| is_blank(content)) {
                *content = Value::Null;
            }
        }
        Transform::ReasoningEmptyIfMissing => {
            message.entry("reasoning_content").or_insert_with(|| Value::String(String::new()));
        }
        Transform::SignatureSkipIfMissing => {
            let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
            let calls = calls.into_iter().flatten().filter_map(Value::as_object_mut);
            calls.for_each(sign);
        }
        Transform::StripDescriptions
        | Transform::FunctionCall
        | Transform::CallsToArray
        | Transform::ArgumentsToText
        | Transform::PrintedTags
        | Transform::PrintedHermes
        | Transform::PrintedLlama
        | Transform::PrintedMistral
        | Transform::PrintedDeepSeek
        | Transform::PrintedDomain
        | Transform::BlankArguments
        | Transform::NormalizeNames
        | Transform::CompactEnvelope => {}
    }
}

fn has_calls(message: &Map<String, Value>) -> bool {
    let assistant = message.get("role").is_none_or(|role| role == "assistant");
    let calls = message.get("tool_calls").and_then(Value::as_array);
    assistant && calls.is_some_and(|calls| !calls.is_empty())
}

fn is_blank(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.trim().is_empty())
}

fn sign(call: &mut Map<String, Value>) {
    let signature = call.entry("signature").or_insert(Value::Null);
    if signature.is_null() || is_blank(signature) {
        *signature = Value::String(SKIP_SIGNATURE.to_owned());
    }
}

/// Mends the tools of a request. The descriptions of their parameters stay.
pub(super) fn tools(transform: Transform, tools: &mut [Value]) {
    if transform != Transform::StripDescriptions {
        return;
    }
    for function in tools.iter_mut().filter_map(|tool| tool.get_mut("function")?.as_object_mut()) {
        function.shift_remove("description");
    }
}

/// Mends the envelope of a result.
pub(super) fn result(transform: Transform, envelope: &mut Value) {
    let Some(envelope) = envelope.as_object_mut() else { return };
    if transform != Transform::CompactEnvelope {
        return;
    }
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
