//! Decides that no secret which a server echoes becomes part of a reply: of its words as they
//! come, or of what is kept of them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};
use toolgate_runtime::port::{Streamed, Tap};

use crate::veil::{MARK, forms};

/// Bytes by which a form of a secret is recognised; a shorter form is none.
const HEAD_BYTES: usize = 8;
/// A secret that is as long as this is one, whatever it is made of.
const LONG_BYTES: usize = 20;
/// Bits of the table that says where to look closer.
const TABLE_BITS: usize = 4_096;

/// The secrets of a model, as they must not stand in a reply.
///
/// Only whole ones count, and only those that nobody would say by chance: `ollama` is a fine key
/// for a server that wants none, and a fine word.
pub(crate) struct Curtain {
    forms: Vec<Vec<u8>>,
    table: Box<[bool]>,
}

impl Curtain {
    pub(crate) fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let words =
            secrets.into_iter().flat_map(str::split_whitespace).filter(|word| telling(word));
        let mut all: Vec<Vec<u8>> = words.flat_map(forms).map(String::into_bytes).collect();
        all.retain(|form| form.len() >= HEAD_BYTES);
        // Of two that begin alike the longer one is covered.
        all.sort_by_key(|form| std::cmp::Reverse(form.len()));
        let mut table = vec![false; TABLE_BITS].into_boxed_slice();
        for form in &all {
            let head = form.iter().take(HEAD_BYTES).fold(0, |head, byte| shifted(head, *byte));
            if let Some(bit) = table.get_mut(bit(head)) {
                *bit = true;
            }
        }
        Self { forms: all, table }
    }

    /// Covers the secrets in everything an answer says.
    pub(crate) fn draw(&self, value: &mut Value) {
        if self.forms.is_empty() {
            return;
        }
        match value {
            Value::String(text) => {
                if let Some(covered) = self.covered(text) {
                    *text = covered;
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.draw(value)),
            Value::Object(fields) => {
                if fields.keys().any(|key| self.covered(key).is_some()) {
                    let renamed = std::mem::take(fields).into_iter();
                    *fields = renamed
                        .map(|(key, value)| (self.words(&key), value))
                        .collect::<Map<_, _>>();
                }
                fields.values_mut().for_each(|value| self.draw(value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Words without the secrets.
    pub(crate) fn words(&self, text: &str) -> String {
        self.covered(text).unwrap_or_else(|| text.to_owned())
    }

    /// The text with its secrets covered; nothing when it has none.
    fn covered(&self, text: &str) -> Option<String> {
        let (mut out, mut from) = (String::new(), 0);
        while let Some((start, end)) = self.find(text.as_bytes(), from) {
            out.push_str(text.get(from..start)?);
            out.push_str(MARK);
            from = end;
        }
        (from > 0).then(|| out + text.get(from..).unwrap_or_default())
    }

    /// Where the next secret stands.
    fn find(&self, text: &[u8], from: usize) -> Option<(usize, usize)> {
        if self.forms.is_empty() {
            return None;
        }
        let mut head = 0;
        for (count, byte) in text.iter().enumerate().skip(from) {
            head = shifted(head, *byte);
            if count + 1 < from + HEAD_BYTES || self.table.get(bit(head)) != Some(&true) {
                continue;
            }
            let start = count + 1 - HEAD_BYTES;
            let rest = text.get(start..).unwrap_or_default();
            let whole = |form: &&Vec<u8>| {
                rest.get(..form.len()).is_some_and(|part| part.eq_ignore_ascii_case(form))
            };
            if let Some(form) = self.forms.iter().find(whole) {
                return Some((start, start + form.len()));
            }
        }
        None
    }

    /// Where the end of a text could be the begin of a secret.
    fn pending(&self, text: &[u8]) -> usize {
        let longest = self.forms.first().map_or(0, Vec::len);
        let begins = |tail: &[u8]| {
            let same = |form: &Vec<u8>| {
                form.get(..tail.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(tail))
            };
            self.forms.iter().any(same)
        };
        let first = text.len().saturating_sub(longest.saturating_sub(1));
        let mut starts = first..text.len();
        starts.find(|at| begins(text.get(*at..).unwrap_or_default())).unwrap_or(text.len())
    }
}

/// A secret that nobody says by chance.
fn telling(word: &str) -> bool {
    let has = |test: fn(&u8) -> bool| word.as_bytes().iter().any(test);
    let mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
    word.is_ascii() && (word.len() >= LONG_BYTES || (word.len() >= HEAD_BYTES && mixed))
}

/// The last bytes, with one more; large and small letters are the same.
fn shifted(head: u64, byte: u8) -> u64 {
    (head << 8) | u64::from(byte | 0x20)
}

fn bit(head: u64) -> usize {
    // The upper bits of the product depend on every byte; twelve of them number 4,096.
    usize::try_from(head.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52).unwrap_or(0)
}

/// A tap behind which no secret is seen, though it comes piece by piece.
pub(crate) struct Covered<'a> {
    curtain: &'a Curtain,
    tap: Tap<'a>,
    held: Mutex<Held>,
}

/// What may be the begin of a secret and is not shown yet.
#[derive(Default)]
struct Held {
    words: String,
    thoughts: String,
}

impl<'a> Covered<'a> {
    pub(crate) fn new(curtain: &'a Curtain, tap: Tap<'a>) -> Self {
        Self { curtain, tap, held: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what can be shown of a piece.
    pub(crate) fn pass(&self, streamed: Streamed<'_>) {
        if self.curtain.forms.is_empty() {
            return (self.tap)(streamed);
        }
        let mut held = self.held();
        match streamed {
            Streamed::Text(text) => {
                (self.tap)(Streamed::Text(&self.ready(&mut held.words, text)));
            }
            Streamed::Thought(text) => {
                (self.tap)(Streamed::Thought(&self.ready(&mut held.thoughts, text)));
            }
            Streamed::Call { name, bytes } => {
                (self.tap)(Streamed::Call { name: &self.curtain.words(name), bytes });
            }
            // Words are held back behind the curtain.
            Streamed::Held(_)
            | Streamed::Freed(_)
            | Streamed::Counted(_)
            | Streamed::Waits { .. } => (self.tap)(streamed),
            Streamed::Again => {
                *held = Held::default();
                (self.tap)(Streamed::Again);
            }
        }
    }

    fn ready(&self, held: &mut String, text: &str) -> String {
        held.push_str(text);
        let mut ready = self.curtain.words(held);
        *held = ready.split_off(self.curtain.pending(ready.as_bytes()));
        ready
    }

    /// Shows the rest: nothing more comes.
    pub(crate) fn end(&self) {
        let Held { words, thoughts } = std::mem::take(&mut *self.held());
        if !thoughts.is_empty() {
            (self.tap)(Streamed::Thought(&thoughts));
        }
        if !words.is_empty() {
            (self.tap)(Streamed::Text(&words));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const KEY: &str = "sk-CANARY/0123+456789";

    #[test]
    fn no_form_of_a_secret_stands_in_a_reply() {
        let curtain = Curtain::new([KEY, "Bearer t0ken-CANARY-2"]);
        for form in forms(KEY).into_iter().chain(forms("t0ken-CANARY-2")) {
            let mut body = json!({ "a": [format!("ä {form}, {form}.")], form.clone(): "x" });
            curtain.draw(&mut body);
            assert_eq!(body, json!({ "a": ["ä ***, ***."], "***": "x" }), "{form}");
        }
        assert_eq!(curtain.words(&KEY.to_lowercase()), "***");
    }

    #[test]
    fn words_that_anybody_says_are_left_alone() {
        let curtain = Curtain::new(["ollama", "lm-studio", "not-needed", "x", "", KEY]);
        for text in ["ollama, lm-studio and not-needed", "", "sk-CANARY", "ä".repeat(300).as_str()]
        {
            assert_eq!(curtain.words(text), text);
        }
        assert!(Curtain::new(["none"]).forms.is_empty());
    }

    #[test]
    fn a_secret_that_comes_in_pieces_is_not_shown() {
        let curtain = Curtain::new([KEY]);
        let text = format!("Your key is {KEY}, is it ä not? sk-CAN");
        for size in 1..text.len() {
            let shown = Mutex::new((String::new(), String::new()));
            let tap = |streamed: Streamed<'_>| match streamed {
                Streamed::Text(text) => shown.lock().unwrap().0.push_str(text),
                Streamed::Thought(text) => shown.lock().unwrap().1.push_str(text),
                Streamed::Call { name, .. } => assert!(!name.contains(KEY), "{name}"),
                Streamed::Held(_)
                | Streamed::Freed(_)
                | Streamed::Again
                | Streamed::Counted(_)
                | Streamed::Waits { .. } => {}
            };
            let covered = Covered::new(&curtain, &tap);
            let letters: Vec<char> = text.chars().collect();
            for piece in letters.chunks(size) {
                let piece: String = piece.iter().collect();
                covered.pass(Streamed::Thought(&piece));
                covered.pass(Streamed::Text(&piece));
            }
            covered.pass(Streamed::Call { name: KEY, bytes: 3 });
            covered.end();
            let wanted = "Your key is ***, is it ä not? sk-CAN".to_owned();
            assert_eq!(*shown.lock().unwrap(), (wanted.clone(), wanted), "{size}");
        }
    }
}
