//! `toolgate verify`: whether the log is what was written.

use anyhow::Result;
use clap::Args;
use toolgate_runtime::verify::verify;

use crate::console;
use crate::exit::Exit;
use crate::project::{Place, block_on};

#[derive(Args)]
#[command(after_help = "Example:\n  toolgate verify --json")]
pub(crate) struct Options {
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    let log = place.log()?;
    let report = block_on(async { Ok(verify(log.store.as_ref(), &log.key).await?) })?;
    let exit = if report.problems.is_empty() { Exit::Done } else { Exit::Failed };
    if options.json {
        console::json(&report);
        return Ok(exit);
    }
    let records = report.streams.values().fold(0, |sum: u64, records| sum.saturating_add(*records));
    for problem in &report.problems {
        let place =
            if problem.seq == 0 { String::new() } else { format!(", record {}", problem.seq) };
        console::say(&format!("✗ {}{place}: {}", problem.stream, problem.what));
    }
    let streams = report.streams.len();
    match report.problems.len() {
        0 => console::say(&format!("✓ {records} records in {streams} streams are as written.")),
        1 => console::say(&format!("1 problem in {records} records of {streams} streams.")),
        n => console::say(&format!("{n} problems in {records} records of {streams} streams.")),
    }
    console::say("Whoever has the key, or puts back an older copy, could still forge a log.");
    Ok(exit)
}
