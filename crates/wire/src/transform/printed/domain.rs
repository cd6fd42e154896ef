//! Decides which calls of domain tools a text begins with: `{"type": "whiteboard", "action": …}`.

use serde_json::{Map, Value};

use super::payload::{PrintedCall, balanced, parse};
use super::scan::Scan;
use super::{Found, Granted, skip_blank};

/// What answers of domain tools are called. A text with one of these repeats a result.
const ANSWERS: &[&str] = &[
    "config",
    "error",
    "search_results",
    "fetched_page",
    "redirect",
    "board",
    "board_created",
    "board_updated",
    "board_deleted",
    "board_restored",
    "board_list",
    "deleted_board_list",
    "active_board_set",
    "active_board_cleared",
];

/// Keys that only results have.
const OF_RESULTS: &[&str] = &["ok", "success", "error", "errors", "result", "results"];

/// Longest date that may stand before the first object.
pub(super) const STAMP_BYTES_MAX: usize = 48;

/// The calls a text begins with, and what follows them. Results that a model made up beside its
/// calls are left out; a text with results alone stays as it is.
pub(super) fn find(text: &str, granted: &Granted<'_>) -> Option<Found> {
    let mut scan = Scan::new(text).after_thought();
    let start = scan.at;
    let mut at = start + stamp(scan.rest())?;
    let mut found = Found::default();
    let mut echoes = 0;
    while !found.is_full() && scan.from(at).starts_with('{') {
        let rest = scan.from(at);
        let length = balanced(rest);
        if !scan.pay(length.unwrap_or(rest.len())) {
            break;
        }
        let Some(written) = length.and_then(|length| rest.get(..length)) else { break };
        let Some(Value::Object(object)) = parse(written).or_else(|| parse(&quoted_keys(written)))
        else {
            break;
        };
        match call_of(&object, granted) {
            Some(call) => found.calls.push(call),
            None if is_echo(&object) => echoes += 1,
            None => break,
        }
        at += written.len();
        at += skip_blank(scan.from(at));
    }
    found.cuts.push((start, at));
    found.echoes = echoes;
    found.if_any()
}

/// The call of a domain tool that is granted.
fn call_of(object: &Map<String, Value>, granted: &Granted<'_>) -> Option<PrintedCall> {
    let tool = object.get("type").and_then(Value::as_str)?.trim();
    let acts = object.get("action").is_some_and(Value::is_string);
    if !acts || !granted.has(tool) || OF_RESULTS.iter().any(|key| object.contains_key(*key)) {
        return None;
    }
    let mut args = object.clone();
    if granted.field(tool, "type").is_none() {
        args.shift_remove("type");
    }
    Some(PrintedCall { name: tool.to_owned(), args: Value::Object(args).to_string() })
}

fn is_echo(object: &Map<String, Value>) -> bool {
    let kind = object.get("type").and_then(Value::as_str);
    let settled =
        ["success", "ok"].iter().any(|key| object.get(*key).is_some_and(Value::is_boolean));
    let lone_error = object.len() == 1 && object.contains_key("error");
    kind.is_some_and(|kind| ANSWERS.contains(&kind)) || settled || lone_error
}

/// The length of the blank and the date before the first object; absent when words come first.
fn stamp(text: &str) -> Option<usize> {
    let before = text.get(..text.find('{')?)?;
    let digits = before.chars().filter(char::is_ascii_digit).count();
    let dated = digits >= 8 && before.len() <= STAMP_BYTES_MAX && before.chars().all(in_stamp);
    (dated || before.trim().is_empty()).then_some(before.len())
}

/// Whether a sign may be a part of a date, or stand around one.
pub(super) fn in_stamp(c: char) -> bool {
    c.is_ascii_digit() || c.is_whitespace() || "[]()-:/.,+TZAPMUC".contains(c)
}

/// An object whose keys were written without quotes, with quotes.
fn quoted_keys(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 32);
    let (mut in_text, mut escaped, mut key_due) = (false, false, false);
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        if in_text {
            out.push(c);
            (in_text, escaped) = (escaped || c != '"', !escaped && c == '\\');
            continue;
        }
        let word = if key_due { bare_key(text.get(at..).unwrap_or_default()) } else { None };
        if let Some(word) = word {
            out.push('"');
            out.push_str(word);
            out.push('"');
            chars.by_ref().take(word.len() - 1).for_each(|_| {});
            key_due = false;
            continue;
        }
        out.push(c);
        in_text = c == '"';
        key_due = matches!(c, '{' | ',') || (key_due && c.is_whitespace());
    }
    out
}

/// The bare word that begins here, when a colon follows it.
fn bare_key(text: &str) -> Option<&str> {
    let in_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let word = text.split(|c: char| !in_word(c)).next().filter(|word| !word.is_empty())?;
    let colon = text.get(word.len()..)?.trim_start().starts_with(':');
    (colon && !word.starts_with(|c: char| c.is_ascii_digit())).then_some(word)
}
