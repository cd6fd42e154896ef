//! Decides whether a piece of text is a call: a name and arguments, whole, and nothing guessed.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use toolgate_kernel::json::{inexact_number, parse_strict};
use toolgate_kernel::limits::Limits;

use super::scan::Scan;

/// A call that was printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PrintedCall {
    pub(super) name: String,
    pub(super) args: String,
}

/// Longest name that is taken for one.
const NAME_BYTES_MAX: usize = 128;

/// Whether a text looks like the name of a tool, in any spelling.
pub(super) fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.chars().all(in_name)
}

/// Whether a letter may stand in such a name.
pub(super) fn in_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-' | ':')
}

/// The JSON value that begins right here, with its length; absent when it is cut off or broken.
pub(super) fn value_here(scan: &mut Scan<'_>, at: usize) -> Option<(Value, usize)> {
    let text = scan.from(at);
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let length = balanced(text);
    if !scan.pay(length.unwrap_or(text.len())) {
        return None;
    }
    let written = text.get(..length?)?;
    Some((parse(written)?, written.len()))
}

/// One JSON value, read as arguments are.
pub(super) fn parse(text: &str) -> Option<Value> {
    let limits = Limits { args_depth_max: 100, args_items_max: 1_000_000, ..Limits::default() };
    // A number that would be rounded is not passed on as another one.
    parse_strict(text, &limits).ok().filter(|_| inexact_number(text).is_none())
}

/// The length of the object or list that begins the text, by its brackets.
pub(super) fn balanced(text: &str) -> Option<usize> {
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => depth += 1,
            b'}' | b']' if !in_text => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Keys under which models write arguments, and those that may stand beside them.
const ARGUMENTS: &[&str] = &["arguments", "args", "parameters", "input"];
const BESIDE: &[&str] = &["name", "function", "type", "id", "call_id", "index"];

/// The call that an object describes: `{name, arguments}`, `{name, parameters}`,
/// `{function: {…}}`. One that can be read in two ways, or has fields in place of arguments, is none.
pub(super) fn call_of(object: &Map<String, Value>) -> Option<PrintedCall> {
    let function = object.get("function").and_then(Value::as_object);
    let inner = function.unwrap_or(object);
    let name = inner.get("name").and_then(Value::as_str)?.trim();
    let outer = object.get("name").filter(|outer| !outer.is_null());
    if outer.is_some_and(|outer| outer.as_str().map(str::trim) != Some(name)) {
        return None;
    }
    let levels = [Some(inner), function.map(|_| object)];
    let levels = || levels.iter().flatten();
    let mut given = levels().flat_map(|map| ARGUMENTS.iter().filter_map(|key| map.get(*key)));
    let args = given.next();
    if given.any(|other| Some(other) != args) {
        return None;
    }
    let known = |key: &str| ARGUMENTS.contains(&key) || BESIDE.contains(&key);
    let has_fields = levels().any(|map| map.keys().any(|key| !known(key)));
    let has_none = args.is_none_or(|args| args.as_object().is_some_and(Map::is_empty));
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len()) && !(has_fields && has_none);
    fits.then(|| PrintedCall { name: name.to_owned(), args: arguments(args) })
}

/// Every call that an object could be read as.
pub(super) fn readings(object: &Map<String, Value>) -> Vec<PrintedCall> {
    let function = object.get("function").and_then(Value::as_object);
    let levels: Vec<_> = [Some(object), function].into_iter().flatten().collect();
    let names = levels.iter().filter_map(|map| map.get("name")?.as_str());
    let mut readings = Vec::new();
    for name in names.map(str::trim).filter(|name| name.len() <= NAME_BYTES_MAX) {
        for map in &levels {
            let given = ARGUMENTS.iter().filter_map(|key| map.get(*key));
            let mut rest = (*map).clone();
            rest.retain(|key, _| !BESIDE.contains(&key.as_str()));
            let given = given.map(|args| arguments(Some(args)));
            for args in given.chain([Value::Object(rest).to_string()]) {
                readings.push(PrintedCall { name: name.to_owned(), args });
            }
        }
        readings.push(PrintedCall { name: name.to_owned(), args: String::new() });
    }
    readings
}

/// The same, for a text without any marker: nothing but a call may be in the object, and it has
/// to have arguments.
pub(super) fn bare_call_of(object: &Map<String, Value>) -> Option<PrintedCall> {
    const KEYS: &[&str] = &["name", "parameters", "arguments", "type", "id", "function"];
    let inner = object.get("function").and_then(Value::as_object).unwrap_or(object);
    let known = |map: &Map<String, Value>| map.keys().all(|key| KEYS.contains(&key.as_str()));
    let kind = object.get("type").is_none_or(|kind| kind == "function");
    let args = inner.get("parameters").or_else(|| inner.get("arguments"));
    if !known(object) || !known(inner) || !kind || !args.is_some_and(Value::is_object) {
        return None;
    }
    call_of(object)
}

/// The calls in an object, or in a list of nothing but calls.
pub(super) fn calls_of(
    value: &Value,
    call: impl Fn(&Map<String, Value>) -> Option<PrintedCall>,
) -> Option<Vec<PrintedCall>> {
    match value {
        Value::Object(object) => call(object).map(|call| vec![call]),
        Value::Array(items) if !items.is_empty() => {
            let mut calls: Vec<PrintedCall> = Vec::new();
            let mut sent = BTreeSet::new();
            for item in items {
                let object = item.as_object()?;
                let call = call(object)?;
                let id = object.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
                // One call twice under one id was printed twice, or is meant to run twice.
                if id.is_some_and(|id| !sent.insert((id, call.name.clone(), call.args.clone()))) {
                    return None;
                }
                calls.push(call);
            }
            Some(calls)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            None
        }
    }
}

/// Arguments as text: text as it is, JSON written out, else none.
pub(super) fn arguments(args: Option<&Value>) -> String {
    match args {
        Some(Value::String(text)) => text.clone(),
        Some(args @ (Value::Object(_) | Value::Array(_))) => args.to_string(),
        // What is left out, null or no object is not guessed here; the gate decides.
        None => String::new(),
        Some(args @ (Value::Null | Value::Bool(_) | Value::Number(_))) => args.to_string(),
    }
}

/// The call in what stands between two tags: JSON, `name {json}`, or a name alone.
pub(super) fn call_between(payload: &str) -> Option<PrintedCall> {
    let payload = payload.trim();
    if let Some(Value::Object(object)) = parse(payload) {
        return call_of(&object);
    }
    if is_name(payload) {
        return Some(PrintedCall { name: payload.to_owned(), args: String::new() });
    }
    let (name, args) = payload.split_once(char::is_whitespace)?;
    let args = args.trim();
    let whole = is_name(name) && args.starts_with('{') && args.ends_with('}');
    whole.then(|| PrintedCall { name: name.to_owned(), args: args.to_owned() })
}
