//! Decides how the events of the Messages API become one answer. `message_stop` ends it.

use serde_json::{Map, Value, json};
use toolgate_kernel::event::FaultKind;
use toolgate_runtime::port::{Streamed, Tap};

use crate::dialect::names::streamed;
use crate::dialect::{Gathering, WireFault};
use crate::lent::Lent;

pub(in crate::dialect) fn gather() -> Box<dyn Gathering> {
    Box::new(Stream::default())
}

#[derive(Default)]
struct Stream {
    message: Map<String, Value>,
    blocks: Vec<Block>,
    words: String,
    whole: bool,
}

/// A block of the content as it grows.
struct Block {
    index: Option<u64>,
    content: Value,
    /// Arguments as they come, in pieces of text.
    args: String,
}

impl Gathering for Stream {
    fn take(&mut self, name: &str, data: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        if self.whole {
            return Ok(());
        }
        match data.text("type").unwrap_or(name) {
            "message_start" => {
                if let Some(Value::Object(message)) = data.get("message").map(Lent::value) {
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
        let content = data.get("content_block");
        if let Some(words) = content.and_then(|content| content.text("text")) {
            self.words.push_str(words);
            tap(Streamed::Text(words));
        }
        let content = content.map_or_else(|| json!({}), Lent::value);
        self.blocks.push(Block { index, content, args: String::new() });
    }

    fn grow(&mut self, data: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        let index = data.get("index").and_then(Lent::as_u64);
        // The last one begun under that index: no two blocks are ever merged.
        let block = self.blocks.iter_mut().rev().find(|block| block.index == index);
        let (Some(block), Some(delta)) = (block, data.get("delta")) else {
            let reason = "the stream goes on with a block that was not begun";
            return Err(WireFault::new(FaultKind::Unreadable, reason));
        };
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
            "input_json_delta" => {
                block.args.push_str(delta.text("partial_json").unwrap_or_default());
            }
            _ => {}
        }
        Ok(())
    }

    /// A reply may say twice why it stopped. A reason that forbids its calls is kept.
    fn forbids_calls(&self) -> bool {
        let reason = self.message.get("stop_reason").and_then(Value::as_str);
        reason.is_some_and(|reason| {
            !matches!(reason, "end_turn" | "tool_use" | "stop_sequence" | "pause_turn")
        })
    }

    /// Why it stopped, and what it cost in all.
    fn close(&mut self, data: &Lent<'_>) {
        for (key, value) in data.get("delta").map(Lent::fields).unwrap_or_default() {
            if key != "stop_reason" || !self.forbids_calls() {
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
