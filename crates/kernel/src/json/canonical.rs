//! Decides the one way a JSON value is written when it is hashed or exported.

use std::iter::successors;

use serde_json::Value;

use super::document::{Document, Node, Span, Whole};
use super::write::write_text;

/// The value with the keys of every object sorted by their bytes, and no spaces.
pub fn canonical(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    write_canonical(value, &mut out);
    out
}

/// Appends the canonical form to `out`.
pub fn write_canonical(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(map) => {
            out.push(b'{');
            let mut first = true;
            let mut entry = |key: &String, value: &Value| {
                if !std::mem::take(&mut first) {
                    out.push(b',');
                }
                write_text(key, out);
                out.push(b':');
                write_canonical(value, out);
            };
            if map.keys().is_sorted() {
                map.iter().for_each(|(key, value)| entry(key, value));
            } else {
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                entries.into_iter().for_each(|(key, value)| entry(key, value));
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_canonical(item, out);
            }
            out.push(b']');
        }
        Value::String(text) => write_text(text, out),
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            // Writing a number into memory has no way to fail.
            let written = serde_json::to_writer(out, value);
            debug_assert!(written.is_ok());
        }
    }
}

impl Document {
    /// The same form of a document.
    pub fn canonical(&self) -> Vec<u8> {
        let out = Vec::with_capacity(self.text.len());
        let mut writer = Writer { document: self, out, sorted: Vec::new() };
        writer.object(0, self.count);
        writer.out
    }
}

/// A document that is being written.
struct Writer<'a> {
    document: &'a Document,
    out: Vec<u8>,
    /// Members in their order with the places of their names, of all open objects that stand in
    /// another order in the text.
    sorted: Vec<(&'a str, usize)>,
}

impl<'a> Writer<'a> {
    fn value(&mut self, at: usize) {
        match self.document.nodes.get(at) {
            None | Some(Node::Null) => self.out.extend_from_slice(b"null"),
            Some(Node::Bool(true)) => self.out.extend_from_slice(b"true"),
            Some(Node::Bool(false)) => self.out.extend_from_slice(b"false"),
            Some(Node::Unsigned(number)) => self.number(*number),
            Some(Node::Signed(number)) => self.number(*number),
            Some(Node::Float(number)) => write_canonical(&Value::from(*number), &mut self.out),
            Some(Node::Plain(Span { start, end })) => {
                // It stands in the text as it is written, quotes and all.
                let quoted = self.document.text.as_bytes().get(start - 1..=*end);
                self.out.extend_from_slice(quoted.unwrap_or_default());
            }
            Some(Node::Text(span)) => write_text(self.document.span(*span), &mut self.out),
            Some(Node::List(whole)) => self.list(at + 1, *whole),
            Some(Node::Object(whole)) => self.object(at + 1, whole.count),
        }
    }

    fn number(&mut self, number: impl itoa::Integer) {
        self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    fn list(&mut self, first: usize, whole: Whole) {
        let mut at = first;
        self.out.push(b'[');
        for item in 0..whole.count {
            if item > 0 {
                self.out.push(b',');
            }
            self.value(at);
            at = self.document.after(at);
        }
        self.out.push(b']');
    }

    fn object(&mut self, first: usize, count: usize) {
        let (base, document) = (self.sorted.len(), self.document);
        let members = || {
            let places = successors(Some(first), |at| Some(document.after(at + 1)));
            places.take(count).map(|at| (document.name(at), at))
        };
        self.out.push(b'{');
        // Most models write arguments in the order in which they were told about them.
        if members().is_sorted() {
            members().enumerate().for_each(|(nth, (_, at))| self.member(nth, at));
        } else {
            self.sorted.extend(members());
            if let Some(members) = self.sorted.get_mut(base..) {
                members.sort_unstable_by_key(|(name, _)| *name);
            }
            for nth in 0..count {
                let Some((_, at)) = self.sorted.get(base + nth).copied() else { break };
                self.member(nth, at);
            }
            self.sorted.truncate(base);
        }
        self.out.push(b'}');
    }

    fn member(&mut self, nth: usize, at: usize) {
        if nth > 0 {
            self.out.push(b',');
        }
        self.value(at);
        self.out.push(b':');
        self.value(at + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_at_every_depth() {
        let value: Value = serde_json::from_str(r#"{"b":[{"z":1,"a":null}],"a":"é\n"}"#).unwrap();
        assert_eq!(canonical(&value), "{\"a\":\"é\\n\",\"b\":[{\"a\":null,\"z\":1}]}".as_bytes());
    }
}
