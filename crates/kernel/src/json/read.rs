//! Decides quickly which texts are certainly taken as one JSON object. All others are left to
//! `strict.rs`, which also says what is wrong with them.

use serde_json::Number;

use super::document::{Document, Node, Span, Whole};
use super::write::plain_bytes;
use crate::limits::Limits;

/// Reads one object and nothing after it; nothing where it is not certain that it would be taken.
pub(super) fn read(text: &str, limits: &Limits) -> Option<Document> {
    let mut reader = Reader {
        source: text,
        at: 0,
        nodes: Vec::with_capacity(text.len() / 8 + 4),
        unescaped: String::new(),
        items_left: limits.args_items_max,
    };
    reader.spaces();
    reader.expect(b'{')?;
    let count = reader.members(limits.args_depth_max.checked_sub(1)?, 0)?;
    reader.spaces();
    if reader.at != text.len() {
        return None;
    }
    let mut kept = String::with_capacity(text.len() + reader.unescaped.len());
    kept.push_str(text);
    kept.push_str(&reader.unescaped);
    Some(Document { text: kept, nodes: reader.nodes, count })
}

struct Reader<'a> {
    source: &'a str,
    /// How far it has come.
    at: usize,
    nodes: Vec<Node>,
    /// Texts that were written with escapes, as they are meant.
    unescaped: String,
    items_left: u64,
}

/// Members whose names are compared one with another; more are sorted.
const COMPARED_MAX: usize = 12;

