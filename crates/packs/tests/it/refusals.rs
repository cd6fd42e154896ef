//! W25: what cannot be done to a plan, in which words, and which of several mistakes is told.

use serde_json::json;

use crate::support::Come::{Fails, Works};
use crate::support::Desk;

const NO_PLAN: &str = "No plan is currently initialised.";
const NOT_ACTIVE: &str = "Plan must be active. Current status: completed.";
const BLANK: &str = "Title must not be empty.";
const LONG: &str = "Title must be <= 500 characters.";
const NOTHING_TO_ADD: &str = "Provide at least one step to add.";
const NOTHING_TO_UPDATE: &str = "Provide a new title or status to update a step.";

#[tokio::test]
async fn without_a_plan_there_is_nothing_to_read_or_change() {
    let mut desk = Desk::open().await;
    desk.play([
        ("read_plan", json!({}), Fails(NO_PLAN)),
        ("add_step", json!({ "steps": ["a"] }), Fails(NO_PLAN)),
        ("update_step", json!({ "step_id": 1, "status": "done" }), Fails(NO_PLAN)),
        // A missing plan is told before any other mistake.
        ("add_step", json!({ "steps": [] }), Fails(NO_PLAN)),
        ("add_step", json!({ "steps": [" "] }), Fails(NO_PLAN)),
        ("update_step", json!({ "step_id": 1 }), Fails(NO_PLAN)),
        ("update_step", json!({ "step_id": 1, "title": "" }), Fails(NO_PLAN)),
    ])
    .await;
    assert_eq!(desk.plan(), None);
}

#[tokio::test]
async fn a_completed_plan_can_only_be_read_or_replaced() {
    let mut desk = Desk::open().await;
    desk.play([
        (
            "setup_plan",
            json!({ "objective": "o", "initial_steps": ["a"] }),
            Works("Plan initialised with 1 step."),
        ),
        ("update_step", json!({ "step_id": 1, "status": "done" }), Works("Step 1 updated.")),
        ("add_step", json!({ "steps": ["b"] }), Fails(NOT_ACTIVE)),
        ("update_step", json!({ "step_id": 1, "status": "pending" }), Fails(NOT_ACTIVE)),
        // Completion is told before the other mistakes.
        ("add_step", json!({ "steps": [] }), Fails(NOT_ACTIVE)),
        ("add_step", json!({ "steps": [""] }), Fails(NOT_ACTIVE)),
        ("update_step", json!({ "step_id": 1 }), Fails(NOT_ACTIVE)),
        ("update_step", json!({ "step_id": 9, "title": "" }), Fails(NOT_ACTIVE)),
        ("read_plan", json!({}), Works("Retrieved the current plan with 1 step.")),
        // A replacement that is refused leaves the completed plan as it is.
        ("setup_plan", json!({ "objective": "" }), Fails("Objective must not be empty.")),
    ])
    .await;
}

#[tokio::test]
async fn an_active_plan_refuses_in_the_order_title_change_step() {
    let mut desk = Desk::open().await;
    let long = "x".repeat(501);
    desk.play([
        (
            "setup_plan",
            json!({ "objective": "o", "initial_steps": ["a", "b"] }),
            Works("Plan initialised with 2 steps."),
        ),
        ("add_step", json!({ "steps": [] }), Fails(NOTHING_TO_ADD)),
        ("add_step", json!({ "steps": ["c", " \t\n"] }), Fails(BLANK)),
        ("add_step", json!({ "steps": ["c", long, ""] }), Fails(LONG)),
        ("update_step", json!({ "step_id": 1 }), Fails(NOTHING_TO_UPDATE)),
        (
            "update_step",
            json!({ "step_id": 1, "title": null, "status": null }),
            Fails(NOTHING_TO_UPDATE),
        ),
        ("update_step", json!({ "step_id": 3, "status": "done" }), Fails("Step 3 does not exist.")),
        ("update_step", json!({ "step_id": 0, "title": "x" }), Fails("Step 0 does not exist.")),
        // Title before change, change before step.
        ("update_step", json!({ "step_id": 3, "title": " " }), Fails(BLANK)),
        ("update_step", json!({ "step_id": 3, "title": long }), Fails(LONG)),
        ("update_step", json!({ "step_id": 3 }), Fails(NOTHING_TO_UPDATE)),
        // A bad title stops a good status.
        ("update_step", json!({ "step_id": 1, "title": "", "status": "done" }), Fails(BLANK)),
    ])
    .await;
}

