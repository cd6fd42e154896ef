//! Puts the pieces of streamed chat completions together to one answer.

use serde_json::{Map, Value, json};
use toolgate_kernel::event::FaultKind;
use toolgate_runtime::port::{Streamed, Tap};

use super::calls::CallAssembler;
use super::decode::{Part, call_among_words, ends_well, finish_reason};
use super::piece::{CALLS, Piece, call_list, holds_calls, is_nothing, malformed, old_call_of};
use super::{DETAILS, LATE_WORDS, THOUGHTS};
use crate::dialect::shared::{object, text, whole_index};
use crate::dialect::{Gathering, ReplySize, WireFault};
use crate::lent::Lent;

pub(in crate::dialect) fn gather() -> Box<dyn Gathering> {
    Box::new(Pieces::default())
}

fn unreadable(reason: &str) -> WireFault {
    WireFault::new(FaultKind::Unreadable, reason)
}

#[derive(Default)]
struct Pieces {
    /// The id of the last chunk that has one.
    id: Option<String>,
    /// The choice that counts: the first that came.
    choice: Option<u64>,
    words: String,
    refusal: String,
    /// Thoughts by their key, and thoughts that came as parts of the content.
    thoughts: Map<String, Value>,
    thinking: String,
    details: Vec<Value>,
    calls: CallAssembler,
    old_call: Option<(String, String)>,
    finish: Option<String>,
    /// Whether other words came after the finish.
    late_words: bool,
    fault: Option<Value>,
    usage: Option<Value>,
    closed: bool,
    /// Bytes of thoughts and refusals.
    beside_bytes: usize,
}

impl Gathering for Pieces {
    fn take(&mut self, _: &str, data: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        self.count([data.get("usage"), data.get("x_groq").and_then(|groq| groq.get("usage"))]);
        let choices = match data.get("choices") {
            None | Some(Lent::Null) => &[],
            Some(choices) => {
                choices.list().ok_or_else(|| unreadable("the choices are not a list"))?
            }
        };
        self.calls.begin_event();
        self.check_reply(data, choices)?;
        let mut indexes = Vec::with_capacity(choices.len());
        for choice in choices {
            if !choice.is_object() && !choice.is_null() {
                return Err(unreadable("a choice of the stream is not an object"));
            }
            indexes.push(whole_index(choice.get("index"))?);
        }
        // The first choice counts, wherever it stands in its chunk.
        if let (None, Some(first)) = (self.choice, indexes.iter().min()) {
            self.choice = Some(*first);
        }
        let own = |(index, _): &(&u64, &Lent<'_>)| Some(**index) == self.choice;
        let mut chosen = indexes.iter().zip(choices).filter(own).map(|(_, choice)| choice);
        let first = chosen.next();
        // Of two with the same index, the first counts. Without a piece of a call that is passed over,
        // the rest could mean something else.
        if chosen.any(says_calls) {
            return Err(malformed("a chunk has two choices of one index, and calls in them"));
        }
        first.map_or(Ok(()), |choice| self.choice(choice, tap))
    }

    fn closed(&mut self) {
        self.closed = true;
    }

    fn whole(&self) -> bool {
        self.finish.is_some() || self.closed && self.choice.is_some()
    }

    fn words(&self) -> &str {
        &self.words
    }

    fn counts(&self) -> Option<&Value> {
        self.usage.as_ref()
    }

    fn size(&self) -> ReplySize {
        let old = self.old_call.as_ref().map_or(0, |(name, args)| name.len() + args.len());
        let bytes = self.words.len() + self.beside_bytes + old + self.calls.bytes();
        ReplySize { bytes, calls: self.calls.len() + usize::from(self.old_call.is_some()) }
    }

    fn fault(&self) -> Option<WireFault> {
        if self.calls.is_torn() {
            return Some(malformed("the stream does not say which call a piece belongs to"));
        }
        let reason = "the stream has the same call twice, as if two replies were in it";
        self.calls.is_doubled().then(|| malformed(reason))
    }

    fn body(self: Box<Self>) -> Value {
        let content = match self.thinking.is_empty() {
            true => Value::String(self.words),
            false => json!([
                { "type": "thinking", "thinking": [{ "type": "text", "text": self.thinking }] },
                { "type": "text", "text": self.words },
            ]),
        };
        let mut message = Map::new();
        message.insert("role".to_owned(), json!("assistant"));
        message.insert("content".to_owned(), content);
        if !self.refusal.is_empty() {
            message.insert("refusal".to_owned(), Value::String(self.refusal));
        }
        message.extend(self.thoughts);
        if !self.details.is_empty() {
            message.insert(DETAILS.to_owned(), Value::Array(self.details));
        }
        if !self.calls.is_empty() {
            message.insert("tool_calls".to_owned(), self.calls.body());
        }
        if let Some((name, args)) = self.old_call {
            let call = json!({ "name": name, "arguments": args });
            message.insert("function_call".to_owned(), call);
        }
        let choice = object([
            ("index", json!(0)),
            ("message", Value::Object(message)),
            ("finish_reason", self.finish.into()),
            ("error", self.fault.into()),
            (LATE_WORDS, self.late_words.into()),
        ]);
        object([("choices", Value::Array(vec![choice])), ("usage", self.usage.into())])
    }
}

/// Whether a choice has calls, or pieces of some.
fn says_calls(choice: &Lent<'_>) -> bool {
    let said = ["delta", "message"].into_iter().filter_map(|key| choice.get(key));
    said.flat_map(Lent::fields).any(|(key, value)| holds_calls(key) && !is_nothing(value))
}

impl Pieces {
    fn count(&mut self, found: [Option<&Lent<'_>>; 2]) {
        if let Some(usage) = found.into_iter().flatten().find(|usage| usage.is_object()) {
            self.usage = Some(usage.value());
        }
    }

    /// Two replies in one stream would be merged, and their calls would run twice: a second one has
    /// another id and begins with its role.
    fn check_reply(&mut self, data: &Lent<'_>, choices: &[Lent<'_>]) -> Result<(), WireFault> {
        let begins = choices
            .iter()
            .any(|choice| choice.get("delta").is_some_and(|delta| delta.text("role").is_some()));
        let id = data.text("id");
        let other = id.is_some() && self.id.is_some() && self.id.as_deref() != id;
        if other && begins && (!self.calls.is_empty() || self.old_call.is_some()) {
            return Err(unreadable("a second reply begins in the stream"));
        }
        if other || begins {
            self.calls.begin_section();
        }
        if other || self.id.is_none() {
            self.id = id.map(str::to_owned);
        }
        Ok(())
    }

