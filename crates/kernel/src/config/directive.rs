//! Decides how directives are written down: their types, and how a model is held to their form.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::reserved::reserved;
use crate::directive::{DirectiveRefusal, DirectiveType, Directives, Mode};
use crate::reserved::person_only_act;

/// Directives as they are written down.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DirectivesText {
    /// The types by name; any type passes when there is none.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub types: IndexMap<String, DirectiveText>,
    /// How a model is held to the form, one after the other; `json_schema`, `json_object`,
    /// `prompt_only` when left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<Mode>,
    /// How often a reply that cannot be used is asked for again in each mode; once when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair_retry_count: Option<u64>,
    /// Put into these requests, over everything else; not `model`, `messages`, the system prompt,
    /// `tools`, `tool_choice` and `response_format`.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub request_overrides: Map<String, Value>,
}

/// One type of directive as it is written down.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DirectiveText {
    /// What it is for, in a sentence for the model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Other names it goes by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// The JSON Schema of its payload; any object when left out.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub payload: Map<String, Value>,
    /// Whether its payload is a list of changes of the draft, `ops`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub patch: bool,
}

/// Most repairs of a mode.
const REPAIRS_MAX: u64 = 5;

/// A block of directives that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DirectivesRefusal {
    /// A type cannot be used.
    #[error("{refusal}")]
    Type {
        /// The type, as it is written.
        name: String,
        /// Why.
        refusal: DirectiveRefusal,
    },
    /// The types or the modes do not go together.
    #[error(transparent)]
    Together(#[from] DirectiveRefusal),
    /// A key that nobody may overrule.
    #[error("request_overrides: {0:?} is not yours to set; leave it out")]
    Reserved(String),
    /// More repairs than make sense.
    #[error("repair_retry_count is {0}: at most {REPAIRS_MAX} are possible")]
    Repairs(u64),
}

impl DirectivesText {
    /// Makes directives of what was written.
    pub fn build(&self) -> Result<Directives, DirectivesRefusal> {
        if let Some(path) = reserved(&self.request_overrides).first() {
            return Err(DirectivesRefusal::Reserved(path.join(".")));
        }
        let repairs = self.repair_retry_count.unwrap_or(1);
        if repairs > REPAIRS_MAX {
            return Err(DirectivesRefusal::Repairs(repairs));
        }
        let types = self.types.iter().map(|(name, text)| text.build(name));
        let types = types.collect::<Result<Vec<_>, _>>()?;
        Ok(Directives::new(types, self.modes.clone(), repairs)?)
    }
}

impl DirectiveText {
    fn build(&self, name: &str) -> Result<DirectiveType, DirectivesRefusal> {
        let schema = (!self.payload.is_empty()).then(|| Value::Object(self.payload.clone()));
        let mut kind = DirectiveType::new(name, schema)
            .map_err(|refusal| DirectivesRefusal::Type { name: name.to_owned(), refusal })?;
        let mut names = std::iter::once(name).chain(self.aliases.iter().map(String::as_str));
        if let Some((given, act)) = names.find_map(|given| Some((given, person_only_act(given)?))) {
            let refusal = DirectiveRefusal::PersonOnly { name: given.to_owned(), act };
            return Err(DirectivesRefusal::Type { name: name.to_owned(), refusal });
        }
        kind.about.clone_from(&self.description);
        kind.aliases.clone_from(&self.aliases);
        kind.patch = self.patch;
        Ok(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_directive_has_the_name_of_a_persons_act() {
        for text in [
            serde_json::json!({"types": {"facts_commit": {}}}),
            serde_json::json!({"types": {"note": {"aliases": ["jot", "Facts Commit"]}}}),
            serde_json::json!({"types": {"note": {"aliases": ["approvals.grant"]}}}),
        ] {
            let told: DirectivesText = serde_json::from_value(text.clone()).unwrap();
            let told = told.build();
            let person_only = matches!(
                &told,
                Err(DirectivesRefusal::Type { refusal: DirectiveRefusal::PersonOnly { .. }, .. })
            );
            assert!(person_only, "{text}: {told:?}");
        }
    }

    /// T35: what the ladder writes itself cannot be written over.
    #[test]
    fn reserved_keys_are_refused() {
        for key in ["response_format", "tools", "messages"] {
            let text = serde_json::json!({"types": {"a": {}}, "request_overrides": {key: 1}});
            let text: DirectivesText = serde_json::from_value(text).unwrap();
            assert!(
                matches!(text.build(), Err(DirectivesRefusal::Reserved(told)) if told == key),
                "{key}"
            );
        }
    }
}
