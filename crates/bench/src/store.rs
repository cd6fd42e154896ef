//! Measures durable events per second: real sessions, real SQLite, `synchronous = FULL`.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use futures_util::future::try_join_all;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::names::SessionId;
use toolgate_runtime::{Driver, Runtime};
use toolgate_store::SqliteStore;

use crate::dispatch::{SystemClock, crew, log_setup};

#[derive(Args)]
pub(crate) struct Options {
    /// Sessions that call at the same time.
    #[arg(long, default_value_t = 64)]
    sessions: usize,
    /// Calls per session; each is three events in two appends.
    #[arg(long, default_value_t = 300)]
    calls: usize,
    /// The folder the log is made in; a temporary one when left out.
    #[arg(long)]
    folder: Option<std::path::PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let store = Arc::new(SqliteStore::open(folder.path().join("log.db"), &log_setup()?)?);
    let runtime = Arc::new(Runtime::new(store, Arc::new(SystemClock)));
    let rt = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    rt.block_on(async {
        let mut drivers = Vec::new();
        for number in 0..options.sessions {
            let id = SessionId::parse(&format!("s{number}"))?;
            let (runtime, crew) = (Arc::clone(&runtime), crew(0)?);
            drivers.push(Driver::open(runtime, crew, id, &Actor::System, "bench").await?);
        }
        let begin = Instant::now();
        try_join_all(drivers.iter_mut().map(|driver| work(driver, options.calls))).await?;
        let seconds = begin.elapsed().as_secs_f64();
        let events: u64 = drivers.iter().map(|driver| driver.session().seq - 2).sum();
        let rate = u32::try_from(events).map(f64::from)? / seconds;
        println!(
            "{{\"what\":\"store\",\"sessions\":{},\"events\":{events},\"events_s\":{rate:.0}}}",
            options.sessions
        );
        Ok(())
    })
}

async fn work(driver: &mut Driver, calls: usize) -> Result<()> {
    let actor = Actor::Model("bench".into());
    for _ in 0..calls {
        driver.call(&actor, "add", r#"{"a":41,"b":1}"#, None).await?;
    }
    Ok(())
}
