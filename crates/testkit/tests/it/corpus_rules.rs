//! `policy.rule`: a policy that cannot answer denies, and a changed policy holds from its binding on.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::config::ConfigRefusal;
use toolgate_kernel::envelope::Code;
use toolgate_kernel::event::{CallRefused, DenialKind, Event};
use toolgate_kernel::fold::World;
use toolgate_kernel::gate::Call;
use toolgate_kernel::key::Touched;
use toolgate_kernel::names::PolicyName;
use toolgate_kernel::policy::{Names, Policy, Verdict};
use toolgate_kernel::tool::{Effect, SpecDraft, ToolSpec};
use toolgate_runtime::port::{StoreFault, Tool};
use toolgate_runtime::{Crew, DriveFault};
use toolgate_testkit::corpus::{Case, Outcome};

use crate::corpus_bench::{Bench, Hanging, client, crew, outcome, taking_text, with_model};
use crate::scenarios::block_on;

pub(crate) fn play(case: &Case, bench: &Bench) -> Outcome {
    match case.id.as_str() {
        "POL-001" => missing_attribute(bench),
        "POL-002" => other_type(bench),
        "POL-005" => panicking_policy(bench),
        "POL-007" => reload_with_an_error(bench),
        "POL-008" => reload_under_way(bench),
        "POL-009" => other_spellings(bench),
        "POL-010" => canonical_path(bench),
        "POL-011" => nobody(bench),
        id => panic!("{id} has no adapter"),
    }
}

fn rule(tool: &str, deny: &str) -> Value {
    json!({"policies": [{"name": "the-rule", "rule": {
        "tools": [tool], "deny": deny, "message": "The rule says no.",
    }}]})
}

/// A tool with an optional amount of any kind, which reaches the world.
fn buy(bench: &Bench, amount: Value) -> Arc<dyn Tool> {
    let schema =
        json!({"type": "object", "properties": {"amount": amount, "item": {"type": "string"}}});
    let draft = SpecDraft::new("buy", "Buys.").params_schema(schema).effect(Effect::External);
    bench.reaching(draft)
}

/// Makes one call and tells what came of it.
fn call(bench: &Bench, crew: Crew, tool: &str, args: &str) -> Outcome {
    let told =
        block_on(async { bench.open(crew).await.call(&client(), tool, args, None).await.unwrap() });
    outcome(&told, bench.effects().len())
}

/// The kinds of denial in the log, with the policy that each names.
fn denials(bench: &Bench) -> Vec<(String, DenialKind)> {
    let denial = |event: Event| {
        let Event::CallRefused(CallRefused { denial, .. }) = event else { return None };
        denial.map(|denial| (denial.policy.to_string(), denial.kind))
    };
    bench.events().into_iter().filter_map(denial).collect()
}

