//! Decides how the workspace is kept: documents with an etag each, locks, and proposals that wait.
//!
//! A document is a family. Its single entry is the etag, and each of its members is a key of its
//! own, so that a change costs what changed: `draft` is 4, `draft:title` is `"The keeper"`.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::Change;
use toolgate_kernel::fold::{Shelf, State};
use toolgate_kernel::key::{Key, KeyRefusal};
use toolgate_kernel::names::{CallId, Family, SessionId};
use toolgate_kernel::time::Timestamp;

use super::pointer::{Path, Root};

/// Most bytes of one document, written as JSON.
pub const DOCUMENT_BYTES_MAX: usize = 4 << 20;

/// Most locks at a time.
pub const LOCKS_MAX: usize = 200;

/// Most proposals that wait at a time.
pub const PROPOSALS_MAX: usize = 100;

/// Most bytes of the value and the reason of one proposal: what a person can be shown.
pub const PROPOSAL_BYTES_MAX: usize = 32 << 10;

/// Layout of everything that is kept here.
pub(super) const LAYOUT: u16 = 1;

/// A document as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Counts its changes.
    pub etag: u64,
    /// Its members, as one object.
    pub value: Value,
}

impl Document {
    /// A document of the workspace; empty when nothing was ever written.
    pub fn of(state: &State, root: Root) -> Self {
        let shelf = state.shelf(root.family());
        let entries = shelf.into_iter().flat_map(Shelf::iter);
        let members = entries.filter(|(name, _)| !name.is_empty());
        let members: Map<String, Value> =
            members.map(|(name, slot)| (name.to_owned(), slot.value())).collect();
        Self { etag: etag(state, root), value: Value::Object(members) }
    }

    /// Bytes of it, written as JSON.
    pub(super) fn bytes(&self) -> usize {
        serde_json::to_vec(&self.value).map_or(usize::MAX, |text| text.len())
    }

    /// What makes this document of the one before, its etag counted up; nothing when they are alike.
    pub(super) fn changes(&self, root: Root, before: &Self) -> Result<Vec<Change>, KeyRefusal> {
        let (now, then) = (self.members(), before.members());
        let family = root.family();
        let mut changes = Vec::new();
        for (name, value) in now {
            if then.get(name) != Some(value) {
                let (key, value) = (Key::new(family_named(family)?, name)?, value.clone());
                changes.push(Change::Put { key, value, v: LAYOUT });
            }
        }
        for name in then.keys().filter(|name| !now.contains_key(*name)) {
            changes.push(Change::Remove { key: Key::new(family_named(family)?, name)? });
        }
        if !changes.is_empty() {
            let (key, etag) = (root.key()?, before.etag.saturating_add(1));
            changes.push(Change::Put { key, value: etag.into(), v: LAYOUT });
        }
        Ok(changes)
    }

    fn members(&self) -> &Map<String, Value> {
        static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
        self.value.as_object().unwrap_or(&NONE)
    }
}

/// How often a document changed.
pub(super) fn etag(state: &State, root: Root) -> u64 {
    let slot = state.shelf(root.family()).and_then(|shelf| shelf.get(""));
    slot.and_then(|slot| slot.as_one()?.as_u64()).unwrap_or(0)
}

impl Root {
    /// The family its keys belong to.
    pub fn family(self) -> &'static str {
        match self {
            Self::Facts => toolgate_kernel::policy::FACTS_FAMILY,
            Self::Draft => "draft",
            Self::Locks => "locks",
            Self::UiState => "ui_state",
            Self::Proposals => "proposal",
        }
    }

    /// The key that changes whenever something of it does.
    pub(super) fn key(self) -> Result<Key, KeyRefusal> {
        Key::parse(self.family())
    }
}

fn family_named(name: &str) -> Result<Family, KeyRefusal> {
    Ok(Key::parse(name)?.family().clone())
}

/// Why a path is held, by the path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Locks(pub BTreeMap<String, Lock>);

/// A path that is not to be changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// Why.
    pub reason: String,
}

impl Locks {
    /// The locks there are.
    pub fn of(state: &State) -> Self {
        let slot = Root::Locks.key().ok().and_then(|key| Some(state.get(&key)?.value()));
        slot.and_then(|value| Self::deserialize(value).ok()).unwrap_or_default()
    }

