//! Decides when work is durable: what queued while the last commit ran is committed together.

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::StreamId;
use toolgate_kernel::seeded::{Bug, seeded};
use toolgate_runtime::crash_point;
use toolgate_runtime::port::{Append, Checkpoint, StoreFault};

use super::fault::{Severity, severity, tree_severity};
use crate::anchor::AnchorWriter;

use super::open::never_fold;
use super::pen::{CommitSigner, Pen, Verdict};
use super::tree::{LogTree, TreeFault};
use super::worker::{QUEUE_MAX, stopped};

/// What the writer can be asked to do.
pub(super) enum Work {
    /// Take a stream over; answers the new epoch.
    Claim(StreamId),
    /// The same, unless somebody else did since this epoch.
    ClaimAgain(StreamId, u64),
    /// Append, all or nothing.
    Append(Append),
    /// Keep a checkpoint.
    Checkpoint(Checkpoint),
    /// Do something to the connection, to see what becomes of it.
    #[cfg(test)]
    Bend(Bend),
}

/// What a test does to the connection.
#[cfg(test)]
pub(super) type Bend = Box<dyn Fn(&Connection) -> rusqlite::Result<()> + Send>;

/// Work, and who waits for it. The answer is the epoch of a claim, and zero for the rest.
pub(super) struct Order {
    pub(super) work: Work,
    pub(super) answer: oneshot::Sender<Result<u64, StoreFault>>,
}

/// Pages in the WAL from which on it is folded into the file.
const WAL_PAGES_MAX: i64 = 4_000;

/// A log that was opened to be written: checked, and with what signs and remembers its commits.
pub(super) struct SignedLog {
    pub(super) connection: Connection,
    pub(super) tree: LogTree,
    pub(super) signer: CommitSigner,
    pub(super) anchor: Option<AnchorWriter>,
}

/// Writes until nobody can order any more, then folds the WAL into the file.
pub(super) fn run(signed: SignedLog, mut orders: mpsc::Receiver<Order>) {
    let SignedLog { connection, tree, signer, anchor } = signed;
    let mut writer = Writer::new(&connection, tree, signer, anchor);
    let mut group = Vec::new();
    // The first order is waited for; what queued since is taken along, and no time is spent
    // waiting for more. While this group is committed, the next one gathers.
    while let Some(first) = orders.blocking_recv() {
        group.push(first);
        while group.len() < QUEUE_MAX
            && let Ok(next) = orders.try_recv()
        {
            group.push(next);
        }
        writer.write(&mut group);
        writer.fold_when_due();
    }
    writer.close();
}

/// Writes a group in one transaction, signed, and remembers its head once it is durable.
fn write_group(
    pen: &mut Pen<'_>,
    anchor: Option<&AnchorWriter>,
    group: &[Order],
) -> Result<Vec<Verdict>, TreeFault> {
    pen.begin()?;
    let verdicts: Vec<Verdict> =
        group.iter().map(|order| pen.write(&order.work)).collect::<Result<_, _>>()?;
    let sealed = pen.seal()?.map(|(note, tree)| (note, tree.head().size, tree.at()));
    // An anchor that is not written is older than it could be, which is only weaker.
    let remember = |anchor: &AnchorWriter| {
        if let Some((note, size, at)) = &sealed {
            drop(anchor.write(note.clone(), *size, *at));
        }
    };
    if let Some(anchor) = anchor {
        // One that is missing makes a restored backup weaker, and nothing else.
        drop(anchor.copy(project_rows(group, &verdicts)));
    }
    if seeded(Bug::AnchorBeforeCommit) {
        anchor.iter().for_each(|anchor| remember(anchor));
    }
    crash_point!("before_log_commit");
    pen.commit()?;
    crash_point!("after_log_commit");
    anchor.iter().for_each(|anchor| remember(anchor));
    crash_point!("after_anchor");
    Ok(verdicts)
}

/// The records of the project stream that a group adds.
fn project_rows<'a>(
    group: &'a [Order],
    verdicts: &'a [Verdict],
) -> impl Iterator<Item = (u64, Digest, &'a [u8])> {
    let appends = group.iter().zip(verdicts).filter_map(|(order, verdict)| {
        let Work::Append(append) = &order.work else { return None };
        verdict.is_ok().then_some(append)
    });
    let batches = appends.flat_map(|append| &append.batches);
    let project = batches.filter(|batch| *batch.stream() == StreamId::Project);
    project.flat_map(|batch| batch.rows.iter().map(|row| (row.seq, row.hash, row.bytes)))
}

