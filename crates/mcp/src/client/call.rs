//! Calls a tool of a server, and reads its result.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::connection::{Called, Connection};
use super::fault::CallFault;
use super::form::{self, Wanted};
use super::listing::Found;
use super::message::Reply;

/// Rounds in which a server may ask before it goes on.
const ROUNDS_MAX: usize = 4;

/// What a tool of a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The result, as JSON, as it came. It is data: no link in it is followed.
    pub text: String,
    /// Whether the tool says that it failed. Nothing where the answer was cut off before it said so:
    /// then it is not known whether the call succeeded.
    pub is_error: Option<bool>,
    /// After how many bytes it was cut off, where it was too long.
    pub cut_at: Option<usize>,
}

/// What a caller asks for.
#[derive(Debug, Clone, Copy)]
pub struct RemoteCall<'a> {
    /// The tool, as its server calls it.
    pub tool: &'a str,
    /// Its arguments: a JSON object.
    pub args: &'a str,
    /// The tool as it was when it was looked at; it is not called once it is another one.
    pub known: Option<&'a Found>,
    /// The same for every sending of the same call, for servers that know what to do with it.
    pub key: Option<&'a str>,
}

/// Where the key of a call stands in its request.
const KEY: &str = "toolgate/idempotency-key";

pub(super) async fn call(
    connection: &Connection,
    asked: RemoteCall<'_>,
    deadline: Instant,
) -> Result<Answered, CallFault> {
    let key = asked.key.map(|key| format!(r#""{KEY}":{}"#, Value::from(key)));
    let meta = connection.meta(&key.unwrap_or_default());
    let (name, args) = (Value::from(asked.tool), asked.args);
    let called = Called { tool: asked.tool, args };
    let mut more = String::new();
    for _ in 0..=ROUNDS_MAX {
        let mut params = format!(r#"{{"name":{name},"arguments":{args}"#);
        for members in [&meta, &more].into_iter().filter(|members| !members.is_empty()) {
            params.push(',');
            params.push_str(members);
        }
        params.push('}');
        let came = match connection.ask("tools/call", &params, Some(called), deadline).await? {
            Reply::Result(text) => result(text)?,
            Reply::Cut(text) => {
                let max = connection.bounds.message_bytes_max;
                return read_answer(text, Some(max)).ok_or(CallFault::TooLarge { max });
            }
            Reply::Error { code, message } => return Err(CallFault::Refused { code, message }),
        };
        match came {
            Came::Result(answered) => return Ok(answered),
            Came::Wanted(wanted) => {
                let (answerer, server) = (&connection.answerer, &connection.server);
                more = form::answers(answerer, server, wanted, deadline).await?;
            }
        }
    }
    Err(CallFault::WantsInput("more and more input"))
}

/// What came back.
enum Came {
    Result(Answered),
    /// The server wants something first.
    Wanted(Wanted),
}

/// The answer that a result is, whole or cut off after so many bytes; nothing where it is none.
pub(super) fn read_answer(text: String, cut_at: Option<usize>) -> Option<Answered> {
    match result(text) {
        Ok(Came::Result(answered)) => {
            // What was lost could say otherwise, or make the whole no answer at all.
            let known = cut_at.is_none() || answered.is_error == Some(true);
            let is_error = answered.is_error.filter(|_| known);
            Some(Answered { cut_at, is_error, ..answered })
        }
        Ok(Came::Wanted(_)) | Err(_) => None,
    }
}

/// What the server gives back must be a result: something said, or something wanted.
fn result(text: String) -> Result<Came, CallFault> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Head<'a> {
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
        Some("input_required") => {
            let wanted = serde_json::from_str(&text).map_err(|_| misfit("it wants no input"))?;
            return Ok(Came::Wanted(wanted));
        }
        Some(_) => return Err(misfit("it is of a type nobody asked for")),
    }
    let listed = head.content.is_some_and(|content| content.get().starts_with('['));
    if !listed && head.structured_content.is_none() {
        return Err(misfit("it has no content"));
    }
    let is_error = says_error(&text, head.content);
    let is_error =
        Some(is_error.ok_or_else(|| misfit("it does not say clearly whether it failed"))?);
    Ok(Came::Result(Answered { text, is_error, cut_at: None }))
}

/// Whether a result says that the tool failed; nothing where that is not clear. Servers written by
/// hand spell `isError` as other protocols do, or write it into a part of the content.
fn says_error(result: &str, content: Option<&RawValue>) -> Option<bool> {
    let ErrorFlagReading(said) = serde_json::from_str(result).ok()?;
    let list = content.map(RawValue::get).filter(|list| list.starts_with('['));
    let parts: Vec<&RawValue> =
        list.map_or(Some(Vec::new()), |it| serde_json::from_str(it).ok())?;
    let part_failed = |part: &&RawValue| {
        let said = serde_json::from_str(part.get()).map(|ErrorFlagReading(said)| said);
        said.is_ok_and(|said| !matches!(said, ErrorFlag::Nothing | ErrorFlag::Clear(false)))
    };
    match (said, parts.iter().any(part_failed)) {
        (ErrorFlag::Nothing, failed) => Some(failed),
        (ErrorFlag::Clear(true), _) => Some(true),
        (ErrorFlag::Clear(false), false) => Some(false),
        (ErrorFlag::Clear(false), true) | (ErrorFlag::Unclear, _) => None,
    }
}

/// What an object says under `isError`, in whatever spelling.
struct ErrorFlagReading(ErrorFlag);

#[derive(Clone, Copy)]
enum ErrorFlag {
    Nothing,
    Clear(bool),
    /// It is said twice, or is neither true nor false.
    Unclear,
}

impl<'de> Deserialize<'de> for ErrorFlagReading {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = ErrorFlagReading;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<ErrorFlagReading, A::Error> {
                let mut said = ErrorFlag::Nothing;
                while let Some(name) = map.next_key::<Cow<'de, str>>()? {
                    let letters = name.chars().filter(char::is_ascii_alphanumeric);
                    if !letters.map(|c| c.to_ascii_lowercase()).eq("iserror".chars()) {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    said = match (said, map.next_value::<Value>()?) {
                        (said, Value::Null) => said,
                        (ErrorFlag::Nothing, Value::Bool(failed)) => ErrorFlag::Clear(failed),
                        _ => ErrorFlag::Unclear,
                    };
                }
                Ok(ErrorFlagReading(said))
            }
        }

        from.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_has_content_and_asks_for_nothing() {
        let ok = |text: &str| {
            result(text.to_owned()).map(|came| match came {
                Came::Result(answered) => answered.is_error,
                Came::Wanted(_) => None,
            })
        };
        assert_eq!(ok(r#"{"content":[]}"#), Ok(Some(false)));
        assert_eq!(ok(r#"{"content":[],"isError":true,"resultType":"complete"}"#), Ok(Some(true)));
        assert_eq!(ok(r#"{"structuredContent":{"a":1}}"#), Ok(Some(false)));
        for name in
            ["is_error", "iserror", "IsError", "ISERROR", "IS_ERROR", "is-error", "is error"]
        {
            assert_eq!(ok(&format!(r#"{{"content":[],"{name}":true}}"#)), Ok(Some(true)), "{name}");
            let both = ok(&format!(r#"{{"content":[],"isError":false,"{name}":true}}"#));
            assert!(matches!(both, Err(CallFault::Misfit(_))), "{name}");
        }
        for text in ["{}", "[]", "null", r#"{"content":"text"}"#, r#"{"content":[],"isError":1}"#] {
            assert!(matches!(ok(text), Err(CallFault::Misfit(_))), "{text}");
        }
        // A part says so, where the whole does not.
        for (part, failed) in
            [("true", Some(true)), ("false", Some(false)), (r#""yes""#, Some(true))]
        {
            let part = format!(r#"{{"type":"text","text":"ERROR: no","isError":{part}}}"#);
            let text = format!(r#"{{"content":[{{"type":"text","text":"a"}},{part}]}}"#);
            assert_eq!(ok(&text), Ok(failed), "{text}");
        }
        let text = r#"{"content":[{"type":"text","text":"a","isError":true}],"isError":false}"#;
        assert!(matches!(ok(text), Err(CallFault::Misfit(_))));
        let text = r#"{"content":[],"isError":null,"is_error":true}"#;
        assert_eq!(ok(text), Ok(Some(true)));
        let wants = r#"{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create"}}}"#;
        assert_eq!(ok(wants), Ok(None));
    }
}
