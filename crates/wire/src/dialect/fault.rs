//! Decides what an error inside an answer means: the same as with the status it would have had.

use serde_json::Value;
use toolgate_kernel::event::FaultKind;

/// Characters of a reason that are kept.
const REASON_CHARS_MAX: usize = 300;

/// Why there is no reply in an answer. The reason may quote the server; whoever knows the key
/// blanks it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct WireFault {
    /// What kind of fault it is.
    pub kind: FaultKind,
    /// In words, short and in one line.
    pub reason: String,
}

impl From<toolgate_http::sse::SseFault> for WireFault {
    fn from(fault: toolgate_http::sse::SseFault) -> Self {
        Self::new(FaultKind::Unreadable, &fault.to_string())
    }
}

/// Words that programs read, and what they mean. The first that fits counts.
const MARKS: &[(&str, FaultKind)] = &[
    ("insufficient_quota", FaultKind::Billing),
    ("credit_balance_exhausted", FaultKind::Billing),
    ("enforced_spend_limit_reached", FaultKind::Billing),
    ("spend_limit", FaultKind::Billing),
    ("spending_limit", FaultKind::Billing),
    ("usage_limit", FaultKind::Billing),
    ("billing", FaultKind::Billing),
    ("insufficient_balance", FaultKind::Billing),
    ("insufficient_credits", FaultKind::Billing),
    ("payment_required", FaultKind::Billing),
    ("context_length_exceeded", FaultKind::TooLarge),
    ("request_too_large", FaultKind::TooLarge),
    ("string_above_max_length", FaultKind::TooLarge),
    ("rate_limit", FaultKind::RateLimited),
    ("resource_exhausted", FaultKind::RateLimited),
    ("too_many_requests", FaultKind::RateLimited),
    ("overloaded", FaultKind::Overloaded),
    ("server_error", FaultKind::Overloaded),
    ("api_error", FaultKind::Overloaded),
    ("unavailable", FaultKind::Overloaded),
    ("internal", FaultKind::Overloaded),
    ("timeout", FaultKind::TimedOut),
    ("deadline_exceeded", FaultKind::TimedOut),
    ("authentication", FaultKind::Unauthorized),
    ("unauthenticated", FaultKind::Unauthorized),
    ("permission", FaultKind::Unauthorized),
    ("invalid_api_key", FaultKind::Unauthorized),
    ("not_found", FaultKind::NotFound),
    ("content_filter", FaultKind::Filtered),
    ("content_policy", FaultKind::Filtered),
    ("invalid_request", FaultKind::BadRequest),
    ("invalid_prompt", FaultKind::BadRequest),
    ("invalid_argument", FaultKind::BadRequest),
];

/// Sentences of providers that give no code for it.
const SENTENCES: &[(&str, FaultKind)] = &[
    ("credit balance is too low", FaultKind::Billing),
    ("reached your specified api usage limits", FaultKind::Billing),
    ("insufficient credits", FaultKind::Billing),
    ("insufficient balance", FaultKind::Billing),
    ("prompt is too long", FaultKind::TooLarge),
    ("maximum context length", FaultKind::TooLarge),
    ("exceeds the available context size", FaultKind::TooLarge),
];

impl WireFault {
    /// A fault with its reason, cut and in one line.
    pub fn new(kind: FaultKind, reason: &str) -> Self {
        let mut line = String::new();
        for word in reason.split(|c: char| c.is_whitespace() || c.is_control()) {
            if !word.is_empty() {
                line.push_str(if line.is_empty() { "" } else { " " });
                line.push_str(word);
            }
        }
        if let Some((end, _)) = line.char_indices().nth(REASON_CHARS_MAX - 1) {
            line.truncate(end);
            line.push('…');
        }
        Self { kind, reason: line }
    }

    /// The fault an answer tells of under `error`; nothing when it tells of none.
    pub fn told(body: &Value) -> Option<Self> {
        // Gemini answers a list with one error in it when it was asked to stream.
        let body = body.as_array().and_then(|items| items.first()).unwrap_or(body);
        body.get("error").filter(|error| !error.is_null()).map(Self::of)
    }

