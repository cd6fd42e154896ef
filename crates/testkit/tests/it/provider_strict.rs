//! Whole runs against servers that are strict, odd or without tools: what reaches the gate, and what
//! is sent.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_kernel::config::Transform;
use toolgate_kernel::event::{Ending, Event, FaultKind};
use toolgate_kernel::tool::Effect;
use toolgate_runtime::Halt;
use toolgate_runtime::port::{Output, Tool};
use toolgate_testkit::fake::{Fake, Fault, Play, Seen};
use toolgate_wire::dialect::Dialect;
use toolgate_wire::transform::Transforms;

use crate::corpus_bench::{Bench, crew, doing, taking_text};
use crate::provider::{KEY, ask, block_on, exchange, play, spec};

/// A run: what the model says, what goes wrong, and how it is asked.
struct Run {
    replies: Value,
    faults: Vec<Fault>,
    strict: bool,
    config: Value,
    transforms: Vec<Transform>,
    stream: bool,
}

impl Run {
    fn new(replies: Value) -> Self {
        let config = json!({});
        Self { replies, faults: vec![], strict: false, config, transforms: vec![], stream: false }
    }

    fn named(self, fault: &str) -> Self {
        Self { faults: vec![Fault::named(fault).unwrap()], ..self }
    }

    /// Plays it to its end with a tool that reaches the world.
    fn play(self, bench: &Bench) -> (Halt, Vec<Seen>) {
        let tool = bench.reaching(taking_text("read", "path", Effect::External));
        self.play_with(bench, tool)
    }

    fn play_with(self, bench: &Bench, tool: Arc<dyn Tool>) -> (Halt, Vec<Seen>) {
        block_on(async {
            let fake = Fake::start(Play {
                script: serde_json::from_value(json!({ "replies": self.replies })).unwrap(),
                faults: self.faults,
                strict: self.strict,
                key: Some(KEY.to_owned()),
                ..Play::default()
            });
            let fake = fake.await.unwrap();
            let mut spec = spec(Dialect::Chat, &fake, self.stream);
            let names =
                self.transforms.iter().map(|transform| (transform.kind(), transform.name()));
            spec.options.transforms = Transforms::parse(names).unwrap();
            let mut config = json!({"limits": {"retry_ms_max": 1, "model_failures_max": 1}});
            config.as_object_mut().unwrap().extend(self.config.as_object().unwrap().clone());
            let mut crew = crew(config, vec![tool], Vec::new()).unwrap();
            crew.provider = Some(Arc::new(exchange().model(&spec).unwrap()));
            let mut driver = bench.open_as("case", crew).await;
            (driver.run(&|_| {}).await.unwrap(), fake.seen())
        })
    }
}

fn call(path: &str) -> Value {
    json!({"tool": "read", "args": {"path": path}})
}

fn failures(bench: &Bench) -> Vec<FaultKind> {
    let fault = |event: Event| {
        let Event::ModelFailed { fault, .. } = event else { return None };
        Some(fault)
    };
    bench.events().into_iter().filter_map(fault).collect()
}

fn roles(seen: &Seen) -> Vec<&str> {
    let messages = seen.body["messages"].as_array().unwrap();
    messages.iter().map(|message| message["role"].as_str().unwrap()).collect()
}

