//! Decides which call a piece of a stream belongs to, whatever the server does with its indexes.
//!
//! Servers share one index among calls, count from one, leave the index out, repeat the id or the
//! name in every piece, or make up a new id for each. Two calls are never taken for one; where that
//! cannot be told, the reply is refused.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use toolgate_kernel::event::FaultKind;

use super::CALL_EXTRAS;
use crate::dialect::WireFault;
use crate::dialect::shared::{lent_arguments, object};
use crate::lent::Lent;

/// The calls of a stream so far.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Open>);

#[derive(Debug, Default)]
struct Open {
    index: Option<u64>,
    id: String,
    name: String,
    args: String,
    extra: Map<String, Value>,
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
        let function = call.get("function").unwrap_or(&Lent::Null);
        Self {
            index: call.get("index").and_then(Lent::as_u64),
            id: call.text("id").map(str::trim).unwrap_or_default(),
            name: function.text("name").unwrap_or_default(),
            args: lent_arguments(function.get("arguments")),
            call,
        }
    }

    fn is_empty(&self) -> bool {
        let extra = CALL_EXTRAS.iter().any(|key| self.call.get(key).is_some());
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
        self.0.is_empty()
    }

    /// Takes a piece that came before the reply said that it is over.
    pub(super) fn take(&mut self, call: &Lent<'_>) -> Result<(), WireFault> {
        let piece = Piece::read(call);
        if piece.is_empty() {
            return Ok(());
        }
        let at = match self.place(&piece) {
            Place::At(at) => at,
            Place::New => {
                self.0.push(Open { index: piece.index, ..Open::default() });
                self.0.len() - 1
            }
            Place::Unclear => {
                let reason = "the stream does not say which call a piece belongs to";
                return Err(WireFault::new(FaultKind::MalformedCall, reason));
            }
        };
        if let Some(open) = self.0.get_mut(at) {
            open.add(piece);
        }
        Ok(())
    }

    /// Takes a piece that came after it: a call that was sent once more is no other call.
    pub(super) fn take_late(&mut self, call: &Lent<'_>) -> Result<(), WireFault> {
        let piece = Piece::read(call);
        let again = |open: &Open| {
            (piece.id.is_empty() || open.id == piece.id)
                && (piece.name.is_empty() || open.name == piece.name)
                && (piece.args.is_empty() || open.args == piece.args)
        };
        if self.0.iter().any(again) { Ok(()) } else { self.take(call) }
    }

    fn place(&self, piece: &Piece<'_>) -> Place {
        let by_index = |index: u64| self.0.iter().rposition(|open| open.index == Some(index));
        let by_id = || self.0.iter().rposition(|open| !piece.id.is_empty() && open.id == piece.id);
        let alone = || if self.0.len() == 1 { Place::At(0) } else { Place::Unclear };
        if piece.name.is_empty() {
            // A piece without a name goes on with a call; its id may be made up anew.
            return match (piece.index.and_then(by_index).or_else(by_id), self.0.len()) {
                (Some(at), _) => Place::At(at),
                (None, 0) => Place::New,
                (None, last) if piece.index.is_none() => Place::At(last - 1),
                (None, _) => alone(),
            };
        }
        let at = match piece.index {
            Some(index) => by_index(index),
            // Without an index, only the last call can be the one that goes on.
            None => self.0.len().checked_sub(1),
        };
        match at.and_then(|at| Some((at, self.0.get(at)?))) {
            None => Place::New,
            Some((at, open)) => open.goes_on(piece, at),
        }
    }

    /// The calls as they would have come without streaming.
    pub(super) fn body(self) -> Value {
        self.0.into_iter().map(Open::body).collect()
    }
}

impl Open {
    /// Whether a piece with a name, in the place of this call, goes on with it.
    fn goes_on(&self, piece: &Piece<'_>, at: usize) -> Place {
        let other_id = !piece.id.is_empty() && !self.id.is_empty() && piece.id != self.id;
        let same_id = !piece.id.is_empty() && piece.id == self.id;
        let whole = is_object(&self.args);
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

/// Whether a text is one whole object, so that nothing can follow in it.
fn is_object(args: &str) -> bool {
    let args = args.trim();
    // This reader does not recurse, so it takes any depth.
    args.starts_with('{') && serde_json::from_str::<IgnoredAny>(args).is_ok()
}
