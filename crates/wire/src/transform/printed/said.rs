//! Decides whether a printed call was only repeated: a person or a tool said it before, in these
//! words or as the same call in another form.
//!
//! Whoever writes into a result must not be able to call tools by it, and a model that repeats JSON
//! writes it anew: in another order, with other escapes, between other tags.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::payload::{self, PrintedCall, balanced, readings};
use super::scan::BLOCKS;
use super::{DEEPSEEK, Form, Found, Granted, HERMES, LLAMA, MISTRAL, TAGS};

/// Bytes that are looked through in everything that was said.
const WORK_BYTES_MAX: usize = 32 << 20;
/// How deep a text is looked for inside another one.
const QUOTED_MAX: usize = 4;

const FORMS: [&Form; 5] = [&HERMES, &MISTRAL, &DEEPSEEK, &TAGS, &LLAMA];

/// Whether any of the calls that were found in a text was said to the model before.
pub(super) fn was_said(found: &Found, text: &str, granted: &Granted<'_>) -> bool {
    let cuts = found.cuts.iter().filter_map(|(start, end)| text.get(*start..*end));
    let mut look = Look {
        cuts: cuts.map(bare).collect(),
        calls: found.calls.iter().map(Meant::of).collect(),
        granted,
        left: WORK_BYTES_MAX,
    };
    granted.said().any(|said| look.at_text(&said, 0))
}

/// A call by its value.
struct Meant {
    name: String,
    args: Value,
}

impl Meant {
    fn of(call: &PrintedCall) -> Self {
        let args = payload::parse(&call.args);
        let args = args.unwrap_or_else(|| Value::String(call.args.trim().to_owned()));
        Self { name: call.name.clone(), args }
    }
}

/// A look through what was said.
struct Look<'a> {
    /// The words of the calls.
    cuts: Vec<String>,
    /// What they mean.
    calls: Vec<Meant>,
    granted: &'a Granted<'a>,
    /// Bytes that may still be looked at. When they are used up nothing can be told, so nothing is
    /// taken.
    left: usize,
}

impl Look<'_> {
    /// Whether a text has one of the calls in it, however it is quoted there.
    fn at_text(&mut self, text: &str, depth: usize) -> bool {
        if depth > QUOTED_MAX {
            return false;
        }
        if !self.pay(text.len()) {
            return true;
        }
        let words = bare(text);
        if self.cuts.iter().any(|cut| words.contains(cut)) {
            return true;
        }
        if text.contains(['<', '[']) {
            let texts = [text, &unquoted(text)];
            let read = |text: &&str| FORMS.map(|form| (form.find)(text, self.granted));
            let mut found = texts.iter().flat_map(read).flatten().flat_map(|found| found.calls);
            if found.any(|call| self.has(&Meant::of(&call))) {
                return true;
            }
        }
        self.at_values(text, depth)
    }

    /// The same for every JSON that stands somewhere in a text.
    fn at_values(&mut self, text: &str, depth: usize) -> bool {
        let mut at = 0;
        while let Some(rest) = text.get(at..)
            && let Some(skip) = rest.find(['{', '['])
        {
            at += skip;
            let rest = rest.get(skip..).unwrap_or_default();
            let length = balanced(rest);
            if !self.pay(length.unwrap_or(rest.len())) {
                return true;
            }
            match length.and_then(|length| payload::parse(rest.get(..length)?)) {
                Some(value) if self.at_value(&value, depth) => return true,
                Some(_) => at += length.unwrap_or(1),
                None => at += 1,
            }
        }
        false
    }

    fn at_value(&mut self, value: &Value, depth: usize) -> bool {
        match value {
            Value::String(text) => self.at_text(text, depth + 1),
            Value::Array(items) => {
                // A list of pieces is one text to whoever reads it.
                let pieces: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                (pieces.len() > 1 && self.at_text(&pieces.concat(), depth + 1))
                    || items.iter().any(|item| self.at_value(item, depth))
            }
            Value::Object(object) => {
                self.at_object(object) || object.values().any(|value| self.at_value(value, depth))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    fn at_object(&self, object: &Map<String, Value>) -> bool {
        if readings(object).iter().any(|call| self.has(&Meant::of(call))) {
            return true;
        }
        // A domain tool names itself among its arguments.
        let Some(Value::String(tool)) = object.get("type") else { return false };
        let mut args = object.clone();
        args.shift_remove("type");
        [args, object.clone()]
            .into_iter()
            .any(|args| self.has(&Meant { name: tool.clone(), args: Value::Object(args) }))
    }

    fn has(&self, said: &Meant) -> bool {
        let is = |call: &Meant| {
            same(&call.args, &said.args) && self.granted.may_be_one(&call.name, &said.name)
        };
        self.calls.iter().any(is)
    }

    fn pay(&mut self, bytes: usize) -> bool {
        self.left = self.left.saturating_sub(bytes);
        self.left > 0
    }
}

/// Whether two values are one, whatever the order of keys and the writing of numbers.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let there = |(key, a): (&String, &Value)| b.get(key).is_some_and(|b| same(a, b));
            a.len() == b.len() && a.iter().all(there)
        }
        _ => one == other,
    }
}

/// A text without what JSON adds when it is quoted, and without blanks.
fn bare(text: &str) -> String {
    text.replace("\\n", "").chars().filter(|c| *c != '\\' && !c.is_whitespace()).collect()
}

/// A text in which nothing is set off as code, quotation or thought any more.
fn unquoted(text: &str) -> String {
    let mut text = Cow::Borrowed(text);
    let blocks = BLOCKS.iter().flat_map(|(open, close)| [*open, *close]);
    let marks = blocks.chain(["`", "~", "{{", "{%"]).map(|mark| (mark, ""));
    for (mark, plain) in marks.chain([("\\<", "<")]) {
        if text.contains(mark) {
            text = Cow::Owned(text.replace(mark, plain));
        }
    }
    let begin = |c: char| c == '>' || c.is_whitespace();
    text.lines().flat_map(|line| [line.trim_start_matches(begin), "\n"]).collect()
}
