//! What stands in the issues of a proposal. Tools show issues to models, and no text of an open proposal
//! is shown to one: an issue says what changes and where a person reads it.

use super::chief::Assessment;
use super::diff::field_diff;
use super::harness::HarnessReport;
use super::prompt_tool::PromptTool;
use super::proposal::{Proposal, ProposalKind};

/// What stands in the issue for the chief.
pub(super) fn body(proposal: &Proposal) -> String {
    let mut lines = headline(proposal);
    lines.push(format!(
        "{} examples, {} test cases. The texts: toolgate catalogue show {}",
        proposal.examples.len(),
        proposal.test_cases.len(),
        proposal.id
    ));
    lines.push(format!("Next: toolgate catalogue assess {}", proposal.id));
    lines.join("\n")
}

fn headline(proposal: &Proposal) -> Vec<String> {
    let mut lines = vec![format!(
        "Proposal {}, revision {}: {} {} by {}. Digest {}.",
        proposal.id,
        proposal.revision,
        proposal.kind.as_str(),
        proposal.tool.id,
        proposal.author,
        proposal.digest().short()
    )];
    for change in field_diff(proposal.before.as_ref(), after(proposal)) {
        let (before, after) = (change.before.chars().count(), change.after.chars().count());
        lines.push(format!("  {}: {before} -> {after} characters", change.field));
    }
    lines
}

/// The tool as it would be; nothing where it would be gone.
pub fn after(proposal: &Proposal) -> Option<&PromptTool> {
    (proposal.kind != ProposalKind::Retire).then_some(&proposal.tool)
}

/// What stands in the issue that waits for a person.
pub(super) fn decision_body(proposal: &Proposal) -> String {
    let mut lines = headline(proposal);
    lines.extend(proposal.assessment.iter().map(Assessment::summary));
    lines.extend(proposal.harness.iter().map(HarnessReport::summary));
    let id = proposal.id;
    lines
        .push(format!("The texts, both verdicts and the difference: toolgate catalogue show {id}"));
    lines.push("What you can do:".to_owned());
    lines.push(format!("  toolgate catalogue approve {id}"));
    lines.push(format!("  toolgate catalogue needs-changes {id} --note \"...\""));
    lines.push(format!("  toolgate catalogue reject {id} --note \"...\""));
    lines.join("\n")
}
