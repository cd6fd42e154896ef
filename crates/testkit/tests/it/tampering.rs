//! `verify` finds and locates every way of changing a log behind our back.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use toolgate_runtime::HostKey;
use toolgate_runtime::verify::{Problem, Report, verify};
use toolgate_store::{LogSetup, OpenFault, SqliteStore};
use toolgate_testkit::ledger::Ledger;
use toolgate_testkit::scenario::Scenario;
use toolgate_testkit::stage::{Stage, log_setup};

use crate::scenarios::block_on;

/// A log of the scenario with everything in it, in a file of its own.
fn written(folder: &Path) -> std::path::PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let log = folder.join("log.db");
    let scenario = Scenario::read(&root.join("run/inbox.yaml")).unwrap();
    let store = Arc::new(SqliteStore::open(&log, &log_setup().unwrap()).unwrap());
    let project = folder.join("project");
    std::fs::create_dir(&project).unwrap();
    let stage = Stage::new(scenario, store, &project, Ledger::default()).unwrap();
    block_on(stage.unwrap_or_else(|refused| panic!("{}", refused.0)).play()).unwrap();
    log
}

fn report(log: &Path) -> Report {
    block_on(verify(&SqliteStore::look(log).unwrap())).unwrap()
}

#[test]
fn every_tampering_is_found_and_located() {
    // `S`, `I` and `P` stand for the session's, the inbox's and the project's number in the file.
    let sql: &[(&str, &str, &str, u64)] = &[
        (
            "a flipped byte",
            "UPDATE records SET bytes = CAST(replace(CAST(bytes AS TEXT), 'system', 'systen') AS BLOB) WHERE stream = S AND seq = 2",
            "session/s1",
            2,
        ),
        ("a deleted record", "DELETE FROM records WHERE stream = S AND seq = 4", "session/s1", 4),
        (
            "two swapped records",
            "UPDATE records SET seq = CASE seq WHEN 3 THEN -4 ELSE -3 END WHERE stream = S AND seq IN (3,4); UPDATE records SET seq = -seq WHERE seq < 0",
            "session/s1",
            3,
        ),
        (
            "an inserted record",
            "INSERT INTO records (stream, seq, bytes, link) SELECT stream, 999, bytes, link FROM records WHERE stream = S AND seq = 2",
            "session/s1",
            0,
        ),
        (
            "a cut-off record",
            "DELETE FROM records WHERE stream = S AND seq = (SELECT max(seq) FROM records WHERE stream = S)",
            "session/s1",
            0,
        ),
        (
            "a lost session",
            "DELETE FROM records WHERE stream = S; DELETE FROM streams WHERE id = S",
            "session/s1",
            0,
        ),
        (
            "a lost inbox",
            "DELETE FROM records WHERE stream = I; DELETE FROM streams WHERE id = I",
            "inbox/s1",
            1,
        ),
        (
            "a lost project",
            "DELETE FROM records WHERE stream = P; DELETE FROM streams WHERE id = P",
            "session/s1",
            0,
        ),
        (
            "an emptied log",
            "DELETE FROM records; DELETE FROM streams; DELETE FROM checkpoints",
            "project",
            0,
        ),
        (
            "a record that is none",
            "UPDATE records SET link = x'00' WHERE stream = S AND seq = 5",
            "session/s1",
            5,
        ),
        ("a lost row of a stream", "DELETE FROM streams WHERE id = P", "project", 0),
        ("a head before the first record", "UPDATE streams SET seq = -1 WHERE id = S", "log", 0),
        (
            "a checkpoint that is none",
            "INSERT OR REPLACE INTO checkpoints VALUES ('session/s1', -1, x'', x'')",
            "session/s1",
            0,
        ),
        ("a forged head", "UPDATE streams SET seq = seq - 1 WHERE id = S", "session/s1", 0),
        (
            "a changed hash",
            "UPDATE records SET link = zeroblob(32) WHERE stream = P AND seq = 1",
            "project",
            1,
        ),
    ];
    for (what, statement, stream, seq) in sql {
        let folder = tempfile::tempdir().unwrap();
        let log = written(folder.path());
        assert_eq!(report(&log).problems, [], "{what}: clean before");
        tamper(&log, statement).unwrap_or_else(|error| panic!("{what}: {error}"));
        let problems = report(&log).problems;
        assert!(!problems.is_empty(), "{what}: not found");
        let located = problems.iter().any(|p| p.stream == *stream && (*seq == 0 || p.seq == *seq));
        assert!(located, "{what}: {problems:?}");
    }
}

