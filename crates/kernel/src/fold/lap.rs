//! Decides what is counted of the open iteration.

use imbl::Vector;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::event::Usage;
use crate::names::PhaseName;
use crate::time::Timestamp;

/// The figures of the open iteration, as far as it has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lap {
    /// When it was opened.
    pub opened_at: Timestamp,
    /// The phase it began in.
    pub start_phase: PhaseName,
    /// The phases it entered.
    pub entered: Vector<PhaseName>,
    /// The phase whose rules the model was told.
    pub told_phase: PhaseName,
    /// Fingerprint of what the model was told of its agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_profile: Option<Digest>,
    /// Fingerprint of the catalogue that the model was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_catalogue: Option<Digest>,
    /// Calls that came to their end, those over a limit not counted.
    pub calls: u64,
    /// The same before the last turn.
    pub calls_before: u64,
    /// Calls of the session that had succeeded when it was opened.
    #[serde(default)]
    pub successes_before: u64,
    /// Tokens it used.
    pub usage: Usage,
    /// What the last request and its reply used.
    pub last: Usage,
    /// Whether the model was told that few calls are left.
    pub warned: bool,
    /// Whether the model was asked for its last words.
    pub finished: bool,
    /// Whether the model was told that answers need evidence.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub told_evidence: bool,
    /// Pauses of the provider in a row.
    pub pauses: u64,
    /// How many calls of the last reply may run, where its model is held to fewer than the limits say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_max: Option<u64>,
    /// Tries of the open turn without tools.
    pub toolless: u64,
    /// Whether words that were turned down were withdrawn since the last reply.
    #[serde(default)]
    pub withdrew: bool,
    /// Calls and turns before the last words of a person.
    pub before_words: (u64, u64),
    /// Digest of what it began with and of the turns up to `rolled_turn`.
    pub rolled: Digest,
    /// Bytes of the same.
    pub rolled_bytes: u64,
    /// Messages of the same, the system prompt too.
    pub rolled_messages: u64,
    /// The last turn that is in there.
    pub rolled_turn: u64,
}
