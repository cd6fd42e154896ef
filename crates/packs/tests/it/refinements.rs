//! Refinement: so many changes, what is protected survives, and too great a loss is taken back.

use serde_json::{Value, json};
use toolgate_kernel::config::{MemoryText, Refinement};
use toolgate_kernel::envelope::Code;
use toolgate_kernel::key::Key;
use toolgate_packs::memory::memory;

use crate::den::{Den, call};

const ACTIONS: [&str; 6] = ["search", "consolidate", "update", "delete", "protect", "complete"];

/// A den with ten core memories of ten characters, and their ids.
async fn den(text: MemoryText) -> (Den, Vec<String>) {
    let mut den = Den::open(&[memory(text).unwrap()]).await;
    let mut ids = Vec::new();
    for n in 0..10 {
        let args = json!({ "action": "save", "kind": "core", "content": format!("memory{n:04}") });
        ids.push(den.works("memory", args).await["memory"]["id"].as_str().unwrap().to_owned());
    }
    (den, ids)
}

/// All memories as they are kept.
fn kept(den: &Den) -> Vec<(String, Value)> {
    let project = den.runtime.project().0;
    let shelf = project.state.shelf("memory").unwrap();
    shelf.iter().map(|(name, slot)| (name.to_owned(), slot.value())).collect()
}

#[tokio::test]
async fn ten_changes_and_no_more_and_what_fails_does_not_count() {
    let (mut den, ids) = den(MemoryText::default()).await;
    let mut id = ids[0].clone();
    for n in 0..10 {
        den.fails("refinement", json!({ "action": "update", "id": "m0", "content": "x" })).await;
        den.works("refinement", json!({ "action": "search", "query": "memory0001" })).await;
        let args = json!({ "action": "update", "id": id, "content": format!("changed {n:02}") });
        let updated = den.works("refinement", args).await;
        assert_eq!(
            (&updated["type"], &updated["replaced"]),
            (&json!("memory_updated"), &json!(id))
        );
        assert_eq!(updated["mutations_left"], 9 - n);
        id = updated["memory"]["id"].as_str().unwrap().to_owned();
    }
    let refused = json!({ "type": "error", "action": "update", "mutations": 10,
                          "error": "Mutation limit reached (10 per session). Call complete" });
    let args = json!({ "action": "update", "id": id, "content": "once more" });
    assert_eq!(den.fails("refinement", args).await, (Code::TOOL_FAILED, refused));
    for action in ["delete", "consolidate"] {
        let args = json!({ "action": action, "ids": [ids[1], ids[2]], "content": "x" });
        assert_eq!(den.fails("refinement", args).await.1["mutations"], 10, "{action}");
    }
    // Neither searching nor protecting is a change.
    den.works("refinement", json!({ "action": "protect", "id": ids[1] })).await;
    den.works("refinement", json!({ "action": "search", "query": "x" })).await;
    let done = den.works("refinement", json!({ "action": "complete", "summary": "Done." })).await;
    let expected = json!({ "type": "refinement_completed", "mutations": 10, "core_before": 100,
                           "core_after": 100, "summary": "Done." });
    assert_eq!(done, expected);
    for action in ["search", "protect", "complete"] {
        let args = json!({ "action": action, "query": "x", "id": ids[2], "summary": "x" });
        assert_eq!(den.fails("refinement", args).await.1["error"], "Session completed", "{action}");
    }
}

#[tokio::test]
async fn too_great_a_loss_takes_everything_back() {
    let (mut den, ids) = den(MemoryText::default()).await;
    den.works("memory", json!({ "action": "save", "content": "a journal entry" })).await;
    let before = kept(&den);
    den.works("refinement", json!({ "action": "protect", "id": ids[9] })).await;
    den.works("refinement", json!({ "action": "update", "id": ids[0], "content": "first memory" }))
        .await;
    let args =
        json!({ "action": "consolidate", "ids": [ids[1], ids[2]], "content": "second and third" });
    let merged = den.works("refinement", args).await;
    assert_eq!(merged["type"], "memories_consolidated");
    // 98 of 100 characters are left; without this one only 88 are.
    let broken = den.works("refinement", json!({ "action": "delete", "id": ids[3] })).await;
    assert_eq!((&broken["type"], &broken["undone"]), (&json!("refinement_terminated"), &json!(3)));
    assert_eq!(broken["not_restored"], json!([]));
    let reason = "A refinement was taken back: it would have left 88 of 100 characters of the core \
                  memories, less than 90 percent. Its 3 changes are undone.";
    assert_eq!(broken["reason"], reason);
    let mut after = kept(&den);
    let journal = broken["journal"].as_str().unwrap();
    let entry = after.iter().position(|(id, _)| id == journal).unwrap();
    assert_eq!(after.remove(entry).1["content"], reason);
    assert_eq!(after, before);
    for action in ACTIONS {
        let args = json!({ "action": action, "query": "x", "id": ids[0], "ids": [ids[0], ids[1]],
                           "content": "x", "summary": "x" });
        assert_eq!(
            den.fails("refinement", args).await.1["error"],
            "Session terminated",
            "{action}"
        );
    }
    // Another session may try anew.
    let mut other = den.another("s2").await;
    let args = json!({ "action": "update", "id": ids[0], "content": "changed again" });
    assert!(call(&mut other, "refinement", args).await.ok);
}

