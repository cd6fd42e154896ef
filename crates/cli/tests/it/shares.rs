//! What one client may take of what all share: questions to the person, and room in the log. And what an
//! "always" answer is for: so long, so many calls, and no other rule.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use toolgate_kernel::event::StreamId;
use toolgate_runtime::port::Store;
use toolgate_testkit::mcp::Mode;

use crate::forgery::thief;
use crate::servers::Web;
use crate::support::{Desk, Ran};
use crate::terminal::{APPROVE, typing};

const FIRST: (&str, &str) = ("press Enter for none:", "");
const CAREFUL: &str = "policies:\n  - name: careful\n    rule: {tools: [write_notes], ask: 'true', \
                       message: A note is serious.}\n";

/// An MCP client over pipes.
pub(crate) struct Client {
    child: Child,
    input: ChildStdin,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    id: u64,
}

impl Client {
    pub(crate) fn of(desk: &Desk, session: &str) -> Self {
        let mut command = desk.command();
        command.args(["mcp", "--session", session]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut client = Self { child, input, lines, id: 0 };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "0"}});
        client.ask("initialize", hello);
        client
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params});
        writeln!(self.input, "{request}").unwrap();
        loop {
            let line = self.lines.next().expect("an answer").unwrap();
            let said: Value = serde_json::from_str(&line).unwrap();
            if said["id"] == self.id {
                return said;
            }
        }
    }

    /// What a call came to: nothing where it was done, else the code of its error.
    pub(crate) fn call(&mut self, tool: &str, args: Value) -> Option<String> {
        let said = self.ask("tools/call", json!({"name": tool, "arguments": args}));
        let result = &said["result"];
        if result["isError"] != true {
            return None;
        }
        let text = result.to_string();
        let codes =
            ["APPROVAL_PENDING", "APPROVALS_OVER_LIMIT", "LOG_FULL", "CLIENT_QUOTA_EXCEEDED"];
        let code = codes.into_iter().find(|code| text.contains(code));
        Some(code.map_or(text, str::to_owned))
    }

    /// Ends it without a word.
    pub(crate) fn killed(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn ended(self) {
        let Self { mut child, input, .. } = self;
        drop(input);
        assert!(child.wait().unwrap().success());
    }
}

/// Row 10: a client asks twenty times, and stops at five; another one still asks.
#[test]
fn a_client_has_five_questions_at_once() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", &format!("packs: [notes]\n{CAREFUL}"));
    let mut client = Client::of(&desk, "shared");
    let codes: Vec<Option<String>> = (0..20)
        .map(|at| client.call("write_notes", json!({"key": format!("k{at}"), "data": 1})))
        .collect();
    client.ended();
    let (asked, refused) = codes.split_at(5);
    assert!(asked.iter().all(|code| code.as_deref() == Some("APPROVAL_PENDING")), "{codes:?}");
    assert!(
        refused.iter().all(|code| code.as_deref() == Some("APPROVALS_OVER_LIMIT")),
        "{codes:?}"
    );
    let ran = desk.run(&[
        "call",
        "write_notes",
        r#"{"key":"z","data":1}"#,
        "--session",
        "shared",
        "--json",
    ]);
    assert!(ran.out.contains("APPROVAL_PENDING"), "{}{}", ran.out, ran.err);
    assert_eq!(desk.ok(&["approvals", "list", "--json"]).lines().count(), 6);
    desk.ok(&["verify"]);
}

