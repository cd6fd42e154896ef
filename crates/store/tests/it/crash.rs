//! A writer that dies at its crash points: what was acknowledged is there, the rest is whole or absent.
#![cfg(feature = "crash-points")]
#![allow(clippy::disallowed_methods)] // How long is waited for a process is measured.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use toolgate_kernel::event::StreamId;
use toolgate_runtime::crash::{Plot, plot, report};
use toolgate_runtime::log::Tip;
use toolgate_runtime::port::{Append, Store, StoreFault};

use crate::support::{Author, block_on, inbox, open, open_anchored, texts};

const FOLDER: &str = "TOOLGATE_STORE_CRASH_FOLDER";
const PLOT: &str = "TOOLGATE_STORE_CRASH_PLOT";
/// Set where the log has an anchor.
const ANCHORED: &str = "TOOLGATE_STORE_CRASH_ANCHORED";

/// Appends to two streams at once, and writes down what was acknowledged.
async fn work(folder: &Path) {
    let store = match std::env::var(ANCHORED) {
        Ok(_) => open_anchored(folder),
        Err(_) => open(folder),
    };
    let mut project = Author::new(StreamId::Project, None);
    let mut said = Author::new(inbox("s1"), None);
    project.follow(&store).await;
    said.follow(&store).await;
    let mut acks =
        fs::OpenOptions::new().create(true).append(true).open(folder.join("acks")).unwrap();
    while project.tip.seq < 5 {
        let text = format!("record {}", project.tip.seq + 1);
        let batches = vec![project.batch(&[&text]), said.batch(&[&text])];
        if store.append(Append { batches, blobs: vec![] }).await.is_err() {
            return;
        }
        writeln!(acks, "{text}").unwrap();
    }
}

/// Runs in a process of its own, because crash points are counted per process.
#[test]
fn child() {
    let (Ok(folder), Ok(at)) = (std::env::var(FOLDER), std::env::var(PLOT)) else { return };
    let (kind, at) = at.split_once(' ').unwrap();
    let at = at.parse().unwrap();
    plot(if kind == "kill" { Plot::KillAt(at) } else { Plot::PanicAt(at) });
    block_on(work(Path::new(&folder)));
    let reached: Vec<_> = report().into_keys().collect();
    assert_eq!(reached, ["after_anchor", "after_log_commit", "before_log_commit"]);
}

#[test]
fn what_was_acknowledged_survives_every_crash_point() {
    for kind in ["kill", "panic"] {
        for at in 1.. {
            let folder = tempfile::tempdir().unwrap();
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "crash::child"]).env(FOLDER, folder.path());
            let ended = child.env(PLOT, format!("{kind} {at}")).output().unwrap();
            check(folder.path());
            block_on(work(folder.path()));
            assert_eq!(check(folder.path()), 5);
            if at > 15 {
                assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
                break;
            }
        }
    }
}

/// One process dies at each point while another one commits to the same tree: neither loses what was
/// acknowledged, and the tree and the anchor are those of both.
#[test]
fn two_writers_follow_one_tree_when_one_of_them_dies() {
    for at in 1..=15 {
        let folder = tempfile::tempdir().unwrap();
        let ours = open_anchored(folder.path());
        let mut own = Author::new(inbox("s2"), None);
        block_on(own.write(&ours, &["before"])).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "crash::child"]).env(FOLDER, folder.path()).env(ANCHORED, "1");
        child.env(PLOT, format!("kill {at}")).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = child.spawn().unwrap();
        let (mut beside, ends) = (0, Instant::now() + Duration::from_secs(60));
        let ended = loop {
            match block_on(own.write(&ours, &["beside"])) {
                Ok(()) => beside += 1,
                Err(StoreFault::Unavailable(_)) => own.tip = tip(&ours, &own),
                Err(fault) => panic!("{at}: {fault}"),
            }
            if let Some(ended) = child.try_wait().unwrap() {
                break ended;
            }
            assert!(Instant::now() < ends, "the other process does not end");
        };
        assert!(!ended.success() && beside > 0, "{at}: {ended}, {beside} commits beside it");
        assert_eq!(block_on(ours.integrity()).unwrap(), [], "{at}");
        block_on(own.write(&ours, &["after"])).unwrap();
        drop(ours);
        let store = open_anchored(folder.path());
        assert_eq!(block_on(store.integrity()).unwrap(), [], "{at}: opened anew");
        assert_eq!(block_on(texts(&store, &own.stream)).len(), beside + 2, "{at}");
        drop(store);
        check(folder.path());
    }
}

/// Where the stream of an author ends.
fn tip(store: &dyn Store, author: &Author) -> Tip {
    let head = block_on(store.head(&author.stream)).unwrap();
    head.map_or(Tip::START, |head| Tip { seq: head.seq, hash: head.link })
}

/// How many records there are: all that were acknowledged, and the same in both streams.
fn check(folder: &Path) -> usize {
    block_on(async {
        let store = open(folder);
        Author::new(StreamId::Project, None).follow(&store).await;
        let (project, said) =
            (texts(&store, &StreamId::Project).await, texts(&store, &inbox("s1")).await);
        assert_eq!(project, said);
        let acks = fs::read_to_string(folder.join("acks")).unwrap_or_default();
        let lost = acks.lines().find(|ack| !project.iter().any(|text| text == ack));
        assert_eq!(lost, None, "acknowledged and not there");
        project.len()
    })
}