/// Only its own changes are its loss, whatever others save and forget meanwhile.
#[tokio::test]
async fn what_others_save_and_forget_is_not_its_loss() {
    let (mut den, ids) = den(MemoryText::default()).await;
    let mut other = den.another("s2").await;
    den.works("refinement", json!({ "action": "protect", "id": ids[9] })).await;
    let args = json!({ "action": "save", "kind": "core", "content": "x".repeat(11) });
    let saved = call(&mut other, "memory", args).await;
    let id = saved.data["memory"]["id"].clone();
    // 100 of 111 characters are left, though 89 would be too few of what was there at the start.
    let gone = den.works("refinement", json!({ "action": "delete", "id": id })).await;
    assert_eq!(gone["type"], "memories_deleted", "{gone}");
    for id in &ids[..5] {
        assert!(call(&mut other, "memory", json!({ "action": "forget", "id": id })).await.ok);
    }
    // Others forgot 50 of them. What is left of the share is kept, so another 10 are too many.
    let broken = den.works("refinement", json!({ "action": "delete", "id": ids[5] })).await;
    assert_eq!(broken["type"], "refinement_terminated", "{broken}");
    let words = broken["reason"].as_str().unwrap();
    assert!(words.contains("left 40 of 55 characters"), "{words}");
    assert!(words.ends_with("Its 2 changes are undone."), "{words}");

    let (mut den, ids) = self::den(MemoryText::default()).await;
    let broken = den.works("refinement", json!({ "action": "delete", "ids": ids[..2] })).await;
    let words = broken["reason"].as_str().unwrap();
    assert!(words.ends_with("Its one change is undone."), "{words}");
}

#[tokio::test]
async fn every_step_is_written_down_before_and_after() {
    let (mut den, ids) = den(MemoryText::default()).await;
    den.works("refinement", json!({ "action": "protect", "id": ids[0] })).await;
    den.works("refinement", json!({ "action": "delete", "ids": [ids[0], ids[1]] })).await;
    let session = den.driver.session();
    let steps = session.state.get(&Key::parse("refinement_steps").unwrap()).unwrap().value();
    assert_eq!((&steps[0]["action"], &steps[1]["action"]), (&json!("protect"), &json!("delete")));
    let protected = &steps[0]["changes"][0];
    assert_eq!(
        (&protected["before"]["protected"], &protected["after"]["protected"]),
        (&json!(false), &json!(true))
    );
    let deleted = &steps[1]["changes"];
    assert_eq!(deleted.as_array().unwrap().len(), 1);
    assert_eq!(
        (&deleted[0]["before"]["content"], &deleted[0]["after"]),
        (&json!("memory0001"), &Value::Null)
    );
}

#[tokio::test]
async fn what_is_protected_survives() {
    let (mut den, ids) = den(MemoryText::default()).await;
    den.works("refinement", json!({ "action": "protect", "id": ids[0] })).await;
    let args = json!({ "action": "consolidate", "ids": [ids[0], ids[1], ids[2]], "content": "both of the others" });
    let merged = den.works("refinement", args).await;
    assert_eq!(
        (&merged["merged"], &merged["skipped"]),
        (&json!(sorted(&ids[1..3])), &json!([ids[0]]))
    );
    for (args, error) in [
        (
            json!({ "action": "delete", "id": ids[0] }),
            "Protected memories cannot be deleted".to_owned(),
        ),
        (
            json!({ "action": "update", "id": ids[0], "content": "x" }),
            format!("Memory '{}' is protected", ids[0]),
        ),
        (
            json!({ "action": "protect", "id": ids[0] }),
            format!("Memory '{}' is protected already", ids[0]),
        ),
        (
            json!({ "action": "consolidate", "ids": [ids[0], ids[3]], "content": "x" }),
            "At least two memories that are not protected are needed".to_owned(),
        ),
    ] {
        assert_eq!(den.fails("refinement", args).await.1["error"], error);
    }
    assert!(kept(&den).iter().any(|(id, memory)| *id == ids[0] && memory["protected"] == true));
}

