//! Decides how long a client may say nothing before its connection ends.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Instant;

/// How long a client has asked for nothing.
///
/// One timer goes on from request to request. A timer that is set anew for each of them would wake
/// the thread each time, which costs more than looking at a connection that is not silent.
pub(super) struct Silence(Mutex<State>);

struct State {
    /// When the client asked for something last, or was given the last of an answer.
    since: Instant,
    /// Whether a request is being answered.
    answering: bool,
    /// Whether something waits to be written. How long that may take is not decided here.
    writing: bool,
}

impl Silence {
    /// It begins now.
    pub(super) fn new() -> Arc<Self> {
        let since = tokio::time::Instant::now();
        Arc::new(Self(Mutex::new(State { since, answering: false, writing: false })))
    }

    /// A request came. It is being answered until this is dropped.
    pub(super) fn answering(self: &Arc<Self>) -> Answering {
        self.state().answering = true;
        Answering(Arc::clone(self))
    }

    /// Something waits to be written.
    pub(super) fn writing(&self) {
        self.state().writing = true;
    }

    /// Something was written, and nothing waits.
    pub(super) fn written(&self) {
        let mut state = self.state();
        (state.writing, state.since) = (false, tokio::time::Instant::now());
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

    /// When it began; nothing where the client waits for us.
    fn since(&self) -> Option<Instant> {
        let state = self.state();
        (!state.answering && !state.writing).then_some(state.since)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is being answered.
pub(super) struct Answering(Arc<Silence>);

impl Drop for Answering {
    fn drop(&mut self) {
        let mut state = self.0.state();
        (state.answering, state.since) = (false, tokio::time::Instant::now());
    }
}

/// The body of an answer. Once it was taken, only what waits to be written is left of the answer.
pub(super) struct Answered<B> {
    pub(super) body: B,
    pub(super) _answering: Answering,
}

impl<B: Body + Unpin> Body for Answered<B> {
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
