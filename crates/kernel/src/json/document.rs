//! Decides how JSON is held that many look at and nobody changes: one text, and a list of its parts.

use serde_json::{Map, Number, Value};

use super::read::read;
use crate::limits::Limits;

/// One JSON object as it was read.
///
/// A tree of maps has an allocation for every text in it and a hash for every name. Here they are
/// all spans of one text.
#[derive(Debug, Clone, Default)]
pub struct Document {
    /// What was read, and behind it what was written with escapes.
    pub(super) text: String,
    /// The members of the object, each a name and a value. A whole stands before its parts.
    pub(super) nodes: Vec<Node>,
    /// How many members there are.
    pub(super) count: usize,
}

/// One value, or the name of one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Unsigned(u64),
    /// A number below zero.
    Signed(i64),
    Float(f64),
    /// A text that stands between quotes in what was read, with nothing to escape.
    Plain(Span),
    Text(Span),
    List(Whole),
    Object(Whole),
}

/// Where a text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

/// How many items or members there are, and the place behind the last of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) count: usize,
    pub(super) end: usize,
}

/// One value of a document.
#[derive(Debug, Clone, Copy)]
pub enum Part<'a> {
    /// Nothing, on purpose.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Unsigned(u64),
    /// A whole number below zero.
    Signed(i64),
    /// Any other number.
    Float(f64),
    /// A text.
    Text(&'a str),
    /// A list.
    List(Items<'a>),
    /// An object.
    Object(Members<'a>),
}

/// The items of a list, in order.
#[derive(Debug, Clone, Copy)]
pub struct Items<'a> {
    document: &'a Document,
    at: usize,
    left: usize,
}

/// The members of an object, in the order in which they were written.
#[derive(Debug, Clone, Copy)]
pub struct Members<'a>(Items<'a>);

impl Document {
    /// Reads what [`parse_strict`](super::parse_strict) would take and the same values; nothing
    /// where that is not certain, or it is no object.
    pub fn read(text: &str, limits: &Limits) -> Option<Self> {
        read(text, limits)
    }

    /// The members, in the order in which they were written.
    pub fn members(&self) -> Members<'_> {
        Members(Items { document: self, at: 0, left: self.count })
    }

    /// The value of that name.
    pub fn get(&self, name: &str) -> Option<Part<'_>> {
        self.members().find_map(|(known, part)| (known == name).then_some(part))
    }

    /// The text of that name; nothing where it is no text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    /// Whether it has no members.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The same as a tree that can be changed.
    pub fn to_map(&self) -> Map<String, Value> {
        self.members().to_map()
    }

    /// The value at a place, and the place behind it and all that is in it.
    #[inline]
    fn part(&self, at: usize) -> (Part<'_>, usize) {
        let inner = |whole: &Whole| Items { document: self, at: at + 1, left: whole.count };
        let part = match self.nodes.get(at) {
            None | Some(Node::Null) => Part::Null,
            Some(Node::Bool(truth)) => Part::Bool(*truth),
            Some(Node::Unsigned(number)) => Part::Unsigned(*number),
            Some(Node::Signed(number)) => Part::Signed(*number),
            Some(Node::Float(number)) => Part::Float(*number),
            Some(Node::Plain(span) | Node::Text(span)) => Part::Text(self.span(*span)),
            Some(Node::List(whole)) => return (Part::List(inner(whole)), whole.end),
            Some(Node::Object(whole)) => {
                return (Part::Object(Members(inner(whole))), whole.end);
            }
        };
        (part, at + 1)
    }

    #[inline]
    pub(super) fn span(&self, span: Span) -> &str {
        self.text.get(span.start..span.end).unwrap_or_default()
    }

    #[inline]
    pub(super) fn name(&self, at: usize) -> &str {
        if let Some(Node::Plain(span) | Node::Text(span)) = self.nodes.get(at) {
            self.span(*span)
        } else {
            ""
        }
    }

    /// The place behind a value and all that is in it.
    pub(super) fn after(&self, at: usize) -> usize {
        if let Some(Node::List(whole) | Node::Object(whole)) = self.nodes.get(at) {
            whole.end
        } else {
            at + 1
        }
    }
}

