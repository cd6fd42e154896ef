//! Decides what the packs take as a name, what a word is, and how many names an error lists.

use regex::{Regex, RegexBuilder};
use toolgate_runtime::port::Fault;

/// Longest name, in characters.
pub(crate) const NAME_CHARS_MAX: usize = 200;

/// Longest name, in bytes: what fits a key.
pub(crate) const NAME_BYTES_MAX: usize = toolgate_kernel::key::KEY_NAME_BYTES_MAX;

/// Most names that an error or a prompt lists.
pub(crate) const LISTED_MAX: usize = 50;

/// Largest compiled search pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Most bytes that are shown around one match.
const CONTEXT_BYTES_MAX: usize = 8_000;

/// Most bytes of one line that are shown.
const LINE_BYTES_MAX: usize = 1_000;

/// Longest search pattern, in characters.
const QUERY_CHARS_MAX: usize = 1_000;

/// Refuses a name that is blank, too long, or not what it looks like. `field` is the argument.
pub(crate) fn check_name(field: &str, name: &str) -> Result<(), Fault> {
    let refused = |why: String| Err(Fault::invalid(format!("{field}: {why}.")).at(field));
    let chars = name.chars().count();
    if name.trim().is_empty() {
        return refused("must not be blank; give it a name".to_owned());
    }
    if chars > NAME_CHARS_MAX || name.len() > NAME_BYTES_MAX {
        return refused(format!(
            "has {chars} characters and {} bytes; use at most {NAME_CHARS_MAX} characters and \
             {NAME_BYTES_MAX} bytes",
            name.len()
        ));
    }
    match name.chars().find(|c| unseen(*c)) {
        None => Ok(()),
        Some(c) => refused(format!(
            "contains the invisible or control character U+{:04X}; leave it out",
            u32::from(c)
        )),
    }
}

/// Characters that make a name look like another one.
pub(crate) fn unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{feff}' | '\u{180e}' | '\u{2028}' | '\u{2029}')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{e0000}'..='\u{e007f}')
}

/// How many words a text has: runs of what is not white space.
///
/// A novel is counted at every prompt, so the usual text is counted byte by byte, without decoding.
pub(crate) fn words(text: &str) -> usize {
    let bytes = text.as_bytes();
    let after = |count| bytes.get(count..).unwrap_or_default().iter();
    let triples = bytes.iter().zip(after(1)).zip(after(2));
    let wide = triples.fold(false, |found, ((a, b), c)| found | wide_space(*a, *b, *c));
    // The pairs of a text with a wide space at its very end have no third byte; ask again there.
    if wide || text.ends_with(|c: char| !c.is_ascii() && c.is_whitespace()) {
        return text.split_whitespace().count();
    }
    let space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let first = bytes.first().is_some_and(|byte| !space(byte));
    let starts = bytes.iter().zip(after(1)).map(|(a, b)| usize::from(space(a) & !space(b)));
    usize::from(first) + starts.sum::<usize>()
}

/// Whether three bytes begin with a space that is not ASCII.
fn wide_space(a: u8, b: u8, c: u8) -> bool {
    let two = (a == 0xc2) & ((b == 0x85) | (b == 0xa0));
    let ogham = (a == 0xe1) & (b == 0x9a) & (c == 0x80);
    let general = (a == 0xe2)
        & (((b == 0x80) & ((c <= 0x8a) | (c == 0xa8) | (c == 0xa9) | (c == 0xaf)))
            | ((b == 0x81) & (c == 0x9f)));
    let ideographic = (a == 0xe3) & (b == 0x80) & (c == 0x80);
    two | ogham | general | ideographic
}

/// A count with its noun: `1 word`, `2 words`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Names for a prompt, with commas; `none` when there are none.
pub(crate) fn comma_list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter();
    let shown: Vec<&str> = names.by_ref().take(LISTED_MAX).collect();
    match (shown.is_empty(), names.count()) {
        (true, _) => "none".to_owned(),
        (false, 0) => shown.join(", "),
        (false, more) => format!("{} and {more} more", shown.join(", ")),
    }
}

/// A fault that lists what there is instead; `advice` says what to do when there is something.
pub(crate) fn not_there(what: &str, advice: &str, none: &str, names: Vec<String>) -> Fault {
    let more = names.len().saturating_sub(LISTED_MAX);
    let hint = match (names.is_empty(), more) {
        (true, _) => none.to_owned(),
        (false, 0) => advice.to_owned(),
        (false, more) => format!("{advice} There are {more} more than are listed."),
    };
    let listed = names.into_iter().take(LISTED_MAX).collect();
    Fault::failed(format!("{what}. {hint}")).allowing(listed)
}

