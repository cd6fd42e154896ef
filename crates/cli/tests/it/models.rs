//! Real models as people use them: the binary against a fake provider over a socket.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;
use toolgate_testkit::fake::{Fake, Play, Seen};
use toolgate_wire::script::ScriptText;

use crate::support::Desk;

/// A fake provider that runs beside the test.
struct Beside {
    fake: Fake,
    _runtime: tokio::runtime::Runtime,
}

impl Beside {
    fn playing(yaml: &str) -> Self {
        let script: ScriptText = serde_saphyr::from_str(yaml).unwrap();
        let play = Play { script, key: Some("sk-CANARY".to_owned()), ..Play::default() };
        let builder = &mut tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        let fake = runtime.block_on(Fake::start(play)).unwrap();
        Self { fake, _runtime: runtime }
    }

    /// A configuration in which `m` is this fake.
    fn config(&self, provider: &str) -> String {
        format!(
            "models:\n  m: {{provider: {provider}, model: fake-1, base_url: \
             'http://127.0.0.1:{}', api_key: 'env:FAKE_KEY'}}\n",
            self.fake.port()
        )
    }

    fn seen(&self) -> Vec<Seen> {
        self.fake.seen()
    }
}

const STORY: &str = include_str!("../../demo/story.yaml");
const NOVEL: &str = include_str!("../../demo/novel.yaml");
const PREMISE: &str = "a lighthouse keeper who collects storms";

#[test]
fn a_premise_becomes_a_manuscript_in_every_dialect() {
    for provider in ["openai", "openai_responses", "anthropic", "gemini"] {
        for stream in [true, false] {
            let (desk, beside) = (Desk::new(), Beside::playing(STORY));
            let model = beside
                .config(provider)
                .replace("{provider", &format!("{{stream: {stream}, provider"));
            desk.write("toolgate.yaml", &format!("{NOVEL}\n{model}"));
            let run = desk.command().env("FAKE_KEY", "sk-CANARY").args(["run", PREMISE]).output();
            let run = run.unwrap();
            let shown = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
            assert_eq!(run.status.code(), Some(0), "{provider}: {shown}");
            let manuscript = std::fs::read_to_string(desk.project().join("manuscript.md")).unwrap();
            assert!(manuscript.split_whitespace().count() > 1_500, "{provider}");
            let refused: Vec<_> = beside.seen().into_iter().filter_map(|s| s.refusal).collect();
            assert_eq!(refused, Vec::<String>::new(), "{provider}: what a provider would refuse");
            assert_eq!(desk.run(&["verify"]).code, 0);
            // The key was sent, and is nowhere else.
            let log = std::fs::read(desk.project().join(".toolgate/log.db")).unwrap();
            for text in [shown.as_bytes(), log.as_slice()] {
                assert!(!text.windows(6).any(|part| part == b"CANARY"), "{provider}");
            }
        }
    }
}

#[test]
fn a_conversation_is_kept_and_gone_on_with() {
    let (desk, beside) = (
        Desk::new(),
        Beside::playing("replies: [{text: Hello Ada.}, {text: You said your name is Ada.}]"),
    );
    desk.write("toolgate.yaml", &format!("packs: []\n{}", beside.config("openai")));
    let talk = |args: &[&str], words: &str| {
        let mut chat = desk.command();
        chat.env("FAKE_KEY", "sk-CANARY").args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut chat = chat.spawn().unwrap();
        chat.stdin.take().unwrap().write_all(words.as_bytes()).unwrap();
        String::from_utf8(chat.wait_with_output().unwrap().stdout).unwrap()
    };
    assert!(talk(&["chat"], "I am Ada.\n").contains("Hello Ada."));
    let events = talk(&["chat", "--last", "--json"], "Who am I?\n");
    let last: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"]["text"], "You said your name is Ada.", "{events}");
    let bodies: Vec<String> = beside.seen().iter().map(|seen| seen.body.to_string()).collect();
    let last = bodies.last().unwrap();
    assert!(last.contains("I am Ada.") && last.contains("Hello Ada."), "{last}");
}

#[test]
fn the_doctor_says_what_is_wrong_and_what_to_do() {
    let adds = "replies: [{calls: [{tool: add, args: {a: 2, b: 3}}]}]";
    for (yaml, key, code, words) in [
        (adds, "sk-CANARY", 0, "answers, and calls tools"),
        (adds, "sk-wrong", 1, "OPENAI_API_KEY"),
        ("replies: [{text: five}]", "sk-CANARY", 1, "printed_tool_calls"),
    ] {
        let (desk, beside) = (Desk::new(), Beside::playing(yaml));
        desk.write("toolgate.yaml", &beside.config("openai"));
        let doctor = desk.command().env("FAKE_KEY", key).args(["doctor", "--json"]).output();
        let doctor = doctor.unwrap();
        let shown = String::from_utf8(doctor.stdout).unwrap();
        assert_eq!(doctor.status.code(), Some(code), "{shown}");
        let report: Value = serde_json::from_str(&shown).unwrap();
        let finding = report["models"][0].to_string();
        assert!(finding.contains(words) && !shown.contains(key), "{shown}");
    }
}

#[test]
fn a_trace_has_figures_and_no_bodies() {
    let (desk, beside) = (
        Desk::new(),
        Beside::playing(
            "replies: [{calls: [{tool: write_notes, args: {key: k, value: SECRETVALUE}}]}, \
             {text: Done.}]",
        ),
    );
    desk.write("toolgate.yaml", &format!("packs: [notes]\n{}", beside.config("anthropic")));
    let run = desk.command().env("FAKE_KEY", "sk-CANARY").args(["run", "x"]).output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
    let list: Value = serde_json::from_str(&desk.ok(&["sessions", "list", "--json"])).unwrap();
    let id = list["session"].as_str().unwrap();
    let trace = desk.ok(&["sessions", "trace", id]);
    assert!(!trace.contains("SECRETVALUE") && trace.contains("arguments_bytes"), "{trace}");
    assert!(desk.ok(&["sessions", "trace", id, "--bodies"]).contains("SECRETVALUE"));
    let events = desk.ok(&["sessions", "trace", id, "--events"]);
    let names: Vec<String> = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].to_string())
        .collect();
    let wanted = [
        "llm_request_start",
        "llm_request_end",
        "tool_call_start",
        "tool_call_end",
        "llm_request_start",
        "llm_request_end",
        "final",
    ];
    assert_eq!(names, wanted.map(|name| format!("\"{name}\"")));
}
