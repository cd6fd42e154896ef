//! Parses the line of evidence of a reply.
//!
//! ```text
//! Evidence: item; item …
//! item = SOURCE L3[-5] "quote" | SOURCE L3[-5] | scope SOURCE[, SOURCE] found nothing
//!      | receipt rcpt_<24 hex> | #n | ACCESS_REQUEST SOURCE why
//! ```

use super::{EvidenceError, EvidenceReason};
use crate::receipt::Receipt;

/// Most items of one line.
const ITEMS_MAX: usize = 64;

/// Longest line of evidence, in bytes.
const LINE_BYTES_MAX: usize = 32_000;

/// Shortest quote, in characters.
const QUOTE_CHARS_MIN: usize = 6;

/// The word of a reply that has nothing to say.
const ABSTAIN: &str = "abstain";

/// Lines of a source, both counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineRange {
    /// The first one.
    pub first: u64,
    /// The last one.
    pub last: u64,
}

/// A place of a source, with what stands there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Citation {
    /// The source, as it was written.
    pub source: String,
    /// Its lines.
    pub lines: Option<LineRange>,
    /// What is quoted of it.
    pub quote: Option<String>,
}

/// One thing that a reply cites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvidenceItem {
    /// A place of a source.
    Place(Citation),
    /// Sources in which something was looked for and not found.
    Scope(Vec<String>),
    /// A call.
    Receipt(Receipt),
    /// An issue.
    Issue(u64),
    /// A source that the agent wants to read.
    AccessRequest(String),
}

/// Whether a reply says that it has nothing to say.
pub fn is_abstention(reply: &str) -> bool {
    reply.trim().eq_ignore_ascii_case(ABSTAIN)
}

/// The lines of evidence in a reply, without what they begin with, and the rest of its text.
pub(super) fn evidence_lines(reply: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut found, mut rest) = (Vec::new(), Vec::new());
    for line in reply.lines() {
        match evidence_of(line) {
            Some(items) => found.push(items),
            None => rest.push(line),
        }
    }
    (found, rest)
}

/// What stands behind `Evidence:`, also in bold, as a list item, and with a dash for the colon.
fn evidence_of(line: &str) -> Option<&str> {
    let line = line.trim();
    let line = line.strip_prefix(['-', '*', '>']).map_or(line, |rest| {
        // One star of a list item is followed by a blank, those of bold are not.
        if rest.starts_with(' ') { rest.trim_start() } else { line }
    });
    let bare = line.trim_start_matches(['*', '_']);
    let (word, rest) = bare.split_at_checked("evidence".len())?;
    if !word.eq_ignore_ascii_case("evidence") {
        return None;
    }
    let marked = rest.trim_start_matches(['*', '_']);
    let after = marked.trim_start();
    let spaced = after.len() < marked.len();
    let items = match after.chars().next()? {
        ':' | '–' | '—' => after.get(after.chars().next()?.len_utf8()..)?,
        // `Evidence-based` is prose.
        '-' if spaced => after.get(1..).filter(|rest| rest.starts_with(' '))?,
        _ => return None,
    };
    Some(items.trim_start_matches(['*', '_']).trim())
}

/// Reads the items of a line of evidence.
pub(super) fn items(line: &str) -> Result<Vec<EvidenceItem>, EvidenceError> {
    let wrong = |detail: String| EvidenceError::new(EvidenceReason::Format, detail);
    if line.len() > LINE_BYTES_MAX {
        return Err(wrong(format!("the line has more than {LINE_BYTES_MAX} bytes")));
    }
    let texts =
        split_outside(line, ';').ok_or_else(|| wrong("a quote is not closed".to_owned()))?;
    let mut items = Vec::new();
    for text in texts {
        let text = text.trim().trim_end_matches('.').trim();
        if text.is_empty() {
            continue;
        }
        items.push(item(text).map_err(wrong)?);
    }
    if items.len() > ITEMS_MAX {
        return Err(wrong(format!("the line has more than {ITEMS_MAX} items")));
    }
    if items.is_empty() {
        return Err(EvidenceError::new(EvidenceReason::Missing, "the line cites nothing"));
    }
    Ok(items)
}

fn item(text: &str) -> Result<EvidenceItem, String> {
    if let Some(rest) = after_word(text, "scope") {
        return scope(rest);
    }
    if let Some(rest) = after_word(text, "receipt") {
        return receipt(rest.trim_start_matches(':').trim());
    }
    if text.starts_with("rcpt_") {
        return receipt(text);
    }
    if let Some(rest) = text.strip_prefix("ACCESS_REQUEST") {
        let (source, why) = source_of(rest.trim())?;
        if why.trim().is_empty() {
            return Err(format!("ACCESS_REQUEST {source} does not say why"));
        }
        return Ok(EvidenceItem::AccessRequest(source));
    }
    if let Some(number) = text.strip_prefix('#') {
        let number = number.parse().map_err(|_| format!("{:?} is no issue", cut(text)))?;
        return Ok(EvidenceItem::Issue(number));
    }
    place(text)
}

fn receipt(text: &str) -> Result<EvidenceItem, String> {
    let text = text.trim_matches('`');
    let receipt = Receipt::try_from(text.to_owned());
    receipt.map(EvidenceItem::Receipt).map_err(|error| format!("{:?}: {error}", cut(text)))
}

