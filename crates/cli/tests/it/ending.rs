//! The end: however the program is told to stop, the servers it started are gone five seconds later,
//! with all that they started, also while a call waits for one of them.

#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use toolgate_testkit::mcp::Mode;

use crate::gateway::{Pipes, until};
use crate::mcp::{Server, made};
use crate::servers::Web;
use crate::support::Desk;
use crate::terminal::told_to_go;

/// A program that does not want to end, and one more that it starts.
const STUBBORN: &str =
    "trap '' TERM HUP\necho $$ >> out/ids\nsetsid sh -c 'echo $$ >> out/ids; exec sleep 99' &\n";

/// It answers everything but calls.
const MUTE: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/')
  case $line in
    *'"server/discover"'*) say='"error":{"code":-32601,"message":"unknown"}' ;;
    *'"initialize"'*) say='"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"m","version":"1"}}' ;;
    *'"tools/list"'*) say='"result":{"tools":[{"name":"echo","inputSchema":{"type":"object","additionalProperties":false}}]}' ;;
    *'"tools/call"'*) echo call >> out/called; continue ;;
    *) continue ;;
  esac
  echo "{\"jsonrpc\":\"2.0\",\"id\":$id,$say}"
done
"#;

/// It answers nothing at all.
const SILENT: &str = "sleep 60\n";

/// Which server the program waits for when it is told to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Waits {
    ForAnAnswer,
    ForItsStart,
    OverHttp,
}

fn desk(waits: Waits) -> (Desk, Option<Web>) {
    let desk = Desk::new();
    let rest = if waits == Waits::ForItsStart { SILENT } else { MUTE };
    desk.write("x.sh", &format!("{STUBBORN}{rest}{SILENT}"));
    std::fs::create_dir(desk.project().join("out")).unwrap();
    desk.write("s.yaml", "replies: [{calls: [{tool: mcp__x__echo}]}, {text: Done.}]\n");
    let web = (waits == Waits::OverHttp).then(|| Web::new(&desk, "x", Mode::Hang));
    let reach = match &web {
        Some(web) => format!("url: '{}'", web.url),
        None => "command: sh, args: [x.sh], sandbox: {write: [out]}".to_owned(),
    };
    desk.write_trusted(&format!(
        "packs: []\nmcp_servers: {{x: {{{reach}}}}}\nphases: {{A: {{tools: {{mcp: [x]}}}}}}\n"
    ));
    (desk, web)
}

/// What is promised. Few cases run at a time, so that a busy machine keeps it too.
const END_MAX: Duration = Duration::from_secs(5);

/// Tells a program to stop, waits until it has and all that was started is gone, and gives its code.
fn end(child: &mut Child, desk: &Desk, how: &str, about: &str) -> Option<i32> {
    let began = Instant::now();
    match how {
        "EOF" => drop(child.stdin.take()),
        signal => {
            let told = Command::new("kill").args([signal, &child.id().to_string()]).status();
            assert!(told.unwrap().success());
        }
    }
    let code = child.wait().unwrap().code();
    until("the end of all", || ids(desk).iter().all(is_gone));
    assert!(began.elapsed() < END_MAX, "{about}: {:?}", began.elapsed());
    code
}

fn ids(desk: &Desk) -> Vec<String> {
    let text = std::fs::read_to_string(desk.project().join("out/ids")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn is_gone(id: &String) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_none_or(|rest| rest.is_empty() || rest.starts_with(" Z"))
}

/// Waits until the program waits for its server.
fn waits(desk: &Desk, web: Option<&Web>, waits: Waits) {
    until("the server", || match web {
        Some(web) => !web.calls().is_empty(),
        None => {
            ids(desk).len() == 2
                && (waits == Waits::ForItsStart || desk.project().join("out/called").exists())
        }
    });
}

/// Whose turn it is: a test is not to be late because of another one.
static TURN: Mutex<()> = Mutex::new(());

/// Checks every case, three at a time.
fn all(check: fn(Waits, &str), hows: &'static [&'static str]) {
    for how in hows {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        std::thread::scope(|scope| {
            for waits in [Waits::ForAnAnswer, Waits::ForItsStart, Waits::OverHttp] {
                scope.spawn(move || check(waits, how));
            }
        });
    }
}

#[test]
fn a_run_and_a_call_end_in_time() {
    let check = |waiting, how: &str| {
        for args in [&["call", "mcp:x:echo"][..], &["run", "x", "--model", "script:s.yaml"]] {
            let (desk, web) = desk(waiting);
            let mut command = desk.command();
            command.args(args);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            waits(&desk, web.as_ref(), waiting);
            let about = format!("{args:?} {waiting:?} {how}");
            let code = end(&mut child, &desk, how, &about);
            let expected = if args[0] == "run" && how == "-TERM" { 0 } else { 130 };
            assert_eq!(code, Some(expected), "{about}");
        }
    };
    all(check, &["-INT", "-TERM"]);
}

