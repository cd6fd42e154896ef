//! Decides what all sessions share: state under keys, and which sessions there are.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet, Vector};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::State;
use crate::config::GateRule;
use crate::credential::PersonKey;
use crate::decision::{DecisionKind, DecisionStatement, Role};
use crate::digest::Digest;
use crate::event::{BoundFile, Change, Delegation, ProjectEvent, Record, RestoreRef};
use crate::json::canonical;
use crate::names::{CallId, Family, SessionId, ToolName, ToolPattern};
use crate::pin::Pins;
use crate::seeded::{Bug, seeded};
use crate::time::Timestamp;
use crate::tree::TreeHead;

/// Configurations that are remembered as trusted.
const TRUSTED_MAX: usize = 100;

/// The fold of the project stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Project {
    /// Place of the last record that was applied.
    pub seq: u64,
    /// The latest time of a record so far. A clock that is set back makes nothing last longer.
    #[serde(default)]
    pub latest: Timestamp,
    /// Sessions that were opened.
    pub sessions: OrdSet<SessionId>,
    /// The configuration somebody last started with.
    pub config: Option<Digest>,
    /// The file of that configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_file: Option<Box<BoundFile>>,
    /// What is kept under keys.
    pub state: State,
    /// Which definitions of tools from MCP servers are believed.
    #[serde(default)]
    pub pins: Pins,
    /// The people who may decide here, by their keys.
    #[serde(default)]
    pub people: OrdMap<PersonKey, EnrolledPerson>,
    /// The person who decided something first. Every other key was enrolled on their word, or on the
    /// word of those whom they enrolled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_person: Option<PersonKey>,
    /// Whether the log was begun in place of another one whose owners are not there any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owner_lost: bool,
    /// Digests of the statements that were taken in; none counts twice.
    #[serde(default)]
    pub statements: OrdSet<Digest>,
    /// The configurations that a person trusts, the newest last.
    #[serde(default)]
    pub trusted: Vector<TrustedConfig>,
    /// Families of state in which untrusted content may stand, with who wrote it there.
    #[serde(default, skip_serializing_if = "OrdMap::is_empty")]
    pub untrusted: OrdMap<Family, UntrustedWrite>,
    /// What the configuration allowed when the first person was enrolled, or else the first one after
    /// that. Until a person trusts a configuration, another one needs their trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_gate: Option<Digest>,
    /// What users of clients may answer, by where it was signed.
    #[serde(default)]
    pub delegations: OrdMap<u64, ClientDelegation>,
    /// Where the log was restored to an older state, the newest last.
    #[serde(default, skip_serializing_if = "Vector::is_empty")]
    pub restores: Vector<LogRestore>,
}

/// An older state of the log that an owner went on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRestore {
    /// The record in the project stream.
    pub seq: u64,
    /// Digest of the owner's statement, which no other restore has.
    pub statement: Digest,
    /// When it was signed.
    pub at: Timestamp,
    /// The newest head that was known before.
    pub seen: TreeHead,
    /// The head that it goes on from.
    pub now: TreeHead,
}

impl LogRestore {
    /// How sessions name it.
    pub fn named(&self) -> RestoreRef {
        RestoreRef { seq: self.seq, statement: self.statement }
    }

    /// Whether a head belongs to the part of the log that was given up. Its root must be asked for
    /// separately: the log goes on, and has heads of the same size.
    pub fn gives_up(&self, head: &TreeHead) -> bool {
        let between = self.now.size < head.size && head.size < self.seen.size;
        between || *head == self.seen
    }

    /// Whether a statement was signed in the part of the log that was given up. One that stands in
    /// the rest of it saw fewer commits.
    pub fn precedes(&self, statement: &DecisionStatement) -> bool {
        let is_later = |head: TreeHead| head.size >= self.now.size;
        statement.at < self.at && statement.head.is_some_and(is_later)
    }
}

/// A person who may decide something here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolledPerson {
    /// Their label.
    pub name: Arc<str>,
    /// What they may do.
    pub role: Role,
    /// The tools they may answer about; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolPattern>,
    /// Where in this stream they were enrolled, in this role.
    pub since: u64,
    /// Where their key was revoked, when it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<u64>,
    /// What they were before, the oldest first. What they decided then was decided in that role.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierEnrolment>,
}

