//! Several processes write to one log and are killed at random; then the log must be sound.
//! After that: how long a log with many commits and streams takes to open.
//!
//! `cargo run --release -p toolgate-store --example contention -- [processes] [commits] [streams] [heads]`
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::StreamId;
use toolgate_kernel::names::SessionId;
use toolgate_kernel::time::Timestamp;
use toolgate_runtime::HostKey;
use toolgate_runtime::port::{Append, Batch, Clock, Row, Rows, Store, StreamHead};
use toolgate_store::{AnchorFolder, LogSetup, SqliteStore};

/// Any failure ends the trial.
type Failure = Box<dyn Error + Send + Sync>;

/// A clock that stands still: what time it is makes no difference here.
struct StillClock;

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }
}

fn open(folder: &Path) -> Result<SqliteStore, Failure> {
    let host = HostKey::from_seed(&[7; 32]).ok_or("no key")?;
    let anchors = Some(AnchorFolder::open(&folder.join("state"))?);
    let setup = LogSetup { anchors, ..LogSetup::new(host, Arc::new(StillClock)) };
    Ok(SqliteStore::open(folder.join("log.db"), &setup)?)
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [word, folder, number, commits] = args.as_slice()
        && word == "write"
    {
        return write(&PathBuf::from(folder), number.parse()?, commits.parse()?);
    }
    let number =
        |at: usize, otherwise: u64| args.get(at).map_or(Ok(otherwise), |text| text.parse());
    let (processes, commits) = (number(0, 4)?, number(1, 1_000)?);
    let (streams, heads) = (number(2, 10_000)?, number(3, 1_000_000)?);
    kill_at_random(processes, commits)?;
    opening(streams, heads)
}

/// One process: appends to a stream of its own, and to one that all share.
fn write(folder: &Path, number: u64, commits: u64) -> Result<(), Failure> {
    let store = open(folder)?;
    block_on(async {
        for _ in 0..commits {
            let own = StreamId::Session(SessionId::parse(&format!("p{number}"))?);
            append(&store, own).await?;
            append(&store, StreamId::Project).await?;
        }
        Ok(())
    })
}

/// Appends one record; another process may be first.
async fn append(store: &SqliteStore, stream: StreamId) -> Result<(), Failure> {
    for _ in 0..1_000 {
        let head = store.head(&stream).await?;
        let (after, link) = head.map_or((0, Digest::ZERO), |head| (head.seq, head.link));
        let bytes = vec![b'x'; 300];
        let (seq, link) = (after + 1, Digest::link(link, &bytes));
        let rows = Rows::from_iter([Row { seq, bytes, hash: link }]);
        let head = StreamHead { stream: stream.clone(), seq, link };
        let batch = Batch { epoch: None, after, rows, head };
        match store.append(Append { batches: vec![batch], blobs: vec![] }).await {
            Err(toolgate_runtime::port::StoreFault::Moved { .. }) => {}
            appended => return Ok(appended?),
        }
    }
    Err("others were always first".into())
}

/// Starts processes again whenever they are killed, until each has done its commits.
fn kill_at_random(processes: u64, commits: u64) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let start = |number: u64| -> Result<Child, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("write").arg(folder.path()).arg(number.to_string()).arg(commits.to_string());
        Ok(command.spawn()?)
    };
    let mut running = Vec::new();
    for number in 0..processes {
        running.push((number, start(number)?));
    }
    let (mut kills, mut dice) = (0_u64, 12_345_u64);
    while !running.is_empty() {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis(20 + (dice >> 33) % 150));
        running
            .retain_mut(|(_, child)| !matches!(child.try_wait(), Ok(Some(end)) if end.success()));
        let count = u64::try_from(running.len())?;
        if count > 0 && kills < 10 * processes {
            let at = usize::try_from((dice >> 17) % count)?;
            if let Some((number, child)) = running.get_mut(at) {
                child.kill()?;
                child.wait()?;
                kills += 1;
                *child = start(*number)?;
            }
        }
        for (number, child) in &mut running {
            if let Some(end) = child.try_wait()?
                && !end.success()
            {
                return Err(format!("process {number} ended with {end}").into());
            }
        }
    }
    let store = open(folder.path())?;
    let problems = block_on(async { Ok(store.integrity().await?) })?;
    let heads = block_on(async { Ok(store.heads().await?) })?;
    let records: u64 = heads.iter().map(|head| head.seq).sum();
    println!(
        "{processes} processes, {kills} killed, {records} records: {} problems",
        problems.len()
    );
    if problems.is_empty() { Ok(()) } else { Err(format!("{problems:?}").into()) }
}

/// Opens a log with many streams and commits.
fn opening(streams: u64, heads: u64) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let store = open(folder.path())?;
    block_on(async {
        let own =
            |number: u64| SessionId::parse(&format!("session-{number}")).map(StreamId::Session);
        // Many streams in each of the first commits, then one claim in each of the others.
        let mut waiting = Vec::new();
        for number in 0..streams {
            waiting.push(own(number)?);
        }
        for some in waiting.chunks(500) {
            let claims = some.iter().map(|stream| store.claim(stream));
            for claimed in futures_util::future::join_all(claims).await {
                claimed?;
            }
        }
        let project = StreamId::Project;
        while store.note().await?.as_deref().and_then(size).is_none_or(|size| size < heads) {
            for _ in 0..1_000 {
                store.claim(&project).await?;
            }
        }
        Ok(())
    })?;
    drop(store);
    let mut took: Vec<Duration> = Vec::new();
    for _ in 0..7 {
        let begun = Instant::now();
        drop(open(folder.path())?);
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    let median = took.get(took.len() / 2).copied().unwrap_or_default();
    println!("a log with {heads} commits and {streams} streams opens and closes in {median:?}");
    Ok(())
}

/// The size that a note counts.
fn size(note: &str) -> Option<u64> {
    note.lines().nth(1)?.parse().ok()
}

fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(work)
}
