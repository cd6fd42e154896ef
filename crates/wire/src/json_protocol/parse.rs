//! Parses a reply of the JSON tool protocol: one call, one decision, or words. Nothing is dug out of
//! prose, and nothing is mended.

use serde_json::{Map, Value};
use toolgate_kernel::json::parse_strict;
use toolgate_kernel::limits::Limits;

/// What begins and ends a thought, which is no part of the reply.
const THOUGHTS: &[(&str, &str)] =
    &[("<think>", "</think>"), ("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]")];

/// What a reply may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedReply {
    /// A call, or the answer in words.
    CallOrWords,
    /// A call.
    Call,
    /// After results: another call, or that the answer comes next.
    Decision,
    /// The answer in words.
    Answer,
}

/// What a reply is.
#[derive(Debug, Clone, PartialEq)]
pub enum ProtocolReply {
    /// A call.
    Call(ProtocolCall),
    /// The answer comes next.
    Final,
    /// The answer in words, without thoughts.
    Words(String),
}

/// A call as it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct ProtocolCall {
    /// The name of the tool.
    pub tool: String,
    /// The arguments.
    pub args: Map<String, Value>,
}

/// The code of a reply that is not one of the forms.
pub const TOOL_CALL_INVALID_FORMAT: &str = "TOOL_CALL_INVALID_FORMAT";

/// The code of a reply with more than one object.
pub const TOOL_CALL_MULTIPLE: &str = "TOOL_CALL_MULTIPLE";

/// The code of a reply without the nonce of its request.
pub const TOOL_CALL_NONCE_INVALID: &str = "TOOL_CALL_NONCE_INVALID";

/// A reply that is none of the forms.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code} ({detail})")]
pub struct ProtocolError {
    /// The code.
    pub code: &'static str,
    /// What about it, such as `unknown-field:x`.
    pub detail: String,
}

fn invalid(detail: impl Into<String>) -> ProtocolError {
    ProtocolError { code: TOOL_CALL_INVALID_FORMAT, detail: detail.into() }
}

fn nonce_error(detail: &str) -> ProtocolError {
    ProtocolError { code: TOOL_CALL_NONCE_INVALID, detail: detail.to_owned() }
}

/// Parses a reply. `nonce` is that of its request; `tools` are the names of all tools, which words
/// must not seem to call.
pub fn parse_reply(
    reply: &str,
    expected: ExpectedReply,
    nonce: &str,
    tools: &[&str],
    limits: &Limits,
) -> Result<ProtocolReply, ProtocolError> {
    let text = bare(reply);
    let object = unfenced(text);
    if !object.starts_with('{') {
        return words(text, expected, tools);
    }
    if expected == ExpectedReply::Answer {
        return Err(invalid("json-for-answer"));
    }
    if !object.ends_with('}') {
        return Err(invalid("unterminated-json"));
    }
    one_object(object)?;
    let value = parse_strict(object, limits).map_err(|error| invalid(format!("json: {error}")))?;
    let Value::Object(fields) = value else { return Err(invalid("not-an-object")) };
    envelope(fields, expected, nonce)
}

/// A reply without thoughts and without what nobody sees at its edges.
fn bare(reply: &str) -> &str {
    let mut text = trimmed(reply);
    loop {
        let before = text;
        for (open, close) in THOUGHTS {
            if let Some(inner) = text.strip_prefix(open) {
                // A thought that is not closed is everything.
                text = trimmed(inner.split_once(close).map_or("", |(_, rest)| rest));
            } else if let Some((thought, rest)) = text.split_once(close)
                && !thought.contains(open)
                && !thought.trim_start().starts_with('{')
            {
                // The template opened it in the prompt.
                text = trimmed(rest);
            }
        }
        if text.len() == before.len() {
            return text;
        }
    }
}

/// Without blanks, zero-width characters and byte order marks at the edges.
fn trimmed(text: &str) -> &str {
    let unseen = |c: char| {
        c.is_whitespace() || matches!(c, '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{2060}')
    };
    text.trim_matches(unseen)
}

/// The inside of one fence with nothing around it; else the text itself.
fn unfenced(text: &str) -> &str {
    let inner = || {
        let body = text.strip_prefix("```")?.strip_suffix("```")?;
        let (language, body) = body.split_once('\n')?;
        let plain = language.trim();
        let named = plain.is_empty() || plain.eq_ignore_ascii_case("json");
        (named && !body.contains("```")).then(|| trimmed(body))
    };
    inner().unwrap_or(text)
}

