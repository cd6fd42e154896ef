//! `toolgate tools`: which tools there are, what they do, and which phases grant them.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::names::PhaseName;
use toolgate_kernel::phase::Phase;
use toolgate_kernel::tool::Effect;
use toolgate_runtime::port::Wanted;

use super::phase;
use crate::chart;
use crate::console;
use crate::environment::Flags;
use crate::exit::Exit;
use crate::known::Known;
use crate::project::{Place, block_on};
use crate::servers::Servers;
use crate::trust::TrustedCrew;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  toolgate tools\n  toolgate tools --phase REVISION --json\n  toolgate tools --connect"
)]
pub(crate) struct Options {
    /// Only the tools that this phase grants.
    #[arg(long, value_name = "PHASE")]
    phase: Option<String>,
    /// Ask the MCP servers of these phases first; else only what was seen before is told of them.
    #[arg(long)]
    connect: bool,
    /// Print one tool per line as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    let (crew, text) = place.crew_with(&Flags::default())?;
    let phase = phase(&crew.agent, options.phase.as_deref())?;
    if options.connect {
        let asked = connect(place, phase.as_ref())?;
        if asked != Exit::Done {
            return Ok(asked);
        }
    }
    let known = Known::of(&place.folder, &crew.agent, &text, &place.pins()?)?;
    let agent = &known.agent;
    let shown = |at: usize| phase.as_ref().is_none_or(|phase| agent.grants(phase, at, None));
    let unasked = known.unasked().filter(|(server, _)| {
        phase.as_ref().is_none_or(|phase| agent.servers(phase).any(|other| other == *server))
    });
    if options.json {
        let tools = known.tools().into_iter().enumerate().filter(|(at, _)| shown(*at));
        tools.for_each(|(_, tool)| console::json(&tool));
        unasked.for_each(|(_, told)| console::hint(&told));
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
            let spec = &entry.spec;
            let (name, effect) = (spec.name.as_str(), effect(spec.effect));
            console::say(&console::fit(&format!(
                "  {name:<28} {effect:<10} {}",
                numbers(agent, at)
            )));
            if let Some(told) = known.told(&spec.name) {
                console::hanging(&format!("      {} · {}", spec.wire, console::visible(&told)), 8);
            }
            if known.is_ready(&spec.name) {
                console::hanging(&format!("      {}", console::visible(&spec.about)), 6);
            }
        }
    }
    for (at, (_, told)) in unasked.enumerate() {
        if at == 0 {
            console::say("");
        }
        console::hanging(&told, 2);
    }
    Ok(Exit::Done)
}

/// Asks the servers of a phase, or of all, for their tools. What is new is written down.
fn connect(place: &Place, phase: Option<&PhaseName>) -> Result<Exit> {
    let trusted = block_on(place.trusted_crew(&Flags::default()))?;
    let TrustedCrew { mut crew, text, access } = trusted;
    let opened = place.open_trusted(&access, &crew.agent.limits)?;
    let servers = Servers::join(&mut crew, place, &access, &text, &opened)?;
    let Some(supplier) = crew.supplier.clone() else { return Ok(Exit::Done) };
    let agent = Arc::clone(&crew.agent);
    block_on(servers.around_until_told(async {
        let mut told = BTreeSet::new();
        let wanted = |other: &&Phase| phase.is_none_or(|phase| other.name == *phase);
        for phase in agent.phases().filter(wanted) {
            match supplier.supply(&agent, &phase.name, Wanted::All).await {
                Ok(supply) => told.extend(supply.into_iter().flat_map(|supply| supply.notes)),
                Err(fault) => drop(told.insert(fault.to_string())),
            }
        }
        told.iter().for_each(|note| console::hint(&console::visible(note)));
        Ok(Exit::Done)
    }))
}

/// The numbers of the phases that grant a tool.
fn numbers(agent: &Agent, tool: usize) -> String {
    let granted: Vec<String> = agent
        .phases()
        .enumerate()
        .filter(|(_, phase)| agent.grants(&phase.name, tool, None))
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
