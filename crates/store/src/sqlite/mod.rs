//! Decides how a log is kept in one SQLite file: one thread writes, one reads, nobody waits inside.

mod fault;
mod mounts;
mod number;
mod open;
mod pen;
mod reader;
mod schema;
mod shelf;
#[cfg(test)]
mod trouble;
mod worker;
mod writer;

use std::path::Path;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::StreamId;
use toolgate_kernel::seal::SignedHead;
use toolgate_runtime::port::{Append, Checkpoint, Promised, Row, Store, StoreFault, later};

pub use fault::OpenFault;

use worker::{Worker, answer};
use writer::{Order, Work};

/// What the writer answers, when it does.
type Answered = oneshot::Receiver<Result<u64, StoreFault>>;

/// A log in one SQLite file. Several processes may have the same file open.
///
/// Dropping it finishes what is queued and waits for both threads.
pub struct SqliteStore {
    /// What this log is called, and no other.
    name: String,
    // Fields are dropped in this order: the writer goes last and folds the WAL into the file.
    reader: Worker<reader::Question>,
    writer: Option<Worker<Order>>,
}

impl SqliteStore {
    /// Opens a log, makes a new one, or brings an old one up to date.
    ///
    /// A file of another program or of a newer toolgate is refused and left as it is.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenFault> {
        let path = path.as_ref();
        let writing = open::for_writing(path)?;
        let reading = open::for_reading(path)?;
        let name = open::name(&reading, path)?;
        let writer = Worker::start("toolgate-log", move |orders| writer::run(writing, orders));
        let writer = writer.map_err(OpenFault::Thread)?;
        let reader = Worker::start("toolgate-read", move |asked| reader::run(reading, asked));
        Ok(Self { name, reader: reader.map_err(OpenFault::Thread)?, writer: Some(writer) })
    }

    /// Opens a log that may not be written, to look at it. Nothing is changed or made.
    pub fn look(path: impl AsRef<Path>) -> Result<Self, OpenFault> {
        let path = path.as_ref();
        let reading = open::for_looking(path)?;
        let name = open::name(&reading, path)?;
        let reader = Worker::start("toolgate-read", move |asked| reader::run(reading, asked));
        Ok(Self { name, reader: reader.map_err(OpenFault::Thread)?, writer: None })
    }

    /// A name that no other log has.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Hands work to the writer, which answers once it is durable or refused.
    async fn write(&self, work: Work) -> Result<Answered, StoreFault> {
        let (answer, answered) = oneshot::channel();
        let Some(writer) = &self.writer else {
            let reason = "it may not be written here, and was opened to be looked at";
            return Err(StoreFault::Unavailable(reason.to_owned()));
        };
        writer.post(Order { work, answer }).await?;
        Ok(answered)
    }
}

impl Store for SqliteStore {
    fn claim(&self, stream: &StreamId) -> BoxFuture<'_, Result<u64, StoreFault>> {
        let stream = stream.clone();
        Box::pin(async move { answer(self.write(Work::Claim(stream)).await?).await })
    }

    fn claim_again(&self, stream: &StreamId, epoch: u64) -> BoxFuture<'_, Result<u64, StoreFault>> {
        let work = Work::ClaimAgain(stream.clone(), epoch);
        Box::pin(async move { answer(self.write(work).await?).await })
    }

    fn epoch(&self, stream: &StreamId) -> BoxFuture<'_, Result<u64, StoreFault>> {
        let stream = stream.clone();
        Box::pin(reader::ask(&self.reader, move |shelf| shelf.epoch(&stream)))
    }

    fn append(&self, append: Append) -> Promised<'_, Result<(), StoreFault>> {
        later(async move {
            let answered = self.write(Work::Append(append)).await?;
            answered.await.unwrap_or_else(|_| Err(worker::stopped())).map(drop)
        })
    }

    fn read(
        &self,
        stream: &StreamId,
        from: u64,
        rows_max: usize,
    ) -> BoxFuture<'_, Result<Vec<Row>, StoreFault>> {
        let stream = stream.clone();
        Box::pin(reader::ask(&self.reader, move |shelf| shelf.rows(&stream, from, rows_max)))
    }

    fn head(&self, stream: &StreamId) -> BoxFuture<'_, Result<Option<SignedHead>, StoreFault>> {
        let stream = stream.clone();
        Box::pin(reader::ask(&self.reader, move |shelf| shelf.head(stream)))
    }

    fn heads(&self) -> BoxFuture<'_, Result<Vec<SignedHead>, StoreFault>> {
        Box::pin(reader::ask(&self.reader, |shelf| shelf.heads()))
    }

    fn strays(&self) -> BoxFuture<'_, Result<u64, StoreFault>> {
        Box::pin(reader::ask(&self.reader, |shelf| shelf.strays()))
    }

    fn blob(&self, hash: Digest) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreFault>> {
        Box::pin(reader::ask(&self.reader, move |shelf| shelf.blob(hash)))
    }

    fn save_checkpoint(&self, checkpoint: Checkpoint) -> BoxFuture<'_, Result<(), StoreFault>> {
        Box::pin(
            async move { answer(self.write(Work::Checkpoint(checkpoint)).await?).await.map(drop) },
        )
    }

    fn checkpoint(
        &self,
        stream: &StreamId,
    ) -> BoxFuture<'_, Result<Option<Checkpoint>, StoreFault>> {
        let stream = stream.clone();
        Box::pin(reader::ask(&self.reader, move |shelf| shelf.checkpoint(&stream)))
    }
}
