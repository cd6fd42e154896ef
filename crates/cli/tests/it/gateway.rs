//! What several clients share: none waits for what it need not, and what a server says is taken as it
//! means it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use toolgate_testkit::mcp::Mode;

use crate::mcp::{Server, made};
use crate::servers::Web;
use crate::support::Desk;

/// `toolgate mcp` over pipes.
pub(crate) struct Pipes {
    pub(crate) child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Pipes {
    pub(crate) fn open(desk: &Desk, args: &[&str]) -> Self {
        let mut command = desk.command();
        command.arg("mcp").args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Self::of(&mut command)
    }

    /// The same with a command that has pipes.
    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output, next: 0 }
    }

    /// What it says to people, where that is a pipe.
    pub(crate) fn stderr(&mut self) -> ChildStderr {
        self.child.stderr.take().unwrap()
    }

    /// Writes a line as it is.
    pub(crate) fn write(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// The next message, whatever it is.
    pub(crate) fn read(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))
    }

    /// Calls a tool of a server that may be gone.
    pub(crate) fn try_write(&mut self, tool: &str, args: Value) -> bool {
        let params = json!({ "name": tool, "arguments": args,
            "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                       "io.modelcontextprotocol/clientCapabilities": {} } });
        let call = json!({ "jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": params });
        writeln!(self.input, "{call}").is_ok()
    }

    /// The next message of one that may be gone.
    pub(crate) fn try_read(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.output.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }

    /// Asks in the newest revision, and does not wait.
    pub(crate) fn send(&mut self, method: &str, mut params: Value) -> u64 {
        self.next += 1;
        params["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                                  "io.modelcontextprotocol/clientCapabilities": {} });
        let request =
            json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        self.write(&request.to_string());
        self.next
    }

    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        loop {
            let message = self.read();
            if message["id"] == id {
                return message;
            }
        }
    }

    pub(crate) fn call(&mut self, tool: &str, args: Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": args }))["result"].clone()
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn config(web: &Web, more: &str) -> String {
    format!(
        "packs: [notes]\nmcp_servers: {{x: {{url: '{}'{more}}}}}\n\
         phases: {{A: {{tools: {{groups: [notes], mcp: [x]}}}}}}\n",
        web.url
    )
}

/// The text of a result as an envelope.
pub(crate) fn told(result: &Value) -> Value {
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_else(|_| result.clone())
}

/// A rug pull: the very next call does not reach a tool that its server says to have changed.
#[test]
fn a_tool_that_changed_a_moment_ago_is_not_called() {
    let desk = Desk::new();
    let web = Web::streaming(&desk, "x", Mode::Change);
    desk.write("toolgate.yaml", &config(&web, ""));
    let mut pipes = Pipes::open(&desk, &[]);
    for _ in 0..2 {
        let result = pipes.call("mcp__x__echo", json!({ "text": "a" }));
        assert_eq!(result["isError"], false, "{result}");
    }
    let held = told(&pipes.call("mcp__x__echo", json!({ "text": "a" })));
    assert_eq!(held["errors"][0]["code"], "TOOL_HELD", "{held}");
    assert!(held.to_string().contains("toolgate mcp pins diff mcp:x:echo"), "{held}");
    assert_eq!(web.calls().len(), 2);
    assert_eq!(pipes.call("mcp__x__write", json!({ "text": "a" }))["isError"], false);
    let listed = pipes.ask("tools/list", json!({})).to_string();
    assert!(!listed.contains("mcp__x__echo") && !listed.contains("PRIVATE"), "{listed}");
}

/// `isError` stands behind the content and is lost with what is cut off: that is no success, for the
/// client, for the log and for policies.
#[test]
fn a_failed_call_with_a_long_answer_is_no_success() {
    for effect in ["external", "read"] {
        let desk = Desk::new();
        let web = Web::streaming(&desk, "x", Mode::LongFailure);
        let more = format!(", effects: {{echo: {effect}, write: external}}");
        let rules = "policies:\n  - sequential: {'mcp:x:write': ['mcp:x:echo']}\n\
                     limits: {mcp_message_bytes_max: 65536}\n";
        desk.write("toolgate.yaml", &format!("{}{rules}", config(&web, &more)));
        let mut pipes = Pipes::open(&desk, &[]);
        let result = pipes.call("mcp__x__echo", json!({ "text": "a" }));
        assert_eq!(result["isError"], true, "{effect}: {result:.300}");
        let told = result.to_string();
        assert!(told.contains("not known whether"), "{effect}: {told:.600}");
        assert_eq!(told.contains("OUTCOME_UNKNOWN"), effect == "external", "{told:.600}");
        let refused = pipes.call("mcp__x__write", json!({ "text": "a" }));
        assert_eq!(refused["isError"], true, "{effect}: {refused}");
        assert!(refused.to_string().contains("POLICY"), "{effect}: {refused}");
        // A read whose answer was lost may be asked for twice; nothing else reached the server.
        assert!(web.calls().iter().all(|call| call.contains("echo")), "{:?}", web.calls());
    }
}

/// A list, a resource and a prompt are there while a call does not come to its end.
#[test]
fn whoever_only_looks_waits_for_no_call() {
    let desk = Desk::new();
    let web = Web::new(&desk, "x", Mode::HangOnce);
    desk.write("toolgate.yaml", &config(&web, ""));
    let mut pipes = Pipes::open(&desk, &[]);
    assert!(pipes.ask("tools/list", json!({})).to_string().contains("mcp__x__write"));
    pipes.send("tools/call", json!({ "name": "mcp__x__write", "arguments": { "text": "a" } }));
    until("the call", || !web.calls().is_empty());
    let began = Instant::now();
    assert!(pipes.ask("tools/list", json!({})).to_string().contains("mcp__x__write"));
    assert!(pipes.ask("resources/list", json!({})).to_string().contains("toolgate://session"));
    let read = pipes.ask("resources/read", json!({ "uri": "toolgate://session" }));
    assert!(read["result"]["contents"][0]["text"].is_string(), "{read}");
    assert!(pipes.ask("prompts/list", json!({})).to_string().contains("phase_guide"));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// A server that does not answer a call keeps nobody from what is not its own, and the log tells what
/// came of each: in the order in which it happened, also when the process is killed meanwhile.
#[test]
fn a_call_that_hangs_keeps_nobody_from_other_servers() {
    let desk = Desk::new();
    let (x, y) = (Web::new(&desk, "x", Mode::HangOnce), Web::new(&desk, "y", Mode::Normal));
    desk.write(
        "toolgate.yaml",
        &format!(
            "packs: [notes]\nmcp_servers:\n  x: {{url: '{}', effects: {{echo: read}}}}\n  \
             why: {{url: '{}'}}\nphases: {{A: {{tools: {{groups: [notes], mcp: [x, why]}}}}}}\n",
            x.url, y.url
        ),
    );
    let mut pipes = Pipes::open(&desk, &[]);
    pipes.ask("tools/list", json!({}));
    let text = json!({ "text": "a" });
    pipes.send("tools/call", json!({ "name": "mcp__x__write", "arguments": text }));
    until("the call", || !x.calls().is_empty());
    // This one goes the same way, and waits.
    pipes.send("tools/call", json!({ "name": "mcp__x__write", "arguments": text }));
    let began = Instant::now();
    for (tool, args) in [
        ("mcp__why__write", text.clone()),
        ("mcp__x__echo", text.clone()),
        ("list_notes", json!({})),
        ("mcp__why__write", text.clone()),
    ] {
        let result = pipes.call(tool, args);
        assert_eq!(result["isError"], false, "{tool}: {result}");
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let writes = x.calls().iter().filter(|call| call.contains("call write")).count();
    assert_eq!((writes, y.calls().len()), (1, 2), "the second of x was not sent");
    drop(pipes);
    let mut pipes = Pipes::open(&desk, &[]);
    assert_eq!(pipes.call("list_notes", json!({}))["isError"], false);
    drop(pipes);
    let log = desk.ok(&["sessions", "export", "mcp"]);
    assert_eq!(log.matches("\"outcome\": \"unknown\"").count(), 1, "{log}");
    assert_eq!(log.matches("\"call_started\"").count(), 3, "{log}");
    desk.ok(&["verify"]);
}

/// An answer may have fields that its schema does not name, and a schema that cannot be checked
/// keeps nobody from the tool. Data is taken as deep as arguments are, and told of beyond.
#[test]
fn structured_answers_are_taken_as_their_schema_means_them() {
    let desk = Desk::new();
    let web = Web::new(&desk, "x", Mode::Nested);
    desk.write("toolgate.yaml", &config(&web, ""));
    let mut pipes = Pipes::open(&desk, &[]);
    let listed = pipes.ask("tools/list", json!({}))["result"]["tools"].clone();
    let of = |name: &str| listed.as_array().unwrap().iter().find(|tool| tool["name"] == name);
    assert!(of("mcp__x__echo").unwrap().get("outputSchema").is_some(), "{listed}");
    assert!(of("mcp__x__write").unwrap().get("outputSchema").is_none(), "{listed}");
    for (tool, levels) in [("mcp__x__echo", 3), ("mcp__x__echo", 30), ("mcp__x__write", 64)] {
        let result = pipes.call(tool, json!({ "text": levels.to_string() }));
        assert_eq!(result["isError"], false, "{levels}: {result}");
        assert_eq!(result["structuredContent"]["n"], 1, "{result}");
        assert!(result["structuredContent"].to_string().contains("core"), "{levels}: {result}");
    }
    for levels in [65, 130, 1_000] {
        let result = pipes.call("mcp__x__echo", json!({ "text": levels.to_string() }));
        assert_eq!(result["isError"], true, "{levels}: {result}");
        let error = &told(&result)["errors"][0];
        assert_eq!(error["code"], "TOOL_OUTPUT_TOO_LARGE", "{levels}: {result}");
        assert!(error["message"].as_str().unwrap().contains("deeper than 64 levels"), "{result}");
    }
    drop(pipes);
    let shown = desk.ok(&["sessions", "export", "mcp"]);
    assert!(shown.contains("mcp:x:write: its answers are not checked"), "{shown}");
}

/// Arguments are refused beyond 64 levels, with a code, whoever brings them.
#[test]
fn nested_arguments_are_told_of() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [notes]\n");
    let mut pipes = Pipes::open(&desk, &[]);
    // The object around them is one level more.
    for (levels, code) in [(63, "ARGUMENTS_INVALID"), (64, PARSE), (126, PARSE), (400, PARSE)] {
        let nested = (0..levels).fold(json!("core"), |inner, _| json!([inner]));
        let result = pipes.call("list_notes", json!({ "deep": nested }));
        let told = told(&result);
        assert_eq!(told["errors"][0]["code"], code, "{levels}: {told}");
        let message = told["errors"][0]["message"].as_str().unwrap();
        assert_eq!(message.contains("nested deeper than 64"), code == PARSE, "{levels}: {message}");
    }
}

const PARSE: &str = "ARGUMENTS_JSON_PARSE_ERROR";

/// A call that may be sent again is, with the same key, when its session goes on; one that may not
/// is unknown.
#[test]
fn a_call_that_was_cut_off_is_sent_again_only_where_that_is_safe() {
    for (effect, sent) in [("idempotent", 2), ("external", 1)] {
        let desk = Desk::new();
        let web = Web::new(&desk, "x", Mode::HangOnce);
        desk.write("toolgate.yaml", &config(&web, &format!(", effects: {{write: {effect}}}")));
        let mut pipes = Pipes::open(&desk, &[]);
        pipes.ask("tools/list", json!({}));
        pipes.send("tools/call", json!({ "name": "mcp__x__write", "arguments": { "text": "a" } }));
        until("the call", || !web.calls().is_empty());
        drop(pipes);
        let mut pipes = Pipes::open(&desk, &[]);
        assert_eq!(pipes.call("list_notes", json!({}))["isError"], false);
        until("its end", || is_settled(&desk, sent == 2));
        let calls = web.calls();
        assert_eq!(calls.len(), sent, "{effect}: {calls:?}");
        assert!(calls.iter().all(|call| *call == calls[0] && !call.ends_with(" -")), "{calls:?}");
        drop(pipes);
        desk.ok(&["verify"]);
    }
}

/// A server that went down too is often just starting: a call that may be sent again waits for it.
#[test]
fn a_call_is_sent_again_when_its_server_is_back() {
    is_sent_again_after(Duration::ZERO);
}

/// The tries are as many as the time allows, and the server is not left alone for them.
#[test]
fn a_call_is_sent_again_when_its_server_takes_ten_seconds_to_be_back() {
    is_sent_again_after(Duration::from_secs(9));
}

fn is_sent_again_after(wait: Duration) {
    let desk = Desk::new();
    let web = Web::new(&desk, "x", Mode::HangOnce);
    let yaml = config(&web, ", effects: {write: idempotent}");
    desk.write("toolgate.yaml", &yaml);
    let mut pipes = Pipes::open(&desk, &[]);
    pipes.ask("tools/list", json!({}));
    pipes.send("tools/call", json!({ "name": "mcp__x__write", "arguments": { "text": "a" } }));
    until("the call", || !web.calls().is_empty());
    drop(pipes);
    // Nobody is at this address until something is passed on to the server.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    desk.write("toolgate.yaml", &yaml.replace(&web.url, &format!("http://127.0.0.1:{port}/mcp")));
    let mut pipes = Pipes::open(&desk, &[]);
    assert_eq!(pipes.call("list_notes", json!({}))["isError"], false);
    let log = || desk.ok(&["sessions", "replay", "mcp", "--json"]);
    until("the first try", || log().contains("MCP server x cannot be used"));
    assert!(!is_settled(&desk, false), "{}", log());
    let there = web.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    std::thread::sleep(wait);
    pass_on(port, there);
    until("its end", || is_settled(&desk, true));
    assert_eq!(web.calls().len(), 2);
    // Nobody else is refused for it.
    assert_eq!(pipes.call("mcp__x__echo", json!({ "text": "b" }))["isError"], false);
    drop(pipes);
    desk.ok(&["verify"]);
}

/// Passes connections to one port on to another address, as long as the test lasts.
fn pass_on(port: u16, there: String) {
    let listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let Ok(far) = std::net::TcpStream::connect(&there) else { return };
            for (mut from, mut to) in
                [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)]
            {
                std::thread::spawn(move || {
                    drop(std::io::copy(&mut from, &mut to));
                    drop(to.shutdown(std::net::Shutdown::Write));
                });
            }
        }
    });
}

