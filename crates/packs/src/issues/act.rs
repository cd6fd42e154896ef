//! Decides what becomes of an issue when somebody opens, comments, tags, assigns, closes or reopens
//! it. The tool `issues` and the command of people both ask here.

use std::collections::BTreeMap;

use toolgate_kernel::event::{Change, ProjectEvent};
use toolgate_kernel::fold::State;
use toolgate_kernel::key::Key;
use toolgate_kernel::letters::is_unseen;
use toolgate_kernel::prompt_text::name_skeleton;
use toolgate_kernel::time::Timestamp;

use super::breaker::{BreakerRule, FROZEN_MS, IssueRules};
use super::{
    ISSUE_FAMILY, ISSUES, ImpactLevel, Issue, IssueComment, IssueCounter, IssueError,
    IssuePriority, IssueStatus, all_issues,
};

/// Characters of a title.
const TITLE_CHARS_MAX: usize = 200;
/// Characters of a text.
const BODY_CHARS_MAX: usize = 20_000;
/// Characters of a name, and of what else is one line of a comment.
const LINE_CHARS_MAX: usize = 400;
/// Tags of an issue, and personal ones of one author.
const TAGS_MAX: usize = 12;
/// Characters of a tag.
const TAG_CHARS_MAX: usize = 40;
/// Issues that are kept. The one that was closed first makes way for a new one.
const ISSUES_MAX: usize = 2_000;
/// Comments of one issue.
const COMMENTS_MAX: usize = 500;

/// Whom an issue is assigned to that waits for a person.
pub const USER: &str = "user";

/// What titles of issues begin with that only a proposal opens.
pub const PROPOSAL_TITLES: &[&str] = &["[Tool Proposal]", "[Tool Decision]"];

/// Who does something with an issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IssueAuthor {
    /// An agent, by its id.
    Agent(String),
    /// A person, by their label.
    Person(String),
}

/// How authors that are people begin.
const PERSON: &str = "human:";

impl IssueAuthor {
    /// As it is kept with the issue.
    pub fn label(&self) -> String {
        match self {
            Self::Agent(id) => id.clone(),
            Self::Person(name) => format!("{PERSON}{name}"),
        }
    }
}

impl IssueComment {
    /// Whether a person wrote it.
    pub fn is_a_persons(&self) -> bool {
        self.author.starts_with(PERSON)
    }
}

/// An issue to be opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewIssue {
    /// What it is about.
    pub title: String,
    /// The whole text.
    pub body: String,
    /// Words by which it is found.
    pub tags: Vec<String>,
    /// How soon it is needed.
    pub priority: IssuePriority,
    /// Who is to deal with it.
    pub assigned_to: Option<String>,
}

/// A comment to be written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewComment {
    /// What is written.
    pub body: String,
    /// What is to be done.
    pub action: Option<String>,
    /// How far a change would reach.
    pub impact_level: Option<ImpactLevel>,
    /// What it rests on.
    pub evidence: Option<String>,
}

/// Tags to be set. What is absent stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewTags {
    /// The tags that everybody sees.
    pub tags: Option<Vec<String>>,
    /// The author's own.
    pub personal_tags: Option<Vec<String>>,
    /// How much it matters to the author: 1 to 5; 0 takes it away.
    pub interest: Option<u8>,
}

/// What is to be done with issues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IssueAct {
    /// A new one.
    Open(NewIssue),
    /// One that is closed is open again.
    Reopen(u64),
    /// Something is said about one.
    Comment(u64, NewComment),
    /// Its tags are set.
    Tag(u64, NewTags),
    /// It is somebody's; nobody's when absent. [`USER`] makes it wait for a person.
    Assign(u64, Option<String>),
    /// It is dealt with.
    Close(u64),
}

/// What became of an act.
#[derive(Debug, Clone, PartialEq)]
pub struct IssueOutcome {
    /// The issue as it is now.
    pub issue: Issue,
    /// Why it was frozen instead of commented on, where it was.
    pub frozen: Option<BreakerRule>,
    counter: IssueCounter,
    removed: Option<u64>,
}

impl IssueOutcome {
    /// What the number of issues is now.
    pub fn counter(&self) -> IssueCounter {
        self.counter
    }

    /// The issue that made way for a new one.
    pub fn removed(&self) -> Option<u64> {
        self.removed
    }

