//! Our own corpus of odd inputs: every case has its input in the file, and one player per surface.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use toolgate_kernel::config::{Severity, read};
use toolgate_kernel::hidden::Hidden;
use toolgate_kernel::pin::Definition;
use toolgate_kernel::redact::{REDACTED, Redactor};
use toolgate_kernel::tool::{Effect, SpecDraft};
use toolgate_mcp::client::CallFault;
use toolgate_mcp::scan::{Scanned, scan};
use toolgate_testkit::corpus::Outcome;
use toolgate_testkit::fake::{Fake, Fault, Play};
use toolgate_wire::dialect::Dialect;

use crate::corpus_bench::{Bench, client, crew, taking_text};
use crate::mcp_stage::Stage;
use crate::provider::{KEY, block_on, exchange, spec};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OddInput {
    id: String,
    surface: String,
    about: String,
    input: String,
    /// The schema of the tool that gets arguments.
    #[serde(default)]
    schema: Option<String>,
    /// How a provider speaks.
    #[serde(default)]
    dialect: Option<String>,
    outcome: Outcome,
}

fn cases() -> Vec<OddInput> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/corpus/odd_inputs.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

fn stream(case: &OddInput) -> Outcome {
    let named = |one: &Dialect| Some(one.as_str()) == case.dialect.as_deref();
    let dialect = Dialect::ALL.into_iter().find(named).unwrap();
    let done = if dialect == Dialect::Chat { "data: [DONE]\n\n" } else { "" };
    let events = case.input.lines().map(|event| format!("data: {event}\n\n"));
    let body = format!("{}{done}", events.collect::<String>()).into_bytes();
    let bench = Bench::new();
    let failed = block_on(async {
        let script = json!({"replies": [{"text": "never"}, {"text": "Done."}]});
        let fault = Fault::Page { status: 200, kind: "text/event-stream".to_owned(), body };
        let play = Play {
            script: serde_json::from_value(script).unwrap(),
            // Asked once more, it says the same once more.
            faults: vec![fault.clone(), fault],
            key: Some(KEY.to_owned()),
            ..Play::default()
        };
        let fake = Fake::start(play).await.unwrap();
        let tool = bench.reaching(taking_text("pay", "path", Effect::External));
        let limits = json!({"limits": {"retry_ms_max": 1, "model_failures_max": 1}});
        let mut crew = crew(limits, vec![tool], Vec::new()).unwrap();
        let mut spec = spec(dialect, &fake, true);
        spec.retries.attempts_max = 2;
        crew.provider = Some(Arc::new(exchange().model(&spec).unwrap()));
        let mut driver = bench.open(crew).await;
        // A good first reply leads to a second request, which a control may be refused.
        driver.run(&|_| {}).await.is_ok_and(|halt| format!("{halt:?}").contains("ModelFailed"))
    });
    match (bench.effects().len(), failed) {
        (0, true) => Outcome::Reject,
        (0, false) => Outcome::Inert,
        (_, _) => Outcome::Accept,
    }
}

fn scanned(name: &str, input: Value) -> Outcome {
    let annotations = Value::Null;
    let (about, output, title) = ("A tool.".to_owned(), None, None);
    let definition = Definition { title, about, input, output, annotations };
    match scan(name, &definition, &Default::default()) {
        Scanned::Excluded(_) => Outcome::Reject,
        Scanned::Flagged(_) => Outcome::Quarantine,
        Scanned::Clean => Outcome::Accept,
    }
}

fn arguments(case: &OddInput) -> Outcome {
    let schema: Value = serde_json::from_str(case.schema.as_deref().unwrap()).unwrap();
    let draft = || {
        let draft = SpecDraft::new("send", "Sends.").params_schema(schema.clone());
        draft.effect(Effect::External)
    };
    if draft().build().is_err() {
        return Outcome::Reject;
    }
    let bench = Bench::new();
    let crew = crew(json!({}), vec![bench.reaching(draft())], Vec::new()).unwrap();
    let told = block_on(async {
        let mut driver = bench.open(crew).await;
        driver.call(&client(), "send", &case.input, None).await.unwrap()
    });
    match (told.ok, bench.effects().len()) {
        (true, 1) => Outcome::Accept,
        (false, 0) => Outcome::Reject,
        other => panic!("{}: {other:?}", case.id),
    }
}

/// A server and a pack must both be refused a reserved name.
fn name(case: &OddInput) -> Outcome {
    let closed = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let offered = scanned(&case.input, closed);
    let registered = SpecDraft::new(&case.input, "A tool.").build().is_ok();
    assert_eq!(registered, offered == Outcome::Accept, "{}: {offered:?}", case.id);
    offered
}

fn configuration(case: &OddInput) -> Outcome {
    let checked = read(case.input.as_bytes()).check(Vec::new());
    let error = checked.findings.iter().any(|finding| finding.severity == Severity::Error);
    if error { Outcome::RejectAtLoad } else { Outcome::Accept }
}

fn secret(case: &OddInput) -> Outcome {
    let redactor = Redactor::new(&[Hidden::new(KEY)]);
    if redactor.redact(&case.input).contains(REDACTED) { Outcome::Inert } else { Outcome::Accept }
}

async fn answer(case: &OddInput, stage: &Stage) -> Outcome {
    let began = Instant::now();
    let answered = stage.call("write", &case.input).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{}: {:?}", case.id, began.elapsed());
    match answered {
        Ok(answered) if answered.text.contains('\u{fffd}') => Outcome::Recover,
        Ok(_) => Outcome::Accept,
        Err(CallFault::Misfit(_)) => Outcome::Reject,
        Err(fault) => panic!("{}: {fault}", case.id),
    }
}

/// `CASE=PRV-101` plays one case alone.
#[test]
fn odd_inputs_come_out_as_they_must() {
    let only = std::env::var("CASE").unwrap_or_default();
    let cases = cases();
    assert!(cases.len() >= 90, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for case in cases.iter().filter(|case| case.id.contains(&only)) {
        let outcome = match case.surface.as_str() {
            "provider.stream" => stream(case),
            "mcp.schema" => scanned("weather", serde_json::from_str(&case.input).unwrap()),
            "tool.args" => arguments(case),
            "tool.name" => name(case),
            "config.yaml" => configuration(case),
            "secret.text" => secret(case),
            // Played below, with a server.
            "mcp.wire" => continue,
            other => panic!("{}: there is no surface {other}", case.id),
        };
        if outcome != case.outcome {
            wrong.push(format!("{} ({}): {outcome:?}", case.id, case.about));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn odd_answers_of_servers_come_out_as_they_must() {
    let stage = Stage::piped(&["--mode", "raw"]);
    stage.tools().await.unwrap();
    for case in cases().iter().filter(|case| case.surface == "mcp.wire") {
        assert_eq!(answer(case, &stage).await, case.outcome, "{} ({})", case.id, case.about);
    }
}
