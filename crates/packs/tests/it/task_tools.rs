//! Tasks: what each action answers, and every way in which it can be wrong.

use serde_json::{Value, json};
use toolgate_kernel::envelope::Code;
use toolgate_packs::tasks::tasks;

use crate::den::{Den, call};

const ACTIONS: [&str; 4] = ["create", "update", "complete", "list"];
const NOW: &str = "2023-11-14T22:13:20.000Z";

async fn den() -> Den {
    Den::open(&[tasks().unwrap()]).await
}

fn task(id: u64, title: &str) -> Value {
    json!({ "id": id, "title": title, "details": null, "status": "open", "created_at": NOW,
            "completed_at": null })
}

#[tokio::test]
async fn a_task_is_made_changed_done_and_listed() {
    let mut den = den().await;
    for title in ["Read", " Write "] {
        den.works("tasks", json!({ "action": "create", "title": title })).await;
    }
    let mut first = task(1, "Read");
    first["details"] = json!("Both volumes.");
    let updated = den
        .works("tasks", json!({ "action": "update", "id": 1, "details": "Both volumes." }))
        .await;
    assert_eq!(updated, json!({ "type": "task_updated", "task": first }));
    let mut second = task(2, "Write");
    (second["status"], second["completed_at"]) = (json!("done"), json!(NOW));
    let done = den.works("tasks", json!({ "action": "complete", "id": 2 })).await;
    assert_eq!(done, json!({ "type": "task_completed", "task": second }));
    // Another session sees the same list.
    let mut other = den.another("s2").await;
    let listed = call(&mut other, "tasks", json!({ "action": "list" })).await.data;
    assert_eq!(listed, json!({ "type": "task_list", "tasks": [first, second], "total": 2 }));
    let open = den.works("tasks", json!({ "action": "list", "status": "open" })).await;
    assert_eq!((&open["tasks"], &open["total"]), (&json!([first]), &json!(1)));
    let again = den
        .works("tasks", json!({ "action": "update", "id": 2, "status": "open", "details": "" }))
        .await;
    assert_eq!(again["task"], task(2, "Write"));
    let created = den.works("tasks", json!({ "action": "create", "title": "Third" })).await;
    assert_eq!(created, json!({ "type": "task_created", "task": task(3, "Third") }));
}

#[tokio::test]
async fn every_mistake_says_what_to_do() {
    let mut den = den().await;
    den.works("tasks", json!({ "action": "create", "title": "x" })).await;
    den.works("tasks", json!({ "action": "create", "title": "y" })).await;
    den.works("tasks", json!({ "action": "complete", "id": 2 })).await;
    let long = "x".repeat(4_001);
    for (args, code, told) in [
        (
            json!({ "action": "create" }),
            Code::ARGUMENTS_INVALID,
            json!({ "error": "title is required for create action", "action": "create",
                    "required_param": "title", "allowed_actions": ACTIONS }),
        ),
        (
            json!({ "action": "create", "title": &long[..201] }),
            Code::ARGUMENTS_INVALID,
            json!({ "error": "title has 201 characters; use at most 200", "action": "create",
                    "field": "title", "allowed_actions": ACTIONS }),
        ),
        (
            json!({ "action": "create", "title": "t", "details": long }),
            Code::ARGUMENTS_INVALID,
            json!({ "error": "details has 4001 characters; use at most 4000", "action": "create",
                    "field": "details", "allowed_actions": ACTIONS }),
        ),
        (
            json!({ "action": "update", "title": "t" }),
            Code::ARGUMENTS_INVALID,
            json!({ "error": "id is required for update action", "action": "update",
                    "required_param": "id", "allowed_actions": ACTIONS }),
        ),
        (
            json!({ "action": "update", "id": 1, "title": " " }),
            Code::ARGUMENTS_INVALID,
            json!({ "error": "title, details or status is required for update action",
                    "action": "update", "required_param": "title", "allowed_actions": ACTIONS }),
        ),
        (
            json!({ "action": "update", "id": 9, "title": "t" }),
            Code::TOOL_FAILED,
            json!({ "error": "There is no task 9", "action": "update", "id": 9 }),
        ),
        (
            json!({ "action": "complete" }),
            Code::ARGUMENTS_INVALID,
            json!({ "error": "id is required for complete action", "action": "complete",
                    "required_param": "id", "allowed_actions": ACTIONS }),
        ),
        (
            json!({ "action": "complete", "id": 2 }),
            Code::TOOL_FAILED,
            json!({ "error": "Task 2 is done already", "action": "complete", "id": 2 }),
        ),
        (
            json!({ "action": "delete", "id": 2 }),
            Code::ARGUMENTS_INVALID,
            json!({ "error": "Invalid action 'delete'", "action": null, "allowed_actions": ACTIONS }),
        ),
    ] {
        let mut expected = told;
        expected["type"] = json!("error");
        assert_eq!(den.fails("tasks", args).await, (code, expected));
    }
    let (_, told) = den.fails("tasks", json!({ "action": "list", "status": "lost" })).await;
    assert_eq!(told["allowed_actions"], json!(ACTIONS));
}

#[tokio::test]
async fn the_task_that_was_done_first_gives_its_place_to_a_new_one() {
    let mut den = den().await;
    for _ in 0..1_000 {
        den.works("tasks", json!({ "action": "create", "title": "t" })).await;
    }
    let (_, told) = den.fails("tasks", json!({ "action": "create", "title": "more" })).await;
    assert_eq!(told["error"], "1000 tasks are open. Complete some first.");
    den.works("tasks", json!({ "action": "complete", "id": 500 })).await;
    den.clock.days_pass(1);
    den.works("tasks", json!({ "action": "complete", "id": 400 })).await;
    den.works("tasks", json!({ "action": "create", "title": "more" })).await;
    let (_, told) = den.fails("tasks", json!({ "action": "complete", "id": 500 })).await;
    assert_eq!(told["error"], "There is no task 500");
    let listed = den.works("tasks", json!({ "action": "list" })).await;
    assert_eq!(listed["total"], 1_000);
    let shown = listed["tasks"].as_array().unwrap().len();
    assert!((500..1_000).contains(&shown), "{shown} are shown");
}
