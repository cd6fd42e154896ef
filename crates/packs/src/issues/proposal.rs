//! Opens and moves issues of proposals, which move with their proposal alone.

use toolgate_kernel::fold::State;
use toolgate_kernel::time::Timestamp;

use super::act::{
    BODY_CHARS_MAX, IssueAuthor, IssueOutcome, TITLE_CHARS_MAX, blank, counter, line, make_room,
};
use super::{IssueCounter, IssueRefusal, IssueStatus, all_issues};

/// An issue that a proposal opens, and with which alone it moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposalIssue {
    /// The proposal.
    pub proposal: String,
    /// The whole title, which begins like one of [`super::PROPOSAL_TITLES`].
    pub title: String,
    /// The whole text.
    pub body: String,
    /// Who is to deal with it.
    pub assigned_to: Option<String>,
    /// Where it stands.
    pub status: IssueStatus,
}

/// The issue of a proposal, opened.
pub fn open_proposal_issue(
    state: &State,
    author: &IssueAuthor,
    now: Timestamp,
    new: &ProposalIssue,
) -> Result<IssueOutcome, IssueRefusal> {
    let counter = counter(state)?;
    let id = counter.last.saturating_add(1);
    let chars = new.body.chars().count();
    if chars > BODY_CHARS_MAX {
        return Err(IssueRefusal::Length { field: "body", chars, max: BODY_CHARS_MAX });
    }
    let mut issue = blank(id, line("title", &new.title, TITLE_CHARS_MAX)?, author, now);
    issue.body.clone_from(&new.body);
    issue.assigned_to.clone_from(&new.assigned_to);
    issue.proposal = Some(new.proposal.clone());
    issue.status = new.status;
    issue.closed_at = (new.status == IssueStatus::Closed).then_some(now);
    let removed = make_room(&all_issues(state)?)?;
    let counter = IssueCounter { last: id, changes: counter.changes.saturating_add(1) };
    Ok(IssueOutcome { issue, frozen: None, counter, removed })
}

/// The issue of a proposal, moved with it: where it stands and whose it is from now on.
pub fn move_proposal_issue(
    state: &State,
    id: u64,
    now: Timestamp,
    status: IssueStatus,
    assigned_to: Option<String>,
) -> Result<IssueOutcome, IssueRefusal> {
    let found = all_issues(state)?.into_iter().find(|issue| issue.id == id);
    let mut issue = found.ok_or(IssueRefusal::Missing(id))?;
    if !issue.is_of_a_proposal() {
        return Err(IssueRefusal::NoProposal(id));
    }
    (issue.status, issue.assigned_to, issue.updated_at) = (status, assigned_to, now);
    issue.closed_at = (status == IssueStatus::Closed).then_some(now);
    let counter = counter(state)?;
    let counter = IssueCounter { changes: counter.changes.saturating_add(1), ..counter };
    Ok(IssueOutcome { issue, frozen: None, counter, removed: None })
}
