//! A prompt tool: its eight fields, their bounds, its id and its digest.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::prompt_text::{PromptField, name_skeleton};
use toolgate_kernel::reserved::person_only_act;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::error::CatalogueError;
use crate::core_tools::{CorePrompt, core_prompts};

/// Longest id.
const ID_CHARS_MAX: usize = 64;

/// Longest id that is made of a name, so that a number still fits behind it.
const SLUG_CHARS_MAX: usize = 60;

/// Longest name.
pub(super) const NAME_CHARS_MAX: usize = 100;
/// Longest archetype.
pub(super) const ARCHETYPE_CHARS_MAX: usize = 40;
/// Longest usage notes, and longest goals.
pub(super) const NOTES_CHARS_MAX: usize = 1_000;
/// Longest guardrails.
pub(super) const GUARDRAILS_CHARS_MAX: usize = 2_000;
/// Longest prompt.
pub(super) const PROMPT_CHARS_MAX: usize = 12_000;

/// What a prompt tool works on.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum PromptScope {
    /// What the person marked.
    Selection,
    /// One file.
    File,
    /// The whole project.
    #[default]
    Project,
}

impl PromptScope {
    /// The scope as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Selection => "selection",
            Self::File => "file",
            Self::Project => "project",
        }
    }
}

/// A prompt that a model is given as a tool of its own: guidance, never a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptTool {
    /// What it is named by.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// The kind of agent it is made for; guidance, not a restriction.
    #[serde(default = "any_archetype")]
    pub archetype: String,
    /// What it works on.
    #[serde(default)]
    pub scope: PromptScope,
    /// When to use it.
    #[serde(default)]
    pub usage_notes: String,
    /// What it is to achieve.
    #[serde(default)]
    pub goals: String,
    /// What it must not be used for.
    #[serde(default)]
    pub guardrails: String,
    /// What the model is told.
    pub prompt: String,
    /// When it was first approved, in milliseconds since 1970; zero where that is not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub created_at: i64,
    /// When it last changed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub updated_at: i64,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

fn any_archetype() -> String {
    "Any".to_owned()
}

impl From<&CorePrompt> for PromptTool {
    fn from(core: &CorePrompt) -> Self {
        let scope = match core.scope.as_str() {
            "selection" => PromptScope::Selection,
            "file" => PromptScope::File,
            _ => PromptScope::Project,
        };
        Self {
            id: core.id.clone(),
            name: core.name.clone(),
            archetype: core.archetype.clone(),
            scope,
            usage_notes: core.usage_notes.clone(),
            goals: core.goals.clone(),
            guardrails: core.guardrails.clone(),
            prompt: core.prompt.clone(),
            created_at: 0,
            updated_at: 0,
        }
    }
}

/// The names of the eight fields, in their order.
pub const FIELDS: [&str; 8] =
    ["id", "name", "archetype", "scope", "usageNotes", "goals", "guardrails", "prompt"];

impl PromptTool {
    /// The text of a field.
    pub fn field(&self, name: &str) -> &str {
        match name {
            "id" => &self.id,
            "name" => &self.name,
            "archetype" => &self.archetype,
            "scope" => self.scope.as_str(),
            "usageNotes" => &self.usage_notes,
            "goals" => &self.goals,
            "guardrails" => &self.guardrails,
            "prompt" => &self.prompt,
            _ => "",
        }
    }

    /// Digest of the eight fields.
    pub fn digest(&self) -> Digest {
        let fields = FIELDS.iter().map(|name| ((*name).to_owned(), self.field(name).into()));
        Digest::of_json(&serde_json::Value::Object(fields.collect()))
    }

    /// Characters it has when it is shown in full, about.
    pub fn chars(&self) -> usize {
        FIELDS.iter().map(|name| self.field(name).chars().count()).sum()
    }

    /// Its texts with their bounds, for the text rules.
    pub fn text_fields(&self) -> Vec<PromptField<'_>> {
        vec![
            PromptField::new("name", &self.name, NAME_CHARS_MAX).at_least(1).one_line(),
            PromptField::new("archetype", &self.archetype, ARCHETYPE_CHARS_MAX).one_line(),
            PromptField::new("usageNotes", &self.usage_notes, NOTES_CHARS_MAX),
            PromptField::new("goals", &self.goals, NOTES_CHARS_MAX),
            PromptField::new("guardrails", &self.guardrails, GUARDRAILS_CHARS_MAX),
            PromptField::new("prompt", &self.prompt, PROMPT_CHARS_MAX).at_least(1),
        ]
    }

    /// The same in NFC, blank fields as if they were left out.
    pub fn normalised(mut self) -> Self {
        let nfc = |text: &mut String| *text = text.nfc().collect::<String>().trim().to_owned();
        nfc(&mut self.id);
        nfc(&mut self.name);
        nfc(&mut self.archetype);
        nfc(&mut self.usage_notes);
        nfc(&mut self.goals);
        nfc(&mut self.guardrails);
        nfc(&mut self.prompt);
        if self.archetype.is_empty() {
            self.archetype = any_archetype();
        }
        self
    }

    /// The fields as JSON, without times.
    pub fn fields_json(&self) -> serde_json::Value {
        json!({
            "id": self.id, "name": self.name, "archetype": self.archetype, "scope": self.scope,
            "usageNotes": self.usage_notes, "goals": self.goals, "guardrails": self.guardrails,
            "prompt": self.prompt,
        })
    }
}

