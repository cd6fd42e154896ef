//! The crash loop: fail at the n-th durable step, resume, compare; and the seeded bugs.

// A chore prints what it found.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, Subcommand};
use toolgate_kernel::config::{ConfigDigests, GateRule, MachinePolicy, TrustEvidence, read};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::seeded::{Bug, seed};
use toolgate_mcp::client::ProgramSandbox;
use toolgate_runtime::MemoryStore;
use toolgate_runtime::crash::{Plot, plot, report};
use toolgate_runtime::port::Store;
use toolgate_sandbox::{
    HomeAccess, IsolationLevel, KernelSupport, NetworkAccess, PathAccess, PathGrant, ProgramStart,
    SandboxMode, SandboxRequest, Starter,
};
use toolgate_store::{AnchorFolder, LogSetup, SqliteStore};
use toolgate_testkit::bent::Bent;
use toolgate_testkit::crash::wounds;
use toolgate_testkit::forgery::believed_forgeries;
use toolgate_testkit::ledger::Ledger;
use toolgate_testkit::scenario::Scenario;
use toolgate_testkit::stage::{Played, Stage, log_setup};

/// Fails at the n-th durable step for every n, and checks what is left.
#[derive(Parser)]
#[command(name = "toolgate-crash")]
struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Every scenario in process, a chosen set with SIGKILL.
    Crash {
        /// Fewer points: every scenario on the memory store, one with SIGKILL.
        #[arg(long)]
        quick: bool,
        /// Only scenarios with this in their path.
        #[arg(default_value = "")]
        only: String,
    },
    /// Puts each bug in and sees that it is caught.
    Seeded {
        /// Only the scenarios that are made for it.
        #[arg(long)]
        quick: bool,
    },
    /// Plays one scenario in a folder; used by the SIGKILL loop.
    Play {
        /// The scenario file.
        scenario: PathBuf,
        /// The folder.
        folder: PathBuf,
        /// Kill this process at the n-th point.
        #[arg(long)]
        kill_at: Option<u64>,
    },
}

/// The scenarios that are killed for real: they have every effect and both kinds of caller.
const KILLED: &[&str] =
    &["transaction/world", "policy/sequential", "approval/asked", "undo/calls", "fork/calls"];

fn main() -> std::process::ExitCode {
    // It starts programs in a sandbox, and is their starter.
    if let Some(code) = toolgate_sandbox::init(std::env::args_os()) {
        return code;
    }
    match chosen() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn chosen() -> Result<()> {
    // Planned panics are part of the loop; their words would drown everything else.
    std::panic::set_hook(Box::new(|_| {}));
    match Options::parse().what {
        What::Crash { quick, only } => crash(quick, &only),
        What::Seeded { quick } => seeded(quick),
        What::Play { scenario, folder, kill_at } => play_here(&scenario, &folder, kill_at),
    }
}

fn scenarios() -> Result<Vec<PathBuf>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut found = Scenario::find(&root)?;
    found.retain(|path| Scenario::read(path).is_ok_and(|scenario| scenario.refused.is_none()));
    Ok(found)
}

fn name(path: &Path) -> String {
    let text = path.with_extension("").display().to_string();
    text.rsplit_once("scenarios/").map_or(text.clone(), |(_, name)| name.to_owned())
}

#[derive(Default)]
struct Tally {
    runs: u64,
    points: BTreeMap<String, u64>,
    wounds: Vec<String>,
}

fn crash(quick: bool, only: &str) -> Result<()> {
    let mut tally = Tally::default();
    for path in scenarios()?.iter().filter(|path| name(path).contains(only)) {
        let before = tally.runs;
        in_process(path, Log::Memory, &mut tally)?;
        if !quick {
            in_process(path, Log::Sqlite, &mut tally)?;
        }
        println!("{:<32} {:>4} crashes in process", name(path), tally.runs - before);
    }
    let killed =
        KILLED.iter().filter(|name| name.contains(only)).take(if quick { 1 } else { KILLED.len() });
    for scenario in killed {
        let before = tally.runs;
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../scenarios/{scenario}.yaml"));
        killed_for_real(&path, &mut tally)?;
        println!("{scenario:<32} {:>4} kills", tally.runs - before);
    }
    println!("\npoints reached:");
    for (point, hits) in &tally.points {
        println!("  {point:<20} {hits}");
    }
    for wound in &tally.wounds {
        println!("✗ {wound}");
    }
    ensure!(tally.wounds.is_empty(), "{} wounds after {} crashes", tally.wounds.len(), tally.runs);
    println!("✓ {} crashes, each resumed, nothing lost, nothing done twice", tally.runs);
    Ok(())
}