    /// The changes of state, in their order.
    pub fn changes(&self) -> Result<Vec<Change>, IssueRefusal> {
        let key = |text: &str| Key::parse(text).map_err(|why| IssueRefusal::Kept(why.to_string()));
        let kept = |why: serde_json::Error| IssueRefusal::Kept(why.to_string());
        let put = |key: Key, value: serde_json::Value| Change::Put { key, value, v: 1 };
        let part = |id: u64| format!("{ISSUE_FAMILY}:{id}");
        let counter = serde_json::to_value(self.counter).map_err(kept)?;
        let issue = serde_json::to_value(&self.issue).map_err(kept)?;
        let mut changes = vec![put(key(ISSUES)?, counter), put(key(&part(self.issue.id))?, issue)];
        if let Some(removed) = self.removed {
            changes.push(Change::Remove { key: key(&part(removed))? });
        }
        Ok(changes)
    }

    /// What a person's act is written down as.
    pub fn event(&self, reason: &str) -> Result<ProjectEvent, IssueRefusal> {
        let (changes, reason) = (self.changes()?, reason.to_owned());
        Ok(ProjectEvent::ProjectChanged { changes, session: None, call: None, reason })
    }
}

/// Why nothing becomes of an act.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IssueRefusal {
    /// Nobody opened it.
    #[error("there is no issue {0}")]
    Missing(u64),
    /// A text is empty or too long.
    #[error("{field} has {chars} characters; it must have 1 to {max}")]
    Length {
        /// The field.
        field: &'static str,
        /// How many there are.
        chars: usize,
        /// How many there may be.
        max: usize,
    },
    /// A field of one line has several, or characters that are not seen.
    #[error("{0} must be one line of visible characters")]
    Line(&'static str),
    /// There are too many tags.
    #[error("{field} has {count} entries; at most {TAGS_MAX} are kept")]
    Tags {
        /// The field.
        field: &'static str,
        /// How many there are.
        count: usize,
    },
    /// It is no interest.
    #[error("interest is 1 to 5, or 0 to take it away")]
    Interest,
    /// Nothing is to be changed.
    #[error("name tags, personal_tags or interest")]
    NoTags,
    /// The title is one of a proposal.
    #[error("titles that begin with {0} belong to proposals; a proposal opens its issue itself")]
    ProposalTitle(&'static str),
    /// The issue belongs to a proposal.
    #[error("issue {0} belongs to a proposal and moves with it alone; comment on it instead")]
    Proposal(u64),
    /// It belongs to no proposal.
    #[error("issue {0} belongs to no proposal")]
    NoProposal(u64),
    /// Another one opened it.
    #[error("issue {id} was opened by {opened_by}; agents close and reopen only their own")]
    NotOwn {
        /// The issue.
        id: u64,
        /// Who opened it.
        opened_by: String,
    },
    /// It is closed.
    #[error("issue {0} is closed; open it again first")]
    Closed(u64),
    /// It is not closed.
    #[error("issue {0} is not closed")]
    NotClosed(u64),
    /// It was closed too soon.
    #[error("issue {id} has {comments} comments; an agent closes one after {min} at least")]
    CloseTooSoon {
        /// The issue.
        id: u64,
        /// How many it has.
        comments: usize,
        /// How many it needs.
        min: usize,
    },
    /// Agents may not comment for now.
    #[error("issue {id} is frozen for agents until {until}; a person may comment")]
    Frozen {
        /// The issue.
        id: u64,
        /// Until when.
        until: Timestamp,
    },
    /// A comment says too little.
    #[error("the comment has {chars} characters; an agent writes at least {min}")]
    CommentShort {
        /// How many it has.
        chars: usize,
        /// How many it needs.
        min: usize,
    },
    /// A comment repeats itself.
    #[error("the comment has {words} different words; an agent writes at least {min}")]
    FewWords {
        /// How many it has.
        words: usize,
        /// How many it needs.
        min: usize,
    },
    /// A comment has no evidence.
    #[error(
        "a comment of structural or canon-changing impact needs evidence: source, line and quote"
    )]
    EvidenceMissing,
    /// There is no room.
    #[error("{0}")]
    Full(String),
    /// An issue cannot be read.
    #[error(transparent)]
    Broken(#[from] IssueError),
    /// It cannot be kept.
    #[error("the issue cannot be kept: {0}")]
    Kept(String),
}

