//! Puts the events of a streamed response together to one answer.

use serde_json::{Map, Value, json};
use toolgate_kernel::event::FaultKind;
use toolgate_runtime::port::{Streamed, Tap};

use super::items::{Item, Items, LatePiece};
use crate::dialect::shared::{event_type, lent_arguments};
use crate::dialect::{Gathering, ReplySize, WireFault};
use crate::lent::Lent;

pub(in crate::dialect) fn gather() -> Box<dyn Gathering> {
    Box::new(Events::default())
}

#[derive(Default)]
struct Events {
    words: String,
    items: Items,
    /// Whether the response has begun.
    begun: bool,
    size: ReplySize,
    /// The response as the terminal event has it.
    end: Option<Value>,
}

impl Gathering for Events {
    fn take(&mut self, name: &str, data: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        if self.end.is_some() {
            return Ok(());
        }
        let delta = data.text("delta").unwrap_or_default();
        self.items.check_place(data);
        match event_type(name, data)? {
            // Two responses in one stream would be merged, and their calls would run twice.
            "response.created" if std::mem::replace(&mut self.begun, true) => {
                let reason = "a second response begins in the stream";
                return Err(WireFault::new(FaultKind::Unreadable, reason));
            }
            "response.output_text.delta" => {
                self.say(delta, tap);
                if let Some(item) = self.items.message(data) {
                    item.words.push_str(delta);
                }
            }
            "response.refusal.delta" => {
                self.say(delta, tap);
                if let Some(item) = self.items.message(data) {
                    item.refusal.push_str(delta);
                }
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.size.bytes += delta.len();
                tap(Streamed::Thought(delta));
            }
            "response.function_call_arguments.delta" => {
                match data.get("delta").and_then(Lent::as_str) {
                    Some(delta) => {
                        self.size.bytes += delta.len();
                        if let Some(item) = self.items.call(data, LatePiece::Refused) {
                            item.args.push_str(delta);
                            tap(Streamed::Call { name: item.name(), bytes: item.args.len() });
                        }
                    }
                    // Arguments without one of their pieces could still be read, as others.
                    None => self.items.spoil("a piece of the arguments of a call is no text"),
                }
            }
            "response.function_call_arguments.done" => {
                let args = lent_arguments(data.get("arguments"));
                let item = self.items.call(data, LatePiece::Ignored);
                let differs = |item: &Item| !item.args.is_empty() && item.args != *args;
                let contradicts = item.as_deref().is_some_and(differs) && !args.is_empty();
                if let Some(item) = item {
                    item.args_done = true;
                    if !args.is_empty() {
                        self.size.bytes += args.len().saturating_sub(item.args.len());
                        args.as_ref().clone_into(&mut item.args);
                    }
                }
                if contradicts {
                    self.items.spoil("the arguments of a call are not what its pieces said");
                }
            }
            "response.output_item.added" => {
                self.size.bytes += self.items.add(data);
            }
            "response.output_item.done" => {
                self.size.bytes += self.items.finish(data);
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
                // Its cost is in it, and counts.
                self.end = data.get("response").map(Lent::value);
                let told = self.end.as_ref().and_then(WireFault::told);
                return Err(told.unwrap_or_else(|| {
                    WireFault::new(FaultKind::Overloaded, "the server failed and gives no reason")
                }));
            }
            // A piece of a call under an unknown name: without it the call could run with others.
            _ if data.get("delta").is_some_and(|it| !it.is_null())
                && self.items.is_of_a_call(data) =>
            {
                self.items.spoil("an event of an unknown type goes on with a call");
            }
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

    fn counts(&self) -> Option<&Value> {
        self.end.as_ref().and_then(|end| end.get("usage"))
    }

    fn size(&self) -> ReplySize {
        ReplySize { calls: self.items.calls(), ..self.size }
    }

    fn fault(&self) -> Option<WireFault> {
        match self.items.fault() {
            // The last event counts where what came before it is not clear.
            Some(_) if self.says_all() => None,
            Some(fault) => Some(fault),
            None => self.contradicted(),
        }
    }

    fn body(self: Box<Self>) -> Value {
        let says_all = self.says_all();
        let mut body = match self.end {
            Some(Value::Object(body)) => body,
            _ => Map::new(),
        };
        if !says_all {
            body.insert("output".to_owned(), self.items.output());
        }
        Value::Object(body)
    }
}

impl Events {
    /// Whether the terminal event has the output: some servers end with a response that leaves it out.
    fn says_all(&self) -> bool {
        let told = self.end.as_ref().and_then(|end| end.get("output")?.as_array());
        told.map_or(self.items.is_empty(), |output| !output.is_empty())
    }

    /// Finished calls, and others in the last event: one of them was not meant.
    fn contradicted(&self) -> Option<WireFault> {
        let output = self.end.as_ref().and_then(|end| end.get("output")?.as_array());
        let output = output.filter(|output| !output.is_empty())?;
        let reason = "the last event has other calls than those that were done before it";
        let other = self.items.has_other_calls(output);
        other.then(|| WireFault::new(FaultKind::Unreadable, reason))
    }

    fn say(&mut self, words: &str, tap: Tap<'_>) {
        tap(Streamed::Text(words));
        self.size.bytes += words.len();
        self.words.push_str(words);
    }
}
