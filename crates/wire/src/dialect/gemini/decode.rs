//! Reads an answer of generateContent.

use serde_json::{Map, Value};
use toolgate_kernel::event::{FaultKind, Finish, Native, Usage};
use toolgate_runtime::port::{Reply, ReplyCall};

use super::NAME;
use crate::dialect::names::unlettered;
use crate::dialect::shared::{arguments, count, field, name_calls, text};
use crate::dialect::{Dialect, WireFault};

pub(in crate::dialect) fn decode(body: &Value) -> Result<Reply, WireFault> {
    if let Some(reason) = blocked(body) {
        let words = format!("the request was blocked by the provider's filter ({reason})");
        return Err(WireFault::new(FaultKind::Filtered, &words));
    }
    let Some(candidate) = body.get("candidates").and_then(|all| all.get(0)) else {
        return Err(WireFault::new(FaultKind::Unreadable, "the answer has no candidate"));
    };
    // A reply without content is an empty one; why it stopped says whether that is a fault.
    let empty = Vec::new();
    let content = field(candidate, "content");
    let parts = content.and_then(|content| field(content, "parts"));
    // There could be calls in them.
    if content.is_some_and(|it| !it.is_object()) || parts.is_some_and(|it| !it.is_array()) {
        return Err(no_parts());
    }
    let parts = parts.and_then(Value::as_array).unwrap_or(&empty);
    let mut words = String::new();
    let mut calls = Vec::new();
    for part in parts {
        check_part(part)?;
        if field(part, "function_call").is_some() {
            // The name of the field in other encodings of the API; passed over, the call would be lost.
            let reason = "the reply has a function_call in place of a functionCall";
            return Err(WireFault::new(FaultKind::MalformedCall, reason));
        }
        if let Some(called) = field(part, "functionCall") {
            calls.push(call(called)?);
        } else if !is_thought(part) {
            words.push_str(text(part, "text").unwrap_or_default());
        }
    }
    name_calls(&mut calls)?;
    let finish = finish(candidate, &calls)?;
    let parts = kept(parts);
    let more = finish != Finish::Refused && says_more(&parts);
    let native = more.then(|| Native::new(NAME, Value::Array(parts)));
    if finish == Finish::Refused {
        // Nothing of a reply that a filter cut is done.
        calls.clear();
    }
    Ok(Reply { native, ..Reply::new(words, calls, finish, Dialect::Gemini.usage(body)) })
}

/// The content has a form in which parts could be lost.
pub(super) fn no_parts() -> WireFault {
    WireFault::new(FaultKind::Unreadable, "the content of the reply is no list of parts")
}

/// Refuses a part in which a call could be lost, or run though it was not meant.
pub(super) fn check_part(part: &Value) -> Result<(), WireFault> {
    // A text or a number is no part and hides none.
    if part.is_array() {
        return Err(no_parts());
    }
    if field(part, "functionCall").is_none() {
        return Ok(());
    }
    // A mark that is no truth value still says that this is a thought.
    let in_thoughts = field(part, "thought").is_some_and(|thought| *thought != Value::Bool(false));
    let reason = if in_thoughts {
        "the reply has a call within its thoughts"
    } else if field(part, "functionResponse").is_some() {
        "the reply has a call and its result in one part"
    } else {
        return Ok(());
    };
    Err(WireFault::new(FaultKind::MalformedCall, reason))
}

/// Why the request was not even answered. Feedback that cannot be read counts as a block.
pub(super) fn blocked(body: &Value) -> Option<&str> {
    let feedback = field(body, "promptFeedback")?;
    if !feedback.is_object() {
        return Some("promptFeedback is not an object");
    }
    let reason = field(feedback, "blockReason")?.as_str();
    reason.map_or(Some("blockReason is not text"), |text| (!text.is_empty()).then_some(text))
}

pub(super) fn is_thought(part: &Value) -> bool {
    part.get("thought") == Some(&Value::Bool(true))
}

fn call(called: &Value) -> Result<ReplyCall, WireFault> {
    if !called.is_object() {
        let reason = "the reply has a functionCall that is no object";
        return Err(WireFault::new(FaultKind::MalformedCall, reason));
    }
    let given = |keys: [&str; 2], none: Value| {
        keys.iter().filter_map(|key| field(called, key)).any(|value| *value != none)
    };
    let partial = given(["partialArgs", "partial_args"], Value::Array(Vec::new()));
    if partial || given(["willContinue", "will_continue"], Value::Bool(false)) {
        // Toolgate never asks for this; without the other parts the arguments are not known.
        let reason = "the arguments of a call come in parts (partialArgs), which is not supported; \
                      do not set streamFunctionCallArguments";
        return Err(WireFault::new(FaultKind::MalformedCall, reason));
    }
    const KNOWN: &[&str] =
        &["args", "id", "name", "partialArgs", "partial_args", "willContinue", "will_continue"];
    let fields = called.as_object().into_iter().flatten();
    let unknown = fields
        .filter(|(_, value)| !value.is_null())
        .find(|(key, _)| !KNOWN.contains(&key.as_str()));
    if unknown.is_some() || text(called, "name").is_none() {
        // Its arguments could stand there, or it could be a piece of another call.
        let reason = "the reply has a functionCall without a name or with an unknown field";
        return Err(WireFault::new(FaultKind::MalformedCall, reason));
    }
    Ok(ReplyCall {
        alias: text(called, "id").map(str::to_owned),
        name: unlettered(text(called, "name").unwrap_or_default()).into_owned(),
        // What is left out or null is not guessed here; the gate decides.
        args: arguments(called.get("args")),
    })
}

