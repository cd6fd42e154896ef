//! Measures a novel: one call of each kind on 300,000 words in 400 sections, on disk.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::{Agent, AgentDraft};
use toolgate_kernel::names::SessionId;
use toolgate_packs::manuscript::{ManuscriptTools, manuscript};
use toolgate_runtime::{Crew, Driver, Runtime, Toolbox};
use toolgate_store::{Folder, SqliteStore};

use crate::dispatch::{SystemClock, log_setup};
use crate::meter::cpu;

#[derive(Args)]
pub(crate) struct Options {
    /// Sections of the novel.
    #[arg(long, default_value_t = 400)]
    sections: usize,
    /// Words of one section.
    #[arg(long, default_value_t = 750)]
    words: usize,
    /// Calls of each kind; the middle one counts.
    #[arg(long, default_value_t = 51)]
    calls: usize,
    /// Only this tool is called.
    #[arg(long)]
    only: Option<String>,
    /// The folder the project is made in; a temporary one when left out.
    #[arg(long)]
    folder: Option<std::path::PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let rt = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    rt.block_on(async {
        let mut driver = open(folder.path(), "writer").await?;
        for number in 0..options.sections {
            let args = json!({ "name": name(number), "content": prose(number, options.words) });
            call(&mut driver, "create_section", &args).await?;
        }
        let some = name(options.sections / 2);
        let kinds = [
            ("read_manuscript_tail", json!({})),
            ("read_manuscript_section", json!({ "section_name": some })),
            ("search_manuscript", json!({ "query": "lighthouse keeper" })),
            ("get_manuscript_info", json!({})),
        ];
        let wanted = |tool: &str| options.only.as_ref().is_none_or(|only| only == tool);
        for (tool, args) in kinds.iter().filter(|(tool, _)| wanted(tool)) {
            let mut times = Vec::new();
            for _ in 0..options.calls {
                times.push(call(&mut driver, tool, args).await?);
            }
            report(tool, &mut times);
        }
        let mut times = Vec::new();
        for round in 0..options.calls {
            let args = json!({ "name": some, "content": prose(round + 7, options.words) });
            times.push(call(&mut driver, "replace_section", &args).await?);
        }
        report("replace_section", &mut times);
        let mut times = Vec::new();
        for round in 0..options.calls {
            times.push(floor(folder.path(), &driver_bytes(folder.path())?, round)?);
        }
        report("the same bytes written, synced and renamed by hand", &mut times);
        drop(driver);
        let (begin, before) = (Instant::now(), cpu());
        let mut driver = open(folder.path(), "reader").await?;
        call(&mut driver, "read_manuscript_tail", &json!({})).await?;
        report("start", &mut [Took { wall: begin.elapsed(), cpu: cpu().saturating_sub(before) }]);
        let bytes = std::fs::metadata(folder.path().join("manuscript.md"))?.len();
        println!("{{\"what\":\"memory\",\"peak_kb\":{},\"manuscript_bytes\":{bytes}}}", peak_kb());
        Ok(())
    })
}

async fn open(folder: &Path, session: &str) -> Result<Driver> {
    let state = folder.join(".toolgate");
    let files = Folder::open(folder, state.join("staged"))?;
    let store = Arc::new(SqliteStore::open(state.join("log.db"), &log_setup()?)?);
    let runtime = Runtime::new(store, Arc::new(SystemClock)).with_files(Arc::new(files));
    let packs = [manuscript(ManuscriptTools::default())?];
    let sections = packs.iter().map(|pack| pack.section.clone()).collect();
    let agent = Arc::new(Agent::build(AgentDraft::new("bench", sections))?);
    let (crew, id) = (Crew::new(agent, Toolbox::of(&packs)), SessionId::parse(session)?);
    Driver::open(Arc::new(runtime), crew, id, &Actor::System, "bench").await.context("open")
}

/// One call and how long it took, from its text to its settled answer.
async fn call(driver: &mut Driver, tool: &str, args: &Value) -> Result<Took> {
    let (actor, args) = (Actor::Model("bench".into()), args.to_string());
    let (begin, before) = (Instant::now(), cpu());
    let envelope = driver.call(&actor, tool, &args, None).await?;
    let took = Took { wall: begin.elapsed(), cpu: cpu().saturating_sub(before) };
    ensure!(envelope.ok, "{tool}: {}", envelope.message);
    Ok(took)
}

/// What the disk alone takes for a file of this size: what replacing could not do without.
fn floor(folder: &Path, bytes: &[u8], round: usize) -> Result<Took> {
    use std::io::Write;
    let (begin, before) = (Instant::now(), cpu());
    let (copy, target) = (folder.join(format!("copy{round}")), folder.join("floor.md"));
    let mut file = std::fs::File::create(&copy)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&copy, &target)?;
    std::fs::File::open(folder)?.sync_all()?;
    Ok(Took { wall: begin.elapsed(), cpu: cpu().saturating_sub(before) })
}

fn driver_bytes(folder: &Path) -> Result<Vec<u8>> {
    Ok(std::fs::read(folder.join("manuscript.md"))?)
}

/// How long something took: by the clock, and of this thread's own work. The difference is the disk,
/// the thread that writes the log, and whoever else uses the machine.
struct Took {
    wall: Duration,
    cpu: Duration,
}

fn report(what: &str, times: &mut [Took]) {
    let mut at = |part: usize, of: fn(&Took) -> Duration| {
        times.sort_by_key(of);
        times.get(times.len() * part / 100).map_or(0, |took| of(took).as_micros())
    };
    let (median, p90) = (at(50, |took| took.wall), at(90, |took| took.wall));
    let cpu = at(50, |took| took.cpu);
    println!("{{\"what\":\"{what}\",\"median_us\":{median},\"p90_us\":{p90},\"cpu_us\":{cpu}}}");
}

fn name(number: usize) -> String {
    format!("Chapter {number}")
}

/// Prose of so many words in paragraphs of seventy-five, different for every number.
fn prose(number: usize, words: usize) -> String {
    const WORDS: &[&str] = &[
        "the",
        "sea",
        "was",
        "calm",
        "and",
        "nobody",
        "spoke",
        "of",
        "winter",
        "harbour",
        "light",
        "again",
        "she",
        "had",
        "waited",
        "for",
        "him",
        "through",
        "every",
        "storm",
        "—",
        "‘yes,’",
    ];
    let mut text = String::new();
    for word in 0..words {
        if word > 0 {
            text.push_str(if word % 75 == 0 { "\n\n" } else { " " });
        }
        match word {
            400 if number.is_multiple_of(40) => text.push_str("lighthouse keeper"),
            _ => text.push_str(WORDS.get((word * 7 + number * 3 + word / 11) % 22).unwrap_or(&"")),
        }
    }
    text
}

/// Most memory this process ever had.
pub(crate) fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
