//! Two processes and one session: one has it, and the other is told.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use toolgate_testkit::mcp::Mode;

use crate::gateway::{Pipes, told, until};
use crate::mcp::{Server, made};
use crate::servers::Web;
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
    desk.write_trusted(&config);
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
    desk.write_trusted(&config);
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
    desk.write_trusted(&config);
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

fn piped(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped())
}

/// How a process ended, and what it said.
fn ended(pipes: &mut Pipes) -> (Option<i32>, String) {
    let began = Instant::now();
    let code = loop {
        if let Some(status) = pipes.child.try_wait().unwrap() {
            break status.code();
        }
        assert!(began.elapsed() < Duration::from_secs(8), "it goes on");
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut said = String::new();
    pipes.stderr().read_to_string(&mut said).unwrap();
    (code, said)
}

fn epochs(desk: &Desk) -> Vec<u64> {
    let log = desk.ok(&["sessions", "replay", "mcp", "--json"]);
    let epoch =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?["epoch"].as_u64();
    let mut epochs: Vec<u64> = log.lines().filter_map(epoch).collect();
    assert!(epochs.is_sorted(), "{epochs:?}");
    epochs.dedup();
    epochs
}

/// One process has a session that is offered: whoever is displaced says so, does nothing more, and
/// never takes it back, whether its client calls or not.
#[test]
fn an_offered_session_is_taken_over_once() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [notes]\n");
    let open = |args: &[&str]| {
        let mut command = desk.command();
        command.arg("mcp").args(args);
        let mut pipes = Pipes::of(piped(&mut command));
        pipes.ask("server/discover", json!({}));
        pipes
    };
    let note = |name: &str| json!({ "key": name, "data": "x" });
    let mut first = open(&[]);
    assert_eq!(first.call("write_notes", note("one"))["isError"], false);
    let mut second = open(&["--take-over"]);
    // It may be told, or have ended already.
    if first.try_write("write_notes", note("two")) {
        let result = first.try_read();
        assert!(result.is_none_or(|it| it["result"]["isError"] == true), "nothing of it ran");
    }
    assert_eq!(second.call("write_notes", note("three"))["isError"], false);
    let (code, said) = ended(&mut first);
    assert_eq!(code, Some(75), "{said}");
    assert!(said.contains("taken over by process") || said.contains("somebody else"), "{said}");
    // One that is not called notices too.
    let mut third = open(&["--take-over"]);
    let (code, said) = ended(&mut second);
    assert_eq!(code, Some(75), "{said}");
    assert!(said.contains(&format!("taken over by process {}", third.child.id())), "{said}");
    let notes = told(&third.call("list_notes", json!({}))).to_string();
    assert!(notes.contains("one") && notes.contains("three") && !notes.contains("two"), "{notes}");
    drop(third);
    assert_eq!(epochs(&desk), [1, 2, 3], "nobody took it back");
    desk.ok(&["verify"]);
}

/// Whoever had a call at work when the session was taken over is told what may have come of it: what
/// only reads changed nothing, and of what reaches the world nobody knows.
#[test]
fn a_call_at_work_at_a_take_over_is_told_what_came_of_it() {
    for (effect, code, words) in [
        ("read", "CALL_CANCELLED", "changed nothing: make it again"),
        ("external", "OUTCOME_UNKNOWN", "may or may not have taken effect"),
    ] {
        let desk = Desk::new();
        let web = Web::new(&desk, "x", Mode::Hang);
        let yaml = format!(
            "packs: [notes]\nmcp_servers: {{x: {{url: '{}', effects: {{write: {effect}}}}}}}\n\
             phases: {{A: {{tools: {{mcp: [x], groups: [notes]}}}}}}\n",
            web.url
        );
        desk.write("toolgate.yaml", &yaml);
        let mut first = Pipes::open(&desk, &[]);
        first.send("tools/call", json!({ "name": "mcp__x__write", "arguments": { "text": "a" } }));
        until("the call", || !web.calls().is_empty());
        let mut second = Pipes::open(&desk, &["--take-over"]);
        let result = first.read()["result"].clone();
        let error = &told(&result)["errors"][0];
        assert_eq!(error["code"], code, "{result}");
        assert!(error["message"].as_str().unwrap().contains(words), "{result}");
        assert_eq!(second.call("list_notes", json!({}))["isError"], false);
        drop(second);
        let log = desk.ok(&["sessions", "replay", "mcp", "--json"]);
        assert!(log.contains(code) && !log.contains("Nothing of it ran"), "{log}");
    }
}

