//! Reads one call, or one piece of a streamed call, and refuses one that is not understood: without
//! a piece that was passed over, the rest could still be valid, with another meaning.

use std::borrow::Cow;

use toolgate_kernel::event::FaultKind;

use super::CALL_EXTRAS;
use crate::dialect::WireFault;
use crate::dialect::shared::lent_arguments;
use crate::lent::Lent;

/// Keys of a call and of its function that are read, or that cannot hold arguments.
const CALL_KEYS: &[&str] = &["arguments", "function", "id", "index", "name", "status", "type"];
const FUNCTION_KEYS: &[&str] = &["arguments", "name"];

/// Parts of a key under which arguments may stand.
const LIKE_ARGUMENTS: &[&str] = &["arg", "custom", "delta", "input", "json", "param"];
/// A copy of the arguments that a client library makes.
const PARSED: &str = "parsed_arguments";

/// One piece, as it came.
pub(super) struct Piece<'a> {
    pub(super) index: Option<u64>,
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) args: Cow<'a, str>,
    /// Whether the arguments came as an object or a list, which are whole.
    pub(super) is_object: bool,
    pub(super) call: &'a Lent<'a>,
}

/// Keys under which calls stand in a delta or a message.
pub(super) const CALLS: &[&str] = &["tool_calls", "function_call"];

/// Whether a key is one under which calls stand, in whatever spelling: `toolCalls`, `tool_call`.
pub(super) fn holds_calls(key: &str) -> bool {
    let letters = key.chars().filter(char::is_ascii_alphanumeric);
    let plain: String = letters.map(|c| c.to_ascii_lowercase()).collect();
    let plain = plain.strip_suffix('s').unwrap_or(&plain);
    matches!(plain, "toolcall" | "functioncall")
}

/// Whether a value says nothing: null, or an empty list, text or object.
pub(super) fn is_nothing(value: &Lent<'_>) -> bool {
    match value {
        Lent::Null => true,
        Lent::List(items) => items.is_empty(),
        Lent::Object(fields) => fields.is_empty(),
        Lent::Text(text) => text.is_empty(),
        Lent::Bool(_) | Lent::Number(_) => false,
    }
}

pub(super) fn malformed(reason: &str) -> WireFault {
    WireFault::new(FaultKind::MalformedCall, reason)
}

/// The calls in a delta or a message: a list, or one alone. What is null is none.
pub(super) fn call_list<'a>(message: &'a Lent<'a>) -> Result<Vec<&'a Lent<'a>>, WireFault> {
    let calls = match message.get("tool_calls") {
        None | Some(Lent::Null) => &[],
        Some(Lent::List(calls)) => calls.as_slice(),
        Some(call @ Lent::Object(_)) => std::slice::from_ref(call),
        Some(Lent::Bool(_) | Lent::Number(_) | Lent::Text(_)) => {
            return Err(malformed("the calls of a reply are neither a list nor an object"));
        }
    };
    Ok(calls.iter().filter(|call| !call.is_null()).collect())
}

/// The one call in the form of old servers.
pub(super) fn old_call_of<'a>(message: &'a Lent<'a>) -> Result<Option<&'a Lent<'a>>, WireFault> {
    match message.get("function_call").filter(|call| !call.is_null()) {
        Some(call) if !call.is_object() => Err(malformed("the function_call is not an object")),
        found => Ok(found),
    }
}

impl<'a> Piece<'a> {
    pub(super) fn read(call: &'a Lent<'a>) -> Result<Self, WireFault> {
        // Some servers leave the function out and have its name beside the id, as `decode.rs` knows.
        let function = call.get("function").filter(|function| !function.is_null()).unwrap_or(call);
        if !function.is_object() {
            return Err(malformed("a call or its function is not an object"));
        }
        let number = |index: &Lent<'_>| {
            index.as_u64().ok_or_else(|| malformed("the index of a call is not a whole number"))
        };
        let index = call.get("index").filter(|index| !index.is_null()).map(number).transpose()?;
        let name = function.get("name").unwrap_or(&Lent::Null);
        let id = call.get("id").unwrap_or(&Lent::Null);
        // Such a piece must not turn into one that continues another call.
        if [name, id].iter().any(|text| text.as_str().is_none() && !text.is_null()) {
            return Err(malformed("the name or the id of a call is not text"));
        }
        let args = function.get("arguments").unwrap_or(&Lent::Null);
        if matches!(args, Lent::Number(_) | Lent::Bool(_)) {
            return Err(malformed("the arguments of a call are neither text nor an object"));
        }
        let piece = Self {
            index,
            id: id.as_str().map(str::trim).unwrap_or_default(),
            name: name.as_str().unwrap_or_default(),
            args: lent_arguments(Some(args)),
            is_object: matches!(args, Lent::Object(_) | Lent::List(_)),
            call,
        };
        match piece.has_other_form(function) {
            true => Err(malformed("a call says something in a form that is not known")),
            false => Ok(piece),
        }
    }

    /// Whether a part of the call stands where it is not read.
    fn has_other_form(&self, function: &Lent<'_>) -> bool {
        let idle = self.name.is_empty() && self.args.is_empty() && !self.has_extra();
        let unread = |map: &Lent<'_>, known: &[&str]| {
            map.fields().iter().any(|(key, value)| {
                let known = known.contains(&key.as_ref()) || CALL_EXTRAS.contains(&key.as_ref());
                !known && says_something(value) && (idle || may_hold_arguments(key))
            })
        };
        if unread(self.call, CALL_KEYS) {
            return true;
        }
        if std::ptr::eq(self.call, function) {
            return false;
        }
        let name = self.call.get("name").filter(|name| says_something(name));
        let args = self.call.get("arguments").filter(|args| says_something(args));
        unread(function, FUNCTION_KEYS)
            || name.is_some_and(|name| name.as_str() != Some(self.name))
            || args.is_some_and(|args| lent_arguments(Some(args)) != self.args)
    }

    pub(super) fn is_blank(&self) -> bool {
        self.args.trim().is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.id.is_empty() && self.name.is_empty() && self.args.is_empty() && !self.has_extra()
    }

    fn has_extra(&self) -> bool {
        CALL_EXTRAS.iter().any(|key| self.call.get(key).is_some_and(|extra| !extra.is_null()))
    }
}

/// Whether there is anything in a value that could be lost.
fn says_something(value: &Lent<'_>) -> bool {
    match value {
        Lent::Null | Lent::Bool(false) => false,
        Lent::Bool(true) | Lent::Number(_) => true,
        Lent::Text(text) => !text.is_empty(),
        Lent::List(items) => !items.is_empty(),
        Lent::Object(fields) => !fields.is_empty(),
    }
}

fn may_hold_arguments(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    key != PARSED && LIKE_ARGUMENTS.iter().any(|part| key.contains(part))
}
