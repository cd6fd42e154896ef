//! Describes the answer to a question about a call: what it is for, and what goes with it.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Answer;
use crate::approval::shown;
use crate::decision::AllowanceTerms;
use crate::digest::Digest;
use crate::names::{CallId, ToolName};

/// A person's word on a call, given from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// The call.
    pub call: CallId,
    /// The tool it calls.
    pub tool: ToolName,
    /// What the person was shown: the frame of the question, and the arguments.
    pub shown: Digest,
    /// Hash of the arguments that the answer is for: those that the person was shown, or their own.
    pub args_hash: Digest,
    /// The answer.
    pub answer: Answer,
    /// A sentence for the model.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// The arguments it runs with, where the person changed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// Whether later calls that raise the same question need no answer, and for how long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<AllowanceTerms>,
    /// The delegation that it rests on, where the user of a client gave it: its place in the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegation: Option<u64>,
    /// Arguments whose values the person typed before they approved.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub confirmed: BTreeSet<String>,
}

impl Decision {
    /// A plain answer about a call of a tool: to what stands behind the question, with its arguments.
    pub fn new(
        call: CallId,
        tool: ToolName,
        frame: Option<Digest>,
        args_hash: Digest,
        answer: Answer,
    ) -> Self {
        Self {
            call,
            tool,
            shown: shown(frame, args_hash),
            args_hash,
            answer,
            note: String::new(),
            args: None,
            allow: None,
            delegation: None,
            confirmed: BTreeSet::new(),
        }
    }

    /// The answer with other arguments than the person was shown.
    pub fn with_args(self, args: Value) -> Self {
        Self { args_hash: Digest::of_json(&args), args: Some(args), ..self }
    }
}
