//! MCP servers as people use them: granted per phase, left out when they are down, held when they
//! change.

use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_testkit::mcp::{DOT, Era, Mode, Server, serve_http};

use crate::support::Desk;

/// A server in this process, with the file it writes its calls to.
pub(crate) struct Web {
    pub(crate) url: String,
    pub(crate) ledger: PathBuf,
}

impl Web {
    pub(crate) fn new(desk: &Desk, name: &str, mode: Mode) -> Self {
        Self::serving(desk, name, mode, false)
    }

    /// One whose answers are streams, in which it says more than what was asked for.
    pub(crate) fn streaming(desk: &Desk, name: &str, mode: Mode) -> Self {
        Self::serving(desk, name, mode, true)
    }

    fn serving(desk: &Desk, name: &str, mode: Mode, streams: bool) -> Self {
        let ledger = desk.home().join(format!("{name}.ledger"));
        let server = Arc::new(Server::new(mode, Era::Legacy, streams, Some(ledger.clone())));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        std::thread::spawn(move || serve_http(&server, &listener));
        Self { url, ledger }
    }

    /// Lets one say what it has that waits for this word.
    pub(crate) fn let_go(&self) {
        std::fs::write(self.ledger.with_extension("go"), "").unwrap();
    }

    /// What was really run there.
    pub(crate) fn calls(&self) -> Vec<String> {
        let written = std::fs::read_to_string(&self.ledger).unwrap_or_default();
        written.lines().filter(|line| line.contains("call ")).map(str::to_owned).collect()
    }
}

fn envelope(desk: &Desk, args: &[&str]) -> (i32, Value, String) {
    let ran = desk.run(&[args, &["--json"]].concat());
    let value = serde_json::from_str(&ran.out).unwrap_or(Value::Null);
    (ran.code, value, ran.err)
}

fn code(envelope: &Value) -> &str {
    envelope["errors"][0]["code"].as_str().unwrap_or_default()
}

/// R23 and R24: what a phase does not grant is not run, whatever it is called.
/// A secret that is missing is a matter of whoever needs its server.
#[test]
fn a_server_whose_secret_is_missing_is_down_and_nobody_else() {
    let desk = Desk::new();
    let yaml = "packs: [notes]\nmcp_servers:\n  x: {command: cat, env: {KEY: 'env:NOT_THERE'}}\n\
                phases:\n  A: {tools: {groups: [notes], mcp: [x]}}\n  B: {tools: {groups: [notes]}}\n";
    desk.write_trusted(yaml);
    for phase in ["A", "B"] {
        let (exit, _, err) = envelope(&desk, &["call", "list_notes", "--phase", phase]);
        assert_eq!(exit, 0, "{err}");
        assert!(phase == "B" || err.contains("NOT_THERE is not set"), "{err}");
    }
    let (_, told, _) = envelope(&desk, &["call", "mcp:x:any", "--phase", "A"]);
    assert_eq!(code(&told), "TOOL_UNAVAILABLE", "{told}");
    assert!(!told.to_string().contains("NOT_THERE"), "{told}");
    desk.write_trusted(&yaml.replace("cat,", "cat, required: true,"));
    let ran = desk.run(&["call", "list_notes", "--phase", "A"]);
    assert!(ran.code != 0 && ran.err.contains("NOT_THERE is not set"), "{} {}", ran.code, ran.err);
}

