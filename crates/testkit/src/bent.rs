//! Decides when a log fails or falls silent: one over another one, for tests that bend it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::StreamId;
use toolgate_kernel::tree::{LogId, TreeHead};
use toolgate_runtime::MemoryStore;
use toolgate_runtime::port::{
    Append, Checkpoint, Promised, Row, Store, StoreFault, StreamHead, later,
};

/// What happens before the log beneath is asked.
pub trait Bend: Send + Sync {
    /// Before something is written.
    fn before_append<'a>(&'a self, _append: &'a Append) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    /// Whether it stands for a log that is still there when the process is gone.
    fn outlasts_process(&self) -> bool {
        true
    }

    /// Before something is read: rows, or where a stream ends.
    fn before_read(&self) -> Result<(), StoreFault> {
        Ok(())
    }
}

/// A log that is not bent. It outlasts what a test calls a crash.
impl Bend for () {}

/// A log that is bent.
#[derive(Default)]
pub struct Bent<B> {
    /// The log beneath.
    pub log: Arc<MemoryStore>,
    /// How it is bent.
    pub bend: B,
}

impl<B: Bend> Store for Bent<B> {
    fn log_id(&self) -> LogId {
        self.log.log_id()
    }

    fn claim(&self, stream: &StreamId) -> BoxFuture<'_, Result<u64, StoreFault>> {
        self.log.claim(stream)
    }

    fn claim_again(&self, stream: &StreamId, epoch: u64) -> BoxFuture<'_, Result<u64, StoreFault>> {
        self.log.claim_again(stream, epoch)
    }

    fn append(&self, append: Append) -> Promised<'_, Result<(), StoreFault>> {
        later(async move {
            self.bend.before_append(&append).await;
            self.log.append(append).await
        })
    }

    fn outlasts_process(&self) -> bool {
        self.bend.outlasts_process()
    }

    fn epoch(&self, stream: &StreamId) -> BoxFuture<'_, Result<u64, StoreFault>> {
        self.log.epoch(stream)
    }

    fn read(
        &self,
        stream: &StreamId,
        from: u64,
        rows_max: usize,
    ) -> BoxFuture<'_, Result<Vec<Row>, StoreFault>> {
        match self.bend.before_read() {
            Ok(()) => self.log.read(stream, from, rows_max),
            Err(fault) => Box::pin(async { Err(fault) }),
        }
    }

    fn tree_head(&self) -> BoxFuture<'_, Result<Option<TreeHead>, StoreFault>> {
        self.log.tree_head()
    }

    fn root_at(&self, size: u64) -> BoxFuture<'_, Result<Option<Digest>, StoreFault>> {
        self.log.root_at(size)
    }

    fn head(&self, stream: &StreamId) -> BoxFuture<'_, Result<Option<StreamHead>, StoreFault>> {
        match self.bend.before_read() {
            Ok(()) => self.log.head(stream),
            Err(fault) => Box::pin(async { Err(fault) }),
        }
    }

    fn heads(&self) -> BoxFuture<'_, Result<Vec<StreamHead>, StoreFault>> {
        self.log.heads()
    }

    fn blob(&self, hash: Digest) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreFault>> {
        self.log.blob(hash)
    }

    fn save_checkpoint(&self, checkpoint: Checkpoint) -> BoxFuture<'_, Result<(), StoreFault>> {
        self.log.save_checkpoint(checkpoint)
    }

    fn checkpoint(
        &self,
        stream: &StreamId,
    ) -> BoxFuture<'_, Result<Option<Checkpoint>, StoreFault>> {
        self.log.checkpoint(stream)
    }
}
