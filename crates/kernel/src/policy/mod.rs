//! Decides what a policy is: a pure judge of one call, without memory of its own.

pub mod expression;
mod limit;
mod read_before_write;
mod rule;
mod rule_of_two;
mod scope;
mod sequential;

use std::fmt;

use serde_json::{Map, Value};

pub use limit::{CountLimit, LimitPolicyRefusal, Per, RateLimit};
pub use read_before_write::{OwnWrites, ReadBeforeWrite, ReadScope, SEEN_FAMILY, seen_key};
pub use rule::{Rule, RuleExample, RuleRefusal, RuleText};
pub use rule_of_two::{EgressRefusal, RULE_OF_TWO, RuleOfTwo};
pub use scope::{FACTS_FAMILY, RULE_ROOTS, STATE_ROOTS, holds};
pub use sequential::SequentialDependency;

use crate::approval::ApprovalRequirement;
use crate::fold::World;
use crate::gate::Call;
use crate::key::Touched;
use crate::names::{Family, PolicyName, ToolName};
use crate::tool::ToolSpec;

/// What the names of the policies of a machine begin with. They are of the machine and not of a file: no file
/// has a policy with such a name, and the digests of a file do not depend on them.
pub const MACHINE_POLICY_PREFIX: &str = "machine-";

/// A judge of calls. What it needs to remember is in the folds, so a rollback cannot confuse it.
pub trait Policy: Send + Sync {
    /// Its name, as refusals quote it.
    fn name(&self) -> &PolicyName;

    /// Whether it has anything to say of this tool.
    fn governs(&self, tool: &ToolSpec) -> bool;

    /// Its word on one call. `touched` is the call's footprint with the versions found.
    fn judge(&self, call: &Call, touched: &[Touched], world: &World<'_>) -> Verdict;

    /// What it would have asked about a call that it lets through to be watched; it goes into the log.
    fn observe(&self, _: &Call, _: &World<'_>) -> Option<String> {
        None
    }

    /// What it looked at, for a person who wants to know why it does not object.
    fn explain(&self, _: &Call, _: &World<'_>) -> Option<String> {
        None
    }

    /// What of a call a yes for later calls is bound to, beside the policy itself.
    fn binding(&self, _: &Call) -> Option<Value> {
        None
    }

    /// What an approval takes, where it asks.
    fn requires(&self) -> ApprovalRequirement {
        ApprovalRequirement::default()
    }

    /// The tools and families of keys it names; a name that does not exist is a mistake.
    fn names(&self) -> Names<'_>;

    /// What it enforces, for the configuration's fingerprint and for `explain`.
    fn describe(&self) -> Value;
}

impl fmt::Debug for dyn Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policy({})", self.name())
    }
}

/// What a policy names.
#[derive(Debug, Default)]
pub struct Names<'a> {
    /// Tools.
    pub tools: Vec<&'a ToolName>,
    /// Families of keys.
    pub families: Vec<&'a Family>,
    /// Arguments of calls that show what it means.
    pub examples: Vec<&'a Map<String, Value>>,
}

/// A policy's word. The worst of all wins.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It does not object.
    Allow,
    /// A person must say yes first.
    Ask(String),
    /// No, with the reason for the model.
    Deny(String),
    /// It could not answer, which counts as no.
    Broken(String),
}
