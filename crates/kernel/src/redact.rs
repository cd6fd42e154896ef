//! Removes secrets from text, however they are written: plain, reversed, in hex or base64, and each
//! of these with JSON or percent escapes at any depth. One redactor serves providers, MCP servers,
//! their standard error, what tools answer, and exports (ADR 0029).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::iter::repeat;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::AhoCorasick;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::{Map, Value};

use crate::hidden::Hidden;

/// What stands in the place of a secret.
pub const MARK: &str = "***";
/// Shorter secrets are ordinary words too often.
const SECRET_BYTES_MIN: usize = 8;
/// Secrets shorter than that are removed from error messages, where they stand alone.
const SHORT_BYTES_MIN: usize = 4;
/// A part of a secret that is this long is removed from error messages.
const PART_CHARS_MIN: usize = 8;
/// Secrets that are kept; renewed tokens push out the oldest ones.
const SECRETS_MAX: usize = 1_000;
/// Depth of escapes that is looked into. Text that is escaped deeper is removed as a whole.
const LEVELS_MAX: usize = 16;
/// Keys that people write for servers which want none. They are ordinary words.
const PLACEHOLDERS: &[&str] =
    &["lm-studio", "not-needed", "no-key-needed", "llama-cpp", "placeholder", "anything"];

/// Removes the secrets that it was told. Clones share them.
#[derive(Clone, Default)]
pub struct Redactor {
    shared: Arc<RwLock<Arc<SecretPatterns>>>,
}

/// The secrets, and every form in which they are looked for.
#[derive(Default)]
struct SecretPatterns {
    secrets: Vec<Hidden>,
    /// Nothing while there is no secret that is long enough.
    matcher: Option<AhoCorasick>,
    /// The forms as the matcher sees them, for text whose end has not come.
    forms: Vec<Vec<u8>>,
    /// Every part of the forms that is as long as counts, in small letters.
    parts: BTreeSet<[char; PART_CHARS_MIN]>,
    /// Secrets too short to be looked for inside of words.
    short: Vec<String>,
}

impl Redactor {
    /// A redactor of these secrets.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Hidden>) -> Self {
        let redactor = Self::default();
        redactor.add(secrets);
        redactor
    }

    /// Adds secrets. Values that are written in the open are not secret.
    pub fn add<'a>(&self, secrets: impl IntoIterator<Item = &'a Hidden>) {
        let known = self.patterns();
        let mut all = known.secrets.clone();
        for secret in secrets.into_iter().filter(|secret| !secret.is_open()) {
            for part in spellings(secret.reveal()) {
                let part = Hidden::new(part);
                if !all.contains(&part) {
                    all.push(part);
                }
            }
        }
        if all.len() == known.secrets.len() {
            return;
        }
        let surplus = all.len().saturating_sub(SECRETS_MAX);
        all.drain(..surplus);
        let patterns = Arc::new(SecretPatterns::new(all));
        *self.shared.write().unwrap_or_else(PoisonError::into_inner) = patterns;
    }

    fn patterns(&self) -> Arc<SecretPatterns> {
        Arc::clone(&self.shared.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The text without the secrets.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.patterns().redacted(text) {
            Some(text) => Cow::Owned(text),
            None => Cow::Borrowed(text),
        }
    }

    /// An error message without the secrets, without parts of them, and without short ones that
    /// stand alone: servers like to repeat some of a key that they refuse.
    pub fn redact_error(&self, text: &str) -> String {
        let patterns = self.patterns();
        let text = patterns.redacted(text).unwrap_or_else(|| text.to_owned());
        patterns.without_parts(patterns.without_short(text))
    }

    /// Removes the secrets from every text, key and number of a value. Whether there were any.
    pub fn redact_value(&self, value: &mut Value) -> bool {
        let patterns = self.patterns();
        patterns.matcher.is_some() && patterns.redact_value(value)
    }

    /// JSON without the secrets. It stays JSON if it was.
    pub fn redact_json(&self, json: String) -> String {
        let patterns = self.patterns();
        let Some(redacted) = patterns.redacted(&json) else { return json };
        match serde_json::from_str::<Value>(&json) {
            Ok(mut value) => {
                patterns.redact_value(&mut value);
                value.to_string()
            }
            Err(_) => redacted,
        }
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} secrets)", self.patterns().secrets.len())
    }
}

/// Redacts text that comes piece by piece: what may be the beginning of a secret waits.
#[derive(Debug, Default)]
pub struct StreamRedactor {
    held: String,
}

impl StreamRedactor {
    /// Bytes that wait at most. Longer text that still may be a secret is removed.
    const HELD_BYTES_MAX: usize = 4 << 10;

