//! Decides what is measured: one sub-command per figure in `docs/benchmarks.md`.

// A benchmark prints its figures, and it reads the clock because that is its job.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

mod dispatch;
mod gateway;
mod loops;
mod manuscript;
mod memory;
mod meter;
mod park;
mod snapshot;
mod store;
mod undo;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "toolgate-bench", about = "Measures toolgate. Prints one JSON line per figure.")]
struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// One governed call: JSON text in; parsed, judged, run, chained, signed; result out.
    Dispatch(dispatch::Options),
    /// Whole runs against the model server at `PERF_URL`, as `bench/` asks for them.
    Loop(loops::Options),
    /// An MCP gateway in front of a server, as `bench/` asks for it.
    Gateway(gateway::Options),
    /// Runs that wait for their model: memory of each.
    Park(park::Options),
    /// A novel of 300,000 words on disk: reading, searching, replacing, starting.
    Manuscript(manuscript::Options),
    /// Saving, searching and recalling beside 100,000 memories.
    Memory(memory::Options),
    /// One snapshot of session and project, at growing sizes.
    Snapshot,
    /// Durable events per second on SQLite, from many sessions at once.
    Store(store::Options),
    /// 1,000 calls undone at once, in memory and on SQLite.
    Undo(undo::Options),
}

fn main() -> anyhow::Result<()> {
    match Options::parse().what {
        What::Dispatch(options) => dispatch::run(&options),
        What::Loop(options) => loops::run(&options),
        What::Gateway(options) => gateway::run(&options),
        What::Park(options) => park::run(&options),
        What::Manuscript(options) => manuscript::run(&options),
        What::Memory(options) => memory::run(&options),
        What::Snapshot => snapshot::run(),
        What::Store(options) => store::run(&options),
        What::Undo(options) => undo::run(&options),
    }
}
