//! Decides what an answer of generateContent says.

use serde_json::Value;
use toolgate_kernel::event::{FaultKind, Finish, Native, Usage};
use toolgate_runtime::port::{Reply, ReplyCall};

use super::NAME;
use crate::dialect::WireFault;
use crate::dialect::names::unlettered;
use crate::dialect::shared::{arguments, count, name_calls, text};

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
    let parts = candidate.get("content").and_then(|content| content.get("parts"));
    let parts = parts.and_then(Value::as_array).unwrap_or(&empty);
    let mut words = String::new();
    let mut calls = Vec::new();
    for part in parts {
        if let Some(called) = part.get("functionCall") {
            calls.push(call(called));
        } else if !is_thought(part) {
            words.push_str(text(part, "text").unwrap_or_default());
        }
    }
    name_calls(&mut calls);
    let finish = finish(candidate, &calls)?;
    let more = finish != Finish::Refused && says_more(parts);
    let native = more.then(|| native(parts));
    if finish == Finish::Refused {
        // Nothing of a reply that a filter cut is done.
        calls.clear();
    }
    Ok(Reply { native, ..Reply::new(words, calls, finish, usage(body)) })
}

/// Why the request was not even answered.
pub(super) fn blocked(body: &Value) -> Option<&str> {
    body.get("promptFeedback").and_then(|feedback| text(feedback, "blockReason"))
}

pub(super) fn is_thought(part: &Value) -> bool {
    part.get("thought") == Some(&Value::Bool(true))
}

fn call(called: &Value) -> ReplyCall {
    ReplyCall {
        alias: text(called, "id").map(str::to_owned),
        name: unlettered(text(called, "name").unwrap_or_default()).into_owned(),
        args: match arguments(called.get("args")) {
            none if none.is_empty() => "{}".to_owned(),
            args => args,
        },
    }
}

fn finish(candidate: &Value, calls: &[ReplyCall]) -> Result<Finish, WireFault> {
    let reason = text(candidate, "finishReason").unwrap_or_default();
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

/// The reply as it is sent back: every part in its place, with its signature.
fn native(parts: &[Value]) -> Native {
    let kept = parts.iter().filter(|part| !says_nothing(part)).cloned().collect();
    Native::new(NAME, Value::Array(kept))
}

/// Words that are blank and not signed: the API refuses them.
fn says_nothing(part: &Value) -> bool {
    is_words(part) && text(part, "text").is_none_or(|words| words.trim().is_empty())
}

/// A part that is words, or a thought in words, and nothing else.
pub(super) fn is_words(part: &Value) -> bool {
    let other = |key: &String| !matches!(key.as_str(), "text" | "thought");
    part.as_object().is_none_or(|part| !part.keys().any(other))
}

/// Tokens read include those from the cache; thoughts count as written.
/// What an answer cost.
pub(in crate::dialect) fn usage(body: &Value) -> Usage {
    let sum = |keys: [&str; 2]| {
        let [one, two] = keys.map(|key| count(body, &["usageMetadata", key]));
        one.saturating_add(two)
    };
    Usage {
        input_tokens: sum(["promptTokenCount", "toolUsePromptTokenCount"]),
        output_tokens: sum(["candidatesTokenCount", "thoughtsTokenCount"]),
        cached_tokens: count(body, &["usageMetadata", "cachedContentTokenCount"]),
        cache_written_tokens: 0,
    }
}
