//! `run`, `sessions` and `verify` on the shipped demo.

use std::path::Path;

use crate::support::Desk;

const PREMISE: &str = "a lighthouse keeper who collects storms";

/// The main job, as a newcomer sees it: six phases, every kind of refusal, a manuscript.
#[test]
fn the_shipped_story_shows_the_gate_at_work_and_leaves_a_manuscript() {
    let desk = Desk::new();
    let ran = desk.run(&["run", PREMISE]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let phases = [
        "CHARACTER_CREATION",
        "WORLD_BUILDING",
        "PLOT_OUTLINING",
        "SCENE_WRITING",
        "REVISION",
        "READY_FOR_HUMAN",
    ];
    for phase in phases {
        assert!(ran.out.contains(&format!("━━ {phase} ━")), "{phase}:\n{}", ran.out);
    }
    assert!(ran.out.contains("✓ Completed"), "{}", ran.out);
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);
    assert!(!ran.out.contains('\u{1b}'), "no colours where there is no terminal");
    assert!(ran.err.contains("No model is configured"), "{}", ran.err);
    let manuscript = std::fs::read_to_string(desk.project().join("manuscript.md")).unwrap();
    assert!(manuscript.split_whitespace().count() >= 800, "{manuscript}");
    assert!(manuscript.contains(PREMISE), "{manuscript}");
    assert!(desk.ok(&["verify"]).contains("are as written"));
    let list = desk.ok(&["sessions", "list"]);
    assert!(list.contains("completed") && list.contains("a lighthouse keeper"), "{list}");
    let id = list.split_whitespace().next().unwrap();
    let export: serde_json::Value =
        serde_json::from_str(&desk.ok(&["sessions", "export", id])).unwrap();
    let log = export["records"].to_string();
    for code in [
        "TOOL_NOT_GRANTED",
        "POLICY_DENIED",
        "ARGUMENTS_INVALID",
        "TRANSITION_REFUSED",
        "TOOL_FAILED",
    ] {
        assert!(log.contains(&format!("\"code\":\"{code}\"")), "{code}");
    }
    let shown = desk.ok(&["sessions", "show", id, "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let rows = shown["iterations"].as_array().unwrap();
    assert_eq!(rows.len(), 6, "one row per iteration");
    for (row, phase) in rows.iter().zip(phases) {
        assert_eq!(row["start_phase"], phase);
    }
    assert!(desk.ok(&["sessions", "show", id]).contains("✓ create_section"));
    assert!(desk.ok(&["sessions", "replay", id]).contains("records replayed"));
}

#[test]
fn a_run_that_is_over_says_so_and_another_premise_needs_new() {
    let desk = Desk::new();
    desk.ok(&["run", PREMISE, "--quiet"]);
    for again in [&["run"] as &[&str], &["run", PREMISE]] {
        let ran = desk.run(again);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.out.contains("is over (completed)"), "{}", ran.out);
    }
    // Only events are printed as JSON, and there is none.
    let ran = desk.run(&["run", "--json"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.err);
    assert!(ran.err.lines().count() == 1 && ran.err.contains("is over (completed)"), "{}", ran.err);
    // Words that nobody would hear are not swallowed.
    let list = desk.ok(&["sessions", "list"]);
    let id = list.split_whitespace().next().unwrap();
    for args in [
        &["run", "--feedback", "More."] as &[&str],
        &["sessions", "resume", id, "--feedback", "More."],
    ] {
        let ran = desk.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}: {}", ran.err);
        assert!(ran.err.contains("is over, so the feedback"), "{args:?}: {}", ran.err);
    }
    let ran = desk.run(&["run", "--feedback", " "]);
    assert!(ran.code == 2 && ran.err.contains("the feedback is blank"), "{}", ran.err);
    let ran = desk.run(&["run", "a picnic for eight"]);
    assert!(ran.code == 2 && ran.err.contains("--new"), "{}", ran.err);
    assert_eq!(desk.run(&["run", " "]).code, 2);
    let fresh = Desk::new();
    let ran = fresh.run(&["run"]);
    assert!(ran.code == 2 && ran.err.contains("say what you want written"), "{}", ran.err);
}

/// What a person writes into the manuscript is taken in as a person's change, and stays.
#[test]
fn a_person_may_edit_the_manuscript_at_any_time() {
    let desk = Desk::new();
    desk.ok(&["run", PREMISE, "--quiet"]);
    let path = desk.project().join("manuscript.md");
    let edited = std::fs::read_to_string(&path).unwrap() + "\nA line by hand.\n";
    std::fs::write(&path, &edited).unwrap();
    let tail = r#"{"word_count": 4}"#;
    let told = desk.ok(&["call", "read_manuscript_tail", tail, "--phase", "SCENE_WRITING"]);
    assert!(told.contains("A line by hand."), "{told}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), edited, "the file is left as it is");
    desk.ok(&["call", "append_to_manuscript", r#"{"content": "And one more."}"#]);
    let after = std::fs::read_to_string(&path).unwrap();
    assert!(after.contains("A line by hand.\n\nAnd one more."), "{after}");
    // What cannot be read as text is never overwritten.
    std::fs::write(&path, [0xff, 0xfe, 0x00]).unwrap();
    let ran = desk.run(&["call", "append_to_manuscript", r#"{"content": "x"}"#, "--json"]);
    assert!(ran.code == 1 && ran.out.contains("COMMIT_CONFLICT"), "{}{}", ran.out, ran.err);
    assert_eq!(std::fs::read(&path).unwrap(), [0xff, 0xfe, 0x00]);
    desk.ok(&["verify"]);
}

#[test]
fn explain_tells_every_stage_and_leaves_nothing_behind() {
    let desk = Desk::new();
    let section = r#"{"name": "x", "content": "y"}"#;
    let told = desk.run(&["explain", "create_section", section, "--phase", "REVISION"]);
    assert!(told.code == 1 && told.out.contains("⊘ resolve"), "{}", told.out);
    assert!(told.out.contains("It would be refused."), "{}", told.out);
    let told = desk.ok(&["explain", "create_section", section, "--phase", "SCENE_WRITING"]);
    for words in ["✓ resolve", "writes section:x (new)", "policy short-sections", "It would run."]
    {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert_eq!(std::fs::read_dir(desk.project()).unwrap().count(), 0, "nothing was made");
}

/// A call is explained as if a model made it, unless it is said otherwise.
#[test]
fn explain_judges_as_for_a_model() {
    let desk = Desk::new();
    desk.write(
        "toolgate.yaml",
        "limits: {repeat_calls_max: 1}\npolicies:\n  - name: no-models\n    rule: {tools: [read_notes], \
         deny: 'actor.startsWith(\"model:\")', message: Not for models.}\n",
    );
    desk.write("s.yaml", "replies:\n  - calls: [{tool: list_notes}]\n");
    assert_eq!(desk.run(&["run", "x", "--model", "script:s.yaml"]).code, 1, "the script ends");
    let list = desk.ok(&["sessions", "list"]);
    let id = list.split_whitespace().next().unwrap();
    let notes = r#"{"key": "a"}"#;
    let repeat = ["explain", "list_notes", "{}", "--session", id];
    let rule = ["explain", "read_notes", notes, "--session", id];
    for (args, stage, code) in [
        (&repeat[..], "⊘ repeat", "CALL_REPEATED"),
        (&rule[..], "⊘ policy no-models", "POLICY_DENIED"),
    ] {
        let told = desk.run(args);
        assert!(told.code == 1 && told.out.contains(stage), "{}{}", told.out, told.err);
        let told = desk.run(&[args, &["--json"]].concat());
        assert!(told.out.contains(&format!("\"code\":\"{code}\"")), "{}", told.out);
        let told = desk.ok(&[args, &["--as", "client"]].concat());
        assert!(told.contains("It would run."), "{told}");
    }
}

#[test]
fn events_come_as_json_lines_and_nothing_else() {
    let desk = Desk::new();
    let ran = desk.run(&["run", "x", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mut seq = 0;
    for line in ran.out.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        seq += 1;
        assert_eq!(record["seq"], seq, "{line}");
    }
    assert!(seq > 100);
}

#[test]
fn a_run_whose_model_fails_halts_says_why_and_goes_on_with_another() {
    let desk = Desk::new();
    desk.write("cut.yaml", "replies:\n  - calls: [{tool: list_notes}]\n");
    let ran = desk.run(&["run", "x", "--model", "script:cut.yaml"]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("the script ends after 1 replies"), "{}", ran.out);
    // The session is not over: a model that works goes on with it.
    desk.write("more.yaml", "replies:\n  - text: ''\n  - text: ''\n  - calls: [{tool: write_notes, args: {key: a, data: 1}}]\n");
    let ran = desk.run(&["run", "--model", "script:more.yaml"]);
    assert!(ran.code == 1 && ran.out.contains("✓ write_notes a"), "{}{}", ran.out, ran.err);
    assert_eq!(desk.ok(&["sessions", "list"]).lines().count(), 1);
    assert_eq!(desk.run(&["run", "y", "--new"]).code, 0);
}

#[test]
fn without_auto_pilot_and_without_a_person_the_run_waits() {
    let desk = Desk::new();
    let phases = "phases: {A: {transitions: [B]}, B: {}}\nsettings: {auto_pilot: false}\n";
    desk.write("toolgate.yaml", phases);
    let change = "replies:\n  - calls: [{tool: change_phase, args: {new_phase: B, reason: x}}]\n";
    desk.write("s.yaml", change);
    let run = ["run", "x", "--model", "script:s.yaml"];
    for _ in 0..2 {
        let ran = desk.run(&run);
        assert!(ran.code == 3 && ran.err.contains("say whether to go on"), "{}", ran.err);
    }
    // Words from a pipe are heard, and are no person's leave.
    assert_eq!(desk.run(&["run", "--feedback", "Go on.", "--model", "script:s.yaml"]).code, 3);
}

#[test]
fn what_is_wrong_is_said_in_words_with_its_own_exit_code() {
    let desk = Desk::new();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["verify"], 2, "there is no log"),
        (&["sessions", "list"], 2, "there is no log"),
        (&["run", "x", "--model", "gpt"], 2, "provider:model"),
        (&["run", "x", "--model", "anthropic:claude"], 2, "ANTHROPIC_API_KEY"),
        (&["run", "x", "--image", "none.png"], 2, "none.png cannot be read"),
        (&["run", "x", "--model", "script:none.yaml"], 2, "none.yaml cannot be read"),
        (&["call", "list_notes", "--phase", "NOWHERE"], 2, "the phases are CHARACTER_CREATION"),
        (&["call", "list_notes", "--session", "Bad Name"], 2, "is not legal"),
        (&["explain", "list_notes", "--phase", "NOWHERE"], 2, "the phases are CHARACTER_CREATION"),
        (&["--project", "missing", "verify"], 2, "is not a folder"),
        (&["frobnicate"], 2, "unrecognized"),
    ];
    for (args, code, words) in cases {
        let ran = desk.run(args);
        assert_eq!(ran.code, *code, "{args:?}: {}", ran.err);
        assert!(ran.err.contains(words), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_bad_configuration_refuses_to_start_and_writes_nothing() {
    for (yaml, words) in [
        ("phases: {A: {tools: {groups: [notez]}}}", "did you mean `notes`?"),
        ("phases: {A: {transitions: [B]}}", "there is no phase `B`"),
        ("phasez: {}", "phasez"),
        ("limits: {call_ms_max: 0}", "call_ms_max is 0"),
        ("name: a\nname: b", "given twice"),
        (
            "packs: [planning]\npolicies: [{rule: {tools: [planning_read_plan], deny: \"args.\", message: x}}]",
            "deny",
        ),
        (
            "packs: [planning]\npolicies: [{rule: {tools: [planning_read_plan], deny: \"true\", message: x, not_match: [{args: {}}]}}]",
            "example 1",
        ),
        (
            "packs: [planning]\npolicies: [{rule: {tools: [planning_setup_plan], deny: \"args.objectiv == 'x'\", message: m, match: [{args: {objectiv: x}}]}}]",
            "did you mean objective",
        ),
    ] {
        let desk = Desk::new();
        desk.write("toolgate.yaml", yaml);
        let ran = desk.run(&["run", "x"]);
        assert_eq!(ran.code, 2, "{yaml}: {}", ran.out);
        // Lines are wrapped where the terminal ends.
        let told = ran.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains(words), "{yaml}: {}", ran.err);
        assert!(!desk.project().join(".toolgate").exists(), "{yaml}");
    }
}

#[test]
fn a_changed_log_is_found_and_another_key_adds_nothing() {
    let desk = Desk::new();
    desk.ok(&["run", "x"]);
    let log = desk.project().join(".toolgate/log.db");
    let connection = rusqlite::Connection::open(&log).unwrap();
    let changed = "UPDATE records SET bytes = CAST(replace(CAST(bytes AS TEXT), 'wrote notes', 'wrote NOTES') AS BLOB)";
    assert!(connection.execute(changed, []).unwrap() > 0);
    drop(connection);
    let ran = desk.run(&["verify"]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.out.contains("is not the one that was written"), "{}", ran.out);
    // A damaged session is named, and not driven on.
    let listed = desk.run(&["sessions", "list"]);
    assert!(listed.code == 1 && listed.err.contains("is damaged at record"), "{}", listed.err);
    assert_eq!(desk.run(&["run"]).code, 74);

    let desk = Desk::new();
    desk.ok(&["run", "x"]);
    let key = desk.home().join(".config/toolgate/host.key");
    std::fs::write(&key, [1; 32]).unwrap();
    let ran = desk.run(&["call", "list_notes"]);
    assert!(ran.code == 74 && ran.err.contains("signed by the host key"), "{}", ran.err);
    // A lost key is not made anew: the log would count as another's. Reading needs none.
    for lost in [false, true] {
        if lost {
            std::fs::remove_file(&key).unwrap();
            for args in [&["run", "y"] as &[&str], &["call", "list_notes"]] {
                let ran = desk.run(args);
                assert!(ran.code == 2 && ran.err.contains("is missing"), "{args:?}: {}", ran.err);
                assert!(!key.exists(), "{args:?}");
            }
        }
        let verified = desk.ok(&["verify"]);
        assert!(verified.contains("(not the one here)"), "{verified}");
        desk.ok(&["sessions", "list"]);
        desk.ok(&["approvals", "list"]);
    }
}

/// A page of a premise is woven in as far as it fits, and costs no section.
#[test]
fn a_long_premise_loses_nothing_of_the_story() {
    for premise in ["a word ".repeat(2_500), "x".repeat(20_000)] {
        let desk = Desk::new();
        let out = desk.ok(&["run", premise.trim()]);
        assert_eq!(out.matches('⊘').count(), 3, "{out}");
        assert!(out.contains("✓ Completed."), "{out}");
        let manuscript = std::fs::read_to_string(desk.project().join("manuscript.md")).unwrap();
        assert_eq!(manuscript.matches("<!-- SECTION: ").count(), 4);
        assert!(manuscript.contains('…'), "it is said that there is more");
    }
}

/// The shipped script is for the shipped story: it goes on with nothing else, and says that it
/// knows nothing of what is there.
#[test]
fn the_shipped_script_goes_on_with_its_own_story_only() {
    let desk = Desk::new();
    desk.write("own.yaml", "replies: [{calls: [{tool: write_notes, args: {key: a, data: 1}}]}]");
    let own = desk.run(&["run", "x", "--model", "script:own.yaml"]);
    assert!(own.code == 1 && own.err.contains("--model script:own.yaml"), "{}", own.err);
    assert!(!own.err.contains("doctor"), "there is nothing wrong with a model: {}", own.err);
    let ran = desk.run(&["run"]);
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(ran.err.contains("was begun with script:own.yaml"), "{}", ran.err);
    let ran = desk.run(&["run", "y", "--new"]);
    assert!(ran.err.contains("knows nothing of what is in this folder"), "{}", ran.err);
    assert!(!Desk::new().run(&["run", "y"]).err.contains("knows nothing"));
}

/// A run goes on with the newest session and reads no other, so damage of an older one is not in its
/// way.
#[test]
fn only_the_newest_run_is_read() {
    let desk = Desk::new();
    desk.ok(&["run", "x"]);
    // Ids tell the second they were made in.
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    desk.ok(&["run", "y", "--new"]);
    let log = desk.project().join(".toolgate/log.db");
    let connection = rusqlite::Connection::open(&log).unwrap();
    let first = "UPDATE records SET bytes = x'00' WHERE seq > 1 AND stream = \
        (SELECT id FROM streams WHERE stream LIKE 'session/run-%' ORDER BY stream LIMIT 1)";
    assert!(connection.execute(first, []).unwrap() > 0);
    drop(connection);
    let ran = desk.run(&["run"]);
    assert!(ran.code == 0 && ran.out.contains("is over"), "{} {}{}", ran.code, ran.out, ran.err);
    assert_eq!(desk.run(&["verify"]).code, 1);
}

/// Without the key one can make a chain that fits. Adding to it would vouch for it.
#[test]
fn nothing_is_added_to_a_log_that_somebody_changed() {
    let cut = "DELETE FROM records WHERE stream = S AND seq > 3; \
        UPDATE streams SET (seq, link) = (SELECT seq, link FROM records WHERE stream = S AND seq = 3) WHERE id = S";
    let unsigned = "DELETE FROM meta WHERE name = 'note'";
    let lost = "DELETE FROM records WHERE stream = S; DELETE FROM streams WHERE id = S";
    let row = "DELETE FROM streams WHERE id = S";
    let epoch = "UPDATE streams SET epoch = 0 WHERE id = S";
    let project = cut.replace("= S", "= P").replace("3", "2");
    for (what, sql) in [
        ("cut", cut),
        ("unsigned", unsigned),
        ("lost", lost),
        ("row lost", row),
        ("epoch", epoch),
        ("project cut", project.as_str()),
    ] {
        let desk = Desk::planner();
        let plan = r#"{"objective":"a tale"}"#;
        desk.ok(&["call", "planning_setup_plan", plan, "--session", "one"]);
        desk.ok(&["call", "planning_read_plan", "{}", "--session", "one"]);
        let log = desk.project().join(".toolgate/log.db");
        let connection = rusqlite::Connection::open(&log).unwrap();
        let id = |stream: &str| -> i64 {
            let sql = "SELECT id FROM streams WHERE stream = ?1";
            connection.query_row(sql, [stream], |row| row.get(0)).unwrap()
        };
        let (session, project) = (id("session/one").to_string(), id("project").to_string());
        let sql =
            sql.replace("= S", &format!("= {session}")).replace("= P", &format!("= {project}"));
        connection.execute_batch(&sql).unwrap();
        drop(connection);
        let ran = desk.run(&["call", "planning_read_plan", "{}", "--session", "one"]);
        assert_eq!(ran.code, 74, "{what}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains("toolgate verify"), "{what}: {}", ran.err);
        let verified = desk.run(&["verify"]);
        assert_eq!(verified.code, 1, "{what}: {}{}", verified.out, verified.err);
        let lost = verified.out.contains("✗ session/one: the whole stream is lost");
        assert_eq!(lost, what.contains("lost"), "{what}: {}", verified.out);
    }
}

#[test]
fn what_is_signed_in_one_log_is_worth_nothing_in_another() {
    let receipt = |desk: &Desk| {
        let plan = r#"{"objective":"a tale"}"#;
        let told = desk.ok(&["call", "planning_setup_plan", plan, "--json"]);
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        told["receipt"].as_str().unwrap().to_owned()
    };
    assert_ne!(receipt(&Desk::planner()), receipt(&Desk::planner()));
}

#[test]
fn a_configuration_that_changed_is_shown_and_one_that_is_missing_is_no_permission() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "name: one\n");
    let ran = desk.run(&["call", "list_notes"]);
    assert!(!ran.err.contains("configuration changed"), "{}", ran.err);
    desk.write("toolgate.yaml", "name: one\ndeny: [write_notes]\n");
    let read = ["call", "list_notes", "{}", "--session", "other"];
    for changed in [true, false] {
        let ran = desk.run(&read);
        assert_eq!(ran.err.contains("configuration changed"), changed, "{}", ran.err);
    }
    let law = desk.project().join("toolgate.yaml");
    std::fs::rename(&law, desk.project().join("toolgate.yml")).unwrap();
    let ran = desk.run(&read);
    assert!(ran.code == 2 && ran.err.contains("call it toolgate.yaml"), "{}", ran.err);
    std::os::unix::fs::symlink("nowhere.yaml", &law).unwrap();
    let ran = desk.run(&read);
    assert!(ran.code == 2 && ran.err.contains("cannot be read"), "{}", ran.err);
}

/// A run that is told to stop parks, and the next one goes on to the same end.
#[test]
fn a_run_that_is_told_to_stop_is_taken_up_again() {
    use std::io::{BufRead, BufReader};
    let desk = Desk::new();
    desk.write("toolgate.yaml", "settings: {max_tool_calls_per_iteration: 1000}\n");
    let reply = "  - calls: [{tool: list_notes, args: {}}, {tool: nope, args: {}}]\n";
    let script = format!("replies:\n{}  - text: Done.\n", reply.repeat(90));
    desk.write("long.yaml", &script);
    let run = ["run", "x", "--model", "script:long.yaml"];
    for (signal, code) in [("TERM", Some(0)), ("INT", Some(130)), ("KILL", None)] {
        let (mut command, piped) = (desk.command(), std::process::Stdio::piped);
        let mut child = command.args(run).stdout(piped()).stderr(piped()).spawn().unwrap();
        // The first line is out once the session is there.
        let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(out.next().is_some());
        // Every shell has a `kill` of its own.
        let kill = format!("kill -s {signal} {}", child.id());
        let told = std::process::Command::new("sh").args(["-c", &kill]).status();
        assert!(told.unwrap().success());
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), code, "{signal}: {said}");
        assert!(said.contains("Parked.") || code.is_none(), "{signal}: {said}");
    }
    let out = desk.ok(&run);
    assert!(out.contains("✓ Completed."), "{out}");
    assert_eq!(
        desk.ok(&["sessions", "list"]).lines().count(),
        1,
        "one session, taken up again and again"
    );
    desk.ok(&["verify"]);
}

#[test]
fn output_that_is_lost_is_no_success() {
    let desk = Desk::new();
    desk.ok(&["run", "x"]);
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = desk.command().args(["sessions", "list"]).stdout(full()).status().unwrap();
    assert_eq!(status.code(), Some(74));
    let status = desk.command().args(["sessions", "show", "nope"]).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(2));
    let ran = desk.run(&["sessions", "show", "nope", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert!(told["error"][0].as_str().unwrap().contains("no session nope"), "{told}");
}

#[test]
fn a_key_that_tools_or_others_could_reach_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let desk = Desk::new();
    let inside = desk.command().env("XDG_CONFIG_HOME", desk.project()).args(["run", "x"]).output();
    let inside = inside.unwrap();
    assert_eq!(inside.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&inside.stderr).contains("would lie inside the project"));
    assert!(!desk.project().join("toolgate").exists(), "a refused key is not made either");
    for home in ["", "relative"] {
        let ran = desk.command().env("HOME", home).args(["run", "x"]).output().unwrap();
        assert_eq!(ran.status.code(), Some(2), "HOME={home:?}");
    }
    desk.ok(&["run", "x"]);
    let key = desk.home().join(".config/toolgate/host.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = desk.run(&["call", "list_notes"]);
    assert!(ran.code == 2 && ran.err.contains("chmod 600"), "{}", ran.err);
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let folder = key.parent().unwrap();
    let mode = || std::fs::metadata(folder).unwrap().permissions().mode() & 0o777;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    let ran = desk.run(&["call", "list_notes"]);
    assert!(ran.code == 2 && ran.err.contains("chmod 700"), "{}", ran.err);
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    desk.ok(&["call", "list_notes"]);
    assert_eq!(mode(), 0o700, "others need not look into it");
}

#[test]
fn the_key_is_outside_the_project_and_for_this_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let desk = Desk::new();
    desk.ok(&["run", "x"]);
    let key = desk.home().join(".config/toolgate/host.key");
    let key = std::fs::metadata(key).unwrap();
    assert_eq!((key.len(), key.permissions().mode() & 0o777), (32, 0o600));
    let staged = std::fs::metadata(desk.project().join(".toolgate")).unwrap();
    assert_eq!(staged.permissions().mode() & 0o777, 0o700);
    let log = std::fs::metadata(desk.project().join(".toolgate/log.db")).unwrap();
    assert_eq!(log.permissions().mode() & 0o777, 0o600);
}

/// The configuration in force is law wherever it lies, and so is what its secrets are read from.
#[test]
fn no_tool_reaches_a_configuration_that_was_named_or_a_secret_of_it() {
    let desk = Desk::new();
    let law = "packs: [files]\nsettings: {api_key: \"file:keys/secret.txt\"}\n";
    std::fs::create_dir(desk.project().join("keys")).unwrap();
    desk.write("my.yaml", law);
    desk.write("keys/secret.txt", "CANARY");
    desk.trust_with(&["--config", "my.yaml"]);
    std::fs::hard_link(desk.project().join("my.yaml"), desk.project().join("twin.yaml")).unwrap();
    for path in ["my.yaml", "./my.yaml", "twin.yaml", "keys/secret.txt"] {
        for (tool, args) in [
            ("read_file", serde_json::json!({ "path": path })),
            ("write_file", serde_json::json!({ "path": path, "content": "packs: []" })),
        ] {
            let ran = desk.run(&["--config", "my.yaml", "call", tool, &args.to_string(), "--json"]);
            assert_eq!(ran.code, 1, "{tool} {path}: {}{}", ran.out, ran.err);
            assert!(!ran.out.contains("CANARY"), "{}", ran.out);
        }
    }
    let found =
        desk.ok(&["--config", "my.yaml", "call", "search_files", r#"{"query": "CANARY|packs"}"#]);
    assert!(!found.contains("secret.txt") && !found.contains("my.yaml"), "{found}");
    assert_eq!(std::fs::read_to_string(desk.project().join("my.yaml")).unwrap(), law);
}

/// Two processes at work on one manuscript: what one wrote and has not put in place yet is no
/// edit, and nobody's work is undone.
#[test]
fn what_another_process_is_about_to_put_in_place_is_nobodys_edit() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "name: open\n");
    desk.ok(&["call", "append_to_manuscript", r#"{"content": "w"}"#, "--session", "w"]);
    let spawn = |args: Vec<String>| {
        let mut command = desk.command();
        command
            .args(args)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    for round in 0..12 {
        let content = format!(r#"{{"content": "word{round}"}}"#);
        let write = ["call", "append_to_manuscript", &content, "--session", "w"];
        let writer = spawn(write.map(str::to_owned).to_vec());
        let read = ["call", "get_manuscript_info", "{}", "--session", "r"];
        let readers: Vec<_> = (0..3).map(|_| spawn(read.map(str::to_owned).to_vec())).collect();
        let wrote = writer.wait_with_output().unwrap();
        assert!(wrote.status.success(), "{}", String::from_utf8_lossy(&wrote.stderr));
        readers.into_iter().for_each(|reader| drop(reader.wait_with_output()));
    }
    let manuscript = std::fs::read_to_string(desk.project().join("manuscript.md")).unwrap();
    for round in 0..12 {
        assert!(manuscript.contains(&format!("word{round}")), "{manuscript}");
    }
    let export = desk.ok(&["sessions", "export", "w"]);
    assert!(!export.contains("\"actor\":\"file:"));
    let log = desk.project().join(".toolgate/log.db");
    let connection = rusqlite::Connection::open(&log).unwrap();
    let edits: i64 = connection
        .query_row(
            "SELECT count(*) FROM records WHERE CAST(bytes AS TEXT) LIKE '%\"actor\":\"file:%'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(edits, 0, "nobody edited anything");
}

/// Somebody is given a copy to look at, and may not write into it.
#[cfg(unix)]
#[test]
fn a_project_that_may_not_be_written_can_be_looked_at() {
    use std::os::unix::fs::PermissionsExt;
    let desk = Desk::new();
    desk.ok(&["call", "write_notes", r#"{"key":"a","data":1}"#]);
    let home = desk.project().join(".toolgate");
    let set = |path: &Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    let mode = |mode| {
        set(&home.join("log.db"), mode);
        set(&home, mode);
        set(&desk.project(), mode);
    };
    mode(0o555);
    set(desk.project().parent().unwrap(), 0o755);
    let looks: [&[&str]; 7] = [
        &["verify"],
        &["sessions", "list"],
        &["sessions", "show", "call"],
        &["sessions", "replay", "call"],
        &["explain", "write_notes", r#"{"key":"b","data":1}"#, "--session", "call"],
        &["facts", "list"],
        &["tools"],
    ];
    let (code, out) = by_a_reader(&desk, &["verify"]);
    assert!(code == Some(0) && out.contains("are as written"), "{out}");
    for args in looks {
        let (code, out) = by_a_reader(&desk, args);
        assert_eq!(code, Some(0), "{args:?}: {out}");
    }
    mode(0o755);
}

/// What somebody sees whom the modes of files bind. Root is not bound, so nobody looks in its place,
/// where nobody can reach the program.
#[cfg(unix)]
fn by_a_reader(desk: &Desk, args: &[&str]) -> (Option<i32>, String) {
    use std::os::unix::fs::{MetadataExt, chown};
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65_534;
    let owner = std::fs::metadata(desk.home()).unwrap().uid();
    let mut command = desk.command();
    if owner == 0 || owner == NOBODY {
        let mut due = vec![desk.home()];
        while let Some(path) = due.pop() {
            chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
            let below = path.is_dir().then(|| std::fs::read_dir(&path).unwrap());
            due.extend(below.into_iter().flatten().map(|entry| entry.unwrap().path()));
        }
        command.uid(NOBODY).gid(NOBODY);
    }
    let ran = match command.args(args).output() {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            desk.command().args(args).output().unwrap()
        }
        ran => ran.unwrap(),
    };
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    (ran.status.code(), said.into_owned())
}

/// A worktree's `.git` is a file that names the folder which git obeys.
#[test]
fn no_tool_reaches_the_folder_that_a_git_file_names() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [files]\n");
    desk.write(".git", "gitdir: ./.bare\n");
    std::fs::create_dir(desk.project().join(".bare")).unwrap();
    desk.write(".bare/config", "[core]\n");
    desk.write("notes.md", "plain\n");
    let call = |tool: &str, args: &str| desk.run(&["call", tool, args, "--json"]).out;
    assert!(call("read_file", r#"{"path":"notes.md"}"#).contains("plain"));
    for args in [r#"{"path":".bare/config"}"#, r#"{"path":"./.bare/../.bare/config"}"#] {
        let told = call("read_file", args);
        assert!(told.contains("\"ok\":false") && !told.contains("[core]"), "{told}");
    }
    let told = call("write_file", r#"{"path":".bare/hooks/x","content":"x"}"#);
    assert!(told.contains("\"ok\":false"), "{told}");
}

#[test]
fn an_empty_first_reply_is_no_success() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [notes]\n");
    for (name, text) in [("empty", ""), ("invisible", "\\u200b ")] {
        desk.write("script.yaml", &format!("replies:\n  - text: \"{text}\"\n"));
        let ran = desk.run(&["run", "go", "--model", "script:script.yaml"]);
        assert_eq!(ran.code, 1, "{name}: {} {}", ran.out, ran.err);
        assert!(format!("{} {}", ran.out, ran.err).contains("did nothing"), "{name}: {}", ran.err);
        let ran = desk.run(&["chat", "go", "--model", "script:script.yaml"]);
        assert_eq!(ran.code, 1, "{name}: {} {}", ran.out, ran.err);
        assert!(ran.err.contains("reply was empty"), "{name}: {}", ran.err);
    }
}
