//! Decides where a session can be forked and what a fork begins with: read from the log, and nothing
//! is changed by looking (ADR 0024).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use toolgate_kernel::agent::Agent;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{
    Ending, Event, FileChange, Forked, Origin, ProjectEvent, Record, StreamId,
};
use toolgate_kernel::fold::{Allowance, Project, Session, Shelf, State, Waiting};
use toolgate_kernel::names::{CallId, SessionId};
use toolgate_kernel::next::over;
use toolgate_kernel::policy::SEEN_FAMILY;

use crate::drive::OpenFault;
use crate::log::{ReadFault, Tip, read_from, read_signed};
use crate::port::{Row, Store, StoreFault};
use crate::runtime::Runtime;

/// Things that changed of which the model is told.
const CHANGED_TOLD_MAX: usize = 10;

/// Bytes of a session that one record carries.
const CARRIED_BYTES_MAX: usize = 32 << 20;

/// Why there is no fork.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForkRefusal {
    /// The log is not that long.
    #[error(
        "{session} has {end} records, so it cannot be forked at {asked}; give --at {end} or less"
    )]
    Beyond {
        /// The session.
        session: SessionId,
        /// The place that was asked for.
        asked: u64,
        /// Where its log ends.
        end: u64,
    },
    /// It holds more than a record may.
    #[error(
        "{session} holds {bytes} bytes there, and a fork carries {max} at most; give an earlier \
         place with --at, where an iteration begins"
    )]
    TooLarge {
        /// The session.
        session: SessionId,
        /// What would be carried.
        bytes: usize,
        /// The most that is.
        max: usize,
    },
    /// Nothing had happened by then.
    #[error(
        "nothing has happened in {session} up to record {asked}, so there is nothing to go on from; \
         begin a new session, or give a later place with --at"
    )]
    Nothing {
        /// The session.
        session: SessionId,
        /// The place that was asked for.
        asked: u64,
    },
}

/// What a fork would begin with.
#[derive(Debug, Clone)]
pub struct Fork {
    /// The session and the place in it that was taken.
    pub from: Origin,
    /// The place that was asked for; its end when none was.
    pub asked: u64,
    /// What is carried over.
    pub carried: Session,
    /// What is not carried over, in words.
    pub left: Vec<String>,
    /// What all sessions share and is otherwise by now: keys, and files that show some of them.
    pub changed: Vec<String>,
    /// The files that calls of the session changed since.
    pub files: Vec<String>,
    /// Whether any of it was changed by calls of this very session, so that an undo takes it back.
    pub undoable: bool,
    /// Why it would end as soon as it goes on, and what to do about it: what was spent is carried
    /// over.
    pub ends: Option<String>,
    /// What the model is told; nothing when it is empty.
    pub note: String,
    /// How the session began.
    pub(crate) opened: Event,
}

/// What a fork of a session would begin with, at its end or at an earlier place. Nothing is changed,
/// and nobody is in the way of whoever drives the session.
pub async fn preview_fork(
    runtime: &Runtime,
    agent: &Agent,
    session: &SessionId,
    at: Option<u64>,
) -> Result<Fork, OpenFault> {
    let project = runtime.catch_up().await?;
    let (store, stream) = (runtime.store.as_ref(), StreamId::Session(session.clone()));
    let mut past = Past::new(session, at.unwrap_or(u64::MAX));
    let each = |record, row: &Row| past.take(record, row.hash);
    let end = read_signed(store, &stream, Tip::START, each).await?.seq;
    past.finish();
    if end == 0 {
        return Err(match project.sessions.contains(session) {
            true => ReadFault::Broken { stream, seq: 1 }.into(),
            false => OpenFault::Missing(session.clone()),
        });
    }
    let asked = at.unwrap_or(end);
    if asked > end {
        return Err(ForkRefusal::Beyond { session: session.clone(), asked, end }.into());
    }
    let nothing = ForkRefusal::Nothing { session: session.clone(), asked };
    let begun = |(there, _): &(Session, Digest)| there.iteration > 0 || there.next_call > 1;
    let (Some((there, hash)), Some(opened)) = (past.taken.take().filter(begun), past.opened.take())
    else {
        return Err(nothing.into());
    };
    let from = Origin { session: session.clone(), seq: there.seq, hash };
    let (left, mut told) = not_carried(&there);
    let shared = past.shared(store, agent, &there).await?;
    let files = past.files(agent, there.seq);
    told.extend(otherwise(&shared.changed, &files));
    let undoable = shared.own || !files.is_empty();
    let (carried, note) = (there.carried(), told.join(" "));
    let bytes = serde_json::to_vec(&carried).map_or(usize::MAX, |carried| carried.len());
    if bytes > CARRIED_BYTES_MAX {
        let session = session.clone();
        return Err(ForkRefusal::TooLarge { session, bytes, max: CARRIED_BYTES_MAX }.into());
    }
    let (changed, ends) = (shared.changed, ends(agent, &carried));
    Ok(Fork { from, asked, carried, left, changed, files, undoable, ends, note, opened })
}

