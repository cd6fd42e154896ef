//! Assigns the pieces of a streamed response to its items, whatever the server leaves out.
//!
//! Servers leave the place out, give all items the same one, or make up an id for every event. What
//! one item says never becomes a part of another; where that cannot be told, the reply is refused,
//! unless its last event says it whole.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use toolgate_kernel::event::FaultKind;

use crate::dialect::WireFault;
use crate::dialect::shared::{arguments, comparable, field, text};
use crate::lent::Lent;

/// The items of a response so far, in the order in which they came.
#[derive(Default)]
pub(super) struct Items {
    items: Vec<Item>,
    /// Where the item of a place stands; nothing where several have it.
    places: BTreeMap<u64, Option<usize>>,
    /// Where the item of an id stands, its own or that of its call; nothing where several have it.
    ids: BTreeMap<String, Option<usize>>,
    /// Where the items stand that are not done, by their kind.
    open: BTreeMap<String, BTreeSet<usize>>,
    /// Why the items cannot be told apart.
    spoilt: Option<&'static str>,
    /// How many items are calls.
    calls: usize,
    /// Calls that are done: their place, name and arguments, and where they stand.
    done_calls: BTreeMap<(Option<u64>, String, Vec<u8>), usize>,
}

/// One item, and what came since it was added.
#[derive(Default)]
pub(super) struct Item {
    item: Value,
    /// As it was added.
    begun: Value,
    place: Option<u64>,
    done: bool,
    pub(super) words: String,
    pub(super) refusal: String,
    pub(super) args: String,
    /// Whether an event said that the arguments are whole.
    pub(super) args_done: bool,
    /// Bytes that were counted when it began.
    counted: usize,
}

/// What an event says of the item that it belongs to.
struct Signs<'a> {
    place: Option<u64>,
    ids: Vec<&'a str>,
}

const UNCLEAR: &str = "the stream does not say which item a piece belongs to";

const NO_TYPE: &str = "an item of the stream does not say what it is";

/// What becomes of a piece of an item that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LatePiece {
    /// It repeats what the item says.
    Ignored,
    /// It would change what the item says.
    Refused,
}