/// A search pattern: any case, one line at a time, bounded in size.
pub(crate) fn pattern(query: &str) -> Result<Regex, Fault> {
    let refused = |reason: String| {
        let message = format!(
            "query: {reason}. It is a regular expression; put a backslash before ( ) [ ] {{ }} \
             . * + ? | ^ $ to search for them as they are."
        );
        Fault::failed(message).at("query")
    };
    if query.chars().count() > QUERY_CHARS_MAX {
        return Err(refused(format!("has more than {QUERY_CHARS_MAX} characters")));
    }
    let mut builder = RegexBuilder::new(query);
    builder.case_insensitive(true).multi_line(true);
    builder.size_limit(PATTERN_BYTES_MAX).dfa_size_limit(4 * PATTERN_BYTES_MAX).nest_limit(50);
    builder.build().map_err(|error| {
        // The last line of the error says what is wrong; those before it draw the place.
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
        let reason = reason.trim_end_matches('.');
        refused(format!("cannot be used: {reason}"))
    })
}

/// A line that matches.
#[derive(Debug, PartialEq)]
pub(crate) struct Hit<'a> {
    /// Its number in the text, from zero.
    pub(crate) number: usize,
    /// Where it begins in the text.
    pub(crate) begin: usize,
    /// The line itself.
    pub(crate) line: &'a str,
    /// Where in it the match begins.
    pub(crate) at: usize,
}

/// The lines of a text that match.
///
/// The text is searched as a whole, and only lines in which something begins are looked at again:
/// a match may not run over the end of its line.
pub(crate) fn matching_lines<'a>(regex: &'a Regex, text: &'a str) -> impl Iterator<Item = Hit<'a>> {
    // These two mean the ends of the text, so each line must be its own.
    let every = regex.as_str().contains("\\A") || regex.as_str().contains("\\z");
    let (mut from, mut number) = (0, 0);
    std::iter::from_fn(move || {
        while from <= text.len() {
            let start = if every { from } else { regex.find_at(text, from)?.start() };
            let before = text.get(from..start)?;
            number += newlines(before);
            let begin = before.rfind('\n').map_or(from, |at| from + at + 1);
            let rest = text.get(begin..)?;
            let line = rest.split('\n').next().unwrap_or(rest);
            let this = number;
            (from, number) = (begin + line.len() + 1, number + 1);
            if let Some(found) = regex.find(line) {
                return Some(Hit { number: this, begin, line, at: found.start() });
            }
        }
        None
    })
}

/// A matching line with lines before and after it, bounded: of a long line what is near the match.
pub(crate) fn context(text: &str, hit: &Hit<'_>, lines: usize) -> String {
    let before = text.get(..hit.begin.saturating_sub(1)).filter(|_| hit.begin > 0);
    let mut shown: Vec<String> =
        before.into_iter().flat_map(|before| before.rsplit('\n').take(lines)).map(head).collect();
    shown.reverse();
    shown.push(clipped(hit.line, hit.at));
    let after = text.get(hit.begin + hit.line.len() + 1..);
    shown.extend(after.into_iter().flat_map(|after| after.split('\n').take(lines)).map(head));
    let mut context = shown.join("\n");
    if context.len() > CONTEXT_BYTES_MAX {
        // The lines around are too much together; the line itself never is.
        context = clipped(hit.line, hit.at);
    }
    context
}

fn head(line: &str) -> String {
    clipped(line, 0)
}

/// What is near a place in a line.
fn clipped(line: &str, at: usize) -> String {
    if line.len() <= LINE_BYTES_MAX {
        return line.to_owned();
    }
    let from = line.floor_char_boundary(at.saturating_sub(LINE_BYTES_MAX / 2));
    let to = line.floor_char_boundary((from + LINE_BYTES_MAX).min(line.len()));
    let mark = |cut: bool| if cut { "…" } else { "" };
    format!("{}{}{}", mark(from > 0), line.get(from..to).unwrap_or(line), mark(to < line.len()))
}

/// How many line ends a text has.
pub(crate) fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn words_are_what_the_library_says(text in "[ a\u{a0}\u{3000}é\n\t—\u{85}]{0,40}|\\PC{0,40}") {
            prop_assert_eq!(words(&text), text.split_whitespace().count());
        }

        #[test]
        fn lines_match_one_by_one(
            text in "[ab\n]{0,30}",
            query in prop::sample::select(vec!["a", "a$", "^b", "b\\s*a", "^$", "\\Aa", "a\\z", "\\Bb", "[^a]+", ""]),
        ) {
            let regex = pattern(query).unwrap();
            let expected: Vec<_> =
                text.split('\n').enumerate().filter(|(_, line)| regex.is_match(line)).collect();
            let found: Vec<_> =
                matching_lines(&regex, &text).map(|hit| (hit.number, hit.line)).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_pattern_is_bounded() {
        for query in ["(", "a{1000}{1000}{1000}", &"x".repeat(1_001), "[z-a]"] {
            assert!(pattern(query).is_err(), "{query}");
        }
    }
}
