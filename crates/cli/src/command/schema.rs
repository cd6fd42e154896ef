//! `toolgate schema`: the JSON Schemas that are published under `docs/schema/`.

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::Value;
use toolgate_kernel::config::AgentText;
use toolgate_kernel::envelope::Envelope;
use toolgate_kernel::event::{Event, InboxEvent, ProjectEvent, Record};
use toolgate_kernel::gate::Explanation;
use toolgate_wire::script::ScriptText;

use super::sessions::{Export, Shown};
use crate::console;
use crate::exit::Exit;

#[derive(Args)]
#[command(after_help = "Example:\n  toolgate schema event > event.schema.json")]
pub(crate) struct Options {
    /// Which schema.
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// The configuration file.
    Config,
    /// A scripted model.
    Script,
    /// A record of a session stream.
    Event,
    /// A record of the project stream.
    ProjectEvent,
    /// A record of an inbox stream.
    InboxEvent,
    /// What a caller is told of a call.
    Envelope,
    /// `toolgate explain --json`.
    Explanation,
    /// `toolgate sessions show --json`.
    Session,
    /// `toolgate sessions export`.
    Export,
}

pub(crate) fn run(options: &Options) -> Result<Exit> {
    console::say(&serde_json::to_string_pretty(&schema(options.what))?);
    Ok(Exit::Done)
}

fn schema(what: What) -> Value {
    match what {
        What::Config => schemars::schema_for!(AgentText),
        What::Script => schemars::schema_for!(ScriptText),
        What::Event => schemars::schema_for!(Record<Event>),
        What::ProjectEvent => schemars::schema_for!(Record<ProjectEvent>),
        What::InboxEvent => schemars::schema_for!(Record<InboxEvent>),
        What::Envelope => schemars::schema_for!(Envelope),
        What::Explanation => schemars::schema_for!(Explanation),
        What::Session => schemars::schema_for!(Shown),
        What::Export => schemars::schema_for!(Export),
    }
    .to_value()
}
