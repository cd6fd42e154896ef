//! Decides how a request reaches a server: over a connection that is kept, with a deadline on every
//! wait, a bound on every answer, no redirect and no proxy (ADR 0013). Models, MCP servers and web
//! pages are all asked this way (ADR 0014).

mod address;
mod connection;
mod ear;
mod egress;
mod fault;
mod idn;
mod network;
mod page;
mod patience;
mod pool;
pub mod sse;
mod tls;
mod visit;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, LOCATION};
use hyper::{Method, Request, Uri, Version};
use tokio::time::Instant;

pub use address::parse;
pub use address::{AddressRefusal, Origin, Plain};
use connection::{Connection, Unanswered, nearer, unconnected, until};
pub use egress::{Egress, is_here, names_here};
pub use fault::HttpFault;
use network::System;
pub use network::{Network, Waiting};
pub use page::{Page, PageRefusal};
pub use patience::after;
pub use patience::{Patience, PatienceRefusal};
use pool::Pool;
pub use tls::Roots;
use tls::Tls;
pub use visit::{VISIT_MS_MAX, Visit, status_line};

/// What all requests share: TLS, and the connections to each server.
pub struct Transport {
    tls: Arc<Tls>,
    network: Arc<dyn Network>,
    servers: Mutex<BTreeMap<Origin, Arc<Server>>>,
}

/// One server and the connections to it.
pub struct Server {
    origin: Origin,
    tls: Arc<Tls>,
    network: Arc<dyn Network>,
    pool: Pool,
}

/// What is asked: the same place and headers each time, and another body.
pub struct Asking<'a> {
    /// The path, with a query where a dialect has one.
    pub uri: &'a Uri,
    /// The headers; those that hold secrets are marked so.
    pub headers: &'a HeaderMap,
    /// The body.
    pub body: Bytes,
    /// When nobody waits for the answer any more.
    pub deadline: Instant,
}

/// How a request is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// A question.
    Get,
    /// A request that may be sent again over a new connection, where a kept one turns out closed.
    Post,
    /// A request that is written at most once: who did not hear of it does not know what it did.
    PostOnce,
    /// The end of something.
    Delete,
}

/// An answer whose head is there; its body is read bit by bit.
pub struct Answer {
    /// The status; never one that points elsewhere.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    body: Incoming,
    /// There until the body was read to its end.
    connection: Option<Connection>,
    server: Arc<Server>,
    /// When the whole must be over, and how long that is.
    whole: (Instant, u64),
    idle_ms: u64,
    read: u64,
    bytes_max: u64,
}

/// Milliseconds for the beginning of an error answer.
const BEGINNING_MS: u64 = 3_000;

impl Transport {
    /// A transport that trusts these authorities.
    pub fn new(roots: Roots) -> Self {
        Self::over(roots, Arc::new(System))
    }

    /// The same over another network than the operating system's. What may be reached is the same.
    pub fn over(roots: Roots, network: Arc<dyn Network>) -> Self {
        Self { tls: Arc::new(Tls::new(roots)), network, servers: Mutex::default() }
    }

    /// A server, with the connections that others have to it already.
    pub fn server(&self, origin: Origin) -> Arc<Server> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let new = |origin: &Origin| self.visited(origin.clone());
        Arc::clone(servers.entry(origin).or_insert_with_key(new))
    }

    /// A server that is asked once and not remembered: there is no end of servers that somebody
    /// else may name.
    pub fn visited(&self, origin: Origin) -> Arc<Server> {
        let (tls, network) = (Arc::clone(&self.tls), Arc::clone(&self.network));
        Arc::new(Server { origin, tls, network, pool: Pool::default() })
    }
}

