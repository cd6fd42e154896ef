//! Patterns of schemas mean what a JavaScript engine means by them. The engine's answers are kept in
//! `tests/data/patterns/cases.jsonl`, so they are compared without one; where Node is installed, it
//! is asked whether it still answers so.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_kernel::tool::{SchemaRefusal, Shape};

/// In CI a missing Node is a failure.
const REQUIRE_NODE: &str = "TOOLGATE_REQUIRE_NODE";

#[derive(Deserialize)]
struct Subjects {
    subjects: Vec<String>,
}

#[derive(Deserialize)]
struct Case {
    pattern: String,
    /// `u`, or nothing where the pattern is valid only without it; absent where it is not valid.
    flags: Option<String>,
    /// One character for each subject: `1` where it matches.
    matches: String,
}

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/patterns").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(data(name)).unwrap()
}

fn cases() -> (Vec<String>, Vec<Case>) {
    let text = read("cases.jsonl");
    let (first, rest) = text.split_once('\n').unwrap();
    let Subjects { subjects } = serde_json::from_str(first).unwrap();
    (subjects, rest.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn compiled(pattern: &str) -> Option<Shape> {
    Shape::compile(&json!({"type": "string", "pattern": pattern})).ok()
}

fn takes(shape: &Shape, text: &str) -> bool {
    shape.fit(&mut Value::from(text), &mut Vec::new()).is_ok()
}

#[test]
fn patterns_agree_with_the_javascript_engine() {
    let (subjects, cases) = cases();
    assert!(cases.len() >= 500, "{} patterns", cases.len());
    let (mut wrong, mut refused) = (Vec::new(), BTreeSet::new());
    for Case { pattern, flags, matches } in &cases {
        let Some(shape) = compiled(pattern) else {
            refused.insert(pattern.clone());
            continue;
        };
        if flags.is_none() {
            wrong.push(format!("{pattern:?} is accepted and not valid"));
        }
        for (subject, theirs) in subjects.iter().zip(matches.chars()) {
            if takes(&shape, subject) != (theirs == '1') {
                wrong.push(format!("{pattern:?} on {subject:?}: the engine says {theirs}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
    let listed = read("refused.json");
    let expected: BTreeSet<String> = serde_json::from_str(&listed).unwrap();
    if std::env::var_os("UPDATE").is_some() {
        let text = serde_json::to_string_pretty(&refused).unwrap() + "\n";
        std::fs::write(data("refused.json"), text).unwrap();
        return;
    }
    let new: Vec<_> = refused.difference(&expected).collect();
    let gone: Vec<_> = expected.difference(&refused).collect();
    assert!(new.is_empty() && gone.is_empty(), "refused and not listed: {new:?}; listed: {gone:?}");
    let accepted = cases.len() - refused.len();
    assert!(accepted >= 400, "only {accepted} patterns were compared");
}

#[test]
fn node_gives_the_answers_that_are_kept() {
    let kept = read("cases.jsonl");
    let started = Command::new("node")
        .arg(data("patterns.mjs"))
        .arg("answer")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut node = match started {
        Ok(node) => node,
        Err(error) => {
            let required = std::env::var_os(REQUIRE_NODE).is_some();
            assert!(!required, "{REQUIRE_NODE} is set, and node cannot be started: {error}");
            eprintln!(
                "SKIPPED: node cannot be started ({error}); the kept answers were not checked"
            );
            return;
        }
    };
    let mut input = node.stdin.take().unwrap();
    let text = kept.clone();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = node.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "node ended with {}", output.status);
    let answers = String::from_utf8(output.stdout).unwrap();
    for (answer, kept) in answers.lines().zip(kept.lines()) {
        assert_eq!(answer, kept, "tests/data/patterns/cases.jsonl is not what node answers");
    }
    assert_eq!(answers.lines().count(), kept.lines().count());
}

/// A command line that must hold one command holds one.
#[test]
fn a_class_with_two_ampersands_keeps_out_a_second_command() {
    let shape = compiled("^[^;&&|]+$").unwrap();
    for (text, fits) in [
        ("ls", true),
        ("ls -la", true),
        ("ls; rm -rf /", false),
        ("ls & rm", false),
        ("a|b", false),
    ] {
        assert_eq!(takes(&shape, text), fits, "{text}");
    }
}

/// What only newer engines know is refused, so that it never means two things.
#[test]
fn patterns_of_newer_engines_are_refused() {
    for pattern in ["(?i:a)", "(?-i:a)", "(?s:.)", "(?<n>a)|(?<n>b)"] {
        assert!(compiled(pattern).is_none(), "{pattern}");
    }
}

/// Thousands of open groups take no stack, and a pattern that is too large is refused.
#[test]
fn deep_and_large_patterns_are_refused() {
    for pattern in [
        "(".repeat(30_000),
        format!("{}{}", "(".repeat(10_000), ")".repeat(10_000)),
        "[".repeat(60_000),
        "(?:a{1000}){1000}".to_owned(),
        format!("^{}$", r"\p{L}{99}".repeat(500)),
    ] {
        assert!(compiled(&pattern).is_none(), "{} bytes", pattern.len());
    }
    assert!(compiled("^[^;]{1,1000}$").is_some());
}

/// Many large patterns would take much memory before the first call.
#[test]
fn the_patterns_of_a_schema_are_bounded_together() {
    let schema = |pattern: &str, count: usize| {
        let field = |at: usize| (format!("f{at}"), json!({"type": "string", "pattern": pattern}));
        let fields: serde_json::Map<String, Value> = (0..count).map(field).collect();
        json!({"type": "object", "properties": fields})
    };
    assert!(Shape::compile(&schema("^[a-z][a-z0-9-]{0,63}$", 400)).is_ok());
    assert!(Shape::compile(&schema("^[^;]{1,500}$", 5)).is_ok());
    let refusal = Shape::compile(&schema("^[^;]{1,500}$", 100)).err();
    assert_eq!(refusal, Some(SchemaRefusal::TooManyPatterns));
}
