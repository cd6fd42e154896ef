//! Several people who decide in one project: roles, rules that want two of them, values typed again.

use serde_json::Value;

use crate::support::Desk;
use crate::terminal::{APPROVE, Seen, typing};

const CONFIG: &str = "packs: [notes]\npolicies:\n  - name: four-eyes\n    rule: {tools: [write_notes], \
     ask: 'true', message: A note is serious., by: [approver], count: 2, confirm: key}\n";

/// No passphrase is chosen the first time.
const FIRST: (&str, &str) = ("press Enter for none:", "");

/// A project of Ada, who is its owner, with two approvers and a viewer.
fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("toolgate.yaml", CONFIG);
    let seen = at_terminal(&desk, &["init", "--enrol"], &[FIRST]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    for (name, role) in [("bob", "approver"), ("carol", "approver"), ("vera", "viewer")] {
        let key = at_terminal(&desk, &["--person", name, "people", "key"], &[FIRST]).screen;
        let key = key.lines().map(str::trim).find(|line| line.len() == 64).unwrap().to_owned();
        let enrol = ["people", "enrol", &key, "--name", name, "--role", role];
        let seen = at_terminal(&desk, &enrol, &[("leave to change nothing:", "enrol")]);
        assert_eq!(seen.code, 0, "{}", seen.screen);
    }
    desk
}

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

fn notes(desk: &Desk) -> Value {
    let out = desk.ok(&["call", "list_notes", "--json"]);
    serde_json::from_str::<Value>(&out).unwrap()["data"].clone()
}

