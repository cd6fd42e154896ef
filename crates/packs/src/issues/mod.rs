//! Keeps issues that people and agents share: what they are, how they change, and how they are read
//! and searched.
//!
//! An issue is `issue:<number>`, a part of `issues`, which counts the numbers and the changes
//! (ADR 0009). `act.rs` decides what becomes of one, `breaker.rs` holds agents back, `tool.rs` is the
//! tool of agents. The core tools `search_issues` and `issue_status_summarizer` read them.

mod act;
mod breaker;
mod search;
mod tool;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate_kernel::fold::{Shelf, State};
use toolgate_kernel::names::NameRefusal;
use toolgate_kernel::section::FamilySpec;
use toolgate_kernel::time::Timestamp;

pub use act::{
    IssueAct, IssueAuthor, IssueOutcome, IssueRefusal, NewComment, NewIssue, NewTags,
    PROPOSAL_TITLES, ProposalIssue, USER, decide_issue, move_proposal_issue, open_proposal_issue,
};
pub use breaker::{BreakerRule, FROZEN_MS, IssueRules};
pub use search::{IssueQuery, StatusFilter};
pub use tool::issues;

use crate::domain::whole_and_parts;

/// The key that changes whenever an issue does.
pub const ISSUES: &str = "issues";

/// The family of the issues: `issue:<number>`.
pub const ISSUE_FAMILY: &str = "issue";

/// What is kept of all issues together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssueCounter {
    /// The number of the last issue.
    pub last: u64,
    /// Changes of any issue.
    pub changes: u64,
}

/// Something that people and agents discuss until it is closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Issue {
    /// Its number.
    pub id: u64,
    /// What it is about, in one line.
    pub title: String,
    /// The whole text.
    #[serde(default)]
    pub body: String,
    /// Who opened it.
    pub opened_by: String,
    /// Who is to deal with it.
    #[serde(default)]
    pub assigned_to: Option<String>,
    /// Words by which it is found.
    #[serde(default)]
    pub tags: Vec<String>,
    /// How soon it is needed.
    #[serde(default)]
    pub priority: IssuePriority,
    /// Where it stands.
    #[serde(default)]
    pub status: IssueStatus,
    /// What was said about it, oldest first.
    #[serde(default)]
    pub comments: Vec<IssueComment>,
    /// What single agents noted for themselves, by agent.
    #[serde(default)]
    pub personal: BTreeMap<String, PersonalNote>,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it was closed, while it is.
    #[serde(default)]
    pub closed_at: Option<Timestamp>,
    /// Until when agents may not comment.
    #[serde(default)]
    pub frozen_until: Option<Timestamp>,
    /// The proposal it belongs to, with which alone it moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<String>,
}

impl Issue {
    /// Whether it belongs to a proposal: by its mark, or by its title in a state that has no marks.
    pub fn is_of_a_proposal(&self) -> bool {
        self.proposal.is_some()
            || act::PROPOSAL_TITLES.iter().any(|start| self.title.starts_with(start))
    }
}

/// How soon an issue is needed.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum IssuePriority {
    /// When there is time.
    Low,
    /// In its turn.
    #[default]
    Normal,
    /// Before others.
    High,
    /// At once.
    Urgent,
}

/// Where an issue stands.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum IssueStatus {
    /// It is worked on, or will be.
    #[default]
    Open,
    /// A person has to decide.
    WaitingOnUser,
    /// It is dealt with.
    Closed,
}

/// One comment on an issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IssueComment {
    /// Who wrote it.
    pub author: String,
    /// What was written.
    pub body: String,
    /// What is to be done.
    #[serde(default)]
    pub action: Option<String>,
    /// How far a change would reach.
    #[serde(default)]
    pub impact_level: Option<ImpactLevel>,
    /// What it rests on.
    #[serde(default)]
    pub evidence: Option<String>,
    /// When it was written.
    pub created_at: Timestamp,
}

/// How far a change would reach.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ImpactLevel {
    /// Wording alone.
    Cosmetic,
    /// One passage.
    Minor,
    /// The order or purpose of scenes.
    Structural,
    /// What is true in the story.
    CanonChanging,
}

/// What one agent noted on an issue for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonalNote {
    /// Its own words for it.
    #[serde(default)]
    pub tags: Vec<String>,
    /// How much it matters to this agent: 1 to 5.
    #[serde(default)]
    pub interest: Option<u8>,
}

/// An issue that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("issue {id} cannot be read: {reason}")]
pub struct IssueError {
    /// Its number, as the key has it.
    pub id: String,
    /// What is wrong with it.
    pub reason: String,
}

/// The families that keep issues.
pub fn families() -> Result<Vec<FamilySpec>, NameRefusal> {
    whole_and_parts(ISSUES, &[ISSUE_FAMILY])
}

/// Every issue, by number.
pub fn all_issues(state: &State) -> Result<Vec<Issue>, IssueError> {
    let shelf = state.shelf(ISSUE_FAMILY);
    let read = |(id, slot): (&str, &toolgate_kernel::fold::Slot)| {
        let broken = |reason: serde_json::Error| IssueError {
            id: id.to_owned(),
            reason: reason.to_string(),
        };
        serde_json::from_value(slot.value()).map_err(broken)
    };
    let issues: Result<Vec<Issue>, _> = shelf.into_iter().flat_map(Shelf::iter).map(read).collect();
    let mut issues = issues?;
    issues.sort_by_key(|issue| issue.id);
    Ok(issues)
}
