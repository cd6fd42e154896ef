//! Decides how the file is laid out, and how an older layout becomes the newest.

use rusqlite::{Connection, Result};

/// What makes the file ours: `tgat`, in the header where `file` and SQLite look for it.
pub(super) const APPLICATION_ID: u32 = 0x7467_6174;

/// The layout that a new file has at first. Those before it are not read: what is signed in them is
/// signed in another way.
pub(super) const OLDEST: u32 = 3;

/// How to get from each layout to the next; the first step makes a new file.
///
/// A step never changes once it was released. `PRAGMA user_version` goes on from the oldest layout by
/// one for each further step.
pub(super) const STEPS: &[&str] = &["
    -- log: which log this is; what was signed for one log is worth nothing in another.
    -- host: the public key that signs its heads. note: its newest signed head.
    CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY) WITHOUT ROWID, STRICT;
    INSERT INTO meta (name, value) VALUES ('log', lower(hex(randomblob(16))));

    -- Numbers stand for names, so that a record repeats two bytes and not a whole name. They leave
    -- none out: the streams are the leaves of a tree, in this order.
    CREATE TABLE streams (
        id INTEGER PRIMARY KEY,
        stream TEXT NOT NULL UNIQUE,
        epoch INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        link BLOB NOT NULL,
        checkpoint BLOB
    ) STRICT;

    -- Rows lie in the order they were written: a commit of many sessions then fills a few pages
    -- at the end, where a table sorted by stream would touch a page for each of them.
    CREATE TABLE records (
        stream INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        link BLOB NOT NULL,
        bytes BLOB NOT NULL,
        UNIQUE (stream, seq)
    ) STRICT;

    -- One row per commit: the leaf of the log's tree, and the nodes of the tree that it completes.
    -- changed: the numbers of the streams that it changed, for other processes to follow.
    CREATE TABLE heads (
        n INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        streams_root BLOB NOT NULL,
        nodes BLOB NOT NULL,
        changed BLOB NOT NULL
    ) STRICT;

    CREATE TABLE blobs (hash BLOB NOT NULL UNIQUE, bytes BLOB NOT NULL) STRICT;

    CREATE TABLE checkpoints (
        stream TEXT PRIMARY KEY,
        seq INTEGER NOT NULL,
        link BLOB NOT NULL,
        body BLOB NOT NULL
    ) STRICT;
"];

/// The layout version that a list of steps leads to.
pub(super) fn version_of(steps: &[&str]) -> u32 {
    u32::try_from(steps.len()).unwrap_or(u32::MAX).saturating_add(OLDEST - 1)
}

/// The layout version after the next step.
pub(super) fn after(version: u32) -> u32 {
    version.saturating_add(1).max(OLDEST)
}

/// A step that failed; the file stays at the version before it.
#[derive(Debug)]
pub(super) struct StepFailed {
    pub(super) from: u32,
    pub(super) source: rusqlite::Error,
}

/// Does the steps that are missing, each in one transaction.
pub(super) fn migrate(
    connection: &Connection,
    steps: &[&str],
) -> std::result::Result<(), StepFailed> {
    let mut done = schema_version(connection).map_err(|source| StepFailed { from: 0, source })?;
    while done < version_of(steps) {
        let step = step(connection, steps);
        if step.is_err() && !connection.is_autocommit() {
            // The failure is reported, not what came of undoing it: closing undoes it too.
            drop(connection.execute_batch("ROLLBACK"));
        }
        done = step.map_err(|source| StepFailed { from: done, source })?;
    }
    Ok(())
}

/// Does the next missing step, if another process has not done it meanwhile.
fn step(connection: &Connection, steps: &[&str]) -> Result<u32> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let from = schema_version(connection)?;
    let to = after(from);
    let next = usize::try_from(to - OLDEST).ok().and_then(|at| steps.get(at));
    let Some(sql) = next else {
        connection.execute_batch("ROLLBACK")?;
        return Ok(from);
    };
    connection.execute_batch(sql)?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", to)?;
    // For people with a SQLite shell; the program goes by the header.
    connection.execute(
        "INSERT INTO meta (name, value) VALUES ('schema_version', ?1) \
         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        [to],
    )?;
    connection.execute_batch("COMMIT")?;
    Ok(to)
}

/// The version in the header.
pub(super) fn schema_version(connection: &Connection) -> Result<u32> {
    connection.query_row("PRAGMA user_version", (), |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY) STRICT";
    const SECOND: &str = "CREATE TABLE a (x); INSERT INTO a VALUES (1)";
    const THIRD: &str = "CREATE TABLE b (x); INSERT INTO b SELECT x + 1 FROM a";

    fn counted(connection: &Connection, sql: &str) -> i64 {
        connection.query_row(sql, (), |row| row.get(0)).unwrap()
    }

    #[test]
    fn an_old_file_takes_the_missing_steps_and_keeps_what_it_has() {
        let connection = Connection::open_in_memory().unwrap();
        migrate(&connection, &[FIRST, SECOND]).unwrap();
        connection.execute("INSERT INTO a VALUES (41)", ()).unwrap();
        migrate(&connection, &[FIRST, SECOND, THIRD]).unwrap();
        assert_eq!(counted(&connection, "SELECT max(x) FROM b"), 42);
        assert_eq!(counted(&connection, "SELECT value FROM meta"), i64::from(OLDEST + 2));
        assert_eq!(schema_version(&connection).unwrap(), OLDEST + 2);
        assert_eq!(counted(&connection, "PRAGMA application_id"), i64::from(APPLICATION_ID));
        migrate(&connection, &[FIRST, SECOND, THIRD]).unwrap();
        assert_eq!(counted(&connection, "SELECT count(*) FROM b"), 2);
    }

    #[test]
    fn a_step_that_fails_leaves_nothing_behind() {
        let connection = Connection::open_in_memory().unwrap();
        let broken = "CREATE TABLE c (x); INSERT INTO nowhere VALUES (1)";
        let failed = migrate(&connection, &[FIRST, SECOND, broken]).unwrap_err();
        assert_eq!(failed.from, OLDEST + 1);
        assert_eq!(schema_version(&connection).unwrap(), OLDEST + 1);
        assert!(connection.is_autocommit());
        assert_eq!(counted(&connection, "SELECT count(*) FROM sqlite_schema WHERE name = 'c'"), 0);
        migrate(&connection, &[FIRST, SECOND, THIRD]).unwrap();
        assert_eq!(schema_version(&connection).unwrap(), OLDEST + 2);
    }
}
