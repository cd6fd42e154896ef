//! Decides how a run goes on from iteration to iteration.

use serde::{Deserialize, Serialize};

/// How a run goes on. Zero never means "no limit": it is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Whether the run goes on after a phase change without a person's word.
    pub auto_pilot: bool,
    /// Whether only the terminal phase ends the run; otherwise an iteration without a call does too.
    pub stop_only_on_complete: bool,
    /// Whether a phase change ends the iteration.
    pub stop_after_phase_change: bool,
    /// Tokens of one request.
    pub max_context_tokens: u64,
    /// Calls of one iteration; the rest are answered with an error.
    pub max_tool_calls_per_iteration: u64,
    /// Characters of a call's arguments that the console shows.
    pub tool_args_max_chars: u64,
    /// Characters of a result that the console shows.
    pub tool_result_max_chars: u64,
    /// Whether the console shows the model's words as they come.
    pub stream_console_updates: bool,
    /// Characters of an iteration's last words that the next iteration is shown.
    pub summary_max_chars: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            auto_pilot: true,
            stop_only_on_complete: true,
            stop_after_phase_change: true,
            max_context_tokens: 64_000,
            max_tool_calls_per_iteration: 12,
            tool_args_max_chars: 240,
            tool_result_max_chars: 320,
            stream_console_updates: true,
            summary_max_chars: 800,
        }
    }
}

/// A setting that would switch its own limit off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is 0: it must be at least 1; leave the line out for the default")]
pub struct SettingRefusal(pub &'static str);

impl Settings {
    /// What its fingerprint is made of. What only the console uses is no law.
    pub(crate) fn face(&self) -> serde_json::Value {
        serde_json::json!([
            self.auto_pilot,
            self.stop_only_on_complete,
            self.stop_after_phase_change,
            self.max_context_tokens,
            self.max_tool_calls_per_iteration,
            self.summary_max_chars,
        ])
    }

    /// Refuses zero.
    pub fn check(&self) -> Result<(), SettingRefusal> {
        self.refusals().next().map_or(Ok(()), Err)
    }

    /// Every setting that is zero.
    pub fn refusals(&self) -> impl Iterator<Item = SettingRefusal> {
        let limits = [
            ("max_context_tokens", self.max_context_tokens),
            ("max_tool_calls_per_iteration", self.max_tool_calls_per_iteration),
            ("tool_args_max_chars", self.tool_args_max_chars),
            ("tool_result_max_chars", self.tool_result_max_chars),
            ("summary_max_chars", self.summary_max_chars),
        ];
        let zero = limits.into_iter().filter(|(_, limit)| *limit == 0);
        zero.map(|(name, _)| SettingRefusal(name))
    }
}
