//! What of a log a signed head covers: the ends of all streams, and every commit before.
//!
//! A log is loaded once, in one moment of the file. After that it follows what other processes
//! committed, and accepts only what their signed heads cover.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Row as SqlRow};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::tree::{CommitLeaf, Frontier, LogId, StreamEnd, StreamTree, TreeHead};
use toolgate_runtime::{HostKey, HostPublicKey};

use super::number::{count, stored};

/// Heads of other processes that are followed one by one; of more, everything is loaded anew.
const FOLLOWED_MAX: u64 = 10_000;

/// Bytes of the number of a stream in a list of those that a commit changed.
const NUMBER_BYTES: usize = size_of::<u32>();

/// Everything that the newest signed head covers, beside the records.
pub(super) struct LogTree {
    log: LogId,
    host: HostPublicKey,
    /// The end of each stream; the stream with number 1 is first.
    ends: Vec<StreamEnd>,
    by_name: BTreeMap<String, usize>,
    streams: StreamTree,
    commits: Frontier,
    /// The newest head that is known to be durable.
    committed: TreeHead,
    /// When the newest commit was made.
    at: Timestamp,
    note: Option<String>,
    /// Streams that changed since the newest head.
    changed: Vec<usize>,
}

/// Why a log is not what its signed head says.
#[derive(Debug)]
pub(super) enum TreeFault {
    Sql(rusqlite::Error),
    Damaged(String),
}

impl From<rusqlite::Error> for TreeFault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

type Result<T> = std::result::Result<T, TreeFault>;

fn damaged<T>(what: impl Into<String>) -> Result<T> {
    Err(TreeFault::Damaged(what.into()))
}

/// One commit as it is stored.
struct StoredCommit {
    leaf: CommitLeaf,
    nodes: Vec<Digest>,
    changed: Vec<usize>,
}

impl LogTree {
    /// Loads what the newest head covers. The caller has a transaction open, or the only connection.
    pub(super) fn load(connection: &Connection, log: LogId, host: HostPublicKey) -> Result<Self> {
        let mut tree = Self {
            log,
            host,
            ends: Vec::new(),
            by_name: BTreeMap::new(),
            streams: StreamTree::default(),
            committed: TreeHead { size: 0, root: Frontier::EMPTY.root() },
            commits: Frontier::EMPTY,
            at: Timestamp(i64::MIN),
            note: None,
            changed: Vec::new(),
        };
        tree.load_all(connection)?;
        Ok(tree)
    }

    /// Loads everything anew, after a transaction that was not committed. What was committed before
    /// must still be there.
    pub(super) fn reload(&mut self, connection: &Connection) -> Result<()> {
        let fresh = Self::load(connection, self.log, self.host)?;
        let TreeHead { size, root } = self.committed;
        if fresh.committed.size < size {
            let now = fresh.committed.size;
            return damaged(format!("it went back from commit {size} to {now}"));
        }
        if stored_root(connection, size)? != Some(root) {
            return damaged("its history was rewritten");
        }
        *self = fresh;
        Ok(())
    }

    /// Says that what was sealed last is durable.
    pub(super) fn was_committed(&mut self) {
        self.committed = self.head();
    }

    fn load_all(&mut self, connection: &Connection) -> Result<()> {
        let note = stored_note(connection)?;
        let (ends, commits) = (stream_ends(connection)?, commit_count(connection)?);
        let Some(note) = note else {
            if commits > 0 || !ends.is_empty() {
                return damaged("it has records and no signed head");
            }
            return Ok(());
        };
        let head = self.open_note(&note)?;
        if head.size != commits || commits == 0 {
            let size = head.size;
            return damaged(format!("its signed head counts {size} commits and it has {commits}"));
        }
        let (commits, newest) = check_head(connection, head)?;
        self.streams = StreamTree::new(ends.iter().map(StreamEnd::hash).collect());
        if self.streams.root() != newest.leaf.streams_root {
            return damaged("the streams are not those that its signed head covers");
        }
        let names = ends.iter().enumerate().map(|(at, end)| (end.name.clone(), at));
        self.by_name = names.collect();
        (self.ends, self.commits) = (ends, commits);
        (self.note, self.at) = (Some(note), newest.leaf.at);
        self.committed = head;
        self.changed.clear();
        Ok(())
    }

