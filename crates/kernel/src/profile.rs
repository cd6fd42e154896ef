//! Decides who an agent of a conversation is: what was declared of it, and what it changed since.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::evidence::{Archetype, EvidenceMode};
use crate::fold::{Project, World};
use crate::key::Key;
use crate::letters::is_hidden;
use crate::names::AgentId;
use crate::tool::ToolSpec;

/// The key that changes whenever a profile does (ADR 0009).
pub const AGENTS: &str = "agents";

/// The profiles: `agent:<id>`, each with what was changed since it was declared.
pub const AGENT_FAMILY: &str = "agent";

/// Longest name, in characters.
pub const NAME_CHARS_MAX: usize = 100;

/// Longest prompt, in characters.
pub const PROMPT_CHARS_MAX: usize = 20_000;

/// One thing that is known of an agent and may be changed by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    /// What it is called.
    Name,
    /// What it is told of itself.
    SystemPrompt,
    /// What it is told when it looks back.
    ReflectionPrompt,
    /// What it is told when it looks back at its memories.
    MemoryReflectionPrompt,
    /// The model that speaks for it.
    Model,
}

impl Field {
    /// All there are, in the order in which errors list them.
    pub const ALL: &'static [Self] = &[
        Self::Name,
        Self::SystemPrompt,
        Self::ReflectionPrompt,
        Self::MemoryReflectionPrompt,
        Self::Model,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::SystemPrompt => "system_prompt",
            Self::ReflectionPrompt => "reflection_prompt",
            Self::MemoryReflectionPrompt => "memory_reflection_prompt",
            Self::Model => "model",
        }
    }

    /// Whether it is a text for a model.
    pub fn is_prompt(self) -> bool {
        match self {
            Self::SystemPrompt | Self::ReflectionPrompt | Self::MemoryReflectionPrompt => true,
            Self::Name | Self::Model => false,
        }
    }

    /// The word that stands for it in a prompt; a model has none.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Name => Some("agent_name"),
            Self::SystemPrompt => Some("agent_prompt"),
            Self::ReflectionPrompt => Some("agent_reflection_prompt"),
            Self::MemoryReflectionPrompt => Some("agent_memory_reflection_prompt"),
            Self::Model => None,
        }
    }

    /// A value as it is kept: without space around it, in bounds, and with nothing hidden in it.
    pub fn fit(self, value: &str) -> Result<String, ValueRefusal> {
        let value = value.trim();
        if value.is_empty() {
            return Err(ValueRefusal::Blank(self));
        }
        let (chars, max) = (value.chars().count(), self.chars_max());
        if chars > max {
            return Err(ValueRefusal::TooLong { field: self, chars, max });
        }
        let ordinary = |c: char| self.is_prompt() && matches!(c, '\n' | '\r' | '\t');
        // A prompt may be written in scripts and pictures that need joiners; a name is one line.
        let hidden = |c: char| !self.is_prompt() && is_hidden(c);
        match value.chars().find(|c| (c.is_control() && !ordinary(*c)) || hidden(*c)) {
            Some(c) => Err(ValueRefusal::Unseen { field: self, c }),
            None => Ok(value.to_owned()),
        }
    }

    fn chars_max(self) -> usize {
        if self.is_prompt() { PROMPT_CHARS_MAX } else { NAME_CHARS_MAX }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A value that a field cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueRefusal {
    /// It says nothing.
    #[error("{0} is blank")]
    Blank(Field),
    /// It is too long.
    #[error("{field} has {chars} characters; use at most {max}")]
    TooLong {
        /// The field.
        field: Field,
        /// Its length.
        chars: usize,
        /// The longest there may be.
        max: usize,
    },
    /// It has a character that nobody sees.
    #[error("{field} has the character U+{:04X}, which nobody sees; leave it out", u32::from(*.c))]
    Unseen {
        /// The field.
        field: Field,
        /// The character.
        c: char,
    },
}

/// Who an agent is. What is not set is null.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// What it is called.
    pub name: Option<String>,
    /// What it is told of itself.
    pub system_prompt: Option<String>,
    /// What it is told when it looks back.
    pub reflection_prompt: Option<String>,
    /// What it is told when it looks back at its memories.
    pub memory_reflection_prompt: Option<String>,
    /// The model that speaks for it.
    pub model: Option<String>,
}