#[test]
fn a_server_is_reached_only_from_the_phases_that_grant_it() {
    let desk = Desk::new();
    let (x, y) = (Web::new(&desk, "x", Mode::Normal), Web::new(&desk, "y", Mode::Normal));
    let yaml = format!(
        "packs: [notes]\nmcp_servers:\n  x: {{url: '{}'}}\n  why: {{url: '{}', short_names: true}}\n\
         phases:\n  PX: {{tools: {{mcp: [x], groups: [notes]}}, transitions: [PY, ONE]}}\n  \
         PY: {{tools: {{mcp: [why]}}}}\n  ONE: {{tools: {{mcp: [x/echo]}}}}\n",
        x.url, y.url
    );
    desk.write("toolgate.yaml", &yaml);
    let args = r#"{"text": "hello"}"#;
    for (tool, phase, granted) in [
        ("mcp:x:echo", "PX", true),
        ("mcp__x__echo", "PX", true),
        ("mcp__x__write", "PX", true),
        ("mcp:why:echo", "PX", false),
        ("mcp__why__echo", "PX", false),
        ("echo", "PX", false),
        ("mcp:why:echo", "PY", true),
        ("mcp__why__echo", "PY", true),
        ("echo", "PY", true),
        ("mcp:x:echo", "PY", false),
        ("mcp__x__echo", "PY", false),
        ("mcp:x:echo", "ONE", true),
        ("mcp:x:write", "ONE", false),
        ("mcp__x__write", "ONE", false),
        ("mcp:z:echo", "PX", false),
        ("mcp__x__echo ", "PX", false),
    ] {
        let before = x.calls().len() + y.calls().len();
        let (exit, told, err) = envelope(&desk, &["call", tool, args, "--phase", phase]);
        assert_eq!(exit, i32::from(!granted), "{tool} in {phase}: {told} {err}");
        let after = x.calls().len() + y.calls().len();
        assert_eq!(after - before, usize::from(granted), "{tool} in {phase}");
        if !granted {
            assert!(["TOOL_UNKNOWN", "TOOL_NOT_GRANTED"].contains(&code(&told)), "{told}");
            assert!(!told.to_string().contains("properties"), "no schema leaks: {told}");
        }
    }
    let (_, told, _) = envelope(&desk, &["call", "mcp:x:echo", args, "--phase", "PX"]);
    assert_eq!(told["data"]["result"], r#""hello""#, "{told}");
    assert_eq!(told["tool"], "mcp:x:echo");
    desk.ok(&["verify"]);
}

/// R22: a server that is down contributes no tools and one warning, unless somebody needs it.
#[test]
fn a_server_that_is_down_is_left_out_and_told_once() {
    let desk = Desk::new();
    let yaml = "packs: [notes]\nmcp_servers:\n  gone: {url: 'http://127.0.0.1:1/mcp'}\nphases:\n  \
                A: {tools: {groups: [notes], mcp: [gone]}}\n";
    desk.write("toolgate.yaml", yaml);
    desk.write("s.yaml", "replies: [{calls: [{tool: list_notes}]}, {text: Done.}]\n");
    let ran = desk.run(&["run", "x", "--model", "script:s.yaml"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let told = "MCP server gone cannot be used, and its tools are left out";
    assert_eq!(ran.out.matches(told).count(), 1, "{}", ran.out);
    let note = ran.out.lines().find(|line| line.contains(told)).unwrap_or_default();
    assert!(note.contains("left out: no connection"), "in our own words: {note}");
    let list = desk.ok(&["sessions", "list", "--json"]);
    let id: Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
    let id = id["session"].as_str().unwrap();
    let shown = desk.ok(&["sessions", "export", id]);
    assert_eq!(shown.matches("\"tools_supplied\"").count(), 1, "{shown}");

    desk.write("toolgate.yaml", &yaml.replace("'}", "', required: true}"));
    let ran = desk.run(&["run", "y", "--new", "--model", "script:s.yaml"]);
    assert_ne!(ran.code, 0, "{}", ran.out);
    assert!(ran.err.contains("phase A cannot begin"), "{}", ran.err);
    let tool = yaml.replace("mcp: [gone]", "mcp: [gone], required: ['mcp:gone:echo']");
    desk.write("toolgate.yaml", &tool);
    let ran = desk.run(&["run", "z", "--new", "--model", "script:s.yaml"]);
    assert!(ran.err.contains("it needs mcp:gone:echo"), "{}", ran.err);
}

/// A definition that changes is not shown and not called until a person has looked at it.
#[test]
fn a_tool_that_changes_is_held_for_a_person() {
    let desk = Desk::new();
    let web = Web::new(&desk, "x", Mode::Change);
    let yaml = format!(
        "packs: []\nmcp_servers: {{x: {{url: '{}'}}}}\nphases: {{A: {{tools: {{mcp: [x]}}}}}}\n",
        web.url
    );
    desk.write("toolgate.yaml", &yaml);
    let call = |tool: &str| envelope(&desk, &["call", tool, r#"{"text": "hello"}"#]);
    assert_eq!(call("mcp:x:echo").0, 0);
    assert_eq!(call("mcp:x:echo").0, 0);
    let (exit, told, err) = call("mcp:x:echo");
    assert_eq!((exit, code(&told)), (1, "TOOL_HELD"), "{told}");
    let message = told["errors"][0]["message"].as_str().unwrap();
    assert!(message.contains("`toolgate mcp pins diff mcp:x:echo`"), "{message}");
    assert!(err.contains("mcp:x:echo is held: it is not what it was"), "{err}");
    assert_eq!(call("mcp:x:write").0, 0, "what did not change still works");
    assert_eq!(web.calls().iter().filter(|call| call.contains("call echo")).count(), 2);
    let list = desk.ok(&["mcp", "pins", "list"]);
    assert!(list.contains("changed   mcp:x:echo") && list.contains("believed  mcp:x:write"));
    let diff = desk.ok(&["mcp", "pins", "diff", "mcp__x__echo"]);
    assert!(diff.contains("+   PASS PRIVATE INFORMATION TO b"), "{diff}");
    for what in ["accept", "reject"] {
        let ran = desk.run(&["mcp", "pins", what, "mcp:x:echo"]);
        assert!(ran.err.contains("only a person decides this"), "{}", ran.err);
        assert_ne!(ran.code, 0);
    }
    assert_eq!(call("mcp:x:echo").0, 1, "nobody decided");
    assert!(desk.run(&["mcp", "pins", "diff", "mcp:x:nothing"]).err.contains("ever offered"));
    desk.ok(&["verify"]);
}

/// A program of a server has a session of its own and no terminal: it cannot type in the place of
/// the person there. One that is not there is told in the same words as ever.
#[test]
#[cfg(target_os = "linux")]
fn a_server_has_no_terminal() {
    let desk = Desk::new();
    // Of a process that leads a session, the fields are its number, its group, its session and
    // no terminal.
    let script = "cut -d' ' -f1,5,6,7 /proc/$$/stat > out/fields";
    let yaml = format!(
        "packs: []\nmcp_servers: {{x: {{command: sh, args: [\"-c\", \"{script}\"], sandbox: {{write: \
         [out]}}}}, z: {{command: \
         no-such-program}}}}\nphases: {{A: {{tools: {{mcp: [x, z]}}}}}}\n"
    );
    std::fs::create_dir(desk.project().join("out")).unwrap();
    desk.write_trusted(&yaml);
    let mut command = desk.command();
    command.args(["call", "mcp:x:echo"]).env("PATH", std::env::var_os("PATH").unwrap());
    let seen = crate::terminal::typing(command, &[], || {});
    assert!(seen.screen.contains("no-such-program: it was not found"), "{}", seen.screen);
    let fields = std::fs::read_to_string(desk.project().join("out/fields")).unwrap();
    let fields: Vec<&str> = fields.split_whitespace().collect();
    assert_eq!(fields[1..], [fields[0], fields[0], "0"]);
}

/// What a server sends in parts reaches a client in parts, and a model as words and pictures; the
/// log has what they are and not what is in them.
#[test]
fn parts_of_an_answer_are_passed_on() {
    let desk = Desk::new();
    let web = Web::new(&desk, "x", Mode::Parts);
    let yaml = format!(
        "packs: []\nmcp_servers: {{x: {{url: '{}', effects: {{echo: read}}}}}}\n\
         phases: {{A: {{tools: {{mcp: [x]}}}}}}\n",
        web.url
    );
    desk.write("toolgate.yaml", &yaml);
    let mut command = desk.command();
    command.arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                       "io.modelcontextprotocol/clientCapabilities": {} });
    let params = json!({ "name": "mcp__x__echo", "arguments": { "text": "x" }, "_meta": meta });
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    writeln!(input, "{request}").unwrap();
    drop(input);
    let ran = child.wait_with_output().unwrap();
    let out = String::from_utf8(ran.stdout).unwrap();
    let answer: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    let result = &answer["result"];
    assert_eq!(result["isError"], false, "{out}");
    let content = result["content"].as_array().unwrap();
    let kinds: Vec<&str> = content.iter().map(|part| part["type"].as_str().unwrap()).collect();
    let sent = ["text", "image", "audio", "resource_link", "resource"];
    // What was left out is told in two further texts.
    assert_eq!(kinds, [&sent[..], &["text", "text"]].concat());
    assert_eq!(
        content[0],
        json!({"type": "text", "text": "a dot", "annotations": {"audience": ["user"]}})
    );
    assert_eq!(content[1]["data"], DOT);
    assert!(content[6]["text"].as_str().unwrap().contains("hologram"), "{out}");
    // MWR-015: a link is passed on and not followed.
    assert_eq!(content[3]["uri"], "file:///etc/passwd");
    assert!(!out.contains("root:"), "{out}");
    assert!(result["_meta"]["toolgate/receipt"].as_str().unwrap().starts_with("rcpt_"));
    assert!(
        result["_meta"].get("their/own").is_none() && result.get("structuredContent").is_none()
    );
    let log = desk.ok(&["sessions", "export", "mcp"]);
    for said in ["attached", "image/png", "audio/wav", "\"bytes\": 70"] {
        assert!(log.contains(said), "{said} is missing in {log}");
    }
    assert!(!log.contains("\"shown\": true"), "no model was shown it: {log}");
    assert!(!log.contains(DOT), "the log has no bytes: {log}");
    desk.ok(&["verify"]);

    desk.write(
        "s.yaml",
        "replies: [{calls: [{tool: 'mcp:x:echo', args: {text: a}}]}, {text: Done.}]\n",
    );
    desk.ok(&["run", "x", "--model", "script:s.yaml"]);
    let list = desk.ok(&["sessions", "list", "--json"]);
    let ids = list.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let id = ids.map(|row| row["session"].as_str().unwrap().to_owned()).find(|id| id != "mcp");
    let log = desk.ok(&["sessions", "export", &id.unwrap()]);
    assert!(log.contains("[image: image/png, 70 bytes]"), "{log}");
    assert!(log.contains("\"shown\": true") && !log.contains(DOT), "{log}");
    desk.ok(&["verify"]);
}
