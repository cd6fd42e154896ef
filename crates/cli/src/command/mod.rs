//! One file per command, and what several of them ask of their flags.

mod accept_restore;
pub(crate) mod approvals;
mod approved_call;
pub(crate) mod call;
pub(crate) mod catalogue;
pub(crate) mod chat;
pub(crate) mod chat_commands;
pub(crate) mod check;
mod clear_taint;
pub(crate) mod completions;
mod delegations;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod facts;
mod fork;
mod history;
pub(crate) mod init;
pub(crate) mod issues;
pub(crate) mod log;
mod login;
pub(crate) mod mcp;
pub(crate) mod migrate;
mod move_log;
pub(crate) mod people;
mod pins;
pub(crate) mod receipts;
mod refusal;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod sessions;
pub(crate) mod token;
pub(crate) mod tools;
pub(crate) mod trust;
pub(crate) mod trust_root;
mod undo;
pub(crate) mod verify;

pub(crate) use login::NobodyAnswered;

use anyhow::{Result, bail};
use toolgate_kernel::agent::Agent;
use toolgate_kernel::names::PhaseName;

/// The phase that a flag names, which must be one of the agent's.
fn phase(agent: &Agent, name: Option<&str>) -> Result<Option<PhaseName>> {
    let Some(name) = name else { return Ok(None) };
    let phase = PhaseName::parse(name)?;
    if agent.phase(&phase).is_none() {
        let known: Vec<&str> = agent.phases().map(|phase| phase.name.as_str()).collect();
        bail!("there is no phase {phase}; the phases are {}", known.join(", "));
    }
    Ok(Some(phase))
}
