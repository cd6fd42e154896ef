//! Decides how the chunks of streamGenerateContent become one answer. A reason to stop ends it.

use serde_json::{Map, Value, json};
use toolgate_runtime::port::{Streamed, Tap};

use super::decode::{blocked, is_thought, is_words};
use crate::dialect::shared::text;
use crate::dialect::{Gathering, WireFault};

pub(in crate::dialect) fn gather() -> Box<dyn Gathering> {
    Box::new(Stream::default())
}

#[derive(Default)]
struct Stream {
    /// The chunks laid over each other, but for their candidates.
    answer: Map<String, Value>,
    /// The candidate, but for its content.
    candidate: Map<String, Value>,
    parts: Vec<Value>,
    words: String,
}

impl Gathering for Stream {
    fn take(&mut self, _: &str, data: Value, tap: Tap<'_>) -> Result<(), WireFault> {
        let Value::Object(chunk) = data else { return Ok(()) };
        for (key, value) in chunk {
            match (key.as_str(), value) {
                ("candidates", Value::Array(candidates)) => {
                    if let Some(Value::Object(first)) = candidates.into_iter().next() {
                        self.grow(first, tap);
                    }
                }
                (_, Value::Null) => {}
                // Counts are those of the whole reply so far.
                (_, value) => {
                    self.answer.insert(key, value);
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

    fn body(self: Box<Self>) -> Value {
        let Self { mut answer, mut candidate, parts, .. } = *self;
        if !candidate.is_empty() || !parts.is_empty() {
            let content = json!({ "role": "model", "parts": parts });
            candidate.insert("content".to_owned(), content);
            answer.insert("candidates".to_owned(), json!([candidate]));
        }
        Value::Object(answer)
    }
}

fn is_block(feedback: &Value) -> bool {
    blocked(&json!({ "promptFeedback": feedback })).is_some()
}

impl Stream {
    fn grow(&mut self, candidate: Map<String, Value>, tap: Tap<'_>) {
        for (key, value) in candidate {
            match (key.as_str(), value) {
                ("content", Value::Object(mut content)) => {
                    let Some(Value::Array(parts)) = content.shift_remove("parts") else { continue };
                    parts.into_iter().for_each(|part| self.add(part, tap));
                }
                (_, Value::Null) => {}
                (_, value) => {
                    self.candidate.insert(key, value);
                }
            }
        }
    }

    fn add(&mut self, part: Value, tap: Tap<'_>) {
        let words = text(&part, "text").unwrap_or_default();
        if is_thought(&part) {
            tap(Streamed::Thought(words));
        } else if !words.is_empty() {
            self.words.push_str(words);
            tap(Streamed::Text(words));
        }
        if words.is_empty() && is_words(&part) {
            return;
        }
        // Words that follow words are one part. One that is signed stays by itself.
        if let Some(last) = self.parts.last_mut()
            && is_words(last)
            && is_words(&part)
            && is_thought(last) == is_thought(&part)
            && let Some(Value::String(so_far)) = last.get_mut("text")
        {
            so_far.push_str(words);
            return;
        }
        self.parts.push(part);
    }
}
