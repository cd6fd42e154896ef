//! Decides what of a session can be undone, and to what it goes back: read from the log, and
//! nothing is changed by looking (ADR 0022).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{
    CallAdmitted, CallSettled, Change, Event, FileChange, Outcome, ProjectEvent, RawCall, Record,
    StreamId, UndoneCall,
};
use toolgate_kernel::fold::{Project, Session, Slot, State};
use toolgate_kernel::key::Key;
use toolgate_kernel::names::{CallId, PhaseName, SectionName, SessionId, ToolName};
use toolgate_kernel::policy::SEEN_FAMILY;
use toolgate_kernel::section::{Home, Projection, Shown};
use toolgate_kernel::tool::Effect;

use crate::drive::DriveFault;
use crate::log::{Tip, read_from};
use crate::port::Row;
use crate::runtime::Runtime;

/// Bytes of a file that are kept when a call writes over it, so that the call can be undone. It
/// belongs to the program, not to an agent, so no configuration sets it.
pub const REPLACED_BYTES_MAX: usize = 1 << 20;

/// Characters of arguments that are shown where an effect outside stays.
const ARGS_CHARS_MAX: usize = 200;

/// Calls that are told one by one.
const CALLS_TOLD_MAX: usize = 5;

/// Which calls are meant. Calls that only read are never counted: there is nothing to undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// The last so many that are not undone already.
    Calls(usize),
    /// All that settled after this record of the session.
    After(u64),
}

/// Why nothing is undone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UndoRefusal {
    /// No such calls.
    #[error("there is nothing to undo: no call there changed anything, or all are undone")]
    Nothing,
    /// Fewer calls than were asked for.
    #[error("{asked} calls cannot be undone; there are {there} that changed something")]
    TooFew {
        /// How many were asked for.
        asked: usize,
        /// How many there are.
        there: usize,
    },
    /// What was looked at is no longer so.
    #[error("something changed while you were looking at it, so nothing was undone; look again")]
    LookAgain,
}

/// What would be undone.
#[derive(Debug, Clone)]
pub struct Undo {
    /// The session.
    pub session: SessionId,
    /// The calls, in the order they were made.
    pub calls: Vec<UndoneCall>,
    /// What goes back in session and project, in the order of the keys.
    pub keys: Vec<Back>,
    /// The phase it is in, and the one it goes back to.
    pub phase: Option<(PhaseName, PhaseName)>,
    /// The files that go back.
    pub files: Vec<FileChange>,
    /// What stays as it is, in words.
    pub left: Vec<String>,
    pub(crate) range: Range,
    /// Where session and project ended when this was read.
    pub(crate) tips: (Tip, Tip),
    /// The files that show state, as they will be.
    pub(crate) shown: BTreeMap<String, Arc<Vec<u8>>>,
}

/// A key that goes back.
#[derive(Debug, Clone)]
pub struct Back {
    /// The key.
    pub key: Key,
    /// Where it is kept.
    pub home: Home,
    /// What it has.
    pub now: Option<Slot>,
    /// What it had, and will have.
    pub then: Option<Slot>,
}

impl Back {
    /// The operations that take it back.
    fn changes(&self) -> Vec<Change> {
        let (key, remove) = (&self.key, Change::Remove { key: self.key.clone() });
        let Some(then) = &self.then else { return vec![remove] };
        let v = then.layout();
        match then.as_list() {
            None => vec![Change::Put { key: key.clone(), value: then.value(), v }],
            Some(items) => {
                let push = |value: &Arc<Value>| {
                    let value = value.as_ref().clone();
                    Change::Push { key: key.clone(), value, v }
                };
                // A list grows only at its end, so one that was longer is written anew.
                std::iter::once(remove).chain(items.iter().map(push)).collect()
            }
        }
    }
}

impl Undo {
    pub(crate) fn changes(&self, home: Home) -> Vec<Change> {
        self.keys.iter().filter(|back| back.home == home).flat_map(Back::changes).collect()
    }

