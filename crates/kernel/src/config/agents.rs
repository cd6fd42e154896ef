//! Decides how agents that take part in conversations are written down.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::EvidenceMode;
use crate::names::ToolName;
use crate::profile::{Field, Profile};

/// An agent as it is at first. What it changes of itself later is kept by the project and wins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProfileText {
    /// What it is called; its key when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The kind of work it is for, such as Planner, Writer, Editor, Critic, Continuity or Chief: what
    /// `task_router` routes by, and which sources its evidence must name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archetype: Option<String>,
    /// What it is told of itself: `{agent_prompt}` in a prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// What it is told when it looks back: `{agent_reflection_prompt}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reflection_prompt: Option<String>,
    /// What it is told when it looks back at its memories: `{agent_memory_reflection_prompt}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_reflection_prompt: Option<String>,
    /// The model that speaks for it, by its name under `models`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether its answers need evidence that can be verified; `off` when left out.
    #[serde(skip_serializing_if = "EvidenceMode::is_off")]
    pub evidence: EvidenceMode,
    /// The tools it may use, of those that phases grant; all of them when left out, none when
    /// empty. Only a person changes this.
    // A key with nothing after it was meant to hold something back, so that is a mistake.
    #[schemars(with = "Vec<ToolName>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled_tools: Option<Vec<ToolName>>,
}

impl ProfileText {
    /// What is written of a field.
    pub(super) fn get(&self, field: Field) -> Option<&str> {
        match field {
            Field::Name => self.name.as_deref(),
            Field::SystemPrompt => self.system_prompt.as_deref(),
            Field::ReflectionPrompt => self.reflection_prompt.as_deref(),
            Field::MemoryReflectionPrompt => self.memory_reflection_prompt.as_deref(),
            Field::Model => self.model.as_deref(),
        }
    }

    /// Who it is at first. What says nothing is not set.
    pub fn first(&self) -> Profile {
        let mut first = Profile::default();
        for field in Field::ALL {
            if let Some(value) = self.get(*field).and_then(|value| field.fit(value).ok()) {
                first.set(*field, value);
            }
        }
        first
    }
}

/// How the pack `self_authoring` is used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SelfAuthoringText {
    /// The model that looks at every new prompt first, by its name under `models`, or as
    /// provider:model. What it does not call safe is not kept. Nobody looks when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reviewer: Option<String>,
}
