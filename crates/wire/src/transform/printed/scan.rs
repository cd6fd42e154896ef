//! Decides what of a text is quoted: code, templates and escapes are passed over, and so are
//! thoughts and echoes of results.

use std::collections::BTreeMap;

use crate::transform::thought::THOUGHTS;

/// Blocks whose content is nobody's call: thoughts, and results that a model repeats.
pub(super) const BLOCKS: &[(&str, &str)] = &[
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("<tool_response>", "</tool_response>"),
    ("[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
    ("<pre", "</pre>"),
    ("<code", "</code>"),
    ("<!--", "-->"),
];

/// Bytes in which a name with its token has to end.
const HEAD_BYTES_MAX: usize = 400;

/// A text that is looked through once, from its beginning to its end.
pub(super) struct Scan<'a> {
    pub(super) text: &'a str,
    /// Where the look has come to.
    pub(super) at: usize,
    /// Places of `\<` outside quotes.
    pub(super) escapes: Vec<usize>,
    /// For each run of backticks where the next one of the same length begins.
    closers: BTreeMap<usize, usize>,
    /// Where the next blank line is; the end of all numbers when there is none.
    blank_line: usize,
    /// What was looked for once and is not there any more.
    gone: Vec<&'static str>,
    /// Bytes that may still be read ahead; it bounds the work on texts made to be slow.
    ahead: usize,
}

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            escapes: Vec::new(),
            closers: closers(text),
            blank_line: text.find("\n\n").unwrap_or(usize::MAX),
            gone: Vec::new(),
            ahead: text.len().saturating_mul(4).saturating_add(1024),
        }
    }

    /// The same from where a thought ends whose beginning is not in the text: some templates
    /// open it in the prompt.
    pub(super) fn after_thought(mut self) -> Self {
        for (open, close) in THOUGHTS {
            let end = self.text.find(close);
            if let Some(end) = end.filter(|end| self.text.find(open).is_none_or(|at| at > *end)) {
                self.at = self.at.max(end + close.len());
            }
        }
        self
    }

    /// The text from a place on.
    pub(super) fn from(&self, at: usize) -> &'a str {
        self.text.get(at..).unwrap_or_default()
    }

    /// A short piece of the text from a place on: names and tokens are never longer.
    pub(super) fn head(&self, at: usize) -> &'a str {
        let rest = self.from(at);
        rest.get(..rest.floor_char_boundary(HEAD_BYTES_MAX)).unwrap_or_default()
    }

    /// The rest of the text.
    pub(super) fn rest(&self) -> &'a str {
        self.from(self.at)
    }

    /// Pays for reading ahead; false when the text has cost enough.
    pub(super) fn pay(&mut self, bytes: usize) -> bool {
        self.ahead = self.ahead.saturating_sub(bytes);
        self.ahead > 0
    }

    /// Goes to the next of these markers that is not quoted, and says which one it is.
    pub(super) fn find(&mut self, markers: &[&'static str]) -> Option<&'static str> {
        while self.ahead > 0 {
            let rest = self.rest();
            let skip = rest.find(['`', '~', '{', '\\', '<', '['])?;
            self.at += skip;
            let rest = self.rest();
            let marker = markers.iter().find(|marker| rest.starts_with(**marker));
            if let Some(marker) =
                marker.filter(|marker| marker.starts_with("</") || !self.set_off())
            {
                return Some(marker);
            }
            self.at += self.quoted(rest).max(1);
        }
        None
    }

    /// Whether this stands in a quotation, or in code that is set off by its indent.
    fn set_off(&self) -> bool {
        let before = self.text.get(..self.at).unwrap_or_default();
        // A line that began long ago is no quotation; looking back has a bound.
        let from = before.floor_char_boundary(before.len().saturating_sub(HEAD_BYTES_MAX));
        let before = before.get(from..).unwrap_or_default();
        let above = before.rfind('\n').map_or(0, |at| at + 1);
        let (above, line) = before.split_at_checked(above).unwrap_or_default();
        let quotation = line.trim_start().starts_with('>');
        let indented = line.starts_with("    ") || line.starts_with('\t');
        let apart = above.trim_end_matches([' ', '\t']).ends_with("\n\n");
        quotation || (indented && apart)
    }

    /// The length of what is quoted here; of what is not, a character.
    fn quoted(&mut self, rest: &str) -> usize {
        if let Some(mark) = rest.chars().next().filter(|c| matches!(c, '`' | '~')) {
            let width = rest.chars().take_while(|c| *c == mark).count();
            return match self.fence(rest, mark, width) {
                Some(length) => length,
                None if mark == '`' => self.inline(rest, width),
                None => width,
            };
        }
        for (open, close) in [("{{", "}}"), ("{%", "%}")] {
            if rest.starts_with(open) {
                return self.closed(rest, open, close).unwrap_or(1);
            }
        }
        if rest.starts_with("\\<") {
            self.escapes.push(self.at);
            return 2;
        }
        if rest.starts_with("\\`") {
            return 2;
        }
        let block = BLOCKS.iter().find(|(open, _)| rest.starts_with(open));
        match block {
            // A block that is not closed goes to the end.
            Some((open, close)) => self.closed(rest, open, close).unwrap_or(rest.len()),
            None => 1,
        }
    }

    fn closed(&mut self, rest: &str, open: &str, close: &'static str) -> Option<usize> {
        if self.gone.contains(&close) {
            return None;
        }
        let inner = rest.get(open.len()..).unwrap_or_default();
        match inner.find(close) {
            Some(at) => Some(open.len() + at + close.len()),
            None => {
                self.gone.push(close);
                None
            }
        }
    }

    /// The length of a fenced block that begins here. One that is not closed goes to the end.
    fn fence(&self, rest: &str, mark: char, width: usize) -> Option<usize> {
        let before = self.text.as_bytes().get(..self.at)?;
        let indent = before.iter().rev().take(4).take_while(|byte| **byte == b' ').count();
        let line = before.len() - indent;
        let begins = indent < 4 && (line == 0 || before.get(line - 1) == Some(&b'\n'));
        if width < 3 || !begins {
            return None;
        }
        let info = rest.get(width..)?.split('\n').next()?;
        if mark == '`' && info.contains('`') {
            return None;
        }
        let mut length = width + info.len() + 1;
        for line in rest.get(length..).unwrap_or_default().split_inclusive('\n') {
            length += line.len();
            let line = line.trim();
            if line.len() >= width && line.chars().all(|c| c == mark) {
                return Some(length);
            }
        }
        Some(rest.len())
    }

    /// The length of inline code that begins here, or of the run of backticks that begins none.
    fn inline(&mut self, rest: &str, width: usize) -> usize {
        let Some(end) = self.closers.get(&self.at).copied() else { return width };
        // Code within a line does not go on in another paragraph.
        if self.blank_line < self.at {
            self.blank_line = rest.find("\n\n").map_or(usize::MAX, |at| self.at + at);
        }
        if self.blank_line < end { width } else { end + width - self.at }
    }
}

/// For each run of backticks where the next one of the same length begins.
fn closers(text: &str) -> BTreeMap<usize, usize> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (at, _) in text.match_indices('`') {
        match runs.last_mut() {
            Some((start, width)) if *start + *width == at => *width += 1,
            _ => runs.push((at, 1)),
        }
    }
    let (mut next, mut closers) = (BTreeMap::new(), BTreeMap::new());
    for (start, width) in runs.into_iter().rev() {
        if let Some(end) = next.insert(width, start) {
            closers.insert(start, end);
        }
    }
    closers
}