#[derive(Clone, Copy)]
enum Log {
    Memory,
    Sqlite,
}

fn store(log: Log, folder: &Path) -> Result<Arc<dyn Store>> {
    Ok(match log {
        Log::Memory => Arc::new(Bent::<()>::default()),
        Log::Sqlite => {
            let anchors = Some(AnchorFolder::open(&folder.join("state"))?);
            let setup = LogSetup { anchors, ..log_setup()? };
            Arc::new(SqliteStore::open(folder.join("log.db"), &setup)?)
        }
    })
}

fn stage(path: &Path, log: Log, folder: &Path) -> Result<Stage> {
    let scenario = Scenario::read(path)?;
    let project = folder.join("project");
    std::fs::create_dir_all(&project)?;
    match Stage::new(scenario, store(log, folder)?, &project, Ledger::default())? {
        Ok(stage) => Ok(stage),
        Err(refused) => bail!("{}: {}", path.display(), refused.0),
    }
}

fn play(stage: &Stage) -> Result<Played> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(stage.play())
}

fn in_process(path: &Path, log: Log, tally: &mut Tally) -> Result<()> {
    let folder = tempfile::tempdir()?;
    plot(Plot::Count);
    let clean = play(&stage(path, log, folder.path())?).with_context(|| name(path))?;
    let total: u64 = report().values().sum();
    for at in 1..=total {
        let folder = tempfile::tempdir()?;
        let mut stage = stage(path, log, folder.path())?;
        plot(Plot::PanicAt(at));
        let crashed = catch_unwind(AssertUnwindSafe(|| play(&stage)));
        for (point, hits) in report() {
            *tally.points.entry(point.to_owned()).or_default() += hits;
        }
        plot(Plot::Count);
        tally.runs += 1;
        if matches!(crashed, Ok(Ok(_))) {
            // The last points may lie after everything was said and done.
            continue;
        }
        let place = format!("{}, point {at}", name(path));
        if matches!(log, Log::Sqlite) {
            drop(std::mem::replace(&mut stage.store, Arc::new(MemoryStore::new())));
            match store(log, folder.path()) {
                Ok(store) => stage = stage.reopened(store),
                Err(error) => {
                    tally.wounds.push(format!("{place}: cannot be opened: {error:#}"));
                    continue;
                }
            }
        }
        match play(&stage) {
            Ok(played) => {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_time().build()?;
                let found = runtime.block_on(wounds(&stage, &played, &clean))?;
                tally.wounds.extend(found.into_iter().map(|wound| format!("{place}: {wound}")));
            }
            Err(error) => tally.wounds.push(format!("{place}: cannot be resumed: {error:#}")),
        }
    }
    Ok(())
}

/// Plays a scenario in this process, on SQLite, with the world in a file.
fn play_here(path: &Path, folder: &Path, kill_at: Option<u64>) -> Result<()> {
    let scenario = Scenario::read(path)?;
    let project = folder.join("project");
    std::fs::create_dir_all(&project)?;
    let ledger = Ledger::File(folder.join("world.ledger"));
    let store = store(Log::Sqlite, folder)?;
    let stage = match Stage::new(scenario, store, &project, ledger)? {
        Ok(stage) => stage,
        Err(refused) => bail!("{}", refused.0),
    };
    plot(kill_at.map_or(Plot::Count, Plot::KillAt));
    let played = play(&stage)?;
    print!("{}", played.state);
    Ok(())
}

