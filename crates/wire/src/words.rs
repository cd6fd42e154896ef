//! Decides what an error answer of a server means: which kind of fault it is, and how long to wait.

use hyper::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;
use toolgate_http::HttpFault;
use toolgate_kernel::config::pasted;
use toolgate_kernel::event::FaultKind;
use toolgate_kernel::time::Timestamp;

use crate::dialect::{WireFault, by_status, by_words};

/// What an answer with an error status means. The reason quotes the server: it is shown only
/// through the redactor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) kind: FaultKind,
    pub(crate) reason: String,
}

impl Refused {
    /// Reads the body as far as it came. Of a page only its title is quoted.
    pub(crate) fn read(status: u16, body: &[u8]) -> Self {
        if status == 400 && wants_tls(body) {
            let reason = "the server wants TLS; write https:// in place of http:// in base_url";
            return Self { kind: FaultKind::Unusable, reason: reason.to_owned() };
        }
        let Ok(body) = serde_json::from_slice::<Value>(body) else {
            return Self::spoken(status, &String::from_utf8_lossy(body));
        };
        let Some(told) = WireFault::told(&body) else {
            return Self::spoken(status, body.as_str().unwrap_or_default());
        };
        let rest = told.reason.strip_prefix("the server answered with an error");
        let reason = match rest {
            Some(rest) => format!("the server answered {status}{rest}"),
            None => told.reason,
        };
        Self { kind: kind(status, told.kind), reason }
    }

    /// What a body means that is no JSON.
    fn spoken(status: u16, text: &str) -> Self {
        let told = by_words(text).unwrap_or(FaultKind::Overloaded);
        let said = match Spoken::of(text) {
            Spoken::Nothing => " and gives no reason".to_owned(),
            Spoken::Words(words) => format!(": {words}"),
            Spoken::Page(None) => " with a page and no reason".to_owned(),
            Spoken::Page(Some(title)) => format!(" with a page: {title}"),
        };
        let reason = WireFault::new(told, &format!("the server answered {status}{said}")).reason;
        Self { kind: kind(status, told), reason }
    }
}

/// What an answer means that should have been JSON and is none; nothing where it says nothing known.
pub(crate) fn no_json(body: &[u8]) -> Option<WireFault> {
    let head = body.get(..SPOKEN_BYTES_MAX).unwrap_or(body);
    let text = String::from_utf8_lossy(head);
    let kind = by_words(&text)?;
    let (Spoken::Words(words) | Spoken::Page(Some(words))) = Spoken::of(&text) else { return None };
    Some(WireFault::new(kind, &format!("the server answered in plain words: {words}")))
}

/// Bytes of a text that are looked at.
const SPOKEN_BYTES_MAX: usize = 4 << 10;

/// A body that is no JSON.
enum Spoken<'a> {
    Nothing,
    Words(&'a str),
    /// A page, with its title.
    Page(Option<&'a str>),
}

impl<'a> Spoken<'a> {
    fn of(text: &'a str) -> Self {
        let text = text.trim();
        let bytes_that_are_no_text = text.contains('\u{fffd}') || text.contains('\0');
        // JSON that was cut off is nobody's sentence.
        if text.is_empty() || bytes_that_are_no_text || text.starts_with(['{', '[']) {
            return Self::Nothing;
        }
        if !text.starts_with('<') {
            return Self::Words(text);
        }
        let small = text.to_ascii_lowercase();
        let begin = small.find("<title>").map(|at| at + "<title>".len());
        let end = begin.and_then(|at| Some(at + small.get(at..)?.find('<')?));
        let title = begin.zip(end).and_then(|(begin, end)| text.get(begin..end)).map(str::trim);
        Self::Page(title.filter(|title| !title.is_empty()))
    }
}

/// Bytes of a redirect's target that are shown.
const TARGET_BYTES_MAX: usize = 200;

/// Where a redirect points to, as far as it can be shown: queries and names may hold secrets.
fn target(given: &str) -> Option<&str> {
    let target = given.split(['?', '#']).next().filter(|target| !target.is_empty())?;
    let shown = target.len() <= TARGET_BYTES_MAX
        && !target.contains('@')
        && target.bytes().all(|byte| byte.is_ascii_graphic());
    shown.then_some(target)
}

/// Why there is no answer, and what to write in the model's configuration where that helps.
pub(crate) fn unanswered(fault: &HttpFault) -> String {
    let advice = match fault {
        HttpFault::NoAddress { .. } => "look at base_url",
        HttpFault::NoTls { .. } => "then write http:// in base_url",
        HttpFault::OnlyTls { .. } => "write it so in base_url",
        HttpFault::ClearText { .. } => "or allow it for this model with allow_plain_http",
        HttpFault::Redirected { to, .. } => match to.as_deref().and_then(target) {
            Some(to) => {
                // It points to an endpoint, and only what stands before that is written down.
                let to = pasted(to).map_or(to, |(base, _)| base);
                return format!(
                    "{fault}; it points to {to}: write that as base_url if you trust it"
                );
            }
            None => "put the final address into base_url",
        },
        HttpFault::Unreachable { .. }
        | HttpFault::Tls { .. }
        | HttpFault::NoRoots { .. }
        | HttpFault::Forbidden { .. }
        | HttpFault::Unready { .. }
        | HttpFault::TimedOut { .. }
        | HttpFault::CutOff
        | HttpFault::TooLarge { .. }
        | HttpFault::Unreadable(_) => return fault.to_string(),
    };
    format!("{fault}; {advice}")
}

/// Whether a server says, in the words of the common ones, that it was spoken to in clear text.
fn wants_tls(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body).to_lowercase();
    // Go's own server and those built on it; nginx.
    let words = ["http request to an https server", "plain http request was sent to https port"];
    words.iter().any(|words| text.contains(words))
}

