//! Decides what a log must do: append all or nothing, fence old drivers, read back.

use futures_util::future::BoxFuture;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::StreamId;
use toolgate_kernel::tree::{LogId, TreeHead};

use super::{Promised, Rows};

/// One stored record: its bytes and its place in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Place in the stream.
    pub seq: u64,
    /// The bytes that were chained.
    pub bytes: Vec<u8>,
    /// Chain hash up to and with this record.
    pub hash: Digest,
}

/// The newest place of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamHead {
    /// The stream.
    pub stream: StreamId,
    /// Place of its last record.
    pub seq: u64,
    /// Chain hash up to and with that record.
    pub link: Digest,
}

/// Records for the end of one stream.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The driver's epoch; absent for streams that anyone may write.
    pub epoch: Option<u64>,
    /// Where the stream must end now: the place before the first row.
    pub after: u64,
    /// The records.
    pub rows: Rows,
    /// The stream's head from then on. It says which stream that is.
    pub head: StreamHead,
}

impl Batch {
    /// The stream.
    pub fn stream(&self) -> &StreamId {
        &self.head.stream
    }

    /// Whether the rows begin where the stream must end now, and end at the head.
    fn follows(&self) -> bool {
        let StreamHead { seq, link, .. } = self.head;
        match (self.rows.first(), self.rows.last()) {
            (Some(first), Some(last)) => {
                first == self.after.saturating_add(1) && last == (seq, link)
            }
            _ => seq == self.after,
        }
    }
}

/// What is appended together: all of it or nothing.
#[derive(Debug, Clone, Default)]
pub struct Append {
    /// At most one batch per stream.
    pub batches: Vec<Batch>,
    /// Contents kept aside by their hash.
    pub blobs: Vec<(Digest, Vec<u8>)>,
}

impl Append {
    /// Why it would break a stream: a mistake of ours, which every store refuses before it keeps any
    /// of it.
    pub fn malformed(&self) -> Option<StoreFault> {
        let mut batches = self.batches.iter().enumerate();
        let (_, broken) = batches.find(|(at, batch)| {
            let mut earlier = self.batches.iter().take(*at);
            earlier.any(|earlier| earlier.stream() == batch.stream()) || !batch.follows()
        })?;
        let stream = broken.stream();
        let reason =
            format!("records for {stream} do not follow one another; report this as a bug");
        Some(StoreFault::Unavailable(reason))
    }
}

/// A fold as it stood at some place, so that reading need not start at the beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The stream.
    pub stream: StreamId,
    /// The place.
    pub seq: u64,
    /// Chain hash at that place.
    pub hash: Digest,
    /// The fold.
    pub body: Vec<u8>,
}

impl Checkpoint {
    /// Covers all of it.
    pub fn digest(&self) -> Digest {
        let mut content = Vec::with_capacity(64 + self.body.len());
        content.extend_from_slice(&self.seq.to_be_bytes());
        content.extend_from_slice(&self.hash.0);
        content.extend_from_slice(&Digest::of(&self.body).0);
        content.extend_from_slice(self.stream.to_string().as_bytes());
        Digest::of(&content)
    }
}

/// Something of a log that is not as it was written, beside what its records say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntegrityProblem {
    /// The stream; `log` when it concerns all of them.
    pub stream: String,
    /// The record; zero when it concerns the stream as a whole.
    pub seq: u64,
    /// What is wrong.
    pub what: String,
}

/// Why the store did not do it. Nothing was appended, unless the fault says so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreFault {
    /// Somebody else appended first.
    #[error("{stream} moved on: it ends at {found}")]
    Moved {
        /// The stream.
        stream: StreamId,
        /// Where it ends.
        found: u64,
    },
    /// A newer driver has taken the session over.
    #[error("{stream} is driven by somebody else now; stop here and resume later")]
    Fenced {
        /// The stream.
        stream: StreamId,
    },
    /// The store cannot do it now; what was there is still there.
    #[error("the log cannot be used: {0}")]
    Unavailable(String),
    /// Nobody can say what the log took of what it was given.
    #[error("the log did not answer within {0} ms")]
    TimedOut(u64),
    /// What is stored is not what was written.
    #[error("the log is damaged: {0}; run `toolgate verify`")]
    Damaged(String),
}

