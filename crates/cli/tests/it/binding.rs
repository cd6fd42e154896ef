//! What an approval and an "always" answer are bound to: every edit of the configuration that decides
//! what a call may do asks anew.

use toolgate_testkit::mcp::Mode;

use crate::servers::Web;
use crate::support::Desk;
use crate::terminal::{APPROVE, typing};

const CONFIG: &str = "packs: [notes]\npolicies:\n  - name: careful\n    rule: {tools: [write_notes], \
     ask: 'true', message: A note is serious.}\n";

/// Edits of everything beside prompts, each with what must be told of it.
const EDITS: &[(&str, &str, &str)] = &[
    ("ask: 'true'", "ask: \"args.key != 'x'\"", "policies[0].rule.ask"),
    ("A note is serious.", "A dry run against the sandbox.", "policies[0].rule.message"),
    ("packs: [notes]", "packs: [notes]\nlimits: {call_ms_max: 5000}", "limits.call_ms_max"),
    (
        "packs: [notes]",
        "packs: [notes]\nmcp_servers: {pay: {command: /bin/true, args: [--production]}}",
        "mcp_servers.pay",
    ),
    (
        "packs: [notes]",
        "packs: [notes]\nsettings: {base_url: 'http://127.0.0.1:9/v1'}",
        "settings.base_url",
    ),
];

/// The same for a server that is there before and after the edit.
#[test]
fn an_always_answer_ends_with_an_edit_of_a_server() {
    let with = |args: &str| {
        format!("mcp_servers: {{pay: {{command: /bin/true, args: [{args}]}}}}\n{CONFIG}")
    };
    let desk = Desk::new();
    desk.write_trusted(&with("--sandbox"));
    assert_eq!(write(&desk).code, 1);
    let mut command = desk.command();
    command.args(["approvals", "approve", "c1", "--always"]);
    let seen = typing(command, &[APPROVE], || {});
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert_eq!(write(&desk).code, 0, "allowed for the session");
    desk.write_trusted(&with("--production"));
    let ran = write(&desk);
    assert!(ran.code == 1 && ran.out.contains("APPROVAL_PENDING"), "{}", ran.out);
    assert!(ran.err.contains("mcp_servers.pay.args"), "{}", ran.err);
}

