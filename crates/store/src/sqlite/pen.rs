//! Decides what one order writes: checked first, inside the transaction, against what is signed.
//!
//! Another process may write between two groups, so each group begins with following its commits.

use std::sync::Arc;

use rusqlite::{Connection, Statement};
use toolgate_kernel::event::StreamId;
use toolgate_kernel::tree::StreamEnd;
use toolgate_runtime::HostKey;
use toolgate_runtime::port::{Append, Batch, Checkpoint, Clock, StoreFault};

use super::number::stored;
use super::tree::{LogTree, TreeFault};
use super::writer::Work;

/// What became of one order: written with the others, or refused with nothing written.
pub(super) type Verdict = std::result::Result<u64, StoreFault>;

type Result<T> = std::result::Result<T, TreeFault>;

/// Who signs commits, and what time it is.
pub(super) struct CommitSigner {
    pub(super) host: Arc<HostKey>,
    pub(super) clock: Arc<dyn Clock>,
}

/// The prepared writes.
pub(super) struct Pen<'c> {
    connection: &'c Connection,
    tree: LogTree,
    /// Whether the tree may hold what was rolled back.
    stale: bool,
    signer: CommitSigner,
    begin: Statement<'c>,
    commit: Statement<'c>,
    roll_back: Statement<'c>,
    record: Statement<'c>,
    blob: Statement<'c>,
    checkpoint: Statement<'c>,
    wal_pages: Statement<'c>,
    fold: Statement<'c>,
}