/// A durable log of streams. Everything but an append is answered within a bound of its own.
pub trait Store: Send + Sync {
    /// The log's name, which no other log has.
    fn log_id(&self) -> LogId;

    /// Takes a stream over and fences whoever drove it before.
    fn claim(&self, stream: &StreamId) -> BoxFuture<'_, Result<u64, StoreFault>>;

    /// The same for whoever drives the stream already, under this epoch: whoever was fenced stays so.
    fn claim_again(&self, stream: &StreamId, epoch: u64) -> BoxFuture<'_, Result<u64, StoreFault>>;

    /// The epoch of the last take-over of a stream; 0 where it was never taken over.
    fn epoch(&self, stream: &StreamId) -> BoxFuture<'_, Result<u64, StoreFault>>;

    /// Appends all or nothing; durable once it returns.
    fn append(&self, append: Append) -> Promised<'_, Result<(), StoreFault>>;

    /// Bytes of the log as it is kept; zero where it is not.
    fn bytes(&self) -> u64 {
        0
    }

    /// Whether what was appended is still there when the process is gone. Where it is not, nothing is
    /// gained by writing down what is about to run (ADR 0005).
    fn outlasts_process(&self) -> bool {
        true
    }

    /// Reads up to `rows_max` records from place `from` on.
    fn read(
        &self,
        stream: &StreamId,
        from: u64,
        rows_max: usize,
    ) -> BoxFuture<'_, Result<Vec<Row>, StoreFault>>;

    /// Whether a stream is known to have nothing after a place, without waiting to find out.
    fn ends_at(&self, _stream: &StreamId, _seq: u64) -> bool {
        false
    }

    /// The newest place of a stream, when anything was appended to it. A store that others can reach
    /// answers only with what a signed head of the log covers.
    fn head(&self, stream: &StreamId) -> BoxFuture<'_, Result<Option<StreamHead>, StoreFault>>;

    /// The newest place of every stream, as it is stored, whether or not a signed head covers it.
    fn heads(&self) -> BoxFuture<'_, Result<Vec<StreamHead>, StoreFault>>;

    /// The newest signed head of the log, checked against what is stored; absent in a log without
    /// signed heads.
    fn tree_head(&self) -> BoxFuture<'_, Result<Option<TreeHead>, StoreFault>>;

    /// The root over the first commits of the log; absent where it has fewer.
    fn root_at(&self, size: u64) -> BoxFuture<'_, Result<Option<Digest>, StoreFault>>;

    /// Where the project stream ended when a record was written; absent where the store does not know, or
    /// has no such record.
    fn project_end_at(
        &self,
        _stream: &StreamId,
        _seq: u64,
    ) -> BoxFuture<'_, Result<Option<u64>, StoreFault>> {
        Box::pin(async { Ok(None) })
    }

    /// Checks everything that is stored beside the records: signed heads, the trees beneath them, and
    /// rows that belong to nothing.
    fn integrity(&self) -> BoxFuture<'_, Result<Vec<IntegrityProblem>, StoreFault>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// A content kept aside.
    fn blob(&self, hash: Digest) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreFault>>;

    /// Keeps a checkpoint in place of the one before.
    fn save_checkpoint(&self, checkpoint: Checkpoint) -> BoxFuture<'_, Result<(), StoreFault>>;

    /// The checkpoint of a stream, when there is one and a signed head covers it.
    fn checkpoint(
        &self,
        stream: &StreamId,
    ) -> BoxFuture<'_, Result<Option<Checkpoint>, StoreFault>>;
}
