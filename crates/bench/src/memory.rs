//! Measures memory: one call of each kind beside 100,000 memories, with the log in memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::{Agent, AgentDraft};
use toolgate_kernel::config::MemoryText;
use toolgate_kernel::names::SessionId;
use toolgate_packs::memory::memory;
use toolgate_runtime::{Crew, Driver, MemoryStore, Runtime, Toolbox};

use crate::dispatch::SystemClock;
use crate::manuscript::peak_kb;

#[derive(Args)]
pub(crate) struct Options {
    /// Memories there are.
    #[arg(long, default_value_t = 99_000)]
    memories: usize,
    /// Words of one memory.
    #[arg(long, default_value_t = 30)]
    words: usize,
    /// Calls of each kind; the middle one counts.
    #[arg(long, default_value_t = 101)]
    calls: usize,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let rt = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    rt.block_on(async {
        let mut driver = open().await?;
        let mut times = Vec::new();
        for number in 0..options.memories {
            times.push(call(&mut driver, &save(number, options.words)).await?);
        }
        report("save, one after the other", &mut times);
        let search = |query: String| json!({ "action": "search", "query": query });
        report(
            "the first search, which makes the index",
            &mut [call(&mut driver, &search(word(7))).await?],
        );
        let mut next = options.memories;
        for (what, query) in [
            ("search, one rare word", word(40_000)),
            ("search, one word that most memories have", word(1)),
            ("search, five words", (1..=5).map(|n| word(n * n * n)).collect::<Vec<_>>().join(" ")),
        ] {
            let mut times = Vec::new();
            for _ in 0..options.calls {
                times.push(call(&mut driver, &search(query.clone())).await?);
            }
            report(what, &mut times);
        }
        let mut times = Vec::new();
        for _ in 0..options.calls {
            call(&mut driver, &save(next, options.words)).await?;
            next += 1;
            times.push(call(&mut driver, &search(word(300))).await?);
        }
        report("search, after one more was saved", &mut times);
        let mut times = Vec::new();
        for _ in 0..options.calls.min(11) {
            times.push(call(&mut driver, &json!({ "action": "recall" })).await?);
        }
        report("recall of the week", &mut times);
        println!("{{\"what\":\"memory\",\"peak_kb\":{},\"memories\":{next}}}", peak_kb());
        Ok(())
    })
}

async fn open() -> Result<Driver> {
    let runtime = Runtime::new(Arc::new(MemoryStore::new()), Arc::new(SystemClock));
    let packs = [memory(MemoryText::default())?];
    let sections = packs.iter().map(|pack| pack.section.clone()).collect();
    let agent = Arc::new(Agent::build(AgentDraft::new("bench", sections))?);
    let (crew, id) = (Crew::new(agent, Toolbox::of(&packs)), SessionId::parse("bench")?);
    Driver::open(Arc::new(runtime), crew, id, &Actor::System, "bench").await.context("open")
}

/// One call, from its text to its settled answer.
async fn call(driver: &mut Driver, args: &Value) -> Result<Duration> {
    let (actor, args) = (Actor::Client("bench".into()), args.to_string());
    let begin = Instant::now();
    let envelope = driver.call(&actor, "memory", &args, None).await?;
    let took = begin.elapsed();
    ensure!(envelope.ok, "{}", envelope.message);
    Ok(took)
}

fn save(number: usize, words: usize) -> Value {
    // Some words are in many memories and most in few, as in any language.
    let mut state = u64::try_from(number).unwrap_or(0).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = format!("memory {number}:");
    for _ in 0..words {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let width = 1_u64 << (state >> 60);
        let rank = width + (state >> 20) % width;
        text.push(' ');
        text.push_str(&word(usize::try_from(rank).unwrap_or(0)));
    }
    let kind = if number.is_multiple_of(50) { "core" } else { "journal" };
    json!({ "action": "save", "kind": kind, "content": text })
}

/// A word by its rank: the lower, the more common.
fn word(rank: usize) -> String {
    const PARTS: [&str; 16] = [
        "ka", "lo", "mi", "ne", "ru", "sta", "tor", "vel", "win", "xa", "yor", "zem", "bri", "chu",
        "dal", "fen",
    ];
    let (mut rest, mut text) = (rank, String::new());
    loop {
        text.push_str(PARTS.get(rest % 16).unwrap_or(&""));
        rest /= 16;
        if rest == 0 {
            return text;
        }
    }
}

fn report(what: &str, times: &mut [Duration]) {
    times.sort();
    let at = |part: usize| times.get(times.len() * part / 100).map_or(0, Duration::as_micros);
    println!("{{\"what\":\"{what}\",\"median_us\":{},\"p99_us\":{}}}", at(50), at(99));
}
