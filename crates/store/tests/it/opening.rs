//! Which files open as a log, and what is still there after closing.

use std::fs;
use std::path::Path;

use futures_util::FutureExt;
use rusqlite::Connection;
use tempfile::tempdir;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::StreamId;
use toolgate_runtime::port::{Append, Checkpoint, Store, StoreFault};
use toolgate_store::{OpenFault, SqliteStore};

use crate::support::{Author, block_on, inbox, only, open, session, setup, texts};

#[test]
fn reopening_keeps_everything() {
    let folder = tempdir().unwrap();
    let mut author = Author::new(session("s1"), Some(1));
    let blob = (Digest::of(b"kept"), b"kept".to_vec());
    let hash = Digest::of(b"h");
    let saved = Checkpoint { stream: session("s1"), seq: 2, hash, body: b"fold".to_vec() };
    block_on(async {
        let store = open(folder.path());
        assert_eq!(store.claim(&session("s1")).await, Ok(1));
        let batches = vec![author.batch(&["a", "b"])];
        store.append(Append { batches, blobs: vec![blob.clone()] }).await.unwrap();
        store.save_checkpoint(saved.clone()).await.unwrap();
    });
    assert_eq!(files(folder.path()), ["log.db"], "closing leaves one file");
    block_on(async {
        let store = open(folder.path());
        assert_eq!(texts(&store, &session("s1")).await, ["a", "b"]);
        assert_eq!(store.heads().await, Ok(vec![author.head()]));
        assert_eq!(store.blob(blob.0).await, Ok(Some(blob.1)));
        assert_eq!(store.checkpoint(&session("s1")).await, Ok(Some(saved)));
        author.write(&store, &["c"]).await.unwrap();
        assert_eq!(store.claim(&session("s1")).await, Ok(2));
    });
}

#[cfg(unix)]
#[test]
fn only_the_owner_reads_a_new_log() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    block_on(Author::new(StreamId::Project, None).write(&store, &["a"])).unwrap();
    for name in ["log.db", "log.db-wal", "log.db-shm"] {
        let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

/// Whoever runs this as root may write everywhere; everybody else sees what a reader sees.
#[cfg(unix)]
#[test]
fn a_log_that_may_not_be_written_is_looked_at() {
    use std::os::unix::fs::PermissionsExt;
    let above = tempdir().unwrap();
    // Characters that mean something in an address.
    let folder = above.path().join("a copy?#100%");
    fs::create_dir(&folder).unwrap();
    let mut author = Author::new(session("s1"), Some(1));
    block_on(async {
        let store = open(&folder);
        assert_eq!(store.claim(&session("s1")).await, Ok(1));
        author.write(&store, &["a", "b"]).await.unwrap();
    });
    let (log, before) = (folder.join("log.db"), fs::read(folder.join("log.db")).unwrap());
    let mode = |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode));
    mode(&log, 0o444).and_then(|()| mode(&folder, 0o555)).unwrap();
    block_on(async {
        let store = SqliteStore::look(&log).unwrap();
        assert_eq!(texts(&store, &session("s1")).await, ["a", "b"]);
        assert_eq!(store.heads().await, Ok(vec![author.head()]));
        let refused = author.write(&store, &["c"]).await;
        assert!(matches!(refused, Err(StoreFault::Unavailable(_))), "{refused:?}");
    });
    mode(&folder, 0o755).unwrap();
    assert_eq!(fs::read(&log).unwrap(), before);
    // What is no log is not looked at either.
    let other = folder.join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
    assert!(matches!(SqliteStore::look(&other), Err(OpenFault::Foreign { .. })));
}

/// Without the commits that are beside the file it would be another log.
#[test]
fn a_log_that_was_not_closed_is_not_looked_at_without_its_wal() {
    let folder = tempdir().unwrap();
    drop(open(folder.path()));
    // Something that even root cannot read as a WAL.
    let wal = folder.path().join("log.db-wal");
    fs::create_dir(&wal).unwrap();
    fs::write(wal.join("x"), "x").unwrap();
    let refused = SqliteStore::look(folder.path().join("log.db")).err().unwrap();
    assert!(matches!(refused, OpenFault::Unfolded { .. }), "{refused}");
    assert!(refused.to_string().contains("not closed cleanly"), "{refused}");
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("log.db");
    drop(open(folder.path()));
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 7).unwrap();
    let before = fs::read(&path).unwrap();
    let refused = SqliteStore::open(&path, &setup()).err().unwrap();
    assert!(matches!(refused, OpenFault::Newer { found: 7, known: 3, .. }));
    let text = refused.to_string();
    assert!(text.contains("schema 7") && text.contains("schema 3"), "{text}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// What is signed in another way is told as what it is, and not as a forgery.
#[test]
fn a_log_of_an_older_program_is_refused_and_left_alone() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("log.db");
    drop(open(folder.path()));
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 2).unwrap();
    let before = fs::read(&path).unwrap();
    for refused in [SqliteStore::open(&path, &setup()).err(), SqliteStore::look(path.clone()).err()]
    {
        let text = refused.unwrap().to_string();
        assert!(text.contains("older version of toolgate (schema 2"), "{text}");
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[test]
fn a_newer_schema_is_also_seen_in_the_wal() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("log.db");
    drop(open(folder.path()));
    // A newer program that is still running: its version is not in the file yet.
    let newer = Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 7).unwrap();
    let wal = folder.path().join("log.db-wal");
    let before = (fs::read(&path).unwrap(), fs::read(&wal).unwrap());
    // Only its own copy is looked at here, so that no lock of the newer program is touched.
    let copy = tempdir().unwrap();
    for name in ["log.db", "log.db-wal"] {
        fs::copy(folder.path().join(name), copy.path().join(name)).unwrap();
    }
    let path = copy.path().join("log.db");
    let refused = SqliteStore::open(&path, &setup()).err().unwrap();
    assert!(matches!(refused, OpenFault::Newer { found: 7, .. }), "{refused}");
    assert_eq!(
        (fs::read(&path).unwrap(), fs::read(path.with_extension("db-wal")).unwrap()),
        before
    );
    drop(newer);
}

