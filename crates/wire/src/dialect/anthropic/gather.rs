//! Puts the events of the Messages API together to one answer. `message_stop` ends it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use toolgate_kernel::event::FaultKind;
use toolgate_runtime::port::{Streamed, Tap};

use crate::dialect::names::streamed;
use crate::dialect::shared::{event_type, text};
use crate::dialect::{Gathering, ReplySize, WireFault};
use crate::lent::Lent;

pub(in crate::dialect) fn gather() -> Box<dyn Gathering> {
    Box::new(MessageStream::default())
}

#[derive(Default)]
struct MessageStream {
    message: Map<String, Value>,
    /// Whether the message has begun.
    begun: bool,
    blocks: Vec<ContentBlock>,
    /// Where the last block stands that was begun under an index.
    places: BTreeMap<Option<u64>, usize>,
    /// How many blocks are not closed.
    open: usize,
    /// Whether a reason to stop has come: no block follows.
    stopped: bool,
    words: String,
    size: ReplySize,
    whole: bool,
}

/// A block of the content as it grows.
struct ContentBlock {
    content: Value,
    /// Arguments as they come, in pieces of text.
    args: String,
    /// Whether anything came since it was begun.
    grown: bool,
    closed: bool,
}

fn unreadable(reason: &str) -> WireFault {
    WireFault::new(FaultKind::Unreadable, reason)
}