#[test]
fn a_server_over_pipes_ends_in_time() {
    let check = |waiting, how: &str| {
        let (desk, web) = desk(waiting);
        let mut command = desk.command();
        command.arg("mcp");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        writeln!(child.stdin.as_mut().unwrap(), "{}", call()).unwrap();
        waits(&desk, web.as_ref(), waiting);
        let about = format!("{waiting:?} {how}");
        assert_eq!(end(&mut child, &desk, how, &about), Some(0), "{about}");
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        is_settled(&desk, waiting, &said);
    };
    all(check, &["EOF", "-INT", "-TERM"]);
}

#[test]
fn a_server_over_http_ends_in_time() {
    let check = |waiting, how: &str| {
        let (desk, web) = desk(waiting);
        let token = made(&desk, &[]).1;
        let mut server = Server::start(&desk, &[]);
        let headers = format!(
            "Authorization: Bearer {token}\r\nMCP-Protocol-Version: 2026-07-28\r\n\
             Mcp-Method: tools/call\r\nMcp-Name: mcp__x__echo\r\n"
        );
        let mut stream = server.open("POST", &headers, &call());
        waits(&desk, web.as_ref(), waiting);
        let about = format!("{waiting:?} {how}");
        assert_eq!(end(&mut server.child, &desk, how, &about), Some(0), "{about}");
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        is_settled(&desk, waiting, &said);
    };
    all(check, &["-INT", "-TERM"]);
}

