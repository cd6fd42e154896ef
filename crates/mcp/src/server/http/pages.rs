//! Decides which web pages may read what is answered: those of the origins that were allowed by name.

use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderName, HeaderValue, ORIGIN, VARY,
};
use hyper::{HeaderMap, Method};

use super::door::Door;

/// Headers that a page may send, beside those of MCP, which all begin alike.
const SENT: &[&str] = &["authorization", "content-type", "accept", "last-event-id"];
const SENT_PREFIX: &str = "mcp-";

/// Headers that a page may read.
const READ: &str = "mcp-session-id, mcp-protocol-version, www-authenticate";

/// Seconds for which a browser may remember what it was told.
const REMEMBERED: &str = "600";

/// A page that was allowed by name, by its origin as the browser wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page(HeaderValue);

impl Page {
    /// The page that asks, if it is one of those. Two origins are none.
    pub(super) fn of(door: &Door, headers: &HeaderMap) -> Option<Self> {
        let mut named = headers.get_all(ORIGIN).iter();
        let (origin, None) = (named.next()?, named.next()) else { return None };
        let text = origin.to_str().ok()?;
        let known = door.origins.iter().any(|known| known.eq_ignore_ascii_case(text));
        known.then(|| Self(origin.clone()))
    }

    /// Lets the page read an answer.
    pub(super) fn may_read(&self, headers: &mut HeaderMap) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, self.0.clone());
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(READ));
        // What is kept on the way must not be shown to a page of another origin.
        headers.append(VARY, HeaderValue::from_static("origin"));
    }
}

/// Whether a browser asks what a page may send. No token comes with that, and nothing is done.
pub(super) fn asks_first(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// What a page may send.
pub(super) fn may_send(asked: &HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
    let wanted = asked.get(ACCESS_CONTROL_REQUEST_HEADERS).and_then(|value| value.to_str().ok());
    let named: Vec<String> = wanted
        .unwrap_or_default()
        .split(',')
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let sent = |name: &&String| SENT.contains(&name.as_str()) || name.starts_with(SENT_PREFIX);
    let allowed: Vec<&str> = named.iter().filter(sent).map(String::as_str).collect();
    let mut told = vec![
        (ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST, GET, DELETE")),
        (ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(REMEMBERED)),
    ];
    if let Ok(names) = HeaderValue::from_str(&allowed.join(", "))
        && !allowed.is_empty()
    {
        told.push((ACCESS_CONTROL_ALLOW_HEADERS, names));
    }
    told
}
