//! Decides how what is stored is read back, and when it is called damaged.

use rusqlite::{Connection, OptionalExtension, Result, Row as SqlRow, Statement};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::StreamId;
use toolgate_kernel::tree::{LogId, TreeHead};
use toolgate_runtime::HostPublicKey;
use toolgate_runtime::port::{Checkpoint, IntegrityProblem, Row, StoreFault, StreamHead};

use super::fault::{read_fault, tree_fault};
use super::number::count;
use super::tree::{LogTree, check_commits, stored_note, stored_root};

/// The prepared reads.
pub(super) struct Shelf<'c> {
    connection: &'c Connection,
    log: LogId,
    host: HostPublicKey,
    /// What the newest head covers, once anybody asked for it.
    tree: Option<LogTree>,
    rows: Statement<'c>,
    heads: Statement<'c>,
    epoch: Statement<'c>,
    blob: Statement<'c>,
    project_end: Statement<'c>,
}

/// Rows that belong to nothing, each question with what is wrong where the answer is not 0.
const STRAYS: &[(&str, &str)] = &[
    (
        "SELECT count(*) FROM records WHERE stream NOT IN (SELECT id FROM streams WHERE seq > 0)",
        "there are records of a stream that is lost",
    ),
    ("SELECT count(*) FROM records WHERE seq < 1", "there are records before the first place"),
    (
        "SELECT count(*) FROM checkpoints WHERE stream NOT IN (SELECT stream FROM streams)",
        "there is a checkpoint of a stream that is lost",
    ),
    (
        "SELECT count(*) FROM meta WHERE name NOT IN ('log', 'host', 'note', 'schema_version')",
        "there is something beside the log's name, key and head that toolgate did not write",
    ),
];

type Read<T> = std::result::Result<T, StoreFault>;

impl<'c> Shelf<'c> {
    pub(super) fn new(connection: &'c Connection, log: LogId, host: HostPublicKey) -> Result<Self> {
        Ok(Self {
            connection,
            log,
            host,
            tree: None,
            rows: connection.prepare(
                "SELECT seq, bytes, link FROM records \
                 WHERE stream = (SELECT id FROM streams WHERE stream = ?1) AND seq >= ?2 \
                 ORDER BY seq LIMIT ?3",
            )?,
            heads: connection.prepare("SELECT stream, seq, link FROM streams WHERE seq > 0")?,
            epoch: connection.prepare("SELECT epoch FROM streams WHERE stream = ?1")?,
            blob: connection.prepare("SELECT bytes FROM blobs WHERE hash = ?1")?,
            // Rows lie in the order in which they were written.
            project_end: connection.prepare(
                "SELECT coalesce((SELECT seq FROM records \
                 WHERE stream = (SELECT id FROM streams WHERE stream = 'project') \
                 AND rowid < one.rowid ORDER BY seq DESC LIMIT 1), 0) FROM records AS one \
                 WHERE one.stream = (SELECT id FROM streams WHERE stream = ?1) AND one.seq = ?2",
            )?,
        })
    }

