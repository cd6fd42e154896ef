//! Decides what becomes of half a character. JSON can name the two halves of one apart, and servers
//! that cut a text between them send them in two events. Halves that meet become the character, and
//! one that stays alone is shown as what cannot be read.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use toolgate_kernel::json::{joined_surrogates as character, replace_lone_surrogates as replaced};
use toolgate_runtime::port::{Streamed, Tap};

/// Stands before a half that waits for the other one. No text means anything by this character.
const MARK: char = '\u{fdd0}';
/// Behind the mark, the half as a character of its own, counted from here.
const FIRST: u32 = 0x10_f000;
/// The first half there is, and how many there are.
const HALVES: (u16, u32) = (0xd800, 0x800);
/// The first half that is the second one of its character.
const SECOND: u16 = 0xdc00;
/// Stands for what cannot be read.
const LOST: char = '\u{fffd}';

/// JSON with each lone half marked, to be joined later; nothing where there is none.
pub(crate) fn marked(json: &str) -> Option<String> {
    let mark = |half: u16| {
        let at = FIRST + u32::from(half.wrapping_sub(HALVES.0));
        [MARK, char::from_u32(at).unwrap_or(LOST)].into_iter().collect()
    };
    String::from_utf8(replaced(json.as_bytes(), mark)?).ok()
}

/// JSON with each lone half as what cannot be read; nothing where there is none.
pub(crate) fn lost(json: &[u8]) -> Option<Vec<u8>> {
    replaced(json, |_| LOST.to_string())
}

/// A text with the halves in it joined that were marked.
pub(crate) fn joined(text: &str) -> Cow<'_, str> {
    if !text.contains(MARK) {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once(MARK) {
        out.push_str(before);
        let Some((half, after)) = half(after) else {
            out.push(MARK);
            rest = after;
            continue;
        };
        let other = after.strip_prefix(MARK).and_then(self::half);
        let met = other.and_then(|(low, beyond)| Some((character(half, low)?, beyond)));
        let (sign, beyond) = met.unwrap_or((LOST, after));
        out.push(sign);
        rest = beyond;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The half that stands behind a mark, and what follows it.
fn half(text: &str) -> Option<(u16, &str)> {
    let mut rest = text.chars();
    let number = u32::from(rest.next()?).checked_sub(FIRST).filter(|at| *at < HALVES.1)?;
    Some((HALVES.0 + u16::try_from(number).ok()?, rest.as_str()))
}

/// The same in everything an answer says.
pub(crate) fn join_all(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(joined(&text).into_owned()),
        Value::Array(items) => items.into_iter().map(join_all).collect(),
        Value::Object(fields) => {
            let join = |(key, value): (String, Value)| (joined(&key).into_owned(), join_all(value));
            fields.into_iter().map(join).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// What of words and thoughts is not shown yet, because the other half may follow.
#[derive(Default)]
pub(crate) struct Waiting {
    words: Mutex<String>,
    thoughts: Mutex<String>,
}

impl Waiting {
    /// Shows a piece with its halves joined; one at its end waits.
    pub(crate) fn pass(&self, streamed: Streamed<'_>, tap: Tap<'_>) {
        match streamed {
            Streamed::Text(text) => tap(Streamed::Text(&next(&self.words, text))),
            Streamed::Thought(text) => tap(Streamed::Thought(&next(&self.thoughts, text))),
            Streamed::Held(_)
            | Streamed::Freed(_)
            | Streamed::Call { .. }
            | Streamed::Counted(_)
            | Streamed::Waits { .. }
            | Streamed::Again => tap(streamed),
        }
    }

    /// Shows what waits: nothing follows.
    pub(crate) fn end(&self, tap: Tap<'_>) {
        let words = std::mem::take(&mut *self.words.lock().unwrap_or_else(PoisonError::into_inner));
        if !words.is_empty() {
            tap(Streamed::Text(&joined(&words)));
        }
    }
}

/// What can be shown of a piece and of what waited for it.
fn next(waiting: &Mutex<String>, piece: &str) -> String {
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.push_str(piece);
    let tail = waiting.rsplit_once(MARK).and_then(|(before, tail)| Some((before, half(tail)?)));
    let end = match tail {
        // Only the first half of a character waits.
        Some((before, (high, ""))) if high < SECOND => before.len(),
        Some(_) | None => waiting.len(),
    };
    let rest = waiting.split_off(end);
    joined(&std::mem::replace(&mut *waiting, rest)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lone_halves_are_replaced() {
        let table = [
            (r#"{"a":"\ud83d\ude00 \u0041 \\ud83d \"\ud83"}"#, None),
            (r#"["\ud83d"]"#, Some("[\"\u{fffd}\"]")),
            (r#"["a\uDE00b\uD83D\ud83d\ude00"]"#, Some("[\"a\u{fffd}b\u{fffd}\\ud83d\\ude00\"]")),
            (r#"["\\\ud83d\n"]"#, Some("[\"\\\\\u{fffd}\\n\"]")),
            (r#"["\ud83d\"#, Some("[\"\u{fffd}\\")),
            ("\\", None),
            ("", None),
        ];
        for (json, wanted) in table {
            let told = lost(json.as_bytes()).map(|json| String::from_utf8(json).unwrap());
            assert_eq!(told.as_deref(), wanted, "{json}");
            let told = marked(json).map(|json| joined(&json).into_owned());
            assert_eq!(told.as_deref(), wanted, "{json}");
        }
    }

    #[test]
    fn halves_that_meet_are_the_character() {
        let piece = |text: &str| -> String {
            serde_json::from_str(&marked(&format!("\"{text}\"")).unwrap()).unwrap()
        };
        let (high, low) = (piece(r"a\ud83d"), piece(r"\ude00b"));
        assert_eq!(joined(&format!("{high}{low}")), "a😀b");
        assert_eq!(joined(&format!("{low}{high}")), "\u{fffd}ba\u{fffd}");
        assert_eq!(joined(&format!("{high}{high}{low}")), "a\u{fffd}a😀b");
        assert_eq!(joined("a\u{fdd0}b\u{fdd0}"), "a\u{fdd0}b\u{fdd0}", "the mark alone is no half");
        let shown = Mutex::new(String::new());
        let tap = |streamed: Streamed<'_>| {
            if let Streamed::Text(text) = streamed {
                shown.lock().unwrap().push_str(text);
            }
        };
        let waiting = Waiting::default();
        for text in [&high, &low, &high, &high] {
            waiting.pass(Streamed::Text(text), &tap);
        }
        assert_eq!(*shown.lock().unwrap(), "a😀ba\u{fffd}a");
        waiting.end(&tap);
        assert_eq!(*shown.lock().unwrap(), "a😀ba\u{fffd}a\u{fffd}");
    }
}
