//! What `toolgate doctor` says of a model: what it saw of that one, judged as the gate judges.

use serde_json::Value;

use crate::support::{Beside, Desk};

/// No try is made twice, so that each fault is one request.
const ONCE: &str = "packs: []\nlimits: {attempts_max: 1, retry_ms_max: 1}\n";

/// The right replies to so many probes.
fn right(probes: u32) -> String {
    let call = |at: u32| format!("{{calls: [{{tool: add, args: {{{}}}}}]}}", asked_for(at));
    (0..probes).map(call).collect::<Vec<_>>().join(", ")
}

/// The arguments that a probe asks for.
fn asked_for(at: u32) -> String {
    format!("a: {}, b: {}", at + 2, at * 7 % 10 + 3)
}

/// What the doctor prints of the only model, and how it ends.
fn printed(beside: &Beside, args: &[&str]) -> (i32, String) {
    let desk = Desk::new();
    desk.write_trusted(&format!("{ONCE}{}", beside.config("openai")));
    let mut doctor = desk.command();
    let ran = doctor.env("FAKE_KEY", "sk-CANARY-01").arg("doctor").args(args).output().unwrap();
    (ran.status.code().unwrap(), String::from_utf8(ran.stdout).unwrap())
}

/// The same as data, and as it was printed.
fn examined(beside: &Beside, probes: &str) -> (i32, Value, String) {
    let (code, shown) = printed(beside, &["--json", "--probe", probes]);
    let report: Value = serde_json::from_str(&shown).unwrap();
    (code, report["models"][0].clone(), shown)
}

#[test]
fn a_model_is_not_judged_by_others_at_its_address() {
    let (desk, beside) =
        (Desk::new(), Beside::failing(&format!("replies: [{}]", right(1)), &["server_error"; 4]));
    let one = beside.config("openai");
    let line = one.trim_start_matches("models:\n");
    let all: String = ["a", "b", "c", "d", "good"]
        .iter()
        .map(|name| line.replace("  m:", &format!("  {name}:")))
        .collect();
    desk.write_trusted(&format!("{ONCE}models:\n{all}"));
    let mut doctor = desk.command();
    let ran = doctor.env("FAKE_KEY", "sk-CANARY-01").args(["doctor", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let oks: Vec<bool> =
        report["models"].as_array().unwrap().iter().map(|m| m["ok"] == true).collect();
    assert_eq!(oks, [false, false, false, false, true], "{report}");
    assert_eq!(beside.seen().len(), 5);
    assert!(!report.to_string().contains("left alone"), "{report}");
}

/// What the server said is told, and what helps; nothing that only this command made up.
#[test]
fn a_measuring_that_ends_early_says_why() {
    let three = format!("replies: [{}]", right(3));
    let begun = ["none", "none", "none"];
    for (fault, kind, said, fix, asked) in [
        ("server_error", "overloaded", "500", "Try again later", 6),
        ("rate_limited_long", "rate_limited", "429", "Try again later", 4),
        ("unauthorized", "unauthorized", "401", "Look at FAKE_KEY", 4),
    ] {
        let faults = [&begun as &[&str], &[fault; 17]].concat();
        let (code, finding, shown) = examined(&Beside::failing(&three, &faults), "20");
        assert_eq!((code, &finding["fault"]), (1, &Value::from(kind)), "{shown}");
        assert!(finding["says"].as_str().unwrap().contains(said), "{shown}");
        assert!(finding["fix"].as_str().unwrap().contains(fix), "{shown}");
        assert!(!shown.contains("because it failed too often"), "{shown}");
        assert_eq!((&finding["probes"], &finding["right"]), (&asked.into(), &3.into()), "{shown}");
        let (_, told) = printed(&Beside::failing(&three, &faults), &["--probe", "20"]);
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        let only = format!("It was asked for only {asked} of 20 calls");
        assert!(told.contains(&only) && !told.contains("or more says it"), "{told}");
    }
}

/// A call is right when the gate would run it, as it was asked for, and nothing beside it.
#[test]
fn a_probe_is_judged_as_the_gate_judges() {
    let call = |args: &str| format!("{{tool: add, args: {{{args}}}}}");
    let raw = |text: &str| format!("{{tool: add, raw: '{text}'}}");
    let five = vec![call("a: 2, b: 3"); 5].join(", ");
    for (calls, words) in [
        (call("a: 2, b: 3"), None),
        (call("a: 2.0, b: 3.0"), None),
        (call("a: '2', b: '3'"), None),
        (raw("```json\n{\"a\": 2, \"b\": 3}\n```").replace('\n', "\n\n"), None),
        (call("a: 2, b: 3, c: 1"), Some("c")),
        (call("a: 2"), Some("b")),
        (call("a: 2.5, b: 3"), Some("2.5")),
        (call("a: 99, b: 3"), Some("not what was asked")),
        (raw("a=2"), Some("JSON")),
        (call("a: 2, b: 3").replace("add", "sum"), Some("sum")),
        (five, Some("5 calls")),
    ] {
        let beside = Beside::playing(&format!("replies: [{{calls: [{calls}]}}]"));
        let (code, finding, shown) = examined(&beside, "1");
        assert_eq!(code, i32::from(words.is_some()), "{calls}: {shown}");
        let says = finding["says"].as_str().unwrap();
        assert!(says.contains(words.unwrap_or("calls tools")), "{calls}: {says}");
    }
}

/// One that calls tools is not said to call none because it once did not.
#[test]
fn what_went_wrong_once_is_not_said_of_all_calls() {
    for (wrong, code, reliable) in [(1, 0, true), (2, 1, false)] {
        let right = format!("{}, ", right(20 - wrong));
        let script = format!("replies: [{right}{}]", vec!["{text: no}"; wrong as usize].join(", "));
        let beside = Beside::playing(&script);
        let (ended, finding, shown) = examined(&beside, "20");
        assert_eq!((ended, &finding["tool_calling_reliable"]), (code, &reliable.into()), "{shown}");
        let says = finding["says"].as_str().unwrap();
        assert!(says.starts_with("answers, and calls tools, but not always"), "{says}");
        assert!(says.contains("\"no\""), "{says}");
        assert_eq!(finding["fix"].is_null(), reliable, "{shown}");
    }
}
