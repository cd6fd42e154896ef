//! Decides how what is stored is read back, and when it is called damaged.

use rusqlite::{Connection, OptionalExtension, Result, Row as SqlRow, Statement};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::StreamId;
use toolgate_kernel::seal::SignedHead;
use toolgate_runtime::port::{Checkpoint, Row, StoreFault};

use super::fault::read_fault;
use super::number::count;

/// The prepared reads.
pub(super) struct Shelf<'c> {
    rows: Statement<'c>,
    head: Statement<'c>,
    heads: Statement<'c>,
    strays: Statement<'c>,
    epoch: Statement<'c>,
    blob: Statement<'c>,
    checkpoint: Statement<'c>,
}

impl<'c> Shelf<'c> {
    pub(super) fn new(connection: &'c Connection) -> Result<Self> {
        Ok(Self {
            rows: connection.prepare(
                "SELECT seq, bytes, hash FROM records \
                 WHERE stream = (SELECT id FROM streams WHERE stream = ?1) AND seq >= ?2 \
                 ORDER BY seq LIMIT ?3",
            )?,
            head: connection.prepare(
                "SELECT seq, hash, mac FROM streams WHERE stream = ?1 AND mac IS NOT NULL",
            )?,
            heads: connection.prepare("SELECT stream, seq, hash, mac FROM streams")?,
            strays: connection.prepare(
                "SELECT count(*) FROM records \
                 WHERE stream NOT IN (SELECT id FROM streams WHERE mac IS NOT NULL)",
            )?,
            epoch: connection.prepare("SELECT epoch FROM streams WHERE stream = ?1")?,
            blob: connection.prepare("SELECT bytes FROM blobs WHERE hash = ?1")?,
            checkpoint: connection
                .prepare("SELECT seq, hash, body, mac FROM checkpoints WHERE stream = ?1")?,
        })
    }

    /// Up to `rows_max` records from place `from` on.
    pub(super) fn rows(
        &mut self,
        stream: &StreamId,
        from: u64,
        rows_max: usize,
    ) -> std::result::Result<Vec<Row>, StoreFault> {
        // No stream is longer than SQLite can count.
        let Ok(from) = i64::try_from(from) else { return Ok(Vec::new()) };
        let rows_max = i64::try_from(rows_max).unwrap_or(i64::MAX);
        let row = |row: &SqlRow<'_>| {
            Ok(Row { seq: count(row, 0)?, bytes: row.get(1)?, hash: hash(row, 2)? })
        };
        let rows = self.rows.query_map((stream.to_string(), from, rows_max), row);
        rows.and_then(Iterator::collect).map_err(|error| read_fault(&error))
    }

    /// The signed head of a stream.
    pub(super) fn head(
        &mut self,
        stream: StreamId,
    ) -> std::result::Result<Option<SignedHead>, StoreFault> {
        let head = |row: &SqlRow<'_>| Ok((count(row, 0)?, hash(row, 1)?, hash(row, 2)?));
        let found = self.head.query_row([stream.to_string()], head).optional();
        let found = found.map_err(|error| read_fault(&error))?;
        Ok(found.map(|(seq, hash, mac)| SignedHead { stream, seq, hash, mac: mac.0 }))
    }

    /// The signed head of every stream, in the order of streams.
    pub(super) fn heads(&mut self) -> std::result::Result<Vec<SignedHead>, StoreFault> {
        let head = |row: &SqlRow<'_>| {
            let (stream, seq): (String, _) = (row.get(0)?, count(row, 1)?);
            let (hash, mac): (Option<_>, Option<_>) = (row.get(2)?, row.get(3)?);
            Ok((stream, seq, hash.zip(mac)))
        };
        let found: Result<Vec<_>> = self.heads.query_map((), head).and_then(Iterator::collect);
        let mut heads = Vec::new();
        for (stream, seq, signed) in found.map_err(|error| read_fault(&error))? {
            let Some(stream) = StreamId::parse(&stream) else {
                return Err(StoreFault::Damaged(format!("{stream:?} is not the name of a stream")));
            };
            // A stream that was claimed and not written has no head yet.
            if let Some((hash, mac)) = signed {
                heads.push(SignedHead { stream, seq, hash: Digest(hash), mac });
            }
        }
        heads.sort_by(|a, b| a.stream.cmp(&b.stream));
        Ok(heads)
    }

    /// How many records belong to no stream that has a signed head.
    pub(super) fn strays(&mut self) -> std::result::Result<u64, StoreFault> {
        let strays = self.strays.query_row((), |row| count(row, 0));
        strays.map_err(|error| read_fault(&error))
    }

    /// The epoch of the last take-over of a stream.
    pub(super) fn epoch(&mut self, stream: &StreamId) -> std::result::Result<u64, StoreFault> {
        let found = self.epoch.query_row([stream.to_string()], |row| count(row, 0)).optional();
        found.map(Option::unwrap_or_default).map_err(|error| read_fault(&error))
    }

    /// A content kept aside, if it still is what it was.
    pub(super) fn blob(
        &mut self,
        hash: Digest,
    ) -> std::result::Result<Option<Vec<u8>>, StoreFault> {
        let found = self.blob.query_row([hash.0.as_slice()], |row| row.get(0)).optional();
        let bytes: Option<Vec<u8>> = found.map_err(|error| read_fault(&error))?;
        match bytes {
            Some(bytes) if Digest::of(&bytes) != hash => {
                Err(StoreFault::Damaged(format!("the content kept under {hash} is another one")))
            }
            sound => Ok(sound),
        }
    }

    /// The checkpoint of a stream. Its signature is for the caller to check.
    pub(super) fn checkpoint(
        &mut self,
        stream: &StreamId,
    ) -> std::result::Result<Option<Checkpoint>, StoreFault> {
        let checkpoint = |row: &SqlRow<'_>| {
            let (seq, body) = (count(row, 0)?, row.get(2)?);
            Ok(Checkpoint {
                stream: stream.clone(),
                seq,
                hash: hash(row, 1)?,
                body,
                mac: hash(row, 3)?,
            })
        };
        let found = self.checkpoint.query_row([stream.to_string()], checkpoint).optional();
        found.map_err(|error| read_fault(&error))
    }
}

fn hash(row: &SqlRow<'_>, column: usize) -> Result<Digest> {
    row.get(column).map(Digest)
}
