//! Calls undone by the person at a terminal, and by nobody else.

use serde_json::{Value, json};

use crate::support::Desk;
use crate::terminal::{Seen, typing};

const CONFIG: &str = "packs: [notes, manuscript_read, manuscript_write, files]\n";

/// No passphrase is chosen the first time.
const FIRST: (&str, &str) = ("press Enter for none:", "");

fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("toolgate.yaml", CONFIG);
    desk
}

fn note(desk: &Desk, key: &str, data: u64) {
    desk.ok(&["call", "write_notes", &format!(r#"{{"key":"{key}","data":{data}}}"#)]);
}

fn at_terminal(desk: &Desk, args: &[&str], answers: &[(&str, &str)]) -> Seen {
    let mut command = desk.command();
    command.args(args);
    typing(command, answers, || {})
}

fn read(desk: &Desk, key: &str) -> Value {
    let ran = desk.run(&["call", "read_notes", &format!(r#"{{"key":"{key}"}}"#), "--json"]);
    serde_json::from_str::<Value>(&ran.out).unwrap()["data"].clone()
}

#[test]
fn a_person_sees_what_goes_back_and_says_so() {
    let desk = desk();
    note(&desk, "a", 1);
    note(&desk, "a", 2);
    let section = r#"{"name":"one","content":"The sea was calm."}"#;
    desk.ok(&["call", "create_section", section]);
    // Looking needs nobody and changes nothing.
    let shown = desk.ok(&["sessions", "undo", "call", "--calls", "2", "--dry-run", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["calls"][0], json!({"call": "c2", "tool": "write_notes"}));
    let keys = shown["keys"].as_array().unwrap();
    let back = keys.iter().find(|key| key["key"] == "note:a").unwrap();
    assert_eq!((&back["now"], &back["then"]), (&json!(2), &json!(1)));
    assert_eq!(shown["files"][0]["path"], "manuscript.md");
    assert!(desk.project().join("manuscript.md").exists());
    let undo = ("Type undo", "undo");
    let seen = at_terminal(&desk, &["sessions", "undo", "call", "--calls", "2"], &[undo, FIRST]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert!(seen.screen.contains("note:a: 2 → 1"), "{}", seen.screen);
    assert!(!seen.screen.contains("  manuscript:"), "{}", seen.screen);
    assert!(seen.screen.contains("manuscript.md is removed"), "{}", seen.screen);
    assert!(seen.screen.contains("are undone."), "{}", seen.screen);
    assert!(!desk.project().join("manuscript.md").exists());
    assert_eq!(read(&desk, "a"), json!(1));
    let export = desk.ok(&["sessions", "export", "call"]);
    assert!(export.contains("\"undone\"") && export.contains("\"human:ada\""), "{export}");
    assert!(desk.ok(&["sessions", "show", "call"]).contains("A person undid c2"));
    desk.ok(&["verify"]);
}

#[test]
fn a_file_comes_back_and_what_is_undone_stays_undone() {
    let desk = desk();
    desk.write("canon.md", "as it was");
    desk.ok(&["call", "read_file", r#"{"path":"canon.md"}"#]);
    desk.ok(&["call", "write_file", r#"{"path":"canon.md","content":"as it is"}"#]);
    let undo = [("Type undo", "undo"), FIRST];
    let seen = at_terminal(&desk, &["sessions", "undo", "call", "--to", "1"], &undo);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert!(seen.screen.contains("canon.md goes back"), "{}", seen.screen);
    assert_eq!(std::fs::read_to_string(desk.project().join("canon.md")).unwrap(), "as it was");
    let again = at_terminal(&desk, &["sessions", "undo", "call"], &[]);
    assert_ne!(again.code, 0, "{}", again.screen);
    assert!(again.screen.contains("there is nothing to undo"), "{}", again.screen);
}

#[test]
fn a_pipe_is_nobody_and_another_word_leaves_it() {
    let desk = desk();
    note(&desk, "a", 1);
    let ran = desk.run(&["sessions", "undo", "call"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("nobody is at a terminal here"), "{}", ran.err);
    let seen = at_terminal(&desk, &["sessions", "undo", "call"], &[("Type undo", "leave")]);
    assert_eq!(seen.code, 1, "{}", seen.screen);
    let seen = at_terminal(&desk, &["sessions", "undo", "call", "--calls", "9"], &[]);
    assert!(seen.screen.contains("1 changed something that is kept here"), "{}", seen.screen);
    let ran = desk.run(&["sessions", "undo", "nobody", "--dry-run"]);
    assert!(ran.err.contains("nobody"), "{}", ran.err);
    assert_eq!(read(&desk, "a"), json!(1));
}

#[test]
fn what_changes_while_somebody_looks_is_looked_at_again() {
    let desk = desk();
    desk.write("canon.md", "as it was");
    desk.ok(&["call", "read_file", r#"{"path":"canon.md"}"#]);
    desk.ok(&["call", "write_file", r#"{"path":"canon.md","content":"as it is"}"#]);
    let mut command = desk.command();
    command.args(["sessions", "undo", "call"]);
    let seen = typing(command, &[("Type undo", "undo"), FIRST], || {
        desk.write("canon.md", "a person's words");
    });
    assert_ne!(seen.code, 0, "{}", seen.screen);
    assert!(seen.screen.contains("look again"), "{}", seen.screen);
    assert_eq!(
        std::fs::read_to_string(desk.project().join("canon.md")).unwrap(),
        "a person's words"
    );
}

/// An etag counts an undo too: whoever read before it patches nothing that is other by now.
#[test]
fn an_etag_never_goes_back() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [workspace]\n");
    let patch = |more: &str, value: u8| {
        let op = format!(r#"{{"op":"set","path":"/draft/a","value":{value}}}"#);
        desk.run(&["call", "state_patch", &format!(r#"{{{more}"ops":[{op}]}}"#), "--json"])
    };
    assert_eq!((patch("", 1).code, patch("", 2).code), (0, 0));
    let mut command = desk.command();
    command.args(["sessions", "undo", "call"]);
    let seen = typing(command, &[("Type undo", "undo"), ("press Enter for none:", "")], || {});
    assert_eq!(seen.code, 0, "{}", seen.screen);
    let stale = patch(r#""etag":2,"#, 9);
    assert!(stale.code == 1 && stale.out.contains("ETAG_MISMATCH"), "{}", stale.out);
    let got = desk.ok(&["call", "state_get", r#"{"select":["/draft/a"]}"#, "--json"]);
    let got: serde_json::Value = serde_json::from_str(&got).unwrap();
    let data = &got["data"];
    assert_eq!((&data["values"]["/draft/a"], &data["etags"]["draft"]), (&1.into(), &3.into()));
}

/// A lock is a person's word: an undo names what it holds, and changes nothing while it does.
#[test]
fn what_is_locked_is_named_and_not_undone() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [workspace]\n");
    for value in ["First", "Second"] {
        let op = format!(r#"{{"op":"set","path":"/draft/title","value":"{value}"}}"#);
        desk.ok(&["call", "state_patch", &format!(r#"{{"ops":[{op}]}}"#)]);
    }
    let lock = [("Type lock", "lock"), FIRST];
    let seen = at_terminal(&desk, &["facts", "lock", "/draft/title"], &lock);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    let shown = desk.ok(&["sessions", "undo", "call", "--dry-run", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["locked"], json!(["/draft/title"]));
    let seen = at_terminal(&desk, &["sessions", "undo", "call"], &[]);
    assert_eq!(seen.code, 2, "{}", seen.screen);
    assert!(!seen.screen.contains("Type undo"), "{}", seen.screen);
    assert!(seen.screen.contains("Locked, so nothing can be undone"), "{}", seen.screen);
    assert!(seen.screen.contains("unlock first"), "{}", seen.screen);
    let title = || desk.ok(&["call", "state_get", r#"{"select":["/draft/title"]}"#, "--json"]);
    assert!(title().contains("Second"), "{}", title());
    let unlock = [("Type unlock", "unlock")];
    let seen = at_terminal(&desk, &["facts", "unlock", "/draft/title"], &unlock);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    let seen = at_terminal(&desk, &["sessions", "undo", "call"], &[("Type undo", "undo")]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert!(title().contains("First"), "{}", title());
}
