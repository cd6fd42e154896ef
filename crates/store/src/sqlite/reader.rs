//! Decides how reads get past the writer: on a connection and a thread of their own.
//!
//! A page of records is read in well under a millisecond when it is in memory, but a cold disk
//! takes its time. So no executor thread ever reads, and in WAL mode no read waits for a commit.

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};
use toolgate_kernel::tree::LogId;
use toolgate_runtime::HostPublicKey;
use toolgate_runtime::port::StoreFault;

use super::fault::read_fault;
use super::shelf::Shelf;
use super::worker::{Worker, answer};

/// One read, with its answer inside.
pub(super) type Question = Box<dyn FnOnce(Result<&mut Shelf<'_>, &StoreFault>) + Send>;

/// Reads on the reader's thread and waits for the answer.
pub(super) async fn ask<T: Send + 'static>(
    reader: &Worker<Question>,
    read: impl FnOnce(&mut Shelf<'_>) -> Result<T, StoreFault> + Send + 'static,
) -> Result<T, StoreFault> {
    let (sender, answered) = oneshot::channel();
    let question: Question = Box::new(move |shelf| {
        // Whoever stopped waiting needs no answer.
        drop(sender.send(shelf.map_err(StoreFault::clone).and_then(read)));
    });
    reader.post(question).await?;
    answer(answered).await
}

/// Answers questions until nobody can ask any more.
pub(super) fn run(
    connection: Connection,
    (log, host): (LogId, HostPublicKey),
    mut questions: mpsc::Receiver<Question>,
) {
    let mut shelf = Shelf::new(&connection, log, host).map_err(|error| read_fault(&error));
    while let Some(question) = questions.blocking_recv() {
        question(shelf.as_mut().map_err(|fault| &*fault));
    }
}
