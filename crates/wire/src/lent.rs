//! Decides how an event of a stream is held while it is read: its texts are lent by the event, and a
//! dialect copies what it keeps.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

/// Keys of an object that are compared one by one to see that none is there twice.
const KEYS_FEW: usize = 32;

/// Keys that decide what a reply does.
const DECIDING: &[&str] = &[
    "args",
    "arguments",
    "blockReason",
    "call_id",
    "candidates",
    "choices",
    "content",
    "content_block",
    "custom",
    "delta",
    "error",
    "finishReason",
    "finish_reason",
    "function",
    "functionCall",
    "function_call",
    "id",
    "incomplete_details",
    "index",
    "input",
    "item",
    "item_id",
    "message",
    "name",
    "output",
    "output_index",
    "partialArgs",
    "partial_args",
    "partial_json",
    "parts",
    "promptFeedback",
    "reason",
    "refusal",
    "response",
    "responseId",
    "role",
    "status",
    "stop_reason",
    "thought",
    "tool_calls",
    "type",
    "willContinue",
    "will_continue",
];

/// Room that a list or an object is given when the first of it comes: as much as a vector would
/// take by itself, without growing into it.
const ROOM: usize = 4;

/// JSON that is read like a `Value` and costs a fraction of it.
#[derive(Debug, Clone)]
pub(crate) enum Lent<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text; one that was written with escapes is a copy.
    Text(Cow<'a, str>),
    /// A list.
    List(Vec<Self>),
    /// An object, in the order in which it was written, each key once.
    Object(Vec<(Cow<'a, str>, Self)>),
}

impl<'a> Lent<'a> {
    /// What stands under a key; nothing when this is no object.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        let (_, value) = self.fields().iter().find(|(name, _)| name == key)?;
        Some(value)
    }

    /// The fields of an object; of anything else, none.
    pub(crate) fn fields(&self) -> &[(Cow<'a, str>, Self)] {
        if let Self::Object(fields) = self { fields } else { &[] }
    }

    /// The list, if it is one.
    pub(crate) fn list(&self) -> Option<&[Self]> {
        if let Self::List(items) = self { Some(items) } else { None }
    }

    /// The text, if it is one.
    pub(crate) fn as_str(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The number, if it is whole and not negative.
    pub(crate) fn as_u64(&self) -> Option<u64> {
        if let Self::Number(number) = self { number.as_u64() } else { None }
    }

    pub(crate) fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// A text under a key; nothing when it is absent, null, empty or no text.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Self::as_str).filter(|text| !text.is_empty())
    }

    /// A copy that lasts.
    pub(crate) fn value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(is) => Value::Bool(*is),
            Self::Number(number) => Value::Number(number.clone()),
            Self::Text(text) => Value::String(text.as_ref().to_owned()),
            Self::List(items) => items.iter().map(Self::value).collect(),
            Self::Object(fields) => {
                fields.iter().map(|(key, value)| (key.as_ref(), value.value())).collect()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Lent<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Lending)
    }
}

struct Lending;

impl<'de> Visitor<'de> for Lending {
    type Value = Lent<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Lent<'de>, E> {
        Ok(Lent::Null)
    }

    fn visit_bool<E>(self, is: bool) -> Result<Lent<'de>, E> {
        Ok(Lent::Bool(is))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Lent<'de>, E> {
        Ok(Lent::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Lent<'de>, E> {
        Ok(Lent::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Lent<'de>, E> {
        Ok(Number::from_f64(number).map_or(Lent::Null, Lent::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Lent<'de>, E> {
        Ok(Lent::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Lent<'de>, E> {
        Ok(Lent::Text(Cow::Borrowed(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut given: A) -> Result<Lent<'de>, A::Error> {
        let Some(first) = given.next_element()? else { return Ok(Lent::List(Vec::new())) };
        let mut items = Vec::with_capacity(ROOM);
        items.push(first);
        while let Some(item) = given.next_element()? {
            items.push(item);
        }
        Ok(Lent::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut given: A) -> Result<Lent<'de>, A::Error> {
        let mut next = given.next_key()?;
        let mut fields = Vec::with_capacity(if next.is_some() { ROOM } else { 0 });
        // Key and value are not asked for together: as a pair they would be moved once more.
        while let Some(Key(key)) = next {
            fields.push((key, given.next_value()?));
            next = given.next_key()?;
        }
        if is_once(&fields) {
            return Ok(Lent::Object(fields));
        }
        // Of these, readers take either, and what runs depends on it.
        let decides = |(key, _): &(Cow<'_, str>, Lent<'_>)| {
            let alike = fields.iter().filter(|(other, _)| other == key);
            DECIDING.contains(&key.as_ref()) && alike.take(2).count() > 1
        };
        if fields.iter().any(decides) {
            return Err(A::Error::custom("a key that decides what runs is there twice"));
        }
        Ok(Lent::Object(once(fields)))
    }
}

/// A key, lent where it was written without escapes.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// Whether no key is there twice, as a quick look can tell.
fn is_once(fields: &[(Cow<'_, str>, Lent<'_>)]) -> bool {
    let mut rest = fields.iter();
    let alone = |(key, _): &(Cow<'_, str>, _), rest: &[(Cow<'_, str>, _)]| {
        rest.iter().all(|(other, _)| other != key)
    };
    fields.len() <= KEYS_FEW
        && std::iter::from_fn(|| rest.next().map(|field| alone(field, rest.as_slice())))
            .all(|alone| alone)
}

/// The fields with each key once: in its first place, with its last value.
fn once<'a>(fields: Vec<(Cow<'a, str>, Lent<'a>)>) -> Vec<(Cow<'a, str>, Lent<'a>)> {
    let mut places: BTreeMap<Cow<'a, str>, usize> = BTreeMap::new();
    let mut kept: Vec<(Cow<'a, str>, Lent<'a>)> = Vec::new();
    for (key, value) in fields {
        let place = *places.entry(key.clone()).or_insert(kept.len());
        match kept.get_mut(place) {
            Some((_, before)) => *before = value,
            None => kept.push((key, value)),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn lent(text: &str) -> Option<Value> {
        serde_json::from_str::<Lent<'_>>(text).ok().map(|lent| lent.value())
    }

    /// What is lent says what a `Value` says, in the same order, and refuses what it refuses.
    fn agree(text: &str) {
        let wanted = serde_json::from_str::<Value>(text).ok();
        let told = lent(text);
        assert_eq!(told, wanted, "{text}");
        let written = |value: &Option<Value>| value.as_ref().map(Value::to_string);
        assert_eq!(written(&told), written(&wanted), "{text}");
    }

    #[test]
    fn what_is_lent_is_what_was_written() {
        for text in [
            "null",
            " true ",
            "-1",
            "18446744073709551615",
            "18446744073709551616",
            "1e400",
            "0.1",
            "-0",
            "-0.0",
            "1E2",
            "01",
            "\"\"",
            "\"a\\u00e9\\n\"",
            "\"\\ud800\"",
            "\"\u{1}\"",
            "[]",
            "[1,]",
            "{}",
            "{\"a\":1,}",
            "{\"a\":1} x",
            "{a:1}",
            "{\"\\u0061\":1,\"a\":2}",
            "",
        ] {
            agree(text);
        }
        for depth in [126, 127, 128, 129] {
            agree(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
        }
    }

    #[test]
    fn a_key_that_is_there_twice_has_its_first_place_and_its_last_value() {
        for keys in [2, KEYS_FEW, KEYS_FEW + 1, 500] {
            for twice in [0, keys / 2, keys - 1] {
                let mut fields: Vec<String> =
                    (0..keys).map(|at| format!("\"k{at}\":{at}")).collect();
                agree(&format!("{{{}}}", fields.join(",")));
                fields.push(format!("\"k{twice}\":null"));
                agree(&format!("{{{}}}", fields.join(",")));
            }
        }
    }

    /// An event is bounded by its bytes alone, so a great many keys must not take long.
    #[test]
    fn many_keys_are_read_in_little_time() {
        let fields: Vec<String> = (0..200_000).map(|at| format!("\"{at}\":0")).collect();
        let text = format!("{{{}}}", fields.join(","));
        let lent: Lent<'_> = serde_json::from_str(&text).unwrap();
        assert_eq!(lent.fields().len(), 200_000);
    }

    #[test]
    fn a_field_is_found_by_its_key_and_its_kind() {
        let text = r#"{"a":"x","b":"","c":null,"d":3,"e":-3,"f":["y"],"g":{"a":1},"h":false}"#;
        let lent: Lent<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(lent.text("a"), Some("x"));
        for key in ["b", "c", "d", "f", "g", "i"] {
            assert_eq!(lent.text(key), None, "{key}");
        }
        assert_eq!(lent.get("d").and_then(Lent::as_u64), Some(3));
        assert_eq!(lent.get("e").and_then(Lent::as_u64), None);
        assert_eq!(lent.get("f").and_then(Lent::list).map(<[_]>::len), Some(1));
        assert!(lent.get("g").is_some_and(Lent::is_object));
        assert!(lent.get("c").is_some_and(Lent::is_null));
        assert_eq!(lent.value(), serde_json::from_str::<Value>(text).unwrap());
        assert!(Lent::Null.get("a").is_none() && Lent::Null.fields().is_empty());
    }

    /// JSON as text, with keys that are there twice, escapes and numbers of every kind.
    fn written() -> impl Strategy<Value = String> {
        let number = prop_oneof![
            any::<i64>().prop_map(|number| number.to_string()),
            any::<u64>().prop_map(|number| number.to_string()),
            any::<f64>().prop_map(|number| format!("{number:e}")),
        ];
        let text = "[a-c\"\\\\\n\u{e9}\u{1f4dc}]{0,4}".prop_map(|text| json!(text).to_string());
        let word = prop_oneof![Just("null".to_owned()), Just("true".to_owned())];
        let leaf = prop_oneof![number, text.clone(), word];
        leaf.prop_recursive(5, 60, 6, move |inner| {
            let fields = prop::collection::vec((text.clone(), inner.clone()), 0..6);
            prop_oneof![
                prop::collection::vec(inner, 0..6).prop_map(|list| format!("[{}]", list.join(","))),
                fields.prop_map(|fields| {
                    let fields: Vec<String> =
                        fields.iter().map(|(key, value)| format!("{key} : {value}")).collect();
                    format!("{{{}}}", fields.join(","))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn both_readers_agree(text in written(), cut in any::<prop::sample::Index>()) {
            agree(&text);
            let end = cut.index(text.len() + 1);
            if let Some(begin) = text.get(..end) {
                agree(begin);
            }
        }
    }
}
