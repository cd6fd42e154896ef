//! Somebody else looks at a project: with a home of their own and public keys only, they read and verify
//! everything and add nothing. And a team: another owner takes over where a key is lost.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Desk, Ran};
use crate::terminal::{APPROVE, Seen, typing};

const FIRST: (&str, &str) = ("press Enter for none:", "");
const CONFIG: &str = "packs: [notes]\npolicies:\n  - name: careful\n    rule: {tools: [write_notes], \
     ask: 'true', message: A note is serious.}\n";

fn at_terminal(desk: &Desk, args: &[&str], answers: &[(&str, &str)]) -> Seen {
    let mut command = desk.command();
    command.args(args);
    typing(command, answers, || {})
}

fn put_off(desk: &Desk, key: &str) {
    let args = format!(r#"{{"key":"{key}","data":1}}"#);
    let ran = desk.run(&["call", "write_notes", &args, "--json"]);
    assert!(ran.out.contains("APPROVAL_PENDING"), "{}{}", ran.out, ran.err);
}

/// A project in which Ada approved a call and another one waits.
fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("toolgate.yaml", CONFIG);
    put_off(&desk, "a");
    let seen = at_terminal(&desk, &["approvals", "approve", "c1"], &[APPROVE, FIRST]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    put_off(&desk, "b");
    desk
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// The project as an auditor has it: a copy, and a home without anything of its people.
struct Auditor {
    desk: Desk,
}

impl Auditor {
    fn of(desk: &Desk) -> Self {
        let auditor = Self { desk: Desk::new() };
        copy_folder(&desk.project(), &auditor.desk.project());
        auditor
    }

    fn run(&self, args: &[&str]) -> Ran {
        let mut command: Command = self.desk.command();
        let ran = command.env("USER", "eve").args(args).output().unwrap();
        Ran {
            code: ran.status.code().unwrap_or(-1),
            out: String::from_utf8(ran.stdout).unwrap(),
            err: String::from_utf8(ran.stderr).unwrap(),
        }
    }

    fn log(&self) -> Vec<u8> {
        fs::read(self.desk.project().join(".toolgate/log.db")).unwrap()
    }
}

const READS: &[&[&str]] = &[
    &["verify"],
    &["sessions", "list"],
    &["sessions", "show", "call"],
    &["sessions", "export", "call"],
    &["approvals", "list"],
    &["approvals", "history"],
    &["people", "list"],
    &["log", "head"],
    &["log", "diff-config"],
];

fn key_of(desk: &Desk, name: &str) -> String {
    let listed = desk.ok(&["people", "list", "--json"]);
    let people = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let person = people.into_iter().find(|one| one["name"] == name).expect(&listed);
    person["key"].as_str().unwrap().to_owned()
}

#[test]
fn another_home_reads_everything_and_appends_nothing() {
    let desk = desk();
    let auditor = Auditor::of(&desk);
    auditor.desk.write("s.yaml", "replies: [{text: Done.}]\n");
    let before = auditor.log();
    for args in READS {
        let ran = auditor.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {}{}", ran.out, ran.err);
    }
    for name in ["host.key", "person.key"] {
        assert!(!auditor.desk.home().join(".config/toolgate").join(name).exists(), "{name}");
    }
    for args in [
        &["call", "list_notes"] as &[&str],
        &["call", "write_notes", r#"{"key":"c","data":1}"#],
        &["run", "x", "--model", "script:s.yaml"],
    ] {
        let ran = auditor.run(args);
        // There is no key here that could sign the next commit.
        assert!(ran.code == 2 && ran.err.contains("is missing"), "{args:?}: {}", ran.err);
    }
    let seen = {
        let mut command = auditor.desk.command();
        command.args(["approvals", "approve", "c3"]).env("USER", "eve");
        typing(command, &[APPROVE, FIRST], || {})
    };
    assert_ne!(seen.code, 0, "{}", seen.screen);
    assert_eq!(auditor.log(), before, "nothing was appended");
    assert_eq!(auditor.run(&["verify"]).code, 0);
}

/// Any byte of a record that is another one is found, and by everyone.
#[test]
fn another_home_finds_one_byte() {
    let desk = desk();
    for (table, column) in [("records", "bytes"), ("heads", "streams_root"), ("blobs", "bytes")] {
        let auditor = Auditor::of(&desk);
        let log = auditor.desk.project().join(".toolgate/log.db");
        let connection = rusqlite::Connection::open(&log).unwrap();
        let sql = format!("SELECT rowid, {column} FROM {table} ORDER BY rowid DESC LIMIT 1");
        let (row, mut bytes): (i64, Vec<u8>) =
            connection.query_row(&sql, (), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        let sql = format!("UPDATE {table} SET {column} = ?1 WHERE rowid = ?2");
        assert_eq!(connection.execute(&sql, (bytes, row)).unwrap(), 1);
        drop(connection);
        let ran = auditor.run(&["verify"]);
        assert_eq!(ran.code, 1, "{table}: {}{}", ran.out, ran.err);
    }
}

/// An auditor who knows the key of the first owner, or all keys, is told when the log has others. A log that
/// somebody made with keys of their own verifies by itself.
#[test]
fn the_people_of_a_log_are_compared_with_those_an_auditor_knows() {
    let desk = desk();
    let ada = key_of(&desk, "ada");
    let auditor = Auditor::of(&desk);
    let told = auditor.run(&["verify"]);
    assert!(told.out.contains("nothing here vouches for that key"), "{}", told.out);
    let told = auditor.run(&["verify", "--root", &ada]);
    assert!(told.code == 0 && told.out.contains("as --root says"), "{}{}", told.out, told.err);
    fs::write(auditor.desk.project().join("people.txt"), format!("# The team.\nada {ada}\n"))
        .unwrap();
    let told = auditor.run(&["verify", "--people", "people.txt"]);
    assert!(told.code == 0 && told.out.contains("as people.txt says"), "{}{}", told.out, told.err);
    // The same project as somebody else could have made it.
    let forged = Auditor::of(&self::desk());
    assert_eq!(forged.run(&["verify"]).code, 0);
    let told = forged.run(&["verify", "--root", &ada]);
    assert!(told.code == 1 && told.out.contains("another key than --root"), "{}", told.out);
    fs::write(forged.desk.project().join("people.txt"), format!("ada {ada}\n")).unwrap();
    let told = forged.run(&["verify", "--people", "people.txt", "--json"]);
    assert!(told.code == 1 && told.out.contains("does not name"), "{}", told.out);
    for (text, why) in [("ada\n", "line 1"), ("ada abc\n", "line 1"), ("", "names nobody")] {
        fs::write(forged.desk.project().join("people.txt"), text).unwrap();
        let told = forged.run(&["verify", "--people", "people.txt"]);
        assert!(told.code == 2 && told.err.contains(why), "{text:?}: {}{}", told.out, told.err);
    }
    // A log without people has no first owner to compare.
    let empty = Desk::new();
    empty.write("toolgate.yaml", "packs: [notes]\n");
    empty.ok(&["call", "list_notes"]);
    assert_eq!(empty.run(&["verify", "--root", &ada]).code, 1);
    assert!(empty.ok(&["verify"]).contains("No person decided anything in it."));
}

/// Two owners; one loses their key, and the other one revokes it and enrols the new one. Nothing that was
/// decided before is lost.
#[test]
fn another_owner_replaces_a_lost_key() {
    let desk = desk();
    let bob = at_terminal(&desk, &["--person", "bob", "people", "key"], &[FIRST]).screen;
    let bob = bob.lines().find(|line| line.len() == 64).expect("a key").to_owned();
    let enrol = |who: &[&str], key: &str, name: &str, role: &str| {
        let args = [who, &["people", "enrol", key, "--name", name, "--role", role]].concat();
        at_terminal(&desk, &args, &[("leave to change nothing:", "enrol")])
    };
    let seen = enrol(&[], &bob, "bob", "owner");
    assert_eq!(seen.code, 0, "{}", seen.screen);
    // Ada's key is gone.
    let key = desk.home().join(".config/toolgate/person.key");
    let lost = desk.home().join("lost.key");
    fs::rename(&key, &lost).unwrap();
    let seen = at_terminal(&desk, &["approvals", "approve", "c3"], &[APPROVE, FIRST]);
    assert!(seen.screen.contains("knows another person's key"), "{}", seen.screen);
    let new = desk.ok(&["people", "key"]).trim().to_owned();
    let old = key_of(&desk, "ada");
    let revoke = ["--person", "bob", "people", "revoke", &old, "--reason", "lost"];
    let seen = at_terminal(&desk, &revoke, &[("leave to change nothing:", "revoke")]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    let seen = enrol(&["--person", "bob"], &new, "ada", "owner");
    assert_eq!(seen.code, 0, "{}", seen.screen);
    let seen = at_terminal(&desk, &["approvals", "approve", "c3"], &[APPROVE]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    // Whoever finds the lost key decides nothing with it.
    put_off(&desk, "c");
    fs::rename(&lost, &key).unwrap();
    let listed = desk.ok(&["approvals", "list", "--json"]);
    let card: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    let seen =
        at_terminal(&desk, &["approvals", "approve", card["call"].as_str().unwrap()], &[APPROVE]);
    assert_ne!(seen.code, 0, "{}", seen.screen);
    let notes = desk.ok(&["call", "list_notes", "--json"]);
    assert!(
        notes.contains("\"a\"") && notes.contains("\"b\"") && !notes.contains("\"c\""),
        "{notes}"
    );
    desk.ok(&["verify"]);
    assert_eq!(Auditor::of(&desk).run(&["verify", "--root", &old]).code, 0, "the root stays");
}

/// Who is called "user of" something in the environment is a person with a key, or nobody.
#[test]
fn a_name_of_the_environment_gives_no_right() {
    for user in ["user of stdio", "client_user:stdio", "system", "", "\u{202e}ada"] {
        let desk = Desk::new();
        desk.write("toolgate.yaml", CONFIG);
        put_off(&desk, "a");
        let mut command = desk.command();
        command.env("USER", user).args(["approvals", "approve", "c1"]);
        // Without a terminal it is nobody, whatever it is called.
        let ran = command.output().unwrap();
        assert_eq!(ran.status.code(), Some(3), "{user:?}");
        let mut command = desk.command();
        command.env("USER", user).args(["approvals", "approve", "c1"]);
        let seen = typing(command, &[APPROVE, FIRST], || {});
        assert_eq!(seen.code, 0, "{user:?}: {}", seen.screen);
        let log = desk.ok(&["sessions", "export", "call"]);
        assert!(!log.contains("\"client_user:"), "{log}");
        let labels: Vec<&str> = log.split("\"human:").skip(1).collect();
        assert!(!labels.is_empty(), "{log}");
        for label in labels {
            let label = label.split('"').next().unwrap();
            let is_plain =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
            assert!(label.chars().all(is_plain), "{label}");
        }
        desk.ok(&["verify"]);
    }
}
