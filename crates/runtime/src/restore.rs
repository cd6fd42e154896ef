//! Plans what follows when an owner accepts an older state of a log: which decisions were lost, and
//! which of them are made again because they took permission away.

use serde_json::Value;
use toolgate_kernel::credential::PersonKey;
use toolgate_kernel::decision::{DecisionKind, Role};
use toolgate_kernel::event::{Change, ProjectEvent, Record, StreamId};
use toolgate_kernel::fold::{EnrolledPerson, Project};
use toolgate_kernel::key::Key;
use toolgate_kernel::pin::{Pinned, Ruling};
use toolgate_kernel::tree::{LogId, TreeHead};

use crate::authority::{Author, Judge, statement_digest};
use crate::log::ReadFault;
use crate::port::StoreFault;
use crate::runtime::{Runtime, SayFault};

/// The family of state that says what may not be changed.
const LOCKS: &str = "locks";

/// What accepting an older state of a log means.
#[derive(Debug, Clone)]
pub struct RestorePlan {
    /// The newest head that is known.
    pub seen: TreeHead,
    /// The head of the state that is there.
    pub now: TreeHead,
    /// Decisions that are not in this state, in the order in which they were made.
    pub lost: Vec<LostDecision>,
    /// What is decided again: revoked people, lowered roles, locks, rejected definitions.
    pub put_back: Vec<ProjectEvent>,
    /// The project in this state.
    before: Project,
    /// The project with every lost decision that counts.
    after: Project,
}

/// A decision that stands in the lost part of a log, as it was kept outside.
#[derive(Debug, Clone)]
pub struct LostDecision {
    /// Its record.
    pub record: Record<ProjectEvent>,
    /// Whether its signature fits, and its signer was allowed to decide this.
    pub counts: bool,
}

/// Why an older state of a log was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadFault),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreFault),
    /// The log could not take it.
    #[error(transparent)]
    Say(#[from] SayFault),
    /// Something was written meanwhile.
    #[error("the log changed while you were looking at it; look again")]
    Changed,
}

impl RestorePlan {
    /// Plans going on from a state of a log, with copies of the decisions that were made after it.
    pub fn of(
        log: LogId,
        (seen, now): (TreeHead, TreeHead),
        project: &Project,
        copies: Vec<Record<ProjectEvent>>,
    ) -> Self {
        let (before, mut after) = (project.clone(), project.clone());
        let mut lost = Vec::new();
        for record in copies {
            let judge = Judge { log, project: &after, seq: after.seq };
            let is_new =
                statement_digest(&record).is_some_and(|one| !after.statements.contains(&one));
            let counts = is_new && judge.check(&record, &StreamId::Project).is_ok();
            if counts {
                // Between two decisions stood records that are lost.
                let seq = record.seq.max(after.seq.saturating_add(1));
                after.seq = seq.saturating_sub(1);
                after.apply(&Record { seq, ..record.clone() });
            }
            lost.push(LostDecision { record, counts });
        }
        let mut put_back = people(&before, &after);
        put_back.extend(locks(&before, &after));
        put_back.extend(pins(&before, &after, &lost));
        Self { seen, now, lost, put_back, before, after }
    }

    /// Whether a key is an owner's here who may accept this state: in the state itself, and after
    /// everything that is lost.
    pub fn may_accept(&self, key: &PersonKey) -> bool {
        let what = DecisionKind::Restore { seen: self.seen, now: self.now };
        let may = |project: &Project| {
            project.people.get(key).is_some_and(|person| person.may(&what, project.seq))
        };
        may(&self.before) && may(&self.after)
    }

    /// What a key may do here, in the state itself and after everything that is lost; nothing where it
    /// is not enrolled, or revoked.
    pub fn roles(&self, key: &PersonKey) -> (Option<Role>, Option<Role>) {
        let role = |project: &Project| {
            let person = project.people.get(key).filter(|person| person.revoked.is_none());
            person.map(|person| person.role)
        };
        (role(&self.before), role(&self.after))
    }

    /// How a person was called when a decision was signed.
    pub fn name_of(&self, key: &PersonKey) -> Option<&str> {
        let person = self.after.people.get(key).or_else(|| self.before.people.get(key))?;
        Some(&person.name)
    }
}