    fn choice(&mut self, choice: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        if let Some(fault) = choice.get("error").filter(|error| !error.is_null()) {
            self.fault = Some(fault.value());
        }
        self.count([choice.get("usage"), None]);
        // An empty list is how PHP writes an empty object.
        let empty = |delta: &Lent<'_>| delta.is_null() || delta.list().is_some_and(<[_]>::is_empty);
        let delta = choice.get("delta").filter(|delta| !empty(delta));
        // A few servers end with the whole message; it counts when nothing came before it.
        let mut message = choice.get("message").filter(|message| !message.is_null());
        let first = if delta.is_none() && self.is_fresh() { message.take() } else { delta };
        if let Some(delta) = first {
            self.delta(delta, tap)?;
        }
        if let Some(reason) = choice.get("finish_reason")
            && let Some(reason) = finish_reason(reason.is_null(), reason.as_str())?
        {
            self.finished(reason);
        }
        message.map_or(Ok(()), |message| self.check_repeated(message, tap))
    }

    fn is_fresh(&self) -> bool {
        let called = !self.calls.is_empty() || self.old_call.is_some();
        self.words.is_empty() && !called && self.finish.is_none()
    }

    /// Checks a message that came beside the deltas: its calls must be those that came in pieces.
    fn check_repeated(&mut self, message: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        if !message.is_object() {
            return Err(unreadable("a message of the stream is not an object"));
        }
        for call in call_list(message)? {
            if Piece::read(call)?.is_empty() {
                continue;
            }
            if self.finish.is_none() || self.calls.has_half_a_call() {
                return Err(malformed("the stream has calls in a message amid its pieces"));
            }
            self.calls.take_late(call)?;
        }
        match old_call_of(message)? {
            Some(_) if self.finish.is_none() => {
                Err(malformed("the stream has calls in a message amid its pieces"))
            }
            Some(call) => self.old_call(call, tap),
            None => Ok(()),
        }
    }

    /// A reply may say twice why it stopped. A reason that forbids its calls is kept.
    fn finished(&mut self, reason: &str) {
        match &self.finish {
            Some(before) if !ends_well(before) || ends_well(reason) => {}
            _ => self.finish = Some(reason.to_owned()),
        }
    }