    /// What can be shown once this piece has come.
    pub fn push(&mut self, redactor: &Redactor, piece: &str) -> String {
        let patterns = redactor.patterns();
        if patterns.matcher.is_none() {
            return std::mem::take(&mut self.held) + piece;
        }
        self.held.push_str(piece);
        let mut ready = match patterns.redacted(&self.held) {
            Some(redacted) => redacted,
            None => std::mem::take(&mut self.held),
        };
        self.held = ready.split_off(patterns.pending(&ready));
        if self.held.len() > Self::HELD_BYTES_MAX {
            self.held.clear();
            ready.push_str(MARK);
        }
        ready
    }

    /// What is left once nothing follows.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// A secret, and what is secret in it: a header such as `Bearer abc` may be repeated as `abc`.
fn spellings(secret: &str) -> Vec<&str> {
    let secret = secret.trim();
    let last = secret.split_once(' ').map(|(_, rest)| rest.trim());
    let is_secret = |text: &&str| text.len() >= SHORT_BYTES_MIN && !PLACEHOLDERS.contains(text);
    [Some(secret), last].into_iter().flatten().filter(is_secret).collect()
}

impl SecretPatterns {
    fn new(secrets: Vec<Hidden>) -> Self {
        let long = |secret: &&Hidden| secret.reveal().len() >= SECRET_BYTES_MIN;
        let short = secrets.iter().filter(|secret| !long(secret));
        let short = short.map(|secret| secret.reveal().to_owned()).collect();
        let texts: Vec<String> =
            secrets.iter().filter(long).flat_map(|secret| forms(secret.reveal())).collect();
        let mut forms: Vec<Vec<u8>> = texts.iter().map(|text| folded(text.as_bytes())).collect();
        forms.retain(|form| form.len() >= SECRET_BYTES_MIN);
        forms.sort_unstable();
        forms.dedup();
        let parts = texts.iter().flat_map(|text| parts(text)).collect();
        // It fails only for more patterns than fit into memory.
        let matcher = if forms.is_empty() { None } else { AhoCorasick::new(&forms).ok() };
        Self { secrets, matcher, forms, parts, short }
    }

    /// The text without the secrets; nothing when it has none.
    fn redacted(&self, text: &str) -> Option<String> {
        let matcher = self.matcher.as_ref()?;
        if is_clean(matcher, text) {
            return None;
        }
        let Some(mut found) = find(matcher, text) else { return Some(MARK.to_owned()) };
        found.sort_unstable_by_key(|range| (range.start, range.end));
        let (mut out, mut end) = (String::with_capacity(text.len()), 0);
        for range in found {
            if range.start >= end {
                out.push_str(text.get(end..range.start).unwrap_or_default());
                out.push_str(MARK);
            }
            end = end.max(range.end);
        }
        Some(out + text.get(end..).unwrap_or_default())
    }

    fn redact_value(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => match self.redacted(text) {
                Some(redacted) => {
                    *text = redacted;
                    true
                }
                None => false,
            },
            Value::Number(number) => {
                let found = self.redacted(&number.to_string()).is_some();
                if found {
                    *value = Value::String(MARK.to_owned());
                }
                found
            }
            Value::Array(items) => {
                items.iter_mut().fold(false, |found, item| self.redact_value(item) | found)
            }
            Value::Object(fields) => {
                let renamed = self.redact_keys(fields);
                fields.values_mut().fold(renamed, |found, value| self.redact_value(value) | found)
            }
            Value::Null | Value::Bool(_) => false,
        }
    }

    fn redact_keys(&self, fields: &mut Map<String, Value>) -> bool {
        if !fields.keys().any(|key| self.redacted(key).is_some()) {
            return false;
        }
        let named = std::mem::take(fields).into_iter();
        *fields = named.map(|(key, value)| (self.redacted(&key).unwrap_or(key), value)).collect();
        true
    }

    /// Where the end of a text could be the beginning of a secret.
    fn pending(&self, text: &str) -> usize {
        let mut first = text.len();
        let mut level = View::of(text);
        for _ in 0..LEVELS_MAX {
            // An escape whose end has not come may be the next letter of a secret.
            if let Some(at) = unfinished_escape(&level.bytes) {
                first = first.min(level.spans.get(at).map_or(first, |span| span.start));
                level.bytes.truncate(at);
                level.spans.truncate(at);
            }
            let folded = level.folded();
            let longest = self.forms.iter().map(Vec::len).max().unwrap_or(0);
            let from = folded.bytes.len().saturating_sub(longest.saturating_sub(1));
            let begins = |at: &usize| {
                let tail = folded.bytes.get(*at..).unwrap_or_default();
                self.forms.iter().any(|form| form.starts_with(tail))
            };
            let at = (from..folded.bytes.len()).find(begins);
            if let Some(span) = at.and_then(|at| folded.spans.get(at)) {
                first = first.min(span.start);
            }
            match level.decoded() {
                Some(next) => level = next,
                None => break,
            }
        }
        first
    }

