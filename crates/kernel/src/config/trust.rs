//! Decides whether a configuration may start programs, follow references to secrets and connect.
//!
//! The evidence is gathered outside: signatures are checked, and files are read, before it gets here.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::ConfigDigests;
use crate::credential::PersonKey;
use crate::digest::Digest;
use crate::fold::TrustedConfig;
use crate::seeded::{Bug, seeded};

/// What the administrator of a machine says about trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachinePolicy {
    /// The only people whose trust counts; empty means every owner's.
    pub people: Vec<PersonKey>,
    /// Digests of configurations that are trusted on this machine.
    pub digests: Vec<Digest>,
    /// How many different owners must trust a configuration.
    pub trust_count: usize,
}

impl Default for MachinePolicy {
    fn default() -> Self {
        Self { people: Vec::new(), digests: Vec::new(), trust_count: 1 }
    }
}

impl MachinePolicy {
    /// Whether it says who must trust a configuration, so that a digest on the command line is not
    /// enough.
    fn asks_for_people(&self) -> bool {
        self.trust_count > 1 || !self.people.is_empty()
    }

    fn lets_decide(&self, key: &PersonKey) -> bool {
        self.people.is_empty() || self.people.contains(key)
    }
}

/// Which harmless configurations need no person's trust in a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateRule {
    /// Every one: no person decided anything there yet.
    Any,
    /// The one that was in force when a person first decided something.
    Only(Digest),
    /// Those that a person trusts.
    Trusted,
}

/// What is known about the trust in a configuration, with everything checked.
#[derive(Debug, Clone)]
pub struct TrustEvidence<'a> {
    /// The digests of its file.
    pub digests: &'a ConfigDigests,
    /// Whether nothing it does needs trust.
    pub is_harmless: bool,
    /// What the project says of harmless configurations.
    pub gate_rule: GateRule,
    /// What owners signed for this file, kept outside the project.
    pub statements: &'a [TrustedConfig],
    /// The digest on the command line.
    pub operator: Option<Digest>,
    /// What holds on this machine.
    pub policy: &'a MachinePolicy,
}

/// Why a configuration may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrustBasis {
    /// Nothing in it needs trust.
    Harmless,
    /// People signed that they trust it.
    Statement,
    /// Its digest is on the command line.
    CommandLine,
    /// Its digest is in the policy of the machine.
    MachinePolicy,
}

/// Why a configuration may not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "gap", rename_all = "snake_case")]
pub enum TrustGap {
    /// Nobody with that right trusts it.
    NeverTrusted,
    /// What was trusted differs from it.
    Changed,
    /// It is harmless, but it allows something else than before, and people decide in this project.
    GateChanged,
    /// Too few owners trust it.
    TooFewOwners {
        /// How many do.
        found: usize,
        /// How many must.
        wanted: usize,
    },
    /// The command line names another digest.
    OtherDigest {
        /// That one.
        given: Digest,
    },
    /// The policy of the machine asks for people, and a digest was given.
    PeopleNeeded,
}

impl TrustEvidence<'_> {
    /// Why the configuration may be used, or why not.
    pub fn decide(&self) -> Result<TrustBasis, TrustGap> {
        if seeded(Bug::UntrustedConfigStarts) {
            return Ok(TrustBasis::Harmless);
        }
        let digest = self.digests.trust_digest();
        if self.policy.digests.contains(&digest) {
            return Ok(TrustBasis::MachinePolicy);
        }
        match self.operator {
            Some(_) if self.policy.asks_for_people() => return Err(TrustGap::PeopleNeeded),
            Some(given) if given == digest => return Ok(TrustBasis::CommandLine),
            Some(given) => return Err(TrustGap::OtherDigest { given }),
            None => {}
        }
        let ConfigDigests { reach, gate, rest: _ } = *self.digests;
        let wanted = self.policy.trust_count.max(1);
        let owners = self.owners(|one| one.reach == reach && one.gate == gate);
        if owners >= wanted {
            return Ok(TrustBasis::Statement);
        }
        if self.is_harmless {
            let is_known = match self.gate_rule {
                GateRule::Any => true,
                GateRule::Only(known) => known == gate,
                GateRule::Trusted => self.owners(|one| one.gate == gate) >= wanted,
            };
            return if is_known { Ok(TrustBasis::Harmless) } else { Err(TrustGap::GateChanged) };
        }
        Err(match owners {
            0 if self.statements.is_empty() => TrustGap::NeverTrusted,
            0 => TrustGap::Changed,
            found => TrustGap::TooFewOwners { found, wanted },
        })
    }

    /// How many different people signed such a statement.
    fn owners(&self, is_such: impl Fn(&TrustedConfig) -> bool) -> usize {
        let counted = self.statements.iter().filter(|one| self.policy.lets_decide(&one.by));
        counted.filter(|one| is_such(one)).map(|one| one.by.0).collect::<BTreeSet<_>>().len()
    }
}

impl fmt::Display for TrustGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverTrusted => f.write_str("its configuration is not trusted yet"),
            Self::Changed => {
                f.write_str("its configuration is not trusted: it changed since it was trusted")
            }
            Self::GateChanged => f.write_str(
                "its configuration is not trusted: it allows something else than before, and people \
                 decide in this project",
            ),
            Self::TooFewOwners { found, wanted } => write!(
                f,
                "its configuration is trusted by {found} of the {wanted} owners that this machine asks \
                 for"
            ),
            Self::OtherDigest { given } => write!(
                f,
                "its configuration is not the one of the command line, which names sha256:{given}"
            ),
            Self::PeopleNeeded => f.write_str(
                "the policy of this machine says who must trust a configuration, so --trust does not \
                 count here",
            ),
        }
    }
}
