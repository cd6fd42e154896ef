//! `provider.stream`: what providers send, played by the fake over a real socket to a real driver.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_kernel::event::{Event, FaultKind, Finish};
use toolgate_kernel::tool::Effect;
use toolgate_runtime::Halt;
use toolgate_testkit::corpus::{Case, Outcome};
use toolgate_testkit::fake::{Bend, Fake, Fault, Play, Seen};
use toolgate_wire::dialect::Dialect;

use crate::corpus_bench::{Bench, crew, taking_text};
use crate::provider::{KEY, block_on, exchange, impatient, script, spec};

/// What a case's sentence describes: in which dialect, which faults, and whether the last goes on.
struct Staged {
    dialect: Dialect,
    stream: bool,
    faults: Vec<Fault>,
    for_ever: bool,
    /// Requests of the first turn at most.
    requests_max: usize,
}

impl Staged {
    fn new(dialect: Dialect, fault: &str, requests_max: usize) -> Self {
        let faults = vec![Fault::named(fault).unwrap()];
        Self { dialect, stream: true, faults, for_ever: true, requests_max }
    }

    fn once(self) -> Self {
        Self { for_ever: false, ..self }
    }

    fn fault(self, fault: Fault) -> Self {
        Self { faults: vec![fault], ..self }
    }
}

fn staged(case: &Case) -> Vec<Staged> {
    use Dialect::{Anthropic, Chat, Gemini};
    let limited = |value: &str| {
        let fault = Fault::status(429, "rate_limit_error").with("retry-after", value);
        Staged::new(Chat, "none", 2).fault(fault)
    };
    let one = match case.id.as_str() {
        "PRV-001" => Staged::new(Chat, "none", 4).fault(Fault::EndAt(500)),
        "PRV-003" => Staged::new(Chat, "truncated", 2),
        "PRV-006" => Staged { requests_max: 1, ..limited("86400") },
        "PRV-007" => Staged { requests_max: 1, ..limited("Wed, 21 Oct 2099 07:28:00 GMT") },
        "PRV-008" => return ["-5", "abc", "1e9"].map(|value| limited(value).once()).into(),
        "PRV-009" => {
            let code = |code| Staged::new(Chat, "none", 1).fault(Fault::status(429, code));
            return vec![code("credit_balance_exhausted"), code("insufficient_quota")];
        }
        "PRV-010" => Staged::new(Anthropic, "spend_limit", 1),
        "PRV-011" => Staged::new(Anthropic, "overloaded", 4),
        "PRV-012" => Staged::new(Chat, "html", 2).once(),
        "PRV-013" => Staged::new(Chat, "error_200", 4),
        "PRV-014" => Staged::new(Chat, "stop_with_calls", 1).once(),
        "PRV-015" => Staged::new(Chat, "no_calls", 2),
        "PRV-017" => Staged::new(Gemini, "malformed_call", 2),
        "PRV-019" => Staged::new(Gemini, "blocked", 1),
        "PRV-020" => Staged::new(Chat, "filtered_half_way", 1),
        "PRV-022" => Staged::new(Anthropic, "none", 1).once().fault(Fault::Bent(Bend::Paused)),
        "PRV-023" => Staged::new(Anthropic, "context_exceeded", 2),
        "PRV-024" => Staged::new(Chat, "unknown_finish", 1),
        "PRV-025" => Staged::new(Chat, "duplicate_ids", 1).once(),
        "PRV-026" => Staged::new(Chat, "shared_index", 1).once(),
        "PRV-027" => Staged::new(Chat, "index_from_one", 1).once(),
        "PRV-030" => Staged::new(Chat, "double_finish", 1).once(),
        // A name is never put together from pieces: the reply is asked for once more.
        "PRV-031" => Staged::new(Chat, "split_name", 2).once(),
        "PRV-032" => Staged::new(Chat, "repeated_name", 1).once(),
        "PRV-034" => Staged::new(Chat, "none", 1),
        "PRV-036" => Staged::new(Chat, "drip", 4),
        "PRV-038" => Staged::new(Chat, "pings", 4),
        "PRV-041" => Staged::new(Chat, "usage_lie", 1).once(),
        "PRV-042" => Staged::new(Chat, "printed_call", 1),
        "PRV-043" => Staged::new(Chat, "call_in_thoughts", 1),
        "PRV-045" => Staged::new(Chat, "redirect", 1),
        other => panic!("{other} is staged by nobody"),
    };
    vec![one]
}

