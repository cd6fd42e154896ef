//! Every scenario, on both stores, against its golden trace.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolgate_kernel::event::{Event, StreamId};
use toolgate_kernel::fold::Session;
use toolgate_kernel::names::SessionId;
use toolgate_runtime::MemoryStore;
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::port::Store;
use toolgate_runtime::verify::verify;
use toolgate_store::SqliteStore;
use toolgate_testkit::ledger::Ledger;
use toolgate_testkit::scenario::Scenario;
use toolgate_testkit::stage::{Stage, log_setup};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(work)
}

/// `SCENARIO=name` plays only what has that in its path; `UPDATE=1` rewrites the golden traces.
#[test]
fn every_scenario_leaves_its_golden_trace() {
    let only = std::env::var("SCENARIO").unwrap_or_default();
    let update = std::env::var("UPDATE").is_ok();
    let mut wrong = Vec::new();
    let mut played = 0;
    for path in Scenario::find(&root()).unwrap() {
        if !path.display().to_string().contains(&only) {
            continue;
        }
        played += 1;
        let memory = play(&path, Arc::new(MemoryStore::new()));
        let folder = tempfile::tempdir().unwrap();
        let sqlite =
            SqliteStore::open(folder.path().join("log.db"), &log_setup().unwrap()).unwrap();
        assert_eq!(memory, play(&path, Arc::new(sqlite)), "{}: stores differ", path.display());
        let golden = path.with_extension("trace");
        if update {
            std::fs::write(&golden, &memory).unwrap();
        } else if std::fs::read_to_string(&golden).unwrap_or_default() != memory {
            wrong.push(format!("{}\n{memory}", path.display()));
        }
    }
    assert!(played > 0, "no scenario is named {only:?}");
    assert!(wrong.is_empty(), "UPDATE=1 rewrites what is right:\n{}", wrong.join("\n"));
}

fn play(path: &Path, store: Arc<dyn Store>) -> String {
    let scenario = Scenario::read(path).unwrap();
    assert!(!scenario.about.trim().is_empty(), "{}: about is empty", path.display());
    let folder = tempfile::tempdir().unwrap();
    let refused = scenario.refused.clone();
    let stage = Stage::new(scenario, Arc::clone(&store), folder.path(), Ledger::default()).unwrap();
    let stage = match (stage, refused) {
        (Ok(stage), None) => stage,
        (Err(refusal), Some(words)) => {
            assert!(refusal.0.contains(&words), "{}: {}", path.display(), refusal.0);
            return format!("refused: {}\n", refusal.0);
        }
        (Ok(_), Some(_)) => panic!("{}: should be refused", path.display()),
        (Err(refusal), None) => panic!("{}: {}", path.display(), refusal.0),
    };
    let played =
        block_on(stage.play()).unwrap_or_else(|error| panic!("{}: {error:#}", path.display()));
    let report = block_on(verify(store.as_ref())).unwrap();
    assert_eq!(report.problems, [], "{}", path.display());
    every_prefix_replays(store.as_ref());
    played.trace
}

/// Any prefix of a log is a log; folding it never fails, and it only depends on the records.
fn every_prefix_replays(store: &dyn Store) {
    for head in block_on(store.heads()).unwrap() {
        if let StreamId::Session(id) = head.stream {
            prefixes_replay(store, &id);
        }
    }
}

fn prefixes_replay(store: &dyn Store, id: &SessionId) {
    let stream = StreamId::Session(id.clone());
    let mut records = Vec::new();
    block_on(read_from::<Event>(store, &stream, Tip::START, |record, _| records.push(record)))
        .unwrap();
    let mut live = Session::new(id.clone());
    for (at, record) in records.iter().enumerate() {
        live.apply(record);
        if at % 7 == 0 || at + 1 == records.len() {
            let mut again = Session::new(id.clone());
            records.iter().take(at + 1).for_each(|record| again.apply(record));
            assert_eq!(again, live);
        }
    }
}

/// The reference cases that scenarios claim to cover are real ones.
#[test]
fn covered_cases_are_named_rightly() {
    for path in Scenario::find(&root()).unwrap() {
        for case in Scenario::read(&path).unwrap().covers {
            let (letter, number) = case.split_at(1);
            assert!("RCWTHDN".contains(letter) && number.parse::<u8>().is_ok(), "{case}");
        }
    }
}
