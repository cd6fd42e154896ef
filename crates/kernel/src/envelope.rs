//! Decides what a caller is told of a call: one envelope for every tool and every refusal.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::Misfit;

/// A stable code for one kind of trouble. Domain tools may add their own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Code(Cow<'static, str>);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        impl Code {
            $($(#[$doc])* pub const $name: Self = Self(Cow::Borrowed(stringify!($name)));)*

            /// Every code of toolgate itself, in the order of the docs.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];
        }
    };
}

codes! {
    /// No tool has this name.
    TOOL_UNKNOWN;
    /// The tool exists and this phase does not grant it.
    TOOL_NOT_GRANTED;
    /// The tool of an MCP server waits for a person, who has to look at its definition.
    TOOL_HELD;
    /// An MCP server is down: the one whose tool was called, or one that the phase needs.
    TOOL_UNAVAILABLE;
    /// The arguments are not one JSON object.
    ARGUMENTS_JSON_PARSE_ERROR;
    /// The arguments are longer than allowed.
    ARGUMENTS_TOO_LARGE;
    /// The arguments do not have the declared types.
    ARGUMENTS_INVALID;
    /// The tool works only in another kind of session than this one.
    CONTEXT_MISSING;
    /// A policy said no.
    POLICY_DENIED;
    /// A policy could not answer, so the answer is no.
    POLICY_ERROR;
    /// A person must approve this; nobody was there to ask.
    APPROVAL_PENDING;
    /// A person said no, or nobody is asked.
    APPROVAL_DENIED;
    /// More calls wait for a person than may.
    APPROVALS_OVER_LIMIT;
    /// The log is as large as it may be.
    LOG_FULL;
    /// A client added as much to the log today as it may.
    CLIENT_QUOTA_EXCEEDED;
    /// More calls in one turn than allowed.
    CALLS_OVER_LIMIT;
    /// The same call was made too often in a row.
    CALL_REPEATED;
    /// The tool answered with an error.
    TOOL_FAILED;
    /// The tool broke down.
    TOOL_PANICKED;
    /// The tool took too long.
    TOOL_TIMED_OUT;
    /// The call was cancelled.
    CALL_CANCELLED;
    /// The tool is declared and has no handler.
    TOOL_HAS_NO_HANDLER;
    /// Something the call touches was changed by somebody else.
    COMMIT_CONFLICT;
    /// The answer is longer than allowed; it is kept aside.
    TOOL_OUTPUT_TOO_LARGE;
    /// The answer does not have the declared type.
    TOOL_OUTPUT_INVALID;
    /// The call may or may not have taken effect.
    OUTCOME_UNKNOWN;
    /// The run's time is over.
    RUN_DEADLINE_EXCEEDED;
    /// The run's budget is spent.
    BUDGET_EXCEEDED;
    /// This phase cannot be entered from here.
    TRANSITION_REFUSED;
}

impl Code {
    /// A code of a domain tool: capitals, digits and underscores.
    pub fn domain(text: &str) -> Option<Self> {
        let legal = (1..=64).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        legal.then(|| Self(Cow::Owned(text.to_owned())))
    }

    /// The code as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// One thing that went wrong, with what would have been right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trouble {
    /// The kind.
    pub code: Code,
    /// A sentence that says what to do.
    pub message: String,
    /// The argument it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The values, fields or tools that are allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Vec<String>>,
}

impl Trouble {
    /// Trouble that concerns the call as a whole.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), path: None, allowed: None }
    }

    /// The same with what is allowed instead.
    pub fn allowing(mut self, allowed: Vec<String>) -> Self {
        self.allowed = Some(allowed);
        self
    }

    /// The same with the argument it concerns.
    pub fn at(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }
}

impl From<Misfit> for Trouble {
    fn from(misfit: Misfit) -> Self {
        Self {
            code: Code::ARGUMENTS_INVALID,
            message: misfit.to_string(),
            path: Some(misfit.path).filter(|path| !path.is_empty()),
            allowed: Some(misfit.allowed).filter(|allowed| !allowed.is_empty()),
        }
    }
}

/// What a caller is told of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Envelope {
    /// Whether the call did what it should.
    pub ok: bool,
    /// The tool, as the caller named it.
    pub tool: String,
    /// A sentence; empty when the data speaks for itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The answer; null when there is none.
    #[serde(default)]
    pub data: Value,
    /// What was ignored or repaired.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Trouble>,
    /// Proof of the settled call, which evidence may cite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<crate::receipt::Receipt>,
}

impl Envelope {
    /// The envelope of a call that did not work.
    pub fn trouble(tool: &str, errors: Vec<Trouble>) -> Self {
        let message = errors.first().map(|first| first.message.clone()).unwrap_or_default();
        Self {
            ok: false,
            tool: tool.chars().take(80).collect(),
            message,
            data: Value::Null,
            warnings: Vec::new(),
            errors,
            receipt: None,
        }
    }

    /// The envelope of a call that worked.
    pub fn answer(tool: &str, message: String, data: Value, warnings: Vec<String>) -> Self {
        let tool = tool.to_owned();
        Self { ok: true, tool, message, data, warnings, errors: Vec::new(), receipt: None }
    }

    /// The code of the first error.
    pub fn code(&self) -> Option<&Code> {
        self.errors.first().map(|trouble| &trouble.code)
    }

    /// The same on every machine: as compact JSON, without the receipt.
    pub(crate) fn without_receipt(&self) -> String {
        let Self { ok, tool, message, data, warnings, errors, receipt: _ } = self;
        serde_json::to_string(&(ok, tool, message, data, warnings, errors)).unwrap_or_default()
    }

    /// The envelope as compact JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
