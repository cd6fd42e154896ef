//! Decides how a tool of a server is called, and what counts as its result.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::connection::{Called, Connection};
use super::fault::CallFault;
use super::message::Reply;

/// What a tool of a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The result, as JSON, as it came. It is data: no link in it is followed.
    pub text: String,
    /// Whether the tool says that it failed.
    pub is_error: bool,
    /// After how many bytes it was cut off, where it was too long.
    pub cut_at: Option<usize>,
}

/// What a caller asks for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The tool, as its server calls it.
    pub tool: &'a str,
    /// Its arguments: a JSON object.
    pub args: &'a str,
    /// The same for every sending of the same call, for servers that know what to do with it.
    pub key: Option<&'a str>,
}

/// Where the key of a call stands in its request.
const KEY: &str = "toolgate/idempotency-key";

pub(super) async fn call(
    connection: &Connection,
    asked: Asked<'_>,
    deadline: Instant,
) -> Result<Answered, CallFault> {
    let key = asked.key.map(|key| format!(r#""{KEY}":{}"#, Value::from(key)));
    let meta = connection.meta(&key.unwrap_or_default());
    let comma = if meta.is_empty() { "" } else { "," };
    let (name, args) = (Value::from(asked.tool), asked.args);
    let params = format!(r#"{{"name":{name},"arguments":{args}{comma}{meta}}}"#);
    let called = Called { tool: asked.tool, args };
    match connection.ask("tools/call", &params, Some(called), deadline).await? {
        Reply::Result(text) => result(text),
        Reply::Cut(text) => {
            let max = connection.bounds.message_bytes_max;
            let begun = result(text).map(|begun| Answered { cut_at: Some(max), ..begun });
            begun.map_err(|_| CallFault::TooLarge { max })
        }
        Reply::Error { code, message } => Err(CallFault::Refused { code, message }),
    }
}

/// What the server gives back must be a result: something said, or something wanted.
fn result(text: String) -> Result<Answered, CallFault> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Head<'a> {
        #[serde(default)]
        is_error: bool,
        #[serde(default)]
        result_type: Option<String>,
        #[serde(borrow, default)]
        content: Option<&'a RawValue>,
        #[serde(borrow, default)]
        structured_content: Option<&'a RawValue>,
    }
    let misfit = |what: &str| CallFault::Misfit(what.to_owned());
    let head: Head<'_> =
        serde_json::from_str(&text).map_err(|_| misfit("it is no result of a tool"))?;
    match head.result_type.as_deref() {
        None | Some("complete") => {}
        Some("input_required") => return Err(CallFault::WantsInput("input")),
        Some(_) => return Err(misfit("it is of a type nobody asked for")),
    }
    let listed = head.content.is_some_and(|content| content.get().starts_with('['));
    if !listed && head.structured_content.is_none() {
        return Err(misfit("it has no content"));
    }
    let is_error = head.is_error;
    Ok(Answered { text, is_error, cut_at: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_has_content_and_asks_for_nothing() {
        let ok = |text: &str| result(text.to_owned()).map(|answered| answered.is_error);
        assert_eq!(ok(r#"{"content":[]}"#), Ok(false));
        assert_eq!(ok(r#"{"content":[],"isError":true,"resultType":"complete"}"#), Ok(true));
        assert_eq!(ok(r#"{"structuredContent":{"a":1}}"#), Ok(false));
        for text in ["{}", "[]", "null", r#"{"content":"text"}"#, r#"{"content":[],"isError":1}"#] {
            assert!(matches!(ok(text), Err(CallFault::Misfit(_))), "{text}");
        }
        let wants = r#"{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create"}}}"#;
        assert_eq!(ok(wants), Err(CallFault::WantsInput("input")));
    }
}
