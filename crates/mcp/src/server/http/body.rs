//! Decides how an answer travels: whole, or as a stream of events that ends with it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::time::Interval;

use super::super::protocol::KEEP_ALIVE;

/// What is still being worked on while its stream is open. Its last word ends the stream.
pub(crate) type Work = Pin<Box<dyn Future<Output = Option<Done>> + Send>>;

/// The last word, with the status it has where nothing was said before it.
pub(crate) struct Done {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
}

/// The body of an answer.
pub(crate) enum Reply {
    Whole(Option<Bytes>),
    Events(Box<Events>),
}

/// A stream of events. Dropping it drops the work behind it.
pub(crate) struct Events {
    /// The first message, where there is one before anything else.
    first: Option<String>,
    messages: mpsc::Receiver<String>,
    work: Option<Work>,
    last: Option<String>,
    alive: Interval,
}

impl Reply {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()))
    }

    pub(crate) fn events(
        first: Option<String>,
        messages: mpsc::Receiver<String>,
        work: Work,
    ) -> Self {
        let start = tokio::time::Instant::now() + KEEP_ALIVE;
        let alive = tokio::time::interval_at(start, KEEP_ALIVE);
        Self::Events(Box::new(Events { first, messages, work: Some(work), last: None, alive }))
    }
}

fn event(message: &str) -> Frame<Bytes> {
    // JSON has no line breaks outside its strings, and none inside them.
    Frame::data(Bytes::from(format!("event: message\ndata: {message}\n\n")))
}

impl Events {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(event(&first)));
        }
        if let Some(work) = &mut self.work
            && let Poll::Ready(last) = work.as_mut().poll(cx)
        {
            (self.work, self.last) = (None, last.map(|done| done.text));
        }
        // What was said before the last word comes before it.
        match self.messages.poll_recv(cx) {
            Poll::Ready(Some(message)) => return Poll::Ready(Some(event(&message))),
            Poll::Ready(None) | Poll::Pending if self.work.is_none() => {
                return Poll::Ready(self.last.take().map(|last| event(&last)));
            }
            Poll::Ready(None) | Poll::Pending => {}
        }
        match self.alive.poll_tick(cx) {
            Poll::Ready(_) => Poll::Ready(Some(Frame::data(Bytes::from_static(b":\n\n")))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Events(events) => events.poll(cx).map(|frame| frame.map(Ok)),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Events(_) => SizeHint::default(),
        }
    }
}