impl Profile {
    /// What a field says.
    pub fn get(&self, field: Field) -> Option<&str> {
        match field {
            Field::Name => self.name.as_deref(),
            Field::SystemPrompt => self.system_prompt.as_deref(),
            Field::ReflectionPrompt => self.reflection_prompt.as_deref(),
            Field::MemoryReflectionPrompt => self.memory_reflection_prompt.as_deref(),
            Field::Model => self.model.as_deref(),
        }
    }

    /// Lets a field say something else.
    pub fn set(&mut self, field: Field, value: String) {
        let place = match field {
            Field::Name => &mut self.name,
            Field::SystemPrompt => &mut self.system_prompt,
            Field::ReflectionPrompt => &mut self.reflection_prompt,
            Field::MemoryReflectionPrompt => &mut self.memory_reflection_prompt,
            Field::Model => &mut self.model,
        };
        *place = Some(value);
    }

    /// What it says, and where it says nothing what another one does.
    pub fn over(&self, below: &Self) -> Self {
        let mut whole = below.clone();
        for field in Field::ALL {
            if let Some(value) = self.get(*field) {
                whole.set(*field, value.to_owned());
            }
        }
        whole
    }
}

/// An agent as it was declared.
#[derive(Debug, Clone)]
pub struct Declared {
    /// Who it is at first.
    pub first: Profile,
    /// What it is for.
    pub archetype: Archetype,
    /// Whether its answers need evidence.
    pub evidence: EvidenceMode,
    /// The tools it may use of those that phases grant, as places in the toolset; all when absent.
    pub(crate) enabled: Option<BTreeSet<usize>>,
    /// The same, of every tool that any phase grants.
    pub(crate) every: Arc<[Arc<ToolSpec>]>,
}

/// The key of what an agent changed of itself.
pub fn key(id: &AgentId) -> Option<Key> {
    // An id has none of the characters that a key cannot have.
    Key::parse(&format!("{AGENT_FAMILY}:{id}")).ok()
}

/// Names are the same when only case and space differ.
pub fn same_name(one: &str, other: &str) -> bool {
    let plain = |name: &str| name.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    plain(one) == plain(other)
}

impl Agent {
    /// Who an agent is now: what it changed of itself, over what was declared. An agent without a
    /// name is called by its id. `None` when no such agent is declared.
    pub fn profile(&self, project: &Project, id: &AgentId) -> Option<Profile> {
        let first = &self.agents.get(id)?.first;
        let kept = key(id).and_then(|key| project.state.get(&key)?.as_one().cloned());
        let kept: Option<Profile> = kept.and_then(|kept| serde_json::from_value(kept).ok());
        let mut profile = kept.unwrap_or_default().over(first);
        profile.name.get_or_insert_with(|| id.to_string());
        Some(profile)
    }

    /// The agent that somebody means: by its id, or by the name it has now.
    pub fn meant(&self, project: &Project, text: &str) -> Result<AgentId, MeantRefusal> {
        let text = text.trim();
        if let Some((id, _)) = self.agents.iter().find(|(id, _)| id.as_str() == text) {
            return Ok(id.clone());
        }
        let named = |id: &&AgentId| {
            let profile = self.profile(project, id);
            profile.and_then(|profile| profile.name).is_some_and(|name| same_name(&name, text))
        };
        let mut found = self.agents.keys().filter(named);
        match (found.next(), found.next()) {
            (Some(id), None) => Ok(id.clone()),
            (Some(_), Some(_)) => Err(MeantRefusal::Several(text.to_owned())),
            (None, _) => {
                let known: Vec<&str> = self.agents.keys().map(AgentId::as_str).collect();
                let known = match known.is_empty() {
                    true => "none is declared: add one under `agents` in toolgate.yaml".to_owned(),
                    false => format!("there is {}", known.join(", ")),
                };
                Err(MeantRefusal::Unknown { name: text.chars().take(80).collect(), known })
            }
        }
    }
}