/// The status says what kind of fault it is, and the body where the status is too general.
fn kind(status: u16, told: FaultKind) -> FaultKind {
    let by_status = by_status(status);
    // Providers send these with many a status.
    let always = [FaultKind::Billing, FaultKind::TooLarge].contains(&told);
    // An error that says nothing is taken for trouble, and a bad request is none.
    let closer = by_status == FaultKind::BadRequest && told != FaultKind::Overloaded;
    if always || closer { told } else { by_status }
}

/// Milliseconds that a server can ask to wait: a year. Beyond that it says nothing more.
const ASKED_MS_MAX: u64 = 365 * 24 * 3_600_000;

/// Milliseconds a server asks to wait; nothing when it asks for none or in no words we know.
pub(crate) fn wait_ms(
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Option<u64> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let in_ms = header("retry-after-ms").and_then(whole);
    in_ms
        .map(|ms| ms.min(ASKED_MS_MAX))
        .or_else(|| header(RETRY_AFTER.as_str()).and_then(|text| retry_after(text, now)))
        .or_else(|| retry_delay(body))
        // Some send it with every answer; it says something only where the rate was the trouble.
        .or_else(|| {
            let reset_at = header("x-ratelimit-reset").filter(|_| status == 429);
            reset_at.and_then(|text| reset(text, now))
        })
}

