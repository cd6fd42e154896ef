//! Removes secrets from text, however they are written: plain, reversed, in hex or base64, and each
//! of these with JSON or percent escapes at any depth. One redactor serves providers, MCP servers,
//! their standard error, what tools answer, and exports (ADR 0029).

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::iter::repeat;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::AhoCorasick;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::{Map, Value};

use crate::hidden::Hidden;
use crate::json::{inexact_number, parse_strict};
use crate::limits::Limits;

/// What stands in the place of a secret.
pub const REDACTED: &str = "***";
/// Shorter secrets are ordinary words too often.
const SECRET_BYTES_MIN: usize = 8;
/// Secrets shorter than that are removed from error messages, where they stand alone.
const SHORT_BYTES_MIN: usize = 4;
/// A part of a secret that is this long is removed from error messages.
const PART_CHARS_MIN: usize = 8;
/// Shorter forms, once blanks are gone, are looked for nowhere.
const FORM_BYTES_MIN: usize = 6;
/// A secret of nothing but small letters is a word; it must be longer to count.
const WORD_BYTES_MIN: usize = 12;
/// Renewed tokens that are kept beside the secrets of the configuration; the oldest ones go first.
const RENEWED_MAX: usize = 200;
/// Ways to take escapes away that are followed. Text with more of them is removed as a whole.
const VIEWS_MAX: usize = 64;
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
    /// Tokens that were renewed, the oldest first.
    renewed: VecDeque<Hidden>,
    matcher: Matcher,
    /// The forms as the matcher sees them, for text whose end has not come.
    forms: Vec<Vec<u8>>,
    /// Every part of the forms that is as long as counts, in small letters.
    parts: BTreeSet<[char; PART_CHARS_MIN]>,
    /// Secrets too short to be looked for inside of words.
    short: Vec<String>,
}

/// Finds the forms of all secrets.
#[derive(Default)]
enum Matcher {
    /// There is nothing to find.
    #[default]
    Empty,
    Ready(Box<AhoCorasick>),
    /// It could not be built: everything is removed.
    Broken,
}

/// What a look at a text found.
enum Looked {
    Clean,
    Found(Vec<Range<usize>>),
    /// There are more escapes than are followed.
    TooDeep,
}

impl Redactor {
    /// A redactor of these secrets.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Hidden>) -> Self {
        let redactor = Self::default();
        redactor.add(secrets);
        redactor
    }

    /// Adds secrets for good. Values that are written in the open are not secret.
    pub fn add<'a>(&self, secrets: impl IntoIterator<Item = &'a Hidden>) {
        self.change(|patterns| {
            let before = patterns.secrets.len();
            for secret in secrets.into_iter().flat_map(spellings) {
                if !patterns.secrets.contains(&secret) {
                    patterns.secrets.push(secret);
                }
            }
            patterns.secrets.len() > before
        });
    }

    /// Adds tokens that others replaced or will replace. Only the newest ones are kept.
    pub fn add_renewed<'a>(&self, secrets: impl IntoIterator<Item = &'a Hidden>) {
        self.change(|patterns| {
            let mut changed = false;
            for secret in secrets.into_iter().flat_map(spellings) {
                if !patterns.renewed.contains(&secret) {
                    patterns.renewed.push_back(secret);
                    changed = true;
                }
            }
            let surplus = patterns.renewed.len().saturating_sub(RENEWED_MAX);
            patterns.renewed.drain(..surplus);
            changed
        });
    }

    /// Changes the secrets. The lock is held meanwhile, so that no other change is lost.
    fn change(&self, change: impl FnOnce(&mut SecretPatterns) -> bool) {
        let mut shared = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        let mut patterns = SecretPatterns {
            secrets: shared.secrets.clone(),
            renewed: shared.renewed.clone(),
            ..SecretPatterns::default()
        };
        if change(&mut patterns) {
            patterns.build();
            *shared = Arc::new(patterns);
        }
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
        self.patterns().redact_value(value)
    }

    /// JSON without the secrets. It stays JSON if it was. What readers could understand differently
    /// (a key that is there twice, a number that would be rounded) stays as it is written.
    pub fn redact_json(&self, json: String) -> String {
        let patterns = self.patterns();
        let Some(redacted) = patterns.redacted(&json) else { return json };
        let clear = inexact_number(&json).is_none();
        match read_once(&json).filter(|_| clear) {
            Some(mut value) => {
                patterns.redact_value(&mut value);
                value.to_string()
            }
            None => redacted,
        }
    }
}

