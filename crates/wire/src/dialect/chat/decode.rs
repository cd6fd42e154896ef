//! Reads an answer of chat completions.

use serde::Deserialize;
use serde_json::{Map, Value};
use toolgate_kernel::event::{FaultKind, Finish, Native, Usage};
use toolgate_runtime::port::{Reply, ReplyCall};

use super::piece::{Piece, malformed};
use super::{CALL_EXTRAS, DETAILS, NAME, THOUGHTS};
use crate::dialect::shared::{arguments, count, field, name_calls, text};
use crate::dialect::{Dialect, WireFault};
use crate::lent::Lent;

pub(in crate::dialect) fn decode(body: &Value) -> Result<Reply, WireFault> {
    let choices = body.get("choices").and_then(Value::as_array);
    let Some(choice) = choices.and_then(|choices| choices.first()) else {
        return Err(WireFault::new(FaultKind::Unreadable, "the answer has no choices"));
    };
    if let Some(fault) = WireFault::told(choice) {
        return Err(fault);
    }
    let Some(message) = choice.get("message").filter(|message| message.is_object()) else {
        return Err(WireFault::new(FaultKind::Unreadable, "the answer has no message"));
    };
    if field(message, "refusal").is_some_and(|refusal| !refusal.is_string()) {
        return Err(WireFault::new(FaultKind::Unreadable, "the refusal of a reply is not text"));
    }
    let written = written_calls(message)?;
    let mut calls: Vec<ReplyCall> = written.iter().map(|call| reply_call(call)).collect();
    name_calls(&mut calls)?;
    let (mut words, mut refusal) = words(message.get("content"))?;
    refusal.push_str(text(message, "refusal").unwrap_or_default());
    let reason = choice.get("finish_reason").unwrap_or(&Value::Null);
    let reason = finish_reason(reason.is_null(), reason.as_str())?;
    let mut finish = finish(reason, calls.is_empty())?;
    let mut native = native(message, &written);
    if !refusal.is_empty() {
        words = refusal;
        finish = Finish::Refused;
    }
    if finish == Finish::Refused {
        // Nothing of a reply that was declined is done.
        calls.clear();
        native = None;
    }
    Ok(Reply { native, ..Reply::new(words, calls, finish, Dialect::Chat.usage(body)) })
}

/// The calls as they stand: a list, one alone, or the form of old servers.
fn written_calls(message: &Value) -> Result<Vec<&Value>, WireFault> {
    let calls = match message.get("tool_calls") {
        Some(Value::Array(calls)) => calls.as_slice(),
        Some(call @ Value::Object(_)) => std::slice::from_ref(call),
        None | Some(Value::Null) => &[],
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            return Err(malformed("the calls of a reply are neither a list nor an object"));
        }
    };
    let mut written = Vec::new();
    for call in calls.iter().filter(|call| !call.is_null()) {
        if says_something(call)? {
            written.push(call);
        }
    }
    let Some(old) = field(message, "function_call") else { return Ok(written) };
    if !old.is_object() {
        return Err(malformed("the function_call is not an object"));
    }
    if !says_something(old)? {
        return Ok(written);
    }
    if text(old, "name").is_none() {
        return Err(malformed("the function_call has no name"));
    }
    if written.is_empty() {
        return Ok(vec![old]);
    }
    // If it were another call than those of the list, one of them would be lost.
    let own = reply_call(old);
    let same = |call: &&Value| {
        let call = reply_call(call);
        call.name == own.name && call.args == own.args
    };
    match written.iter().any(same) {
        true => Ok(written),
        false => Err(malformed("the reply has a function_call beside other tool_calls")),
    }
}

/// Whether a call says anything at all. In a stream such a piece begins none.
fn says_something(call: &Value) -> Result<bool, WireFault> {
    let lent = Lent::deserialize(call).map_err(|_| malformed("a call cannot be read"))?;
    Ok(!Piece::read(&lent)?.is_empty())
}

fn reply_call(call: &Value) -> ReplyCall {
    let function = field(call, "function").unwrap_or(call);
    ReplyCall {
        alias: text(call, "id").map(str::to_owned),
        name: text(function, "name").unwrap_or_default().to_owned(),
        args: arguments(function.get("arguments")),
    }
}

/// The words of a message, and what it says in place of them when it declines.
fn words(content: Option<&Value>) -> Result<(String, String), WireFault> {
    let (mut words, mut refusal) = (String::new(), String::new());
    match content {
        Some(Value::String(text)) => words.push_str(text),
        Some(Value::Array(parts)) => {
            for part in parts {
                match Part::of(text(part, "type")) {
                    Part::Words => {
                        words.push_str(part.as_str().or(text(part, "text")).unwrap_or_default());
                    }
                    Part::Refusal => refusal.push_str(text(part, "refusal").unwrap_or_default()),
                    Part::Call => return Err(call_among_words()),
                    Part::Thought | Part::Other => {}
                }
            }
        }
        _ => {}
    }
    Ok((words, refusal))
}

/// A call where none is read would be lost.
pub(super) fn call_among_words() -> WireFault {
    malformed("the reply has a call among the parts of its content")
}

/// What a part of the content is.
pub(super) enum Part {
    Words,
    Refusal,
    Thought,
    /// A call, where this dialect has none.
    Call,
    Other,
}

