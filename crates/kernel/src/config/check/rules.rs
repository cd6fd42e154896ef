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
            if let Some(name) = policy.effective_name().filter(|name| !seen.insert(name.clone())) {
                let place = self.place(&[&path[..], &[Step::Key("name")]].concat());
                let message = format!("there are two policies {}", quoted(name.as_str()));
                let help =
                    "give each a name of its own: an answer and the log tell them apart by it";
                found.push(Finding::error(Mistake::Policy, message).at(place).help(help));
            }
            let Some(rule) = &policy.rule else { continue };
            if let Some(name) = &rule.confirm
                && let Some(help) = self.strange(&rule.tools, name)
            {
                let place = [&path[..], &[Step::Key("rule"), Step::Key("confirm")]].concat();
                let message = format!("no tool of this rule has an argument {}", quoted(name));
                let finding = Finding::error(Mistake::UnknownName, message);
                found.push(finding.at(self.place(&place)).help(help));
            }
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
    let named = |part| {
        str::match_indices(part, "args.").filter_map(move |(at, root)| {
            let whole = !part.get(..at)?.ends_with(|c: char| word(c) || c == '.');
            let rest = part.get(at + root.len()..)?;
            let name = rest.get(..rest.find(|c| !word(c)).unwrap_or(rest.len()))?;
            (whole && !name.is_empty()).then_some(name)
        })
    };
    unquoted(condition).into_iter().flat_map(named).collect()
}

/// The parts of a condition that are neither texts in quotes nor remarks.
fn unquoted(condition: &str) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), condition);
    loop {
        let at = [rest.find(['"', '\'']), rest.find("//")].into_iter().flatten().min();
        let Some((part, after)) = at.and_then(|at| rest.split_at_checked(at)) else {
            parts.push(rest);
            return parts;
        };
        parts.push(part);
        rest = if after.starts_with("//") {
            after.split_once('\n').map_or("", |(_, next)| next)
        } else {
            after_text(after, part.ends_with(['r', 'R']))
        };
    }
}

/// What follows the text that begins here. In a raw one a backslash is a sign like others.
fn after_text(text: &str, raw: bool) -> &str {
    let closes = ["\"\"\"", "'''", "\"", "'"];
    let close = closes.into_iter().find(|close| text.starts_with(close)).unwrap_or("\"");
    let mut inside = text.strip_prefix(close).unwrap_or_default();
    loop {
        if let Some(after) = inside.strip_prefix(close) {
            return after;
        }
        let mut chars = inside.chars();
        match chars.next() {
            None => return "",
            Some('\\') if !raw => drop(chars.next()),
            Some(_) => {}
        }
        inside = chars.as_str();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_named_outside_of_quotes() {
        for (condition, names) in [
            ("args.x > 1 && has(args.y)", &["x", "y"][..]),
            ("more_args.x == my.args.y", &[]),
            (r#"args.key == "args.x""#, &["key"]),
            (r#"args.a == 'args.x' || args.b == "it's args.y""#, &["a", "b"]),
            (r#"args.a == "\"args.x" && args.b == r'\' && args.c"#, &["a", "b", "c"]),
            ("args.a == '''it's args.x''' && args.b", &["a", "b"]),
            ("args.a // don't: args.x\n && args.b", &["a", "b"]),
            ("args.a == 'args.x", &["a"]),
        ] {
            let found: Vec<&str> = arguments(condition).into_iter().collect();
            assert_eq!(found, names, "{condition}");
        }
    }
}