/// What a person was allowed for a part of the project stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierEnrolment {
    /// What they might do.
    pub role: Role,
    /// The tools they might answer about; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolPattern>,
    /// From where on.
    pub since: u64,
    /// The place from which on it was no longer so.
    pub until: u64,
}

/// Times that the role or scope of one key can change.
pub const ENROLMENTS_MAX: usize = 100;

/// The call by which untrusted content may have come into a family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UntrustedWrite {
    /// The session that had read untrusted content.
    pub session: SessionId,
    /// Its call.
    pub call: CallId,
}

/// A configuration that a person trusts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedConfig {
    /// What it reaches.
    pub reach: Digest,
    /// What it allows.
    pub gate: Digest,
    /// Whose decision it is.
    pub by: PersonKey,
}

/// What the user of a client may answer, and how often they did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientDelegation {
    /// What they may.
    pub terms: Delegation,
    /// Questions that they answered.
    pub answered: OrdSet<DelegatedAnswer>,
    /// Whether a person took it back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
}

/// A question that the user of a client answered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DelegatedAnswer {
    /// The session.
    pub session: SessionId,
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: ToolName,
    /// What the question stood on, and the arguments.
    pub question: Digest,
}

impl ClientDelegation {
    /// Whether it can still be used.
    pub fn is_open(&self, now: Timestamp) -> bool {
        let used = u64::try_from(self.answered.len()).unwrap_or(u64::MAX);
        !self.ended && now <= self.terms.until && used < self.terms.answers_max
    }

    /// Whether it covers one more answer of this client's user.
    pub fn covers(&self, client: &str, tool: &ToolName, now: Timestamp) -> bool {
        self.is_open(now)
            && self.terms.client == client
            && self.terms.tools.iter().any(|pattern| pattern.fits(tool))
    }
}

impl EnrolledPerson {
    /// Their role and scope as things stood at this place of the project stream; nothing before they were
    /// enrolled, and after their key was revoked.
    fn standing(&self, seq: u64) -> Option<(Role, &[ToolPattern])> {
        if self.since <= seq {
            let revoked =
                self.revoked.is_some_and(|at| at <= seq) && !seeded(Bug::RevokedKeyCounts);
            return (!revoked).then_some((self.role, self.tools.as_slice()));
        }
        let was = |one: &&EarlierEnrolment| one.since <= seq && seq < one.until;
        self.earlier.iter().find(was).map(|one| (one.role, one.tools.as_slice()))
    }

    /// Their role, as things stood at this place of the project stream.
    pub fn role_at(&self, seq: u64) -> Option<Role> {
        self.standing(seq).map(|(role, _)| role)
    }

    /// Whether they may decide this, as things stood at this place of the project stream.
    pub fn may(&self, what: &DecisionKind, seq: u64) -> bool {
        self.standing(seq)
            .is_some_and(|(role, tools)| role >= what.role_needed() && what.is_within(tools))
    }

    /// Whether their role or scope cannot change any more. Another key can be enrolled for them.
    pub fn is_settled(&self) -> bool {
        self.earlier.len() >= ENROLMENTS_MAX
    }

    /// What they were until another enrolment takes its place.
    fn ended(self, at: u64) -> Vec<EarlierEnrolment> {
        let Self { role, tools, since, revoked, mut earlier, .. } = self;
        let until = revoked.unwrap_or(at);
        earlier.push(EarlierEnrolment { role, tools, since, until });
        earlier
    }
}

