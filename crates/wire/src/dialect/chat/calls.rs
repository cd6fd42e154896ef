//! Assigns the pieces of a stream to calls, whatever the server does with its indexes.
//!
//! Servers share one index among calls, count from one, leave the index out, repeat the id or the
//! name in every piece, or make up a new id for each. Two calls are never merged: where a piece
//! could belong to more than one call, the reply is a fault.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};

use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use toolgate_runtime::port::{Streamed, Tap};

use super::CALL_EXTRAS;
use super::piece::{Piece, malformed};
use crate::dialect::WireFault;
use crate::dialect::shared::{comparable, grows, object};
use crate::lent::Lent;

/// The calls of a stream so far. No piece may cost a look at all of them, or at all of its
/// arguments: a server decides how many pieces there are.
#[derive(Debug, Default)]
pub(super) struct CallAssembler {
    calls: Vec<PartialCall>,
    /// Calls whose arguments are not a whole object yet.
    open: BTreeSet<usize>,
    by_index: BTreeMap<u64, CallGroup>,
    by_id: BTreeMap<String, CallGroup>,
    /// What a repeated call may say, built when the first piece comes after the finish.
    repeats: Option<BTreeSet<CallSummary>>,
    /// Bytes of all names and arguments.
    bytes: usize,
    /// How often a second reply may have begun so far.
    section: usize,
    /// How many events have come.
    event: usize,
    /// Calls that were not whole when another one began in their place.
    interrupted: BTreeSet<usize>,
}

/// The calls that share an index or an id.
#[derive(Debug, Default)]
struct CallGroup {
    open: BTreeSet<usize>,
    last: usize,
}

impl CallGroup {
    fn add(&mut self, at: usize, open: bool) {
        self.last = at;
        if open {
            self.open.insert(at);
        }
    }
}

/// An id, a name, and length and hash of arguments; each may be left out.
type CallSummary = (String, String, (usize, u64));

#[derive(Debug, Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    args: String,
    extent: JsonExtent,
    /// The section of the stream in which it began.
    section: usize,
    /// The event in which it began.
    event: usize,
    extra: Map<String, Value>,
}

/// Where a piece belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    New,
    /// A new call, unless the id was made up for a piece of this one.
    Beside(usize),
    At(usize),
    Ambiguous,
}

impl CallAssembler {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Bytes of all names and arguments so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the arguments of some call have begun and are not whole.
    pub(super) fn has_half_a_call(&self) -> bool {
        let half =
            |at: &usize| self.calls.get(*at).is_some_and(|call| !call.args.trim().is_empty());
        self.open.iter().any(half)
    }

    /// Whether a call was interrupted by another one and never finished. Some servers make up an id
    /// for every piece, and then the other one may be a piece of it.
    pub(super) fn is_torn(&self) -> bool {
        // A text with an object in it is whole too, and is never closed like an object.
        let unfinished =
            |call: &PartialCall| serde_json::from_str::<IgnoredAny>(&call.args).is_err();
        let open = self.interrupted.intersection(&self.open);
        open.filter_map(|at| self.calls.get(*at)).any(unfinished)
    }

    /// What follows comes in another event.
    pub(super) fn begin_event(&mut self) {
        self.event += 1;
    }

    /// What follows may be of a second reply: some servers make up an id for every chunk, or repeat
    /// the role in each, so that this alone is no fault.
    pub(super) fn begin_section(&mut self) {
        self.section += usize::from(!self.calls.is_empty());
    }

    /// Whether a call came once more in a later section, under another id. A second reply counts its
    /// calls from the beginning; a higher index is another call of the same reply.
    pub(super) fn is_doubled(&self) -> bool {
        let mut first: BTreeMap<(&str, Vec<u8>), &PartialCall> = BTreeMap::new();
        self.section > 0
            && self.calls.iter().any(|call| {
                let same = (call.name.as_str(), comparable(&call.args));
                let before = *first.entry(same).or_insert(call);
                let restarted = call.index.unwrap_or(0) <= before.index.unwrap_or(u64::MAX);
                before.section < call.section && restarted
            })
    }