impl<'c> Pen<'c> {
    pub(super) fn new(
        connection: &'c Connection,
        tree: LogTree,
        signer: CommitSigner,
    ) -> rusqlite::Result<Self> {
        let prepare = |sql| connection.prepare(sql);
        Ok(Self {
            connection,
            tree,
            stale: false,
            signer,
            begin: prepare("BEGIN IMMEDIATE")?,
            commit: prepare("COMMIT")?,
            roll_back: prepare("ROLLBACK")?,
            record: prepare(
                "INSERT INTO records (stream, seq, link, bytes) VALUES (?1, ?2, ?3, ?4)",
            )?,
            blob: prepare(
                "INSERT INTO blobs (hash, bytes) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            )?,
            checkpoint: prepare(
                "INSERT INTO checkpoints (stream, seq, link, body) \
                 VALUES (?1, ?2, ?3, ?4) ON CONFLICT (stream) DO UPDATE SET \
                 seq = excluded.seq, link = excluded.link, body = excluded.body",
            )?,
            wal_pages: prepare("PRAGMA wal_checkpoint(NOOP)")?,
            fold: prepare("PRAGMA wal_checkpoint(PASSIVE)")?,
        })
    }

    /// Begins a transaction that nobody else can write beside.
    pub(super) fn begin(&mut self) -> Result<()> {
        self.begin.execute(())?;
        if self.stale {
            self.tree.reload(self.connection)?;
            self.stale = false;
        }
        self.tree.follow(self.connection)
    }

    /// Signs what was written since the transaction began, when anything was, and hands over the tree
    /// with its newest head.
    pub(super) fn seal(&mut self) -> Result<Option<(String, &LogTree)>> {
        let now = self.signer.clock.now();
        let note = self.tree.seal(self.connection, &self.signer.host, now)?;
        Ok(note.map(|note| (note, &self.tree)))
    }

    /// Makes the transaction durable; it is when this returns.
    pub(super) fn commit(&mut self) -> Result<()> {
        self.commit.execute(())?;
        self.tree.was_committed();
        Ok(())
    }

    pub(super) fn roll_back(&mut self) -> rusqlite::Result<()> {
        self.roll_back.execute(()).map(drop)
    }

    /// Says that a transaction was not committed: what the tree took in of it is forgotten.
    pub(super) fn forget(&mut self) {
        self.stale = true;
    }

    /// Pages in the WAL.
    pub(super) fn wal_pages(&mut self) -> rusqlite::Result<i64> {
        self.wal_pages.query_row((), |row| row.get(1))
    }

    /// Copies the WAL into the file, as far as no reader needs it.
    pub(super) fn fold(&mut self) -> rusqlite::Result<()> {
        self.fold.query_row((), |_| Ok(()))
    }

    /// Writes one order, or says why not and writes nothing of it.
    pub(super) fn write(&mut self, work: &Work) -> Result<Verdict> {
        match work {
            Work::Claim(stream) => Ok(self.claim(stream)),
            Work::ClaimAgain(stream, epoch) => Ok(self.claim_again(stream, *epoch)),
            Work::Append(append) => self.append(append),
            Work::Checkpoint(checkpoint) => self.keep(checkpoint),
            #[cfg(test)]
            Work::Bend(bend) => Ok(bend(self.connection).map(|()| Ok(0))?),
        }
    }

    fn claim(&mut self, stream: &StreamId) -> Verdict {
        let at = self.tree.find_or_add(&stream.to_string());
        let Some(end) = self.tree.change(at) else { return Err(unknown_stream(stream)) };
        end.epoch = end.epoch.saturating_add(1);
        Ok(end.epoch)
    }

    fn claim_again(&mut self, stream: &StreamId, epoch: u64) -> Verdict {
        let end = self.end(stream);
        if end.map_or(0, |end| end.epoch) != epoch {
            return Err(StoreFault::Fenced { stream: stream.clone() });
        }
        self.claim(stream)
    }

    /// Every batch is checked before the first one is written.
    fn append(&mut self, append: &Append) -> Result<Verdict> {
        if let Some(fault) = append.malformed() {
            return Ok(Err(fault));
        }
        for batch in &append.batches {
            if let Err(fault) = takes(self.end(batch.stream()), batch) {
                return Ok(Err(fault));
            }
        }
        for batch in &append.batches {
            self.batch(batch)?;
        }
        for (hash, bytes) in &append.blobs {
            self.blob.execute((hash.0.as_slice(), bytes.as_slice()))?;
        }
        Ok(Ok(0))
    }

    fn end(&self, stream: &StreamId) -> Option<&StreamEnd> {
        self.tree.find(&stream.to_string()).and_then(|at| self.tree.end(at))
    }

    fn batch(&mut self, batch: &Batch) -> Result<()> {
        // One without rows only says where the stream must end.
        if batch.rows.is_empty() {
            return Ok(());
        }
        let at = self.tree.find_or_add(&batch.stream().to_string());
        let id = LogTree::id(at);
        // One row per statement: many per statement were measured and cost more, because SQLite
        // then keeps a journal to take half a statement back.
        for row in batch.rows.iter() {
            self.record.execute((id, stored(row.seq)?, row.hash.0.as_slice(), row.bytes))?;
        }
        if let Some(end) = self.tree.change(at) {
            (end.seq, end.link) = (batch.head.seq, batch.head.link);
        }
        Ok(())
    }

    fn keep(&mut self, checkpoint: &Checkpoint) -> Result<Verdict> {
        let Checkpoint { stream, seq, hash, body } = checkpoint;
        let Some(at) = self.tree.find(&stream.to_string()) else {
            return Ok(Err(unknown_stream(stream)));
        };
        let row = (stream.to_string(), stored(*seq)?, hash.0.as_slice(), body);
        self.checkpoint.execute(row)?;
        if let Some(end) = self.tree.change(at) {
            end.checkpoint = Some(checkpoint.digest());
        }
        Ok(Ok(0))
    }
}

/// Whether a batch follows the end of its stream.
fn takes(end: Option<&StreamEnd>, batch: &Batch) -> std::result::Result<(), StoreFault> {
    let (epoch, seq) = end.map_or((0, 0), |end| (end.epoch, end.seq));
    if batch.epoch.is_some_and(|claimed| claimed != epoch) {
        return Err(StoreFault::Fenced { stream: batch.stream().clone() });
    }
    if batch.after != seq {
        return Err(StoreFault::Moved { stream: batch.stream().clone(), found: seq });
    }
    Ok(())
}

fn unknown_stream(stream: &StreamId) -> StoreFault {
    StoreFault::Unavailable(format!("there is no stream {stream}; report this as a bug"))
}
