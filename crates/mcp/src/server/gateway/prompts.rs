//! Decides how rules and guidance reach an MCP client: as instructions, and as a prompt.

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_kernel::agent::Agent;
use toolgate_kernel::names::PhaseName;
use toolgate_kernel::phase::Phase;

use super::reading;
use crate::server::clerk::View;
use crate::server::refusal::Refused;
use crate::server::served::{Answer, Caller};

/// Characters of the instructions.
const INSTRUCTIONS_CHARS_MAX: usize = 16_000;

/// The one prompt there is.
const GUIDE: &str = "phase_guide";

const GATE: &str = "Every call here passes toolgate's gate. A call that is refused is an error \
                    that says why and what to send instead; nothing of it ran.";

/// What a model should know before it calls anything: the rules of one phase, or of every one.
pub(super) fn instructions(agent: &Agent, phase: Option<&PhaseName>) -> String {
    let mut text = GATE.to_owned();
    for known in agent.phases().filter(|known| phase.is_none_or(|phase| *phase == known.name)) {
        text.push_str("\n\n");
        text.push_str(&told(known));
    }
    if text.chars().count() > INSTRUCTIONS_CHARS_MAX {
        text = text.chars().take(INSTRUCTIONS_CHARS_MAX).collect();
        text.push_str(&format!("… The prompt {GUIDE} has all of it, phase by phase."));
    }
    text
}

fn told(phase: &Phase) -> String {
    let mut text = format!("Phase {}", phase.name);
    if !phase.about.trim().is_empty() {
        text.push_str(&format!(": {}", phase.about.trim()));
    }
    if !phase.guide.trim().is_empty() {
        text.push_str(&format!("\n{}", phase.guide.trim()));
    }
    if !phase.rules.is_empty() {
        text.push_str("\nRules:");
        phase.rules.iter().for_each(|rule| text.push_str(&format!("\n- {}", rule.trim())));
    }
    text
}

/// The phases a caller may read about.
fn readable<'a>(agent: &'a Agent, caller: &'a Caller) -> impl Iterator<Item = &'a Phase> {
    let own = caller.phase.as_ref();
    agent.phases().filter(move |phase| own.is_none_or(|own| *own == phase.name))
}

pub(super) fn list(agent: &Agent, caller: &Caller) -> Vec<Value> {
    let phases: Vec<&str> =
        readable(agent, caller).map(|phase| phase.name.as_str()).take(100).collect();
    vec![json!({
        "name": GUIDE,
        "title": "Rules and guide of a phase",
        "description": "What a phase is for, its guide and its rules. Without an argument, of the \
                        phase the session is in.",
        "arguments": [{
            "name": "phase",
            "description": format!("One of {}.", phases.join(", ")),
            "required": false,
        }],
    })]
}

pub(super) fn get(view: &View, caller: &Caller, params: &str) -> Result<Answer, Refused> {
    #[derive(Deserialize)]
    struct Params {
        name: String,
        #[serde(default)]
        arguments: Option<Arguments>,
    }
    #[derive(Deserialize, Default)]
    struct Arguments {
        phase: Option<String>,
    }
    let params: Params = serde_json::from_str(params)
        .map_err(|_| Refused::params("prompts/get says a name, and arguments as texts."))?;
    if params.name != GUIDE {
        return Err(Refused::params(format!("There is no such prompt; there is {GUIDE}.")));
    }
    let wanted = params.arguments.unwrap_or_default().phase;
    let now = reading(view, caller).or(caller.phase.as_ref()).map(|phase| phase.as_str());
    let name = wanted.as_deref().or(now);
    let mut phases = readable(&view.agent, caller);
    let Some(phase) = phases.find(|phase| Some(phase.name.as_str()) == name) else {
        return Err(Refused::params("There is no such phase."));
    };
    let text = format!("{GATE}\n\n{}", told(phase));
    let result = json!({
        "description": format!("Phase {}", phase.name),
        "messages": [{ "role": "user", "content": { "type": "text", "text": text } }],
    });
    Ok(Answer::new(result.to_string()))
}