/// Row 11: a client rewrites the same text two hundred times; the log stops at its bound, says so, and is
/// sound.
#[test]
fn a_client_that_rewrites_stops_at_its_bound() {
    for (limit, wanted) in [
        ("client_bytes_per_day_max: 400000", "CLIENT_QUOTA_EXCEEDED"),
        ("log_bytes_max: 1500000", "LOG_FULL"),
    ] {
        let desk = Desk::new();
        desk.write("toolgate.yaml", &format!("packs: [notes]\nlimits: {{{limit}}}\n"));
        let mut client = Client::of(&desk, "rewrites");
        let mut done = 0;
        let mut refused = None;
        for at in 0..200 {
            let data = format!("{at} {}", "text ".repeat(3_000));
            match client.call("write_notes", json!({"key": "same", "data": data})) {
                None if refused.is_none() => done += 1,
                None => panic!("{limit}: call {at} ran after one was refused"),
                Some(code) => refused = Some(code),
            }
        }
        client.ended();
        assert_eq!(refused.as_deref(), Some(wanted), "{limit}");
        assert!(done > 5, "{limit}: only {done}");
        let bytes = std::fs::metadata(desk.project().join(".toolgate/log.db")).unwrap().len();
        // What lies in the WAL is counted when it is folded into the file.
        assert!(bytes < 1_500_000 + (16 << 20), "{limit}: {bytes} bytes");
        desk.ok(&["verify"]);
    }
}

fn write(desk: &Desk, key: &str) -> Ran {
    let args = json!({"key": key, "data": 1}).to_string();
    desk.run(&["call", "write_notes", &args, "--json"])
}

/// A project in which the first call was allowed for the session.
fn allowed(more: &[&str]) -> Desk {
    let desk = Desk::new();
    desk.write("toolgate.yaml", &format!("packs: [notes]\n{CAREFUL}"));
    assert!(write(&desk, "first").out.contains("APPROVAL_PENDING"));
    let mut command = desk.command();
    command.args(["approvals", "approve", "c1", "--always"]).args(more);
    let seen = typing(command, &[APPROVE, FIRST], || {});
    assert_eq!(seen.code, 0, "{}", seen.screen);
    desk
}

/// Row 6: after a hundred calls the next one asks.
#[test]
fn an_allowance_is_for_a_hundred_calls() {
    let desk = allowed(&[]);
    let mut client = Client::of(&desk, "call");
    for at in 0..100 {
        let code = client.call("write_notes", json!({"key": format!("k{at}"), "data": 1}));
        assert_eq!(code, None, "call {at}");
    }
    let code = client.call("write_notes", json!({"key": "one more", "data": 1}));
    assert_eq!(code.as_deref(), Some("APPROVAL_PENDING"));
    client.ended();
    desk.ok(&["verify"]);
}

/// Rows 6 and 12: past its time it asks, also when the clock is set back afterwards.
#[test]
fn an_allowance_ends_and_stays_ended_when_the_clock_is_set_back() {
    let desk = allowed(&["--for", "30m"]);
    assert_eq!(write(&desk, "second").code, 0);
    // A commit of a later time, as one makes whose clock is ahead. Afterwards the clock is right again.
    let store = thief(&desk);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(store.claim(&StreamId::Project)).ok();
    let aside = StreamId::Session(toolgate_kernel::names::SessionId::parse("aside").unwrap());
    runtime.block_on(store.claim(&aside)).unwrap();
    drop(store);
    for key in ["third", "fourth"] {
        let ran = write(&desk, key);
        assert!(ran.code == 1 && ran.out.contains("APPROVAL_PENDING"), "{}{}", ran.out, ran.err);
    }
}

/// Row 6: a rule of the same name that says something else, and a rule more, ask anew.
#[test]
fn an_allowance_covers_no_other_rule() {
    let more =
        "  - name: other\n    rule: {tools: [write_notes], ask: 'true', message: Another.}\n";
    for config in [
        CAREFUL.replace("A note is serious.", "A dry run."),
        CAREFUL.replace("ask: 'true'", "ask: \"args.key != 'x'\""),
        format!("{CAREFUL}{more}"),
        CAREFUL.replace("policies:\n", &format!("policies:\n{more}")),
        format!("{CAREFUL}  - limit: {{tools: [write_notes], per: session, max: 90}}\n"),
    ] {
        let desk = allowed(&[]);
        assert_eq!(write(&desk, "second").code, 0);
        desk.write_trusted(&format!("packs: [notes]\n{config}"));
        let ran = write(&desk, "third");
        assert!(ran.code == 1 && ran.out.contains("APPROVAL_PENDING"), "{config}\n{}", ran.out);
    }
}