    /// A short secret is removed where it stands by itself; inside of words it is their letters.
    fn without_short(&self, mut text: String) -> String {
        let inside = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        for secret in &self.short {
            let mut out = String::new();
            let mut rest = text.as_str();
            while let Some((before, after)) = rest.split_once(secret.as_str()) {
                let within = inside(before.chars().next_back()) || inside(after.chars().next());
                out.push_str(before);
                out.push_str(if within { secret } else { MARK });
                rest = after;
            }
            out.push_str(rest);
            text = out;
        }
        text
    }

    /// Removes parts of secrets.
    fn without_parts(&self, text: String) -> String {
        let found = parts(&text).map(|part| self.parts.contains(&part));
        // A part that begins at one character covers those behind it too.
        let mut covered_until = 0;
        let mut out = String::with_capacity(text.len());
        for ((at, c), found) in text.chars().enumerate().zip(found.chain(repeat(false))) {
            if found {
                if at >= covered_until {
                    out.push_str(MARK);
                }
                covered_until = at + PART_CHARS_MIN;
            }
            if at >= covered_until {
                out.push(c);
            }
        }
        out
    }
}

/// All parts of a text that are as long as counts, in small letters.
fn parts(text: &str) -> impl Iterator<Item = [char; PART_CHARS_MIN]> {
    let chars: Vec<char> = text.chars().map(|c| c.to_ascii_lowercase()).collect();
    let count = (chars.len() + 1).saturating_sub(PART_CHARS_MIN);
    (0..count).filter_map(move |at| chars.get(at..)?.first_chunk().copied())
}

/// A secret in every form that does not come of escapes.
fn forms(secret: &str) -> Vec<String> {
    let hex = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![secret.to_owned(), secret.chars().rev().collect(), hex];
    forms.extend((0..3).map(|offset| base64(secret.as_bytes(), offset)));
    forms
}

/// The bytes in base64 when `offset` other bytes stand before them, without the digits that depend
/// on neighbours.
fn base64(bytes: &[u8], offset: usize) -> String {
    let inner = bytes.get((3 - offset) % 3..).unwrap_or_default();
    let groups = inner.len() - inner.len() % 3;
    STANDARD_NO_PAD.encode(inner.get(..groups).unwrap_or_default())
}

/// One form for what is compared: no blanks and colons, small letters, one alphabet of base64.
fn fold(byte: u8) -> Option<u8> {
    match byte {
        b' ' | b'\t' | b'\n' | b'\r' | b':' => None,
        b'-' => Some(b'+'),
        b'_' => Some(b'/'),
        _ => Some(byte.to_ascii_lowercase()),
    }
}

fn folded(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().filter_map(fold).collect()
}

fn is_clean(matcher: &AhoCorasick, text: &str) -> bool {
    let mut level = Cow::Borrowed(text.as_bytes());
    for _ in 0..LEVELS_MAX {
        if matcher.is_match(&folded(&level)) {
            return false;
        }
        let mut next = Vec::with_capacity(level.len());
        if !decode(&level, |bytes, _| next.extend_from_slice(bytes)) {
            return true;
        }
        level = Cow::Owned(next);
    }
    false
}

/// Where the secrets stand; nothing when the text is escaped too deeply to be looked into.
fn find(matcher: &AhoCorasick, text: &str) -> Option<Vec<Range<usize>>> {
    let mut found = Vec::new();
    let mut level = View::of(text);
    for _ in 0..LEVELS_MAX {
        let folded = level.folded();
        for hit in matcher.find_overlapping_iter(&folded.bytes) {
            let (first, last) = (folded.spans.get(hit.start()), folded.spans.get(hit.end() - 1));
            if let (Some(first), Some(last)) = (first, last) {
                found.push(first.start..last.end);
            }
        }
        match level.decoded() {
            Some(next) => level = next,
            None => return Some(found),
        }
    }
    None
}

/// Bytes with the place of each in the text they came from.
struct View {
    bytes: Vec<u8>,
    spans: Vec<Range<usize>>,
}

impl View {
    fn of(text: &str) -> Self {
        let mut view = Self { bytes: Vec::new(), spans: Vec::new() };
        // All bytes of a character have its place, so that no cut goes through one.
        for (at, c) in text.char_indices() {
            let mut utf8 = [0; 4];
            view.push(c.encode_utf8(&mut utf8).as_bytes(), at..at + c.len_utf8());
        }
        view
    }

    fn push(&mut self, bytes: &[u8], span: Range<usize>) {
        self.bytes.extend_from_slice(bytes);
        self.spans.extend(bytes.iter().map(|_| span.clone()));
    }

