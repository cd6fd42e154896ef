//! Decides what a failure of SQLite means: for whoever opens, writes or reads.

use std::io;
use std::path::PathBuf;

use rusqlite::{Error, ErrorCode, ffi};
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::tree::LogId;
use toolgate_runtime::HostPublicKey;
use toolgate_runtime::port::StoreFault;

use super::tree::TreeFault;

/// Why a log cannot be opened. The file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum OpenFault {
    /// This SQLite may damage the file.
    #[error("SQLite {found} can lose commits (its WAL-reset bug); build with 3.51.3 or newer")]
    OldSqlite {
        /// The version that is built in.
        found: &'static str,
    },
    /// The file cannot be reached.
    #[error("{path}: cannot be opened; check that the folder is there and may be written")]
    Unreachable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A part of the log is still beside it, where it cannot be read.
    #[error(
        "{path}: is open elsewhere, or was not closed cleanly, and what was written last can only be \
         read where it may be written; close it, or copy the project there, with log.db-wal"
    )]
    Unfolded {
        /// The file.
        path: PathBuf,
    },
    /// The file lies where two processes cannot share memory.
    #[error("{path}: lies on a network file system ({kind}); put the log on a local disk")]
    Network {
        /// The file.
        path: PathBuf,
        /// The kind of file system.
        kind: String,
    },
    /// The file is no database.
    #[error("{path}: is no toolgate log and no database; name another file, or move it away")]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The file is a database of somebody else.
    #[error("{path}: is a database of another program (id {found:#010x}); name another file")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its application id; zero when it has none.
        found: i64,
    },
    /// Somebody put something into the file.
    #[error(
        "{path}: has {name:?} in it, which toolgate did not make; look who did, and restore a copy"
    )]
    Altered {
        /// The file.
        path: PathBuf,
        /// What was found.
        name: String,
    },
    /// Nobody can say which log it is, so nothing in it can be checked.
    #[error("{path}: has lost its name, so nothing in it can be checked; restore a copy")]
    Nameless {
        /// The file.
        path: PathBuf,
    },
    /// It is not what its signed head says.
    #[error(
        "{path}: {what}. Run `toolgate verify` to see what is wrong; restore a copy, or begin a new \
         log that names this one with `toolgate log restart`"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        what: String,
    },
    /// It was written by another user or on another machine.
    #[error(
        "{path}: its heads are signed by the host key {found}, and the one here is {own}: it was written \
         on another machine or by another user, or the key was replaced. It can be read here. To go on \
         with it, put that key back, or begin a new log that names this one with `toolgate log restart`"
    )]
    OtherHost {
        /// The file.
        path: PathBuf,
        /// The key that signed it.
        found: HostPublicKey,
        /// The key of this user on this machine.
        own: HostPublicKey,
    },
    /// It is older than what was last written here.
    #[error(
        "{path}: ends at commit {found}, but {anchored} commits were made here until {at}: an older copy \
         was put in its place. Put the newest copy back. Where that is lost, an owner goes on from this one \
         with `toolgate log accept-restore`"
    )]
    RolledBack {
        /// The file.
        path: PathBuf,
        /// Its commits.
        found: u64,
        /// The commits that it had.
        anchored: u64,
        /// When the last one was made.
        at: Timestamp,
    },
    /// It has another history than what was written here.
    #[error(
        "{path}: its first {anchored} commits are not those that were made here until {at}. Put the right \
         copy back, or begin a new log that names this one with `toolgate log restart`. Where `toolgate \
         log accept-restore` was interrupted, run it again"
    )]
    Rewritten {
        /// The file.
        path: PathBuf,
        /// The commits that it had.
        anchored: u64,
        /// When the last one was made.
        at: Timestamp,
    },
    /// Another log was here, and is gone.
    #[error(
        "{path}: this folder had the log {expected} with {anchored} commits until {at}, and it is not \
         there any more. Put it back, or begin a new log with `toolgate log restart`"
    )]
    Lost {
        /// The file.
        path: PathBuf,
        /// The log that was here.
        expected: LogId,
        /// The commits that it had.
        anchored: u64,
        /// When the last one was made.
        at: Timestamp,
    },
    /// The folder is a copy of another one.
    #[error(
        "{path}: this is a copy of the log in {original}, which is still there. It can be read here; give \
         it a name of its own with `toolgate log restart`. Nothing that was approved there counts here"
    )]
    Copied {
        /// The file.
        path: PathBuf,
        /// The folder of the log that it is a copy of.
        original: PathBuf,
    },
    /// The file in the place of the log's folder names a log that is not known to belong here.
    #[error(
        "{}: names the log in {}, and that log is not known to be this folder's: the file was copied, or \
         the folder was moved. Nothing of it is used. If the folder was moved, run `toolgate log move \
         --outside`; otherwise remove the file",
        pointer.display(), path.parent().unwrap_or(path).display()
    )]
    ForeignPointer {
        /// The file in the project.
        pointer: PathBuf,
        /// The log that it leads to.
        path: PathBuf,
    },
    /// What is remembered of it cannot be read.
    #[error(
        "{path}: what is remembered of this log cannot be read or written; check that folder, or remove \
         the file when you are sure that the log is the newest"
    )]
    Anchor {
        /// The file of the anchor.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is from the future.
    #[error(
        "{path}: has schema {found}, written by a newer toolgate; this one knows schema {known}. \
         Use the newer one; the file was left as it is"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema version.
        found: u32,
        /// The newest schema version of this program.
        known: u32,
    },
    /// The file is old, and may not be brought up to date here.
    #[error(
        "{path}: has schema {found} of an older toolgate, this one reads schema {known}, and the \
         file may not be written; copy the project to where it may"
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// Its schema version.
        found: u32,
        /// The newest schema version of this program.
        known: u32,
    },
    /// A version of this program wrote it that signed in another way.
    #[error(
        "{path}: was written by an older version of toolgate (schema {found}, this one reads {oldest} \
         and later), whose signatures this one cannot check; move the file away to begin anew, or \
         read it with the version that wrote it"
    )]
    TooOld {
        /// The file.
        path: PathBuf,
        /// Its schema version.
        found: u32,
        /// The oldest schema version that is read.
        oldest: u32,
    },
    /// An old file could not be brought up to date.
    #[error("{path}: could not be brought from schema {from} to {to}; it stays at {from}")]
    Migration {
        /// The file.
        path: PathBuf,
        /// The version it has.
        from: u32,
        /// The version it was to get.
        to: u32,
        /// Why.
        source: Error,
    },
    /// The file system cannot do write-ahead logging.
    #[error("{path}: the journal stays in mode {found:?} here; put the log on a local disk")]
    NoWal {
        /// The file.
        path: PathBuf,
        /// The mode it has.
        found: String,
    },
    /// Somebody else has it.
    #[error("{path}: another process kept it locked; close that process, or try again")]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// SQLite said no.
    #[error("{path}: cannot be used; run `toolgate verify`, or restore a copy")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Error,
    },
    /// There is no thread to be had.
    #[error("no thread could be started for the log; close other programs")]
    Thread(#[source] io::Error),
}

