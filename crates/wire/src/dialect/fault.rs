//! Decides what an error inside an answer means: the same as with the status it would have had.

use std::borrow::Cow;

use serde_json::Value;
use toolgate_kernel::event::FaultKind;

use crate::lent::Lent;

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
    // Groq: the model wrote a call that its server cannot read.
    ("tool_use_failed", FaultKind::MalformedCall),
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
    ("capacity_exceeded", FaultKind::RateLimited),
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
    ("api_key_invalid", FaultKind::Unauthorized),
    ("not_found", FaultKind::NotFound),
    ("invalid_model", FaultKind::NotFound),
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
    ("exceeds the maximum number of tokens", FaultKind::TooLarge),
    // Gemini says only `INVALID_ARGUMENT` of a wrong key.
    ("api key not valid", FaultKind::Unauthorized),
    ("api key not found", FaultKind::Unauthorized),
    ("api key expired", FaultKind::Unauthorized),
];

/// Keys of which an answer, or an event of a stream, has at least one.
const ANSWERS: &[&str] = &["choices", "output", "candidates", "content", "delta", "response"];
/// How deep an error may hide its sentence.
const DEPTH_MAX: usize = 4;

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

    /// Something in an answer is nested deeper than can be read.
    pub(crate) fn too_deep() -> Self {
        Self::new(FaultKind::Unreadable, "the answer is nested deeper than can be read")
    }

    /// The fault an answer tells of: under `error`, or all over. Nothing when it tells of none.
    pub fn told(body: &Value) -> Option<Self> {
        // Gemini answers a list with one error in it when it was asked to stream.
        let body = body.as_array().and_then(|items| items.first()).unwrap_or(body);
        match body.get("error").filter(|error| !(is_blank(error) && answers(body))) {
            Some(error @ (Value::String(_) | Value::Object(_) | Value::Array(_))) => {
                Some(Self::of(error))
            }
            Some(Value::Null | Value::Bool(false)) | None => flat(body).then(|| Self::of(body)),
            Some(Value::Bool(true) | Value::Number(_)) => Some(Self::of(body)),
        }
    }

    /// The fault that an event tells of which is named so, whatever its data is.
    pub(crate) fn named(data: &str) -> Self {
        match serde_json::from_str(data) {
            Ok(data) => Self::told(&data).unwrap_or_else(|| Self::of(&data)),
            Err(_) => Self::of(&Value::String(data.to_owned())),
        }
    }

    /// The same of an event of a stream.
    pub(crate) fn told_by(event: &Lent<'_>) -> Option<Self> {
        may_tell(event).then(|| Self::told(&event.value())).flatten()
    }

    /// What an error means, by its code, its type, its status and its sentence.
    pub fn of(error: &Value) -> Self {
        let message = sentence(error, DEPTH_MAX);
        let marks: Vec<String> = marks(error).map(str::to_lowercase).collect();
        let marked = |(mark, _): &&(&str, FaultKind)| marks.iter().any(|m| m.contains(mark));
        let kind = by_words(&message)
            .or_else(|| MARKS.iter().find(marked).map(|(_, kind)| *kind))
            .or_else(|| {
                let code =
                    ["code", "raw_status_code"].iter().find_map(|key| status(error.get(key)?));
                code.map(by_status)
            })
            // A list of what is wrong is about the request.
            .or_else(|| details(error).is_some().then_some(FaultKind::BadRequest))
            // An error that says nothing is a server in trouble: asking again may help.
            .unwrap_or(FaultKind::Overloaded);
        let mark = marks.iter().find(|mark| *mark != "error");
        let mark = mark.map(|mark| format!(" ({mark})")).unwrap_or_default();
        let message = if message.trim().is_empty() { "it gives no reason" } else { &message };
        Self::new(kind, &format!("the server answered with an error{mark}: {message}"))
    }
}

/// What a sentence means that gives no code.
pub(crate) fn by_words(words: &str) -> Option<FaultKind> {
    let words = words.to_lowercase();
    SENTENCES.iter().find(|(sentence, _)| words.contains(sentence)).map(|(_, kind)| *kind)
}

/// Whether an error says nothing at all.
fn is_blank(error: &Value) -> bool {
    match error {
        Value::String(text) => text.trim().is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Null | Value::Bool(_) => false,
    }
}

/// Whether a body has what an answer has.
fn answers(body: &Value) -> bool {
    ANSWERS.iter().any(|key| body.get(key).is_some_and(|value| !value.is_null()))
}

