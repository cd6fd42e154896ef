//! A person's part told from outside: two processes at once, kills at any moment, and the ledger of
//! what really happened.

use std::thread;
use std::time::Duration;

use serde_json::Value;
use toolgate_testkit::mcp::Mode;

use crate::servers::Web;
use crate::support::{Beside, Desk, wait_for};
use crate::terminal::{APPROVE, Seen, killed, typing};

/// No passphrase is chosen the first time.
const FIRST: (&str, &str) = ("press Enter for none:", "");
/// What is shown once a yes is in the log.
const SAID: &str = "is approved";
const WRITE: [&str; 3] = ["call", "mcp:x:write", r#"{"text": "Dear all"}"#];

/// A project in which nothing is written to the world without a person's word.
fn desk() -> (Desk, Web) {
    let desk = Desk::new();
    let web = Web::new(&desk, "x", Mode::Normal);
    desk.write("toolgate.yaml", &config(&web));
    (desk, web)
}

fn config(web: &Web) -> String {
    format!(
        "packs: [notes]\nmcp_servers:\n  x: {{url: '{}'}}\nphases:\n  main: {{tools: {{mcp: [x], \
         groups: [notes]}}}}\npolicies:\n  - name: careful\n    rule: {{tools: ['mcp:x:write'], \
         ask: 'true', message: It leaves the house.}}\n",
        web.url
    )
}

fn waiting(desk: &Desk) -> usize {
    let listed = desk.run(&["approvals", "list", "--json"]);
    // Before anything ran there is no log to look at.
    if listed.code == 0 { listed.out.lines().count() } else { 0 }
}

fn at_terminal(desk: &Desk, args: &[&str], answers: &[(&str, &str)]) -> Seen {
    let mut command = desk.command();
    command.args(args);
    typing(command, answers, || {})
}

/// How often each thing happened to calls of this tool, by the log.
fn events(desk: &Desk, session: &str, kind: &str) -> Vec<Value> {
    let log: Value = serde_json::from_str(&desk.ok(&["sessions", "export", session])).unwrap();
    let records = log["records"].as_array().unwrap().iter().map(|record| record["event"].clone());
    records.filter(|event| event["kind"] == kind).collect()
}

#[test]
fn one_process_runs_and_another_one_approves() {
    let (desk, web) = desk();
    let script =
        "replies: [{calls: [{tool: mcp__x__write, args: {text: Dear all}}]}, {text: Done.}]";
    let beside = Beside::playing(script);
    let models = format!("settings: {{model: m}}\n{}", beside.config("openai"));
    desk.write_trusted(&format!("{}{models}", config(&web)));
    thread::scope(|scope| {
        let mut run = desk.command();
        run.env("FAKE_KEY", "sk-CANARY-01").args(["run", "x"]);
        let running = scope.spawn(|| typing(run, &[], || {}));
        wait_for("the question", || waiting(&desk) == 1);
        assert!(web.calls().is_empty(), "{:?}", web.calls());
        let told = at_terminal(&desk, &["approvals", "approve", "c1"], &[APPROVE]);
        assert_eq!(told.code, 0, "{}", told.screen);
        let ran = running.join().unwrap();
        assert_eq!(ran.code, 0, "{}", ran.screen);
        assert!(ran.screen.contains("It leaves the house."), "{}", ran.screen);
    });
    assert_eq!(web.calls().len(), 1, "{:?}", web.calls());
    assert_eq!(waiting(&desk), 0);
    // The model has the result of the very call that it made.
    let seen = beside.seen();
    assert!(seen.last().unwrap().body.to_string().contains("Dear all"), "{:?}", seen.last());
    desk.ok(&["verify"]);
}

#[test]
fn a_kill_before_the_answer_decides_nothing() {
    let (desk, web) = desk();
    assert_eq!(desk.run(&WRITE).code, 1);
    let mut command = desk.command();
    command.args(["approvals", "approve", "c1"]);
    killed(command, &[], "to deny:", Duration::ZERO);
    assert_eq!((waiting(&desk), web.calls().len()), (1, 0));
    let told = at_terminal(&desk, &["approvals", "deny", "c1"], &[("Type deny", "deny"), FIRST]);
    assert_eq!(told.code, 0, "{}", told.screen);
    desk.ok(&["call", "list_notes"]);
    assert_eq!((waiting(&desk), web.calls().len()), (0, 0));
    desk.ok(&["verify"]);
}

/// P07: the yes is given, and the process dies at any moment after it.
#[test]
fn a_kill_after_the_answer_leaves_exactly_one_outcome() {
    // From the word on, and from where the word is in the log.
    let moments = [("", 0), ("", 60), (SAID, 0), (SAID, 4), (SAID, 8), (SAID, 16), (SAID, 64)];
    for (at, ms) in moments {
        let (desk, web) = desk();
        // A word in this project, so that no key is made in the middle.
        assert_eq!(desk.run(&["call", "mcp:x:write", r#"{"text": "No"}"#]).code, 1);
        let told =
            at_terminal(&desk, &["approvals", "deny", "c1"], &[("Type deny", "deny"), FIRST]);
        assert_eq!(told.code, 0, "{}", told.screen);
        let ran = desk.run(&WRITE);
        assert_eq!(waiting(&desk), 1, "{ms} ms: {}{}", ran.out, ran.err);
        let listed = desk.ok(&["approvals", "list", "--json"]);
        let listed: Value = serde_json::from_str(&listed).expect(&listed);
        let approve = ["approvals", "approve", listed["call"].as_str().unwrap()];
        let mut command = desk.command();
        command.args(approve);
        killed(command, &[APPROVE], at, Duration::from_millis(ms));
        // Whoever comes next takes up what was left.
        desk.ok(&["call", "list_notes"]);
        if waiting(&desk) == 1 {
            let told = at_terminal(&desk, &approve, &[APPROVE]);
            assert_eq!(told.code, 0, "{ms} ms: {}", told.screen);
            desk.ok(&["call", "list_notes"]);
        }
        assert_eq!(waiting(&desk), 0, "{ms} ms");
        let settled = events(&desk, "call", "call_settled");
        let ours: Vec<&Value> =
            settled.iter().filter(|event| event["envelope"]["tool"] == "mcp:x:write").collect();
        assert_eq!(ours.len(), 1, "{ms} ms: {settled:?}");
        // Either it happened and the log says so, or nobody can say, and it is not tried again.
        match ours[0]["outcome"].as_str() {
            Some("done") => assert_eq!(web.calls().len(), 1, "{ms} ms"),
            Some("unknown") => assert!(web.calls().len() <= 1, "{ms} ms: {:?}", web.calls()),
            other => panic!("{ms} ms: {other:?}"),
        }
        assert_eq!(events(&desk, "call", "call_started").len(), 1, "{ms} ms");
        desk.ok(&["verify"]);
    }
}
