//! Decides what an answer of the Messages API says.

use serde_json::Value;
use toolgate_kernel::event::{FaultKind, Finish, Native, Usage};
use toolgate_runtime::port::{Reply, ReplyCall};

use super::NAME;
use crate::dialect::shared::{arguments, count, name_calls, text};
use crate::dialect::{Dialect, WireFault};

pub(in crate::dialect) fn decode(body: &Value) -> Result<Reply, WireFault> {
    let Some(content) = body.get("content").and_then(Value::as_array) else {
        return Err(WireFault::new(FaultKind::Unreadable, "the answer has no content"));
    };
    let mut words = String::new();
    let mut calls = Vec::new();
    for block in content {
        match kind(block) {
            // It may be half a call, so it is not passed over.
            "" => {
                let reason = "a block of the reply does not say what it is";
                return Err(WireFault::new(FaultKind::Unreadable, reason));
            }
            "text" => words.push_str(text(block, "text").unwrap_or_default()),
            "tool_use" => calls.push(call(block)),
            _ => {}
        }
    }
    name_calls(&mut calls)?;
    let finish = finish(body, &calls)?;
    let native = says_more(content).then(|| native(content));
    if finish == Finish::Refused {
        // Nothing of a reply that was declined is done.
        calls.clear();
    }
    let native = native.filter(|_| finish != Finish::Refused);
    Ok(Reply { native, ..Reply::new(words, calls, finish, Dialect::Anthropic.usage(body)) })
}

fn kind(block: &Value) -> &str {
    text(block, "type").unwrap_or_default()
}

fn call(block: &Value) -> ReplyCall {
    ReplyCall {
        alias: text(block, "id").map(str::to_owned),
        name: text(block, "name").unwrap_or_default().to_owned(),
        args: arguments(block.get("input")),
    }
}

fn finish(body: &Value, calls: &[ReplyCall]) -> Result<Finish, WireFault> {
    let reason = text(body, "stop_reason").unwrap_or_default();
    let fault = |kind, words: &str| Err(WireFault::new(kind, words));
    match reason {
        "end_turn" | "stop_sequence" if calls.is_empty() => Ok(Finish::Stop),
        "tool_use" if calls.is_empty() => {
            fault(FaultKind::NoCalls, "the reply says that there are calls, and there is none")
        }
        "end_turn" | "stop_sequence" | "tool_use" => Ok(Finish::Calls),
        // Calls come before the rest: an answer to them goes on by itself.
        "pause_turn" if !calls.is_empty() => Ok(Finish::Calls),
        "max_tokens" | "model_context_window_exceeded" if calls.is_empty() => Ok(Finish::Length),
        "max_tokens" | "model_context_window_exceeded" => {
            fault(FaultKind::Truncated, "the reply was cut off at its limit, amid its calls")
        }
        "pause_turn" => Ok(Finish::Paused),
        "refusal" => Ok(Finish::Refused),
        "" => fault(FaultKind::UnknownFinish, "the reply does not say why it stopped"),
        other => fault(FaultKind::UnknownFinish, &format!("the reply stopped for {other:?}")),
    }
}

/// Whether a reply says more than words and calls, or says them in another order.
fn says_more(content: &[Value]) -> bool {
    let mut called = false;
    content.iter().any(|block| match kind(block) {
        "text" => called && text(block, "text").is_some(),
        "tool_use" => {
            called = true;
            false
        }
        _ => true,
    })
}

/// The reply as it is sent back: unchanged and in order, without what the API refuses: blank words,
/// thoughts that nobody signed, and results.
fn native(content: &[Value]) -> Native {
    let mut kept = Vec::new();
    for block in content {
        let taken = match kind(block) {
            "text" => text(block, "text").is_some_and(|words| !words.trim().is_empty()),
            "thinking" => text(block, "signature").is_some(),
            "redacted_thinking" => text(block, "data").is_some(),
            // No model has results to give.
            "tool_result" => false,
            _ => true,
        };
        if taken {
            kept.push(block.clone());
        }
    }
    Native::new(NAME, Value::Array(kept))
}

/// What an answer cost. The API counts what came from the cache, and what went into it, apart from
/// the rest.
pub(in crate::dialect) fn cost(counts: &Value) -> Usage {
    let read = count(counts, &["cache_read_input_tokens"]);
    let written = count(counts, &["cache_creation_input_tokens"]);
    let fresh = count(counts, &["input_tokens"]);
    Usage {
        input_tokens: fresh.saturating_add(read).saturating_add(written),
        output_tokens: count(counts, &["output_tokens"]),
        cached_tokens: read,
        cache_written_tokens: written,
    }
}