/// Checks that a text is one JSON value and no more.
fn one_object(text: &str) -> Result<(), ProtocolError> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    match values.next() {
        Some(Ok(_)) => {}
        Some(Err(_)) | None => return Err(invalid("json")),
    }
    let rest = text.get(values.byte_offset()..).unwrap_or_default();
    match rest.trim_start() {
        "" => Ok(()),
        more if more.starts_with(['{', ',']) => Err(ProtocolError {
            code: TOOL_CALL_MULTIPLE,
            detail: "one object per reply".to_owned(),
        }),
        _ => Err(invalid("text-after-json")),
    }
}

/// A call or a decision.
fn envelope(
    mut fields: Map<String, Value>,
    expected: ExpectedReply,
    nonce: &str,
) -> Result<ProtocolReply, ProtocolError> {
    let action = match fields.remove("action") {
        None => None,
        Some(_) if expected != ExpectedReply::Decision => {
            return Err(invalid("unknown-field:action"));
        }
        Some(Value::String(action)) => Some(action),
        Some(_) => return Err(invalid("wrong-type:action")),
    };
    let is_final = match action.as_deref() {
        None | Some("tool") => false,
        Some("final") => true,
        Some(_) => return Err(invalid("unknown-action")),
    };
    let known: &[&str] = if is_final { &["nonce"] } else { &["tool", "args", "nonce"] };
    if let Some(field) = fields.keys().find(|field| !known.contains(&field.as_str())) {
        let field: String = field.chars().take(80).collect();
        return Err(invalid(format!("unknown-field:{field}")));
    }
    let call = match is_final {
        true => None,
        false => Some(call(&mut fields)?),
    };
    match fields.remove("nonce") {
        None => Err(nonce_error("nonce-missing")),
        Some(Value::String(written)) if written == nonce => {
            Ok(call.map_or(ProtocolReply::Final, ProtocolReply::Call))
        }
        Some(Value::String(_)) => Err(nonce_error("nonce-wrong")),
        Some(_) => Err(invalid("wrong-type:nonce")),
    }
}

fn call(fields: &mut Map<String, Value>) -> Result<ProtocolCall, ProtocolError> {
    let tool = match fields.remove("tool") {
        None => return Err(invalid("missing-field:tool")),
        Some(Value::String(tool)) if tool.trim().is_empty() => return Err(invalid("blank-tool")),
        Some(Value::String(tool)) => tool.trim().to_owned(),
        Some(_) => return Err(invalid("wrong-type:tool")),
    };
    let args = match fields.remove("args") {
        None => return Err(invalid("missing-field:args")),
        Some(Value::Object(args)) => args,
        Some(_) => return Err(invalid("wrong-type:args")),
    };
    Ok(ProtocolCall { tool, args })
}

fn words(
    text: &str,
    expected: ExpectedReply,
    tools: &[&str],
) -> Result<ProtocolReply, ProtocolError> {
    match expected {
        ExpectedReply::Call => return Err(invalid("call-expected")),
        ExpectedReply::Decision => return Err(invalid("decision-expected")),
        ExpectedReply::CallOrWords | ExpectedReply::Answer => {}
    }
    if let Some(tool) = tools.iter().find(|tool| is_printed_call(text, tool)) {
        return Err(invalid(format!("printed-call:{tool}")));
    }
    if has_tool_key(text) {
        return Err(invalid("printed-call"));
    }
    Ok(ProtocolReply::Words(text.to_owned()))
}

/// Whether words have `tool(`, as a word of its own.
fn is_printed_call(text: &str, tool: &str) -> bool {
    text.match_indices(tool).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + tool.len()..).unwrap_or_default();
        after.starts_with('(') && !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

/// Whether words have an object with the key `tool`.
fn has_tool_key(text: &str) -> bool {
    text.match_indices("\"tool\"").any(|(at, key)| {
        let after = text.get(at + key.len()..).unwrap_or_default().trim_start();
        let before = text.get(..at).unwrap_or_default().trim_end();
        after.starts_with(':') && before.ends_with(['{', ','])
    })
}
