//! How the pack `catalogue` is written down: which texts are read for what, and who assesses
//! proposals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::AgentId;

/// Characters of an archetype.
pub const ARCHETYPE_CHARS_MAX: usize = 40;

/// How the pack `catalogue` is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CatalogueConfig {
    /// Which texts of the project are outline, canon and scenes.
    pub sources: CatalogueSourcesConfig,
    /// The language of the texts, by the code of its word lists. Without word lists some fields of
    /// answers are null.
    pub language: String,
    /// How the prompts of the catalogue are shown to the model.
    pub inject: InjectMode,
    /// The agent, by its key under `agents`, whose model assesses proposals. It recommends; a person
    /// decides. Without one the mechanical checks speak alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chief: Option<AgentId>,
}

impl Default for CatalogueConfig {
    fn default() -> Self {
        Self {
            sources: CatalogueSourcesConfig::default(),
            language: "en".to_owned(),
            inject: InjectMode::default(),
            chief: None,
        }
    }
}

/// Which texts of the project have a role: globs over refs such as `Story/Scenes/**` or
/// `section:outline*`. A list replaces the built-in one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CatalogueSourcesConfig {
    /// The outline. The first text that is found is the default outline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outline: Option<Vec<String>>,
    /// What holds true in the story.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canon: Option<Vec<String>>,
    /// Scenes and chapters. Sections of the manuscript are scenes without being named here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scenes: Option<Vec<String>>,
}

/// How the prompts of the catalogue are shown to the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InjectMode {
    /// In full while they take less than a tenth of the context, else as an index.
    #[default]
    Auto,
    /// Every field of every prompt.
    Full,
    /// Names, ids and when to use them. The prompt of a core tool comes with its first result.
    Index,
}
