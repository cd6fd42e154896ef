//! Finds lines, paragraphs, sentences, tokens and dialogue in a text, and cuts quotes out of it.
//!
//! Places are byte ranges of the text as it was read, so a quote is always verbatim. What is not
//! prose (front matter, fences, comments, headings) is blanked in a copy of the same length, and
//! only that copy is split into paragraphs and tokens.

use std::ops::Range;

use serde::Serialize;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::word_lists::WordLists;

/// Most characters of a quote.
pub(super) const QUOTE_CHARS_MAX: usize = 200;

/// A text with its structure.
#[derive(Debug, Default)]
pub(super) struct Text {
    /// The text as it was read, with plain line ends.
    pub(super) raw: String,
    /// The same with blanks for everything that is not prose.
    prose: String,
    /// The number of its first line.
    pub(super) first_line: usize,
    /// Where each line begins.
    starts: Vec<usize>,
    /// What the front matter says.
    pub(super) front: FrontMatter,
    /// Headings, in order.
    pub(super) headings: Vec<Heading>,
    /// The tokens of the prose.
    pub(super) tokens: Vec<Token>,
    /// The sentences of the prose; each has at least one token.
    pub(super) sentences: Vec<Sentence>,
    /// The paragraphs of the prose; each has at least one token.
    pub(super) paragraphs: Vec<Paragraph>,
    /// Quotation marks that are opened and not closed in their paragraph.
    pub(super) open_quotes: Vec<usize>,
}

/// The fields of front matter that the tools know.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct FrontMatter {
    pub(super) title: Option<String>,
    pub(super) pov: Option<String>,
    pub(super) scene: Option<String>,
    pub(super) beat: Option<String>,
    pub(super) date: Option<String>,
    pub(super) aliases: Vec<String>,
}

/// A heading.
#[derive(Debug, Clone)]
pub(super) struct Heading {
    /// Index of its line, from zero.
    pub(super) at: usize,
    /// How many `#` it has.
    pub(super) level: usize,
    /// Its words.
    pub(super) title: String,
}

/// A token of the prose.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) start: usize,
    pub(super) end: usize,
    /// As it is compared: NFC, lower case, plain apostrophes, without a final `'s`.
    pub(super) norm: String,
    pub(super) sentence: usize,
    pub(super) paragraph: usize,
    /// Whether it begins with a capital.
    pub(super) capital: bool,
    /// Whether its script has no lower case.
    pub(super) caseless: bool,
    /// Whether it is inside dialogue.
    pub(super) dialogue: bool,
    /// Whether nothing but an opening mark is before it in its sentence or speech.
    pub(super) leads: bool,
}

/// A sentence.
#[derive(Debug)]
pub(super) struct Sentence {
    pub(super) range: Range<usize>,
    pub(super) tokens: Range<usize>,
    pub(super) paragraph: usize,
}

/// A paragraph.
#[derive(Debug)]
pub(super) struct Paragraph {
    pub(super) range: Range<usize>,
    pub(super) tokens: Range<usize>,
    pub(super) sentences: Range<usize>,
}

/// A verbatim piece of a source, with its place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Quote {
    pub(super) source: String,
    pub(super) line: usize,
    pub(super) end_line: usize,
    pub(super) text: String,
    /// Whether the piece goes on.
    pub(super) cut: bool,
}

/// Whole numbered lines within a budget of characters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Excerpt {
    /// First and last line that is shown.
    pub(super) lines: [usize; 2],
    pub(super) total_lines: usize,
    pub(super) text: String,
    /// Whether more lines follow, or the last one goes on.
    pub(super) cut: bool,
}

/// What a line is to the prose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineKind {
    /// No prose: it ends the paragraph.
    Break,
    /// A list item, a quotation or a row of a table: a paragraph of its own.
    Alone,
    /// The indented line after a list item.
    Continued,
    /// Any other line.
    Plain,
}

impl Text {
    /// Splits a text. `first_line` is the number of its first line; without word lists no
    /// abbreviation is known.
    pub(super) fn new(raw: String, first_line: usize, lists: Option<&WordLists>) -> Self {
        let mut starts: Vec<usize> =
            raw.match_indices('\n').map(|(at, _)| at + 1).filter(|at| *at < raw.len()).collect();
        starts.insert(0, 0);
        let mut text = Self { raw, first_line, starts, ..Self::default() };
        let prose = text.blank_markup();
        text.split(&prose, lists);
        text.prose = prose;
        text
    }

