//! `toolgate mcp` and `toolgate token`, as a client and a person use them.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::Desk;
use crate::terminal::typing;

/// A server over HTTP that is ended with the test.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn start(desk: &Desk, args: &[&str]) -> Self {
        Self::start_on(desk, 0, args)
    }

    /// The same on a port that is named.
    pub(crate) fn start_on(desk: &Desk, port: u16, args: &[&str]) -> Self {
        let mut command = desk.command();
        let address = format!("127.0.0.1:{port}");
        command.args(["mcp", "--http", &address]).args(args).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line =
            lines.find(|line| line.as_ref().unwrap().contains("Listening")).unwrap().unwrap();
        let port = line.rsplit(':').next().unwrap().trim_end_matches("/mcp").parse().unwrap();
        Self { child, port }
    }

    /// Posts a request of the newest revision.
    pub(crate) fn post(&self, token: &str, method: &str, params: Value) -> (u16, String) {
        self.post_to("/mcp", token, method, params)
    }

    /// The same to another path.
    pub(crate) fn post_to(
        &self,
        path: &str,
        token: &str,
        method: &str,
        mut params: Value,
    ) -> (u16, String) {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let name = params["name"].as_str().map(|name| format!("Mcp-Name: {name}\r\n"));
        let body =
            json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{}Authorization: Bearer {token}\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n",
            name.unwrap_or_default(),
            body.len()
        );
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        (status, body.unwrap_or_default())
    }

    /// Sends a request as it is, and leaves the connection open.
    pub(crate) fn open(&self, verb: &str, headers: &str, body: &str) -> TcpStream {
        let length = body.len();
        let head = format!(
            "{verb} /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}\
             Accept: application/json, text/event-stream\r\nContent-Length: {length}\r\n\r\n"
        );
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        stream
    }

    fn terminate(mut self) -> i32 {
        let id = self.child.id().to_string();
        assert!(std::process::Command::new("kill").arg(&id).status().unwrap().success());
        for _ in 0..1_500 {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("it does not stop");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub(crate) fn made(desk: &Desk, args: &[&str]) -> (String, String) {
    let out = desk.ok(&[&["token", "create", "--json"], args].concat());
    let made: Value = serde_json::from_str(&out).unwrap();
    (made["id"].as_str().unwrap().to_owned(), made["token"].as_str().unwrap().to_owned())
}

#[test]
fn a_token_opens_one_session_until_it_is_revoked_and_stays_so_after_a_restart() {
    let desk = Desk::planner();
    let (id, token) = made(&desk, &[]);
    let (_, elsewhere) = made(&desk, &["--session", "other"]);
    let (_, brief) = made(&desk, &["--expires", "1s"]);
    let server = Server::start(&desk, &[]);
    let (status, body) = server.post(&token, "tools/list", json!({}));
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("planning_setup_plan"), "{body}");
    let call = json!({ "name": "planning_setup_plan", "arguments": { "objective": "a picnic" } });
    let (status, body) = server.post(&token, "tools/call", call);
    assert!(status == 200 && body.contains("rcpt_"), "{body}");
    assert_eq!(server.post(&elsewhere, "tools/list", json!({})).0, 401);
    assert_eq!(server.post("tgt_made.up", "tools/list", json!({})).0, 401);
    std::thread::sleep(Duration::from_millis(1_100));
    assert_eq!(server.post(&brief, "tools/list", json!({})).0, 401);
    let shown = desk.ok(&["token", "revoke", &id]);
    assert!(shown.contains("revoked"), "{shown}");
    assert_eq!(server.post(&token, "tools/list", json!({})).0, 401);
    assert_eq!(server.terminate(), 0);
    let server = Server::start(&desk, &[]);
    assert_eq!(server.post(&token, "tools/list", json!({})).0, 401);
    // What was made and what became of it is known; the token itself is nowhere.
    let list = desk.ok(&["token", "list"]);
    assert!(list.contains("revoked") && list.contains("over") && list.contains("holds"), "{list}");
    for place in [list.as_bytes(), &every_byte(&desk)] {
        let text = String::from_utf8_lossy(place);
        assert!(!text.contains(&token) && !text.contains("tgt_"), "a token was kept");
    }
    let call = desk.ok(&["sessions", "show", "mcp"]);
    assert!(call.contains("planning_setup_plan"), "{call}");
}

/// Everything that the project and the home hold.
pub(crate) fn every_byte(desk: &Desk) -> Vec<u8> {
    let mut folders = vec![desk.project(), desk.home()];
    let mut all = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => all.extend(std::fs::read(path).unwrap()),
            }
        }
    }
    all
}

