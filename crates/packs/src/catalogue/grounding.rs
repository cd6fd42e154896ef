//! Shows a model what is known of the project before it begins: facts, and open issues that matter.
//!
//! What a session wrote that had read untrusted content is left out: it is read with a tool, so that
//! the reading is seen.

use serde_json::Value;
use toolgate_kernel::fold::World;

use super::inject::one_line;
use crate::issues::{ISSUE_FAMILY, Issue, IssuePriority, IssueStatus, all_issues};
use crate::workspace::{Document, Root};

/// Most facts.
const FACTS_MAX: usize = 10;

/// Most issues.
const ISSUES_MAX: usize = 10;

/// Characters of one line.
const LINE_CHARS_MAX: usize = 200;

/// The grounding; nothing where nothing is known.
pub(super) fn text(world: &World<'_>) -> Option<String> {
    let trusted =
        |family: &str| world.project.untrusted.keys().all(|untrusted| untrusted.as_str() != family);
    let mut lines = Vec::new();
    if trusted(Root::Facts.family()) {
        let facts = Document::of(&world.project.state, Root::Facts).value;
        let members = facts.as_object().into_iter().flatten();
        let line = |(name, value): (&String, &Value)| cut(&format!("/facts/{name}: {value}"));
        let facts: Vec<String> = members.map(line).collect();
        if !facts.is_empty() {
            lines.push(format!("Facts that a person confirmed ({} in all):", facts.len()));
            lines.extend(facts.into_iter().take(FACTS_MAX));
        }
    }
    if trusted(ISSUE_FAMILY) {
        let issues = urgent(all_issues(&world.project.state).unwrap_or_default());
        if !issues.is_empty() {
            lines.push(format!("Open issues of high priority ({} in all):", issues.len()));
            let line = |issue: &Issue| cut(&format!("#{} {}", issue.id, issue.title));
            lines.extend(issues.iter().take(ISSUES_MAX).map(line));
        }
    }
    (!lines.is_empty()).then(|| format!("What is known of the project:\n{}", lines.join("\n")))
}

/// Issues that are not dealt with and matter, the newest first.
fn urgent(mut issues: Vec<Issue>) -> Vec<Issue> {
    issues.retain(|issue| {
        issue.status != IssueStatus::Closed && issue.priority >= IssuePriority::High
    });
    issues.sort_by(|a, b| b.updated_at.cmp(&a.updated_at).then(b.id.cmp(&a.id)));
    issues
}

/// One indented line.
fn cut(text: &str) -> String {
    let line: String = one_line(text).chars().take(LINE_CHARS_MAX).collect();
    format!("  {line}")
}
