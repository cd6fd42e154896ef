//! Measures a whole governed run against a model server: the hook `OURS_LOOP` of `bench/`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use schemars::JsonSchema;
use serde::Deserialize;
use toolgate_http::Roots;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::{Agent, AgentDraft};
use toolgate_kernel::event::Ending;
use toolgate_kernel::hidden::Hidden;
use toolgate_kernel::names::{SectionName, SessionId};
use toolgate_kernel::section::Section;
use toolgate_kernel::tool::{Effect, SpecDraft};
use toolgate_runtime::port::{Output, Provider};
use toolgate_runtime::{Crew, Driver, Halt, MemoryStore, Pack, Runtime, Toolbox, tool};
use toolgate_store::SqliteStore;
use toolgate_wire::BreakerRules;
use toolgate_wire::dialect::Dialect;
use toolgate_wire::model::{Exchange, ModelSpec};

use crate::dispatch::{SystemClock, log_setup, policies};
use crate::meter::cpu;

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Keep the log on disk, in this folder, one for all runs, and not in memory.
    #[arg(long)]
    durable: Option<PathBuf>,
}

/// Where the runs are logged.
enum Ground {
    /// Each in a memory of its own, which goes when the run is over.
    Own,
    /// All on one disk.
    Shared(Arc<Runtime>, AtomicUsize),
}

/// What the harness asks for.
struct Asked {
    runs: usize,
    conc: usize,
    warm: usize,
}

fn number(name: &str, fallback: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(fallback)
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let asked = Asked {
        runs: number("PERF_RUNS", 1),
        conc: number("PERF_CONC", 1),
        warm: number("PERF_WARM", 1),
    };
    let url = std::env::var("PERF_URL").context("PERF_URL is not set")?;
    let provider = provider(&url, number("PERF_STREAM", 0) == 1)?;
    let crew = crew(Some(provider))?;
    let mut builder = if asked.conc == 1 {
        tokio::runtime::Builder::new_current_thread()
    } else {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2);
        builder
    };
    let ground = match &options.durable {
        None => Ground::Own,
        Some(folder) => {
            let store = Arc::new(SqliteStore::open(folder.join("log.db"), &log_setup()?)?);
            let runtime = Runtime::new(store, Arc::new(SystemClock));
            Ground::Shared(Arc::new(runtime), AtomicUsize::new(0))
        }
    };
    builder.enable_all().build()?.block_on(measure(&asked, crew, Arc::new(ground)))
}

fn provider(url: &str, stream: bool) -> Result<Arc<dyn Provider>> {
    let rules = BreakerRules::default();
    let exchange = Exchange::new(Roots::default(), Arc::new(SystemClock), 1, rules);
    let mut spec = ModelSpec::new("mock:mock", Dialect::Chat, url, "mock");
    spec.key = Some(Hidden::new("x"));
    spec.options.stream = stream;
    Ok(Arc::new(exchange.model(&spec)?))
}

/// One tool, `add`, under the three built-in policies, and room for long runs.
pub(crate) fn crew(provider: Option<Arc<dyn Provider>>) -> Result<Crew> {
    let add = SpecDraft::new("add", "Add two integers.").effect(Effect::Staged);
    let add = tool(add, |_, p: Add| Ok(Output::message((p.a + p.b).to_string())))?;
    let pack = Pack::new(Section::new(SectionName::parse("bench")?), vec![add]);
    let mut draft = AgentDraft::new("bench", vec![pack.section.clone()]);
    draft.policies = policies(&["add"], 0)?;
    draft.settings.max_tool_calls_per_iteration = 1_000_000;
    draft.settings.max_context_tokens = 1_000_000_000;
    draft.limits.iteration_turns_max = 1_000_000;
    let mut crew = Crew::new(Arc::new(Agent::build(draft)?), Toolbox::of(&[pack]));
    crew.provider = provider;
    Ok(crew)
}

/// A log in memory, and what all sessions on it share.
pub(crate) fn runtime() -> Arc<Runtime> {
    Arc::new(Runtime::new(Arc::new(MemoryStore::new()), Arc::new(SystemClock)))
}

/// Opens a session with a number.
pub(crate) async fn open(runtime: &Arc<Runtime>, crew: &Crew, number: usize) -> Result<Driver> {
    let id = SessionId::parse(&format!("bench-{number}"))?;
    let (runtime, actor) = (Arc::clone(runtime), Actor::Human("bench".into()));
    Driver::open(runtime, crew.clone(), id, &actor, "go").await.context("open")
}

async fn one(crew: &Crew, ground: &Ground) -> Result<()> {
    let mut driver = match ground {
        Ground::Own => open(&runtime(), crew, 1).await?,
        Ground::Shared(runtime, next) => {
            open(runtime, crew, next.fetch_add(1, Ordering::Relaxed)).await?
        }
    };
    let halt = driver.run(&|_| {}).await?;
    let done = matches!(&halt, Halt::Ended(Ending::Completed, words) if words == "Done.");
    ensure!(done, "the run came to {halt:?}");
    Ok(())
}

async fn measure(asked: &Asked, crew: Crew, ground: Arc<Ground>) -> Result<()> {
    for _ in 0..asked.warm {
        one(&crew, &ground).await?;
    }
    let (wall, before) = (Instant::now(), cpu());
    if asked.conc == 1 {
        for _ in 0..asked.runs {
            one(&crew, &ground).await?;
        }
    } else {
        shared(asked, &crew, &ground).await?;
    }
    let (wall, cpu) = (wall.elapsed().as_secs_f64(), (cpu() - before).as_secs_f64());
    println!("{{\"wall\":{wall},\"cpu\":{cpu},\"runs\":{}}}", asked.runs);
    Ok(())
}

/// The runs shared among tasks; each takes the next one as soon as it is free.
async fn shared(asked: &Asked, crew: &Crew, ground: &Arc<Ground>) -> Result<()> {
    let begun = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = (0..asked.conc)
        .map(|_| {
            let (begun, crew, runs) = (Arc::clone(&begun), crew.clone(), asked.runs);
            let ground = Arc::clone(ground);
            tokio::spawn(async move {
                while begun.fetch_add(1, Ordering::Relaxed) < runs {
                    one(&crew, &ground).await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for worker in workers {
        worker.await??;
    }
    Ok(())
}
