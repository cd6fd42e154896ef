//! Checks whether a log may be written: it is what its signed head says, this machine signed it, and
//! it is not older than what is remembered of it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::seeded::{Bug, seeded};
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::tree::LogId;
use toolgate_runtime::HostPublicKey;

use super::number::count;
use super::tree::{LogTree, TreeFault, stored_root};
use super::{LogSetup, OpenFault, open};
use crate::anchor::{Anchor, AnchorFolder, AnchorWriter};
use crate::decision_copies::DecisionCopies;
use crate::pointer::LogPointer;

/// A log that may be written.
pub(super) struct CheckedLog {
    pub(super) connection: Connection,
    pub(super) tree: LogTree,
    pub(super) log: LogId,
    pub(super) host: HostPublicKey,
    pub(super) newest_at: Timestamp,
    pub(super) anchor: Option<AnchorWriter>,
}

/// Whether a log may be an older state than what is remembered of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OlderState {
    /// It is refused.
    Refused,
    /// It is opened for an owner to accept it. What is remembered stays as it is.
    Opened,
}

/// Opens a log and checks all of that. Where there was no log, one is made.
pub(super) fn open_checked(
    path: &Path,
    setup: &LogSetup,
    older: OlderState,
) -> Result<CheckedLog, OpenFault> {
    let anchors = setup.anchors.as_ref();
    let pointer = setup.pointer.as_deref();
    if let Some(anchors) = anchors.filter(|_| !path.exists()) {
        // Before a new file takes its place.
        check_lost(path, &known_folder(path, pointer)?, anchors, None)?;
    }
    if pointer.is_some() && !path.exists() {
        // A pointer is written for a log that is there.
        let source = std::io::Error::from(ErrorKind::NotFound);
        return Err(OpenFault::Unreachable { path: path.to_owned(), source });
    }
    let connection = open::for_writing(path)?;
    let log = open::log_id(&connection, path)?;
    let own = setup.host.public();
    open::set_host(&connection, path, own)?;
    let host = open::host(&connection, path)?.unwrap_or(own);
    let folder = known_folder(path, pointer)?;
    if let Some(anchors) = anchors {
        check_lost(path, &folder, anchors, Some(log))?;
    }
    if host != own {
        return Err(OpenFault::OtherHost { path: path.to_owned(), found: host, own });
    }
    let tree = load(&connection, path, log, host)?;
    let mut newest_at = tree.at();
    let mut anchor = None;
    if let Some(anchors) = anchors {
        let unreadable = |source| OpenFault::Anchor { path: anchors.file(log), source };
        let found = anchors.read(log).map_err(unreadable)?;
        check_pointer(pointer, path, &folder, found.as_ref())?;
        if let Some(found) = found {
            check_copy(path, &folder, log, &found)?;
            if older == OlderState::Refused {
                check_anchor(&connection, path, (log, host), &found)?;
            }
            newest_at = newest_at.max(found.at);
        }
        anchors.set_log_in(&folder, log).map_err(unreadable)?;
        anchor = Some(match older {
            OlderState::Refused => {
                begin_copies(&connection, path, &anchors.copies(log))?;
                anchors.writer(log, &folder).map_err(unreadable)?
            }
            OlderState::Opened => anchors.writer_of_copies(log, &folder),
        });
    }
    Ok(CheckedLog { connection, tree, log, host, newest_at, anchor })
}

/// Compares a log that is only read with what is remembered of it.
pub(super) fn compare(
    path: &Path,
    pointer: Option<&Path>,
    anchors: &AnchorFolder,
) -> Result<Option<Anchor>, OpenFault> {
    if !path.exists() {
        return check_lost(path, &known_folder(path, pointer)?, anchors, None).map(|()| None);
    }
    let connection = open::for_looking(path)?;
    let (log, folder) = (open::log_id(&connection, path)?, known_folder(path, pointer)?);
    check_lost(path, &folder, anchors, Some(log))?;
    let unreadable = |source| OpenFault::Anchor { path: anchors.file(log), source };
    let found = anchors.read(log).map_err(unreadable)?;
    check_pointer(pointer, path, &folder, found.as_ref())?;
    if let Some(anchor) = &found {
        check_copy(path, &folder, log, anchor)?;
        let Some(host) = open::host(&connection, path)? else {
            // A log that was ever committed to has the key that signed it.
            let (path, anchored, at) = (path.to_owned(), anchor.size, anchor.at);
            return Err(OpenFault::RolledBack { path, found: 0, anchored, at });
        };
        check_anchor(&connection, path, (log, host), anchor)?;
    }
    Ok(found)
}

fn load(
    connection: &Connection,
    path: &Path,
    log: LogId,
    host: HostPublicKey,
) -> Result<LogTree, OpenFault> {
    let failed = |source| open::unusable(path, source);
    // One moment of the file: another process may be writing.
    let moment = connection.unchecked_transaction().map_err(failed)?;
    LogTree::load(&moment, log, host).map_err(|fault| of_tree(path, fault))
}

fn of_tree(path: &Path, fault: TreeFault) -> OpenFault {
    match fault {
        TreeFault::Sql(source) => open::unusable(path, source),
        TreeFault::Damaged(what) => OpenFault::Damaged { path: path.to_owned(), what },
    }
}

