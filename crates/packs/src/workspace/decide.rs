//! Decides what becomes of a person's word about facts and locks. Pure: whoever asks the person
//! shows the upshot first, and writes down the same one.

use serde::Serialize;
use serde_json::Value;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{Change, ProjectEvent};
use toolgate_kernel::fold::Project;
use toolgate_kernel::key::KeyRefusal;

use super::document::{
    DOCUMENT_BYTES_MAX, Document, LAYOUT, LOCKS_MAX, Lock, Locks, Proposal, ProposalId, etag,
    last_proposal, proposal_key, proposals,
};
use super::patch::{Verb, apply};
use super::pointer::{Path, Root};

/// What a person wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Makes facts of proposals.
    Commit(Vec<ProposalId>),
    /// Takes proposals away.
    Reject(Vec<ProposalId>, String),
    /// Holds a path as it is.
    Lock(Path, String),
    /// Holds it no longer.
    Unlock(Path, String),
}

/// What would become of an act, as a person is shown it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Upshot {
    /// `commit`, `reject`, `lock` or `unlock`.
    pub act: &'static str,
    /// The facts that change; of a rejection those that do not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<Proposed>,
    /// The proposals that stay as they are, each with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
    /// The path that is locked or unlocked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The etag of the facts afterwards.
    pub facts_etag: u64,
    #[serde(skip)]
    reason: String,
    #[serde(skip)]
    changes: Vec<Change>,
}

/// A proposal beside the fact it is about.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Proposed {
    /// Its number.
    pub proposal: ProposalId,
    /// What stands there; nothing when the fact is new.
    pub old: Option<Value>,
    /// What would stand there; nothing when the fact would be forgotten.
    pub new: Option<Value>,
    /// The proposal itself, with who made it and why.
    #[serde(flatten)]
    pub made: Made,
}

/// Who proposed what, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Made {
    /// Where.
    pub path: String,
    /// Why.
    pub reason: String,
    /// Who, in which session, with which call, and when.
    pub by: String,
    /// The session.
    pub session: String,
    /// The call.
    pub call: String,
    /// The moment.
    pub at: String,
}

impl From<&Proposal> for Made {
    fn from(proposal: &Proposal) -> Self {
        Self {
            path: proposal.path.clone(),
            reason: proposal.reason.clone(),
            by: proposal.by.to_string(),
            session: proposal.session.to_string(),
            call: proposal.call.to_string(),
            at: proposal.at.to_string(),
        }
    }
}

/// A proposal that is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Its number.
    pub proposal: ProposalId,
    /// Where it wanted something.
    pub path: String,
    /// `locked` or `conflicting`.
    pub why: &'static str,
    /// The same in words.
    pub message: String,
}

/// An act that makes no sense. Nothing changes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActRefusal {
    /// Nothing was named.
    #[error("name at least one proposal, such as p1; `toolgate facts list` shows those that wait")]
    Nothing,
    /// The proposal was decided before, or undone.
    #[error("{0} was decided or undone already; nothing was changed")]
    Decided(ProposalId),
    /// There never was such a proposal.
    #[error("there is no proposal {0}; `toolgate facts list` shows those that wait")]
    NoProposal(ProposalId),
    /// The path is locked already.
    #[error("{0} is locked already")]
    LockedAlready(String),
    /// The path is not locked.
    #[error("{path} is not locked{}", .locks.as_ref().map(|l| format!("; locked are {l}")).unwrap_or_default())]
    NotLocked {
        /// The path.
        path: String,
        /// What is.
        locks: Option<String>,
    },
    /// There are too many locks.
    #[error(
        "there are {LOCKS_MAX} locks already; unlock what is not needed, or lock what is above"
    )]
    TooManyLocks,
    /// Something cannot be named.
    #[error(transparent)]
    Key(#[from] KeyRefusal),
}

