//! Decides which call a piece of a stream belongs to, whatever the server does with its indexes.
//!
//! Servers share one index among calls, count from one, leave the index out, repeat the id or the
//! name in every piece, or make up a new id for each. Two calls are never taken for one; where that
//! cannot be told, the reply is refused.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use toolgate_kernel::event::FaultKind;
use toolgate_runtime::port::{Streamed, Tap};

use super::CALL_EXTRAS;
use crate::dialect::WireFault;
use crate::dialect::shared::{lent_arguments, object};
use crate::lent::Lent;

/// The calls of a stream so far. A stream is bounded by its bytes alone, so no piece may cost a look
/// at all of them, or at all of its arguments.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Open>,
    /// Where the last call stands that has an index, and the last that has an id.
    indexes: BTreeMap<u64, usize>,
    ids: BTreeMap<String, usize>,
    /// What every call may say when it is sent once more, from the first piece that comes late.
    said: Option<Told>,
}

/// How many calls say the same.
#[derive(Debug, Default)]
struct Told(BTreeMap<Said, usize>);

/// An id, a name, and the length and sum of arguments: each as far as a piece has it.
type Said = (String, String, (usize, u64));

#[derive(Debug, Default)]
struct Open {
    id: String,
    name: String,
    args: String,
    extent: Extent,
    extra: Map<String, Value>,
}

/// How far the first value of some arguments goes.
#[derive(Debug, Default)]
struct Extent {
    /// Bytes that were looked at.
    seen: usize,
    sum: DefaultHasher,
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// Whether it is over, and is an object with nothing but blanks behind it.
    whole: Option<bool>,
}

/// The length and the sum of a text: by these, arguments are told apart without a look at all of them.
fn sum(text: &str) -> (usize, u64) {
    let mut sum = DefaultHasher::default();
    // Byte by byte, as an extent grows: pieces need not add up otherwise.
    text.bytes().for_each(|byte| sum.write_u8(byte));
    (text.len(), sum.finish())
}

/// One piece, as it came.
struct Piece<'a> {
    index: Option<u64>,
    id: &'a str,
    name: &'a str,
    args: Cow<'a, str>,
    call: &'a Lent<'a>,
}

impl<'a> Piece<'a> {
    fn read(call: &'a Lent<'a>) -> Self {
        // Some servers leave the function out and have its name beside the id, as `decode.rs` knows.
        let function = call.get("function").filter(|function| !function.is_null()).unwrap_or(call);
        Self {
            index: call.get("index").and_then(Lent::as_u64),
            id: call.text("id").map(str::trim).unwrap_or_default(),
            name: function.text("name").unwrap_or_default(),
            args: lent_arguments(function.get("arguments")),
            call,
        }
    }

    fn is_empty(&self) -> bool {
        let extra =
            CALL_EXTRAS.iter().any(|key| self.call.get(key).is_some_and(|extra| !extra.is_null()));
        self.id.is_empty() && self.name.is_empty() && self.args.is_empty() && !extra
    }
}

/// Where a piece belongs.
enum Place {
    New,
    At(usize),
    Unclear,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes a piece that came before the reply said that it is over, and shows how far its call is.
    pub(super) fn take(&mut self, call: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        let piece = Piece::read(call);
        if piece.is_empty() {
            return Ok(());
        }
        let at = match self.place(&piece) {
            Place::At(at) => at,
            Place::New => {
                let at = self.calls.len();
                self.calls.push(Open::default());
                if let Some(index) = piece.index {
                    self.indexes.insert(index, at);
                }
                at
            }
            Place::Unclear => {
                let reason = "the stream does not say which call a piece belongs to";
                return Err(WireFault::new(FaultKind::MalformedCall, reason));
            }
        };
        let Some(open) = self.calls.get_mut(at) else { return Ok(()) };
        let unnamed = open.id.is_empty();
        if let Some(told) = &mut self.said {
            told.forget(open);
        }
        open.add(piece);
        if let Some(told) = &mut self.said {
            told.add(open);
        }
        tap(Streamed::Call { name: &open.name, bytes: open.args.len() });
        if unnamed && !open.id.is_empty() {
            let last = self.ids.entry(open.id.clone()).or_default();
            *last = at.max(*last);
        }
        Ok(())
    }

    /// Takes a piece that came after it: a call that was sent once more is no other call.
    pub(super) fn take_late(&mut self, call: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        let piece = Piece::read(call);
        let calls = &self.calls;
        let told = self.said.get_or_insert_with(|| {
            let mut told = Told::default();
            calls.iter().for_each(|open| told.add(open));
            told
        });
        let own = (piece.id.to_owned(), piece.name.to_owned(), sum(&piece.args));
        if told.0.contains_key(&own) { Ok(()) } else { self.take(call, tap) }
    }

    fn is_whole(&self, at: usize) -> bool {
        self.calls.get(at).is_some_and(|open| open.extent.whole == Some(true))
    }

