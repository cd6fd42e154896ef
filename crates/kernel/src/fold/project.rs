//! Decides what all sessions share: state under keys, and which sessions there are.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet, Vector};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::State;
use crate::config::GateRule;
use crate::credential::PersonKey;
use crate::decision::{DecisionKind, Role};
use crate::digest::Digest;
use crate::event::{BoundFile, Change, Delegation, ProjectEvent, Record};
use crate::json::canonical;
use crate::names::{CallId, Family, SessionId, ToolName, ToolPattern};
use crate::pin::Pins;
use crate::seeded::{Bug, seeded};
use crate::time::Timestamp;

/// Configurations that are remembered as trusted.
const TRUSTED_MAX: usize = 100;

/// The fold of the project stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Project {
    /// Place of the last record that was applied.
    pub seq: u64,
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
}

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
    /// Calls they answered about.
    pub answered: OrdSet<(SessionId, CallId)>,
    /// Whether a person took it back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
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
    /// Whether they may decide this, as things stood at this place of the project stream.
    pub fn may(&self, what: &DecisionKind, seq: u64) -> bool {
        let revoked = self.revoked.is_some_and(|at| at <= seq) && !seeded(Bug::RevokedKeyCounts);
        let in_scope = what.tool().is_none_or(|tool| {
            self.tools.is_empty() || self.tools.iter().any(|pattern| pattern.fits(tool))
        });
        !revoked && self.since <= seq && self.role >= what.role_needed() && in_scope
    }
}

impl Project {
    /// Takes in the next record.
    pub fn apply(&mut self, record: &Record<ProjectEvent>) {
        debug_assert_eq!(record.seq, self.seq + 1);
        self.seq = record.seq;
        if let Some(decision) = &record.decision {
            self.statements.insert(decision.statement.digest());
        }
        match &record.event {
            ProjectEvent::ProjectOpened { .. } => {}
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
                }
                let (name, tools) = (name.as_str().into(), tools.clone());
                let person =
                    EnrolledPerson { name, role: *role, tools, since: record.seq, revoked: None };
                self.people.insert(*key, person);
            }
            ProjectEvent::PersonRevoked { key, .. } => {
                if let Some(person) = self.people.get_mut(key) {
                    person.revoked = Some(record.seq);
                }
            }
            ProjectEvent::ConfigTrusted { reach, gate } => {
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
            ProjectEvent::DelegationUsed { delegation, session, call, .. } => {
                if let Some(found) = self.delegations.get_mut(delegation) {
                    found.answered.insert((session.clone(), *call));
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
