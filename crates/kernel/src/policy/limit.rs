//! Decides whether tools were used too often: in a turn, an iteration, a session, a window.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Names, Policy, Verdict};
use crate::fold::{Counted, RATE_CALLS_MAX, Tally, World};
use crate::gate::Call;
use crate::key::Touched;
use crate::names::{PolicyName, ToolName};
use crate::tool::ToolSpec;

/// The stretch a count is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    /// One model reply and its calls.
    Turn,
    /// A stretch with fresh context.
    Iteration,
    /// The whole session.
    Session,
}

/// A limit that cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitPolicyRefusal {
    /// Zero calls or a window of nothing.
    #[error("policy {0}: the limit must be at least 1; to forbid a tool, take it out of the phase")]
    Zero(PolicyName),
    /// More calls than are remembered.
    #[error(
        "policy {policy}: a rate of {max} is too wide, at most {RATE_CALLS_MAX} calls are remembered"
    )]
    TooWide {
        /// The policy.
        policy: PolicyName,
        /// What was asked for.
        max: u64,
    },
}

/// At most so many calls of some tools, taken together, per stretch.
pub struct CountLimit {
    name: PolicyName,
    tools: BTreeSet<ToolName>,
    per: Per,
    max: u64,
}

impl CountLimit {
    /// At most `max` calls of `tools` per stretch.
    pub fn new(
        name: PolicyName,
        tools: BTreeSet<ToolName>,
        per: Per,
        max: u64,
    ) -> Result<Self, LimitPolicyRefusal> {
        if max == 0 {
            return Err(LimitPolicyRefusal::Zero(name));
        }
        Ok(Self { name, tools, per, max })
    }
}

/// At most so many calls of some tools, taken together, within a sliding window.
pub struct RateLimit {
    name: PolicyName,
    tools: BTreeSet<ToolName>,
    window_ms: u64,
    max: u64,
}

impl RateLimit {
    /// At most `max` calls of `tools` within `window_ms`.
    pub fn new(
        name: PolicyName,
        tools: BTreeSet<ToolName>,
        window_ms: u64,
        max: u64,
    ) -> Result<Self, LimitPolicyRefusal> {
        if max == 0 || window_ms == 0 {
            return Err(LimitPolicyRefusal::Zero(name));
        }
        if max > u64::try_from(RATE_CALLS_MAX).unwrap_or(0) {
            return Err(LimitPolicyRefusal::TooWide { policy: name, max });
        }
        Ok(Self { name, tools, window_ms, max })
    }
}

/// Calls counted so far, without the one being judged.
fn used(tools: &BTreeSet<ToolName>, world: &World<'_>, count: impl Fn(&Tally) -> u64) -> u64 {
    let all: u64 = tools.iter().filter_map(|tool| world.session.tally(tool)).map(count).sum();
    all.saturating_sub(u64::from(world.counted == Counted::Already))
}

fn list(tools: &BTreeSet<ToolName>) -> String {
    let names: Vec<&str> = tools.iter().map(ToolName::as_str).collect();
    names.join(", ")
}

impl Policy for CountLimit {
    fn name(&self) -> &PolicyName {
        &self.name
    }

    fn governs(&self, tool: &ToolSpec) -> bool {
        self.tools.contains(&tool.name)
    }

    fn judge(&self, _: &Call, _: &[Touched], world: &World<'_>) -> Verdict {
        let (turn, iteration) = (world.session.turn, world.session.iteration);
        let count = |tally: &Tally| match self.per {
            Per::Turn => tally.in_turn(turn),
            Per::Iteration => tally.in_iteration(iteration),
            Per::Session => tally.admitted,
        };
        if used(&self.tools, world, count) < self.max {
            return Verdict::Allow;
        }
        let stretch = match self.per {
            Per::Turn => "turn",
            Per::Iteration => "iteration",
            Per::Session => "session",
        };
        let (max, tools) = (self.max, list(&self.tools));
        Verdict::Deny(format!("Calls of {tools} per {stretch}: at most {max}; all are used."))
    }

    fn names(&self) -> Names<'_> {
        Names { tools: self.tools.iter().collect(), ..Names::default() }
    }

    fn describe(&self) -> Value {
        json!({ "limit": { "tools": self.tools, "per": self.per, "max": self.max } })
    }
}

impl Policy for RateLimit {
    fn name(&self) -> &PolicyName {
        &self.name
    }

    fn governs(&self, tool: &ToolSpec) -> bool {
        self.tools.contains(&tool.name)
    }

    fn judge(&self, _: &Call, _: &[Touched], world: &World<'_>) -> Verdict {
        let count = |tally: &Tally| tally.within(self.window_ms, world.now);
        if used(&self.tools, world, count) < self.max {
            return Verdict::Allow;
        }
        let (max, tools, ms) = (self.max, list(&self.tools), self.window_ms);
        Verdict::Deny(format!("Calls of {tools} within {ms} ms: at most {max}; wait a little."))
    }

    fn names(&self) -> Names<'_> {
        Names { tools: self.tools.iter().collect(), ..Names::default() }
    }

    fn describe(&self) -> Value {
        json!({ "rate": { "tools": self.tools, "window_ms": self.window_ms, "max": self.max } })
    }
}
