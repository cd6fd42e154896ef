//! Measures what a run costs while it waits for its model: memory per parked run.

use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use futures_util::future::BoxFuture;
use toolgate_kernel::event::{Finish, Usage};
use toolgate_kernel::plan::Plan;
use toolgate_runtime::port::{Desk, Provider, ProviderFault, Reply, ReplyCall, Tap};

use crate::loops::{crew, open, runtime};

#[derive(Args)]
pub(crate) struct Options {
    /// How many runs wait at the same time.
    #[arg(default_value_t = 10_000)]
    runs: usize,
    /// Turns each of them has behind it.
    #[arg(long, default_value_t = 3)]
    turns: u64,
}

/// A model that makes some calls and then thinks for ever.
struct Thinking {
    turns: u64,
    parked: tokio::sync::mpsc::UnboundedSender<()>,
}

impl Provider for Thinking {
    fn name(&self) -> &str {
        "bench:thinking"
    }

    fn reply<'a>(
        &'a self,
        plan: &'a Plan,
        _: &'a mut Desk,
        _: Tap<'a>,
    ) -> BoxFuture<'a, Result<Reply, ProviderFault>> {
        Box::pin(async move {
            if plan.turn > self.turns {
                let _ = self.parked.send(());
                return std::future::pending().await;
            }
            let args = format!("{{\"a\":{},\"b\":1}}", plan.turn);
            let call = ReplyCall { alias: None, name: "add".into(), args };
            Ok(Reply::new("", vec![call], Finish::Calls, Usage::default()))
        })
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(park(options))
}

async fn park(options: &Options) -> Result<()> {
    let (parked, mut waiting) = tokio::sync::mpsc::unbounded_channel();
    let crew = crew(Some(Arc::new(Thinking { turns: options.turns, parked })))?;
    let (runtime, before) = (runtime(), resident_kib());
    let mut tasks = Vec::with_capacity(options.runs);
    for number in 0..options.runs {
        let mut driver = open(&runtime, &crew, number).await?;
        tasks.push(tokio::spawn(async move { driver.run(&|_| {}).await.map(drop) }));
        waiting.recv().await;
    }
    let grown = resident_kib().saturating_sub(before);
    let runs = u64::try_from(options.runs.max(1))?;
    println!(
        "{{\"runs\":{runs},\"turns\":{},\"rss_mib\":{},\"kib_per_run\":{:.1}}}",
        options.turns,
        grown / 1024,
        f64::from(u32::try_from(grown)?) / f64::from(u32::try_from(runs)?),
    );
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(())
}

/// Memory of this process that is really there.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
