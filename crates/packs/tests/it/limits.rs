//! Limits of a plan at one below, at, and one above.

use serde_json::json;
use toolgate_kernel::limits::Limits;
use toolgate_packs::planning::{STEPS_MAX, TEXT_CHARS_MAX};

use crate::support::Come::{Fails, Works};
use crate::support::Desk;

/// Characters count, not bytes, and spaces around a text do not.
fn texts(chars: usize) -> [String; 3] {
    ["x".repeat(chars), "é".repeat(chars), format!("  {}\n", "水".repeat(chars))]
}

fn titles(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("step {number}")).collect()
}

#[tokio::test]
async fn a_text_has_at_most_500_characters_after_trimming() {
    let mut desk = Desk::open().await;
    for chars in [TEXT_CHARS_MAX - 1, TEXT_CHARS_MAX, TEXT_CHARS_MAX + 1] {
        let fits = chars <= TEXT_CHARS_MAX;
        let come =
            |message| if fits { Works(message) } else { Fails("Title must be <= 500 characters.") };
        for text in texts(chars) {
            let setup = json!({ "objective": "o", "initial_steps": ["a"] });
            desk.play([
                (
                    "setup_plan",
                    json!({ "objective": text }),
                    if fits {
                        Works("Plan initialised with 0 steps.")
                    } else {
                        Fails("Objective must be <= 500 characters.")
                    },
                ),
                (
                    "setup_plan",
                    json!({ "objective": "o", "initial_steps": [text] }),
                    come("Plan initialised with 1 step."),
                ),
                ("setup_plan", setup, Works("Plan initialised with 1 step.")),
                ("add_step", json!({ "steps": [text] }), come("Added 1 step.")),
                ("update_step", json!({ "step_id": 1, "title": text }), come("Step 1 updated.")),
            ])
            .await;
            let kept = desk.outline().1.into_iter().filter(|(_, title, _)| title == text.trim());
            assert_eq!(kept.count(), if fits { 2 } else { 0 });
        }
    }
}

#[tokio::test]
async fn a_plan_has_at_most_200_steps() {
    let too_many = "A plan holds at most 200 steps; this one would have 201. Use fewer steps.";
    let setup = |count| json!({ "objective": "o", "initial_steps": titles(count) });
    let add = |count| json!({ "steps": titles(count) });
    let mut desk = Desk::open().await;
    desk.play([
        ("setup_plan", setup(STEPS_MAX + 1), Fails(too_many)),
        ("setup_plan", setup(STEPS_MAX), Works("Plan initialised with 200 steps.")),
        ("add_step", add(1), Fails(too_many)),
        ("setup_plan", setup(STEPS_MAX - 1), Works("Plan initialised with 199 steps.")),
        ("add_step", add(2), Fails(too_many)),
        ("add_step", add(1), Works("Added 1 step.")),
        ("add_step", add(1), Fails(too_many)),
        // A full plan is still one that can be worked on.
        ("update_step", json!({ "step_id": 200, "status": "done" }), Works("Step 200 updated.")),
        ("read_plan", json!({}), Works("Retrieved the current plan with 200 steps.")),
    ])
    .await;
}

/// Titles of one step that bring the plan to exactly so many bytes.
fn title_for(plan_bytes: usize) -> String {
    let frame = json!({
        "objective": "o", "status": "active",
        "steps": [{ "step_id": 1, "title": "", "status": "pending" }],
    });
    "x".repeat(plan_bytes - frame.to_string().len())
}

#[tokio::test]
async fn a_plan_that_could_not_be_shown_is_not_kept() {
    let limits = Limits { result_bytes_max: 400, ..Limits::default() };
    let mut desk = Desk::with_limits(limits).await;
    let setup = |bytes| json!({ "objective": "o", "initial_steps": [title_for(bytes)] });
    desk.play([
        (
            "setup_plan",
            setup(301),
            Fails("The plan would have 301 bytes; at most 300 can be shown. Shorten it."),
        ),
        ("setup_plan", setup(299), Works("Plan initialised with 1 step.")),
        ("setup_plan", setup(300), Works("Plan initialised with 1 step.")),
        ("read_plan", json!({}), Works("Retrieved the current plan with 1 step.")),
        (
            "add_step",
            json!({ "steps": ["a"] }),
            Fails("The plan would have 345 bytes; at most 300 can be shown. Shorten it."),
        ),
        (
            "update_step",
            json!({ "step_id": 1, "status": "in_progress" }),
            Fails("The plan would have 304 bytes; at most 300 can be shown. Shorten it."),
        ),
        ("update_step", json!({ "step_id": 1, "status": "done" }), Works("Step 1 updated.")),
    ])
    .await;
}

/// The largest plan of plain text fits the default limits.
#[tokio::test]
async fn the_largest_plan_of_plain_text_is_shown() {
    let mut desk = Desk::open().await;
    let steps = vec!["x".repeat(TEXT_CHARS_MAX); STEPS_MAX];
    let setup = json!({ "objective": "o".repeat(TEXT_CHARS_MAX), "initial_steps": steps });
    desk.play([
        ("setup_plan", setup, Works("Plan initialised with 200 steps.")),
        ("read_plan", json!({}), Works("Retrieved the current plan with 200 steps.")),
    ])
    .await;
}
