//! The whole path over a log on disk: open, call, drop everything, resume, and it is the same.

use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::{Agent, AgentDraft};
use toolgate_kernel::event::StreamId;
use toolgate_kernel::key::{Access, Key};
use toolgate_kernel::names::{Family, SectionName, SessionId};
use toolgate_kernel::section::{FamilySpec, Home, Section};
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::tool::{Effect, SpecDraft};
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::port::{Clock, Output, Store, StoreFault};
use toolgate_runtime::verify::verify;
use toolgate_runtime::{Crew, DriveFault, Driver, OpenFault, Pack, Runtime, Toolbox, tool};
use toolgate_store::{Folder, SqliteStore};

use crate::support::{block_on, open};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Jot {
    /// Which note.
    name: String,
    /// What it says.
    text: String,
}

struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(1_800_000_000_000)
    }
}

/// A tool that keeps a note in the session, in the project and in a file.
fn crew() -> Crew {
    let keys = |name: &str| {
        let families = ["note", "shared", "file"].map(|family| Family::parse(family).unwrap());
        families.map(|family| Key::new(family, name).unwrap())
    };
    let draft =
        SpecDraft::new("jot", "Keeps a note.").effect(Effect::Staged).touches(move |args| {
            let name = args.text("name").unwrap_or_default();
            Ok(keys(name).map(|key| (Access::Write, key)).to_vec())
        });
    let jot = tool(draft, move |tx, jot: Jot| {
        let [note, shared, _] = keys(&jot.name);
        tx.put(&note, &json!(jot.text))?;
        tx.put(&shared, &json!(jot.text))?;
        tx.write_file(&jot.name, Some(jot.text.clone().into_bytes()))?;
        Ok(Output::message("Kept."))
    });
    let mut section = Section::new(SectionName::parse("notes").unwrap());
    let family = |name, home| FamilySpec::new(Family::parse(name).unwrap(), home);
    section.families = vec![family("note", Home::Session), family("shared", Home::Project)];
    let packs = [Pack::new(section, vec![jot.unwrap()])];
    let sections = packs.iter().map(|pack| pack.section.clone()).collect();
    let agent = Agent::build(AgentDraft::new("writer", sections)).unwrap();
    Crew::new(Arc::new(agent), Toolbox::of(&packs))
}

fn runtime(project: &Path) -> Arc<Runtime> {
    let state = project.join(".toolgate");
    let folder = Folder::open(project, state.join("staged")).unwrap();
    let store = Arc::new(open(&state));
    Arc::new(Runtime::new(store, Arc::new(Still)).with_files(Arc::new(folder)))
}

fn args(name: &str, text: &str) -> String {
    json!({ "name": name, "text": text }).to_string()
}

#[test]
fn a_session_goes_on_where_its_log_ends() {
    let project = tempfile::tempdir().unwrap();
    let (id, me) = (SessionId::parse("s1").unwrap(), Actor::Client("test".into()));
    block_on(async {
        let runtime = runtime(project.path());
        let mut driver = Driver::open(runtime, crew(), id.clone(), &me, "A try").await.unwrap();
        for (name, text) in [("a.md", "first"), ("b.md", "second"), ("a.md", "third")] {
            let envelope = driver.call(&me, "jot", &args(name, text), None).await.unwrap();
            assert!(envelope.ok, "{envelope:?}");
        }
        let unknown = driver.call(&me, "jolt", "{}", None).await.unwrap();
        assert!(!unknown.ok);
        let (session, projected) = (driver.session(), driver.project());
        let (tip, copies) = (driver.durable_tip(), project.path().join(".toolgate/staged"));
        drop(driver);
        assert_eq!(std::fs::read_dir(copies).unwrap().count(), 0);

        let runtime = self::runtime(project.path());
        let mut driver = Driver::resume(runtime, crew(), id.clone()).await.unwrap();
        assert_eq!(driver.session(), session);
        assert_eq!(driver.project(), projected);
        assert_eq!(driver.durable_tip(), tip);
        let envelope = driver.call(&me, "jot", &args("c.md", "fourth"), None).await.unwrap();
        assert!(envelope.ok, "{envelope:?}");
    });
    let file = |name| std::fs::read_to_string(project.path().join(name)).unwrap();
    assert_eq!([file("a.md"), file("b.md"), file("c.md")], ["third", "second", "fourth"]);
}

#[test]
fn resuming_places_what_was_settled_and_forgets_the_rest() {
    let project = tempfile::tempdir().unwrap();
    let (id, me) = (SessionId::parse("s1").unwrap(), Actor::Client("test".into()));
    let (file, copies) = (project.path().join("a.md"), project.path().join(".toolgate/staged"));
    block_on(async {
        let runtime = runtime(project.path());
        let mut driver = Driver::open(runtime, crew(), id.clone(), &me, "A try").await.unwrap();
        for text in ["first", "second"] {
            driver.call(&me, "jot", &args("a.md", text), None).await.unwrap();
        }
        let last = driver.session().next_call - 1;
        drop(driver);
        // As if the process had ended after the settlement, and another call before its own.
        std::fs::write(&file, "first").unwrap();
        std::fs::write(copies.join(format!("s1.c{last}.0")), "second").unwrap();
        std::fs::write(copies.join("s1.c99.0"), "half a").unwrap();
        std::fs::write(copies.join("s2.c1.0"), "of another session").unwrap();
        Driver::resume(self::runtime(project.path()), crew(), id).await.unwrap();
    });
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "second");
    let left: Vec<_> = std::fs::read_dir(copies).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["s2.c1.0"]);
}

