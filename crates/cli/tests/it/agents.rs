//! Agents that take part in conversations, as people start them and see them.

use std::io::Write;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::support::{Beside, Desk};
use crate::terminal::{APPROVE, typing};

const CHANGES: &str = r#"
replies:
  - calls: [{tool: self_authoring, args: {action: update, field: system_prompt, value: Be brief.}}]
  - calls: [{tool: self_authoring, args: {action: update, field: name, value: Sage}}]
  - calls: [{tool: self_authoring, args: {action: update, field: model, value: judge}}]
  - text: I am Sage now.
"#;

/// A project with two agents, one model that speaks and one that looks at prompts.
fn set(desk: &Desk, speaks: &Beside, judges: &Beside) {
    let model = |name: &str, beside: &Beside| {
        let config = beside.config("openai").replace("  m: ", &format!("  {name}: "));
        config.trim_start_matches("models:\n").to_owned()
    };
    let models = model("speaks", speaks) + &model("judge", judges);
    desk.write_trusted(&format!(
        "packs: [self_authoring, tasks]\nsystem_prompt: 'You are {{agent_name}}. \
             {{agent_prompt}}'\nself_authoring: {{reviewer: judge}}\nagents:\n  ada: {{name: Ada, \
             system_prompt: Be kind., model: speaks, enabled_tools: [self_authoring]}}\n  bob: \
             {{}}\nmodels:\n{models}"
    ));
}

fn chat(desk: &Desk, args: &[&str]) -> (i32, String) {
    let mut command = desk.command();
    command.env("FAKE_KEY", "sk-CANARY-01").arg("chat").args(args);
    let Output { status, stdout, stderr } = command.output().unwrap();
    let told = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    (status.code().unwrap_or(-1), told)
}

fn session(desk: &Desk) -> String {
    let listed = desk.ok(&["sessions", "list", "--json"]);
    let glance: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    assert_eq!((&glance["agent"], &glance["conversation"]), (&json!("ada"), &json!("group")));
    glance["session"].as_str().unwrap().to_owned()
}

fn bodies(beside: &Beside) -> Vec<String> {
    beside.seen().iter().map(|seen| seen.body.to_string()).collect()
}

#[test]
fn an_agent_changes_itself_and_its_session_knows_it_afterwards() {
    let (desk, speaks) = (Desk::new(), Beside::playing(CHANGES));
    let judge = "replies: [{text: SAFE}, {text: I speak now.}]";
    let judges = Beside::playing(judge);
    set(&desk, &speaks, &judges);
    desk.ok(&["check"]);
    let (code, told) = chat(&desk, &["--agent", "ada", "Hello."]);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("I am Sage now."), "{told}");
    let asked = bodies(&speaks);
    assert!(asked[0].contains("You are Ada. Be kind."), "{}", asked[0]);
    assert!(!asked[0].contains("\"tasks\""), "what is not enabled is not offered: {}", asked[0]);
    assert!(asked[1].contains("Your system_prompt is now: Be brief."), "{}", asked[1]);
    let reviews = bodies(&judges);
    assert_eq!(reviews.len(), 1, "a name is not looked at: {reviews:?}");
    assert!(reviews[0].contains("Be brief."), "{}", reviews[0]);

    let id = session(&desk);
    let shown = desk.ok(&["sessions", "show", &id]);
    assert!(shown.contains("speaks as ada in a group conversation"), "{shown}");
    let view = r#"{"action":"view","field":"system_prompt"}"#;
    let told = desk.ok(&["call", "self_authoring", view, "--session", &id, "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    let data = json!({ "type": "config", "action": "view", "field": "system_prompt",
                       "value": "Be brief.", "agent": "Sage" });
    assert_eq!(told["data"], data);

    // Another model speaks only after a person's yes, from the next start on.
    let approve = ["approvals", "approve", "c3", "--session", &id];
    // A yes for the whole session would lift nothing, so it is not to be had.
    let mut command = desk.command();
    command.args(approve).arg("--always");
    let seen = typing(command, &[], || {});
    assert_eq!(seen.code, 2, "{}", seen.screen);
    assert!(seen.screen.contains("own-model asks about each call"), "{}", seen.screen);
    let mut command = desk.command();
    let update = r#"{"action":"update","field":"model","value":"judge"}"#;
    command.args(["call", "self_authoring", update, "--session", &id]);
    let seen = typing(command, &[("to deny:", "no Not yet.")], || {});
    assert_eq!(seen.code, 1, "{}", seen.screen);
    let mut command = desk.command();
    command.args(approve);
    let seen = typing(command, &[APPROVE], || {});
    assert_eq!(seen.code, 0, "{}", seen.screen);
    let view = r#"{"action":"view","field":"model"}"#;
    let told = desk.ok(&["call", "self_authoring", view, "--session", &id, "--json"]);
    assert!(told.contains("\"value\":\"judge\""), "{told}");
    let (code, told) = chat(&desk, &["--last", "Who are you?"]);
    assert_eq!((code, bodies(&speaks).len()), (0, 4), "{told}");
    assert!(bodies(&judges)[1].contains("Who are you?"), "{told}");
    desk.ok(&["verify"]);
    desk.ok(&["sessions", "replay", &id]);
    assert_eq!(bodies(&judges).len(), 2, "a replay asks nobody");
}