/// A conversation that waits for words hears that it shall go, also after an answer.
#[test]
fn a_conversation_ends_when_it_is_told() {
    for how in ["-TERM", "-HUP", "-INT"] {
        let desk = Desk::new();
        desk.write("toolgate.yaml", "packs: []\n");
        desk.write("s.yaml", "replies: [{text: Hello.}]\n");
        let mut command = desk.command();
        command.args(["chat", "--model", "script:s.yaml"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        writeln!(child.stdin.as_mut().unwrap(), "Hi.").unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.into_iter().any(|line| line.contains("Hello.")), "{how}");
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(end(&mut child, &desk, how, how), Some(0), "{how}");
    }
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: []\n");
    let mut command = desk.command();
    command.args(["chat", "--model", "script:s.yaml"]);
    desk.write("s.yaml", "replies: []\n");
    assert_eq!(told_to_go(command, "> "), (0, true), "the terminal is left as it was found");
}

/// A call of the newest revision.
fn call() -> String {
    let params = json!({ "name": "mcp__x__echo", "arguments": {},
        "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                   "io.modelcontextprotocol/clientCapabilities": {} } });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
}

/// The call is in the log as one that may have happened, or did not where its server never started,
/// and its caller was told so.
fn is_settled(desk: &Desk, waiting: Waits, said: &str) {
    let (code, end) = match waiting {
        Waits::ForItsStart => ("CALL_CANCELLED", "\"kind\": \"call_refused\""),
        Waits::ForAnAnswer | Waits::OverHttp => ("OUTCOME_UNKNOWN", "\"outcome\": \"unknown\""),
    };
    assert!(said.contains(code), "{waiting:?}: {said}");
    let log = desk.ok(&["sessions", "export", "mcp"]);
    assert!(log.contains(code) && log.contains(end), "{waiting:?}: {log}");
    desk.ok(&["verify"]);
}

/// A list that waits for a slow server is answered at the end, and so is a call of it.
#[test]
fn whoever_waits_for_a_list_is_answered_at_the_end() {
    for how in ["EOF", "-TERM"] {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let (desk, _) = desk(Waits::ForItsStart);
        let mut command = desk.command();
        command.arg("mcp");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let list = call().replace("tools/call", "tools/list").replace("\"id\":1", "\"id\":2");
        writeln!(child.stdin.as_mut().unwrap(), "{}\n{list}", call()).unwrap();
        waits(&desk, None, Waits::ForItsStart);
        assert_eq!(end(&mut child, &desk, how, how), Some(0), "{how}");
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        let answer =
            |id: u64| said.lines().filter(|line| line.contains(&format!("\"id\":{id}"))).count();
        assert_eq!((answer(1), answer(2)), (1, 1), "{how}: {said}");
        assert!(said.contains("The server is stopping"), "{how}: {said}");
    }
}

/// A process that was killed leaves a call that was begun. Whoever looks sees it, beside those that
/// came to their end.
#[test]
fn a_call_that_was_begun_and_not_settled_is_shown() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (desk, _) = desk(Waits::ForAnAnswer);
    let yaml = std::fs::read_to_string(desk.project().join("toolgate.yaml")).unwrap();
    desk.write_trusted(
        &yaml
            .replace("packs: []", "packs: [notes]")
            .replace("mcp: [x]", "groups: [notes], mcp: [x]"),
    );
    let mut pipes = Pipes::open(&desk, &[]);
    pipes.send("tools/call", json!({ "name": "mcp__x__echo" }));
    waits(&desk, None, Waits::ForAnAnswer);
    assert_eq!(pipes.call("list_notes", json!({}))["isError"], false);
    drop(pipes);
    let shown = desk.ok(&["sessions", "show", "mcp"]);
    assert!(shown.contains("mcp__x__echo — begun, and not settled"), "{shown}");
    assert!(shown.contains("✓ list_notes"), "{shown}");
    let shown: serde_json::Value =
        serde_json::from_str(&desk.ok(&["sessions", "show", "mcp", "--json"])).unwrap();
    let open = json!([{ "call": "c1", "tool": "mcp__x__echo", "progress": "started" }]);
    assert_eq!(shown["open"], open, "{shown}");
    // What a killed toolgate had started is ended by hand.
    let left = ids(&desk);
    for id in left {
        drop(Command::new("kill").args(["-KILL", &id]).status());
    }
}

/// Whoever hands over a socket that does not block is served as over pipes.
#[test]
fn a_socket_that_does_not_block_is_served() {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [notes]\n");
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let mut command = desk.command();
    command.arg("mcp").stderr(Stdio::null());
    command.stdin(OwnedFd::from(theirs.try_clone().unwrap())).stdout(OwnedFd::from(theirs));
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut lines = BufReader::new(ours.try_clone().unwrap()).lines();
    for id in 1..4 {
        // It has to wait for the next one.
        std::thread::sleep(Duration::from_millis(200));
        let list = call().replace("mcp__x__echo", "list_notes");
        let list = list.replace("\"id\":1", &format!("\"id\":{id}"));
        writeln!(&ours, "{list}").unwrap();
        let line = lines.next().unwrap().unwrap();
        assert!(
            line.contains(&format!("\"id\":{id}")) && line.contains("isError\":false"),
            "{line}"
        );
    }
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A client that is gone is noticed also where somebody else has its end of the input.
#[test]
fn a_client_that_does_not_listen_any_more_is_noticed() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [notes]\n");
    let mut command = desk.command();
    command.arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let discover = call().replace("tools/call", "server/discover");
    writeln!(child.stdin.as_mut().unwrap(), "{discover}").unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    drop(output);
    let (began, input) = (Instant::now(), child.stdin.take());
    let code = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if began.elapsed() > END_MAX {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    drop(input);
    assert_eq!(code, Some(0));
}

/// What cannot be read is no silent end.
#[test]
fn an_input_that_cannot_be_read_is_told() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [notes]\n");
    let mut command = desk.command();
    // A folder can be opened, and not read.
    command.arg("mcp").stdin(std::fs::File::open(desk.project()).unwrap());
    let ended = command.output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains("the client's messages cannot be read"), "{told}");
}

/// What a killed server left behind holds up nobody who comes next, and a call that was not begun is
/// not begun in the absence of whoever made it.
#[test]
fn what_was_left_behind_holds_up_no_start() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (desk, _) = desk(Waits::ForAnAnswer);
    let mut pipes = Pipes::open(&desk, &[]);
    pipes.send("tools/call", json!({ "name": "mcp__x__echo" }));
    waits(&desk, None, Waits::ForAnAnswer);
    drop(pipes);
    let left = ids(&desk);
    // Its server does not even start any more.
    desk.write("x.sh", &format!("{STUBBORN}{SILENT}"));
    let mut command = desk.command();
    command.arg("mcp");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let discover = call().replace("tools/call", "server/discover");
    writeln!(child.stdin.as_mut().unwrap(), "{discover}").unwrap();
    let began = Instant::now();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("supportedVersions") && began.elapsed() < END_MAX, "{line}");
    for id in left {
        drop(Command::new("kill").args(["-KILL", &id]).status());
    }
    assert_eq!(end(&mut child, &desk, "-TERM", "a start"), Some(0));
    let log = desk.ok(&["sessions", "export", "mcp"]);
    assert!(log.contains("\"outcome\": \"unknown\""), "{log}");
    desk.ok(&["verify"]);
}

/// A client whose end has come and who cannot be answered is no success.
#[test]
fn what_cannot_be_written_after_the_last_message_ends_with_1() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [notes]\n");
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                       "io.modelcontextprotocol/clientCapabilities": {} });
    let params = json!({ "name": "list_notes", "arguments": {}, "_meta": meta });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    desk.write("said", &format!("{call}\n"));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let said = std::fs::File::open(desk.project().join("said")).unwrap();
    let ended = desk.command().arg("mcp").stdin(said).stdout(full).output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains("cannot be answered"), "{told}");
}