    /// Up to `rows_max` records from place `from` on.
    pub(super) fn rows(&mut self, stream: &StreamId, from: u64, rows_max: usize) -> Read<Vec<Row>> {
        // No stream is longer than SQLite can count.
        let Ok(from) = i64::try_from(from) else { return Ok(Vec::new()) };
        let rows_max = i64::try_from(rows_max).unwrap_or(i64::MAX);
        let row = |row: &SqlRow<'_>| {
            Ok(Row { seq: count(row, 0)?, bytes: row.get(1)?, hash: hash(row, 2)? })
        };
        let rows = self.rows.query_map((stream.to_string(), from, rows_max), row);
        rows.and_then(Iterator::collect).map_err(|error| read_fault(&error))
    }

    /// Asks for what the newest signed head covers, at one moment of the file.
    fn signed<T>(&mut self, ask: impl FnOnce(&LogTree, &Connection) -> Read<T>) -> Read<T> {
        let moment = self.connection.unchecked_transaction().map_err(|error| read_fault(&error))?;
        // One that did not fit is not kept: the next question finds out anew.
        let tree = match self.tree.take() {
            Some(mut tree) => tree.follow(&moment).map(|()| tree),
            None => LogTree::load(&moment, self.log, self.host),
        };
        let tree = tree.map_err(tree_fault)?;
        let answer = ask(&tree, &moment);
        self.tree = Some(tree);
        answer
    }

    /// The newest place of a stream, as the signed head has it.
    pub(super) fn head(&mut self, stream: StreamId) -> Read<Option<StreamHead>> {
        self.signed(|tree, _| {
            let end = tree.find(&stream.to_string()).and_then(|at| tree.end(at));
            let end = end.filter(|end| end.seq > 0);
            Ok(end.map(|end| StreamHead { stream, seq: end.seq, link: end.link }))
        })
    }

    /// The newest place of every stream as it is stored, in the order of streams.
    pub(super) fn heads(&mut self) -> Read<Vec<StreamHead>> {
        let head = |row: &SqlRow<'_>| Ok((row.get::<_, String>(0)?, count(row, 1)?, hash(row, 2)?));
        let found: Result<Vec<_>> = self.heads.query_map((), head).and_then(Iterator::collect);
        let mut heads = Vec::new();
        for (stream, seq, link) in found.map_err(|error| read_fault(&error))? {
            let Some(stream) = StreamId::parse(&stream) else {
                return Err(StoreFault::Damaged(format!("{stream:?} is not the name of a stream")));
            };
            heads.push(StreamHead { stream, seq, link });
        }
        heads.sort_by(|a, b| a.stream.cmp(&b.stream));
        Ok(heads)
    }

    /// The newest signed head as a note, when it is what the log says.
    pub(super) fn note(&mut self) -> Read<Option<String>> {
        self.signed(|_, connection| stored_note(connection).map_err(tree_fault))
    }

    /// The newest signed head.
    pub(super) fn tree_head(&mut self) -> Read<Option<TreeHead>> {
        self.signed(|tree, _| {
            let head = tree.head();
            Ok((head.size > 0).then_some(head))
        })
    }

    /// Where the project ended when a record was written.
    pub(super) fn project_end_at(&mut self, stream: &StreamId, seq: u64) -> Read<Option<u64>> {
        let Ok(seq) = i64::try_from(seq) else { return Ok(None) };
        let row = (stream.to_string(), seq);
        let found = self.project_end.query_row(row, |row| count(row, 0)).optional();
        found.map_err(|error| read_fault(&error))
    }

    /// The root over the first commits.
    pub(super) fn root_at(&mut self, size: u64) -> Read<Option<Digest>> {
        self.signed(|_, connection| stored_root(connection, size).map_err(tree_fault))
    }

    /// Everything that is stored beside the records and is not as it was written.
    pub(super) fn integrity(&mut self) -> Read<Vec<IntegrityProblem>> {
        let of_log = |what: String| IntegrityProblem { stream: "log".to_owned(), seq: 0, what };
        let mut problems = Vec::new();
        match self.changed_checkpoints() {
            Ok(changed) => problems.extend(changed.into_iter().map(|stream| IntegrityProblem {
                stream,
                seq: 0,
                what: "the checkpoint is not the one that the signed head covers".to_owned(),
            })),
            Err(StoreFault::Damaged(what)) => problems.push(of_log(what)),
            Err(fault) => return Err(fault),
        }
        let commits = check_commits(self.connection).map_err(|error| read_fault(&error))?;
        problems.extend(commits.into_iter().map(of_log));
        for (question, what) in STRAYS {
            let counted: Result<i64> = self.connection.query_row(question, (), |row| row.get(0));
            if counted.map_err(|error| read_fault(&error))? != 0 {
                problems.push(of_log((*what).to_owned()));
            }
        }
        Ok(problems)
    }

    /// The epoch of the last take-over of a stream.
    pub(super) fn epoch(&mut self, stream: &StreamId) -> Read<u64> {
        let found = self.epoch.query_row([stream.to_string()], |row| count(row, 0)).optional();
        found.map(Option::unwrap_or_default).map_err(|error| read_fault(&error))
    }

    /// A content kept aside, if it still is what it was.
    pub(super) fn blob(&mut self, hash: Digest) -> Read<Option<Vec<u8>>> {
        let found = self.blob.query_row([hash.0.as_slice()], |row| row.get(0)).optional();
        let bytes: Option<Vec<u8>> = found.map_err(|error| read_fault(&error))?;
        match bytes {
            Some(bytes) if Digest::of(&bytes) != hash => {
                Err(StoreFault::Damaged(format!("the content kept under {hash} is another one")))
            }
            sound => Ok(sound),
        }
    }

    /// The checkpoint of a stream. One that the signed head does not cover is as good as none.
    pub(super) fn checkpoint(&mut self, stream: &StreamId) -> Read<Option<Checkpoint>> {
        self.signed(|tree, moment| {
            let end = tree.find(&stream.to_string()).and_then(|at| tree.end(at));
            let signed = end.and_then(|end| end.checkpoint);
            let found = stored_checkpoint(moment, stream).map_err(|error| read_fault(&error))?;
            Ok(found.filter(|found| Some(found.digest()) == signed))
        })
    }

    /// Streams whose checkpoint is not the one that the signed head covers.
    fn changed_checkpoints(&mut self) -> Read<Vec<String>> {
        let name = |row: &SqlRow<'_>| row.get::<_, String>(0);
        self.signed(|tree, moment| {
            let names: Result<Vec<String>> = moment
                .prepare("SELECT stream FROM checkpoints")
                .and_then(|mut all| all.query_map((), name)?.collect());
            let mut changed = Vec::new();
            for name in names.map_err(|error| read_fault(&error))? {
                let end = tree.find(&name).and_then(|at| tree.end(at));
                let found = StreamId::parse(&name).map(|stream| stored_checkpoint(moment, &stream));
                let sound = match (end, found) {
                    (Some(end), Some(Ok(Some(found)))) => end.checkpoint == Some(found.digest()),
                    _ => false,
                };
                if !sound {
                    changed.push(name);
                }
            }
            // One that is signed and gone.
            for end in tree.ends().filter(|end| end.checkpoint.is_some()) {
                let stream = StreamId::parse(&end.name);
                let found = stream.map(|stream| stored_checkpoint(moment, &stream));
                if !matches!(found, Some(Ok(Some(_)))) && !changed.contains(&end.name) {
                    changed.push(end.name.clone());
                }
            }
            Ok(changed)
        })
    }
}

fn stored_checkpoint(connection: &Connection, stream: &StreamId) -> Result<Option<Checkpoint>> {
    let checkpoint = |row: &SqlRow<'_>| {
        let (seq, body) = (count(row, 0)?, row.get(2)?);
        Ok(Checkpoint { stream: stream.clone(), seq, hash: hash(row, 1)?, body })
    };
    let mut find =
        connection.prepare_cached("SELECT seq, link, body FROM checkpoints WHERE stream = ?1")?;
    find.query_row([stream.to_string()], checkpoint).optional()
}

fn hash(row: &SqlRow<'_>, column: usize) -> Result<Digest> {
    row.get(column).map(Digest)
}
