//! A desk at which undo and fork are tried: notes, lists, files, phases and a manuscript, and calls
//! that change them.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use toolgate_kernel::actor::Actor;
use toolgate_runtime::{Driver, MemoryStore, Range};
use toolgate_testkit::ledger::Ledger;
use toolgate_testkit::scenario::Scenario;
use toolgate_testkit::stage::Stage;

const YAML: &str = "
about: notes, lists, files, phases and a manuscript
families: {memo: session, log: session, book: project}
agent:
  packs: [notes, manuscript_read, manuscript_write]
  phases:
    DRAFT: {transitions: [{to: EDIT}]}
    EDIT: {transitions: [{to: DRAFT}]}
sections:
  - name: desk
    tools:
      - name: save
        effect: staged
        params: {type: object, required: ['n', at], properties: {n: {type: integer}, at: {type: integer}}}
        writes: ['memo:{at}', 'log:{at}', 'book:{at}', 'file:f{at}.md']
        does: [put_arg: ['memo:{at}', n], push: ['log:{at}', x], put_arg: ['book:{at}', n], write_file: ['f{at}.md', 'text {n}']]
      - name: drop
        effect: staged
        params: {type: object, required: [at], properties: {at: {type: integer}}}
        writes: ['memo:{at}', 'book:{at}']
        does: [remove: 'memo:{at}', remove: 'book:{at}']
      - {name: edit, effect: staged, does: [enter_phase: EDIT, say: editing]}
      - {name: draft, effect: staged, does: [enter_phase: DRAFT, say: drafting]}
";

pub(crate) fn stage(folder: &Path) -> Stage {
    let scenario: Scenario = serde_saphyr::from_str(YAML).unwrap();
    let stage = Stage::new(scenario, Arc::new(MemoryStore::new()), folder, Ledger::default());
    stage.unwrap().unwrap_or_else(|refused| panic!("{}", refused.0))
}

pub(crate) use toolgate_testkit::signer::ada;

/// What is done: its kind, where, and with what.
pub(crate) type Deed = (u8, u8, u8);

pub(crate) const SAVE: u8 = 0;
pub(crate) const NOTE: u8 = 1;
pub(crate) const SECTION: u8 = 2;
/// The kinds from 0 on that only change state and files.
pub(crate) const CHANGES: u8 = 8;
/// All kinds: a way to the other phase, a tool that is not there and an undo are among them.
pub(crate) const ALL: u8 = 12;

/// Does one thing, and says whether it was done.
pub(crate) async fn act(driver: &mut Driver, (kind, at, n): Deed) -> bool {
    let (tool, args) = match kind {
        SAVE => ("save", json!({"n": n, "at": at})),
        NOTE => ("write_notes", json!({"key": format!("k{at}"), "data": n})),
        SECTION => {
            ("create_section", json!({"name": format!("s{at}"), "content": format!("Text {n}.")}))
        }
        3 => ("drop", json!({"at": at})),
        4 => ("delete_notes", json!({"key": format!("k{at}")})),
        5 => ("replace_section", json!({"name": format!("s{at}"), "content": format!("New {n}.")})),
        6 => ("delete_section", json!({"name": format!("s{at}")})),
        7 => ("append_to_manuscript", json!({"content": format!("More {n}.")})),
        8 => ("edit", json!({})),
        9 => ("draft", json!({})),
        10 => ("nothing_of_the_kind", json!({})),
        _ => {
            let Ok(undo) = driver.undo_preview(Range::Calls(1)).await else { return false };
            return driver.undo(ada(), &undo, "").await.is_ok();
        }
    };
    let actor = Actor::Client("test".into());
    driver.call(&actor, tool, &args.to_string(), None).await.unwrap().ok
}