impl Items {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.spoilt.is_none()
    }

    /// The response can be known only from its last event.
    pub(super) fn spoil(&mut self, reason: &'static str) {
        self.spoilt.get_or_insert(reason);
    }

    /// Whether an event says the place of an item in a way that could mean any.
    pub(super) fn check_place(&mut self, data: &Lent<'_>) {
        let written = data.get("output_index").filter(|place| !place.is_null());
        if written.is_some_and(|place| place.as_u64().is_none()) {
            self.spoil(UNCLEAR);
        }
    }

    /// Whether an event is about a call that is not done.
    pub(super) fn is_of_a_call(&self, data: &Lent<'_>) -> bool {
        let signs = Signs::of(data);
        let told = signs.place.is_some() || !signs.ids.is_empty();
        let at = if told { self.find("function_call", &signs) } else { None };
        at.and_then(|at| self.items.get(at)).is_some_and(|item| item.is_call() && !item.done)
    }

    /// Whether the whole output has other calls than these, where there are any. Ids, their order and
    /// how arguments are written may differ.
    pub(super) fn has_other_calls(&self, output: &[Value]) -> bool {
        let key = |item: &Value, args: &str| {
            (text(item, "name").unwrap_or_default().to_owned(), comparable(args))
        };
        let mut own: Vec<_> = (self.items.iter().filter(|item| item.is_call()))
            .map(|call| key(&call.item, &call.args_now()))
            .collect();
        let calls = output.iter().filter(|item| text(item, "type") == Some("function_call"));
        let mut told: Vec<_> =
            calls.map(|call| key(call, &arguments(call.get("arguments")))).collect();
        own.sort_unstable();
        told.sort_unstable();
        !own.is_empty() && own != told
    }

    /// How many items are calls.
    pub(super) fn calls(&self) -> usize {
        self.calls
    }

    /// The call that a piece belongs to.
    pub(super) fn call(&mut self, data: &Lent<'_>, late: LatePiece) -> Option<&mut Item> {
        let at = self.find("function_call", &Signs::of(data));
        self.at(at, late)
    }

    /// The message that a piece belongs to. One that was not begun begins with its words.
    pub(super) fn message(&mut self, data: &Lent<'_>) -> Option<&mut Item> {
        let signs = Signs::of(data);
        let unknown = match signs.place {
            Some(place) => !self.places.contains_key(&place),
            None => self.open.get("message").is_none_or(BTreeSet::is_empty),
        };
        let unknown = unknown && !signs.ids.iter().any(|id| self.ids.contains_key(*id));
        let at = match self.find("message", &signs) {
            None if unknown => {
                let item = json!({ "type": "message", "role": "assistant", "content": [] });
                Some(self.push(item, &signs))
            }
            found => found,
        };
        self.at(at, LatePiece::Refused)
    }

    fn at(&mut self, at: Option<usize>, late: LatePiece) -> Option<&mut Item> {
        let Some(at) = at else {
            self.spoil(UNCLEAR);
            return None;
        };
        if late == LatePiece::Refused && self.items.get(at).is_some_and(|item| item.done) {
            self.spoil("the stream goes on with an item that was done");
        }
        self.items.get_mut(at).filter(|item| !item.done)
    }

    /// Where the item stands that signs point to; where there are none, the one that is open alone.
    fn find(&self, kind: &str, signs: &Signs<'_>) -> Option<usize> {
        let by_place = signs.place.and_then(|place| self.places.get(&place).copied());
        let mut by_id = None;
        for at in signs.ids.iter().filter_map(|id| self.ids.get(*id).copied().flatten()) {
            if by_id.replace(at).is_some_and(|before| before != at) {
                return None;
            }
        }
        match (by_place, by_id) {
            (Some(Some(place)), Some(id)) => (place == id).then_some(id),
            // Several have that place, or it is none that was told; the id is what is left.
            (Some(None) | None, Some(id)) => {
                let own = self.items.get(id)?.place;
                let other = by_place.is_none() && own.is_some() && signs.place.is_some();
                (!other).then_some(id)
            }
            // An id that nobody has: some servers make one up for every event.
            (Some(place), None) => place,
            (None, None) if signs.place.is_some() || !signs.ids.is_empty() => None,
            (None, None) => self.open.get(kind).filter(|open| open.len() == 1)?.first().copied(),
        }
    }

    /// Takes an item that begins; answers how many bytes it has.
    pub(super) fn add(&mut self, data: &Lent<'_>) -> usize {
        let Some(item) = data.get("item").filter(|item| item.is_object()) else {
            self.spoil("the stream has an item that is no object");
            return 0;
        };
        if item.text("type").is_none() {
            self.spoil(NO_TYPE);
            return 0;
        }
        let (signs, value) = (Signs { place: place(data), ids: ids(item) }, item.value());
        // The same event once more begins nothing.
        let mut known = signs.ids.iter().filter_map(|id| self.ids.get(*id).copied().flatten());
        let same = |at: usize| {
            self.items
                .get(at)
                .is_some_and(|begun| begun.place == signs.place && begun.begun == value)
        };
        if known.any(same) {
            return 0;
        }
        let bytes = value.to_string().len();
        let at = self.push(value, &signs);
        if let Some(begun) = self.items.get_mut(at) {
            begun.counted = bytes;
        }
        bytes
    }

    /// Takes an item that is whole; answers how many bytes it has that were not counted before.
    pub(super) fn finish(&mut self, data: &Lent<'_>) -> usize {
        let Some(item) = data.get("item").filter(|item| item.is_object()) else {
            self.spoil("the stream has an item that is no object");
            return 0;
        };
        let signs = Signs { place: place(data), ids: ids(item) };
        let Some(kind) = item.text("type") else {
            self.spoil(NO_TYPE);
            return 0;
        };
        let known = |at: &usize| {
            // An item of another kind, or another call, is not the one that was begun.
            let begun = self.items.get(*at).map(|begun| &begun.item);
            let same = |key: &str| match (begun.and_then(|b| text(b, key)), item.text(key)) {
                (Some(begun), Some(done)) => begun == done,
                (None, _) | (_, None) => true,
            };
            same("type") && same("call_id") && same("name")
        };
        let at = match self.find(kind, &signs).filter(known) {
            Some(at) => at,
            // Whether it is one of those that were begun, nobody can tell.
            None if self.open.get(kind).is_some_and(|open| !open.is_empty()) => {
                self.spoil(UNCLEAR);
                return 0;
            }
            None => self.push(item.value(), &signs),
        };
        let args = arguments(item.get("arguments").map(Lent::value).as_ref());
        let pieces = self.items.get(at).map(|begun| begun.args.as_str()).unwrap_or_default();
        if kind == "function_call" && !pieces.is_empty() && pieces != args {
            self.spoil("the arguments of a call are not what its pieces said");
        }
        if kind == "function_call" {
            self.check_done_call(at, signs.place, item, &args);
        }
        let Some(begun) = self.items.get_mut(at).filter(|begun| !begun.done) else { return 0 };
        (begun.item, begun.done) = (item.value(), true);
        if let Some(open) = self.open.get_mut(text(&begun.begun, "type").unwrap_or_default()) {
            open.remove(&at);
        }
        let streamed = begun.words.len() + begun.refusal.len() + begun.args.len();
        let streamed = streamed + begun.counted;
        begun.item.to_string().len().saturating_sub(streamed)
    }

    /// Checks a call that is done against those that were done before it.
    fn check_done_call(&mut self, at: usize, place: Option<u64>, item: &Lent<'_>, args: &str) {
        let before = self.items.get(at).filter(|before| before.done).map(|before| &before.item);
        let same = |key: &str| {
            let done = item.get(key).map(Lent::value).filter(|value| !value.is_null());
            before.is_none_or(|before| field(before, key) == done.as_ref())
        };
        if !["name", "call_id", "arguments", "status"].into_iter().all(same) {
            return self.spoil("an item was done twice, and is not the same");
        }
        // Under other ids: sent twice, or meant to run twice.
        let name = item.text("name").unwrap_or_default().to_owned();
        let first = *self.done_calls.entry((place, name, comparable(args))).or_insert(at);
        if first != at {
            self.spoil("the same call was done twice in one place");
        }
    }

    fn push(&mut self, item: Value, signs: &Signs<'_>) -> usize {
        let at = self.items.len();
        if let Some(place) = signs.place {
            self.places.entry(place).and_modify(|at| *at = None).or_insert(Some(at));
        }
        for id in &signs.ids {
            let place = self.ids.entry((*id).to_owned()).or_insert(Some(at));
            // An item may have one id twice; two items that have one are not known by it.
            *place = place.filter(|place| *place == at);
        }
        let kind = text(&item, "type").unwrap_or_default().to_owned();
        self.calls += usize::from(kind == "function_call");
        self.open.entry(kind).or_default().insert(at);
        let (begun, place) = (item.clone(), signs.place);
        self.items.push(Item { item, begun, place, ..Item::default() });
        at
    }

    /// Why they cannot be told apart, where that is so.
    pub(super) fn fault(&self) -> Option<WireFault> {
        if let Some(reason) = self.spoilt {
            return Some(WireFault::new(FaultKind::Unreadable, reason));
        }
        if self.items.iter().any(Item::contradicts_itself) {
            let reason = "a call has other arguments at its beginning than behind it";
            return Some(WireFault::new(FaultKind::Unreadable, reason));
        }
        let reason = "the stream ended with a call that was not written to its end";
        let cut = self.items.iter().any(Item::is_half_a_call);
        cut.then(|| WireFault::new(FaultKind::CutOff, reason))
    }

    /// The output as it would have come without streaming.
    pub(super) fn output(self) -> Value {
        let mut items = self.items;
        if items.iter().all(|item| item.place.is_some()) {
            items.sort_by_key(|item| item.place);
        }
        items.into_iter().filter_map(Item::body).collect()
    }
}

