//! Decides which calls a Hermes or Qwen model printed: JSON or parameters between tags.

use serde_json::{Map, Value};

use super::payload::{PrintedCall, call_between, call_of, calls_of, is_name, parse, value_here};
use super::scan::Scan;
use super::{Found, Granted, skip_blank};

pub(super) const TAG: &str = "<tool_call>";
pub(super) const TAG_END: &str = "</tool_call>";
pub(super) const TOOLS: &str = "<tools>";
pub(super) const TOOLS_END: &str = "</tools>";
pub(super) const MARKS: &[&str] = &[TAG, TOOLS, FUNCTION];
pub(super) const FUNCTION: &str = "<function=";
const FUNCTION_END: &str = "</function>";
const PARAMETER: &str = "<parameter=";
const PARAMETER_END: &str = "</parameter>";

/// The calls of a text, and the text without them.
pub(super) fn find(text: &str, granted: &Granted<'_>) -> Option<Found> {
    if !MARKS.iter().any(|marker| text.contains(marker)) {
        return None;
    }
    let mut scan = Scan::new(text).after_thought();
    let mut found = Found::default();
    found.look(&mut scan, MARKS, |scan, marker| match marker {
        FUNCTION => function(scan, granted).map(|call| vec![call]),
        TAG => tag(scan, TAG, TAG_END, granted),
        _ => tag(scan, TOOLS, TOOLS_END, granted),
    });
    found.if_any()
}

/// The calls after an opening tag. The closing tag may be missing: it is often the token that
/// ends a reply. The JSON itself has to be whole.
fn tag(
    scan: &mut Scan<'_>,
    open: &str,
    close: &'static str,
    granted: &Granted<'_>,
) -> Option<Vec<PrintedCall>> {
    let start = scan.at + open.len();
    let mut at = start + skip_blank(scan.from(start));
    let mut calls = Vec::new();
    if scan.from(at).starts_with(FUNCTION) {
        scan.at = at;
        calls.push(function(scan, granted)?);
        at = scan.at;
    }
    while scan.from(at).starts_with(['{', '[']) {
        let (value, length) = value_here(scan, at)?;
        calls.extend(calls_of(&value, call_of)?);
        at += length;
        at += skip_blank(scan.from(at));
    }
    if calls.is_empty() {
        let payload = scan.from(at).split(close).next()?;
        let whole = scan.pay(payload.len()) && at + payload.len() < scan.text.len();
        calls.push(call_between(payload).filter(|_| whole)?);
        at += payload.len();
    }
    scan.at = at + closing(scan.from(at), close);
    Some(calls)
}

/// The length of a closing tag, with the blank before it; nothing when there is none.
fn closing(rest: &str, close: &str) -> usize {
    let blank = skip_blank(rest);
    let here = rest.get(blank..).is_some_and(|rest| rest.starts_with(close));
    if here { blank + close.len() } else { 0 }
}

/// A call as `<function=name>`, with JSON or with parameters in it.
pub(super) fn function(scan: &mut Scan<'_>, granted: &Granted<'_>) -> Option<PrintedCall> {
    let start = scan.at + FUNCTION.len();
    let (written, _) = scan.head(start).split_once('>')?;
    let name = written.trim();
    if !is_name(name) {
        return None;
    }
    let mut at = start + written.len() + 1;
    at += skip_blank(scan.from(at));
    let args = if scan.from(at).starts_with('{') {
        let (value, length) = value_here(scan, at)?;
        at += length;
        value.as_object()?.clone()
    } else {
        let (args, length) = parameters(scan, at, name, granted)?;
        at += length;
        args
    };
    let end = closing(scan.from(at), FUNCTION_END);
    at += end;
    let tag_end = closing(scan.from(at), TAG_END);
    // Something has to say that the call is whole.
    if end == 0 && tag_end == 0 {
        return None;
    }
    scan.at = at + tag_end;
    Some(PrintedCall { name: name.to_owned(), args: Value::Object(args).to_string() })
}

/// The parameters that begin here, with their length.
fn parameters(
    scan: &mut Scan<'_>,
    start: usize,
    tool: &str,
    granted: &Granted<'_>,
) -> Option<(Map<String, Value>, usize)> {
    let (mut args, mut at) = (Map::new(), start);
    while scan.from(at).starts_with(PARAMETER) {
        at += PARAMETER.len();
        let (head, _) = scan.head(at).split_once('>')?;
        at += head.len() + 1;
        let name = head.trim();
        let rest = scan.from(at);
        let close = rest.find(PARAMETER_END);
        let end = close.or_else(|| rest.find(FUNCTION_END));
        if !scan.pay(end.unwrap_or(rest.len())) {
            return None;
        }
        let written = rest.get(..end?)?;
        // A closing tag is missing somewhere: which words belong to it would be a guess.
        let swallowed = written.contains(PARAMETER) || written.contains(TAG_END);
        if swallowed || !is_name(name) || args.contains_key(name) {
            return None;
        }
        let text = written.strip_prefix('\n').unwrap_or(written);
        let text = text.strip_suffix('\n').unwrap_or(text);
        args.insert(name.to_owned(), typed(text, granted.wants(tool, name)));
        at += written.len();
        at += if close.is_some() { PARAMETER_END.len() } else { 0 };
        at += skip_blank(scan.from(at));
    }
    Some((args, at - start))
}

/// What a tool wants a parameter to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Text, or text among other things.
    Text,
    /// Anything but text.
    Other,
    /// Nobody knows.
    Unknown,
}

/// A parameter as JSON. Numbers stay text: the gate makes numbers of them where those are due.
fn typed(text: &str, wanted: Wanted) -> Value {
    let parsed = match wanted {
        Wanted::Text => None,
        Wanted::Other => parse(text.trim()),
        Wanted::Unknown => parse(text.trim()).filter(|value| value.is_object() || value.is_array()),
    };
    parsed.unwrap_or_else(|| Value::String(text.to_owned()))
}