fn tamper(log: &Path, statement: &str) -> rusqlite::Result<()> {
    let connection = Connection::open(log)?;
    let number = |stream: &str| -> rusqlite::Result<i64> {
        connection.query_row("SELECT id FROM streams WHERE stream = ?1", [stream], |row| row.get(0))
    };
    let statement = statement
        .replace("= S", &format!("= {}", number("session/s1")?))
        .replace("= I", &format!("= {}", number("inbox/s1")?))
        .replace("= P", &format!("= {}", number("project")?));
    connection.execute_batch(&statement)
}

/// What was changed is found before anything is added to it.
#[test]
fn a_log_that_was_changed_beside_its_records_is_not_opened() {
    for statement in [
        "UPDATE streams SET seq = seq - 1 WHERE id = S",
        "UPDATE streams SET epoch = epoch + 1 WHERE id = S",
        "DELETE FROM streams WHERE id = I",
        "UPDATE meta SET value = '' WHERE name = 'note'",
        "DELETE FROM heads WHERE n = (SELECT max(n) FROM heads)",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let log = written(folder.path());
        tamper(&log, statement).unwrap();
        let refused = SqliteStore::open(&log, &log_setup().unwrap()).err().unwrap();
        assert!(matches!(refused, OpenFault::Damaged { .. }), "{statement}: {refused}");
        assert!(!report(&log).problems.is_empty(), "{statement}");
    }
}

#[test]
fn a_log_of_another_host_is_read_and_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let log = written(folder.path());
    let host = HostKey::from_seed(&[8; 32]).unwrap();
    let setup = LogSetup { host: Arc::new(host), ..log_setup().unwrap() };
    let refused = SqliteStore::open(&log, &setup).err().unwrap();
    assert!(matches!(refused, OpenFault::OtherHost { .. }), "{refused}");
    assert_eq!(report(&log).problems, []);
}

/// What belongs to no stream is not passed over in silence.
#[test]
fn strays_and_additions_are_damage() {
    let strays = "INSERT INTO records (stream, seq, bytes, link) SELECT 99, seq, bytes, link FROM records WHERE stream = S";
    let name = "INSERT INTO streams (stream, epoch, seq, link) VALUES ('session/../x', 0, 1, zeroblob(32))";
    for (statement, what) in [
        (strays, "there are records of a stream that is lost"),
        (name, "the list of streams cannot be read"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let log = written(folder.path());
        tamper(&log, statement).unwrap();
        let found = report(&log).problems;
        let told = Problem { stream: "log".to_owned(), seq: 0, what: what.into() };
        assert!(found.contains(&told), "{found:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let log = written(folder.path());
    tamper(&log, "DELETE FROM meta WHERE name = 'log'").unwrap();
    let refused = SqliteStore::open(&log, &log_setup().unwrap()).err().unwrap();
    assert!(refused.to_string().contains("lost its name"), "{refused}");
    for addition in [
        "CREATE TABLE mine (a)",
        "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records WHERE seq = 1; END",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let log = written(folder.path());
        tamper(&log, addition).unwrap();
        let refused = SqliteStore::open(&log, &log_setup().unwrap()).err().unwrap();
        assert!(refused.to_string().contains("toolgate did not make"), "{refused}");
    }
}
