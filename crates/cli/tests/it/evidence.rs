//! Evidence from the command line: answers that are not accepted are not shown, and receipts are looked
//! up in the log.

use serde_json::Value;

use crate::support::Desk;

const CONFIG: &str = "
packs: [notes, files]
phases:
  A: {tools: {include: [list_notes, read_file]}, evidence: required}
";

fn desk(replies: &str) -> Desk {
    let desk = Desk::new();
    desk.write("toolgate.yaml", CONFIG);
    desk.write("s.yaml", &format!("replies:\n{replies}"));
    desk.write("scene.md", "Mira ran to the harbour.\n");
    desk
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

const GOOD: &str = "  - text: \"She ran.\\nEvidence: scene.md L1 \\\"Mira ran to\\\"\"\n";
const INVENTED: &str = "  - text: \"She flew.\\nEvidence: scene.md L1 \\\"Mira flew to\\\"\"\n";

/// What was not accepted is told to nobody; its words are in the log.
#[test]
fn words_that_are_not_accepted_are_in_the_log_only() {
    let desk = desk(&format!("{INVENTED}{GOOD}"));
    let shown = desk.ok(&["chat", "--model", "script:s.yaml", "Did she run?"]);
    assert!(shown.contains("She ran.") && !shown.contains("She flew."), "{shown}");
    assert!(shown.contains("quote-not-found"), "{shown}");
    let desk = self::desk(&format!("{INVENTED}{INVENTED}"));
    let refused = desk.run(&["chat", "--model", "script:s.yaml", "--json", "Did she run?"]);
    let failed: Vec<Value> = refused.out.lines().map(json_of).collect();
    let failed = failed.iter().filter(|it| it["event"]["kind"] == "model_failed");
    let told: Vec<&Value> = failed.map(|record| &record["event"]).collect();
    assert_eq!(told.len(), 2, "{}", refused.out);
    for event in told {
        assert_eq!(
            (&event["fault"], &event["evidence"]),
            (&"evidence_rejected".into(), &"quote-not-found".into())
        );
        assert!(event["partial"].as_str().unwrap().contains("She flew."), "{event}");
    }
    assert!(!refused.out.contains("model_replied"));
}

/// Neither the person's words nor the configuration's texts lift it; a request can only ask for it.
#[test]
fn a_request_can_ask_for_evidence_and_nothing_lifts_it() {
    let desk = desk("  - text: She ran.\n  - text: She ran.\n");
    let run = desk.run(&["run", "--model", "script:s.yaml", "--json", "Evidence is not needed."]);
    assert_ne!(run.code, 0);
    let ended = run.out.lines().map(json_of).find(|it| it["event"]["kind"] == "ended");
    let ended = ended.unwrap_or_else(|| panic!("{}", run.out));
    assert_eq!(ended["event"]["ending"], "rejected");
    assert!(ended["event"]["note"].as_str().unwrap().starts_with("EVIDENCE_REJECTED: missing"));
    let off = desk.run(&["run", "--new", "--model", "script:s.yaml", "--evidence", "off", "x"]);
    assert_ne!(off.code, 0);
    desk.write("toolgate.yaml", "packs: [notes, files]\n");
    let asked =
        ["chat", "--model", "script:s.yaml", "--evidence", "required", "--json", "Did she?"];
    assert!(desk.run(&asked).out.contains("\"evidence\":\"missing\""));
}

/// Case C16 among others: a receipt is shown with its call, its hash and its place.
#[test]
fn a_receipt_is_looked_up_in_the_log() {
    let desk = desk("");
    let made = json_of(&desk.ok(&["call", "list_notes", "--json"]));
    let receipt = made["receipt"].as_str().unwrap();
    let shown = json_of(&desk.ok(&["receipts", "show", receipt, "--json"]));
    assert_eq!((&shown["tool"], &shown["session"]), (&"list_notes".into(), &"call".into()));
    assert_eq!((&shown["hash_recomputes"], &shown["head_valid"]), (&true.into(), &true.into()));
    let told = desk.ok(&["receipts", "show", receipt, "--session", "call"]);
    assert!(told.contains("the hash recomputes") && told.contains("list_notes"), "{told}");
    let unknown = desk.run(&["receipts", "show", "rcpt_000000000000000000000000"]);
    assert!(
        unknown.code != 0 && unknown.err.contains("no call of this project"),
        "{}",
        unknown.err
    );
    let bad = desk.run(&["receipts", "show", "rcpt_12"]);
    assert!(bad.code != 0 && bad.err.contains("24 characters"), "{}", bad.err);
}

/// A model without tool calling, from the command line: the call runs through the same gate.
#[test]
fn a_model_without_tool_calling_calls_through_json() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [notes]\ntool_calling: {tool_protocol: json}\n");
    desk.write(
        "s.yaml",
        "replies:\n  - text: '{\"tool\":\"write_notes\",\"args\":{\"key\":\"a\",\"data\":1},\"nonce\":\"{nonce}\"}'\n  \
         - text: '{\"action\":\"final\",\"nonce\":\"{nonce}\"}'\n  - text: Written.\n  \
         - text: 'write_notes(a)'\n  - text: 'write_notes(b)'\n",
    );
    let chat = ["chat", "--model", "script:s.yaml"];
    let shown = desk.ok(&[&chat[..], &["Write it."]].concat());
    assert!(shown.contains("Written.") && !shown.contains("nonce"), "{shown}");
    assert_eq!(json_of(&desk.ok(&["call", "read_notes", r#"{"key":"a"}"#, "--json"]))["ok"], true);
    let told = desk.run(&[&chat[..], &["--last", "Again."]].concat());
    let said = format!("{}{}", told.out, told.err);
    assert!(said.contains("STOP_HOOK: tool_call_rejected"), "{said}");
    assert!(said.contains("TOOL_CALL_INVALID_FORMAT"), "{said}");
}

#[test]
fn directives_and_the_json_protocol_are_not_used_together() {
    let desk = Desk::new();
    let directives = "directives: {types: {mood: {schema: {type: object}}}}\n";
    desk.write("toolgate.yaml", &format!("tool_calling: {{tool_protocol: json}}\n{directives}"));
    let checked = desk.run(&["check"]);
    let said = format!("{}{}", checked.out, checked.err);
    assert!(
        checked.code != 0 && said.contains("cannot be used with `tool_protocol: json`"),
        "{said}"
    );
}
