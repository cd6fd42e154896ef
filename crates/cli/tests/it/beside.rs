//! A server that is slow to say what it has: whoever needs it waits for it, and nobody else. When the
//! phase moves meanwhile, it is the new one that counts.

use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use toolgate_testkit::mcp::Mode;

use crate::gateway::{Pipes, told};
use crate::mcp::{Server, made};
use crate::servers::Web;
use crate::support::Desk;

fn call(server: &Server, token: &str, tool: &str, args: Value) -> Value {
    let params = json!({ "name": tool, "arguments": args });
    let (status, body) = server.post(token, "tools/call", params);
    assert_eq!(status, 200, "{body}");
    serde_json::from_str::<Value>(&body).unwrap()["result"].clone()
}

fn code(result: &Value) -> String {
    told(result)["errors"][0]["code"].as_str().unwrap_or("none").to_owned()
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a server was asked what it has.
fn is_asked(web: &Web) -> bool {
    std::fs::read_to_string(&web.ledger).is_ok_and(|text| text.contains("tools/list"))
}

/// A client of an older revision over HTTP.
struct Visitor<'a> {
    server: &'a Server,
    headers: String,
}

impl<'a> Visitor<'a> {
    fn new(server: &'a Server, token: &str) -> Self {
        let headers = format!("Authorization: Bearer {token}\r\n");
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
                            "clientInfo": { "name": "test", "version": "0" } });
        let mut visitor = Self { server, headers };
        let answer = visitor.send("initialize", hello);
        let handle = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
        visitor.headers.push_str(&format!(
            "Mcp-Session-Id: {}\r\nMCP-Protocol-Version: 2025-06-18\r\n",
            handle.trim()
        ));
        visitor
    }

    fn send(&self, method: &str, params: Value) -> String {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let headers = format!("Connection: close\r\n{}", self.headers);
        let mut answer = String::new();
        let mut stream = self.server.open("POST", &headers, &body.to_string());
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The stream over which it hears of news.
    fn listen(&self) -> TcpStream {
        self.server.open("GET", &self.headers, "")
    }
}

fn hear(stream: &mut TcpStream, held: &mut String, text: &str) {
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let (began, mut buffer) = (Instant::now(), [0; 4096]);
    while !held.contains(text) {
        assert!(began.elapsed() < Duration::from_secs(20), "{text:?} did not come: {held}");
        let Ok(read) = stream.read(&mut buffer) else { continue };
        assert!(read > 0, "closed before {text:?} came: {held}");
        held.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
}

#[test]
fn a_slow_list_holds_up_only_those_who_need_the_server() {
    let desk = Desk::new();
    let (x, late) = (Web::new(&desk, "x", Mode::Normal), Web::new(&desk, "late", Mode::SlowList));
    desk.write(
        "toolgate.yaml",
        &format!(
            "packs: [notes]\nmcp_servers: {{x: {{url: '{}'}}, late: {{url: '{}'}}}}\nphases:\n  \
             A: {{tools: {{groups: [notes], mcp: [x, late]}}, transitions: [B]}}\n  \
             B: {{tools: {{groups: [notes], mcp: [x]}}}}\n",
            x.url, late.url
        ),
    );
    let [(_, one), (_, two)] = [made(&desk, &[]), made(&desk, &[])];
    let server = Server::start(&desk, &[]);
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| call(&server, &one, "mcp__late__echo", json!({ "text": "a" })));
        until("the question for its list", || is_asked(&late));
        let visitor = Visitor::new(&server, &two);
        assert!(visitor.send("ping", json!({})).contains("\"result\""));
        for token in [&one, &two] {
            let echoed = call(&server, token, "mcp__x__echo", json!({ "text": "a" }));
            assert_eq!(echoed["isError"], false, "{echoed}");
            assert_eq!(call(&server, token, "list_notes", json!({}))["isError"], false);
            assert_eq!(code(&call(&server, token, "nobody", json!({}))), "TOOL_UNKNOWN");
        }
        let (_, listed) = server.post_to("/mcp/phase/B", &two, "tools/list", json!({}));
        assert!(listed.contains("mcp__x__echo") && !listed.contains("mcp__late"), "{listed}");
        assert!(!slow.is_finished(), "its server has not said yet what it has");
        late.let_go();
        let slow = slow.join().unwrap();
        assert_eq!(slow["isError"], false, "{slow}");
    });
    assert_eq!((x.calls().len(), late.calls().len()), (2, 1));
    let (_, listed) = server.post(&two, "tools/list", json!({}));
    assert!(listed.contains("mcp__late__echo"), "{listed}");
    drop(server);
    desk.ok(&["verify"]);
}

