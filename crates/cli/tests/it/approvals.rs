//! A person's word on calls that wait for it, given from another process, at a terminal.

use serde_json::Value;

use crate::support::Desk;
use crate::terminal::{APPROVE, Seen, typing};

const CONFIG: &str = "packs: [notes]\npolicies:\n  - name: careful\n    rule: {tools: [write_notes], \
     ask: 'true', message: A note is serious.}\n";

/// No passphrase is chosen the first time.
const FIRST: (&str, &str) = ("press Enter for none:", "");

fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("toolgate.yaml", CONFIG);
    desk
}

/// A call that waits, made through a pipe.
fn put_off(desk: &Desk, key: &str) -> Value {
    let args = format!(r#"{{"key":"{key}","data":1}}"#);
    let ran = desk.run(&["call", "write_notes", &args, "--json"]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let envelope: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(envelope["errors"][0]["code"], "APPROVAL_PENDING");
    let told = envelope["message"].as_str().unwrap();
    assert!(told.contains("it runs when you approve it: toolgate approvals approve c"), "{told}");
    envelope
}

fn at_terminal(desk: &Desk, args: &[&str], answers: &[(&str, &str)]) -> Seen {
    let mut command = desk.command();
    command.args(args);
    typing(command, answers, || {})
}

fn notes(desk: &Desk) -> Value {
    let out = desk.ok(&["call", "list_notes", "--json"]);
    serde_json::from_str::<Value>(&out).unwrap()["data"].clone()
}

fn waiting(desk: &Desk) -> Vec<Value> {
    let out = desk.ok(&["approvals", "list", "--json"]);
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_yes_makes_the_call_and_the_log_has_who_said_it() {
    let desk = desk();
    put_off(&desk, "a");
    assert_eq!(waiting(&desk)[0]["call"], "c1");
    let approve = APPROVE;
    let seen = at_terminal(&desk, &["approvals", "approve", "c1"], &[approve, FIRST]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert!(seen.screen.contains("would run, and nothing else"), "{}", seen.screen);
    assert!(seen.screen.contains("c1 is approved"), "{}", seen.screen);
    assert_eq!(notes(&desk), serde_json::json!({"a": "number"}));
    assert!(waiting(&desk).is_empty());
    let shown = desk.ok(&["sessions", "export", "call"]);
    assert!(shown.contains("\"human:ada\""), "{shown}");
    desk.ok(&["verify"]);
    let again = at_terminal(&desk, &["approvals", "approve", "c1"], &[]);
    assert_eq!(again.code, 2, "{}", again.screen);
    assert!(again.screen.contains("c1 does not wait for your word"), "{}", again.screen);
}

#[test]
fn a_no_and_a_word_that_is_neither_leave_nothing() {
    let desk = desk();
    put_off(&desk, "a");
    let seen = at_terminal(&desk, &["approvals", "approve", "c1"], &[("to deny:", "")]);
    assert_eq!((seen.code, waiting(&desk).len()), (1, 1), "{}", seen.screen);
    let args = ["approvals", "deny", "c1", "--note", "Not today."];
    let seen = at_terminal(&desk, &args, &[("Type deny", "deny"), FIRST]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    // The session hears it with its next call.
    assert_eq!(notes(&desk), serde_json::json!({}));
    assert!(waiting(&desk).is_empty());
}

#[test]
fn other_arguments_count_when_the_person_wrote_them() {
    let desk = desk();
    put_off(&desk, "a");
    let args = ["approvals", "edit", "c1", "--args", r#"{"key":"b","data":2}"#];
    let seen = at_terminal(&desk, &args, &[APPROVE, FIRST]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert_eq!(notes(&desk), serde_json::json!({"b": "number"}));
}

#[test]
fn arguments_that_the_tool_would_not_take_are_told_before_the_word() {
    let desk = desk();
    put_off(&desk, "a");
    for (args, told) in [
        (r#"{"key":7,"data":2}"#, "key:"),
        (r#"{"key":"b","data":2,"date":3}"#, "allowed: key, data"),
        (r#"{"data":2}"#, "key"),
        ("[1]", "that is no JSON object"),
    ] {
        let seen = at_terminal(&desk, &["approvals", "edit", "c1", "--args", args], &[]);
        assert_eq!(seen.code, 2, "{args}: {}", seen.screen);
        assert!(seen.screen.contains(told), "{args}: {}", seen.screen);
        assert!(seen.screen.contains("Nothing was decided"), "{args}: {}", seen.screen);
        assert!(!seen.screen.contains("Type `yes"), "{args}: {}", seen.screen);
    }
    assert_eq!(waiting(&desk).len(), 1);
    // Typed ones can be typed once more.
    let once = ("Type the arguments as one line of JSON:", r#"{"key":7,"data":2}"#);
    let again = ("Type them once more:", r#"{"key":"b","data":2}"#);
    let answers = [once, again, APPROVE, FIRST];
    let seen = at_terminal(&desk, &["approvals", "edit", "c1"], &answers);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert_eq!(notes(&desk), serde_json::json!({"b": "number"}));
}

/// What is typed before a question is shown answers nothing: nobody saw what it would be a yes to.
#[test]
fn a_word_that_was_typed_too_early_is_no_answer() {
    let desk = desk();
    assert_eq!(at_terminal(&desk, &["init", "--enrol"], &[FIRST]).code, 0);
    let call = |key| format!("{{tool: write_notes, args: {{key: {key}, data: 1}}}}");
    let calls = format!("[{}, {}]", call("a"), call("b"));
    desk.write("s.yaml", &format!("replies: [{{calls: {calls}}}, {{text: Done.}}]\n"));
    // The second line is there before the next card, and has no code of it.
    let answers = [("\"key\": \"a\"", "yes {code}\nyes"), ("\"key\": \"b\"", "no")];
    let seen = at_terminal(&desk, &["run", "x", "--model", "script:s.yaml"], &answers);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert_eq!(notes(&desk), serde_json::json!({"a": "number"}), "{}", seen.screen);
}

/// What does not fit on the screen is shown page by page, so that nothing is approved unseen.
#[test]
fn what_is_long_is_seen_whole_before_it_is_approved() {
    let desk = desk();
    put_off(&desk, &format!("{}end", "a".repeat(190)));
    // Nothing else on a card has this sign.
    let args = format!(r##"{{"key":"b","data":"{}#"}}"##, "x".repeat(1_500));
    assert_eq!(desk.run(&["call", "write_notes", &args]).code, 1);
    let short = [APPROVE, FIRST];
    let seen = at_terminal(&desk, &["approvals", "approve", "c1"], &short);
    assert!(!seen.screen.contains("more lines"), "{}", seen.screen);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    let early = [("more lines. Press Enter", "yes"), ("to deny:", "")];
    let seen = at_terminal(&desk, &["approvals", "approve", "c2"], &early);
    assert_eq!((seen.code, waiting(&desk).len()), (1, 1), "{}", seen.screen);
    assert!(seen.screen.contains('#'), "{}", seen.screen);
    let left = [("more lines. Press Enter", "leave")];
    let seen = at_terminal(&desk, &["approvals", "approve", "c2"], &left);
    assert_eq!((seen.code, waiting(&desk).len()), (1, 1), "{}", seen.screen);
    assert!(!seen.screen.contains('#'), "{}", seen.screen);
    // The same where a call asks at the terminal: a yes before the last page answers nothing.
    let early = [("more lines. Press Enter", "\nyes"), ("to deny:", "no thanks")];
    let call = ["call", "write_notes", &args.replace("\"b\"", "\"c\"")];
    let seen = at_terminal(&desk, &call, &early);
    assert_eq!(seen.code, 1, "{}", seen.screen);
    assert!(seen.screen.contains('#') && seen.screen.contains("asks for your approval"));
    assert_eq!(notes(&desk).as_object().unwrap().len(), 1, "{}", seen.screen);
}

#[test]
fn a_slip_of_the_hand_is_no_answer() {
    let desk = desk();
    put_off(&desk, "a");
    let no_code = "takes the code that stands among the arguments";
    let answers = [("to deny:", "y"), (no_code, "yes {code}"), FIRST];
    let seen = at_terminal(&desk, &["approvals", "approve", "c1"], &answers);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert_eq!(notes(&desk), serde_json::json!({"a": "number"}));
    // The same where a call asks at the terminal.
    let call = ["call", "write_notes", r#"{"key":"b","data":1}"#];
    let seen = at_terminal(&desk, &call, &[("to deny:", "y"), (no_code, "yes {code}")]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    let none = "not one of the answers";
    let slips = [("to deny:", "hm"), (none, "ja"), (none, "ok")];
    let call = ["call", "write_notes", r#"{"key":"c","data":1}"#];
    let seen = at_terminal(&desk, &call, &slips);
    assert_eq!(seen.code, 1, "{}", seen.screen);
    assert_eq!(waiting(&desk).len(), 1, "it waits: {}", seen.screen);
}

#[test]
fn what_is_shown_is_the_phase_that_a_yes_is_for() {
    let desk = Desk::new();
    let phases = "phases:\n  one: {transitions: [{to: two}]}\n  two: {}\n";
    desk.write("toolgate.yaml", &format!("{CONFIG}{phases}"));
    put_off(&desk, "a");
    desk.ok(&["call", "list_notes", "--phase", "two"]);
    let shown = desk.ok(&["approvals", "show", "c1"]);
    assert!(shown.contains("asked by   client:cli, in phase one\n"), "{shown}");
    assert!(shown.contains("the session is in phase two, and a yes is for one"), "{shown}");
    let answers = [APPROVE, FIRST];
    let seen = at_terminal(&desk, &["approvals", "approve", "c1"], &answers);
    assert_eq!(seen.code, 1, "{}", seen.screen);
    assert!(seen.screen.contains("your yes was for phase one"), "{}", seen.screen);
    assert_eq!(notes(&desk), serde_json::json!({}));
}

#[test]
fn blanks_that_look_like_a_space_are_shown() {
    let desk = desk();
    put_off(&desk, "a\u{a0}b\u{2003}c\u{3000}d\u{2800}e");
    let shown = desk.ok(&["approvals", "show", "c1"]);
    assert!(shown.contains("a<U+00A0>b<U+2003>c<U+3000>d<U+2800>e"), "{shown}");
    // A name that looks like another is told from it.
    put_off(&desk, "\u{410}da");
    let shown = desk.ok(&["approvals", "show", "c2"]);
    assert!(shown.contains("\u{410}da<mixes Cyrillic, Latin>"), "{shown}");
}

#[test]
fn the_list_is_aligned_and_says_what_to_type() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", &CONFIG.replace("[write_notes]", "[write_notes, list_notes]"));
    put_off(&desk, "a");
    assert_eq!(desk.run(&["call", "list_notes", "--session", "other"]).code, 1);
    let ran = desk.run(&["approvals", "list"]);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(
        lines,
        [
            "c1  write_notes a  A note is serious.",
            "    in session call",
            "c1  list_notes     A note is serious.",
            "    in session other",
        ]
    );
    assert!(ran.err.ends_with("Look at one, then decide: toolgate approvals show call/c1\n"));
    let shown = desk.run(&["approvals", "show", "other/c1"]);
    assert!(shown.err.contains("Let it run  toolgate approvals approve other/c1"), "{}", shown.err);
}

#[test]
fn always_is_a_grant_that_can_be_withdrawn() {
    let desk = desk();
    put_off(&desk, "a");
    let args = ["approvals", "approve", "c1", "--always"];
    let seen = at_terminal(&desk, &args, &[APPROVE, FIRST]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    desk.ok(&["call", "write_notes", r#"{"key":"b","data":2}"#]);
    assert!(desk.ok(&["approvals", "list"]).contains("always  write_notes"));
    let word = |word| [("Type withdraw", word)];
    let seen = at_terminal(&desk, &["approvals", "withdraw", "write_notes"], &word("leave"));
    assert_eq!(seen.code, 1, "{}", seen.screen);
    desk.ok(&["call", "write_notes", r#"{"key":"d","data":2}"#]);
    let seen = at_terminal(&desk, &["approvals", "withdraw", "write_notes"], &word("withdraw"));
    assert_eq!(seen.code, 0, "{}", seen.screen);
    // It is gone at once, though nobody drove the session on since.
    assert!(!desk.ok(&["approvals", "list"]).contains("always"));
    put_off(&desk, "c");
}

#[test]
fn what_was_denied_waits_no_more_though_nobody_drove_the_session_on() {
    let desk = desk();
    put_off(&desk, "a");
    put_off(&desk, "b");
    let seen = at_terminal(&desk, &["approvals", "deny", "c1"], &[("Type deny", "deny"), FIRST]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert_eq!(waiting(&desk).len(), 1);
    let seen = at_terminal(&desk, &["approvals", "approve", "c1"], &[]);
    assert!(
        seen.screen.contains("c1 does not wait for your word; these do: c2"),
        "{}",
        seen.screen
    );
    let seen = at_terminal(&desk, &["approvals", "approve", "c2", "--session", "other"], &[]);
    assert!(
        seen.screen.contains("c2 does not wait for your word; nothing does"),
        "{}",
        seen.screen
    );
}

#[test]
fn a_pipe_a_flag_and_a_variable_are_nobody() {
    let desk = desk();
    put_off(&desk, "a");
    for args in [&["approve", "c1"][..], &["deny", "c1"], &["edit", "c1", "--args", "{}"]] {
        let mut command = desk.command();
        command.arg("approvals").args(args).env("TOOLGATE_PASSPHRASE", "x");
        let ran = command.output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(3), "{args:?} {said}");
        assert!(said.contains("nobody is at a terminal here"), "{said}");
    }
    assert_eq!(waiting(&desk).len(), 1);
    let ran = desk.run(&["run", "x", "--on-ask", "approve"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
}

#[test]
fn who_does_not_know_the_passphrase_decides_nothing() {
    let desk = desk();
    put_off(&desk, "a");
    put_off(&desk, "b");
    let approve = APPROVE;
    let chosen = [approve, ("press Enter for none:", "storm"), ("once more:", "storm")];
    let seen = at_terminal(&desk, &["approvals", "approve", "c1"], &chosen);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert!(!seen.screen.contains("storm"), "a passphrase is not shown: {}", seen.screen);
    let asked = "Your passphrase:";
    let wrong =
        [approve, (asked, "calm"), ("not the passphrase. Try again", ""), ("Try again", "Storm")];
    let seen = at_terminal(&desk, &["approvals", "approve", "c2"], &wrong);
    assert_eq!(seen.code, 1, "{}", seen.screen);
    assert_eq!(waiting(&desk).len(), 1);
    // Ctrl-D gives none, and somebody is there.
    let seen = at_terminal(&desk, &["approvals", "approve", "c2"], &[approve, (asked, "\u{4}")]);
    assert_eq!(seen.code, 1, "{}", seen.screen);
    assert!(seen.screen.contains("so nothing was done"), "{}", seen.screen);
    let seen = at_terminal(&desk, &["approvals", "approve", "c2"], &[approve, (asked, "storm")]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert_eq!(notes(&desk), serde_json::json!({"a": "number", "b": "number"}));
    let doctor = desk.run(&["doctor", "--json"]).out;
    let report: Value = serde_json::from_str(&doctor).unwrap();
    assert_eq!(
        (&report["person"]["name"], &report["person"]["passphrase"]),
        (&Value::from("ada"), &Value::from(true))
    );
    let key = std::fs::read_to_string(desk.home().join(".config/toolgate/person.key")).unwrap();
    assert!(!key.contains("storm"), "{key}");
}

#[test]
fn another_persons_key_is_a_strangers_here() {
    let desk = desk();
    put_off(&desk, "a");
    put_off(&desk, "b");
    let approve = APPROVE;
    let seen = at_terminal(&desk, &["approvals", "approve", "c1"], &[approve, FIRST]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    std::fs::remove_file(desk.home().join(".config/toolgate/person.key")).unwrap();
    let seen = at_terminal(&desk, &["approvals", "approve", "c2"], &[approve, FIRST]);
    assert_ne!(seen.code, 0, "{}", seen.screen);
    assert!(seen.screen.contains("knows another person's key"), "{}", seen.screen);
    assert_eq!(waiting(&desk).len(), 1);
    // `doctor`, which the error names, says so and what to do.
    let doctor: Value = serde_json::from_str(&desk.run(&["doctor", "--json"]).out).unwrap();
    assert_eq!(doctor["person"]["known"], false, "{doctor}");
    assert!(doctor["person"]["says"].as_str().unwrap().contains("Bring back the file"), "{doctor}");
}

#[test]
fn a_yes_that_makes_nothing_says_so() {
    let desk = desk();
    put_off(&desk, "a");
    // Other rules are in force before the person looks, and they are asked about those too.
    desk.write("toolgate.yaml", &CONFIG.replace("serious", "very serious"));
    let answers = [APPROVE, FIRST, ("to trust this folder:", "trust {code}")];
    let seen = at_terminal(&desk, &["approvals", "approve", "c1"], &answers);
    assert_eq!(seen.code, 1, "{}", seen.screen);
    assert!(seen.screen.contains("Nothing ran."), "{}", seen.screen);
    assert_eq!(notes(&desk), serde_json::json!({}));
}

#[test]
fn what_waited_in_a_run_that_is_over_is_told_as_that() {
    let desk = desk();
    let call = "{tool: write_notes, args: {key: a, data: 1}}";
    desk.write("s.yaml", &format!("replies: [{{calls: [{call}]}}, {{text: Done.}}]\n"));
    let ran = desk.run(&["run", "x", "--model", "script:s.yaml"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("1 call waited for your word. The session is over"), "{}", ran.err);
    assert!(waiting(&desk).is_empty());
}

#[test]
fn what_was_shown_must_still_be_what_waits() {
    let desk = desk();
    put_off(&desk, "a");
    let mut command = desk.command();
    command.args(["approvals", "approve", "c1"]);
    let seen = typing(command, &[APPROVE, FIRST], || {
        if waiting(&desk).len() == 1 {
            // Another law is in force by the time the word is given.
            desk.write("toolgate.yaml", &CONFIG.replace("serious", "very serious"));
            desk.ok(&["call", "list_notes"]);
        }
    });
    assert_ne!(seen.code, 0, "{}", seen.screen);
    assert!(seen.screen.contains("look again"), "{}", seen.screen);
    assert_eq!(notes(&desk), serde_json::json!({}));
}
