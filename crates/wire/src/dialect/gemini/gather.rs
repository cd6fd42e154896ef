//! Decides how the chunks of streamGenerateContent become one answer. A reason to stop ends it.

use serde_json::{Map, Value, json};
use toolgate_runtime::port::{Streamed, Tap};

use super::COUNTS;
use super::decode::{blocked, is_thought, join, told};
use crate::dialect::shared::{object, text};
use crate::dialect::{Gathering, WireFault};
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
}

impl Gathering for Stream {
    fn take(&mut self, _: &str, data: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        for (key, value) in data.fields() {
            match (key.as_ref(), value) {
                ("candidates", Lent::List(candidates)) => {
                    let index =
                        |one: &Lent<'_>| one.get("index").and_then(Lent::as_u64).unwrap_or(0);
                    if let Some(first) = candidates.first() {
                        self.chosen.get_or_insert(index(first));
                    }
                    // Two that say they are the same are two all the same.
                    let mut own = candidates.iter().filter(|one| self.chosen == Some(index(one)));
                    if let Some(candidate) = own.next() {
                        self.grow(candidate, tap);
                    }
                }
                (_, Lent::Null) => {}
                // Counts are those of the whole reply so far.
                (key, value) => {
                    self.answer.insert(key.to_owned(), value.value());
                }
            }
        }
        Ok(())
    }

    fn whole(&self) -> bool {
        let stopped = self.candidate.get("finishReason").and_then(Value::as_str);
        let stopped = stopped.is_some_and(|reason| !reason.is_empty());
        stopped || self.answer.get("promptFeedback").is_some_and(is_block)
    }

    fn words(&self) -> &str {
        &self.words
    }

    fn counts(&self) -> Option<&Value> {
        self.answer.get(COUNTS)
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

fn is_block(feedback: &Value) -> bool {
    blocked(&json!({ "promptFeedback": feedback })).is_some()
}

impl Stream {
    fn grow(&mut self, candidate: &Lent<'_>, tap: Tap<'_>) {
        for (key, value) in candidate.fields() {
            match (key.as_ref(), value) {
                ("content", content @ Lent::Object(_)) => {
                    let parts = content.get("parts").and_then(Lent::list);
                    parts.into_iter().flatten().for_each(|part| self.add(part.value(), tap));
                }
                (_, Lent::Null) => {}
                ("finishReason", reason) => self.finished(reason),
                (key, value) => {
                    self.candidate.insert(key.to_owned(), value.value());
                }
            }
        }
    }

    /// A reply may say twice why it stopped. A reason that forbids its calls is kept.
    fn finished(&mut self, reason: &Lent<'_>) {
        let before = self.candidate.get("finishReason").and_then(Value::as_str);
        if before.is_none_or(|before| matches!(before, "" | "STOP")) {
            self.candidate.insert("finishReason".to_owned(), reason.value());
        }
    }

    fn add(&mut self, part: Value, tap: Tap<'_>) {
        // What is no object is no part.
        let Value::Object(part) = part else { return };
        let part = Value::Object(told(part));
        let words = text(&part, "text").unwrap_or_default();
        if is_thought(&part) {
            tap(Streamed::Thought(words));
        } else if !words.is_empty() {
            self.words.push_str(words);
            tap(Streamed::Text(words));
        }
        if let Some(called) = part.get("functionCall") {
            // It comes at once, so there is nothing to watch grow.
            tap(Streamed::Call { name: text(called, "name").unwrap_or_default(), bytes: 0 });
        }
        if let Value::Object(part) = part {
            join(&mut self.parts, part);
        }
    }
}
