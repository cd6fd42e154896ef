//! Searches issues: every filter that is given must hold.

use schemars::JsonSchema;
use serde::Deserialize;
use unicode_normalization::UnicodeNormalization;

use crate::core_tools::token_words as words;

use super::{Issue, IssuePriority, IssueStatus};

/// Which issues a search is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StatusFilter {
    /// Those that are open.
    #[default]
    Open,
    /// Those that wait for a person.
    WaitingOnUser,
    /// Those that are closed.
    Closed,
    /// All of them.
    All,
}

impl StatusFilter {
    fn takes(self, status: IssueStatus) -> bool {
        match self {
            Self::Open => status == IssueStatus::Open,
            Self::WaitingOnUser => status == IssueStatus::WaitingOnUser,
            Self::Closed => status == IssueStatus::Closed,
            Self::All => true,
        }
    }
}

/// The filters of a search.
#[derive(Debug, Clone, Default)]
pub struct IssueQuery {
    /// Tags an issue must have, in any case.
    pub tags: Vec<String>,
    /// Who it must be assigned to, in any case.
    pub assigned_to: Option<String>,
    /// Where it must stand.
    pub status: StatusFilter,
    /// How soon it must be needed.
    pub priority: Option<IssuePriority>,
    /// Whose personal notes count.
    pub personal_agent: Option<String>,
    /// Personal tags that agent must have given it.
    pub personal_tags: Vec<String>,
    /// Personal tags that agent must not have given it.
    pub exclude_personal_tags: Vec<String>,
    /// The least interest that agent must have noted.
    pub min_interest: Option<u8>,
    /// Words that must all stand in title, body or comments.
    pub text: Option<String>,
}

impl IssueQuery {
    /// The issues that fit, the one that changed last first.
    pub fn run(&self, issues: Vec<Issue>) -> Vec<Issue> {
        let words = self.text.as_deref().map(words).unwrap_or_default();
        let mut found: Vec<Issue> =
            issues.into_iter().filter(|issue| self.fits(issue, &words)).collect();
        found.sort_by(|a, b| b.updated_at.cmp(&a.updated_at).then(b.id.cmp(&a.id)));
        found
    }

    fn fits(&self, issue: &Issue, text: &[String]) -> bool {
        let note = self.personal_agent.as_ref().and_then(|agent| {
            issue.personal.iter().find(|(name, _)| same(name, agent)).map(|(_, note)| note)
        });
        let has = |tags: &[String], tag: &String| tags.iter().any(|own| same(own, tag));
        let noted = |tag: &String| note.is_some_and(|note| has(&note.tags, tag));
        let assigned = |to: &String| issue.assigned_to.as_ref().is_some_and(|own| same(own, to));
        self.status.takes(issue.status)
            && self.tags.iter().all(|tag| has(&issue.tags, tag))
            && self.assigned_to.as_ref().is_none_or(assigned)
            && self.priority.is_none_or(|priority| issue.priority == priority)
            && self.personal_tags.iter().all(noted)
            && !self.exclude_personal_tags.iter().any(noted)
            && self.min_interest.is_none_or(|min| {
                note.and_then(|note| note.interest).is_some_and(|interest| interest >= min)
            })
            && (text.is_empty() || {
                let own = words(&written(issue));
                text.iter().all(|word| own.contains(word))
            })
    }
}

/// Everything that was written on an issue.
fn written(issue: &Issue) -> String {
    let comments = issue.comments.iter().map(|comment| comment.body.as_str());
    let parts = [issue.title.as_str(), issue.body.as_str()].into_iter().chain(comments);
    parts.collect::<Vec<_>>().join("\n")
}

/// Whether two words are one, in any case.
fn same(one: &str, other: &str) -> bool {
    folded(one.trim()) == folded(other.trim())
}

fn folded(text: &str) -> String {
    text.nfc().flat_map(char::to_lowercase).collect()
}