    /// What an error means, by its code, its type, its status and its sentence.
    pub fn of(error: &Value) -> Self {
        let sentence = error.as_str().or_else(|| error.get("message").and_then(Value::as_str));
        let message = sentence.unwrap_or_default();
        let marks: Vec<String> = ["code", "type", "status"]
            .iter()
            .filter_map(|key| error.get(key).and_then(Value::as_str).map(str::to_lowercase))
            .collect();
        let sentence = message.to_lowercase();
        let fits = |(words, _): &&(&str, FaultKind)| sentence.contains(words);
        let marked = |(mark, _): &&(&str, FaultKind)| marks.iter().any(|m| m.contains(mark));
        let kind = SENTENCES
            .iter()
            .find(fits)
            .or_else(|| MARKS.iter().find(marked))
            .map(|(_, kind)| *kind)
            .or_else(|| error.get("code").and_then(status).map(by_status))
            // An error that says nothing is a server in trouble: asking again may help.
            .unwrap_or(FaultKind::Overloaded);
        let mark = marks.first().map(|mark| format!(" ({mark})")).unwrap_or_default();
        let message = if message.trim().is_empty() { "it gives no reason" } else { message };
        Self::new(kind, &format!("the server answered with an error{mark}: {message}"))
    }
}

/// A code that is a status, as a number or as text.
fn status(code: &Value) -> Option<u16> {
    let number = code.as_u64().or_else(|| code.as_str()?.parse().ok())?;
    u16::try_from(number).ok().filter(|number| (400..600).contains(number))
}

/// What a status means, in the head of an answer as inside of one.
pub(crate) fn by_status(status: u16) -> FaultKind {
    match status {
        401 | 403 => FaultKind::Unauthorized,
        402 => FaultKind::Billing,
        404 => FaultKind::NotFound,
        408 => FaultKind::TimedOut,
        413 => FaultKind::TooLarge,
        429 => FaultKind::RateLimited,
        409 | 425 | 500.. => FaultKind::Overloaded,
        0..=499 => FaultKind::BadRequest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_in_an_answer_means_what_its_status_would() {
        use FaultKind as K;
        let table: &[(&str, Option<K>)] = &[
            (
                r#"{"error":{"code":"insufficient_quota","type":"insufficient_quota"}}"#,
                Some(K::Billing),
            ),
            (
                r#"{"type":"error","error":{"type":"enforced_spend_limit_reached"}}"#,
                Some(K::Billing),
            ),
            (
                r#"{"error":{"type":"invalid_request_error","message":"Your credit balance is too low."}}"#,
                Some(K::Billing),
            ),
            (r#"{"error":{"code":402,"message":"more"}}"#, Some(K::Billing)),
            (r#"{"type":"error","error":{"type":"overloaded_error"}}"#, Some(K::Overloaded)),
            (r#"{"error":{"code":502,"message":"upstream"}}"#, Some(K::Overloaded)),
            (r#"{"error":{"code":"502","message":"upstream"}}"#, Some(K::Overloaded)),
            (r#"{"error":{"code":429,"message":"upstream"}}"#, Some(K::RateLimited)),
            (r#"{"error":{"code":"rate_limit_exceeded"}}"#, Some(K::RateLimited)),
            (r#"[{"error":{"code":503,"status":"UNAVAILABLE"}}]"#, Some(K::Overloaded)),
            (r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}"#, Some(K::RateLimited)),
            (
                r#"{"error":{"code":"invalid_api_key","type":"invalid_request_error"}}"#,
                Some(K::Unauthorized),
            ),
            (r#"{"error":{"code":"model_not_found"}}"#, Some(K::NotFound)),
            (
                r#"{"error":{"code":"context_length_exceeded","type":"invalid_request_error"}}"#,
                Some(K::TooLarge),
            ),
            (r#"{"error":{"type":"invalid_request_error","message":"bad"}}"#, Some(K::BadRequest)),
            (r#"{"error":"something"}"#, Some(K::Overloaded)),
            (r#"{"error":{"message":"something"}}"#, Some(K::Overloaded)),
            (r#"{"error":null,"choices":[]}"#, None),
            ("[]", None),
            ("3", None),
        ];
        for (body, kind) in table {
            let body: Value = serde_json::from_str(body).unwrap();
            assert_eq!(WireFault::told(&body).map(|fault| fault.kind), *kind, "{body}");
        }
    }

    #[test]
    fn a_reason_is_short_and_in_one_line() {
        let fault =
            WireFault::new(FaultKind::Unreadable, &format!(" a\r\n\u{1b}b {}", "ä".repeat(400)));
        assert!(fault.reason.starts_with("a b ää"));
        assert_eq!(fault.reason.chars().count(), REASON_CHARS_MAX);
    }
}
