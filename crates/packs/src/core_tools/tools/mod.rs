//! The sixteen tools, in the order in which they are shown.

mod beat_architect;
mod canon_checker;
mod consistency_checker;
mod file_locator;
mod file_reader;
mod issue_status_summarizer;
mod line_editor;
mod outline_analyzer;
mod prose_analyzer;
mod reader_experience_simulator;
mod scene_draft_validator;
mod scene_impact_analyzer;
mod search_issues;
mod stakes_mapper;
mod task_router;
mod timeline_validator;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use toolgate_kernel::tool::SpecRefusal;
use toolgate_runtime::port::Tool;

use super::Setup;
use super::word_lists::WordLists;

/// All of them.
pub(super) fn all(setup: &Arc<Setup>) -> Result<Vec<Arc<dyn Tool>>, SpecRefusal> {
    Ok(vec![
        search_issues::tool(setup)?,
        file_locator::tool(setup)?,
        file_reader::tool(setup)?,
        task_router::tool(setup)?,
        canon_checker::tool(setup)?,
        outline_analyzer::tool(setup)?,
        prose_analyzer::tool(setup)?,
        consistency_checker::tool(setup)?,
        scene_draft_validator::tool(setup)?,
        issue_status_summarizer::tool(setup)?,
        stakes_mapper::tool(setup)?,
        line_editor::tool(setup)?,
        scene_impact_analyzer::tool(setup)?,
        reader_experience_simulator::tool(setup)?,
        timeline_validator::tool(setup)?,
        beat_architect::tool(setup)?,
    ])
}

/// A ref of a source.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
struct SourceRef(#[schemars(length(min = 1, max = 400))] String);

impl SourceRef {
    fn as_str(&self) -> &str {
        &self.0
    }
}

/// The refs of a list as texts.
fn texts(refs: &[SourceRef]) -> Vec<String> {
    refs.iter().map(|it| it.0.clone()).collect()
}

/// A number of lines or items.
fn whole(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Fewest letters of an adverb in -ly.
const ADVERB_LETTERS_MIN: usize = 4;

/// Whether a normalised token is an adverb in -ly.
fn is_adverb(token: &str, lists: &WordLists) -> bool {
    token.ends_with("ly")
        && token.chars().filter(|c| c.is_alphabetic()).count() >= ADVERB_LETTERS_MIN
        && !lists.adverb_exceptions.contains(token)
}
