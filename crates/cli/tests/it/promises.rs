//! Promises seen from outside: by the files of a project, the ledger of the world and the log.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use toolgate_testkit::mcp::Mode;

use crate::servers::Web;
use crate::support::{Beside, Desk};
use crate::terminal::{APPROVE, typing};

/// Every file below a folder with its content; what the program keeps for itself is left out.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if name == ".toolgate" {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            let below = files(&entry.path()).into_iter();
            found.extend(below.map(|(path, content)| (format!("{name}/{path}"), content)));
        } else {
            found.insert(name, std::fs::read(entry.path()).unwrap());
        }
    }
    found
}

fn state(desk: &Desk) -> Value {
    let got = desk.ok(&["call", "state_get", r#"{"select":["/draft","/facts"]}"#, "--json"]);
    let got: Value = serde_json::from_str(&got).unwrap();
    let notes = desk.ok(&["call", "list_notes", "--json"]);
    let notes: Value = serde_json::from_str(&notes).unwrap();
    serde_json::json!([got["data"], notes["data"]])
}

/// P06: whatever makes a call fail, and wherever in its work, it leaves state and files as they were.
#[test]
fn a_failed_call_leaves_state_and_files_as_they_were() {
    let desk = Desk::new();
    desk.write(
        "toolgate.yaml",
        "packs: [notes, files, workspace]\nlimits: {args_bytes_max: 2000}\n",
    );
    desk.ok(&["call", "write_file", r#"{"path":"a.md","content":"one two one"}"#]);
    desk.ok(&["call", "state_patch", r#"{"ops":[{"op":"set","path":"/draft/a","value":[1]}]}"#]);
    desk.ok(&["call", "write_notes", r#"{"key":"n","data":1}"#]);
    let before = (files(&desk.project()), state(&desk));
    let long = format!(r#"{{"path":"b.md","content":"{}"}}"#, "x".repeat(2_000));
    for (tool, args, code) in [
        ("edit_file", r#"{"path":"a.md","old_text":"one","new_text":"x"}"#, "TOOL_FAILED"),
        ("edit_file", r#"{"path":"a.md","old_text":"three","new_text":"x"}"#, "TOOL_FAILED"),
        ("write_file", r#"{"path":"../b.md","content":"x"}"#, ""),
        ("write_file", r#"{"path":"toolgate.yaml","content":"packs: []"}"#, ""),
        ("write_file", long.as_str(), "ARGUMENTS_TOO_LARGE"),
        ("write_file", r#"{"path":"b.md"}"#, "ARGUMENTS_INVALID"),
        // The first of two changes could be made.
        (
            "state_patch",
            r#"{"ops":[{"op":"set","path":"/draft/b","value":1},{"op":"set","path":"/facts/b","value":1}]}"#,
            "",
        ),
        (
            "state_patch",
            r#"{"ops":[{"op":"set","path":"/draft/a","value":2},{"op":"append","path":"/draft/a","value":1}]}"#,
            "",
        ),
        ("state_patch", r#"{"etag":"0","ops":[{"op":"delete","path":"/draft/a"}]}"#, ""),
        ("delete_notes", r#"{"key":"nope"}"#, ""),
        ("nope", "{}", "TOOL_UNKNOWN"),
    ] {
        let ran = desk.run(&["call", tool, args, "--json"]);
        assert_eq!(ran.code, 1, "{tool} {args}: {}{}", ran.out, ran.err);
        let told: Value = serde_json::from_str(&ran.out).unwrap();
        let found = told["errors"][0]["code"].as_str().unwrap();
        assert!(found.contains(code), "{tool} {args}: {told}");
        assert_eq!((files(&desk.project()), state(&desk)), before, "{tool} {args}");
    }
    let staged = std::fs::read_dir(desk.project().join(".toolgate/staged")).unwrap();
    assert_eq!(staged.count(), 0, "no copy is left");
    desk.ok(&["verify"]);
}

/// P24: once a run has said that it stops, nothing begins any more, whenever it was told to.
#[test]
fn a_run_that_was_stopped_begins_nothing_more() {
    let reply = "{calls: [{tool: mcp__x__write, args: {text: Dear all}}]}";
    let script = format!("replies: [{}, {{text: Done.}}]", [reply; 30].join(", "));
    for ms in [0, 60, 120, 180, 240, 400] {
        let (desk, beside) = (Desk::new(), Beside::slowly(&script, 30));
        let web = Web::new(&desk, "x", Mode::Normal);
        let config = format!(
            "packs: []\nsettings: {{model: m}}\nlimits: {{repeat_calls_max: 100}}\nmcp_servers:\n  \
             x: {{url: '{}'}}\nphases:\n  main: {{tools: {{mcp: [x]}}}}\n{}",
            web.url,
            beside.config("openai")
        );
        desk.write_trusted(&config);
        let mut command = desk.command();
        command.env("FAKE_KEY", "sk-CANARY-01").args(["run", "x"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        sleep(Duration::from_millis(ms));
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        child.wait().unwrap();
        let done = web.calls();
        sleep(Duration::from_millis(300));
        assert_eq!(web.calls(), done, "{ms} ms: nothing begins after the end");
        // One that was stopped before it began has no session.
        let list = desk.run(&["sessions", "list"]).out;
        if let Some(id) = list.split_whitespace().find(|word| word.starts_with("run-")) {
            // What happened is known: as many calls began as reached the world.
            let log: Value = serde_json::from_str(&desk.ok(&["sessions", "export", id])).unwrap();
            let begun = |record: &&Value| record["event"]["kind"] == "call_started";
            let begun = log["records"].as_array().unwrap().iter().filter(begun).count();
            assert!(done.len() <= begun, "{ms} ms: {} of {begun}", done.len());
            desk.ok(&["verify"]);
        }
    }
}

/// P30 and P34: the log has who decided what and why, by which policy, and the hash of what was
/// shown; a person's word on something else than was shown decides nothing (`approvals.rs`).
#[test]
fn every_decision_is_in_the_log_with_who_what_and_why() {
    let desk = Desk::new();
    let rules = "packs: [notes, workspace]\npolicies:\n  - name: careful\n    rule: {tools: \
                 [write_notes], ask: 'true', message: A note is serious.}\n  - name: never\n    \
                 rule: {tools: [delete_notes], deny: 'true', message: Notes stay.}\n";
    desk.write("toolgate.yaml", rules);
    assert_eq!(desk.run(&["call", "delete_notes", r#"{"key":"a"}"#]).code, 1);
    let hidden = r#"{"key":"a","data":"x\u202ey"}"#;
    assert_eq!(desk.run(&["call", "write_notes", hidden]).code, 1);
    desk.ok(&["call", "facts_propose", r#"{"path":"/facts/a","value":1,"reason":"It says so."}"#]);
    let waits = desk.ok(&["approvals", "list", "--json"]);
    let waits: Value = serde_json::from_str(&waits).unwrap();
    let call = waits["call"].as_str().unwrap();
    let mut command = desk.command();
    command.args(["approvals", "approve", call]);
    let answers = [APPROVE, ("press Enter for none:", "")];
    let seen = typing(command, &answers, || {});
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert!(
        seen.screen.contains("<U+202E>") && !seen.screen.contains('\u{202e}'),
        "{}",
        seen.screen
    );
    let log: Value = serde_json::from_str(&desk.ok(&["sessions", "export", "call"])).unwrap();
    let records = log["records"].as_array().unwrap();
    assert!(records.iter().all(|record| record["actor"].as_str().is_some_and(|a| !a.is_empty())));
    let of = |kind: &str| records.iter().filter(|r| r["event"]["kind"] == kind).collect::<Vec<_>>();
    let refused = of("call_refused")[0];
    assert_eq!(refused["event"]["denial"]["policy"], "never", "{refused}");
    assert!(refused.to_string().contains("Notes stay."), "{refused}");
    let asked = of("call_asked")[0];
    assert!(
        asked.to_string().contains("A note is serious.") && asked.to_string().contains("careful")
    );
    let heard = of("heard")[0];
    assert_eq!(heard["actor"], "human:ada", "{heard}");
    let shown = heard["event"]["said"]["shown"].as_str().unwrap_or_default();
    assert_eq!(shown.len(), 64, "the hash of what was shown: {heard}");
    desk.ok(&["verify"]);
}
