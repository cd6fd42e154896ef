//! Options of one request: the tools it may use, the tool it must use.

use serde_json::Value;

use crate::support::{Beside, Desk};

const CONFIG: &str = "
packs: [notes, planning]
phases:
  A: {tools: {include: [write_notes, list_notes]}}
";

const SCRIPT: &str = "
replies:
  - calls: [{tool: write_notes, args: {key: a, data: 1}}, {tool: list_notes}]
  - text: Listed.
  - calls: [{tool: write_notes, args: {key: a, data: 1}}]
  - text: Written.
";

fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("toolgate.yaml", CONFIG);
    desk.write("s.yaml", SCRIPT);
    desk
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Case C18 by `call`: a tool that the request leaves out is refused though the phase grants it, and
/// a name that does not exist is refused before anything is called.
#[test]
fn a_call_is_narrowed_by_its_request_and_the_next_one_is_not() {
    let desk = desk();
    let write = ["call", "write_notes", r#"{"key": "a", "data": 1}"#, "--json"];
    let narrowed = desk.run(&[&write[..], &["--allow-tool", "list_notes"]].concat());
    let envelope = json_of(&narrowed.out);
    assert_eq!(envelope["errors"][0]["code"], "TOOL_NOT_GRANTED", "{envelope}");
    assert_eq!(envelope["errors"][0]["allowed"], serde_json::json!(["list_notes"]));
    assert_eq!(envelope.get("receipt"), None);
    assert_eq!(json_of(&desk.ok(&write))["ok"], true);
    for (flags, told) in [
        (&["--allow-tool", "list_note"][..], "did you mean list_notes?"),
        (&["--allow-tool", "list_notes", "--require-tool", "write_notes"], "not among the allowed"),
        (&["--require-tool", "set_plan"], "there is no tool"),
        (&["--allow-tool", "planning_setup_plan", "--require-tool", "any"], "none is available"),
    ] {
        let refused = desk.run(&[&write[..], flags].concat());
        let said = format!("{}{}", refused.out, refused.err);
        assert!(refused.code != 0 && said.contains(told), "{flags:?}: {said}");
    }
    let log = desk.ok(&["sessions", "export", "call"]);
    let opened = log.matches("\"request_opened\"").count();
    assert_eq!(opened, 2, "one that narrows, and one that lifts it again");
}

/// Case C18 by `chat`: what a message may not use is not shown to the model, nor called.
#[test]
fn a_message_is_narrowed_and_its_options_are_in_the_log() {
    let desk = desk();
    let chat = ["chat", "--model", "script:s.yaml", "--json"];
    let flags = ["--allow-tool", "list_notes", "--require-tool", "list_notes", "List them."];
    let told = desk.ok(&[&chat[..], &flags].concat());
    let events: Vec<Value> = told.lines().map(json_of).collect();
    let of = |kind: &str| -> Vec<&Value> {
        let events = events.iter().map(|record| &record["event"]);
        events.filter(|event| event["kind"] == kind).collect()
    };
    let sent = of("plan_sent");
    assert_eq!(sent[0]["tools"], serde_json::json!(["list_notes"]));
    assert_eq!(of("call_refused").len(), 1);
    assert_eq!(of("call_settled").len(), 1);
    assert_eq!(of("request_opened")[0]["required_tool"]["tool"], "list_notes");
    // A later invocation is another request.
    let told = desk.ok(&["chat", "--model", "script:s.yaml", "--json", "--last", "Write it."]);
    let lifted = told.lines().map(json_of).find(|it| it["event"]["kind"] == "plan_sent").unwrap();
    assert_eq!(lifted["event"]["tools"].as_array().unwrap().len(), 2);
}

/// A run that is taken up goes on under the options it was begun with.
#[test]
fn a_run_keeps_its_options_when_it_goes_on() {
    let desk = desk();
    desk.write("short.yaml", "replies:\n  - calls: [{tool: list_notes}]\n");
    let run = ["run", "--model", "script:short.yaml", "--json"];
    let flags = ["--allow-tool", "list_notes", "List them."];
    let first = desk.run(&[&run[..], &flags].concat());
    assert_ne!(first.code, 0, "the script ends too early");
    let more = "replies:\n  - text: ''\n  - text: ''\n  - calls: [{tool: write_notes, args: {key: a, data: 1}}]\n  - text: Done.\n  - text: Done.\n";
    desk.write("short.yaml", more);
    let told = desk.run(&run).out;
    let refused = told.lines().map(json_of).find(|it| it["event"]["kind"] == "call_refused");
    let refused = refused.unwrap_or_else(|| panic!("nothing was refused: {told}"));
    assert_eq!(refused["event"]["envelope"]["errors"][0]["code"], "TOOL_NOT_GRANTED");
}

/// The provider is asked for the tool that the request requires, until a call of it was made.
#[test]
fn a_provider_is_asked_for_the_required_tool() {
    let desk = desk();
    let script = "replies:\n  - calls: [{tool: list_notes}]\n  - text: Listed.\n";
    let beside = Beside::playing(script);
    desk.write_trusted(&format!("{CONFIG}{}", beside.config("openai")));
    let mut command = desk.command();
    command.env("FAKE_KEY", "sk-CANARY-01");
    command.args(["chat", "--model", "m", "--require-tool", "list_notes", "List them."]);
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let choices: Vec<Value> =
        beside.seen().iter().map(|seen| seen.body["tool_choice"].clone()).collect();
    assert_eq!(choices[0]["function"]["name"], "list_notes", "{choices:?}");
    assert_eq!(choices[1], "auto", "{choices:?}");
}
