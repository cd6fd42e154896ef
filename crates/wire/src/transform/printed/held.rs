//! Decides which words of a model are not shown as they come: those that may be a call it prints.

use std::sync::{Mutex, MutexGuard, PoisonError};

use toolgate_runtime::port::{Streamed, Tap};

use super::domain::{STAMP_BYTES_MAX, in_stamp};
use super::payload::in_name;
use super::{Form, hermes};
use crate::transform::thought::{self, THOUGHTS};

/// A tap that is shown no call which a model prints as text. From the first sign of one, the words
/// wait until the whole reply is read; what is left of them then is shown.
pub(crate) struct Holding<'a> {
    tap: Tap<'a>,
    marks: Vec<&'static str>,
    /// Whether a text that begins as JSON may be a call.
    bare: bool,
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    /// What was shown.
    shown: String,
    /// Whether there is more in it than a blank and a date, behind the last thought.
    worded: bool,
    /// What came and waits.
    held: String,
    /// Whether there was a sign of a call.
    signed: bool,
}

impl<'a> Holding<'a> {
    pub(in crate::transform) fn new(tap: Tap<'a>, forms: impl Iterator<Item = Form>) -> Self {
        let (mut marks, mut bare) = (Vec::new(), false);
        for form in forms {
            marks.extend(form.marks);
            bare |= form.bare;
        }
        Self { tap, marks, bare, heard: Mutex::default() }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what can be shown of a piece. All of it is told at once, so that nothing is lost that
    /// came.
    pub(crate) fn pass(&self, streamed: Streamed<'_>) {
        let Streamed::Text(text) = streamed else { return (self.tap)(streamed) };
        let mut heard = self.heard();
        let waited = heard.held.len();
        heard.held.push_str(text);
        if heard.signed {
            self.tell(Streamed::Held(text));
        } else {
            let end = self.sign(&mut heard);
            let held = heard.held.split_off(end);
            let ready = std::mem::replace(&mut heard.held, held);
            heard.show(&ready);
            // What waited was told before, and is only shown.
            let (old, new) = ready.split_at_checked(waited).unwrap_or((&ready, ""));
            self.tell(Streamed::Freed(old));
            self.tell(Streamed::Text(new));
            self.tell(Streamed::Held(text.get(new.len()..).unwrap_or_default()));
        }
        if heard.signed {
            (self.tap)(Streamed::Call { name: "", bytes: heard.held.len() });
        }
    }

    fn tell(&self, streamed: Streamed<'_>) {
        if !matches!(streamed, Streamed::Text("") | Streamed::Held("") | Streamed::Freed("")) {
            (self.tap)(streamed);
        }
    }

    /// Where the words end that can be shown: at a sign, or at what may become one.
    fn sign(&self, heard: &mut Heard) -> usize {
        let held = &heard.held;
        let json = if self.bare { json(held, heard.worded) } else { Sign::None };
        let sign = match (json, self.mark(held)) {
            (json @ Sign::Perhaps(_), _) => json,
            (Sign::Sure(json), Sign::Sure(mark) | Sign::Perhaps(mark)) if mark > json => {
                Sign::Sure(json)
            }
            (json @ Sign::Sure(_), Sign::None) => json,
            (Sign::Sure(_) | Sign::None, mark) => mark,
        };
        match sign {
            Sign::Perhaps(at) => return at,
            Sign::Sure(at) => {
                heard.signed = true;
                return at;
            }
            Sign::None => {}
        }
        let ends = THOUGHTS.iter().map(|(_, close)| close);
        let signs = || self.marks.iter().chain(ends.clone());
        let begins = |at: &usize| {
            let tail = held.get(*at..).unwrap_or_default();
            !tail.is_empty() && signs().any(|sign| sign.starts_with(tail))
        };
        let longest = signs().map(|sign| sign.len()).max().unwrap_or(0);
        let first = held.floor_char_boundary(held.len().saturating_sub(longest));
        (first..held.len()).find(begins).unwrap_or(held.len())
    }

    /// The first mark that is not just spoken of.
    fn mark(&self, held: &str) -> Sign {
        let mut from = 0;
        while let Some(rest) = held.get(from..) {
            let found = self.marks.iter().filter_map(|mark| Some((rest.find(mark)?, *mark)));
            let Some((at, mark)) = found.min_by_key(|(at, _)| *at) else { break };
            let (at, behind) = (from + at, from + at + mark.len());
            match follows(mark, held.get(behind..).unwrap_or_default()) {
                Follows::Call => return Sign::Sure(at),
                Follows::Nothing => return Sign::Perhaps(at),
                Follows::Words => from = behind,
            }
        }
        Sign::None
    }

    /// Shows the rest, once it is known which words are left of the reply.
    pub(crate) fn end(&self, words: &str) {
        let heard = std::mem::take(&mut *self.heard());
        let rest = words.get(heard.common(words)..).unwrap_or_default();
        if !rest.trim().is_empty() {
            (self.tap)(Streamed::Freed(rest));
        }
    }

    /// Shows all that waits: the reply broke off, and nobody reads it.
    pub(crate) fn broke_off(&self) {
        let heard = std::mem::take(&mut *self.heard());
        self.tell(Streamed::Freed(&heard.held));
    }
}

/// Where something begins that may be a call.
enum Sign {
    None,
    /// A mark with the beginning of a call behind it, an object, or a list of objects.
    Sure(usize),
    /// A mark or a bracket, and nothing yet that says whether it is a call, a date or words.
    Perhaps(usize),
}

/// What stands behind a mark.
enum Follows {
    /// What a call may begin with.
    Call,
    /// Nothing yet that tells.
    Nothing,
    /// Words: the mark is only spoken of.
    Words,
}

/// Bytes behind a mark in which it must be clear that it is only spoken of.
const TELLING_BYTES_MAX: usize = 200;

/// What stands behind a mark: after a tag JSON, a function, or a name that JSON or the closing tag
/// follows.
fn follows(mark: &str, rest: &str) -> Follows {
    if ![hermes::TAG, hermes::TOOLS].contains(&mark) || rest.len() > TELLING_BYTES_MAX {
        return Follows::Call;
    }
    let begins = |rest: &str, signs: &[&str]| {
        if rest.is_empty()
            || signs.iter().any(|sign| sign.len() > rest.len() && sign.starts_with(rest))
        {
            Follows::Nothing
        } else if signs.iter().any(|sign| rest.starts_with(sign)) {
            Follows::Call
        } else {
            Follows::Words
        }
    };
    let rest = rest.trim_start();
    let named = rest.trim_start_matches(in_name);
    if named.len() == rest.len() {
        return begins(rest, &["{", "[", hermes::FUNCTION]);
    }
    begins(named.trim_start(), &["{", hermes::TAG_END, hermes::TOOLS_END])
}

/// What the words begin with, before all others or behind a thought. A date may stand before it.
fn json(held: &str, worded: bool) -> Sign {
    let (from, worded) = match behind_thought(held) {
        Some(from) => (from, false),
        None => (0, worded),
    };
    let Some(words) = held.get(from..).filter(|_| !worded) else { return Sign::None };
    let (plain, dated) = (words.trim_start(), words.trim_start_matches(in_stamp));
    let list = plain.starts_with('[');
    let begin = if list { plain } else { dated };
    let at = held.len() - begin.len();
    if dated.starts_with('{') {
        Sign::Sure(at)
    } else if list && dated.is_empty() && plain.len() <= STAMP_BYTES_MAX {
        Sign::Perhaps(at)
    } else {
        Sign::None
    }
}

/// Where the last thought of a text ends.
fn behind_thought(text: &str) -> Option<usize> {
    let ends = THOUGHTS.iter().filter_map(|(_, close)| Some(text.rfind(close)? + close.len()));
    ends.max()
}

impl Heard {
    fn show(&mut self, ready: &str) {
        let behind = behind_thought(ready);
        let words = ready.get(behind.unwrap_or(0)..).unwrap_or_default();
        let worded = words.contains(|c| !in_stamp(c));
        self.worded = worded || self.worded && behind.is_none();
        self.shown.push_str(ready);
    }