/// Whether the first call of the session came to its end, or cannot be known.
fn is_settled(desk: &Desk, done: bool) -> bool {
    let log = desk.ok(&["sessions", "replay", "mcp", "--json"]);
    let outcome = if done { "\"outcome\":\"done\"" } else { "\"outcome\":\"unknown\"" };
    let mut lines = log.lines().filter(|line| line.contains("\"call_settled\""));
    lines.any(|line| line.contains("\"call\":\"c1\"") && line.contains(outcome))
}

/// A server that takes connections and says nothing.
fn mute() -> (std::net::TcpListener, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    (listener, url)
}

/// A call that has to be sent again to a server that hangs, or does not even answer any more, holds
/// up nobody who does not need that server.
#[test]
fn what_is_sent_again_holds_up_nobody_else() {
    let desk = Desk::new();
    let (web, (_mute, address)) = (Web::new(&desk, "x", Mode::Hang), mute());
    let yaml = config(&web, ", effects: {write: idempotent}");
    desk.write("toolgate.yaml", &yaml);
    let mut pipes = Pipes::open(&desk, &[]);
    pipes.ask("tools/list", json!({}));
    pipes.send("tools/call", json!({ "name": "mcp__x__write", "arguments": { "text": "a" } }));
    until("the call", || !web.calls().is_empty());
    for yaml in [yaml.clone(), yaml.replace(&web.url, &address)] {
        drop(pipes);
        desk.write("toolgate.yaml", &yaml);
        pipes = Pipes::open(&desk, &[]);
        let began = Instant::now();
        assert_eq!(pipes.call("list_notes", json!({}))["isError"], false);
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        // It is sent again where it can be.
        until("the second sending", || web.calls().len() == 2);
    }
    drop(pipes);
    desk.ok(&["verify"]);
}