    fn delta(&mut self, delta: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        if !delta.is_object() {
            return Err(unreadable("a delta of the stream is not an object"));
        }
        let mut elsewhere = delta.fields().iter().filter(|(key, _)| !CALLS.contains(&key.as_ref()));
        if elsewhere.any(|(key, value)| holds_calls(key) && !is_nothing(value)) {
            return Err(malformed("the stream has a piece of a call under an unknown key"));
        }
        if delta.get("refusal").is_some_and(|it| !it.is_null() && it.as_str().is_none()) {
            return Err(unreadable("the refusal of a reply is not text"));
        }
        for key in THOUGHTS {
            if let Some(thought) = delta.get(key).and_then(Lent::as_str) {
                self.beside_bytes += thought.len();
                if !thought.is_empty() {
                    tap(Streamed::Thought(thought));
                }
                match self.thoughts.get_mut(*key) {
                    Some(Value::String(before)) => before.push_str(thought),
                    _ => drop(self.thoughts.insert((*key).to_owned(), json!(thought))),
                }
            }
        }
        if let Some(details) = delta.get(DETAILS).and_then(Lent::list) {
            for detail in details {
                let detail = detail.value();
                self.beside_bytes += detail.to_string().len();
                add_detail(&mut self.details, detail);
            }
        }
        match delta.get("content") {
            Some(Lent::Text(words)) => self.say(words, tap),
            Some(Lent::List(parts)) => {
                for part in parts {
                    self.part(part, tap)?;
                }
            }
            _ => {}
        }
        if let Some(refusal) = delta.text("refusal") {
            self.refuse(refusal);
            tap(Streamed::Text(refusal));
        }
        for call in call_list(delta)? {
            match self.finish {
                None => self.calls.take(call, tap)?,
                Some(_) => self.calls.take_late(call)?,
            }
        }
        old_call_of(delta)?.map_or(Ok(()), |call| self.old_call(call, tap))
    }

    /// Takes a piece of the one call that servers of the older form send.
    fn old_call(&mut self, call: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        let Piece { name: own, args: more, is_object, .. } = Piece::read(call)?;
        let (name, args) = self.old_call.get_or_insert_default();
        if is_object && self.finish.is_none() && !args.trim().is_empty() {
            return Err(malformed("the arguments of a call are an object, and there are others"));
        }
        if self.finish.is_some() {
            let repeated = (own.is_empty() || own == name) && (more.is_empty() || more == *args);
            return match repeated && !name.is_empty() {
                true => Ok(()),
                false => Err(malformed("the stream goes on with a call after the reply has ended")),
            };
        }
        if name.is_empty() {
            own.clone_into(name);
        } else if !own.is_empty() && own != name {
            return Err(malformed("the stream has two calls where there is room for one"));
        }
        args.push_str(&more);
        tap(Streamed::Call { name, bytes: args.len() });
        Ok(())
    }

    fn refuse(&mut self, refusal: &str) {
        self.beside_bytes += refusal.len();
        self.refusal.push_str(refusal);
    }

    fn say(&mut self, words: &str, tap: Tap<'_>) {
        // After its end, the whole text once more is no new text.
        let again = self.finish.is_some() && words == self.words;
        if !words.is_empty() && !again {
            self.late_words |= self.finish.is_some();
            self.words.push_str(words);
            tap(Streamed::Text(words));
        }
    }

    fn part(&mut self, part: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        match Part::of(part.text("type")) {
            Part::Thought => {
                let pieces = part.get("thinking").and_then(Lent::list);
                for piece in pieces.into_iter().flatten().filter_map(|piece| piece.text("text")) {
                    self.beside_bytes += piece.len();
                    self.thinking.push_str(piece);
                    tap(Streamed::Thought(piece));
                }
            }
            Part::Refusal => self.refuse(part.text("refusal").unwrap_or_default()),
            Part::Words => self.say(part.as_str().or(part.text("text")).unwrap_or_default(), tap),
            Part::Call => return Err(call_among_words()),
            Part::Other => {}
        }
        Ok(())
    }
}

/// Puts a piece of the thoughts to the part it goes on with: the last one, of its kind and index.
fn add_detail(details: &mut Vec<Value>, piece: Value) {
    let same = |key: &str, last: &Value| last.get(key) == piece.get(key);
    let sealed = text(&piece, "type") == Some("reasoning.encrypted");
    let goes_on = |last: &&mut Value| !sealed && same("type", last) && same("index", last);
    let (Some(last), Some(piece)) = (details.last_mut().filter(goes_on), piece.as_object()) else {
        details.push(piece);
        return;
    };
    for (key, value) in piece.iter().filter(|(_, value)| !value.is_null()) {
        match (last.get_mut(key), value) {
            (Some(Value::String(before)), Value::String(more))
                if matches!(key.as_str(), "text" | "summary") =>
            {
                before.push_str(more);
            }
            (Some(before), value) => *before = value.clone(),
            (None, value) => {
                if let Some(last) = last.as_object_mut() {
                    last.insert(key.clone(), value.clone());
                }
            }
        }
    }
}