/// Whether a body is an error all over: Mistral and older vLLM say so, and FastAPI has `detail`.
fn flat(body: &Value) -> bool {
    let Some(body) = body.as_object() else { return false };
    let named = |key: &str| body.get(key).and_then(Value::as_str) == Some("error");
    if named("object") || named("type") {
        return true;
    }
    let answers = ANSWERS.iter().any(|key| body.contains_key(*key));
    let detail = body.get("detail").is_some_and(|detail| detail.is_string() || detail.is_array());
    !answers && (detail || body.get("message").is_some_and(Value::is_string))
}

/// A quick look that almost every event passes: what has no field of a fault tells of none.
fn may_tell(event: &Lent<'_>) -> bool {
    let tells = |(key, value): &(Cow<'_, str>, Lent<'_>)| match key.as_ref() {
        "error" => !value.is_null(),
        "object" | "type" => value.as_str() == Some("error"),
        "message" | "detail" => true,
        _ => false,
    };
    event.list().is_some() || event.fields().iter().any(tells)
}

/// The words that programs read.
fn marks(error: &Value) -> impl Iterator<Item = &str> {
    let own = ["code", "type", "status"].into_iter().filter_map(|key| error.get(key)?.as_str());
    // Gemini has the reason among the details.
    let details = error.get("details").and_then(Value::as_array);
    let reasons = details.into_iter().flatten().filter_map(|detail| detail.get("reason")?.as_str());
    own.chain(reasons)
}

/// The list of what is wrong, as FastAPI has it, also inside the message of Mistral.
fn details(error: &Value) -> Option<&Vec<Value>> {
    let inner = error.get("message").filter(|message| message.is_object());
    [Some(error), inner].into_iter().flatten().find_map(|value| value.get("detail")?.as_array())
}

