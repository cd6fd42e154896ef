//! Decides how a phase is written down: what it grants, and the ways out of it.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::evidence::EvidenceMode;
use crate::names::{GroupName, NameRefusal, PhaseName, ServerName, ToolName};
use crate::phase::{Grant, Phase, Transition};
use crate::policy::expression::ExpressionFault;

/// A phase as it is written down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PhaseText {
    /// What the phase is for, in a sentence; the model is told.
    pub description: String,
    /// The phases that may follow: names, or maps with `to`, `when` and `otherwise`. A run ends
    /// with a phase that has none.
    pub transitions: Vec<TransitionText>,
    /// The tools the phase grants: all of them when left out, none when empty.
    #[serde(deserialize_with = "given")]
    pub tools: Option<ToolsText>,
    /// Rules the model is told, numbered.
    pub rules: Vec<String>,
    /// Guidance the model is told.
    pub guide: String,
    /// Whether answers in this phase need evidence that can be verified; `off` when left out.
    #[serde(skip_serializing_if = "EvidenceMode::is_off")]
    pub evidence: EvidenceMode,
}

/// A key that is written with nothing after it was meant to hold something back, not to give all.
fn given<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<ToolsText>, D::Error> {
    Ok(Some(Option::<ToolsText>::deserialize(reader)?.unwrap_or_default()))
}

/// A way out of a phase: a name, or a name with a condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TransitionText {
    /// A phase that may always follow.
    To(PhaseName),
    /// A phase that may follow when a condition holds.
    When(ConditionText),
}

/// A phase that may follow when a condition holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConditionText {
    /// The phase.
    pub to: PhaseName,
    /// What must hold, in CEL over `session`, `project`, `phase`, `iteration`, `turn` and
    /// `now`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// What the model is told when it does not hold.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub otherwise: String,
}

impl TransitionText {
    /// The phase it leads to.
    pub fn to(&self) -> &PhaseName {
        match self {
            Self::To(to) | Self::When(ConditionText { to, .. }) => to,
        }
    }

    /// Whether it says what is told when a condition does not hold, and has none.
    fn otherwise_alone(&self) -> bool {
        match self {
            Self::To(_) => false,
            Self::When(text) => text.when.is_none() && !text.otherwise.is_empty(),
        }
    }

    fn build(&self) -> Result<Transition, ExpressionFault> {
        match self {
            Self::To(to) | Self::When(ConditionText { to, when: None, .. }) => {
                Ok(Transition::to(to.clone()))
            }
            Self::When(ConditionText { to, when: Some(when), otherwise }) => {
                Transition::when(to.clone(), when, otherwise)
            }
        }
    }
}

/// The tools of a phase: a list of groups, or groups with single tools more and less.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ToolsText {
    /// Groups, `+tool` and `-tool`.
    Short(Vec<String>),
    /// The same, written out.
    Full(GrantText),
}

impl Default for ToolsText {
    fn default() -> Self {
        Self::Full(GrantText::default())
    }
}

/// A grant as it is written down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GrantText {
    /// Groups; `+tool` is one more tool and `-tool` one less.
    pub groups: Vec<String>,
    /// Single tools more.
    pub include: Vec<ToolName>,
    /// Single tools less; these always win.
    pub exclude: Vec<ToolName>,
    /// MCP servers, or single tools of them: `research`, `research/web_search`.
    pub mcp: Vec<String>,
    /// Tools that the phase must grant, or it must not begin.
    pub required: Vec<ToolName>,
}

impl ToolsText {
    /// The same, written out.
    pub fn full(&self) -> GrantText {
        match self {
            Self::Full(text) => text.clone(),
            Self::Short(groups) => GrantText { groups: groups.clone(), ..GrantText::default() },
        }
    }
}

impl GrantText {
    /// Groups, then tools more, then tools less.
    fn build(self, mut refuse: impl FnMut(String, NameRefusal)) -> (Grant, Vec<ToolName>) {
        let (mut groups, mut include, mut exclude) = (Vec::new(), self.include, self.exclude);
        let mut servers = Vec::new();
        for entry in self.mcp {
            let parsed = match entry.split_once('/') {
                None => ServerName::parse(&entry).map(|server| servers.push(server)),
                Some((server, tool)) => ServerName::parse(server)
                    .and_then(|server| ToolName::remote(&server, tool))
                    .map(|tool| include.push(tool)),
            };
            if let Err(refusal) = parsed {
                refuse(entry, refusal);
            }
        }
        for entry in self.groups {
            let parsed = match (entry.strip_prefix('+'), entry.strip_prefix('-')) {
                (Some(tool), _) => ToolName::parse(tool).map(|tool| include.push(tool)),
                (None, Some(tool)) => ToolName::parse(tool).map(|tool| exclude.push(tool)),
                (None, None) => GroupName::parse(&entry).map(|group| groups.push(group)),
            };
            if let Err(refusal) = parsed {
                refuse(entry, refusal);
            }
        }
        (Grant::Some { groups, servers, include, exclude }, self.required)
    }
}

/// A phase that cannot be made of what was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PhaseRefusal {
    /// A name is not legal.
    #[error("phase {phase}: {refusal}")]
    Name {
        /// The phase.
        phase: PhaseName,
        /// What was written.
        entry: String,
        /// Why.
        refusal: NameRefusal,
    },
    /// A way is always open, and says what is told when it is not.
    #[error("phase {phase}, the way to {to}: `otherwise` without `when`")]
    Otherwise {
        /// The phase.
        phase: PhaseName,
        /// Which way, counted from zero.
        at: usize,
        /// Where to.
        to: PhaseName,
    },
    /// A condition does not compile.
    #[error("phase {phase}, the way to {to}: {fault}")]
    Condition {
        /// The phase.
        phase: PhaseName,
        /// Which way, counted from zero.
        at: usize,
        /// Where to.
        to: PhaseName,
        /// Why.
        fault: ExpressionFault,
    },
}

impl PhaseText {
    /// Makes the phase of what can be used, and tells what cannot.
    pub(super) fn build(self, name: PhaseName, mut refuse: impl FnMut(PhaseRefusal)) -> Phase {
        let phase = || name.clone();
        let (grant, required) = match self.tools {
            None => (Grant::All, Vec::new()),
            Some(tools) => tools.full().build(|entry, refusal| {
                refuse(PhaseRefusal::Name { phase: phase(), entry, refusal });
            }),
        };
        let mut transitions = Vec::with_capacity(self.transitions.len());
        for (at, text) in self.transitions.iter().enumerate() {
            if text.otherwise_alone() {
                refuse(PhaseRefusal::Otherwise { phase: phase(), at, to: text.to().clone() });
            }
            match text.build() {
                Ok(transition) => transitions.push(transition),
                Err(fault) => {
                    let to = text.to().clone();
                    transitions.push(Transition::to(to.clone()));
                    refuse(PhaseRefusal::Condition { phase: phase(), at, to, fault });
                }
            }
        }
        Phase {
            about: self.description,
            grant,
            required,
            transitions,
            rules: self.rules,
            guide: self.guide,
            evidence: self.evidence,
            name,
        }
    }
}