/// An agent that cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeantRefusal {
    /// Nobody is called so.
    #[error("there is no agent {name:?}; {known}")]
    Unknown {
        /// What was written.
        name: String,
        /// Who there is.
        known: String,
    },
    /// More than one is called so.
    #[error("several agents are called {0:?}; say which one by its key under `agents`")]
    Several(String),
}

/// What a word of a prompt says of the session's agent; nothing where it has none.
pub(crate) fn meaning(agent: &Agent, world: &World<'_>, word: &str) -> Option<String> {
    let field = Field::ALL.iter().find(|field| field.word() == Some(word))?;
    let id = world.session.agent.as_ref();
    let profile = id.and_then(|id| agent.profile(world.project, id)).unwrap_or_default();
    Some(profile.get(*field).unwrap_or_default().to_owned())
}

/// What a model is told of its agent when that changed inside an iteration; nothing where the
/// prompt does not speak of it.
pub(crate) fn note(agent: &Agent, world: &World<'_>) -> Option<String> {
    let profile = agent.profile(world.project, world.session.agent.as_ref()?)?;
    let told = Field::ALL.iter().filter(|field| {
        let word = field.word();
        word.is_some_and(|word| agent.prompt.uses(word))
    });
    let lines: Vec<String> = told
        .map(|field| format!("Your {field} is now: {}", profile.get(*field).unwrap_or("not set")))
        .collect();
    (!lines.is_empty()).then(|| format!("You were changed.\n{}", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_or_reads_to_its_end_is_no_value() {
        let long = "x".repeat(PROMPT_CHARS_MAX + 1);
        for (field, value, told) in [
            (Field::Name, " \n", "name is blank"),
            (
                Field::Name,
                "Sa\u{1b}ge",
                "name has the character U+001B, which nobody sees; leave it out",
            ),
            (
                Field::Name,
                "Sa\nge",
                "name has the character U+000A, which nobody sees; leave it out",
            ),
            (
                Field::Name,
                "Sa\u{200b}ge",
                "name has the character U+200B, which nobody sees; leave it out",
            ),
            (Field::Name, &long[..101], "name has 101 characters; use at most 100"),
            (
                Field::SystemPrompt,
                "a\u{0}b",
                "system_prompt has the character U+0000, which nobody sees; leave it out",
            ),
            (Field::SystemPrompt, &long, "system_prompt has 20001 characters; use at most 20000"),
        ] {
            assert_eq!(field.fit(value).unwrap_err().to_string(), told);
        }
        assert_eq!(Field::Name.fit("  Sage ").unwrap(), "Sage");
        assert_eq!(Field::SystemPrompt.fit("a\n\tb 👩‍🔬").unwrap(), "a\n\tb 👩‍🔬");
    }

    #[test]
    fn what_was_changed_lies_over_what_was_declared() {
        let first = Profile {
            name: Some("Ada".to_owned()),
            system_prompt: Some("Be kind.".to_owned()),
            ..Profile::default()
        };
        let mut changed = Profile::default();
        changed.set(Field::SystemPrompt, "Be brief.".to_owned());
        let whole = changed.over(&first);
        assert_eq!(whole.get(Field::Name), Some("Ada"));
        assert_eq!(whole.get(Field::SystemPrompt), Some("Be brief."));
        assert_eq!(whole.get(Field::Model), None);
        assert!(same_name(" ÄDA ", "äda") && same_name("Ann\u{a0} Lee", "ann lee"));
        assert!(!same_name("Ada", "Adam"));
    }
}