    /// How many lines there are.
    pub(super) fn line_count(&self) -> usize {
        if self.raw.is_empty() { 0 } else { self.starts.len() }
    }

    /// The number of the last line.
    pub(super) fn last_line(&self) -> usize {
        (self.first_line + self.line_count()).saturating_sub(1)
    }

    /// The range of a line without its line end; `at` counts from zero.
    pub(super) fn line_range(&self, at: usize) -> Range<usize> {
        let start = self.starts.get(at).copied().unwrap_or(self.raw.len());
        let next = self.starts.get(at + 1).copied().unwrap_or(self.raw.len());
        let line = self.slice(start..next);
        start..start + line.strip_suffix('\n').unwrap_or(line).len()
    }

    /// A line without its line end; `at` counts from zero.
    pub(super) fn line(&self, at: usize) -> &str {
        self.slice(self.line_range(at))
    }

    /// Every line with its index.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (0..self.line_count()).map(|at| (at, self.line(at)))
    }

    /// The number of the line on which a byte stands.
    pub(super) fn line_of(&self, at: usize) -> usize {
        self.first_line + self.line_index(at)
    }

    /// The index, from zero, of the line on which a byte stands.
    pub(super) fn line_index(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at).saturating_sub(1)
    }

    /// A piece of the text.
    pub(super) fn slice(&self, range: Range<usize>) -> &str {
        self.raw.get(range).unwrap_or_default()
    }

    /// The token as it is written.
    pub(super) fn shown(&self, token: &Token) -> &str {
        self.slice(token.start..token.end)
    }

    /// Some tokens by their place.
    pub(super) fn tokens_in(&self, range: &Range<usize>) -> &[Token] {
        self.tokens.get(range.clone()).unwrap_or_default()
    }

    /// The tokens of a range of bytes.
    pub(super) fn tokens_between(&self, range: &Range<usize>) -> &[Token] {
        let from = self.tokens.partition_point(|token| token.start < range.start);
        let to = self.tokens.partition_point(|token| token.start < range.end);
        self.tokens_in(&(from..to.max(from)))
    }

    /// The tokens of a range of bytes, with the place of the first one.
    pub(super) fn numbered_between(&self, range: &Range<usize>) -> (usize, &[Token]) {
        let from = self.tokens.partition_point(|token| token.start < range.start);
        (from, self.tokens_between(range))
    }

    /// Words of the prose: runs without white space, as `get_manuscript_info` counts them.
    pub(super) fn words_between(&self, range: &Range<usize>) -> usize {
        let from = self.paragraphs.partition_point(|it| it.range.end <= range.start);
        let within = self.paragraphs.iter().skip(from).take_while(|it| it.range.start < range.end);
        let words = within.map(|paragraph| {
            let start = paragraph.range.start.max(range.start);
            let prose = self.prose.get(start..paragraph.range.end.min(range.end));
            crate::text::words(prose.unwrap_or_default())
        });
        words.sum()
    }

    /// Words of the prose as a whole.
    pub(super) fn words(&self) -> usize {
        self.words_between(&(0..self.raw.len()))
    }

    /// The sentence a token stands in.
    pub(super) fn sentence_of(&self, token: &Token) -> Range<usize> {
        let sentence = self.sentences.get(token.sentence);
        sentence.map_or(token.start..token.end, |sentence| sentence.range.clone())
    }

    /// The sentence around a byte, or its line where it is not in prose.
    pub(super) fn unit_at(&self, at: usize) -> Range<usize> {
        let before = self.sentences.partition_point(|it| it.range.start <= at);
        let sentence = before.checked_sub(1).and_then(|index| self.sentences.get(index));
        match sentence.filter(|sentence| sentence.range.contains(&at)) {
            Some(sentence) => sentence.range.clone(),
            None => self.line_range(self.line_index(at)),
        }
    }

    /// Quotes a range of a source.
    pub(super) fn quote(&self, source: &str, range: Range<usize>) -> Quote {
        self.quote_within(source, range, QUOTE_CHARS_MAX)
    }

    /// Quotes the sentence or line around a byte. Of a long one the part that has the byte is shown.
    pub(super) fn quote_at(&self, source: &str, at: usize) -> Quote {
        let unit = self.unit_at(at);
        if self.chars_between(unit.start..at) < QUOTE_CHARS_MAX / 2 {
            return self.quote(source, unit);
        }
        // Half of the quote stands before the place, from the beginning of a token on.
        let before = self.slice(unit.start..at).char_indices().rev();
        let start = before.take(QUOTE_CHARS_MAX / 2).last().map_or(0, |(start, _)| start);
        let token = self.tokens.partition_point(|token| token.start < unit.start + start);
        let start = self.tokens.get(token).map_or(at, |token| token.start.min(at));
        let quote = self.quote(source, start..unit.end);
        Quote { cut: true, ..quote }
    }

    /// Quotes a range of a source within a number of characters.
    pub(super) fn quote_within(&self, source: &str, range: Range<usize>, max: usize) -> Quote {
        let whole = self.slice(range.clone());
        let shown = cut_between_tokens(whole, max);
        let end = range.start + shown.len();
        Quote {
            source: source.to_owned(),
            line: self.line_of(range.start),
            end_line: self.line_of(end.saturating_sub(1).max(range.start)),
            text: shown.replace('\n', " "),
            cut: shown.len() < whole.trim_end().len(),
        }
    }

    /// The first sentences that fit a number of characters, as one quote.
    pub(super) fn opening(&self, source: &str, chars_max: usize) -> Option<Quote> {
        let first = self.sentences.first()?;
        let fits = |end: &usize| self.chars_between(first.range.start..*end) <= chars_max;
        let ends = self.sentences.iter().map(|sentence| sentence.range.end);
        let end = ends.take_while(fits).last().unwrap_or(first.range.end);
        Some(self.quote_within(source, first.range.start..end, chars_max))
    }

    /// The last sentences that fit a number of characters, as one quote.
    pub(super) fn ending(&self, source: &str, chars_max: usize) -> Option<Quote> {
        let last = self.sentences.last()?;
        let fits = |start: &usize| self.chars_between(*start..last.range.end) <= chars_max;
        let starts = self.sentences.iter().rev().map(|sentence| sentence.range.start);
        let start = starts.take_while(fits).last().unwrap_or(last.range.start);
        Some(self.quote_within(source, start..last.range.end, chars_max))
    }

    fn chars_between(&self, range: Range<usize>) -> usize {
        self.slice(range).chars().count()
    }

    /// The place of a byte in its line, in characters from one.
    pub(super) fn column_of(&self, at: usize) -> usize {
        let start = self.line_range(self.line_index(at)).start;
        self.chars_between(start..at) + 1
    }

    /// Numbered lines from one of them on, as many as fit; `at` counts from zero.
    pub(super) fn excerpt(&self, at: usize, chars_max: usize) -> Excerpt {
        self.excerpt_of(at..self.line_count(), chars_max)
    }

    /// Numbered lines of a range of lines, as many as fit.
    pub(super) fn excerpt_of(&self, lines: Range<usize>, chars_max: usize) -> Excerpt {
        let (mut text, mut chars, mut cut) = (String::new(), 0, false);
        let mut last = lines.start;
        for index in lines.clone() {
            let line = format!("{}: {}", self.first_line + index, self.line(index));
            let needed = line.chars().count() + usize::from(!text.is_empty());
            if chars + needed > chars_max {
                cut = true;
                if text.is_empty() {
                    // One line is longer than the budget: its beginning is better than nothing.
                    text = cut_between_tokens(&line, chars_max).to_owned();
                }
                break;
            }
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&line);
            (chars, last) = (chars + needed, index);
        }
        let lines = [self.first_line + lines.start, self.first_line + last];
        Excerpt { lines, total_lines: self.line_count(), text, cut }
    }

    /// The share of tokens inside dialogue, in two decimals.
    pub(super) fn dialogue_ratio(&self) -> f64 {
        let inside = self.tokens.iter().filter(|token| token.dialogue).count();
        decimal(inside, self.tokens.len(), 100)
    }

    /// The text with everything that is not prose as blanks. Fills front matter and headings.
    fn blank_markup(&mut self) -> String {
        let mut prose = self.raw.clone().into_bytes();
        let mut blank = |range: Range<usize>| {
            let bytes = prose.get_mut(range).into_iter().flatten();
            bytes.filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        };
        let front = self.front_matter_lines();
        let fields: Vec<String> = (1..front).map(|at| self.line(at).to_owned()).collect();
        self.front = FrontMatter::parse(&fields);
        let (mut fence, mut comment_end): (Option<&str>, usize) = (None, 0);
        let mut headings = Vec::new();
        for (at, line) in self.lines() {
            let range = self.line_range(at);
            let trimmed = line.trim_start();
            let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
            if at < front {
                blank(range);
            } else if let Some(open) = fence {
                blank(range);
                if mark == Some(open) {
                    fence = None;
                }
            } else if range.start >= comment_end && mark.is_some() {
                blank(range);
                fence = mark;
            } else if range.start >= comment_end
                && let Some((level, title)) = heading(line)
            {
                blank(range);
                headings.push(Heading { at, level, title: title.to_owned() });
            } else {
                let mut from = range.start;
                if from < comment_end {
                    blank(from..comment_end.min(range.end));
                    from = comment_end.min(range.end);
                }
                while let Some(open) = self.slice(from..range.end).find("<!--") {
                    let open = from + open;
                    // A comment that is never closed is text.
                    let rest = self.slice(open..self.raw.len());
                    let Some(length) = rest.find("-->") else { break };
                    comment_end = open + length + 3;
                    blank(open..comment_end.min(range.end));
                    from = comment_end.min(range.end);
                }
            }
        }
        self.headings = headings;
        // Whole characters were replaced, so this is still UTF-8.
        String::from_utf8(prose).unwrap_or_default()
    }

    /// How many lines the front matter takes, with its marks.
    fn front_matter_lines(&self) -> usize {
        if self.line(0).trim_end() != "---" {
            return 0;
        }
        let mut lines = self.lines().skip(1);
        let end = lines.find(|(_, line)| matches!(line.trim_end(), "---" | "..."));
        end.map_or(0, |(at, _)| at + 1)
    }

    /// Splits the prose into paragraphs, and those into tokens and sentences.
    fn split(&mut self, prose: &str, lists: Option<&WordLists>) {
        let mut open: Option<Range<usize>> = None;
        let mut alone = false;
        for at in 0..self.line_count() {
            let range = self.line_range(at);
            let line = prose.get(range.clone()).unwrap_or_default();
            let kind = line_kind(line, alone);
            let body = range.start + marker_bytes(line, kind)..range.start + line.trim_end().len();
            match (kind, &mut open) {
                (LineKind::Plain, Some(paragraph)) if !alone => paragraph.end = body.end,
                (LineKind::Continued, Some(paragraph)) => paragraph.end = body.end,
                _ => {
                    self.close(prose, open.take(), lists);
                    open = (kind != LineKind::Break).then_some(body);
                }
            }
            alone = matches!(kind, LineKind::Alone | LineKind::Continued);
        }
        self.close(prose, open, lists);
    }

    /// Takes in a paragraph.
    fn close(&mut self, prose: &str, range: Option<Range<usize>>, lists: Option<&WordLists>) {
        let Some(range) = range else { return };
        let body = prose.get(range.clone()).unwrap_or_default();
        let blank = body.len() - body.trim_start().len();
        let range = range.start + blank..range.end;
        let body = body.trim_start();
        let first_token = self.tokens.len();
        let paragraph = self.paragraphs.len();
        let speech = Speech::of(body, range.start);
        for (start, end) in token_ranges(body) {
            let shown = body.get(start..end).unwrap_or_default();
            let begin = shown.chars().next();
            let at = range.start + start;
            self.tokens.push(Token {
                start: at,
                end: range.start + end,
                norm: normalised(shown),
                sentence: 0,
                paragraph,
                capital: begin.is_some_and(char::is_uppercase),
                caseless: begin.is_some_and(|c| !c.is_uppercase() && !c.is_lowercase()),
                dialogue: speech.inside.iter().any(|inside| inside.contains(&at)),
                leads: false,
            });
        }
        if self.tokens.len() == first_token {
            return;
        }
        let first_sentence = self.sentences.len();
        let mut next = first_token;
        let mut begin = 0;
        for end in sentence_ends(body, lists) {
            let begins = self.tokens.get(next).is_some_and(|token| token.start < range.start + end);
            if !begins {
                // Marks without a word belong to the sentence before.
                if let Some(sentence) =
                    self.sentences.last_mut().filter(|it| it.paragraph == paragraph)
                {
                    sentence.range.end = range.start + end;
                }
                begin = end;
                continue;
            }
            let piece = body.get(begin..end).unwrap_or_default();
            let start = range.start + begin + piece.len() - piece.trim_start().len();
            let first = next;
            while let Some(token) = self.tokens.get_mut(next) {
                if token.start >= range.start + end {
                    break;
                }
                token.sentence = self.sentences.len();
                token.leads = next == first;
                next += 1;
            }
            self.sentences.push(Sentence {
                range: start..range.start + end,
                tokens: first..next,
                paragraph,
            });
            begin = end;
        }
        for open in &speech.opened {
            let at = self.tokens.partition_point(|token| token.start < *open);
            if let Some(token) = self.tokens.get_mut(at).filter(|it| it.paragraph == paragraph) {
                token.leads = true;
            }
        }
        self.open_quotes.extend(speech.unclosed);
        self.paragraphs.push(Paragraph {
            range,
            tokens: first_token..self.tokens.len(),
            sentences: first_sentence..self.sentences.len(),
        });
    }
}

