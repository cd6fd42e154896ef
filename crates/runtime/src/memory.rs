//! Decides how a log is kept in memory: for tests, for benchmarks, for sessions that need not last.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, ready};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::StreamId;
use toolgate_kernel::tree::{LogId, TreeHead};

use crate::port::{
    Append, Batch, Checkpoint, Lying, Promised, Row, Rows, Store, StoreFault, StreamHead, at_once,
};

/// A log in memory.
pub struct MemoryStore {
    id: LogId,
    inner: Mutex<Inner>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::with_id(LogId::from_bytes([0; 16]))
    }
}

#[derive(Default)]
struct Inner {
    streams: BTreeMap<StreamId, Stream>,
    blobs: BTreeMap<Digest, Vec<u8>>,
    checkpoints: BTreeMap<StreamId, Checkpoint>,
}

#[derive(Default)]
struct Stream {
    epoch: u64,
    rows: Pages,
    head: Option<StreamHead>,
    /// Where the project ended when records were written: from which record on, and the end.
    project_ends: Vec<(u64, u64)>,
}

impl Stream {
    fn take(&mut self, batch: Batch, project_end: u64) {
        if let Some(first) = batch.rows.first()
            && self.project_ends.last().is_none_or(|(_, end)| *end != project_end)
        {
            self.project_ends.push((first, project_end));
        }
        self.rows.push(&batch.rows);
        self.head = Some(batch.head);
    }

    fn end(&self) -> u64 {
        self.head.as_ref().map_or(0, |head| head.seq)
    }
}

/// The rows of a stream, in pages: a log grows without moving what is in it.
#[derive(Default)]
struct Pages(Vec<Rows>);

/// Bytes of one page.
const PAGE_BYTES: usize = 16 << 10;

impl Pages {
    fn push(&mut self, rows: &Rows) {
        // Every page has rows: a place is found by them.
        if rows.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(page) if page.bytes_len() + rows.bytes_len() <= PAGE_BYTES => page.extend(rows),
            Some(_) => {
                let mut page = Rows::with_room(PAGE_BYTES);
                page.extend(rows);
                self.0.push(page);
            }
            // Most streams are short, so the first page grows with them.
            None => self.0.push(rows.clone()),
        }
    }

    /// The rows from a place on.
    fn since(&self, seq: u64) -> impl Iterator<Item = Lying<'_>> {
        let before = |page: &Rows| page.last().is_none_or(|(last, _)| last < seq);
        let pages = self.0.iter().skip(self.0.partition_point(before));
        pages.flat_map(move |page| page.since(seq))
    }
}

impl MemoryStore {
    /// An empty log. Logs in memory end with their process, so they share one name.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty log with a name of its own, where a person's signatures for it must count in no other.
    pub fn with_id(id: LogId) -> Self {
        Self { id, inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn check(&self, batch: &Batch) -> Result<(), StoreFault> {
        let stream = self.streams.get(batch.stream());
        if batch.epoch.is_some_and(|epoch| stream.map_or(0, |stream| stream.epoch) != epoch) {
            return Err(StoreFault::Fenced { stream: batch.stream().clone() });
        }
        match stream.map_or(0, Stream::end) {
            end if end == batch.after => Ok(()),
            found => Err(StoreFault::Moved { stream: batch.stream().clone(), found }),
        }
    }
}

impl Store for MemoryStore {
    fn log_id(&self) -> LogId {
        self.id
    }

    fn claim(&self, stream: &StreamId) -> BoxFuture<'_, Result<u64, StoreFault>> {
        let mut inner = self.lock();
        let stream = inner.streams.entry(stream.clone()).or_default();
        stream.epoch += 1;
        Box::pin(ready(Ok(stream.epoch)))
    }

    fn claim_again(&self, stream: &StreamId, epoch: u64) -> BoxFuture<'_, Result<u64, StoreFault>> {
        let mut inner = self.lock();
        if inner.streams.get(stream).map_or(0, |stream| stream.epoch) != epoch {
            return Box::pin(ready(Err(StoreFault::Fenced { stream: stream.clone() })));
        }
        let stream = inner.streams.entry(stream.clone()).or_default();
        stream.epoch += 1;
        Box::pin(ready(Ok(stream.epoch)))
    }

