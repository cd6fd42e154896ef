//! The sixteen core prompts: what a model is told of each tool. One YAML file per tool holds the
//! eight fields of a prompt tool (document 001).

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// The files, in the order of the tools.
const FILES: &[&str] = &[
    include_str!("search_issues.yaml"),
    include_str!("file_locator.yaml"),
    include_str!("file_reader.yaml"),
    include_str!("task_router.yaml"),
    include_str!("canon_checker.yaml"),
    include_str!("outline_analyzer.yaml"),
    include_str!("prose_analyzer.yaml"),
    include_str!("consistency_checker.yaml"),
    include_str!("scene_draft_validator.yaml"),
    include_str!("issue_status_summarizer.yaml"),
    include_str!("stakes_mapper.yaml"),
    include_str!("line_editor.yaml"),
    include_str!("scene_impact_analyzer.yaml"),
    include_str!("reader_experience_simulator.yaml"),
    include_str!("timeline_validator.yaml"),
    include_str!("beat_architect.yaml"),
];

/// What a model is told of one core tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CorePrompt {
    /// The name of the tool.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// The kind of agent it is made for; guidance, not a restriction.
    pub archetype: String,
    /// What it works on.
    pub scope: String,
    /// When to use it.
    pub usage_notes: String,
    /// What a call is to achieve.
    pub goals: String,
    /// What it must not be used for.
    pub guardrails: String,
    /// How to call it, how to read the answer and how to report.
    pub prompt: String,
}

static PROMPTS: LazyLock<Vec<CorePrompt>> = LazyLock::new(|| {
    // A file that cannot be read is a failed test; see below.
    FILES.iter().filter_map(|text| serde_saphyr::from_str(text).ok()).collect()
});

/// The core prompts, in the order of the tools.
pub fn core_prompts() -> &'static [CorePrompt] {
    &PROMPTS
}

#[cfg(test)]
mod tests {
    use super::super::{CoreToolsOptions, catalogue};
    use super::*;

    #[test]
    fn every_tool_has_a_prompt_within_the_bounds_of_a_prompt_tool() {
        for text in FILES {
            let read: Result<CorePrompt, _> = serde_saphyr::from_str(text);
            read.unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        let pack = catalogue(CoreToolsOptions::default()).unwrap();
        let tools: Vec<&str> = pack.section.tools.iter().map(|tool| tool.name.as_str()).collect();
        let prompts: Vec<&str> = core_prompts().iter().map(|prompt| prompt.id.as_str()).collect();
        assert_eq!(prompts, tools);
        for prompt in core_prompts() {
            let id = &prompt.id;
            for (text, max) in [
                (&prompt.name, 100),
                (&prompt.archetype, 40),
                (&prompt.usage_notes, 1_000),
                (&prompt.goals, 1_000),
                (&prompt.guardrails, 2_000),
                (&prompt.prompt, 12_000),
            ] {
                let chars = text.chars().count();
                assert!((1..=max).contains(&chars), "{id}: {chars} characters of at most {max}");
            }
            assert_eq!(prompt.scope, "project", "{id}");
            // The duties that every prompt has.
            for duty in ["Invent no file, quote or issue", "receipt", "line"] {
                assert!(prompt.guardrails.contains(duty), "{id}: {duty}");
            }
        }
    }
}