impl FrontMatter {
    /// Reads the lines between the marks. What is not known is left alone.
    fn parse(lines: &[String]) -> Self {
        let mut front = Self::default();
        let mut in_aliases = false;
        for line in lines {
            if let Some(item) = line.trim_start().strip_prefix("- ").filter(|_| in_aliases) {
                front.aliases.extend(unquoted(item));
                continue;
            }
            let Some((key, value)) = line.split_once(':') else { continue };
            let value = unquoted(value);
            in_aliases = false;
            match key.trim().to_lowercase().as_str() {
                "title" => front.title = value,
                "pov" => front.pov = value,
                "scene" => front.scene = value,
                "beat" => front.beat = value,
                "date" => front.date = value,
                "aliases" => {
                    in_aliases = value.is_none();
                    front.aliases = value.map(|value| listed(&value)).unwrap_or_default();
                }
                _ => {}
            }
        }
        front
    }
}

/// The names of a list in one line, with or without brackets.
pub(super) fn listed(text: &str) -> Vec<String> {
    let text = text.trim();
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    inner.split(',').filter_map(unquoted).collect()
}

/// A value without quotation marks; `None` when it is blank.
fn unquoted(text: &str) -> Option<String> {
    let text = text.trim();
    let inner = ['"', '\'']
        .iter()
        .find_map(|mark| text.strip_prefix(*mark).and_then(|text| text.strip_suffix(*mark)));
    let text = inner.unwrap_or(text).trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Level and words of a heading.
fn heading(line: &str) -> Option<(usize, &str)> {
    let trimmed = line.trim_start_matches(' ');
    if line.len() - trimmed.len() > 3 {
        return None;
    }
    let words = trimmed.trim_start_matches('#');
    let level = trimmed.len() - words.len();
    let separate = words.is_empty() || words.starts_with([' ', '\t']);
    let title = words.trim().trim_end_matches('#').trim_end();
    ((1..=6).contains(&level) && separate).then_some((level, title))
}

fn line_kind(line: &str, after_item: bool) -> LineKind {
    let trimmed = line.trim();
    let rule = |mark: char| trimmed.chars().all(|c| c == mark || c == ' ');
    if trimmed.is_empty() || ['-', '*', '_'].into_iter().any(rule) {
        return LineKind::Break;
    }
    if trimmed.starts_with(['>', '|']) || item_marker(trimmed) > 0 {
        return LineKind::Alone;
    }
    if after_item && line.starts_with([' ', '\t']) { LineKind::Continued } else { LineKind::Plain }
}

/// Bytes of the mark of a list item, with the white space behind it.
fn item_marker(trimmed: &str) -> usize {
    let digits = trimmed.len() - trimmed.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let mark = match digits {
        0 => usize::from(trimmed.starts_with(['-', '*', '+'])),
        1..=9 => match trimmed.get(digits..digits + 1) {
            Some("." | ")") => digits + 1,
            _ => 0,
        },
        _ => 0,
    };
    let rest = trimmed.get(mark..).unwrap_or_default();
    let blank = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    if mark > 0 && blank > 0 { mark + blank } else { 0 }
}

/// Bytes at the beginning of a line that are no prose.
fn marker_bytes(line: &str, kind: LineKind) -> usize {
    let trimmed = line.trim_start();
    let indent = line.len() - trimmed.len();
    match kind {
        LineKind::Alone => {
            let inner = trimmed.trim_start_matches(['>', ' ', '|']);
            indent
                + if inner.len() < trimmed.len() {
                    trimmed.len() - inner.len()
                } else {
                    item_marker(trimmed)
                }
        }
        LineKind::Break | LineKind::Continued | LineKind::Plain => indent,
    }
}

/// Dialogue of one paragraph.
struct Speech {
    /// What is inside quotation marks, or all of a paragraph that begins with a dash.
    inside: Vec<Range<usize>>,
    /// Where speech is opened.
    opened: Vec<usize>,
    /// What is opened and not closed.
    unclosed: Vec<usize>,
}

impl Speech {
    fn of(body: &str, at: usize) -> Self {
        let mut speech = Self { inside: Vec::new(), opened: Vec::new(), unclosed: Vec::new() };
        if body.starts_with(['—', '–', '―']) {
            speech.inside.push(at..at + body.len());
        }
        let mut from = 0;
        while let Some((open, mark)) = next_opening(body, from) {
            let inner = open + mark.len_utf8();
            let closing: &[char] = match mark {
                '“' => &['”'],
                '«' => &['»'],
                '„' => &['“', '”'],
                '「' => &['」'],
                _ => &['"'],
            };
            speech.opened.push(at + inner);
            match body.get(inner..).and_then(|rest| rest.find(closing)) {
                Some(length) => {
                    speech.inside.push(at + inner..at + inner + length);
                    let close = body.get(inner + length..).and_then(|rest| rest.chars().next());
                    from = inner + length + close.map_or(1, char::len_utf8);
                }
                None => {
                    speech.unclosed.push(at + open);
                    from = inner;
                }
            }
        }
        speech
    }
}

fn next_opening(body: &str, from: usize) -> Option<(usize, char)> {
    let rest = body.get(from..)?;
    let found = rest.char_indices().find(|(_, c)| matches!(c, '"' | '“' | '«' | '„' | '「'));
    found.map(|(at, mark)| (from + at, mark))
}

/// Where the tokens of a text are.
pub(super) fn token_ranges(text: &str) -> Vec<(usize, usize)> {
    let mut ranges = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some((start, c)) = chars.next() {
        let mut end = start + c.len_utf8();
        if stands_alone(c) {
            while let Some((at, mark)) = chars.next_if(|(_, c)| is_combining_mark(*c)) {
                end = at + mark.len_utf8();
            }
            ranges.push((start, end));
        } else if c.is_alphanumeric() {
            while let Some((at, next)) = chars.peek().copied() {
                let after = text.get(at + next.len_utf8()..).and_then(|rest| rest.chars().next());
                let joins = matches!(next, '\'' | '’' | '-') && after.is_some_and(in_word);
                if !in_word(next) && !joins {
                    break;
                }
                end = at + next.len_utf8();
                chars.next();
            }
            ranges.push((start, end));
        }
    }
    ranges
}

/// The normalised tokens of a text.
pub(crate) fn token_words(text: &str) -> Vec<String> {
    let word = |(start, end)| normalised(text.get(start..end).unwrap_or_default());
    token_ranges(text).into_iter().map(word).collect()
}

/// Letters, marks and digits of scripts that write words apart.
fn in_word(c: char) -> bool {
    (c.is_alphanumeric() || is_combining_mark(c)) && !stands_alone(c)
}

/// Characters of scripts without spaces between words: each is a token.
fn stands_alone(c: char) -> bool {
    !c.is_ascii()
        && matches!(u32::from(c),
            0x0e00..=0x0eff             // Thai, Lao
            | 0x1000..=0x109f           // Myanmar
            | 0x1780..=0x17ff           // Khmer
            | 0x2e80..=0x2fdf           // radicals
            | 0x3005..=0x3007 | 0x3021..=0x3029
            | 0x3040..=0x30ff | 0x31f0..=0x31ff | 0xff66..=0xff9f // Kana
            | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff // Han
            | 0xa9e0..=0xa9ff | 0xaa60..=0xaa7f // more Myanmar
            | 0x1b000..=0x1b16f         // more Kana
            | 0x20000..=0x3ffff         // more Han
        )
        && c.is_alphanumeric()
}

/// A token as it is compared.
pub(super) fn normalised(token: &str) -> String {
    let mut norm = if token.is_ascii() {
        token.to_ascii_lowercase()
    } else {
        token.nfc().flat_map(char::to_lowercase).map(|c| if c == '’' { '\'' } else { c }).collect()
    };
    if norm.ends_with("'s") {
        norm.truncate(norm.len() - 2);
    }
    norm
}

/// A token without a final `'s`, as a name is shown.
pub(super) fn without_possessive(token: &str) -> &str {
    ["'s", "’s", "'S", "’S"].iter().find_map(|end| token.strip_suffix(end)).unwrap_or(token)
}

/// Where the sentences of a paragraph end, the paragraph's own end included.
fn sentence_ends(body: &str, lists: Option<&WordLists>) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut chars = body.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if !is_terminator(c) {
            continue;
        }
        let mut end = at + c.len_utf8();
        let (mut wide, mut dots_only) = (is_wide_terminator(c), c == '.');
        let mut marks = 1;
        while let Some((next_at, next)) = chars.next_if(|(_, c)| is_terminator(*c) || is_closer(*c))
        {
            end = next_at + next.len_utf8();
            wide |= is_wide_terminator(next);
            if is_terminator(next) {
                marks += 1;
                dots_only &= next == '.';
            }
        }
        let rest = body.get(end..).unwrap_or_default();
        let next = rest.trim_start().chars().next();
        let separate = wide || rest.starts_with(char::is_whitespace);
        let goes_on = next.is_none_or(char::is_lowercase);
        let dotted = dots_only && marks == 1 && is_abbreviated(body.get(..at), lists);
        if separate && !goes_on && !dotted {
            ends.push(end);
        }
    }
    ends.push(body.len());
    ends
}

