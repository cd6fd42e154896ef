//! Reads the keywords of one schema: a value of the wrong kind makes the schema invalid.

use serde_json::{Map, Number, Value};

use super::pattern::Pattern;
use super::reference::DEFINITION_KEYWORDS;
use super::schema::SchemaRefusal;
use super::shape::{Node, is_a};

/// Keywords that describe and do not constrain, with what their values are.
const NOTES: &[(&str, NoteKind)] = &[
    ("$comment", NoteKind::Text),
    ("title", NoteKind::Text),
    ("description", NoteKind::Text),
    ("format", NoteKind::Text),
    ("default", NoteKind::Anything),
    ("examples", NoteKind::List),
    ("deprecated", NoteKind::Truth),
    ("readOnly", NoteKind::Truth),
    ("writeOnly", NoteKind::Truth),
];

/// The same at the root alone. Below it, `$id` would change what every reference means.
const ROOT_NOTES: &[(&str, NoteKind)] =
    &[("$id", NoteKind::Address), ("$schema", NoteKind::Dialect)];

/// Dialects in which the keywords that are enforced have the meaning they have here.
const DIALECTS: &[&str] = &[
    "json-schema.org/schema",
    "json-schema.org/draft-04/schema",
    "json-schema.org/draft-06/schema",
    "json-schema.org/draft-07/schema",
    "json-schema.org/draft/2019-09/schema",
    "json-schema.org/draft/2020-12/schema",
];

const TYPES: &[&str] = &["null", "boolean", "integer", "number", "string", "array", "object"];

#[derive(Debug, Clone, Copy)]
enum NoteKind {
    Text,
    Truth,
    List,
    Address,
    Dialect,
    Anything,
}

impl NoteKind {
    fn allows(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Truth => value.is_boolean(),
            Self::List => value.is_array(),
            Self::Address => value.as_str().is_some_and(is_address),
            Self::Dialect => value.as_str().is_some_and(is_known_dialect),
            Self::Anything => true,
        }
    }
}

/// Whether this names a whole schema: with a fragment it would name a part.
fn is_address(text: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || "-._~:/?@!$&'()*+,;=".contains(c);
    text.strip_suffix('#').unwrap_or(text).chars().all(legal)
}

fn is_known_dialect(address: &str) -> bool {
    let address = address.strip_suffix('#').unwrap_or(address);
    let plain = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
    plain.is_some_and(|plain| DIALECTS.contains(&plain))
}

/// Where a schema stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Root,
    Below,
}

/// The lowest and the highest value.
pub(super) type Bounds<T> = (Option<T>, Option<T>);

pub(super) struct Keywords<'a> {
    pub(super) map: &'a Map<String, Value>,
    pub(super) place: &'a str,
    level: Level,
}

impl<'a> Keywords<'a> {
    /// The keywords of a schema whose notes are valid.
    pub(super) fn read(
        map: &'a Map<String, Value>,
        place: &'a str,
        level: Level,
    ) -> Result<Self, SchemaRefusal> {
        let keys = Self { map, place, level };
        for (keyword, kind) in NOTES.iter().chain(ROOT_NOTES) {
            if map.get(*keyword).is_some_and(|value| !kind.allows(value)) {
                return Err(keys.bad(keyword));
            }
        }
        for keyword in DEFINITION_KEYWORDS {
            if map.get(keyword).is_some_and(|value| !value.is_object()) {
                return Err(keys.bad(keyword));
            }
        }
        Ok(keys)
    }

    pub(super) fn bad(&self, keyword: &'static str) -> SchemaRefusal {
        SchemaRefusal::Value { place: self.place.to_owned(), keyword }
    }

