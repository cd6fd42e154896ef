//! Sessions forked from others: shown, listed, gone on with, verified, and refused where they must be.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::held::at_work;
use crate::support::{Beside, Desk, wait_for};
use crate::terminal::typing;

const CONFIG: &str = "
packs: [notes, planning]
policies:
  - name: careful
    rule: {tools: [delete_notes], ask: 'true', message: It is gone then.}
";

const SCRIPT: &str = "
replies:
  - calls: [{tool: write_notes, args: {key: a, data: 1}}, {tool: delete_notes, args: {key: a}}]
  - text: It waits for you.
  - calls: [{tool: write_notes, args: {key: b, data: 2}}]
  - text: And another one.
";

fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("toolgate.yaml", CONFIG);
    desk.write("s.yaml", SCRIPT);
    desk
}

fn sessions(desk: &Desk) -> Vec<Value> {
    let listed = desk.ok(&["sessions", "list", "--json"]);
    listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn named(session: &Value) -> String {
    session["session"].as_str().unwrap().to_owned()
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Head and records of an export.
fn records(export: &str) -> (Value, Value) {
    let export = json_of(export);
    (export["head"].clone(), export["records"].clone())
}

fn typed(mut command: Command, words: &str) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(words.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn chat(desk: &Desk, args: &[&str], words: &str) -> String {
    let mut command = desk.command();
    command.args(["chat", "--model", "script:s.yaml"]).args(args);
    typed(command, words)
}

#[test]
fn a_conversation_is_forked_and_both_go_on() {
    let desk = desk();
    chat(&desk, &["Write and delete."], "");
    let first = named(&sessions(&desk)[0]);
    let before = desk.ok(&["sessions", "export", &first]);
    // Looking makes nothing.
    let shown = json_of(&desk.ok(&["sessions", "fork", &first, "--dry-run", "--json"]));
    assert_eq!((shown.get("fork"), shown.get("go_on")), (None, None));
    let waits = "c2 (delete_notes) waits for a person's yes there; nobody can say it here.";
    assert_eq!(shown["left"], json!([waits]));
    let told = desk.ok(&["sessions", "fork", &first, "--dry-run"]);
    assert!(
        told.contains("would be forked") && told.contains("What is not carried over"),
        "{told}"
    );
    assert_eq!(sessions(&desk).len(), 1);
    // Nobody need be at a terminal, and what waits is for the first one alone.
    let ran = desk.run(&["sessions", "fork", &first]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let fork = named(sessions(&desk).iter().find(|one| one.get("forked_from").is_some()).unwrap());
    assert!(ran.out.contains(&format!("It is {fork}.")), "{}", ran.out);
    assert!(ran.err.contains(&format!("toolgate chat --session {fork}")), "{}", ran.err);
    assert_eq!(records(&desk.ok(&["sessions", "export", &first])), records(&before));
    let waiting = desk.ok(&["approvals", "list"]);
    assert!(waiting.contains(&first) && !waiting.contains(&fork), "{waiting}");
    // What was said before is known, and said when somebody asks.
    let told = chat(&desk, &["--session", &fork], "/why\n/history\nAnother.\n");
    assert!(told.contains("c2 delete_notes was refused"), "{told}");
    for words in ["» Write and delete.", "It waits for you.", "forked from", "And another one."] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert_eq!(told.matches("» Write and delete.").count(), 1, "{told}");
    assert!(chat(&desk, &["--session", &first], "Another.\n").contains("And another one."));
    assert!(desk.ok(&["sessions", "show", &fork]).contains(&format!("forked from {first} at")));
    let list = desk.ok(&["sessions", "list"]);
    assert!(list.contains(&format!("of {first}:")), "{list}");
    let shown = json_of(&desk.ok(&["sessions", "show", &fork, "--json"]));
    assert_eq!(shown["forked_from"]["session"], json!(first));
    desk.ok(&["sessions", "replay", &fork]);
    desk.ok(&["verify"]);
    // The last conversation is still the one it was.
    assert!(chat(&desk, &["--last"], "/history\n").contains("» Another."));
    let explained =
        desk.run(&["explain", "write_notes", r#"{"key":"a","data":3}"#, "--session", &fork]);
    assert!(explained.out.contains("write_notes in main"), "{}", explained.out);
}

#[test]
fn a_run_that_is_over_goes_on_in_a_fork_of_a_fork() {
    let desk = desk();
    desk.write("s.yaml", &SCRIPT.replace(", {tool: delete_notes, args: {key: a}}", ""));
    desk.ok(&["run", "two notes", "--model", "script:s.yaml"]);
    let first = named(&sessions(&desk)[0]);
    let made = json_of(&desk.ok(&["sessions", "fork", &first, "--json"]));
    let fork = made["fork"].as_str().unwrap().to_owned();
    assert_eq!(made["go_on"], json!(format!("toolgate sessions resume {fork} --feedback \"…\"")));
    let second = json_of(&desk.ok(&["sessions", "fork", &fork, "--json"]));
    let second = second["fork"].as_str().unwrap().to_owned();
    // The model of a script says the next of its replies: the turns go on.
    let args = ["--model", "script:s.yaml", "--feedback", "One more."];
    let told = desk.ok(&[&["sessions", "resume", &second][..], &args].concat());
    assert!(told.contains("write_notes b") && told.contains("And another one."), "{told}");
    // How tools are asked for was said in the first session, and is known here.
    let trace = desk.ok(&["sessions", "trace", &second]);
    assert_eq!(json_of(trace.lines().next().unwrap())["request"]["tool_use_mode"], "relaxed");
    // `run` knows nothing of forks: the newest run is still over.
    assert!(
        desk.ok(&["run", "--model", "script:s.yaml"]).contains(&format!("session {first} is over"))
    );
    // A place before the end has a note for the model where things changed meanwhile.
    let then = json_of(&desk.ok(&["sessions", "fork", &second, "--at", "3", "--json"]));
    assert_eq!((&then["changed"], &then["files"]), (&json!(["note:b"]), &json!([])));
    desk.ok(&["verify"]);
}

#[test]
fn what_cannot_be_forked_says_what_to_do() {
    let desk = desk();
    let ran = desk.run(&["sessions", "fork", "nobody"]);
    assert!(ran.code == 2 && ran.err.contains("there is no log"), "{}", ran.err);
    desk.ok(&["call", "write_notes", r#"{"key":"a","data":1}"#]);
    let end = sessions(&desk)[0]["records"].as_u64().unwrap();
    let beyond = (end + 1).to_string();
    for (args, words) in [
        (&["nobody"][..], "there is no session nobody"),
        (&["call", "--at", &beyond], "give --at 5 or less"),
        (&["call", "--at", "0"], "nothing has happened in call up to record 0"),
        (&["call", "--at", "4"], "nothing has happened in call up to record 4"),
        (&["call", "--at", "x"], "invalid value"),
    ] {
        let ran = desk.run(&[&["sessions", "fork"], args].concat());
        assert!(ran.code == 2 && ran.err.contains(words), "{args:?}: {} {}", ran.code, ran.err);
    }
    // A phase that is gone.
    desk.write("toolgate.yaml", "packs: [notes]\nphases: {OTHER: {}}\n");
    let ran = desk.run(&["sessions", "fork", "call"]);
    assert!(ran.code == 2 && ran.err.contains("no longer has"), "{} {}", ran.code, ran.err);
    assert_eq!(sessions(&desk).len(), 1, "nothing is left of what was refused");
    desk.write("toolgate.yaml", CONFIG);
    // A log that somebody changed is not gone on from.
    let log = desk.project().join(".toolgate/log.db");
    let connection = rusqlite::Connection::open(&log).unwrap();
    let changed = "UPDATE records SET bytes = CAST(replace(CAST(bytes AS TEXT), 'wrote notes', 'wrote NOTES') AS BLOB)";
    assert!(connection.execute(changed, []).unwrap() > 0);
    drop(connection);
    let ran = desk.run(&["sessions", "fork", "call"]);
    assert!(ran.code == 74 && ran.err.contains("toolgate verify"), "{} {}", ran.code, ran.err);
}

/// The other session is at work in another process. Its turn is not whole, so the fork begins before
/// it, and nobody is in anybody's way.
#[test]
fn a_session_that_another_process_has_is_forked_before_its_turn() {
    let (desk, beside) = (Desk::new(), Beside::slowly("replies: [{text: Hello.}]", 2_000));
    let config = format!("packs: []\nsettings: {{model: m}}\n{}", beside.config("openai"));
    desk.write_trusted(&config);
    let mut first = at_work(&desk, &["run", "x"]);
    wait_for("the request", || !beside.seen().is_empty());
    let id = named(&sessions(&desk)[0]);
    let made = json_of(&desk.ok(&["sessions", "fork", &id, "--json"]));
    assert_eq!(made["turns"], json!(0), "{made}");
    assert!(first.wait().unwrap().success());
    desk.ok(&["verify"]);
}

/// The project knows a person's key from here on. A fork needs none, and what was undone stays so.
#[test]
fn a_fork_after_an_undo_needs_no_key() {
    let desk = desk();
    for data in [1, 2] {
        let plan = format!(r#"{{"objective":"tale {data}"}}"#);
        desk.ok(&["call", "planning_setup_plan", &plan]);
        desk.ok(&["call", "write_notes", &format!(r#"{{"key":"k{data}","data":{data}}}"#)]);
    }
    let end = sessions(&desk)[0]["records"].to_string();
    let mut command = desk.command();
    command.args(["sessions", "undo", "call", "--calls", "2"]);
    let undo = [("Type undo", "undo"), ("press Enter for none:", "")];
    let seen = typing(command, &undo, || {});
    assert_eq!(seen.code, 0, "{}", seen.screen);
    // From its end it has the first plan, from before the undo the second one.
    let state = |args: &[&str]| {
        let made = json_of(&desk.ok(&[&["sessions", "fork", "call", "--json"], args].concat()));
        let fork = made["fork"].as_str().unwrap().to_owned();
        let export = json_of(&desk.ok(&["sessions", "export", &fork]));
        (made["changed"].clone(), export["state"].to_string())
    };
    let (changed, now) = state(&[]);
    assert!(changed == json!([]) && now.contains("tale 1") && !now.contains("tale 2"), "{now}");
    let (changed, then) = state(&["--at", &end]);
    assert!(changed == json!(["note:k2"]) && then.contains("tale 2"), "{changed} {then}");
    desk.ok(&["verify"]);
}

/// What is wrong with the other session after the place is told of that session alone.
#[test]
fn damage_after_the_place_is_no_damage_of_the_fork() {
    let desk = desk();
    desk.ok(&["call", "write_notes", r#"{"key":"a","data":1}"#]);
    let made = json_of(&desk.ok(&["sessions", "fork", "call", "--json"]));
    let fork = made["fork"].as_str().unwrap().to_owned();
    desk.ok(&["call", "write_notes", r#"{"key":"b","data":2}"#]);
    let connection = rusqlite::Connection::open(desk.project().join(".toolgate/log.db")).unwrap();
    let next = r#"UPDATE records SET bytes = CAST(replace(CAST(bytes AS TEXT), '\"b\"', '\"x\"') AS BLOB)"#;
    assert!(connection.execute(next, []).unwrap() > 0);
    drop(connection);
    let verified = desk.run(&["verify"]);
    assert_eq!(verified.code, 1, "{}", verified.out);
    assert!(verified.out.contains("session/call"), "{}", verified.out);
    assert!(!verified.out.contains(&fork), "{}", verified.out);
    desk.ok(&["sessions", "replay", &fork]);
}

/// What was spent is carried over, so a fork of a run that spent its budget says what to change.
#[test]
fn a_fork_that_would_end_at_once_says_so() {
    let desk = desk();
    let budget = |max: u32| format!("packs: [notes]\nbudget: {{total_tokens_max: {max}}}\n");
    desk.write("toolgate.yaml", &budget(10));
    let call = "calls: [{tool: write_notes, args: {key: a, data: 1}}]";
    let usage = "usage: {input_tokens: 40, output_tokens: 2}";
    desk.write("s.yaml", &format!("replies:\n  - {{{call}, {usage}}}\n  - text: Done.\n"));
    let ran = desk.run(&["run", "a note", "--model", "script:s.yaml"]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let first = named(&sessions(&desk)[0]);
    let shown = json_of(&desk.ok(&["sessions", "fork", &first, "--dry-run", "--json"]));
    let ends = shown["ends"].as_str().unwrap();
    assert!(ends.contains("total_tokens; raise it under `budget`"), "{ends}");
    let told = desk.ok(&["sessions", "fork", &first, "--dry-run"]);
    assert!(told.contains("It ends as soon as it goes on"), "{told}");
    desk.write("toolgate.yaml", &budget(1_000));
    let made = json_of(&desk.ok(&["sessions", "fork", &first, "--json"]));
    assert_eq!(made.get("ends"), None, "{made}");
    let fork = made["fork"].as_str().unwrap().to_owned();
    let told = desk.ok(&["sessions", "resume", &fork, "--model", "script:s.yaml"]);
    assert!(told.contains("Done."), "{told}");
}
