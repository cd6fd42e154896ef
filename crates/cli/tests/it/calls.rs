//! `call`: one tool call through the whole gate, from a shell.

use serde_json::Value;

use crate::support::Desk;

fn call(desk: &Desk, args: &[&str]) -> (i32, Value) {
    let mut all = vec!["call"];
    all.extend(args);
    all.push("--json");
    let ran = desk.run(&all);
    (ran.code, serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}{}", ran.out, ran.err)))
}

#[test]
fn a_call_is_judged_run_and_remembered() {
    let desk = Desk::planner();
    let (code, envelope) =
        call(&desk, &["planning_setup_plan", r#"{"objective":"x","initial_steps":["a"]}"#]);
    assert_eq!((code, &envelope["ok"]), (0, &Value::Bool(true)));
    assert!(envelope["receipt"].as_str().unwrap().starts_with("rcpt_"));
    // Another process, the same session: the plan is there.
    let (code, envelope) = call(&desk, &["planning_read_plan"]);
    assert_eq!((code, &envelope["data"]["objective"]), (0, &Value::from("x")));
    let (_, envelope) = call(&desk, &["planning_read_plan", "--session", "other"]);
    assert_eq!(envelope["ok"], false);
}

#[test]
fn a_phase_that_does_not_grant_a_tool_refuses_it() {
    let desk = Desk::planner();
    let plan = r#"{"objective":"x"}"#;
    let (code, envelope) = call(&desk, &["planning_setup_plan", plan, "--phase", "REVIEW"]);
    assert_eq!(code, 1);
    assert_eq!(envelope["errors"][0]["code"], "TOOL_NOT_GRANTED");
    assert_eq!(envelope["errors"][0]["allowed"], serde_json::json!(["planning_read_plan"]));
    // Without a phase the session stays where it was moved to.
    assert_eq!(call(&desk, &["planning_setup_plan", plan]).0, 1);
    assert_eq!(call(&desk, &["planning_setup_plan", plan, "--phase", "WORK"]).0, 0);
}

#[test]
fn bad_arguments_are_told_what_is_right() {
    let desk = Desk::planner();
    for (args, code) in [
        ("not json", "ARGUMENTS_JSON_PARSE_ERROR"),
        ("{}", "ARGUMENTS_INVALID"),
        (r#"{"objective":"x","colour":"red"}"#, "ARGUMENTS_INVALID"),
    ] {
        let (exit, envelope) = call(&desk, &["planning_setup_plan", args]);
        assert_eq!((exit, &envelope["errors"][0]["code"]), (1, &Value::from(code)), "{args}");
    }
    let ran = desk.run(&["call", "planing_read_plan"]);
    assert!(ran.out.contains("Did you mean planning_read_plan?"), "{}", ran.out);
}

#[test]
fn nobody_at_the_terminal_means_that_a_question_stays_open() {
    let desk = Desk::new();
    desk.write(
        "toolgate.yaml",
        "packs: [planning]\npolicies:\n  - name: careful\n    rule: {tools: [planning_setup_plan], \
         ask: 'true', message: A plan is serious.}\n",
    );
    let (code, envelope) = call(&desk, &["planning_setup_plan", r#"{"objective":"x"}"#]);
    assert_eq!((code, &envelope["errors"][0]["code"]), (1, &Value::from("APPROVAL_PENDING")));
}

#[test]
fn two_processes_do_not_write_over_each_other() {
    let desk = Desk::planner();
    call(&desk, &["planning_setup_plan", r#"{"objective":"x"}"#]);
    let mut children: Vec<_> = (0..6)
        .map(|at| {
            let args = format!(r#"{{"steps":["step {at}"]}}"#);
            let mut command = desk.command();
            command.args(["call", "planning_add_step", &args, "--json"]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    let added = children.iter_mut().filter_map(|child| child.wait().ok()).filter(|s| s.success());
    let added = added.count();
    let (_, envelope) = call(&desk, &["planning_read_plan"]);
    let steps = envelope["data"]["steps"].as_array().unwrap();
    // Whoever was fenced may find its call settled by the one that took over: at least what was
    // acknowledged is there, and nothing is there twice.
    assert!((added..=6).contains(&steps.len()) && added >= 1, "{added} of {steps:?}");
    let titles: std::collections::BTreeSet<&str> =
        steps.iter().map(|step| step["title"].as_str().unwrap()).collect();
    assert_eq!(titles.len(), steps.len(), "{steps:?}");
    assert!(desk.ok(&["verify"]).contains("are as written"));
}

#[test]
fn a_file_that_cannot_be_read_is_a_failure_and_no_policy() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [files]\n");
    let large = std::fs::File::create(desk.project().join("large.md")).unwrap();
    large.set_len(1 << 30).unwrap();
    let (code, envelope) = call(&desk, &["read_file", r#"{"path":"large.md"}"#]);
    assert_eq!((code, &envelope["errors"][0]["code"]), (1, &Value::from("TOOL_FAILED")));
    // What lies outside is another matter.
    std::os::unix::fs::symlink("/etc/passwd", desk.project().join("link.md")).unwrap();
    let (code, envelope) = call(&desk, &["read_file", r#"{"path":"link.md"}"#]);
    assert_eq!((code, &envelope["errors"][0]["code"]), (1, &Value::from("POLICY_ERROR")));
}

/// A log that is as large as it may be takes no more calls, and says before that it will be.
#[test]
fn a_full_log_takes_no_more_calls() {
    let desk = Desk::new();
    let config = |bytes: u64| format!("packs: [notes]\nlimits: {{log_bytes_max: {bytes}}}\n");
    desk.write("toolgate.yaml", &config(1 << 30));
    desk.ok(&["call", "list_notes"]);
    let bytes = std::fs::metadata(desk.project().join(".toolgate/log.db")).unwrap().len();
    desk.write("toolgate.yaml", &config(bytes + bytes / 10));
    let told = desk.run(&["call", "list_notes"]);
    assert_eq!(told.code, 0, "{}{}", told.out, told.err);
    assert!(told.err.contains("calls are refused when it is full"), "{}", told.err);
    desk.write("toolgate.yaml", &config(bytes / 2));
    let refused = desk.run(&["call", "list_notes", "--json"]);
    assert_eq!(refused.code, 1, "{}{}", refused.out, refused.err);
    assert!(refused.out.contains("LOG_FULL"), "{}", refused.out);
    desk.ok(&["verify"]);
}
