//! `toolgate mcp login`, as a person and a browser use it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Arc;

use serde_json::json;
use toolgate_testkit::mcp::{Guarded, Twist};

use crate::mcp::{Server, every_byte, made};
use crate::support::Desk;

fn desk(guarded: &Guarded) -> Desk {
    let desk = Desk::new();
    let text = format!(
        "name: guest\nsystem_prompt: You ask a server.\npacks: []\ndefault_phase: WORK\n\
         mcp_servers:\n  research: {{url: \"{}\", effects: {{echo: read}}}}\n\
         phases:\n  WORK:\n    tools: {{mcp: [research]}}\n",
        guarded.url()
    );
    desk.write("toolgate.yaml", &text);
    desk
}

/// A login that waits for a browser.
struct Waiting {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    address: String,
}

impl Waiting {
    fn begin(desk: &Desk, wait: &str) -> Self {
        let mut command = desk.command();
        command.args(["mcp", "login", "research", "--wait", wait]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines.find(|line| line.as_ref().unwrap().starts_with("http")).unwrap();
        Self { child, lines, address: address.unwrap() }
    }

    /// What a browser gets that is sent to us with an answer.
    fn browse(&self, guarded: &Guarded, query: &str) -> String {
        guarded.consent(&self.address);
        let redirect = guarded.asked("redirect_uri");
        let host = redirect.strip_prefix("http://").unwrap().split('/').next().unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        let head = format!("GET /callback?{query} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn end(mut self) -> (i32, String) {
        let mut out: String = self.lines.map(|line| line.unwrap() + "\n").collect();
        self.child.stderr.take().unwrap().read_to_string(&mut out).unwrap();
        (self.child.wait().unwrap().code().unwrap_or(-1), out)
    }
}

fn log_in(desk: &Desk, guarded: &Guarded) {
    let waiting = Waiting::begin(desk, "60");
    let good = guarded.consent(&waiting.address);
    // Somebody else's answer changes nothing.
    let strange = waiting.browse(guarded, "code=evil&state=evil");
    assert!(strange.starts_with("HTTP/1.1 400"), "{strange}");
    let page = waiting.browse(guarded, &good);
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("went through"), "{page}");
    let (code, out) = waiting.end();
    assert!(code == 0 && out.contains("Logged in to research"), "{out}");
}

#[test]
fn a_login_lets_calls_through_and_its_token_is_nowhere_else() {
    let guarded: Arc<Guarded> = Guarded::start(Twist::None).unwrap();
    let desk = desk(&guarded);
    let call = ["call", "mcp__research__echo", r#"{"text":"hello"}"#];
    let before = desk.run(&call);
    let told = format!("{}{}", before.out, before.err);
    assert!(told.contains("toolgate mcp login research"), "{told}");
    log_in(&desk, &guarded);
    let out = desk.ok(&call);
    assert!(out.contains("hello"), "{out}");
    // The token is in one file, for this user alone, outside the project.
    let folder = desk.home().join(".config/toolgate/mcp-tokens");
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap()).collect();
    assert_eq!(files.len(), 1);
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&files[0].path()), mode(&folder)), (0o600, 0o700));
    let kept = std::fs::read_to_string(files[0].path()).unwrap();
    assert!(guarded.tokens().iter().all(|token| kept.contains(token)));
    let shown = desk.run(&["sessions", "show", "call"]);
    let everywhere = String::from_utf8_lossy(&every_byte(&desk)).replace(&kept, "");
    for token in guarded.tokens() {
        assert!(!everywhere.contains(&token) && !shown.out.contains(&token));
    }
    // A file that others can read is not used.
    std::fs::set_permissions(files[0].path(), std::fs::Permissions::from_mode(0o644)).unwrap();
    let open = desk.run(&call);
    assert!(format!("{}{}", open.out, open.err).contains("chmod 600"), "{}{}", open.out, open.err);
    // What is forgotten is not sent.
    assert!(desk.ok(&["mcp", "logout", "research"]).contains("forgotten"));
    assert!(desk.ok(&["mcp", "logout", "research"]).contains("no token"));
    let after = desk.run(&call);
    assert!(format!("{}{}", after.out, after.err).contains("mcp login research"));
}

/// MOA-010: what opens our door is not shown at another.
#[test]
fn a_clients_token_never_leaves_for_a_server() {
    let guarded = Guarded::start(Twist::None).unwrap();
    let desk = desk(&guarded);
    log_in(&desk, &guarded);
    let (_, token) = made(&desk, &[]);
    let server = Server::start(&desk, &[]);
    let call = json!({ "name": "mcp__research__echo", "arguments": { "text": "hello" } });
    let (status, body) = server.post(&token, "tools/call", call);
    assert!(status == 200 && body.contains("hello"), "{body}");
    let sent = guarded.everything();
    assert!(sent.contains("tools/call") && sent.contains("canary-access-1"));
    assert!(!sent.contains(&token) && !sent.contains("tgt_"), "the token of a client left");
}

#[test]
fn a_login_that_nobody_answers_or_that_is_denied_keeps_nothing() {
    let guarded = Guarded::start(Twist::None).unwrap();
    let desk = desk(&guarded);
    let (code, out) = Waiting::begin(&desk, "1").end();
    assert!(code == 1 && out.contains("nobody answered"), "{code}: {out}");
    let waiting = Waiting::begin(&desk, "60");
    let good = guarded.consent(&waiting.address);
    let denied = good.replace("code=the-code", "error=access_denied");
    assert!(waiting.browse(&guarded, &denied).starts_with("HTTP/1.1 400"));
    let (code, out) = waiting.end();
    assert!(code == 1 && out.contains("access_denied"), "{code}: {out}");
    assert!(!desk.home().join(".config/toolgate/mcp-tokens").exists());
    assert_eq!(guarded.seen("POST /token").len(), 0);
    let strange = desk.run(&["mcp", "login", "nobody"]);
    assert!(strange.code == 2 && strange.err.contains("research"), "{}", strange.err);
}
