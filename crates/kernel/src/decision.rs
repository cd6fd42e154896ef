//! What a person signs: one statement for each decision, and which records count only with one.
//!
//! Signing and checking are done where there is cryptography; this says what is signed.

mod decided;

pub use decided::Decided;

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::credential::{PersonKey, Signature};
use crate::digest::{Digest, hex, unhex};
use crate::event::{Answer, ProposalRuling, StreamId};
use crate::json::canonical;
use crate::names::{CallId, Family, PolicyName, SessionId, ToolName, ToolPattern};
use crate::pin::Ruling;
use crate::time::Timestamp;
use crate::tree::{LogId, TreeHead};

/// What the signed bytes begin with, so that they are worth nothing anywhere else.
const PREFIX: &[u8] = b"toolgate decision 1\n";

/// Families that no file shows and no tool writes: only a person's signed decision changes them.
pub const SIGNED_FAMILIES: &[&str] =
    &["facts", "locks", "prompt_tool", "prompt_tool_history", "prompt_tool_accepted"];

/// Those of them that only an owner changes: what stands in the catalogue is told to every model.
pub const OWNER_FAMILIES: &[&str] = &["prompt_tool", "prompt_tool_history", "prompt_tool_accepted"];

/// Families of what people say, as they say words to a session: no key is asked for, and nothing rests
/// on it (ADR 0037).
pub const SPOKEN_FAMILIES: &[&str] = &["issue", "issues"];

/// What a person may do in a project. Each role may do what the ones before it may.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Starts, resumes, pauses, stops and forks sessions, and talks to them.
    Runner,
    /// Answers questions; decides about facts, locks, tool definitions and undo.
    Approver,
    /// Enrols and revokes people, trusts configurations, delegates, accepts a restored log.
    Owner,
}

impl Role {
    /// The role as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Runner => "runner",
            Self::Approver => "approver",
            Self::Owner => "owner",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Sixteen random bytes that make each statement a different one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Nonce(pub [u8; 16]);

/// A text that is no nonce.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a nonce has 32 characters from 0-9 and a-f")]
pub struct NonceRefusal;

impl TryFrom<String> for Nonce {
    type Error = NonceRefusal;
    fn try_from(text: String) -> Result<Self, NonceRefusal> {
        unhex(&text).map(Self).ok_or(NonceRefusal)
    }
}

impl Serialize for Nonce {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = [0; 32];
        hex(&self.0, &mut text);
        serializer.serialize_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

/// What a person signs. It is bound to a log and to what was shown, and to no place in the log, so
/// that it can be signed elsewhere and need not be signed again when others write at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DecisionStatement {
    /// The log it is for.
    #[schemars(with = "String")]
    pub log: LogId,
    /// A moment of that log which the signing process had checked. Nothing before it can be changed
    /// without this signature telling. Absent where a log has no signed heads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub head: Option<TreeHead>,
    /// Whose key signs.
    pub by: PersonKey,
    /// The role they decide in.
    pub role: Role,
    /// When it was signed.
    pub at: Timestamp,
    /// When it can no longer be used.
    pub expires: Timestamp,
    /// Makes it a different one from every other.
    #[schemars(with = "String")]
    pub nonce: Nonce,
    /// Digest of the exact lines that the person was shown.
    pub shown: Digest,
    /// What is decided.
    pub what: DecisionKind,
}

impl DecisionStatement {
    /// The bytes that are signed.
    pub fn signed_bytes(&self) -> Vec<u8> {
        let mut bytes = PREFIX.to_vec();
        let value = serde_json::to_value(self).unwrap_or_default();
        bytes.extend_from_slice(&canonical(&value));
        bytes
    }

    /// What tells it from every other statement.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.signed_bytes())
    }
}

/// A statement with its signature. It stands once in a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SignedDecision {
    /// What was signed.
    pub statement: DecisionStatement,
    /// The signature of the key that the statement names.
    pub signature: Signature,
}

/// Where a signed decision stands in a log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct DecisionRef {
    /// The stream.
    #[schemars(with = "String")]
    pub stream: StreamId,
    /// The record.
    pub seq: u64,
    /// Chain hash up to and with it.
    pub hash: Digest,
}

impl fmt::Display for DecisionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.stream, self.seq)
    }
}

/// Calls that one allowance, or answers that one delegation, is for at most.
pub const USES_MAX: u64 = 1_000;

/// Milliseconds that an allowance or a delegation lasts at most: 30 days.
pub const TERM_MS_MAX: u64 = 30 * 24 * 3_600_000;

