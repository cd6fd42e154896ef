//! `toolgate sessions`: list, show and export what the log has.

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{Ending, Event, ProjectEvent, Record, StreamId, Usage};
use toolgate_kernel::fold::{Project, Session};
use toolgate_kernel::names::{PhaseName, SessionId};
use toolgate_kernel::time::Timestamp;
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::port::Store;

use crate::console;
use crate::exit::Exit;
use crate::project::{Place, block_on};

#[derive(Args)]
#[command(after_help = "Example:\n  toolgate sessions show call --json")]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Lists all sessions.
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Shows one session.
    Show {
        /// The session.
        session: String,
        /// Print it as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Prints a session's whole log and state as JSON.
    Export {
        /// The session.
        session: String,
    },
}

/// What is known of a session at a glance.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Glance {
    session: SessionId,
    title: String,
    opened_at: Timestamp,
    phase: Option<PhaseName>,
    iteration: u64,
    turns: u64,
    calls: u64,
    open_calls: usize,
    usage: Usage,
    ended: Option<Ending>,
    records: u64,
    state_hash: Digest,
}

/// A session, whole: every record as it stands in the log, and what they add up to.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Export {
    /// The layout of this export.
    version: u32,
    session: SessionId,
    /// Chain hash of the last record.
    head: Digest,
    records: Vec<Record<Event>>,
    /// The session's state in canonical form.
    state: Value,
    state_hash: Digest,
    /// The project's state in canonical form.
    project: Value,
    project_hash: Digest,
}

impl Options {
    /// Whether whoever reads the output is a program.
    pub(crate) fn json(&self) -> bool {
        match &self.what {
            What::List { json } | What::Show { json, .. } => *json,
            What::Export { .. } => true,
        }
    }
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    let log = place.log()?;
    let store = log.store.as_ref();
    block_on(async {
        match &options.what {
            What::List { json } => list(store, *json).await,
            What::Show { session, json } => show(store, session, *json).await,
            What::Export { session } => export(store, session).await,
        }
    })
}

async fn project(store: &dyn Store) -> Result<Project> {
    let mut project = Project::default();
    let apply = |record: Record<ProjectEvent>, _: &_| project.apply(&record);
    read_from(store, &StreamId::Project, Tip::START, apply).await?;
    Ok(project)
}

async fn session(
    store: &dyn Store,
    id: &SessionId,
    mut each: impl FnMut(Record<Event>),
) -> Result<(Session, Tip)> {
    let mut session = Session::new(id.clone());
    let stream = StreamId::Session(id.clone());
    let tip = read_from(store, &stream, Tip::START, |record, _| {
        session.apply(&record);
        each(record);
    })
    .await?;
    if tip.seq == 0 {
        bail!("there is no session {id}; `toolgate sessions list` shows those there are");
    }
    Ok((session, tip))
}

fn glance(session: &Session) -> Glance {
    Glance {
        session: session.id.clone(),
        title: session.title.to_string(),
        opened_at: session.opened_at,
        phase: session.phase.clone(),
        iteration: session.iteration,
        turns: session.turn,
        calls: session.next_call.saturating_sub(1),
        open_calls: session.open.len(),
        usage: session.usage,
        ended: session.ended,
        records: session.seq,
        state_hash: session.export().1,
    }
}

async fn list(store: &dyn Store, json: bool) -> Result<Exit> {
    let (project, mut exit) = (project(store).await?, Exit::Done);
    for id in &project.sessions {
        let glance = match session(store, id, drop).await {
            Ok((session, _)) => glance(&session),
            // One that cannot be read keeps nobody from seeing the others.
            Err(error) => {
                exit = Exit::Failed;
                console::hint(&format!("{id}: {error}"));
                continue;
            }
        };
        if json {
            console::json(&glance)?;
            continue;
        }
        let state = state_word(&glance);
        let line = format!(
            "{:<24} {:<10} {:>4} calls  {}",
            glance.session.as_str(),
            state,
            glance.calls,
            console::visible(&glance.title)
        );
        console::say(&console::fit(&line));
    }
    if project.sessions.is_empty() && !json {
        console::say("There are no sessions yet.");
    }
    Ok(exit)
}

fn state_word(glance: &Glance) -> &'static str {
    match glance.ended {
        None => "open",
        Some(Ending::Completed) => "completed",
        Some(Ending::Stopped) => "stopped",
        Some(
            Ending::DeadlineExceeded
            | Ending::BudgetExceeded
            | Ending::TurnsExceeded
            | Ending::ModelFailed
            | Ending::Stalled,
        ) => "failed",
    }
}

async fn show(store: &dyn Store, id: &str, json: bool) -> Result<Exit> {
    let id = SessionId::parse(id)?;
    let mut lines = Vec::new();
    let (session, _) = session(store, &id, |record| {
        lines.extend(console::call_line(&record.event));
    })
    .await?;
    let glance = glance(&session);
    if json {
        console::json(&glance)?;
        return Ok(Exit::Done);
    }
    let phase = glance.phase.as_ref().map_or("none", |phase| phase.as_str());
    console::say(&console::fit(&format!(
        "{}: {}",
        glance.session,
        console::visible(&glance.title)
    )));
    console::say(&format!("opened {}, {}, phase {phase}", glance.opened_at, state_word(&glance)));
    lines.iter().for_each(|line| console::say(line));
    console::say(&format!("{} records, state {}", glance.records, glance.state_hash.short()));
    Ok(Exit::Done)
}

async fn export(store: &dyn Store, id: &str) -> Result<Exit> {
    let id = SessionId::parse(id)?;
    let mut records = Vec::new();
    let (session, tip) = session(store, &id, |record| records.push(record)).await?;
    let (state, state_hash) = session.export();
    let (project, project_hash) = project(store).await?.export();
    let head = tip.hash;
    let export =
        Export { version: 1, session: id, head, records, state, state_hash, project, project_hash };
    console::say(&serde_json::to_string_pretty(&export)?);
    Ok(Exit::Done)
}
