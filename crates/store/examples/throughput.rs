//! Measures durable events per second: many sessions, each waits for its record to be on the disk.
//!
//! `cargo run --release -p toolgate-store --example throughput -- [sessions] [seconds] [folder]`
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::StreamId;
use toolgate_kernel::names::SessionId;
use toolgate_kernel::time::Timestamp;
use toolgate_runtime::HostKey;
use toolgate_runtime::port::{Append, Batch, Clock, Row, Rows, Store, StreamHead};
use toolgate_store::{AnchorFolder, LogSetup, SqliteStore};

/// Size of one record, in bytes.
const RECORD_BYTES: usize = 300;

/// A clock that stands still: what time it is makes no difference here.
struct StillClock;

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }
}

/// Any failure ends the measurement.
type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let sessions: u32 = args.next().map_or(Ok(64), |text| text.parse())?;
    let seconds: u64 = args.next().map_or(Ok(5), |text| text.parse())?;
    let folder = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(folder)?;
    let host = HostKey::from_seed(&[7; 32]).ok_or("no key")?;
    let anchors = Some(AnchorFolder::open(&folder.path().join("state"))?);
    let setup = LogSetup { anchors, ..LogSetup::new(host, Arc::new(StillClock)) };
    let store = Arc::new(SqliteStore::open(folder.path().join("log.db"), &setup)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let (events, mut waits, took) = runtime.block_on(async {
        let start = Instant::now();
        let until = start + Duration::from_secs(seconds);
        let run = |number| tokio::spawn(session(Arc::clone(&store), number, until));
        let tasks: Vec<_> = (0..sessions).map(run).collect();
        let mut waits = Vec::new();
        for task in tasks {
            waits.extend(task.await??);
        }
        Ok::<_, Failure>((waits.len(), waits, start.elapsed()))
    })?;
    waits.sort_unstable();
    let at = |percent: usize| waits.get(waits.len() * percent / 100).copied().unwrap_or_default();
    let events = u32::try_from(events)?;
    println!(
        "{sessions} sessions: {:.0} events/s; wait p50 {:?}, p99 {:?}, longest {:?}",
        f64::from(events) / took.as_secs_f64(),
        at(50),
        at(99),
        waits.last().copied().unwrap_or_default(),
    );
    Ok(())
}

/// Appends one record after the other until the time is over; returns how long each took.
async fn session(
    store: Arc<SqliteStore>,
    number: u32,
    until: Instant,
) -> Result<Vec<Duration>, Failure> {
    let stream = StreamId::Session(SessionId::parse(&format!("session-{number}"))?);
    let epoch = Some(store.claim(&stream).await?);
    let (mut after, mut hash, mut waits) = (0, Digest::ZERO, Vec::new());
    loop {
        let begun = Instant::now();
        if begun >= until {
            return Ok(waits);
        }
        let bytes = vec![b'x'; RECORD_BYTES];
        hash = Digest::link(hash, &bytes);
        let rows = Rows::from_iter([Row { seq: after + 1, bytes, hash }]);
        let head = StreamHead { stream: stream.clone(), seq: after + 1, link: hash };
        let batch = Batch { epoch, after, rows, head };
        store.append(Append { batches: vec![batch], blobs: vec![] }).await?;
        after += 1;
        waits.push(begun.elapsed());
    }
}