    /// Whether somebody who saw the one has seen the other.
    pub(crate) fn same(&self, other: &Self) -> bool {
        let version = |slot: &Option<Slot>| slot.as_ref().map(Slot::version);
        let key = |back: &Back| (back.key.clone(), version(&back.now), version(&back.then));
        self.session == other.session
            && self.calls == other.calls
            && self.phase == other.phase
            && self.files == other.files
            && self.left == other.left
            && self.keys.iter().map(key).eq(other.keys.iter().map(key))
    }

    /// Whether a call is among those that are undone. They are in order.
    pub(crate) fn has(&self, call: CallId) -> bool {
        self.calls.binary_search_by_key(&call, |one| one.call).is_ok()
    }

    /// The calls as a person and a model are told.
    pub fn told(&self) -> String {
        let name = |one: &UndoneCall| format!("{} ({})", one.call, one.tool);
        match self.calls.as_slice() {
            [first, .., last] if self.calls.len() > CALLS_TOLD_MAX => {
                format!("{} calls from {} to {}", self.calls.len(), name(first), name(last))
            }
            calls => calls.iter().map(name).collect::<Vec<_>>().join(", "),
        }
    }
}

/// A call that left something behind.
struct Made {
    tool: ToolName,
    effect: Effect,
    outcome: Outcome,
    seq: u64,
    args: String,
    files: Vec<FileChange>,
    phase: Option<(PhaseName, PhaseName)>,
}

/// What one call made of one key.
struct Link {
    call: CallId,
    before: Option<Slot>,
    after: Option<Slot>,
}

/// What a session and its project went through.
struct Past {
    session: Session,
    project: Project,
    raws: BTreeMap<CallId, Arc<RawCall>>,
    admitted: BTreeMap<CallId, Arc<CallAdmitted>>,
    /// Calls that are not undone.
    made: BTreeMap<CallId, Made>,
    links: BTreeMap<(Home, Key), Vec<Link>>,
    tips: (Tip, Tip),
}

/// What would be undone, without changing anything.
pub async fn preview(
    runtime: &Runtime,
    agent: &Agent,
    session: &SessionId,
    range: Range,
) -> Result<Undo, DriveFault> {
    let past = Past::read(runtime, session).await?;
    let calls = past.chosen(range)?;
    let mut undo = Undo {
        session: session.clone(),
        calls,
        keys: Vec::new(),
        phase: None,
        files: Vec::new(),
        left: Vec::new(),
        range,
        tips: past.tips,
        shown: BTreeMap::new(),
    };
    past.outside(&mut undo);
    past.phase(agent, &mut undo);
    past.files(runtime, agent, &mut undo).await?;
    past.keys(runtime, agent, &mut undo);
    Ok(undo)
}

impl Past {
    async fn read(runtime: &Runtime, id: &SessionId) -> Result<Self, DriveFault> {
        runtime.catch_up().await?;
        let mut past = Self {
            session: Session::new(id.clone()),
            project: Project::default(),
            raws: BTreeMap::new(),
            admitted: BTreeMap::new(),
            made: BTreeMap::new(),
            links: BTreeMap::new(),
            tips: (Tip::START, Tip::START),
        };
        let (store, stream) = (runtime.store.as_ref(), StreamId::Session(id.clone()));
        let each = |record, _: &Row| past.take(record);
        past.tips.0 = read_from(store, &stream, Tip::START, each).await?;
        let each = |record, _: &Row| past.take_project(&record);
        past.tips.1 = read_from(store, &StreamId::Project, Tip::START, each).await?;
        Ok(past)
    }

    fn take(&mut self, record: Record<Event>) {
        let before = self.session.state.clone();
        self.session.apply(&record);
        let seq = record.seq;
        if let Event::ModelReplied { calls, .. } = &record.event {
            self.raws.extend(calls.iter().map(|raw| (raw.id, Arc::clone(raw))));
        } else if let Event::CallReceived { call, .. } = record.event {
            self.raws.insert(call.id, call);
        } else if let Event::CallAdmitted(admitted) = record.event {
            self.admitted.insert(admitted.call, admitted);
        } else if let Event::CallRefused(refused) = &record.event {
            self.raws.remove(&refused.call);
        } else if let Event::CallSettled(settled) = record.event {
            self.settled(settled, seq, &before);
        } else if let Event::PhaseEntered { phase, from, call: Some(call), .. } = record.event {
            if let Some(made) = self.made.get_mut(&call) {
                made.phase = Some((from, phase));
            }
        } else if let Event::Undone(undone) = &record.event {
            undone.calls.iter().for_each(|one| drop(self.made.remove(&one.call)));
        }
    }

