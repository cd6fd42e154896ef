//! Decides how tests write to a log: an author knows its stream and what it wrote.

use std::path::Path;
use std::sync::Arc;

use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::StreamId;
use toolgate_kernel::names::SessionId;
use toolgate_kernel::time::Timestamp;
use toolgate_runtime::HostKey;
use toolgate_runtime::log::Tip;
use toolgate_runtime::port::{
    Append, Batch, Clock, Files, FilesFault, Row, StageTag, Store, StoreFault, StreamHead,
};
use toolgate_store::{AnchorFolder, Folder, LogSetup, SqliteStore};

/// A clock that stands still.
pub(crate) struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }
}

/// A log that this key signs.
pub(crate) fn setup() -> LogSetup {
    LogSetup::new(HostKey::from_seed(&[7; 32]).unwrap(), Arc::new(Still))
}

pub(crate) fn session(name: &str) -> StreamId {
    StreamId::Session(SessionId::parse(name).unwrap())
}

pub(crate) fn inbox(name: &str) -> StreamId {
    StreamId::Inbox(SessionId::parse(name).unwrap())
}

pub(crate) fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder.join("log.db"), &setup()).unwrap()
}

/// The same with an anchor outside of the log, as people's programs have one.
pub(crate) fn open_anchored(folder: &Path) -> SqliteStore {
    let anchors = Some(AnchorFolder::open(&folder.join("state")).unwrap());
    let setup = LogSetup { anchors, ..setup() };
    SqliteStore::open(folder.join("log.db"), &setup).unwrap()
}

/// Runs a test that waits.
pub(crate) fn block_on<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(test)
}

/// Writes records to the end of one stream.
#[derive(Clone)]
pub(crate) struct Author {
    pub(crate) stream: StreamId,
    pub(crate) epoch: Option<u64>,
    pub(crate) tip: Tip,
}

impl Author {
    pub(crate) fn new(stream: StreamId, epoch: Option<u64>) -> Self {
        Self { stream, epoch, tip: Tip::START }
    }

    /// The next records, chained and signed. The author goes on from there.
    pub(crate) fn batch(&mut self, texts: &[&str]) -> Batch {
        let after = self.tip.seq;
        let mut rows = Vec::new();
        for text in texts {
            let (bytes, seq) = (text.as_bytes().to_vec(), self.tip.seq + 1);
            self.tip = Tip { seq, hash: Digest::link(self.tip.hash, &bytes) };
            rows.push(Row { seq, bytes, hash: self.tip.hash });
        }
        let (epoch, head) = (self.epoch, self.head());
        Batch { epoch, after, rows: rows.into_iter().collect(), head }
    }

    pub(crate) fn head(&self) -> StreamHead {
        StreamHead { stream: self.stream.clone(), seq: self.tip.seq, link: self.tip.hash }
    }

    /// Appends records; on a refusal the author stays where it was.
    pub(crate) async fn write(
        &mut self,
        store: &dyn Store,
        texts: &[&str],
    ) -> Result<(), StoreFault> {
        let before = self.tip;
        let written = store.append(only(self.batch(texts))).await;
        if written.is_err() {
            self.tip = before;
        }
        written
    }

    /// Reads on to the end of the stream and checks the chain.
    pub(crate) async fn follow(&mut self, store: &dyn Store) {
        for row in store.read(&self.stream, self.tip.seq + 1, usize::MAX).await.unwrap() {
            self.tip = self.tip.follow(&row).expect("the chain holds");
        }
    }
}

/// An append of one batch.
pub(crate) fn only(batch: Batch) -> Append {
    Append { batches: vec![batch], blobs: vec![] }
}

/// The texts of a stream, from the beginning.
pub(crate) async fn texts(store: &dyn Store, stream: &StreamId) -> Vec<String> {
    let rows = store.read(stream, 1, usize::MAX).await.unwrap();
    rows.into_iter().map(|row| String::from_utf8(row.bytes).unwrap()).collect()
}

/// Stages a copy, with the version its content has.
pub(crate) fn stage(
    folder: &Folder,
    tag: &StageTag,
    path: &str,
    content: Option<&[u8]>,
) -> Result<(), FilesFault> {
    folder.stage(tag, path, content.map(|content| (content, Digest::of(content))))
}