    /// How much of the words was shown. Whoever reads a reply may take blanks or a thought from its
    /// beginning; where it is another text altogether, it is shown from where it is another.
    fn common(&self, words: &str) -> usize {
        let thoughtless = thought::leading(&self.shown).map(|(_, words)| words.trim());
        let all = [Some(self.shown.as_str()), Some(self.shown.trim()), thoughtless];
        all.into_iter().flatten().map(|shown| alike(words, shown)).max().unwrap_or(0)
    }
}

/// How far words are what was shown; `\<` was shown where they have `&lt;` now.
fn alike(words: &str, shown: &str) -> usize {
    let (mut left, mut shown) = (words, shown.chars());
    while let Some(sign) = shown.next() {
        let same = left.strip_prefix(sign);
        let escaped = || left.strip_prefix("&lt;").filter(|_| shown.as_str().starts_with('<'));
        left = match (same, (sign == '\\').then(escaped).flatten()) {
            (Some(rest), _) => rest,
            (None, Some(rest)) => {
                shown.next();
                rest
            }
            (None, None) => break,
        };
    }
    words.len() - left.len()
}

#[cfg(test)]
mod tests {
    use super::super::{DEEPSEEK, DOMAIN, HERMES, LLAMA, MISTRAL, TAGS};
    use super::*;

