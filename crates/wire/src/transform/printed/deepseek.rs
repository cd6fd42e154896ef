//! Decides which calls a DeepSeek model printed with its special tokens, however they are spelled.

use super::payload::{PrintedCall, is_name, value_here};
use super::scan::Scan;
use super::{Found, skip_blank};

pub(super) const OPENERS: &[&str] = &["<｜", "<|"];

/// The calls of a text, and the text without them.
pub(super) fn find(text: &str) -> Option<Found> {
    if !OPENERS.iter().any(|opener| text.contains(opener)) {
        return None;
    }
    let mut scan = Scan::new(text).after_thought();
    let mut found = Found::default();
    let mut around = Vec::new();
    while !found.is_full() {
        let Some(opener) = scan.find(OPENERS) else { break };
        let start = scan.at;
        let Some((token, length)) = token(scan.rest()) else {
            scan.at = start + opener.len();
            continue;
        };
        scan.at = start + length;
        match token.as_str() {
            "tool_call_begin" => match call(&mut scan) {
                Some(call) => found.take(vec![call], start, scan.at),
                None => {
                    found.unread += 1;
                    scan.at = start + length;
                }
            },
            "tool_outputs_begin" => pass(&mut scan, "tool_outputs_end"),
            "tool_output_begin" => pass(&mut scan, "tool_output_end"),
            "tool_calls_begin" | "tool_calls_end" | "tool_calls" | "end_of_sentence" => {
                around.push((start, scan.at));
            }
            _ => {}
        }
    }
    found.cuts.extend(around);
    found.cuts.sort_unstable();
    found.if_any()
}

/// The special token that begins here, in one spelling, with its length.
fn token(text: &str) -> Option<(String, usize)> {
    let opener = OPENERS.iter().find(|opener| text.starts_with(**opener))?;
    let inner = text.get(opener.len()..)?;
    let end = inner.char_indices().take(40).find(|(_, c)| matches!(c, '｜' | '|'))?;
    let name = inner.get(..end.0)?;
    let after = inner.get(end.0 + end.1.len_utf8()..)?;
    let closes = after.starts_with('>');
    let spelled = name.replace('\\', "").replace(['▁', ' '], "_");
    closes.then(|| (spelled, text.len() - after.len() + 1))
}

/// Where the next special token with this name begins, with its length.
fn seek(text: &str, wanted: &[&str]) -> Option<(usize, usize)> {
    text.match_indices('<').find_map(|(at, _)| {
        let (name, length) = token(text.get(at..)?)?;
        wanted.contains(&name.as_str()).then_some((at, length))
    })
}

/// Passes over results that a model repeats; without an end they go to the end of the text.
fn pass(scan: &mut Scan<'_>, end: &str) {
    let rest = scan.rest();
    scan.at += seek(rest, &[end]).map_or(rest.len(), |(at, length)| at + length);
}

/// A call after its opening token: `name<sep>{json}`, or `function<sep>name` and fenced JSON.
fn call(scan: &mut Scan<'_>) -> Option<PrintedCall> {
    let head = scan.head(scan.at);
    let (sep, length) = seek(head, &["tool_sep"])?;
    let before = head.get(..sep)?.trim();
    let mut at = scan.at + sep + length;
    let begin = at + skip_blank(scan.from(at));
    let name = if scan.from(begin).starts_with('{') {
        at = begin;
        before
    } else {
        let line = scan.head(at).split(['\n', '{', '`']).next()?;
        at += line.len();
        line.trim()
    };
    at += skip_blank(scan.from(at));
    let fenced = scan.head(at).strip_prefix("```");
    if let Some(fenced) = fenced {
        let info = fenced.split(['\n', '{']).next()?;
        at += "```".len() + info.len();
        at += skip_blank(scan.from(at));
    }
    let (value, length) = value_here(scan, at)?;
    at += length;
    let mut rest = scan.from(at).trim_start();
    if fenced.is_some() {
        rest = rest.strip_prefix("```")?.trim_start();
    }
    // The token that ends it may be the one that ended the reply.
    let end = token(rest).filter(|(name, _)| name == "tool_call_end").map_or(0, |(_, at)| at);
    scan.at = scan.text.len() - rest.len() + end;
    let args = value.as_object().filter(|_| is_name(name)).map(|_| value.to_string())?;
    Some(PrintedCall { name: name.to_owned(), args })
}
