//! Where the requests of a model go and what headers they carry; what is secret in them is shown
//! nowhere.

use std::sync::Arc;

use hyper::Uri;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};

use super::ModelSpec;
use crate::dialect::Dialect;
use toolgate_http::{AddressRefusal, PatienceRefusal, Server, Transport, parse};
use toolgate_kernel::config::OWN_HEADERS;
use toolgate_kernel::digest::{Digest, Tag};
use toolgate_kernel::redact::Redactor;

/// A model that cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelRefusal {
    /// The address.
    #[error(transparent)]
    Address(#[from] AddressRefusal),
    /// A wait.
    #[error(transparent)]
    Patience(#[from] PatienceRefusal),
    /// A header whose name is none.
    #[error("{0:?} is no name of a header")]
    HeaderName(String),
    /// A header that says how the request itself is written.
    #[error("the header {0:?} is not yours to set; leave it out")]
    OwnHeader(String),
    /// A header, or the key, that cannot be sent.
    #[error("the value of {0} has characters that cannot be sent in a header; is it one line?")]
    HeaderValue(String),
    /// A name that would lead elsewhere.
    #[error(
        "the model's name {0:?} cannot stand in an address: no part of it may be empty, . or .."
    )]
    Name(String),
    /// A turn that would never begin.
    #[error("{0} is 0: every wait must end and none is switched off; leave it out for the default")]
    Zero(&'static str),
}

/// Characters of a server's words that are kept.
pub(crate) const ERROR_CHARS_MAX: usize = 300;
/// Characters that are looked at.
const ERROR_CHARS_LOOKED_MAX: usize = 2_000;

/// Where a model is reached.
pub(super) struct Endpoint {
    pub(super) server: Arc<Server>,
    /// What stands before the path of the dialect.
    prefix: String,
    /// Which model at which address it is. The key is no part of it: it may be renewed.
    pub(super) maker: Tag,
    pub(super) headers: HeaderMap,
    pub(super) redactor: Redactor,
}

