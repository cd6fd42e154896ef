//! W26: how a plan lives: steps get numbers, get done, the plan is completed and replaced.

use serde_json::json;
use toolgate_packs::planning::PlanStatus::{Active, Completed};
use toolgate_packs::planning::StepStatus::{Done, InProgress, Pending};
use toolgate_runtime::Driver;

use crate::support::Come::{Fails, Works};
use crate::support::{Desk, session_id};

#[tokio::test]
async fn a_plan_is_completed_by_its_last_step_and_replaced_from_one() {
    let mut desk = Desk::open().await;
    desk.play([
        (
            "setup_plan",
            json!({ "objective": "  first ", "initial_steps": ["  x ", "y\n"] }),
            Works("Plan initialised with 2 steps."),
        ),
        ("update_step", json!({ "step_id": 2, "status": "done" }), Works("Step 2 updated.")),
    ])
    .await;
    let steps = vec![(1, "x".to_owned(), Pending), (2, "y".to_owned(), Done)];
    assert_eq!(desk.outline(), (Active, steps));
    assert_eq!(desk.plan().unwrap().objective, "first");

    desk.play([(
        "update_step",
        json!({ "step_id": 1, "status": "done" }),
        Works("Step 1 updated."),
    )])
    .await;
    assert_eq!(desk.outline().0, Completed);

    desk.play([(
        "setup_plan",
        json!({ "objective": "second", "initial_steps": ["z"] }),
        Works("Plan initialised with 1 step."),
    )])
    .await;
    assert_eq!(desk.outline(), (Active, vec![(1, "z".to_owned(), Pending)]));
    assert_eq!(desk.plan().unwrap().objective, "second");
}

#[tokio::test]
async fn numbers_go_on_where_they_ended_also_after_refusals() {
    let mut desk = Desk::open().await;
    desk.play([
        ("setup_plan", json!({ "objective": "o" }), Works("Plan initialised with 0 steps.")),
        ("add_step", json!({ "steps": ["a"] }), Works("Added 1 step.")),
        ("add_step", json!({ "steps": ["lost", ""] }), Fails("Title must not be empty.")),
        ("add_step", json!({ "steps": ["b", "c"] }), Works("Added 2 steps.")),
        ("update_step", json!({ "step_id": 3, "status": "done" }), Works("Step 3 updated.")),
        ("add_step", json!({ "steps": [" d"] }), Works("Added 1 step.")),
    ])
    .await;
    let (_, steps) = desk.outline();
    let names: Vec<_> = steps.iter().map(|(id, title, _)| format!("{id}{title}")).collect();
    assert_eq!(names, ["1a", "2b", "3c", "4d"]);
}

#[tokio::test]
async fn an_active_plan_is_replaced_too() {
    let mut desk = Desk::open().await;
    let setup = |title: &str| json!({ "objective": "o", "initial_steps": [title, "more"] });
    desk.play([
        ("setup_plan", setup("old"), Works("Plan initialised with 2 steps.")),
        ("setup_plan", setup("new"), Works("Plan initialised with 2 steps.")),
    ])
    .await;
    let steps = vec![(1, "new".to_owned(), Pending), (2, "more".to_owned(), Pending)];
    assert_eq!(desk.outline(), (Active, steps));
}

#[tokio::test]
async fn a_plan_without_steps_stays_active() {
    let mut desk = Desk::open().await;
    desk.play([
        (
            "setup_plan",
            json!({ "objective": "o", "initial_steps": [] }),
            Works("Plan initialised with 0 steps."),
        ),
        ("read_plan", json!({}), Works("Retrieved the current plan (no steps recorded).")),
    ])
    .await;
    assert_eq!(desk.outline(), (Active, vec![]));
}

#[tokio::test]
async fn a_status_may_go_back_and_a_title_change_keeps_it() {
    let mut desk = Desk::open().await;
    desk.play([
        (
            "setup_plan",
            json!({ "objective": "o", "initial_steps": ["a", "b"] }),
            Works("Plan initialised with 2 steps."),
        ),
        ("update_step", json!({ "step_id": 1, "status": "done" }), Works("Step 1 updated.")),
        ("update_step", json!({ "step_id": 1, "status": "in_progress" }), Works("Step 1 updated.")),
        ("update_step", json!({ "step_id": 1, "title": " A " }), Works("Step 1 updated.")),
        // A number as text and a blank status are harmless.
        (
            "update_step",
            json!({ "step_id": "2", "title": "B", "status": "" }),
            Works("Step 2 updated."),
        ),
        ("read_plan", json!({}), Works("Retrieved the current plan with 2 steps.")),
    ])
    .await;
    let steps = vec![(1, "A".to_owned(), InProgress), (2, "B".to_owned(), Pending)];
    assert_eq!(desk.outline(), (Active, steps));
}

#[tokio::test]
async fn a_plan_reads_as_lines() {
    let mut desk = Desk::open().await;
    desk.call("setup_plan", json!({ "objective": "Sail" })).await;
    let text = desk.plan().unwrap().render();
    assert_eq!(text, "Objective: Sail\nStatus: active\n\n<no steps>");
    desk.call("add_step", json!({ "steps": ["Hoist", "Steer"] })).await;
    desk.call("update_step", json!({ "step_id": 1, "status": "in_progress" })).await;
    let text = desk.plan().unwrap().render();
    assert_eq!(text, "Objective: Sail\nStatus: active\n\n1 [in_progress] Hoist\n2 [pending] Steer");
    for step_id in [1, 2] {
        desk.call("update_step", json!({ "step_id": step_id, "status": "done" })).await;
    }
    let text = desk.plan().unwrap().render();
    assert_eq!(text, "Objective: Sail\nStatus: completed\n\n1 [done] Hoist\n2 [done] Steer");
}

#[tokio::test]
async fn a_resumed_session_has_its_plan() {
    let mut desk = Desk::open().await;
    desk.call("setup_plan", json!({ "objective": "o", "initial_steps": ["a"] })).await;
    let plan = desk.plan();
    desk.driver =
        Driver::resume(desk.runtime.clone(), desk.crew.clone(), session_id()).await.unwrap();
    assert_eq!(desk.plan(), plan);
    desk.play([("add_step", json!({ "steps": ["b"] }), Works("Added 1 step."))]).await;
    assert_eq!(desk.outline().1.len(), 2);
}