    fn settled(&mut self, settled: CallSettled, seq: u64, before: &State) {
        let raw = self.raws.remove(&settled.call);
        let Some(admitted) = self.admitted.remove(&settled.call) else { return };
        if settled.outcome == Outcome::Failed || admitted.effect == Effect::Read {
            return;
        }
        let after = self.session.state.clone();
        self.link(Home::Session, settled.call, &settled.changes, before, &after);
        let args = match &admitted.args {
            Some(args) => args.to_string(),
            None => raw.map(|raw| raw.args.clone()).unwrap_or_default(),
        };
        let made = Made {
            tool: admitted.tool.clone(),
            effect: admitted.effect,
            outcome: settled.outcome,
            seq,
            args,
            files: settled.files,
            phase: None,
        };
        self.made.insert(settled.call, made);
    }

    fn take_project(&mut self, record: &Record<ProjectEvent>) {
        let before = self.project.state.clone();
        self.project.apply(record);
        if let ProjectEvent::ProjectChanged { changes, session: Some(session), call, .. } =
            &record.event
            && *session == self.session.id
            && let Some(call) = call.filter(|call| self.made.contains_key(call))
        {
            let after = self.project.state.clone();
            self.link(Home::Project, call, changes, &before, &after);
        }
    }

    fn link(
        &mut self,
        home: Home,
        call: CallId,
        changes: &[Change],
        before: &State,
        after: &State,
    ) {
        for key in changes.iter().filter_map(Change::key) {
            let links = self.links.entry((home, key.clone())).or_default();
            if links.last().is_none_or(|last| last.call != call) {
                let (before, after) = (before.get(key).cloned(), after.get(key).cloned());
                links.push(Link { call, before, after });
            }
        }
    }

    fn chosen(&self, range: Range) -> Result<Vec<UndoneCall>, UndoRefusal> {
        let done = self.made.iter().filter(|(_, made)| made.outcome == Outcome::Done);
        let all: Vec<(&CallId, &Made)> = done.collect();
        let chosen = match range {
            Range::Calls(asked) if asked > all.len() && !all.is_empty() => {
                return Err(UndoRefusal::TooFew { asked, there: all.len() });
            }
            Range::Calls(asked) => all.get(all.len().saturating_sub(asked)..).unwrap_or_default(),
            Range::After(seq) => {
                let first = all.partition_point(|(_, made)| made.seq <= seq);
                all.get(first..).unwrap_or_default()
            }
        };
        let one = |(call, made): &(&CallId, &Made)| {
            let (call, tool) = (**call, made.tool.clone());
            UndoneCall { call, tool }
        };
        if chosen.is_empty() {
            return Err(UndoRefusal::Nothing);
        }
        Ok(chosen.iter().map(one).collect())
    }

