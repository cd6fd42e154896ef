//! Decides how one connection is used: one request at a time, driven by whoever waits for it, so
//! that nothing of ours runs on its own.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;

use super::address::{Origin, all_private};
use super::ear::Ear;
use super::fault::HttpFault;
use super::network::Network;
use super::patience::{Patience, after};
use super::tls::Tls;

/// Bytes that are read at once, and that the head of an answer may have.
const BUFFER_BYTES: usize = 64 << 10;

/// Milliseconds a server on a private network gets to answer in TLS.
const NEAR_HANDSHAKE_MS: u64 = 3_000;

type Driver = http1::Connection<TokioIo<Stream>, Full<Bytes>>;

/// An open connection.
pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: Pin<Box<Driver>>,
    /// The driver came to its end and must not be asked again.
    over: bool,
    ear: Ear,
    heard: Arc<Heard>,
    /// The server and its port, for what is told of it.
    host: String,
    /// Whether the server is on a private network.
    pub(super) private: bool,
    /// When it was last used.
    pub(super) used: Instant,
}

/// Why a request had no answer on a connection.
pub(super) enum Unanswered {
    /// The connection was closed before a byte came: the server may have closed it long ago.
    Silent,
    /// A part of an answer came.
    Broken(HttpFault),
}

impl Connection {
    /// Connects: the name is looked up once, and every address is given its share of the time.
    pub(super) async fn open(
        origin: &Origin,
        tls: &Tls,
        network: &dyn Network,
        patience: &Patience,
    ) -> Result<Self, HttpFault> {
        let addresses = origin.addresses(network, patience.dns_ms_max).await?;
        let private = all_private(&addresses);
        let ms = patience.connect_ms_max;
        let opening = async {
            let share = Duration::from_millis(ms) / u32::try_from(addresses.len()).unwrap_or(1);
            let mut last = "no address".to_owned();
            for address in &addresses {
                match tokio::time::timeout(share, network.connect(*address)).await {
                    Ok(Ok(stream)) => return Self::begin(origin, tls, stream, private, ms).await,
                    Ok(Err(error)) => last = error.kind().to_string(),
                    Err(_) => last = "no answer".to_owned(),
                }
            }
            Err(HttpFault::Unreachable { host: origin.to_string(), reason: last })
        };
        let opened = tokio::time::timeout(Duration::from_millis(ms), opening).await;
        opened.map_err(|_| unconnected(ms))?
    }

    async fn begin(
        origin: &Origin,
        tls: &Tls,
        stream: TcpStream,
        private: bool,
        ms: u64,
    ) -> Result<Self, HttpFault> {
        // A request is written at once and then waited for; there is nothing to gather.
        let _ = stream.set_nodelay(true);
        let speech = if origin.secure {
            Speech::Secure(Box::new(shaken(origin, tls, stream, private, ms).await?))
        } else {
            Speech::Plain(stream)
        };
        let heard = Arc::new(Heard::default());
        let stream = TokioIo::new(Stream { speech, heard: Arc::clone(&heard) });
        let mut builder = http1::Builder::new();
        builder.max_buf_size(BUFFER_BYTES);
        let (sender, driver) = builder.handshake(stream).await.map_err(|_| HttpFault::CutOff)?;
        let (driver, used) = (Box::pin(driver), tokio::time::Instant::now());
        let host = origin.to_string();
        Ok(Self { sender, driver, over: false, ear: Ear::new(), heard, host, private, used })
    }

