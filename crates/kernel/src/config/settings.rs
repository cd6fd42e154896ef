//! Decides how settings are written down, and which of several places wins.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secret::Secret;
use crate::settings::Settings;

/// Settings as they are written down. What is left out is taken from the environment, then from
/// the defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SettingsText {
    /// Where the model is reached; with `model` an OpenAI-compatible server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The key for the model: `env:NAME`, `file:PATH`, `${NAME}`, or the word itself. It is never
    /// printed and never logged.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Secret>,
    /// Whether the run goes on after a phase change without a person's word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_pilot: Option<bool>,
    /// Whether only the terminal phase ends the run; otherwise an iteration without a call does too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_only_on_complete: Option<bool>,
    /// Whether a phase change ends the iteration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_after_phase_change: Option<bool>,
    /// Tokens of one request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_context_tokens: Option<u64>,
    /// Calls of one iteration; the rest are answered with an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls_per_iteration: Option<u64>,
    /// Characters of a call's arguments that the console shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_args_max_chars: Option<u64>,
    /// Characters of a result that the console shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_result_max_chars: Option<u64>,
    /// Whether the console shows the model's words as they come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_console_updates: Option<bool>,
    /// Characters of an iteration's last words that the next iteration is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary_max_chars: Option<u64>,
}

impl SettingsText {
    /// What is written here, and what is written there where nothing is written here.
    pub fn or(self, other: Self) -> Self {
        Self {
            base_url: self.base_url.or(other.base_url),
            model: self.model.or(other.model),
            api_key: self.api_key.or(other.api_key),
            auto_pilot: self.auto_pilot.or(other.auto_pilot),
            stop_only_on_complete: self.stop_only_on_complete.or(other.stop_only_on_complete),
            stop_after_phase_change: self.stop_after_phase_change.or(other.stop_after_phase_change),
            max_context_tokens: self.max_context_tokens.or(other.max_context_tokens),
            max_tool_calls_per_iteration: self
                .max_tool_calls_per_iteration
                .or(other.max_tool_calls_per_iteration),
            tool_args_max_chars: self.tool_args_max_chars.or(other.tool_args_max_chars),
            tool_result_max_chars: self.tool_result_max_chars.or(other.tool_result_max_chars),
            stream_console_updates: self.stream_console_updates.or(other.stream_console_updates),
            summary_max_chars: self.summary_max_chars.or(other.summary_max_chars),
        }
    }

    /// The settings of a run, with defaults for what is written nowhere.
    pub fn settings(&self) -> Settings {
        let own = Settings::default();
        Settings {
            auto_pilot: self.auto_pilot.unwrap_or(own.auto_pilot),
            stop_only_on_complete: self.stop_only_on_complete.unwrap_or(own.stop_only_on_complete),
            stop_after_phase_change: self
                .stop_after_phase_change
                .unwrap_or(own.stop_after_phase_change),
            max_context_tokens: self.max_context_tokens.unwrap_or(own.max_context_tokens),
            max_tool_calls_per_iteration: self
                .max_tool_calls_per_iteration
                .unwrap_or(own.max_tool_calls_per_iteration),
            tool_args_max_chars: self.tool_args_max_chars.unwrap_or(own.tool_args_max_chars),
            tool_result_max_chars: self.tool_result_max_chars.unwrap_or(own.tool_result_max_chars),
            stream_console_updates: self
                .stream_console_updates
                .unwrap_or(own.stream_console_updates),
            summary_max_chars: self.summary_max_chars.unwrap_or(own.summary_max_chars),
        }
    }
}
