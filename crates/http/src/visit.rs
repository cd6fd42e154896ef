//! Decides how a page of the web is asked for: once, with no cookie, no key and no word about who
//! asks, in a time that all pages of one visit share.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, HOST, HeaderMap, HeaderValue, USER_AGENT};
use hyper::{StatusCode, Uri};
use tokio::time::Instant;

use super::address::Origin;
use super::fault::HttpFault;
use super::page::Page;
use super::patience::{Patience, after};
use super::{Answer, Asking, Transport, Verb};

/// Milliseconds to find where a server is.
const DNS_MS_MAX: u64 = 5_000;
/// Milliseconds to connect to it.
const CONNECT_MS_MAX: u64 = 5_000;
/// Milliseconds for the whole head of an answer.
const HEAD_MS_MAX: u64 = 5_000;
/// Milliseconds without a byte.
const IDLE_MS_MAX: u64 = 5_000;

/// Milliseconds of one visit, whatever it leads to.
pub const VISIT_MS_MAX: u64 = 20_000;

/// Pages that are asked for one after the other, in one time.
pub struct Visit {
    transport: Arc<Transport>,
    deadline: Instant,
}

impl Visit {
    /// A visit that begins now.
    pub fn begin(transport: &Arc<Transport>) -> Self {
        let deadline = after(tokio::time::Instant::now(), VISIT_MS_MAX);
        Self { transport: Arc::clone(transport), deadline }
    }

    /// Asks for a page. Where its name leads is looked up once, every address is looked at, and the
    /// connection goes to one of those.
    pub async fn page(&self, page: &Page) -> Result<Answer, HttpFault> {
        self.ask(page.origin(), page.uri(), "text/html, text/plain;q=0.9, */*;q=0.1").await
    }

    /// Asks a server that a person wrote down, wherever it is.
    pub async fn server(&self, origin: &Origin, path: &str) -> Result<Answer, HttpFault> {
        let unusable = |_| HttpFault::Unreadable("its path cannot be sent");
        let uri = Uri::builder().path_and_query(path).build().map_err(unusable)?;
        self.ask(origin, &uri, "application/json").await
    }

    async fn ask(
        &self,
        origin: &Origin,
        uri: &Uri,
        accept: &'static str,
    ) -> Result<Answer, HttpFault> {
        let mut headers = HeaderMap::new();
        let unusable = |_| HttpFault::Unreadable("its host cannot be sent");
        headers.insert(HOST, HeaderValue::try_from(origin.to_string()).map_err(unusable)?);
        let agent = concat!("toolgate/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        // Nothing is unpacked here, so nothing can unpack to more than it is.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let patience = Patience {
            dns_ms_max: DNS_MS_MAX,
            connect_ms_max: CONNECT_MS_MAX,
            first_byte_ms_max: Some(HEAD_MS_MAX),
            idle_ms_max: Some(IDLE_MS_MAX),
            request_ms_max: Some(VISIT_MS_MAX),
            ..Patience::default()
        };
        let asking = Asking { uri, headers: &headers, body: Bytes::new(), deadline: self.deadline };
        // What a stranger's server keeps open would be kept for nobody.
        self.transport.visited(origin.clone()).send_as(Verb::Get, &asking, &patience).await
    }
}

impl Answer {
    /// A header, where it is plain text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The status as it is told: `404: Not Found`.
    pub fn status_line(&self) -> String {
        status_line(self.status)
    }
}

/// A status as it is told: `404: Not Found`.
pub fn status_line(status: u16) -> String {
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    format!("{status}: {}", reason.unwrap_or("Unknown"))
}
