//! `json.patch`: a patch is made whole or not at all, by both ways in. The document that the corpus
//! patches is the draft; paths that it calls reserved are sent as they are.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_kernel::config::AgentText;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::directive::patch_ops;
use toolgate_packs::enabled;
use toolgate_packs::workspace::{Document, Root};
use toolgate_runtime::{Crew, Driver, Toolbox};
use toolgate_testkit::corpus::{Case, Outcome};
use toolgate_testkit::ledger::Entry;

use crate::corpus_bench::{Bench, client};
use crate::scenarios::block_on;

/// A crew with packs of our own.
pub(crate) fn crew_of(packs: &[&str]) -> Crew {
    let text: AgentText = serde_json::from_value(json!({ "packs": packs })).unwrap();
    let packs = enabled(&text).unwrap();
    let sections = packs.iter().map(|pack| pack.section.clone()).collect();
    Crew::new(Arc::new(text.build(sections).unwrap()), Toolbox::of(&packs))
}

/// One of the documents of the workspace.
pub(crate) fn document(bench: &Bench, root: Root) -> Value {
    Document::of(&bench.runtime.project().0.state, root).value
}

/// Something of the workspace was changed: that is the world here.
fn changed(bench: &Bench, args: &str) {
    let args_hash = Digest::of(args.as_bytes()).to_string();
    let entry = Entry { key: "case".to_owned(), tool: "state_patch".to_owned(), args_hash };
    bench.world.write(entry).unwrap();
}

/// The patch as text, with its paths in the draft.
fn patch(case: &Case) -> String {
    let text = case.text().unwrap();
    if case.id == "JPT-024" {
        return format!(r#"[{{"op":"add","path":"/draft{text}","value":1}}]"#);
    }
    // What comes after the patch is a remark.
    let patch = text.rfind(']').map_or(text.as_str(), |at| &text[..=at]);
    if case.category == "reserved" {
        return patch.to_owned();
    }
    patch.replace(r#""path":"/"#, r#""path":"/draft/"#)
}

pub(crate) fn play(case: &Case, bench: &Bench) -> Outcome {
    let patch = patch(case);
    block_on(async {
        let mut driver = bench.open(crew_of(&["workspace"])).await;
        let start = json!({"ops": [
            {"op": "set", "path": "/draft/list", "value": [0, 1]},
            {"op": "set", "path": "/draft/notes", "value": []},
        ]});
        let started = driver.call(&client(), "state_patch", &start.to_string(), None).await;
        assert!(started.unwrap().ok);
        bench.expect_state_of(&driver);
        // By a directive, whose payload may be text, and by a call in the tool's own words.
        let directive = match patch_ops(&json!({ "ops": patch })) {
            Ok(ops) => call(&mut driver, bench, &json!({ "ops": ops }).to_string()).await,
            Err(problem) => {
                assert!(!problem.message.is_empty() && !problem.code.is_empty());
                Outcome::Reject
            }
        };
        if directive == Outcome::Accept {
            exactly(case, bench);
            return directive;
        }
        let words = [("add", "set"), ("replace", "set"), ("remove", "delete")];
        let own = words.iter().fold(patch, |text, (theirs, ours)| {
            text.replace(&format!(r#""op":"{theirs}""#), &format!(r#""op":"{ours}""#))
        });
        let called = call(&mut driver, bench, &format!(r#"{{"ops":{own}}}"#)).await;
        assert_eq!(called, directive, "{}: whichever way it comes", case.id);
        called
    })
}

/// Makes the call and checks that a refusal leaves everything as it was.
async fn call(driver: &mut Driver, bench: &Bench, args: &str) -> Outcome {
    let before = bench.runtime.project().0.export().1;
    let told = driver.call(&client(), "state_patch", args, None).await.unwrap();
    if told.ok {
        changed(bench, args);
        return Outcome::Accept;
    }
    assert!(told.code().is_some_and(|code| code.as_str().starts_with("ARGUMENTS_")), "{told:?}");
    assert_eq!(bench.runtime.project().0.export().1, before, "nothing of it was done");
    Outcome::Reject
}

/// What an accepted patch must have done, and nothing else.
fn exactly(case: &Case, bench: &Bench) {
    let expected = match case.id.as_str() {
        "JPT-007" => json!({"list": [0, 1], "notes": [], "a~1": 1}),
        "JPT-025" => json!({"list": [0, 1], "notes": ["x"]}),
        id => panic!("{id} should not be taken"),
    };
    assert_eq!(document(bench, Root::Draft), expected);
}