    fn epoch(&self, stream: &StreamId) -> BoxFuture<'_, Result<u64, StoreFault>> {
        Box::pin(ready(Ok(self.lock().streams.get(stream).map_or(0, |stream| stream.epoch))))
    }

    fn append(&self, append: Append) -> Promised<'_, Result<(), StoreFault>> {
        if let Some(fault) = append.malformed() {
            return at_once(Err(fault));
        }
        let mut inner = self.lock();
        for batch in &append.batches {
            if let Err(fault) = inner.check(batch) {
                return at_once(Err(fault));
            }
        }
        for batch in append.batches {
            let project_end = inner.streams.get(&StreamId::Project).map_or(0, Stream::end);
            if let Some(stream) = inner.streams.get_mut(batch.stream()) {
                stream.take(batch, project_end);
            } else {
                let (name, mut stream) = (batch.stream().clone(), Stream::default());
                stream.take(batch, project_end);
                inner.streams.insert(name, stream);
            }
        }
        inner.blobs.extend(append.blobs);
        at_once(Ok(()))
    }

    fn outlasts_process(&self) -> bool {
        false
    }

    fn read(
        &self,
        stream: &StreamId,
        from: u64,
        rows_max: usize,
    ) -> BoxFuture<'_, Result<Vec<Row>, StoreFault>> {
        let inner = self.lock();
        let rows = inner.streams.get(stream).map(|stream| stream.rows.since(from));
        let rows = rows.into_iter().flatten().take(rows_max).map(Lying::to_row).collect();
        Box::pin(ready(Ok(rows)))
    }

    fn ends_at(&self, stream: &StreamId, seq: u64) -> bool {
        self.lock().streams.get(stream).map_or(0, Stream::end) == seq
    }

    fn tree_head(&self) -> BoxFuture<'_, Result<Option<TreeHead>, StoreFault>> {
        // Nothing outlives it, so nothing is signed.
        Box::pin(async { Ok(None) })
    }

    fn root_at(&self, _size: u64) -> BoxFuture<'_, Result<Option<Digest>, StoreFault>> {
        Box::pin(async { Ok(None) })
    }

    fn head(&self, stream: &StreamId) -> BoxFuture<'_, Result<Option<StreamHead>, StoreFault>> {
        let head = self.lock().streams.get(stream).and_then(|stream| stream.head.clone());
        Box::pin(ready(Ok(head)))
    }

    fn heads(&self) -> BoxFuture<'_, Result<Vec<StreamHead>, StoreFault>> {
        let inner = self.lock();
        let heads = inner.streams.values().filter_map(|stream| stream.head.clone()).collect();
        Box::pin(ready(Ok(heads)))
    }

    fn project_end_at(
        &self,
        stream: &StreamId,
        seq: u64,
    ) -> BoxFuture<'_, Result<Option<u64>, StoreFault>> {
        let inner = self.lock();
        let found = inner.streams.get(stream).filter(|stream| seq <= stream.end());
        let end = found.and_then(|stream| {
            let ends = &stream.project_ends;
            let at = ends.partition_point(|(first, _)| *first <= seq).checked_sub(1)?;
            ends.get(at).map(|(_, end)| *end)
        });
        Box::pin(ready(Ok(end)))
    }

    fn blob(&self, hash: Digest) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreFault>> {
        let blob = self.lock().blobs.get(&hash).cloned();
        Box::pin(ready(Ok(blob)))
    }

    fn save_checkpoint(&self, checkpoint: Checkpoint) -> BoxFuture<'_, Result<(), StoreFault>> {
        self.lock().checkpoints.insert(checkpoint.stream.clone(), checkpoint);
        Box::pin(ready(Ok(())))
    }

    fn checkpoint(
        &self,
        stream: &StreamId,
    ) -> BoxFuture<'_, Result<Option<Checkpoint>, StoreFault>> {
        let checkpoint = self.lock().checkpoints.get(stream).cloned();
        Box::pin(ready(Ok(checkpoint)))
    }
}