/// Why a fork would end as soon as it goes on, and what to do about it.
fn ends(agent: &Agent, carried: &Session) -> Option<String> {
    let (ending, why) = over(agent, carried)?;
    let raise = match ending {
        Ending::BudgetExceeded => "raise it under `budget` in toolgate.yaml",
        Ending::DeadlineExceeded => "raise `run_ms_max` under `limits` in toolgate.yaml",
        Ending::Stalled => "raise `repeat_calls_max` under `limits` in toolgate.yaml",
        Ending::Completed
        | Ending::Stopped
        | Ending::TurnsExceeded
        | Ending::IterationsExceeded
        | Ending::NoToolCalls
        | Ending::ToolError
        | Ending::Refused
        | Ending::Truncated
        | Ending::Rejected => "change what ended it",
    };
    Some(format!("{why}; {raise} before you go on, or fork an earlier place with --at"))
}

/// Whether a fork begins with what the log says of its origin; what is wrong, when it does not.
/// Another program may have folded otherwise, but not what every program only copies.
pub(crate) async fn misfit(
    store: &dyn Store,
    forked: &Forked,
) -> Result<Option<&'static str>, StoreFault> {
    let (from, carried) = (&forked.from, &forked.carried);
    let mut past = Past::new(&from.session, from.seq);
    let stream = StreamId::Session(from.session.clone());
    let each = |record, row: &Row| past.take(record, row.hash);
    match read_from(store, &stream, Tip::START, each).await {
        // What is wrong with that stream is told of that stream.
        Ok(_)
        | Err(
            ReadFault::Store(StoreFault::Damaged(_))
            | ReadFault::Broken { .. }
            | ReadFault::Unsigned { .. }
            | ReadFault::Unfounded { .. }
            | ReadFault::OtherHistory { .. }
            | ReadFault::OtherProject { .. }
            | ReadFault::Unreadable { .. },
        ) => {}
        Err(ReadFault::Store(fault)) => return Err(fault),
    }
    past.finish();
    Ok(match past.exact {
        Some((there, hash)) if hash == from.hash => {
            let there = there.carried();
            let json = |session: &Session| serde_json::to_value(session).ok();
            let same = match forked.program == env!("CARGO_PKG_VERSION") {
                true => json(carried) == json(&there),
                false => copied(carried) == copied(&there),
            };
            (!same).then_some("it does not begin with what the other session knew")
        }
        Some(_) | None => Some("the record it was forked from is not the one that is there"),
    })
}

/// What every program copies from the log in one way: the title, the places and counts, and a
/// fingerprint of phase and state.
fn copied(session: &Session) -> (Arc<str>, [u64; 4], Digest) {
    let Session { title, seq, iteration, turn, next_call, .. } = session;
    (Arc::clone(title), [*seq, *iteration, *turn, *next_call], session.export().1)
}