/// However many wait for a server that starts, others have their places.
#[test]
fn many_calls_of_a_server_that_starts_hold_up_nobody_else() {
    let desk = Desk::new();
    let (x, late) = (Web::new(&desk, "x", Mode::Normal), Web::new(&desk, "late", Mode::SlowList));
    desk.write(
        "toolgate.yaml",
        &format!(
            "packs: [notes]\nmcp_servers: {{x: {{url: '{}'}}, late: {{url: '{}'}}}}\n\
             phases: {{A: {{tools: {{groups: [notes], mcp: [x, late]}}}}}}\n",
            x.url, late.url
        ),
    );
    let mut pipes = Pipes::open(&desk, &[]);
    let echo = |tool: &str| json!({ "name": tool, "arguments": { "text": "a" } });
    let waiting: Vec<u64> =
        (0..128).map(|_| pipes.send("tools/call", echo("mcp__late__echo"))).collect();
    until("the question for its list", || is_asked(&late));
    std::thread::sleep(Duration::from_millis(500));
    let began = Instant::now();
    assert_eq!(pipes.call("list_notes", json!({}))["isError"], false);
    assert_eq!(pipes.call("mcp__x__echo", json!({ "text": "a" }))["isError"], false);
    assert!(began.elapsed() < Duration::from_secs(10), "nobody is in their way");
    late.let_go();
    let mut answered = std::collections::BTreeSet::new();
    while answered.len() < waiting.len() {
        let answer = pipes.read();
        let id = answer["id"].as_u64().unwrap();
        assert!(waiting.contains(&id) && answered.insert(id), "answered once: {answer}");
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    }
    assert_eq!(late.calls().len(), waiting.len(), "each was made once");
    drop(pipes);
    desk.ok(&["verify"]);
}

#[test]
fn a_phase_that_moves_while_tools_are_awaited_is_the_one_that_counts() {
    let desk = Desk::new();
    let (x, late) = (Web::new(&desk, "x", Mode::HangOnce), Web::new(&desk, "late", Mode::SlowList));
    desk.write(
        "toolgate.yaml",
        &format!(
            "packs: [notes, phase]\nmcp_servers:\n  x: {{url: '{}', call_ms_max: 10000}}\n  \
             late: {{url: '{}'}}\nphases:\n  \
             A: {{tools: {{groups: [phase], mcp: [x, late/echo]}}, transitions: [B]}}\n  \
             B: {{tools: {{groups: [phase], mcp: [late/write]}}, transitions: [A]}}\n",
            x.url, late.url
        ),
    );
    let tokens = [(); 4].map(|()| made(&desk, &[]).1);
    let [one, two, three, four] = &tokens;
    let server = Server::start(&desk, &[]);
    let args = || json!({ "text": "a" });
    std::thread::scope(|scope| {
        let begun = scope.spawn(|| call(&server, one, "mcp__x__write", args()));
        until("the call that hangs", || !x.calls().is_empty());
        let echo = scope.spawn(|| call(&server, two, "mcp__late__echo", args()));
        let write = scope.spawn(|| call(&server, three, "mcp__late__write", args()));
        until("the question for its list", || is_asked(&late));
        // They are let in, and nothing says so before their server has answered.
        std::thread::sleep(Duration::from_millis(700));
        let visitor = Visitor::new(&server, four);
        let (mut news, mut held) = (visitor.listen(), String::new());
        hear(&mut news, &mut held, "\r\n\r\n");
        let params =
            json!({ "name": "change_phase", "arguments": { "phase": "B", "reason": "a" } });
        let moved = visitor.send("tools/call", params);
        assert!(moved.contains("\"isError\":false"), "{moved}");
        hear(&mut news, &mut held, "notifications/tools/list_changed");
        for (call, what) in [(&begun, "x write"), (&echo, "late echo"), (&write, "late write")] {
            assert!(!call.is_finished(), "{what} is still under way");
        }
        // Whoever is judged from now on is judged in the new phase, with the tools that it has.
        assert_eq!(code(&call(&server, four, "mcp__x__echo", args())), "TOOL_NOT_GRANTED");
        late.let_go();
        let listed = visitor.send("tools/list", json!({}));
        assert!(listed.contains("mcp__late__write"), "{listed}");
        assert!(!listed.contains("mcp__late__echo") && !listed.contains("mcp__x"), "{listed}");
        let (echo, write) = (echo.join().unwrap(), write.join().unwrap());
        assert_eq!(code(&echo), "TOOL_NOT_GRANTED", "{echo}");
        assert_eq!(write["isError"], false, "{write}");
        // What was begun in the old one comes to its own end.
        let begun = begun.join().unwrap();
        assert_eq!(code(&begun), "OUTCOME_UNKNOWN", "{begun}");
    });
    assert_eq!((x.calls().len(), late.calls().len()), (1, 1));
    assert!(late.calls()[0].starts_with("call write"), "{:?}", late.calls());
    drop(server);
    let log = desk.ok(&["sessions", "export", "mcp"]);
    assert_eq!(log.matches("\"call_settled\"").count(), 3, "{log}");
    desk.ok(&["verify"]);
}