/// What a failed group commit means for the writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Severity {
    /// Nothing was written; the same may work later.
    Passing(StoreFault),
    /// One of the orders cannot be written as it is; the others can.
    Content(StoreFault),
    /// Nobody can say what reached the disk. Nothing may be written before a restart.
    Final(StoreFault),
}

impl Severity {
    /// What those who wait are told.
    pub(super) fn fault(self) -> StoreFault {
        match self {
            Self::Passing(fault) | Self::Content(fault) | Self::Final(fault) => fault,
        }
    }
}

/// Judges a failure while writing.
pub(super) fn severity(error: &Error) -> Severity {
    let Some(failure) = error.sqlite_error() else {
        return Severity::Content(StoreFault::Damaged(error.to_string()));
    };
    let passing = |reason: &str| Severity::Passing(StoreFault::Unavailable(reason.to_owned()));
    // A full disk also shows as an index of the WAL that cannot grow.
    if failure.code == ErrorCode::DiskFull || failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE {
        return passing("the disk is full; free some space, then resume");
    }
    if failure.code == ErrorCode::DatabaseBusy || failure.code == ErrorCode::DatabaseLocked {
        return passing("another process kept it locked; try again");
    }
    if failure.code == ErrorCode::OutOfMemory {
        return passing("there is no memory left; close other programs, then resume");
    }
    if failure.code == ErrorCode::TooBig {
        let reason = "a record or content is larger than SQLite takes; store less".to_owned();
        return Severity::Content(StoreFault::Unavailable(reason));
    }
    if failure.code == ErrorCode::ConstraintViolation {
        return Severity::Content(StoreFault::Damaged(error.to_string()));
    }
    if is_damage(failure) {
        return Severity::Final(StoreFault::Damaged(error.to_string()));
    }
    // A failed fsync may have dropped what it was to write, and a second one would not tell.
    Severity::Final(StoreFault::Unavailable(format!(
        "writing failed ({error}). What was being written may or may not be there. \
         Nothing more is written; restart toolgate to go on from what is durable"
    )))
}

/// Judges a failure while writing or following what others wrote.
pub(super) fn tree_severity(fault: &TreeFault) -> Severity {
    match fault {
        TreeFault::Sql(error) => severity(error),
        TreeFault::Damaged(what) => Severity::Final(StoreFault::Damaged(what.clone())),
    }
}

/// Judges a failure while reading what a signed head covers.
pub(super) fn tree_fault(fault: TreeFault) -> StoreFault {
    match fault {
        TreeFault::Sql(error) => read_fault(&error),
        TreeFault::Damaged(what) => StoreFault::Damaged(what),
    }
}

/// Judges a failure while reading.
pub(super) fn read_fault(error: &Error) -> StoreFault {
    match error.sqlite_error() {
        Some(failure) if !is_damage(failure) => {
            StoreFault::Unavailable(format!("reading failed ({error})"))
        }
        // A value of another type or length than was written.
        _ => StoreFault::Damaged(error.to_string()),
    }
}

fn is_damage(failure: &ffi::Error) -> bool {
    failure.code == ErrorCode::DatabaseCorrupt || failure.code == ErrorCode::NotADatabase
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(code: i32) -> Severity {
        severity(&Error::SqliteFailure(ffi::Error::new(code), None))
    }

    #[test]
    fn only_what_may_have_half_happened_is_final() {
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_BUSY, ffi::SQLITE_IOERR_SHMSIZE] {
            assert!(matches!(judged(code), Severity::Passing(_)), "{code}");
        }
        for code in [ffi::SQLITE_CONSTRAINT_UNIQUE, ffi::SQLITE_TOOBIG] {
            assert!(matches!(judged(code), Severity::Content(_)), "{code}");
        }
        let finals = [
            ffi::SQLITE_IOERR_FSYNC,
            ffi::SQLITE_IOERR_WRITE,
            ffi::SQLITE_CORRUPT,
            ffi::SQLITE_READONLY,
            ffi::SQLITE_CANTOPEN,
        ];
        for code in finals {
            assert!(matches!(judged(code), Severity::Final(_)), "{code}");
        }
    }
}
