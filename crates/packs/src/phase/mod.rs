//! Decides how an agent moves on: `change_phase` enters a phase that the present one leads to.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_kernel::envelope::{Code, Trouble};
use toolgate_kernel::names::{NameRefusal, PhaseName, SectionName};
use toolgate_kernel::section::Section;
use toolgate_kernel::tool::{Effect, SpecDraft, SpecRefusal};
use toolgate_runtime::port::{Fault, Output, Tool};
use toolgate_runtime::{Pack, Transaction, tool};

/// The section and the group of its tool.
const NAME: &str = "phase";

/// Longest reason, in characters.
const REASON_CHARS_MAX: usize = 1_000;

const TEXT: &str = "## Phases\n\n\
    The work is done in phases, and each has its own tools and rules. When the work of this phase \
    is done, `change_phase` enters the next one and says why.";

/// The one tool that enters another phase.
pub fn phase() -> Result<Pack, SpecRefusal> {
    let named = |source: NameRefusal| SpecRefusal::Name { tool: NAME.to_owned(), source };
    let mut section = Section::new(SectionName::parse(NAME).map_err(named)?);
    section.text = TEXT.to_owned();
    let tools: Vec<Arc<dyn Tool>> = vec![tool(change_phase_spec(), change_phase)?];
    Ok(Pack::new(section, tools))
}

#[derive(Deserialize, JsonSchema)]
struct ChangePhase {
    /// The phase to enter.
    new_phase: String,
    /// Why it is time to move on.
    reason: String,
}

fn change_phase_spec() -> SpecDraft {
    let about = "Enters another phase, one that the present phase leads to.";
    SpecDraft::new("change_phase", about)
        .group(NAME)
        .effect(Effect::Staged)
        .argument_alias("new_phase", "phase")
        .argument_alias("new_phase", "to")
        .argument_alias("reason", "why")
        .example(
            "The characters are done.",
            json!({ "new_phase": "WORLD_BUILDING", "reason": "Three characters are complete." }),
            Value::Null,
        )
}

fn change_phase(tx: &mut Transaction, params: ChangePhase) -> Result<Output, Fault> {
    let (given, reason) = (params.new_phase.trim(), params.reason.trim());
    let chars = reason.chars().count();
    if !(1..=REASON_CHARS_MAX).contains(&chars) {
        let message = format!(
            "reason: has {chars} characters; say in 1 to {REASON_CHARS_MAX} characters why."
        );
        return Err(Fault::invalid(message).at("reason"));
    }
    let Ok(to) = PhaseName::parse(given) else { return Err(unknown(tx, given)) };
    tx.enter_phase(&to, reason).map_err(|fault| fault.at("new_phase"))?;
    Ok(Output::message(format!("Now in phase {to}.")))
}

/// A name that no phase can have.
fn unknown(tx: &Transaction, given: &str) -> Fault {
    let mut phases: Vec<String> = tx.agent().phases().map(|phase| phase.name.to_string()).collect();
    phases.sort_unstable();
    let given: String = given.chars().take(80).collect();
    let message = format!("There is no phase {given:?}.");
    Fault::of(Trouble::new(Code::TRANSITION_REFUSED, message).allowing(phases)).at("new_phase")
}
