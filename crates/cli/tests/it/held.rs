//! Two processes and one session: one has it, and the other is told.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

use crate::support::{Beside, Desk, wait_for};

const SLOW_MS: u64 = 60_000;

/// A run that waits for its model.
pub(crate) fn at_work(desk: &Desk, args: &[&str]) -> Child {
    let mut command = desk.command();
    command.env("FAKE_KEY", "sk-CANARY-01").args(args);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    if args.first() == Some(&"run") {
        // The first line is out once the session is there.
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("session run-"), "{line}");
    }
    child
}

pub(crate) fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_live_run_is_not_taken_over_and_a_dead_one_goes_on_at_once() {
    let (desk, beside) = (Desk::new(), Beside::slowly("replies: [{text: Done.}]", SLOW_MS));
    let config = format!("packs: [notes]\nsettings: {{model: m}}\n{}", beside.config("openai"));
    desk.write("toolgate.yaml", &config);
    let first = at_work(&desk, &["run", "x"]);
    let list = desk.ok(&["sessions", "list"]);
    let id = list.split_whitespace().next().unwrap().to_owned();
    for args in [
        vec!["run"],
        vec!["run", "x", "--json"],
        vec!["sessions", "resume", &id],
        vec!["call", "list_notes", "--session", &id],
    ] {
        let second = desk.command().env("FAKE_KEY", "sk-CANARY-01").args(&args).output().unwrap();
        let told =
            String::from_utf8_lossy(&second.stdout) + String::from_utf8_lossy(&second.stderr);
        assert_eq!(second.status.code(), Some(75), "{args:?}: {told}");
        let process = format!("process {}", first.id());
        assert!(told.contains(&process) && told.contains("--take-over"), "{told}");
    }
    // Looking at it disturbs nobody.
    desk.ok(&["sessions", "show", &id]);
    desk.ok(&["verify"]);
    end(first);
    desk.write("s.yaml", "replies: [{text: Done.}]");
    assert!(desk.ok(&["run", "--model", "script:s.yaml"]).contains("✓ Completed."));
    assert_eq!(desk.ok(&["sessions", "list"]).lines().count(), 1, "it was the same session");
}

#[test]
fn a_session_is_taken_over_by_whoever_says_so() {
    let (desk, beside) = (Desk::new(), Beside::slowly("replies: [{text: Done.}]", 2_000));
    let config = format!("packs: []\nsettings: {{model: m}}\n{}", beside.config("openai"));
    desk.write("toolgate.yaml", &config);
    let first = at_work(&desk, &["run", "x"]);
    wait_for("the request", || !beside.seen().is_empty());
    desk.write("s.yaml", "replies: [{text: Done.}]");
    let taken = desk.ok(&["run", "--model", "script:s.yaml", "--take-over"]);
    assert!(taken.contains("✓ Completed."), "{taken}");
    // The first one writes nothing more, and says why.
    let displaced = first.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&displaced.stderr);
    assert_eq!(displaced.status.code(), Some(75), "{told}");
    assert!(told.contains("somebody else"), "{told}");
    desk.ok(&["verify"]);
}

#[test]
fn a_conversation_is_had_by_one() {
    let (desk, beside) = (Desk::new(), Beside::playing("replies: [{text: Hello.}]"));
    let config = format!("packs: []\nsettings: {{model: m}}\n{}", beside.config("openai"));
    desk.write("toolgate.yaml", &config);
    let mut first = at_work(&desk, &["chat"]);
    // It waits for the next line, and has the conversation.
    first.stdin.as_mut().unwrap().write_all(b"Hi.\n").unwrap();
    let log = desk.project().join(".toolgate/log.db");
    wait_for("the answer", || {
        log.exists() && desk.run(&["sessions", "list", "--json"]).out.contains("\"turns\":1")
    });
    desk.write("s.yaml", "replies: [{text: Hello.}, {text: Hello again.}]");
    let chat = ["chat", "--last", "And now?", "--model", "script:s.yaml"];
    let second = desk.run(&chat);
    assert_eq!(second.code, 75, "{}{}", second.out, second.err);
    assert!(second.err.contains(&format!("process {}", first.id())), "{}", second.err);
    end(first);
    assert!(desk.ok(&chat).contains("Hello again."));
}