#[test]
fn the_list_of_tokens_is_for_this_user_alone_and_without_it_none_holds() {
    use std::os::unix::fs::PermissionsExt;
    let desk = Desk::planner();
    let (_, token) = made(&desk, &[]);
    let file = desk.project().join(".toolgate/tokens.json");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let server = Server::start(&desk, &[]);
    assert_eq!(server.post(&token, "tools/list", json!({})).0, 200);
    let kept = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(server.post(&token, "tools/list", json!({})).0, 401);
    std::fs::write(&file, "not what it was").unwrap();
    assert_eq!(server.post(&token, "tools/list", json!({})).0, 401);
    std::fs::write(&file, kept).unwrap();
    assert_eq!(server.post(&token, "tools/list", json!({})).0, 200);
}

#[test]
fn a_token_that_makes_no_sense_is_not_made() {
    let desk = Desk::planner();
    for (args, words) in [
        (&["--phase", "NOPE"][..], "there is no phase NOPE"),
        (&["--expires", "0d"], "is no time"),
        (&["--expires", "400d"], "at most 365 days"),
        (&["--expires", "soon"], "is no time"),
        (&["--session", "A B"], "session id"),
    ] {
        let ran = desk.run(&[&["token", "create"], args].concat());
        assert_eq!(ran.code, 2, "{args:?}");
        assert!(ran.err.contains(words), "{args:?}: {}", ran.err);
    }
    let ran = desk.run(&["token", "revoke", "0123"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("there is no token 0123"), "{}", ran.err);
    assert!(desk.ok(&["token", "list"]).contains("No tokens"));
}

/// Requests of both eras, a line each.
fn asked_of_both_eras() -> String {
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                       "io.modelcontextprotocol/clientCapabilities": {} });
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
                        "clientInfo": { "name": "test", "version": "0" } });
    let call = json!({ "name": "planning_setup_plan", "arguments": { "objective": "a picnic" } });
    let asked = [
        (1, "server/discover", json!({ "_meta": meta })),
        (2, "initialize", hello),
        (3, "tools/call", call),
        (4, "resources/read", json!({ "uri": "toolgate://session" })),
        (5, "prompts/get", json!({ "name": "phase_guide" })),
    ];
    let line = |(id, method, params)| {
        format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
    };
    asked.map(line).concat()
}

