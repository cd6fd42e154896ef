//! Decides when the stream of notifications of an HTTP server is open, and hands the protocol
//! library what comes back.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::service::{RoleClient, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::mpsc;
use tokio::time::Instant;
use toolgate_http::sse::{Reader, SseFault};
use toolgate_http::{Answer, after};

use super::fault::ServerFault;
use super::http::{Received, Web};
use super::plan::Bounds;

/// Milliseconds before a stream that broke is opened again; each time twice as long, until one has
/// lasted.
const AGAIN_MS: u64 = 1_000;
const AGAIN_MS_MAX: u64 = 60_000;
const LASTING: Duration = Duration::from_secs(30);

/// An HTTP server, as the protocol library wants it.
pub(super) struct Wire {
    web: Arc<Web>,
    inbound: mpsc::Receiver<ServerJsonRpcMessage>,
    stream: Stream,
    again_ms: u64,
    bounds: Bounds,
}

/// The stream of notifications.
enum Stream {
    /// The server has none, or none is wanted.
    None,
    Opening(BoxFuture<'static, Result<Answer, ServerFault>>),
    /// It is read since then.
    Open(Box<Answer>, Box<Reader>, Instant),
    /// It broke; it is opened again then.
    Resting(Instant),
}

impl Wire {
    pub(super) fn new(
        web: Arc<Web>,
        inbound: mpsc::Receiver<ServerJsonRpcMessage>,
        bounds: Bounds,
    ) -> Self {
        Self { web, inbound, stream: Stream::None, again_ms: AGAIN_MS, bounds }
    }

    fn open(&mut self) {
        let web = Arc::clone(&self.web);
        self.stream = Stream::Opening(Box::pin(async move { web.listen().await }));
    }
}

/// Brings the stream one step further. Giving up the wait loses nothing.
async fn step(stream: &mut Stream, web: &Web) -> Stepped {
    match stream {
        Stream::None => std::future::pending().await,
        Stream::Opening(opening) => match opening.await {
            Ok(answer) => Stepped::Opened(Box::new(answer)),
            // A server that has no such stream says so once; one that fails may do better later.
            Err(ServerFault::Status(408 | 425 | 429)) => Stepped::Broken,
            Err(ServerFault::Status(..500) | ServerFault::Unauthorized { .. }) => Stepped::Never,
            Err(_) => Stepped::Broken,
        },
        Stream::Open(answer, reader, _) => {
            let Ok(Some(bytes)) = answer.chunk().await else { return Stepped::Broken };
            let read = reader.read(&bytes, |event| {
                web.pass(event.data);
                Ok::<(), SseFault>(())
            });
            if read.is_ok() { Stepped::Read } else { Stepped::Broken }
        }
        Stream::Resting(until) => {
            tokio::time::sleep_until(*until).await;
            Stepped::Rested
        }
    }
}

enum Stepped {
    Opened(Box<Answer>),
    Read,
    Broken,
    /// It is to be opened.
    Rested,
    Never,
}

/// The message was not taken.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotTaken(ServerFault);

impl Transport<RoleClient> for Wire {
    type Error = NotTaken;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), NotTaken>> + Send + 'static {
        self.web.switch.said(&item);
        let web = Arc::clone(&self.web);
        async move { web.exchange(item).await.map_err(NotTaken) }
    }

    async fn receive(&mut self) -> Option<Received> {
        loop {
            let stepped = tokio::select! {
                biased;
                message = self.inbound.recv() => return message,
                () = self.web.switch.end_told() => return None,
                () = self.web.wanted.notified() => Stepped::Rested,
                stepped = step(&mut self.stream, &self.web) => stepped,
            };
            match stepped {
                Stepped::Opened(answer) => {
                    let reader = Reader::bounded(self.bounds.message_bytes_max, usize::MAX);
                    let since = tokio::time::Instant::now();
                    self.stream = Stream::Open(answer, Box::new(reader), since);
                    self.web.may_have_missed_changes();
                    if !self.web.subscribes() {
                        self.web.settled.notify_one();
                    }
                }
                Stepped::Read => self.web.settled.notify_one(),
                Stepped::Broken => {
                    if matches!(&self.stream, Stream::Open(_, _, since) if since.elapsed() >= LASTING)
                    {
                        self.again_ms = AGAIN_MS;
                    }
                    let until = after(tokio::time::Instant::now(), self.again_ms);
                    self.stream = Stream::Resting(until);
                    self.again_ms = self.again_ms.saturating_mul(2).min(AGAIN_MS_MAX);
                    self.web.settled.notify_one();
                }
                Stepped::Rested => self.open(),
                Stepped::Never => {
                    self.stream = Stream::None;
                    self.web.settled.notify_one();
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), NotTaken> {
        self.stream = Stream::None;
        Ok(())
    }
}
