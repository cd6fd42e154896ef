//! Decides what the log says of an iteration: how it ended, and its figures.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::names::PhaseName;

/// Why an iteration came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Closing {
    /// The model made no further call.
    Done,
    /// The phase changed, and the next iteration begins in the new one.
    PhaseChanged,
    /// It made as many calls as one iteration may.
    CallLimit,
    /// Its context is full.
    ContextLimit,
    /// It took as many turns as one iteration may.
    TurnLimit,
    /// The model declined, or a filter stopped it.
    Refused,
    /// The model's last reply ran out of room.
    Truncated,
    /// The model's reply was not accepted, twice.
    Rejected,
    /// The model could not be reached or its reply could not be used.
    Failed,
    /// The session ends.
    Stopped,
}

/// The end of an iteration, with its figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IterationClosed {
    /// Its number.
    pub iteration: u64,
    /// Why it ended.
    pub closing: Closing,
    /// The same in words.
    pub note: String,
    /// What the next iteration is shown of it.
    pub summary: String,
    /// The phase it began in.
    pub start_phase: PhaseName,
    /// The phase it ended in.
    pub end_phase: PhaseName,
    /// The phases it entered, in order.
    pub entered: Vec<PhaseName>,
    /// Turns it took.
    pub turns: u64,
    /// Calls it made, refused ones too.
    pub calls: u64,
    /// Tokens it read.
    pub input_tokens: u64,
    /// Tokens it wrote.
    pub output_tokens: u64,
    /// Milliseconds it took.
    pub took_ms: u64,
    /// Whether a person is asked before the next one begins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaits: bool,
}

/// How a request asks for tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// Whether tools must be used: relaxed, enforced or disabled.
    pub tool_use_mode: String,
    /// What a failed tool means then: fatal or tolerated.
    pub tool_failure_policy: String,
    /// Which tool is asked for: auto, none, required, one tool, or the provider's own form.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub tool_choice: Value,
    /// How often a request that was turned down is tried again without tools.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub toolless_retries: u64,
    /// The transforms in force, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub transforms: BTreeMap<String, Vec<String>>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What a note of toolgate itself is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// The phase changed inside an iteration.
    Phase,
    /// Few calls are left in the iteration.
    Calls,
    /// The model ended with nothing, and is asked for its last words.
    Finish,
    /// What the prompt says of the agent changed inside an iteration.
    Profile,
    /// Answers need evidence.
    Evidence,
    /// The last reply was not accepted.
    Rejected,
    /// The catalogue of prompts changed inside an iteration.
    Catalogue,
    /// The prompt of a tool that was called for the first time in an iteration.
    Prompt,
}

/// Something toolgate itself tells the model beside results, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// What it is about.
    pub about: NoteKind,
    /// The words.
    pub text: String,
}
