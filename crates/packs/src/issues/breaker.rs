//! Keeps agents from talking an issue to death: what a comment of theirs must have, and when an
//! issue is frozen for them. People are not held to any of it.

use std::fmt;

use serde::Serialize;
use toolgate_kernel::config::IssuesConfig;
use toolgate_kernel::time::Timestamp;

use crate::core_tools::token_words;

use super::{ImpactLevel, Issue, IssueComment, IssueRefusal, NewComment};

/// How long an issue stays frozen.
pub const FROZEN_MS: u64 = 30 * 60_000;

/// The bounds of comments that agents write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueRules {
    /// Comments of one agent in a row of comments without a person's.
    pub comments_per_agent_max: usize,
    /// Comments of all agents in such a row.
    pub comments_max: usize,
    /// Answers of two agents to each other, one after the other.
    pub exchanges_max: usize,
    /// Escalation words in one comment.
    pub escalation_words_max: usize,
    /// The words that escalate, in lower case.
    pub escalation_words: Vec<String>,
    /// Characters of a comment.
    pub chars_min: usize,
    /// Different words of a comment.
    pub words_min: usize,
    /// Comments of an issue before an agent closes it.
    pub comments_before_close_min: usize,
    /// From which impact on a comment needs evidence.
    pub evidence_from: ImpactLevel,
}

impl Default for IssueRules {
    fn default() -> Self {
        Self::from(&IssuesConfig::default())
    }
}

impl From<&IssuesConfig> for IssueRules {
    fn from(config: &IssuesConfig) -> Self {
        let words = config.escalation_words.iter().flat_map(|word| token_words(word));
        Self {
            comments_per_agent_max: 2,
            comments_max: 10,
            exchanges_max: 2,
            escalation_words_max: usize::try_from(config.escalation_words_max)
                .unwrap_or(usize::MAX),
            escalation_words: words.collect(),
            chars_min: 150,
            words_min: 20,
            comments_before_close_min: 3,
            evidence_from: ImpactLevel::Structural,
        }
    }
}

/// What froze an issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerRule {
    /// One agent said enough.
    CommentsPerAgent,
    /// All agents together did.
    Comments,
    /// Two agents only answer each other.
    Exchanges,
    /// A comment shouts.
    EscalationWords,
}

impl fmt::Display for BreakerRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CommentsPerAgent => "this agent has said enough here for now",
            Self::Comments => "agents have said enough here for now",
            Self::Exchanges => "two agents only answer each other",
            Self::EscalationWords => "the comment has too many words that escalate",
        })
    }
}

impl IssueRules {
    /// Refuses a comment that an agent may not write at all. Nothing is frozen by it.
    pub(super) fn check_comment(
        &self,
        issue: &Issue,
        comment: &NewComment,
        now: Timestamp,
    ) -> Result<(), IssueRefusal> {
        if let Some(until) = issue.frozen_until.filter(|until| now < *until) {
            return Err(IssueRefusal::Frozen { id: issue.id, until });
        }
        let chars = comment.body.trim().chars().count();
        if chars < self.chars_min {
            return Err(IssueRefusal::CommentShort { chars, min: self.chars_min });
        }
        let mut words = token_words(&comment.body);
        words.sort_unstable();
        words.dedup();
        if words.len() < self.words_min {
            return Err(IssueRefusal::FewWords { words: words.len(), min: self.words_min });
        }
        let needs = comment.impact_level.filter(|impact| *impact >= self.evidence_from);
        match needs {
            Some(_) if comment.evidence.is_none() => Err(IssueRefusal::EvidenceMissing),
            _ => Ok(()),
        }
    }

    /// Whether a comment of an agent freezes the issue, and why.
    pub(super) fn tripped(&self, issue: &Issue, author: &str, body: &str) -> Option<BreakerRule> {
        let recent = recent(issue);
        let own = recent.iter().filter(|comment| comment.author == author).count();
        if own >= self.comments_per_agent_max {
            return Some(BreakerRule::CommentsPerAgent);
        }
        if recent.len() >= self.comments_max {
            return Some(BreakerRule::Comments);
        }
        if exchanges(&recent, author) > self.exchanges_max {
            return Some(BreakerRule::Exchanges);
        }
        let shouts = token_words(body).into_iter();
        let shouts = shouts.filter(|word| self.escalation_words.contains(word)).count();
        (shouts > self.escalation_words_max).then_some(BreakerRule::EscalationWords)
    }
}

/// The comments of agents since a person wrote one, or since the issue was last frozen.
fn recent(issue: &Issue) -> Vec<&IssueComment> {
    let since = issue.frozen_until;
    let of_agents = issue.comments.iter().rev().take_while(|comment| !comment.is_a_persons());
    let mut recent: Vec<&IssueComment> =
        of_agents.filter(|comment| since.is_none_or(|since| comment.created_at >= since)).collect();
    recent.reverse();
    recent
}

/// How often two agents, and only they, answered each other at the end, the new comment included.
fn exchanges(recent: &[&IssueComment], author: &str) -> usize {
    let authors = recent.iter().map(|comment| comment.author.as_str()).chain([author]);
    let mut authors: Vec<&str> = authors.collect();
    authors.reverse();
    let other = authors.iter().find(|name| **name != author);
    let pair = authors.iter().take_while(|name| **name == author || Some(*name) == other);
    let pair: Vec<&&str> = pair.collect();
    pair.iter().zip(pair.iter().skip(1)).filter(|(one, next)| one != next).count()
}
