//! Decides which JSON text is accepted: one value, no duplicate keys, no NUL, bounded.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::limits::Limits;

/// Why a text is not taken as JSON. The message is for whoever wrote the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonRefusal(String);

/// Reads one JSON value and nothing after it.
///
/// Other readers of the same text must never see other values than we do, so a repeated key, a
/// NUL, a lone surrogate and a number outside the range of its type are refused, not resolved.
pub fn parse_strict(text: &str, limits: &Limits) -> Result<Value, JsonRefusal> {
    let room = Room { items: Cell::new(limits.args_items_max), depth_max: limits.args_depth_max };
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Seed { room: &room, depth: 1 }.deserialize(&mut reader).map_err(refusal)?;
    reader.end().map_err(refusal)?;
    Ok(value)
}

fn refusal(error: serde_json::Error) -> JsonRefusal {
    JsonRefusal(error.to_string())
}

/// What is left of the bounds while one text is read.
struct Room {
    items: Cell<u64>,
    depth_max: u64,
}

impl Room {
    fn take<E: Error>(&self) -> Result<(), E> {
        let left = self.items.get().checked_sub(1);
        self.items.set(left.ok_or_else(|| E::custom("too many keys and items"))?);
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Seed<'a> {
    room: &'a Room,
    depth: u64,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl Seed<'_> {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        if self.depth > self.room.depth_max {
            return Err(E::custom(format_args!("nested deeper than {}", self.room.depth_max)));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

fn text<E: Error>(text: &str) -> Result<String, E> {
    if text.as_bytes().contains(&0) {
        return Err(E::custom("text contains a NUL character (\\u0000)"));
    }
    Ok(text.to_owned())
}

/// A key, which is a text like any other.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = String;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<String, D::Error> {
        reader.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string key")
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<String, E> {
        Ok(value.to_owned())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<String, E> {
        text(value)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        // `-0` is the integer zero for whoever counts with it.
        if value == 0.0 {
            return Ok(0.into());
        }
        serde_json::Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("number is not finite"))
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Value, E> {
        // What is lent stands in the text as it is, and there a NUL must be escaped.
        debug_assert!(!value.contains('\0'));
        Ok(Value::String(value.to_owned()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        text(value).map(Value::String)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(inner)? {
            self.room.take()?;
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut map = Map::new();
        while let Some(key) = object.next_key_seed(Key)? {
            self.room.take()?;
            let value = object.next_value_seed(inner)?;
            // One lookup does both: the old value tells that the key came before.
            if let Some(before) = map.insert(key, value) {
                drop(before);
                return Err(A::Error::custom("the same key is given twice"));
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Value, String> {
        parse_strict(text, &Limits::default()).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn accepts_exactly_one_unambiguous_value() {
        assert_eq!(parse(r#"{"id": 9007199254740993}"#).unwrap()["id"], 9_007_199_254_740_993_i64);
        assert_eq!(parse(r#"{"count": -0}"#).unwrap()["count"], 0);
        assert!(parse(r#"{"u": 18446744073709551615}"#).is_ok());
        let refused = [
            (r#"{"path":"a"}{"path":"b"}"#, "trailing"),
            (r"{path: 'a'}", "key must be a string"),
            ("", "EOF"),
            (r#"{"p":"/safe","p":"/etc"}"#, "twice"),
            (r#"{"a":{"p":1,"p":1}}"#, "twice"),
            (r#"{"amount": 1e400}"#, "out of range"),
            (r#"{"path":"\ud800"}"#, "hex escape"),
            (r#"{"path":"a\u0000b"}"#, "NUL"),
            (r#"{"a\u0000":1}"#, "NUL"),
            ("{\"path\":\"a\0b\"}", "control character"),
            ("{\"a\0\":1}", "control character"),
        ];
        for (text, reason) in refused {
            let refusal = parse(text).unwrap_err();
            assert!(refusal.contains(reason), "{text}: {refusal}");
        }
    }

    #[test]
    fn depth_and_items_are_bounded_at_the_limit() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(&nested(64)).is_ok());
        assert!(parse(&nested(65)).unwrap_err().contains("deeper than 64"));
        assert!(parse(&nested(100_000)).is_err());
        let list = |items: usize| format!("[{}]", vec!["1"; items].join(","));
        assert!(parse(&list(10_000)).is_ok());
        assert!(parse(&list(10_001)).unwrap_err().contains("too many"));
    }
}