fn killed_for_real(path: &Path, tally: &mut Tally) -> Result<()> {
    let me = std::env::current_exe()?;
    let run = |folder: &Path, kill_at: Option<u64>| -> Result<(bool, String)> {
        let mut command = Command::new(&me);
        command.arg("play").arg(path).arg(folder);
        if let Some(at) = kill_at {
            command.arg("--kill-at").arg(at.to_string());
        }
        let output = command.output()?;
        Ok((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
    };
    let folder = tempfile::tempdir()?;
    let (finished, clean) = run(folder.path(), None)?;
    ensure!(finished, "{} does not finish", name(path));
    for at in 1.. {
        let folder = tempfile::tempdir()?;
        let (finished, _) = run(folder.path(), Some(at))?;
        if finished {
            break;
        }
        tally.runs += 1;
        let place = format!("{}, killed at {at}", name(path));
        let (resumed, state) = run(folder.path(), None)?;
        if !resumed {
            tally.wounds.push(format!("{place}: cannot be resumed"));
            continue;
        }
        // Look at what is left with fresh eyes: the log and the world as files.
        let mut stage = stage(path, Log::Sqlite, folder.path())?;
        let ledger = Ledger::File(folder.path().join("world.ledger")).entries()?;
        let clean = Played { trace: String::new(), state: clean.clone(), ledger: Vec::new() };
        let played = Played { trace: String::new(), state, ledger };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let found = runtime.block_on(wounds(&stage, &played, &clean))?;
        tally.wounds.extend(found.into_iter().map(|wound| format!("{place}: {wound}")));
        stage.store = Arc::new(MemoryStore::new());
    }
    Ok(())
}

/// Puts each bug in and looks for it with golden traces first, then with the crash loop.
fn seeded(quick: bool) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let believed = runtime.block_on(believed_forgeries())?;
    ensure!(believed.is_empty(), "without a bug: {}", believed.join(", "));
    for found in [caught_in_trust(), caught_in_digests(), caught_in_sandbox()?] {
        ensure!(found.is_none(), "without a bug: {}", found.unwrap_or_default());
    }
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        seed(Some(bug));
        let caught = caught_by(quick);
        seed(None);
        match caught? {
            Some(by) => println!("✓ {bug:?} is caught: {by}"),
            None => missed.push(format!("{bug:?}")),
        }
    }
    ensure!(missed.is_empty(), "not caught: {}", missed.join(", "));
    Ok(())
}

fn caught_by(quick: bool) -> Result<Option<String>> {
    if let Some(by) = caught_by_forgery()? {
        return Ok(Some(by));
    }
    if let Some(by) = caught_in_trust() {
        return Ok(Some(by));
    }
    if let Some(by) = caught_in_digests() {
        return Ok(Some(by));
    }
    if let Some(by) = caught_in_sandbox()? {
        return Ok(Some(by));
    }
    for path in scenarios()? {
        let folder = tempfile::tempdir()?;
        plot(Plot::Count);
        let golden = std::fs::read_to_string(path.with_extension("trace")).unwrap_or_default();
        match play(&stage(&path, Log::Memory, folder.path())?) {
            Ok(played) if played.trace == golden => {}
            Ok(played) => {
                let first =
                    played.trace.lines().zip(golden.lines()).find(|(now, then)| now != then);
                let line =
                    first.map_or_else(String::new, |(now, _)| now.chars().take(60).collect());
                return Ok(Some(format!("{} leaves another trace: {line}", name(&path))));
            }
            Err(error) => return Ok(Some(format!("{}: {error:#}", name(&path)))),
        }
    }
    for path in scenarios()? {
        if quick && !KILLED.contains(&name(&path).as_str()) {
            continue;
        }
        let mut tally = Tally::default();
        in_process(&path, Log::Memory, &mut tally)?;
        if let Some(wound) = tally.wounds.first() {
            return Ok(Some(wound.chars().take(100).collect()));
        }
    }
    caught_on_disk()
}

/// Looks for a bug in what records are taken for, by writing some as a thief of the host key could.
fn caught_by_forgery() -> Result<Option<String>> {
    plot(Plot::Count);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    // Without a bug it has no errors, so one that comes with a bug shows the bug.
    let believed = match runtime.block_on(believed_forgeries()) {
        Ok(believed) => believed,
        Err(error) => return Ok(Some(format!("{error:#}"))),
    };
    Ok((!believed.is_empty()).then(|| format!("believed: {}", believed.join(", "))))
}

