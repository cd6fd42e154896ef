//! Every tool in every phase by every way in: what runs is exactly what is shown (P04).
//!
//! The ways in that exist so far: a client's call, a model's turn, a batch, and a resume. MCP,
//! HTTP, evals and sub-agents come in through the same `Driver` and belong here once they exist.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_kernel::event::{CallRefused, CallSettled, DenialKind, Event, Outcome, StreamId};
use toolgate_kernel::names::PhaseName;
use toolgate_kernel::tool::{Effect, SpecDraft};
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::port::Tool;
use toolgate_runtime::{Crew, Driver};

use crate::corpus_bench::{Bench, Hanging, client, crew, session, taking_text, with_model};
use crate::scenarios::block_on;

const TOOLS: &[&str] = &["look", "sketch", "publish", "forbidden"];

/// What each phase shows of these; `forbidden` is denied everywhere, whatever a phase says.
const PHASES: &[(&str, &[&str])] = &[
    ("draft", &["look", "sketch"]),
    ("review", &["look"]),
    ("release", &["look", "publish"]),
    ("done", &[]),
];

const WAYS: &[&str] = &["client", "model", "batch", "resume"];

fn config() -> Value {
    let phases: serde_json::Map<String, Value> = PHASES
        .iter()
        .map(|(name, tools)| {
            let granted: Vec<_> = tools.iter().chain(&["forbidden", "hang"]).collect();
            ((*name).to_owned(), json!({"tools": {"include": granted}}))
        })
        .collect();
    json!({"phases": phases, "deny": ["forbidden"], "limits": {"call_ms_max": 100}})
}

fn made(bench: &Bench) -> Crew {
    let draft = |name: &&str| taking_text(name, "secret_channel", Effect::External);
    let mut tools: Vec<_> = TOOLS.iter().map(|name| bench.reaching(draft(name))).collect();
    let hang = SpecDraft::new("hang", "Waits.").effect(Effect::Staged).build().unwrap();
    let hang: Arc<dyn Tool> = Arc::new(Hanging(Arc::new(hang)));
    tools.push(hang);
    crew(config(), tools, Vec::new()).unwrap()
}

const ARGS: &str = r#"{"secret_channel":"x"}"#;

/// Calls one tool in one phase by one way.
async fn enter(bench: &Bench, name: &str, phase: &str, tool: &str, way: &str) {
    let call = |tool| vec![(tool, ARGS.to_owned(), "")];
    let turn = match way {
        "batch" => TOOLS.iter().map(|other| (*other, ARGS.to_owned(), "")).collect(),
        "resume" => [vec![("hang", "{}".to_owned(), "")], call(tool)].concat(),
        _ => call(tool),
    };
    let crew = with_model(made(bench), &[turn]);
    let mut driver = bench.open_as(name, crew.clone()).await;
    let (ada, to) =
        (toolgate_kernel::actor::Actor::Human("ada".into()), PhaseName::parse(phase).unwrap());
    driver.move_to(&ada, &to, "the matrix").await.unwrap();
    match way {
        "client" => drop(driver.call(&client(), tool, ARGS, None).await.unwrap()),
        "resume" => {
            let cut = tokio::time::timeout(Duration::from_millis(20), driver.run(&|_| {})).await;
            assert!(cut.is_err(), "{name}");
            drop(driver);
            let runtime = Arc::clone(&bench.runtime);
            let mut again = Driver::resume(runtime, crew, session(name)).await.unwrap();
            again.settle_open().await.unwrap();
        }
        _ => drop(driver.run(&|_| {}).await.unwrap()),
    }
}

/// What the log says of each call: its tool as written, and whether it ran or was denied.
fn answers(bench: &Bench, name: &str) -> Vec<(String, bool)> {
    let (mut names, mut answers) = (std::collections::BTreeMap::new(), Vec::new());
    let stream = StreamId::Session(session(name));
    let read = read_from::<Event>(bench.store.as_ref(), &stream, Tip::START, |record, _| {
        if let Event::ModelReplied { calls, .. } = &record.event {
            names.extend(calls.iter().map(|call| (call.id, call.name.clone())));
        }
        if let Event::CallReceived { call, .. } = &record.event {
            names.insert(call.id, call.name.clone());
        }
        if let Event::CallSettled(CallSettled { call, outcome, .. }) = &record.event {
            answers.push((names[call].clone(), *outcome == Outcome::Done));
        }
        if let Event::CallRefused(CallRefused { call, denial, envelope, .. }) = &record.event {
            let kind = denial.as_ref().map(|denial| denial.kind);
            assert_eq!(kind, Some(DenialKind::NotVisibleInPhase), "{name}");
            assert!(!envelope.to_json().contains("secret_channel"), "{name}: the schema leaks");
            answers.push((names[call].clone(), false));
        }
    });
    block_on(read).unwrap();
    answers.retain(|(tool, _)| tool != "hang");
    answers
}

#[test]
fn what_runs_is_exactly_what_is_shown() {
    let bench = Bench::new();
    let mut expected = Vec::new();
    for (phase, shown) in PHASES {
        for tool in TOOLS {
            for way in WAYS {
                let name = format!("{phase}-{tool}-{way}");
                block_on(enter(&bench, &name, phase, tool, way));
                let called: &[&str] = if *way == "batch" { TOOLS } else { &[tool] };
                let wanted: Vec<_> =
                    called.iter().map(|tool| ((*tool).to_owned(), shown.contains(tool))).collect();
                let mut found = answers(&bench, &name);
                found.sort_by_key(|(tool, _)| TOOLS.iter().position(|known| known == tool));
                assert_eq!(found, wanted, "{name}");
                expected.extend(
                    wanted
                        .into_iter()
                        .filter(|(_, ran)| *ran)
                        .map(|(tool, _)| (name.clone(), tool)),
                );
            }
        }
    }
    let reached: Vec<_> = bench
        .effects()
        .into_iter()
        .map(|entry| (entry.key.split_once('/').unwrap().0.to_owned(), entry.tool))
        .collect();
    assert_eq!(reached, expected, "the world's ledger has exactly the visible cells");
}
