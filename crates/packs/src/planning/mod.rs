//! Decides how an agent keeps a plan: one objective and numbered steps, for one session.
//!
//! `plan` has the rules, `tools` what the model calls, `strategy` what it is told.

mod plan;
mod strategy;
mod tools;

use toolgate_kernel::key::{Key, KeyRefusal};
use toolgate_kernel::names::{Family, NameRefusal, SectionName};
use toolgate_kernel::section::{FamilySpec, Home, Section};
use toolgate_kernel::tool::SpecRefusal;
use toolgate_runtime::Pack;

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

/// The planning tools, with the mindset the strategy asks for.
pub fn planning(strategy: Strategy) -> Result<Pack, SpecRefusal> {
    let named = |source: NameRefusal| SpecRefusal::Name { tool: NAME.to_owned(), source };
    let mut section = Section::new(SectionName::parse(NAME).map_err(named)?);
    section.text = strategy::text(strategy);
    section.families = vec![FamilySpec::new(Family::parse(FAMILY).map_err(named)?, Home::Session)];
    Ok(Pack::new(section, tools::all()?))
}

fn plan_key() -> Result<Key, KeyRefusal> {
    Key::parse(FAMILY)
}
