//! Decides what the log says of one fact: every change of it, with who and why.

use std::collections::VecDeque;

use serde::Serialize;
use serde_json::Value;
use toolgate_kernel::event::{Change, ProjectEvent, Record};
use toolgate_kernel::fold::Project;

use super::decide::Made;
use super::document::{Document, Locks, ProposalId, proposals};
use super::pointer::{Path, Root};

/// Most entries that are kept; older ones are counted.
pub const ENTRIES_MAX: usize = 1_000;

/// One change of a fact, or of what holds it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// The place in the log of the project.
    pub seq: u64,
    /// When.
    pub at: String,
    /// Who decided.
    pub by: String,
    /// `changed`, `locked` or `unlocked`.
    pub what: &'static str,
    /// What was written down as the reason.
    pub reason: String,
    /// What stood there before.
    pub old: Option<Value>,
    /// What stands there since.
    pub new: Option<Value>,
    /// The proposals that were committed there, with who made them and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proposals: Vec<Behind>,
}

/// A proposal behind a change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Behind {
    /// Its number.
    pub proposal: ProposalId,
    /// What it was.
    #[serde(flatten)]
    pub made: Made,
}

/// The changes of one path, read record by record.
pub struct History {
    path: Path,
    project: Project,
    entries: VecDeque<Entry>,
    left_out: usize,
}

impl History {
    /// Nothing is read yet.
    pub fn of(path: Path) -> Self {
        Self { path, project: Project::default(), entries: VecDeque::new(), left_out: 0 }
    }

    /// Takes in the next record of the project.
    pub fn take(&mut self, record: &Record<ProjectEvent>) {
        let ProjectEvent::ProjectChanged { changes, reason, .. } = &record.event else {
            return self.project.apply(record);
        };
        let family = self.path.root.family();
        let concerns = |change: &Change| {
            change.key().is_none_or(|key| {
                let family_of = key.family().as_str();
                family_of == family || family_of == Root::Locks.family()
            })
        };
        if !changes.iter().any(concerns) {
            return self.project.apply(record);
        }
        let (old, locked) = (self.value(), self.locked());
        let mut proposals = self.behind(changes);
        self.project.apply(record);
        let (new, locked_now) = (self.value(), self.locked());
        let what = match (locked, locked_now) {
            _ if old != new => "changed",
            (false, true) => "locked",
            (true, false) => "unlocked",
            (true, true) | (false, false) => return,
        };
        let (by, at) = (record.actor.to_string(), record.at.to_string());
        let (seq, reason) = (record.seq, reason.clone());
        if what != "changed" {
            proposals.clear();
        }
        self.entries.push_back(Entry { seq, at, by, what, reason, old, new, proposals });
        if self.entries.len() > ENTRIES_MAX {
            self.entries.pop_front();
            self.left_out += 1;
        }
    }

    /// What stands there now.
    pub fn value(&self) -> Option<Value> {
        self.path.find(&Document::of(&self.project.state, self.path.root).value).cloned()
    }

    /// Whether it is held.
    pub fn locked(&self) -> bool {
        Locks::of(&self.project.state).over(&self.path).is_some()
    }

    /// The changes, oldest first, and how many older ones are not among them.
    pub fn entries(&self) -> (impl DoubleEndedIterator<Item = &Entry>, usize) {
        (self.entries.iter(), self.left_out)
    }

    /// The proposals about this path that these changes consume.
    fn behind(&self, changes: &[Change]) -> Vec<Behind> {
        let waiting = proposals(&self.project.state);
        let removed = changes.iter().filter_map(|change| match change {
            Change::Remove { key } if key.family().as_str() == Root::Proposals.family() => {
                key.name().parse::<ProposalId>().ok()
            }
            Change::Remove { .. } | Change::Put { .. } | Change::Push { .. } | Change::Clear {} => {
                None
            }
        });
        let about = |id: ProposalId| {
            let proposal = waiting.get(&id)?;
            let place = proposal.place()?;
            let near = place.covers(&self.path) || self.path.covers(&place);
            near.then(|| Behind { proposal: id, made: proposal.into() })
        };
        removed.filter_map(about).collect()
    }
}
