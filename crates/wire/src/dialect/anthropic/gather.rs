//! Decides how the events of the Messages API become one answer. `message_stop` ends it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use toolgate_kernel::event::FaultKind;
use toolgate_runtime::port::{Streamed, Tap};

use crate::dialect::names::streamed;
use crate::dialect::shared::text;
use crate::dialect::{Gathering, WireFault};
use crate::lent::Lent;

pub(in crate::dialect) fn gather() -> Box<dyn Gathering> {
    Box::new(Stream::default())
}

#[derive(Default)]
struct Stream {
    message: Map<String, Value>,
    /// Whether the message has begun.
    begun: bool,
    blocks: Vec<Block>,
    /// Where the last block stands that was begun under an index.
    places: BTreeMap<Option<u64>, usize>,
    words: String,
    whole: bool,
}

/// A block of the content as it grows.
struct Block {
    content: Value,
    /// Arguments as they come, in pieces of text.
    args: String,
    /// Whether anything came since it was begun.
    grown: bool,
}

impl Gathering for Stream {
    fn take(&mut self, name: &str, data: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        if self.whole {
            return Ok(());
        }
        match data.text("type").unwrap_or(name) {
            "message_start" => {
                // An event that comes once more must not take back why the reply stopped.
                let first = !std::mem::replace(&mut self.begun, true);
                let message = data.get("message").filter(|_| first);
                if let Some(Value::Object(mut message)) = message.map(Lent::value) {
                    message.extend(std::mem::take(&mut self.message));
                    self.message = message;
                }
            }
            "content_block_start" => self.begin(data, tap),
            "content_block_delta" => self.grow(data, tap)?,
            "message_delta" => self.close(data),
            "message_stop" => self.whole = true,
            // Pings, ends of blocks, and what is yet to be invented.
            _ => {}
        }
        Ok(())
    }

    fn whole(&self) -> bool {
        self.whole
    }

    fn words(&self) -> &str {
        &self.words
    }

    fn counts(&self) -> Option<&Value> {
        self.message.get("usage")
    }

    fn body(self: Box<Self>) -> Value {
        let mut body = self.message;
        let content = self.blocks.into_iter().map(Block::finished).collect();
        body.insert("content".to_owned(), Value::Array(content));
        Value::Object(body)
    }
}

impl Stream {
    fn begin(&mut self, data: &Lent<'_>, tap: Tap<'_>) {
        let index = data.get("index").and_then(Lent::as_u64);
        // Whoever decodes the answer refuses a block that does not say what it is.
        let content = data.get("content_block").unwrap_or(&Lent::Null);
        let block = Block { content: content.value(), args: String::new(), grown: false };
        let before = self.places.get(&index).and_then(|at| self.blocks.get(*at));
        if before.is_some_and(|before| !before.grown && before.content == block.content) {
            // The same event once more begins nothing.
            return;
        }
        if let Some(words) = content.text("text") {
            self.words.push_str(words);
            tap(Streamed::Text(words));
        }
        if content.text("type") == Some("tool_use") {
            tap(Streamed::Call { name: content.text("name").unwrap_or_default(), bytes: 0 });
        }
        self.places.insert(index, self.blocks.len());
        self.blocks.push(block);
    }

    fn grow(&mut self, data: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        let index = data.get("index").and_then(Lent::as_u64);
        // The last one begun under that index: no two blocks are ever merged.
        let block = self.places.get(&index).and_then(|at| self.blocks.get_mut(*at));
        let (Some(block), Some(delta)) = (block, data.get("delta")) else {
            let reason = "the stream goes on with a block that was not begun";
            return Err(WireFault::new(FaultKind::Unreadable, reason));
        };
        block.grown = true;
        match delta.text("type").unwrap_or_default() {
            "text_delta" => {
                let words = delta.text("text").unwrap_or_default();
                block.append("text", words);
                self.words.push_str(words);
                tap(Streamed::Text(words));
            }
            "thinking_delta" => {
                let thought = delta.text("thinking").unwrap_or_default();
                block.append("thinking", thought);
                tap(Streamed::Thought(thought));
            }
            "signature_delta" => {
                let signature = delta.text("signature").unwrap_or_default();
                block.put("signature", json!(signature));
            }
            // What was said so far, in short. It may say nothing.
            "compaction_delta" => {
                if let Some(content) = delta.text("content") {
                    block.append("content", content);
                }
            }
            "input_json_delta" => {
                // Arguments without one of their pieces could still be read, as others.
                let piece = delta.get("partial_json").and_then(Lent::as_str);
                let piece = piece.ok_or_else(|| {
                    let reason = "a piece of the arguments of a call is no text";
                    WireFault::new(FaultKind::MalformedCall, reason)
                })?;
                block.args.push_str(piece);
                let name = text(&block.content, "name").unwrap_or_default();
                tap(Streamed::Call { name, bytes: block.args.len() });
            }
            "" => {
                let reason = "the stream goes on with a block and does not say how";
                return Err(WireFault::new(FaultKind::Unreadable, reason));
            }
            // What is yet to be invented.
            _ => {}
        }
        Ok(())
    }

    /// A reply may say twice why it stopped. A reason that forbids its calls is kept.
    fn forbids_calls(&self) -> bool {
        let reason = self.message.get("stop_reason").and_then(Value::as_str);
        let says = reason.map(str::trim).filter(|reason| !reason.is_empty());
        says.is_some_and(|reason| {
            !matches!(reason, "end_turn" | "tool_use" | "stop_sequence" | "pause_turn")
        })
    }

    /// Why it stopped, and what it cost in all.
    fn close(&mut self, data: &Lent<'_>) {
        for (key, value) in data.get("delta").map(Lent::fields).unwrap_or_default() {
            let blank = || value.as_str().is_some_and(|reason| reason.trim().is_empty());
            let unsaid = value.is_null() || blank() || self.forbids_calls();
            if key != "stop_reason" || !unsaid {
                self.message.insert(key.as_ref().to_owned(), value.value());
            }
        }
        let Some(Lent::Object(usage)) = data.get("usage") else { return };
        let sum = self.message.entry("usage").or_insert_with(|| json!({}));
        let Value::Object(sum) = sum else { return };
        for (key, value) in usage.iter().filter(|(_, value)| !value.is_null()) {
            sum.insert(key.as_ref().to_owned(), value.value());
        }
    }
}

impl Block {
    fn put(&mut self, key: &str, value: Value) {
        if let Some(content) = self.content.as_object_mut() {
            content.insert(key.to_owned(), value);
        }
    }

    fn append(&mut self, key: &str, more: &str) {
        match self.content.get_mut(key) {
            Some(Value::String(so_far)) => so_far.push_str(more),
            _ => self.put(key, json!(more)),
        }
    }

    fn finished(mut self) -> Value {
        if !self.args.trim().is_empty() {
            let args = std::mem::take(&mut self.args);
            self.put("input", streamed(args));
        }
        self.content
    }
}
