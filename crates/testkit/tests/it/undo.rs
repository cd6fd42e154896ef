//! Undo takes state and files back to what they were, whatever calls were made before it.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::names::CallId;
use toolgate_runtime::port::StageTag;
use toolgate_runtime::verify::verify;
use toolgate_runtime::{DriveFault, Driver, Range, UndoRefusal};
use toolgate_testkit::stage::SCENARIO_SECRET;

use crate::desk::{CHANGES, NOTE, SAVE, SECTION, act, ada, stage};
use crate::scenarios::block_on;

/// State and files. Of a file that shows state its fingerprints are left out: one of them tells
/// which version stood there last, and that is the undone one.
fn picture(driver: &Driver, folder: &Path) -> (Value, Value, BTreeMap<String, String>) {
    let (session, mut project) = (driver.session().export().0, driver.project().export().0);
    project["state"].as_object_mut().unwrap().remove("manuscript");
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            files.insert(name, std::fs::read_to_string(path).unwrap());
        }
    }
    (session, project, files)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn what_is_undone_is_as_it_was(
        calls in prop::collection::vec((0..CHANGES, 0u8..3, 0u8..4), 1..16),
        back in prop::collection::vec(1usize..6, 1..4),
    ) {
        block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let stage = stage(folder.path());
            let mut driver = stage.open_session().await.unwrap();
            let mut before = vec![picture(&driver, folder.path())];
            for made in calls {
                if act(&mut driver, made).await {
                    before.push(picture(&driver, folder.path()));
                }
            }
            // Several undos in a row go back further, and none takes anything back twice.
            for n in back {
                let there = before.len() - 1;
                let undo = match driver.undo_preview(Range::Calls(n)).await {
                    Ok(undo) => undo,
                    Err(DriveFault::Undo(UndoRefusal::Nothing)) => {
                        assert_eq!(there, 0);
                        break;
                    }
                    Err(DriveFault::Undo(refusal)) => {
                        assert_eq!(refusal, UndoRefusal::TooFew { asked: n, there });
                        continue;
                    }
                    Err(fault) => panic!("{fault}"),
                };
                assert_eq!(undo.left, Vec::<String>::new());
                driver.undo(ada(), &undo, "").await.unwrap();
                before.truncate(before.len() - n);
                assert_eq!(&picture(&driver, folder.path()), before.last().unwrap());
            }
            drop(driver);
            let again = stage.open_session().await.unwrap();
            assert_eq!(&picture(&again, folder.path()), before.last().unwrap());
            assert_eq!(verify(stage.store.as_ref()).await.unwrap().problems, []);
        });
    }
}

#[test]
fn only_a_person_undoes_and_only_what_was_shown() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let stage = stage(folder.path());
        let mut driver = stage.open_session().await.unwrap();
        assert!(act(&mut driver, (SAVE, 1, 1)).await);
        let undo = driver.undo_preview(Range::Calls(1)).await.unwrap();
        for nobody in [Actor::System, Actor::Client("test".into()), Actor::Model("m".into())] {
            let refused = driver.undo(&nobody, &undo, "").await.unwrap_err();
            assert!(matches!(refused, DriveFault::Author(_)), "{refused}");
        }
        // Nothing of a refused undo stays behind.
        drop(driver);
        let mut driver = stage.open_session().await.unwrap();
        let seen = picture(&driver, folder.path());
        assert_eq!(seen.2.get("f1.md").map(String::as_str), Some("text 1"));
        let undo = driver.undo_preview(Range::Calls(1)).await.unwrap();
        assert!(act(&mut driver, (SAVE, 1, 2)).await);
        let refused = driver.undo(ada(), &undo, "").await.unwrap_err();
        assert!(matches!(refused, DriveFault::Undo(UndoRefusal::LookAgain)), "{refused}");
        let undo = driver.undo_preview(Range::Calls(2)).await.unwrap();
        std::fs::write(folder.path().join("f1.md"), "a person's words").unwrap();
        let refused = driver.undo(ada(), &undo, "").await.unwrap_err();
        assert!(matches!(refused, DriveFault::Undo(UndoRefusal::LookAgain)), "{refused}");
        let undo = driver.undo_preview(Range::Calls(2)).await.unwrap();
        assert_eq!(undo.left, ["f1.md was changed by somebody else since; it stays as it is."]);
        driver.undo(ada(), &undo, "").await.unwrap();
        let now = picture(&driver, folder.path());
        assert_eq!(now.2.get("f1.md").map(String::as_str), Some("a person's words"));
        assert_eq!(now.0["state"], json!({}));
    });
}