/// What is not carried over, for a person and for the model.
fn not_carried(there: &Session) -> (Vec<String>, Vec<String>) {
    let waits = |(id, waiting): (&CallId, &Arc<Waiting>)| {
        let tool = &waiting.tool;
        format!("{id} ({tool}) waits for a person's yes there; nobody can say it here.")
    };
    let allowed = |allowance: &Arc<Allowance>| {
        let Allowance { tool, policy, .. } = allowance.as_ref();
        format!("{policy} was allowed for {tool} there; here it asks again.")
    };
    let mut left: Vec<String> = there.waiting.iter().map(waits).collect();
    left.extend(there.allowances.iter().map(allowed));
    let modelled = there.waiting.iter().filter(|(_, waiting)| waiting.modelled);
    let told = modelled.map(|(id, waiting)| {
        let tool = &waiting.tool;
        format!("{id} ({tool}) no longer waits for a person; make the call again if it is wanted.")
    });
    let told = told.collect();
    (left, told)
}

/// What the model is told of things that are not as it knew them.
fn otherwise(changed: &[String], files: &[String]) -> Option<String> {
    let names: Vec<&str> = changed.iter().chain(files).map(String::as_str).collect();
    let (shown, more) = names.split_at(names.len().min(CHANGED_TOLD_MAX));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    let list = shown.join(", ");
    (!shown.is_empty()).then(|| {
        format!("Meanwhile these have changed; read them before you rely on them: {list}{more}.")
    })
}

/// What a session's log says up to a place, and which files changed after it.
struct Past {
    at: u64,
    session: Session,
    /// The record that is not taken in yet: what follows it may belong to it.
    last: Option<(Record<Event>, Digest)>,
    opened: Option<Event>,
    /// The last place up to the one asked for where it can be forked, with its hash.
    taken: Option<(Session, Digest)>,
    /// The very place that was asked for.
    exact: Option<(Session, Digest)>,
    /// Undos, each with its place and how much of the project had been seen.
    undos: Vec<(u64, u64)>,
    /// What calls and undos did to files after each record.
    written: Vec<(u64, Vec<FileChange>)>,
    /// Where each call settled.
    ends: BTreeMap<CallId, u64>,
}

/// What all sessions share and is otherwise by now.
struct Shared {
    changed: Vec<String>,
    /// Whether calls of the session changed any of it.
    own: bool,
}

impl Past {
    fn new(session: &SessionId, at: u64) -> Self {
        Self {
            at,
            session: Session::new(session.clone()),
            last: None,
            opened: None,
            taken: None,
            exact: None,
            undos: Vec::new(),
            written: Vec::new(),
            ends: BTreeMap::new(),
        }
    }

    fn take(&mut self, record: Record<Event>, hash: Digest) {
        if let Some((last, hash)) = self.last.take() {
            self.step(&last, hash, Some(&record.event));
        }
        self.last = Some((record, hash));
    }

    fn finish(&mut self) {
        if let Some((last, hash)) = self.last.take() {
            self.step(&last, hash, None);
        }
    }

    fn step(&mut self, record: &Record<Event>, hash: Digest, next: Option<&Event>) {
        let (seq, event) = (record.seq, &record.event);
        let ends = matches!(next, Some(Event::Ended { .. }));
        let closes = matches!(event, Event::IterationClosed(_)) && ends;
        // The end is not carried over, nor is the close of the iteration that came with it: the
        // conversation goes on where it was.
        if matches!(event, Event::Ended { .. }) || (closes && seq < self.at) {
            self.session.seq = seq;
        } else {
            self.session.apply(record);
        }
        self.note(seq, event);
        let joined = match next {
            Some(Event::PhaseEntered { call, .. }) => {
                call.is_some() || matches!(event, Event::Undone(_))
            }
            Some(_) | None => closes,
        };
        if seq <= self.at && self.session.whole() && !joined {
            self.taken = Some((self.session.clone(), hash));
        }
        if seq == self.at {
            self.exact = Some((self.session.clone(), hash));
        }
    }

