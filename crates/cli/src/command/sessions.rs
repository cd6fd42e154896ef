//! `toolgate sessions`: list, show, resume, undo, fork, replay and export what the log has.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{Conversation, Ending, Event, Origin, Record, Usage};
use toolgate_kernel::fold::{OpenCall, Session, Stay};
use toolgate_kernel::names::{AgentId, CallId, PhaseName, SessionId};
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::trace::{Bodies, events, trace};
use toolgate_runtime::port::Store;

use super::run::{self, How};
use super::{fork, undo};
use crate::console;
use crate::exit::Exit;
use crate::live::{Detail, Live};
use crate::project::{Log, Place, block_on};
use crate::reading::{self, Read};
use crate::redaction;
use crate::speaker;
use crate::summary::Summary;

#[derive(Args)]
#[command(after_help = "Examples:\n  toolgate sessions list\n  toolgate sessions show \
                        run-20261115093000-a1b2 --verbose\n  toolgate sessions undo \
                        run-20261115093000-a1b2 --calls 3\n  toolgate sessions fork \
                        run-20261115093000-a1b2 --at 120\n  toolgate sessions replay \
                        run-20261115093000-a1b2")]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Lists all sessions.
    #[command(after_help = "Example:\n  toolgate sessions list")]
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Shows one session: every call, and the figures of every phase.
    #[command(after_help = "Example:\n  toolgate sessions show run-20261115093000-a1b2 --verbose")]
    Show {
        /// The session.
        session: String,
        /// Show arguments and results of every call.
        #[arg(long, short)]
        verbose: bool,
        /// Print it as one JSON object, with one row per iteration.
        #[arg(long)]
        json: bool,
    },
    /// Goes on with one session where it stopped.
    #[command(after_help = "Example:\n  toolgate sessions resume run-20261115093000-a1b2")]
    Resume {
        /// The session.
        session: String,
        #[command(flatten)]
        how: How,
    },
    /// Takes back what the last calls changed, by new records. It is shown first, and you are asked.
    #[command(
        after_help = "Example:\n  toolgate sessions undo run-20261115093000-a1b2 --calls 3 --dry-run"
    )]
    Undo {
        /// The session.
        session: String,
        #[command(flatten)]
        how: undo::How,
    },
    /// Begins a new session with what another one knew. That one stays as it is.
    #[command(after_help = "Example:\n  toolgate sessions fork run-20261115093000-a1b2 --at 120")]
    Fork {
        /// The session.
        session: String,
        #[command(flatten)]
        how: fork::How,
    },
    /// Plays a session's log again. Nothing runs; the log must end at its signed head.
    #[command(
        after_help = "Example:\n  toolgate sessions replay run-20261115093000-a1b2 --delay 200"
    )]
    Replay {
        /// The session.
        session: String,
        /// Milliseconds to wait after each event.
        #[arg(long, default_value_t = 0, value_name = "MS")]
        delay: u64,
        /// Print one record per line as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Prints what each request cost and what came of it, one JSON object per line.
    #[command(after_help = "Example:\n  toolgate sessions trace run-20261115093000-a1b2 --events")]
    Trace {
        /// The session.
        session: String,
        /// Print events in the order they happened, in place of one object per request.
        #[arg(long)]
        events: bool,
        /// Print arguments and results too.
        #[arg(long, conflicts_with = "events")]
        bodies: bool,
    },
    /// Prints a session's whole log and state as JSON.
    #[command(
        after_help = "Example:\n  toolgate sessions export run-20261115093000-a1b2 > session.json"
    )]
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
    /// Where it was forked, when it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forked_from: Option<Origin>,
    opened_at: Timestamp,
    /// The agent it speaks as.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<AgentId>,
    /// The kind of conversation, where it speaks as an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation: Option<Conversation>,
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

/// A session with its figures.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Shown {
    #[serde(flatten)]
    glance: Glance,
    /// The phases it went through, in order; the last one is open.
    history: Vec<StayShown>,
    /// What is not as it should be with tools from outside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    outside: Vec<String>,
    /// The calls that are not settled, in call order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    open: Vec<OpenShown>,
    #[serde(flatten)]
    summary: Summary,
}

/// A call that is not settled.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OpenShown {
    call: CallId,
    /// The tool, as it was named.
    tool: String,
    /// How far it has come: received, asked, answered, admitted or started. Whether one that was
    /// started took effect is not known.
    progress: &'static str,
}

fn open(session: &Session) -> Vec<OpenShown> {
    let shown = |open: &Arc<OpenCall>| OpenShown {
        call: open.raw.id,
        tool: open.raw.name.clone(),
        progress: open.progress.word(),
    };
    session.open.iter().map(shown).collect()
}

/// A time spent in a phase.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StayShown {
    phase: PhaseName,
    entered_at: Timestamp,
    left_at: Option<Timestamp>,
    /// Why it was left.
    reason: Option<String>,
    /// Iterations that began in it.
    loops: u64,
}

