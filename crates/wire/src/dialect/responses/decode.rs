//! Reads an answer of the Responses API.

use serde_json::{Map, Value, json};
use toolgate_kernel::event::{FaultKind, Finish, Native, Usage};
use toolgate_runtime::port::{Reply, ReplyCall};

use super::NAME;
use crate::dialect::shared::{arguments, count, field, name_calls, text};
use crate::dialect::{Dialect, WireFault};

pub(in crate::dialect) fn decode(body: &Value) -> Result<Reply, WireFault> {
    let Some(output) = body.get("output").and_then(Value::as_array) else {
        return Err(WireFault::new(FaultKind::Unreadable, "the answer has no output"));
    };
    let mut heard = Heard::default();
    // It may be a call, so it is not passed over.
    if output.iter().any(may_hide_a_call) {
        let reason = "an item of the reply does not say what it is";
        return Err(WireFault::new(FaultKind::Unreadable, reason));
    }
    output.iter().for_each(|item| heard.item(item));
    // A thought that led to nothing is not taken back.
    while heard.kept.pop_if(|item| text(item, "type") == Some("reasoning")).is_some() {}
    let Heard { mut words, refusal, mut calls, kept, says_more, cut, .. } = heard;
    name_calls(&mut calls)?;
    let mut finish = finish(body, calls.is_empty())?;
    if cut {
        return Err(truncated());
    }
    if !refusal.is_empty() {
        words = refusal;
        finish = Finish::Refused;
    }
    let mut native = says_more.then(|| Native::new(NAME, Value::Array(kept)));
    if finish == Finish::Refused {
        // Nothing of a reply that was declined is done.
        calls.clear();
        native = None;
    }
    Ok(Reply { native, ..Reply::new(words, calls, finish, Dialect::Responses.usage(body)) })
}

/// Whether something that does not say what it is could be a call.
fn may_hide_a_call(item: &Value) -> bool {
    let parts = ["arguments", "call_id", "name"];
    item.is_array()
        || text(item, "type").is_none() && parts.iter().any(|part| field(item, part).is_some())
}

/// What the items of an answer say.
#[derive(Default)]
struct Heard {
    words: String,
    refusal: String,
    calls: Vec<ReplyCall>,
    /// The items as they are sent back.
    kept: Vec<Value>,
    messages: usize,
    /// Whether the items say more than words and then calls.
    says_more: bool,
    /// A call was not written to its end.
    cut: bool,
}

impl Heard {
    fn item(&mut self, item: &Value) {
        match text(item, "type") {
            Some("message") => self.message(item),
            Some("function_call") => {
                let status = item.get("status").filter(|status| !status.is_null());
                self.cut |= status.is_some_and(|status| status != "completed");
                self.calls.push(ReplyCall {
                    alias: text(item, "call_id").or(text(item, "id")).map(str::to_owned),
                    name: text(item, "name").unwrap_or_default().to_owned(),
                    args: arguments(item.get("arguments")),
                });
                // The call itself is known; here is only its place.
                self.kept.push(json!({ "type": "function_call" }));
            }
            Some("reasoning") => self.reasoning(item),
            // No model has results to give.
            Some("function_call_output") => {}
            // A tool of the provider's own; it is sent back as it came.
            Some(_) => {
                self.says_more = true;
                self.kept.push(item.clone());
            }
            None => {}
        }
    }

    fn message(&mut self, item: &Value) {
        let content = item.get("content");
        let mut said = content.and_then(Value::as_str).unwrap_or_default().to_owned();
        for part in content.and_then(Value::as_array).into_iter().flatten() {
            match text(part, "type") {
                Some("refusal") => self.refusal.push_str(text(part, "refusal").unwrap_or_default()),
                _ => said.push_str(text(part, "text").unwrap_or_default()),
            }
        }
        if said.is_empty() {
            return;
        }
        if !self.words.is_empty() {
            self.words.push_str("\n\n");
        }
        self.words.push_str(&said);
        self.messages += 1;
        self.says_more |=
            self.messages > 1 || !self.calls.is_empty() || item.get("phase").is_some();
        // Items are not stored, so their ids and states mean nothing to the provider.
        let mut kept = without(item, &["id", "status"]);
        // Whose words they are is known, whatever is said of that.
        kept.insert("role".to_owned(), json!("assistant"));
        if let Some(parts) = kept.get_mut("content").and_then(Value::as_array_mut) {
            parts.retain(|part| text(part, "type").is_some());
        }
        self.kept.push(Value::Object(kept));
    }

    /// Thoughts come back only when they are sealed, or said in words by a server that seals none.
    fn reasoning(&mut self, item: &Value) {
        let spoken = item.get("content").and_then(Value::as_array).is_some_and(|c| !c.is_empty());
        if text(item, "encrypted_content").is_some() || spoken {
            self.says_more = true;
            self.kept.push(Value::Object(without(item, &["status"])));
        }
    }
}

fn without(item: &Value, keys: &[&str]) -> Map<String, Value> {
    let entries = item.as_object().into_iter().flatten();
    let kept = entries.filter(|(key, _)| !keys.contains(&key.as_str()));
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn truncated() -> WireFault {
    WireFault::new(FaultKind::Truncated, "the reply was cut off at its limit, amid its calls")
}

fn finish(body: &Value, no_calls: bool) -> Result<Finish, WireFault> {
    let fault = |kind, words: &str| Err(WireFault::new(kind, words));
    if field(body, "status").is_some_and(|status| !status.is_string()) {
        return fault(FaultKind::UnknownFinish, "the state of the reply is not text");
    }
    let unfinished = field(body, "incomplete_details").is_some_and(|it| *it != json!({}));
    if unfinished && text(body, "status") == Some("completed") {
        return fault(FaultKind::UnknownFinish, "the reply is completed and incomplete at once");
    }
    let details = body.get("incomplete_details").unwrap_or(&Value::Null);
    match (text(body, "status"), text(details, "reason")) {
        // Some compatible servers leave the state out. The answer is whole.
        (Some("completed") | None, _) if no_calls => Ok(Finish::Stop),
        (Some("completed") | None, _) => Ok(Finish::Calls),
        (Some("incomplete"), Some("max_output_tokens" | "max_tokens")) if no_calls => {
            Ok(Finish::Length)
        }
        (Some("incomplete"), Some("max_output_tokens" | "max_tokens")) => Err(truncated()),
        (Some("incomplete"), Some("content_filter")) => Ok(Finish::Refused),
        (Some("failed"), _) => {
            fault(FaultKind::Overloaded, "the server failed and gives no reason")
        }
        (Some("in_progress" | "queued"), _) => {
            fault(FaultKind::CutOff, "the answer came before the reply was over")
        }
        (Some(status), reason) => {
            let reason = reason.unwrap_or(status);
            fault(FaultKind::UnknownFinish, &format!("the reply stopped for {reason:?}"))
        }
    }
}

/// What an answer cost.
pub(in crate::dialect) fn cost(counts: &Value) -> Usage {
    Usage {
        input_tokens: count(counts, &["input_tokens"]),
        output_tokens: count(counts, &["output_tokens"]),
        cached_tokens: count(counts, &["input_tokens_details", "cached_tokens"]),
        cache_written_tokens: count(counts, &["input_tokens_details", "cache_write_tokens"]),
    }
}
