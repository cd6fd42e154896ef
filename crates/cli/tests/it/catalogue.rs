//! `toolgate catalogue` as people use it: an agent proposes, the chief assesses, a person approves at the
//! terminal, and the next request carries it.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::Desk;
use crate::terminal::{Seen, answering};

const CONFIG: &str = "packs: [notes, catalogue]\nagents:\n  ada: {archetype: Editor}\n  \
                      boss: {archetype: Chief}\ncatalogue: {chief: boss, inject: full}\n";

/// How a word is asked for.
const ASKED: &str = "or leave to change nothing:";

fn submission() -> Value {
    json!({
        "name": "Tone check",
        "usageNotes": "When a scene should sound like the one before it.",
        "goals": "Say where the tone changes, with the sentence.",
        "guardrails": "Taste is no fault.",
        "prompt": "Read both scenes. Name each place where the tone turns and say why it matters.",
        "rationale": "Scenes of two evenings often sound like two writers.",
        "examples": ["Compare scene 3 with scene 2.", "Check the new ending."],
        "testCases": [
            {"name": "names a line", "input": "Compare.", "expect": "pass", "must": ["(?i)line"],
             "reply": "Line 3 turns."},
            {"name": "no fences", "input": "Compare.", "expect": "fail", "checks": ["no_fences"],
             "reply": "```\nLine 3\n```"}
        ]
    })
}

const CHIEF: &str = r#"replies:
  - text: >-
      {"sense":{"answer":"yes","why":"It helps."},"overlap":{"answer":"no","core_ids":[],"why":"None."},
      "violations":{"answer":"no","rules":[],"why":"None."},"changes":[],"recommendation":"approve"}
"#;

fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("toolgate.yaml", CONFIG);
    desk.write("chief.yaml", CHIEF);
    let call = json!({"tool": "prompt_tool_propose", "args": submission()});
    let script = json!({"replies": [{"calls": [call]}, {"text": "Proposed."}]});
    desk.write("agent.yaml", &script.to_string());
    desk.write("idle.yaml", "replies: [{text: Done.}]\n");
    desk.write("tone.json", &submission().to_string());
    desk
}

/// A person at a terminal, who types one word when asked.
fn person(desk: &Desk, args: &[&str], word: &str) -> Seen {
    let mut command = desk.command();
    command.arg("catalogue").args(args);
    answering(command, ASKED, word)
}

/// The same, for what asks for no word.
fn does(desk: &Desk, args: &[&str]) -> Seen {
    let seen = person(desk, args, "leave");
    assert_eq!(seen.code, 0, "{args:?}\n{}", seen.screen);
    seen
}

fn listed(desk: &Desk, what: &str) -> Vec<Value> {
    let lines = desk.ok(&["catalogue", "list", "--json"]);
    let all = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|row| row["what"] == what).collect()
}

/// The system prompt of a run, with the id of its session.
fn prompted(desk: &Desk, args: &[&str]) -> String {
    let mut all = vec!["run", "Work.", "--new", "--model", "script:idle.yaml", "--json"];
    all.extend(args);
    let out = desk.ok(&all);
    let records = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut opened = records.filter(|record| record["event"]["kind"] == "iteration_opened");
    opened.next().unwrap()["event"]["system"].as_str().unwrap().to_owned()
}

fn exported(desk: &Desk) -> PathBuf {
    desk.project().join(".toolgate/prompts/prompts.json")
}

