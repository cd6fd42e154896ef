//! Decides what one order writes: checked first, inside the transaction, against the file itself.
//!
//! Another process may write between two groups, so nothing that was read before is trusted.

use rusqlite::{Connection, OptionalExtension, Result, Statement};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::StreamId;
use toolgate_runtime::port::{Append, Batch, Checkpoint, StoreFault};

use super::number::{count, stored};
use super::writer::Work;

/// What became of one order: written with the others, or refused with nothing written.
pub(super) type Verdict = std::result::Result<u64, StoreFault>;

/// The prepared writes.
pub(super) struct Pen<'c> {
    #[cfg(test)]
    connection: &'c Connection,
    begin: Statement<'c>,
    commit: Statement<'c>,
    roll_back: Statement<'c>,
    find: Statement<'c>,
    enter: Statement<'c>,
    claim: Statement<'c>,
    move_on: Statement<'c>,
    record: Statement<'c>,
    blob: Statement<'c>,
    checkpoint: Statement<'c>,
    wal_pages: Statement<'c>,
    fold: Statement<'c>,
}

/// Where a stream ends, as the file has it.
#[derive(Default)]
struct End {
    id: Option<i64>,
    epoch: u64,
    seq: u64,
}

impl<'c> Pen<'c> {
    pub(super) fn new(connection: &'c Connection) -> Result<Self> {
        let prepare = |sql| connection.prepare(sql);
        Ok(Self {
            #[cfg(test)]
            connection,
            begin: prepare("BEGIN IMMEDIATE")?,
            commit: prepare("COMMIT")?,
            roll_back: prepare("ROLLBACK")?,
            find: prepare("SELECT id, epoch, seq FROM streams WHERE stream = ?1")?,
            enter: prepare("INSERT INTO streams (stream, epoch, seq) VALUES (?1, 0, 0)")?,
            claim: prepare(
                "INSERT INTO streams (stream, epoch, seq) VALUES (?1, 1, 0) \
                 ON CONFLICT (stream) DO UPDATE SET epoch = epoch + 1 RETURNING epoch",
            )?,
            move_on: prepare("UPDATE streams SET seq = ?2, hash = ?3, mac = ?4 WHERE id = ?1")?,
            record: prepare(
                "INSERT INTO records (stream, seq, hash, bytes) VALUES (?1, ?2, ?3, ?4)",
            )?,
            blob: prepare(
                "INSERT INTO blobs (hash, bytes) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            )?,
            checkpoint: prepare(
                "INSERT INTO checkpoints (stream, seq, hash, body, mac) \
                 VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (stream) DO UPDATE SET \
                 seq = excluded.seq, hash = excluded.hash, body = excluded.body, \
                 mac = excluded.mac",
            )?,
            wal_pages: prepare("PRAGMA wal_checkpoint(NOOP)")?,
            fold: prepare("PRAGMA wal_checkpoint(PASSIVE)")?,
        })
    }

    /// Begins a transaction that nobody else can write beside.
    pub(super) fn begin(&mut self) -> Result<()> {
        self.begin.execute(()).map(drop)
    }

    /// Makes the transaction durable; it is when this returns.
    pub(super) fn commit(&mut self) -> Result<()> {
        self.commit.execute(()).map(drop)
    }

    pub(super) fn roll_back(&mut self) -> Result<()> {
        self.roll_back.execute(()).map(drop)
    }

    /// Pages in the WAL.
    pub(super) fn wal_pages(&mut self) -> Result<i64> {
        self.wal_pages.query_row((), |row| row.get(1))
    }

    /// Copies the WAL into the file, as far as no reader needs it.
    pub(super) fn fold(&mut self) -> Result<()> {
        self.fold.query_row((), |_| Ok(()))
    }

    /// Writes one order, or says why not and writes nothing of it.
    pub(super) fn write(&mut self, work: &Work) -> Result<Verdict> {
        match work {
            Work::Claim(stream) => self.claim(stream).map(Ok),
            Work::ClaimAgain(stream, epoch) => self.claim_again(stream, *epoch),
            Work::Append(append) => self.append(append),
            Work::Checkpoint(checkpoint) => self.keep(checkpoint).map(|()| Ok(0)),
            #[cfg(test)]
            Work::Bend(bend) => bend(self.connection).map(|()| Ok(0)),
        }
    }

    fn claim(&mut self, stream: &StreamId) -> Result<u64> {
        self.claim.query_row([stream.to_string()], |row| count(row, 0))
    }

    fn claim_again(&mut self, stream: &StreamId, epoch: u64) -> Result<Verdict> {
        if self.end(stream)?.epoch != epoch {
            return Ok(Err(StoreFault::Fenced { stream: stream.clone() }));
        }
        self.claim(stream).map(Ok)
    }

    /// Every batch is checked before the first one is written.
    fn append(&mut self, append: &Append) -> Result<Verdict> {
        if let Some(fault) = append.malformed() {
            return Ok(Err(fault));
        }
        let mut streams = Vec::with_capacity(append.batches.len());
        for batch in &append.batches {
            let end = self.end(batch.stream())?;
            if let Err(fault) = end.takes(batch) {
                return Ok(Err(fault));
            }
            streams.push(end.id);
        }
        for (id, batch) in streams.into_iter().zip(&append.batches) {
            self.batch(id, batch)?;
        }
        for (hash, bytes) in &append.blobs {
            self.blob.execute((hash.0.as_slice(), bytes.as_slice()))?;
        }
        Ok(Ok(0))
    }

    fn end(&mut self, stream: &StreamId) -> Result<End> {
        let end = |row: &rusqlite::Row<'_>| {
            Ok(End { id: Some(row.get(0)?), epoch: count(row, 1)?, seq: count(row, 2)? })
        };
        let found = self.find.query_row([stream.to_string()], end).optional()?;
        Ok(found.unwrap_or_default())
    }

    fn batch(&mut self, id: Option<i64>, batch: &Batch) -> Result<()> {
        let id = match id {
            Some(id) => id,
            None => self.enter.insert([batch.stream().to_string()])?,
        };
        // One row per statement: many per statement were measured and cost more, because SQLite
        // then keeps a journal to take half a statement back.
        for row in batch.rows.iter() {
            self.record.execute((id, stored(row.seq)?, row.hash.0.as_slice(), row.bytes))?;
        }
        let (seq, hash, mac) = (stored(batch.head.seq)?, batch.head.hash.0, batch.head.mac);
        self.move_on.execute((id, seq, hash.as_slice(), mac.as_slice())).map(drop)
    }

    fn keep(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let Checkpoint { stream, seq, hash, body, mac } = checkpoint;
        let (Digest(hash), Digest(mac)) = (hash, mac);
        let row = (stream.to_string(), stored(*seq)?, hash.as_slice(), body, mac.as_slice());
        self.checkpoint.execute(row).map(drop)
    }
}

impl End {
    /// Whether a batch follows here.
    fn takes(&self, batch: &Batch) -> std::result::Result<(), StoreFault> {
        if batch.epoch.is_some_and(|epoch| epoch != self.epoch) {
            return Err(StoreFault::Fenced { stream: batch.stream().clone() });
        }
        if batch.after != self.seq {
            return Err(StoreFault::Moved { stream: batch.stream().clone(), found: self.seq });
        }
        Ok(())
    }
}
