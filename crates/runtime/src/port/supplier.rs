//! Decides what a supplier must do: bring the tools from outside that a phase asks for.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::names::{PhaseName, ServerName, ToolName};

use crate::toolbox::Toolbox;

/// Brings tools from outside, such as those of MCP servers.
pub trait Supplier: Send + Sync {
    /// Makes ready what a phase asks for, and waits for what is wanted of it. It is asked before each
    /// step, so it answers at once, and with nothing, as long as there is no news. What is not waited
    /// for is brought nevertheless: it is there at a later time. Giving up the wait loses nothing.
    fn supply<'a>(
        &'a self,
        agent: &'a Agent,
        phase: &'a PhaseName,
        wanted: Wanted<'a>,
    ) -> BoxFuture<'a, Result<Option<Supply>, SupplyFault>>;
}

/// What is waited for of all that a phase asks for. Without what a phase requires nobody goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// Everything.
    All,
    /// What calls of these names need.
    Calls(&'a [String]),
    /// What calls of these names need that have to be sent again: whoever brings it and failed is
    /// tried at every look, and that does not count against them.
    Again(&'a [String]),
    /// Nothing: what is there is enough.
    AtHand,
}

/// What there is from now on.
#[derive(Clone)]
pub struct Supply {
    /// The agent with the tools from outside.
    pub agent: Arc<Agent>,
    /// The handlers of all its tools.
    pub tools: Toolbox,
    /// What is not as it should be, in sentences for people.
    pub notes: Vec<String>,
    /// How isolated the program of each server is.
    pub isolation: BTreeMap<ServerName, String>,
}

impl Supply {
    /// The tools from outside, by name.
    pub(crate) fn outside(&self) -> Vec<ToolName> {
        let entries = self.agent.toolset.entries().iter();
        let outside = entries.filter(|entry| entry.spec.name.of_server().is_some());
        outside.map(|entry| entry.spec.name.clone()).collect()
    }
}

/// Something is missing without which the phase must not begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("phase {phase} cannot begin: {reason}")]
pub struct SupplyFault {
    /// The phase.
    pub phase: PhaseName,
    /// What is missing, in words for people.
    pub reason: String,
    /// The same for whoever calls: no word of anybody outside is in it.
    pub told: String,
}

impl SupplyFault {
    /// Something is missing of which nobody outside has said anything.
    pub fn new(phase: &PhaseName, reason: String) -> Self {
        Self { phase: phase.clone(), told: reason.clone(), reason }
    }

    /// What whoever calls is told.
    pub(crate) fn told(&self) -> String {
        format!("Phase {} cannot begin ({})", self.phase, self.told)
    }
}
