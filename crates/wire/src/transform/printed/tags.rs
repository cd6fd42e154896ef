//! Decides which calls stand between `<tool_call>` tags, as document 003 has them.

use super::hermes::{TAG as OPEN, TAG_END as CLOSE};
use super::payload::{PrintedCall, call_between, call_of, value_here};
use super::scan::Scan;
use super::{Found, skip_blank};

pub(super) const MARKS: &[&str] = &[OPEN];

/// The calls of a text, and the text without them.
///
/// Without a call the text stays as it is, but for `\<`, which is shown as `&lt;`.
pub(super) fn find(text: &str) -> Option<Found> {
    if !text.contains(OPEN) {
        return None;
    }
    let mut scan = Scan::new(text).after_thought();
    let (mut found, mut tags) = (Found::default(), 0);
    while !found.is_full() && scan.find(&[OPEN]).is_some() {
        let start = scan.at;
        scan.at += OPEN.len();
        let Some(call) = tag(&mut scan) else { break };
        tags += 1;
        found.cuts.push((start, scan.at));
        match call {
            Some(call) => found.calls.push(call),
            None => found.unread += 1,
        }
    }
    // The rest is looked through too, for the escapes in it.
    scan.find(&[]);
    if tags > 0 && found.calls.is_empty() {
        return None;
    }
    if found.calls.is_empty() && scan.escapes.is_empty() {
        return None;
    }
    found.escapes = scan.escapes;
    Some(found)
}

/// What stands between the tags; absent when the closing one is missing.
fn tag(scan: &mut Scan<'_>) -> Option<Option<PrintedCall>> {
    let start = scan.at;
    // JSON is read first, so that no word in it can be taken for the end.
    let begin = start + skip_blank(scan.from(start));
    if let Some((value, length)) = value_here(scan, begin) {
        let end = begin + length + skip_blank(scan.from(begin + length));
        if scan.from(end).starts_with(CLOSE) {
            scan.at = end + CLOSE.len();
            return Some(value.as_object().and_then(call_of));
        }
    }
    scan.find(&[CLOSE])?;
    let payload = scan.text.get(start..scan.at).unwrap_or_default();
    scan.at += CLOSE.len();
    Some(call_between(payload))
}
