//! `toolgate init`: writes a configuration to begin with, over one that is there only when told to.
//! With `--enrol` it makes the key of the person at the terminal known.

use std::io::Write;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::console;
use crate::credential;
use crate::exit::Exit;
use crate::person::{self, Nobody};
use crate::project::{OWN_AGENT, Place, block_on};
use crate::standing;

const MINIMAL: &str = include_str!("../../demo/minimal.yaml");
const FILES: &str = include_str!("../../demo/files.yaml");
const HELLO: &str = include_str!("../../demo/hello.yaml");

#[derive(Args)]
#[command(
    after_help = "Examples:\n  toolgate init\n  toolgate init --template minimal\n  toolgate init --enrol"
)]
pub(crate) struct Options {
    /// What to begin with.
    #[arg(long, value_enum, default_value_t = Template::Novel)]
    template: Template,
    /// Write over a toolgate.yaml that is there.
    #[arg(long)]
    force: bool,
    /// Write nothing, and make your key known to the project. A person at the terminal is asked.
    #[arg(long, conflicts_with_all = ["template", "force"])]
    enrol: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Template {
    /// The novel in six phases that `run` uses by itself.
    Novel,
    /// Two phases, and a script that plays its model.
    Minimal,
    /// One phase that works on the files of the folder, and asks before files that others run.
    Files,
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    if options.enrol {
        return enrol(place);
    }
    match options.template {
        Template::Novel => write(place, "toolgate.yaml", OWN_AGENT, options.force)?,
        Template::Files => write(place, "toolgate.yaml", FILES, options.force)?,
        Template::Minimal => {
            write(place, "toolgate.yaml", MINIMAL, options.force)?;
            write(place, "hello.yaml", HELLO, options.force)?;
        }
    }
    // Nothing in these configurations needs trust, so nothing is asked.
    console::tell(&standing::nobody_enrolled());
    console::say("  toolgate check            says whether it is sound, and draws it");
    console::say(match options.template {
        Template::Novel => "  toolgate run \"a premise\"  runs it; a script plays the model",
        Template::Minimal => "  toolgate run \"a question\" --model script:hello.yaml",
        Template::Files => "  toolgate run \"what to do\" --model ollama:qwen3",
    });
    Ok(Exit::Done)
}

/// Makes the key of the person at the terminal known to the project.
fn enrol(place: &Place) -> Result<Exit> {
    person::attended().then_some(()).ok_or(Nobody)?;
    console::hint("Your key is made known to this project, so that no other is believed here.");
    block_on(async {
        let person = credential::decider(place).await?;
        standing::enrol(place, &person).await?;
        let (who, key) = (console::visible(&person.who.to_string()), person.key().short());
        console::say(&format!("✓ This project knows your key: {who}, {key}."));
        Ok(Exit::Done)
    })
}

fn write(place: &Place, name: &str, text: &str, force: bool) -> Result<()> {
    let path = place.folder.join(name);
    let name = path.strip_prefix("./").unwrap_or(&path).display();
    let mut how = std::fs::OpenOptions::new();
    how.write(true);
    if force {
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
    Ok(())
}
