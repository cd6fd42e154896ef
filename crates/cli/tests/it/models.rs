//! Real models as people use them: the binary against a fake provider over a socket.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Beside, Desk};

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
            desk.write_trusted(&format!("{NOVEL}\n{model}"));
            let run =
                desk.command().env("FAKE_KEY", "sk-CANARY-01").args(["run", PREMISE]).output();
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
    desk.write_trusted(&format!("packs: []\n{}", beside.config("openai")));
    let talk = |args: &[&str], words: &str| {
        let mut chat = desk.command();
        chat.env("FAKE_KEY", "sk-CANARY-01")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut chat = chat.spawn().unwrap();
        chat.stdin.take().unwrap().write_all(words.as_bytes()).unwrap();
        String::from_utf8(chat.wait_with_output().unwrap().stdout).unwrap()
    };
    assert!(talk(&["chat"], "I am Ada.\n").contains("Hello Ada."));
    let list: Value = serde_json::from_str(&desk.ok(&["sessions", "list", "--json"])).unwrap();
    let id = list["session"].as_str().unwrap();
    let shown: Value = serde_json::from_str(&desk.ok(&["sessions", "show", id, "--json"])).unwrap();
    let figures = shown["phases"].as_object().unwrap().values().next().unwrap();
    assert_eq!(figures["iterations"], 1, "{shown}");
    assert_eq!(
        figures["tokens"],
        shown["requests"][0]["input_tokens"].as_u64().unwrap()
            + shown["requests"][0]["output_tokens"].as_u64().unwrap(),
        "{shown}"
    );
    let events = talk(&["chat", "--last", "--json"], "Who am I?\n");
    let last: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"]["text"], "You said your name is Ada.", "{events}");
    let bodies: Vec<String> = beside.seen().iter().map(|seen| seen.body.to_string()).collect();
    let last = bodies.last().unwrap();
    assert!(last.contains("I am Ada.") && last.contains("Hello Ada."), "{last}");
}

#[test]
fn what_a_model_began_the_demo_does_not_go_on_with() {
    let (desk, beside) = (Desk::new(), Beside::playing("replies: [{text: Hello Ada.}]"));
    desk.write_trusted(&format!("{NOVEL}\n{}", beside.config("openai")));
    let (code, told) = asked(&desk, &["chat", "I am Ada."]);
    assert_eq!(code, Some(0), "{told}");
    desk.write_trusted(NOVEL);
    let (code, told) = asked(&desk, &["chat", "Again.", "--last"]);
    assert!(code != Some(0) && told.contains("was begun with openai:"), "{told}");
}

#[test]
fn a_model_that_must_be_relied_on_can_be_measured() {
    let adds = "replies: [{calls: [{tool: add, args: {a: 2, b: 3}}]}]";
    let (desk, beside) = (Desk::new(), Beside::playing(adds));
    let enforced = "tool_calling: {tool_use_mode: Enforced}";
    desk.write_trusted(&format!("packs: []\n{enforced}\n{}", beside.config("openai")));
    let (code, told) = asked(&desk, &["check"]);
    assert!(code != Some(0) && told.contains("doctor --probe"), "{told}");
    let (_, told) = asked(&desk, &["doctor", "--probe", "1"]);
    assert!(told.contains("answers, and calls tools"), "{told}");
    // Too few to be measured must all be right.
    let once = "replies: [{calls: [{tool: add, args: {a: 2, b: 3}}]}, {text: no}]";
    let beside = Beside::playing(once);
    desk.write_trusted(&format!("packs: []\n{}", beside.config("openai")));
    let (code, told) = asked(&desk, &["doctor", "--probe", "2"]);
    assert!(code == Some(1) && told.contains("1 of 2 tool calls were right"), "{told}");
}

#[test]
fn the_doctor_asks_the_model_that_is_named_and_no_other() {
    let adds = "replies: [{calls: [{tool: add, args: {a: 2, b: 3}}]}, \
                {calls: [{tool: add, args: {a: 2, b: 3}}]}]";
    let (desk, one, two) = (Desk::new(), Beside::playing(adds), Beside::playing(adds));
    let (first, second) = (one.config("openai"), two.config("openai"));
    let second = second.trim_start_matches("models:").replace("  m: ", "  other: ");
    desk.write_trusted(&format!("packs: []\n{first}\n{second}"));
    let (code, told) = asked(&desk, &["doctor", "--probe", "1", "--model", "m"]);
    assert!(code == Some(0) && !told.contains("other"), "{told}");
    assert_eq!((one.seen().len(), two.seen().len()), (1, 0));
    let (_, told) = asked(&desk, &["doctor"]);
    assert!(told.contains("✓ m ") && told.contains("✓ other "), "{told}");
}