impl Server {
    /// Sends a request; the answer's head is there when this returns. A kept connection that turns
    /// out closed before a byte came back is replaced once by a new one.
    pub async fn send(
        self: &Arc<Self>,
        asking: &Asking<'_>,
        patience: &Patience,
    ) -> Result<Answer, HttpFault> {
        // Nothing to say is a question.
        let verb = if asking.body.is_empty() { Verb::Get } else { Verb::Post };
        self.send_as(verb, asking, patience).await
    }

    /// Sends a request of a kind. One that must not be sent twice never is, not even when a kept
    /// connection turns out closed.
    pub async fn send_as(
        self: &Arc<Self>,
        verb: Verb,
        asking: &Asking<'_>,
        patience: &Patience,
    ) -> Result<Answer, HttpFault> {
        let began = tokio::time::Instant::now();
        if let Some(mut connection) = self.pool.take().await {
            match self.ask(&mut connection, verb, asking, patience, began).await {
                Err(Unanswered::Silent) if verb == Verb::PostOnce => return Err(HttpFault::CutOff),
                Err(Unanswered::Silent) => {}
                Err(Unanswered::Broken(fault)) => return Err(fault),
                Ok(answer) => return answer.on(connection),
            }
        }
        let ms = patience.dns_ms_max.saturating_add(patience.connect_ms_max);
        // Most requests find a connection, and have no room for making one.
        let opening =
            Box::pin(Connection::open(&self.origin, &self.tls, self.network.as_ref(), patience));
        let opened = tokio::time::timeout_at(asking.deadline, opening).await;
        let mut connection = opened.map_err(|_| unconnected(ms))??;
        match self.ask(&mut connection, verb, asking, patience, began).await {
            Err(Unanswered::Silent) => Err(HttpFault::CutOff),
            Err(Unanswered::Broken(fault)) => Err(fault),
            Ok(answer) => answer.on(connection),
        }
    }

    async fn ask(
        self: &Arc<Self>,
        connection: &mut Connection,
        verb: Verb,
        asking: &Asking<'_>,
        patience: &Patience,
        began: Instant,
    ) -> Result<Answer, Unanswered> {
        let private = connection.private;
        let whole_ms = patience.request_ms(private);
        let whole = (after(began, whole_ms).min(asking.deadline), whole_ms);
        let (deadline, what, ms) =
            nearer(whole, patience.first_byte_ms(private), "the first byte of the answer");
        let sending = connection.send(asking.request(verb));
        let response = until(deadline, what, ms, sending).await.map_err(Unanswered::Broken)??;
        let (head, body) = response.into_parts();
        Ok(Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
            connection: None,
            server: Arc::clone(self),
            whole,
            idle_ms: patience.idle_ms(private),
            read: 0,
            bytes_max: patience.answer_bytes_max,
        })
    }
}

impl Asking<'_> {
    fn request(&self, verb: Verb) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = match verb {
            Verb::Get => Method::GET,
            Verb::Post | Verb::PostOnce => Method::POST,
            Verb::Delete => Method::DELETE,
        };
        *request.uri_mut() = self.uri.clone();
        *request.version_mut() = Version::HTTP_11;
        *request.headers_mut() = self.headers.clone();
        request
    }
}

impl Answer {
    /// The answer with the connection it comes over, unless nothing of it may be read.
    fn on(mut self, connection: Connection) -> Result<Self, HttpFault> {
        if (300..400).contains(&self.status) {
            let to = self.headers.get(LOCATION).and_then(|to| to.to_str().ok());
            let to = to.filter(|to| to.len() <= page::BYTES_MAX).map(str::to_owned);
            return Err(HttpFault::Redirected { status: self.status, to });
        }
        let packed = |value: &hyper::header::HeaderValue| value.as_bytes() != b"identity";
        if self.headers.get(CONTENT_ENCODING).is_some_and(packed) {
            return Err(HttpFault::Unreadable("it is packed, and nobody asked for that"));
        }
        self.connection = Some(connection);
        Ok(self)
    }