/// A value in which no key is there twice.
fn read_once(json: &str) -> Option<Value> {
    let most = u64::MAX;
    let limits = Limits { args_items_max: most, args_depth_max: 120, ..Limits::default() };
    parse_strict(json, &limits).ok()
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} secrets)", self.patterns().secrets.len())
    }
}

/// Redacts text that comes piece by piece: what may be the beginning of a secret waits.
#[derive(Default)]
pub struct StreamRedactor {
    held: String,
    /// More came than may wait and still could be a secret: nothing more is shown.
    closed: bool,
}

impl fmt::Debug for StreamRedactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamRedactor({} bytes wait)", self.held.len())
    }
}

impl StreamRedactor {
    /// Bytes that wait at least, and how many may wait for each byte of the longest form.
    const HELD_BYTES: (usize, usize) = (4 << 10, 12);

    /// What can be shown once this piece has come.
    pub fn push(&mut self, redactor: &Redactor, piece: &str) -> String {
        let patterns = redactor.patterns();
        if self.closed {
            return String::new();
        }
        if matches!(patterns.matcher, Matcher::Empty) {
            return std::mem::take(&mut self.held) + piece;
        }
        self.held.push_str(piece);
        let waits = self.held.split_off(patterns.safe_end(&self.held));
        let ready = std::mem::replace(&mut self.held, waits);
        let mut shown = patterns.redacted(&ready).unwrap_or(ready);
        let (least, each) = Self::HELD_BYTES;
        if self.held.len() > least.max(patterns.longest().saturating_mul(each)) {
            self.held.clear();
            self.closed = true;
            shown.push_str(REDACTED);
        }
        shown
    }

    /// What is left once nothing follows.
    pub fn finish(&mut self, redactor: &Redactor) -> String {
        let held = std::mem::take(&mut self.held);
        redactor.redact(&held).into_owned()
    }
}

/// A secret, and what is secret in it: a header such as `Bearer abc` may be repeated as `abc`, and an
/// address has a password.
fn spellings(secret: &Hidden) -> Vec<Hidden> {
    if secret.is_open() {
        return Vec::new();
    }
    let secret = secret.reveal().trim();
    let last = secret.split_once(' ').map(|(_, rest)| rest.trim());
    let user = secret.split_once("://").and_then(|(_, rest)| rest.split_once('@'));
    let password = user.and_then(|(user, _)| user.split_once(':')).map(|(_, password)| password);
    let is_secret = |text: &&str| text.len() >= SHORT_BYTES_MIN && !PLACEHOLDERS.contains(text);
    let all = [Some(secret), last, password].into_iter().flatten().filter(is_secret);
    all.map(Hidden::new).collect()
}

/// Whether a secret is looked for inside of other text.
fn is_long(secret: &str) -> bool {
    let is_word = secret.bytes().all(|byte| byte.is_ascii_lowercase());
    secret.len() >= if is_word { WORD_BYTES_MIN } else { SECRET_BYTES_MIN }
}

impl SecretPatterns {
    /// Makes the forms of all secrets.
    fn build(&mut self) {
        let all = || self.secrets.iter().chain(&self.renewed).map(Hidden::reveal);
        let texts: Vec<String> = all().filter(|secret| is_long(secret)).flat_map(forms).collect();
        self.short = all().filter(|secret| !is_long(secret)).map(str::to_owned).collect();
        self.parts = texts.iter().flat_map(|text| parts(text)).collect();
        self.forms = texts.iter().map(|text| folded(text.as_bytes())).collect();
        self.forms.retain(|form| form.len() >= FORM_BYTES_MIN);
        self.forms.sort_unstable();
        self.forms.dedup();
        self.matcher = match AhoCorasick::new(&self.forms) {
            _ if self.forms.is_empty() => Matcher::Empty,
            Ok(matcher) => Matcher::Ready(Box::new(matcher)),
            Err(_) => Matcher::Broken,
        };
    }