impl IssueRefusal {
    /// The rule that was broken, as one word.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::Missing(_) => "missing",
            Self::Length { .. } => "length",
            Self::Line(_) => "line",
            Self::Tags { .. } | Self::NoTags => "tags",
            Self::Interest => "interest",
            Self::ProposalTitle(_) => "proposal_title",
            Self::Proposal(_) | Self::NoProposal(_) => "proposal",
            Self::NotOwn { .. } => "not_own",
            Self::Closed(_) => "closed",
            Self::NotClosed(_) => "not_closed",
            Self::CloseTooSoon { .. } => "comments_before_close",
            Self::Frozen { .. } => "frozen",
            Self::CommentShort { .. } => "comment_chars",
            Self::FewWords { .. } => "comment_words",
            Self::EvidenceMissing => "evidence",
            Self::Full(_) => "full",
            Self::Broken(_) | Self::Kept(_) => "broken",
        }
    }

    /// The argument that is wrong, where one is.
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Self::Missing(_) | Self::NotClosed(_) | Self::Closed(_) => Some("id"),
            Self::Length { field, .. } | Self::Tags { field, .. } | Self::Line(field) => {
                Some(*field)
            }
            Self::Interest => Some("interest"),
            Self::ProposalTitle(_) => Some("title"),
            Self::CommentShort { .. } | Self::FewWords { .. } => Some("body"),
            Self::EvidenceMissing => Some("evidence"),
            Self::NoTags
            | Self::Proposal(_)
            | Self::NoProposal(_)
            | Self::NotOwn { .. }
            | Self::CloseTooSoon { .. }
            | Self::Frozen { .. }
            | Self::Full(_)
            | Self::Broken(_)
            | Self::Kept(_) => None,
        }
    }
}

/// What becomes of an act, in this state and at this moment.
pub fn decide_issue(
    state: &State,
    rules: &IssueRules,
    author: &IssueAuthor,
    now: Timestamp,
    act: &IssueAct,
) -> Result<IssueOutcome, IssueRefusal> {
    let issues = all_issues(state)?;
    let counter = counter(state)?;
    let find = |id: u64| {
        issues.iter().find(|issue| issue.id == id).cloned().ok_or(IssueRefusal::Missing(id))
    };
    let mut frozen = None;
    let (mut issue, last, removed) = match act {
        IssueAct::Open(new) => {
            let last = counter.last.saturating_add(1);
            let (issue, removed) = (opened(new, last, author, now)?, make_room(&issues)?);
            (issue, last, removed)
        }
        IssueAct::Reopen(id) => (reopened(find(*id)?, author)?, counter.last, None),
        IssueAct::Comment(id, comment) => {
            let (issue, tripped) = commented(find(*id)?, rules, author, now, comment)?;
            frozen = tripped;
            (issue, counter.last, None)
        }
        IssueAct::Tag(id, tags) => (tagged(find(*id)?, author, tags)?, counter.last, None),
        IssueAct::Assign(id, to) => (assigned(find(*id)?, to.as_deref())?, counter.last, None),
        IssueAct::Close(id) => (closed(find(*id)?, rules, author, now)?, counter.last, None),
    };
    issue.updated_at = now;
    let counter = IssueCounter { last, changes: counter.changes.saturating_add(1) };
    Ok(IssueOutcome { issue, frozen, counter, removed })
}

/// An issue that a proposal opens, and with which alone it moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposalIssue {
    /// The proposal.
    pub proposal: String,
    /// The whole title, which begins like one of [`PROPOSAL_TITLES`].
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

fn counter(state: &State) -> Result<IssueCounter, IssueRefusal> {
    let key = Key::parse(ISSUES).map_err(|why| IssueRefusal::Kept(why.to_string()))?;
    let Some(slot) = state.get(&key) else { return Ok(IssueCounter::default()) };
    serde_json::from_value(slot.value()).map_err(|why| IssueRefusal::Kept(why.to_string()))
}

