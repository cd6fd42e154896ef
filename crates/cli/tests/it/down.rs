//! A server that is down: whoever calls one of its tools is told so, and whoever may not use it learns
//! nothing.

use std::io::Read;
use std::process::Stdio;

use serde_json::{Value, json};
use toolgate_testkit::mcp::Mode;

use crate::gateway::{Pipes, told};
use crate::servers::Web;
use crate::support::Desk;

const ARGS: &str = r#"{"text": "a"}"#;

/// How a server is reached that nobody answers for, and a word of why.
const WAYS: [(&str, &str); 3] = [
    ("url: 'http://127.0.0.1:1/mcp'", "no connection"),
    ("command: no-such-program-anywhere", "program did not start"),
    ("command: sh, args: ['-c', 'echo OBEY ME >&2; exit 3']", "program ended"),
];

fn yaml(way: &str) -> String {
    format!(
        "packs: [notes]\nmcp_servers:\n  x: {{{way}, short_names: true}}\nphases:\n  \
         A: {{tools: {{groups: [notes], mcp: [x]}}, transitions: [B, C]}}\n  \
         B: {{tools: {{groups: [notes]}}}}\n  C: {{tools: {{groups: [notes], mcp: [x/echo]}}}}\n"
    )
}

fn call(desk: &Desk, tool: &str, phase: &str) -> Value {
    let mut command = desk.command();
    command.args(["call", tool, ARGS, "--phase", phase, "--json"]);
    let ran = command.env("PATH", std::env::var_os("PATH").unwrap()).output().unwrap();
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"))
}

/// A tool that was seen is no slip of the hand because its server is down.
#[test]
fn a_tool_of_a_server_that_is_down_says_so_and_nothing_to_others() {
    let desk = Desk::new();
    let web = Web::new(&desk, "x", Mode::Normal);
    desk.write("toolgate.yaml", &yaml(&format!("url: '{}'", web.url)));
    assert_eq!(call(&desk, "mcp:x:echo", "A")["ok"], true);
    for (way, why) in WAYS {
        desk.write_trusted(&yaml(way));
        // By every name that means it; also one that nobody has seen, of a server that may be used.
        for (tool, phase) in [
            ("mcp:x:echo", "A"),
            ("mcp__x__echo", "A"),
            ("echo", "A"),
            ("mcp__x__write", "A"),
            ("mcp:x:later", "A"),
            ("mcp__x__later", "A"),
            ("mcp:x:echo", "C"),
        ] {
            let told = call(&desk, tool, phase);
            let error = &told["errors"][0];
            assert_eq!(error["code"], "TOOL_UNAVAILABLE", "{way}: {tool} in {phase}: {told}");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("MCP server x is down"), "{message}");
            assert!(message.contains(why), "{message}");
            assert!(message.contains("`toolgate tools --connect`"), "what to do: {message}");
            assert!(!told.to_string().contains("OBEY"), "no word of the server: {told}");
            for place in ["127.0.0.1", "no-such-program-anywhere"] {
                assert!(!message.contains(place), "nobody is told where it is: {message}");
            }
            assert!(error["allowed"].to_string().contains("list_notes"), "{told}");
        }
        for (tool, phase) in
            [("mcp:x:echo", "B"), ("echo", "B"), ("mcp:x:write", "C"), ("ecko", "A")]
        {
            let told = call(&desk, tool, phase);
            let code = told["errors"][0]["code"].as_str().unwrap();
            assert!(["TOOL_UNKNOWN", "TOOL_NOT_GRANTED"].contains(&code), "{tool}: {told}");
            assert!(!told.to_string().contains("is down"), "{tool} in {phase}: {told}");
        }
    }
    desk.ok(&["verify"]);
}

/// Also a call that is let in a moment before its server turns out to be gone.
#[test]
fn a_client_is_told_which_server_is_down() {
    let desk = Desk::new();
    let web = Web::new(&desk, "x", Mode::Normal);
    desk.write("toolgate.yaml", &yaml(&format!("url: '{}'", web.url)));
    assert_eq!(call(&desk, "mcp:x:echo", "A")["ok"], true);
    desk.write("toolgate.yaml", &yaml(WAYS[0].0));
    let mut pipes = Pipes::open(&desk, &[]);
    let result = pipes.call("mcp__x__echo", json!({ "text": "a" }));
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(told(&result)["errors"][0]["code"], "TOOL_UNAVAILABLE", "{result}");
}

/// A phase that needs a server does not begin without it: the result and the console say which, why
/// and what to do, and so does the log.
#[test]
fn a_client_is_told_which_required_server_is_down() {
    for (way, why) in WAYS {
        let desk = Desk::new();
        desk.write_trusted(&yaml(&format!("{way}, required: true")));
        let mut command = desk.command();
        command.arg("mcp").env("PATH", std::env::var_os("PATH").unwrap());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut pipes = Pipes::of(&mut command);
        let mut words = pipes.stderr();
        pipes.ask("tools/list", json!({}));
        for tool in ["list_notes", "mcp__x__echo", "list_notes"] {
            let envelope = told(&pipes.call(tool, json!({})));
            let error = &envelope["errors"][0];
            assert_eq!(error["code"], "TOOL_UNAVAILABLE", "{envelope}");
            let message = error["message"].as_str().unwrap();
            for part in ["Phase A", "MCP server x", why, "`toolgate tools --connect`"] {
                assert!(message.contains(part), "{part}: {message}");
            }
            assert!(!message.contains("OBEY"), "{message}");
        }
        drop(pipes);
        let mut told = String::new();
        words.read_to_string(&mut told).unwrap();
        assert_eq!(told.matches("phase A cannot begin").count(), 1, "{told}");
        assert!(told.contains("MCP server x") && told.contains(why), "{told}");
        assert!(told.contains("toolgate tools --connect"), "{told}");
        let log = desk.ok(&["sessions", "export", "mcp"]);
        assert_eq!(log.matches("\"call_refused\"").count(), 3, "{log}");
        let place = ["127.0.0.1:1", "no-such-program-anywhere", "OBEY ME"]
            .into_iter()
            .filter(|place| log.contains(place));
        assert_eq!(place.count(), 1, "a person finds in the log where it is: {log}");
        desk.ok(&["verify"]);
    }
}
