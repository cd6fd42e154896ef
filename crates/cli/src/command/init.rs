//! `toolgate init`: writes a configuration to begin with, and never over one that is there.

use std::io::Write;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::console;
use crate::exit::Exit;
use crate::project::{OWN_AGENT, Place};

const MINIMAL: &str = include_str!("../../demo/minimal.yaml");

#[derive(Args)]
#[command(after_help = "Examples:\n  toolgate init\n  toolgate init --template minimal")]
pub(crate) struct Options {
    /// What to begin with.
    #[arg(long, value_enum, default_value_t = Template::Novel)]
    template: Template,
    /// Write over a toolgate.yaml that is there.
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Template {
    /// The novel in six phases that `run` uses by itself.
    Novel,
    /// Two phases and nothing more.
    Minimal,
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    let path = place.folder.join("toolgate.yaml");
    let name = path.display();
    let text = match options.template {
        Template::Novel => OWN_AGENT,
        Template::Minimal => MINIMAL,
    };
    let mut how = std::fs::OpenOptions::new();
    how.write(true);
    if options.force {
        how.create(true).truncate(true);
    } else {
        how.create_new(true);
    }
    let mut file = match how.open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!("{name} is there already; add --force to write over it")
        }
        Err(error) => return Err(error).with_context(|| format!("{name} cannot be written")),
    };
    file.write_all(text.as_bytes()).with_context(|| format!("{name} cannot be written"))?;
    console::say(&format!("✓ {name} is written. Open it in an editor and change what you like."));
    console::say("  toolgate check            says whether it is sound, and draws it");
    console::say("  toolgate run \"a premise\"  runs it");
    Ok(Exit::Done)
}