/// Digits and nothing else; `-5` and `1e9` are no numbers of seconds. More digits than a number
/// has are the largest one.
fn whole(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

/// Seconds, perhaps with decimals, as milliseconds.
fn seconds(text: &str) -> Option<u64> {
    let (before, after) = text.split_once('.').unwrap_or((text, "0"));
    let thousandths: String = after.trim_end().chars().chain("00".chars()).take(3).collect();
    whole(after)?;
    let ms = whole(before)?.saturating_mul(1_000).saturating_add(whole(&thousandths)?);
    Some(ms.min(ASKED_MS_MAX))
}

fn retry_after(text: &str, now: Timestamp) -> Option<u64> {
    if let Some(ms) = seconds(text) {
        return Some(ms);
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

/// Gemini's `retryDelay: "34s"`.
fn retry_delay(body: &[u8]) -> Option<u64> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let body = body.as_array().and_then(|items| items.first()).unwrap_or(&body);
    let details = body.get("error")?.get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay"))?;
    seconds(delay.as_str()?.strip_suffix('s')?)
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
            (429, r#"{"error":{"code":"insufficient_quota"}}"#, K::Billing),
            (429, r#"{"error":{"code":"credit_balance_exhausted"}}"#, K::Billing),
            (
                429,
                r#"{"type":"error","error":{"type":"enforced_spend_limit_reached"}}"#,
                K::Billing,
            ),
            (400, r#"{"error":{"message":"Your credit balance is too low."}}"#, K::Billing),
            (402, r#"{"error":{"code":402,"message":"Insufficient credits"}}"#, K::Billing),
            (402, "", K::Billing),
            (529, r#"{"type":"error","error":{"type":"overloaded_error"}}"#, K::Overloaded),
            (502, "<html><body>nginx</body></html>", K::Overloaded),
            (500, r#"{"error":{"type":"invalid_request_error"}}"#, K::Overloaded),
            (503, r#"[{"error":{"code":503,"status":"UNAVAILABLE"}}]"#, K::Overloaded),
            (401, r#"{"error":{"code":"invalid_api_key"}}"#, K::Unauthorized),
            (403, "", K::Unauthorized),
            (404, r#"{"error":{"type":"invalid_request_error"}}"#, K::NotFound),
            (400, r#"{"error":{"code":"model_not_found"}}"#, K::NotFound),
            (400, r#"{"error":{"message":"bad tool schema"}}"#, K::BadRequest),
            (400, r#"{"error":{"code":"context_length_exceeded"}}"#, K::TooLarge),
            (413, "", K::TooLarge),
            (400, r#"{"object":"error","message":"maximum context length is 9"}"#, K::TooLarge),
            (422, r#"{"detail":[{"msg":"maximum context length is 9"}]}"#, K::TooLarge),
            (422, r#"{"detail":[{"msg":"extra fields"}]}"#, K::BadRequest),
            (401, r#"{"message":"Unauthorized","request_id":"1"}"#, K::Unauthorized),
            (404, r#"{"detail":"Not Found"}"#, K::NotFound),
            (500, "the maximum context length is 4096 tokens", K::TooLarge),
            (400, "<html><body>maximum context length is 4096</body></html>", K::TooLarge),
            (400, r#"{"error":{"code":"tool_use_failed"}}"#, K::MalformedCall),
            (400, r#"{"error":{"code":400,"message":"API key not valid."}}"#, K::Unauthorized),
            (422, "", K::BadRequest),
            (408, "", K::TimedOut),
            (418, r#"{"error":"I am a teapot"}"#, K::BadRequest),
        ];
        for (status, body, kind) in table {
            assert_eq!(Refused::read(*status, body.as_bytes()).kind, *kind, "{status} {body}");
        }
    }

    #[test]
    fn what_a_server_says_is_quoted_and_a_page_is_not() {
        let table = [
            (
                "<html><script>alert(1)</script></html>",
                "the server answered 502 with a page and no reason",
            ),
            (
                "<!DOCTYPE html><html><head><TITLE>502 Bad Gateway</TITLE></head>x</html>",
                "the server answered 502 with a page: 502 Bad Gateway",
            ),
            ("upstream is away\n\nsorry", "the server answered 502: upstream is away sorry"),
            ("\u{1}\u{fffd}", "the server answered 502 and gives no reason"),
            (r#"{"error":{"mess"#, "the server answered 502 and gives no reason"),
            ("", "the server answered 502 and gives no reason"),
            (r#"{"detail":"why"}"#, "the server answered 502: why"),
            (r#"{"error":{"code":"x","message":"why"}}"#, "the server answered 502 (x): why"),
        ];
        for (body, reason) in table {
            assert_eq!(Refused::read(502, body.as_bytes()).reason, reason);
        }
    }

    /// The transport speaks to everybody; what to write is told to those who configure a model.
    #[test]
    fn what_to_write_is_told_where_it_helps() {
        let host = || "x.example".to_owned();
        let redirected = |to: &str| HttpFault::Redirected { status: 308, to: Some(to.to_owned()) };
        let table = [
            (HttpFault::NoAddress { host: host() }, "base_url"),
            (HttpFault::NoTls { host: host(), how: "hung up" }, "http:// in base_url"),
            (HttpFault::OnlyTls { host: host() }, "base_url"),
            (HttpFault::ClearText { host: host() }, "allow_plain_http"),
            (HttpFault::Redirected { status: 302, to: None }, "base_url"),
            (
                redirected("https://b.example/v1/chat/completions"),
                "points to https://b.example/v1:",
            ),
            (redirected("https://b.example/v1?key=1"), "points to https://b.example/v1:"),
            (redirected("https://a@b.example/v1"), "put the final address into base_url"),
        ];
        for (fault, words) in table {
            let plain = fault.to_string();
            assert!(!plain.contains("base_url") && !plain.contains("model"), "{plain}");
            let told = unanswered(&fault);
            assert!(told.starts_with(&plain) && told.contains(words), "{told}");
        }
        assert_eq!(unanswered(&HttpFault::CutOff), HttpFault::CutOff.to_string());
    }

    #[test]
    fn a_server_that_wants_tls_is_understood() {
        for body in [
            "Client sent an HTTP request to an HTTPS server.\n",
            "<html><title>400 The plain HTTP request was sent to HTTPS port</title></html>",
        ] {
            let refused = Refused::read(400, body.as_bytes());
            assert!(refused.kind == FaultKind::Unusable && refused.reason.contains("https://"));
        }
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
            ("retry-after", "1.5", Some(1_500)),
            ("retry-after", " 0.0421 ", Some(42)),
            ("retry-after", "1.5.2", None),
            ("retry-after", "1.", None),
            ("retry-after", "1.5e3", None),
            ("retry-after", "99999999999999999999999", Some(ASKED_MS_MAX)),
            ("retry-after-ms", "250", Some(250)),
            ("retry-after-ms", "99999999999999999999999", Some(ASKED_MS_MAX)),
            ("x-ratelimit-reset", "12", Some(12_000)),
            ("x-ratelimit-reset", "1767225605", Some(5_000)),
            ("x-ratelimit-reset", "1767225605000", Some(5_000)),
            ("x-other", "9", None),
        ];
        for (name, value, wanted) in table {
            let mut headers = HeaderMap::new();
            headers.insert(*name, value.parse().unwrap());
            assert_eq!(wait_ms(429, &headers, b"", NOW), *wanted, "{name}: {value}");
        }
        let body = r#"{"error":{"code":429,"details":[{"a":1},{"retryDelay":"1.5s"}]}}"#;
        assert_eq!(wait_ms(429, &HeaderMap::new(), body.as_bytes(), NOW), Some(1_500));
    }
}