/// The replies of a case. Most have two calls and then the last words.
fn replies(case: &Case) -> Value {
    let call = |path: &str| json!({"tool": "read", "args": {"path": path}});
    match case.id.as_str() {
        "PRV-034" => {
            let again = json!({"text": "Again.", "calls": [call("a.md")]});
            json!({"replies": vec![again; 50]})
        }
        // The pause itself is the first reply; the calls come when it goes on.
        "PRV-022" => json!({"replies": [
            {"text": "One moment."}, {"text": "Now.", "calls": [call("a.md")]}, {"text": "Done."},
        ]}),
        "PRV-042" | "PRV-043" => {
            json!({"replies": [{"text": "x", "calls": [call("a.md")]}]})
        }
        _ => serde_json::to_value(script()).unwrap(),
    }
}

pub(crate) fn play(case: &Case, bench: &Bench) -> Outcome {
    let mut outcomes: Vec<Outcome> = Vec::new();
    for (at, staged) in staged(case).iter().enumerate() {
        let session = if at == 0 { "case".to_owned() } else { format!("case-{at}") };
        let before = bench.effects().len();
        let (halt, seen) = block_on(played(case, bench, staged, &session));
        let refused: Vec<_> = seen.iter().filter_map(|seen| seen.refusal.as_ref()).collect();
        assert!(refused.is_empty(), "the provider refuses a request: {refused:?}");
        let told = format!("{halt:?} {:?}", bench.events());
        assert!(!told.contains("CANARY"), "{told}");
        let effects = bench.effects().len() - before;
        bench.allow_effects(bench.effects().len());
        outcomes.push(outcome(case, bench, &halt, effects));
        if outcomes[at] == Outcome::Reject {
            assert!(seen.len() <= staged.requests_max, "{} requests", seen.len());
        }
    }
    assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{outcomes:?}");
    outcomes[0]
}

/// Drives a session against the fake, to where it comes to a halt.
async fn played(case: &Case, bench: &Bench, staged: &Staged, session: &str) -> (Halt, Vec<Seen>) {
    let fake = Fake::start(Play {
        script: serde_json::from_value(replies(case)).unwrap(),
        faults: staged.faults.clone(),
        for_ever: staged.for_ever,
        key: Some(KEY.to_owned()),
        ..Play::default()
    });
    let fake = fake.await.unwrap();
    let mut spec = spec(staged.dialect, &fake, staged.stream);
    if ["drip", "ping-only"].contains(&case.category.as_str()) {
        (spec.patience, spec.turn_ms_max) = (impatient(), 300);
    }
    let tool = bench.reaching(taking_text("read", "path", Effect::External));
    let config = json!({
        "limits": {"retry_ms_max": 1, "model_failures_max": 1, "iteration_turns_max": 60},
        "settings": {"max_tool_calls_per_iteration": 60},
    });
    let mut crew = crew(config, vec![tool], Vec::new()).unwrap();
    crew.provider = Some(Arc::new(exchange().model(&spec).unwrap()));
    let mut driver = bench.open_as(session, crew).await;
    if session == "case" {
        bench.expect_state_of(&driver);
    }
    (driver.run(&|_| {}).await.unwrap(), fake.seen())
}

fn outcome(case: &Case, bench: &Bench, halt: &Halt, effects: usize) -> Outcome {
    let failed = bench.events().into_iter().find_map(|event| {
        let Event::ModelFailed { fault, reason, .. } = event else { return None };
        Some((fault, reason))
    });
    if let Some((kind, reason)) = failed {
        assert_eq!(effects, 0, "nothing of a failed turn runs");
        assert!(matches!(halt, Halt::ModelFailed(_)), "{halt:?}");
        if case.category == "429-retry-after" {
            assert!(reason.contains("until 20"), "{reason}");
        }
        return if kind == FaultKind::TimedOut { Outcome::Bounded } else { Outcome::Reject };
    }
    assert!(matches!(halt, Halt::Ended(..)), "{halt:?}");
    let refused =
        |event: &Event| matches!(event, Event::ModelReplied { finish: Finish::Refused, .. });
    match (case.id.as_str(), effects) {
        // Five times the same call is allowed; what comes after is answered and not run.
        ("PRV-034", 5) => Outcome::Bounded,
        (_, 0) if bench.events().iter().any(refused) => Outcome::Reject,
        (_, 0) => Outcome::Inert,
        ("PRV-022", 1) | (_, 2) => Outcome::Recover,
        (_, other) => panic!("each call runs once, and {other} ran"),
    }
}
