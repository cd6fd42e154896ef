//! A value during an evaluation: borrowed from the scope wherever it can be.

use std::rc::Rc;

use serde_json::Value;

use super::fault::EvaluationFault;
use super::number::Number;
use super::view::{Lookup, Sequence, View};

#[derive(Clone)]
pub(super) enum Datum<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Text<'a>),
    List(List<'a>),
    Map(Map<'a>),
}

#[derive(Clone)]
pub(super) enum Text<'a> {
    Borrowed(&'a str),
    Made(Rc<str>),
}

#[derive(Clone)]
pub(super) enum List<'a> {
    Json(&'a [Value]),
    Lazy(&'a dyn Sequence),
    Made(Rc<[Datum<'a>]>),
}

#[derive(Clone)]
pub(super) enum Map<'a> {
    Json(&'a serde_json::Map<String, Value>),
    Lazy(&'a dyn Lookup),
    /// As written, so a handful of entries; they are searched one by one.
    Made(Rc<[(Datum<'a>, Datum<'a>)]>),
}

/// The items of a list or the keys of a map, one at a time.
pub(super) type Items<'a> = Box<dyn Iterator<Item = Result<Datum<'a>, EvaluationFault>> + 'a>;

impl<'a> Datum<'a> {
    pub(super) fn from_view(view: View<'a>) -> Result<Datum<'a>, EvaluationFault> {
        Ok(match view {
            View::Null => Datum::Null,
            View::Bool(truth) => Datum::Bool(truth),
            View::Int(int) => Datum::Number(Number::Int(int)),
            View::Uint(uint) => Datum::Number(Number::Uint(uint)),
            View::Float(float) => Datum::Number(Number::Float(float)),
            View::Text(text) => Datum::Text(Text::Borrowed(text)),
            View::Json(json) => return Datum::from_json(json),
            View::Object(lookup) => Datum::Map(Map::Lazy(lookup)),
            View::List(sequence) => Datum::List(List::Lazy(sequence)),
        })
    }

    pub(super) fn from_json(json: &'a Value) -> Result<Datum<'a>, EvaluationFault> {
        Ok(match json {
            Value::Null => Datum::Null,
            Value::Bool(truth) => Datum::Bool(*truth),
            Value::Number(number) => Datum::Number(Number::from_json(number)?),
            Value::String(text) => Datum::Text(Text::Borrowed(text)),
            Value::Array(items) => Datum::List(List::Json(items)),
            Value::Object(members) => Datum::Map(Map::Json(members)),
        })
    }

    /// The name CEL has for the type.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Datum::Null => "null",
            Datum::Bool(_) => "bool",
            Datum::Number(number) => number.kind(),
            Datum::Text(_) => "string",
            Datum::List(_) => "list",
            Datum::Map(_) => "map",
        }
    }

    /// The fault of using `operation` on this.
    pub(super) fn unfit(&self, operation: &'static str) -> EvaluationFault {
        EvaluationFault::Mismatch { operation, found: self.kind() }
    }

    /// The fault of using `operation` between this and `right`.
    pub(super) fn unfit_with(&self, operation: &'static str, right: &Datum<'_>) -> EvaluationFault {
        EvaluationFault::MismatchedPair { operation, left: self.kind(), right: right.kind() }
    }
}

impl Text<'_> {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Made(text) => text,
        }
    }
}

impl<'a> List<'a> {
    pub(super) fn size(&self) -> usize {
        match self {
            List::Json(items) => items.len(),
            List::Lazy(sequence) => sequence.size(),
            List::Made(items) => items.len(),
        }
    }

    pub(super) fn item(&self, index: usize) -> Result<Datum<'a>, EvaluationFault> {
        let found = match self {
            List::Json(items) => items.get(index).map(Datum::from_json),
            List::Lazy(sequence) => sequence.item(index).map(Datum::from_view),
            List::Made(items) => items.get(index).cloned().map(Ok),
        };
        found.unwrap_or_else(|| {
            Err(EvaluationFault::NoItem { index: index.to_string(), size: self.size() })
        })
    }

    pub(super) fn items(self) -> Items<'a> {
        Box::new((0..self.size()).map(move |index| self.item(index)))
    }
}

impl<'a> Map<'a> {
    pub(super) fn size(&self) -> usize {
        match self {
            Map::Json(members) => members.len(),
            Map::Lazy(lookup) => lookup.size(),
            Map::Made(entries) => entries.len(),
        }
    }

    /// The member of that name, or nothing.
    pub(super) fn member(&self, name: &str) -> Result<Option<Datum<'a>>, EvaluationFault> {
        match self {
            Map::Json(members) => members.get(name).map(Datum::from_json).transpose(),
            Map::Lazy(lookup) => lookup.field(name).map(Datum::from_view).transpose(),
            Map::Made(entries) => {
                let named =
                    |key: &Datum<'a>| matches!(key, Datum::Text(key) if key.as_str() == name);
                let found = entries.iter().find(|(key, _)| named(key));
                Ok(found.map(|(_, value)| value.clone()))
            }
        }
    }

    /// The entry of that key, or nothing; only maps written in the expression have keys that are no text.
    pub(super) fn entry(&self, key: &Datum<'a>) -> Result<Option<Datum<'a>>, EvaluationFault> {
        if let Datum::Text(name) = key {
            return self.member(name.as_str());
        }
        let Map::Made(entries) = self else { return Ok(None) };
        Ok(entries.iter().find(|(known, _)| same_key(known, key)).map(|(_, value)| value.clone()))
    }

    pub(super) fn keys(self) -> Items<'a> {
        let text = |key: &'a str| Ok(Datum::Text(Text::Borrowed(key)));
        match self {
            Map::Json(members) => Box::new(members.keys().map(move |key| text(key))),
            Map::Lazy(lookup) => Box::new(lookup.keys().map(text)),
            Map::Made(entries) => Box::new(
                (0..entries.len())
                    .filter_map(move |index| entries.get(index).map(|(key, _)| Ok(key.clone()))),
            ),
        }
    }
}

/// Whether two keys are one: by value for numbers, never across other types.
pub(super) fn same_key(left: &Datum<'_>, right: &Datum<'_>) -> bool {
    match (left, right) {
        (Datum::Bool(left), Datum::Bool(right)) => left == right,
        (Datum::Number(left), Datum::Number(right)) => {
            left.order(*right).is_some_and(|order| order.is_eq())
        }
        (Datum::Text(left), Datum::Text(right)) => left.as_str() == right.as_str(),
        _ => false,
    }
}
