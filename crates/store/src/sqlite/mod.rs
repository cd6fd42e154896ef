//! Decides how a log is kept in one SQLite file: one thread writes, one reads, nobody waits inside.

mod checked;
mod fault;
mod mounts;
mod number;
mod open;
mod pen;
mod reader;
mod schema;
mod shelf;
mod tree;
#[cfg(test)]
mod trouble;
mod worker;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::StreamId;
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::tree::{LogId, TreeHead};
use toolgate_runtime::port::{
    Append, Checkpoint, Clock, IntegrityProblem, Promised, Row, Store, StoreFault, StreamHead,
    later,
};
use toolgate_runtime::{HostKey, HostPublicKey};

use crate::anchor::{Anchor, AnchorFolder};

pub use fault::OpenFault;

use checked::{CheckedLog, OlderState};
use pen::CommitSigner;
use worker::{Worker, answer};
use writer::{Order, SignedLog, Work};

/// What the writer answers, when it does.
type Answered = oneshot::Receiver<Result<u64, StoreFault>>;

/// What a log that is written needs: who signs its commits, what time it is, and where its newest
/// head is remembered.
#[derive(Clone)]
pub struct LogSetup {
    /// The key of this user on this machine.
    pub host: Arc<HostKey>,
    /// The time of each commit.
    pub clock: Arc<dyn Clock>,
    /// Where heads are remembered; without it an older copy of the log is not noticed.
    pub anchors: Option<AnchorFolder>,
    /// The file in the project that names the log's folder, where that lies outside.
    pub pointer: Option<PathBuf>,
}

impl LogSetup {
    /// A log whose heads are not remembered elsewhere.
    pub fn new(host: HostKey, clock: Arc<dyn Clock>) -> Self {
        Self { host: Arc::new(host), clock, anchors: None, pointer: None }
    }
}

/// A log in one SQLite file. Several processes may have the same file open.
///
/// Dropping it finishes what is queued and waits for both threads.
pub struct SqliteStore {
    file: PathBuf,
    log: LogId,
    host: HostPublicKey,
    /// When the newest commit was made, as far as was known when it was opened.
    newest_at: Timestamp,
    // Fields are dropped in this order: the writer goes last and folds the WAL into the file.
    reader: Worker<reader::Question>,
    writer: Option<Worker<Order>>,
}

impl SqliteStore {
    /// Opens a log, or makes a new one.
    ///
    /// Refused and left as it is: a file of another program or another toolgate, one that is not what
    /// its signed head says, and one that is older than what is remembered of it.
    pub fn open(path: impl AsRef<Path>, setup: &LogSetup) -> Result<Self, OpenFault> {
        Self::open_as(path.as_ref(), setup, OlderState::Refused)
    }

    /// Opens a log that may be older than what is remembered of it, for an owner to accept it. What is
    /// remembered stays as it is until [`SqliteStore::remember`].
    pub fn open_to_accept(path: impl AsRef<Path>, setup: &LogSetup) -> Result<Self, OpenFault> {
        Self::open_as(path.as_ref(), setup, OlderState::Opened)
    }

    fn open_as(path: &Path, setup: &LogSetup, older: OlderState) -> Result<Self, OpenFault> {
        let CheckedLog { connection, tree, log, host, newest_at, anchor } =
            checked::open_checked(path, setup, older)?;
        let signer =
            CommitSigner { host: Arc::clone(&setup.host), clock: Arc::clone(&setup.clock) };
        let signed = SignedLog { connection, tree, signer, anchor };
        let reading = open::for_reading(path)?;
        let writer = Worker::start("toolgate-log", move |orders| writer::run(signed, orders));
        let writer = Some(writer.map_err(OpenFault::Thread)?);
        let read = move |asked| reader::run(reading, (log, host), asked);
        let reader = Worker::start("toolgate-read", read).map_err(OpenFault::Thread)?;
        let file = path.to_owned();
        Ok(Self { file, log, host, newest_at, reader, writer })
    }

    /// Opens a log to read it. No secret is needed, nothing is changed, and what is not as it was
    /// signed is found by whoever asks for it.
    pub fn look(path: impl AsRef<Path>) -> Result<Self, OpenFault> {
        let path = path.as_ref();
        let reading = open::for_looking(path)?;
        let log = open::log_id(&reading, path)?;
        // A log without a commit has no key yet, and nothing that one could sign.
        let host = open::host(&reading, path)?.unwrap_or(HostPublicKey([0; 32]));
        let read = move |asked| reader::run(reading, (log, host), asked);
        let reader = Worker::start("toolgate-read", read).map_err(OpenFault::Thread)?;
        let (file, newest_at) = (path.to_owned(), Timestamp(i64::MIN));
        Ok(Self { file, log, host, newest_at, reader, writer: None })
    }

