//! A fork begins with what the other session knew, wherever it is forked, and leaves that one alone.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{Change, Event, Record, StreamId};
use toolgate_kernel::fold::Session;
use toolgate_kernel::names::SessionId;
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::port::{Append, Batch, Row, Store, StreamHead};
use toolgate_runtime::verify::verify;
use toolgate_runtime::{Fork, ForkRefusal, MemoryStore, OpenFault, Range};
use toolgate_testkit::stage::Stage;

use crate::desk::{ALL, NOTE, SAVE, SECTION, act, ada, stage};
use crate::scenarios::block_on;

fn id(text: &str) -> SessionId {
    SessionId::parse(text).unwrap()
}

async fn rows(stage: &Stage, session: &str) -> Vec<Row> {
    stage.store.read(&StreamId::Session(id(session)), 1, 100_000).await.unwrap()
}

async fn records(store: &dyn Store, session: &str) -> Vec<Record<Event>> {
    let mut records = Vec::new();
    let stream = StreamId::Session(id(session));
    read_from(store, &stream, Tip::START, |record, _| records.push(record)).await.unwrap();
    records
}

async fn problems(stage: &Stage) -> Vec<(u64, String)> {
    let report = verify(stage.store.as_ref()).await.unwrap();
    report.problems.into_iter().map(|problem| (problem.seq, problem.what.into_owned())).collect()
}

/// A session as JSON, without what is its own alone.
fn known(session: &Session) -> Value {
    let mut known = serde_json::to_value(session).unwrap();
    let own =
        ["id", "seq", "epoch", "opened_at", "last_at", "saw", "origin", "inbox", "inbox_hash"];
    for name in
        own.iter().chain(&["ended", "stop", "waiting", "allowances", "client_bytes", "statements"])
    {
        known.as_object_mut().unwrap().remove(*name);
    }
    known
}

/// The last place up to `at` at which no call was on its way and nothing followed in the same breath.
fn last_whole(records: &[Record<Event>], at: u64) -> Option<(u64, Session)> {
    let (mut session, mut found) = (Session::new(id("s1")), None);
    for (record, next) in records.iter().zip(records.iter().skip(1).map(Some).chain([None])) {
        session.apply(record);
        let joined = matches!(next.map(|next| &next.event), Some(Event::PhaseEntered { .. }));
        if record.seq <= at && record.seq > 1 && session.open.is_empty() && !joined {
            found = Some((record.seq, session.clone()));
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_fork_knows_what_the_other_knew_and_leaves_it_alone(
        calls in prop::collection::vec((0..ALL, 0u8..3, 0u8..4), 1..14),
        at in 0usize..1_000,
        later in prop::collection::vec((0..ALL, 0u8..3, 0u8..4), 1..4),
    ) {
        block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let stage = stage(folder.path());
            let mut driver = stage.open_session().await.unwrap();
            for made in calls {
                act(&mut driver, made).await;
            }
            let before = rows(&stage, "s1").await;
            let at = before[at % before.len()].seq;
            let records = records(stage.store.as_ref(), "s1").await;
            let whole = last_whole(&records, at);
            let fork = match stage.preview_fork(&id("s1"), Some(at)).await {
                Ok(fork) => fork,
                Err(OpenFault::Fork(ForkRefusal::Nothing { .. })) => {
                    assert!(whole.is_none_or(|(_, there)| there.next_call == 1), "{at}");
                    return;
                }
                Err(fault) => panic!("{at}: {fault}"),
            };
            let (place, there) = whole.unwrap();
            assert_eq!((fork.from.seq, fork.asked), (place, at));
            assert!(before.iter().any(|row| row.seq == place && row.hash == fork.from.hash));
            let note = fork.note.clone();
            let mut forked = stage.forked("f1", fork).await.unwrap();
            // What it knows, and what it was told on top of it.
            let mut expected = known(&there);
            if !note.is_empty() {
                expected["feedback"].as_array_mut().unwrap().push(json!(note));
            }
            assert_eq!(known(&forked.session()), expected);
            assert_eq!(forked.session().origin.as_ref().unwrap().session, id("s1"));
            // The other one is as it was, to the byte, and both go on.
            assert_eq!(rows(&stage, "s1").await, before);
            for made in later {
                act(&mut forked, made).await;
                act(&mut driver, made).await;
            }
            assert_eq!(rows(&stage, "s1").await[..before.len()], before);
            drop((driver, forked));
            // It reads again as what it is.
            let again = stage.open("f1").await.unwrap();
            assert_eq!(again.session().origin.as_ref().unwrap().seq, place);
            assert_eq!(problems(&stage).await, []);
        });
    }
}

async fn fork_of(stage: &Stage, session: &str) -> Fork {
    stage.preview_fork(&id(session), None).await.unwrap()
}

/// A fork of a session that made one call, before it is made.
async fn fork_of_one_call(stage: &Stage) -> Fork {
    let mut driver = stage.open_session().await.unwrap();
    assert!(act(&mut driver, (SAVE, 1, 1)).await);
    fork_of(stage, "s1").await
}

/// Makes another state of what a fork carries over.
fn bend_state(fork: &mut Fork) {
    let key = toolgate_kernel::key::Key::parse("memo:1").unwrap();
    fork.carried.state.apply(&Change::Put { key, value: json!(99), v: 1 }).unwrap();
}

