//! Decides what the log says of one call: as received, admitted, refused, settled.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Change, Image, Usage};
use crate::decision::DecisionRef;
use crate::digest::{Digest, Tag};
use crate::envelope::Envelope;
use crate::flow::CallLabels;
use crate::key::Touched;
use crate::names::{CallId, PolicyName, ToolName};
use crate::tool::Effect;

/// What somebody wrote; untrusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RawCall {
    /// Our own id.
    pub id: CallId,
    /// The name as written.
    pub name: String,
    /// The arguments as written.
    pub args: String,
    /// The id the provider or client gave; blanks and duplicates are harmless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
}

/// A call that passed the gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallAdmitted {
    /// The call.
    pub call: CallId,
    /// The tool it resolved to.
    pub tool: ToolName,
    /// The tool's version; the bound configuration vouches for it in full.
    pub version: Tag,
    /// What resume may do with it.
    pub effect: Effect,
    /// The arguments after aliases and coercions, where they differ from what was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// Hash of the arguments in canonical form.
    pub args_hash: Digest,
    /// What it was admitted on.
    #[serde(default, skip_serializing_if = "Basis::is_rules")]
    pub basis: Basis,
    /// What a person's yes is bound to beside the arguments, where it rests on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<Digest>,
    /// What it touches, with the versions that were judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touches: Vec<Touched>,
    /// What was ignored or repaired on the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What it brings into the session and where it sends, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Box<CallLabels>>,
}

/// What an admission rests on. Everything but the rules is a person's signed decision, and counts only
/// where that decision is found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The rules let it through.
    #[default]
    Rules,
    /// A person's answer to this very question.
    Answer(DecisionRef),
    /// The answers of several people to this very question.
    Answers(Vec<DecisionRef>),
    /// A person's answer to an earlier question of the same kind, which allowed later calls.
    Allowance(DecisionRef),
    /// The answer of a client's user, within a delegation.
    Delegation {
        /// Where the delegation was signed, in the project.
        delegation: u64,
        /// Where the answer stands.
        answer: DecisionRef,
    },
}

impl Basis {
    /// Whether no person's decision was needed.
    pub fn is_rules(&self) -> bool {
        *self == Self::Rules
    }

    /// Whether it rests on an answer to the question about this very call.
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::Answer(_) | Self::Answers(_) | Self::Delegation { .. })
    }
}

/// Where on its path a call was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Size and JSON.
    Parse,
    /// Name and visibility.
    Resolve,
    /// Types.
    Validate,
    /// Policies.
    Judge,
    /// A person's answer.
    Answer,
}

/// Why a policy's word was no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DenialKind {
    /// The phase does not grant the tool.
    NotVisibleInPhase,
    /// The policy looked and said no.
    RuleDenied,
    /// The policy could not answer.
    PolicyError,
}

/// Who said no, and in which way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Denial {
    /// The policy.
    pub policy: PolicyName,
    /// The way.
    pub kind: DenialKind,
}

/// A call that was refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallRefused {
    /// The call.
    pub call: CallId,
    /// Where.
    pub stage: Stage,
    /// The policy that said no, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denial: Option<Denial>,
    /// What the caller is told.
    pub envelope: Arc<Envelope>,
}

/// How a call came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It did what it should.
    Done,
    /// It did not, and left nothing behind.
    Failed,
    /// It reached the world and its answer is lost.
    Unknown,
}

impl Outcome {
    /// The outcome as one word, as the log has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// A result that was too long for the model, kept aside by its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kept {
    /// The hash it is kept under.
    pub hash: Digest,
    /// How long it is.
    pub bytes: u64,
}

/// What came with a result and is no data: a picture, a sound, a file, a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attached {
    /// What it is, as its sender says: `image`, `audio`, `resource` or `resource_link`.
    pub kind: String,
    /// Of which kind its bytes are, such as `image/png`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The hash of its bytes.
    pub hash: Digest,
    /// How many bytes it has.
    pub bytes: u64,
    /// Whether the model is shown it; only then are its bytes kept, under their hash.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shown: bool,
}

impl Attached {
    /// The picture that the model is shown, where it is one.
    pub fn image(&self) -> Option<Image> {
        let media_type = self.media_type.clone().filter(|_| self.shown)?;
        Some(Image { media_type, hash: self.hash })
    }
}

/// One file a call changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    /// The file, relative to the project.
    pub path: String,
    /// Its content before; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Digest>,
    /// Its content after; absent when it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<Digest>,
    /// Whether the content before is kept in the log, so that the change can be undone. Records of
    /// older versions do not say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
}

/// Something a tool wants known beside its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Notice {
    /// What it is about, one word.
    pub topic: String,
    /// In words.
    pub text: String,
}

/// A call that came to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallSettled {
    /// The call.
    pub call: CallId,
    /// How.
    pub outcome: Outcome,
    /// What the caller is told.
    pub envelope: Arc<Envelope>,
    /// Whether the data is kept from the model, which then sees the message alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub message_only: bool,
    /// What it changed in the session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// The files it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
    /// What it read and wrote, with the versions from then on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touched: Vec<Touched>,
    /// What it wants known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
    /// The full result, where it was too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    /// What came with the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attached: Vec<Attached>,
    /// Tokens of models that it asked on its own; they count toward the budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Usage>,
}

/// A person's word on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Run it.
    Approve,
    /// Do not run it.
    Deny,
}