#[test]
fn a_session_speaks_as_whom_it_was_begun() {
    let (desk, speaks) = (Desk::new(), Beside::playing("replies: [{text: Hello.}]"));
    set(&desk, &speaks, &speaks);
    for (args, told) in [
        (&["--agent", "eve", "Hi."][..], "there is no agent \"eve\"; there is ada, bob"),
        (&["--conversation", "group", "Hi."], "--agent"),
        (&["--agent", "ada", "--conversation", "party", "Hi."], "group"),
    ] {
        let (code, seen) = chat(&desk, args);
        assert!(code != 0 && seen.contains(told), "{args:?}: {seen}");
    }
    let (code, told) = chat(&desk, &["--agent", " ADA ", "Hi."]);
    assert_eq!(code, 0, "{told}");
    let id = session(&desk);
    for args in [
        &["--agent", "bob", "--last", "--model", "speaks", "Hi."][..],
        &["--agent", "ada", "--conversation", "direct", "--last", "Hi."],
    ] {
        let (code, told) = chat(&desk, args);
        let says = format!("session {id} speaks as ada in a group conversation");
        assert!(code != 0 && told.contains(&says), "{args:?}: {told}");
    }
    // Another conversation that is begun from this one speaks as it did, with the same tools.
    let mut command = desk.command();
    command.env("FAKE_KEY", "sk-CANARY-01").args(["chat", "--last"]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"/new\nHi.\n").unwrap();
    child.wait().unwrap();
    let listed = desk.ok(&["sessions", "list", "--json"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert!(listed.lines().all(|line| line.contains("\"ada\"")), "{listed}");
    // Nobody speaks as an agent that is gone.
    let file = std::fs::read_to_string(desk.project().join("toolgate.yaml")).unwrap();
    desk.write_trusted(&file.replace("  ada: {name: Ada", "  eve: {name: Eve"));
    let args = ["call", "self_authoring", "{}", "--session", &id];
    let gone = desk.run(&args);
    assert!(gone.code != 0 && gone.err.contains("speaks as the agent ada"), "{}", gone.err);
    let gone = desk.run(&["sessions", "fork", &id]);
    assert!(gone.code != 0 && gone.err.contains("speaks as the agent ada"), "{}", gone.err);
    // A session without an agent is told how to begin one.
    let told = desk.run(&["call", "self_authoring", "{}", "--json"]).out;
    assert!(told.contains("CONTEXT_MISSING") && told.contains("--agent NAME"), "{told}");
}
