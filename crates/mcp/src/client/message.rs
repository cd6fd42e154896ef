//! Decides how our own requests are written and how the head of a message is read, without reading
//! what it carries.

use std::borrow::Cow;
use std::fmt::Write;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use toolgate_kernel::json::without_lone_surrogates;

use super::fault::shown;

/// What the ids of our own requests begin with. The protocol library numbers its own.
const PREFIX: &str = "tg-";

/// Bytes of the begin of a message that is too long, where its id may stand.
const PEEK_BYTES: usize = 256;

/// Characters of an error's message that are kept until secrets are removed from it.
const MESSAGE_CHARS_MAX: usize = 5_000;

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
    #[serde(borrow, default)]
    jsonrpc: Option<&'a RawValue>,
    /// What belongs into a result, and servers written by hand put beside it.
    #[serde(borrow, default, rename = "isError", alias = "is_error")]
    is_error: Option<&'a RawValue>,
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

    /// The number of a request, of ours or of the protocol library, that this means to answer. The
    /// spelling may be wrong, so it is good for failing the request and for nothing else.
    pub(super) fn claimed(&self) -> Option<u64> {
        claimed(self.id?.get().as_bytes())
    }

    /// Whether it has what only an answer has.
    pub(super) fn has_answer(&self) -> bool {
        self.result.is_some() || self.error.is_some()
    }

    /// What the message answers.
    pub(super) fn reply(&self) -> Option<Reply> {
        self.content().ok()
    }

    /// What the message answers, or why it cannot be read as an answer.
    pub(super) fn answer(&self) -> Result<Reply, &'static str> {
        match self.jsonrpc.map(RawValue::get) {
            Some(r#""2.0""#) => self.content(),
            Some(_) | None => Err("it is not JSON-RPC 2.0"),
        }
    }

    fn content(&self) -> Result<Reply, &'static str> {
        if self.is_error.is_some_and(|said| said.get() != "false") {
            return Err("it says beside its result that it failed");
        }
        match (self.result, self.error) {
            (Some(result), None) => {
                Ok(Reply::Result(without_lone_surrogates(result.get()).into_owned()))
            }
            (None, Some(error)) => error_of(error.get()).ok_or("its error has no code and message"),
            (None, None) => Err("it has neither a result nor an error"),
            (Some(_), Some(_)) => Err("it has both a result and an error"),
        }
    }
}

/// Why a message that names a request of ours cannot be read at all.
pub(super) const NOT_A_MESSAGE: &str = "it is not one JSON-RPC message";

/// The number in an id, however it is spelled: `"tg-7"`, `"7"` or `7`.
fn claimed(id: &[u8]) -> Option<u64> {
    let id = id.trim_ascii_start();
    let id = id.strip_prefix(b"\"").unwrap_or(id);
    let id = id.strip_prefix(PREFIX.as_bytes()).unwrap_or(id);
    let digits = id.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(id.len());
    std::str::from_utf8(id.get(..digits)?).ok()?.parse().ok()
}

/// The numbers of the requests that a message, or a list of messages, means to answer, where it
/// cannot be read as JSON. What stands deeper than the id of a message is not looked at.
pub(super) fn claimed_by_unreadable(text: &[u8]) -> Vec<u64> {
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    let level = match text.trim_ascii_start().first() {
        Some(b'{') => 1,
        Some(b'[') => 2,
        Some(_) | None => return mentioned(text),
    };
    let (mut numbers, mut depth, mut at) = (Vec::new(), 0_usize, 0);
    while let Some(byte) = text.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let end = end_of_string(text, at);
                let is_id = depth == level && text.get(at..=end) == Some(b"\"id\"");
                let value = is_id.then(|| text.get(end + 1..)).flatten();
                let value = value.and_then(|rest| rest.trim_ascii_start().strip_prefix(b":"));
                numbers.extend(value.and_then(claimed));
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    if numbers.is_empty() { mentioned(text) } else { numbers }
}

/// The numbers of our own requests that a text names as `"id"` anywhere, where it looks like an
/// answer: a server may write a word before its answer in the same line. A request that a server
/// prints has no result.
fn mentioned(text: &[u8]) -> Vec<u64> {
    let has = |word: &[u8]| text.windows(word.len()).any(|part| part == word);
    if !has(b"\"result\"") && !has(b"\"error\"") {
        return Vec::new();
    }
    let ids = text.windows(4).enumerate().filter(|(_, part)| *part == b"\"id\"");
    let value = |(at, _): (usize, &[u8])| {
        let rest = text.get(at + 4..)?.trim_ascii_start().strip_prefix(b":")?;
        let id = rest.trim_ascii_start().strip_prefix(b"\"")?.trim_ascii_start();
        id.starts_with(PREFIX.as_bytes()).then(|| claimed(id)).flatten()
    };
    ids.filter_map(value).collect()
}

