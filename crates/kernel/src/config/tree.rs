//! Decides what a YAML text says, with the place of every key and value in it.

use serde_json::{Map, Number, Value};

use super::finding::Span;

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) span: Span,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// A text and whether it was written without quotes.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    /// Keys in the order they were written; one that is given twice is there twice.
    Map(Vec<(Key, Node)>),
}

/// A key of a map and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) text: String,
    pub(super) plain: bool,
    pub(super) span: Span,
}

/// A step from a value to one inside it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step<'a> {
    Key(&'a str),
    Item(usize),
}

impl Node {
    /// The value under a path.
    pub(super) fn find(&self, path: &[Step<'_>]) -> Option<&Self> {
        let Some((step, rest)) = path.split_first() else { return Some(self) };
        self.inside(*step)?.1.find(rest)
    }

    fn inside(&self, step: Step<'_>) -> Option<(Option<&Key>, &Self)> {
        match (&self.kind, step) {
            (Kind::Map(entries), Step::Key(name)) => {
                let entry = entries.iter().find(|(key, _)| key.text == name)?;
                Some((Some(&entry.0), &entry.1))
            }
            (Kind::List(items), Step::Item(at)) => Some((None, items.get(at)?)),
            (Kind::Map(_) | Kind::List(_) | Kind::Scalar { .. }, _) => None,
        }
    }

    /// The place of the nearest thing to a path that the file has.
    pub(super) fn place(&self, path: &[Step<'_>]) -> Option<Span> {
        let mut here = (None, self);
        let mut found = None;
        for step in path {
            match here.1.inside(*step) {
                Some(next) => here = next,
                None => return found,
            }
            found = Some(here.1.shown(here.0));
        }
        found
    }

    /// The place of a key itself.
    pub(super) fn key(&self, path: &[Step<'_>]) -> Option<Span> {
        let (last, before) = path.split_last()?;
        self.find(before)?.inside(*last)?.0.map(|key| key.span)
    }

    /// What a snippet marks: a scalar itself, but the key of something long.
    pub(super) fn shown(&self, key: Option<&Key>) -> Span {
        match (key, &self.kind) {
            (Some(key), Kind::Map(_) | Kind::List(_)) => key.span,
            (Some(key), Kind::Scalar { .. }) if self.span.start == self.span.end => key.span,
            (_, Kind::Map(_) | Kind::List(_) | Kind::Scalar { .. }) => self.span,
        }
    }

    /// The places where one of some texts stands, as a key or as a value.
    pub(super) fn named(&self, wanted: &dyn Fn(&str) -> bool, found: &mut Vec<Span>) {
        self.texts(&mut |text, span| found.extend(wanted(text).then_some(span)));
    }

    /// Every text with its place, keys before their values.
    pub(super) fn texts(&self, each: &mut dyn FnMut(&str, Span)) {
        match &self.kind {
            Kind::Scalar { text, .. } => each(text, self.span),
            Kind::List(items) => items.iter().for_each(|item| item.texts(each)),
            Kind::Map(entries) => {
                for (key, value) in entries {
                    each(&key.text, key.span);
                    value.texts(each);
                }
            }
        }
    }

    /// The value as JSON; the first of two keys wins, and what JSON does not have is null.
    pub(super) fn to_json(&self) -> Value {
        match &self.kind {
            Kind::Scalar { text, plain } => scalar(text, *plain),
            Kind::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Kind::Map(entries) => {
                let mut map = Map::new();
                for (key, value) in entries {
                    map.entry(key.text.clone()).or_insert_with(|| value.to_json());
                }
                Value::Object(map)
            }
        }
    }
}

/// What a scalar means, as YAML 1.2 has it.
pub(super) fn scalar(text: &str, plain: bool) -> Value {
    if !plain {
        return Value::String(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    match number(text) {
        Some(number) => Value::Number(number),
        None => Value::String(text.to_owned()),
    }
}

fn number(text: &str) -> Option<Number> {
    let radix = |prefix, radix| {
        let digits = text.strip_prefix(prefix)?;
        digits.bytes().all(|b| b.is_ascii_hexdigit()).then_some(())?;
        u64::from_str_radix(digits, radix).ok().map(Number::from)
    };
    if let Some(number) = radix("0x", 16).or_else(|| radix("0o", 8)) {
        return Some(number);
    }
    let first = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !first.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let plain = text.strip_prefix('+').unwrap_or(text);
    if let Ok(whole) = plain.parse::<i64>() {
        return Some(whole.into());
    }
    if let Ok(whole) = plain.parse::<u64>() {
        return Some(whole.into());
    }
    let legal = |b: u8| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'-' | b'+');
    let float: f64 = if plain.bytes().all(legal) { plain.parse().ok()? } else { return None };
    Number::from_f64(float)
}

/// Whether a scalar is a number that no finite number is.
pub(super) fn endless(text: &str) -> bool {
    let bare = text.strip_prefix(['-', '+']).unwrap_or(text);
    matches!(bare, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN")
}

/// Whether other YAML readers take a plain word for something else than a text.
pub(super) fn ambiguous(text: &str) -> bool {
    const WORDS: &[&str] = &["y", "n", "yes", "no", "on", "off"];
    !scalar(text, true).is_string() || WORDS.contains(&text.to_lowercase().as_str())
}
