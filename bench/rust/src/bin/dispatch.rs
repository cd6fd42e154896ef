//! Part B, the dispatch limits and rig's `ToolSet`: `dispatch raw|rawschema|rig small|medium`.
//!
//! Prints `{"ns","iters"}`, the CPU nanoseconds per call, best of seven rounds.

use std::convert::Infallible;
use std::hint::black_box;

use rig_agent::tool::ToolSet;
use rig_core::tool::{PortableTool, ToolContext};
use serde::Deserialize;
use serde_json::{Value, json};

const SMALL: &str = r#"{"a":41,"b":1}"#;

#[derive(Deserialize)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Apply {
    path: String,
    edits: Vec<Edit>,
    dry_run: bool,
    tags: Vec<String>,
    meta: Meta,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Edit {
    line: i64,
    text: String,
    op: Op,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Op {
    Insert,
    Delete,
    Replace,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Meta {
    author: String,
    priority: i64,
}

fn add(args: Add) -> String {
    (args.a + args.b).to_string()
}

fn apply(args: Apply) -> String {
    args.edits.len().to_string()
}

#[derive(Clone, Copy, PartialEq)]
enum Size {
    Small,
    Medium,
}

impl Size {
    fn tool(self) -> &'static str {
        match self {
            Size::Small => "add",
            Size::Medium => "apply",
        }
    }

    fn text(self) -> String {
        match self {
            Size::Small => SMALL.into(),
            Size::Medium => medium(),
        }
    }

    fn schema(self) -> Value {
        match self {
            Size::Small => add_schema(),
            Size::Medium => apply_schema(),
        }
    }
}

fn medium() -> String {
    let text = |i: i64| format!("let value_{i} = compute({i});");
    let edit = |i: i64| json!({"line": i, "text": text(i), "op": "replace"});
    json!({
        "path": "src/main.rs",
        "edits": (0..10).map(edit).collect::<Vec<_>>(),
        "dry_run": false,
        "tags": ["a", "b", "c", "d", "e"],
        "meta": {"author": "agent", "priority": 3},
    })
    .to_string()
}

fn add_schema() -> Value {
    json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": false,
    })
}

fn apply_schema() -> Value {
    let edit = json!({
        "type": "object",
        "required": ["line", "text", "op"],
        "additionalProperties": false,
        "properties": {
            "line": {"type": "integer"},
            "text": {"type": "string"},
            "op": {"enum": ["insert", "delete", "replace"]},
        },
    });
    let meta = json!({
        "type": "object",
        "required": ["author", "priority"],
        "properties": {"author": {"type": "string"}, "priority": {"type": "integer"}},
    });
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["path", "edits", "dry_run", "tags", "meta"],
        "properties": {
            "path": {"type": "string"},
            "dry_run": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "edits": {"type": "array", "items": edit},
            "meta": meta,
        },
    })
}

struct RigAdd;

impl PortableTool for RigAdd {
    const NAME: &'static str = "add";
    type Args = Add;
    type Output = String;
    type Error = Infallible;

    fn description(&self) -> String {
        "Add".into()
    }

    fn parameters(&self) -> Value {
        add_schema()
    }

    async fn call(&self, args: Add) -> Result<String, Infallible> {
        Ok(add(args))
    }
}

struct RigApply;

impl PortableTool for RigApply {
    const NAME: &'static str = "apply";
    type Args = Apply;
    type Output = String;
    type Error = Infallible;

    fn description(&self) -> String {
        "Apply".into()
    }

    fn parameters(&self) -> Value {
        apply_schema()
    }

    async fn call(&self, args: Apply) -> Result<String, Infallible> {
        Ok(apply(args))
    }
}

/// Times `call` over seven rounds after a warm-up and prints the best round.
fn bench(mut call: impl FnMut()) {
    for _ in 0..2000 {
        call();
    }
    let iters = 20_000;
    let mut best = f64::MAX;
    for _ in 0..7 {
        let start = perf::cpu();
        for _ in 0..iters {
            call();
        }
        best = best.min((perf::cpu() - start) * 1e9 / iters as f64);
    }
    println!("{{\"ns\":{best:.0},\"iters\":{iters}}}");
}

/// Parses straight into the type and calls the function: no check beyond the types.
fn bench_raw(size: Size) {
    let text = size.text();
    bench(|| {
        black_box(match size {
            Size::Small => add(serde_json::from_str(black_box(&text)).unwrap()),
            Size::Medium => apply(serde_json::from_str(black_box(&text)).unwrap()),
        });
    });
}

/// Parses, checks against the JSON Schema, then calls the function.
fn bench_schema(size: Size) {
    let text = size.text();
    let validator = jsonschema::validator_for(&size.schema()).unwrap();
    bench(|| {
        let value: Value = serde_json::from_str(black_box(&text)).unwrap();
        assert!(validator.is_valid(&value));
        black_box(match size {
            Size::Small => add(serde_json::from_value(value).unwrap()),
            Size::Medium => apply(serde_json::from_value(value).unwrap()),
        });
    });
}

fn bench_rig(size: Size) {
    let text = size.text();
    let mut tools = ToolSet::default();
    tools.add_tool(RigAdd);
    tools.add_tool(RigApply);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut context = ToolContext::default();
        let result = tools.execute(size.tool(), text.clone(), &mut context).await;
        eprintln!("{result:?}");
    });
    bench(|| {
        runtime.block_on(async {
            let mut context = ToolContext::default();
            black_box(tools.execute(size.tool(), text.as_str(), &mut context).await);
        })
    });
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let size = if args[2] == "medium" { Size::Medium } else { Size::Small };
    match args[1].as_str() {
        "raw" => bench_raw(size),
        "rawschema" => bench_schema(size),
        _ => bench_rig(size),
    }
}