impl Gathering for MessageStream {
    fn take(&mut self, name: &str, data: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        if self.whole {
            return Ok(());
        }
        match event_type(name, data)? {
            "message_start" => self.start(data)?,
            "content_block_start" => self.begin_block(data, tap)?,
            "content_block_delta" => self.grow_block(data, tap)?,
            "content_block_stop" => self.close_block(data)?,
            "message_delta" => self.stop(data),
            "message_stop" => self.whole = true,
            // A piece of a call under an unknown name: without it the call could run with others.
            _ if self.has_open_call() && data.get("delta").is_some_and(|it| !it.is_null()) => {
                return Err(unreadable("an event of an unknown type goes on with a call"));
            }
            // Pings, and what is yet to be invented.
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

    fn size(&self) -> ReplySize {
        self.size
    }

    /// A block that was never closed may be half of one.
    fn fault(&self) -> Option<WireFault> {
        let reason = "the stream ended with a block that was not closed";
        (self.open > 0).then(|| WireFault::new(FaultKind::CutOff, reason))
    }

    fn body(self: Box<Self>) -> Value {
        let mut body = self.message;
        let content = self.blocks.into_iter().map(ContentBlock::finished).collect();
        body.insert("content".to_owned(), Value::Array(content));
        Value::Object(body)
    }
}

/// The index of a block. One that is not a number could mean any block.
fn index(data: &Lent<'_>) -> Result<Option<u64>, WireFault> {
    match data.get("index") {
        None | Some(Lent::Null) => Ok(None),
        Some(index) => {
            let number = index.as_u64();
            number.map(Some).ok_or_else(|| unreadable("the index of a block is not a whole number"))
        }
    }
}

impl MessageStream {
    fn has_open_call(&self) -> bool {
        let call = |block: &ContentBlock| text(&block.content, "type") == Some("tool_use");
        self.open > 0 && self.blocks.iter().any(|block| !block.closed && call(block))
    }

    fn start(&mut self, data: &Lent<'_>) -> Result<(), WireFault> {
        // Two replies in one stream would be merged, and their calls would run twice.
        if std::mem::replace(&mut self.begun, true) || !self.blocks.is_empty() || self.stopped {
            return Err(unreadable("a second message begins in the stream"));
        }
        // The content comes in blocks. A call that stands here already would be lost.
        let content = data.get("message").and_then(|message| message.get("content"));
        let is_words = |block: &Lent<'_>| matches!(block.text("type"), Some("text" | "thinking"));
        let mut blocks = content.and_then(Lent::list).unwrap_or_default().iter();
        if !blocks.all(|block| block.is_null() || is_words(block)) {
            return Err(unreadable("the message begins with more than words"));
        }
        if let Some(Value::Object(message)) = data.get("message").map(Lent::value) {
            self.message = message;
        }
        Ok(())
    }

    fn begin_block(&mut self, data: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        if self.stopped {
            return Err(unreadable("a block begins after the reply has ended"));
        }
        let index = index(data)?;
        // A block that does not say what it is, is refused when the answer is decoded.
        let content = data.get("content_block").unwrap_or(&Lent::Null);
        let value = content.value();
        let before = self.places.get(&index).and_then(|at| self.blocks.get(*at));
        if let Some(before) = before.filter(|before| !before.closed) {
            // The same event once more begins nothing.
            return match !before.grown && before.content == value {
                true => Ok(()),
                false => Err(unreadable("a block begins in the place of one that is not closed")),
            };
        }
        if before.is_some_and(|before| {
            let id = text(&before.content, "id");
            id.is_some() && id == content.text("id")
        }) {
            return Err(unreadable("a block begins once more that was closed"));
        }
        let words = content.text("text").unwrap_or_default();
        if !words.is_empty() {
            self.words.push_str(words);
            tap(Streamed::Text(words));
        }
        if content.text("type") == Some("tool_use") {
            self.size.calls += 1;
            tap(Streamed::Call { name: content.text("name").unwrap_or_default(), bytes: 0 });
        }
        self.size.bytes += value.to_string().len();
        self.open += 1;
        self.places.insert(index, self.blocks.len());
        let (args, grown, closed) = (String::new(), false, false);
        self.blocks.push(ContentBlock { content: value, args, grown, closed });
        Ok(())
    }

    fn grow_block(&mut self, data: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        // The last one begun under that index: no two blocks are ever merged.
        let block = self.places.get(&index(data)?).and_then(|at| self.blocks.get_mut(*at));
        let (Some(block), Some(delta)) = (block, data.get("delta")) else {
            return Err(unreadable("the stream goes on with a block that was not begun"));
        };
        if block.closed || self.stopped {
            return Err(unreadable("the stream goes on with a block that was closed"));
        }
        block.grown = true;
        let kind = delta.text("type").unwrap_or_default();
        // Without a piece of its arguments that is not understood, a call could run with others.
        if text(&block.content, "type") == Some("tool_use") && kind != "input_json_delta" {
            return Err(unreadable("the stream goes on with a call in an unknown way"));
        }
        let text_of = |key: &str| delta.text(key).unwrap_or_default();
        match kind {
            "text_delta" => {
                let words = text_of("text");
                self.size.bytes += block.append("text", words);
                self.words.push_str(words);
                tap(Streamed::Text(words));
            }
            "thinking_delta" => {
                let thought = text_of("thinking");
                self.size.bytes += block.append("thinking", thought);
                tap(Streamed::Thought(thought));
            }
            "signature_delta" => {
                let signature = text_of("signature");
                self.size.bytes += signature.len();
                block.put("signature", json!(signature));
            }
            // A summary of what was said so far. It may be empty.
            "compaction_delta" => self.size.bytes += block.append("content", text_of("content")),
            "input_json_delta" => {
                // Arguments without one of their pieces could still be valid, with another meaning.
                let piece = delta.get("partial_json").and_then(Lent::as_str);
                let piece = piece.ok_or_else(|| {
                    let reason = "a piece of the arguments of a call is not text";
                    WireFault::new(FaultKind::MalformedCall, reason)
                })?;
                block.args.push_str(piece);
                self.size.bytes += piece.len();
                let name = text(&block.content, "name").unwrap_or_default();
                tap(Streamed::Call { name, bytes: block.args.len() });
            }
            "" => return Err(unreadable("the stream goes on with a block and does not say how")),
            // What is yet to be invented.
            _ => {}
        }
        Ok(())
    }

    fn close_block(&mut self, data: &Lent<'_>) -> Result<(), WireFault> {
        let Some(at) = self.places.get(&index(data)?).copied() else {
            return Err(unreadable("the stream closes a block that was not begun"));
        };
        let Some(block) = self.blocks.get_mut(at) else { return Ok(()) };
        if !std::mem::replace(&mut block.closed, true) {
            self.open -= 1;
        }
        match block.contradicts_itself() {
            true => Err(unreadable("a call has other arguments at its beginning than behind it")),
            false => Ok(()),
        }
    }

    /// A reply may say twice why it stopped. A reason that forbids its calls is kept.
    fn forbids_calls(&self) -> bool {
        match self.message.get("stop_reason") {
            None | Some(Value::Null) => false,
            Some(Value::String(reason)) => !matches!(
                reason.trim(),
                "" | "end_turn" | "tool_use" | "stop_sequence" | "pause_turn"
            ),
            Some(_) => true,
        }
    }

    /// Why it stopped, and what it cost in all.
    fn stop(&mut self, data: &Lent<'_>) {
        for (key, value) in data.get("delta").map(Lent::fields).unwrap_or_default() {
            if key == "stop_reason" {
                let blank = value.as_str().is_some_and(|reason| reason.trim().is_empty());
                if value.is_null() || blank {
                    continue;
                }
                self.stopped = true;
                if self.forbids_calls() {
                    continue;
                }
            }
            self.message.insert(key.as_ref().to_owned(), value.value());
        }
        let Some(Lent::Object(usage)) = data.get("usage") else { return };
        let sum = self.message.entry("usage").or_insert_with(|| json!({}));
        let Value::Object(sum) = sum else { return };
        for (key, value) in usage.iter().filter(|(_, value)| !value.is_null()) {
            sum.insert(key.as_ref().to_owned(), value.value());
        }
    }
}

impl ContentBlock {
    fn put(&mut self, key: &str, value: Value) {
        if let Some(content) = self.content.as_object_mut() {
            content.insert(key.to_owned(), value);
        }
    }

    /// Appends to a text; answers how many bytes were added.
    fn append(&mut self, key: &str, more: &str) -> usize {
        match self.content.get_mut(key) {
            Some(Value::String(so_far)) => so_far.push_str(more),
            _ => self.put(key, json!(more)),
        }
        more.len()
    }

    /// Whether arguments came at the beginning and again in pieces, and are not the same.
    fn contradicts_itself(&self) -> bool {
        let begun = self.content.get("input").filter(|input| **input != json!({}));
        let begun = begun.filter(|input| !input.is_null() && !self.args.trim().is_empty());
        begun.is_some_and(|begun| {
            serde_json::from_str::<Value>(&self.args).ok().as_ref() != Some(begun)
        })
    }

    fn finished(mut self) -> Value {
        if !self.args.trim().is_empty() {
            let args = std::mem::take(&mut self.args);
            self.put("input", streamed(args));
        }
        self.content
    }
}
