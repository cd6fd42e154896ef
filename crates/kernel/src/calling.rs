//! Decides how a model is asked to call tools, and what a run is held to.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::digest::Digest;
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
    /// How the model says what it wants called.
    pub protocol: ToolProtocol,
}

/// How a model says what it wants called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolProtocol {
    /// By the tool calling of its provider.
    #[default]
    Native,
    /// As JSON in its words, for models without tool calling.
    Json,
}

/// Calls that one request may make over the JSON protocol; then the answer is asked for.
pub const JSON_STEPS_MAX: u64 = 6;

/// Characters of one result that a model is shown over the JSON protocol.
pub const JSON_RESULT_CHARS_MAX: usize = 8_000;

/// Characters of all results of one request over the JSON protocol; then the answer is asked for.
pub const JSON_TURN_CHARS_MAX: usize = 16_000;

/// A result as a model is shown it over the JSON protocol: one that is too long is cut, and its length
/// and hash say what it was.
pub fn json_result_excerpt(text: &str) -> Cow<'_, str> {
    let Some((end, _)) = text.char_indices().nth(JSON_RESULT_CHARS_MAX) else {
        return Cow::Borrowed(text);
    };
    let (start, chars) = (text.get(..end).unwrap_or_default(), text.chars().count());
    let sha256 = Digest::of(text.as_bytes());
    Cow::Owned(format!("{start}\n[truncated: {chars} characters, sha256={sha256}]"))
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
            protocol: ToolProtocol::default(),
        }
    }
}

impl ToolCalling {
    /// What its fingerprint is made of. The lists are in what the phases grant.
    pub(crate) fn face(&self) -> Value {
        let enforced = self.enforced.map(|policy| policy == FailurePolicy::Fatal);
        let finish = self.finish.as_ref().map(|finish| json!([finish.text, finish.tools]));
        let mut face =
            vec![json!(enforced), self.choice.face(), json!(finish), json!(self.toolless_retries)];
        face.push(json!(self.result_format));
        // What is new is told only where it is used, so that fingerprints stay as they were.
        if self.protocol != ToolProtocol::Native {
            face.push(json!(self.protocol));
        }
        Value::Array(face)
    }

    /// The use mode as one word, as a configuration has it.
    pub fn mode(&self) -> &'static str {
        match (self.disabled, self.enforced) {
            (true, _) => "disabled",
            (false, Some(_)) => "enforced",
            (false, None) => "relaxed",
        }
    }

    /// How a model is asked for its last words. Over the JSON protocol the answer always comes by
    /// itself, without tools.
    pub fn last_words(&self) -> Option<Finishing> {
        match self.protocol {
            ToolProtocol::Native => self.finish.clone(),
            ToolProtocol::Json => {
                let finish = self.finish.clone().unwrap_or_default();
                Some(Finishing { tools: false, ..finish })
            }
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