    /// Whether another request can be sent now. A server that closed the connection meanwhile is
    /// noticed here.
    pub(super) async fn is_usable(&mut self) -> bool {
        let Self { sender, driver, over, ear, .. } = self;
        let look = |cx: &mut Context<'_>| {
            drive(driver, over, cx);
            let ready = matches!(sender.poll_ready(cx), Poll::Ready(Ok(())));
            Poll::Ready(ready && !*over)
        };
        listening(ear, look).await
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Unanswered> {
        self.heard.any.store(false, Ordering::Relaxed);
        let Self { sender, driver, over, ear, heard, host, .. } = self;
        // It is sent in the first look, which hears what that brings about.
        let mut answer = pin!(async { sender.send_request(request).await });
        let look = |cx: &mut Context<'_>| {
            let mut seen = answer.as_mut().poll(cx);
            if seen.is_pending() {
                drive(driver, over, cx);
                seen = answer.as_mut().poll(cx);
            }
            match seen {
                Poll::Pending if *over => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
                Poll::Ready(answer) => Poll::Ready(answer.ok()),
            }
        };
        match listening(ear, look).await {
            Some(answer) => Ok(answer),
            None if heard.tls.load(Ordering::Relaxed) => {
                Err(Unanswered::Broken(HttpFault::OnlyTls { host: host.clone() }))
            }
            None if heard.any.load(Ordering::Relaxed) => Err(Unanswered::Broken(
                HttpFault::Unreadable("it is no HTTP answer, or its head is incomplete"),
            )),
            None => Err(Unanswered::Silent),
        }
    }

    /// The next bytes of an answer; nothing at its end.
    pub(super) async fn read(&mut self, body: &mut Incoming) -> Result<Option<Bytes>, HttpFault> {
        let Self { driver, over, ear, .. } = self;
        let look = |cx: &mut Context<'_>| {
            loop {
                // Asking the body first tells the connection that somebody wants bytes.
                let mut frame = Pin::new(&mut *body).poll_frame(cx);
                if frame.is_pending() {
                    drive(driver, over, cx);
                    frame = Pin::new(&mut *body).poll_frame(cx);
                }
                return match frame {
                    Poll::Pending if *over => Poll::Ready(Err(HttpFault::CutOff)),
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(None) => Poll::Ready(Ok(None)),
                    Poll::Ready(Some(Err(_))) => Poll::Ready(Err(HttpFault::CutOff)),
                    Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                        Ok(data) => Poll::Ready(Ok(Some(data))),
                        // Trailers say nothing that anybody here reads.
                        Err(_) => continue,
                    },
                };
            }
        };
        listening(ear, look).await
    }
}

/// Lets a connection read and write, unless it came to its end.
fn drive(driver: &mut Pin<Box<Driver>>, over: &mut bool, cx: &mut Context<'_>) {
    if !*over {
        *over = driver.as_mut().poll(cx).is_ready();
    }
}

async fn listening<T>(ear: &Ear, mut look: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    poll_fn(|cx| ear.listen(cx, &mut look)).await
}

/// The stream in TLS. A server nearby answers at once; one that says nothing waits for clear text.
async fn shaken(
    origin: &Origin,
    tls: &Tls,
    stream: TcpStream,
    private: bool,
    ms: u64,
) -> Result<TlsStream<TcpStream>, HttpFault> {
    let shaking = tls.connect(origin, stream, private);
    if !private {
        return shaking.await;
    }
    let silent = |_| {
        let how = "took the connection and did not answer in TLS";
        HttpFault::NoTls { host: origin.to_string(), how }
    };
    let wait = Duration::from_millis(NEAR_HANDSHAKE_MS.min(ms / 2));
    tokio::time::timeout(wait, shaking).await.map_err(silent)?
}

/// There is no connection after so long.
pub(super) fn unconnected(ms: u64) -> HttpFault {
    HttpFault::Unready { what: "connecting to the server", ms }
}

/// Waits for some work until a moment. A timer is only set for what is not done at once.
pub(super) async fn until<T>(
    deadline: Instant,
    what: &'static str,
    ms: u64,
    work: impl Future<Output = T>,
) -> Result<T, HttpFault> {
    let late = |_| HttpFault::TimedOut { what, ms };
    tokio::time::timeout_at(deadline, work).await.map_err(late)
}

/// The nearer of two deadlines: the moment, what ran out, and how long it was.
pub(super) fn nearer(
    whole: (Instant, u64),
    part_ms: u64,
    what: &'static str,
) -> (Instant, &'static str, u64) {
    let part = after(tokio::time::Instant::now(), part_ms);
    if part < whole.0 { (part, what, part_ms) } else { (whole.0, "the whole request", whole.1) }
}

/// A connection as bytes, that remembers whether any came.
struct Stream {
    speech: Speech,
    heard: Arc<Heard>,
}

/// What came over a connection.
#[derive(Default)]
struct Heard {
    /// Any byte since the last request.
    any: AtomicBool,
    /// TLS, where clear text was wanted.
    tls: AtomicBool,
}

/// Whether bytes begin as TLS does: a record of an alert or of a handshake.
fn is_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [0x15 | 0x16, 0x03, ..])
}

enum Speech {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = match &mut self.speech {
            Speech::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Speech::Secure(stream) => Pin::new(stream).poll_read(cx, buffer),
        };
        let new = buffer.filled().get(before..).unwrap_or_default();
        if !new.is_empty() && !self.heard.any.swap(true, Ordering::Relaxed) {
            let tls = matches!(self.speech, Speech::Plain(_)) && is_tls(new);
            self.heard.tls.store(tls, Ordering::Relaxed);
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.speech {
            Speech::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Speech::Secure(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.speech {
            Speech::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Speech::Secure(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.speech {
            Speech::Plain(stream) => stream.is_write_vectored(),
            Speech::Secure(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.speech {
            Speech::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Speech::Secure(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.speech {
            Speech::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Speech::Secure(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