/// What is told of a file whose content before the call is not in the log.
const NOT_KEPT: &str = "f1.md: what it said before was not kept, because it was too large or had a \
                        secret in it; it stays.";

#[test]
fn a_large_file_was_not_kept_and_says_so() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let stage = stage(folder.path());
        let large = "x".repeat(toolgate_runtime::REPLACED_BYTES_MAX + 1);
        std::fs::write(folder.path().join("f1.md"), &large).unwrap();
        let mut driver = stage.open_session().await.unwrap();
        assert!(act(&mut driver, (SAVE, 1, 1)).await);
        let undo = driver.undo_preview(Range::After(0)).await.unwrap();
        assert_eq!(undo.left, [NOT_KEPT]);
        driver.undo(ada(), &undo, "").await.unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("f1.md")).unwrap(), "text 1");
    });
}

/// A copy in the log would keep the secret in the open, long after the file is gone.
#[test]
fn a_file_with_a_secret_is_not_kept() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let stage = stage(folder.path());
        let content = format!("KEY={SCENARIO_SECRET}\n");
        std::fs::write(folder.path().join("f1.md"), &content).unwrap();
        let mut driver = stage.open_session().await.unwrap();
        assert!(act(&mut driver, (SAVE, 1, 1)).await);
        let undo = driver.undo_preview(Range::After(0)).await.unwrap();
        assert_eq!(undo.left, [NOT_KEPT]);
        let kept = Digest::of(content.as_bytes());
        assert_eq!(stage.store.blob(kept).await.unwrap(), None);
    });
}

#[test]
fn what_another_session_made_in_between_stays() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let stage = stage(folder.path());
        let mut one = stage.open_session().await.unwrap();
        assert!(act(&mut one, (NOTE, 1, 1)).await && act(&mut one, (NOTE, 2, 1)).await);
        let mut other = stage.open_other_session().await.unwrap();
        assert!(act(&mut other, (NOTE, 1, 5)).await && act(&mut other, (NOTE, 2, 5)).await);
        assert!(act(&mut one, (NOTE, 1, 2)).await);
        let undo = one.undo_preview(Range::Calls(3)).await.unwrap();
        let left = [
            "note:k1 goes back to what somebody else made of it in between.",
            "note:k2 was changed by somebody else since; it stays as it is.",
        ];
        assert_eq!(undo.left, left);
        one.undo(ada(), &undo, "").await.unwrap();
        let state = one.project().export().0["state"].clone();
        assert_eq!(
            (&state["note:k1"]["value"], &state["note:k2"]["value"]),
            (&json!(5), &json!(5))
        );
    });
}

/// The log says that the file is gone before it is. Whoever looks in between must not take it for
/// something that a person wrote.
#[test]
fn a_manuscript_that_is_about_to_go_is_nobodys_words() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let stage = stage(folder.path());
        let path = folder.path().join("manuscript.md");
        let mut one = stage.open_session().await.unwrap();
        let mut other = stage.open_other_session().await.unwrap();
        assert!(act(&mut one, (SECTION, 1, 1)).await);
        let text = std::fs::read_to_string(&path).unwrap();
        let undo = one.undo_preview(Range::Calls(1)).await.unwrap();
        one.undo(ada(), &undo, "").await.unwrap();
        assert!(!path.exists());
        // As it was between the append and the removal.
        std::fs::write(&path, text).unwrap();
        let tag = StageTag { session: one.session().id.clone(), call: CallId(2), at: 0 };
        stage.props.files.stage(&tag, "manuscript.md", None).unwrap();
        assert!(act(&mut other, (NOTE, 1, 1)).await);
        assert!(!path.exists());
        let state = other.project().export().0["state"].clone();
        assert!(state.get("section:s1").is_none(), "{state}");
    });
}