    /// Keeps what tells later which changes came before the place and which after it.
    fn note(&mut self, seq: u64, event: &Event) {
        if let Event::Opened { .. } = event {
            self.opened = Some(event.clone());
        } else if let Event::CallSettled(settled) = event {
            self.ends.insert(settled.call, seq);
            self.wrote(seq, &settled.files);
        } else if let Event::Undone(undone) = event {
            self.undos.push((seq, self.session.saw.map_or(0, |saw| saw.seq)));
            self.wrote(seq, &undone.files);
        }
    }

    fn wrote(&mut self, seq: u64, files: &[FileChange]) {
        if !files.is_empty() {
            self.written.push((seq, files.to_vec()));
        }
    }

    /// What is kept for all sessions and is not as it was at a place of this one.
    async fn shared(
        &self,
        store: &dyn Store,
        agent: &Agent,
        there: &Session,
    ) -> Result<Shared, ReadFault> {
        let (mut now, mut then, mut own) = (Project::default(), State::default(), false);
        let each = |record: Record<ProjectEvent>, _: &Row| {
            now.apply(&record);
            let belongs = self.belongs(there, &record);
            let seen = there.saw.is_some_and(|saw| record.seq <= saw.seq);
            if seen || belongs == Some(true) {
                then = now.state.clone();
            }
            own |= belongs == Some(false);
        };
        read_from(store, &StreamId::Project, Tip::START, each).await?;
        let changed = changed(agent, &then, &now.state);
        let own = own && !changed.is_empty();
        Ok(Shared { changed, own })
    }

    /// Whether a change of the project was made by this session, and then whether it had been by the
    /// time of a place. A change of a call is in one append with its settlement, one of an undo with
    /// the last undo that had not seen it.
    fn belongs(&self, there: &Session, record: &Record<ProjectEvent>) -> Option<bool> {
        let ProjectEvent::ProjectChanged { session: Some(session), call, .. } = &record.event
        else {
            return None;
        };
        if *session != there.id {
            return None;
        }
        let unseen = |(_, saw): &&(u64, u64)| *saw < record.seq;
        let at = match call {
            Some(call) => self.ends.get(call).copied(),
            None => self.undos.iter().rev().find(unseen).map(|(seq, _)| *seq),
        };
        at.map(|at| at <= there.seq)
    }

    /// The files that calls of this session changed after a place, and that did not go back.
    fn files(&self, agent: &Agent, place: u64) -> Vec<String> {
        let mut files: BTreeMap<&str, (Option<Digest>, Option<Digest>)> = BTreeMap::new();
        let after = self.written.iter().filter(|(seq, _)| *seq > place);
        for FileChange { path, old, new, kept: _ } in after.flat_map(|(_, changes)| changes) {
            files.entry(path).and_modify(|ends| ends.1 = *new).or_insert((*old, *new));
        }
        let shows = |path: &str| agent.toolset.projections().any(|shown| shown.path == path);
        let moved = files.into_iter().filter(|(path, (old, new))| old != new && !shows(path));
        moved.map(|(path, _)| path.to_owned()).collect()
    }
}

/// The keys that have another content than they had, in order. A file that shows state stands for
/// its own fingerprint, and what was read is remembered anew with every read.
fn changed(agent: &Agent, then: &State, now: &State) -> Vec<String> {
    let families: BTreeSet<_> = then.shelves().chain(now.shelves()).map(|(name, _)| name).collect();
    let (mut keys, empty) = (Vec::new(), Shelf::default());
    for family in families.into_iter().filter(|family| family.as_str() != SEEN_FAMILY) {
        let shelf = |state: &State| state.shelf(family.as_str()).unwrap_or(&empty).clone();
        for (name, _) in shelf(now).changes_since(&shelf(then)) {
            let colon = if name.is_empty() { "" } else { ":" };
            let key = format!("{family}{colon}{name}");
            let mut shown = agent.toolset.projections();
            let file = shown.find(|shown| shown.key.to_string() == key);
            keys.push(file.map_or(key, |shown| shown.path.to_owned()));
        }
    }
    keys
}
