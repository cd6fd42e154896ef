//! Many writers at once: in one store, and in several stores on one file.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use rusqlite::Connection;
use tempfile::tempdir;
use toolgate_kernel::event::StreamId;
use toolgate_runtime::port::{Append, Store, StoreFault};
use toolgate_store::SqliteStore;

use crate::support::{Author, block_on, inbox, open, session, texts};

#[test]
fn sixty_four_sessions_commit_together_and_none_is_mixed_up() {
    let folder = tempdir().unwrap();
    let store = Arc::new(open(folder.path()));
    block_on(async {
        let drive = |number: u32| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let stream = session(&format!("s{number}"));
                let epoch = store.claim(&stream).await.unwrap();
                let mut author = Author::new(stream, Some(epoch));
                for turn in 0..20 {
                    let text = format!("{number}/{turn}");
                    author.write(store.as_ref(), &[&text, "and"]).await.unwrap();
                }
                author
            })
        };
        let tasks: Vec<_> = (0..64).map(drive).collect();
        for task in tasks {
            let author = task.await.unwrap();
            let mut reader = Author::new(author.stream.clone(), None);
            reader.follow(store.as_ref()).await;
            assert_eq!(reader.tip, author.tip);
            assert_eq!(author.tip.seq, 40);
        }
    });
    drop(store);
    assert_eq!(check(folder.path()), "ok");
}

#[test]
fn in_one_group_the_first_wins_and_the_late_contribute_nothing() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    block_on(async {
        let attempt = |number: u32| {
            let store = &store;
            async move {
                let mut project = Author::new(StreamId::Project, None);
                let mut own = Author::new(inbox(&format!("s{number}")), None);
                let batches = vec![own.batch(&["x"]), project.batch(&["y"])];
                store.append(Append { batches, blobs: vec![] }).await
            }
        };
        let answers = futures_util::future::join_all((0..50).map(attempt)).await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
        let moved = StoreFault::Moved { stream: StreamId::Project, found: 1 };
        assert_eq!(answers.iter().filter(|answer| **answer == Err(moved.clone())).count(), 49);
        // The winner's two streams, and nothing of the others.
        assert_eq!(store.heads().await.unwrap().len(), 2);
    });
}

/// Appends to one shared stream until `wins` appends were its own; counts how often it was late.
async fn compete(store: &SqliteStore, name: &str, wins: usize) -> usize {
    let mut author = Author::new(StreamId::Project, None);
    let (mut won, mut late) = (0, 0);
    while won < wins {
        author.follow(store).await;
        match author.write(store, &[&format!("{name}{won}")]).await {
            Ok(()) => won += 1,
            Err(StoreFault::Moved { .. }) => late += 1,
            Err(fault) => panic!("{fault}"),
        }
    }
    late
}

#[test]
fn two_stores_on_one_file_lose_and_repeat_nothing() {
    let folder = tempdir().unwrap();
    let rivals = ["a", "b", "c"].map(|name| {
        let store = open(folder.path());
        thread::spawn(move || block_on(compete(&store, name, 100)))
    });
    for rival in rivals {
        rival.join().unwrap();
    }
    block_on(async {
        let store = open(folder.path());
        Author::new(StreamId::Project, None).follow(&store).await;
        let texts = texts(&store, &StreamId::Project).await;
        let each: BTreeSet<_> = texts.iter().collect();
        assert_eq!((texts.len(), each.len()), (300, 300));
    });
    assert_eq!(check(folder.path()), "ok");
}

#[test]
fn a_claim_in_one_store_fences_the_driver_in_another() {
    let folder = tempdir().unwrap();
    let (ours, theirs) = (open(folder.path()), open(folder.path()));
    block_on(async {
        let stream = session("s1");
        let mut old = Author::new(stream.clone(), Some(ours.claim(&stream).await.unwrap()));
        old.write(&ours, &["a"]).await.unwrap();
        let mut new = Author::new(stream.clone(), Some(theirs.claim(&stream).await.unwrap()));
        new.follow(&theirs).await;
        assert_eq!(old.write(&ours, &["b"]).await, Err(StoreFault::Fenced { stream }));
        new.write(&theirs, &["c"]).await.unwrap();
        old.follow(&ours).await;
        assert_eq!(old.tip, new.tip);
    });
}

#[test]
fn many_may_make_the_same_new_log_at_once() {
    for _ in 0..10 {
        let folder = tempdir().unwrap();
        let openers = [(); 8].map(|()| {
            let path = folder.path().to_owned();
            thread::spawn(move || {
                let store = open(&path);
                block_on(compete(&store, "x", 2))
            })
        });
        for opener in openers {
            opener.join().unwrap();
        }
        assert_eq!(block_on(texts(&open(folder.path()), &StreamId::Project)).len(), 16);
    }
}

#[test]
fn a_log_that_another_process_holds_is_unavailable_and_then_available() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    let other = Connection::open(folder.path().join("log.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    block_on(async {
        let mut author = Author::new(StreamId::Project, None);
        let held = author.write(&store, &["a"]).await.unwrap_err();
        assert!(held.to_string().contains("another process"), "{held}");
        // Reading goes on meanwhile.
        assert_eq!(store.heads().await, Ok(vec![]));
        other.execute_batch("ROLLBACK").unwrap();
        author.write(&store, &["a"]).await.unwrap();
    });
}

fn check(folder: &Path) -> String {
    let connection = Connection::open(folder.join("log.db")).unwrap();
    connection.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap()
}