fn is_terminator(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '…') || is_wide_terminator(c)
}

fn is_wide_terminator(c: char) -> bool {
    matches!(c, '。' | '！' | '？')
}

fn is_closer(c: char) -> bool {
    matches!(c, '"' | '”' | '“' | '\'' | '’' | '»' | '」' | '』' | ')' | ']' | '*' | '_')
}

/// Whether the text before a dot ends with an abbreviation or a single capital.
fn is_abbreviated(before: Option<&str>, lists: Option<&WordLists>) -> bool {
    let before = before.unwrap_or_default();
    let word = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let mut chars = word.chars();
    let single = matches!((chars.next(), chars.next()), (Some(c), None) if c.is_uppercase());
    single || lists.is_some_and(|lists| lists.abbreviations.contains(&word.to_lowercase()))
}

/// The beginning of a text within a number of characters, cut between tokens.
pub(super) fn cut_between_tokens(text: &str, chars_max: usize) -> &str {
    let Some((limit, next)) = text.char_indices().nth(chars_max) else { return text };
    let head = text.get(..limit).unwrap_or(text);
    if !in_word(next) {
        return head.trim_end();
    }
    let word = |c: char| in_word(c) || matches!(c, '\'' | '’' | '-');
    let kept = head.trim_end_matches(word).trim_end();
    if kept.is_empty() { head } else { kept }
}

