//! Every case of the corpus that concerns calls, played through the whole gate by one runner.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use toolgate_testkit::corpus::{Case, Corpus, Outcome, Recipe};

use crate::corpus_bench::Bench;
use crate::{corpus_args, corpus_facts, corpus_names, corpus_patch, corpus_rules, corpus_stream};

/// Plays one case and tells what came of it.
type Adapter = fn(&Case, &Bench) -> Outcome;

/// One adapter per surface, and how many cases it has.
const ADAPTERS: &[(&str, usize, Adapter)] = &[
    ("tool.args", 26, corpus_args::play),
    ("tool.name", 17, corpus_names::play),
    ("policy.rule", 8, corpus_rules::play),
    ("provider.stream", 31, corpus_stream::play),
    ("fact.write", 8, corpus_facts::play),
    ("json.patch", 17, corpus_patch::play),
];

/// Where the design decides otherwise than the corpus, with its reason. `fail_turn` reads as
/// `reject` everywhere (DESIGN.md, "Reference cases that no longer hold").
const DECIDED: &[(&str, Outcome, &str)] = &[
    ("ARG-019", Outcome::Reject, "a path is a type: it is refused when arguments are validated"),
    ("ARG-020", Outcome::Reject, "a path is a type: it is refused when arguments are validated"),
    ("ARG-023", Outcome::Reject, "a path is a type: it is refused when arguments are validated"),
    ("ARG-032", Outcome::Reject, "a path is a type: it is refused when arguments are validated"),
    ("ARG-036", Outcome::Reject, "an argument that is not declared is refused before any policy"),
    ("POL-009", Outcome::Reject, "a name is exact: none of these is a tool, so no rule is asked"),
    ("FCT-002", Outcome::Reject, "no tool commits facts, so it is unknown like any other"),
    ("FCT-009", Outcome::Reject, "a path is a type: it is refused when arguments are validated"),
    ("FCT-011", Outcome::Reject, "no tool commits facts, so it is unknown like any other"),
];

fn expected(case: &Case) -> Outcome {
    let decided = DECIDED.iter().find(|(id, ..)| *id == case.id);
    match (decided, case.expect.outcome) {
        (Some((_, outcome, _)), _) => *outcome,
        (None, Outcome::FailTurn) => Outcome::Reject,
        (None, outcome) => outcome,
    }
}

/// What is wrong with how a case was played.
fn failures(case: &Case, adapter: Adapter) -> Vec<String> {
    let bench = Bench::new();
    let played = catch_unwind(AssertUnwindSafe(|| {
        let outcome = adapter(case, &bench);
        (outcome, bench.wounds(outcome))
    }));
    let Ok((outcome, mut wounds)) = played else {
        return vec![format!("{}: broke down, see above", case.id)];
    };
    if outcome != expected(case) {
        wounds.insert(0, format!("{outcome:?}, and it should be {:?}", expected(case)));
    }
    let about = |wound: String| format!("{} ({}): {wound}", case.id, case.category);
    wounds.into_iter().map(about).collect()
}

/// `CASE=ARG-021` plays one case alone.
#[test]
fn every_case_about_calls_comes_out_as_it_must() {
    let corpus = Corpus::read().unwrap();
    let only = std::env::var("CASE").unwrap_or_default();
    let (mut played, mut wrong) = (BTreeSet::new(), Vec::new());
    for (surface, count, adapter) in ADAPTERS {
        assert_eq!(corpus.counts.get(*surface), Some(count), "{surface}");
        assert_eq!(corpus.of(surface).count(), *count, "{surface}");
        for case in corpus.of(surface).filter(|case| case.id.contains(&only)) {
            wrong.extend(failures(case, *adapter));
            played.insert(case.id.clone());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let all: usize = ADAPTERS.iter().map(|(_, count, _)| count).sum();
    assert!(!only.is_empty() || played.len() == all, "{} of {all} cases were played", played.len());
}

/// A note on a case that does not exist, or that agrees with the corpus after all, misleads.
#[test]
fn every_decision_concerns_a_case_and_changes_it() {
    let corpus = Corpus::read().unwrap();
    for (id, outcome, reason) in DECIDED {
        let case = corpus.cases.iter().find(|case| case.id == *id).unwrap();
        assert_ne!(case.expect.outcome, *outcome, "{id}: {reason}");
        assert!(ADAPTERS.iter().any(|(surface, ..)| case.surface == *surface), "{id}");
    }
}

/// The loader takes the whole corpus, and recipes make what they say.
#[test]
fn the_corpus_is_read_whole_and_its_recipes_work() {
    let corpus = Corpus::read().unwrap();
    assert_eq!((corpus.cases.len(), corpus.counts.len()), (334, 16));
    assert_eq!(corpus.outcomes.len(), 9);
    let recipe = |text: &str| {
        let recipe: Recipe = serde_saphyr::from_str(text).unwrap();
        recipe.bytes().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    let made = [
        ("{kind: repeat, prefix: a, unit: bc, count: 2, suffix: d}", "abcbcd"),
        ("{kind: repeat, unit: x, count: 3}", "xxx"),
        ("{kind: nest, open: '[', close: ']', depth: 2, core: '1'}", "[[1]]"),
        ("{kind: nest, open: '[', close: ']', depth: 2}", "[[]]"),
        ("{kind: hex, bytes: '7a0aC3bc'}", "z\nü"),
        ("{kind: keys, count: 2}", r#"{"k0":0,"k1":1}"#),
        ("{kind: enum, count: 2}", r#"{"enum":["v0","v1"]}"#),
        ("{kind: text, text: 'as it is'}", "as it is"),
        ("{kind: schema_nest, depth: 1}", r#"{"type":"object","properties":{"a":{}}}"#),
    ];
    for (text, wanted) in made {
        assert_eq!(recipe(text).unwrap(), wanted, "{text}");
    }
    for text in [
        "{kind: patch_ops, count: 2}",
        "{kind: schema_fanout, keyword: allOf, fanout: 2, depth: 2}",
    ] {
        assert!(
            serde_json::from_str::<serde_json::Value>(&recipe(text).unwrap()).is_ok(),
            "{text}"
        );
    }
    for text in [
        "{kind: hex, bytes: '7'}",
        "{kind: hex, bytes: 'zz'}",
        "{kind: gzip_zeros, decompressed: 1}",
    ] {
        assert!(recipe(text).is_err(), "{text}");
    }
    assert!(serde_saphyr::from_str::<Recipe>("{kind: repeat, unit: x}").is_err());
    assert!(serde_saphyr::from_str::<Recipe>("{kind: made_up}").is_err());
}
