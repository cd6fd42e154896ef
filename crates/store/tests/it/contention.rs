//! Four processes write to one log and are killed with SIGKILL at random: what was acknowledged is there,
//! and the log is sound. `examples/contention.rs` does the same for as long as one likes.

#![allow(clippy::disallowed_methods)] // How long it lasts is measured.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use toolgate_kernel::event::StreamId;
use toolgate_runtime::port::{Append, Store, StoreFault};
use toolgate_store::SqliteStore;

use crate::support::{Author, block_on, open_anchored, session, texts};

const FOLDER: &str = "TOOLGATE_STORE_CONTENTION_FOLDER";
const NUMBER: &str = "TOOLGATE_STORE_CONTENTION_NUMBER";

const PROCESSES: u64 = 4;
const LASTS: Duration = Duration::from_secs(6);
/// Kills without which the test shows nothing.
const KILLS_MIN: u64 = 10;

/// Appends to a stream of its own and to one that all share, in one transaction, until it is killed;
/// writes down what was acknowledged.
#[test]
fn child() {
    let (Ok(folder), Ok(number)) = (std::env::var(FOLDER), std::env::var(NUMBER)) else { return };
    let folder = Path::new(&folder);
    let acks = folder.join(format!("acks-{number}"));
    let mut acks = OpenOptions::new().create(true).append(true).open(acks).unwrap();
    block_on(async {
        let store = opened(folder).await;
        let mut own = Author::new(session(&format!("p{number}")), None);
        let mut shared = Author::new(StreamId::Project, None);
        let ends = Instant::now() + LASTS * 10;
        while Instant::now() < ends {
            own.follow(&store).await;
            shared.follow(&store).await;
            let text = format!("{number}/{}", own.tip.seq + 1);
            let (mut next, mut all) = (own.clone(), shared.clone());
            let batches = vec![next.batch(&[&text]), all.batch(&[&text])];
            match store.append(Append { batches, blobs: vec![] }).await {
                Ok(()) => writeln!(acks, "{text}").unwrap(),
                // Another process was first, or holds the file.
                Err(StoreFault::Moved { .. } | StoreFault::Unavailable(_)) => {}
                Err(fault) => panic!("{fault}"),
            }
        }
    });
}

/// The log, which another process may hold for a moment.
async fn opened(folder: &Path) -> SqliteStore {
    let ends = Instant::now() + LASTS;
    while Instant::now() < ends {
        let found = std::panic::catch_unwind(|| open_anchored(folder));
        if let Ok(store) = found {
            return store;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    open_anchored(folder)
}

fn start(folder: &Path, number: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "contention::child"]);
    command.env(FOLDER, folder).env(NUMBER, number.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn four_processes_that_are_killed_at_random_leave_a_sound_log() {
    let folder = tempfile::tempdir().unwrap();
    let mut running: Vec<Child> =
        (0..PROCESSES).map(|number| start(folder.path(), number)).collect();
    let (mut kills, mut dice) = (0_u64, u64::from(std::process::id()));
    let ends = Instant::now() + LASTS;
    while Instant::now() < ends {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis(20 + (dice >> 33) % 150));
        let number = (dice >> 17) % PROCESSES;
        let child = &mut running[usize::try_from(number).unwrap()];
        assert_eq!(child.try_wait().unwrap(), None, "process {number} ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        *child = start(folder.path(), number);
    }
    // All of them at once.
    for child in &mut running {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // Opening compares the log with its anchor.
    let store = open_anchored(folder.path());
    block_on(async {
        assert_eq!(store.integrity().await.unwrap(), []);
        for head in store.heads().await.unwrap() {
            let mut reader = Author::new(head.stream.clone(), None);
            reader.follow(&store).await;
            assert_eq!((reader.tip.seq, reader.tip.hash), (head.seq, head.link));
        }
        let shared = texts(&store, &StreamId::Project).await;
        let mut acknowledged = 0;
        for number in 0..PROCESSES {
            let own = texts(&store, &session(&format!("p{number}"))).await;
            let prefix = format!("{number}/");
            let of_shared: Vec<_> =
                shared.iter().filter(|text| text.starts_with(&prefix)).cloned().collect();
            assert_eq!(own, of_shared, "both streams or none, each once, in order");
            let acks = folder.path().join(format!("acks-{number}"));
            let acks = fs::read_to_string(acks).unwrap_or_default();
            // The last line may be cut off by the kill.
            for ack in acks.lines().filter(|line| acks.contains(&format!("{line}\n"))) {
                assert!(own.iter().any(|text| text == ack), "{ack} was acknowledged and is lost");
                acknowledged += 1;
            }
        }
        println!("{kills} kills, {} records, {acknowledged} acknowledged", shared.len());
        assert!(kills >= KILLS_MIN, "only {kills} kills");
        assert!(acknowledged >= 20, "only {acknowledged} were acknowledged");
        // The log goes on.
        let mut author = Author::new(StreamId::Project, None);
        author.follow(&store).await;
        author.write(&store, &["after"]).await.unwrap();
    });
}
