//! Decides whether the tools that must come first have succeeded.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Names, Policy, Verdict};
use crate::fold::World;
use crate::gate::Call;
use crate::key::Touched;
use crate::names::{PolicyName, ToolName};
use crate::tool::ToolSpec;

/// `deploy` needs `build` and `test` to have succeeded in this session.
pub struct SequentialDependency {
    name: PolicyName,
    needs: BTreeMap<ToolName, BTreeSet<ToolName>>,
}

impl SequentialDependency {
    /// For each tool, the tools that must have succeeded before.
    pub fn new(name: PolicyName, needs: BTreeMap<ToolName, BTreeSet<ToolName>>) -> Self {
        Self { name, needs }
    }
}

impl Policy for SequentialDependency {
    fn name(&self) -> &PolicyName {
        &self.name
    }

    fn governs(&self, tool: &ToolSpec) -> bool {
        self.needs.contains_key(&tool.name)
    }

    fn judge(&self, call: &Call, _: &[Touched], world: &World<'_>) -> Verdict {
        let Some(needed) = self.needs.get(&call.spec().name) else { return Verdict::Allow };
        let done = |tool: &ToolName| world.session.tally(tool).is_some_and(|t| t.succeeded > 0);
        // The set is sorted, so the sentence is the same every time.
        let missing: Vec<&str> =
            needed.iter().filter(|tool| !done(tool)).map(ToolName::as_str).collect();
        if missing.is_empty() {
            return Verdict::Allow;
        }
        Verdict::Deny(format!("Tool '{}' requires: {}", call.spec().name, missing.join(", ")))
    }

    fn names(&self) -> Names<'_> {
        let tools = self.needs.iter().flat_map(|(tool, needs)| std::iter::once(tool).chain(needs));
        Names { tools: tools.collect(), ..Names::default() }
    }

    fn describe(&self) -> Value {
        json!({ "sequential_dependency": self.needs })
    }
}
