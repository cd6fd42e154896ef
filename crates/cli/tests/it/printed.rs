//! `--json` prints what the log has of a run: everything, once, in order.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{Beside, Desk, wait_for};

const CONFIG: &str = "packs: [notes]\npolicies:\n  - name: careful\n    rule: {tools: [write_notes], \
     ask: 'true', message: A note is serious.}\nphases: {A: {transitions: [B], tools: {groups: \
     [notes]}}, B: {tools: {groups: [notes]}}}\n";

const SCRIPT: &str =
    "replies: [{calls: [{tool: write_notes, args: {key: a, data: 1}}]}, {text: Done.}]\n";

fn desk(beside: &Beside) -> Desk {
    let desk = Desk::new();
    desk.write_trusted(&format!("{CONFIG}{}", beside.config("openai")));
    desk.write("s.yaml", SCRIPT);
    desk
}

fn seqs(lines: &str) -> Vec<u64> {
    let seq = |line| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap();
    lines.lines().map(seq).collect()
}

/// The only session.
fn session(desk: &Desk) -> String {
    let only: Value = serde_json::from_str(&desk.ok(&["sessions", "list", "--json"])).unwrap();
    only["session"].as_str().unwrap().to_owned()
}

/// The numbers of its records.
fn log(desk: &Desk) -> Vec<u64> {
    seqs(&desk.ok(&["sessions", "replay", &session(desk), "--json"]))
}

fn begun(desk: &Desk, args: &[&str]) -> Child {
    let mut command = desk.command();
    command.env("FAKE_KEY", "sk-CANARY-01").args(args).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What a program prints that is told to go while the model answers.
fn stopped(desk: &Desk, beside: &Beside, mut child: Child, words: &str, signal: &str) -> Vec<u64> {
    child.stdin.as_mut().unwrap().write_all(words.as_bytes()).unwrap();
    wait_for("the request", || !beside.seen().is_empty());
    let told = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(told.unwrap().success());
    let out = child.wait_with_output().unwrap();
    let out = String::from_utf8(out.stdout).unwrap();
    assert!(out.lines().last().unwrap().contains("stopped while the model"), "{out}");
    assert_eq!(seqs(&out), log(desk), "{signal}");
    seqs(&out)
}

#[test]
fn a_run_is_printed_as_the_log_has_it_to_its_end() {
    let beside = Beside::playing("replies: []");
    for how in ["park", "deny", "prompt"] {
        let desk = desk(&beside);
        let ran = desk.run(&["run", "x", "--model", "script:s.yaml", "--json", "--on-ask", how]);
        let printed = seqs(&ran.out);
        assert_eq!(printed.first(), Some(&1), "{how}: {}", ran.err);
        assert_eq!(printed, log(&desk), "{how}: {}", ran.err);
    }
}

#[test]
fn a_run_that_is_stopped_and_goes_on_is_printed_whole() {
    for signal in ["-TERM", "-INT"] {
        let beside = Beside::slowly("replies: [{text: Late.}]", 60_000);
        let desk = desk(&beside);
        let run = begun(&desk, &["run", "x", "--model", "m", "--json"]);
        let before = stopped(&desk, &beside, run, "", signal);
        let id = session(&desk);
        desk.write("none.yaml", "replies: []\n");
        for again in [&["run", "--feedback", "Go on."] as &[&str], &["sessions", "resume", &id]] {
            let known = log(&desk).len();
            let model = ["--model", "script:none.yaml", "--json"];
            let ran = desk.run(&[again, &model].concat());
            assert!(known >= before.len() && !ran.out.is_empty(), "{again:?} {}", ran.err);
            assert_eq!(seqs(&ran.out), log(&desk)[known..], "{again:?} {}", ran.err);
        }
    }
}

#[test]
fn a_run_that_was_taken_over_prints_nothing_of_the_other_one() {
    let beside = Beside::slowly("replies: [{text: Late.}]", 60_000);
    let desk = desk(&beside);
    let first = begun(&desk, &["run", "x", "--model", "m", "--json"]);
    wait_for("the request", || !beside.seen().is_empty());
    desk.write("none.yaml", "replies: []\n");
    let known = log(&desk);
    let other = ["run", "--take-over", "--feedback", "Go on.", "--model", "script:none.yaml"];
    let ran = desk.run(&[&other as &[&str], &["--json"]].concat());
    assert_eq!(seqs(&ran.out), log(&desk)[known.len()..], "{}", ran.err);
    let told = Command::new("kill").args(["-TERM", &first.id().to_string()]).status();
    assert!(told.unwrap().success());
    let out = String::from_utf8(first.wait_with_output().unwrap().stdout).unwrap();
    let (own, error) = out.trim_end().rsplit_once('\n').unwrap();
    assert!(error.contains("driven by somebody else"), "{out}");
    assert_eq!(seqs(own), known, "{out}");
}

#[test]
fn a_conversation_is_printed_as_the_log_has_it() {
    let beside = Beside::playing("replies: []");
    let desk = desk(&beside);
    let talk = |args: &[&str], words: &str| {
        let mut chat = begun(&desk, &[&["chat", "--json"], args].concat());
        chat.stdin.take().unwrap().write_all(words.as_bytes()).unwrap();
        let ran = chat.wait_with_output().unwrap();
        (String::from_utf8(ran.stdout).unwrap(), String::from_utf8(ran.stderr).unwrap())
    };
    let model = ["--model", "script:s.yaml"];
    // What commands answer is no event, and is told beside the events.
    let commands = "/retry\nHi.\n/phase B\n/tools\n/why\n/history\n/help\n/nothing\nAnd?\n";
    let (said, told) = talk(&model, commands);
    assert_eq!(seqs(&said), log(&desk), "{said}");
    for words in [
        "Nothing was said yet",
        "● B",
        "write_notes  ",
        "A note is serious",
        "» Hi.",
        "what can be typed",
        "There is no /nothing",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let known = log(&desk).len();
    let (said, _) = talk(&[&model as &[&str], &["--last"]].concat(), "Again.\n");
    assert!(!said.is_empty());
    assert_eq!(seqs(&said), log(&desk)[known..], "{said}");
}

#[test]
fn a_conversation_that_is_stopped_is_printed_whole() {
    let beside = Beside::slowly("replies: [{text: Late.}]", 60_000);
    let desk = desk(&beside);
    let chat = begun(&desk, &["chat", "--json", "--model", "m"]);
    stopped(&desk, &beside, chat, "Hi.\n", "-TERM");
}