/// A call that waits for its server to say what it has is taken back when it is cancelled, and keeps
/// nothing else of its client waiting.
#[test]
fn what_is_cancelled_while_its_server_starts_is_not_made() {
    let desk = Desk::new();
    let web = Web::new(&desk, "x", Mode::SlowList);
    desk.write("toolgate.yaml", &config(&web, ""));
    let mut pipes = Pipes::open(&desk, &[]);
    let call = json!({ "name": "mcp__x__write", "arguments": { "text": "a" } });
    let id = pipes.send("tools/call", call);
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
                         "params": { "requestId": id } });
    pipes.write(&cancel.to_string());
    let note = json!({ "key": "a", "data": "x" });
    assert_eq!(pipes.call("write_notes", note)["isError"], false);
    web.let_go();
    // The server's other tool is called once its list is there.
    assert_eq!(pipes.call("mcp__x__echo", json!({ "text": "b" }))["isError"], false);
    let calls = web.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
}

/// The same over HTTP, in every way in which a client can take a call back: it closes the connection,
/// or says so.
#[test]
fn what_is_taken_back_over_http_while_its_server_starts_is_not_made() {
    let desk = Desk::new();
    let web = Web::new(&desk, "x", Mode::SlowList);
    desk.write("toolgate.yaml", &config(&web, ""));
    let (server, (_, token)) = (Server::start(&desk, &[]), made(&desk, &[]));
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let said = |stream: &mut TcpStream, wanted: &str| {
        let mut said = String::new();
        let mut reader = BufReader::new(stream);
        while !said.contains(wanted) {
            assert!(reader.read_line(&mut said).unwrap() > 0, "{said}");
        }
        said
    };
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    let head = said(&mut server.open("POST", &bearer, &hello.to_string()), "\r\n\r\n");
    let of_session = |line: &&str| line.to_ascii_lowercase().starts_with("mcp-session-id:");
    let handle = head.lines().find(of_session).unwrap();
    let old = format!("{bearer}{handle}\r\n");
    let call = |id: u64| {
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call",
                "params": { "name": "mcp__x__write", "arguments": { "text": "a" } } })
        .to_string()
    };
    let mut modern: Value = serde_json::from_str(&call(8)).unwrap();
    modern["params"]["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                                        "io.modelcontextprotocol/clientCapabilities": {} });
    let of_2026 = format!(
        "{bearer}MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: \
         mcp__x__write\r\n"
    );
    let leaving = server.open("POST", &of_2026, &modern.to_string());
    let waiting = server.open("POST", &old, &call(7));
    waiting.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
                         "params": { "requestId": 7 } });
    // A word that comes before the call takes nothing back.
    until("its end", || {
        said(&mut server.open("POST", &old, &cancel.to_string()), "202");
        (&waiting).read(&mut [0; 64]).is_ok()
    });
    drop(leaving);
    let note = json!({ "name": "write_notes", "arguments": { "key": "a", "data": "x" } });
    let (status, body) = server.post(&token, "tools/call", note);
    assert!(status == 200 && body.contains("\"isError\":false"), "{body}");
    web.let_go();
    let echo = json!({ "name": "mcp__x__echo", "arguments": { "text": "b" } });
    let (status, body) = server.post(&token, "tools/call", echo);
    assert!(status == 200 && body.contains("\"isError\":false"), "{body}");
    let calls = web.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    let log = desk.ok(&["sessions", "replay", "mcp", "--json"]);
    assert!(!log.contains("mcp:x:write\",\"version"), "{log}");
}