impl Runtime {
    /// Writes down, signed, that an older state of the log is gone on from, and what is decided again.
    /// All of it is one commit.
    pub async fn accept_restore(
        &self,
        author: Author<'_>,
        plan: &RestorePlan,
    ) -> Result<(), RestoreError> {
        let restored = ProjectEvent::LogRestored { seen: plan.seen, now: plan.now };
        let events: Vec<ProjectEvent> =
            std::iter::once(restored).chain(plan.put_back.iter().cloned()).collect();
        if self.store.tree_head().await? != Some(plan.now) {
            return Err(RestoreError::Changed);
        }
        self.decide(author, |project| {
            if project.seq != plan.before.seq {
                return Err(RestoreError::Changed);
            }
            Ok((events.clone(), ()))
        })
        .await
    }
}

/// People who may do less after what is lost than before it.
fn people(before: &Project, after: &Project) -> Vec<ProjectEvent> {
    let mut events = Vec::new();
    for (key, person) in &after.people {
        let Some(earlier) = before.people.get(key) else { continue };
        if earlier.revoked.is_some() || person == earlier {
            continue;
        }
        if person.revoked.is_some() {
            let reason = "revoked before the log was restored".to_owned();
            events.push(ProjectEvent::PersonRevoked { key: *key, reason });
        } else if is_narrower(person, earlier) {
            let EnrolledPerson { name, role, tools, .. } = person;
            let (name, role, tools) = (name.to_string(), *role, tools.clone());
            events.push(ProjectEvent::PersonEnrolled { key: *key, name, role, tools });
        }
    }
    events
}

/// Whether a person may do less in one way, and nothing more in the other.
fn is_narrower(person: &EnrolledPerson, earlier: &EnrolledPerson) -> bool {
    let (role, scope) = (person.role < earlier.role, person.tools != earlier.tools);
    let is_scoped_only = scope && !person.tools.is_empty() && person.role <= earlier.role;
    (role && !scope) || is_scoped_only
}

/// Locks that are there after what is lost and not before it.
fn locks(before: &Project, after: &Project) -> Option<ProjectEvent> {
    let mut changes = Vec::new();
    for (name, slot) in after.state.shelf(LOCKS)?.iter() {
        let Ok(key) =
            Key::parse(&if name.is_empty() { LOCKS.into() } else { format!("{LOCKS}:{name}") })
        else {
            continue;
        };
        let there = before.state.get(&key).map(|slot| slot.value());
        let wanted = merged(there.as_ref(), slot.value());
        if there.as_ref() != Some(&wanted) {
            changes.push(Change::Put { key, value: wanted, v: slot.layout() });
        }
    }
    let reason = "locked before the log was restored".to_owned();
    (!changes.is_empty()).then_some(ProjectEvent::ProjectChanged {
        changes,
        session: None,
        call: None,
        reason,
    })
}

/// What is locked in one state or the other.
fn merged(there: Option<&Value>, lost: Value) -> Value {
    match (there.and_then(Value::as_object), lost) {
        (Some(there), Value::Object(mut all)) => {
            all.extend(there.clone());
            Value::Object(all)
        }
        (_, lost) => lost,
    }
}

/// Definitions that were rejected in what is lost and not accepted again there.
fn pins(before: &Project, after: &Project, lost: &[LostDecision]) -> Vec<ProjectEvent> {
    let rejected = |lost: &LostDecision| {
        let ProjectEvent::ToolPinned(pinned) = &lost.record.event else { return None };
        let is_rejected = pinned.ruling == Ruling::Rejected && lost.counts;
        is_rejected.then(|| pinned.clone())
    };
    let mut events: Vec<Box<Pinned>> = Vec::new();
    for pinned in lost.iter().filter_map(rejected) {
        let print = Some(pinned.definition.fingerprint());
        let rejects = |project: &Project| {
            project.pins.get(&pinned.tool).is_some_and(|pin| pin.rejected == print)
        };
        let is_new = !events.iter().any(|one| one.tool == pinned.tool);
        if is_new && rejects(after) && !rejects(before) {
            events.push(pinned);
        }
    }
    events.into_iter().map(ProjectEvent::ToolPinned).collect()
}
