//! Arbitrary text as a rule's condition: compiling answers, and what compiles can be evaluated.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};
use toolgate_kernel::policy::RULE_ROOTS;
use toolgate_kernel::policy::expression::{Expression, Scope, View};

fuzz_target!(|data: &[u8]| {
    let Ok(source) = std::str::from_utf8(data) else { return };
    let Ok(expression) = Expression::compile(source, RULE_ROOTS) else { return };
    assert_eq!(expression.source(), source);
    let first = expression.evaluate(&Sample);
    // A judge without memory says the same of the same call.
    assert_eq!(first, expression.evaluate(&Sample), "{source}");
    if let Err(fault) = first {
        assert!(!fault.to_string().is_empty());
    }
});

struct Sample;

impl Scope for Sample {
    fn get(&self, name: &str) -> Option<View<'_>> {
        Some(match name {
            "args" => View::Object(&*ARGS),
            "tool" => View::Text("write_section"),
            "phase" => View::Text("draft"),
            "actor" => View::Text("model:script"),
            "touches" => View::Json(&TOUCHES),
            "iteration" => View::Uint(2),
            "turn" => View::Uint(u64::MAX),
            "session" | "project" => View::Object(&*STATE),
            "now" => View::Int(1_700_000_000_000),
            _ => return None,
        })
    }
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

static ARGS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    object(json!({
        "n": 3, "big": u64::MAX, "low": i64::MIN, "f": 1.5, "z": -0.0, "t": "Anna ging nach Hause.",
        "e": "", "l": [1, 2, 3], "m": { "a": { "b": null } }, "b": true, "words": ["a", "b", "ä"],
    }))
});

static STATE: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    object(json!({ "note": { "anna": "Köchin", "x": 1 }, "plan": { "steps": [{ "done": true }] } }))
});

static TOUCHES: LazyLock<Value> = LazyLock::new(|| json!(["file:a.md", "note:anna"]));
