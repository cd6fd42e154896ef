//! `toolgate completions`: what a shell needs to complete commands and flags.

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use crate::console;
use crate::exit::Exit;

#[derive(Args)]
#[command(after_help = "Example:\n  toolgate completions bash > \
                        ~/.local/share/bash-completion/completions/toolgate")]
pub(crate) struct Options {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(options: &Options) -> Result<Exit> {
    let mut script = Vec::new();
    generate(options.shell, &mut crate::Options::command(), "toolgate", &mut script);
    console::put(&String::from_utf8(script)?);
    Ok(Exit::Done)
}