/// Whoever starts next puts in place what a settled call left staged, whichever session it was.
#[test]
fn another_session_finds_the_files_of_a_settled_call() {
    let project = tempfile::tempdir().unwrap();
    let (copies, file) = (project.path().join(".toolgate/staged"), project.path().join("a.md"));
    let (id, me) = (|id| SessionId::parse(id).unwrap(), Actor::Client("test".into()));
    block_on(async {
        let runtime = runtime(project.path());
        let mut driver = Driver::open(runtime, crew(), id("s1"), &me, "A try").await.unwrap();
        driver.call(&me, "jot", &args("a.md", "kept"), None).await.unwrap();
        let last = driver.session().next_call - 1;
        drop(driver);
        std::fs::remove_file(&file).unwrap();
        std::fs::write(copies.join(format!("s1.c{last}.0")), "kept").unwrap();
        Driver::open(self::runtime(project.path()), crew(), id("s2"), &me, "Another")
            .await
            .unwrap();
    });
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    assert_eq!(std::fs::read_dir(copies).unwrap().count(), 0);
}

#[test]
fn a_second_driver_in_another_store_stops_the_first() {
    let project = tempfile::tempdir().unwrap();
    let (id, me) = (SessionId::parse("s1").unwrap(), Actor::Client("test".into()));
    block_on(async {
        let first = runtime(project.path());
        let mut old = Driver::open(first, crew(), id.clone(), &me, "A try").await.unwrap();
        old.call(&me, "jot", &args("a.md", "first"), None).await.unwrap();
        let second = runtime(project.path());
        let mut new = Driver::resume(second, crew(), id.clone()).await.unwrap();
        let fenced = old.call(&me, "jot", &args("a.md", "late"), None).await;
        assert!(matches!(fenced, Err(DriveFault::Store(_))), "{fenced:?}");
        let envelope = new.call(&me, "jot", &args("a.md", "second"), None).await.unwrap();
        assert!(envelope.ok, "{envelope:?}");
        let store = open(&project.path().join(".toolgate"));
        let stream = StreamId::Session(id);
        let mut epochs = Vec::new();
        let follow = |record: toolgate_kernel::event::Record<toolgate_kernel::event::Event>,
                      _: &_| {
            epochs.push(record.epoch);
        };
        read_from(&store, &stream, Tip::START, follow).await.unwrap();
        assert!(epochs.is_sorted(), "{epochs:?}");
    });
    assert_eq!(std::fs::read_to_string(project.path().join("a.md")).unwrap(), "second");
}