/// The sentence of an error, wherever a server puts it.
fn sentence(error: &Value, depth: usize) -> String {
    let below = |value: &Value| match depth.checked_sub(1) {
        Some(depth) => sentence(value, depth),
        None => String::new(),
    };
    match error {
        Value::String(words) => words.clone(),
        Value::Array(items) => {
            let said = items.iter().take(3).map(below).filter(|words| !words.is_empty());
            said.collect::<Vec<_>>().join("; ")
        }
        Value::Object(error) => {
            let keys = ["message", "msg", "detail", "error", "error_description"];
            let mut said = keys.iter().filter_map(|key| error.get(*key)).map(below);
            let mut said = said.find(|words| !words.trim().is_empty()).unwrap_or_default();
            // OpenRouter hands on what the provider behind it said.
            if let Some(raw) = error.get("metadata").and_then(|more| more.get("raw")?.as_str()) {
                said.push_str(": ");
                said.push_str(raw);
            }
            said
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
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
            // One that says nothing counts where there is no answer beside it.
            (r#"{"error":{}}"#, Some(K::Overloaded)),
            (r#"{"error":"","choices":null}"#, Some(K::Overloaded)),
            (r#"{"error":{},"choices":[{}]}"#, None),
            (r#"{"error":" ","content":[]}"#, None),
            (r#"{"error":[],"output":[]}"#, None),
            (r#"{"error":0,"candidates":[]}"#, None),
            (r#"{"error":{"code":1},"choices":[{}]}"#, Some(K::Overloaded)),
            (r#"{"error":{"message":"something"}}"#, Some(K::Overloaded)),
            // Mistral and older vLLM: the body is the error.
            (
                r#"{"object":"error","message":"This model's maximum context length is 8192 tokens.","type":"BadRequestError","param":null,"code":400}"#,
                Some(K::TooLarge),
            ),
            (
                r#"{"object":"error","message":"no such model","type":"NotFoundError","code":404}"#,
                Some(K::NotFound),
            ),
            (
                r#"{"object":"error","message":"Invalid model: x","type":"invalid_model","code":"1500"}"#,
                Some(K::NotFound),
            ),
            (
                r#"{"object":"error","message":{"detail":[{"type":"missing","loc":["body"],"msg":"Field required"}]},"type":"invalid_request_error","code":null,"raw_status_code":422}"#,
                Some(K::BadRequest),
            ),
            (
                r#"{"object":"error","message":{"detail":"too large for model with 32768 maximum context length"},"type":"invalid_request_error","code":"3051"}"#,
                Some(K::TooLarge),
            ),
            (r#"{"message":"Unauthorized","request_id":"1"}"#, Some(K::Overloaded)),
            // FastAPI.
            (r#"{"detail":"maximum context length exceeded"}"#, Some(K::TooLarge)),
            (
                r#"{"detail":[{"loc":["body","tools"],"msg":"extra fields not permitted"}]}"#,
                Some(K::BadRequest),
            ),
            (
                r#"{"detail":[{"msg":"a"},{"msg":"the maximum context length is 4096"}]}"#,
                Some(K::TooLarge),
            ),
            // OpenRouter quotes who is behind it.
            (
                r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"message\":\"maximum context length is 9\"}"}}}"#,
                Some(K::TooLarge),
            ),
            // Groq: the twin of Gemini's MALFORMED_FUNCTION_CALL.
            (
                r#"{"error":{"message":"Failed to call a function.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=x"}}"#,
                Some(K::MalformedCall),
            ),
            // Gemini: a wrong key is no bad request.
            (
                r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}"#,
                Some(K::Unauthorized),
            ),
            (
                r#"{"error":{"code":400,"message":"API Key not found. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}"#,
                Some(K::Unauthorized),
            ),
            (
                r#"{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT","details":[{"@type":"x","reason":"API_KEY_INVALID"}]}}"#,
                Some(K::Unauthorized),
            ),
            // What is no error: an answer, and events that have a message.
            (r#"{"choices":[{"message":{"content":"maximum context length"}}]}"#, None),
            (r#"{"type":"message_start","message":{"id":"m","content":[]}}"#, None),
            (r#"{"index":0,"message":{"role":"assistant","content":"x"}}"#, None),
            (r#"{"error":null,"choices":[]}"#, None),
            (r#"{"error":false,"choices":[]}"#, None),
            (r#"{"error":true}"#, Some(K::Overloaded)),
            (r#"{"object":"error"}"#, Some(K::Overloaded)),
            (r#"{"type":"error"}"#, Some(K::Overloaded)),
            (r#"{"type":"error","error":null,"choices":[]}"#, Some(K::Overloaded)),
            (r#"{"object":"chat.completion.chunk","id":"m"}"#, None),
            ("[]", None),
            ("3", None),
        ];
        for (text, kind) in table {
            let body: Value = serde_json::from_str(text).unwrap();
            let told = WireFault::told(&body);
            // An event of a stream tells the same.
            assert_eq!(WireFault::told_by(&serde_json::from_str(text).unwrap()), told, "{body}");
            assert_eq!(told.map(|fault| fault.kind), *kind, "{body}");
        }
    }

    #[test]
    fn the_sentence_is_found_wherever_a_server_puts_it() {
        let table = [
            (r#"{"object":"error","message":"why","type":"t"}"#, "(t): why"),
            (r#"{"object":"error","message":{"detail":[{"msg":"a"},{"msg":"b"}]}}"#, ": a; b"),
            (r#"{"detail":"why"}"#, ": why"),
            (r#"{"error":{"code":"x"}}"#, "(x): it gives no reason"),
        ];
        for (body, words) in table {
            let body: Value = serde_json::from_str(body).unwrap();
            let reason = WireFault::told(&body).unwrap().reason;
            assert!(reason.ends_with(words), "{reason}");
        }
    }

    #[test]
    fn an_event_that_is_named_an_error_is_one_whatever_its_data() {
        let table = [
            ("", "error: it gives no reason"),
            ("null", "error: it gives no reason"),
            ("3", "error: it gives no reason"),
            ("{}", "error: it gives no reason"),
            ("[]", "error: it gives no reason"),
            ("upstream went away", "error: upstream went away"),
            ("{\"broken", "error: {\"broken"),
            ("\"why\"", "error: why"),
            ("[\"why\"]", "error: why"),
            (r#"[{"error":{"message":"why"}}]"#, "error: why"),
            (r#"{"error":"why"}"#, "error: why"),
            (r#"{"type":"error","error":{"type":"t","message":"why"}}"#, "error (t): why"),
            (r#"{"choices":[],"message":"why"}"#, "error: why"),
        ];
        for (data, words) in table {
            let reason = WireFault::named(data).reason;
            assert_eq!(reason, format!("the server answered with an {words}"), "{data}");
        }
        let kind = |data| WireFault::named(data).kind;
        assert_eq!(kind(r#"{"code":"insufficient_quota"}"#), FaultKind::Billing);
        assert_eq!(kind("\"This model's maximum context length is 9\""), FaultKind::TooLarge);
    }

    #[test]
    fn a_reason_is_short_and_in_one_line() {
        let fault =
            WireFault::new(FaultKind::Unreadable, &format!(" a\r\n\u{1b}b {}", "ä".repeat(400)));
        assert!(fault.reason.starts_with("a b ää"));
        assert_eq!(fault.reason.chars().count(), REASON_CHARS_MAX);
    }
}
