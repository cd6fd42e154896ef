//! Decides how a part of a document becomes a type of its own. What is rare is refused here, and
//! left to whoever reads the tree.

use serde::de::value::{BorrowedStrDeserializer, Error};
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::document::{Document, Items, Members, Part};

impl Document {
    /// The whole object.
    pub fn root(&self) -> Part<'_> {
        Part::Object(self.members())
    }
}

impl<'de> Deserializer<'de> for Part<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Self::Null => visitor.visit_unit(),
            Self::Bool(truth) => visitor.visit_bool(truth),
            Self::Unsigned(number) => visitor.visit_u64(number),
            Self::Signed(number) => visitor.visit_i64(number),
            Self::Float(number) => visitor.visit_f64(number),
            Self::Text(text) => visitor.visit_borrowed_str(text),
            Self::List(mut items) => {
                let value = visitor.visit_seq(&mut items)?;
                if items.len() == 0 { Ok(value) } else { Err(left_over()) }
            }
            Self::Object(mut members) => {
                let value = visitor.visit_map(&mut members)?;
                if members.len() == 0 { Ok(value) } else { Err(left_over()) }
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if let Self::Null = self { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let Self::Text(name) = self else { return Err(Error::custom("no choice by its name")) };
        visitor.visit_enum(name.into_deserializer())
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier
    }
}

fn left_over() -> Error {
    Error::custom("more than was asked for")
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        self.next().map(|part| seed.deserialize(part)).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.len())
    }
}

impl<'de> MapAccess<'de> for Members<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let name = self.name().map(BorrowedStrDeserializer::new);
        name.map(|name| seed.deserialize(name)).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.value().ok_or_else(|| Error::custom("a name without a value"))?)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.len())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::Value;

    use super::*;
    use crate::limits::Limits;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        int: i64,
        small: Option<u8>,
        float: Option<f64>,
        text: String,
        choice: Option<Choice>,
        pair: Option<(bool, char)>,
        list: Vec<Option<Id>>,
        #[serde(default)]
        any: Value,
        map: Option<BTreeMap<String, Value>>,
        by_number: Option<BTreeMap<u64, ()>>,
        #[serde(default)]
        inner: Option<Box<Wanted>>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Id(String);

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Choice {
        Left,
        Right { by: u64 },
    }

    fn read(members: &str) -> (Result<Wanted, Error>, Result<Wanted, serde_json::Error>) {
        let text = format!("{{\"int\":-1,\"text\":\"t\",\"list\":[]{members}}}");
        let document = Document::read(&text, &Limits::default()).unwrap();
        (Wanted::deserialize(document.root()), Wanted::deserialize(&document.to_map()))
    }

    #[test]
    fn a_document_becomes_what_its_tree_becomes() {
        let taken = [
            "",
            r#","small":255,"float":1,"choice":"left","pair":[true,"é"],"any":{"a":[1,-2,0.5]}"#,
            r#","map":{"a":null},"inner":{"int":0,"text":"\n","list":["a",null]}"#,
        ];
        for members in taken {
            let (ours, theirs) = read(members);
            assert_eq!(ours.unwrap(), theirs.unwrap(), "{members}");
        }
        // What is rare is left to the tree.
        for members in [r#","choice":{"right":{"by":1}}"#, r#","by_number":{"7":null}"#] {
            let (ours, theirs) = read(members);
            assert!(ours.is_err() && theirs.is_ok(), "{members}");
        }
        for members in [
            r#","small":256"#,
            r#","float":"1""#,
            r#","choice":"up""#,
            r#","pair":[true]"#,
            r#","pair":[true,"a",1]"#,
            r#","other":1"#,
            r#","inner":[]"#,
            r#","map":[]"#,
        ] {
            let (ours, theirs) = read(members);
            assert!(ours.is_err() && theirs.is_err(), "{members}");
        }
    }
}