/// Looks for a bug in what a configuration needs before it may start anything.
fn caught_in_trust() -> Option<String> {
    let digests = ConfigDigests { reach: Digest::ZERO, gate: Digest::ZERO, rest: Digest::ZERO };
    let evidence = TrustEvidence {
        digests: &digests,
        is_harmless: false,
        gate_rule: GateRule::Any,
        statements: &[],
        operator: None,
        policy: &MachinePolicy::default(),
    };
    let trusted = evidence.decide().is_ok();
    trusted.then(|| "a configuration that nobody trusts may start programs".to_owned())
}

/// Looks for a bug in what the digests of a configuration cover.
fn caught_in_digests() -> Option<String> {
    let digests = |server: &str| {
        let yaml = format!("mcp_servers: {{bank: {{{server}}}}}\n");
        let checked = read(yaml.as_bytes()).check(Vec::new());
        checked.agent().map(|agent| ConfigDigests::of(&checked.text, agent))
    };
    let before = digests("command: bank, args: [--sandbox]")?;
    let edits = [
        "command: bank, args: [--production]",
        "command: other, args: [--sandbox]",
        "command: bank, args: [--sandbox], env: {TOKEN: 'env:OTHER'}",
        "command: bank, args: [--sandbox], sandbox: {mode: 'off'}",
        "url: 'https://bank.example/mcp'",
    ];
    let unseen = edits.into_iter().find(|edit| digests(edit).is_some_and(|after| after == before));
    unseen.map(|edit| format!("another server has the digests of before: {edit}"))
}

/// Looks for a bug in what the program of a server is granted: by its policy, and, where programs can be
/// isolated here, by what it prints.
fn caught_in_sandbox() -> Result<Option<String>> {
    let top = tempfile::tempdir()?;
    let home = top.path().canonicalize()?;
    let (keys, project) = (home.join(".config/toolgate"), home.join("project"));
    for folder in [&keys, &project] {
        std::fs::create_dir_all(folder)?;
    }
    let key = keys.join("host.key");
    std::fs::write(&key, "the key")?;
    let request = SandboxRequest {
        mode: SandboxMode::Auto,
        project: project.clone(),
        read: vec![".".into()],
        write: Vec::new(),
        network: NetworkAccess::None,
        home: HomeAccess::Shared,
        user_home: Some(home.clone()),
        private_folder: home.join("homes/own"),
        unix_sockets: false,
        protected: vec![keys],
        extra_files: Vec::new(),
    };
    let support = KernelSupport::probe();
    let sandbox = ProgramSandbox { starter: Starter::find()?, request, support };
    let program = Path::new("/bin/cat");
    let start = ProgramStart { program, args: &[], cwd: &project, path: None };
    let prepared = sandbox.prepare(&start)?.context("there is no cat here")?;
    let around =
        |grant: &&PathGrant| grant.access != PathAccess::List && key.starts_with(&grant.path);
    if let Some(grant) = prepared.policy.paths.iter().find(around) {
        return Ok(Some(format!("granted around a key: {}", grant.path.display())));
    }
    if prepared.level != IsolationLevel::Full {
        return Ok(None);
    }
    let arguments = Starter::arguments(&prepared.policy, &prepared.program)?;
    let mut command = Command::new(sandbox.starter.path());
    let ran = command.args(arguments).arg(&key).current_dir(&project).output()?;
    Ok((!ran.stdout.is_empty()).then(|| "the program of a server reads a key".to_owned()))
}

/// Looks for a bug in the log on the disk: after crashes, and with an older copy in its place.
fn caught_on_disk() -> Result<Option<String>> {
    let path = scenarios()?.into_iter().find(|path| KILLED.contains(&name(path).as_str()));
    let path = path.context("there is no scenario that is killed")?;
    let mut tally = Tally::default();
    in_process(&path, Log::Sqlite, &mut tally)?;
    if let Some(wound) = tally.wounds.first() {
        return Ok(Some(wound.chars().take(100).collect()));
    }
    let folder = tempfile::tempdir()?;
    let (log, older) = (folder.path().join("log.db"), folder.path().join("older.db"));
    // A log without records, then the same with all of them.
    drop(store(Log::Sqlite, folder.path())?);
    std::fs::copy(&log, &older)?;
    plot(Plot::Count);
    play(&stage(&path, Log::Sqlite, folder.path())?)?;
    std::fs::copy(&older, &log)?;
    let opened = store(Log::Sqlite, folder.path()).is_ok();
    Ok(opened.then(|| "an older copy of the log is opened".to_owned()))
}