#[test]
fn a_proposal_of_an_agent_is_assessed_approved_and_carried() {
    let desk = desk();
    let args = ["run", "Improve.", "--agent", "ada", "--model", "script:agent.yaml"];
    desk.ok(&args);
    let proposal = &listed(&desk, "proposal")[0]["proposal"];
    assert_eq!(
        (&proposal["state"], &proposal["author"]["name"]),
        (&json!("pending"), &json!("ada"))
    );
    assert!(!prompted(&desk, &[]).contains("tone_check"));
    // Nobody is at a terminal: nothing is decided, and nothing is assessed.
    for act in [
        &["approve", "1"][..],
        &["needs-changes", "1", "--note", "x"],
        &["reject", "1", "--note", "x"],
        &["assess", "1"],
        &["propose", "tone.json"],
        &["withdraw", "1"],
        &["rollback", "tone_check", "1"],
        &["accept", "tone_check"],
    ] {
        let ran = desk.run(&[&["catalogue"], act].concat());
        assert_eq!(ran.code, 3, "{act:?}: {}", ran.err);
    }
    let seen = does(&desk, &["assess", "1", "--model", "script:chief.yaml"]);
    assert!(seen.screen.contains("The chief: approve (no mechanical finding)."), "{}", seen.screen);
    assert!(!prompted(&desk, &[]).contains("tone_check"));
    let left = person(&desk, &["approve", "1"], "leave");
    assert_eq!(left.code, 1, "{}", left.screen);
    let seen = person(&desk, &["approve", "1"], "approve");
    assert_eq!(seen.code, 0, "{}", seen.screen);
    for shown in ["+ Read both scenes.", "makes sense: yes. It helps.", "2 passed, 0 failed"] {
        assert!(seen.screen.contains(shown), "{shown:?} is missing:\n{}", seen.screen);
    }
    let system = prompted(&desk, &[]);
    assert!(system.contains("- Tone check (id: tone_check) [user]\n"), "{system}");
    assert!(!prompted(&desk, &["--skip-tool-catalog"]).contains("Catalogue of prompt tools"));
    assert!(!prompted(&desk, &["--skip-tools"]).contains("Catalogue of prompt tools"));
    let tool = listed(&desk, "tool").into_iter().find(|row| row["tool"]["id"] == "tone_check");
    assert_eq!(tool.unwrap()["tool"]["source"], "project");
    assert!(std::fs::read_to_string(exported(&desk)).unwrap().contains("tone_check"));
    let history = desk.project().join(".toolgate/prompts/history/tone_check");
    assert_eq!(std::fs::read_dir(history).unwrap().count(), 1);
    let issues = desk.ok(&["call", "search_issues", r#"{"status": "all"}"#, "--json"]);
    assert!(issues.contains("[Tool Decision] Tone check"), "{issues}");
    desk.ok(&["verify"]);
}

#[test]
fn versions_are_told_apart_and_rolled_back() {
    let desk = desk();
    does(&desk, &["propose", "tone.json"]);
    does(&desk, &["assess"]);
    assert_eq!(person(&desk, &["approve", "1"], "approve").code, 0);
    let mut change = submission();
    change["type"] = json!("modify");
    change["id"] = json!("tone_check");
    change["goals"] = json!("Say where the tone turns.");
    desk.write("change.json", &change.to_string());
    does(&desk, &["propose", "change.json"]);
    does(&desk, &["assess", "2"]);
    assert_eq!(person(&desk, &["approve", "p2"], "approve").code, 0);
    let diff = desk.ok(&["catalog", "diff", "tone_check"]);
    assert!(diff.contains("- Say where the tone changes, with the sentence."), "{diff}");
    assert!(diff.contains("+ Say where the tone turns.") && !diff.contains("prompt:"), "{diff}");
    let seen = person(&desk, &["rollback", "tone_check", "1"], "rollback");
    assert_eq!(seen.code, 0, "{}", seen.screen);
    let history = desk.ok(&["catalogue", "history", "tone_check", "--json"]);
    let last: Value = serde_json::from_str(history.lines().last().unwrap()).unwrap();
    assert_eq!((&last["version"], &last["rolled_back_to"]), (&json!(3), &json!(1)));
    let shown = desk.ok(&["catalogue", "show", "tone_check"]);
    assert!(shown.contains("Say where the tone changes, with the sentence."), "{shown}");
    desk.ok(&["verify"]);
}

/// N12: what lies in the project's folder is for people to read; a hand edit is told and has no effect.
#[test]
fn an_edited_export_is_told_and_has_no_effect() {
    let desk = desk();
    does(&desk, &["propose", "tone.json"]);
    does(&desk, &["assess"]);
    assert_eq!(person(&desk, &["approve", "1"], "approve").code, 0);
    let before = std::fs::read_to_string(exported(&desk)).unwrap();
    std::fs::write(exported(&desk), before.replace("Read both scenes.", "Say EDITED.")).unwrap();
    let finding = &listed(&desk, "finding")[0]["finding"];
    assert_eq!(finding["code"], "EXPORT_EDITED");
    assert!(!prompted(&desk, &[]).contains("EDITED"));
    desk.ok(&["catalogue", "export"]);
    assert_eq!(std::fs::read_to_string(exported(&desk)).unwrap(), before);
    // Killed between the append and the export: the next start writes what is missing.
    std::fs::remove_dir_all(desk.project().join(".toolgate/prompts")).unwrap();
    prompted(&desk, &[]);
    assert_eq!(std::fs::read_to_string(exported(&desk)).unwrap(), before);
}

/// N10, N11, C23: the user's own file.
#[test]
fn entries_of_the_own_file_are_held_until_accepted() {
    let desk = desk();
    let folder = desk.home().join(".config/toolgate/prompts");
    std::fs::create_dir_all(&folder).unwrap();
    let write = |text: &str| std::fs::write(folder.join("tools.json"), text).unwrap();
    let entry =
        |id: &str, prompt: &str| json!({"id": id, "name": format!("My {id}"), "prompt": prompt});
    let file = |entries: Value| json!({"version": 1, "prompts": entries}).to_string();
    write("{\"version\": 1, \"prompts\": [{]}");
    let finding = &listed(&desk, "finding")[0]["finding"];
    assert_eq!(finding["code"], "PROMPT_FILE_BROKEN");
    assert!(finding["place"].as_str().unwrap().contains("line 1, column"), "{finding}");
    write(&file(json!([entry("own", "Say so."), entry("canon_checker", "Mine.")])));
    assert_eq!(listed(&desk, "finding")[0]["finding"]["code"], "CORE_ID_OVERRIDDEN");
    assert!(!prompted(&desk, &[]).contains("(id: own)"));
    let seen = person(&desk, &["accept", "own"], "accept");
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert!(prompted(&desk, &[]).contains("- My own (id: own) [user]"));
    write(&file(json!([entry("own", "Say something else.")])));
    let shown = desk.ok(&["catalogue", "list"]);
    assert!(shown.contains("held until accepted"), "{shown}");
    assert!(!prompted(&desk, &[]).contains("(id: own)"));
}

/// C22, C24: the core is locked for everyone, and an edit is a copy.
#[test]
fn core_tools_are_locked_and_copied() {
    let desk = desk();
    for kind in ["modify", "retire"] {
        let mut args = submission();
        args["type"] = json!(kind);
        for id in ["search_issues", "canon_checker", "beat_architect"] {
            args["id"] = json!(id);
            let ran = desk.run(&["call", "prompt_tool_propose", &args.to_string(), "--json"]);
            let told: Value = serde_json::from_str(&ran.out).unwrap();
            assert_eq!(
                (ran.code, &told["errors"][0]["code"]),
                (1, &json!("CORE_LOCKED")),
                "{told}"
            );
        }
        desk.write("locked.json", &args.to_string());
        let seen = person(&desk, &["propose", "locked.json"], "leave");
        assert!(seen.code == 1 && seen.screen.contains("CORE_LOCKED"), "{}", seen.screen);
    }
    let changes = json!({"goals": "Ours.", "rationale": "Our canon has a format of its own.",
        "examples": submission()["examples"], "testCases": submission()["testCases"]});
    desk.write("changes.json", &changes.to_string());
    does(&desk, &["propose", "--copy-of", "canon_checker", "changes.json"]);
    let proposal = &listed(&desk, "proposal")[0]["proposal"];
    assert_eq!(proposal["tool"]["id"], "canon_checker_custom");
    let listed = desk.ok(&["catalogue", "list"]);
    assert_eq!(listed.matches("Locked (core)").count(), 16, "{listed}");
}

#[test]
fn the_harness_runs_against_a_script() {
    let desk = desk();
    does(&desk, &["propose", "tone.json"]);
    let ran = desk.run(&["catalogue", "test", "1", "--json"]);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &told["recorded"]), (0, &json!(false)), "{told}");
    desk.write("replies.yaml", "replies: [{text: No place at all.}, {text: No fence.}]\n");
    let ran = desk.run(&["catalogue", "test", "1", "--script", "replies.yaml", "--json"]);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    let outcomes: Vec<&Value> =
        told["report"]["cases"].as_array().unwrap().iter().map(|case| &case["outcome"]).collect();
    assert_eq!((ran.code, outcomes), (1, vec![&json!("failed"), &json!("failed")]), "{told}");
    let seen = person(&desk, &["test", "1", "--script", "replies.yaml"], "leave");
    assert!(seen.code == 1 && seen.screen.contains("2 failed"), "{}", seen.screen);
    does(&desk, &["assess", "1", "--model", "script:chief.yaml"]);
    let proposal = &listed(&desk, "proposal")[0]["proposal"];
    assert_eq!(proposal["assessment"]["recommendation"], "modify", "a failed case caps the chief");
}
