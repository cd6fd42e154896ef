//! Measures one governed call with the memory store: the hook `OURS_DISPATCH` of `bench/`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::Deserialize;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::{Agent, AgentDraft};
use toolgate_kernel::key::{Access, Key};
use toolgate_kernel::names::{PolicyName, SectionName, SessionId, ToolName};
use toolgate_kernel::policy::{
    CountLimit, OwnWrites, Per, Policy, ReadBeforeWrite, ReadScope, Rule, RuleText,
    SequentialDependency,
};
use toolgate_kernel::section::Section;
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::tool::{Effect, SpecDraft};
use toolgate_runtime::port::{Clock, Output};
use toolgate_runtime::{Crew, Driver, HostKey, MemoryStore, Pack, Runtime, Toolbox, tool};
use toolgate_store::{AnchorFolder, LogSetup};

use crate::meter::{ROUNDS, cpu, per_call};

#[derive(Args)]
pub(crate) struct Options {
    /// How large the arguments are.
    size: Size,
    /// Calls made before measuring.
    #[arg(long, default_value_t = 0)]
    history: u32,
    /// CEL rules that govern the tool, beside the three built-in policies.
    #[arg(long, default_value_t = 0)]
    rules: u32,
    /// Calls measured in each round.
    #[arg(long, default_value_t = 20_000)]
    calls: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Size {
    /// `add`: two integers.
    Small,
    /// `apply`: a path, ten edits, tags, meta.
    Medium,
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Apply {
    path: String,
    edits: Vec<Edit>,
    dry_run: bool,
    tags: Vec<String>,
    meta: Meta,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Edit {
    line: i64,
    text: String,
    op: Op,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Op {
    Insert,
    Delete,
    Replace,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Meta {
    author: String,
    priority: i64,
}

/// A log as people have it: signed, and remembered outside the project.
pub(crate) fn log_setup() -> Result<LogSetup> {
    let host = HostKey::from_seed(&[7; 32]).context("no key")?;
    let state = std::env::temp_dir().join("toolgate-bench-state");
    let anchors = Some(AnchorFolder::open(&state)?);
    Ok(LogSetup { anchors, ..LogSetup::new(host, Arc::new(SystemClock)) })
}

pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Timestamp(since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX)))
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let (name, args, answer) = match options.size {
        Size::Small => ("add", r#"{"a":41,"b":1}"#.to_owned(), "42"),
        Size::Medium => ("apply", medium(), "10"),
    };
    let rt = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let actor = Actor::Model("bench".into());
    let mut best = Duration::MAX;
    for round in 0..ROUNDS {
        // A fresh log each round: what is measured is a call, not the size of the log.
        let mut driver = rt.block_on(open(options.rules))?;
        rt.block_on(async {
            for _ in 0..options.history.max(2_000) {
                driver.call(&actor, name, &args, None).await?;
            }
            let envelope = driver.call(&actor, name, &args, None).await?;
            ensure!(envelope.message == answer, "round {round}: {envelope:?}");
            let before = cpu();
            for _ in 0..options.calls {
                std::hint::black_box(
                    driver.call(&actor, name, std::hint::black_box(&args), None).await?,
                );
            }
            best = best.min(cpu() - before);
            Ok(())
        })?;
    }
    let calls = options.calls;
    println!("{{\"ns\":{},\"iters\":{calls}}}", per_call(best, calls));
    Ok(())
}

async fn open(rules: u32) -> Result<Driver> {
    let runtime = Runtime::new(Arc::new(MemoryStore::new()), Arc::new(SystemClock));
    let id = SessionId::parse("bench")?;
    let crew = crew(rules)?;
    Driver::open(Arc::new(runtime), crew, id, &Actor::System, "bench").await.context("open")
}

/// The two tools of the comparison under the three built-in policies.
pub(crate) fn crew(rules: u32) -> Result<Crew> {
    let tools = vec![
        tool(SpecDraft::new("add", "Add two numbers.").effect(Effect::Staged), |_, p: Add| {
            Ok(Output::message((p.a + p.b).to_string()))
        })?,
        tool(
            SpecDraft::new("apply", "Apply edits.")
                .effect(Effect::Staged)
                .path_argument("path", None)
                .touches(|args| {
                    let path = args.text("path").unwrap_or_default();
                    Ok(vec![(Access::Write, Key::parse(&format!("doc:{path}"))?)])
                }),
            |_, p: Apply| Ok(Output::message(p.edits.len().to_string())),
        )?,
    ];
    let pack = Pack::new(Section::new(SectionName::parse("bench")?), tools);
    let mut draft = AgentDraft::new("bench", vec![pack.section.clone()]);
    draft.policies = policies(&["add", "apply"], rules)?;
    Ok(Crew::new(Arc::new(Agent::build(draft)?), Toolbox::of(&[pack])))
}

/// The three built-in policies, and as many CEL rules as asked for.
pub(crate) fn policies(names: &[&str], rules: u32) -> Result<Vec<Arc<dyn Policy>>> {
    let tools = || -> Result<BTreeSet<ToolName>> {
        Ok(names.iter().map(|name| ToolName::parse(name)).collect::<Result<_, _>>()?)
    };
    let sequential = PolicyName::parse("sequential_dependency")?;
    let read = PolicyName::parse("read_before_write")?;
    let limit = PolicyName::parse("limit")?;
    // Each tool needs the other's absence of needs only; the lookup is what is measured.
    let needs = BTreeMap::from([(ToolName::parse("add")?, BTreeSet::new())]);
    let mut policies: Vec<Arc<dyn Policy>> = vec![
        Arc::new(SequentialDependency::new(sequential, needs)),
        Arc::new(ReadBeforeWrite::new(read, BTreeSet::new(), ReadScope::Session, OwnWrites::Read)),
        Arc::new(CountLimit::new(limit, tools()?, Per::Session, u64::MAX)?),
    ];
    for at in 0..rules {
        let text = RuleText {
            tools: tools()?.into_iter().collect(),
            deny: Some("has(args.a) && args.a > 1000".to_owned()),
            ask: None,
            message: "too much".to_owned(),
            matches: Vec::new(),
            not_match: Vec::new(),
            by: Vec::new(),
            count: None,
            confirm: None,
        };
        policies.push(Arc::new(Rule::new(PolicyName::parse(&format!("rule-{at}"))?, text)?));
    }
    Ok(policies)
}

fn medium() -> String {
    let edits: Vec<_> = (0..10)
        .map(|i| {
            let text = format!("let value_{i} = compute({i});");
            serde_json::json!({ "line": i, "text": text, "op": "replace" })
        })
        .collect();
    serde_json::json!({
        "path": "src/main.rs", "edits": edits, "dry_run": false,
        "tags": ["a", "b", "c", "d", "e"], "meta": { "author": "agent", "priority": 3 },
    })
    .to_string()
}