impl Endpoint {
    pub(super) fn new(spec: &ModelSpec, transport: &Transport) -> Result<Self, ModelRefusal> {
        let (origin, path) = parse(&spec.base_url, spec.plain)?;
        let host = origin.to_string();
        let mut headers = HeaderMap::new();
        let accept = if spec.options.streams() { "text/event-stream" } else { "application/json" };
        headers.insert(HOST, value("base_url", &host)?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        let agent = concat!("toolgate/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        let key = spec.key.as_ref().map(|key| key.reveal().trim());
        for (name, text) in spec.dialect.headers(key).iter() {
            let mut sent = value("api_key", text)?;
            sent.set_sensitive(key.is_some_and(|key| text.contains(key)));
            headers.insert(HeaderName::from_static(name), sent);
        }
        for (name, text) in &spec.headers {
            let legal: HeaderName =
                name.parse().map_err(|_| ModelRefusal::HeaderName(name.clone()))?;
            if OWN_HEADERS.contains(&legal.as_str()) {
                return Err(ModelRefusal::OwnHeader(name.clone()));
            }
            let mut sent = value(name, text.reveal())?;
            sent.set_sensitive(true);
            headers.insert(legal, sent);
        }
        let redactor = spec.redactor.clone();
        redactor.add(spec.key.iter().chain(spec.headers.iter().map(|(_, value)| value)));
        let prefix = prefixed(&path, spec.api_prefix.as_deref());
        let led_away = |part| matches!(part, "" | "." | "..");
        // Gemini's models stand in the path.
        if spec.dialect == Dialect::Gemini && spec.options.model.split('/').any(led_away) {
            return Err(ModelRefusal::Name(spec.options.model.clone()));
        }
        // A path that cannot be one is told now, and not at the first request.
        let _: Uri = format!("{prefix}/x").parse().map_err(|_| AddressRefusal::Unreadable)?;
        let maker = format!("{}\n{host}{prefix}", spec.options.model);
        let maker = Digest::of(maker.as_bytes()).into();
        Ok(Self { server: transport.server(origin), prefix, maker, headers, redactor })
    }

    /// What of a server's words may be shown: short, in one line, and without any secret.
    pub(super) fn error_text(&self, words: &str) -> String {
        let looked: String = words.chars().take(ERROR_CHARS_LOOKED_MAX).collect();
        let shown = self.redactor.redact_error(&looked).replace(char::is_control, " ");
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        match shown.char_indices().nth(ERROR_CHARS_MAX) {
            Some((end, _)) => format!("{}…", shown.get(..end).unwrap_or_default()),
            None => shown,
        }
    }

    /// The whole path of a request.
    pub(super) fn uri(&self, path: &str) -> Uri {
        format!("{}{path}", self.prefix).parse().unwrap_or_default()
    }
}

fn value(name: &str, text: &str) -> Result<HeaderValue, ModelRefusal> {
    HeaderValue::from_str(text.trim()).map_err(|_| ModelRefusal::HeaderValue(name.to_owned()))
}

/// The path with the prefix after it, unless it ends with that already.
fn prefixed(path: &str, prefix: Option<&str>) -> String {
    let prefix = prefix.unwrap_or_default().trim().trim_matches('/');
    let there = path.trim_end_matches('/').ends_with(&format!("/{prefix}"));
    if prefix.is_empty() || there { path.to_owned() } else { format!("{path}/{prefix}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_http::Roots;
    use toolgate_kernel::hidden::Hidden;

    #[test]
    fn a_prefix_is_added_once() {
        let table = [
            ("", Some("/v1"), "/v1"),
            ("/v1", Some("/v1"), "/v1"),
            ("/v1", Some("v1/"), "/v1"),
            ("/api", Some("v1"), "/api/v1"),
            ("/myv1", Some("v1"), "/myv1/v1"),
            ("/v1", None, "/v1"),
            ("", Some(" "), ""),
        ];
        for (path, prefix, wanted) in table {
            assert_eq!(prefixed(path, prefix), wanted, "{path} {prefix:?}");
        }
    }

    #[test]
    fn a_name_in_an_address_leads_nowhere_else() {
        let of = |dialect, model: &str| {
            let spec = ModelSpec::new("x", dialect, "http://127.0.0.1:1/v1beta", model);
            Endpoint::new(&spec, &Transport::new(Roots::default())).map(drop)
        };
        for name in ["../v1/files", "models/../../x", "..", "a//b", "", "models/"] {
            let refused = of(Dialect::Gemini, name);
            assert_eq!(refused, Err(ModelRefusal::Name(name.to_owned())));
        }
        for name in ["gemini-3-flash", "models/gemini-3-flash", "publishers/google/models/x..y"] {
            assert_eq!(of(Dialect::Gemini, name), Ok(()), "{name}");
        }
        // Elsewhere a name stands in the body, where it can be anything.
        assert_eq!(of(Dialect::Chat, "../x"), Ok(()));
    }

    #[test]
    fn error_texts_are_short_and_in_one_line() {
        let spec = ModelSpec::new("openai:x", Dialect::Chat, "http://127.0.0.1:1/v1", "x");
        let endpoint = Endpoint::new(&spec, &Transport::new(Roots::default())).unwrap();
        assert_eq!(endpoint.error_text("a\r\n\tb\u{1b}[31m  c"), "a b [31m c");
        let long = endpoint.error_text(&"ä".repeat(5_000));
        assert_eq!(long.chars().count(), ERROR_CHARS_MAX + 1);
        assert_eq!(endpoint.error_text("as it is"), "as it is");
    }

    #[test]
    fn nothing_secret_is_printed() {
        let mut spec = ModelSpec::new("openai:x", Dialect::Chat, "http://127.0.0.1:1/v1", "x");
        spec.key = Some(Hidden::new("sk-CANARY-1"));
        spec.headers = vec![("x-team".to_owned(), Hidden::new("CANARY-2"))];
        assert!(!format!("{spec:?}").contains("CANARY"));
        let endpoint = Endpoint::new(&spec, &Transport::new(Roots::default())).unwrap();
        assert!(!format!("{:?}", endpoint.headers).contains("CANARY"));
        assert_eq!(endpoint.uri("/chat/completions").to_string(), "/v1/chat/completions");
        spec.key = Some(Hidden::new("sk-CANARY\nx: y"));
        let refused = Endpoint::new(&spec, &Transport::new(Roots::default())).err().unwrap();
        assert!(!refused.to_string().contains("CANARY"), "{refused}");
    }
}
