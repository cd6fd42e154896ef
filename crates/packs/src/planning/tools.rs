//! Decides what the four planning tools take and answer.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_kernel::envelope::{Code, Trouble};
use toolgate_kernel::key::{Access, Key};
use toolgate_kernel::tool::{Effect, SpecDraft, SpecRefusal};
use toolgate_runtime::port::{Fault, Output, Tool};
use toolgate_runtime::{Nothing, Transaction, tool};

use super::plan::{Plan, PlanRefusal, StepStatus};
use super::{FAMILY, NAME, WHOLE};
use crate::domain::key;

/// Room for the longest message beside the plan, in bytes.
const MESSAGE_BYTES_MAX: u64 = 100;

/// The tools, in the order they are shown. Their examples tell one story, in the same order.
pub(super) fn all() -> Result<Vec<Arc<dyn Tool>>, SpecRefusal> {
    Ok(vec![
        tool(setup_plan_spec(), setup_plan)?,
        tool(add_step_spec(), add_step)?,
        tool(update_step_spec(), update_step)?,
        tool(read_plan_spec(), read_plan)?,
    ])
}

#[derive(Deserialize, JsonSchema)]
struct SetupPlan {
    /// What the plan is for, in at most 500 characters.
    objective: String,
    /// Titles of the first steps, each at most 500 characters.
    #[serde(default)]
    initial_steps: Vec<String>,
}

fn setup_plan_spec() -> SpecDraft {
    let about = "Begins a plan with an objective and its first steps. Replaces the plan there is.";
    draft("planning_setup_plan", about, Effect::Staged, &[Access::Write])
        .example(
            "An objective whose steps are not known yet.",
            json!({ "objective": "Report on the harbour" }),
            shown(&[]),
        )
        .example(
            "An objective with two steps.",
            json!({
                "objective": "Report on the harbour",
                "initial_steps": ["Collect sources", "Write the report"],
            }),
            shown(&[("Collect sources", "pending"), ("Write the report", "pending")]),
        )
}

fn setup_plan(tx: &mut Transaction, params: SetupPlan) -> Result<Output, Fault> {
    let plan = Plan::new(&params.objective, &params.initial_steps)?;
    keep(tx, &plan, 0)?;
    Output::data(format!("Plan initialised with {}.", steps(plan.steps.len())), &plan)
}

#[derive(Deserialize, JsonSchema)]
struct AddStep {
    /// Titles of the new steps, at least one, each at most 500 characters.
    steps: Vec<String>,
}

fn add_step_spec() -> SpecDraft {
    let about = "Puts one or more steps at the end of the active plan.";
    draft("planning_add_step", about, Effect::Staged, &[Access::Read, Access::Write]).example(
        "One more step.",
        json!({ "steps": ["Check the quotes"] }),
        shown(&[
            ("Collect sources", "pending"),
            ("Write the report", "pending"),
            ("Check the quotes", "pending"),
        ]),
    )
}

fn add_step(tx: &mut Transaction, params: AddStep) -> Result<Output, Fault> {
    let Kept { mut plan, taken, .. } = current(tx)?;
    plan.add(&params.steps, taken)?;
    keep(tx, &plan, taken)?;
    Output::data(format!("Added {}.", steps(params.steps.len())), &plan)
}

#[derive(Deserialize, JsonSchema)]
struct UpdateStep {
    /// The number of the step.
    step_id: u64,
    /// Its new title, at most 500 characters; leave it out to keep the title.
    title: Option<String>,
    /// Its new status; leave it out to keep the status.
    status: Option<StepStatus>,
}

fn update_step_spec() -> SpecDraft {
    let about = "Changes the title or the status of one step of the active plan. \
                 The plan is completed once every step is done.";
    draft("planning_update_step", about, Effect::Staged, &[Access::Read, Access::Write])
        .example(
            "The first step is finished.",
            json!({ "step_id": 1, "status": "done" }),
            shown(&[
                ("Collect sources", "done"),
                ("Write the report", "pending"),
                ("Check the quotes", "pending"),
            ]),
        )
        .example(
            "The second step is begun and has a better title.",
            json!({ "step_id": 2, "title": "Write two pages", "status": "in_progress" }),
            story_end(),
        )
}

fn update_step(tx: &mut Transaction, params: UpdateStep) -> Result<Output, Fault> {
    let Kept { mut plan, taken, .. } = current(tx)?;
    plan.update(params.step_id, params.title.as_deref(), params.status)?;
    keep(tx, &plan, taken)?;
    Output::data(format!("Step {} updated.", params.step_id), &plan)
}