#[test]
fn the_doctor_asks_a_model_without_tools_for_words_and_looks_for_a_script() {
    let (desk, beside) = (Desk::new(), Beside::playing("replies: [{text: Five.}]"));
    let without = beside.config("openai").replace("{", "{capabilities: {tools: false}, ");
    desk.write_trusted(&format!("packs: []\n{without}"));
    let (code, told) = asked(&desk, &["doctor", "--probe", "5"]);
    assert!(code == Some(0) && told.contains("it calls no tools"), "{told}");
    assert_eq!(beside.seen().len(), 1);
    let (code, told) = asked(&desk, &["doctor", "--model", "script:nowhere.yaml"]);
    assert!(code == Some(1) && told.contains("nowhere.yaml cannot be read"), "{told}");
}

#[test]
fn the_doctor_says_what_is_wrong_and_what_to_do() {
    let adds = "replies: [{calls: [{tool: add, args: {a: 2, b: 3}}]}]";
    for (yaml, key, code, words) in [
        (adds, "sk-CANARY-01", 0, "answers, and calls tools"),
        (adds, "sk-wrong", 1, "Look at FAKE_KEY."),
        ("replies: [{text: five}]", "sk-CANARY-01", 1, "printed_tool_calls"),
    ] {
        let (desk, beside) = (Desk::new(), Beside::playing(yaml));
        desk.write_trusted(&beside.config("openai"));
        let doctor = desk.command().env("FAKE_KEY", key).args(["doctor", "--json"]).output();
        let doctor = doctor.unwrap();
        let shown = String::from_utf8(doctor.stdout).unwrap();
        assert_eq!(doctor.status.code(), Some(code), "{shown}");
        let report: Value = serde_json::from_str(&shown).unwrap();
        let finding = report["models"][0].to_string();
        assert!(finding.contains(words) && !shown.contains(key), "{shown}");
    }
}

