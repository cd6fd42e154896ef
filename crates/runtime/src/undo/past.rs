//! Decides which calls of a session left something behind, and what each made of which key: read
//! from its log and the project's.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolgate_kernel::event::{
    CallAdmitted, CallSettled, Change, Event, FileChange, Outcome, ProjectEvent, RawCall, Record,
    StreamId, UndoneCall,
};
use toolgate_kernel::fold::{Project, Session, Slot, State};
use toolgate_kernel::key::Key;
use toolgate_kernel::names::{CallId, PhaseName, SessionId, ToolName};
use toolgate_kernel::policy::SEEN_FAMILY;
use toolgate_kernel::section::Home;
use toolgate_kernel::tool::Effect;

use super::{Range, Undo, UndoRefusal};
use crate::drive::DriveFault;
use crate::log::{Tip, read_from};
use crate::port::Row;
use crate::runtime::Runtime;

/// A call that left something behind.
pub(super) struct Made {
    pub(super) tool: ToolName,
    pub(super) effect: Effect,
    pub(super) outcome: Outcome,
    seq: u64,
    pub(super) args: String,
    pub(super) files: Vec<FileChange>,
    pub(super) phase: Option<(PhaseName, PhaseName)>,
    /// Whether it wrote anything that is kept here: state, files or the phase.
    wrote: bool,
}

/// What one call made of one key.
pub(super) struct Link {
    pub(super) call: CallId,
    pub(super) before: Option<Slot>,
    pub(super) after: Option<Slot>,
}

/// What a session and its project went through.
pub(super) struct Past {
    pub(super) session: Session,
    pub(super) project: Project,
    raws: BTreeMap<CallId, Arc<RawCall>>,
    admitted: BTreeMap<CallId, Arc<CallAdmitted>>,
    /// Calls that are not undone.
    pub(super) made: BTreeMap<CallId, Made>,
    pub(super) links: BTreeMap<(Home, Key), Vec<Link>>,
    pub(super) tips: (Tip, Tip),
}

impl Past {
    pub(super) async fn read(runtime: &Runtime, id: &SessionId) -> Result<Self, DriveFault> {
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
                (made.phase, made.wrote) = (Some((from, phase)), true);
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
        let wrote = writes(&settled.changes) || !settled.files.is_empty();
        let made = Made {
            tool: admitted.tool.clone(),
            effect: admitted.effect,
            outcome: settled.outcome,
            seq,
            args,
            files: settled.files,
            phase: None,
            wrote,
        };
        self.made.insert(settled.call, made);
    }

    fn take_project(&mut self, record: &Record<ProjectEvent>) {
        let before = self.project.state.clone();
        self.project.apply(record);
        if let ProjectEvent::ProjectChanged { changes, session: Some(session), call, .. } =
            &record.event
            && *session == self.session.id
            && let Some(call) = *call
            && let Some(made) = self.made.get_mut(&call)
        {
            made.wrote |= writes(changes);
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

    pub(super) fn chosen(&self, range: Range) -> Result<Vec<UndoneCall>, UndoRefusal> {
        let done = |(_, made): &(&CallId, &Made)| made.wrote && made.outcome == Outcome::Done;
        let done = self.made.iter().filter(done);
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

    pub(super) fn undone<'a>(&'a self, undo: &'a Undo) -> impl Iterator<Item = (CallId, &'a Made)> {
        undo.calls.iter().filter_map(|one| Some((one.call, self.made.get(&one.call)?)))
    }

    /// What the undone calls made of a key, in order.
    pub(super) fn links_of(&self, undo: &Undo, home: Home, key: &Key) -> Vec<&Link> {
        let links = self.links.get(&(home, key.clone())).into_iter().flatten();
        let undone = |link: &&Link| undo.has(link.call);
        links.filter(undone).collect()
    }

    pub(super) fn state(&self, home: Home) -> &State {
        if home == Home::Session { &self.session.state } else { &self.project.state }
    }
}

/// Whether any state is changed; what was read is remembered anew with every read.
fn writes(changes: &[Change]) -> bool {
    let own = |key: &Key| key.family().as_str() != SEEN_FAMILY;
    changes.iter().any(|change| change.key().is_none_or(own))
}