/// POL-001: `deny when args.amount > 100`, and the call has no amount.
fn missing_attribute(bench: &Bench) -> Outcome {
    let crew = crew(
        rule("buy", "args.amount > 100"),
        vec![buy(bench, json!({"type": "integer"}))],
        vec![],
    );
    let outcome = call(bench, crew.unwrap(), "buy", r#"{"item":"pen"}"#);
    assert_eq!(denials(bench), [("the-rule".to_owned(), DenialKind::PolicyError)]);
    outcome
}

/// POL-002: `allow when args.amount > 100`, and the amount is the text "200". Rules here deny or
/// ask and never allow, so the nearest is to deny unless the condition holds.
fn other_type(bench: &Bench) -> Outcome {
    let crew = crew(rule("buy", "!(args.amount > 100)"), vec![buy(bench, json!({}))], vec![]);
    let outcome = call(bench, crew.unwrap(), "buy", r#"{"amount":"200"}"#);
    assert_eq!(denials(bench), [("the-rule".to_owned(), DenialKind::PolicyError)]);
    outcome
}

struct Panicking(PolicyName);

impl Policy for Panicking {
    fn name(&self) -> &PolicyName {
        &self.0
    }

    fn governs(&self, _: &ToolSpec) -> bool {
        true
    }

    fn judge(&self, _: &Call, _: &[Touched], _: &World<'_>) -> Verdict {
        panic!("a policy of the corpus breaks down")
    }

    fn names(&self) -> Names<'_> {
        Names::default()
    }

    fn describe(&self) -> Value {
        json!("panics")
    }
}

/// POL-005.
fn panicking_policy(bench: &Bench) -> Outcome {
    bench.allow_panics(1);
    let policy: Arc<dyn Policy> = Arc::new(Panicking(PolicyName::parse("breaks").unwrap()));
    let crew = crew(json!({}), vec![buy(bench, json!({}))], vec![policy]);
    let outcome = call(bench, crew.unwrap(), "buy", "{}");
    assert_eq!(denials(bench), [("breaks".to_owned(), DenialKind::PolicyError)]);
    outcome
}

/// POL-007: there is no hot reload yet. The nearest true thing: the changed configuration is
/// refused when it is loaded, so no agent is made of it, and the old agent stays in force.
fn reload_with_an_error(bench: &Bench) -> Outcome {
    let tools = || vec![buy(bench, json!({"type": "integer"}))];
    let old = crew(rule("buy", "args.amount > 100"), tools(), vec![]).unwrap();
    let fingerprint = old.agent.fingerprint;
    let told = block_on(async {
        let mut driver = bench.open(old).await;
        let new = crew(rule("buy", "args.amount > "), tools(), vec![]);
        let Err(ConfigRefusal::Policy(refusal)) = new else { panic!("a broken rule is loaded") };
        let words = refusal.to_string();
        assert!(words.contains("the-rule") && words.contains("line 1, column"), "{words}");
        driver.call(&client(), "buy", r#"{"amount":200}"#, None).await.unwrap()
    });
    assert_eq!(told.code(), Some(&Code::POLICY_DENIED), "the old rule still holds");
    let bound: Vec<_> = bench
        .events()
        .into_iter()
        .filter_map(
            |event| if let Event::ConfigBound { config, .. } = event { Some(config) } else { None },
        )
        .collect();
    assert_eq!(bound, [fingerprint], "nothing else was ever in force");
    Outcome::Reject
}

/// POL-008: there is no hot reload yet. The nearest true thing: a session whose driver has a
/// thousand admitted calls in flight is taken over with a configuration that denies them. The
/// binding of that configuration is the reload's acknowledgement.
fn reload_under_way(bench: &Bench) -> Outcome {
    let shell = || {
        let schema =
            json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
        let draft = SpecDraft::new("shell", "Runs.").params_schema(schema);
        bench.reaching(draft.effect(Effect::External))
    };
    let hang = || {
        let draft = SpecDraft::new("hang", "Waits.").effect(Effect::Staged);
        Arc::new(Hanging(Arc::new(draft.build().unwrap())))
    };
    let limits = json!({"turn_calls_max": 1_000, "call_ms_max": 300});
    let settings = json!({"max_tool_calls_per_iteration": 1_000});
    let mut calls = vec![("hang", "{}".to_owned(), "")];
    calls.extend((1..1_000).map(|n| ("shell", json!({ "n": n }).to_string(), "")));
    let allowing =
        crew(json!({ "limits": limits, "settings": settings }), vec![hang(), shell()], vec![])
            .unwrap();
    let mut denying = rule("shell", "true");
    (denying["limits"], denying["settings"]) = (limits, settings);
    let denying = crew(denying, vec![hang(), shell()], vec![]).unwrap();
    block_on(async {
        let mut old = bench.open(with_model(allowing, &[calls])).await;
        let cut = tokio::time::timeout(Duration::from_millis(150), old.run(&|_| {})).await;
        assert!(cut.is_err(), "the first call hangs and the others wait behind it");
        let mut new = bench.resume(denying).await;
        // From here on the new configuration is bound.
        let late = old.call(&client(), "shell", r#"{"n":0}"#, None).await;
        assert!(matches!(late, Err(DriveFault::Store(StoreFault::Fenced { .. }))), "{late:?}");
        new.settle_open().await.unwrap();
        let fresh = new.call(&client(), "shell", r#"{"n":0}"#, None).await.unwrap();
        assert_eq!(fresh.code(), Some(&Code::POLICY_DENIED));
    });
    let events = bench.events();
    let admitted = events.iter().filter(|event| matches!(event, Event::CallAdmitted(_))).count();
    assert_eq!(admitted, 1_000, "all of them were in flight");
    let told = bench.told();
    let denied = told.iter().filter(|told| told.code() == Some(&Code::POLICY_DENIED)).count();
    assert_eq!((told.len(), denied), (1_001, 1_000), "each got its answer");
    outcome(told.last().unwrap(), bench.effects().len())
}

/// POL-009: `deny when tool == "shell"`, and calls that spell it otherwise.
fn other_spellings(bench: &Bench) -> Outcome {
    let tools = vec![bench.reaching(taking_text("shell", "command", Effect::External))];
    let crew = crew(rule("shell", r#"tool == "shell""#), tools, vec![]).unwrap();
    let args = r#"{"command":"id"}"#;
    let told = block_on(async {
        let mut driver = bench.open(crew).await;
        let exact = driver.call(&client(), "shell", args, None).await.unwrap();
        assert_eq!(exact.code(), Some(&Code::POLICY_DENIED), "the rule itself works");
        let mut told = Vec::new();
        for name in ["Shell", "shell ", "sh\u{435}ll", "default__shell"] {
            told.push(driver.call(&client(), name, args, None).await.unwrap());
        }
        told
    });
    assert!(told.iter().all(|told| told.code() == Some(&Code::TOOL_UNKNOWN)), "{told:?}");
    outcome(&told[0], bench.effects().len())
}

/// POL-010: `deny when args.path startsWith "/etc"`. A path is relative to the project here and
/// is brought into its one form before any policy looks, so the rule is written without a slash.
fn canonical_path(bench: &Bench) -> Outcome {
    let draft = taking_text("read", "path", Effect::External).path_argument("path", None);
    let crew =
        crew(rule("read", "args.path.startsWith('etc/')"), vec![bench.reaching(draft)], vec![]);
    let outcome = call(bench, crew.unwrap(), "read", r#"{"path":"/srv/../etc/passwd"}"#);
    assert_eq!(denials(bench), [("the-rule".to_owned(), DenialKind::RuleDenied)]);
    outcome
}

/// POL-011: every call has an actor by its type, so there is no call without a principal; what
/// is left is that nothing reads as nobody, and that a rule does not take anybody for somebody.
fn nobody(bench: &Bench) -> Outcome {
    for text in ["", "human", "human:", "any", "*", "null", "anonymous", ":", "system:x"] {
        assert!(Actor::try_from(text.to_owned()).is_err(), "{text:?} is somebody");
    }
    let tools = vec![bench.reaching(taking_text("write", "text", Effect::External))];
    let crew = crew(rule("write", "!actor.startsWith('human:')"), tools, vec![]).unwrap();
    let (args, mut outcomes) = (r#"{"text":"x"}"#, Vec::new());
    block_on(async {
        let mut driver = bench.open(crew).await;
        for actor in [
            client(),
            Actor::System,
            Actor::Model("human:ada".into()),
            Actor::Agent("human".into()),
        ] {
            let told = driver.call(&actor, "write", args, None).await.unwrap();
            outcomes.push(outcome(&told, bench.effects().len()));
        }
    });
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Deny), "{outcomes:?}");
    outcomes[0]
}