    /// Takes a piece that came before the reply said that it is over, and shows how far its call is.
    pub(super) fn take(&mut self, call: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        let piece = Piece::read(call)?;
        if piece.is_empty() {
            return Ok(());
        }
        let at = match self.place(&piece) {
            Place::At(at) => at,
            place @ (Place::New | Place::Beside(_)) => {
                if let Place::Beside(before) = place {
                    self.interrupted.insert(before);
                }
                let (section, event) = (self.section, self.event);
                self.calls.push(PartialCall { section, event, ..PartialCall::default() });
                self.calls.len() - 1
            }
            Place::Ambiguous => {
                return Err(malformed("the stream does not say which call a piece belongs to"));
            }
        };
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        if piece.is_object && !call.args.trim().is_empty() {
            return Err(malformed("the arguments of a call are an object, and there are others"));
        }
        let (index, id) = (call.index, call.id.is_empty());
        self.bytes += call.add(piece);
        tap(Streamed::Call { name: &call.name, bytes: call.args.len() });
        let open = !call.is_whole();
        if index.is_none()
            && let Some(index) = call.index
        {
            self.by_index.entry(index).or_default().add(at, open);
        }
        if id && !call.id.is_empty() {
            self.by_id.entry(call.id.clone()).or_default().add(at, open);
        }
        self.set_open(at, open);
        Ok(())
    }

    /// Keeps the sets of open calls in step with a call that changed.
    fn set_open(&mut self, at: usize, open: bool) {
        if open {
            self.open.insert(at);
            return;
        }
        if !self.open.remove(&at) {
            return;
        }
        let Some(call) = self.calls.get(at) else { return };
        let by_index = call.index.and_then(|index| self.by_index.get_mut(&index));
        for group in by_index.into_iter().chain(self.by_id.get_mut(&call.id)) {
            group.open.remove(&at);
        }
    }

    /// Takes a piece that came after the finish. Only a call that was sent once more is tolerated.
    pub(super) fn take_late(&mut self, call: &Lent<'_>) -> Result<(), WireFault> {
        let piece = Piece::read(call)?;
        let calls = &self.calls;
        let repeats = self.repeats.get_or_insert_with(|| {
            calls.iter().flat_map(PartialCall::summaries).collect::<BTreeSet<_>>()
        });
        let own = (piece.id.to_owned(), piece.name.to_owned(), sum(&piece.args));
        match piece.is_empty() || repeats.contains(&own) {
            true => Ok(()),
            false => Err(malformed("the stream goes on with calls after the reply has ended")),
        }
    }

    fn place(&self, piece: &Piece<'_>) -> Place {
        let known_id = self.by_id.get(piece.id).filter(|_| !piece.id.is_empty());
        match (piece.index.map(|index| self.by_index.get(&index)), known_id) {
            (Some(Some(index)), Some(id)) => self.place_by_both(piece, index, id),
            // The id is missing, new or made up for this piece: the index decides.
            (Some(Some(index)), None) => self.place_in(piece, index),
            (Some(None), Some(id)) => self.place_under_new_index(piece, id),
            (Some(None), None) if !piece.name.is_empty() || self.is_empty() => Place::New,
            (Some(None), None) => self.place_unknown(piece, |call| call.index.is_none()),
            (None, Some(id)) => self.place_in(piece, id),
            (None, None) if piece.name.is_empty() && self.is_empty() => Place::New,
            (None, None) if piece.name.is_empty() => self.place_unknown(piece, |_| true),
            (None, None) => self.place_by_name(piece),
        }
    }

    /// Index and id are both known: they must mean the same call.
    fn place_by_both(&self, piece: &Piece<'_>, index: &CallGroup, id: &CallGroup) -> Place {
        let mut both = index.open.intersection(&id.open);
        match (both.next(), both.next()) {
            (Some(at), None) => self.goes_on(*at, piece),
            (Some(_), Some(_)) => Place::Ambiguous,
            (None, _) => {
                let of_last = |at: usize| {
                    let call = self.calls.get(at)?;
                    (call.id == piece.id && call.index == piece.index).then_some(at)
                };
                match of_last(index.last).or_else(|| of_last(id.last)) {
                    // The next call has begun under this index, so the stream goes back.
                    Some(_) if !index.open.is_empty() => Place::Ambiguous,
                    Some(at) => self.after_whole(at, piece),
                    None => Place::Ambiguous,
                }
            }
        }
    }

