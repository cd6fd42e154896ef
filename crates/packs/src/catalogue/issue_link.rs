//! Keeps the issues of a proposal: one for the chief while it is open, one for the person who
//! decides. They move with the proposal.

use std::collections::BTreeMap;

use toolgate_kernel::time::Timestamp;

use super::edits::StateEdits;
use super::error::CatalogueError;
use crate::issues::{
    ISSUE_FAMILY, ISSUES, Issue, IssueComment, IssueCounter, IssuePriority, IssueStatus,
};

/// Who opens them: no agent has this name, so none closes them.
pub const OPENED_BY: &str = "toolgate";

/// The tag of both issues of a proposal.
pub const PROPOSAL_TAG: &str = "tool-proposal";

/// Longest body, in characters.
const BODY_CHARS_MAX: usize = 20_000;

/// What is said where a body is cut.
const CUT: &str = "\n(cut; `toolgate catalogue show` has all of it)";

/// An issue to open.
pub(super) struct NewIssue {
    pub(super) title: String,
    pub(super) body: String,
    pub(super) assigned_to: String,
    pub(super) status: IssueStatus,
}

fn key(id: u64) -> String {
    format!("{ISSUE_FAMILY}:{id}")
}

fn counted(edits: &mut StateEdits, last: Option<u64>) -> Result<(), CatalogueError> {
    let mut counter: IssueCounter = edits.get(ISSUES)?.unwrap_or_default();
    counter.changes = counter.changes.saturating_add(1);
    counter.last = last.unwrap_or(counter.last);
    edits.put(ISSUES, &counter)
}

fn bounded(body: &str) -> String {
    if body.chars().count() <= BODY_CHARS_MAX {
        return body.to_owned();
    }
    let kept: String = body.chars().take(BODY_CHARS_MAX - CUT.chars().count()).collect();
    format!("{kept}{CUT}")
}

/// Opens an issue and says its number.
pub(super) fn open(
    edits: &mut StateEdits,
    new: NewIssue,
    now: Timestamp,
) -> Result<u64, CatalogueError> {
    let counter: IssueCounter = edits.get(ISSUES)?.unwrap_or_default();
    let id = counter.last.saturating_add(1);
    let issue = Issue {
        id,
        title: new.title,
        body: bounded(&new.body),
        opened_by: OPENED_BY.to_owned(),
        assigned_to: Some(new.assigned_to),
        tags: vec![PROPOSAL_TAG.to_owned()],
        priority: IssuePriority::Normal,
        status: new.status,
        comments: Vec::new(),
        personal: BTreeMap::new(),
        created_at: now,
        updated_at: now,
        closed_at: None,
        frozen_until: None,
    };
    edits.put(&key(id), &issue)?;
    counted(edits, Some(id))?;
    Ok(id)
}

/// What becomes of an issue.
#[derive(Default)]
pub(super) struct IssueMove {
    pub(super) status: Option<IssueStatus>,
    pub(super) title: Option<String>,
    pub(super) body: Option<String>,
    /// Who says what.
    pub(super) comment: Option<(String, String)>,
}

/// Moves an issue. One that is gone is left alone: the proposal counts.
pub(super) fn moved(
    edits: &mut StateEdits,
    id: u64,
    change: IssueMove,
    now: Timestamp,
) -> Result<(), CatalogueError> {
    let Some(mut issue): Option<Issue> = edits.get(&key(id))? else { return Ok(()) };
    if let Some(status) = change.status {
        issue.status = status;
        issue.closed_at = (status == IssueStatus::Closed).then_some(now);
    }
    issue.title = change.title.unwrap_or(issue.title);
    if let Some(body) = change.body {
        issue.body = bounded(&body);
    }
    issue.comments.extend(change.comment.map(|(author, body)| IssueComment {
        author,
        body: bounded(&body),
        action: None,
        impact_level: None,
        evidence: None,
        created_at: now,
    }));
    issue.updated_at = now;
    edits.put(&key(id), &issue)?;
    counted(edits, None)
}
