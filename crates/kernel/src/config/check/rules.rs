//! Decides what is told of policies that could be made: names that are given twice, and arguments
//! that no tool of a rule has.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Desk, Finding, Mistake, Severity, Step};
use crate::config::finding::quoted;
use crate::names::ToolName;
use crate::tool::{Problem, Shape};

impl Desk<'_> {
    pub(super) fn rules(&self, found: &mut Vec<Finding>) {
        let mut seen = BTreeSet::new();
        for (at, policy) in self.text().policies.iter().enumerate() {
            let path = [Step::Key("policies"), Step::Item(at)];
            if let Some(name) = policy.name.as_ref().filter(|name| !seen.insert(*name)) {
                let place = self.place(&[&path[..], &[Step::Key("name")]].concat());
                let message = format!("there are two policies {}", quoted(name.as_str()));
                let help =
                    "give each a name of its own: an answer and the log tell them apart by it";
                found.push(Finding::error(Mistake::Policy, message).at(place).help(help));
            }
            let Some(rule) = &policy.rule else { continue };
            for (side, condition) in [("deny", &rule.deny), ("ask", &rule.ask)] {
                for name in condition.iter().flat_map(|condition| arguments(condition)) {
                    let Some(help) = self.strange(&rule.tools, name) else { continue };
                    let place = [&path[..], &[Step::Key("rule"), Step::Key(side)]].concat();
                    let message = format!("no tool of this rule has an argument {}", quoted(name));
                    let finding = Finding::new(Severity::Warning, Mistake::UnknownName, message);
                    found.push(finding.at(self.place(&place)).help(help));
                }
            }
        }
    }

    /// What is told of an argument that none of the tools has. Where one of them is not known,
    /// nothing can be said.
    fn strange(&self, tools: &[ToolName], name: &str) -> Option<String> {
        let toolset = &self.agent()?.toolset;
        let mut told = None;
        for tool in tools {
            let entry = toolset.find(tool.as_str()).and_then(|at| toolset.entries().get(at))?;
            told = Some(unfit(&entry.spec.input_shape, name)?);
        }
        told
    }
}

/// What a tool says of an argument that it does not have.
fn unfit(shape: &Shape, name: &str) -> Option<String> {
    let mut args = Value::Object(Map::from_iter([(name.to_owned(), Value::Null)]));
    let misfits = shape.fit(&mut args, &mut Vec::new()).err()?;
    let unknown = misfits.into_iter().find(|misfit| misfit.problem == Problem::Unknown)?;
    Some(unknown.message.trim_start_matches("is not a field: ").to_owned())
}

/// The names after `args.` in a condition.
fn arguments(condition: &str) -> BTreeSet<&str> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let named = condition.match_indices("args.").filter_map(|(at, root)| {
        let whole = !condition.get(..at)?.ends_with(|c: char| word(c) || c == '.');
        let rest = condition.get(at + root.len()..)?;
        let name = rest.get(..rest.find(|c| !word(c)).unwrap_or(rest.len()))?;
        (whole && !name.is_empty()).then_some(name)
    });
    named.collect()
}