    /// The piece names one group of calls: its only open call goes on, or a new call begins.
    fn place_in(&self, piece: &Piece<'_>, group: &CallGroup) -> Place {
        let mut open = group.open.iter();
        match (open.next(), open.next()) {
            (Some(at), None) => self.goes_on(*at, piece),
            // A new id and a name under an index that is shared: the next call.
            (Some(_), Some(_)) if self.begins_by_id(piece) => Place::New,
            (Some(_), Some(_)) => Place::Ambiguous,
            (None, _) => self.after_whole(group.last, piece),
        }
    }

    fn begins_by_id(&self, piece: &Piece<'_>) -> bool {
        let is_new = !piece.id.is_empty() && !self.by_id.contains_key(piece.id);
        is_new && !piece.name.is_empty()
    }

    /// The id is known and the index is not: another call may have the same id, if the known ones
    /// are whole.
    fn place_under_new_index(&self, piece: &Piece<'_>, id: &CallGroup) -> Place {
        let mut open = id.open.iter();
        match (open.next(), open.next()) {
            (Some(at), None) if self.calls.get(*at).is_some_and(|call| call.index.is_none()) => {
                self.goes_on(*at, piece)
            }
            (Some(_), _) => Place::Ambiguous,
            (None, _) if !piece.name.is_empty() => Place::New,
            (None, _) if piece.is_blank() => Place::At(id.last),
            (None, _) => Place::Ambiguous,
        }
    }

    /// Nothing that the piece says is known, and it has no name: it continues the one open call.
    fn place_unknown(&self, piece: &Piece<'_>, fits: impl Fn(&PartialCall) -> bool) -> Place {
        let mut open = self.open.iter();
        match (open.next(), open.next()) {
            (Some(at), None) if self.calls.get(*at).is_some_and(fits) => Place::At(*at),
            (Some(_), _) => Place::Ambiguous,
            // All are whole. Blanks and signatures may follow the last one.
            (None, _) if piece.is_blank() && piece.index.is_none() => {
                Place::At(self.calls.len() - 1)
            }
            // A call without a name is answered as an unknown tool.
            (None, _) if !piece.id.is_empty() => Place::New,
            (None, _) => Place::Ambiguous,
        }
    }

    /// A name without an index, and with a new id or none.
    fn place_by_name(&self, piece: &Piece<'_>) -> Place {
        let mut open = self.open.iter();
        match (open.next(), open.next()) {
            // Without an id, the same call again could be the last one, sent twice.
            (None, _) if !piece.id.is_empty() || self.is_empty() => Place::New,
            (None, _) => match self.after_whole(self.calls.len() - 1, piece) {
                Place::At(_) => Place::New,
                place @ (Place::New | Place::Beside(_) | Place::Ambiguous) => place,
            },
            (Some(at), None) => self.goes_on(*at, piece),
            (Some(_), Some(_)) if !piece.id.is_empty() => Place::New,
            (Some(_), Some(_)) => Place::Ambiguous,
        }
    }

    /// Whether a piece continues an open call.
    fn goes_on(&self, at: usize, piece: &Piece<'_>) -> Place {
        let Some(call) = self.calls.get(at) else { return Place::Ambiguous };
        if piece.name.is_empty() {
            return Place::At(at);
        }
        let other_id = !piece.id.is_empty() && !call.id.is_empty() && piece.id != call.id;
        let late_id = !piece.id.is_empty() && call.id.is_empty() && call.args.trim().is_empty();
        if other_id {
            let begun = !call.args.trim().is_empty();
            return if begun { Place::Beside(at) } else { Place::New };
        }
        match call.name == piece.name || call.name.is_empty() {
            // A call without arguments and then a new one, or one call whose id comes late.
            true if late_id && piece.index.is_none() => Place::Ambiguous,
            true => Place::At(at),
            false => Place::Ambiguous,
        }
    }