fn write(desk: &Desk) -> crate::support::Ran {
    desk.run(&["call", "write_notes", r#"{"key":"a","data":1}"#, "--json"])
}

#[test]
fn an_always_answer_ends_with_any_edit_that_decides_about_calls() {
    for (from, to, key) in EDITS {
        let desk = Desk::new();
        desk.write("toolgate.yaml", CONFIG);
        assert_eq!(write(&desk).code, 1);
        let mut command = desk.command();
        command.args(["approvals", "approve", "c1", "--always"]);
        let seen = typing(command, &[APPROVE, ("passphrase", "")], || {});
        assert_eq!(seen.code, 0, "{key}: {}", seen.screen);
        assert_eq!(write(&desk).code, 0, "{key}: allowed for the session");
        desk.write_trusted(&CONFIG.replace(from, to));
        let ran = write(&desk);
        assert!(ran.code == 1 && ran.out.contains("APPROVAL_PENDING"), "{key}: {}", ran.out);
        assert!(ran.err.contains("The configuration changed"), "{key}: {}", ran.err);
        assert!(ran.err.contains(key), "{key}: {}", ran.err);
        // The other way round nothing comes back to life either.
        desk.write_trusted(CONFIG);
        assert_eq!(write(&desk).code, 1, "{key}");
        let shown = desk.ok(&["log", "diff-config"]);
        assert_eq!(shown.matches(key).count(), 2, "{shown}");
        desk.ok(&["verify"]);
    }
}

/// A yes for a question that was asked under another configuration runs nothing.
#[test]
fn a_yes_after_an_edit_asks_anew() {
    for (from, to, key) in EDITS {
        let desk = Desk::new();
        desk.write("toolgate.yaml", CONFIG);
        assert_eq!(write(&desk).code, 1);
        desk.write_trusted(&CONFIG.replace(from, to));
        let mut command = desk.command();
        command.args(["approvals", "approve", "c1"]);
        let seen = typing(command, &[APPROVE], || {});
        assert!(seen.screen.contains("Nothing ran."), "{key}: {}", seen.screen);
        let notes = desk.run(&["call", "list_notes", "--json"]);
        assert!(!notes.out.contains("\"a\""), "{key}: {}{}", notes.out, seen.screen);
    }
}

#[test]
fn the_kept_text_of_a_configuration_has_no_secret() {
    let desk = Desk::new();
    let config = "packs: [notes]\n# api_key: sk-an-older-secret\nsettings: {api_key: sk-very-secret-value}\n\
        mcp_servers: {pay: {command: /bin/true, args: [--token, tok-of-a-server, --api-key=k-of-it]}}\n";
    desk.write_trusted(config);
    desk.ok(&["call", "list_notes"]);
    let log = std::fs::read(desk.project().join(".toolgate/log.db")).unwrap();
    let holds = |word: &str| log.windows(word.len()).any(|part| part == word.as_bytes());
    assert!(holds("packs: [notes]"));
    for secret in ["sk-very-secret-value", "sk-an-older-secret", "tok-of-a-server", "k-of-it"] {
        assert!(!holds(secret), "{secret}");
    }
}

/// What flags and variables fill in is in the log beside the file; a key is not.
#[test]
fn what_flags_and_variables_fill_in_is_recorded() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [notes]\n");
    desk.write("script.yaml", "replies: [{text: Done.}]\n");
    let mut command = desk.command();
    command.args(["run", "x", "--model", "script:script.yaml", "--no-auto-pilot"]);
    command.env("TOOLGATE_API_KEY", "sk-CANARY-0123456789");
    command.output().unwrap();
    let told = desk.ok(&["log", "diff-config"]);
    assert!(told.contains("settings.model: \"script:script.yaml\""), "{told}");
    let told = desk.ok(&["log", "diff-config", "--json"]);
    assert!(!told.contains("CANARY"), "{told}");
    let change: serde_json::Value = serde_json::from_str(told.lines().next().unwrap()).unwrap();
    assert_eq!(change["file"]["overrides"]["settings.model"], "\"script:script.yaml\"", "{told}");
}

/// A project with a server that sends, and much beside it that decides about calls.
const WIDE: &str = r#"packs: [notes, web]
web: {searxng_url: "http://127.0.0.1:9/"}
models:
  m: {provider: openai, model: small, base_url: "http://127.0.0.1:9/v1", api_key: word}
settings: {model: m}
mcp_servers:
  x: {url: "SANDBOX", effects: {echo: read}}
  bank: {command: /bin/true, args: [--sandbox], env: {STAGE: test}}
policies:
  - name: careful
    rule: {tools: ["mcp:x:write"], ask: "args.text != ''", message: A dry run.}
  - limit: {tools: ["mcp:x:write"], per: session, max: 30}
  - name: never
    rule: {tools: ["mcp:x:env"], deny: "true", message: Never.}
phases:
  main: {tools: {mcp: [x], groups: [notes], exclude: [delete_notes]}}
"#;

/// What stands in the file and what is written in its place.
const WIDE_EDITS: &[(&str, &str, &str)] = &[
    (
        "an ask rule is removed",
        "  - name: careful\n    rule: {tools: [\"mcp:x:write\"], ask: \"args.text != ''\", message: A dry run.}\n",
        "",
    ),
    ("an ask rule is weakened", "args.text != ''", "args.text == 'much'"),
    ("a message", "A dry run.", "The real thing."),
    ("a limit is raised", "max: 30", "max: 300"),
    ("a limit is removed", "  - limit: {tools: [\"mcp:x:write\"], per: session, max: 30}\n", ""),
    ("a deny rule is weakened", "deny: \"true\"", "deny: \"false\""),
    ("an effect", "echo: read", "echo: read, write: read"),
    ("the address of the server", "SANDBOX", "PRODUCTION"),
    ("a command", "/bin/true", "/bin/false"),
    ("an argument", "--sandbox", "--production"),
    ("a variable", "STAGE: test", "STAGE: production"),
    ("a new server", "policies:\n", "  other: {command: /bin/true}\npolicies:\n"),
    ("a phase excludes less", "exclude: [delete_notes]", "exclude: []"),
    ("the model", "model: small", "model: large"),
    ("the address of the model", "127.0.0.1:9/v1", "127.0.0.1:9/v2"),
    ("the address of the search", "127.0.0.1:9/\"", "127.0.0.1:19/\""),
    ("redirects", "web: {", "web: {follow_redirects: true, "),
    ("a call limit", "policies:\n", "limits: {call_ms_max: 5000}\npolicies:\n"),
    ("data that leaves", "policies:\n", "egress: {rule_of_two: \"off\"}\npolicies:\n"),
    ("isolation", "args: [--sandbox]", "sandbox: {mode: \"off\"}, args: [--sandbox]"),
];

/// A call that was shown under one file, and approved under another, reaches neither server.
#[test]
fn no_edit_lets_an_approval_pass_over() {
    let desk = Desk::new();
    let [sandbox, production] = ["x", "y"].map(|name| Web::new(&desk, name, Mode::Normal));
    let file = |from: &str, to: &str| {
        assert!(WIDE.contains(from), "{from}");
        let text = WIDE.replacen(from, to, 1);
        text.replace("SANDBOX", &sandbox.url).replace("PRODUCTION", &production.url)
    };
    for (at, (about, from, to)) in WIDE_EDITS.iter().enumerate() {
        desk.write_trusted(&file("packs", "packs"));
        let session = format!("s{at}");
        let call = ["call", "mcp:x:write", r#"{"text":"pay"}"#, "--session", &session, "--json"];
        let ran = desk.run(&call);
        assert!(ran.out.contains("APPROVAL_PENDING"), "{about}: {}{}", ran.out, ran.err);
        desk.write_trusted(&file(from, to));
        let mut command = desk.command();
        command.args(["approvals", "approve", &format!("{session}/c1")]);
        let seen = typing(command, &[APPROVE], || {});
        assert!(seen.screen.contains("Nothing ran."), "{about}: {}", seen.screen);
        let reached = (sandbox.calls(), production.calls());
        assert_eq!(reached, (vec![], vec![]), "{about}: {}", seen.screen);
    }
    desk.ok(&["verify"]);
}