    /// What a tap is told.
    #[derive(Default)]
    struct Told {
        shown: String,
        kept: String,
    }

    fn tell(told: &Mutex<Told>, streamed: Streamed<'_>) {
        let mut told = told.lock().unwrap();
        if let Streamed::Text(text) | Streamed::Freed(text) = streamed {
            told.shown.push_str(text);
        }
        if let Streamed::Text(text) | Streamed::Held(text) = streamed {
            told.kept.push_str(text);
        }
    }

    /// What is shown of a text that comes in pieces, before its end and in all. Nothing is left
    /// out of what is kept meanwhile.
    fn shown(text: &str, size: usize, left: Option<&str>) -> (String, String) {
        let told = Mutex::default();
        let tap = |streamed: Streamed<'_>| tell(&told, streamed);
        let forms = [TAGS, HERMES, LLAMA, MISTRAL, DEEPSEEK, DOMAIN];
        let holding = Holding::new(&tap, forms.into_iter());
        let letters: Vec<char> = text.chars().collect();
        let mut came = 0;
        for piece in letters.chunks(size) {
            let piece: String = piece.iter().collect();
            holding.pass(Streamed::Text(&piece));
            came += piece.len();
            assert_eq!(told.lock().unwrap().kept.len(), came, "{text:?} by {size}");
        }
        let before = told.lock().unwrap().shown.clone();
        match left {
            Some(left) => holding.end(left),
            None => holding.broke_off(),
        }
        let told = told.into_inner().unwrap();
        assert_eq!(told.kept, text, "by {size}");
        (before, told.shown)
    }

    fn wordy(text: &str) -> String {
        text.split_whitespace().collect()
    }

