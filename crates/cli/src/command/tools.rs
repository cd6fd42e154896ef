//! `toolgate tools`: which tools there are, what they do, and which phases grant them.

use anyhow::Result;
use clap::Args;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::tool::Effect;

use super::phase;
use crate::chart;
use crate::console;
use crate::exit::Exit;
use crate::project::Place;

#[derive(Args)]
#[command(after_help = "Examples:\n  toolgate tools\n  toolgate tools --phase REVISION --json")]
pub(crate) struct Options {
    /// Only the tools that this phase grants.
    #[arg(long, value_name = "PHASE")]
    phase: Option<String>,
    /// Print one tool per line as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    let crew = place.crew()?;
    let agent = &crew.agent;
    let phase = phase(agent, options.phase.as_deref())?;
    let shown = |at: usize| phase.as_ref().is_none_or(|phase| agent.grants(phase, at));
    if options.json {
        let tools = chart::tools(agent).into_iter().enumerate().filter(|(at, _)| shown(*at));
        tools.for_each(|(_, tool)| console::json(&tool));
        return Ok(Exit::Done);
    }
    chart::legend(agent).iter().for_each(|line| console::say(&console::fit(line)));
    for group in agent.toolset.groups() {
        let entries = agent.toolset.entries().iter().enumerate();
        let mut own = entries.filter(|(at, e)| e.spec.group == *group && shown(*at)).peekable();
        if own.peek().is_some() {
            console::say(&format!("\n{group}"));
        }
        for (at, entry) in own {
            let effect = effect(entry.spec.effect);
            let name = entry.spec.name.as_str();
            console::say(&console::fit(&format!(
                "  {name:<28} {effect:<10} {}",
                numbers(agent, at)
            )));
            console::hanging(&format!("      {}", entry.spec.about), 6);
        }
    }
    Ok(Exit::Done)
}

/// The numbers of the phases that grant a tool.
fn numbers(agent: &Agent, tool: usize) -> String {
    let granted: Vec<String> = agent
        .phases()
        .enumerate()
        .filter(|(_, phase)| agent.grants(&phase.name, tool))
        .map(|(at, _)| (at + 1).to_string())
        .collect();
    if granted.is_empty() { "in no phase".to_owned() } else { granted.join(" ") }
}

fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Read => "read",
        Effect::Staged => "staged",
        Effect::Idempotent => "idempotent",
        Effect::External => "external",
    }
}
