//! Decides what an error answer of a server means: which kind of fault it is, and how long to wait.

use hyper::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;
use toolgate_kernel::event::FaultKind;
use toolgate_kernel::time::Timestamp;

/// What a server says went wrong. Untrusted: it is shown only through a veil.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Words {
    /// The sentence.
    pub(crate) message: String,
    /// The words that programs read: code, type and status, in lower case.
    marks: Vec<String>,
    /// A status that stands in the body, where the head said 200.
    status: Option<u16>,
    /// Milliseconds the body asks to wait.
    wait_ms: Option<u64>,
}

/// There is no money, whatever the status is.
const BILLING: &[&str] = &[
    "insufficient_quota",
    "credit_balance_exhausted",
    "enforced_spend_limit_reached",
    "spend_limit_reached",
    "spending_limit_reached",
    "usage_limit_reached",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing_error",
    "insufficient_balance",
    "insufficient_credits",
    "payment_required",
];

/// Sentences of providers that give no code of their own for it.
const BILLING_WORDS: &[&str] = &[
    "credit balance is too low",
    "reached your specified api usage limits",
    "insufficient credits",
    "insufficient balance",
    "exceeded your current quota, please check your plan and billing",
];

/// The request is longer than the model takes, though the status says only that it is bad.
const TOO_LONG: &[&str] =
    &["context_length_exceeded", "request_too_large", "string_above_max_length"];

const TOO_LONG_WORDS: &[&str] =
    &["prompt is too long", "maximum context length", "exceeds the available context size"];

impl Words {
    /// What a body says; HTML and what is no JSON says nothing.
    pub(crate) fn read(body: &[u8]) -> Self {
        let value = serde_json::from_slice(body).unwrap_or(Value::Null);
        Self::of(&value).unwrap_or_default()
    }

    /// What an answer says went wrong; nothing when it says nothing of the kind.
    pub(crate) fn of(body: &Value) -> Option<Self> {
        // Gemini answers a list with one error in it when it was asked to stream.
        let body = body.as_array().and_then(|items| items.first()).unwrap_or(body);
        let error = match body.get("error")? {
            Value::Null => return None,
            Value::String(message) => {
                return Some(Self { message: message.clone(), ..Self::default() });
            }
            error => error,
        };
        let mut words = Self::default();
        let texts = ["message", "code", "type", "status"].map(|key| error.get(key));
        if let [Some(Value::String(message)), ..] = texts {
            words.message.clone_from(message);
        }
        for found in texts.into_iter().skip(1).flatten() {
            match found {
                Value::String(mark) => words.marks.push(mark.to_lowercase()),
                Value::Number(code) => words.status = code.as_u64().and_then(status),
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {}
            }
        }
        words.wait_ms = error.get("details").and_then(retry_delay);
        Some(words)
    }

    /// Which kind of fault it is. `status` is the one of the head.
    pub(crate) fn kind(&self, status: u16) -> FaultKind {
        let status = if status < 400 { self.status.unwrap_or(status) } else { status };
        let sentence = self.message.to_lowercase();
        let marked = |list: &[&str]| self.marks.iter().any(|mark| list.contains(&mark.as_str()));
        let said = |list: &[&str]| list.iter().any(|words| sentence.contains(words));
        if status == 402 || marked(BILLING) || said(BILLING_WORDS) {
            return FaultKind::Billing;
        }
        if status == 413 || marked(TOO_LONG) || said(TOO_LONG_WORDS) {
            return FaultKind::TooLarge;
        }
        self.by_mark().unwrap_or(match status {
            401 | 403 => FaultKind::Unauthorized,
            404 => FaultKind::NotFound,
            408 => FaultKind::TimedOut,
            409 | 425 | 500.. => FaultKind::Overloaded,
            429 => FaultKind::RateLimited,
            400..=499 => FaultKind::BadRequest,
            0..=399 => FaultKind::Unreadable,
        })
    }

    fn by_mark(&self) -> Option<FaultKind> {
        self.marks.iter().find_map(|mark| match mark.as_str() {
            "rate_limit_error" | "rate_limit_exceeded" | "resource_exhausted" => {
                Some(FaultKind::RateLimited)
            }
            "overloaded_error" | "api_error" | "server_error" | "unavailable" | "internal" => {
                Some(FaultKind::Overloaded)
            }
            "authentication_error"
            | "permission_error"
            | "invalid_api_key"
            | "unauthenticated"
            | "permission_denied" => Some(FaultKind::Unauthorized),
            "not_found_error" | "model_not_found" | "not_found" => Some(FaultKind::NotFound),
            "timeout_error" | "deadline_exceeded" => Some(FaultKind::TimedOut),
            _ => None,
        })
    }

    /// The sentence, or what the status alone says.
    pub(crate) fn sentence(&self, status: u16) -> String {
        let mark = self.marks.first().map(|mark| format!(" ({mark})")).unwrap_or_default();
        let message = self.message.trim();
        let message = if message.is_empty() { "it gives no reason" } else { message };
        if status >= 400 {
            format!("the server answered {status}{mark}: {message}")
        } else {
            format!("the server answered with an error{mark}: {message}")
        }
    }
}

fn status(code: u64) -> Option<u16> {
    u16::try_from(code).ok().filter(|code| (400..600).contains(code))
}

/// Gemini's `retryDelay: "34s"`.
fn retry_delay(details: &Value) -> Option<u64> {
    let delay = details.as_array()?.iter().find_map(|detail| detail.get("retryDelay"))?;
    let seconds: f64 = delay.as_str()?.strip_suffix('s')?.parse().ok()?;
    let wait = std::time::Duration::try_from_secs_f64(seconds).ok()?;
    u64::try_from(wait.as_millis()).ok()
}