fn read_plan_spec() -> SpecDraft {
    let about = "Shows the plan of this session with the status of every step.";
    draft("planning_read_plan", about, Effect::Read, &[Access::Read]).example(
        "A plan that is under way.",
        json!({}),
        story_end(),
    )
}

fn read_plan(tx: &mut Transaction, _: Nothing) -> Result<Output, Fault> {
    let plan = current(tx)?.plan;
    let message = match plan.steps.len() {
        0 => "Retrieved the current plan (no steps recorded).".to_owned(),
        count => format!("Retrieved the current plan with {}.", steps(count)),
    };
    Output::data(message, &plan)
}

/// What the four have in common: locked, in one group, touching the plan and nothing else.
fn draft(name: &str, about: &str, effect: Effect, access: &'static [Access]) -> SpecDraft {
    SpecDraft::new(name, about).effect(effect).group(NAME).locked().returns::<Plan>().touches(
        move |_| {
            let keys = access.iter().flat_map(|access| [(*access, FAMILY), (*access, WHOLE)]);
            keys.map(|(access, key)| Ok((access, Key::parse(key)?))).collect()
        },
    )
}

/// What is kept of all plans of the session together.
#[derive(Default, Serialize, Deserialize)]
struct Whole {
    /// The highest number of a step that was ever given out.
    last: u64,
    /// Counts the changes, an undo among them.
    changes: u64,
}

fn whole(tx: &Transaction) -> Result<Whole, Fault> {
    Ok(tx.load(&key(WHOLE)?)?.unwrap_or_default())
}

/// The plan as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    plan: Plan,
    /// How many changes there were when it was kept.
    #[serde(default)]
    changes: u64,
    /// The highest number that was given out to a step that was undone since.
    #[serde(default)]
    taken: u64,
}

/// The plan there is.
fn current(tx: &Transaction) -> Result<Kept, Fault> {
    let kept: Option<Kept> = tx.load(&key(FAMILY)?)?;
    let (mut kept, whole) = (kept.ok_or(PlanRefusal::NoPlan)?, whole(tx)?);
    // An undo counts as a change and brings back a plan of before it.
    if kept.changes != whole.changes {
        kept.taken = whole.last;
    }
    Ok(kept)
}

/// Stages the plan. One that could not be shown again would be lost, so it is not kept.
fn keep(tx: &mut Transaction, plan: &Plan, taken: u64) -> Result<(), Fault> {
    let max = tx.agent().limits.result_bytes_max.saturating_sub(MESSAGE_BYTES_MAX);
    let text = serde_json::to_string(plan).map_err(|error| Fault::failed(error.to_string()))?;
    let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
    if bytes > max {
        return Err(PlanRefusal::TooLarge { bytes, max }.into());
    }
    let mut whole = whole(tx)?;
    whole.last = plan.steps.last().map_or(0, |step| step.step_id).max(whole.last);
    whole.changes += 1;
    tx.put(&key(WHOLE)?, &whole)?;
    tx.put(&key(FAMILY)?, &Kept { plan: plan.clone(), changes: whole.changes, taken })
}

impl From<PlanRefusal> for Fault {
    fn from(refusal: PlanRefusal) -> Self {
        let message = format!("Tool validation failed: {refusal}");
        let trouble = Trouble::new(Code::ARGUMENTS_INVALID, message);
        Self::of(match refusal {
            PlanRefusal::Blank { path, .. } | PlanRefusal::TooLong { path, .. } => trouble.at(path),
            PlanRefusal::NoSuchStep { known, .. } => {
                trouble.at("step_id").allowing(known.iter().map(u64::to_string).collect())
            }
            PlanRefusal::NoPlan
            | PlanRefusal::NotActive(_)
            | PlanRefusal::NothingToAdd
            | PlanRefusal::NothingToUpdate
            | PlanRefusal::TooManySteps { .. }
            | PlanRefusal::TooLarge { .. } => trouble,
        })
    }
}

fn steps(count: usize) -> String {
    if count == 1 { "1 step".to_owned() } else { format!("{count} steps") }
}

/// The plan of the examples at one point of their story.
fn shown(steps: &[(&str, &str)]) -> Value {
    let steps: Vec<Value> = (1..)
        .zip(steps)
        .map(|(id, (title, status))| json!({ "step_id": id, "title": title, "status": status }))
        .collect();
    json!({ "objective": "Report on the harbour", "status": "active", "steps": steps })
}

fn story_end() -> Value {
    shown(&[
        ("Collect sources", "done"),
        ("Write two pages", "in_progress"),
        ("Check the quotes", "pending"),
    ])
}
