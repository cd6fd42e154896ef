//! Puts the chunks of streamGenerateContent together to one answer. A reason to stop ends it.

use serde_json::{Map, Value, json};
use toolgate_kernel::event::FaultKind;
use toolgate_runtime::port::{Streamed, Tap};

use super::COUNTS;
use super::decode::{blocked, check_part, finish_reason, is_thought, join, no_parts, told};
use crate::dialect::shared::{grows, object, text, whole_index};
use crate::dialect::{Gathering, ReplySize, WireFault};
use crate::lent::Lent;

pub(in crate::dialect) fn gather() -> Box<dyn Gathering> {
    Box::new(Stream::default())
}

#[derive(Default)]
struct Stream {
    /// The chunks laid over each other, but for their candidates.
    answer: Map<String, Value>,
    /// The one candidate that counts: the first that came.
    chosen: Option<u64>,
    /// The candidate, but for its content.
    candidate: Map<String, Value>,
    parts: Vec<Value>,
    words: String,
    size: ReplySize,
    /// Whether chunks of another reply came, by their id.
    mixed: bool,
    /// The last call of an earlier chunk, where it has no id.
    before: Option<Value>,
    /// The same of this chunk.
    latest: Option<Value>,
}

impl Gathering for Stream {
    fn take(&mut self, _: &str, data: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        let id = data.text("responseId");
        let before = self.answer.get("responseId").and_then(Value::as_str);
        self.mixed |= id.is_some() && before.is_some() && id != before;
        // What a chunk cost counts also where its candidate is a fault.
        for (key, value) in data.fields() {
            match (key.as_ref(), value) {
                ("candidates", Lent::List(_)) | (_, Lent::Null) => {}
                // A later chunk does not take a block back.
                ("promptFeedback", _) if self.is_blocked() => {}
                // Counts are those of the whole reply so far.
                (key, value) => {
                    self.answer.insert(key.to_owned(), value.value());
                }
            }
        }
        let candidates = match data.get("candidates") {
            None | Some(Lent::Null) => &[],
            Some(candidates) => candidates.list().ok_or_else(no_candidates)?,
        };
        if self.latest.is_some() {
            self.before = self.latest.take();
        }
        let mut chosen = None;
        for candidate in candidates.iter().filter(|candidate| !candidate.is_null()) {
            if !candidate.is_object() {
                return Err(no_candidates());
            }
            let index = whole_index(candidate.get("index"))?;
            // Of two with the same index in one chunk, the first counts.
            if *self.chosen.get_or_insert(index) == index && chosen.is_none() {
                chosen = Some(candidate);
            }
        }
        chosen.map_or(Ok(()), |candidate| self.grow(candidate, tap))
    }

    fn whole(&self) -> bool {
        self.is_finished() || self.is_blocked()
    }

    fn words(&self) -> &str {
        &self.words
    }

    fn counts(&self) -> Option<&Value> {
        self.answer.get(COUNTS)
    }

    fn size(&self) -> ReplySize {
        self.size
    }

    /// Two replies in one stream would be merged, and their calls would run twice.
    fn fault(&self) -> Option<WireFault> {
        let mixed = self.mixed && self.size.calls > 0;
        let reason = "the stream has calls and chunks of two replies";
        mixed.then(|| WireFault::new(FaultKind::Unreadable, reason))
    }

    fn body(self: Box<Self>) -> Value {
        let Self { mut answer, mut candidate, parts, .. } = *self;
        if !candidate.is_empty() || !parts.is_empty() {
            let content = object([("role", json!("model")), ("parts", Value::Array(parts))]);
            candidate.insert("content".to_owned(), content);
            answer.insert("candidates".to_owned(), vec![Value::Object(candidate)].into());
        }
        Value::Object(answer)
    }
}

/// There could be calls in what is no candidate.
fn no_candidates() -> WireFault {
    WireFault::new(FaultKind::Unreadable, "the candidates of the reply are no list of objects")
}

impl Stream {
    fn is_blocked(&self) -> bool {
        let feedback = self.answer.get("promptFeedback");
        feedback.is_some_and(|it| blocked(&json!({ "promptFeedback": it })).is_some())
    }

    fn is_finished(&self) -> bool {
        let reason = self.candidate.get("finishReason").and_then(Value::as_str);
        reason.is_some_and(|reason| !reason.is_empty())
    }

    fn grow(&mut self, candidate: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        let finished = self.is_finished();
        for (key, value) in candidate.fields() {
            match (key.as_ref(), value) {
                ("content", content @ Lent::Object(_)) => {
                    let parts = match content.get("parts") {
                        None | Some(Lent::Null) => &[],
                        Some(parts) => parts.list().ok_or_else(no_parts)?,
                    };
                    for part in parts {
                        if finished && part.get("functionCall").is_some_and(|call| !call.is_null())
                        {
                            let reason = "the stream has a call after the reply has ended";
                            return Err(WireFault::new(FaultKind::MalformedCall, reason));
                        }
                        self.add(part.value(), tap)?;
                    }
                }
                (_, Lent::Null) => {}
                ("content", _) => return Err(no_parts()),
                ("finishReason", reason) => self.finished(finish_reason(reason.as_str())?),
                (key, value) => {
                    self.candidate.insert(key.to_owned(), value.value());
                }
            }
        }
        Ok(())
    }

    /// A reply may say twice why it stopped. A reason that forbids its calls is kept.
    fn finished(&mut self, reason: &str) {
        let before = self.candidate.get("finishReason").and_then(Value::as_str);
        if reason.trim().is_empty() {
            return;
        }
        if before.is_none_or(|before| matches!(before, "" | "STOP")) {
            self.candidate.insert("finishReason".to_owned(), json!(reason));
        }
    }

    fn add(&mut self, part: Value, tap: Tap<'_>) -> Result<(), WireFault> {
        check_part(&part)?;
        // What is no object is no part.
        let Value::Object(part) = part else { return Ok(()) };
        let part = Value::Object(told(part));
        self.size.bytes += part.to_string().len();
        let words = text(&part, "text").unwrap_or_default();
        if is_thought(&part) {
            tap(Streamed::Thought(words));
        } else if !words.is_empty() {
            self.words.push_str(words);
            tap(Streamed::Text(words));
        }
        if let Some(called) = part.get("functionCall") {
            self.check_grown(called)?;
            self.size.calls += 1;
            // It comes at once, so there is nothing to watch grow.
            tap(Streamed::Call { name: text(called, "name").unwrap_or_default(), bytes: 0 });
        }
        if let Value::Object(part) = part {
            join(&mut self.parts, part);
        }
        Ok(())
    }

    /// A call without an id that has all of the one before it and more could be the same one as it
    /// grew, if it comes in a later chunk.
    fn check_grown(&mut self, called: &Value) -> Result<(), WireFault> {
        let nameless = text(called, "id").is_none();
        let args = |call: &Value| call.get("args").cloned().unwrap_or_default();
        let grown = self.before.as_ref().filter(|_| nameless).is_some_and(|before| {
            text(before, "name") == text(called, "name") && grows(&args(before), &args(called))
        });
        self.latest = nameless.then(|| called.clone());
        if !nameless {
            self.before = None;
        }
        if !grown {
            return Ok(());
        }
        let reason = "the stream does not say whether a call is another one or the last one, grown";
        Err(WireFault::new(FaultKind::MalformedCall, reason))
    }
}