    fn place(&self, piece: &Piece<'_>) -> Place {
        let by_index = |index: u64| self.indexes.get(&index).copied();
        let by_id = || self.ids.get(piece.id).copied();
        let alone = || if self.calls.len() == 1 { Place::At(0) } else { Place::Unclear };
        if piece.name.is_empty() {
            // A piece without a name goes on with a call; its id may be made up anew.
            return match (piece.index.and_then(by_index).or_else(by_id), self.calls.len()) {
                (Some(at), _) => Place::At(at),
                (None, 0) => Place::New,
                (None, last) if piece.index.is_none() => Place::At(last - 1),
                // Nothing goes on with a call that is whole: this is another one, without a name.
                (None, last) if !piece.id.is_empty() && self.is_whole(last - 1) => Place::New,
                (None, _) => alone(),
            };
        }
        let at = match piece.index {
            Some(index) => by_index(index),
            // Without an index, only the last call can be the one that goes on.
            None => self.calls.len().checked_sub(1),
        };
        match at.and_then(|at| Some((at, self.calls.get(at)?))) {
            None => Place::New,
            Some((at, open)) => open.goes_on(piece, at),
        }
    }

    /// The calls as they would have come without streaming.
    pub(super) fn body(self) -> Value {
        self.calls.into_iter().map(Open::body).collect()
    }
}

impl Told {
    fn add(&mut self, open: &Open) {
        open.said().into_iter().for_each(|said| *self.0.entry(said).or_default() += 1);
    }

    fn forget(&mut self, open: &Open) {
        for said in open.said() {
            match self.0.get_mut(&said) {
                Some(count) if *count > 1 => *count -= 1,
                Some(_) | None => drop(self.0.remove(&said)),
            }
        }
    }
}

impl Open {
    /// What it may say when it is sent once more: all it has, or less.
    fn said(&self) -> Vec<Said> {
        let args = (self.extent.seen, self.extent.sum.finish());
        let mut said = Vec::new();
        for id in ["", &self.id] {
            for name in ["", &self.name] {
                said.extend([sum(""), args].map(|args| (id.to_owned(), name.to_owned(), args)));
            }
        }
        said
    }

    /// Whether a piece with a name, in the place of this call, goes on with it.
    fn goes_on(&self, piece: &Piece<'_>, at: usize) -> Place {
        let other_id = !piece.id.is_empty() && !self.id.is_empty() && piece.id != self.id;
        let same_id = !piece.id.is_empty() && piece.id == self.id;
        let whole = self.extent.whole == Some(true);
        if other_id {
            return Place::New;
        }
        match (self.name == piece.name || self.name.is_empty(), whole) {
            // A whole call, and then its name again with more arguments: the next one.
            (_, true) if !piece.args.trim().is_empty() => Place::New,
            (true, true) if !same_id && piece.index.is_none() => Place::New,
            (true, _) => Place::At(at),
            (false, true) => Place::New,
            (false, false) => Place::Unclear,
        }
    }

    fn add(&mut self, piece: Piece<'_>) {
        if self.id.is_empty() {
            piece.id.clone_into(&mut self.id);
        }
        // A name is never put together from pieces: some servers repeat it in each.
        if self.name.is_empty() {
            piece.name.clone_into(&mut self.name);
        }
        self.args.push_str(&piece.args);
        self.extent.grow(&self.args);
        for key in CALL_EXTRAS {
            if let Some(value) = piece.call.get(key).filter(|value| !value.is_null()) {
                self.extra.insert((*key).to_owned(), value.value());
            }
        }
    }

    fn body(self) -> Value {
        let function = object([("name", self.name.into()), ("arguments", self.args.into())]);
        let mut call = Map::new();
        call.insert("id".to_owned(), self.id.into());
        call.insert("type".to_owned(), json!("function"));
        call.insert("function".to_owned(), function);
        call.extend(self.extra);
        Value::Object(call)
    }
}

impl Extent {
    /// Looks at what was added to some arguments.
    fn grow(&mut self, args: &str) {
        let bytes = args.as_bytes();
        while let Some(byte) = bytes.get(self.seen).copied() {
            self.seen += 1;
            self.sum.write_u8(byte);
            if self.whole.is_some() {
                self.whole = self.whole.filter(|_| byte.is_ascii_whitespace()).or(Some(false));
                continue;
            }
            match byte {
                _ if std::mem::take(&mut self.escaped) => {}
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                _ if self.in_text => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth <= 1 => {
                    self.whole = Some(is_object(args.get(..self.seen).unwrap_or_default()));
                }
                b'}' | b']' => self.depth -= 1,
                _ => {}
            }
        }
    }
}

/// Whether a text is one whole object, so that nothing can follow in it.
fn is_object(args: &str) -> bool {
    let args = args.trim();
    // This reader does not recurse, so it takes any depth.
    args.starts_with('{') && serde_json::from_str::<IgnoredAny>(args).is_ok()
}