/// Whoever loses a session in the moment of claiming it is told so, and not that the log is damaged.
#[test]
fn of_many_that_claim_at_once_nobody_finds_damage() {
    let project = tempfile::tempdir().unwrap();
    let (id, me) = (SessionId::parse("s1").unwrap(), Actor::Client("test".into()));
    let opened = Driver::open(runtime(project.path()), crew(), id.clone(), &me, "A try");
    drop(block_on(opened).unwrap());
    let claim = || {
        let runtime = runtime(project.path());
        for _ in 0..25 {
            match block_on(Driver::resume(Arc::clone(&runtime), crew(), id.clone())) {
                Ok(mut driver) => {
                    let called = block_on(driver.call(&me, "jot", &args("a.md", "x"), None));
                    let fine = matches!(called, Ok(_) | Err(DriveFault::Store(_)));
                    assert!(fine, "{called:?}");
                }
                Err(fault) => {
                    let fenced = matches!(
                        fault,
                        OpenFault::Store(StoreFault::Fenced { .. } | StoreFault::Moved { .. })
                            | OpenFault::Drive(DriveFault::Store(
                                StoreFault::Fenced { .. } | StoreFault::Moved { .. }
                            ))
                    );
                    assert!(fenced, "{fault:?}");
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(claim);
        }
    });
}

/// What `verify` says after the database was changed.
fn verified_after(sql: &str) -> Vec<(String, u64, String)> {
    let project = tempfile::tempdir().unwrap();
    let (id, me) = (SessionId::parse("s1").unwrap(), Actor::Client("test".into()));
    block_on(async {
        let runtime = runtime(project.path());
        let mut driver = Driver::open(runtime, crew(), id, &me, "A try").await.unwrap();
        for (name, text) in [("a.md", "one"), ("b.md", "two"), ("a.md", "three"), ("b.md", "four")]
        {
            driver.call(&me, "jot", &args(name, text), None).await.unwrap();
        }
    });
    let log = project.path().join(".toolgate/log.db");
    rusqlite::Connection::open(log).unwrap().execute_batch(sql).unwrap();
    let store = SqliteStore::look(project.path().join(".toolgate/log.db")).unwrap();
    let report = block_on(verify(&store)).unwrap();
    report
        .problems
        .into_iter()
        .map(|found| (found.stream, found.seq, found.what.into_owned()))
        .collect()
}

#[test]
fn verify_finds_what_was_done_to_undo_contents() {
    assert_eq!(verified_after(""), []);
    let kept = "bytes IN (CAST('one' AS BLOB), CAST('two' AS BLOB))";
    let swap = "UPDATE blobs SET bytes = CASE bytes WHEN CAST('one' AS BLOB) \
                THEN CAST('two' AS BLOB) ELSE CAST('one' AS BLOB) END";
    for (sql, count, what) in [
        (format!("DELETE FROM blobs WHERE {kept}"), 2, "what was kept aside is lost"),
        (
            "DELETE FROM blobs WHERE bytes = CAST('one' AS BLOB)".to_owned(),
            1,
            "what was kept aside is lost",
        ),
        (
            format!("UPDATE blobs SET bytes = CAST('evil' AS BLOB) WHERE {kept}"),
            2,
            "what was kept aside is another one",
        ),
        (format!("{swap} WHERE {kept}"), 2, "what was kept aside is another one"),
    ] {
        let found = verified_after(&sql);
        assert_eq!(found.len(), count, "{sql}: {found:?}");
        for (stream, seq, told) in found {
            assert_eq!((stream.as_str(), told.as_str()), ("session/s1", what), "{sql}");
            assert!(seq > 1, "the record is named: {sql}");
        }
    }
}

#[test]
fn verify_finds_what_was_changed_beside_the_records() {
    let unsigned = "the streams are not those that its signed head covers";
    for (sql, what) in [
        ("UPDATE streams SET epoch = 0 WHERE stream LIKE 'session%'", unsigned),
        ("UPDATE streams SET epoch = epoch + 1 WHERE stream LIKE 'session%'", unsigned),
        ("UPDATE streams SET epoch = 1 WHERE stream = 'project'", unsigned),
        ("UPDATE streams SET stream = 'session/s2' WHERE stream = 'session/s1'", unsigned),
        ("UPDATE streams SET seq = seq - 1", unsigned),
        (
            "INSERT INTO streams VALUES (9, 'inbox/s9', 3, 0, zeroblob(32), NULL)",
            "a stream is gone",
        ),
        ("DELETE FROM streams WHERE stream = 'session/s1'", "a stream is gone"),
        (
            "INSERT INTO records SELECT stream, 0, link, bytes FROM records LIMIT 1",
            "there are records before the first place",
        ),
        (
            "INSERT INTO records SELECT stream, -1, link, bytes FROM records LIMIT 1",
            "there are records before the first place",
        ),
        ("UPDATE streams SET checkpoint = zeroblob(32) WHERE stream = 'session/s1'", unsigned),
        (
            "INSERT INTO streams VALUES (0, 'inbox/s9', 0, 0, zeroblob(32), NULL)",
            "a stream is gone",
        ),
        (
            "UPDATE heads SET nodes = zeroblob(32) WHERE n = 3",
            "commit 3 is not the one that was signed",
        ),
        (
            "INSERT INTO heads SELECT -1, at, streams_root, nodes, changed FROM heads LIMIT 1",
            "commit 0 cannot be read",
        ),
        (
            "INSERT INTO records VALUES (77, 1, zeroblob(32), x'00')",
            "there are records of a stream that is lost",
        ),
        (
            "INSERT INTO checkpoints VALUES ('session/s9', 1, zeroblob(32), x'00')",
            "there is a checkpoint of a stream that is lost",
        ),
        (
            "INSERT INTO checkpoints VALUES ('session/s1', 1, zeroblob(32), x'00')",
            "the checkpoint is not the one that the signed head covers",
        ),
        ("UPDATE heads SET at = at + 1 WHERE n = 1", "commit 1 is not the one that was signed"),
        ("DELETE FROM heads WHERE n = 1", "commit 1 is missing"),
        (
            "DELETE FROM heads WHERE n = (SELECT max(n) FROM heads)",
            "its signed head counts 10 commits and it has 9",
        ),
        ("DELETE FROM meta WHERE name = 'note'", "it has records and no signed head"),
        (
            "INSERT INTO meta VALUES ('more', 1)",
            "there is something beside the log's name, key and head that toolgate did not write",
        ),
        (
            "UPDATE meta SET value = replace(value, char(10) || '10' || char(10), \
             char(10) || '11' || char(10)) WHERE name = 'note'",
            "the signature of the signed head does not fit what it says",
        ),
    ] {
        let found = verified_after(sql);
        assert!(found.iter().any(|(_, _, told)| told == what), "{sql}: {found:?}");
    }
}

/// A take-over that wrote nothing yet is in a signed head like everything else.
#[test]
fn a_take_over_that_wrote_nothing_is_sound() {
    let folder = tempfile::tempdir().unwrap();
    let (store, stream) = (open(folder.path()), StreamId::Session(SessionId::parse("s1").unwrap()));
    assert_eq!(block_on(store.claim(&stream)), Ok(1));
    assert_eq!(block_on(store.integrity()), Ok(vec![]));
}