/// Where the string that begins here ends.
fn end_of_string(text: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => break,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
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

/// An error as the protocol has it. One without a code or a message says nothing about whether the
/// call happened, so it is no refusal.
fn error_of(text: &str) -> Option<Reply> {
    #[derive(Deserialize)]
    struct Error {
        code: i64,
        message: String,
    }
    // A list would be read as the fields of an error, one after the other.
    let is_object = text.trim_start().starts_with('{');
    let error: Error =
        is_object.then(|| serde_json::from_str(&without_lone_surrogates(text)).ok())??;
    Some(Reply::Error { code: error.code, message: shown(&error.message, MESSAGE_CHARS_MAX) })
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
    fn an_answer_that_cannot_be_read_says_why() {
        for (members, why) in [
            (r#""jsonrpc":"2.0","result":null"#, "neither"),
            (r#""jsonrpc":"2.0""#, "neither"),
            (r#""jsonrpc":"2.0","result":{},"error":{"code":1,"message":"x"}"#, "both"),
            (r#""result":{}"#, "JSON-RPC 2.0"),
            (r#""jsonrpc":2.0,"result":{}"#, "JSON-RPC 2.0"),
            (r#""jsonrpc":"1.0","result":{}"#, "JSON-RPC 2.0"),
            (r#""jsonrpc":"2.0","result":{},"isError":true"#, "beside"),
            (r#""jsonrpc":"2.0","is_error":1,"result":{}"#, "beside"),
            (r#""jsonrpc":"2.0","error":"no""#, "no code and message"),
            (r#""jsonrpc":"2.0","error":7"#, "no code and message"),
            (r#""jsonrpc":"2.0","error":[-32000,"no"]"#, "no code and message"),
            (r#""jsonrpc":"2.0","error":{"code":"-32000","message":"x"}"#, "no code and message"),
            (r#""jsonrpc":"2.0","error":{"code":-32000}"#, "no code and message"),
        ] {
            let text = format!(r#"{{"id":"tg-1",{members}}}"#);
            let told = Head::read(&text).unwrap().answer().unwrap_err();
            assert!(told.contains(why), "{text}: {told}");
        }
    }

    #[test]
    fn half_a_character_costs_no_answer() {
        let text = r#"{"jsonrpc":"2.0","id":"tg-1","result":{"content":[{"text":"a\ud800b"}]}}"#;
        let wanted = "{\"content\":[{\"text\":\"a\u{fffd}b\"}]}".to_owned();
        assert_eq!(Head::read(text).unwrap().answer(), Ok(Reply::Result(wanted)));
    }

    #[test]
    fn what_cannot_be_read_still_tells_whom_it_answers() {
        for (text, numbers) in [
            (&br#"{"jsonrpc":"2.0","id":"tg-7","result":"#[..], &[7][..]),
            (br#"{"id" : "tg-7""#, &[7]),
            (br#"{"id":7,"result":{"#, &[7]),
            (br#"{"result":{"id":"tg-9"},"id":"tg-7",}"#, &[7]),
            (br#"{"id":"tg-7","id":"tg-8","result":{}}"#, &[7, 8]),
            (br#"[{"id":"tg-7","result":{}},{"id":"tg-8"}]"#, &[7, 8]),
            (b"{\"text\":\"\xff\",\"id\":\"tg-7\"}", &[7]),
            (br#"{"text":"say \"id\":\"tg-7\"""#, &[]),
            (br#"npm WARN "id":"tg-7""#, &[]),
            (b"", &[]),
            (br#"{"id":"#, &[]),
            (br#"{"id":null,"#, &[]),
            (br#"{"id":"tg-99999999999999999999","#, &[]),
        ] {
            let told = claimed_by_unreadable(text);
            assert_eq!(told, numbers, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn what_is_too_large_tells_its_id_at_its_begin_or_its_end() {
        assert_eq!(number_at_an_end(br#"{"id":"tg-12","result":{"#, b"AAA"), Some(12));
        assert_eq!(number_at_an_end(b"AAA", br#"AA"},"jsonrpc":"2.0","id":"tg-9"}"#), Some(9));
        assert_eq!(number_at_an_end(b"AAA", b"AAA"), None);
    }
}
