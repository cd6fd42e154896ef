//! Decides how a policy is written down: exactly one kind per entry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::names::{Family, PolicyName, ToolName};
use crate::policy::{
    CountLimit, LimitPolicyRefusal, OwnWrites, Per, Policy, RateLimit, ReadBeforeWrite, ReadScope,
    Rule, RuleRefusal, RuleText, SequentialDependency,
};

/// A policy as it is written down. Exactly one of its kinds is given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyText {
    /// Its name, as refusals quote it; its kind and 8 digits of its content's digest when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<PolicyName>,
    /// For each tool, the tools that must have succeeded before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequential: Option<BTreeMap<ToolName, BTreeSet<ToolName>>>,
    /// Existing content must be read before it is overwritten.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_before_write: Option<ReadBeforeWriteText>,
    /// At most so many calls per turn, iteration or session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<CountText>,
    /// At most so many calls within a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateText>,
    /// A condition that denies or asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleText>,
}

/// Read-before-write as it is written down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReadBeforeWriteText {
    /// The families of keys it concerns; all when left out.
    pub families: BTreeSet<Family>,
    /// How long a read counts.
    pub scope: ReadScope,
    /// Whether what the session wrote itself counts as read.
    pub own_writes: OwnWrites,
}

/// A count limit as it is written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountText {
    /// The tools, counted together.
    pub tools: BTreeSet<ToolName>,
    /// The stretch.
    pub per: Per,
    /// How many.
    pub max: u64,
}

/// A rate limit as it is written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateText {
    /// The tools, counted together.
    pub tools: BTreeSet<ToolName>,
    /// How many.
    pub max: u64,
    /// Within how many milliseconds.
    pub window_ms: u64,
}

/// A policy that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyRefusal {
    /// None or several kinds in one entry.
    #[error(
        "policy {at}: give exactly one of sequential, read_before_write, limit, rate, rule \
         (found {found})"
    )]
    NotOne {
        /// Its place, from one.
        at: usize,
        /// How many kinds it has.
        found: usize,
    },
    /// The limit cannot be kept.
    #[error(transparent)]
    Limit(#[from] LimitPolicyRefusal),
    /// The rule cannot be used.
    #[error(transparent)]
    Rule(#[from] RuleRefusal),
}

impl PolicyText {
    /// The kinds that are given.
    fn kinds(&self) -> Vec<&'static str> {
        let kinds = [
            ("sequential", self.sequential.is_some()),
            ("read_before_write", self.read_before_write.is_some()),
            ("limit", self.limit.is_some()),
            ("rate", self.rate.is_some()),
            ("rule", self.rule.is_some()),
        ];
        kinds.into_iter().filter(|(_, given)| *given).map(|(kind, _)| kind).collect()
    }

    /// The name that is written, or one made of the content: a permission that names a policy must
    /// not pass to another one because the list was reordered. None without exactly one kind.
    pub(super) fn effective_name(&self) -> Option<PolicyName> {
        let [kind] = self.kinds()[..] else { return None };
        self.name.clone().or_else(|| {
            let content = serde_json::to_value(self).ok()?;
            let digits: String = Digest::of_json(&content).to_string().chars().take(8).collect();
            PolicyName::parse(&format!("{kind}-{digits}")).ok()
        })
    }

    /// Makes the policy; `at` is its place in the list, from one.
    pub fn build(self, at: usize) -> Result<Arc<dyn Policy>, PolicyRefusal> {
        let Some(name) = self.effective_name() else {
            return Err(PolicyRefusal::NotOne { at, found: self.kinds().len() });
        };
        if let Some(needs) = self.sequential {
            // A policy by a former name governs the tool of today; two names of one tool are one.
            let mut by_tool: BTreeMap<ToolName, BTreeSet<ToolName>> = BTreeMap::new();
            for (tool, needs) in needs {
                let needs = needs.iter().map(ToolName::today);
                by_tool.entry(tool.today()).or_default().extend(needs);
            }
            let needs = by_tool;
            return Ok(Arc::new(SequentialDependency::new(name, needs)));
        }
        if let Some(ReadBeforeWriteText { families, scope, own_writes }) = self.read_before_write {
            return Ok(Arc::new(ReadBeforeWrite::new(name, families, scope, own_writes)));
        }
        if let Some(CountText { tools, per, max }) = self.limit {
            return Ok(Arc::new(CountLimit::new(name, today(tools), per, max)?));
        }
        if let Some(RateText { tools, max, window_ms }) = self.rate {
            return Ok(Arc::new(RateLimit::new(name, today(tools), window_ms, max)?));
        }
        match self.rule {
            Some(mut text) => {
                text.tools = today(text.tools);
                Ok(Arc::new(Rule::new(name, text)?))
            }
            None => Err(PolicyRefusal::NotOne { at, found: 0 }),
        }
    }
}

/// Tools by the names they have today.
fn today<I: IntoIterator<Item = ToolName>, O: FromIterator<ToolName>>(names: I) -> O {
    names.into_iter().map(|name| name.today()).collect()
}
