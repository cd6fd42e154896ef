//! Decides which files are opened as a log, and with which promises of SQLite.
//!
//! Nothing here, and nothing else in a process, may open a log but SQLite: closing any other
//! handle of the file drops the locks of the whole process, and another process could then
//! remove the WAL under us.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Error, ErrorCode, OpenFlags, OptionalExtension, Result};

use super::fault::OpenFault;
use super::mounts::network_kind;
use super::schema::{self, APPLICATION_ID, OLDEST, STEPS, version_of};
use toolgate_kernel::tree::LogId;
use toolgate_runtime::HostPublicKey;

/// The last SQLite with the WAL-reset bug.
const BROKEN_SQLITE: i32 = 3_051_002;

/// How long SQLite waits for another process.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// How often and when it is tried again where SQLite does not wait: five seconds in all.
const LOCKED_TRIES_MAX: u32 = 500;
const LOCKED_WAIT: Duration = Duration::from_millis(10);

/// One thread at a time makes a new file, so that its handle is closed before SQLite has one.
static MAKING: Mutex<()> = Mutex::new(());

/// Opens the connection that writes, and brings the file up to date.
pub(super) fn for_writing(path: &Path) -> std::result::Result<Connection, OpenFault> {
    if rusqlite::version_number() <= BROKEN_SQLITE {
        return Err(OpenFault::OldSqlite { found: rusqlite::version() });
    }
    if let Some(kind) = network_kind(path) {
        return Err(OpenFault::Network { path: path.to_owned(), kind });
    }
    let making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    make(path).map_err(|source| OpenFault::Unreachable { path: path.to_owned(), source })?;
    let connection = take_up(path)?;
    drop(making);
    Ok(connection)
}

/// Takes up a file that is there, which another process may take up at the same moment.
fn take_up(path: &Path) -> std::result::Result<Connection, OpenFault> {
    identify(path)?;
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
        .map_err(|source| unusable(path, source))?;
    configure(&connection, path)?;
    schema::migrate(&connection, STEPS).map_err(|failed| OpenFault::Migration {
        path: path.to_owned(),
        from: failed.from,
        to: schema::after(failed.from),
        source: failed.source,
    })?;
    Ok(connection)
}

/// Opens a connection that only reads, on a file that is already a log.
pub(super) fn for_reading(path: &Path) -> std::result::Result<Connection, OpenFault> {
    let open = || {
        // Reading a WAL may mean recovering it, which a connection without rights cannot do.
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    };
    open().map_err(|source| unusable(path, source))
}

/// Opens a log to read it: where it may be written with what was written last, else as it is.
pub(super) fn for_looking(path: &Path) -> std::result::Result<Connection, OpenFault> {
    if !path.is_file() {
        let source = io::Error::from(io::ErrorKind::NotFound);
        return Err(OpenFault::Unreachable { path: path.to_owned(), source });
    }
    let opened = identify(path).and_then(|()| for_reading(path));
    let fault = match opened {
        Err(fault @ OpenFault::Unreachable { .. }) => fault,
        opened => return opened,
    };
    let told = |look| if matches!(look, OpenFault::Unfolded { .. }) { look } else { fault };
    for_looking_only(path).map_err(told)
}

/// Opens a log that may not be written, such as a copy somebody was given. Nothing is made beside it.
fn for_looking_only(path: &Path) -> std::result::Result<Connection, OpenFault> {
    let open = |place: &Path, access| {
        let connection = connect(place, access)?;
        connection.pragma_update(None, "query_only", true)?;
        identity(&connection).map(|found| (connection, found))
    };
    let alone = || {
        let access = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        open(&unchanging(path), access)
    };
    let opened = match open(path, OpenFlags::SQLITE_OPEN_READ_ONLY) {
        // SQLite wants to share the WAL with others. Where there is none, it need not.
        Err(_) if !has_wal(path) => alone(),
        // It is the WAL that is in the way only where the file alone could be read.
        Err(error)
            if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) && alone().is_ok() =>
        {
            return Err(OpenFault::Unfolded { path: path.to_owned() });
        }
        opened => opened,
    };
    let (connection, found) = opened.map_err(|source| unusable(path, source))?;
    let (version, known) = (found.version, version_of(STEPS));
    accept(path, found)?;
    if version < known {
        return Err(OpenFault::Older { path: path.to_owned(), found: version, known });
    }
    Ok(connection)
}

