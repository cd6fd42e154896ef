//! Compares two configurations key by key, for a person to read.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use super::AgentText;
use super::digests::{DigestPart, part_of};
use super::sandbox::SandboxConfig;
use super::secret::{LITERAL, is_secret};
use super::shown::{MASK, masked_address, masked_args};
use super::values::{KeyPath, PathStep, complete, flat_values};

/// Changes that are listed of what only a model is told. What is reached or allowed is never left off:
/// the file is bounded, and a change that decides could hide behind others.
const REST_CHANGES_MAX: usize = 200;

/// Characters of a value that are shown, and of what stands before the first difference.
const VALUE_CHARS_MAX: usize = 160;
const LEAD_CHARS_MAX: usize = 40;

/// What changed from one configuration to another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ConfigDifference {
    /// The changes, in the order of the keys.
    pub changes: Vec<ConfigChange>,
    /// How many more there are.
    pub left_off: usize,
}

/// One change of a configuration. Literal secrets are masked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigChange {
    /// The key, such as `policies[0].rule.ask`.
    pub key: String,
    /// The digest that it changes; of several the first.
    pub part: DigestPart,
    /// The value before; absent for one that is new.
    pub before: Option<String>,
    /// The value after; absent for one that is gone.
    pub after: Option<String>,
}

/// A server that is new or gone, without a sandbox that says what every server has.
fn without_default_sandbox(value: &Value) -> Value {
    let mut shown = value.clone();
    let usual = serde_json::to_value(SandboxConfig::default()).unwrap_or_default();
    if let Value::Object(server) = &mut shown
        && server.get("sandbox") == Some(&usual)
    {
        server.shift_remove("sandbox");
    }
    shown
}

impl ConfigDifference {
    /// Compares two configurations, with built-in defaults where they say nothing.
    pub fn between(before: &AgentText, after: &AgentText) -> Self {
        let mut found = Self::default();
        found.compare(&KeyPath::default(), &complete(before), &complete(after));
        found
    }

    fn compare(&mut self, path: &KeyPath, before: &Value, after: &Value) {
        match (before, after) {
            _ if before == after => {}
            (Value::Object(old), Value::Object(new)) => {
                let added = new.keys().filter(|key| !old.contains_key(*key));
                for key in old.keys().chain(added) {
                    let of = |map: &Map<String, Value>| map.get(key).cloned();
                    let (old, new) = (of(old).unwrap_or_default(), of(new).unwrap_or_default());
                    self.compare(&path.key(key), &old, &new);
                }
            }
            (Value::Array(old), Value::Array(new)) => self.compare_lists(path, old, new),
            // The first entry of a map of maps is an entry, and so is the last.
            (Value::Null, Value::Object(new)) if new.values().all(Value::is_object) => {
                self.compare(path, &Value::Object(Map::new()), after);
            }
            (Value::Object(old), Value::Null) if old.values().all(Value::is_object) => {
                self.compare(path, before, &Value::Object(Map::new()));
            }
            (Value::Null, new) => self.push(path, None, Some(&without_default_sandbox(new))),
            (old, Value::Null) => self.push(path, Some(&without_default_sandbox(old)), None),
            (old, new) => self.push(path, Some(old), Some(new)),
        }
    }

    /// Entries that are the same at both ends are skipped, so that one that was inserted is one
    /// change and not a change of all that follow.
    fn compare_lists(&mut self, path: &KeyPath, old: &[Value], new: &[Value]) {
        let same = |(one, other): &(&Value, &Value)| one == other;
        let head = old.iter().zip(new).take_while(same).count();
        let most = old.len().min(new.len()) - head;
        let tail = old.iter().rev().zip(new.iter().rev()).take(most).take_while(same).count();
        let inner = |list: &[Value]| {
            let end = list.len() - tail;
            list.get(head..end).unwrap_or_default().to_vec()
        };
        let (old_inner, new_inner) = (inner(old), inner(new));
        let item = |at: usize| path.with(PathStep::Item(head + at));
        if !old.iter().chain(new).any(Value::is_object) {
            match (old_inner.is_empty(), new_inner.is_empty()) {
                (true, false) => new_inner.iter().for_each(|new| self.push(path, None, Some(new))),
                (false, true) => old_inner.iter().for_each(|old| self.push(path, Some(old), None)),
                (true, true) | (false, false) => {
                    let whole = |list: &[Value]| Value::Array(list.to_vec());
                    self.push(path, Some(&whole(old)), Some(&whole(new)));
                }
            }
            return;
        }
        let pairs = paired(&old_inner, &new_inner);
        for (at, old) in old_inner.iter().enumerate() {
            let partner = pairs.iter().find(|(one, _)| *one == at).map(|(_, to)| *to);
            match partner.and_then(|to| Some((to, new_inner.get(to)?))) {
                Some((to, new)) => self.compare(&item(to), old, new),
                None => self.push(&item(at), Some(old), None),
            }
        }
        for (at, new) in new_inner.iter().enumerate() {
            if !pairs.iter().any(|(_, to)| *to == at) {
                self.push(&item(at), None, Some(new));
            }
        }
    }

