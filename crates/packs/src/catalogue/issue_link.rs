//! Keeps the issues of a proposal: one for the chief while it is open, one for the person who
//! decides. They move with the proposal.

use toolgate_kernel::time::Timestamp;

use super::edits::StateEdits;
use super::error::CatalogueError;
use crate::issues::{
    ISSUE_FAMILY, ISSUES, Issue, IssueAuthor, IssueComment, IssueCounter, IssueStatus,
    ProposalIssue, open_proposal_issue,
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
    pub(super) proposal: u64,
    pub(super) title: String,
    pub(super) body: String,
    pub(super) assigned_to: String,
    pub(super) status: IssueStatus,
}

fn key(id: u64) -> String {
    format!("{ISSUE_FAMILY}:{id}")
}

fn counted(edits: &mut StateEdits) -> Result<(), CatalogueError> {
    let mut counter: IssueCounter = edits.get(ISSUES)?.unwrap_or_default();
    counter.changes = counter.changes.saturating_add(1);
    edits.put(ISSUES, &counter)
}

fn bounded(body: &str) -> String {
    if body.chars().count() <= BODY_CHARS_MAX {
        return body.to_owned();
    }
    let kept: String = body.chars().take(BODY_CHARS_MAX - CUT.chars().count()).collect();
    format!("{kept}{CUT}")
}

/// Opens the issue of a proposal and says its number.
pub(super) fn open(
    edits: &mut StateEdits,
    new: NewIssue,
    now: Timestamp,
) -> Result<u64, CatalogueError> {
    let issue = ProposalIssue {
        proposal: new.proposal.to_string(),
        title: new.title,
        body: bounded(&new.body),
        assigned_to: Some(new.assigned_to),
        status: new.status,
    };
    let author = IssueAuthor::Agent(OPENED_BY.to_owned());
    let opened = open_proposal_issue(edits.state(), &author, now, &issue);
    let opened = opened.map_err(|why| CatalogueError::new("ISSUE_REFUSED", why.to_string()))?;
    let id = opened.issue.id;
    if let Some(removed) = opened.removed() {
        edits.remove(&key(removed))?;
    }
    let tags = vec![PROPOSAL_TAG.to_owned()];
    edits.put(&key(id), &Issue { tags, ..opened.issue.clone() })?;
    edits.put(ISSUES, &opened.counter())?;
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
    counted(edits)
}