    /// Whether the server says that the body is of a kind, such as `json`.
    pub fn is(&self, kind: &str) -> bool {
        let given = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        given.is_some_and(|given| {
            let mut parts = given.as_bytes().windows(kind.len().max(1));
            parts.any(|part| part.eq_ignore_ascii_case(kind.as_bytes()))
        })
    }

    /// The next bytes; nothing at the end, and then the connection is free for others.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, HttpFault> {
        self.chunk_within(self.idle_ms).await
    }

    /// Waits for the end of a body of which nothing more is wanted, so that its connection can be
    /// used again. One that does not end soon is closed.
    pub async fn drain(&mut self, ms: u64) {
        let end = after(tokio::time::Instant::now(), ms);
        self.whole = (end.min(self.whole.0), ms);
        while let Ok(Some(_)) = self.chunk_within(ms).await {}
    }

    /// The next bytes, if they come in so many milliseconds.
    pub async fn chunk_within(&mut self, ms: u64) -> Result<Option<Bytes>, HttpFault> {
        let Some(connection) = &mut self.connection else { return Ok(None) };
        let (deadline, what, ms) = nearer(self.whole, ms, "the next byte of the answer");
        // A server that always has something to say is bound by the deadline too, and others have
        // their turn beside it.
        tokio::task::consume_budget().await;
        let chunk = if tokio::time::Instant::now() < deadline {
            let reading = connection.read(&mut self.body);
            until(deadline, what, ms, reading).await.flatten()
        } else {
            Err(HttpFault::TimedOut { what, ms })
        };
        if !matches!(chunk, Ok(Some(_)))
            && let Some(connection) = self.connection.take()
            && chunk.is_ok()
        {
            self.server.pool.give(connection);
        }
        if let Ok(Some(bytes)) = &chunk {
            self.read = self.read.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            if self.read > self.bytes_max {
                self.connection = None;
                return Err(HttpFault::TooLarge { max: self.bytes_max });
            }
        }
        chunk
    }

    /// The whole body.
    pub async fn whole(&mut self) -> Result<Bytes, HttpFault> {
        if self.body.size_hint().lower() > self.bytes_max {
            self.connection = None;
            return Err(HttpFault::TooLarge { max: self.bytes_max });
        }
        let Some(first) = self.chunk().await? else { return Ok(Bytes::new()) };
        let Some(second) = self.chunk().await? else { return Ok(first) };
        let mut all = [first, second].concat();
        while let Some(more) = self.chunk().await? {
            all.extend_from_slice(&more);
        }
        Ok(all.into())
    }

    /// The body and whether that is all of it. What is longer is cut off, and the rest not waited
    /// for.
    pub async fn up_to(&mut self, bytes_max: usize) -> Result<(Bytes, bool), HttpFault> {
        self.bytes_max = u64::MAX;
        let Some(first) = self.chunk().await? else { return Ok((Bytes::new(), true)) };
        let mut all = Vec::new();
        while first.len().max(all.len()) <= bytes_max {
            match self.chunk().await? {
                None if all.is_empty() => return Ok((first, true)),
                None => return Ok((all.into(), true)),
                Some(more) if all.is_empty() => all = [first.as_ref(), &more].concat(),
                Some(more) => all.extend_from_slice(&more),
            }
        }
        self.connection = None;
        let mut all = if all.is_empty() { first } else { all.into() };
        all.truncate(bytes_max);
        Ok((all, false))
    }

    /// The beginning of the body, for an error message; what comes after, or does not come in a few
    /// seconds, is not waited for.
    pub async fn beginning(&mut self, bytes_max: usize) -> Vec<u8> {
        let end = after(tokio::time::Instant::now(), BEGINNING_MS);
        self.whole = (end.min(self.whole.0), BEGINNING_MS);
        let mut all = Vec::new();
        while all.len() < bytes_max
            && let Ok(Some(more)) = self.chunk_within(BEGINNING_MS).await
        {
            all.extend_from_slice(&more);
        }
        all.truncate(bytes_max);
        all
    }
}