    fn push(&mut self, path: &KeyPath, before: Option<&Value>, after: Option<&Value>) {
        let parts = [before, after].into_iter().flatten().flat_map(|value| parts(path, value));
        let Some(part) = parts.min() else { return };
        let is_rest = part == DigestPart::Rest;
        if is_rest && self.changes.len() >= REST_CHANGES_MAX {
            self.left_off += 1;
            return;
        }
        let (before, after) = (before.map(|v| text_of(path, v)), after.map(|v| text_of(path, v)));
        let lead = match (&before, &after) {
            (Some(before), Some(after)) => common_chars(before, after),
            (None, _) | (_, None) => 0,
        };
        let cut = |text: String| if is_rest { cut(&text, lead) } else { text };
        let (before, after) = (before.map(cut), after.map(cut));
        self.changes.push(ConfigChange { key: path.to_string(), part, before, after });
    }
}

/// Which entries of two lists are the same one, changed: those of one name; without names, those of
/// one place where as many were taken out as were put in.
fn paired(old: &[Value], new: &[Value]) -> Vec<(usize, usize)> {
    let name = |value: &Value| value.get("name").and_then(Value::as_str).map(str::to_owned);
    let named = old.iter().enumerate().filter_map(|(at, value)| {
        let wanted = name(value)?;
        Some((at, new.iter().position(|other| name(other).as_ref() == Some(&wanted))?))
    });
    let mut pairs: Vec<(usize, usize)> = named.collect();
    if old.len() == new.len() {
        let free = |at: usize| !pairs.iter().any(|(one, other)| *one == at || *other == at);
        let others: Vec<_> = (0..old.len()).filter(|at| free(*at)).map(|at| (at, at)).collect();
        pairs.extend(others);
    }
    pairs
}

/// The digests that a value at a path belongs to.
fn parts(path: &KeyPath, value: &Value) -> Vec<DigestPart> {
    let inner = flat_values(value);
    let whole =
        |inner: &KeyPath| inner.steps().iter().cloned().fold(path.clone(), |p, s| p.with(s));
    inner.keys().filter_map(|inner| part_of(&whole(inner))).collect()
}

/// A value on one line. Of a map only what says something is shown.
fn text_of(path: &KeyPath, value: &Value) -> String {
    if !value.is_object() {
        return masked(path, value);
    }
    let says = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    };
    let values = flat_values(value).into_iter().filter(|(_, value)| says(value));
    let shown = values.map(|(inner, value)| {
        let whole = inner.steps().iter().cloned().fold(path.clone(), |p, s| p.with(s));
        format!("{inner} {}", masked(&whole, &value))
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// A value as JSON, with literal secrets masked.
fn masked(path: &KeyPath, value: &Value) -> String {
    let key = path.steps().iter().rev().find_map(|step| match step {
        PathStep::Key(key) => Some(key.as_str()),
        PathStep::Item(_) => None,
    });
    let secret = key.is_some_and(is_secret) || is_variable(path);
    let value = match value {
        Value::String(text) if secret && !is_shown(text) => Value::from(MASK),
        Value::String(text) => masked_address(text).into(),
        Value::Array(items) => {
            let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
            match texts.collect::<Option<Vec<String>>>() {
                Some(texts) => masked_args(&texts).into(),
                None if secret => Value::from(MASK),
                None => value.clone(),
            }
        }
        Value::Number(_) if secret => Value::from(MASK),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.clone(),
    };
    value.to_string()
}

/// Whether a path is a variable of a server's `env`.
fn is_variable(path: &KeyPath) -> bool {
    let key = |at: usize| match path.steps().get(at) {
        Some(PathStep::Key(key)) => key.as_str(),
        Some(PathStep::Item(_)) | None => "",
    };
    key(0) == "mcp_servers" && key(2) == "env"
}

/// Whether the text of a secret can be shown: a reference, the word for a literal, or what is
/// surely none.
fn is_shown(text: &str) -> bool {
    let address = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
    let plain = matches!(text, "true" | "false" | "");
    let reference = ["env:", "file:"].iter().any(|kind| text.starts_with(kind));
    let mixed = text.replace(LITERAL, "").trim().starts_with("${") || text == LITERAL;
    address || plain || reference || mixed
}

/// How many characters two texts have in common at their beginning.
fn common_chars(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count()
}

/// A text of bounded length, with what stands around the first difference.
fn cut(text: &str, lead: usize) -> String {
    let count = text.chars().count();
    if count <= VALUE_CHARS_MAX {
        return text.to_owned();
    }
    let last = count - VALUE_CHARS_MAX;
    let start = lead.saturating_sub(LEAD_CHARS_MAX).min(last);
    let shown: String = text.chars().skip(start).take(VALUE_CHARS_MAX).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if start < last { "…" } else { "" };
    format!("{before}{shown}{after}")
}

impl fmt::Display for ConfigChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) if before == after => {
                write!(f, "~ {}: {before} (another value)", self.key)
            }
            (Some(before), Some(after)) => write!(f, "~ {}: {before} → {after}", self.key),
            (None, after) => write!(f, "+ {}: {}", self.key, after.as_deref().unwrap_or_default()),
            (Some(before), None) => write!(f, "- {}: {before}", self.key),
        }
    }
}

impl fmt::Display for ConfigDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.changes.iter().try_for_each(|change| writeln!(f, "{change}"))?;
        match self.left_off {
            0 => Ok(()),
            more => writeln!(f, "… and {more} more"),
        }
    }
}
