//! Mechanical checks of a proposal: its form, its texts, its overlap with the core tools, and what its
//! test cases gave. They come before anybody's opinion.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::harness::HarnessReport;
use super::prompt_tool::PromptTool;
use super::proposal::{Proposal, ProposalKind};
use super::user_file::unfit;
use crate::core_tools::{content_words, core_prompts};

/// The part of all content words that two tools share from which on one overlaps the other, in
/// hundredths.
const OVERLAP_MIN: usize = 50;

/// What a mechanical check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MechanicalFinding {
    /// Which check: text, overlap or harness.
    pub check: String,
    /// What it found.
    pub message: String,
}

fn finding(check: &str, message: String) -> MechanicalFinding {
    MechanicalFinding { check: check.to_owned(), message }
}

/// Everything that the checks find.
pub fn mechanical(proposal: &Proposal, harness: Option<&HarnessReport>) -> Vec<MechanicalFinding> {
    if proposal.kind == ProposalKind::Retire {
        return Vec::new();
    }
    let mut found: Vec<MechanicalFinding> =
        unfit(&proposal.tool).into_iter().map(|why| finding("text", why)).collect();
    found.extend(overlaps(&proposal.tool));
    for case in harness.into_iter().flat_map(HarnessReport::failed) {
        found.push(finding("harness", format!("test case {:?} failed", case.name)));
    }
    found
}

/// The core tools that a tool shares at least half of its content words with.
fn overlaps(tool: &PromptTool) -> Vec<MechanicalFinding> {
    let own = words(tool);
    let shares = |core: &crate::core_tools::CorePrompt| {
        let other = words(&PromptTool::from(core));
        let (shared, all) = (own.intersection(&other).count(), own.union(&other).count());
        let part = shared.saturating_mul(100).checked_div(all).unwrap_or(0);
        (part >= OVERLAP_MIN).then(|| {
            let message = format!("it shares {part} % of its content words with {}", core.id);
            finding("overlap", message)
        })
    };
    core_prompts().iter().filter_map(shares).collect()
}

fn words(tool: &PromptTool) -> BTreeSet<String> {
    let texts = [&tool.name, &tool.usage_notes, &tool.goals, &tool.guardrails, &tool.prompt];
    texts.into_iter().flat_map(|text| content_words(text)).collect()
}