/// All of them are answered, and nothing else is written.
fn is_answered(out: &str) {
    let mut answers: Vec<Value> =
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    answers.retain(|answer| answer.get("id").is_some());
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(answers.len(), 5, "{out}");
    assert!(answers.iter().all(|answer| answer.get("result").is_some()), "{out}");
    assert_eq!(answers[1]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(answers[2]["result"]["isError"], false);
    assert!(answers[3].to_string().contains("phase"));
}

#[test]
fn over_pipes_both_eras_are_served_and_nothing_else_is_written() {
    let desk = Desk::planner();
    let mut command = desk.command();
    command.arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(asked_of_both_eras().as_bytes()).unwrap();
    let ran = child.wait_with_output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    is_answered(&String::from_utf8(ran.stdout).unwrap());
}

/// What is no pipe cannot be waited for as one, and is read and written all the same.
#[test]
fn files_serve_as_pipes_do() {
    let desk = Desk::planner();
    desk.write("asked", &asked_of_both_eras());
    let answered = desk.project().join("answered");
    let mut command = desk.command();
    command.arg("mcp").stdin(File::open(desk.project().join("asked")).unwrap());
    command.stdout(File::create(&answered).unwrap()).stderr(Stdio::piped());
    let ran = command.spawn().unwrap().wait_with_output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    is_answered(&std::fs::read_to_string(answered).unwrap());
}

/// Whoever wrote into a named pipe may be gone before it is read; the end is heard all the same.
#[test]
fn the_end_of_a_named_pipe_is_the_end_of_the_input() {
    let desk = Desk::planner();
    let (asked, answered) = (desk.project().join("asked"), desk.project().join("answered"));
    assert!(Command::new("mkfifo").arg(&asked).status().unwrap().success());
    let (to, message) = (asked.clone(), asked_of_both_eras());
    let writer = std::thread::spawn(move || std::fs::write(to, message).unwrap());
    let input = File::open(&asked).unwrap();
    writer.join().unwrap();
    let mut command = desk.command();
    command.arg("mcp").stdin(input).stderr(Stdio::null());
    let mut child = command.stdout(File::create(&answered).unwrap()).spawn().unwrap();
    assert!(ends_within(&mut child, Duration::from_secs(30)));
    assert!(child.wait().unwrap().success());
    is_answered(&std::fs::read_to_string(answered).unwrap());
}

/// A client that does not read what it asked for cannot keep the process from ending.
#[test]
fn a_client_that_does_not_read_does_not_keep_it_from_stopping() {
    let desk = Desk::planner();
    let mut command = desk.command();
    command.arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(asked_of_both_eras().as_bytes()).unwrap();
    for id in 100..200 {
        let list = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list" });
        writeln!(input, "{list}").unwrap();
    }
    std::thread::sleep(Duration::from_millis(1_500));
    let id = child.id().to_string();
    assert!(Command::new("kill").arg(&id).status().unwrap().success());
    assert!(ends_within(&mut child, Duration::from_secs(5)));
}

/// Whether a process ends by itself in that time. It is gone afterwards.
fn ends_within(child: &mut Child, wait: Duration) -> bool {
    let step = Duration::from_millis(50);
    let mut looks = 0..wait.as_millis() / step.as_millis();
    let ended = looks.any(|_| {
        std::thread::sleep(step);
        child.try_wait().unwrap().is_some()
    });
    if !ended {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    ended
}

#[test]
fn a_session_has_one_server() {
    let desk = Desk::planner();
    made(&desk, &[]);
    let _server = Server::start(&desk, &[]);
    let ran = desk.run(&["mcp"]);
    assert_eq!(ran.code, 75, "{}", ran.err);
}

/// The user of a client answers where the operator says so, and the log says who it was.
#[test]
fn a_trusted_user_of_a_client_approves_and_the_log_names_that_user() {
    let desk = Desk::new();
    desk.write(
        "toolgate.yaml",
        "packs: [planning]\npolicies:\n  - name: careful\n    rule: {tools: [planning_setup_plan], \
         ask: 'true', message: A plan is serious.}\n",
    );
    let call = json!({ "name": "planning_setup_plan", "arguments": { "objective": "a picnic" } });
    let mut delegate = desk.command();
    delegate.args(["approvals", "delegate", "stdio", "--tools", "planning_*", "--answers", "1"]);
    let answers = [("Type delegate", "delegate"), ("press Enter for none:", "")];
    let seen = typing(delegate, &answers, || {});
    assert_eq!(seen.code, 0, "{}", seen.screen);
    for trusted in [false, true] {
        let mut command = desk.command();
        command.arg("mcp").args(trusted.then_some("--trust-client-user"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut say = |message: Value| {
            writeln!(input, "{message}").unwrap();
            serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap()
        };
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} },
                            "clientInfo": { "name": "test", "version": "0" } });
        say(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }));
        let request = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call });
        let mut answer = say(request);
        if trusted {
            let message = answer["params"]["message"].as_str().unwrap_or_default();
            for part in ["careful", "A plan is serious.", "planning_setup_plan", "a picnic"] {
                assert!(message.contains(part), "{answer}");
            }
            let yes = json!({ "action": "accept", "content": { "run": true } });
            answer = say(json!({ "jsonrpc": "2.0", "id": answer["id"], "result": yes }));
        }
        assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(2), &json!(!trusted)));
        assert_eq!(answer.to_string().contains("APPROVAL_PENDING"), !trusted, "{answer}");
        drop(input);
        assert!(child.wait().unwrap().success());
    }
    let log = desk.ok(&["sessions", "export", "mcp"]);
    assert_eq!(log.matches("\"human:").count(), 0, "{log}");
    assert!(log.contains("\"client_user:stdio\""), "{log}");
    assert!(desk.ok(&["verify"]).contains("are as written"));
    // It was for one answer.
    let list = desk.ok(&["approvals", "list", "--json"]);
    assert!(list.contains("\"used\":1"), "{list}");
    let history = desk.ok(&["approvals", "history"]);
    for said in
        ["ada enrolled as the first owner", "delegated 1 answers", "by the user of a client"]
    {
        assert!(history.contains(said), "{history}");
    }
}

/// Whoever reads the list through a pipe gets whole values, however long the names are.
#[test]
fn a_list_of_tokens_is_not_cut_in_a_pipe() {
    let desk = Desk::planner();
    let session = "a-session-with-a-very-long-name-of-its-own";
    desk.ok(&["token", "create", "--session", session]);
    let json: Value = serde_json::from_str(&desk.ok(&["token", "list", "--json"])).unwrap();
    let listed = desk.ok(&["token", "list"]);
    assert_eq!(listed.lines().count(), 1, "{listed}");
    for part in [session, json["id"].as_str().unwrap()] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    assert!(listed.trim_end().ends_with('Z') && !listed.contains('…'), "{listed}");
}