impl Part {
    /// By its type, whole or in a stream.
    pub(super) fn of(kind: Option<&str>) -> Self {
        match kind {
            Some("text" | "output_text") | None => Self::Words,
            Some("refusal") => Self::Refusal,
            Some("thinking") => Self::Thought,
            Some("tool_use" | "tool_call" | "tool_calls" | "function_call") => Self::Call,
            Some(_) => Self::Other,
        }
    }
}

/// Reasons to stop that say nothing of calls, and those that say that there are some.
const NATURAL: &[&str] = &["stop", "eos", "eos_token", "stop_sequence", "end_turn"];
const FOR_CALLS: &[&str] = &["tool_calls", "tool_call", "tool_use", "function_call"];

/// Whether a reason to stop forbids no call.
pub(super) fn ends_well(reason: &str) -> bool {
    let same = |known: &&str| known.eq_ignore_ascii_case(reason);
    NATURAL.iter().chain(FOR_CALLS).any(same)
}

/// The reason to stop, if the answer gives one. One that is not text is never a good end.
pub(super) fn finish_reason(is_null: bool, text: Option<&str>) -> Result<Option<&str>, WireFault> {
    match text {
        Some(reason) => Ok(Some(reason).filter(|reason| !reason.trim().is_empty())),
        None if is_null => Ok(None),
        None => {
            let reason = "the reason why the reply stopped is not text";
            Err(WireFault::new(FaultKind::UnknownFinish, reason))
        }
    }
}

fn finish(reason: Option<&str>, no_calls: bool) -> Result<Finish, WireFault> {
    let fault = |kind, words: &str| Err(WireFault::new(kind, words));
    let natural = if no_calls { Finish::Stop } else { Finish::Calls };
    match reason.map(str::to_ascii_lowercase).as_deref() {
        // The answer is whole: its JSON is closed, or `[DONE]` came. Some servers say no more.
        None => Ok(natural),
        // Whatever it says of them, calls that are there go through the gate.
        Some(reason) if NATURAL.contains(&reason) => Ok(natural),
        Some(reason) if FOR_CALLS.contains(&reason) && no_calls => {
            fault(FaultKind::NoCalls, "the reply says that there are calls, and there is none")
        }
        Some(reason) if FOR_CALLS.contains(&reason) => Ok(Finish::Calls),
        Some("length" | "max_tokens" | "model_length") if no_calls => Ok(Finish::Length),
        Some("length" | "max_tokens" | "model_length") => {
            fault(FaultKind::Truncated, "the reply was cut off at its limit, amid its calls")
        }
        Some("error" | "insufficient_system_resource") => {
            fault(FaultKind::Overloaded, "the server broke off while the model was writing")
        }
        Some(reason) if reason.contains("malformed_function_call") => {
            fault(FaultKind::MalformedCall, "the model wrote a call that its server cannot read")
        }
        Some(reason) if reason.starts_with("content_filter") || reason == "safety" => {
            Ok(Finish::Refused)
        }
        Some(reason) => {
            fault(FaultKind::UnknownFinish, &format!("the reply stopped for {reason:?}"))
        }
    }
}

/// What a server wants to see again of a reply, besides words and calls.
fn native(message: &Value, calls: &[&Value]) -> Option<Native> {
    let mut kept = Map::new();
    let mut keep = |key: &str, value: &Value| kept.insert(key.to_owned(), value.clone());
    if let Some(parts) = message.get("content").filter(|content| has_thoughts(content)) {
        keep("content", parts);
    }
    let details = message
        .get(DETAILS)
        .filter(|found| found.as_array().is_some_and(|parts| !parts.is_empty()));
    if let Some(details) = details {
        keep(DETAILS, details);
    }
    if !calls.is_empty() {
        let texts =
            || THOUGHTS.iter().filter(|key| message.get(**key).is_some_and(Value::is_string));
        // Those in parts say the same, with their signatures.
        if let (None, Some(key)) = (details, texts().next())
            && let Some(thoughts) = message.get(*key)
        {
            keep(key, thoughts);
        }
        let extras: Vec<Value> = calls.iter().map(|call| extra(call)).collect();
        if extras.iter().any(|extra| !extra.is_null()) {
            keep("tool_calls", &Value::Array(extras));
        }
    }
    (!kept.is_empty()).then(|| Native::new(NAME, Value::Object(kept)))
}

/// Whether a content is a list with something in it that is no words.
fn has_thoughts(content: &Value) -> bool {
    let thought = |part: &Value| matches!(Part::of(text(part, "type")), Part::Thought);
    content.as_array().is_some_and(|parts| parts.iter().any(thought))
}

fn extra(call: &Value) -> Value {
    let mut kept = Map::new();
    for key in CALL_EXTRAS {
        if let Some(value) = call.get(*key).filter(|value| !value.is_null()) {
            kept.insert((*key).to_owned(), value.clone());
        }
    }
    if kept.is_empty() { Value::Null } else { Value::Object(kept) }
}

/// What an answer cost. The count includes what came from the cache. Servers say the cached part in
/// three ways.
pub(in crate::dialect) fn cost(counts: &Value) -> Usage {
    let cached = [
        &["prompt_tokens_details", "cached_tokens"][..],
        &["prompt_cache_hit_tokens"],
        &["cached_tokens"],
    ];
    Usage {
        input_tokens: count(counts, &["prompt_tokens"]),
        output_tokens: count(counts, &["completion_tokens"]),
        cached_tokens: cached.iter().map(|path| count(counts, path)).max().unwrap_or(0),
        cache_written_tokens: count(counts, &["prompt_tokens_details", "cache_write_tokens"]),
    }
}
