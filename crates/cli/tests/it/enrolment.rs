//! Whose key a project knows, from the beginning on: whoever sat at the terminal.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::support::Desk;
use crate::terminal::{APPROVE, Seen, typing};

const FIRST: (&str, &str) = ("press Enter for none:", "");
const CONFIG: &str = "packs: [notes]\npolicies:\n  - name: careful\n    rule: {tools: [write_notes], \
     ask: 'true', message: A note is serious.}\n";

fn at_terminal(desk: &Desk, args: &[&str], answers: &[(&str, &str)]) -> Seen {
    let mut command = desk.command();
    command.args(args);
    typing(command, answers, || {})
}

fn person(desk: &Desk) -> Value {
    let out = desk.run(&["doctor", "--json"]).out;
    let report: Value = serde_json::from_str(&out).expect(&out);
    report["person"].clone()
}

/// Records of the project that make a key known.
fn enrolments(desk: &Desk) -> i64 {
    let log = rusqlite::Connection::open(desk.project().join(".toolgate/log.db")).unwrap();
    let count =
        "SELECT count(*) FROM records WHERE instr(CAST(bytes AS TEXT), 'person_enrolled') > 0";
    log.query_row(count, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_key_is_made_known_so_that_no_program_is_first() {
    let desk = Desk::new();
    desk.ok(&["init", "--template", "minimal"]);
    let seen = at_terminal(&desk, &["init", "--enrol"], &[FIRST]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert!(seen.screen.contains("This project knows your key: human:ada, "), "{}", seen.screen);
    assert_eq!(person(&desk)["known"], true);
    desk.write("toolgate.yaml", CONFIG);
    assert_eq!(desk.run(&["call", "write_notes", r#"{"key":"a","data":1}"#]).code, 1);
    // A program with a terminal, the host key and a key of its own comes before the person.
    let other = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(other.path().join(".config/toolgate")).unwrap();
    let own = desk.home().join(".config/toolgate/host.key");
    std::fs::copy(own, other.path().join(".config/toolgate/host.key")).unwrap();
    let mut command = desk.command();
    command.args(["approvals", "approve", "c1"]).env("HOME", other.path());
    let seen = typing(command, &[APPROVE, FIRST], || {});
    assert_eq!(seen.code, 2, "{}", seen.screen);
    assert!(seen.screen.contains("knows another person's key"), "{}", seen.screen);
    // The person decides as ever, and is enrolled once.
    let approve = [APPROVE];
    let seen = at_terminal(&desk, &["approvals", "approve", "c1"], &approve);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert_eq!(enrolments(&desk), 1);
    desk.ok(&["verify"]);
}

#[test]
fn init_enrols_no_person_and_says_how() {
    let desk = Desk::new();
    let ran = desk.run(&["init"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("No person is enrolled in this project yet"), "{}", ran.err);
    assert!(ran.err.ends_with("at a terminal: toolgate init --enrol\n"), "{}", ran.err);
    let told = person(&desk);
    assert_eq!((&told["enrolled"], &told["known"]), (&Value::from(false), &Value::Null));
    assert!(told["says"].as_str().unwrap().contains("toolgate init --enrol"), "{told}");
    let ran = desk.run(&["init", "--enrol"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    let seen = at_terminal(&desk, &["init", "--enrol"], &[FIRST]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert_eq!(person(&desk)["known"], true);
    // Once more changes nothing.
    assert_eq!(at_terminal(&desk, &["init", "--enrol"], &[]).code, 0);
    assert_eq!(enrolments(&desk), 1);
}

#[test]
fn the_first_word_makes_a_key_known_once() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", CONFIG);
    for (call, first) in [("c1", true), ("c3", false)] {
        assert_eq!(desk.run(&["call", "write_notes", r#"{"key":"a","data":1}"#]).code, 1);
        let mut answers = vec![APPROVE];
        answers.extend(first.then_some(FIRST));
        let seen = at_terminal(&desk, &["approvals", "approve", call], &answers);
        assert_eq!(seen.code, 0, "{}", seen.screen);
    }
    assert_eq!(enrolments(&desk), 1);
    desk.ok(&["verify"]);
}

#[test]
fn doctor_tells_of_a_key_that_cannot_be_used() {
    let desk = Desk::new();
    desk.ok(&["init"]);
    let path = desk.home().join(".config/toolgate/person.key");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let secret = std::fs::Permissions::from_mode(0o600);
    for (content, mode, why) in
        [("nonsense", 0o600, "is no person's key"), ("{}", 0o644, "can be read by others")]
    {
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let told = person(&desk);
        assert!(told["fault"].as_str().unwrap().contains(why), "{told}");
        assert!(told["says"].as_str().unwrap().contains("Your key cannot be used"), "{told}");
        let ran = desk.run(&["doctor"]);
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert!(ran.out.contains("person: a key that cannot be used"), "{}", ran.out);
        assert!(ran.out.contains("On this machine:"), "{}", ran.out);
    }
    std::fs::set_permissions(&path, secret).unwrap();
}