/// Calls with a note beside their results, a silent reply with its question, and the last words:
/// what Mistral takes with the transforms, and refuses without.
#[test]
fn a_strict_server_takes_every_request_of_a_run() {
    let strict = [Transform::AlternateRoles, Transform::ShortIds];
    for stream in [false, true] {
        for (without, refused) in [
            (None, ""),
            (Some(Transform::AlternateRoles), "Unexpected role 'user' after role 'tool'"),
            (Some(Transform::ShortIds), "Tool call id was call_0_0"),
        ] {
            let replies = json!([
                {"text": "", "calls": [call("a.md"), call("b.md"), call("c.md"), call("d.md")]},
                {"text": ""},
                {"text": "Done."},
            ]);
            let transforms = strict.iter().copied().filter(|t| Some(*t) != without).collect();
            let config = json!({"settings": {"max_tool_calls_per_iteration": 5}});
            let run = Run { strict: true, stream, transforms, config, ..Run::new(replies) };
            let bench = Bench::new();
            let (halt, seen) = run.play(&bench);
            let complaints: Vec<&String> =
                seen.iter().filter_map(|seen| seen.refusal.as_ref()).collect();
            if without.is_some() {
                assert!(complaints[0].contains(refused), "{complaints:?}");
                assert!(matches!(halt, Halt::ModelFailed(_)), "{halt:?}");
                continue;
            }
            assert!(complaints.is_empty(), "{complaints:?}");
            assert!(matches!(halt, Halt::Ended(Ending::Completed, _)), "{halt:?}");
            assert_eq!(bench.effects().len(), 4);
            let last = seen.last().unwrap();
            assert_eq!(
                roles(last).join(" "),
                "system user assistant tool tool tool tool assistant user assistant user",
            );
            // What was sent once is sent again, byte for byte.
            for (before, after) in seen.iter().zip(seen.iter().skip(1)) {
                let text = |seen: &Seen| seen.body["messages"].to_string();
                let before = text(before);
                assert!(text(after).starts_with(before.trim_end_matches(']')), "{before}");
            }
        }
    }
}

/// T20 and T21: whatever form the one call comes in, it runs once, through the gate.
#[test]
fn a_call_in_an_old_form_runs_once() {
    let cases = [
        ("old_call", vec![]),
        ("old_call", vec![Transform::FunctionCall]),
        ("single_call", vec![]),
        ("single_call", vec![Transform::CallsToArray]),
    ];
    for (fault, transforms) in cases {
        for stream in [false, true] {
            let at = format!("{fault} {transforms:?} {stream}");
            let replies = json!([{"text": "", "calls": [call("a.md")]}, {"text": "Done."}]);
            let run = Run { transforms: transforms.clone(), stream, ..Run::new(replies) };
            let bench = Bench::new();
            let (halt, seen) = run.named(fault).play(&bench);
            assert!(matches!(halt, Halt::Ended(Ending::Completed, _)), "{at}: {halt:?}");
            assert_eq!(bench.effects().len(), 1, "{at}");
            assert_eq!(json!(bench.seen()), json!([{"path": "a.md"}]), "{at}");
            assert!(seen.iter().all(|seen| seen.refusal.is_none()), "{at}: {seen:?}");
            assert!(roles(&seen[1]).ends_with(&["assistant", "tool"]), "{at}");
        }
    }
}

/// T29: a provider that takes no tools, in the words and with the status that providers have.
#[test]
fn a_provider_without_tools_is_asked_once_more_without_them() {
    let refusals = [
        (404, "not_found", "No endpoints found that support tool use."),
        (400, "invalid_request_error", "registry.ollama.ai/library/x does not support tools"),
    ];
    for (status, code, words) in refusals {
        for (retries, wanted) in [(1, 2), (0, 1)] {
            let at = format!("{status}, {retries} retries");
            let faults = vec![Fault::status(status, code).saying(words)];
            let config = json!({"tool_calling": {"fallback_retry_count": retries}});
            let run = Run { faults, config, ..Run::new(json!([{"text": "Just words."}])) };
            let bench = Bench::new();
            let (halt, seen) = run.play(&bench);
            assert_eq!(seen.len(), wanted, "{at}");
            assert!(seen[0].body.get("tools").is_some(), "{at}");
            if retries == 0 {
                assert!(matches!(halt, Halt::ModelFailed(_)), "{at}: {halt:?}");
                continue;
            }
            assert!(matches!(halt, Halt::Ended(Ending::Completed, _)), "{at}: {halt:?}");
            let body = &seen[1].body;
            assert!(body.get("tools").is_none() && body.get("tool_choice").is_none(), "{at}");
        }
    }
}

