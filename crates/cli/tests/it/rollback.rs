//! Older copies of a log, lost logs, copies and moves of a folder: what is refused, and the ways out.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::support::{Desk, Ran};
use crate::terminal::typing;

/// A project with two calls, and a copy of its log from between them.
fn older_copy() -> (Desk, tempfile::TempDir) {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [notes]\n");
    desk.ok(&["call", "write_notes", r#"{"key":"a","data":1}"#, "--session", "one"]);
    let copy = tempfile::tempdir().unwrap();
    copy_folder(&desk.project().join(".toolgate"), &copy.path().join("older"));
    desk.ok(&["call", "list_notes", "{}", "--session", "one"]);
    desk.ok(&["call", "list_notes", "{}", "--session", "two"]);
    desk.ok(&["verify"]);
    (desk, copy)
}

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn log(desk: &Desk) -> PathBuf {
    desk.project().join(".toolgate/log.db")
}

fn calls(desk: &Desk) -> Ran {
    desk.run(&["call", "list_notes", "{}", "--session", "one"])
}

/// Rows of another log put in the place of those that are there.
fn put_back(desk: &Desk, older: &Path, sql: &str) {
    let connection = Connection::open(log(desk)).unwrap();
    let attach = format!("ATTACH '{}' AS older", older.join("log.db").display());
    connection.execute_batch(&attach).unwrap();
    connection.execute_batch(sql).unwrap();
}

#[test]
fn older_rows_and_heads_are_refused_at_open() {
    const SESSION: &str = "DELETE FROM records WHERE stream = (SELECT id FROM streams WHERE stream = \
        'session/one'); INSERT INTO records SELECT * FROM older.records WHERE stream = (SELECT id FROM \
        older.streams WHERE stream = 'session/one'); UPDATE streams SET (epoch, seq, link, checkpoint) = \
        (SELECT epoch, seq, link, checkpoint FROM older.streams o WHERE o.stream = streams.stream) \
        WHERE stream = 'session/one'";
    const ALL: &str = "DELETE FROM records; INSERT INTO records SELECT * FROM older.records; \
        DELETE FROM streams; INSERT INTO streams SELECT * FROM older.streams; \
        DELETE FROM heads; INSERT INTO heads SELECT * FROM older.heads; \
        DELETE FROM meta; INSERT INTO meta SELECT * FROM older.meta";
    let epoch = "UPDATE streams SET epoch = epoch - 1 WHERE stream = 'session/one'";
    let emptied = "DELETE FROM records; DELETE FROM streams; DELETE FROM heads; \
        DELETE FROM meta WHERE name = 'note'";
    let keyless = &format!("{emptied}; DELETE FROM meta WHERE name = 'host'");
    let project = SESSION.replace("session/one", "project");
    for (what, sql, told) in [
        ("session", SESSION, "not those that its signed head covers"),
        ("project", project.as_str(), "not those that its signed head covers"),
        ("epoch", epoch, "not those that its signed head covers"),
        ("all", ALL, "an older copy was put in its place"),
        ("emptied", emptied, "an older copy was put in its place"),
        ("emptied, without its key", keyless, "an older copy was put in its place"),
    ] {
        let (desk, older) = older_copy();
        put_back(&desk, &older.path().join("older"), sql);
        let ran = calls(&desk);
        assert_eq!(ran.code, 74, "{what}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(told), "{what}: {}", ran.err);
        let verified = desk.run(&["verify"]);
        assert_eq!(verified.code, 1, "{what}: {}{}", verified.out, verified.err);
    }
}

/// What a clone brings along, or a program appended behind the signed head, is not signed by a person.
#[test]
fn a_restart_takes_over_no_state_that_was_not_written_here() {
    let foreign = Desk::new();
    foreign.write("toolgate.yaml", "packs: [notes]\n");
    foreign.ok(&["call", "write_notes", r#"{"key":"evil","data":1}"#]);
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [notes]\n");
    copy_folder(&foreign.project().join(".toolgate"), &desk.project().join(".toolgate"));
    let mut command = desk.command();
    command.args(["log", "restart"]);
    let seen = typing(command, &[("Type restart", "restart"), ("passphrase", "")], || {});
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert!(seen.screen.contains("is not taken over"), "{}", seen.screen);
    let notes = desk.ok(&["call", "list_notes", "--json"]);
    assert!(!notes.contains("evil"), "{notes}");
}

#[test]
fn an_older_or_lost_folder_is_refused_until_the_newest_is_put_back() {
    let (desk, older) = older_copy();
    let (home, newest) = (desk.project().join(".toolgate"), older.path().join("newest"));
    std::fs::rename(&home, &newest).unwrap();
    copy_folder(&older.path().join("older"), &home);
    for args in [&["sessions", "list"] as &[&str], &["approvals", "list"]] {
        let ran = desk.run(args);
        assert!(ran.code == 74 && ran.err.contains("an older copy"), "{args:?}: {}", ran.err);
    }
    assert!(calls(&desk).err.contains("an older copy"));
    std::fs::remove_dir_all(&home).unwrap();
    let ran = calls(&desk);
    assert!(ran.code == 74 && ran.err.contains("is not there any more"), "{}", ran.err);
    assert!(ran.err.contains("toolgate log restart"), "{}", ran.err);
    std::fs::remove_dir_all(&home).ok();
    std::fs::rename(&newest, &home).unwrap();
    assert_eq!(calls(&desk).code, 0);
    desk.ok(&["verify"]);
}

/// Another project's log in the place of this one's.
#[test]
fn a_log_in_the_place_of_another_is_refused() {
    let (desk, _older) = older_copy();
    let other = Desk::new();
    other.ok(&["call", "list_notes"]);
    std::fs::copy(log(&other), log(&desk)).unwrap();
    let ran = calls(&desk);
    assert!(ran.code == 74 && ran.err.contains("is not there any more"), "{}", ran.err);
}

#[test]
fn a_moved_folder_goes_on_and_a_copied_one_is_read() {
    let (desk, _older) = older_copy();
    let moved = desk.project().parent().unwrap().join("moved");
    std::fs::rename(desk.project(), &moved).unwrap();
    let there = |args: &[&str]| {
        let ran = desk_at(&desk, &moved).args(args).output().unwrap();
        (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    let call: &[&str] = &["call", "list_notes", "{}", "--session", "one"];
    assert_eq!(there(call).0, Some(0), "{}", there(call).1);
    // The original is where it moved to; this is a copy of it.
    copy_folder(&moved, &desk.project());
    let ran = calls(&desk);
    assert!(ran.code == 74 && ran.err.contains("this is a copy of the log in"), "{}", ran.err);
    let verified = desk.ok(&["verify"]);
    assert!(verified.contains("This is a copy of the log in"), "{verified}");
    desk.ok(&["sessions", "show", "one"]);
    assert_eq!(there(call).0, Some(0), "the original is never refused because of a copy");
    // The copy gets a name of its own.
    let mut command = desk.command();
    command.args(["log", "restart"]);
    let seen = typing(command, &[("Type restart", "restart"), ("passphrase", "")], || {});
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert_eq!(calls(&desk).code, 0, "{}", calls(&desk).err);
    assert_eq!(there(call).0, Some(0));
    desk.ok(&["verify"]);
}

fn desk_at(desk: &Desk, folder: &Path) -> std::process::Command {
    let mut command = desk.command();
    command.current_dir(folder);
    command
}

#[test]
fn a_new_log_takes_over_the_state_and_names_the_old_one() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [notes]\n");
    desk.ok(&["call", "write_notes", r#"{"key":"a","data":{"deep":[1,2]}}"#]);
    let head = desk.ok(&["log", "head"]);
    let old = head.lines().next().unwrap().trim_start_matches("toolgate/").to_owned();
    // Nobody at a terminal: nothing is decided.
    assert_eq!(desk.run(&["log", "restart"]).code, 3);
    let mut command = desk.command();
    command.args(["log", "restart"]);
    let seen = typing(command, &[("Type restart", "restart"), ("passphrase", "")], || {});
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert!(seen.screen.contains("Taken over, signed with your key: 1 values"), "{}", seen.screen);
    assert!(desk.project().join(format!(".toolgate/log-{old}.db")).exists());
    let new = desk.ok(&["log", "head"]);
    assert!(!new.contains(&old), "{new}");
    let read = desk.ok(&["call", "read_notes", r#"{"key":"a"}"#]);
    assert!(read.contains("deep"), "{read}");
    desk.ok(&["verify"]);
    let connection = Connection::open(log(&desk)).unwrap();
    let first: String = connection
        .query_row("SELECT CAST(bytes AS TEXT) FROM records ORDER BY rowid LIMIT 1", (), |row| {
            row.get(0)
        })
        .unwrap();
    assert!(first.contains("restarted_from") && first.contains(&old), "{first}");
}

#[test]
fn a_head_that_was_kept_elsewhere_is_compared() {
    let (desk, older) = older_copy();
    let head = desk.ok(&["log", "head"]);
    desk.write("head.txt", &head);
    desk.ok(&["call", "list_notes", "{}", "--session", "one"]);
    desk.ok(&["verify", "--against", "head.txt"]);
    let state = desk.home().join(".local/state");
    std::fs::remove_dir_all(&state).unwrap();
    std::fs::copy(older.path().join("older/log.db"), log(&desk)).unwrap();
    // Without the anchor the older copy is as good as new; the head that was kept knows better.
    desk.ok(&["verify"]);
    let ran = desk.run(&["verify", "--against", "head.txt", "--json"]);
    assert!(ran.code == 1 && ran.out.contains("fewer commits than head.txt"), "{}", ran.out);
    desk.write("head.txt", &head.replace("toolgate/", "toolgate/0"));
    let ran = desk.run(&["verify", "--against", "head.txt"]);
    assert!(ran.code == 1 && ran.out.contains("does not fit this log"), "{}", ran.out);
}

/// Every commit is remembered, and by the key of this machine.
#[test]
fn the_newest_commit_is_the_one_that_is_remembered() {
    let (desk, _older) = older_copy();
    let shown: serde_json::Value = serde_json::from_str(&desk.ok(&["verify", "--json"])).unwrap();
    assert_eq!(shown["anchored"], shown["commits"], "{shown}");
    assert_eq!(shown["own_host_key"], true);
}

/// A link in the place of the log's folder would bring another project's approvals along.
#[test]
fn a_log_folder_that_is_a_link_is_refused() {
    let (desk, older) = older_copy();
    let (home, aside) = (desk.project().join(".toolgate"), older.path().join("aside"));
    std::fs::rename(&home, &aside).unwrap();
    for target in [aside, older.path().join("older"), older.path().join("nowhere")] {
        std::os::unix::fs::symlink(&target, &home).unwrap();
        for args in [&["call", "list_notes"] as &[&str], &["verify"], &["sessions", "list"]] {
            let ran = desk.run(args);
            assert!(ran.code == 74 && ran.err.contains("is a link"), "{args:?}: {}", ran.err);
        }
        std::fs::remove_file(&home).unwrap();
    }
}

#[test]
fn a_lost_folder_can_be_restarted() {
    let (desk, _older) = older_copy();
    std::fs::remove_dir_all(desk.project().join(".toolgate")).unwrap();
    let mut command = desk.command();
    command.args(["log", "restart"]);
    let seen = typing(command, &[("Type restart", "restart"), ("passphrase", "")], || {});
    assert!(seen.code == 0 && seen.screen.contains("is lost"), "{}", seen.screen);
    assert_eq!(calls(&desk).code, 0);
    desk.ok(&["verify"]);
}