    #[test]
    fn a_printed_call_is_not_shown_and_all_other_words_are() {
        let call = "<tool_call>{\"name\":\"t\"}</tool_call>";
        let table = [
            // The text, what is left of it, and what is shown before its end.
            ("Hello.", "Hello.", "Hello."),
            (call, "", ""),
            (&format!("Let me see.\n{call}"), "Let me see.", "Let me see.\n"),
            (&format!("One.\n{call}\nTwo."), "One.\n\nTwo.", "One.\n"),
            ("{\"name\":\"t\"}", "", ""),
            ("[ {\"name\":\"t\"}]", "", ""),
            // A footnote or a link is no call; what may be a date waits until that is clear.
            ("[1] See {there}.", "[1] See {there}.", "[1] See {there}."),
            ("[a](b) {c}", "[a](b) {c}", "[a](b) {c}"),
            (" \n[1, 2]", " \n[1, 2]", " \n"),
            ("It is {a} [b].", "It is {a} [b].", "It is {a} [b]."),
            ("a < b <tool and ä<", "a < b <tool and ä<", "a < b <tool and ä"),
            // A tag that is only spoken of holds nothing up.
            (
                "The tag `<tool_call>` is one.",
                "The tag `<tool_call>` is one.",
                "The tag `<tool_call>` is one.",
            ),
            (
                "Use <tool_call> to call, <tools> is one too.",
                "Use <tool_call> to call, <tools> is one too.",
                "Use <tool_call> to call, <tools> is one too.",
            ),
            (&format!("A <tool_call> is:\n{call}"), "A <tool_call> is:", "A <tool_call> is:\n"),
            ("<tool_call>read {\"a\":1}</tool_call>", "", ""),
            ("<tool_call>\n<function=t></function>", "", ""),
            ("So <tool_call>read_all</tool_call>", "So", "So "),
            ("[TOOL_CALLS]t{}", "", ""),
            ("So: <|python_tag|>{}", "So:", "So: "),
            ("So: <｜tool▁calls▁begin｜>", "So:", "So: "),
            ("<function=t>", "<function=t>", ""),
            // A thought that nobody takes out, and then a call.
            ("<think>ä</think>\n{\"a\":1}", "<think>ä</think>", "<think>ä</think>\n"),
            ("ä\n</think>{\"a\":1}", "ä\n</think>", "ä\n</think>"),
            ("<think>a</think> b {c}", "<think>a</think> b {c}", "<think>a</think> b {c}"),
        ];
        for (text, left, before) in table {
            for size in 1..=text.chars().count() {
                let (early, all) = shown(text, size, Some(left));
                assert_eq!(early, before, "{text:?} by {size}");
                assert_eq!(wordy(&all), wordy(left), "{text:?} by {size}");
                assert_eq!(shown(text, size, None).1, text, "by {size}");
            }
        }
    }

    /// What is left need not begin with what was shown.
    #[test]
    fn nothing_that_a_model_says_is_swallowed() {
        let table = [
            // The text, what is left of it, and what is shown in all.
            ("a \\< b <tool_call>x", "a &lt; b <tool_call>x", "a \\< b <tool_call>x"),
            ("So.<tool_call>x", "Other words.", "So.Other words."),
            // A thought whose beginning nobody saw is shown as words, and what follows it once.
            ("Hm.\n</think>\n\nYes.", "Yes.", "Hm.\n</think>\n\nYes."),
            ("Hm.\n</think>\nYes.<tool_call>x", "Yes. x", "Hm.\n</think>\nYes. x"),
            ("Hm.\n<tool_call>\n</think>\nYes.", "Yes.", "Hm.\n<tool_call>\n</think>\nYes."),
            // Before an object there may be a date.
            ("[2026-01-02 10:00] {\"a\":1}", "", ""),
            ("2026-01-02 10:00: {\"a\":1} So.", "So.", "2026-01-02 10:00: So."),
        ];
        for (text, left, all) in table {
            for size in 1..=text.chars().count() {
                assert_eq!(shown(text, size, Some(left)).1, all, "{text:?} by {size}");
            }
        }
    }

    /// A reply is bounded by its bytes alone: what waits and is no sign yet stays short.
    #[test]
    fn what_may_become_a_sign_is_short() {
        for piece in [" ", "<", "x", "1", "[", "[1] ", "</think", "<tool_cal"] {
            let told = Mutex::default();
            let tap = |streamed: Streamed<'_>| tell(&told, streamed);
            let holding = Holding::new(&tap, [TAGS, LLAMA, DOMAIN].into_iter());
            for _ in 0..1_000 {
                holding.pass(Streamed::Text(piece));
                assert!(holding.heard().held.len() <= STAMP_BYTES_MAX, "{piece:?}");
            }
        }
    }
}