    /// Compares the log in a file with what is remembered of it, and says what that is.
    pub fn compare(
        path: impl AsRef<Path>,
        pointer: Option<&Path>,
        anchors: &AnchorFolder,
    ) -> Result<Option<Anchor>, OpenFault> {
        checked::compare(path.as_ref(), pointer, anchors)
    }

    /// Remembers its newest head in place of what is remembered of it, also where that is a later one,
    /// and that it belongs to this folder.
    pub async fn remember(
        &self,
        pointer: Option<&Path>,
        anchors: &AnchorFolder,
    ) -> Result<(), OpenFault> {
        let (path, log) = (&self.file, self.log);
        let folder = checked::known_folder(path, pointer)?;
        let unreadable = |source| OpenFault::Anchor { path: anchors.file(log), source };
        let note = self.note().await.map_err(|fault| unreadable(io::Error::other(fault)))?;
        let head = note.as_ref().and_then(|note| self.host.open(log, note).ok());
        let (Some(note), Some(head)) = (note, head) else {
            return Err(unreadable(io::Error::other("the log has no signed head")));
        };
        let at = self.newest_at.max(Timestamp(0));
        let anchor = Anchor { note, size: head.size, folder: folder.clone(), at };
        anchors.replace(log, &anchor).map_err(unreadable)?;
        anchors.set_log_in(&folder, log).map_err(unreadable)
    }

    /// Does something to the folder of a log while no process has the log open, and none can open it.
    pub fn while_closed<T>(
        path: impl AsRef<Path>,
        work: impl FnOnce() -> T,
    ) -> Result<T, OpenFault> {
        open::while_closed(path.as_ref(), work)
    }

    /// Gives the file of a log another name, with everything in it. Refused while it is open anywhere.
    pub fn set_aside(path: impl AsRef<Path>, aside: impl AsRef<Path>) -> Result<(), OpenFault> {
        open::set_aside(path.as_ref(), aside.as_ref())
    }

    /// The key that signs its heads, as the log itself says.
    pub fn host(&self) -> HostPublicKey {
        self.host
    }

    /// When the newest commit was made, as far as was known when it was opened.
    pub fn newest_at(&self) -> Timestamp {
        self.newest_at
    }

    /// Its newest signed head, as a note. It is checked against everything that is stored.
    pub async fn note(&self) -> Result<Option<String>, StoreFault> {
        reader::ask(&self.reader, |shelf| shelf.note()).await
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
    fn log_id(&self) -> LogId {
        self.log
    }

    /// The file alone: the WAL beside it is bounded, and repeats much of it.
    fn bytes(&self) -> u64 {
        std::fs::metadata(&self.file).map_or(0, |found| found.len())
    }

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

    fn head(&self, stream: &StreamId) -> BoxFuture<'_, Result<Option<StreamHead>, StoreFault>> {
        let stream = stream.clone();
        Box::pin(reader::ask(&self.reader, move |shelf| shelf.head(stream)))
    }

    fn heads(&self) -> BoxFuture<'_, Result<Vec<StreamHead>, StoreFault>> {
        Box::pin(reader::ask(&self.reader, |shelf| shelf.heads()))
    }

    fn tree_head(&self) -> BoxFuture<'_, Result<Option<TreeHead>, StoreFault>> {
        Box::pin(reader::ask(&self.reader, |shelf| shelf.tree_head()))
    }

    fn root_at(&self, size: u64) -> BoxFuture<'_, Result<Option<Digest>, StoreFault>> {
        Box::pin(reader::ask(&self.reader, move |shelf| shelf.root_at(size)))
    }

    fn project_end_at(
        &self,
        stream: &StreamId,
        seq: u64,
    ) -> BoxFuture<'_, Result<Option<u64>, StoreFault>> {
        let stream = stream.clone();
        Box::pin(reader::ask(&self.reader, move |shelf| shelf.project_end_at(&stream, seq)))
    }

    fn integrity(&self) -> BoxFuture<'_, Result<Vec<IntegrityProblem>, StoreFault>> {
        Box::pin(reader::ask(&self.reader, |shelf| shelf.integrity()))
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