/// Refuses a folder that had another log, which did not move elsewhere.
fn check_lost(
    path: &Path,
    folder: &Path,
    anchors: &AnchorFolder,
    found: Option<LogId>,
) -> Result<(), OpenFault> {
    let unreadable = |source| OpenFault::Anchor { path: anchors.folder_file(folder), source };
    let Some(expected) = anchors.log_in(folder).map_err(unreadable)? else { return Ok(()) };
    if Some(expected) == found {
        return Ok(());
    }
    let unreadable = |source| OpenFault::Anchor { path: anchors.file(expected), source };
    match anchors.read(expected).map_err(unreadable)? {
        Some(anchor) if anchor.folder == folder && !seeded(Bug::AnchorNotCompared) => {
            let (path, anchored, at) = (path.to_owned(), anchor.size, anchor.at);
            Err(OpenFault::Lost { path, expected, anchored, at })
        }
        // It was never written, or lies in another folder by now.
        Some(_) | None => Ok(()),
    }
}

/// Refuses a pointer to a log of which it is not known that it belongs to this folder: a
/// file with the path of a log proves nothing about the log.
fn check_pointer(
    pointer: Option<&Path>,
    path: &Path,
    folder: &Path,
    anchor: Option<&Anchor>,
) -> Result<(), OpenFault> {
    let Some(pointer) = pointer else { return Ok(()) };
    if anchor.is_some_and(|anchor| anchor.folder == folder) {
        return Ok(());
    }
    let (pointer, path) = (pointer.to_owned(), path.to_owned());
    Err(OpenFault::ForeignPointer { pointer, path })
}

/// Copies the decisions of a log, where that was never begun.
fn begin_copies(
    connection: &Connection,
    path: &Path,
    copies: &DecisionCopies,
) -> Result<(), OpenFault> {
    if copies.exist() {
        return Ok(());
    }
    let read = || {
        let mut all = connection.prepare(
            "SELECT seq, link, bytes FROM records \
             WHERE stream = (SELECT id FROM streams WHERE stream = 'project') ORDER BY seq",
        )?;
        let rows = all.query_map((), |row| {
            Ok((count(row, 0)?, Digest(row.get(1)?), row.get::<_, Vec<u8>>(2)?))
        })?;
        rows.collect::<rusqlite::Result<Vec<_>>>()
    };
    let rows = read().map_err(|source| open::unusable(path, source))?;
    // A copy that is missing makes a restored backup weaker, and nothing else.
    let rows = rows.iter().map(|(seq, link, bytes)| (*seq, *link, bytes.as_slice()));
    drop(copies.begin(rows));
    Ok(())
}

/// Refuses a copy of a log that is still where it was. One that moved goes on.
fn check_copy(path: &Path, folder: &Path, log: LogId, anchor: &Anchor) -> Result<(), OpenFault> {
    if anchor.folder == folder {
        return Ok(());
    }
    let original = match LogPointer::read(&anchor.folder) {
        Ok(Some(pointer)) => pointer.target,
        Ok(None) | Err(_) => anchor.folder.clone(),
    };
    let original = original.join(path.file_name().unwrap_or_default());
    let there = open::for_looking(&original).and_then(|there| open::log_id(&there, &original));
    if there.is_ok_and(|there| there == log) {
        let (path, original) = (path.to_owned(), anchor.folder.clone());
        return Err(OpenFault::Copied { path, original });
    }
    Ok(())
}

/// Refuses a log that does not contain what is remembered of it.
fn check_anchor(
    connection: &Connection,
    path: &Path,
    (log, host): (LogId, HostPublicKey),
    anchor: &Anchor,
) -> Result<(), OpenFault> {
    if seeded(Bug::AnchorNotCompared) {
        return Ok(());
    }
    let (path, at) = (path.to_owned(), anchor.at);
    let head = match host.open(log, &anchor.note) {
        Ok(head) => head,
        Err(fault) => {
            return Err(OpenFault::Damaged {
                path,
                what: format!("what is remembered of it does not fit: {fault}"),
            });
        }
    };
    let size: i64 = connection
        .query_row("SELECT coalesce(max(n) + 1, 0) FROM heads", (), |row| row.get(0))
        .map_err(|source| open::unusable(&path, source))?;
    let found = u64::try_from(size).unwrap_or_default();
    if found < head.size {
        return Err(OpenFault::RolledBack { path, found, anchored: head.size, at });
    }
    let root = stored_root(connection, head.size).map_err(|fault| of_tree(&path, fault))?;
    if root == Some(head.root) {
        return Ok(());
    }
    Err(OpenFault::Rewritten { path, anchored: head.size, at })
}

/// The real folder by which a log is known: the one that it lies in, or the pointer in its place.
pub(super) fn known_folder(path: &Path, pointer: Option<&Path>) -> Result<PathBuf, OpenFault> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = pointer.unwrap_or(folder.unwrap_or(Path::new(".")));
    // A log that is lost may have been lost with its folder.
    let real = match (folder.canonicalize(), folder.parent(), folder.file_name()) {
        (Err(error), Some(above), Some(name)) if error.kind() == ErrorKind::NotFound => {
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            above.canonicalize().map(|above| above.join(name))
        }
        (real, _, _) => real,
    };
    real.map_err(|source| OpenFault::Unreachable { path: path.to_owned(), source })
}
