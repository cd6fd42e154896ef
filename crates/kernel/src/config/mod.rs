//! Decides what a person may write down of an agent, and makes an agent of it.

mod policy;

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

pub use policy::{PolicyRefusal, PolicyText, ReadBeforeWriteText};

use crate::agent::{Agent, AgentDraft, AgentRefusal, Grant, Phase};
use crate::budget::Budget;
use crate::limits::Limits;
use crate::names::{GroupName, PhaseName, ToolName};
use crate::policy::ReadScope;
use crate::section::Section;

/// An agent as it is written down.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AgentText {
    /// Its name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The system prompt before everything else.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub instructions: String,
    /// The packs of built-in tools that are there; the program's own choice when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packs: Option<Vec<PackName>>,
    /// How the planning pack is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planning: Option<PlanningText>,
    /// The phase a session starts in; the first one when left out.
    pub default_phase: Option<PhaseName>,
    /// Groups of tools; they replace a tool's own group of the same name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_groups: BTreeMap<GroupName, Vec<ToolName>>,
    /// The phases; one that grants everything when there are none.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub phases: IndexMap<PhaseName, PhaseText>,
    /// When given, no other tool can ever be called.
    pub allow: Option<Vec<ToolName>>,
    /// Tools that can never be called.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<ToolName>,
    /// Policies that govern all tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyText>,
    /// Bounds and deadlines.
    pub limits: Limits,
    /// What a run may spend.
    pub budget: Budget,
}

/// A pack of built-in tools.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum PackName {
    /// A plan with steps.
    Planning,
}

/// How the planning pack is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanningText {
    /// The mindset the model is given.
    pub strategy: Strategy,
}

/// How a model is told to go about a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Think, call, look, and again.
    #[default]
    React,
    /// Outline first, then act, then look back.
    PlanActReflect,
    /// Restate the goal, split it, give each part its way, put the answers together.
    GoalDecomposeRouteSynthesise,
}

/// A phase as it is written down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PhaseText {
    /// What it is for.
    pub description: String,
    /// The phases that may follow.
    pub transitions: Vec<PhaseName>,
    /// The tools it grants; all of them when left out, none when empty.
    #[serde(deserialize_with = "given")]
    pub tools: Option<GrantText>,
    /// Rules the model is told.
    pub rules: Vec<String>,
    /// Guidance the model is told.
    pub guide: String,
}

/// A key that is written with nothing after it was meant to hold something back, not to give all.
fn given<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<GrantText>, D::Error> {
    Ok(Some(Option::<GrantText>::deserialize(reader)?.unwrap_or_default()))
}

/// A grant as it is written down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GrantText {
    /// Groups.
    pub groups: Vec<GroupName>,
    /// Single tools more.
    pub include: Vec<ToolName>,
    /// Single tools less; these always win.
    pub exclude: Vec<ToolName>,
}

/// An agent that cannot be made of what was written.
#[derive(Debug, thiserror::Error)]
pub enum ConfigRefusal {
    /// A policy is not usable.
    #[error(transparent)]
    Policy(#[from] PolicyRefusal),
    /// The parts do not go together.
    #[error(transparent)]
    Agent(#[from] AgentRefusal),
    /// The phase to start in does not exist.
    #[error("default_phase: there is no phase {0}")]
    DefaultPhase(PhaseName),
}

impl AgentText {
    /// Makes an agent of what was written and the sections that were enabled.
    pub fn build(self, sections: Vec<Section>) -> Result<Agent, ConfigRefusal> {
        let mut draft = AgentDraft::new(&self.name, sections);
        draft.remember_reads = self.policies.iter().any(|policy| {
            policy.read_before_write.as_ref().is_some_and(|text| text.scope == ReadScope::Project)
        });
        draft.policies = self
            .policies
            .into_iter()
            .enumerate()
            .map(|(at, text)| text.build(at + 1))
            .collect::<Result<Vec<Arc<_>>, _>>()?;
        if !self.phases.is_empty() {
            draft.phases = self.phases.into_iter().map(|(name, text)| text.phase(name)).collect();
        }
        if let Some(first) = self.default_phase {
            let at = draft.phases.iter().position(|phase| phase.name == first);
            let Some(at) = at else { return Err(ConfigRefusal::DefaultPhase(first)) };
            let phase = draft.phases.remove(at);
            draft.phases.insert(0, phase);
        }
        draft.instructions = self.instructions;
        draft.groups = self.tool_groups;
        draft.allow = self.allow;
        draft.deny = self.deny;
        draft.limits = self.limits;
        draft.budget = self.budget;
        Ok(Agent::build(draft)?)
    }
}

impl PhaseText {
    fn phase(self, name: PhaseName) -> Phase {
        let grant = match self.tools {
            None => Grant::All,
            Some(GrantText { groups, include, exclude }) => {
                Grant::Some { groups, include, exclude }
            }
        };
        Phase {
            name,
            about: self.description,
            grant,
            transitions: self.transitions,
            rules: self.rules,
            guide: self.guide,
        }
    }
}