    fn folded(&self) -> Self {
        let mut view = Self { bytes: Vec::new(), spans: Vec::new() };
        for (byte, span) in self.bytes.iter().zip(&self.spans) {
            if let Some(byte) = fold(*byte) {
                view.push(&[byte], span.clone());
            }
        }
        view
    }

    /// The bytes with one level of escapes taken away; nothing when there is none.
    fn decoded(&self) -> Option<Self> {
        let mut view = Self { bytes: Vec::new(), spans: Vec::new() };
        let changed = decode(&self.bytes, |bytes, range| {
            let first = self.spans.get(range.start).map_or(0, |span| span.start);
            let last = self.spans.get(range.end - 1).map_or(0, |span| span.end);
            view.push(bytes, first..last);
        });
        changed.then_some(view)
    }
}

/// Takes one level of escapes away, unit by unit. Whether there was any.
fn decode(bytes: &[u8], mut unit: impl FnMut(&[u8], Range<usize>)) -> bool {
    let (mut at, mut changed) = (0, false);
    while let Some(byte) = bytes.get(at) {
        let rest = bytes.get(at..).unwrap_or_default();
        let mut utf8 = [0; 4];
        let escape = match byte {
            b'\\' => json_escape(rest, &mut utf8),
            b'%' => hex_number(rest.get(1..3)).and_then(|byte| {
                utf8[0] = u8::try_from(byte).ok()?;
                Some((1, 3))
            }),
            _ => None,
        };
        match escape {
            Some((bytes, length)) => {
                unit(utf8.get(..bytes).unwrap_or_default(), at..at + length);
                changed = true;
                at += length;
            }
            None => {
                unit(&[*byte], at..at + 1);
                at += 1;
            }
        }
    }
    changed
}

/// What an escape stands for: how many bytes were written, and how long it is.
fn json_escape(text: &[u8], utf8: &mut [u8; 4]) -> Option<(usize, usize)> {
    let plain = match text.get(1)? {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 0x08,
        b'f' => 0x0c,
        b'u' => {
            let (c, length) = unicode_escape(text)?;
            return Some((c.encode_utf8(utf8).len(), length));
        }
        b'x' => {
            utf8[0] = u8::try_from(hex_number(text.get(2..4))?).ok()?;
            return Some((1, 4));
        }
        other @ (b'"' | b'\\' | b'/' | b'\'') => *other,
        _ => return None,
    };
    utf8[0] = plain;
    Some((1, 2))
}

/// The character of `\uXXXX`, or of two halves of one, and the length of the escape.
fn unicode_escape(text: &[u8]) -> Option<(char, usize)> {
    let first = hex_number(text.get(2..6))?;
    if let Some(c) = char::from_u32(first) {
        return Some((c, 6));
    }
    let second = hex_number(text.get(6..)?.strip_prefix(b"\\u")?.get(..4))?;
    let halves = [u16::try_from(first).ok()?, u16::try_from(second).ok()?];
    Some((char::decode_utf16(halves).next()?.ok()?, 12))
}

fn hex_number(digits: Option<&[u8]>) -> Option<u32> {
    digits?.iter().try_fold(0, |number, digit| Some(number * 16 + char::from(*digit).to_digit(16)?))
}

/// Where an escape begins whose end has not come.
fn unfinished_escape(bytes: &[u8]) -> Option<usize> {
    /// Bytes of the longest escape, two halves of a character.
    const ESCAPE_BYTES_MAX: usize = 12;
    let tail = bytes.len().saturating_sub(ESCAPE_BYTES_MAX);
    let start = (tail..bytes.len()).rfind(|at| matches!(bytes.get(*at), Some(b'\\' | b'%')))?;
    let after = bytes.get(start + 1..).unwrap_or_default();
    let is_hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    let is_first_half = |escape: &[u8]| {
        let number = hex_number(escape.get(2..6)).unwrap_or_default();
        escape.starts_with(b"\\u") && (0xd800..0xdc00).contains(&number)
    };
    let unfinished = match (bytes.get(start), after.split_first()) {
        (Some(b'%'), _) => after.len() < 2 && is_hex(after),
        (_, None) => true,
        (_, Some((b'u', digits))) => {
            let escape = bytes.get(start..).unwrap_or_default();
            (digits.len() < 4 && is_hex(digits)) || (digits.len() == 4 && is_first_half(escape))
        }
        (_, Some((b'x', digits))) => digits.len() < 2 && is_hex(digits),
        _ => false,
    };
    if !unfinished {
        return None;
    }
    let before = start.checked_sub(6);
    let before = before.filter(|at| bytes.get(*at..start).is_some_and(is_first_half));
    let mut start = before.unwrap_or(start);
    // A run of backslashes is one escape at some depth.
    while start > 0 && bytes.get(start - 1) == Some(&b'\\') {
        start -= 1;
    }
    Some(start)
}
