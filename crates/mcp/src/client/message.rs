//! Decides how our own requests are written and how the head of a message is read, without reading
//! what it carries.

use std::borrow::Cow;
use std::fmt::Write;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::fault::shown;

/// What the ids of our own requests begin with. The protocol library numbers its own.
const PREFIX: &str = "tg-";

/// Bytes of the begin of a message that is too long, where its id may stand.
const PEEK_BYTES: usize = 256;

/// Characters of an error's message that are kept.
const MESSAGE_CHARS_MAX: usize = 500;

/// The head of a message: who it is for.
#[derive(Deserialize)]
pub(super) struct Head<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// The result, as it came.
    Result(String),
    /// An error.
    Error { code: i64, message: String },
    /// What could be read of a result larger than anything that is taken; nothing, or as it came.
    Cut(String),
}

impl<'a> Head<'a> {
    pub(super) fn read(text: &'a str) -> Option<Self> {
        // A list would be read as the fields of a message, one after the other.
        text.trim_start().starts_with('{').then(|| serde_json::from_str(text).ok())?
    }

    /// The number of our own request that this answers.
    pub(super) fn ours(&self) -> Option<u64> {
        if self.method.is_some() {
            return None;
        }
        number(self.id?.get())
    }

    /// The number of a request of the protocol library that this answers. The id must be the very
    /// same: `"1"` is not `1`.
    pub(super) fn theirs(&self) -> Option<i64> {
        self.id?.get().parse().ok()
    }

    /// What the message answers.
    pub(super) fn reply(&self) -> Option<Reply> {
        match (self.result, self.error) {
            (Some(result), None) => Some(Reply::Result(result.get().to_owned())),
            (None, Some(error)) => Some(error_of(error.get())),
            (None, None) | (Some(_), Some(_)) => None,
        }
    }
}

/// The number in one of our ids, as JSON.
pub(super) fn number(id: &str) -> Option<u64> {
    let digits = id.strip_prefix('"')?.strip_suffix('"')?.strip_prefix(PREFIX)?;
    // One way to write it, so that no other text counts as the same id.
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let plain = plain && (digits == "0" || !digits.starts_with('0'));
    digits.parse().ok().filter(|_| plain)
}

/// The number of our own request that a message too large to read answers, from its begin and end.
pub(super) fn number_at_an_end(begin: &[u8], end: &[u8]) -> Option<u64> {
    let marker = format!("\"{PREFIX}");
    let at = |text: &str, found: Option<usize>| {
        let rest = text.get(found?..)?;
        let stop = rest.get(1..)?.find('"')? + 2;
        number(rest.get(..stop)?)
    };
    // What a tool said is in between.
    let begin = String::from_utf8_lossy(begin.get(..PEEK_BYTES).unwrap_or(begin));
    let end = String::from_utf8_lossy(end);
    at(&begin, begin.find(&marker)).or_else(|| at(&end, end.rfind(&marker)))
}

fn error_of(text: &str) -> Reply {
    #[derive(Deserialize, Default)]
    struct Error {
        #[serde(default)]
        code: i64,
        #[serde(default)]
        message: String,
    }
    let error: Error = serde_json::from_str(text).unwrap_or_default();
    Reply::Error { code: error.code, message: shown(&error.message, MESSAGE_CHARS_MAX) }
}

/// A request of our own. `params` is JSON already.
pub(super) fn request(number: u64, method: &str, params: &str) -> Bytes {
    let mut text = String::with_capacity(params.len() + method.len() + 64);
    let _ = write!(
        text,
        r#"{{"jsonrpc":"2.0","id":"{PREFIX}{number}","method":"{method}","params":{params}}}"#
    );
    text.into()
}

/// A request of ours is not waited for any more.
pub(super) fn cancelled(number: u64, reason: &str) -> Bytes {
    let text = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"{PREFIX}{number}","reason":"{reason}"}}}}"#
    );
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_ours_in_one_spelling_only() {
        for (id, ours) in [
            (r#""tg-7""#, Some(7)),
            (r#""tg-0""#, Some(0)),
            (r#""tg-07""#, None),
            (r#""tg-00""#, None),
            (r#""tg-18446744073709551616""#, None),
            (r#""tg-+7""#, None),
            (r#""7""#, None),
            ("7", None),
            (r#""tg-""#, None),
            ("null", None),
        ] {
            assert_eq!(number(id), ours, "{id}");
        }
    }

    #[test]
    fn a_head_tells_who_a_message_is_for() {
        let read = |text| Head::read(text).unwrap();
        let ours = read(r#"{"jsonrpc":"2.0","id":"tg-3","result":{"a":[1, 2]}}"#);
        assert_eq!(ours.ours(), Some(3));
        assert_eq!(ours.reply(), Some(Reply::Result(r#"{"a":[1, 2]}"#.to_owned())));
        // A request of the server that uses our id answers nothing.
        assert_eq!(read(r#"{"id":"tg-3","method":"ping"}"#).ours(), None);
        assert_eq!(read(r#"{"id":"1","result":{}}"#).theirs(), None);
        assert_eq!(read(r#"{"id":1,"result":{}}"#).theirs(), Some(1));
        let error = read(r#"{"id":"tg-1","error":{"code":-32000,"message":"a\u0007b"}}"#);
        assert_eq!(error.reply(), Some(Reply::Error { code: -32000, message: "a b".to_owned() }));
        // Both or neither is no answer.
        assert_eq!(read(r#"{"id":"tg-1","result":{},"error":{}}"#).reply(), None);
        assert_eq!(read(r#"{"id":"tg-1"}"#).reply(), None);
        assert!(Head::read("npm WARN").is_none());
        assert!(Head::read("[1]").is_none());
    }

    #[test]
    fn what_is_too_large_tells_its_id_at_its_begin_or_its_end() {
        assert_eq!(number_at_an_end(br#"{"id":"tg-12","result":{"#, b"AAA"), Some(12));
        assert_eq!(number_at_an_end(b"AAA", br#"AA"},"jsonrpc":"2.0","id":"tg-9"}"#), Some(9));
        assert_eq!(number_at_an_end(b"AAA", b"AAA"), None);
    }
}