/// Whoever is told to look at a key must find it there.
#[test]
fn the_doctor_says_where_the_key_of_a_model_comes_from() {
    let beside = Beside::playing("replies: [{text: five}]");
    let url = beside.fake.base_url("");
    let declared = |more: &str| {
        format!("models: {{m: {{provider: openai, model: fake-1, base_url: '{url}'{more}}}}}")
    };
    let set = |more: &str| format!("settings: {{model: fake-1, base_url: '{url}'{more}}}");
    let table = [
        (declared(", api_key: sk-wrong"), "Look at `models.m.api_key`."),
        (declared(", api_key: 'file:key.txt'"), "Look at the file key.txt."),
        (declared(", api_key: 'env:FAKE_KEY'"), "Look at FAKE_KEY."),
        (declared(", headers: {Authorization: Bearer sk-wrong}"), "Look at its `headers`."),
        (declared(""), "No key was sent: OPENAI_API_KEY goes to https://api.openai.com only."),
        (
            declared("").replace("openai", "ollama"),
            "No key was sent. Write `api_key: env:NAME` in `models.m`.",
        ),
        (declared(", headers: {X-Team: blue}"), "No key was sent"),
        (set(", api_key: sk-wrong"), "Look at `settings.api_key`."),
        (set(""), "Look at TOOLGATE_API_KEY."),
    ];
    for (config, words) in table {
        let desk = Desk::new();
        desk.write_trusted(&config);
        desk.write("key.txt", "sk-wrong");
        let mut doctor = desk.command();
        doctor.env("FAKE_KEY", "sk-wrong").env("TOOLGATE_API_KEY", "sk-other");
        let doctor = doctor.env("OPENAI_API_KEY", "sk-own").args(["doctor", "--json"]).output();
        let report: Value = serde_json::from_slice(&doctor.unwrap().stdout).unwrap();
        let fix = report["models"][0]["fix"].as_str().unwrap();
        assert!(fix.contains(words) && !fix.contains("sk-"), "{config}: {report}");
        let elsewhere = !words.contains("TOOLGATE") && fix.contains("TOOLGATE");
        assert!(!elsewhere, "{config}: {fix}");
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
    desk.write_trusted(&format!("packs: [notes]\n{}", beside.config("anthropic")));
    let run = desk.command().env("FAKE_KEY", "sk-CANARY-01").args(["run", "x"]).output().unwrap();
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

/// A desk whose model `m` is a fake, and a command that has its key.
fn asked(desk: &Desk, args: &[&str]) -> (Option<i32>, String) {
    let ran = desk.command().env("FAKE_KEY", "sk-CANARY-01").args(args).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    (ran.status.code(), said.into_owned())
}

#[test]
fn a_picture_is_not_sent_to_a_model_that_sees_none() {
    let (desk, beside) = (Desk::new(), Beside::playing("replies: [{text: Nice.}]"));
    let blind = beside.config("openai").replace("{prov", "{capabilities: {images: false}, prov");
    desk.write_trusted(&format!("packs: []\n{blind}"));
    // The smallest picture there is.
    let png = "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154\
               789c626001000000ffff03000006000557bfabd40000000049454e44ae426082";
    let bytes: Vec<u8> = (0..png.len() / 2)
        .map(|at| u8::from_str_radix(&png[at * 2..at * 2 + 2], 16).unwrap())
        .collect();
    std::fs::write(desk.project().join("p.png"), bytes).unwrap();
    for args in [["run", "x", "--image", "p.png"], ["chat", "x", "--image", "p.png"]] {
        let (code, said) = asked(&desk, &args);
        assert!(code == Some(2) && said.contains("m sees no pictures"), "{said}");
    }
    assert!(beside.seen().is_empty() && desk.ok(&["sessions", "list", "--json"]).is_empty());
    // A session that has begun takes no picture silently either.
    desk.write_trusted(&format!("packs: []\n{}", beside.config("openai")));
    assert_eq!(asked(&desk, &["run", "x", "--image", "p.png"]).0, Some(0));
    assert!(beside.seen()[0].body.to_string().contains("image_url"));
    let (code, said) = asked(&desk, &["run", "x", "--image", "p.png"]);
    assert!(code == Some(2) && said.contains("--new"), "{said}");
}

#[test]
fn the_doctor_asks_an_address_for_its_models() {
    let (desk, beside) = (Desk::new(), Beside::playing("replies: [{text: Done.}]"));
    let url = beside.fake.base_url("");
    let doctor = |url: &str, key: &str, form: &[&str]| {
        let mut doctor = desk.command();
        doctor.env("TOOLGATE_API_KEY", key).env("https_proxy", "http://127.0.0.1:1");
        let ran = doctor.args(["doctor", "--base-url", url]).args(form).output().unwrap();
        (ran.status.code(), String::from_utf8_lossy(&ran.stdout).into_owned())
    };
    let (code, said) = doctor(&url, "sk-CANARY-01", &[]);
    assert_eq!(code, Some(0), "{said}");
    for words in ["has 2 models", "fake-2", "--model fake-1", "https_proxy is set"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let (code, said) = doctor(&url, "sk-wrong", &["--json"]);
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &report["address"]["fault"]), (Some(1), &Value::from("unauthorized")));
    assert_eq!(report["unused_proxies"][0], "https_proxy");
    // Whoever names an address asks about that one alone, whatever is declared.
    let other = Beside::playing("replies: [{text: Done.}]");
    desk.write_trusted(&other.config("openai"));
    let (code, said) = doctor(&url, "sk-CANARY-01", &["--json"]);
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &report["models"]), (Some(0), &Value::Array(Vec::new())), "{said}");
    assert!(report["address"]["models"].is_array() && other.seen().is_empty(), "{said}");
    // A wrong scheme is told at once.
    let began = tokio::time::Instant::now();
    let (code, said) = doctor(&url.replace("http:", "https:"), "sk-CANARY-01", &[]);
    assert!(code == Some(1) && said.contains("write http://"), "{said}");
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
}

#[test]
fn a_key_that_a_server_echoes_is_neither_shown_nor_kept() {
    for (provider, stream) in [("openai", true), ("anthropic", true), ("gemini", false)] {
        let (desk, beside) = (
            Desk::new(),
            Beside::playing(
                "replies: [{text: 'Your key is sk-CANARY-01, is it?', calls: [{tool: write_notes, \
                 args: {key: k, value: 'it is sk-CANARY-01'}}]}, {text: Done.}]",
            ),
        );
        let config = beside.config(provider).replace("{prov", &format!("{{stream: {stream}, prov"));
        desk.write_trusted(&format!("packs: [notes]\n{config}"));
        let (code, said) = asked(&desk, &["run", "x", "--verbose"]);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("Your key is ***, is it?"), "{said}");
        let id = desk.ok(&["sessions", "list"]).split_whitespace().next().unwrap().to_owned();
        let export = desk.ok(&["sessions", "export", &id]);
        assert!(export.contains("it is ***") && !export.contains("CANARY"), "{export}");
        assert!(!said.contains("CANARY"), "{said}");
    }
}

