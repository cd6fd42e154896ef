//! Decides by a condition that somebody wrote: deny or ask when it holds.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::expression::{Expression, ExpressionFault, Scope};
use super::scope::{CallScope, ExampleScope, RULE_ROOTS};
use super::{Names, Policy, Verdict};
use crate::approval::{APPROVALS_NEEDED_MAX, ApprovalRequirement};
use crate::decision::Role;
use crate::fold::World;
use crate::gate::Call;
use crate::key::Touched;
use crate::names::{PolicyName, ToolName};
use crate::tool::ToolSpec;

/// A rule as it is written down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleText {
    /// The tools it concerns.
    pub tools: Vec<ToolName>,
    /// Refuse the call when this holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deny: Option<String>,
    /// Ask a person when this holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<String>,
    /// What the model is told.
    pub message: String,
    /// The roles whose approval counts; each role may do what the ones below it may. Without it every
    /// approver's does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<Role>,
    /// How many people must approve, each with a key of their own; one without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The argument whose value a person must type to approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<String>,
    /// Calls for which a condition must hold, checked when the rule is loaded.
    #[serde(default, rename = "match", skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<RuleExample>,
    /// Calls for which no condition may hold, checked when the rule is loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_match: Vec<RuleExample>,
}

/// A call that shows what a rule means.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleExample {
    /// The arguments.
    pub args: Map<String, Value>,
    /// The phase; empty when it does not matter.
    #[serde(default)]
    pub phase: String,
}

/// A rule that cannot be used. Whoever wrote it reads this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleRefusal {
    /// It has no condition.
    #[error("rule {0}: write a condition under `deny:` or `ask:`")]
    NoCondition(PolicyName),
    /// It names no tool.
    #[error("rule {0}: name the tools it concerns under `tools:`")]
    NoTools(PolicyName),
    /// It says what an approval takes, and asks for none.
    #[error("rule {0}: `{1}` says what an approval takes; write a condition under `ask:`")]
    NothingAsked(PolicyName, &'static str),
    /// No approval can be what it wants.
    #[error("rule {0}: {1}")]
    Requirement(PolicyName, String),
    /// A condition does not compile.
    #[error("rule {rule}, {side}: {fault}")]
    Condition {
        /// The rule.
        rule: PolicyName,
        /// `deny` or `ask`.
        side: &'static str,
        /// What is wrong with it.
        fault: ExpressionFault,
    },
    /// An example shows something else than the rule does.
    #[error("rule {rule}: example {at} under `{list}:` {found}")]
    Example {
        /// The rule.
        rule: PolicyName,
        /// `match` or `not_match`.
        list: &'static str,
        /// Which one, counted from one.
        at: usize,
        /// What the rule does with it.
        found: String,
    },
}

/// Denies or asks when a condition holds; a condition that cannot be evaluated denies.
#[derive(Debug)]
pub struct Rule {
    name: PolicyName,
    tools: BTreeSet<ToolName>,
    deny: Option<Expression>,
    ask: Option<Expression>,
    requires: ApprovalRequirement,
    text: RuleText,
}

impl Rule {
    /// Compiles a rule and tries its examples.
    pub fn new(name: PolicyName, text: RuleText) -> Result<Self, RuleRefusal> {
        if text.tools.is_empty() {
            return Err(RuleRefusal::NoTools(name));
        }
        if text.deny.is_none() && text.ask.is_none() {
            return Err(RuleRefusal::NoCondition(name));
        }
        let requires = requirement(&name, &text)?;
        let compile = |side, source: &Option<String>| match source {
            None => Ok(None),
            Some(source) => Expression::compile(source, RULE_ROOTS)
                .map(Some)
                .map_err(|fault| RuleRefusal::Condition { rule: name.clone(), side, fault }),
        };
        let (deny, ask) = (compile("deny", &text.deny)?, compile("ask", &text.ask)?);
        let tools = text.tools.iter().cloned().collect();
        let rule = Self { name, tools, deny, ask, requires, text };
        rule.try_examples()?;
        Ok(rule)
    }

    fn try_examples(&self) -> Result<(), RuleRefusal> {
        let lists =
            [("match", &self.text.matches, true), ("not_match", &self.text.not_match, false)];
        for (list, examples, wanted) in lists {
            for (at, example) in examples.iter().enumerate() {
                let tool = self.text.tools.first().map_or("", ToolName::as_str);
                let found = match self.verdict(&ExampleScope { tool, example }) {
                    Verdict::Allow if wanted => "does not match".to_owned(),
                    Verdict::Broken(reason) => format!("cannot be evaluated: {reason}"),
                    Verdict::Ask(_) | Verdict::Deny(_) if !wanted => "matches".to_owned(),
                    Verdict::Allow | Verdict::Ask(_) | Verdict::Deny(_) => continue,
                };
                let (rule, at) = (self.name.clone(), at + 1);
                return Err(RuleRefusal::Example { rule, list, at, found });
            }
        }
        Ok(())
    }

    fn verdict(&self, scope: &dyn Scope) -> Verdict {
        let holds = |condition: &Option<Expression>| match condition {
            None => Ok(false),
            Some(condition) => condition.evaluate(scope).map_err(|fault| fault.to_string()),
        };
        match (holds(&self.deny), holds(&self.ask)) {
            (Err(reason), _) | (_, Err(reason)) => Verdict::Broken(reason),
            (Ok(true), Ok(_)) => Verdict::Deny(self.text.message.clone()),
            (Ok(false), Ok(true)) => Verdict::Ask(self.text.message.clone()),
            (Ok(false), Ok(false)) => Verdict::Allow,
        }
    }
}

/// What an approval of the rule takes.
fn requirement(name: &PolicyName, text: &RuleText) -> Result<ApprovalRequirement, RuleRefusal> {
    let given = [
        ("by", !text.by.is_empty()),
        ("count", text.count.is_some()),
        ("confirm", text.confirm.is_some()),
    ];
    if let (None, Some((key, _))) = (&text.ask, given.iter().find(|(_, given)| *given)) {
        return Err(RuleRefusal::NothingAsked(name.clone(), key));
    }
    let role = text.by.iter().copied().min().unwrap_or(Role::Approver);
    if role < Role::Approver {
        let found = format!("`by: [{role}]`: a {role} approves nothing; write approver or owner");
        return Err(RuleRefusal::Requirement(name.clone(), found));
    }
    let count = text.count.unwrap_or(1);
    if !(1..=APPROVALS_NEEDED_MAX).contains(&count) {
        let found = format!("`count: {count}`: write a number from 1 to {APPROVALS_NEEDED_MAX}");
        return Err(RuleRefusal::Requirement(name.clone(), found));
    }
    let confirm = text.confirm.iter().cloned().collect();
    Ok(ApprovalRequirement { role, count, confirm, each_time: false })
}

impl Policy for Rule {
    fn name(&self) -> &PolicyName {
        &self.name
    }

    fn governs(&self, tool: &ToolSpec) -> bool {
        self.tools.contains(&tool.name)
    }

    fn judge(&self, call: &Call, touched: &[Touched], world: &World<'_>) -> Verdict {
        self.verdict(&CallScope::new(call, touched, world))
    }

    fn requires(&self) -> ApprovalRequirement {
        self.requires.clone()
    }

    fn names(&self) -> Names<'_> {
        let examples = self.text.matches.iter().chain(&self.text.not_match);
        Names {
            tools: self.tools.iter().collect(),
            examples: examples.map(|example| &example.args).collect(),
            ..Names::default()
        }
    }

    fn describe(&self) -> Value {
        json!({ "rule": self.text })
    }
}