/// How long an allowance lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllowanceTerms {
    /// When it ends.
    pub until: Timestamp,
    /// How many calls it is for.
    pub uses_max: u64,
}

impl AllowanceTerms {
    /// Eight hours and a hundred calls.
    pub fn default_from(now: Timestamp) -> Self {
        Self { until: now.plus_ms(8 * 3_600_000), uses_max: 100 }
    }
}

/// What is decided. `content` is the digest of the event that carries the decision: what happened, and
/// not its place, its time or its author.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DecisionKind {
    /// The first person of a log makes their own key known.
    Bootstrap {
        /// The key, which must be the one that signs.
        key: PersonKey,
        /// The person's label.
        name: String,
    },
    /// Another person's key is made known, or gets another role.
    Enrol {
        /// The key.
        key: PersonKey,
        /// The person's label.
        name: String,
        /// What they may do.
        role: Role,
        /// The tools they may answer about; empty means all.
        tools: Vec<ToolPattern>,
    },
    /// A key counts no more.
    Revoke {
        /// The key.
        key: PersonKey,
        /// Covers the reason.
        content: Digest,
    },
    /// A configuration may start programs, follow references and connect.
    Trust {
        /// What it reaches.
        reach: Digest,
        /// What it allows.
        gate: Digest,
        /// Its text without secrets, with which a later one is compared.
        text: Digest,
    },
    /// The user of a client may answer some questions for a while.
    Delegate {
        /// The client.
        client: String,
        /// The tools.
        tools: Vec<ToolPattern>,
        /// Until when.
        until: Timestamp,
        /// How many answers.
        answers_max: u64,
    },
    /// A delegation is taken back.
    EndDelegation {
        /// Where it stands in the project stream.
        delegation: u64,
    },
    /// An older state of the log is gone on from; the commits after it are lost.
    Restore {
        /// The newest head that was known.
        #[schemars(with = "serde_json::Value")]
        seen: TreeHead,
        /// The head that is gone on from.
        #[schemars(with = "serde_json::Value")]
        now: TreeHead,
    },
    /// A call is approved, approved with other arguments, or denied.
    Answer {
        /// The session.
        session: SessionId,
        /// The call.
        call: CallId,
        /// The tool.
        tool: ToolName,
        /// What the question stood on, and the arguments.
        question: Digest,
        /// Hash of the arguments that it is for: those of the question, or the person's own.
        args_hash: Digest,
        /// The answer.
        answer: Answer,
        /// Whether the person changed the arguments.
        edited: bool,
        /// Whether later calls need no answer, and for how long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allow: Option<AllowanceTerms>,
        /// Arguments whose values the person typed.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        confirmed: BTreeSet<String>,
        /// Covers arguments and note.
        content: Digest,
    },
    /// What was allowed for later calls is asked about again.
    Withdraw {
        /// The session.
        session: SessionId,
        /// The tool.
        tool: ToolName,
        /// The policy.
        policy: PolicyName,
    },
    /// What a session read is no longer taken for a danger.
    Clear {
        /// The session.
        session: SessionId,
        /// Covers the reason.
        content: Digest,
    },
    /// What families of state hold is no longer taken for untrusted content.
    ClearFamilies {
        /// The families.
        families: Vec<Family>,
        /// Covers the reason.
        content: Digest,
    },
    /// The definition of a tool of an MCP server is accepted or rejected.
    Pin {
        /// The tool.
        tool: ToolName,
        /// Fingerprint of the definition.
        definition: Digest,
        /// What was decided.
        ruling: Ruling,
    },
    /// State is changed outside a call: facts, locks and everything else.
    State {
        /// The session whose state it is; absent for the project's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
        /// The families that are changed.
        families: Vec<Family>,
        /// Covers the changes.
        content: Digest,
    },
    /// Calls are undone.
    Undo {
        /// The session.
        session: SessionId,
        /// The calls.
        calls: Vec<CallId>,
        /// Covers what is put back.
        content: Digest,
    },
    /// A proposal for the catalogue is approved, sent back or rejected.
    Decide {
        /// The proposal.
        proposal: u64,
        /// The revision that was shown.
        revision: u64,
        /// Digest of that revision.
        digest: Digest,
        /// The word on it.
        ruling: ProposalRuling,
        /// Covers the changes and the note.
        content: Digest,
    },
    /// An entry of the user's own prompt file is used in this project.
    AcceptPrompt {
        /// Its id.
        id: String,
        /// Digest of its fields.
        digest: Digest,
        /// Covers the changes.
        content: Digest,
    },
    /// An earlier version of a prompt tool is made its newest one.
    RollBackPrompt {
        /// The tool.
        id: String,
        /// The version.
        version: u64,
        /// Digest of its fields.
        digest: Digest,
        /// Covers the changes.
        content: Digest,
    },
}