    /// Takes in what other processes committed since. The caller has a transaction open.
    pub(super) fn follow(&mut self, connection: &Connection) -> Result<()> {
        let note = stored_note(connection)?;
        if note == self.note {
            return Ok(());
        }
        let Some(note) = note else { return damaged("its signed head is gone") };
        let head = self.open_note(&note)?;
        let before = self.head();
        if head.size <= before.size {
            let (before, now) = (before.size, head.size);
            return damaged(format!("it went back from commit {before} to {now}"));
        }
        if stored_root(connection, before.size)? != Some(before.root) {
            return damaged("its history was rewritten");
        }
        if head.size - before.size > FOLLOWED_MAX {
            return self.load_all(connection);
        }
        let (commits, newest) = check_head(connection, head)?;
        let mut changed = Vec::new();
        for number in before.size..head.size {
            changed.extend(stored_commit(connection, number)?.changed);
        }
        changed.sort_unstable();
        changed.dedup();
        let mut find = connection.prepare_cached(STREAM)?;
        for at in changed {
            let id = Self::id(at);
            let end = find.query_row([id], stream_end).optional()?;
            match end {
                Some((_, end)) => self.put(at, end),
                None => return damaged("a stream is gone"),
            }
        }
        let changed = self.take_changed();
        self.set_leaves(&changed)?;
        if self.streams.root() != newest.leaf.streams_root {
            return damaged("the streams are not those that its signed head covers");
        }
        (self.commits, self.note, self.at) = (commits, Some(note), newest.leaf.at);
        self.committed = head;
        Ok(())
    }

    fn open_note(&self, note: &str) -> Result<TreeHead> {
        let opened = self.host.open(self.log, note);
        opened.map_err(|fault| TreeFault::Damaged(fault.to_string()))
    }

    /// Adds a commit for everything that changed, signed, and hands over its note. Nothing changed,
    /// nothing is added.
    pub(super) fn seal(
        &mut self,
        connection: &Connection,
        host: &HostKey,
        now: Timestamp,
    ) -> Result<Option<String>> {
        if self.changed.is_empty() {
            return Ok(None);
        }
        let changed = self.take_changed();
        self.store_streams(connection, &changed)?;
        self.set_leaves(&changed)?;
        // The clock may have been set back; commits are in the order in which they were made.
        self.at = now.max(self.at);
        let (number, streams_root) = (self.commits.size(), self.streams.root());
        let leaf = CommitLeaf { number, streams_root, at: self.at };
        let nodes = self.commits.push(leaf.hash());
        insert_commit(connection, &leaf, &nodes, &changed)?;
        let note = host.sign(self.log, self.head()).to_string();
        connection.prepare_cached(KEEP_NOTE)?.execute([&note])?;
        self.note = Some(note.clone());
        Ok(Some(note))
    }