#[test]
fn emoji_stay_whole_and_hidden_writing_is_shown() {
    let text = "Hi 👩\u{200d}💻, \u{202e}evil";
    let (desk, beside) =
        (Desk::new(), Beside::playing(&format!("replies: [{{text: \"{text}\"}}]")));
    desk.write_trusted(&format!("packs: []\n{}", beside.config("openai")));
    let (_, said) = asked(&desk, &["chat", "Hello."]);
    assert!(said.contains("Hi 👩\u{200d}💻, <U+202E>evil"), "{said}");
    assert!(!said.contains("waiting"), "what is for a terminal is not printed elsewhere");
}

#[test]
fn a_call_that_cannot_be_read_is_told_so_and_the_run_goes_on() {
    let twice = "replies: [{calls: [{tool: write_notes, args: {key: a, value: one}}, {tool: \
                 write_notes, args: {key: b, value: two}}]}, {text: Done.}]";
    // One fault is in the first call, the other in both.
    let faults = [
        ("deep_object", "ARGUMENTS_JSON_PARSE_ERROR", true),
        ("huge_args", "ARGUMENTS_TOO_LARGE", false),
    ];
    let all = faults.iter().flat_map(|fault| [(fault, true), (fault, false)]);
    for provider in ["openai", "openai_responses", "anthropic", "gemini"] {
        for ((fault, code, second), stream) in all.clone() {
            let (desk, beside) = (Desk::new(), Beside::failing(twice, &[fault]));
            let config =
                beside.config(provider).replace("{prov", &format!("{{stream: {stream}, prov"));
            // Whole, the refused arguments alone would fill this context.
            let room = "settings: {max_context_tokens: 20000}";
            desk.write_trusted(&format!("packs: [notes]\n{room}\n{config}"));
            let at = format!("{fault} of {provider}, streamed: {stream}");
            let (exit, said) = asked(&desk, &["run", "x", "--verbose"]);
            assert_eq!(exit, Some(0), "{at}: {said}");
            let seen = beside.seen();
            assert_eq!(seen.len(), 2, "{at}: nothing is asked twice: {said}");
            assert!(seen.iter().all(|seen| seen.refusal.is_none()), "{at}");
            let told = seen[1].body.to_string();
            assert!(told.contains(code), "{at}: {told}");
            assert!(told.len() < 40_000, "{at}: {} bytes", told.len());
            // Another call of the same reply did what it was asked for.
            let id = desk.ok(&["sessions", "list"]).split_whitespace().next().unwrap().to_owned();
            let export = desk.ok(&["sessions", "export", &id]);
            assert_eq!(export.contains("\"two\""), *second, "{at}: {export}");
            assert!(!export.contains("\"one\""), "{at}: {export}");
            assert_eq!(desk.run(&["verify"]).code, 0, "{at}");
        }
    }
}

#[test]
fn a_cache_that_is_preserved_outlives_a_change_of_phase() {
    let script = "replies: [{calls: [{tool: change_phase, args: {new_phase: TWO, reason: Ready.}}]}, \
                  {text: Done.}]";
    let phases = "phases: {ONE: {transitions: [TWO], tools: [+change_phase, +list_notes]}, TWO: \
                  {tools: [+list_notes, +read_notes]}}";
    let cached = |provider: &str, cache: &str| {
        let (desk, beside) = (Desk::new(), Beside::playing(script));
        let config = beside.config(provider).replace("{prov", &format!("{{cache: {cache}, prov"));
        desk.write_trusted(&format!("packs: [notes, phase]\n{phases}\n{config}"));
        let (exit, said) = asked(&desk, &["run", "x"]);
        assert_eq!(exit, Some(0), "{provider}: {said}");
        let id = desk.ok(&["sessions", "list"]).split_whitespace().next().unwrap().to_owned();
        let log: Value = serde_json::from_str(&desk.ok(&["sessions", "export", &id])).unwrap();
        let records = log["records"].as_array().unwrap().clone();
        let replied = |record: &&Value| record["event"]["kind"] == "model_replied";
        let second = records.iter().filter(replied).nth(1).unwrap().clone();
        let seen = beside.seen();
        let same = seen[0].body["tools"] == seen[1].body["tools"];
        assert_eq!(same, cache == "preserve", "{provider}: {}", seen[1].body);
        let shown: Value =
            serde_json::from_str(&desk.ok(&["sessions", "show", &id, "--json"])).unwrap();
        let usage = &second["event"]["usage"];
        for row in [&shown["requests"][1], &shown["transitions"][0]] {
            assert_eq!(row["cached_tokens"], usage["cached_tokens"], "{shown}");
        }
        assert!(said.contains("1 phase change cost"), "{said}");
        usage["cached_tokens"].as_u64().unwrap_or(0)
    };
    for provider in ["openai_responses", "gemini"] {
        let (with, without) = (cached(provider, "preserve"), cached(provider, "exact"));
        assert!(with > without * 2, "{provider}: {with} tokens were cached, {without} without");
    }
}