#[test]
fn what_is_no_log_is_refused_and_left_alone() {
    let folder = tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    fs::write(&text, "Dear diary, ".repeat(500)).unwrap();
    assert!(matches!(SqliteStore::open(&text, &setup()), Err(OpenFault::NotADatabase { .. })));
    assert_eq!(fs::read_to_string(&text).unwrap(), "Dear diary, ".repeat(500));

    for application in [0, 42] {
        let other = folder.path().join(format!("other{application}.db"));
        let connection = Connection::open(&other).unwrap();
        connection.pragma_update(None, "application_id", application).unwrap();
        connection.execute_batch("CREATE TABLE theirs (x)").unwrap();
        drop(connection);
        let before = fs::read(&other).unwrap();
        let refused = SqliteStore::open(&other, &setup()).err().unwrap();
        assert!(matches!(refused, OpenFault::Foreign { found, .. } if found == application));
        assert_eq!(fs::read(&other).unwrap(), before);
    }

    assert!(matches!(
        SqliteStore::open(folder.path(), &setup()),
        Err(OpenFault::Unreachable { .. })
    ));
    let nowhere = folder.path().join("nowhere/log.db");
    assert!(matches!(SqliteStore::open(nowhere, &setup()), Err(OpenFault::Unreachable { .. })));
}

#[test]
fn an_empty_file_and_an_empty_database_become_logs() {
    let folder = tempdir().unwrap();
    let (empty, blank) = (folder.path().join("empty.db"), folder.path().join("blank.db"));
    fs::write(&empty, "").unwrap();
    // This is what a crash before the first commit leaves.
    let connection = Connection::open(&blank).unwrap();
    connection.query_row("PRAGMA journal_mode = WAL", (), |_| Ok(())).unwrap();
    drop(connection);
    for path in [empty, blank] {
        let store = SqliteStore::open(path, &setup()).unwrap();
        block_on(Author::new(StreamId::Project, None).write(&store, &["a"])).unwrap();
    }
}

#[test]
fn dropping_a_store_finishes_what_is_queued() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    let names: Vec<String> = (0..200).map(|number| format!("s{number}")).collect();
    let mut acknowledged = 0;
    block_on(async {
        for name in &names {
            // Asked once, which puts it in the queue, and then forgotten.
            let append = store.append(only(Author::new(inbox(name), None).batch(&["a"])));
            acknowledged += append.now_or_never().map_or(0, |written| {
                written.unwrap();
                1
            });
        }
    });
    drop(store);
    let heads = block_on(open(folder.path()).heads()).unwrap();
    assert!(acknowledged <= names.len());
    assert_eq!(heads.len(), names.len());
}

#[test]
fn damage_is_called_damage() {
    let folder = tempdir().unwrap();
    let blob = (Digest::of(b"kept"), b"kept".to_vec());
    block_on(async {
        let store = open(folder.path());
        let batches = vec![Author::new(StreamId::Project, None).batch(&["a"])];
        store.append(Append { batches, blobs: vec![blob.clone()] }).await.unwrap();
    });
    let vandal = Connection::open(folder.path().join("log.db")).unwrap();
    let vandalism = "UPDATE blobs SET bytes = x'00'; UPDATE records SET link = x'0102'; \
                     UPDATE streams SET stream = 'nonsense'";
    vandal.execute_batch(vandalism).unwrap();
    drop(vandal);
    block_on(async {
        let store = SqliteStore::look(folder.path().join("log.db")).unwrap();
        assert!(matches!(store.blob(blob.0).await, Err(StoreFault::Damaged(_))));
        assert!(matches!(store.heads().await, Err(StoreFault::Damaged(_))));
        Connection::open(folder.path().join("log.db"))
            .and_then(|other| other.execute_batch("UPDATE streams SET stream = 'project'"))
            .unwrap();
        let read = store.read(&StreamId::Project, 1, 10).await;
        assert!(matches!(read, Err(StoreFault::Damaged(_))), "{read:?}");
    });
}

fn files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}
