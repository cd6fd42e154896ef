//! Decides which calls a Mistral model printed: a list after its token, or a name with arguments.

use super::payload::{PrintedCall, call_of, calls_of, is_name, value_here};
use super::scan::Scan;
use super::{Found, skip_blank};

const TOKEN: &str = "[TOOL_CALLS]";
pub(super) const MARKS: &[&str] = &[TOKEN];
const ID: &str = "[CALL_ID]";
const ARGS: &str = "[ARGS]";
const END: &str = "</s>";

/// The calls of a text, and the text without them.
pub(super) fn find(text: &str) -> Option<Found> {
    if !text.contains(TOKEN) {
        return None;
    }
    let mut scan = Scan::new(text).after_thought();
    let mut found = Found::default();
    found.look(&mut scan, MARKS, |scan, _| after_token(scan));
    found.if_any()
}

fn after_token(scan: &mut Scan<'_>) -> Option<Vec<PrintedCall>> {
    let mut at = scan.at + TOKEN.len();
    at += skip_blank(scan.from(at));
    let mut calls = Vec::new();
    if scan.from(at).starts_with(['[', '{']) && !scan.from(at).starts_with(ARGS) {
        let (value, length) = value_here(scan, at)?;
        calls = calls_of(&value, call_of)?;
        at += length;
    } else {
        // Some versions write the token once for several calls; then each has its `[ARGS]`.
        while calls.is_empty() || scan.head(at).split('{').next()?.contains(ARGS) {
            let Some((call, length)) = named(scan, at) else { break };
            calls.push(call);
            at += length;
        }
    }
    if scan.from(at).trim_start().starts_with(END) {
        at += skip_blank(scan.from(at)) + END.len();
    }
    scan.at = at;
    Some(calls).filter(|calls| !calls.is_empty())
}

/// `name{json}`, `name[ARGS]{json}` or `name[CALL_ID]id[ARGS]{json}`, with its length.
fn named(scan: &mut Scan<'_>, start: usize) -> Option<(PrintedCall, usize)> {
    let (head, _) = scan.head(start).split_once('{')?;
    let begin = start + head.len();
    let (name, head) = match head.split_once(['[']) {
        None => (head, ""),
        Some((name, _)) => (name, head.get(name.len()..)?),
    };
    let after_id = match head.strip_prefix(ID) {
        None => head,
        Some(rest) => rest.get(rest.find('[').unwrap_or(rest.len())..)?,
    };
    let plain = after_id.trim().is_empty() || after_id.trim() == ARGS;
    let name = name.trim();
    if !plain || !is_name(name) {
        return None;
    }
    let (value, length) = value_here(scan, begin)?;
    let args = value.as_object().map(|_| value.to_string())?;
    Some((PrintedCall { name: name.to_owned(), args }, begin + length - start))
}