impl Project {
    /// Takes in the next record.
    pub fn apply(&mut self, record: &Record<ProjectEvent>) {
        debug_assert_eq!(record.seq, self.seq + 1);
        self.seq = record.seq;
        self.latest = self.latest.max(record.at);
        if let Some(decision) = &record.decision {
            self.statements.insert(decision.statement.digest());
        }
        match &record.event {
            ProjectEvent::ProjectOpened { restarted_from } => {
                self.owner_lost = restarted_from.as_ref().is_some_and(|from| from.owner_lost);
            }
            ProjectEvent::SessionOpened { session } => {
                self.sessions.insert(session.clone());
            }
            ProjectEvent::ProjectConfigured { config, file, .. } => {
                (self.config, self.config_file) = (Some(*config), file.clone());
                if !self.people.is_empty() && self.first_gate.is_none() {
                    self.first_gate = file.as_ref().map(|file| file.gate);
                }
            }
            ProjectEvent::FamiliesMarked { families, session, call } => {
                for family in families {
                    let write = UntrustedWrite { session: session.clone(), call: *call };
                    self.untrusted.insert(family.clone(), write);
                }
            }
            ProjectEvent::FamiliesCleared { families, .. } => {
                for family in families {
                    self.untrusted.remove(family);
                }
            }
            ProjectEvent::ToolPinned(pinned) => self.pins.apply(pinned, &record.actor),
            ProjectEvent::PersonEnrolled { key, name, role, tools } => {
                if self.people.is_empty() {
                    self.first_gate = self.config_file.as_ref().map(|file| file.gate);
                    self.root_person = Some(*key);
                }
                let (name, tools) = (name.as_str().into(), tools.clone());
                let (since, before) = (record.seq, self.people.remove(key));
                let earlier = before.map_or_else(Vec::new, |person| person.ended(since));
                let revoked = None;
                let person = EnrolledPerson { name, role: *role, tools, since, revoked, earlier };
                self.people.insert(*key, person);
            }
            ProjectEvent::PersonRevoked { key, .. } => {
                if let Some(person) = self.people.get_mut(key) {
                    person.revoked = Some(record.seq);
                }
            }
            ProjectEvent::ConfigTrusted { reach, gate, text: _ } => {
                if let Some(decision) = &record.decision {
                    let by = decision.statement.by;
                    self.trusted.push_back(TrustedConfig { reach: *reach, gate: *gate, by });
                    while self.trusted.len() > TRUSTED_MAX {
                        self.trusted.pop_front();
                    }
                }
            }
            ProjectEvent::ClientDelegated(terms) => {
                let (terms, answered) = (terms.as_ref().clone(), OrdSet::new());
                let delegation = ClientDelegation { terms, answered, ended: false };
                self.delegations.insert(record.seq, delegation);
            }
            ProjectEvent::DelegationEnded { delegation } => {
                if let Some(found) = self.delegations.get_mut(delegation) {
                    found.ended = true;
                }
            }
            ProjectEvent::LogRestored { seen, now } => {
                let end = |(seq, found): (&u64, &ClientDelegation)| {
                    (*seq, ClientDelegation { ended: true, ..found.clone() })
                };
                self.delegations = self.delegations.iter().map(end).collect();
                if let Some(decision) = &record.decision {
                    let statement = decision.statement.digest();
                    let (seq, at) = (record.seq, decision.statement.at);
                    let restore = LogRestore { seq, statement, at, seen: *seen, now: *now };
                    self.restores.push_back(restore);
                }
            }
            ProjectEvent::DelegationUsed { delegation, session, call, tool, question } => {
                if let Some(found) = self.delegations.get_mut(delegation) {
                    let (session, tool) = (session.clone(), tool.clone());
                    let (call, question) = (*call, *question);
                    found.answered.insert(DelegatedAnswer { session, call, tool, question });
                }
            }
            ProjectEvent::ProjectChanged { changes, .. } => self.change(changes),
            ProjectEvent::CatalogueDecided(decided) => self.change(&decided.changes),
        }
    }

    fn change(&mut self, changes: &[Change]) {
        for change in changes {
            // What could not be made was refused when it was staged; a log that says otherwise is still
            // read to its end.
            let applied = self.state.apply(change);
            debug_assert!(applied.is_ok());
        }
    }

    /// Which harmless configurations need no person's trust here.
    pub fn gate_rule(&self) -> GateRule {
        match self.first_gate {
            _ if self.people.is_empty() => GateRule::Any,
            _ if !self.trusted.is_empty() => GateRule::Trusted,
            Some(gate) => GateRule::Only(gate),
            None => GateRule::Any,
        }
    }

    /// The state in canonical form, with its hash.
    pub fn export(&self) -> (Value, Digest) {
        let value = json!({ "state": self.state.export() });
        let hash = Digest::of(&canonical(&value));
        (value, hash)
    }
}