fn scope(rest: &str) -> Result<EvidenceItem, String> {
    let lower = rest.to_ascii_lowercase();
    let Some(end) = lower.rfind("found nothing").filter(|at| lower.trim_end().len() == at + 13)
    else {
        return Err("a scope ends with `found nothing`".to_owned());
    };
    let listed = rest.get(..end).unwrap_or_default();
    let parts = split_outside(listed, ',').ok_or("a quote is not closed")?;
    let mut sources = Vec::new();
    for part in parts {
        let (source, more) = source_of(part.trim())?;
        if !more.trim().is_empty() {
            return Err(format!("put {:?} into backticks", cut(part.trim())));
        }
        sources.push(source);
    }
    Ok(EvidenceItem::Scope(sources))
}

fn place(text: &str) -> Result<EvidenceItem, String> {
    let (source, rest) = source_of(text)?;
    let rest = rest.trim();
    let (lines, rest) = match lines_of(rest)? {
        Some((lines, rest)) => (Some(lines), rest.trim()),
        None => (None, rest),
    };
    let quote = match rest.is_empty() {
        true => None,
        false => Some(quote_of(rest)?),
    };
    Ok(EvidenceItem::Place(Citation { source, lines, quote }))
}

/// A source at the start of a text, and what comes after it.
fn source_of(text: &str) -> Result<(String, &str), String> {
    if let Some(rest) = text.strip_prefix('`') {
        let (source, rest) = rest.split_once('`').ok_or("a backtick is not closed")?;
        let source = source.trim();
        return match source.is_empty() {
            true => Err("a source has no name".to_owned()),
            false => Ok((source.to_owned(), rest.trim_start_matches([',', ':']))),
        };
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (source, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    let source = source.trim_end_matches([',', ':']);
    let quoted = source.starts_with(is_quote);
    if source.is_empty() || quoted {
        return Err(format!("{:?} does not begin with a source", cut(text)));
    }
    Ok((source.to_owned(), rest))
}

/// `L3`, `L3-5`, `L3–L5`, `line 3`, `lines 3-5` at the start of a text.
fn lines_of(text: &str) -> Result<Option<(LineRange, &str)>, String> {
    let words = ["lines ", "line ", "L", "l"];
    let Some(rest) = words.iter().find_map(|word| text.strip_prefix(word)) else {
        return Ok(None);
    };
    let number = |text: &str| -> Option<(u64, usize)> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        Some((text.get(..digits)?.parse().ok()?, digits))
    };
    let Some((first, digits)) = number(rest) else { return Ok(None) };
    let mut after = rest.get(digits..).unwrap_or_default();
    let mut last = first;
    if let Some(more) = after.strip_prefix(['-', '–']) {
        let more = more.strip_prefix(['L', 'l']).unwrap_or(more);
        let (number, digits) = number(more).ok_or("a range of lines has no end")?;
        (last, after) = (number, more.get(digits..).unwrap_or_default());
    }
    if first == 0 || last < first {
        return Err(format!("L{first}-{last} are no lines"));
    }
    let after = after.strip_prefix([',', ':']).unwrap_or(after);
    Ok(Some((LineRange { first, last }, after)))
}

/// A whole text that is a quote.
fn quote_of(text: &str) -> Result<String, String> {
    let inner = text.strip_prefix(is_quote).and_then(|rest| rest.strip_suffix(is_quote));
    let Some(inner) = inner else {
        return Err(format!("{:?} is neither lines nor a quote", cut(text)));
    };
    let letters = inner.split_whitespace().map(|word| word.chars().count());
    if letters.sum::<usize>() < QUOTE_CHARS_MIN {
        return Err(format!("a quote has at least {QUOTE_CHARS_MIN} characters"));
    }
    Ok(inner.trim().to_owned())
}

/// Quotation marks of every kind that encloses a quote.
pub(super) fn is_quote(c: char) -> bool {
    matches!(c, '"' | '“' | '”' | '„' | '‟' | '«' | '»')
}

/// The parts of a text at a separator that stands outside of quotes and backticks; nothing when one
/// of them is not closed.
fn split_outside(text: &str, separator: char) -> Option<Vec<&str>> {
    let (mut parts, mut start) = (Vec::new(), 0);
    let mut open: Option<char> = None;
    for (at, c) in text.char_indices() {
        match open {
            Some('`') if c == '`' => open = None,
            Some('`') => {}
            // A quote may have quotes inside: it ends where the item does.
            Some(_) if is_quote(c) && ends_item(text.get(at + c.len_utf8()..)?, separator) => {
                open = None;
            }
            Some(_) => {}
            None if c == '`' || is_quote(c) => open = Some(c),
            None if c == separator => {
                parts.push(text.get(start..at)?);
                start = at + c.len_utf8();
            }
            None => {}
        }
    }
    parts.push(text.get(start..)?);
    open.is_none().then_some(parts)
}

/// Whether nothing of an item follows.
fn ends_item(rest: &str, separator: char) -> bool {
    let rest = rest.trim_start().trim_start_matches(['.', '*', '_']).trim_start();
    rest.is_empty() || rest.starts_with(separator)
}

/// What follows a word that a text begins with, in any case.
fn after_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(word.len())?;
    let separate = rest.starts_with(char::is_whitespace) || rest.starts_with(':');
    (start.eq_ignore_ascii_case(word) && separate).then(|| rest.trim_start())
}

pub(super) fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}
