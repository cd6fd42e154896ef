//! Decides what the environment and the command line say of settings, and which of them wins.

use anyhow::{Result, bail};
use clap::Args;
use toolgate_kernel::config::{Secret, SettingsText};

/// Settings on the command line. They win over the file.
#[derive(Args, Default)]
pub(crate) struct Flags {
    /// The model: `script:FILE` plays a file.
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Where the model is reached.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Go on after a phase change without asking.
    #[arg(long, conflicts_with = "no_auto_pilot")]
    auto_pilot: bool,
    /// Ask after each phase change.
    #[arg(long)]
    no_auto_pilot: bool,
}

impl Flags {
    /// What they say.
    pub(crate) fn settings(&self) -> SettingsText {
        SettingsText {
            model: self.model.clone(),
            base_url: self.base_url.clone(),
            auto_pilot: match (self.auto_pilot, self.no_auto_pilot) {
                (true, _) => Some(true),
                (_, true) => Some(false),
                (false, false) => None,
            },
            ..SettingsText::default()
        }
    }
}

/// What the environment says. The file wins over it.
pub(crate) fn settings() -> Result<SettingsText> {
    Ok(SettingsText {
        base_url: text("TOOLGATE_BASE_URL")?,
        model: text("TOOLGATE_MODEL")?,
        api_key: match text("TOOLGATE_API_KEY")? {
            Some(key) => Some(key),
            None => text("OPENAI_API_KEY")?,
        }
        .map(|key| Secret::new(&key)),
        auto_pilot: truth("TOOLGATE_AUTO_PILOT")?,
        stop_only_on_complete: truth("TOOLGATE_STOP_ONLY_ON_COMPLETE")?,
        stop_after_phase_change: truth("TOOLGATE_STOP_AFTER_PHASE_CHANGE")?,
        max_context_tokens: number("TOOLGATE_MAX_CONTEXT_TOKENS")?,
        max_tool_calls_per_iteration: number("TOOLGATE_MAX_TOOL_CALLS_PER_ITERATION")?,
        tool_args_max_chars: number("TOOLGATE_TOOL_ARGS_MAX_CHARS")?,
        tool_result_max_chars: number("TOOLGATE_TOOL_RESULT_MAX_CHARS")?,
        stream_console_updates: truth("TOOLGATE_STREAM_CONSOLE_UPDATES")?,
        summary_max_chars: number("TOOLGATE_SUMMARY_MAX_CHARS")?,
    })
}

/// Whether colour is unwanted, whatever the terminal can do.
pub(crate) fn no_colour() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// A variable; an empty one says nothing.
fn text(name: &str) -> Result<Option<String>> {
    match std::env::var(name) {
        Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => bail!("{name} is no text"),
    }
}

fn truth(name: &str) -> Result<Option<bool>> {
    Ok(match text(name)?.as_deref() {
        None => None,
        Some("true" | "1" | "yes" | "on") => Some(true),
        Some("false" | "0" | "no" | "off") => Some(false),
        Some(other) => bail!("{name} is {other:?}: write true or false"),
    })
}

fn number(name: &str) -> Result<Option<u64>> {
    let Some(text) = text(name)? else { return Ok(None) };
    match text.trim().parse() {
        Ok(0) => bail!("{name} is 0: it must be at least 1; leave it out for the default"),
        Ok(number) => Ok(Some(number)),
        Err(_) => bail!("{name} is {text:?}: write a whole number"),
    }
}