/// A quotient rounded to one over `scale`: 4 of 42 by 100 is 0.1.
pub(super) fn decimal(count: usize, all: usize, scale: u32) -> f64 {
    if all == 0 {
        return 0.0;
    }
    let scaled = count.saturating_mul(usize::try_from(scale).unwrap_or(1));
    let rounded = (scaled + all / 2) / all;
    f64::from(u32::try_from(rounded).unwrap_or(u32::MAX)) / f64::from(scale)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(raw: &str) -> Text {
        Text::new(raw.to_owned(), 1, WordLists::of("en"))
    }

    fn sentences(raw: &str) -> Vec<String> {
        let text = text(raw);
        text.sentences.iter().map(|it| text.slice(it.range.clone()).to_owned()).collect()
    }

    #[test]
    fn sentences_end_before_white_space_and_capitals() {
        let table: &[(&str, &[&str])] = &[
            ("One. Two! Three? Four… Five", &["One.", "Two!", "Three?", "Four…", "Five"]),
            (
                "\"Where is it?\" she asked. \"Here.\" He ran.",
                &["\"Where is it?\" she asked.", "\"Here.\"", "He ran."],
            ),
            (
                "Dr. Vale met J. Smith at St. Ann. Then etc. Nothing.",
                &["Dr. Vale met J. Smith at St. Ann.", "Then etc. Nothing."],
            ),
            ("Wait... what? It was 3.5 miles.", &["Wait... what?", "It was 3.5 miles."]),
            ("彼女は走った。海は静か！", &["彼女は走った。", "海は静か！"]),
            ("One\ntwo. Three\n\nFour", &["One\ntwo.", "Three", "Four"]),
            ("Yes. — Then he left.", &["Yes.", "— Then he left."]),
        ];
        for (raw, expected) in table {
            assert_eq!(sentences(raw), *expected, "{raw}");
        }
    }

    #[test]
    fn what_is_no_prose_has_no_tokens() {
        let raw = "---\ntitle: X\naliases: [a, \"b c\"]\n---\n# Heading\ntext <!-- a\nb --> more\n```\ncode\n```\n- item\n> quoted\n***\nend";
        let text = text(raw);
        let words: Vec<&str> = text.tokens.iter().map(|token| token.norm.as_str()).collect();
        assert_eq!(words, ["text", "more", "item", "quoted", "end"]);
        assert_eq!(text.front.title.as_deref(), Some("X"));
        assert_eq!(text.front.aliases, ["a", "b c"]);
        assert_eq!(
            text.headings.iter().map(|it| it.title.as_str()).collect::<Vec<_>>(),
            ["Heading"]
        );
        assert_eq!(text.paragraphs.len(), 4);
        assert_eq!(text.words(), 5);
    }

    #[test]
    fn tokens_are_compared_in_one_form() {
        assert_eq!(
            token_words("Mira’s o'clock well-known Zoe\u{301} 1891-03-02 -x- '90s"),
            ["mira", "o'clock", "well-known", "zoé", "1891-03-02", "x", "90s",]
        );
        assert_eq!(token_words("海と山 ไป"), ["海", "と", "山", "ไ", "ป"]);
    }

    #[test]
    fn dialogue_is_inside_marks_of_one_paragraph() {
        for (raw, tokens) in [
            ("\"Go home,\" she said.", 2),
            ("“Go.” «Va.» „Geh.“ 「行」 she said", 4),
            ("— Go home now", 3),
            ("\"Open and\n\nclosed\" there", 0),
        ] {
            let text = text(raw);
            assert_eq!(text.tokens.iter().filter(|it| it.dialogue).count(), tokens, "{raw}");
        }
        assert_eq!(text("\"Open and\n\nclosed\" there").open_quotes.len(), 2);
    }

    #[test]
    fn quotes_are_cut_between_tokens() {
        let long = "word ".repeat(100);
        let text = text(&long);
        let quote = text.quote("a.md", 0..long.len());
        assert_eq!((quote.text.chars().count(), quote.cut), (199, true));
        let text = Text::new("one\ntwo\n".to_owned(), 7, None);
        let quote = text.quote("a.md", 0..7);
        assert_eq!(
            (quote.line, quote.end_line, quote.text.as_str(), quote.cut),
            (7, 8, "one two", false)
        );
        let excerpt = text.excerpt(0, 10);
        assert_eq!((excerpt.lines, excerpt.text.as_str(), excerpt.cut), ([7, 7], "7: one", true));
    }

    #[test]
    fn ratios_are_rounded() {
        assert_eq!([decimal(4, 42, 100), decimal(1, 3, 100), decimal(0, 0, 10)], [0.1, 0.33, 0.0]);
    }

    proptest! {
        /// Whatever a text is, its parts lie within each other, and nothing panics.
        #[test]
        fn parts_lie_within_each_other(raw in "[a-zA-Z.!?\"“”«»—#>`~*<!\\-\n é海'’0-9]{0,200}") {
            let text = text(&raw);
            for (at, sentence) in text.sentences.iter().enumerate() {
                let paragraph = &text.paragraphs[sentence.paragraph];
                prop_assert!(paragraph.sentences.contains(&at));
                prop_assert!(!sentence.tokens.is_empty());
                prop_assert!(paragraph.range.start <= sentence.range.start);
                prop_assert!(sentence.range.end <= paragraph.range.end);
            }
            for token in &text.tokens {
                let sentence = &text.sentences[token.sentence];
                prop_assert!(sentence.range.start <= token.start && token.end <= sentence.range.end);
                prop_assert!(!text.shown(token).is_empty());
                text.quote("x", token.start..raw.len());
            }
            let _ = text.excerpt(0, 20);
        }
    }
}
