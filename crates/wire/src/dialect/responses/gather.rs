//! Decides how the events of a streamed response become one answer.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolgate_kernel::event::FaultKind;
use toolgate_runtime::port::{Streamed, Tap};

use crate::dialect::{Gathering, WireFault};
use crate::lent::Lent;

pub(in crate::dialect) fn gather() -> Box<dyn Gathering> {
    Box::new(Events::default())
}

#[derive(Default)]
struct Events {
    words: String,
    /// The items by their place in the output.
    items: BTreeMap<u64, Item>,
    /// The response as the terminal event has it.
    end: Option<Value>,
}

/// One item: as it was added, and what came since.
#[derive(Default)]
struct Item {
    item: Value,
    done: bool,
    words: String,
    args: String,
}

impl Gathering for Events {
    fn take(&mut self, name: &str, data: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        if self.end.is_some() {
            return Ok(());
        }
        let kind = data.text("type").unwrap_or(name);
        let place = data.get("output_index").and_then(Lent::as_u64).unwrap_or(0);
        let delta = data.text("delta").unwrap_or_default();
        match kind {
            "response.output_text.delta" | "response.refusal.delta" => {
                tap(Streamed::Text(delta));
                self.words.push_str(delta);
                if kind.starts_with("response.output_text") {
                    self.items.entry(place).or_default().words.push_str(delta);
                }
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                tap(Streamed::Thought(delta));
            }
            "response.function_call_arguments.delta" => {
                self.items.entry(place).or_default().args.push_str(delta);
            }
            "response.function_call_arguments.done" => {
                if let Some(args) = data.get("arguments").and_then(Lent::as_str) {
                    args.clone_into(&mut self.items.entry(place).or_default().args);
                }
            }
            "response.output_item.added" | "response.output_item.done" => {
                let item = data.get("item").map(Lent::value).unwrap_or_default();
                let place = self.items.entry(place).or_default();
                place.item = item;
                place.done = kind.ends_with("done");
            }
            "response.completed" => {
                self.end = Some(data.get("response").map(Lent::value).unwrap_or_default());
            }
            "response.incomplete" => {
                let mut end = data.get("response").map(Lent::value).unwrap_or_default();
                if !end.is_object() {
                    end = json!({});
                }
                // The event says so, whatever the response in it says.
                if let Some(end) = end.as_object_mut() {
                    end.insert("status".to_owned(), json!("incomplete"));
                }
                self.end = Some(end);
            }
            "response.failed" => {
                let told = data.get("response").and_then(WireFault::told_by);
                return Err(told.unwrap_or_else(|| {
                    WireFault::new(FaultKind::Overloaded, "the server failed and gives no reason")
                }));
            }
            "error" => return Err(WireFault::of(&data.value())),
            _ => {}
        }
        Ok(())
    }

    fn whole(&self) -> bool {
        self.end.is_some()
    }

    fn words(&self) -> &str {
        &self.words
    }

    fn body(self: Box<Self>) -> Value {
        let mut body = match self.end {
            Some(Value::Object(body)) => body,
            _ => serde_json::Map::new(),
        };
        // Some servers end with a response that leaves its output out.
        let told = body.get("output").and_then(Value::as_array).is_some_and(|o| !o.is_empty());
        if !told {
            let items = self.items.into_values().filter_map(Item::body);
            body.insert("output".to_owned(), items.collect());
        }
        Value::Object(body)
    }
}

impl Item {
    /// The item with what came since it was added.
    fn body(mut self) -> Option<Value> {
        let map = self.item.as_object_mut()?;
        let kind = map.get("type").and_then(Value::as_str).unwrap_or_default();
        match kind {
            "message" if !self.done => {
                let content = json!([{ "type": "output_text", "text": self.words }]);
                map.insert("content".to_owned(), content);
            }
            "function_call" if !self.done => {
                map.shift_remove("status");
                map.insert("arguments".to_owned(), json!(self.args));
            }
            _ => {}
        }
        Some(self.item)
    }
}
