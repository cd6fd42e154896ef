//! Decides what the environment and the command line say of settings, and which of them wins.

use std::io::Read;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use toolgate_http::{Plain, Roots, names_here, parse};
use toolgate_kernel::config::{Secret, SettingsText};

use crate::console::visible;

/// Settings on the command line. They win over the file.
#[derive(Args, Clone, Default)]
pub(crate) struct Flags {
    /// The model: its name under `models`, or provider:model, such as `ollama:qwen3`,
    /// `anthropic:claude-opus-4-6` or `openai:gpt-5.2`; `script:FILE` plays a file.
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
    /// The same with another model.
    pub(crate) fn with_model(&self, model: String) -> Self {
        Self { model: Some(model), ..self.clone() }
    }

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

impl Flags {
    /// The model as it was given, to be given again: nothing, or flags with a blank before each.
    pub(crate) fn model_again(&self) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@%+=,".contains(c);
        let given = [("--model", &self.model), ("--base-url", &self.base_url)];
        let given = given.into_iter().filter_map(|(flag, value)| Some((flag, value.as_deref()?)));
        let word = |(flag, value): (&str, &str)| match value.chars().all(plain) {
            true => format!(" {flag} {value}"),
            false => format!(" {flag} '{}'", visible(value).replace('\'', "'\\''")),
        };
        given.map(word).collect()
    }

    /// What settings besides the file come from: the flags that are given, or else the variables.
    pub(crate) fn whence(&self) -> String {
        let flags = [("--model", self.model.is_some()), ("--base-url", self.base_url.is_some())];
        let given: Vec<&str> =
            flags.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
        let variables = ["TOOLGATE_MODEL", "TOOLGATE_BASE_URL"];
        let set = |name: &&str| matches!(text(name), Ok(Some(_)));
        let set: Vec<&str> = variables.into_iter().filter(set).collect();
        match (given.is_empty(), set.is_empty()) {
            (false, _) => given.join(" with "),
            (true, false) => set.join(" with "),
            (true, true) => "what the environment says".to_owned(),
        }
    }
}

/// What the environment says. The file wins over it.
pub(crate) fn settings() -> Result<SettingsText> {
    Ok(SettingsText {
        base_url: text("TOOLGATE_BASE_URL")?,
        model: text("TOOLGATE_MODEL")?,
        // The key of a provider is looked for when its own address is asked, and only then.
        api_key: text("TOOLGATE_API_KEY")?.map(|key| Secret::new(&key)),
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

/// Settings that may go where a file says.
pub(crate) trait Wary {
    /// The same without the key, when the file names another place to send it to: a key that lies
    /// around is not drawn away by an address in a folder.
    fn away_from(self, file: &Self) -> Self;
}

impl Wary for SettingsText {
    fn away_from(mut self, file: &Self) -> Self {
        let elsewhere = |url: &str| self.base_url.as_deref() != Some(url) && !is_loopback(url);
        if file.base_url.as_deref().is_some_and(elsewhere) {
            self.api_key = None;
        }
        self
    }
}

/// Whether an address is on this computer, and nothing in it says otherwise.
fn is_loopback(url: &str) -> bool {
    parse(url, Plain::Private).is_ok_and(|(origin, _)| names_here(origin.host()))
}

/// Whether colour is unwanted, whatever the terminal can do.
pub(crate) fn no_colour() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Whom a server's certificate is checked against: the system, or the file that
/// `SSL_CERT_FILE` names; `TOOLGATE_CA_FILE` adds an authority.
pub(crate) fn roots() -> Result<Roots> {
    let file = |name| Ok::<_, anyhow::Error>(text(name)?.map(PathBuf::from));
    Ok(Roots { only: file("SSL_CERT_FILE")?, beside: file("TOOLGATE_CA_FILE")? })
}

/// The variables that name a proxy and are set. None is used: a key goes straight to its server.
pub(crate) fn proxies() -> Vec<String> {
    let set = |name: &String| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
    names.iter().flat_map(|name| [(*name).to_owned(), name.to_lowercase()]).filter(set).collect()
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The home of the user.
pub(crate) fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Every variable that is a text.
pub(crate) fn all() -> Vec<(String, String)> {
    let text = |text: std::ffi::OsString| text.into_string().ok();
    std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect()
}

/// A variable; an empty one says nothing.
pub(crate) fn text(name: &str) -> Result<Option<String>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_the_environment_does_not_follow_an_address_in_a_file() {
        let file =
            |url: &str| SettingsText { base_url: Some(url.to_owned()), ..SettingsText::default() };
        let here = |url: Option<&str>| SettingsText {
            base_url: url.map(str::to_owned),
            api_key: Some(Secret::new("k")),
            ..SettingsText::default()
        };
        let own = "https://models.example/v1";
        for (url, said, kept) in [
            ("http://localhost:1234/v1", None, true),
            ("http://[::1]:1234", None, true),
            ("https://evil.example/v1", None, false),
            ("http://localhost@evil.example/v1", None, false),
            ("http://localhost.evil.example/v1", None, false),
            (own, Some(own), true),
            ("https://evil.example/v1", Some(own), false),
        ] {
            assert_eq!(here(said).away_from(&file(url)).api_key.is_some(), kept, "{url}");
        }
        assert!(here(None).away_from(&SettingsText::default()).api_key.is_some());
    }
}