    /// The streams that changed since the newest head, each once.
    fn take_changed(&mut self) -> Vec<usize> {
        let mut changed = std::mem::take(&mut self.changed);
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    fn store_streams(&self, connection: &Connection, changed: &[usize]) -> Result<()> {
        let mut store = connection.prepare_cached(STORE_STREAM)?;
        for at in changed {
            let Some(end) = self.ends.get(*at) else { continue };
            let id = Self::id(*at);
            let checkpoint = end.checkpoint.as_ref().map(|digest| digest.0.as_slice());
            let (epoch, seq) = (stored(end.epoch)?, stored(end.seq)?);
            store.execute((id, &end.name, epoch, seq, end.link.0.as_slice(), checkpoint))?;
        }
        Ok(())
    }

    fn set_leaves(&mut self, changed: &[usize]) -> Result<()> {
        let leaf = |at: &usize| Some((*at, self.ends.get(*at)?.hash()));
        let leaves: Vec<(usize, Digest)> = changed.iter().filter_map(leaf).collect();
        if self.streams.set(&leaves) {
            Ok(())
        } else {
            damaged("the number of a stream is left out")
        }
    }

    /// The place of a stream in the list, when it was ever written or taken over.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The place of a stream, which is made where there is none.
    pub(super) fn find_or_add(&mut self, name: &str) -> usize {
        self.find(name).unwrap_or_else(|| {
            let at = self.ends.len();
            self.put(at, StreamEnd::new(name.to_owned()));
            at
        })
    }

    /// The end of a stream.
    pub(super) fn end(&self, at: usize) -> Option<&StreamEnd> {
        self.ends.get(at)
    }

    /// The end of each stream.
    pub(super) fn ends(&self) -> impl Iterator<Item = &StreamEnd> {
        self.ends.iter()
    }

    /// The end of a stream, which is about to change.
    pub(super) fn change(&mut self, at: usize) -> Option<&mut StreamEnd> {
        self.changed.push(at);
        self.ends.get_mut(at)
    }

    /// The number that records of a stream carry.
    pub(super) fn id(at: usize) -> i64 {
        i64::try_from(at).unwrap_or(i64::MAX).saturating_add(1)
    }

    pub(super) fn head(&self) -> TreeHead {
        TreeHead { size: self.commits.size(), root: self.commits.root() }
    }

    pub(super) fn at(&self) -> Timestamp {
        self.at
    }

    fn put(&mut self, at: usize, end: StreamEnd) {
        self.changed.push(at);
        match self.ends.get_mut(at) {
            Some(there) => *there = end,
            None => {
                self.by_name.insert(end.name.clone(), self.ends.len());
                self.ends.push(end);
            }
        }
    }
}

/// Checks every commit, from the first one on, and says where one is not what its leaf gives.
pub(super) fn check_commits(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut commits =
        connection.prepare("SELECT n, at, streams_root, nodes, changed FROM heads ORDER BY n")?;
    let mut rows = commits.query(())?;
    let (mut commits, mut problems) = (Frontier::EMPTY, Vec::new());
    while let Some(row) = rows.next()? {
        let expected = commits.size();
        let Ok(commit) = commit(row) else {
            problems.push(format!("commit {expected} cannot be read"));
            break;
        };
        if commit.leaf.number != expected {
            problems.push(format!("commit {expected} is missing"));
            break;
        }
        if commits.push(commit.leaf.hash()) != commit.nodes {
            problems.push(format!("commit {expected} is not the one that was signed"));
            break;
        }
    }
    Ok(problems)
}

/// Checks the commits against a head.
fn check_head(connection: &Connection, head: TreeHead) -> Result<(Frontier, StoredCommit)> {
    let commits = Frontier::load(head.size, |at| stored_nodes(connection, at))?;
    let Some(commits) = commits.filter(|commits| commits.root() == head.root) else {
        return damaged("its commits are not those that its signed head covers");
    };
    let newest = stored_commit(connection, head.size.saturating_sub(1))?;
    if newest.nodes.first() != Some(&newest.leaf.hash()) {
        return damaged("its newest commit is not the one that its signed head covers");
    }
    Ok((commits, newest))
}

const NOTE: &str = "SELECT value FROM meta WHERE name = 'note'";
const KEEP_NOTE: &str = "INSERT INTO meta (name, value) VALUES ('note', ?1) \
     ON CONFLICT (name) DO UPDATE SET value = excluded.value";
const STREAM: &str = "SELECT id, stream, epoch, seq, link, checkpoint FROM streams WHERE id = ?1";
const STREAMS: &str = "SELECT id, stream, epoch, seq, link, checkpoint FROM streams ORDER BY id";
const STORE_STREAM: &str = "INSERT INTO streams (id, stream, epoch, seq, link, checkpoint) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, \
     seq = excluded.seq, link = excluded.link, checkpoint = excluded.checkpoint";
const COMMIT: &str = "SELECT n, at, streams_root, nodes, changed FROM heads WHERE n = ?1";
const NODES: &str = "SELECT nodes FROM heads WHERE n = ?1";

/// The newest signed head, as it is stored.
pub(super) fn stored_note(connection: &Connection) -> Result<Option<String>> {
    let note = connection.prepare_cached(NOTE)?.query_row((), |row| row.get(0)).optional();
    Ok(note?)
}

fn commit_count(connection: &Connection) -> Result<u64> {
    let newest: Option<i64> =
        connection.query_row("SELECT max(n) FROM heads", (), |row| row.get(0))?;
    match newest.map(u64::try_from) {
        None => Ok(0),
        Some(Ok(newest)) => Ok(newest.saturating_add(1)),
        Some(Err(_)) => damaged("a commit has a number below zero"),
    }
}

/// The root over the first commits; `None` where there are fewer.
pub(super) fn stored_root(connection: &Connection, size: u64) -> Result<Option<Digest>> {
    let commits = Frontier::load(size, |at| stored_nodes(connection, at))?;
    Ok(commits.map(|commits| commits.root()))
}

fn stored_nodes(connection: &Connection, number: u64) -> Result<Vec<Digest>> {
    let found: Option<Vec<u8>> = connection
        .prepare_cached(NODES)?
        .query_row([stored(number)?], |row| row.get(0))
        .optional()?;
    Ok(digests(&found.unwrap_or_default()))
}

fn stored_commit(connection: &Connection, number: u64) -> Result<StoredCommit> {
    let found =
        connection.prepare_cached(COMMIT)?.query_row([stored(number)?], commit).optional()?;
    found.map_or_else(|| damaged(format!("commit {number} is missing")), Ok)
}

fn commit(row: &SqlRow<'_>) -> rusqlite::Result<StoredCommit> {
    let (nodes, changed): (Vec<u8>, Vec<u8>) = (row.get(3)?, row.get(4)?);
    let leaf = CommitLeaf {
        number: count(row, 0)?,
        at: Timestamp(row.get(1)?),
        streams_root: Digest(row.get(2)?),
    };
    let number = |chunk: &[u8; NUMBER_BYTES]| usize::try_from(u32::from_le_bytes(*chunk)).ok();
    let changed = changed.as_chunks::<NUMBER_BYTES>().0.iter().filter_map(number).collect();
    Ok(StoredCommit { leaf, nodes: digests(&nodes), changed })
}

fn insert_commit(
    connection: &Connection,
    leaf: &CommitLeaf,
    nodes: &[Digest],
    changed: &[usize],
) -> Result<()> {
    let nodes: Vec<u8> = nodes.iter().flat_map(|node| node.0).collect();
    let mut numbers = Vec::with_capacity(changed.len() * NUMBER_BYTES);
    for at in changed {
        let Ok(number) = u32::try_from(*at) else { return damaged("it has too many streams") };
        numbers.extend_from_slice(&number.to_le_bytes());
    }
    let insert =
        "INSERT INTO heads (n, at, streams_root, nodes, changed) VALUES (?1, ?2, ?3, ?4, ?5)";
    let row = (stored(leaf.number)?, leaf.at.0, leaf.streams_root.0.as_slice(), nodes, numbers);
    connection.prepare_cached(insert)?.execute(row)?;
    Ok(())
}

fn digests(bytes: &[u8]) -> Vec<Digest> {
    bytes.as_chunks().0.iter().copied().map(Digest).collect()
}

/// The end of each stream, in the order of their numbers, which leave none out.
fn stream_ends(connection: &Connection) -> Result<Vec<StreamEnd>> {
    let mut all = connection.prepare(STREAMS)?;
    let mut ends = Vec::new();
    for found in all.query_map((), stream_end)? {
        let (id, end) = found?;
        if id != LogTree::id(ends.len()) {
            return damaged("a stream is gone");
        }
        ends.push(end);
    }
    Ok(ends)
}

fn stream_end(row: &SqlRow<'_>) -> rusqlite::Result<(i64, StreamEnd)> {
    let checkpoint: Option<[u8; 32]> = row.get(5)?;
    let end = StreamEnd {
        name: row.get(1)?,
        epoch: count(row, 2)?,
        seq: count(row, 3)?,
        link: Digest(row.get(4)?),
        checkpoint: checkpoint.map(Digest),
    };
    Ok((row.get(0)?, end))
}
