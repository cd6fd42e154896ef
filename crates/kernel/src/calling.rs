//! Decides how a model is asked to call tools, and what a run is held to.

use serde_json::{Value, json};

use crate::names::ToolName;
use crate::plan::Choice;
use crate::render::ResultFormat;

/// How a model is asked to call tools. The lists can only take tools away.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCalling {
    /// Whether no tool is sent and none may be called.
    pub disabled: bool,
    /// When given, no other tool is sent or may be called.
    pub allow: Option<Vec<ToolName>>,
    /// Tools that are not sent and may not be called.
    pub deny: Vec<ToolName>,
    /// Whether the run must call tools, and what a failed one means then.
    pub enforced: Option<FailurePolicy>,
    /// Which tool is asked for.
    pub choice: Choice,
    /// What a model that ends with nothing after calls is told; not asked again when absent.
    pub finish: Option<Finishing>,
    /// How often a request that was turned down is tried again without tools, per turn.
    pub toolless_retries: u64,
    /// How results are written.
    pub result_format: ResultFormat,
}

/// What a failed tool means for a run that must call tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The run failed, when the last result of any tool is a failure.
    Fatal,
    /// One success is enough.
    Tolerated,
}

/// How a model is asked for its last words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finishing {
    /// What it is told.
    pub text: String,
    /// Whether it may still call tools.
    pub tools: bool,
}

impl Default for Finishing {
    fn default() -> Self {
        Self { text: "Please provide your final answer.".to_owned(), tools: false }
    }
}

impl Default for ToolCalling {
    fn default() -> Self {
        Self {
            disabled: false,
            allow: None,
            deny: Vec::new(),
            enforced: None,
            choice: Choice::Auto,
            finish: Some(Finishing::default()),
            toolless_retries: 0,
            result_format: ResultFormat::default(),
        }
    }
}

impl ToolCalling {
    /// What its fingerprint is made of. The lists are in what the phases grant.
    pub(crate) fn face(&self) -> Value {
        let enforced = self.enforced.map(|policy| policy == FailurePolicy::Fatal);
        let finish = self.finish.as_ref().map(|finish| json!([finish.text, finish.tools]));
        json!([enforced, self.choice.face(), finish, self.toolless_retries, self.result_format])
    }

    /// The use mode as one word, as a configuration has it.
    pub fn mode(&self) -> &'static str {
        match (self.disabled, self.enforced) {
            (true, _) => "disabled",
            (false, Some(_)) => "enforced",
            (false, None) => "relaxed",
        }
    }

    /// The failure policy as one word, as a configuration has it.
    pub fn failure_policy(&self) -> &'static str {
        match self.enforced {
            Some(FailurePolicy::Tolerated) => "tolerated",
            Some(FailurePolicy::Fatal) | None => "fatal",
        }
    }
}
