//! What an approval takes beside one approver: a role, several people, an argument typed again.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::credential::PersonKey;
use crate::decision::{DecisionRef, Role};
use crate::digest::Digest;

/// People that one rule may want at most.
pub const APPROVALS_NEEDED_MAX: u64 = 5;

/// What the rules that ask about a call want of an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRequirement {
    /// The role of each person who approves.
    #[serde(default = "approver", skip_serializing_if = "is_approver")]
    pub role: Role,
    /// How many people must approve, each with a key of their own. Whoever started the session is not
    /// one of them where it takes more than one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u64,
    /// Arguments whose values each person types before they approve.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub confirm: BTreeSet<String>,
    /// Whether each call needs an approval of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub each_time: bool,
}

impl Default for ApprovalRequirement {
    fn default() -> Self {
        Self { role: Role::Approver, count: 1, confirm: BTreeSet::new(), each_time: false }
    }
}

impl ApprovalRequirement {
    /// Whether any one approver is enough.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// What satisfies this requirement and another one.
    pub fn merge(&mut self, other: &Self) {
        self.role = self.role.max(other.role);
        self.count = self.count.max(other.count);
        self.confirm.extend(other.confirm.iter().cloned());
        self.each_time |= other.each_time;
    }

    /// Whether a person typed all the values that it wants typed.
    pub fn is_confirmed(&self, confirmed: &BTreeSet<String>) -> bool {
        self.confirm.is_subset(confirmed)
    }

    /// Whether no approval can be for later calls too.
    pub fn asks_each_time(&self) -> bool {
        self.each_time || self.count > 1 || !self.confirm.is_empty()
    }
}

/// Who signed a decision: the key, and the role that the statement is signed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DecisionSigner {
    /// The key.
    pub key: PersonKey,
    /// The role.
    pub role: Role,
}

/// How an answer was given that counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedAnswer {
    /// The role that it was signed in.
    pub role: Role,
    /// Arguments whose values the person typed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub confirmed: BTreeSet<String>,
}

/// One of several approvals that a call needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartialApproval {
    /// Whose it is.
    pub key: PersonKey,
    /// Where it stands.
    pub decision: DecisionRef,
}

/// Why the approval of a person does not count towards a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalRejection {
    /// The role is too low.
    #[error("the rule wants the approval of an {0}")]
    RoleTooLow(Role),
    /// A delegated user answered where a person with a key must.
    #[error("the rule wants the approval of a person with a key of their own")]
    NoKey,
    /// The person started the session.
    #[error(
        "the rule wants the approval of several people, and the one who started the session is not \
         one of them"
    )]
    StartedSession,
    /// The person approved before.
    #[error("you have approved this call already; the rule wants the approval of another person")]
    AlreadyGiven,
    /// Several people cannot approve different arguments.
    #[error(
        "several people must approve the same arguments, so they cannot be changed; deny the call"
    )]
    ChangedArguments,
}

impl ApprovalRequirement {
    /// Whether the approval of this person counts, after those that were given.
    pub fn accepts(
        &self,
        signer: Option<&DecisionSigner>,
        starter: Option<&PersonKey>,
        given: &[PartialApproval],
        is_edited: bool,
    ) -> Result<(), ApprovalRejection> {
        if self.is_default() {
            return Ok(());
        }
        let Some(signer) = signer else { return Err(ApprovalRejection::NoKey) };
        if signer.role < self.role {
            return Err(ApprovalRejection::RoleTooLow(self.role));
        }
        if self.count <= 1 {
            return Ok(());
        }
        if starter == Some(&signer.key) {
            return Err(ApprovalRejection::StartedSession);
        }
        if is_edited {
            return Err(ApprovalRejection::ChangedArguments);
        }
        if given.iter().any(|one| one.key == signer.key) {
            return Err(ApprovalRejection::AlreadyGiven);
        }
        Ok(())
    }
}

/// What a person is shown when asked: what the question stands on, and the arguments.
pub fn shown(frame: Option<Digest>, args_hash: Digest) -> Digest {
    Digest::link(frame.unwrap_or(Digest::ZERO), &args_hash.0)
}

fn approver() -> Role {
    Role::Approver
}

fn is_approver(role: &Role) -> bool {
    *role == Role::Approver
}

fn one() -> u64 {
    1
}

fn is_one(count: &u64) -> bool {
    *count == 1
}
