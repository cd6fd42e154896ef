//! Decides where the requests of a model go and what headers they carry; what is secret in them
//! is shown nowhere.

use std::sync::Arc;

use hyper::Uri;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};

use super::{Hidden, ModelSpec};
use crate::veil::Veil;
use toolgate_http::{AddressRefusal, PatienceRefusal, Server, Transport, parse};

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
    /// A turn that would never begin.
    #[error("{0} is 0: every wait must end and none is switched off; leave it out for the default")]
    Zero(&'static str),
}

/// Headers that say how the request itself is written.
const OURS: &[&str] =
    &["host", "content-length", "content-type", "transfer-encoding", "connection", "upgrade"];

/// Where a model is reached.
pub(super) struct Endpoint {
    pub(super) server: Arc<Server>,
    /// What stands before the path of the dialect.
    prefix: String,
    pub(super) headers: HeaderMap,
    pub(super) veil: Veil,
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
        let key = spec.key.as_ref().map(|key| key.0.trim());
        for (name, text) in spec.dialect.headers(key).iter() {
            let mut sent = value("api_key", text)?;
            sent.set_sensitive(key.is_some_and(|key| text.contains(key)));
            headers.insert(HeaderName::from_static(name), sent);
        }
        for (name, text) in &spec.headers {
            let legal: HeaderName =
                name.parse().map_err(|_| ModelRefusal::HeaderName(name.clone()))?;
            if OURS.contains(&legal.as_str()) {
                return Err(ModelRefusal::OwnHeader(name.clone()));
            }
            let mut sent = value(name, &text.0)?;
            sent.set_sensitive(true);
            headers.insert(legal, sent);
        }
        let given = spec.headers.iter().map(|(_, Hidden(text))| text.as_str());
        let veil = Veil::new(key.into_iter().chain(given));
        let prefix = prefixed(&path, spec.api_prefix.as_deref());
        // A path that cannot be one is told now, and not at the first request.
        let _: Uri = format!("{prefix}/x").parse().map_err(|_| AddressRefusal::Unreadable)?;
        Ok(Self { server: transport.server(origin), prefix, headers, veil })
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
    use crate::dialect::Dialect;
    use toolgate_http::Roots;

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
