//! Decides what of a model's words is a thought that they begin with, whole and piece by piece.

use std::sync::{Mutex, MutexGuard, PoisonError};

use toolgate_runtime::port::{Streamed, Tap};

/// How a thought begins and ends.
pub(super) const THOUGHTS: &[(&str, &str)] =
    &[("<think>", "</think>"), ("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]")];

/// The thought that a text begins with, and the rest; nothing when it begins with none.
///
/// One that is not closed is everything. Where only the end is there, because the template opened
/// the thought in the prompt, that end must stand at the edge of a line: words that speak of a tag
/// are no thought.
pub(super) fn leading(text: &str) -> Option<(&str, &str)> {
    let begin = text.trim_start();
    for (open, close) in THOUGHTS {
        if let Some(inner) = begin.strip_prefix(open) {
            return Some(inner.split_once(close).unwrap_or((inner, "")));
        }
    }
    let ends = THOUGHTS.iter().filter_map(|(open, close)| {
        let (thought, rest) = text.split_once(close)?;
        let edge = thought.trim_end_matches([' ', '\t']).ends_with('\n')
            || rest.trim_start_matches([' ', '\t']).starts_with('\n');
        (edge && !thought.contains(open)).then_some((thought, rest))
    });
    ends.min_by_key(|(thought, _)| thought.len())
}

/// A tap that is shown a leading thought as a thought, though it comes piece by piece. A thought
/// without its beginning is known only at its end, so it is shown as words.
pub(crate) struct Thinking<'a> {
    tap: Tap<'a>,
    heard: Mutex<Heard>,
}

/// Where the words are.
struct Heard {
    at: At,
    /// What came and may be a part of a tag.
    held: String,
    /// How much of it is known to be blank.
    blank: usize,
}

#[derive(Clone, Copy)]
enum At {
    /// Nothing was said yet.
    Begin,
    /// Inside a thought that ends so.
    Thought(&'static str),
    /// Behind a thought, before the words.
    Behind,
    /// Amid the words.
    Words,
}

impl<'a> Thinking<'a> {
    pub(crate) fn new(tap: Tap<'a>) -> Self {
        Self { tap, heard: Mutex::new(Heard { at: At::Begin, held: String::new(), blank: 0 }) }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows a piece as what it is.
    pub(crate) fn pass(&self, streamed: Streamed<'_>) {
        let Streamed::Text(text) = streamed else { return (self.tap)(streamed) };
        let mut heard = self.heard();
        heard.held.push_str(text);
        while heard.step(self.tap) {}
    }

    /// Shows the rest: nothing more comes.
    pub(crate) fn end(&self) {
        let mut heard = self.heard();
        let held = std::mem::take(&mut heard.held);
        match heard.at {
            At::Thought(_) => show(self.tap, Streamed::Thought(&held)),
            At::Begin | At::Behind | At::Words => show(self.tap, Streamed::Text(&held)),
        }
    }
}

fn show(tap: Tap<'_>, streamed: Streamed<'_>) {
    if !matches!(streamed, Streamed::Text("") | Streamed::Thought("")) {
        tap(streamed);
    }
}

impl Heard {
    /// Shows what can be shown of what is held; whether there may be more.
    fn step(&mut self, tap: Tap<'_>) -> bool {
        match self.at {
            At::Begin => {
                // What was looked at once is not looked at again: it may be blank for long.
                let begin = self.held.get(self.blank..).unwrap_or_default().trim_start();
                self.blank = self.held.len() - begin.len();
                let opened = THOUGHTS.iter().find(|(open, _)| begin.starts_with(open));
                if let Some((open, close)) = opened {
                    self.held = begin.get(open.len()..).unwrap_or_default().to_owned();
                    self.at = At::Thought(close);
                    return true;
                }
                if THOUGHTS.iter().any(|(open, _)| open.starts_with(begin)) {
                    return false;
                }
                self.at = At::Words;
                true
            }
            At::Thought(close) => {
                if let Some((thought, rest)) = self.held.split_once(close) {
                    show(tap, Streamed::Thought(thought));
                    (self.at, self.held) = (At::Behind, rest.to_owned());
                    return true;
                }
                let kept = (1..close.len()).rev().find(|length| {
                    close.get(..*length).is_some_and(|part| self.held.ends_with(part))
                });
                let rest = self.held.split_off(self.held.len() - kept.unwrap_or(0));
                let thought = std::mem::replace(&mut self.held, rest);
                show(tap, Streamed::Thought(&thought));
                false
            }
            At::Behind => {
                let words = self.held.trim_start().to_owned();
                self.held = words;
                if !self.held.is_empty() {
                    self.at = At::Words;
                }
                !self.held.is_empty()
            }
            At::Words => {
                show(tap, Streamed::Text(&std::mem::take(&mut self.held)));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leading_thought_is_told_from_words() {
        let table: &[(&str, Option<(&str, &str)>)] = &[
            ("<think>a</think>b", Some(("a", "b"))),
            (" \n<think>\na\n</think>\n\nb", Some(("\na\n", "\n\nb"))),
            ("<thinking>a</thinking>b", Some(("a", "b"))),
            ("[THINK]a[/THINK]b", Some(("a", "b"))),
            ("<think></think>b", Some(("", "b"))),
            // Not closed: everything is the thought.
            ("<think>a <tool_call>", Some(("a <tool_call>", ""))),
            // Only the end is there.
            ("a\n</think>\n\nb", Some(("a\n", "\n\nb"))),
            ("a\n</think>b", Some(("a\n", "b"))),
            ("a.</think>\nb", Some(("a.", "\nb"))),
            ("\n</thinking> b", Some(("\n", " b"))),
            // Words that speak of tags.
            ("Close it with `</think>` then.", None),
            ("a </think> b", None),
            ("b <think>a</think>", None),
            ("b\n<think>\na\n</think>\nc", None),
            ("<thinker>", None),
            ("", None),
        ];
        for (text, wanted) in table {
            assert_eq!(leading(text), *wanted, "{text:?}");
        }
    }

    /// What a tap is shown of pieces, thoughts in brackets.
    fn shown(text: &str, size: usize) -> (String, String) {
        let shown = Mutex::new((String::new(), String::new()));
        let tap = |streamed: Streamed<'_>| match streamed {
            Streamed::Thought(text) => shown.lock().unwrap().0.push_str(text),
            Streamed::Text(text) => shown.lock().unwrap().1.push_str(text),
            Streamed::Held(_)
            | Streamed::Freed(_)
            | Streamed::Call { .. }
            | Streamed::Again
            | Streamed::Counted(_)
            | Streamed::Waits { .. } => {}
        };
        let thinking = Thinking::new(&tap);
        let letters: Vec<char> = text.chars().collect();
        for piece in letters.chunks(size) {
            thinking.pass(Streamed::Text(&piece.iter().collect::<String>()));
        }
        thinking.end();
        shown.into_inner().unwrap()
    }

    #[test]
    fn pieces_are_shown_as_the_whole_is_read() {
        let texts = [
            "<think>ä < b </thin </think>\n\nöh <think>x</think>",
            " <thinking>a</thinking> b",
            "<think>never closed </thin",
            "<thi",
            "no thought </think> at all",
            "[THINK]a[/THINK]b",
            "",
        ];
        for text in texts {
            let wanted = match leading(text) {
                Some((thought, words)) => (thought.to_owned(), words.trim_start().to_owned()),
                None => (String::new(), text.to_owned()),
            };
            for size in 1..=text.len().max(1) {
                assert_eq!(shown(text, size), wanted, "{text:?} by {size}");
            }
        }
    }
}
