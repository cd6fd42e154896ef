//! Decides how work reaches a thread of its own: a bounded queue, a bounded wait, a clean end.

use std::io;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use tokio::sync::mpsc::error::{SendTimeoutError, TrySendError};
use tokio::sync::{mpsc, oneshot};
use toolgate_runtime::port::StoreFault;

/// Pieces of work that may wait for a thread.
pub(super) const QUEUE_MAX: usize = 1_024;

/// How long a caller waits for a place in a full queue.
const QUEUE_WAIT: Duration = Duration::from_millis(if cfg!(test) { 100 } else { 5_000 });

/// How long a caller waits for an answer. An append is waited for by who asked for it, who has a
/// limit of its own.
const ANSWER_WAIT: Duration = Duration::from_millis(if cfg!(test) { 500 } else { 30_000 });

/// A thread and the way to it. Dropping it lets the thread finish its queue and waits for it.
pub(super) struct Worker<T> {
    queue: Option<mpsc::Sender<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Worker<T> {
    /// Starts a thread that takes work until its queue is closed.
    pub(super) fn start(
        name: &str,
        run: impl FnOnce(mpsc::Receiver<T>) + Send + 'static,
    ) -> io::Result<Self> {
        let (queue, work) = mpsc::channel(QUEUE_MAX);
        let thread = Builder::new().name(name.to_owned()).spawn(move || run(work))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Puts work in the queue; a queue that stays full is a fault, not an endless wait.
    pub(super) async fn post(&self, work: T) -> Result<(), StoreFault> {
        let Some(queue) = &self.queue else { return Err(stopped()) };
        // The usual case needs no timer.
        let work = match queue.try_send(work) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Closed(_)) => return Err(stopped()),
            Err(TrySendError::Full(work)) => work,
        };
        queue.send_timeout(work, QUEUE_WAIT).await.map_err(|error| match error {
            SendTimeoutError::Closed(_) => stopped(),
            SendTimeoutError::Timeout(_) => {
                let waited = QUEUE_WAIT.as_millis();
                let reason = format!("its queue was full for {waited} ms; do less at once");
                StoreFault::Unavailable(reason)
            }
        })
    }
}

/// Waits for the answer of a thread, at most so long.
pub(super) async fn answer<A>(
    answered: oneshot::Receiver<Result<A, StoreFault>>,
) -> Result<A, StoreFault> {
    match tokio::time::timeout(ANSWER_WAIT, answered).await {
        Ok(answer) => answer.unwrap_or_else(|_| Err(stopped())),
        Err(_) => {
            let waited = u64::try_from(ANSWER_WAIT.as_millis()).unwrap_or(u64::MAX);
            Err(StoreFault::TimedOut(waited))
        }
    }
}

/// The thread is gone: it panicked, or the store is being dropped.
pub(super) fn stopped() -> StoreFault {
    StoreFault::Unavailable("the thread that keeps it stopped; restart toolgate".to_owned())
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already told to everybody who waited for it.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_queue_that_stays_full_is_a_fault() {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let worker: Worker<usize> = Worker::start("stuck", move |mut work| {
            assert!(wait.recv().is_err());
            while work.blocking_recv().is_some() {}
        })
        .unwrap();
        for number in 0..QUEUE_MAX {
            worker.post(number).await.unwrap();
        }
        let full = worker.post(0).await.unwrap_err();
        assert!(full.to_string().contains("queue was full"), "{full}");
        // With the first place that is free it goes on.
        let ((), posted) = tokio::join!(async { drop(go) }, worker.post(0));
        assert_eq!(posted, Ok(()));
    }
}