/// A list is not kept back for long by one server that says nothing, and who has seen it without that
/// server's tools is told when they are there.
#[test]
fn a_list_does_not_wait_long_for_a_mute_server() {
    let desk = Desk::new();
    let web = Web::new(&desk, "x", Mode::SlowList);
    desk.write("toolgate.yaml", &config(&web, ""));
    let mut pipes = Pipes::open(&desk, &[]);
    pipes.send("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
    let began = Instant::now();
    let listed = pipes.ask("tools/list", json!({})).to_string();
    assert!(began.elapsed() < Duration::from_secs(14), "{:?}", began.elapsed());
    assert!(listed.contains("list_notes") && !listed.contains("mcp__x__"), "{listed}");
    assert!(listed.contains("\"ttlMs\":0"), "{listed}");
    web.let_go();
    while pipes.read()["method"] != "notifications/tools/list_changed" {}
    let listed = pipes.ask("tools/list", json!({})).to_string();
    assert!(listed.contains("mcp__x__echo") && listed.contains("\"ttlMs\":30000"), "{listed}");
}

/// A short name means one tool and never another: once two servers had a tool of it, it is nobody's,
/// whoever is connected.
#[test]
fn a_short_name_of_two_servers_is_nobodys() {
    let desk = Desk::new();
    let (x, y) = (Web::new(&desk, "x", Mode::Normal), Web::new(&desk, "y", Mode::Normal));
    let yaml = |x: &str, y: &str| {
        format!(
            "packs: []\nmcp_servers:\n  x: {{url: '{x}', short_names: true}}\n  \
             why: {{url: '{y}', short_names: true}}\nphases:\n  \
             A: {{tools: {{mcp: [x]}}, transitions: [B]}}\n  B: {{tools: {{mcp: [why]}}}}\n"
        )
    };
    desk.write("toolgate.yaml", &yaml(&x.url, &y.url));
    let call = |tool: &str, phase: &str| {
        desk.run(&["call", tool, r#"{"text": "a"}"#, "--phase", phase, "--json"])
    };
    assert_eq!(call("echo", "A").code, 0, "nobody else is known to have it");
    assert!(!desk.ok(&["check"]).contains("short name"));
    assert_eq!(call("mcp:why:echo", "B").code, 0);
    let gone = "http://127.0.0.1:1/mcp";
    for (x_url, y_url) in [(&*x.url, &*y.url), (gone, &*y.url), (&*x.url, gone)] {
        desk.write("toolgate.yaml", &yaml(x_url, y_url));
        let before = x.calls().len() + y.calls().len();
        for phase in ["A", "B"] {
            let ran = call("echo", phase);
            assert_eq!(ran.code, 1, "{x_url} {y_url} {phase}: {}", ran.out);
        }
        assert_eq!(x.calls().len() + y.calls().len(), before);
    }
    desk.write("toolgate.yaml", &yaml(&x.url, &y.url));
    assert_eq!((call("mcp__x__echo", "A").code, call("mcp__why__echo", "B").code), (0, 0));
    let listed = desk.ok(&["tools"]);
    assert!(listed.contains("mcp__x__echo · ready") && listed.contains("mcp__why__echo · ready"));
    let checked = desk.ok(&["check"]);
    assert!(checked.contains("the short name `echo` is nobody's"), "{checked}");
    assert!(checked.contains("mcp__x__echo") && checked.contains("mcp__why__echo"), "{checked}");
}