#[test]
fn a_rule_for_two_people_runs_after_the_second_one() {
    let desk = desk();
    put_off(&desk, "plan");
    let approve = |name, answers: &[(&str, &str)]| {
        at_terminal(&desk, &["--person", name, "approvals", "approve", "c1"], answers)
    };
    let typed = ("Type the value of key", "plan");
    // Ada made the call, so she is not one of the two; nobody types a passphrase for nothing.
    let seen = at_terminal(&desk, &["approvals", "approve", "c1"], &[]);
    assert_eq!(seen.code, 2, "{}", seen.screen);
    assert!(seen.screen.contains("the one who started"), "{}", seen.screen);
    let seen = approve("vera", &[]);
    assert!(seen.screen.contains("the approval of an approver"), "{}", seen.screen);
    // Another value than the one that would run approves nothing.
    let wrong =
        [APPROVE, ("Type the value of key", "plans"), ("once more", "x"), ("once more", "y")];
    let seen = approve("bob", &wrong);
    assert_eq!(seen.code, 1, "{}", seen.screen);
    assert!(seen.screen.contains("Nothing was decided"), "{}", seen.screen);
    let seen = approve("bob", &[APPROVE, typed]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert!(
        seen.screen.contains("approvals of 2 people, each approver or above"),
        "{}",
        seen.screen
    );
    assert!(seen.screen.contains("c1 has 1 of 2 approvals"), "{}", seen.screen);
    assert_eq!(notes(&desk), Value::Object(Default::default()));
    let seen = approve("bob", &[]);
    assert!(seen.screen.contains("you have approved this call already"), "{}", seen.screen);
    let listed = desk.ok(&["approvals", "list"]);
    assert!(listed.contains("1 of 2 approvals"), "{listed}");
    let seen = at_terminal(&desk, &["--person", "carol", "approvals", "edit", "c1"], &[]);
    assert!(seen.screen.contains("must approve the same arguments"), "{}", seen.screen);
    let seen = approve("carol", &[APPROVE, typed]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert_eq!(notes(&desk), serde_json::json!({"plan": "number"}));
    let history = desk.ok(&["approvals", "history"]);
    assert!(history.contains("bob") && history.contains("carol"), "{history}");
    desk.ok(&["verify"]);
}

#[test]
fn one_of_two_may_deny_and_a_revoked_person_approves_nothing() {
    let desk = desk();
    put_off(&desk, "plan");
    let revoke = ["people", "revoke", "bob", "--reason", "left"];
    let seen = at_terminal(&desk, &revoke, &[("leave to change nothing:", "revoke")]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    let typed = ("Type the value of key", "plan");
    let seen =
        at_terminal(&desk, &["--person", "bob", "approvals", "approve", "c1"], &[APPROVE, typed]);
    assert_ne!(seen.code, 0, "{}", seen.screen);
    let deny = ["--person", "carol", "approvals", "deny", "c1"];
    let seen = at_terminal(&desk, &deny, &[("leave to change nothing:", "deny")]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert_eq!(desk.ok(&["approvals", "list", "--json"]), "");
    desk.ok(&["verify"]);
}

#[test]
fn there_is_always_an_owner() {
    let desk = desk();
    let listed = desk.ok(&["people", "list", "--json"]);
    let people: Vec<Value> =
        listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ada = people.iter().find(|one| one["name"] == "ada").unwrap();
    let key = ada["key"].as_str().unwrap();
    let demote = ["people", "enrol", key, "--name", "ada", "--role", "viewer"];
    let seen = at_terminal(&desk, &demote, &[]);
    assert!(seen.screen.contains("the only owner"), "{}", seen.screen);
    let seen = at_terminal(&desk, &["people", "revoke", "ada"], &[]);
    assert!(seen.screen.contains("the only owner"), "{}", seen.screen);
    // An approver enrols and revokes nobody.
    let enrol = ["--person", "bob", "people", "enrol", key, "--name", "ada", "--role", "owner"];
    let seen = at_terminal(&desk, &enrol, &[("leave to change nothing:", "enrol")]);
    assert_ne!(seen.code, 0, "{}", seen.screen);
    desk.ok(&["verify"]);
}

#[test]
fn only_an_owner_begins_a_new_log() {
    let desk = desk();
    let restart = ["--person", "bob", "log", "restart"];
    let seen = at_terminal(&desk, &restart, &[("Type restart", "restart")]);
    assert_ne!(seen.code, 0, "{}", seen.screen);
    assert!(seen.screen.contains("only an owner of the log before"), "{}", seen.screen);
    // Nothing was changed: the people are who they were.
    let people = desk.ok(&["people", "list", "--json"]);
    assert_eq!(people.lines().count(), 4, "{people}");
    let seen = at_terminal(&desk, &["log", "restart"], &[("Type restart", "restart")]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert!(!desk.ok(&["verify"]).contains("without an owner"));
    // Without an owner it takes a word more, and the log keeps it.
    let lost = ["--person", "bob", "log", "restart", "--owner-lost"];
    let seen = at_terminal(&desk, &lost, &[("Type restart", "restart")]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    let verified = desk.ok(&["verify"]);
    assert!(verified.contains("begun anew without an owner of the log before"), "{verified}");
}

#[test]
fn a_person_without_a_key_starts_nothing() {
    let desk = desk();
    let args = ["--person", "zoe", "call", "write_notes", r#"{"key":"plan","data":1}"#];
    let ran = desk.run(&args);
    assert!(ran.code != 0 && ran.err.contains("zoe has no key on this account"), "{}", ran.err);
    assert_eq!(desk.ok(&["approvals", "list", "--json"]), "");
}

#[test]
fn who_decided_first_is_remembered_and_can_be_named() {
    let desk = desk();
    desk.ok(&["call", "list_notes"]);
    let shown: Value = serde_json::from_str(&desk.ok(&["verify", "--json"])).unwrap();
    assert_eq!(shown["root"]["basis"], "seen_here", "{shown}");
    let root = shown["root"]["key"].as_str().unwrap().to_owned();
    desk.ok(&["verify", "--root", &root]);
    let other = "1".repeat(64);
    let ran = desk.run(&["verify", "--root", &other]);
    assert!(ran.code == 1 && ran.out.contains("has another key than --root says"), "{}", ran.out);
    // The log names another first person than the one who is remembered: it was written anew.
    let log = shown["log"].as_str().unwrap();
    let kept = desk.home().join(".local/state/toolgate/roots").join(log);
    std::fs::write(kept, other).unwrap();
    let ran = desk.run(&["call", "list_notes"]);
    assert!(ran.code != 0 && ran.err.contains("it was written anew"), "{}", ran.err);
    assert_eq!(desk.run(&["verify"]).code, 1);
}

/// A statement names the head of the log that the person's process had checked.
#[test]
fn a_decision_seals_the_log_that_was_there() {
    let desk = desk();
    let log = rusqlite::Connection::open(desk.project().join(".toolgate/log.db")).unwrap();
    let mut rows = log.prepare("SELECT CAST(bytes AS TEXT) FROM records ORDER BY rowid").unwrap();
    let texts = rows.query_map((), |row| row.get::<_, String>(0)).unwrap();
    let decided: Vec<Value> = texts
        .map(|text| serde_json::from_str::<Value>(&text.unwrap()).unwrap())
        .filter(|record| record.get("decision").is_some())
        .collect();
    assert!(decided.len() >= 4, "{decided:?}");
    // The first one may come before the first commit.
    for record in &decided[1..] {
        let head = &record["decision"]["statement"]["head"];
        assert!(head["size"].as_u64().unwrap() > 0, "{record}");
    }
}

/// Words that the session has not heard yet are no records that a person looked at.
#[test]
fn clearing_names_the_last_record_that_is_there() {
    let desk = desk();
    put_off(&desk, "plan");
    desk.ok(&["call", "list_notes"]);
    let deny = ["approvals", "deny", "c1"];
    let seen = at_terminal(&desk, &deny, &[("leave to change nothing:", "deny")]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    let clear = ["approvals", "clear-taint", "call", "--reason", "read it"];
    let seen = at_terminal(&desk, &clear, &[("leave to change nothing:", "clear")]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    let log = rusqlite::Connection::open(desk.project().join(".toolgate/log.db")).unwrap();
    let last: i64 = log
        .query_row("SELECT seq FROM streams WHERE stream = 'session/call'", (), |row| row.get(0))
        .unwrap();
    let mut rows = log.prepare("SELECT CAST(bytes AS TEXT) FROM records").unwrap();
    let texts = rows.query_map((), |row| row.get::<_, String>(0)).unwrap();
    let mut texts = texts.map(|text| text.unwrap());
    let cleared = texts.find(|text| text.contains(r#""what":"clear_taint""#)).unwrap();
    assert!(cleared.contains(&format!(r#""seen":{last}"#)), "{last}: {cleared}");
}
