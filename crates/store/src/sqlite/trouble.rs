//! Shows what becomes of a log when the disk fills up, writing fails, or the writer panics.

use std::sync::Arc;

use rusqlite::{Connection, Error, Result, ffi};
use tempfile::TempDir;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::StreamId;
use toolgate_kernel::time::Timestamp;
use toolgate_runtime::HostKey;
use toolgate_runtime::port::{Append, Batch, Clock, Row, Rows, Store, StoreFault, StreamHead};

use super::worker::answer;
use super::writer::Work;
use super::{LogSetup, SqliteStore};

const STREAM: StreamId = StreamId::Project;

struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }
}

fn setup() -> LogSetup {
    LogSetup::new(HostKey::from_seed(&[7; 32]).unwrap(), Arc::new(Still))
}

fn new_log() -> (TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("log.db"), &setup()).unwrap();
    (folder, store)
}

/// One record of some size, after a place. Chains are no matter here.
fn append(after: u64, bytes: usize) -> Append {
    let (seq, hash) = (after + 1, Digest::of(&after.to_be_bytes()));
    let rows = Rows::from_iter([Row { seq, bytes: vec![7; bytes], hash }]);
    let head = StreamHead { stream: STREAM, seq, link: hash };
    Append { batches: vec![Batch { epoch: None, after, rows, head }], blobs: vec![] }
}

async fn bend(
    store: &SqliteStore,
    how: impl Fn(&Connection) -> Result<()> + Send + 'static,
) -> std::result::Result<u64, StoreFault> {
    answer(store.write(Work::Bend(Box::new(how))).await?).await
}

async fn length(store: &SqliteStore) -> usize {
    store.read(&STREAM, 1, usize::MAX).await.unwrap().len()
}

fn failure(code: i32) -> Error {
    Error::SqliteFailure(ffi::Error::new(code), None)
}

/// Allows this many pages more than there are now.
fn pages_more(more: i64) -> impl Fn(&Connection) -> Result<()> {
    move |connection| {
        let pages: i64 = connection.query_row("PRAGMA page_count", (), |row| row.get(0))?;
        let sql = format!("PRAGMA max_page_count = {}", pages + more);
        connection.query_row(&sql, (), |_| Ok(()))
    }
}

#[tokio::test]
async fn a_full_disk_refuses_appends_until_there_is_space() {
    let (_folder, store) = new_log();
    store.append(append(0, 100)).await.unwrap();
    bend(&store, pages_more(4)).await.unwrap();
    let full = store.append(append(1, 1 << 20)).await.unwrap_err();
    assert!(full.to_string().contains("the disk is full"), "{full}");
    assert_eq!(length(&store).await, 1);
    // What still fits is written, and with space all is as before.
    store.append(append(1, 100)).await.unwrap();
    bend(&store, pages_more(1 << 20)).await.unwrap();
    store.append(append(2, 1 << 20)).await.unwrap();
    assert_eq!(length(&store).await, 3);
}

#[tokio::test]
async fn a_full_disk_leaves_no_part_of_an_append() {
    let (_folder, store) = new_log();
    bend(&store, pages_more(4)).await.unwrap();
    let mut big = append(0, 100);
    big.blobs.push((Digest::of(b"x"), vec![0; 1 << 20]));
    assert!(store.append(big).await.is_err());
    assert_eq!(store.heads().await.unwrap(), []);
    assert_eq!(length(&store).await, 0);
}

#[tokio::test]
async fn after_a_failed_write_nothing_is_written_until_a_restart() {
    let (folder, store) = new_log();
    store.append(append(0, 100)).await.unwrap();
    let first = bend(&store, |_| Err(failure(ffi::SQLITE_IOERR_FSYNC))).await.unwrap_err();
    assert!(first.to_string().contains("restart toolgate"), "{first}");
    assert_eq!(store.append(append(1, 100)).await, Err(first.clone()));
    assert_eq!(store.claim(&STREAM).await, Err(first));
    // What is durable can still be read, now and later.
    assert_eq!(length(&store).await, 1);
    drop(store);
    let store = SqliteStore::open(folder.path().join("log.db"), &setup()).unwrap();
    store.append(append(1, 100)).await.unwrap();
    assert_eq!(length(&store).await, 2);
}

#[tokio::test]
async fn one_bad_order_takes_nothing_from_its_group() {
    let (_folder, store) = new_log();
    let bad = || bend(&store, |_| Err(failure(ffi::SQLITE_CONSTRAINT)));
    // All three are queued before the writer can be done with the first.
    let (first, bad, third) =
        tokio::join!(store.append(append(0, 100)), bad(), store.append(append(1, 100)));
    assert_eq!((first, third), (Ok(()), Ok(())));
    assert!(matches!(bad, Err(StoreFault::Damaged(_))));
    assert_eq!(length(&store).await, 2);
}

#[tokio::test]
async fn a_writer_that_panics_leaves_nobody_waiting() {
    let (folder, store) = new_log();
    store.append(append(0, 100)).await.unwrap();
    // Printing where it happened takes longer than anybody waits in a test.
    let panicking = bend(&store, |_| std::panic::resume_unwind(Box::new("on purpose")));
    let (before, panicked, after) =
        tokio::join!(store.append(append(1, 100)), panicking, store.append(append(2, 100)));
    assert!(panicked.unwrap_err().to_string().contains("restart toolgate"));
    assert!(after.is_err());
    assert!(store.append(append(9, 100)).await.is_err());
    drop(store);
    let store = SqliteStore::open(folder.path().join("log.db"), &setup()).unwrap();
    // The append before the panic is there exactly when its caller was told so.
    assert_eq!(length(&store).await, if before.is_ok() { 2 } else { 1 });
}

#[tokio::test]
async fn a_log_that_does_not_answer_is_not_waited_for_without_end() {
    let (_folder, store) = new_log();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let stuck = store.write(Work::Bend(Box::new(move |_| {
        assert!(wait.lock().unwrap().recv().is_err());
        Ok(())
    })));
    let stuck = stuck.await.unwrap();
    assert!(matches!(store.claim(&STREAM).await, Err(StoreFault::TimedOut(_))));
    drop(go);
    assert!(stuck.await.unwrap().is_ok());
    assert!(store.claim(&STREAM).await.is_ok(), "it goes on when the disk does");
}
