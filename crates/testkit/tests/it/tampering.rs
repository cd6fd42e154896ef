//! `verify` finds and locates every way of changing a log behind our back.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use toolgate_kernel::seal::SigningKey;
use toolgate_runtime::verify::{Problem, Report, verify};
use toolgate_store::SqliteStore;
use toolgate_testkit::ledger::Ledger;
use toolgate_testkit::scenario::Scenario;
use toolgate_testkit::stage::{SCENARIO_KEY, Stage};

use crate::scenarios::block_on;

/// A log of the scenario with everything in it, in a file of its own.
fn written(folder: &Path) -> std::path::PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let log = folder.join("log.db");
    let scenario = Scenario::read(&root.join("run/inbox.yaml")).unwrap();
    let store = Arc::new(SqliteStore::open(&log).unwrap());
    let project = folder.join("project");
    std::fs::create_dir(&project).unwrap();
    let stage = Stage::new(scenario, store, &project, Ledger::default()).unwrap();
    block_on(stage.unwrap_or_else(|refused| panic!("{}", refused.0)).play()).unwrap();
    log
}

fn report(log: &Path, key: [u8; 32]) -> Report {
    let store = SqliteStore::open(log).unwrap();
    block_on(verify(&store, &SigningKey::from_bytes(&key))).unwrap()
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
            "INSERT INTO records (stream, seq, bytes, hash) SELECT stream, 999, bytes, hash FROM records WHERE stream = S AND seq = 2",
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
            "UPDATE records SET hash = x'00' WHERE stream = S AND seq = 5",
            "session/s1",
            5,
        ),
        ("a lost row of a stream", "DELETE FROM streams WHERE id = P", "project", 0),
        ("a head before the first record", "UPDATE streams SET seq = -1 WHERE id = S", "log", 0),
        (
            "a checkpoint that is none",
            "INSERT OR REPLACE INTO checkpoints VALUES ('session/s1', -1, x'', x'', x'')",
            "session/s1",
            0,
        ),
        ("a forged head", "UPDATE streams SET seq = seq - 1 WHERE id = S", "session/s1", 0),
        (
            "a changed hash",
            "UPDATE records SET hash = zeroblob(32) WHERE stream = P AND seq = 1",
            "project",
            1,
        ),
    ];
    for (what, statement, stream, seq) in sql {
        let folder = tempfile::tempdir().unwrap();
        let log = written(folder.path());
        assert_eq!(report(&log, SCENARIO_KEY).problems, [], "{what}: clean before");
        tamper(&log, statement).unwrap_or_else(|error| panic!("{what}: {error}"));
        let problems = report(&log, SCENARIO_KEY).problems;
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

#[test]
fn another_key_vouches_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let log = written(folder.path());
    assert!(!report(&log, [8; 32]).problems.is_empty());
}

/// What belongs to no stream is not passed over in silence.
#[test]
fn strays_and_additions_are_damage() {
    let strays = "INSERT INTO records (stream, seq, bytes, hash) SELECT 99, seq, bytes, hash FROM records WHERE stream = S";
    let name = "INSERT INTO streams (stream, epoch, seq) VALUES ('session/../x', 0, 0)";
    let key = SigningKey::from_bytes(&SCENARIO_KEY);
    let tampered = |statement: &str| {
        let folder = tempfile::tempdir().unwrap();
        let log = written(folder.path());
        tamper(&log, statement).unwrap();
        block_on(verify(&SqliteStore::open(&log).unwrap(), &key))
    };
    let found = tampered(strays).unwrap().problems;
    let words = "there are records of a stream that is lost";
    assert_eq!(found, [Problem { stream: "log".to_owned(), seq: 0, what: words }]);
    let found = tampered(name).unwrap().problems;
    let words = "the list of streams cannot be read";
    assert_eq!(found, [Problem { stream: "log".to_owned(), seq: 0, what: words }]);
    let folder = tempfile::tempdir().unwrap();
    let log = written(folder.path());
    tamper(&log, "DELETE FROM meta WHERE name = 'log'").unwrap();
    let refused = SqliteStore::open(&log).err().unwrap();
    assert!(refused.to_string().contains("lost its name"), "{refused}");
    for addition in [
        "CREATE TABLE mine (a)",
        "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records WHERE seq = 1; END",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let log = written(folder.path());
        tamper(&log, addition).unwrap();
        let refused = SqliteStore::open(&log).err().unwrap();
        assert!(refused.to_string().contains("toolgate did not make"), "{refused}");
    }
}