fn opened(
    new: &NewIssue,
    id: u64,
    author: &IssueAuthor,
    now: Timestamp,
) -> Result<Issue, IssueRefusal> {
    let title = line("title", &new.title, TITLE_CHARS_MAX)?;
    let skeleton = name_skeleton(&title);
    let reserved = PROPOSAL_TITLES.iter().find(|start| skeleton.starts_with(&name_skeleton(start)));
    if let Some(start) = reserved {
        return Err(IssueRefusal::ProposalTitle(start));
    }
    let chars = new.body.chars().count();
    if chars > BODY_CHARS_MAX {
        return Err(IssueRefusal::Length { field: "body", chars, max: BODY_CHARS_MAX });
    }
    let issue = Issue {
        body: new.body.clone(),
        tags: tags("tags", &new.tags)?,
        priority: new.priority,
        ..blank(id, title, author, now)
    };
    match &new.assigned_to {
        Some(to) => assigned(issue, Some(to)),
        None => Ok(issue),
    }
}

/// An open issue of which nothing but the title is said.
fn blank(id: u64, title: String, author: &IssueAuthor, now: Timestamp) -> Issue {
    Issue {
        id,
        title,
        body: String::new(),
        opened_by: author.label(),
        assigned_to: None,
        tags: Vec::new(),
        priority: IssuePriority::default(),
        status: IssueStatus::Open,
        comments: Vec::new(),
        personal: BTreeMap::new(),
        created_at: now,
        updated_at: now,
        closed_at: None,
        frozen_until: None,
        proposal: None,
    }
}

/// The issue that was closed first, when there is no room for another.
fn make_room(issues: &[Issue]) -> Result<Option<u64>, IssueRefusal> {
    if issues.len() < ISSUES_MAX {
        return Ok(None);
    }
    let closed = issues.iter().filter(|issue| issue.status == IssueStatus::Closed);
    let first = closed.min_by_key(|issue| (issue.closed_at, issue.id)).map(|issue| issue.id);
    let full = || IssueRefusal::Full(format!("{ISSUES_MAX} issues are open; close some first"));
    first.map(Some).ok_or_else(full)
}

fn reopened(mut issue: Issue, author: &IssueAuthor) -> Result<Issue, IssueRefusal> {
    moves_freely(&issue)?;
    is_own(&issue, author)?;
    if issue.status != IssueStatus::Closed {
        return Err(IssueRefusal::NotClosed(issue.id));
    }
    (issue.status, issue.closed_at) = (IssueStatus::Open, None);
    Ok(issue)
}

fn commented(
    mut issue: Issue,
    rules: &IssueRules,
    author: &IssueAuthor,
    now: Timestamp,
    new: &NewComment,
) -> Result<(Issue, Option<BreakerRule>), IssueRefusal> {
    let one_line = |field: &'static str, text: &Option<String>| {
        text.as_deref().map(|text| line(field, text, LINE_CHARS_MAX)).transpose()
    };
    let chars = new.body.trim().chars().count();
    if chars == 0 || chars > BODY_CHARS_MAX {
        return Err(IssueRefusal::Length { field: "body", chars, max: BODY_CHARS_MAX });
    }
    let comment = IssueComment {
        author: author.label(),
        body: new.body.trim().to_owned(),
        action: one_line("comment_action", &new.action)?,
        impact_level: new.impact_level,
        evidence: new.evidence.as_deref().map(evidence).transpose()?,
        created_at: now,
    };
    if let IssueAuthor::Agent(id) = author {
        if issue.status == IssueStatus::Closed {
            return Err(IssueRefusal::Closed(issue.id));
        }
        rules.check_comment(&issue, new, now)?;
        if let Some(rule) = rules.tripped(&issue, id, &new.body) {
            issue.frozen_until = Some(now.plus_ms(FROZEN_MS));
            return Ok((issue, Some(rule)));
        }
    }
    if issue.comments.len() >= COMMENTS_MAX {
        let full = format!("issue {} has {COMMENTS_MAX} comments; open another one", issue.id);
        return Err(IssueRefusal::Full(full));
    }
    issue.comments.push(comment);
    // What waited for a person has a person's word.
    let is_answered = matches!(author, IssueAuthor::Person(_)) && issue.proposal.is_none();
    if is_answered && issue.status == IssueStatus::WaitingOnUser {
        issue.status = IssueStatus::Open;
    }
    Ok((issue, None))
}