    /// Where a piece belongs that points to a call which is whole.
    fn after_whole(&self, at: usize, piece: &Piece<'_>) -> Place {
        let Some(call) = self.calls.get(at) else { return Place::Ambiguous };
        let same_id = !piece.id.is_empty() && piece.id == call.id;
        let other_id = !piece.id.is_empty() && !call.id.is_empty() && !same_id;
        match (piece.name.is_empty(), piece.is_blank()) {
            // A name that comes behind the arguments belongs to them.
            (false, blank) if call.name.is_empty() && !other_id => {
                if blank {
                    Place::At(at)
                } else {
                    Place::Ambiguous
                }
            }
            (true, true) => Place::At(at),
            (true, false) => Place::Ambiguous,
            (false, true) if other_id || call.name != piece.name => Place::New,
            (false, true) if same_id || piece.index.is_some() => Place::At(at),
            (false, true) => Place::New,
            (false, false) if call.name != piece.name || other_id => Place::New,
            // The same call sent twice or as it grew, or another one: running both could do harm.
            (false, false) if same_id && piece.index == call.index => Place::Ambiguous,
            (false, false) if is_same_value(&call.args, &piece.args) => Place::Ambiguous,
            (false, false) if self.may_have_grown(call, piece) => Place::Ambiguous,
            (false, false) => Place::New,
        }
    }

    /// Whether a piece without an id could be a whole call once more, as it grew. Calls that come
    /// together are two.
    fn may_have_grown(&self, call: &PartialCall, piece: &Piece<'_>) -> bool {
        piece.id.is_empty() && call.event < self.event && is_grown(&call.args, &piece.args)
    }

    /// The calls as they would have come without streaming.
    pub(super) fn body(self) -> Value {
        self.calls.into_iter().map(PartialCall::body).collect()
    }
}

impl PartialCall {
    fn is_whole(&self) -> bool {
        self.extent.whole == Some(true)
    }

    /// What it may say when it is sent once more: all it has, or less.
    fn summaries(&self) -> Vec<CallSummary> {
        let mut summaries = Vec::new();
        for id in ["", &self.id] {
            for name in ["", &self.name] {
                let args = [sum(""), sum(&self.args)];
                summaries.extend(args.map(|args| (id.to_owned(), name.to_owned(), args)));
            }
        }
        summaries
    }

    /// Adds a piece; answers how many bytes of name and arguments it brought.
    fn add(&mut self, piece: Piece<'_>) -> usize {
        self.index = self.index.or(piece.index);
        if self.id.is_empty() {
            piece.id.clone_into(&mut self.id);
        }
        let before = self.name.len() + self.args.len();
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
        self.name.len() + self.args.len() - before
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

/// Whether two arguments are the same value, however they are written.
fn is_same_value(left: &str, right: &str) -> bool {
    let value = |text: &str| serde_json::from_str::<Value>(text).ok();
    left == right || value(left).is_some_and(|left| value(right) == Some(left))
}

/// Whether arguments have all of others and more.
fn is_grown(before: &str, after: &str) -> bool {
    let value = |text: &str| serde_json::from_str::<Value>(text).ok();
    value(before).zip(value(after)).is_some_and(|(before, after)| grows(&before, &after))
}

/// Length and hash of a text: arguments are compared by these.
fn sum(text: &str) -> (usize, u64) {
    let mut hasher = DefaultHasher::default();
    hasher.write(text.as_bytes());
    (text.len(), hasher.finish())
}

/// How far the first JSON value of some arguments goes.
#[derive(Debug, Default)]
struct JsonExtent {
    /// Bytes that were looked at.
    seen: usize,
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// Whether it is over, and is an object with nothing but blanks behind it.
    whole: Option<bool>,
}

impl JsonExtent {
    /// Looks at what was added to some arguments.
    fn grow(&mut self, args: &str) {
        let bytes = args.as_bytes();
        while let Some(byte) = bytes.get(self.seen).copied() {
            self.seen += 1;
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