/// Leaves a log as one file under another name. Where it is still open, it is refused.
pub(super) fn set_aside(path: &Path, aside: &Path) -> std::result::Result<(), OpenFault> {
    let unusable = |source| unusable(path, source);
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(unusable)?;
    // SQLite leaves this mode only when nobody else has the file open, and then nothing is beside it.
    connection.busy_timeout(Duration::ZERO).map_err(unusable)?;
    let mode: String = connection
        .query_row("PRAGMA journal_mode = DELETE", (), |row| row.get(0))
        .map_err(unusable)?;
    drop(connection);
    if mode != "delete" {
        return Err(OpenFault::Locked { path: path.to_owned() });
    }
    std::fs::rename(path, aside)
        .map_err(|source| OpenFault::Unreachable { path: aside.to_owned(), source })
}

/// Does something while this process alone has a log open, as one file. Where another one has it open,
/// it is refused.
pub(super) fn while_closed<T>(
    path: &Path,
    work: impl FnOnce() -> T,
) -> std::result::Result<T, OpenFault> {
    let unusable = |source| unusable(path, source);
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(unusable)?;
    connection.busy_timeout(Duration::ZERO).map_err(unusable)?;
    let mode: String = connection
        .query_row("PRAGMA journal_mode = DELETE", (), |row| row.get(0))
        .map_err(unusable)?;
    if mode != "delete" {
        return Err(OpenFault::Locked { path: path.to_owned() });
    }
    // Nothing is written, so nothing is made beside the file.
    connection.execute_batch("BEGIN EXCLUSIVE").map_err(unusable)?;
    let done = work();
    connection.execute_batch("ROLLBACK").map_err(unusable)?;
    Ok(done)
}

/// Whether something is written down beside the file that is not in it yet.
fn has_wal(path: &Path) -> bool {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    std::fs::metadata(wal).is_ok_and(|found| found.len() > 0)
}

/// The file as an address that says: nobody changes it.
fn unchanging(path: &Path) -> PathBuf {
    let mut address = "file:".to_owned();
    for c in path.to_string_lossy().chars() {
        match c {
            '%' => address.push_str("%25"),
            '?' => address.push_str("%3f"),
            '#' => address.push_str("%23"),
            c => address.push(c),
        }
    }
    PathBuf::from(address + "?immutable=1")
}

/// The name a log was given when it was made.
pub(super) fn log_id(
    connection: &Connection,
    path: &Path,
) -> std::result::Result<LogId, OpenFault> {
    let found = meta(connection, path, "log")?;
    let id = found.and_then(|text| LogId::parse(&text).ok());
    id.ok_or_else(|| OpenFault::Nameless { path: path.to_owned() })
}

/// The key that signs the log's heads, as the log itself says.
pub(super) fn host(
    connection: &Connection,
    path: &Path,
) -> std::result::Result<Option<HostPublicKey>, OpenFault> {
    let Some(found) = meta(connection, path, "host")? else { return Ok(None) };
    let key = HostPublicKey::parse(&found);
    key.map(Some).ok_or_else(|| OpenFault::Nameless { path: path.to_owned() })
}

/// Writes down whose key signs a new log.
pub(super) fn set_host(
    connection: &Connection,
    path: &Path,
    host: HostPublicKey,
) -> std::result::Result<(), OpenFault> {
    let insert = "INSERT INTO meta (name, value) VALUES ('host', ?1) ON CONFLICT DO NOTHING";
    let inserted = connection.execute(insert, [host.to_string()]);
    inserted.map(drop).map_err(|source| unusable(path, source))
}