    /// Refuses all keywords but these and those that only describe.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), SchemaRefusal> {
        let is_note = |key: &str| NOTES.iter().any(|(note, _)| *note == key);
        let is_root_note = |key: &str| ROOT_NOTES.iter().any(|(note, _)| *note == key);
        let plain = |key: &str| {
            known.contains(&key)
                || is_note(key)
                || DEFINITION_KEYWORDS.contains(&key)
                || key.starts_with("x-")
                || (self.level == Level::Root && is_root_note(key))
        };
        match self.map.keys().find(|key| !plain(key)) {
            None => Ok(()),
            Some(keyword) => Err(SchemaRefusal::Keyword {
                place: self.place.to_owned(),
                keyword: keyword.clone(),
            }),
        }
    }

    /// The types a schema names, each once; absent when it names none.
    pub(super) fn types(&self) -> Result<Option<Vec<String>>, SchemaRefusal> {
        let Some(value) = self.map.get("type") else { return Ok(None) };
        let names = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        let mut types: Vec<String> = Vec::with_capacity(names.len());
        for name in names {
            let name = name.as_str().filter(|name| TYPES.contains(name));
            match name.filter(|name| !types.iter().any(|known| known == name)) {
                Some(name) => types.push(name.to_owned()),
                None => return Err(self.bad("type")),
            }
        }
        if types.is_empty() { Err(self.bad("type")) } else { Ok(Some(types)) }
    }

    /// The alternatives of a union, at least one.
    pub(super) fn branches(
        &self,
        union: &'static str,
    ) -> Result<Option<&'a [Value]>, SchemaRefusal> {
        match self.map.get(union) {
            None => Ok(None),
            Some(Value::Array(branches)) if !branches.is_empty() => Ok(Some(branches)),
            Some(_) => Err(self.bad(union)),
        }
    }

    /// The fields that are listed, where any are.
    pub(super) fn properties(&self) -> Result<Option<&'a Map<String, Value>>, SchemaRefusal> {
        match self.map.get("properties") {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(fields)),
            Some(_) => Err(self.bad("properties")),
        }
    }

    /// The names of required fields, each once.
    pub(super) fn required(&self) -> Result<Vec<&'a str>, SchemaRefusal> {
        let names = match self.map.get("required") {
            None => return Ok(Vec::new()),
            Some(Value::Array(names)) => names,
            Some(_) => return Err(self.bad("required")),
        };
        let mut required: Vec<&str> = Vec::with_capacity(names.len());
        for name in names {
            match name.as_str().filter(|name| !required.contains(name)) {
                Some(name) => required.push(name),
                None => return Err(self.bad("required")),
            }
        }
        Ok(required)
    }

    /// A choice of values. One that is not of the type beside it can never be sent.
    pub(super) fn one_of(&self, values: &[Value]) -> Result<Node, SchemaRefusal> {
        let mut values = values.to_vec();
        if let Some(types) = self.types()? {
            values.retain(|value| types.iter().any(|name| is_a(name, value)));
        }
        if values.is_empty() { Err(self.bad("type")) } else { Ok(Node::OneOf(values)) }
    }

    /// A whole number, with the bounds it has in Rust too, which its format names.
    pub(super) fn whole_number(&self) -> Result<Node, SchemaRefusal> {
        let (least, most) = self.width();
        let above =
            self.integer("exclusiveMinimum", f64::floor)?.map(|bound| bound.saturating_add(1));
        let below =
            self.integer("exclusiveMaximum", f64::ceil)?.map(|bound| bound.saturating_sub(1));
        let min = self.integer("minimum", f64::ceil)?.max(above);
        let max = self.integer("maximum", f64::floor)?.into_iter().chain(below).min();
        let taken = (min.max(least), max.into_iter().chain(most).min());
        Ok(Node::Integer { taken, declared: (min, max) })
    }

    /// The bounds of a whole number of a certain width, which its format names.
    fn width(&self) -> Bounds<i128> {
        let (least, most): (i128, i128) =
            match self.map.get("format").and_then(Value::as_str).unwrap_or_default() {
                "int8" => (i8::MIN.into(), i8::MAX.into()),
                "int16" => (i16::MIN.into(), i16::MAX.into()),
                "int32" => (i32::MIN.into(), i32::MAX.into()),
                "int64" => (i64::MIN.into(), i64::MAX.into()),
                "uint8" => (0, u8::MAX.into()),
                "uint16" => (0, u16::MAX.into()),
                "uint32" => (0, u32::MAX.into()),
                "uint64" => (0, u64::MAX.into()),
                _ => return (None, None),
            };
        (Some(least), Some(most))
    }

    /// A bound of a whole number. One with a fraction is brought to the whole number `towards`.
    fn integer(
        &self,
        keyword: &'static str,
        towards: fn(f64) -> f64,
    ) -> Result<Option<i128>, SchemaRefusal> {
        let Some(value) = self.map.get(keyword) else { return Ok(None) };
        let whole = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
        let float = || {
            let bound = towards(value.as_f64()?);
            // The bounds of a type wider than any number we take are as good as none.
            let beyond = if bound < 0.0 { i128::MIN } else { i128::MAX };
            Some(format!("{bound:.0}").parse().unwrap_or(beyond))
        };
        whole.or_else(float).map(Some).ok_or_else(|| self.bad(keyword))
    }

    pub(super) fn number(&self, keyword: &'static str) -> Result<Option<Number>, SchemaRefusal> {
        match self.map.get(keyword) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number.clone())),
            Some(_) => Err(self.bad(keyword)),
        }
    }

    /// How many; also written as `2.0`.
    pub(super) fn count(&self, keyword: &'static str) -> Result<Option<u64>, SchemaRefusal> {
        let Some(value) = self.map.get(keyword) else { return Ok(None) };
        let float = || {
            let float = value.as_f64().filter(|float| float.fract() == 0.0 && *float >= 0.0)?;
            format!("{float:.0}").parse().ok()
        };
        value.as_u64().or_else(float).map(Some).ok_or_else(|| self.bad(keyword))
    }

    pub(super) fn pattern(&self) -> Result<Option<Pattern>, SchemaRefusal> {
        let Some(value) = self.map.get("pattern") else { return Ok(None) };
        let pattern = value.as_str().and_then(Pattern::compile);
        pattern.map(Some).ok_or_else(|| self.bad("pattern"))
    }
}
