//! Decides which calls a Llama model printed: after its tag, as a function, or as bare JSON.

use super::hermes::{FUNCTION, function};
use super::payload::{PrintedCall, bare_call_of, call_of, calls_of, value_here};
use super::scan::Scan;
use super::{Found, Granted, skip_blank};

const TAG: &str = "<|python_tag|>";
pub(super) const MARKS: &[&str] = &[TAG, FUNCTION];
/// Tokens that end a reply, when a server lets them through.
const ENDS: &[&str] = &["<|eom_id|>", "<|eot_id|>", "<|end_of_text|>"];

/// The calls of a text, and the text without them.
pub(super) fn find(text: &str, granted: &Granted<'_>) -> Option<Found> {
    let mut scan = Scan::new(text).after_thought();
    let mut found = Found::default();
    bare(&mut scan, granted, &mut found);
    if found.calls.is_empty() && MARKS.iter().any(|marker| text.contains(marker)) {
        found.look(&mut scan, MARKS, |scan, marker| match marker {
            FUNCTION => function(scan, granted).map(|call| vec![call]),
            _ => after_tag(scan),
        });
    }
    found.if_any()
}

/// JSON without any marker. The whole text has to be nothing but calls, of tools that are granted.
fn bare(scan: &mut Scan<'_>, granted: &Granted<'_>, found: &mut Found) {
    let start = scan.at;
    let mut at = start + skip_blank(scan.from(start));
    while !found.is_full() && scan.from(at).starts_with(['{', '[']) {
        let Some((value, length)) = value_here(scan, at) else { break };
        let Some(calls) = calls_of(&value, bare_call_of) else { break };
        if !calls.iter().all(|call| granted.has(&call.name)) {
            break;
        }
        at += length;
        at += separator(scan.from(at));
        found.take(calls, start, at);
    }
    // Beside words it may be an example of a call.
    if !found.is_full() && !scan.from(at).trim().is_empty() {
        *found = Found::default();
    }
}

fn after_tag(scan: &mut Scan<'_>) -> Option<Vec<PrintedCall>> {
    let mut at = scan.at + TAG.len();
    at += skip_blank(scan.from(at));
    let mut calls = Vec::new();
    while scan.from(at).starts_with(['{', '[']) {
        let (value, length) = value_here(scan, at)?;
        calls.extend(calls_of(&value, call_of)?);
        at += length;
        at += separator(scan.from(at));
    }
    scan.at = at;
    Some(calls).filter(|calls| !calls.is_empty())
}

/// The length of what stands between calls, or after the last one.
fn separator(rest: &str) -> usize {
    let mut at = skip_blank(rest);
    while let Some(rest) = rest.get(at..) {
        let end = ENDS.iter().find(|end| rest.starts_with(**end)).map(|end| end.len());
        // A semicolon or comma counts only when another call follows.
        let next = rest.strip_prefix([';', ',']).map(str::trim_start);
        let between = next.filter(|next| next.starts_with(['{', '['])).map(|_| 1);
        let Some(length) = end.or(between) else { break };
        at += length;
        at += skip_blank(rest.get(length..).unwrap_or_default());
    }
    at
}