    fn longest(&self) -> usize {
        self.forms.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// The text without the secrets; nothing when it has none.
    fn redacted(&self, text: &str) -> Option<String> {
        let matcher = match &self.matcher {
            Matcher::Empty => return None,
            Matcher::Broken => return Some(REDACTED.to_owned()),
            Matcher::Ready(matcher) => matcher,
        };
        let mut found = match look(matcher, text) {
            Looked::Clean => return None,
            Looked::TooDeep => return Some(REDACTED.to_owned()),
            Looked::Found(found) => found,
        };
        found.sort_unstable_by_key(|range| (range.start, range.end));
        let (mut out, mut end) = (String::with_capacity(text.len()), 0);
        for range in found {
            if range.start >= end {
                out.push_str(text.get(end..range.start).unwrap_or_default());
                out.push_str(REDACTED);
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
                    *value = Value::String(REDACTED.to_owned());
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

    /// Up to where a text can be shown, whatever follows it: no secret that is there, and none that
    /// may begin at its end, reaches beyond.
    fn safe_end(&self, text: &str) -> usize {
        let mut end = self.pending(text);
        let found = match &self.matcher {
            Matcher::Ready(matcher) if end < text.len() => look(matcher, text),
            Matcher::Ready(_) | Matcher::Empty | Matcher::Broken => Looked::Clean,
        };
        if let Looked::Found(mut found) = found {
            found.sort_unstable_by_key(|range| std::cmp::Reverse(range.end));
            for range in found {
                if range.end > end {
                    end = end.min(range.start);
                }
            }
        }
        end
    }

    /// Where the end of a text could be the beginning of a secret.
    fn pending(&self, text: &str) -> usize {
        let mut first = text.len();
        let mut views = vec![View::of(text)];
        let mut at = 0;
        while let Some(view) = views.get_mut(at) {
            // An escape whose end has not come may be the next letter of a secret.
            if let Some(at) = unfinished_escape(&view.bytes) {
                first = first.min(view.spans.get(at).map_or(first, |span| span.start));
                view.bytes.truncate(at);
                view.spans.truncate(at);
            }
            let folded = view.folded();
            let from = folded.bytes.len().saturating_sub(self.longest().saturating_sub(1));
            let begins = |at: &usize| {
                let tail = folded.bytes.get(*at..).unwrap_or_default();
                // The forms are in order, so the first that is not smaller begins with it or none.
                let place = self.forms.partition_point(|form| form.as_slice() < tail);
                let mut next = self.forms.iter().skip(place).take(2);
                next.any(|form| form.len() > tail.len() && form.starts_with(tail))
            };
            let begin = (from..folded.bytes.len()).find(begins);
            if let Some(span) = begin.and_then(|at| folded.spans.get(at)) {
                first = first.min(span.start);
            }
            let more: Vec<View> =
                ESCAPES.iter().filter_map(|escapes| view.decoded(*escapes)).collect();
            for view in more {
                if views.len() < VIEWS_MAX && !views.iter().any(|other| other.bytes == view.bytes) {
                    views.push(view);
                }
            }
            at += 1;
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
                out.push_str(if within { secret } else { REDACTED });
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
                    out.push_str(REDACTED);
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
    let mut forms = Vec::new();
    // A secret may have escapes of its own, which go when those of the text are taken away.
    let mut plain = vec![secret.to_owned()];
    for escapes in ESCAPES {
        let decoded = plain.iter().filter_map(|text| decoded_text(text, *escapes));
        plain.extend(decoded.collect::<Vec<_>>());
    }
    for text in plain.iter().filter(|text| text.len() >= FORM_BYTES_MIN) {
        forms.extend([text.clone(), text.chars().rev().collect()]);
        // A backslash or percent sign before it may take its first letters for an escape.
        for skipped in [1, 2] {
            let rest: String = text.chars().skip(skipped).collect();
            if rest.len() >= SECRET_BYTES_MIN {
                forms.push(rest);
            }
        }
    }
    forms.push(secret.bytes().map(|byte| format!("{byte:02x}")).collect());
    // Within base64 it may be written as JSON writes it.
    let quoted = Value::from(secret).to_string();
    let quoted = quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned();
    let slashes = quoted.replace('/', "\\/");
    let ascii = |c: char| {
        let mut units = [0; 2];
        let units = c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}"));
        if c.is_ascii() { c.to_string() } else { units.collect() }
    };
    let escaped: String = quoted.chars().map(ascii).collect();
    let mut inner = vec![secret.to_owned(), quoted, slashes, escaped];
    inner.dedup();
    for text in inner {
        forms.extend((0..3).map(|offset| base64(text.as_bytes(), offset)));
    }
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

/// Where the secrets stand in a text, under whatever escapes.
fn look(matcher: &AhoCorasick, text: &str) -> Looked {
    match is_clean(matcher, text) {
        None => Looked::TooDeep,
        Some(true) => Looked::Clean,
        Some(false) => find(matcher, text),
    }
}

/// Whether a text has no secret; nothing when it has too many escapes to be sure. Most texts have
/// none, so this keeps no places.
fn is_clean(matcher: &AhoCorasick, text: &str) -> Option<bool> {
    let mut views = vec![Cow::Borrowed(text.as_bytes())];
    let mut at = 0;
    while let Some(view) = views.get(at) {
        if matcher.is_match(&folded(view)) {
            return Some(false);
        }
        let mut more = Vec::new();
        for escapes in ESCAPES {
            let mut next = Vec::with_capacity(view.len());
            if decode(view, *escapes, |bytes, _| next.extend_from_slice(bytes)) {
                more.push(next);
            }
        }
        for next in more {
            if !views.iter().any(|view| **view == *next) {
                views.push(Cow::Owned(next));
            }
        }
        if views.len() > VIEWS_MAX {
            return None;
        }
        at += 1;
    }
    Some(true)
}

fn find(matcher: &AhoCorasick, text: &str) -> Looked {
    let mut found = Vec::new();
    let mut views = vec![View::of(text)];
    let mut at = 0;
    while let Some(view) = views.get(at) {
        let folded = view.folded();
        for hit in matcher.find_overlapping_iter(&folded.bytes) {
            let (first, last) = (folded.spans.get(hit.start()), folded.spans.get(hit.end() - 1));
            if let (Some(first), Some(last)) = (first, last) {
                found.push(first.start..last.end);
            }
        }
        let more: Vec<View> = ESCAPES.iter().filter_map(|escapes| view.decoded(*escapes)).collect();
        for next in more {
            if !views.iter().any(|view| view.bytes == next.bytes) {
                views.push(next);
            }
        }
        if views.len() > VIEWS_MAX {
            return Looked::TooDeep;
        }
        at += 1;
    }
    Looked::Found(found)
}

/// Which escapes are taken away at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escapes {
    Json,
    Percent,
}

/// Both kinds. They are taken away one by one: what looks like one of them may be part of a secret.
const ESCAPES: &[Escapes] = &[Escapes::Json, Escapes::Percent];

/// A text with one level of escapes taken away; nothing when there is none.
fn decoded_text(text: &str, escapes: Escapes) -> Option<String> {
    let mut out = Vec::new();
    let changed = decode(text.as_bytes(), escapes, |bytes, _| out.extend_from_slice(bytes));
    changed.then(|| String::from_utf8(out).ok()).flatten()
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
    fn decoded(&self, escapes: Escapes) -> Option<Self> {
        let mut view = Self { bytes: Vec::new(), spans: Vec::new() };
        let changed = decode(&self.bytes, escapes, |bytes, range| {
            let first = self.spans.get(range.start).map_or(0, |span| span.start);
            let last = self.spans.get(range.end - 1).map_or(0, |span| span.end);
            view.push(bytes, first..last);
        });
        changed.then_some(view)
    }
}

/// Takes one level of escapes away, unit by unit. Whether there was any.
fn decode(bytes: &[u8], escapes: Escapes, mut unit: impl FnMut(&[u8], Range<usize>)) -> bool {
    let (mut at, mut changed) = (0, false);
    while let Some(byte) = bytes.get(at) {
        let rest = bytes.get(at..).unwrap_or_default();
        let mut utf8 = [0; 4];
        let escape = match (byte, escapes) {
            (b'\\', Escapes::Json) => json_escape(rest, &mut utf8),
            (b'%', Escapes::Percent) => hex_number(rest.get(1..3)).and_then(|byte| {
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