    /// Every path that is held.
    pub fn paths(&self) -> impl Iterator<Item = Path> + '_ {
        self.0.keys().filter_map(|path| Path::parse(path, &[Root::Facts, Root::Draft]).ok())
    }

    /// The lock that a path is under.
    pub fn over(&self, path: &Path) -> Option<Path> {
        self.paths().find(|lock| lock.covers(path))
    }

    /// The first lock whose content is another one in the second document. A change may reach what
    /// is held from above, or by moving the items of a list.
    pub(super) fn broken(&self, around: &Path, before: &Value, after: &Value) -> Option<Path> {
        self.all_broken(around, before, after).next()
    }

    /// Every such lock.
    fn all_broken<'a>(
        &'a self,
        around: &'a Path,
        before: &'a Value,
        after: &'a Value,
    ) -> impl Iterator<Item = Path> + 'a {
        let near = self.paths().filter(|lock| around.covers(lock));
        near.filter(|lock| lock.find(before) != lock.find(after))
    }
}

/// The locked paths that have another content in the second state.
pub(super) fn locked(now: &State, then: &State) -> Vec<String> {
    let locks = Locks::of(now);
    let mut broken = Vec::new();
    for root in [Root::Facts, Root::Draft].into_iter().filter(|_| !locks.0.is_empty()) {
        let (before, after) = (Document::of(now, root).value, Document::of(then, root).value);
        let whole = Path::whole(root);
        broken.extend(locks.all_broken(&whole, &before, &after).map(|lock| lock.to_string()));
    }
    broken
}

/// The number of a proposal: `p7`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct ProposalId(pub u64);

/// A text that names no proposal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no proposal: write p and its number, such as p7")]
pub struct ProposalIdRefusal(String);

impl TryFrom<String> for ProposalId {
    type Error = ProposalIdRefusal;
    fn try_from(text: String) -> Result<Self, ProposalIdRefusal> {
        text.parse()
    }
}

impl std::str::FromStr for ProposalId {
    type Err = ProposalIdRefusal;
    fn from_str(text: &str) -> Result<Self, ProposalIdRefusal> {
        let number = text.strip_prefix('p').and_then(|digits| digits.parse().ok());
        // One spelling: `p07` and `p+7` are none.
        let id = number.map(Self).filter(|id| id.to_string() == text);
        id.ok_or_else(|| ProposalIdRefusal(text.chars().take(80).collect()))
    }
}

impl From<ProposalId> for String {
    fn from(id: ProposalId) -> Self {
        id.to_string()
    }
}

impl fmt::Display for ProposalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// A fact that somebody would have, and a person decides about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// Where.
    pub path: String,
    /// What it should be; null when it should be forgotten.
    pub value: Value,
    /// Why.
    pub reason: String,
    /// Who says so.
    pub by: Actor,
    /// In which session.
    pub session: SessionId,
    /// With which call.
    pub call: CallId,
    /// When.
    pub at: Timestamp,
    /// Fingerprint of what stood there then; absent when nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stood: Option<Digest>,
}

impl Proposal {
    /// Where, as a path.
    pub fn place(&self) -> Option<Path> {
        Path::inside(&self.path, &[Root::Facts]).ok()
    }

    /// What it should be; nothing when it should be forgotten.
    pub fn wanted(&self) -> Option<&Value> {
        Some(&self.value).filter(|value| !value.is_null())
    }
}

/// Every proposal that waits, in the order they were made.
pub fn proposals(state: &State) -> BTreeMap<ProposalId, Proposal> {
    let shelf = state.shelf(Root::Proposals.family());
    let entries = shelf.into_iter().flat_map(Shelf::iter);
    entries
        .filter_map(|(name, slot)| {
            Some((name.parse().ok()?, Proposal::deserialize(slot.value()).ok()?))
        })
        .collect()
}

/// The number of the last proposal that was made.
pub fn last_proposal(state: &State) -> ProposalId {
    ProposalId(etag(state, Root::Proposals))
}

/// The key of a proposal.
pub(super) fn proposal_key(id: ProposalId) -> Result<Key, KeyRefusal> {
    Key::parse(&format!("{}:{id}", Root::Proposals.family()))
}