#[tokio::test]
async fn setup_refuses_its_objective_before_its_titles() {
    let mut desk = Desk::open().await;
    let (long, empty) = ("x".repeat(501), "Objective must not be empty.");
    desk.play([
        ("setup_plan", json!({ "objective": "" }), Fails(empty)),
        ("setup_plan", json!({ "objective": " \n ", "initial_steps": [""] }), Fails(empty)),
        (
            "setup_plan",
            json!({ "objective": long, "initial_steps": [""] }),
            Fails("Objective must be <= 500 characters."),
        ),
        ("setup_plan", json!({ "objective": "o", "initial_steps": ["a", ""] }), Fails(BLANK)),
        ("setup_plan", json!({ "objective": "o", "initial_steps": [long] }), Fails(LONG)),
    ])
    .await;
    assert_eq!(desk.plan(), None);
}

/// Beside the words, a refusal says which argument is meant and what would do.
#[tokio::test]
async fn a_refusal_names_the_argument_and_what_is_allowed() {
    let mut desk = Desk::open().await;
    desk.call("setup_plan", json!({ "objective": "o", "initial_steps": ["a", "b"] })).await;
    for (tool, args, path, allowed) in [
        ("setup_plan", json!({ "objective": " " }), "objective", None),
        (
            "setup_plan",
            json!({ "objective": "o", "initial_steps": [""] }),
            "initial_steps[0]",
            None,
        ),
        ("add_step", json!({ "steps": ["c", "d", ""] }), "steps[2]", None),
        ("update_step", json!({ "step_id": 1, "title": "" }), "title", None),
        ("update_step", json!({ "step_id": 7, "title": "t" }), "step_id", Some(vec!["1", "2"])),
    ] {
        let envelope = desk.call(tool, args).await;
        let trouble = &envelope.errors[0];
        let allowed = allowed.map(|ids| ids.into_iter().map(str::to_owned).collect());
        assert_eq!((trouble.path.as_deref(), &trouble.allowed), (Some(path), &allowed));
    }
}

/// What has the wrong type never reaches the tool; the gate says what fits.
#[tokio::test]
async fn the_gate_refuses_other_types_and_unknown_fields() {
    let mut desk = Desk::open().await;
    desk.call("setup_plan", json!({ "objective": "o", "initial_steps": ["a"] })).await;
    let before = desk.hash();
    for (tool, args, message) in [
        ("setup_plan", json!({}), "objective: is required"),
        ("add_step", json!({ "steps": "b" }), "steps: must be a list (got \"b\")"),
        (
            "add_step",
            json!({ "steps": [{ "title": "b" }] }),
            "steps[0]: must be a text (got an object)",
        ),
        (
            "update_step",
            json!({ "step_id": 1, "status": "finished" }),
            "status: must be one of pending, in_progress, done (got \"finished\")",
        ),
        (
            "update_step",
            json!({ "step_id": -1, "title": "t" }),
            "step_id: must be at least 0 (got -1)",
        ),
        ("read_plan", json!({ "all": true }), "Tool does not accept any arguments. Send {}."),
        (
            "update_step",
            json!({ "step_id": 1, "state": "done" }),
            "state: is not a field: the fields are step_id, title, status",
        ),
    ] {
        let envelope = desk.call(tool, args).await;
        assert_eq!(envelope.message, message);
    }
    assert_eq!(desk.hash(), before);
}