fn history(session: &Session) -> Vec<StayShown> {
    let stay = |stay: &Stay| StayShown {
        phase: stay.phase.clone(),
        entered_at: stay.entered_at,
        left_at: stay.left.as_ref().map(|(at, _)| *at),
        reason: stay.left.as_ref().map(|(_, reason)| reason.to_string()),
        loops: stay.loops,
    };
    session.stays.iter().map(stay).collect()
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
            What::List { json } | What::Show { json, .. } | What::Replay { json, .. } => *json,
            What::Resume { how, .. } => how.json,
            What::Undo { how, .. } => how.json,
            What::Fork { how, .. } => how.json,
            What::Export { .. } | What::Trace { .. } => true,
        }
    }
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    if let What::Resume { session, how } = &options.what {
        return run::resume(place, &SessionId::parse(session)?, how);
    }
    if let What::Undo { session, how } = &options.what {
        return undo::run(place, session, how);
    }
    if let What::Fork { session, how } = &options.what {
        return fork::run(place, session, how);
    }
    let log = place.log()?;
    let store = log.store.as_ref();
    block_on(async {
        match &options.what {
            What::List { json } => list(store, *json).await,
            What::Show { session, verbose, json } => show(store, session, *verbose, *json).await,
            What::Replay { session, delay, json } => replay(&log, session, *delay, *json).await,
            What::Export { session } => export(place, store, session).await,
            What::Trace { session, events, bodies } => {
                let bodies = if *bodies { Bodies::Shown } else { Bodies::Left };
                print_trace(store, session, *events, bodies).await
            }
            What::Resume { .. } | What::Undo { .. } | What::Fork { .. } => Ok(Exit::Usage),
        }
    })
}

async fn print_trace(store: &dyn Store, id: &str, as_events: bool, bodies: Bodies) -> Result<Exit> {
    let read = reading::records(store, &SessionId::parse(id)?).await?;
    match as_events {
        true => events(&read.records).iter().for_each(console::json),
        false => trace(&read.records, bodies).iter().for_each(console::json),
    }
    Ok(Exit::Done)
}

fn glance(session: &Session) -> Glance {
    Glance {
        session: session.id.clone(),
        title: session.title.to_string(),
        forked_from: session.origin.clone(),
        opened_at: session.opened_at,
        agent: session.agent.clone(),
        conversation: session.agent.as_ref().map(|_| session.conversation),
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
    let (project, mut exit) = (reading::project(store).await?, Exit::Done);
    for id in &project.sessions {
        let glance = match reading::session(store, id).await {
            Ok(session) => glance(&session),
            // One that cannot be read keeps nobody from seeing the others.
            Err(error) => {
                exit = Exit::Failed;
                console::hint(&format!("{id}: {error}"));
                continue;
            }
        };
        if json {
            console::json(&glance);
            continue;
        }
        let state = state_word(&glance);
        let from = |from: &Origin| format!("of {}:{}, ", from.session, from.seq);
        let from = glance.forked_from.as_ref().map(from).unwrap_or_default();
        let line = format!(
            "{:<24} {:<10} {:>4} calls  {from}{}",
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
            | Ending::IterationsExceeded
            | Ending::Stalled
            | Ending::NoToolCalls
            | Ending::ToolError
            | Ending::Refused
            | Ending::Truncated
            | Ending::Rejected,
        ) => "failed",
    }
}

async fn show(store: &dyn Store, id: &str, verbose: bool, json: bool) -> Result<Exit> {
    let id = SessionId::parse(id)?;
    let live = Live::of_log(if verbose { Detail::Full } else { Detail::Lines });
    let Read { session, records, .. } = reading::records(store, &id).await?;
    let (glance, summary) = (glance(&session), Summary::of(&records));
    if json {
        let outside = session.supplied.notes.clone();
        let (history, open) = (history(&session), open(&session));
        console::json(&Shown { glance, history, outside, open, summary });
        return Ok(Exit::Done);
    }
    let phase = glance.phase.as_ref().map_or("none", |phase| phase.as_str());
    console::say(&console::fit(&format!(
        "{}: {}",
        glance.session,
        console::visible(&glance.title)
    )));
    console::say(&format!("opened {}, {}, phase {phase}", glance.opened_at, state_word(&glance)));
    if session.agent.is_some() {
        console::say(&format!("speaks {}", speaker::told(&session)));
    }
    records.iter().for_each(|record| live.event(record));
    live.open_calls(&session);
    live.done();
    if !summary.phases.is_empty() {
        summary.print(None);
    }
    console::say("");
    console::say(&format!("{} records, state {}", glance.records, glance.state_hash.short()));
    Ok(Exit::Done)
}

/// Plays the log again, event by event, and looks whether it ends at its signed head.
async fn replay(log: &Log, id: &str, delay_ms: u64, json: bool) -> Result<Exit> {
    let (id, live) = (SessionId::parse(id)?, Live::of_log(Detail::Lines));
    let (session, records, is_signed) = reading::signed(log, &id).await?;
    for record in &records {
        if json {
            console::json(record);
        } else {
            live.event(record);
        }
        if delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        }
    }
    if !json {
        live.open_calls(&session);
    }
    live.done();
    let (_, replayed) = session.export();
    if !is_signed {
        bail!("the log of {id} does not end where its signed head says; run: toolgate verify");
    }
    if !json {
        console::say("");
        console::say(&format!("{} records replayed, state {}", session.seq, replayed.short()));
    }
    Ok(Exit::Done)
}

async fn export(place: &Place, store: &dyn Store, id: &str) -> Result<Exit> {
    let id = SessionId::parse(id)?;
    let Read { session, records, tip } = reading::records(store, &id).await?;
    let (state, state_hash) = session.export();
    let (project, project_hash) = reading::project(store).await?.export();
    let head = tip.hash;
    let export =
        Export { version: 1, session: id, head, records, state, state_hash, project, project_hash };
    // Without trust nothing is looked up, and nothing that was looked up is in the log.
    if let Some(access) = place.access_now().await? {
        redaction::learn(&access);
    }
    let redacted = serde_json::to_value(&export).map(|mut export| {
        redaction::redactor().redact_value(&mut export);
        export
    })?;
    console::say(&serde_json::to_string_pretty(&redacted)?);
    Ok(Exit::Done)
}
