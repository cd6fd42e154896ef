//! Decides how a chore runs a command: said first, timed, and when it fails, how to repeat it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};

/// One command, in the order a person would type it: variables, program, arguments.
pub(crate) struct Step {
    about: &'static str,
    program: String,
    args: Vec<String>,
    variables: Vec<(&'static str, String)>,
}

impl Step {
    /// A step that calls cargo.
    pub(crate) fn cargo(about: &'static str, args: &[&str]) -> Self {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Self { about, program: "cargo".to_owned(), args, variables: Vec::new() }
    }

    /// The same with more arguments.
    pub(crate) fn args<I: IntoIterator<Item = String>>(mut self, more: I) -> Self {
        self.args.extend(more);
        self
    }

    /// The same with an environment variable.
    pub(crate) fn variable(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// What the step is about.
    pub(crate) fn about(&self) -> &'static str {
        self.about
    }

    /// The command as it can be typed at the root of the repository.
    pub(crate) fn command_line(&self) -> String {
        let variables =
            self.variables.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        let words = std::iter::once(&self.program).chain(&self.args).map(|word| quoted(word));
        variables.chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Runs it at the root of the repository and waits for it.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        println!("== {}: {}", self.about, self.command_line());
        let started = Instant::now();
        let mut command = Command::new(&self.program);
        command.args(&self.args).current_dir(root()).stdin(Stdio::null());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let status =
            command.status().with_context(|| format!("{} cannot be started", self.program))?;
        let seconds = started.elapsed().as_secs();
        if !status.success() {
            let (about, line) = (self.about, self.command_line());
            bail!("{about} failed after {seconds} s ({status}); run it alone: {line}");
        }
        println!("== {}: ok, {seconds} s", self.about);
        Ok(())
    }
}

fn quoted(word: &str) -> String {
    if word.contains([' ', '"', '$', '*']) { format!("'{word}'") } else { word.to_owned() }
}

/// The root of the repository: of the one cargo was called in, also when two share a target folder.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR");
    let here = here.unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    Path::new(&here).ancestors().nth(2).unwrap_or(Path::new(".")).to_owned()
}

/// Whether a cargo sub-command is installed.
pub(crate) fn installed(subcommand: &str) -> bool {
    let mut command = Command::new("cargo");
    command.args([subcommand, "--version"]).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
