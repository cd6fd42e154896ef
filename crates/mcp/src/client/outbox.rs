//! Decides in which order things are said to a server: one after the other and each whole, also
//! when whoever said it is gone.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// Messages that wait to be written.
const WAITING_MAX: usize = 64;

/// What is to be said to a server.
#[derive(Clone)]
pub(super) struct Outbox {
    sender: mpsc::Sender<Bytes>,
    closing: Arc<Notify>,
}

impl Outbox {
    /// An outbox whose messages are written by one task. It ends with the last holder of the
    /// outbox, or with the first message that cannot be written.
    pub(super) fn start<W, F>(mut write: W) -> Self
    where
        W: FnMut(Bytes) -> F + Send + 'static,
        F: Future<Output = bool> + Send,
    {
        let (sender, mut receiver) = mpsc::channel::<Bytes>(WAITING_MAX);
        let closing = Arc::new(Notify::new());
        let closed = Arc::clone(&closing);
        tokio::spawn(async move {
            let writing = async {
                while let Some(message) = receiver.recv().await
                    && write(message).await
                {}
            };
            tokio::select! {
                () = writing => {}
                () = closed.notified() => {}
            }
        });
        Self { sender, closing }
    }

    /// Puts a message in, when there is room before the deadline.
    pub(super) async fn put(&self, message: Bytes, deadline: Instant) -> bool {
        matches!(tokio::time::timeout_at(deadline, self.sender.send(message)).await, Ok(Ok(())))
    }

    /// Says nothing more; a pipe that was written to is closed.
    pub(super) fn close(&self) {
        self.closing.notify_one();
    }

    /// Puts a message in, if there is room now. Used where nobody can wait.
    pub(super) fn drop_in(&self, message: Bytes) {
        let _ = self.sender.try_send(message);
    }
}
