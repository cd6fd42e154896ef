//! A long log is not read from its beginning, and a checkpoint is believed only when it is ours.

use std::sync::Arc;

use rusqlite::Connection;
use toolgate_kernel::actor::Actor;
use toolgate_runtime::port::Store;
use toolgate_runtime::verify::verify;
use toolgate_store::SqliteStore;
use toolgate_testkit::ledger::Ledger;
use toolgate_testkit::scenario::Scenario;
use toolgate_testkit::stage::{Stage, log_setup};

use crate::scenarios::block_on;

const YAML: &str = "about: many calls\nfamilies: {note: session}\nsections:\n  - name: desk\n    \
    tools:\n      - name: save\n        effect: staged\n        params: {type: object, required: ['n'], \
    properties: {n: {type: integer}}}\n        writes: ['note:{n}']\n        does: [put_arg: ['note:{n}', n]]\n";

#[test]
fn a_long_log_leaves_a_checkpoint_that_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.db");
    let open = || {
        let scenario: Scenario = serde_saphyr::from_str(YAML).unwrap();
        let store: Arc<dyn Store> =
            Arc::new(SqliteStore::open(&log, &log_setup().unwrap()).unwrap());
        let stage = Stage::new(scenario, Arc::clone(&store), folder.path(), Ledger::default());
        (stage.unwrap().unwrap_or_else(|refused| panic!("{}", refused.0)), store)
    };
    let (stage, store) = open();
    let first = block_on(async {
        let mut driver = stage.open_session().await.unwrap();
        for n in 0..400 {
            let args = format!("{{\"n\":{n}}}");
            driver.call(&Actor::Client("t".into()), "save", &args, None).await.unwrap();
        }
        driver.session()
    });
    drop((stage, store));
    // The second opening reads all and keeps a checkpoint; the third begins with it.
    for _ in 0..2 {
        let (stage, store) = open();
        let again = block_on(stage.open_session()).unwrap().session();
        assert_eq!(again, first);
        let kept = block_on(store.checkpoint(&stage.stream())).unwrap().unwrap();
        assert_eq!(kept.seq, first.seq);
        let report = block_on(verify(store.as_ref()));
        assert_eq!(report.unwrap().problems, []);
    }
    // A checkpoint that somebody changed is not believed, and verify says so.
    let changed =
        "UPDATE checkpoints SET body = CAST(replace(CAST(body AS TEXT), '399', '398') AS BLOB)";
    assert_eq!(Connection::open(&log).unwrap().execute(changed, []).unwrap(), 1);
    let (stage, store) = open();
    assert_eq!(block_on(stage.open_session()).unwrap().session(), first);
    drop((stage, store));
    let (stage, store) = open();
    assert_eq!(Connection::open(&log).unwrap().execute(changed, []).unwrap(), 1);
    drop(stage);
    let report = block_on(verify(store.as_ref())).unwrap();
    assert!(
        report.problems.iter().any(|problem| problem.what.contains("checkpoint")),
        "{report:?}"
    );
}