/// A process that is displaced while its client calls says so, however often.
#[test]
fn whoever_is_displaced_while_it_is_called_ends_with_75() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [notes]\n");
    let mut before: Option<Pipes> = None;
    for _ in 0..6 {
        let mut command = desk.command();
        let mut next = Pipes::of(piped(command.args(["mcp", "--take-over"])));
        next.ask("server/discover", json!({}));
        if let Some(mut before) = before.replace(next) {
            while before.try_write("list_notes", json!({})) && before.try_read().is_some() {}
            let (code, said) = ended(&mut before);
            assert_eq!(code, Some(75), "{said}");
        }
    }
}

/// Of several that take a session over at the same moment, one has it in the end.
#[test]
fn of_many_that_take_over_one_is_left() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [notes]\n");
    let mut all: Vec<Pipes> = (0..4)
        .map(|_| {
            let mut command = desk.command();
            Pipes::of(piped(command.args(["mcp", "--take-over"])))
        })
        .collect();
    let began = Instant::now();
    let is_over = |pipes: &mut Pipes| pipes.child.try_wait().unwrap().is_some();
    while all.iter_mut().filter_map(|it| is_over(it).then_some(())).count() < 3 {
        assert!(began.elapsed() < Duration::from_secs(20), "more than one has it");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The one that is left stays.
    std::thread::sleep(Duration::from_millis(2_500));
    for pipes in &mut all {
        if is_over(pipes) {
            let (code, said) = ended(pipes);
            assert_eq!(code, Some(75), "{said}");
        } else {
            let note = json!({ "key": "a", "data": "x" });
            assert_eq!(pipes.call("write_notes", note)["isError"], false);
        }
    }
    assert_eq!(all.iter_mut().filter_map(|it| (!is_over(it)).then_some(())).count(), 1);
    drop(all);
    desk.ok(&["verify"]);
}

/// Over HTTP the new one has the address of the old one too, and one that cannot begin leaves the old
/// one where it was.
#[test]
fn a_session_is_taken_over_with_its_address_or_not_at_all() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [notes]\nphases: {A: {tools: {groups: [notes]}}}\n");
    let (_, token) = made(&desk, &[]);
    let mut first = Server::start(&desk, &[]);
    let list = |server: &Server| server.post(&token, "tools/list", json!({})).0;
    assert_eq!(list(&first), 200);
    let address = format!("127.0.0.1:{}", first.port);
    let refused = desk.run(&["mcp", "--http", &address]);
    assert_eq!(refused.code, 75, "{}", refused.err);
    // No address of this computer.
    let failed = desk.run(&["mcp", "--http", "192.0.2.1:9", "--take-over"]);
    assert!(failed.code != 0 && failed.err.contains("cannot be listened on"), "{}", failed.err);
    // An address that somebody else has, who is not displaced.
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    let failed = desk.run(&["mcp", "--http", &taken, "--take-over"]);
    assert!(failed.code != 0 && failed.err.contains("cannot be listened on"), "{}", failed.err);
    // The phase that the session is in is gone.
    desk.write("toolgate.yaml", "packs: [notes]\nphases: {B: {tools: {groups: [notes]}}}\n");
    let failed = desk.run(&["mcp", "--http", &address, "--take-over"]);
    assert!(failed.code != 0, "{}", failed.err);
    desk.write("toolgate.yaml", "packs: [notes]\nphases: {A: {tools: {groups: [notes]}}}\n");
    std::thread::sleep(Duration::from_millis(1_500));
    assert!(first.child.try_wait().unwrap().is_none(), "the first one goes on");
    assert_eq!(list(&first), 200);
    let second = Server::start_on(&desk, first.port, &["--take-over"]);
    assert_eq!(list(&second), 200);
    assert_eq!(first.child.wait().unwrap().code(), Some(75));
    drop(second);
    desk.ok(&["verify"]);
}