impl<'a> Signs<'a> {
    /// What a piece says.
    fn of(data: &'a Lent<'_>) -> Self {
        let ids = data.text("item_id").into_iter().chain(data.text("call_id")).collect();
        Self { place: place(data), ids }
    }
}

fn place(data: &Lent<'_>) -> Option<u64> {
    data.get("output_index").and_then(Lent::as_u64)
}

/// The ids that an item has.
fn ids<'a>(item: &'a Lent<'_>) -> Vec<&'a str> {
    item.text("id").into_iter().chain(item.text("call_id")).collect()
}

impl Item {
    /// The tool, where it is a call.
    pub(super) fn name(&self) -> &str {
        text(&self.item, "name").unwrap_or_default()
    }

    fn is_call(&self) -> bool {
        text(&self.item, "type") == Some("function_call")
    }

    /// The arguments of a call, as far as they came.
    fn args_now(&self) -> String {
        match self.args.is_empty() || self.done {
            true => arguments(self.item.get("arguments")),
            false => self.args.clone(),
        }
    }

    /// Whether a call began with arguments, and then came with others. Some servers begin every call
    /// with an empty object.
    fn contradicts_itself(&self) -> bool {
        let begun = arguments(self.begun.get("arguments"));
        let whole = match self.done {
            true => arguments(self.item.get("arguments")),
            false => self.args.clone(),
        };
        let both = !matches!(begun.trim(), "" | "{}") && !whole.trim().is_empty();
        self.is_call() && both && comparable(&begun) != comparable(&whole)
    }

    /// Whether it is a call that was not done, and whose arguments are not whole either.
    fn is_half_a_call(&self) -> bool {
        if self.done || !self.is_call() {
            return false;
        }
        let status = field(&self.item, "status");
        if status.is_some_and(|status| *status != "in_progress" && *status != "completed") {
            return true;
        }
        if !self.args.is_empty() {
            return !self.args_done;
        }
        // Some servers say all arguments when a call begins, and no more of it.
        let args = arguments(self.item.get("arguments"));
        let args = args.trim();
        !args.starts_with('{') || serde_json::from_str::<IgnoredAny>(args).is_err()
    }

    /// The item with what came since it was added.
    fn body(mut self) -> Option<Value> {
        let map = self.item.as_object_mut().filter(|_| !self.done);
        let Some(map) = map else { return Some(self.item) };
        match map.get("type").and_then(Value::as_str).unwrap_or_default() {
            "message" => {
                let mut content = Vec::new();
                if !self.words.is_empty() {
                    content.push(json!({ "type": "output_text", "text": self.words }));
                }
                if !self.refusal.is_empty() {
                    content.push(json!({ "type": "refusal", "refusal": self.refusal }));
                }
                map.insert("content".to_owned(), Value::Array(content));
            }
            "function_call" => {
                map.shift_remove("status");
                // A server may say all of them when the call begins.
                if !self.args.is_empty() {
                    map.insert("arguments".to_owned(), json!(self.args));
                }
            }
            // A thought that was not thought to its end cannot be sent back.
            "reasoning" => return None,
            _ => {}
        }
        Some(self.item)
    }
}