fn sorted(ids: &[String]) -> Vec<String> {
    let mut ids = ids.to_vec();
    ids.sort();
    ids
}

#[tokio::test]
async fn what_another_session_changed_is_not_put_back() {
    let (mut den, ids) = den(MemoryText::default()).await;
    let updated = den
        .works(
            "refinement",
            json!({ "action": "update", "id": ids[0], "content": "of the refinement" }),
        )
        .await;
    let new = updated["memory"]["id"].as_str().unwrap();
    let mut other = den.another("s2").await;
    assert!(call(&mut other, "memory", json!({ "action": "forget", "id": new })).await.ok);
    let args = json!({ "action": "delete", "ids": ids[1..9] });
    let broken = den.works("refinement", args).await;
    assert_eq!(
        (&broken["type"], &broken["not_restored"]),
        (&json!("refinement_terminated"), &json!([new]))
    );
    assert!(kept(&den).iter().all(|(id, _)| id != new));
    assert!(kept(&den).iter().any(|(id, _)| *id == ids[0]));
}

#[tokio::test]
async fn where_only_duplicates_go_nothing_is_rewritten() {
    let text = MemoryText { refinement: Refinement::DedupOnly, core_percent_min: 50 };
    let (mut den, ids) = den(text).await;
    let allowed = json!(["search", "delete", "protect", "complete"]);
    for action in ["update", "consolidate"] {
        let args = json!({ "action": action, "id": ids[0], "ids": ids, "content": "x" });
        let (code, told) = den.fails("refinement", args).await;
        let error = format!(
            "Action '{action}' is not available. Here a refinement only removes what is there twice."
        );
        assert_eq!((code, &told["error"]), (Code::ARGUMENTS_INVALID, &json!(error)));
        assert_eq!(told["allowed_actions"], allowed);
    }
    let gone = den.works("refinement", json!({ "action": "delete", "ids": ids[..5] })).await;
    assert_eq!(gone["type"], "memories_deleted");
    let over = den.works("refinement", json!({ "action": "delete", "ids": ids[5..6] })).await;
    assert_eq!(over["type"], "refinement_terminated");
}

#[tokio::test]
async fn every_mistake_says_what_to_do() {
    let (mut den, ids) = den(MemoryText::default()).await;
    let required = |what: &str, action: &str| {
        let error = format!("{what} is required for {action} action");
        json!({ "type": "error", "error": error, "action": action,
                "required_param": what.split(' ').next(), "allowed_actions": ACTIONS })
    };
    for (args, expected) in [
        (json!({ "action": "search" }), required("query", "search")),
        (json!({ "action": "consolidate", "content": "x" }), required("ids", "consolidate")),
        (json!({ "action": "consolidate", "ids": ids }), required("content", "consolidate")),
        (json!({ "action": "update", "content": "x" }), required("id", "update")),
        (json!({ "action": "update", "id": ids[0] }), required("content", "update")),
        (json!({ "action": "delete" }), required("id or ids", "delete")),
        (json!({ "action": "protect" }), required("id", "protect")),
        (json!({ "action": "complete", "summary": "" }), required("summary", "complete")),
    ] {
        assert_eq!(den.fails("refinement", args).await, (Code::ARGUMENTS_INVALID, expected));
    }
    let missing = |action: &str| json!({ "type": "error", "error": "There is no memory 'm0'. Search for it", "action": action, "id": "m0" });
    for action in ["consolidate", "update", "delete", "protect"] {
        let args = json!({ "action": action, "id": "m0", "ids": ["m0"], "content": "x" });
        assert_eq!(den.fails("refinement", args).await, (Code::TOOL_FAILED, missing(action)));
    }
    let many: Vec<String> = (0..51).map(|n| format!("m{n}")).collect();
    let (_, told) = den.fails("refinement", json!({ "action": "delete", "ids": many })).await;
    assert_eq!(told["error"], "ids has 51 entries; use at most 50");
    let args = json!({ "action": "update", "id": ids[0], "content": "memory0000" });
    assert_eq!(den.fails("refinement", args).await.1["error"], "The memory says so already");
}