fn meta(
    connection: &Connection,
    path: &Path,
    name: &str,
) -> std::result::Result<Option<String>, OpenFault> {
    let value = "SELECT value FROM meta WHERE name = ?1";
    let found = connection.query_row(value, [name], |row| row.get(0)).optional();
    found.map_err(|source| unusable(path, source))
}

/// Makes a new file that only its owner reads. SQLite gives the WAL the same mode.
fn make(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Err(_) if std::fs::metadata(path)?.is_file() => Ok(()),
        Err(_) => Err(io::Error::other("it is not a plain file")),
    }
}

fn connect(path: &Path, access: OpenFlags) -> Result<Connection> {
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_WAIT)?;
    Ok(connection)
}

/// Refuses what is not ours or too new, without changing anything in it.
fn identify(path: &Path) -> std::result::Result<(), OpenFault> {
    let found = |access| connect(path, access).and_then(|connection| identity(&connection));
    let found = match found(OpenFlags::SQLITE_OPEN_READ_ONLY) {
        // What somebody began to write and did not finish is taken back first, as anybody would.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ReadOnly) => {
            found(OpenFlags::SQLITE_OPEN_READ_WRITE)
        }
        found => found,
    };
    accept(path, found.map_err(|source| unusable(path, source))?)
}

/// What a file says it is.
struct Identity {
    application: i64,
    version: u32,
    tables: i64,
    strange: Option<String>,
}

fn identity(connection: &Connection) -> Result<Identity> {
    never_fold(connection)?;
    // One moment of the file: another process may be making it a log.
    let moment = connection.unchecked_transaction()?;
    let number = |sql| moment.query_row(sql, (), |row| row.get::<_, i64>(0));
    Ok(Identity {
        application: number("PRAGMA application_id")?,
        version: schema::schema_version(&moment)?,
        tables: number(TABLES)?,
        strange: moment.query_row(STRANGE, (), |row| row.get(0)).optional()?,
    })
}

fn accept(path: &Path, identity: Identity) -> std::result::Result<(), OpenFault> {
    let (path, known, found) = (path.to_owned(), version_of(STEPS), identity.version);
    match identity.application {
        // A new file, or what a crash left of one in its first moments.
        0 if found == 0 && identity.tables == 0 => Ok(()),
        other if other != i64::from(APPLICATION_ID) => {
            Err(OpenFault::Foreign { path, found: other })
        }
        _ if found > known => Err(OpenFault::Newer { path, found, known }),
        _ if found < OLDEST => Err(OpenFault::TooOld { path, found, oldest: OLDEST }),
        _ => match identity.strange {
            Some(name) => Err(OpenFault::Altered { path, name }),
            None => Ok(()),
        },
    }
}

const TABLES: &str = "SELECT count(*) FROM sqlite_schema";

/// What nobody but us puts into a log. A trigger, for one, could change records as they are written.
const STRANGE: &str = "SELECT name FROM sqlite_schema \
    WHERE type IN ('trigger', 'view') OR (type = 'table' AND name NOT LIKE 'sqlite_%' \
    AND name NOT IN ('meta', 'streams', 'records', 'heads', 'blobs', 'checkpoints'))";

/// From now on closing this connection leaves the WAL and the file as they are.
pub(super) fn never_fold(connection: &Connection) -> Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map(drop)
}

/// Has the file written by way of a WAL, and says by which way it is. Of two processes that change
/// this at the same moment one is refused at once, however long SQLite should wait.
fn enter_wal(connection: &Connection) -> Result<String> {
    let wal = || connection.query_row("PRAGMA journal_mode = WAL", (), |row| row.get(0));
    let busy = |error: &Error| error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy);
    connection.busy_timeout(Duration::ZERO)?;
    let mut entered = wal();
    for _ in 0..LOCKED_TRIES_MAX {
        if !entered.as_ref().is_err_and(busy) {
            break;
        }
        std::thread::sleep(LOCKED_WAIT);
        entered = wal();
    }
    connection.busy_timeout(BUSY_WAIT)?;
    entered
}