    fn undone<'a>(&'a self, undo: &'a Undo) -> impl Iterator<Item = (CallId, &'a Made)> {
        undo.calls.iter().filter_map(|one| Some((one.call, self.made.get(&one.call)?)))
    }

    /// Lists what reached the world, which nothing here takes back.
    fn outside(&self, undo: &mut Undo) {
        let Some(first) = undo.calls.first().map(|one| one.call) else { return };
        let mut left = Vec::new();
        for (call, made) in self.made.range(first..) {
            let Made { tool, args, .. } = made;
            let args: String = args.chars().take(ARGS_CHARS_MAX).collect();
            if made.outcome == Outcome::Unknown {
                left.push(format!("{call} ({tool} {args}): nobody knows whether it was done."));
            } else if made.effect.needs_intent() {
                left.push(format!("{call} ({tool} {args}): what it did outside stays."));
            }
        }
        undo.left.extend(left);
    }

    fn phase(&self, agent: &Agent, undo: &mut Undo) {
        let moves: Vec<_> = self.undone(undo).filter_map(|(_, made)| made.phase.clone()).collect();
        let Some(now) = self.session.phase.clone().filter(|_| !moves.is_empty()) else { return };
        let mut then = now.clone();
        for (from, to) in moves.into_iter().rev() {
            if to != then {
                undo.left.push(format!("Somebody else entered phase {then}; it stays."));
                break;
            }
            then = from;
        }
        if agent.phase(&then).is_none() {
            undo.left.push(format!("There is no phase {then} any more, so {now} stays."));
        } else if then != now {
            undo.phase = Some((now, then));
        }
    }

    /// Files that calls wrote, but those that show state: they follow from it.
    async fn files(
        &self,
        runtime: &Runtime,
        agent: &Agent,
        undo: &mut Undo,
    ) -> Result<(), DriveFault> {
        let mut paths: BTreeMap<String, Vec<FileChange>> = BTreeMap::new();
        let shows = |path: &str| agent.toolset.projections().any(|shown| shown.path == path);
        for change in self.undone(undo).flat_map(|(_, made)| &made.files) {
            if !shows(&change.path) {
                paths.entry(change.path.clone()).or_default().push(change.clone());
            }
        }
        for (path, changes) in paths {
            let now = match runtime.files.version(&path) {
                Ok(now) => now,
                Err(fault) => {
                    undo.left.push(format!("{fault}; it stays as it is."));
                    continue;
                }
            };
            let mut then = now;
            for change in changes.iter().rev() {
                if change.new != then {
                    break;
                }
                then = change.old;
            }
            let first = changes.first().and_then(|change| change.old);
            if then != first {
                undo.left.push(somebody_else(&path, then != now));
            }
            if then == now {
                continue;
            }
            if let Some(hash) = then
                && runtime.store.blob(hash).await?.is_none()
            {
                undo.left.push(format!("{path}: what it said before was not kept; it stays."));
                continue;
            }
            undo.files.push(FileChange { path, old: now, new: then });
        }
        Ok(())
    }

    fn keys(&self, runtime: &Runtime, agent: &Agent, undo: &mut Undo) {
        let toolset = &agent.toolset;
        let mut stays: Vec<&SectionName> = Vec::new();
        for (section, projection) in toolset.shown() {
            let shown = projection.shown(&self.project).map(|shown| shown.file);
            let touched = !self.links_of(undo, Home::Project, &projection.key).is_empty();
            match runtime.files.version(projection.path) {
                Ok(found) if found == shown || !touched => {}
                Ok(_) | Err(_) => {
                    stays.push(section);
                    let path = projection.path;
                    undo.left.push(format!(
                        "{path} was edited and is not taken in yet; what calls wrote there stays."
                    ));
                }
            }
        }
        for (home, key) in self.links.keys() {
            let shows = toolset.projections().any(|projection| projection.key == *key);
            let kept = toolset.keeper(key.family()).is_some_and(|keeper| stays.contains(&keeper));
            let links = self.links_of(undo, *home, key);
            if shows || kept || links.is_empty() {
                continue;
            }
            let counts = toolset.families().any(|family| family.whole.as_ref() == Some(key));
            match counts.then(|| self.counted_on(*home, key)).flatten() {
                Some(back) => undo.keys.push(back),
                None => self.key(*home, key, &links, undo),
            }
        }
        for (section, projection) in toolset.shown() {
            if !stays.contains(&section) {
                let own = |back: &Back| toolset.keeper(back.key.family()) == Some(section);
                let moved = if undo.keys.iter().any(own) { Moved::Yes } else { Moved::No };
                self.show(runtime, projection, moved, undo);
            }
        }
        undo.keys.sort_by(|one, other| one.key.cmp(&other.key));
    }

    fn links_of(&self, undo: &Undo, home: Home, key: &Key) -> Vec<&Link> {
        let links = self.links.get(&(home, key.clone())).into_iter().flatten();
        let undone = |link: &&Link| undo.has(link.call);
        links.filter(undone).collect()
    }

    fn state(&self, home: Home) -> &State {
        if home == Home::Session { &self.session.state } else { &self.project.state }
    }

    /// A number that counts the changes of its parts counts an undo too, and never goes back: whoever
    /// knows it would take new content for the old.
    fn counted_on(&self, home: Home, key: &Key) -> Option<Back> {
        let now = self.state(home).get(key).cloned();
        let slot = now.as_ref()?;
        let count = slot.as_one()?.as_u64()?.saturating_add(1);
        let mut state = self.state(home).clone();
        let put = Change::Put { key: key.clone(), value: count.into(), v: slot.layout() };
        state.apply(&put).ok()?;
        let then = state.get(key).cloned();
        Some(Back { key: key.clone(), home, now, then })
    }

    fn key(&self, home: Home, key: &Key, links: &[&Link], undo: &mut Undo) {
        let now = self.state(home).get(key).cloned();
        let (then, whole) = before(&now, links, version);
        // What was read is remembered anew with every read; nobody need be told.
        if !whole && key.family().as_str() != SEEN_FAMILY {
            let moved = version(&then) != version(&now);
            undo.left.push(somebody_else(&key.to_string(), moved));
        }
        if version(&then) != version(&now) {
            undo.keys.push(Back { key: key.clone(), home, now, then });
        }
    }

    /// Writes a file that shows state as the state will be, where any of it goes back.
    fn show(&self, runtime: &Runtime, projection: &Projection, moved: Moved, undo: &mut Undo) {
        let links = self.links_of(undo, Home::Project, &projection.key);
        if links.is_empty() {
            return;
        }
        let (key, now) = (&projection.key, self.project.state.get(&projection.key).cloned());
        // An undo leaves the fingerprint with another version of the file before it.
        let (then, whole) = before(&now, &links, file);
        let Ok(found) = runtime.files.version(projection.path) else { return };
        let path = projection.path.to_owned();
        if whole && then.is_none() {
            undo.keys.push(Back { key: key.clone(), home: Home::Project, now, then });
            if found.is_some() {
                undo.files.push(FileChange { path, old: found, new: None });
            }
            return;
        }
        if moved == Moved::No {
            return;
        }
        let mut project = self.project.clone();
        for change in undo.changes(Home::Project) {
            // It takes back what was there, so there is nothing that it could not be made to.
            let applied = project.state.apply(&change);
            debug_assert!(applied.is_ok());
        }
        let content = (projection.render)(&project);
        let digest = Digest::of(&content);
        let layout = now.as_ref().map_or(1, Slot::layout);
        let value = serde_json::json!(Shown { file: digest, was: found });
        let put = Change::Put { key: key.clone(), value, v: layout };
        drop(project.state.apply(&put));
        let then = project.state.get(key).cloned();
        if found != Some(digest) {
            undo.keys.push(Back { key: key.clone(), home: Home::Project, now, then });
            undo.files.push(FileChange { path: path.clone(), old: found, new: Some(digest) });
            undo.shown.insert(path, Arc::new(content));
        }
    }
}

/// What a key had before the calls, as far as nobody else changed it in between; and whether
/// nobody did. `known` is what a value is known by.
fn before(
    now: &Option<Slot>,
    links: &[&Link],
    known: fn(&Option<Slot>) -> Option<Digest>,
) -> (Option<Slot>, bool) {
    let mut then = now.clone();
    for link in links.iter().rev() {
        if known(&link.after) != known(&then) {
            return (then, false);
        }
        then.clone_from(&link.before);
    }
    (then, true)
}

/// The version of the file that a fingerprint is of.
fn file(slot: &Option<Slot>) -> Option<Digest> {
    Shown::deserialize(slot.as_ref()?.as_one()?).ok().map(|shown| shown.file)
}

/// Whether any of the state that a file shows goes back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moved {
    Yes,
    No,
}

fn version(slot: &Option<Slot>) -> Option<Digest> {
    slot.as_ref().map(Slot::version)
}

fn somebody_else(what: &str, moved: bool) -> String {
    if moved {
        format!("{what} goes back to what somebody else made of it in between.")
    } else {
        format!("{what} was changed by somebody else since; it stays as it is.")
    }
}
