//! Says why nothing becomes of an act on an issue, by rule and by argument.

use toolgate_kernel::time::Timestamp;

use super::IssueError;
use super::act::TAGS_MAX;

/// Why nothing becomes of an act.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IssueRefusal {
    /// No issue has this number.
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