fn configure(connection: &Connection, path: &Path) -> std::result::Result<(), OpenFault> {
    let unusable = |source| unusable(path, source);
    let mode = enter_wal(connection).map_err(unusable)?;
    if mode != "wal" {
        return Err(OpenFault::NoWal { path: path.to_owned(), found: mode });
    }
    // FULL: a commit returns when the WAL is on the disk. On macOS only `fullfsync` means that.
    // The writer folds the WAL itself, after it has answered, and sees when that fails.
    let settings = "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; \
                    PRAGMA checkpoint_fullfsync = ON; PRAGMA wal_autocheckpoint = 0; \
                    PRAGMA trusted_schema = OFF; PRAGMA cache_size = -8000;";
    connection.execute_batch(settings).map_err(unusable)
}

pub(super) fn unusable(path: &Path, source: Error) -> OpenFault {
    let path = path.to_owned();
    let Some(code) = source.sqlite_error_code() else {
        return OpenFault::Unusable { path, source };
    };
    if code == ErrorCode::NotADatabase {
        OpenFault::NotADatabase { path }
    } else if code == ErrorCode::DatabaseBusy || code == ErrorCode::DatabaseLocked {
        OpenFault::Locked { path }
    } else if code == ErrorCode::CannotOpen || code == ErrorCode::ReadOnly {
        OpenFault::Unreachable { path, source: io::Error::other(source) }
    } else {
        OpenFault::Unusable { path, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As several processes would: the lock between threads is not theirs.
    #[test]
    fn a_new_file_is_taken_up_by_many_at_the_same_moment() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..30 {
            let path = folder.path().join(format!("{round}.db"));
            make(&path).unwrap();
            let start = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                let take_up = || {
                    start.wait();
                    take_up(&path).map(drop).map_err(|fault| format!("{fault}: {fault:?}"))
                };
                let all: Vec<_> = (0..4).map(|_| scope.spawn(take_up)).collect();
                for one in all {
                    assert_eq!(one.join().unwrap(), Ok(()), "round {round}");
                }
            });
        }
    }

    /// A process that was killed while it made the file leaves a journal of it behind.
    #[test]
    fn a_file_that_was_half_made_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let [half, path] = ["half.db", "log.db"].map(|name| folder.path().join(name));
        let making = Connection::open(&half).unwrap();
        let much = "PRAGMA cache_size = 1; BEGIN; CREATE TABLE a (x); \
                    INSERT INTO a VALUES (zeroblob(100000))";
        making.execute_batch(much).unwrap();
        std::fs::copy(&half, &path).unwrap();
        let journal = |name| folder.path().join(format!("{name}.db-journal"));
        std::fs::copy(journal("half"), journal("log")).unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() > 0, "a part of it was written");
        drop(for_writing(&path).unwrap());
    }

    #[test]
    fn only_a_log_that_could_be_read_alone_is_kept_by_its_wal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.db");
        drop(for_writing(&path).unwrap());
        // Something that even root cannot read as a WAL.
        let wal = folder.path().join("log.db-wal");
        std::fs::create_dir(&wal).unwrap();
        std::fs::write(wal.join("x"), "x").unwrap();
        let refused = for_looking(&path).unwrap_err();
        assert!(matches!(refused, OpenFault::Unfolded { .. }), "{refused}");
        let told = "is open elsewhere, or was not closed cleanly";
        assert!(refused.to_string().contains(told), "{refused}");
        std::fs::remove_file(&path).unwrap();
        let refused = for_looking(&path).unwrap_err();
        assert!(matches!(refused, OpenFault::Unreachable { .. }), "{refused}");
    }
}
