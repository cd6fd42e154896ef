//! Decides how long a client may leave unread what is written to it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::silence::Silence;

/// How long nothing may move.
const UNREAD_WAIT: Duration = Duration::from_secs(30);

/// A connection that breaks when its client does not read.
pub(super) struct Unread<S> {
    stream: S,
    /// Runs while something waits to be written.
    until: Option<Pin<Box<Sleep>>>,
    silence: Arc<Silence>,
}

impl<S> Unread<S> {
    pub(super) fn new(stream: S, silence: Arc<Silence>) -> Self {
        Self { stream, until: None, silence }
    }

    /// What a try to write some bytes came to. Who is written to is not silent.
    fn wrote<T>(
        &mut self,
        tried: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        match &tried {
            Poll::Pending => self.silence.writing(),
            Poll::Ready(_) => self.silence.written(),
        }
        self.tried(tried, cx)
    }

    /// What a try to write came to; one that has waited too long failed.
    fn tried<T>(
        &mut self,
        tried: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if tried.is_ready() {
            self.until = None;
            return tried;
        }
        let until = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep(UNREAD_WAIT)));
        match until.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unread<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unread<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(tried, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.wrote(tried, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let tried = Pin::new(&mut self.stream).poll_flush(cx);
        self.tried(tried, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let tried = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.tried(tried, cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_reads_is_written_to_and_whoever_does_not_is_let_go() {
        let (ours, mut theirs) = tokio::io::duplex(8);
        let mut ours = Unread::new(ours, Silence::new());
        let reading = async {
            let mut read = [0; 8];
            for _ in 0..4 {
                tokio::time::sleep(UNREAD_WAIT / 2).await;
                theirs.read_exact(&mut read).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(ours.write_all(&[1; 40]), reading);
        written.unwrap();
        let began = tokio::time::Instant::now();
        let fault = ours.write_all(&[1; 9]).await.unwrap_err();
        assert_eq!(fault.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= UNREAD_WAIT);
        drop(theirs);
    }
}