/// Whether an id is one of the sixteen core tools.
pub fn is_core(id: &str) -> bool {
    core_prompts().iter().any(|core| core.id == id)
}

/// Ids and names of the core tools, for the text rules.
pub(super) fn core_names() -> Vec<&'static str> {
    core_prompts().iter().flat_map(|core| [core.id.as_str(), core.name.as_str()]).collect()
}

/// The core tool whose name or id a name is taken for, if there is one.
pub(super) fn core_look_alike(name: &str) -> Option<&'static str> {
    let own = name_skeleton(name);
    core_names().into_iter().find(|core| name_skeleton(core) == own)
}

/// Ids that a new tool cannot have.
#[derive(Debug, Clone, Default)]
pub struct TakenIds {
    /// Names and aliases of the tools that can be called.
    pub tools: BTreeSet<String>,
    /// Ids of prompt tools, open proposals included.
    pub prompts: BTreeSet<String>,
}

impl TakenIds {
    fn has(&self, id: &str) -> bool {
        is_core(id) || self.tools.contains(id) || self.prompts.contains(id)
    }

    /// Whether an id can be given to a new tool; the error says why not.
    pub fn check(&self, id: &str) -> Result<(), CatalogueError> {
        let legal = id.len() <= ID_CHARS_MAX
            && id.starts_with(|c: char| c.is_ascii_lowercase())
            && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !legal {
            let message = format!(
                "id {id:?} is not legal: write a-z first, then a-z, 0-9 or _, at most \
                 {ID_CHARS_MAX} characters; leave it out and one is made of the name"
            );
            return Err(CatalogueError::field("id", message));
        }
        if is_core(id) {
            return Err(CatalogueError::core_locked(id));
        }
        if self.tools.contains(id) || person_only_act(id).is_some() {
            let message = format!("id {id:?} is the name of a tool or of an act of a person");
            return Err(CatalogueError::field("id", message));
        }
        if self.prompts.contains(id) {
            let message = format!(
                "there is a prompt tool {id:?} already; propose type modify, or another id"
            );
            return Err(CatalogueError::new("ID_TAKEN", message).at("id"));
        }
        Ok(())
    }

    /// An id made of a name.
    pub fn made_of(&self, name: &str) -> String {
        let slug = slug(name);
        if !self.has(&slug) && person_only_act(&slug).is_none() {
            return slug;
        }
        // There are fewer ids than numbers, so one is free.
        let numbered = |n: u32| Some(format!("{slug}_{n}")).filter(|id| !self.has(id));
        (1..u32::MAX).find_map(numbered).unwrap_or(slug)
    }
}

/// A name as an id: without marks, in lower case, with `_` for everything else.
fn slug(name: &str) -> String {
    let mut slug = String::new();
    for c in name.nfd().filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase) {
        if c.is_ascii_lowercase() || c.is_ascii_digit() {
            slug.push(c);
        } else if !slug.ends_with('_') {
            slug.push('_');
        }
    }
    let slug: String = slug.trim_matches('_').chars().take(SLUG_CHARS_MAX).collect();
    let slug = slug.trim_matches('_');
    if slug.is_empty() {
        "prompt".to_owned()
    } else if slug.starts_with(|c: char| c.is_ascii_digit()) {
        let cut: String = slug.chars().take(SLUG_CHARS_MAX - 2).collect();
        format!("t_{cut}")
    } else {
        slug.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_ids() {
        let mut taken = TakenIds::default();
        for (name, id) in [
            ("Tone check", "tone_check"),
            ("  Café — Zoë!  ", "cafe_zoe"),
            ("!!!", "prompt"),
            ("!!!", "prompt_1"),
            ("Тон", "prompt_2"),
            ("3 acts", "t_3_acts"),
            ("Canon checker", "canon_checker_1"),
            ("approve", "approve_1"),
        ] {
            let made = taken.made_of(name);
            assert_eq!(made, id, "{name}");
            taken.prompts.insert(made);
        }
        let long = taken.made_of(&"a".repeat(200));
        assert_eq!(long.len(), 60);
        taken.check(&long).unwrap();
    }

    #[test]
    fn ids_that_are_taken_or_not_legal_are_refused() {
        let taken = TakenIds {
            tools: ["write_notes".to_owned()].into(),
            prompts: ["tone".to_owned()].into(),
        };
        for (id, code) in [
            ("write_notes", "PROPOSAL_INVALID"),
            ("tone", "ID_TAKEN"),
            ("canon_checker", "CORE_LOCKED"),
            ("Tone", "PROPOSAL_INVALID"),
            ("1st", "PROPOSAL_INVALID"),
            ("", "PROPOSAL_INVALID"),
            ("facts_commit", "PROPOSAL_INVALID"),
        ] {
            assert_eq!(taken.check(id).unwrap_err().code, code, "{id}");
        }
        taken.check("tone_2").unwrap();
    }

    #[test]
    fn a_name_that_reads_like_a_core_tool_is_known() {
        assert_eq!(core_look_alike("C\u{430}non Checker"), Some("canon_checker"));
        assert_eq!(core_look_alike("canon-checker"), Some("canon_checker"));
        assert_eq!(core_look_alike("Canon checker (custom)"), None);
    }
}
