//! Decides what of a session can be undone, and to what it goes back: read from the log, and
//! nothing is changed by looking (ADR 0022).
//!
//! `past` reads what calls did, `back` says to what it goes back and what stays.

mod back;
mod past;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::event::{Change, FileChange, UndoneCall};
use toolgate_kernel::fold::Slot;
use toolgate_kernel::key::Key;
use toolgate_kernel::names::{CallId, PhaseName, SessionId};
use toolgate_kernel::section::Home;

use self::past::Past;
use crate::drive::DriveFault;
use crate::log::Tip;
use crate::runtime::Runtime;

/// Bytes of a file that are kept when a call writes over it, so that the call can be undone. It
/// belongs to the program, not to an agent, so no configuration sets it.
pub const REPLACED_BYTES_MAX: usize = 1 << 20;

/// Calls that are told one by one.
const CALLS_TOLD_MAX: usize = 5;

/// Which calls are meant. Calls that wrote nothing that is kept here are never counted: there is
/// nothing to undo.
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
    #[error(
        "there is nothing to undo: no call there changed anything that is kept here, or all are undone"
    )]
    Nothing,
    /// Fewer calls than were asked for.
    #[error("{asked} calls cannot be undone; {there} changed something that is kept here")]
    TooFew {
        /// How many were asked for.
        asked: usize,
        /// How many there are.
        there: usize,
    },
    /// What a person locked would change.
    #[error(
        "a lock holds {}, so nothing was undone; unlock first (`toolgate facts unlock PATH`), or \
         undo fewer calls", .0.join(" and ")
    )]
    Locked(Vec<String>),
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
    /// The paths that a person locked and that would change. While there is one, nothing is undone.
    pub locked: Vec<String>,
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
            && self.locked == other.locked
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
        locked: Vec::new(),
        range,
        tips: past.tips,
        shown: BTreeMap::new(),
    };
    past.outside(&mut undo);
    past.phase(agent, &mut undo);
    past.files(runtime, agent, &mut undo).await?;
    past.keys(runtime, agent, &mut undo);
    undo.locked = agent.toolset.locked(&past.project.state, &past.project_after(&undo).state);
    Ok(undo)
}