impl Upshot {
    /// What is written down; nothing when nothing changes.
    pub fn event(&self) -> Option<ProjectEvent> {
        let (changes, reason) = (self.changes.clone(), self.reason.clone());
        let changed = ProjectEvent::ProjectChanged { changes, session: None, call: None, reason };
        (!self.changes.is_empty()).then_some(changed)
    }
}

/// What would become of an act in the project as it is.
pub fn decide(project: &Project, act: &Act) -> Result<Upshot, ActRefusal> {
    match act {
        Act::Commit(ids) => commit(project, &waiting(project, ids)?),
        Act::Reject(ids, why) => reject(project, &waiting(project, ids)?, why),
        Act::Lock(path, why) => lock(project, path, why),
        Act::Unlock(path, why) => unlock(project, path, why),
    }
}

/// The proposals by their numbers, each once; all of them wait, or none is taken.
fn waiting(
    project: &Project,
    ids: &[ProposalId],
) -> Result<Vec<(ProposalId, Proposal)>, ActRefusal> {
    let (waiting, last) = (proposals(&project.state), last_proposal(&project.state));
    let mut found: Vec<(ProposalId, Proposal)> = Vec::new();
    for id in ids {
        match waiting.get(id) {
            Some(_) if found.iter().any(|(other, _)| other == id) => {}
            Some(proposal) => found.push((*id, proposal.clone())),
            None if id.0 >= 1 && *id <= last => return Err(ActRefusal::Decided(*id)),
            None => return Err(ActRefusal::NoProposal(*id)),
        }
    }
    if found.is_empty() { Err(ActRefusal::Nothing) } else { Ok(found) }
}

fn commit(project: &Project, wanted: &[(ProposalId, Proposal)]) -> Result<Upshot, ActRefusal> {
    let (facts, locks) = (Document::of(&project.state, Root::Facts), Locks::of(&project.state));
    let mut after = facts.clone();
    let (mut changed, mut skipped, mut taken) = (Vec::new(), Vec::new(), Vec::new());
    for (id, proposal) in wanted {
        match committed(&facts, &mut after, &locks, &taken, proposal) {
            Ok(path) => {
                changed.push(Proposed {
                    proposal: *id,
                    old: path.find(&facts.value).cloned(),
                    new: proposal.wanted().cloned(),
                    made: proposal.into(),
                });
                taken.push((*id, path));
            }
            Err((why, message)) => {
                let path = proposal.path.clone();
                skipped.push(Skipped { proposal: *id, path, why, message });
            }
        }
    }
    let mut changes = after.changes(Root::Facts, &facts)?;
    let facts_etag = facts.etag + u64::from(!changes.is_empty());
    for (id, _) in &taken {
        changes.push(Change::Remove { key: proposal_key(*id)? });
    }
    let names: Vec<String> = taken.iter().map(|(id, _)| id.to_string()).collect();
    let reason = format!("facts commit {}", names.join(" "));
    Ok(Upshot { act: "commit", changed, skipped, path: None, facts_etag, reason, changes })
}