impl<'a> Part<'a> {
    /// The text, when it is one.
    pub fn as_str(&self) -> Option<&'a str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The number, when it is one.
    pub(crate) fn number(&self) -> Option<Number> {
        match self {
            Self::Unsigned(number) => Some((*number).into()),
            Self::Signed(number) => Some((*number).into()),
            Self::Float(number) => Number::from_f64(*number),
            Self::Null | Self::Bool(_) | Self::Text(_) | Self::List(_) | Self::Object(_) => None,
        }
    }

    /// The same as a tree that can be changed.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(truth) => Value::Bool(*truth),
            Self::Text(text) => Value::String((*text).to_owned()),
            Self::List(items) => Value::Array(items.map(|item| item.to_value()).collect()),
            Self::Object(members) => Value::Object(members.to_map()),
            Self::Unsigned(_) | Self::Signed(_) | Self::Float(_) => {
                self.number().map_or(Value::Null, Value::Number)
            }
        }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Part<'a>;

    #[inline]
    fn next(&mut self) -> Option<Part<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (part, after) = self.document.part(self.at);
        self.at = after;
        Some(part)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Items<'_> {}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, Part<'a>);

    #[inline]
    fn next(&mut self) -> Option<(&'a str, Part<'a>)> {
        let name = self.name()?;
        Some((name, self.0.next()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Members<'_> {}

impl<'a> Members<'a> {
    /// The name of the next member; its value is the next item then.
    #[inline]
    pub(super) fn name(&mut self) -> Option<&'a str> {
        let Self(items) = self;
        if items.left == 0 {
            return None;
        }
        let name = items.document.name(items.at);
        items.at += 1;
        Some(name)
    }

    /// The value of the member that was named.
    #[inline]
    pub(super) fn value(&mut self) -> Option<Part<'a>> {
        self.0.next()
    }

    fn to_map(self) -> Map<String, Value> {
        self.map(|(name, part)| (name.to_owned(), part.to_value())).collect()
    }
}

impl From<&Map<String, Value>> for Document {
    fn from(map: &Map<String, Value>) -> Self {
        let mut document = Self { count: map.len(), ..Self::default() };
        document.add_members(map);
        document
    }
}

impl Document {
    fn add_members(&mut self, map: &Map<String, Value>) {
        for (name, value) in map {
            self.add_text(name);
            self.add(value);
        }
    }

    fn add_text(&mut self, text: &str) {
        let start = self.text.len();
        self.text.push_str(text);
        self.nodes.push(Node::Text(Span { start, end: self.text.len() }));
    }

    fn add(&mut self, value: &Value) {
        let at = self.nodes.len();
        match value {
            Value::String(text) => self.add_text(text),
            Value::Null => self.nodes.push(Node::Null),
            Value::Bool(truth) => self.nodes.push(Node::Bool(*truth)),
            Value::Number(number) => self.nodes.push(Node::of(number)),
            Value::Array(items) => {
                self.nodes.push(Node::Null);
                items.iter().for_each(|item| self.add(item));
                self.close(at, |end| Node::List(Whole { count: items.len(), end }));
            }
            Value::Object(map) => {
                self.nodes.push(Node::Null);
                self.add_members(map);
                self.close(at, |end| Node::Object(Whole { count: map.len(), end }));
            }
        }
    }

    /// Says at the place of a whole what it has become.
    fn close(&mut self, at: usize, whole: impl FnOnce(usize) -> Node) {
        let end = self.nodes.len();
        if let Some(node) = self.nodes.get_mut(at) {
            *node = whole(end);
        }
    }
}

impl Node {
    pub(super) fn of(number: &Number) -> Self {
        if let Some(number) = number.as_u64() {
            return Self::Unsigned(number);
        }
        match number.as_i64() {
            Some(number) => Self::Signed(number),
            None => number.as_f64().map_or(Self::Null, Self::Float),
        }
    }
}