struct Writer<'c> {
    connection: &'c Connection,
    /// The prepared statements, or the fault after which nothing may be written.
    pen: Result<Pen<'c>, StoreFault>,
    anchor: Option<AnchorWriter>,
}

impl<'c> Writer<'c> {
    fn new(
        connection: &'c Connection,
        tree: LogTree,
        signer: CommitSigner,
        anchor: Option<AnchorWriter>,
    ) -> Self {
        let mut writer = Self { connection, pen: Err(stopped()), anchor };
        match Pen::new(connection, tree, signer) {
            Ok(pen) => writer.pen = Ok(pen),
            Err(error) => drop(writer.give_up(&error)),
        }
        writer
    }

    /// Commits a group and answers everybody in it. Nobody is answered before the commit is.
    fn write(&mut self, group: &mut Vec<Order>) {
        let verdicts = match self.commit(group) {
            // One order cannot be written. Alone, it can harm nobody else.
            Err(Severity::Content(_)) if group.len() > 1 => {
                let alone = |order| match self.commit(std::slice::from_ref(order)) {
                    Ok(verdicts) => verdicts.into_iter().next().unwrap_or_else(|| Err(stopped())),
                    Err(severity) => Err(severity.fault()),
                };
                group.iter().map(alone).collect()
            }
            Err(severity) => {
                let fault = severity.fault();
                group.iter().map(|_| Err(fault.clone())).collect()
            }
            Ok(verdicts) => verdicts,
        };
        for (order, verdict) in group.drain(..).zip(verdicts) {
            // Whoever stopped waiting reads the log to learn what became of it.
            drop(order.answer.send(verdict));
        }
    }

    /// Writes a group in one transaction. A verdict of refusal takes nothing from the others.
    fn commit(&mut self, group: &[Order]) -> Result<Vec<Verdict>, Severity> {
        let (pen, anchor) = (&mut self.pen, &self.anchor);
        let pen = pen.as_mut().map_err(|fault| Severity::Final(fault.clone()))?;
        let written = write_group(pen, anchor.as_ref(), group);
        written.map_err(|fault| self.undo(&fault))
    }

    /// Takes a failed group back, as far as SQLite has not done so itself.
    fn undo(&mut self, fault: &TreeFault) -> Severity {
        let undone = match &mut self.pen {
            Ok(pen) => {
                pen.forget();
                if self.connection.is_autocommit() { Ok(()) } else { pen.roll_back() }
            }
            Err(_) => Ok(()),
        };
        match (tree_severity(fault), undone) {
            (Severity::Final(fault), _) => self.stop_writing(fault),
            (_, Err(error)) => self.give_up(&error),
            (severity, Ok(())) => severity,
        }
    }

    /// Stops writing for good. Nor is the WAL folded any more: a failed fsync may have dropped
    /// what it was to write, so the WAL must stay until another process has read it.
    fn give_up(&mut self, error: &rusqlite::Error) -> Severity {
        self.stop_writing(severity(error).fault())
    }

    fn stop_writing(&mut self, fault: StoreFault) -> Severity {
        drop(never_fold(self.connection));
        self.pen = Err(fault.clone());
        Severity::Final(fault)
    }

    /// Folds a long WAL into the file. Everybody was answered before; nobody waits for this.
    fn fold_when_due(&mut self) {
        let Ok(pen) = &mut self.pen else { return };
        let folded = pen
            .wal_pages()
            .and_then(|pages| if pages < WAL_PAGES_MAX { Ok(()) } else { pen.fold() });
        if let Err(error) = folded
            && let Severity::Final(_) = severity(&error)
        {
            drop(self.give_up(&error));
        }
    }

    /// Leaves one file behind, when that is possible. Otherwise the next start does it.
    fn close(self) {
        if self.pen.is_ok() {
            let fold = "PRAGMA wal_checkpoint(TRUNCATE)";
            drop(self.connection.query_row(fold, (), |_| Ok(())));
        }
    }
}