impl DecisionKind {
    /// Whether what it allows for later ends soon enough, when it is signed at this time.
    pub fn is_bounded(&self, at: Timestamp) -> bool {
        let (until, uses_max) = match self {
            Self::Answer { allow: Some(terms), .. } => (terms.until, terms.uses_max),
            Self::Delegate { until, answers_max, .. } => (*until, *answers_max),
            Self::Bootstrap { .. }
            | Self::Enrol { .. }
            | Self::Revoke { .. }
            | Self::Trust { .. }
            | Self::EndDelegation { .. }
            | Self::Restore { .. }
            | Self::Answer { allow: None, .. }
            | Self::Withdraw { .. }
            | Self::Clear { .. }
            | Self::ClearFamilies { .. }
            | Self::Pin { .. }
            | Self::State { .. }
            | Self::Undo { .. }
            | Self::Decide { .. }
            | Self::AcceptPrompt { .. }
            | Self::RollBackPrompt { .. } => return true,
        };
        until <= at.plus_ms(TERM_MS_MAX) && uses_max <= USES_MAX
    }

    /// The role that it takes.
    pub fn role_needed(&self) -> Role {
        match self {
            Self::Bootstrap { .. }
            | Self::Enrol { .. }
            | Self::Revoke { .. }
            | Self::Trust { .. }
            | Self::Delegate { .. }
            | Self::Restore { .. }
            | Self::Decide { .. }
            | Self::AcceptPrompt { .. }
            | Self::RollBackPrompt { .. } => Role::Owner,
            Self::State { families, .. } if families.iter().any(is_owners) => Role::Owner,
            Self::EndDelegation { .. }
            | Self::Answer { .. }
            | Self::Withdraw { .. }
            | Self::Clear { .. }
            | Self::ClearFamilies { .. }
            | Self::Pin { .. }
            | Self::State { .. }
            | Self::Undo { .. } => Role::Approver,
        }
    }

    /// Whether it only takes away what is allowed. Such a decision harms nothing when it counts again.
    pub fn only_restricts(&self) -> bool {
        match self {
            Self::Revoke { .. }
            | Self::EndDelegation { .. }
            | Self::Withdraw { .. }
            | Self::Pin { ruling: Ruling::Rejected, .. }
            | Self::Answer { answer: Answer::Deny, .. } => true,
            Self::Bootstrap { .. }
            | Self::Enrol { .. }
            | Self::Trust { .. }
            | Self::Delegate { .. }
            | Self::Restore { .. }
            | Self::Decide { .. }
            | Self::AcceptPrompt { .. }
            | Self::RollBackPrompt { .. }
            | Self::Answer { .. }
            | Self::Clear { .. }
            | Self::ClearFamilies { .. }
            | Self::Pin { .. }
            | Self::State { .. }
            | Self::Undo { .. } => false,
        }
    }

    /// Whether a person who is limited to these tools may decide it; none means no limit. What is about
    /// no single tool reaches beyond every limit.
    pub fn is_within(&self, tools: &[ToolPattern]) -> bool {
        if tools.is_empty() {
            return true;
        }
        match (self, self.tool()) {
            // The first person has no limit, and what takes a permission back needs none.
            (Self::Bootstrap { .. } | Self::EndDelegation { .. }, _) => true,
            (_, Some(tool)) => tools.iter().any(|pattern| pattern.fits(tool)),
            (_, None) => false,
        }
    }

    /// The tool it is about, where it is about one.
    pub fn tool(&self) -> Option<&ToolName> {
        match self {
            Self::Answer { tool, .. } | Self::Withdraw { tool, .. } | Self::Pin { tool, .. } => {
                Some(tool)
            }
            Self::Bootstrap { .. }
            | Self::Enrol { .. }
            | Self::Revoke { .. }
            | Self::Trust { .. }
            | Self::Delegate { .. }
            | Self::EndDelegation { .. }
            | Self::Restore { .. }
            | Self::Clear { .. }
            | Self::ClearFamilies { .. }
            | Self::State { .. }
            | Self::Undo { .. }
            | Self::Decide { .. }
            | Self::AcceptPrompt { .. }
            | Self::RollBackPrompt { .. } => None,
        }
    }
}

fn is_owners(family: &Family) -> bool {
    OWNER_FAMILIES.contains(&family.as_str())
}
