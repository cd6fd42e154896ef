//! Decides how an agent keeps a plan: one objective and numbered steps, for one session.
//!
//! `plan` has the rules, `tools` what the model calls, `strategy` what it is told.

mod plan;
mod strategy;
mod tools;

use toolgate_kernel::section::Home;
use toolgate_kernel::tool::SpecRefusal;
use toolgate_runtime::Pack;

use crate::domain::{section, whole_and_parts_in};

pub use plan::{Plan, PlanStatus, PlanStep, STEPS_MAX, StepStatus, TEXT_CHARS_MAX};
pub use toolgate_kernel::config::Strategy;

/// The section and the group of its tools.
const NAME: &str = "planning";

/// The family of the one key that holds the plan.
///
/// The plan is one value. A footprint is known from the arguments alone, and those do not tell
/// which number a new step gets, so a key per step could not be declared. Every answer carries
/// the plan anyway, and it is bounded: what cannot be shown is not kept.
const FAMILY: &str = "plan";

/// The whole that the plan is a part of: it counts the changes, and knows the highest number of a
/// step. An undo takes nothing of it back, so no number of a plan is given out twice (ADR 0009).
const WHOLE: &str = "plan_steps";

/// The planning tools, with the mindset the strategy asks for.
pub fn planning(strategy: Strategy) -> Result<Pack, SpecRefusal> {
    let families = |_: &str| whole_and_parts_in(Home::Session, WHOLE, &[FAMILY]);
    let section = section(NAME, &strategy::text(strategy), families)?;
    Ok(Pack::new(section, tools::all()?))
}
