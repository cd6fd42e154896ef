//! Decides how events become rows, encoded and chained; and how rows become events again.

use serde::de::DeserializeOwned;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{AuthorRefusal, Authored, DecodeRefusal, Record, StreamId, Written};

use crate::port::{Batch, Row, Rows, Store, StoreFault, StreamHead};

/// The end of a stream: the place and chain hash of its last record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tip {
    /// Place of the last record; zero before the first.
    pub seq: u64,
    /// Chain hash up to and with it.
    pub hash: Digest,
}

impl Tip {
    /// The end of an empty stream.
    pub const START: Self = Self { seq: 0, hash: Digest::ZERO };

    /// Puts a record at the end, behind rows that end here.
    pub fn add<E: Written>(
        &mut self,
        record: &Record<E>,
        rows: &mut Rows,
    ) -> Result<(), AuthorRefusal> {
        debug_assert_eq!(record.seq, self.seq.saturating_add(1));
        debug_assert!(rows.last().is_none_or(|last| last == (self.seq, self.hash)));
        let hash = rows.add(record.seq, self.hash, |bytes| record.encode_into(bytes))?;
        *self = Self { seq: record.seq, hash };
        Ok(())
    }

    /// Follows the chain over one stored row; `None` when it does not fit.
    pub fn follow(&self, row: &Row) -> Option<Self> {
        let hash = Digest::link(self.hash, &row.bytes);
        (row.seq == self.seq.saturating_add(1) && row.hash == hash)
            .then_some(Self { seq: row.seq, hash })
    }
}

/// Rows for the end of a stream.
pub(crate) fn batch(
    stream: StreamId,
    epoch: Option<u64>,
    after: u64,
    rows: Rows,
    tip: Tip,
) -> Batch {
    Batch { epoch, after, rows, head: StreamHead { stream, seq: tip.seq, link: tip.hash } }
}

/// Rows read at once.
pub(crate) const PAGE_ROWS: usize = 1_000;

/// Why a stream could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadFault {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreFault),
    /// The chain is broken.
    #[error("{stream} is damaged at record {seq}; run `toolgate verify`")]
    Broken {
        /// The stream.
        stream: StreamId,
        /// The first record that does not fit.
        seq: u64,
    },
    /// The end of the stream is not where the signed head of the log says.
    #[error(
        "{stream} does not end where the signed head of the log says, so nothing is added to it; \
         run `toolgate verify`"
    )]
    Unsigned {
        /// The stream.
        stream: StreamId,
    },
    /// What only a person may decide rests on no decision that counts.
    #[error(
        "{stream}, record {seq}: a person's decision that does not count; run `toolgate verify` to \
         see why"
    )]
    Unfounded {
        /// The stream.
        stream: StreamId,
        /// The record.
        seq: u64,
    },
    /// The log is not the one that a person saw when they decided something.
    #[error(
        "{stream}, record {seq}: the person who decided this saw another history of the log; run \
         `toolgate verify` to see more"
    )]
    OtherHistory {
        /// The stream.
        stream: StreamId,
        /// The record.
        seq: u64,
    },
    /// The project is not the one that a session saw: it was cut off, or another one was put in its place.
    #[error(
        "{stream} saw record {seq} of a project with another history; run `toolgate verify` to see \
         where they differ"
    )]
    OtherProject {
        /// The session.
        stream: StreamId,
        /// The record of the project that it saw, or its own record that saw less than one before it.
        seq: u64,
    },
    /// A record makes no sense to this program.
    #[error("{stream}, record {seq}: cannot be read by this version of toolgate")]
    Unreadable {
        /// The stream.
        stream: StreamId,
        /// The record.
        seq: u64,
        /// Why.
        source: DecodeRefusal,
    },
}

/// Reads a stream from a tip to its end, checking the chain, and hands over each record.
pub async fn read_from<E: Authored + DeserializeOwned>(
    store: &dyn Store,
    stream: &StreamId,
    mut tip: Tip,
    mut each: impl FnMut(Record<E>, &Row),
) -> Result<Tip, ReadFault> {
    loop {
        let rows = store.read(stream, tip.seq.saturating_add(1), PAGE_ROWS).await?;
        let full = rows.len() == PAGE_ROWS;
        for row in &rows {
            tip = tip.follow(row).ok_or_else(|| ReadFault::Broken {
                stream: stream.clone(),
                seq: tip.seq.saturating_add(1),
            })?;
            let record = Record::decode(&row.bytes).map_err(|source| ReadFault::Unreadable {
                stream: stream.clone(),
                seq: row.seq,
                source,
            })?;
            each(record, row);
        }
        if !full {
            return Ok(tip);
        }
    }
}

/// The same, for a stream that will be added to. It must end where the signed head of the log says:
/// a new signature would vouch for all of it.
pub async fn read_signed<E: Authored + DeserializeOwned>(
    store: &dyn Store,
    stream: &StreamId,
    tip: Tip,
    mut each: impl FnMut(Record<E>, &Row),
) -> Result<Tip, ReadFault> {
    let mut end = read_from(store, stream, tip, &mut each).await?;
    loop {
        let Some(head) = store.head(stream).await? else {
            let empty = end == Tip::START;
            return if empty { Ok(end) } else { Err(unsigned(stream)) };
        };
        if head.seq <= end.seq {
            let same = head.seq == end.seq && head.link == end.hash;
            return if same { Ok(end) } else { Err(unsigned(stream)) };
        }
        // Somebody appended meanwhile. What a head names is there to be read.
        end = read_from(store, stream, end, &mut each).await?;
        if end.seq < head.seq {
            return Err(ReadFault::Broken {
                stream: stream.clone(),
                seq: end.seq.saturating_add(1),
            });
        }
    }
}

/// What was added to a stream after a place, when anything was. Most of the time nothing was, and
/// then there is no head to look up.
pub(crate) async fn news<E: Authored + DeserializeOwned>(
    store: &dyn Store,
    stream: &StreamId,
    after: Tip,
) -> Result<Vec<(Record<E>, Digest)>, ReadFault> {
    let mut news = Vec::new();
    if !store.ends_at(stream, after.seq)
        && !store.read(stream, after.seq.saturating_add(1), 1).await?.is_empty()
    {
        let each = |record, row: &Row| news.push((record, row.hash));
        read_signed(store, stream, after, each).await?;
    }
    Ok(news)
}

fn unsigned(stream: &StreamId) -> ReadFault {
    ReadFault::Unsigned { stream: stream.clone() }
}
