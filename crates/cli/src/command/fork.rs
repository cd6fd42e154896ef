//! `toolgate sessions fork`: begins a new session with what another one knew, and says what is not
//! carried over.

use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::event::Origin;
use toolgate_kernel::fold::{Session, Shelf};
use toolgate_kernel::names::{PhaseName, SessionId};
use toolgate_runtime::{Driver, Fork, preview_fork};
use toolgate_store::Rival;

use super::run::new_id;
use crate::console::{self, fit, hint, say, visible};
use crate::environment::Flags;
use crate::exit::Exit;
use crate::project::{Place, block_on};
use crate::reading;

/// Things that changed and are shown at the terminal; `--json` has all of them.
const CHANGED_SHOWN_MAX: usize = 40;

#[derive(Args)]
pub(crate) struct How {
    /// The last record of the session that counts; its end when left out. Inside a turn the last
    /// whole place before it is taken.
    #[arg(long, value_name = "SEQ")]
    at: Option<u64>,
    /// Show what would be carried over and what would not, and begin nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print it as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(place: &Place, session: &str, how: &How) -> Result<Exit> {
    let session = SessionId::parse(session)?;
    let (crew, _) = place.crew_with(&Flags::default())?;
    // Who only looks is told of a session that is not there before anything is opened.
    let log = place.log()?;
    block_on(reading::session(log.store.as_ref(), &session))?;
    drop(log);
    let opened = place.open()?;
    let (fork, id) = block_on(async {
        let runtime = Arc::clone(&opened.runtime);
        let fork = preview_fork(&runtime, &crew.agent, &session, how.at).await?;
        if how.dry_run {
            return Ok((fork, None));
        }
        let (id, actor) = (new_id("fork")?, Actor::command_line());
        let _hold = opened.hold(&id, Rival::Respected)?;
        Driver::fork(runtime, crew, id.clone(), &actor, fork.clone()).await?;
        Ok((fork, Some(id)))
    })?;
    if how.json {
        console::json(&Shown::of(&fork, id.as_ref()));
        return Ok(Exit::Done);
    }
    print(&fork, id.as_ref());
    if let Some(id) = id {
        say(&format!("\nIt is {id}."));
        if spent(&fork) {
            hint("The model was through there: say what it should do now.");
        }
        hint(&format!("Go on with: {}", go_on(&fork, &id)));
    }
    Ok(Exit::Done)
}

/// What is carried over, for programs.
#[derive(Serialize)]
struct Shown<'a> {
    /// The new session; absent when somebody only looks.
    #[serde(skip_serializing_if = "Option::is_none")]
    fork: Option<&'a SessionId>,
    from: &'a Origin,
    /// The place that was asked for.
    asked: u64,
    phase: &'a Option<PhaseName>,
    iteration: u64,
    turns: u64,
    calls: u64,
    /// Keys of the session's state.
    keys: usize,
    /// What is not carried over, in words.
    left: &'a [String],
    /// What all sessions share and is otherwise by now.
    changed: &'a [String],
    /// Files that calls of the session changed since.
    files: &'a [String],
    /// Why it would end as soon as it goes on, and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    ends: Option<&'a str>,
    /// How the new session goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    go_on: Option<String>,
}

impl<'a> Shown<'a> {
    fn of(fork: &'a Fork, id: Option<&'a SessionId>) -> Self {
        let carried = &fork.carried;
        Self {
            fork: id,
            from: &fork.from,
            asked: fork.asked,
            phase: &carried.phase,
            iteration: carried.iteration,
            turns: carried.turn,
            calls: carried.next_call.saturating_sub(1),
            keys: keys(carried),
            left: &fork.left,
            changed: &fork.changed,
            files: &fork.files,
            ends: fork.ends.as_deref(),
            go_on: id.map(|id| go_on(fork, id)),
        }
    }
}

fn keys(session: &Session) -> usize {
    session.state.shelves().map(|(_, shelf)| Shelf::len(shelf)).sum()
}

/// Whether the model had nothing more to do at that place, and nothing new is told to it.
fn spent(fork: &Fork) -> bool {
    let carried = &fork.carried;
    let silent = carried.turns.back().is_some_and(|turn| turn.calls.is_empty());
    !carried.chat && silent && carried.feedback.is_empty() && fork.note.is_empty()
}

fn go_on(fork: &Fork, id: &SessionId) -> String {
    if fork.carried.chat {
        format!("toolgate chat --session {id}")
    } else if fork.carried.iteration == 0 {
        format!("toolgate call TOOL '{{…}}' --session {id}")
    } else if spent(fork) {
        format!("toolgate sessions resume {id} --feedback \"…\"")
    } else {
        format!("toolgate sessions resume {id}")
    }
}

fn print(fork: &Fork, id: Option<&SessionId>) {
    let Origin { session, seq, .. } = &fork.from;
    let is = if id.is_some() { "is" } else { "would be" };
    say(&format!("{session} {is} forked at record {seq}."));
    if *seq < fork.asked {
        say(&format!("  record {} is inside a turn; {seq} is the last whole place", fork.asked));
    }
    let carried = &fork.carried;
    let phase = carried.phase.as_ref().map_or("none", PhaseName::as_str);
    let many = |count: u64, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    let (turns, calls) =
        (many(carried.turn, "turn"), many(carried.next_call.saturating_sub(1), "call"));
    let keys = many(u64::try_from(keys(carried)).unwrap_or(u64::MAX), "key");
    say(&format!("  phase {phase}, {turns}, {calls}, {keys} of state"));
    if let Some(ends) = &fork.ends {
        console::hanging(&format!("  It ends as soon as it goes on: {}.", visible(ends)), 2);
    }
    if !fork.left.is_empty() {
        say("What is not carried over:");
        fork.left.iter().for_each(|left| console::hanging(&format!("  {}", visible(left)), 2));
    }
    let changed: Vec<&String> = fork.changed.iter().chain(&fork.files).collect();
    if changed.is_empty() {
        return;
    }
    say("All sessions share this, and it has changed since:");
    for one in changed.iter().take(CHANGED_SHOWN_MAX) {
        say(&fit(&format!("  {}", visible(one))));
    }
    if let Some(more) = changed.len().checked_sub(CHANGED_SHOWN_MAX).filter(|more| *more > 0) {
        say(&format!("  and {more} more; --json shows all"));
    }
    say("It stays as it is, for the fork too.");
    if fork.undoable {
        hint(&format!("What calls of {session} did: toolgate sessions undo {session} --to {seq}"));
    }
}
