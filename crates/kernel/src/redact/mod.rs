//! Removes secrets from text, however they are written: plain, reversed, in hex or base64, and each
//! of these with JSON or percent escapes at any depth. One redactor serves providers, MCP servers,
//! their standard error, what tools answer, and exports (ADR 0029).

mod derived;
mod escapes;
mod forms;
mod search;
mod stream;

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::iter::repeat;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::AhoCorasick;
use serde_json::{Map, Value};

use self::escapes::{ESCAPES, unfinished_escape};
use self::forms::{
    FORM_BYTES_MIN, SECRET_BYTES_MIN, begun_forms, folded, forms, is_long, parts, printed,
    spellings,
};
use self::search::{Looked, View, look};
pub use self::stream::StreamRedactor;
use crate::hidden::Hidden;
use crate::json::{inexact_number, parse_strict};
use crate::limits::Limits;

/// What stands in the place of a secret.
pub const REDACTED: &str = "***";
/// A part of a secret that is this long is removed from error messages.
const PART_CHARS_MIN: usize = 8;
/// Renewed tokens that are kept beside the secrets of the configuration; the oldest ones go first.
const RENEWED_MAX: usize = 200;
/// Ways to take escapes away that are followed. Text with more of them is removed as a whole.
const VIEWS_MAX: usize = 64;
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

    /// Text that broke off, without the secrets and without one whose end is missing.
    pub fn redact_cut(&self, text: &str) -> String {
        let patterns = self.patterns();
        let text = patterns.redacted(text).unwrap_or_else(|| text.to_owned());
        if matches!(patterns.matcher, Matcher::Empty) {
            return text;
        }
        let end = patterns.pending(&text);
        match text.len() - end >= PART_CHARS_MIN {
            true => format!("{}{REDACTED}", text.get(..end).unwrap_or_default()),
            false => text,
        }
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

impl SecretPatterns {
    /// Makes the forms of all secrets.
    fn build(&mut self) {
        let all = || self.secrets.iter().chain(&self.renewed).map(Hidden::reveal);
        let long = |secret: &&str| is_long(secret);
        // Renewed tokens are many, and each one more builds all of this anew.
        let lasting = self.secrets.iter().map(Hidden::reveal).filter(long);
        let lasting =
            lasting.flat_map(|secret| printed(secret).into_iter().chain(begun_forms(secret)));
        let texts: Vec<String> = all().filter(long).flat_map(forms).chain(lasting).collect();
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
            // The bytes of a secret say nothing one by one.
            Value::Array(items) if self.is_list_of_bytes(items) => {
                *value = Value::String(REDACTED.to_owned());
                true
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

    /// Whether a list of numbers has the bytes of a secret in it.
    fn is_list_of_bytes(&self, items: &[Value]) -> bool {
        if items.len() < SECRET_BYTES_MIN || !items.iter().all(Value::is_u64) {
            return false;
        }
        let numbers: Vec<String> = items.iter().map(Value::to_string).collect();
        self.redacted(&numbers.join(",")).is_some()
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