fn evidence(text: &str) -> Result<String, IssueRefusal> {
    const EVIDENCE_CHARS_MAX: usize = 2_000;
    let chars = text.trim().chars().count();
    match chars {
        1..=EVIDENCE_CHARS_MAX => Ok(text.trim().to_owned()),
        _ => Err(IssueRefusal::Length { field: "evidence", chars, max: EVIDENCE_CHARS_MAX }),
    }
}

fn tagged(mut issue: Issue, author: &IssueAuthor, new: &NewTags) -> Result<Issue, IssueRefusal> {
    let NewTags { tags: shared, personal_tags, interest } = new;
    if shared.is_none() && personal_tags.is_none() && interest.is_none() {
        return Err(IssueRefusal::NoTags);
    }
    if let Some(shared) = shared {
        issue.tags = tags("tags", shared)?;
    }
    if personal_tags.is_some() || interest.is_some() {
        let own = issue.personal.entry(author.label()).or_default();
        if let Some(personal) = personal_tags {
            own.tags = tags("personal_tags", personal)?;
        }
        match interest {
            None => {}
            Some(0) => own.interest = None,
            Some(level @ 1..=5) => own.interest = Some(*level),
            Some(_) => return Err(IssueRefusal::Interest),
        }
        if own.tags.is_empty() && own.interest.is_none() {
            issue.personal.remove(&author.label());
        }
    }
    Ok(issue)
}

fn assigned(mut issue: Issue, to: Option<&str>) -> Result<Issue, IssueRefusal> {
    moves_freely(&issue)?;
    if issue.status == IssueStatus::Closed {
        return Err(IssueRefusal::Closed(issue.id));
    }
    let to = to.filter(|to| !to.trim().is_empty());
    let to = to.map(|to| line("assigned_to", to, LINE_CHARS_MAX)).transpose()?;
    let waits = to.as_deref().is_some_and(|to| to.eq_ignore_ascii_case(USER));
    issue.status = if waits { IssueStatus::WaitingOnUser } else { IssueStatus::Open };
    issue.assigned_to = to;
    Ok(issue)
}

fn closed(
    mut issue: Issue,
    rules: &IssueRules,
    author: &IssueAuthor,
    now: Timestamp,
) -> Result<Issue, IssueRefusal> {
    moves_freely(&issue)?;
    is_own(&issue, author)?;
    if issue.status == IssueStatus::Closed {
        return Err(IssueRefusal::Closed(issue.id));
    }
    let (comments, min) = (issue.comments.len(), rules.comments_before_close_min);
    if matches!(author, IssueAuthor::Agent(_)) && comments < min {
        return Err(IssueRefusal::CloseTooSoon { id: issue.id, comments, min });
    }
    (issue.status, issue.closed_at) = (IssueStatus::Closed, Some(now));
    Ok(issue)
}

fn moves_freely(issue: &Issue) -> Result<(), IssueRefusal> {
    match issue.is_of_a_proposal() {
        false => Ok(()),
        true => Err(IssueRefusal::Proposal(issue.id)),
    }
}

fn is_own(issue: &Issue, author: &IssueAuthor) -> Result<(), IssueRefusal> {
    let (id, opened_by) = (issue.id, issue.opened_by.clone());
    match author {
        IssueAuthor::Agent(agent) if *agent != opened_by => {
            Err(IssueRefusal::NotOwn { id, opened_by })
        }
        IssueAuthor::Agent(_) | IssueAuthor::Person(_) => Ok(()),
    }
}

/// A text of one line, without the space around it.
fn line(field: &'static str, text: &str, max: usize) -> Result<String, IssueRefusal> {
    let text = text.trim();
    let chars = text.chars().count();
    if chars == 0 || chars > max {
        return Err(IssueRefusal::Length { field, chars, max });
    }
    if is_unseen(text) || text.chars().any(char::is_control) {
        return Err(IssueRefusal::Line(field));
    }
    Ok(text.to_owned())
}

/// Tags as they are kept: trimmed, each once.
fn tags(field: &'static str, given: &[String]) -> Result<Vec<String>, IssueRefusal> {
    let mut tags: Vec<String> = Vec::new();
    for tag in given {
        let tag = line(field, tag, TAG_CHARS_MAX)?;
        if !tags.iter().any(|own| own.to_lowercase() == tag.to_lowercase()) {
            tags.push(tag);
        }
    }
    if tags.len() > TAGS_MAX {
        return Err(IssueRefusal::Tags { field, count: tags.len() });
    }
    Ok(tags)
}