/// Row 5: a yes is in the log and its process is killed; then the file says another server. The call is
/// asked about anew, and neither server is reached.
#[test]
fn an_edit_after_the_yes_asks_anew() {
    let desk = Desk::new();
    let [sandbox, production] = ["x", "y"].map(|name| Web::new(&desk, name, Mode::Normal));
    let config = |web: &Web| {
        format!(
            "packs: [notes]\nmcp_servers:\n  x: {{url: '{}'}}\nphases:\n  main: {{tools: {{mcp: [x], \
             groups: [notes]}}}}\npolicies:\n  - name: careful\n    rule: {{tools: ['mcp:x:write'], \
             ask: 'true', message: A dry run against the sandbox.}}\n",
            web.url
        )
    };
    desk.write("toolgate.yaml", &config(&sandbox));
    let mut client = Client::of(&desk, "held");
    let code = client.call("mcp__x__write", json!({"text": "pay"}));
    assert_eq!(code.as_deref(), Some("APPROVAL_PENDING"));
    // The process that has the session does nothing any more.
    let id = client.child.id().to_string();
    assert!(Command::new("kill").args(["-STOP", &id]).status().unwrap().success());
    let mut command = desk.command();
    command.args(["approvals", "approve", "held/c1"]);
    let seen = typing(command, &[APPROVE, FIRST], || {});
    assert!(seen.screen.contains("is approved"), "{}", seen.screen);
    client.killed();
    assert_eq!((sandbox.calls(), production.calls()), (vec![], vec![]));
    desk.write_trusted(&config(&production));
    let text = r#"{"text":"pay"}"#;
    let calls = [
        &["call", "list_notes", "--session", "held"] as &[&str],
        &["call", "mcp:x:write", text, "--session", "held"],
    ];
    for args in calls {
        let ran = desk.run(args);
        assert!([0, 1].contains(&ran.code), "{}{}", ran.out, ran.err);
    }
    let listed = desk.ok(&["approvals", "list", "--json"]);
    assert_eq!(listed.lines().count(), 1, "it waits for another yes: {listed}");
    assert_eq!((sandbox.calls(), production.calls()), (vec![], vec![]));
    desk.ok(&["verify"]);
}

/// Row 5: the file is edited while the question is on the screen.
#[test]
fn an_edit_while_the_question_is_on_the_screen_asks_anew() {
    let desk = Desk::new();
    let [sandbox, production] = ["x", "y"].map(|name| Web::new(&desk, name, Mode::Normal));
    let config = |web: &Web| {
        format!(
            "packs: []\nmcp_servers:\n  x: {{url: '{}'}}\npolicies:\n  - name: careful\n    rule: \
             {{tools: ['mcp:x:write'], ask: 'true', message: A dry run against the sandbox.}}\nphases:\n  \
             main: {{tools: {{mcp: [x]}}}}\n",
            web.url
        )
    };
    for here in [false, true] {
        desk.write_trusted(&config(&sandbox));
        let text = json!({"text": format!("pay {here}")}).to_string();
        // Where the call itself asks at a terminal, and where it waits and is approved later.
        let call = ["call", "mcp:x:write", &text];
        let mut command = desk.command();
        if here {
            command.args(call);
        } else {
            let ran = desk.run(&[&call[..], &["--json"]].concat());
            assert!(ran.out.contains("APPROVAL_PENDING"), "{}{}", ran.out, ran.err);
            let listed = desk.ok(&["approvals", "list", "--json"]);
            let card: Value = serde_json::from_str(listed.lines().last().unwrap()).unwrap();
            command.args(["approvals", "approve", card["call"].as_str().unwrap()]);
        }
        let edited = config(&production);
        let seen = typing(command, &[APPROVE], || desk.write("toolgate.yaml", &edited));
        assert_ne!(seen.code, 0, "{here}: {}", seen.screen);
        assert_eq!(
            (sandbox.calls(), production.calls()),
            (vec![], vec![]),
            "{here}: {}",
            seen.screen
        );
    }
    desk.write_trusted(&config(&production));
    for tool in ["mcp:x:write", "mcp:x:echo"] {
        desk.run(&["call", tool, r#"{"text":"a"}"#]);
    }
    assert!(production.calls().iter().all(|call| call.contains("call echo")));
    desk.ok(&["verify"]);
}
