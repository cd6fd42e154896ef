//! Measures undo: 1,000 calls that changed notes and state go back in one append, in memory and
//! on disk.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::json;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::{Agent, AgentDraft};
use toolgate_kernel::names::SessionId;
use toolgate_packs::manuscript::{ManuscriptTools, manuscript};
use toolgate_packs::notes::notes;
use toolgate_runtime::port::Store;
use toolgate_runtime::{Crew, Driver, MemoryStore, Range, Runtime, Toolbox};
use toolgate_store::{Folder, SqliteStore};
use toolgate_testkit::signer::ada;

use crate::dispatch::{SystemClock, log_setup};

#[derive(Args)]
pub(crate) struct Options {
    /// Calls that are undone. Every tenth writes the manuscript, the others notes.
    #[arg(long, default_value_t = 1_000)]
    calls: usize,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let rt = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path().join("log.db"), &log_setup()?)?;
    rt.block_on(async {
        measure("memory", Arc::new(MemoryStore::new()), options.calls).await?;
        measure("sqlite", Arc::new(store), options.calls).await
    })
}

async fn measure(name: &str, store: Arc<dyn Store>, calls: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let files = Folder::open(folder.path(), folder.path().join(".toolgate").join("staged"))?;
    let runtime = Runtime::new(store, Arc::new(SystemClock)).with_files(Arc::new(files));
    let packs = [notes()?, manuscript(ManuscriptTools::default())?];
    let sections = packs.iter().map(|pack| pack.section.clone()).collect();
    let agent = Arc::new(Agent::build(AgentDraft::new("bench", sections))?);
    let (crew, id) = (Crew::new(agent, Toolbox::of(&packs)), SessionId::parse("bench")?);
    let runtime = Arc::new(runtime);
    let mut driver = Driver::open(runtime, crew, id, &Actor::System, "bench").await?;
    let before = driver.project().export().1;
    for number in 0..calls {
        let (tool, args) = match number % 10 {
            0 => ("create_section", json!({ "name": format!("s{number}"), "content": "Words." })),
            _ => ("write_notes", json!({ "key": format!("n{}", number % 100), "data": number })),
        };
        let actor = Actor::Model("bench".into());
        let envelope = driver.call(&actor, tool, &args.to_string(), None).await?;
        ensure!(envelope.ok, "{tool}: {}", envelope.message);
    }
    let begin = Instant::now();
    let undo = driver.undo_preview(Range::Calls(calls)).await.context("preview")?;
    let looked = begin.elapsed();
    let begin = Instant::now();
    driver.undo(ada(), &undo, "").await.context("undo")?;
    let done = begin.elapsed();
    ensure!(driver.project().export().1 == before, "the project is not as it was");
    println!(
        "{{\"what\":\"undo\",\"store\":\"{name}\",\"calls\":{calls},\"preview_ms\":{:.1},\
         \"undo_ms\":{:.1}}}",
        looked.as_secs_f64() * 1e3,
        done.as_secs_f64() * 1e3
    );
    Ok(())
}
