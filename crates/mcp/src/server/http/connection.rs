//! Decides when one connection ends: with its client, when that one is silent, does not read or makes
//! room, and when the server stops.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::silence::{Answered, Silence};
use super::unread::Unread;

/// How long a client may be silent between two requests and take for the headers of the second, both
/// together.
const HEADERS_WAIT: Duration = Duration::from_secs(20);

/// Why a connection ends before its client does.
pub(super) enum Leaving {
    /// Somebody else needs its place more.
    AtOnce,
    /// The server stops; what was begun is brought to its end.
    WhenAnswered,
}

/// Serves the requests that come over a stream.
pub(super) async fn serve<S, F, B>(
    stream: S,
    respond: impl Fn(Request<Incoming>) -> F,
    leaving: impl Future<Output = Leaving>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Response<B>>,
    B: Body<Data = Bytes, Error = Infallible> + Unpin + 'static,
{
    let silence = Silence::new();
    let answering = service_fn(|request| {
        let (answering, reply) = (silence.answering(), respond(request));
        async move {
            let reply = reply.await;
            Ok::<_, Infallible>(reply.map(|body| Answered { body, _answering: answering }))
        }
    });
    let connection = http1::Builder::new()
        .max_headers(100)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(Unread::new(stream, Arc::clone(&silence))), answering);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        biased;
        leaving = leaving => match leaving {
            Leaving::AtOnce => return,
            Leaving::WhenAnswered => connection.as_mut().graceful_shutdown(),
        },
        // A client that breaks off is its own affair.
        _ = connection.as_mut() => return,
        () = silence.lasts(HEADERS_WAIT) => return,
    }
    // Whoever was in the middle of its headers has what is left of that time.
    tokio::select! {
        biased;
        _ = connection => {}
        () = silence.lasts(HEADERS_WAIT) => {}
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    const LONG: usize = 1_000_000;
    const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

    /// A client of a server that answers `GET /seconds` after so many of them, and everything else at
    /// length.
    fn client() -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let respond = |request: Request<Incoming>| async move {
            let seconds = request.uri().path().trim_start_matches('/').parse();
            let Ok(seconds) = seconds else {
                return Response::new(Full::new(Bytes::from(vec![b'.'; LONG])));
            };
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Response::new(Full::default())
        };
        tokio::spawn(serve(ours, respond, std::future::pending()));
        theirs
    }

    async fn ends_after(client: &mut DuplexStream) -> u64 {
        let began = tokio::time::Instant::now();
        client.read_to_end(&mut Vec::new()).await.unwrap();
        began.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_let_go_and_one_that_waits_is_not() {
        let mut client = client();
        assert_eq!(ends_after(&mut client).await, 20, "it never said anything");
        let mut client = self::client();
        for seconds in ["0", "45", "0"] {
            tokio::time::sleep(Duration::from_secs(15)).await;
            let get = format!("GET /{seconds} HTTP/1.1\r\nhost: x\r\n\r\n");
            client.write_all(get.as_bytes()).await.unwrap();
            let mut answer = [0; 1_024];
            assert!(client.read(&mut answer).await.unwrap() > 0, "{seconds}");
        }
        tokio::time::sleep(Duration::from_secs(15)).await;
        client.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();
        assert_eq!(ends_after(&mut client).await, 5, "headers come before the time is over");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_reads_slowly_has_it_all_and_is_silent_only_then() {
        let mut client = client();
        client.write_all(GET).await.unwrap();
        let (mut read, mut bytes) = (0, vec![0; 16 << 10]);
        while read < LONG {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let more = client.read(&mut bytes).await.unwrap();
            assert!(more > 0, "it ended after {read} bytes");
            read += more;
        }
        // The last of it was written while the pipe still held something.
        let left = ends_after(&mut client).await;
        assert!((10..=20).contains(&left), "{left}");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_does_not_read_is_let_go_in_time() {
        let mut client = client();
        client.write_all(GET).await.unwrap();
        tokio::time::sleep(Duration::from_secs(29)).await;
        assert!(client.read_u8().await.is_ok());
        tokio::time::sleep(Duration::from_secs(40)).await;
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert!(rest.len() < LONG, "{}", rest.len());
    }
}