/// Puts one proposal into the facts; else why it is left as it is.
fn committed(
    before: &Document,
    after: &mut Document,
    locks: &Locks,
    taken: &[(ProposalId, Path)],
    proposal: &Proposal,
) -> Result<Path, (&'static str, String)> {
    let conflicting = |message: String| ("conflicting", message);
    let path = proposal.place();
    let path =
        path.ok_or_else(|| conflicting(format!("{} is no path of a fact", proposal.path)))?;
    if let Some(lock) = locks.over(&path) {
        return Err(("locked", format!("{lock} is locked")));
    }
    let overlaps = |other: &Path| other.covers(&path) || path.covers(other);
    if let Some((id, _)) = taken.iter().find(|(_, other)| overlaps(other)) {
        return Err(conflicting(format!("{id} changes the same fact; commit one of them")));
    }
    let stands = path.find(&before.value).map(Digest::of_json);
    if stands != proposal.stood {
        let message = "the fact is another one since this was proposed; reject it, and have it \
                       proposed again";
        return Err(conflicting(message.to_owned()));
    }
    let mut next = after.clone();
    let made = match proposal.wanted() {
        Some(value) => apply(&mut next.value, &path, Verb::Set, Some(value.clone()), None),
        None if stands.is_none() => Ok(()),
        None => apply(&mut next.value, &path, Verb::Delete, None, None),
    };
    made.map_err(|refusal| conflicting(refusal.to_string()))?;
    if let Some(lock) = locks.broken(&path.parent(), &after.value, &next.value) {
        return Err(("locked", format!("{lock} is locked, and would change with it")));
    }
    if next.bytes() > DOCUMENT_BYTES_MAX {
        let message = format!("the facts would have more than {DOCUMENT_BYTES_MAX} bytes");
        return Err(conflicting(message));
    }
    *after = next;
    Ok(path)
}

fn reject(
    project: &Project,
    wanted: &[(ProposalId, Proposal)],
    why: &str,
) -> Result<Upshot, ActRefusal> {
    let facts = Document::of(&project.state, Root::Facts);
    let old =
        |proposal: &Proposal| proposal.place().and_then(|path| path.find(&facts.value).cloned());
    let changed = wanted.iter().map(|(id, proposal)| Proposed {
        proposal: *id,
        old: old(proposal),
        new: proposal.wanted().cloned(),
        made: proposal.into(),
    });
    let changed = changed.collect();
    let names: Vec<String> = wanted.iter().map(|(id, _)| id.to_string()).collect();
    let reason = with_reason(format!("facts reject {}", names.join(" ")), why);
    let removed = wanted.iter().map(|(id, _)| Ok(Change::Remove { key: proposal_key(*id)? }));
    let changes = removed.collect::<Result<_, KeyRefusal>>()?;
    let (skipped, facts_etag) = (Vec::new(), facts.etag);
    Ok(Upshot { act: "reject", changed, skipped, path: None, facts_etag, reason, changes })
}

fn lock(project: &Project, path: &Path, why: &str) -> Result<Upshot, ActRefusal> {
    let mut locks = Locks::of(&project.state);
    let name = path.to_string();
    if locks.0.contains_key(&name) {
        return Err(ActRefusal::LockedAlready(name));
    }
    if locks.0.len() >= LOCKS_MAX {
        return Err(ActRefusal::TooManyLocks);
    }
    locks.0.insert(name.clone(), Lock { reason: why.to_owned() });
    locked(project, "lock", name, &locks, why)
}

fn unlock(project: &Project, path: &Path, why: &str) -> Result<Upshot, ActRefusal> {
    let mut locks = Locks::of(&project.state);
    let name = path.to_string();
    if locks.0.remove(&name).is_none() {
        let names: Vec<&str> = locks.0.keys().take(20).map(String::as_str).collect();
        let locks = (!names.is_empty()).then(|| names.join(", "));
        return Err(ActRefusal::NotLocked { path: name, locks });
    }
    locked(project, "unlock", name, &locks, why)
}

fn locked(
    project: &Project,
    act: &'static str,
    path: String,
    locks: &Locks,
    why: &str,
) -> Result<Upshot, ActRefusal> {
    let key = Root::Locks.key()?;
    let value = serde_json::to_value(locks).unwrap_or_default();
    let changes = vec![Change::Put { key, value, v: LAYOUT }];
    let reason = with_reason(format!("facts {act} {path}"), why);
    let facts_etag = etag(&project.state, Root::Facts);
    let (changed, skipped, path) = (Vec::new(), Vec::new(), Some(path));
    Ok(Upshot { act, changed, skipped, path, facts_etag, reason, changes })
}

fn with_reason(what: String, why: &str) -> String {
    if why.trim().is_empty() { what } else { format!("{what}: {}", why.trim()) }
}