/// A reason to stop that is not text is never a good end.
pub(super) fn finish_reason(reason: Option<&str>) -> Result<&str, WireFault> {
    let fault = "the reason why the reply stopped is not text";
    reason.ok_or_else(|| WireFault::new(FaultKind::UnknownFinish, fault))
}

fn finish(candidate: &Value, calls: &[ReplyCall]) -> Result<Finish, WireFault> {
    let reason = field(candidate, "finishReason").map(|it| finish_reason(it.as_str()));
    let reason = reason.transpose()?.unwrap_or_default();
    let fault = |kind, words: &str| {
        let told = text(candidate, "finishMessage").map(|more| format!("{words}: {more}"));
        Err(WireFault::new(kind, told.as_deref().unwrap_or(words)))
    };
    match reason {
        "STOP" if calls.is_empty() => Ok(Finish::Stop),
        "STOP" => Ok(Finish::Calls),
        "MAX_TOKENS" if calls.is_empty() => Ok(Finish::Length),
        "MAX_TOKENS" => {
            fault(FaultKind::Truncated, "the reply was cut off at its limit, amid its calls")
        }
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => Ok(Finish::Refused),
        "MALFORMED_FUNCTION_CALL"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MALFORMED_RESPONSE" => fault(
            FaultKind::MalformedCall,
            &format!("the model's call could not be read ({reason})"),
        ),
        "MISSING_THOUGHT_SIGNATURE" => {
            fault(FaultKind::BadRequest, "a call in the transcript lacks its signature")
        }
        "" => fault(FaultKind::UnknownFinish, "the reply does not say why it stopped"),
        other => fault(FaultKind::UnknownFinish, &format!("the reply stopped for {other:?}")),
    }
}

/// Whether a reply says more than words and calls, or says them in another order.
fn says_more(parts: &[Value]) -> bool {
    let mut called = false;
    parts.iter().any(|part| {
        if part.get("thoughtSignature").is_some() || is_thought(part) {
            return true;
        }
        if part.get("functionCall").is_some() {
            called = true;
            return false;
        }
        part.get("text").is_none() || (called && text(part, "text").is_some())
    })
}

/// The parts as they are sent back, with their signatures, but for what the API would refuse: words
/// that are blank and not signed, what is no part, and results, which no model has to give.
fn kept(parts: &[Value]) -> Vec<Value> {
    let mut kept = Vec::new();
    for part in parts.iter().filter_map(Value::as_object) {
        join(&mut kept, told(part.clone()));
    }
    kept.retain(|part| {
        let blank = text(part, "text").is_none_or(|words| words.trim().is_empty());
        let blank = blank && part.as_object().is_some_and(is_words);
        !blank && part.get("functionResponse").is_none()
    });
    kept
}

/// Puts a part to others. Words that follow words are one part; one that is signed stays by itself.
pub(super) fn join(parts: &mut Vec<Value>, part: Map<String, Value>) {
    let (worded, part) = (is_words(&part), Value::Object(part));
    let words = text(&part, "text").unwrap_or_default();
    if worded && words.is_empty() {
        return;
    }
    if let Some(last) = parts.last_mut()
        && worded
        && last.as_object().is_some_and(is_words)
        && is_thought(last) == is_thought(&part)
        && let Some(Value::String(so_far)) = last.get_mut("text")
    {
        so_far.push_str(words);
        return;
    }
    parts.push(part);
}

/// What a part says. A field that is null, or is not what it must be, says nothing.
pub(super) fn told(mut part: Map<String, Value>) -> Map<String, Value> {
    part.retain(|key, value| match key.as_str() {
        "text" => value.is_string(),
        "thought" => value.is_boolean(),
        "thoughtSignature" => value.as_str().is_some_and(|signature| !signature.is_empty()),
        _ => !value.is_null(),
    });
    part
}

/// A part that is words, or a thought in words, and nothing else.
fn is_words(part: &Map<String, Value>) -> bool {
    part.keys().all(|key| matches!(key.as_str(), "text" | "thought"))
}

/// What an answer cost. Tokens read include those from the cache; thoughts count as written.
pub(in crate::dialect) fn cost(counts: &Value) -> Usage {
    let sum = |keys: [&str; 2]| {
        let [one, two] = keys.map(|key| count(counts, &[key]));
        one.saturating_add(two)
    };
    Usage {
        input_tokens: sum(["promptTokenCount", "toolUsePromptTokenCount"]),
        output_tokens: sum(["candidatesTokenCount", "thoughtsTokenCount"]),
        cached_tokens: count(counts, &["cachedContentTokenCount"]),
        cache_written_tokens: 0,
    }
}