/// Digits of a number that fits for certain.
const DIGITS_MAX: usize = 18;

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.source.as_bytes().get(self.at).copied()
    }

    #[inline]
    fn spaces(&mut self) {
        if self.peek().is_some_and(|byte| byte > b' ') {
            return;
        }
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Goes on to the next item; `false` at the end of the whole.
    fn more(&mut self, count: usize, end: u8) -> Option<bool> {
        self.spaces();
        let byte = self.peek()?;
        if byte == end {
            self.at += 1;
            return Some(false);
        }
        if count > 0 {
            self.expect(b',')?;
            self.spaces();
        }
        self.items_left = self.items_left.checked_sub(1)?;
        Some(true)
    }

    /// The members of an object whose nodes begin at `first`, and how many they are.
    fn members(&mut self, depth_left: u64, first: usize) -> Option<usize> {
        let mut count = 0;
        while self.more(count, b'}')? {
            self.expect(b'"')?;
            self.text()?;
            self.spaces();
            self.expect(b':')?;
            self.spaces();
            self.value(depth_left)?;
            count += 1;
        }
        self.all_different(first, count).then_some(count)
    }

    fn items(&mut self, depth_left: u64) -> Option<usize> {
        let mut count = 0;
        while self.more(count, b']')? {
            self.value(depth_left)?;
            count += 1;
        }
        Some(count)
    }

    fn value(&mut self, depth_left: u64) -> Option<()> {
        match self.peek()? {
            b'"' => {
                self.at += 1;
                self.text()
            }
            b'{' | b'[' => self.whole(depth_left.checked_sub(1)?),
            b't' => self.word("true", Node::Bool(true)),
            b'f' => self.word("false", Node::Bool(false)),
            b'n' => self.word("null", Node::Null),
            _ => self.number(),
        }
    }

    fn whole(&mut self, depth_left: u64) -> Option<()> {
        let (at, opening) = (self.nodes.len(), self.peek()?);
        self.at += 1;
        // What it is becomes known with its end.
        self.nodes.push(Node::Null);
        let node = if opening == b'{' {
            let count = self.members(depth_left, at + 1)?;
            Node::Object(Whole { count, end: self.nodes.len() })
        } else {
            let count = self.items(depth_left)?;
            Node::List(Whole { count, end: self.nodes.len() })
        };
        *self.nodes.get_mut(at)? = node;
        Some(())
    }

    fn word(&mut self, word: &str, node: Node) -> Option<()> {
        let rest = self.source.as_bytes().get(self.at..)?;
        if !rest.starts_with(word.as_bytes()) {
            return None;
        }
        self.at += word.len();
        self.nodes.push(node);
        Some(())
    }

    /// A text, from behind its first quote to behind its last.
    fn text(&mut self) -> Option<()> {
        let start = self.at;
        let node = match self.skip_plain()? {
            b'"' => Node::Plain(Span { start, end: self.at }),
            b'\\' => self.escaped(start)?,
            _ => return None,
        };
        self.at += 1;
        self.nodes.push(node);
        Some(())
    }

    /// Goes to the next byte that does not stand for itself, and says which it is.
    fn skip_plain(&mut self) -> Option<u8> {
        let mut rest = self.source.as_bytes().get(self.at..)?;
        while let Some((block, after)) = rest.split_first_chunk() {
            let plain = plain_bytes(block);
            self.at += plain;
            if let Some(byte) = block.get(plain) {
                return Some(*byte);
            }
            rest = after;
        }
        let special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
        self.at += rest.iter().position(special)?;
        self.peek()
    }

    /// A text with escapes: as it is meant, kept aside. It ends at its last quote.
    fn escaped(&mut self, start: usize) -> Option<Node> {
        loop {
            match self.skip_plain()? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => return None,
            }
        }
        let quoted = self.source.get(start - 1..=self.at)?;
        let text: String = serde_json::from_str(quoted).ok()?;
        if text.as_bytes().contains(&0) {
            return None;
        }
        let start = self.source.len() + self.unescaped.len();
        self.unescaped.push_str(&text);
        Some(Node::Text(Span { start, end: start + text.len() }))
    }

    fn number(&mut self) -> Option<()> {
        let start = self.at;
        let negative = self.expect(b'-').is_some();
        let digits = self.at;
        let mut number: u64 = 0;
        while let Some(byte @ b'0'..=b'9') = self.peek() {
            number = number.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
            self.at += 1;
        }
        let count = self.at - digits;
        let zero_first = count > 1 && self.source.as_bytes().get(digits) == Some(&b'0');
        if count == 0 || zero_first {
            return None;
        }
        if count > DIGITS_MAX || matches!(self.peek(), Some(b'.' | b'e' | b'E')) {
            return self.long_number(start);
        }
        // `-0` is the integer zero for whoever counts with it.
        let node = match i64::try_from(number).ok()? {
            below if negative && below > 0 => Node::Signed(-below),
            _ => Node::Unsigned(number),
        };
        self.nodes.push(node);
        Some(())
    }

    /// A number with a fraction, an exponent or many digits: rare, and read as everywhere else.
    fn long_number(&mut self, start: usize) -> Option<()> {
        while let Some(b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-') = self.peek() {
            self.at += 1;
        }
        let number: Number = serde_json::from_str(self.source.get(start..self.at)?).ok()?;
        let zero = number.as_f64() == Some(0.0);
        self.nodes.push(if zero { Node::Unsigned(0) } else { Node::of(&number) });
        Some(())
    }

    /// Whether no name is there twice among the members from a place on.
    fn all_different(&self, first: usize, count: usize) -> bool {
        if count > COMPARED_MAX {
            let mut names: Vec<&[u8]> = self.names(first).collect();
            names.sort_unstable();
            return names.array_windows().all(|[one, next]| one != next);
        }
        let mut names = self.names(first);
        while let Some(name) = names.next() {
            if names.clone().any(|other| other == name) {
                return false;
            }
        }
        true
    }

    fn names(&self, first: usize) -> impl Iterator<Item = &[u8]> + Clone {
        let mut at = first;
        std::iter::from_fn(move || {
            let (Node::Plain(span) | Node::Text(span)) = self.nodes.get(at)? else { return None };
            at = match self.nodes.get(at + 1) {
                Some(Node::List(whole) | Node::Object(whole)) => whole.end,
                _ => at + 2,
            };
            let known = self.source.len();
            match span.start.checked_sub(known) {
                Some(start) => self.unescaped.as_bytes().get(start..span.end - known),
                None => self.source.as_bytes().get(span.start..span.end),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::json::{canonical, parse_strict};

    /// What is read is what the strict reader takes, and nothing that it refuses.
    fn agrees(text: &str) -> bool {
        let limits = Limits::default();
        let strict = parse_strict(text, &limits);
        let Some(document) = read(text, &limits) else { return false };
        let read = Value::Object(document.to_map());
        assert_eq!(strict.as_ref(), Ok(&read), "{text}");
        assert_eq!(document.canonical(), canonical(&read), "{text}");
        assert_eq!(Document::from(&document.to_map()).canonical(), canonical(&read), "{text}");
        true
    }

    #[test]
    fn what_is_written_every_day_is_read() {
        let texts = [
            r#"{}"#,
            " { \"a\" : [ ] , \"b\" : { } }\n",
            r#"{"b":[1,-1,0,-0,true,false,null,"é"],"a":{"z":{"y":[[]]},"x":"\n\"\\\/\u00e9"}}"#,
            r#"{"f":1.5,"g":-2e3,"h":18446744073709551615,"i":-9223372036854775808,"j":0.0}"#,
            r#"{"k":123456789012345678,"l":-123456789012345678,"m":1234567890123456789}"#,
            r#"{"\u0061":1,"b":2,"ab":3,"ba":4}"#,
            r#"{"01234567":"01234567","0123456789abcdef":"Żółć \ud83d\udcdc"}"#,
        ];
        for text in texts {
            assert!(agrees(text), "{text}");
        }
        let wide: Vec<String> = (0..40).map(|at| format!("\"k{at}\":{at}")).collect();
        assert!(agrees(&format!("{{{}}}", wide.join(","))));
    }

    #[test]
    fn what_is_refused_is_not_read() {
        let wide: Vec<String> = (0..40).map(|at| format!("\"k{}\":1", at % 39)).collect();
        let wide = format!("{{{}}}", wide.join(","));
        let deep = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        let texts = [
            "",
            "{",
            "}",
            "[]",
            "1",
            "{}x",
            "{} {}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{,"a":1}"#,
            r#"{"a":1 "b":2}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"\u0061":1,"\u0061":2}"#,
            r#"{"a":[1,]}"#,
            r#"{"a":[,1]}"#,
            r#"{"a":01}"#,
            r#"{"a":-}"#,
            r#"{"a":+1}"#,
            r#"{"a":1.}"#,
            r#"{"a":.5}"#,
            r#"{"a":1e}"#,
            r#"{"a":1e400}"#,
            r#"{"a":1-1}"#,
            r#"{"a":tru}"#,
            r#"{"a":nullx}"#,
            r#"{"a":"b}"#,
            r#"{"a":"\"}"#,
            r#"{"a":"\x"}"#,
            r#"{"a":"\ud800"}"#,
            r#"{"a":"\u0000"}"#,
            "{\"a\":\"\0\"}",
            "{\"a\":\"\n\"}",
            "{\"a\u{0}\":1}",
            "\u{feff}{}",
            "{'a':1}",
            "{\u{a0}}",
            &wide,
            &deep(64),
        ];
        for text in texts {
            assert!(
                parse_strict(text, &Limits::default()).map_or(true, |v| !v.is_object()),
                "{text}"
            );
            assert!(!agrees(text), "{text}");
        }
        assert!(agrees(&deep(63)));
        let items = |count: usize| format!("{{\"a\":[{}]}}", vec!["1"; count].join(","));
        assert!(agrees(&items(9_999)));
        assert!(!agrees(&items(10_000)));
    }

    proptest! {
        #[test]
        fn any_text_is_read_alike_or_not_at_all(text in r#"\{("[ab\\u0061]{0,3}":[-0-9.eE"\[\]{}a, \\n]{0,6},?){0,4}\}"#) {
            agrees(&text);
        }

        #[test]
        fn soup_is_read_alike_or_not_at_all(
            words in prop::collection::vec(prop::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "\"a\"", "\"b\"", "\"\\u0061\"", "\"", "\\", "1", "-",
                "0", "1.5", "e3", "true", "null", " ", "\n", "é", "\"long enough to be blocks\"",
            ]), 0..14),
        ) {
            agrees(&words.concat());
            agrees(&format!("{{\"a\":{}}}", words.concat()));
        }
    }
}