#[test]
fn what_all_sessions_share_is_listed_when_it_is_otherwise() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let stage = stage(folder.path());
        let mut driver = stage.open_session().await.unwrap();
        assert!(act(&mut driver, (SAVE, 1, 1)).await && act(&mut driver, (NOTE, 1, 1)).await);
        // Its own last change is known to it, though no record of its own has seen it yet.
        let fork = fork_of(&stage, "s1").await;
        assert_eq!((fork.changed.len(), fork.files.len(), fork.undoable), (0, 0, false));
        assert_eq!(fork.note, "");
        let place = fork.from.seq;
        assert!(act(&mut driver, (SAVE, 1, 2)).await && act(&mut driver, (SECTION, 1, 1)).await);
        let fork = stage.preview_fork(&id("s1"), Some(place)).await.unwrap();
        assert_eq!(fork.changed, ["book:1", "manuscript.md", "section:s1"]);
        assert_eq!((fork.files.as_slice(), fork.undoable), (&["f1.md".to_owned()][..], true));
        let told = "Meanwhile these have changed; read them before you rely on them: book:1, \
                    manuscript.md, section:s1, f1.md.";
        assert_eq!(fork.note, told);
        // What went back has not changed.
        let undo = driver.undo_preview(Range::Calls(2)).await.unwrap();
        driver.undo(ada(), &undo, "").await.unwrap();
        let fork = stage.preview_fork(&id("s1"), Some(place)).await.unwrap();
        assert_eq!((fork.changed.len(), fork.files.len(), fork.undoable), (0, 0, false));
        // Nor has anything since the undo, whoever looks.
        let fork = fork_of(&stage, "s1").await;
        assert_eq!((fork.changed.len(), fork.files.len(), fork.undoable), (0, 0, false));
        let mut other = stage.open_other_session().await.unwrap();
        assert!(act(&mut other, (NOTE, 1, 7)).await);
        let fork = fork_of(&stage, "s1").await;
        assert_eq!((fork.changed.as_slice(), fork.undoable), (&["note:k1".to_owned()][..], false));
    });
}

#[test]
fn verify_says_when_a_fork_does_not_fit_its_origin() {
    type Bend = fn(&mut Fork);
    let other_record: Bend = |fork| fork.from.hash = Digest::of(b"another");
    let other_place: Bend = |fork| fork.from.seq -= 1;
    let nobody: Bend = |fork| fork.from.session = id("nobody");
    let lost = "the record it was forked from is not the one that is there";
    let bent = "it does not begin with what the other session knew";
    for (bend, what) in
        [(other_record, lost), (other_place, lost), (nobody, lost), (bend_state, bent)]
    {
        block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let stage = stage(folder.path());
            let mut fork = fork_of_one_call(&stage).await;
            drop(stage.forked("good", fork.clone()).await.unwrap());
            assert_eq!(problems(&stage).await, []);
            bend(&mut fork);
            drop(stage.forked("bad", fork).await.unwrap());
            assert_eq!(problems(&stage).await, [(2, what.to_owned())]);
        });
    }
}

/// What another program folded is not compared to the letter, but what every program only copies is;
/// and the program that a fork names is the one that bound its configuration.
#[test]
fn verify_does_not_take_a_forks_word_for_its_program() {
    for (bend, expected) in [
        (false, vec![(2, "another program than it says forked it")]),
        (
            true,
            vec![
                (2, "another program than it says forked it"),
                (2, "it does not begin with what the other session knew"),
            ],
        ),
    ] {
        block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let stage = stage(folder.path());
            let mut fork = fork_of_one_call(&stage).await;
            if bend {
                bend_state(&mut fork);
            }
            drop(stage.forked("f1", fork).await.unwrap());
            let copy = by_another_program(&stage).await;
            let report = verify(&copy).await.unwrap();
            let found: Vec<_> =
                report.problems.iter().map(|one| (one.seq, one.what.as_ref())).collect();
            assert_eq!(found, expected);
        });
    }
}

/// The log with another program in its `forked` records, by somebody who has the key.
async fn by_another_program(stage: &Stage) -> MemoryStore {
    let (copy, own) = (MemoryStore::new(), format!("\"program\":{:?}", env!("CARGO_PKG_VERSION")));
    for head in stage.store.heads().await.unwrap() {
        let (stream, mut tip, mut rows) = (head.stream, Tip::START, Vec::new());
        for Row { seq, bytes, .. } in stage.store.read(&stream, 1, 100_000).await.unwrap() {
            let text = String::from_utf8(bytes).unwrap();
            let forked = text.contains("\"carried\"");
            let other = text.replace(&own, "\"program\":\"0.0.9\"");
            let bytes = if forked { other } else { text }.into_bytes();
            let hash = Digest::link(tip.hash, &bytes);
            tip = Tip { seq, hash };
            rows.push(Row { seq, bytes, hash });
        }
        if matches!(stream, StreamId::Session(_)) {
            copy.claim(&stream).await.unwrap();
        }
        let head = StreamHead { stream, seq: tip.seq, link: tip.hash };
        let rows = rows.into_iter().collect();
        let batch = Batch { epoch: None, after: 0, rows, head };
        copy.append(Append { batches: vec![batch], blobs: Vec::new() }).await.unwrap();
    }
    copy
}

#[test]
fn a_fork_is_whole_or_not_there() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let stage = stage(folder.path());
        let fork = fork_of_one_call(&stage).await;
        drop(stage.forked("f1", fork.clone()).await.unwrap());
        let kinds: Vec<&str> =
            records(stage.store.as_ref(), "f1").await.iter().map(|r| r.event.kind()).collect();
        assert_eq!(kinds, ["opened", "forked", "config_bound"]);
        // One name is one session.
        let again = stage.forked("f1", fork).await.err().unwrap();
        assert!(again.to_string().contains("f1 exists already"), "{again}");
        let nobody = stage.preview_fork(&id("nobody"), None).await.unwrap_err();
        assert!(matches!(nobody, OpenFault::Missing(_)), "{nobody}");
    });
}