/// Milliseconds a server asks to wait; nothing when it asks for none or in no words we know.
pub(crate) fn wait_ms(headers: &HeaderMap, words: &Words, now: Timestamp) -> Option<u64> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let in_ms = header("retry-after-ms").and_then(whole);
    in_ms
        .or_else(|| header(RETRY_AFTER.as_str()).and_then(|text| retry_after(text, now)))
        .or(words.wait_ms)
        .or_else(|| header("x-ratelimit-reset").and_then(|text| reset(text, now)))
}

/// Digits and nothing else; `-5` and `1e9` are no numbers of seconds.
fn whole(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn retry_after(text: &str, now: Timestamp) -> Option<u64> {
    if let Some(seconds) = whole(text) {
        return seconds.checked_mul(1_000);
    }
    let date = jiff::fmt::rfc2822::parse(text.trim()).ok()?;
    Some(Timestamp(date.timestamp().as_millisecond()).ms_since(now))
}

/// Seconds from now, or a moment in seconds or milliseconds since 1970: providers differ.
fn reset(text: &str, now: Timestamp) -> Option<u64> {
    let number = whole(text)?;
    let moment = match number {
        0..1_000_000_000 => return number.checked_mul(1_000),
        1_000_000_000..1_000_000_000_000 => number.checked_mul(1_000)?,
        _ => number,
    };
    Some(Timestamp(i64::try_from(moment).ok()?).ms_since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-01-01T00:00:00Z.
    const NOW: Timestamp = Timestamp(1_767_225_600_000);

    #[test]
    fn errors_are_told_apart() {
        use FaultKind as K;
        let table: &[(u16, &str, K)] = &[
            (429, r#"{"error":{"message":"slow down","type":"requests"}}"#, K::RateLimited),
            (
                429,
                r#"{"error":{"code":"insufficient_quota","type":"insufficient_quota"}}"#,
                K::Billing,
            ),
            (429, r#"{"error":{"code":"credit_balance_exhausted"}}"#, K::Billing),
            (
                429,
                r#"{"type":"error","error":{"type":"enforced_spend_limit_reached"}}"#,
                K::Billing,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}"#,
                K::Billing,
            ),
            (402, r#"{"error":{"code":402,"message":"Insufficient credits"}}"#, K::Billing),
            (402, "", K::Billing),
            (529, r#"{"type":"error","error":{"type":"overloaded_error"}}"#, K::Overloaded),
            (200, r#"{"type":"error","error":{"type":"overloaded_error"}}"#, K::Overloaded),
            (200, r#"{"error":{"code":502,"message":"upstream"}}"#, K::Overloaded),
            (200, r#"{"error":{"code":429,"message":"upstream"}}"#, K::RateLimited),
            (200, r#"{"error":{"message":"something"}}"#, K::Unreadable),
            (502, "<html><body>nginx</body></html>", K::Overloaded),
            (500, "", K::Overloaded),
            (503, r#"[{"error":{"code":503,"status":"UNAVAILABLE"}}]"#, K::Overloaded),
            (401, r#"{"error":{"code":"invalid_api_key"}}"#, K::Unauthorized),
            (403, "", K::Unauthorized),
            (404, r#"{"error":{"code":"model_not_found"}}"#, K::NotFound),
            (400, r#"{"error":{"message":"bad tool schema"}}"#, K::BadRequest),
            (400, r#"{"error":{"code":"context_length_exceeded"}}"#, K::TooLarge),
            (400, r#"{"error":{"message":"prompt is too long: 9 tokens > 8"}}"#, K::TooLarge),
            (413, "", K::TooLarge),
            (422, "", K::BadRequest),
            (408, "", K::TimedOut),
            (418, r#"{"error":"I am a teapot"}"#, K::BadRequest),
        ];
        for (status, body, kind) in table {
            assert_eq!(Words::read(body.as_bytes()).kind(*status), *kind, "{status} {body}");
        }
    }

    #[test]
    fn what_is_no_error_is_none() {
        for body in ["{}", r#"{"error":null,"choices":[]}"#, "[]", "3"] {
            assert_eq!(Words::of(&serde_json::from_str(body).unwrap()), None, "{body}");
        }
    }

    #[test]
    fn html_is_never_quoted() {
        let words = Words::read(b"<html><script>alert(1)</script></html>");
        assert_eq!(words.sentence(502), "the server answered 502: it gives no reason");
    }

    #[test]
    fn servers_say_how_long_to_wait_in_many_ways() {
        let table: &[(&str, &str, Option<u64>)] = &[
            ("retry-after", "7", Some(7_000)),
            ("retry-after", "86400", Some(86_400_000)),
            ("retry-after", "Thu, 01 Jan 2026 00:00:30 GMT", Some(30_000)),
            ("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT", Some(0)),
            ("retry-after", "-5", None),
            ("retry-after", "abc", None),
            ("retry-after", "1e9", None),
            ("retry-after", "99999999999999999999", None),
            ("retry-after-ms", "250", Some(250)),
            ("x-ratelimit-reset", "12", Some(12_000)),
            ("x-ratelimit-reset", "1767225605", Some(5_000)),
            ("x-ratelimit-reset", "1767225605000", Some(5_000)),
            ("x-other", "9", None),
        ];
        for (name, value, wanted) in table {
            let mut headers = HeaderMap::new();
            headers.insert(*name, value.parse().unwrap());
            let found = wait_ms(&headers, &Words::default(), NOW);
            assert_eq!(found, *wanted, "{name}: {value}");
        }
        let body = r#"{"error":{"code":429,"details":[{"a":1},{"retryDelay":"1.5s"}]}}"#;
        let words = Words::read(body.as_bytes());
        assert_eq!(wait_ms(&HeaderMap::new(), &words, NOW), Some(1_500));
    }
}
