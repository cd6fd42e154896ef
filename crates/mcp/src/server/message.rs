//! Decides which JSON-RPC messages are taken, and how answers are written.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::refusal::{Refused, RpcCode};

/// Bytes of an id. Longer ones are nobody's.
const ID_BYTES_MAX: usize = 256;

/// The id of a request, as the JSON text that it was written in.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// The id as JSON.
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// An id from its JSON text: a string or a whole number.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let whole = |text: &str| {
            let digits = text.strip_prefix('-').unwrap_or(text);
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        let legal = text.len() <= ID_BYTES_MAX && (text.starts_with('"') || whole(text));
        legal.then(|| Self(text.into()))
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A message as it came.
#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// An id that is null is there, and wrong; one that is absent makes a notification.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// A message, known by its kind.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    /// Wants an answer.
    Request {
        /// Its id.
        id: RequestId,
        /// What is asked for.
        method: Cow<'a, str>,
        /// With what.
        params: &'a str,
    },
    /// Wants none.
    Notification {
        /// What is told.
        method: Cow<'a, str>,
        /// With what.
        params: &'a str,
    },
    /// Answers a request of ours.
    Response {
        /// The id that we gave.
        id: RequestId,
        /// What came of it; an error in words.
        outcome: Result<&'a str, String>,
    },
}

impl<'a> Message<'a> {
    /// Reads one message.
    pub(crate) fn read(text: &'a str) -> Result<Self, Refused> {
        let raw: Raw<'a> = match serde_json::from_str(text) {
            Ok(raw) => raw,
            Err(fault) if fault.is_data() => {
                return Err(Refused::new(RpcCode::InvalidRequest, "This is no JSON-RPC message."));
            }
            Err(_) => return Err(Refused::new(RpcCode::Parse, "This is no JSON.")),
        };
        let invalid = |message: &str| Err(Refused::new(RpcCode::InvalidRequest, message));
        if raw.jsonrpc.as_deref() != Some("2.0") {
            return invalid("A message says \"jsonrpc\": \"2.0\".");
        }
        let id = match raw.id.map(|id| RequestId::read(id.get())) {
            Some(None) => {
                return invalid(
                    "An id is a string of at most 254 bytes or a whole number, and not null.",
                );
            }
            Some(Some(id)) => Some(id),
            None => None,
        };
        let params = raw.params.map_or("{}", RawValue::get);
        if !params.starts_with('{') {
            return invalid("Params are an object.");
        }
        match (raw.method, id, raw.result, raw.error) {
            (Some(method), Some(id), None, None) => Ok(Self::Request { id, method, params }),
            (Some(method), None, None, None) => Ok(Self::Notification { method, params }),
            (None, Some(id), Some(result), None) => {
                Ok(Self::Response { id, outcome: Ok(result.get()) })
            }
            (None, Some(id), None, Some(error)) => {
                let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
                let said = error.get("message").and_then(Value::as_str).unwrap_or("an error");
                Ok(Self::Response { id, outcome: Err(said.chars().take(500).collect()) })
            }
            (None, None, None, Some(_)) => invalid("An answer says to what it is one."),
            _ => invalid("A message is a request, a notification or an answer."),
        }
    }
}

/// The id of a message that is not taken, where it can be read: whoever sent it waits for that.
pub(crate) fn id_of(text: &str) -> Option<RequestId> {
    #[derive(Deserialize)]
    struct Numbered<'a> {
        #[serde(borrow)]
        id: Option<&'a RawValue>,
    }
    let told: Numbered<'_> =
        text.trim_start().starts_with('{').then(|| serde_json::from_str(text).ok())??;
    RequestId::read(told.id?.get())
}

/// The parts of a batch.
pub(crate) fn parts(text: &str, max: u64) -> Result<Vec<&str>, Refused> {
    let parts: Vec<&RawValue> = serde_json::from_str(text)
        .map_err(|_| Refused::new(RpcCode::Parse, "This is no JSON array."))?;
    if parts.is_empty() || u64::try_from(parts.len()).is_ok_and(|count| count > max) {
        let message = format!("A batch has between 1 and {max} messages.");
        return Err(Refused::new(RpcCode::InvalidRequest, message));
    }
    Ok(parts.into_iter().map(RawValue::get).collect())
}

/// An answer, around the text of its result.
pub(crate) fn response(id: &RequestId, result: &str) -> String {
    response_with(id, |out| out.push_str(result))
}

/// The same, with the result written in place.
pub(crate) fn response_with(id: &RequestId, result: impl FnOnce(&mut String)) -> String {
    let mut out = String::from("{\"jsonrpc\":\"2.0\",\"id\":");
    out.push_str(&id.0);
    out.push_str(",\"result\":");
    result(&mut out);
    out.push('}');
    out
}

/// A refusal as an answer. Without an id it answers what could not be read.
pub(crate) fn refusal(id: Option<&RequestId>, refused: &Refused) -> String {
    let mut out = String::from("{\"jsonrpc\":\"2.0\"");
    if let Some(id) = id {
        out.push_str(",\"id\":");
        out.push_str(&id.0);
    }
    out.push_str(",\"error\":");
    out.push_str(&refused.to_json());
    out.push('}');
    out
}

/// A notification of ours.
pub(crate) fn notification(method: &str, params: &Value) -> String {
    serde_json::json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
}

/// A request of ours.
pub(crate) fn request(id: u64, method: &str, params: &Value) -> String {
    serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> i64 {
        Message::read(text).unwrap_err().code.number()
    }

    #[test]
    fn what_is_no_message_is_refused() {
        assert_eq!(code("{"), -32700);
        assert_eq!(code(r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#), -32600);
        assert_eq!(code("[]"), -32600);
        assert!(parts("[]", 2).is_err());
        assert_eq!(parts("[{},{}]", 2).unwrap().len(), 2);
        assert!(parts("[{},{}]", 1).is_err());
    }

    #[test]
    fn the_id_of_what_is_not_taken_is_read_where_it_can_be() {
        let id = |text| id_of(text).map(|id| id.as_json().to_owned());
        assert_eq!(id(r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#).as_deref(), Some("7"));
        assert_eq!(id(r#"{"id":"a","method":5,"params":[]}"#).as_deref(), Some("\"a\""));
        for text in
            ["{", "[]", r#"{"id":null}"#, r#"{"id":1,"id":2}"#, r#"{"id":[1]}"#, "{}", "[1]"]
        {
            assert_eq!(id(text), None, "{text}");
        }
    }

    #[test]
    fn kinds_are_told_apart() {
        let read = |text| format!("{:?}", Message::read(text).unwrap());
        assert!(read(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#).starts_with("Request"));
        assert!(read(r#"{"jsonrpc":"2.0","method":"ping"}"#).starts_with("Notification"));
        assert!(read(r#"{"jsonrpc":"2.0","id":-7,"result":null}"#).starts_with("Response"));
        assert!(read(r#"{"jsonrpc":"2.0","id":1,"error":{"message":"no"}}"#).contains("no"));
    }
}
