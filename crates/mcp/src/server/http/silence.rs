//! Decides how long a client may say nothing before its connection ends.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Instant;

/// How long a client has asked for nothing.
///
/// One timer goes on from request to request. A timer that is set anew for each of them would wake
/// the thread each time, which costs more than looking at a connection that is not silent.
pub(super) struct Silence {
    /// When it began; nothing while a request is being answered.
    since: Mutex<Option<Instant>>,
}

impl Silence {
    /// It begins now.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { since: Mutex::new(Some(tokio::time::Instant::now())) })
    }

    /// A request came. The silence begins anew when this is dropped.
    pub(super) fn broken(self: &Arc<Self>) -> Broken {
        self.set(None);
        Broken(Arc::clone(self))
    }

    /// Waits until it has lasted so long.
    pub(super) async fn lasts(&self, wait: Duration) {
        loop {
            let now = tokio::time::Instant::now();
            let until = self.since().unwrap_or(now) + wait;
            if until <= now {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    fn since(&self) -> Option<Instant> {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, since: Option<Instant>) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }
}

/// A request that is being answered.
pub(super) struct Broken(Arc<Silence>);

impl Drop for Broken {
    fn drop(&mut self) {
        self.0.set(Some(tokio::time::Instant::now()));
    }
}

/// The body of an answer. The client is silent again once it was sent.
pub(super) struct Until<B> {
    pub(super) body: B,
    pub(super) _broken: Broken,
}

impl<B: Body + Unpin> Body for Until<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_counts_from_the_last_answer_and_not_while_one_is_made() {
        let (silence, wait) = (Silence::new(), Duration::from_secs(20));
        let began = tokio::time::Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        let client = async {
            tokio::time::sleep_until(after(15)).await;
            let first = silence.broken();
            tokio::time::sleep_until(after(70)).await;
            drop(first);
            tokio::time::sleep_until(after(85)).await;
            drop(silence.broken());
        };
        tokio::join!(silence.lasts(wait), client);
        assert_eq!(began.elapsed().as_secs(), 105);
    }
}