/// A conversation that is typed, all that was shown of it.
fn typed(desk: &Desk, args: &[&str], words: &str) -> String {
    let mut chat = desk.command();
    chat.env("FAKE_KEY", "sk-CANARY-01").args(args).stdin(Stdio::piped());
    let mut chat = chat.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    chat.stdin.take().unwrap().write_all(words.as_bytes()).unwrap();
    let out = chat.wait_with_output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

#[test]
fn paragraphs_stay_apart() {
    let said = "replies: [{text: \"\\n\\nOne.\\n\\n\\nTwo.\\nThree.\\n\\n\"}]";
    for stream in [true, false] {
        let (desk, beside) = (Desk::new(), Beside::playing(said));
        let config = beside.config("openai").replace("{prov", &format!("{{stream: {stream}, prov"));
        desk.write_trusted(&format!("packs: []\n{config}"));
        let (_, shown) = asked(&desk, &["chat", "Hello."]);
        assert!(shown.contains("  One.\n\n  Two.\n  Three.\n"), "{stream}: {shown:?}");
        assert!(!shown.contains("Three.\n\n") && !shown.contains("\n\n  One."), "{shown:?}");
    }
}

#[test]
fn a_conversation_says_why_its_model_failed_and_which_phase_is_near() {
    let (desk, beside) =
        (Desk::new(), Beside::failing("replies: [{text: Hello.}]", &["bad_request"]));
    let phases = "phases: {OUTLINE: {}, DRAFT: {}}";
    desk.write_trusted(&format!("packs: []\n{phases}\n{}", beside.config("openai")));
    let told = typed(&desk, &["chat"], "/phase OUTLNE\n/phase draft\n/phase NOPE\n/why\n");
    for words in ["did you mean OUTLINE?", "did you mean DRAFT?", "there are OUTLINE, DRAFT"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(told.contains("Nothing was called yet."), "{told}");
    // Words that come from no terminal end with the first failure; the log keeps why.
    typed(&desk, &["chat"], "Hi.\n");
    let told = typed(&desk, &["chat", "--last"], "/why\n");
    assert!(told.contains("The model failed (bad_request)"), "{told}");
    assert!(told.contains("staged"), "{told}");
}

/// What would be ignored is told: a declared model says itself where it is reached.
#[test]
fn an_address_beside_a_declared_model_is_an_error() {
    let (desk, beside) = (Desk::new(), Beside::playing("replies: [{text: Hello.}]"));
    desk.write_trusted(&format!("packs: []\n{}", beside.config("openai")));
    let elsewhere = ["--base-url", "http://127.0.0.1:9/v1"];
    for command in [vec!["chat", "Hi."], vec!["doctor", "--model", "m"]] {
        let (code, told) = asked(&desk, &[command.as_slice(), &elsewhere].concat());
        assert!(code != Some(0) && told.contains("declared under `models`"), "{told}");
    }
    assert_eq!(beside.seen().len(), 0, "nothing was sent");
    // What lies in the environment is for models that are not declared.
    let mut chat = desk.command();
    chat.env("TOOLGATE_BASE_URL", "http://127.0.0.1:9/v1").env("TOOLGATE_API_KEY", "sk-other");
    let chat = chat.env("FAKE_KEY", "sk-CANARY-01").args(["chat", "Hi."]).output().unwrap();
    assert!(String::from_utf8_lossy(&chat.stdout).contains("Hello."), "{chat:?}");
    for key in ["base_url: 'http://127.0.0.1:9'", "api_key: 'env:OTHER'"] {
        let settings = format!("packs: []\nsettings: {{{key}}}\n{}", beside.config("openai"));
        desk.write("toolgate.yaml", &settings);
        let checked = desk.run(&["check"]);
        assert!(checked.code != 0 && checked.out.contains("declared under"), "{}", checked.out);
    }
}

/// A reply of very many calls goes by faster than anybody shows it, and nothing of it is left out.
#[test]
fn every_event_is_printed_as_json_however_many_come_at_once() {
    let calls = "{tool: list_notes, args: {}}, ".repeat(1_100);
    let script = format!("replies: [{{calls: [{calls}]}}, {{text: Done.}}]");
    let (desk, beside) = (Desk::new(), Beside::playing(&script));
    let settings = "packs: [notes]\nlimits: {reply_calls_max: 2000}";
    desk.write_trusted(&format!("{settings}\n{}", beside.config("openai")));
    let mut chat = desk.command();
    let chat = chat.env("FAKE_KEY", "sk-CANARY-01").args(["chat", "Hi.", "--json"]).output();
    let printed = String::from_utf8(chat.unwrap().stdout).unwrap();
    let seqs: Vec<u64> = printed
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap())
        .collect();
    let first = seqs.first().copied().unwrap();
    assert!(seqs.len() > 1_100, "{}", seqs.len());
    assert!(seqs.iter().copied().eq((first..).take(seqs.len())), "{seqs:?}");
}

/// Each wait has its own bound, and the log says which one was over.
#[test]
fn a_model_that_falls_silent_is_waited_for_as_long_as_the_file_says() {
    for (fault, key, why) in [
        ("silence", "first_byte_ms_max", "the first byte of the answer took more than 60 ms"),
        ("stall", "idle_ms_max", "took more than 60 ms"),
    ] {
        let (desk, beside) =
            (Desk::new(), Beside::failing("replies: [{text: Hello.}]", &[fault, fault]));
        let model = beside.config("openai").replace("{provider", &format!("{{{key}: 60, provider"));
        let limits = "limits: {attempts_max: 2, backoff_ms_max: 1}";
        desk.write_trusted(&format!("packs: []\n{limits}\n{model}"));
        let (_, told) = asked(&desk, &["chat", "Hi.", "--json"]);
        assert!(told.contains(why), "{fault}: {told}");
        assert_eq!(beside.seen().len(), 2, "{fault}: {told}");
    }
    let desk = Desk::new();
    desk.write("toolgate.yaml", "models: {m: {provider: openai, model: m, idle_ms_max: 0}}");
    let told = desk.run(&["check"]);
    assert!(told.code != 0 && told.out.contains("idle_ms_max"), "{}", told.out);
}

#[test]
fn the_doctor_tells_an_endpoint_and_a_redirect_apart() {
    let faults = ["redirect", "not_found"];
    let (desk, beside) = (Desk::new(), Beside::failing("replies: [{text: Hi.}]", &faults));
    let config = beside.config("openai");
    desk.write_trusted(&config);
    let (code, told) = asked(&desk, &["doctor", "--json"]);
    assert!(code == Some(1) && told.contains("points to http://127.0.0.1:9/elsewhere"), "{told}");
    let port = format!("{}'", beside.fake.port());
    let pasted = config.replace(&port, &port.replace('\'', "/v1/chat/completions'"));
    desk.write_trusted(&pasted);
    let (code, told) = asked(&desk, &["doctor", "--json"]);
    assert!(code == Some(1) && told.contains("which toolgate adds itself"), "{told}");
    let (code, told) = asked(&desk, &["check"]);
    assert!(code == Some(0) && told.contains("ends with /chat/completions"), "{told}");
}

#[test]
fn what_a_flag_says_is_not_blamed_on_the_file() {
    let (desk, beside) = (Desk::new(), Beside::playing("replies: [{text: Hi.}]"));
    let url = beside.fake.base_url("");
    let model = format!("settings: {{model: openai:fake-1, base_url: '{url}'}}");
    desk.write("toolgate.yaml", &format!("packs: []\n{model}\n"));
    for (args, whence) in [
        (["chat", "Hi.", "--base-url", "nonsense"], "--base-url cannot be used: 1 error"),
        (["chat", "Hi.", "--model", "gemini:"], "--model cannot be used: 1 error"),
    ] {
        let (code, told) = asked(&desk, &args);
        assert!(code == Some(2) && told.contains(whence), "{told}");
        assert!(!told.contains("toolgate.yaml"), "{told}");
    }
    desk.write("toolgate.yaml", "packs: []\nsettings: {base_url: nonsense}\n");
    let (code, told) = asked(&desk, &["chat", "Hi."]);
    assert!(code == Some(2) && told.contains("toolgate.yaml cannot be used"), "{told}");
}

#[test]
fn a_switch_for_parallel_calls_is_sent_to_the_server_it_was_written_for() {
    let reply = "replies: [{text: Done.}]";
    for (own, sent) in [
        ("tool_calling: {request_overrides: {parallel_tool_calls: true}}, ", Some(true)),
        ("tool_calling: {request_overrides: {parallel_tool_calls: false}}, ", Some(false)),
        ("capabilities: {parallel_tool_calls: false}, ", None),
        ("", None),
    ] {
        let (desk, beside) = (Desk::new(), Beside::playing(reply));
        let config = beside.config("openai").replace("{prov", &format!("{{{own}prov"));
        desk.write_trusted(&format!("packs: [notes]\n{config}"));
        let (code, said) = asked(&desk, &["run", "x"]);
        assert_eq!(code, Some(0), "{said}");
        let found = beside.seen()[0].body.get("parallel_tool_calls").and_then(Value::as_bool);
        assert_eq!(found, sent, "{own}");
    }
}

/// A chat whose terminal is gone ends; it does not ask for ever.
#[test]
fn a_chat_ends_with_its_terminal() {
    let desk = Desk::new();
    desk.write("s.yaml", "replies: [{text: Hello.}]\n");
    let mut command = desk.command();
    command.args(["chat", "--model", "script:s.yaml"]).env("TERM", "xterm");
    assert_eq!(crate::terminal::hanging_up(command, "> "), Some(0));
}

/// What came of a reply stands on the screen before the words of the next one, and those stand
/// there once.
#[test]
fn words_that_stream_come_after_what_was_before_them() {
    let said = "replies:\n  - {text: First words., calls: [{tool: write_notes, args: {}}]}\n  \
        - {text: Second words.}\n";
    let (desk, beside) = (Desk::new(), Beside::slowly(said, 100));
    desk.write_trusted(&format!("packs: [notes]\n{}", beside.config("openai")));
    let mut command = desk.command();
    command.args(["chat", "Hello.", "--model", "m"]).env("FAKE_KEY", "sk-CANARY-01");
    command.env("TERM", "xterm");
    let seen = crate::terminal::typing(command, &[("Second words.", "/quit")], || {});
    let at = |words: &str| seen.screen.find(words).unwrap_or_else(|| panic!("{}", seen.screen));
    assert!(at("First words.") < at("ARGUMENTS_INVALID"), "{}", seen.screen);
    assert!(at("ARGUMENTS_INVALID") < at("Second words."), "{}", seen.screen);
    assert_eq!(seen.screen.matches("Second words.").count(), 1, "{}", seen.screen);
}

/// A run that may fail often waits for a provider that is left alone, and goes on.
#[test]
fn a_run_waits_for_a_provider_that_is_left_alone() {
    let (desk, beside) =
        (Desk::new(), Beside::failing("replies: [{text: Hello.}]", &["overloaded", "overloaded"]));
    let limits = "limits: {model_failures_max: 9, attempts_max: 1, retry_ms_max: 1, \
                  breaker_failures_max: 1, breaker_rest_ms_max: 300}";
    desk.write_trusted(&format!("packs: []\n{limits}\n{}", beside.config("openai")));
    let (code, shown) = asked(&desk, &["run", "Hi."]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("model — it is left alone until"), "{shown}");
    assert!(shown.contains("Hello."), "{shown}");
    assert!(!shown.contains("ended: the server answered"), "it is said once: {shown}");
    assert_eq!(beside.seen().len(), 3, "nobody asked in between");
}

/// Asking again where everything was answered does nothing, and says so.
#[test]
fn there_is_nothing_to_ask_again_after_an_answer() {
    let (desk, beside) = (Desk::new(), Beside::playing("replies: [{text: Hello.}]"));
    desk.write_trusted(&format!("packs: []\n{}", beside.config("openai")));
    let told = typed(&desk, &["chat"], "/retry\nHi.\n/retry\n");
    assert!(told.contains("Nothing was said yet."), "{told}");
    assert!(told.contains("There is nothing to ask again"), "{told}");
    assert_eq!(beside.seen().len(), 1);
}

/// Of two that are declared as one and the same model, everything says which one is meant.
#[test]
fn two_of_one_model_are_told_apart() {
    let script = "replies: [{text: Hello.}]";
    let (desk, broken, beside) =
        (Desk::new(), Beside::failing(script, &["unauthorized"]), Beside::playing(script));
    let first = broken.config("openai").replace("'env:FAKE_KEY'", "'env:FAKE_KEY', fallback: n");
    let second = beside.config("openai").replace("models:\n  m:", "  n:");
    desk.write_trusted(&format!("packs: []\n{first}{second}"));
    let (code, shown) = asked(&desk, &["run", "Hi.", "--model", "m"]);
    assert_eq!(code, Some(0), "{shown}");
    let told = "openai:fake-1 (n) answered in place of openai:fake-1 (m)";
    assert!(shown.contains(told), "{shown}");
    let sessions = desk.run(&["sessions", "list", "--json"]);
    let listed: Value = serde_json::from_str(sessions.out.lines().next().unwrap()).unwrap();
    let id = listed["session"].as_str().unwrap().to_owned();
    let trace = desk.run(&["sessions", "trace", &id]).out;
    assert!(trace.contains("\"model\":\"openai:fake-1 (m)\""), "{trace}");
    // As it is, it is neither of them, and that is said.
    let (code, shown) = asked(&desk, &["run", "Hi.", "--new", "--model", "openai:fake-1"]);
    assert!(code != Some(0) && shown.contains("what is declared as m, n does not hold"), "{shown}");
}

/// Whoever wants no parallel calls of a model gets none, also where it stands in for another.
#[test]
fn a_model_that_stands_in_is_held_to_one_call_where_that_is_wanted() {
    let two = "replies: [{calls: [{tool: write_notes, args: {key: a, data: 1}}, \
               {tool: write_notes, args: {key: b, data: 2}}]}, {text: Done.}]";
    let alone = ", tool_calling: {request_overrides: {parallel_tool_calls: false}}";
    for (calling, done) in [("", 2), (alone, 1)] {
        let (desk, beside) = (Desk::new(), Beside::playing(two));
        let broken = Beside::failing(two, &["unauthorized", "unauthorized"]);
        let with = |config: String, more: &str| {
            config.replace("'env:FAKE_KEY'", &format!("'env:FAKE_KEY'{more}"))
        };
        let first = with(broken.config("openai"), ", fallback: n");
        let second = with(beside.config("openai"), calling).replace("models:\n  m:", "  n:");
        let settings = "packs: [notes]\nsettings: {model: m}";
        desk.write_trusted(&format!("{settings}\n{first}{second}"));
        let (code, told) = asked(&desk, &["run", "Write two notes."]);
        assert_eq!(code, Some(0), "{told}");
        assert_eq!(told.matches("✓ write_notes").count(), done, "{told}");
        assert_eq!(told.contains("A turn runs at most 1"), done == 1, "{told}");
    }
}

/// A failure is told of until the model has answered, and then no more.
#[test]
fn why_tells_of_no_failure_that_is_over() {
    let beside = Beside::failing("replies: [{text: Hello.}]", &["server_error"]);
    let desk = Desk::new();
    let config = format!("packs: []\nlimits: {{attempts_max: 1}}\n{}", beside.config("openai"));
    desk.write_trusted(&config);
    let why = || {
        let mut chat = desk.command();
        chat.env("FAKE_KEY", "sk-CANARY-01").args(["chat", "--last"]);
        let mut chat = chat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        chat.stdin.take().unwrap().write_all(b"/why\n").unwrap();
        String::from_utf8(chat.wait_with_output().unwrap().stdout).unwrap()
    };
    asked(&desk, &["chat", "Hi."]);
    assert!(why().contains("The model failed (overloaded)"), "{}", why());
    let (_, told) = asked(&desk, &["chat", "--last", "Hi again."]);
    assert!(told.contains("Hello."), "{told}");
    assert!(why().contains("the last reply is whole"), "{}", why());
    // Where nothing failed, that is said.
    let (desk, beside) = (Desk::new(), Beside::playing("replies: [{text: Hello.}]"));
    desk.write_trusted(&format!("packs: []\n{}", beside.config("openai")));
    let told = typed(&desk, &["chat"], "Hi.\n/why\n");
    assert!(told.contains("no reply failed"), "{told}");
}

/// The last word of a reply that fails stands with the others, before why it failed.
#[test]
fn the_words_of_a_reply_that_fails_are_shown_before_why() {
    let beside = Beside::failing("replies: [{text: First words.}]", &["unknown_finish"]);
    let desk = Desk::new();
    desk.write_trusted(&format!("packs: []\n{}", beside.config("openai")));
    let (_, told) = asked(&desk, &["chat", "Hi."]);
    let at = |words: &str| told.find(words).unwrap_or_else(|| panic!("{words}: {told}"));
    assert!(at("First words.") < at("✗ model"), "{told}");
}
