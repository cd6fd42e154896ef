//! `toolgate call`: one tool call through the whole gate.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use tokio::time::Instant;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::names::SessionId;
use toolgate_runtime::{Driver, OpenFault};
use toolgate_store::{Handover, Hold, Rival};

use super::phase;
use super::run::Have;
use crate::console;
use crate::environment::Flags;
use crate::exit::Exit;
use crate::person::{AtTerminal, Ready};
use crate::project::{Opened, Place, block_on};
use crate::request::ToolFlags;
use crate::servers::Servers;
use crate::trust::TrustedCrew;

/// How long a call waits for another one in its session.
const HELD_WAIT: Duration = Duration::from_secs(2);
/// How often it looks.
const HELD_POLL: Duration = Duration::from_millis(10);

#[derive(Args)]
#[command(
    after_help = "Example:\n  toolgate call write_notes '{\"key\": \"a\", \"data\": 1}' --json"
)]
pub(crate) struct Options {
    /// The tool, by its exact name or a declared alias.
    tool: String,
    /// The arguments as JSON.
    #[arg(default_value = "{}")]
    args: String,
    /// The phase to be in; the session is moved there first.
    #[arg(long)]
    phase: Option<String>,
    /// The session to call in; it is opened when it does not exist.
    #[arg(long, default_value = "call")]
    session: String,
    /// Print the whole envelope as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    request: ToolFlags,
    #[command(flatten)]
    have: Have,
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    let session = SessionId::parse(&options.session)?;
    let trusted = block_on(place.trusted_crew(&Flags::default()))?;
    let TrustedCrew { mut crew, text, access } = trusted;
    let phase = phase(&crew.agent, options.phase.as_deref())?;
    crew.person = AtTerminal::here(place, &crew.agent, Ready::default());
    let opened = place.open_trusted(&access, &crew.agent.limits)?;
    let actor = Actor::command_line();
    let servers = Servers::join(&mut crew, place, &access, &text, &opened)?;
    block_on(servers.around_until_told(async {
        let (_hold, handover) = hold(&opened, &session, options.have.rival()).await?;
        let resume = || Driver::resume(opened.runtime.clone(), crew.clone(), session.clone());
        let mut driver = match resume().await {
            Err(OpenFault::Missing(_)) => {
                let (runtime, crew) = (opened.runtime.clone(), crew.clone());
                match Driver::open(runtime, crew, session.clone(), &actor, "calls").await {
                    // Somebody opened it at the same moment.
                    Err(OpenFault::Exists(_)) => resume().await,
                    other => other,
                }
            }
            other => other,
        }?;
        // It is claimed; bringing to an end what is open may take a while.
        drop(handover);
        console::replaced_config(&driver);
        driver.settle_open().await.context("calls of an earlier run could not be settled")?;
        if let Some(phase) = &phase {
            driver.move_to(&actor, phase, "asked for on the command line").await?;
        }
        let narrowed = options.request.options(driver.agent())?;
        driver.open_request(&actor, &narrowed).await?;
        let envelope = driver.call(&actor, &options.tool, &options.args, None).await?;
        for note in &driver.session().supplied.notes {
            console::hint(&console::visible(note));
        }
        if options.json {
            console::json(&envelope);
        } else {
            let text = if envelope.message.is_empty() { "Done." } else { &envelope.message };
            console::whole(&console::visible(text), 2);
            for trouble in &envelope.errors {
                console::say(&format!("  {}", trouble.code));
                if let Some(allowed) = &trouble.allowed {
                    let allowed = console::visible(&allowed.join(", "));
                    console::say(&format!("  allowed: {allowed}"));
                }
            }
            if !envelope.data.is_null() {
                let data = serde_json::to_string_pretty(&envelope.data)?;
                data.lines().for_each(|line| console::say(&console::visible(line)));
            }
        }
        Ok(if envelope.ok { Exit::Done } else { Exit::Failed })
    }))
}

/// Has the session for one call. Others that make one are soon through.
async fn hold(opened: &Opened, session: &SessionId, rival: Rival) -> Result<(Hold, Handover)> {
    let until = Instant::now() + HELD_WAIT;
    loop {
        let handover = opened.handover(session).await?;
        match opened.hold(session, rival) {
            Err(error) if Instant::now() < until && crate::exit::of(&error) == Exit::Busy => {
                drop(handover);
                tokio::time::sleep(HELD_POLL).await;
            }
            other => return Ok((other?, handover)),
        }
    }
}