/// A wrong key is no reason to ask without tools.
#[test]
fn a_wrong_key_is_not_asked_for_without_tools() {
    let config = json!({"tool_calling": {"fallback_retry_count": 1}});
    let run = Run { config, ..Run::new(json!([{"text": "x"}])) }.named("wrong_key");
    let bench = Bench::new();
    let (halt, seen) = run.play(&bench);
    assert!(matches!(halt, Halt::ModelFailed(_)), "{halt:?}");
    assert_eq!((seen.len(), failures(&bench)), (1, vec![FaultKind::Unauthorized]));
}

/// T6: a result that is too long is told as such, and that is mended like any other result.
#[test]
fn a_result_that_is_too_long_is_told_and_mended() {
    for transforms in [vec![], vec![Transform::CompactEnvelope]] {
        let compact = !transforms.is_empty();
        let replies = json!([{"text": "", "calls": [call("a.md")]}, {"text": "Done."}]);
        let config = json!({"tool_calling":
            {"max_tool_output_bytes": 1_000, "result_format": "envelope"}});
        let bench = Bench::new();
        let tool = doing(taking_text("read", "path", Effect::Read), |_| {
            Output::data("Read.", &json!({"words": "x".repeat(5_000)}))
        });
        let run = Run { transforms, config, ..Run::new(replies) };
        let (halt, seen) = run.play_with(&bench, tool);
        assert!(matches!(halt, Halt::Ended(Ending::Completed, _)), "{halt:?}");
        let sent = seen[1].body["messages"].as_array().unwrap().last().unwrap().clone();
        let told: Value = serde_json::from_str(sent["content"].as_str().unwrap()).unwrap();
        assert_eq!(told["errors"][0]["code"], "TOOL_OUTPUT_TOO_LARGE", "{told}");
        let empty = ["warnings", "data"].iter().any(|key| told.get(*key).is_some());
        assert_eq!(empty, !compact, "{told}");
    }
}

/// Who watches a stream sees the thought as a thought.
#[test]
fn a_thought_among_the_words_is_not_shown_as_words() {
    block_on(async {
        let fault = Fault::named("call_in_inline_thought").unwrap();
        let fake = Fake::start(play(vec![fault])).await.unwrap();
        let mut spec = spec(Dialect::Chat, &fake, true);
        let thought = Transform::LeadingThought;
        spec.options.transforms = Transforms::parse([(thought.kind(), thought.name())]).unwrap();
        let came = ask(&exchange().model(&spec).unwrap(), &fake).await;
        assert_eq!(came.streamed, "Let me look at both.");
        assert_eq!(came.reply.unwrap().text, "Let me look at both.");
    });
}

/// A call in a thought never runs, and the thought is no part of the words.
#[test]
fn a_call_in_a_thought_among_the_words_does_not_run() {
    let thoughts = [Transform::LeadingThought, Transform::PrintedTags];
    for transforms in [&thoughts[..], &thoughts[1..]] {
        for stream in [false, true] {
            let replies = json!([{"text": "All is well.", "calls": [call("a.md")]}]);
            let run = Run { transforms: transforms.to_vec(), stream, ..Run::new(replies) };
            let bench = Bench::new();
            let (halt, _) = run.named("call_in_inline_thought").play(&bench);
            assert!(matches!(halt, Halt::Ended(Ending::Completed, _)), "{halt:?}");
            assert_eq!(bench.effects().len(), 0);
            let words = bench.events().into_iter().find_map(|event| {
                let Event::ModelReplied { text, .. } = event else { return None };
                Some(text.to_string())
            });
            let words = words.unwrap();
            match transforms.len() {
                2 => assert_eq!(words, "All is well."),
                _ => assert!(words.contains("<think>"), "{words}"),
            }
        }
    }
}
