//! Decides what a phase is: which tools it grants, and which phases may follow.

use serde_json::{Value, json};

use crate::evidence::EvidenceMode;
use crate::fold::World;
use crate::names::{GroupName, PhaseName, ServerName, ToolName};
use crate::policy::expression::{Expression, ExpressionFault};
use crate::policy::{STATE_ROOTS, holds};

/// Which tools a phase grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// Every tool of our own; tools of MCP servers are granted by name only.
    All,
    /// Groups and servers, then single tools more, then single tools less.
    Some {
        /// Groups.
        groups: Vec<GroupName>,
        /// MCP servers with all their tools.
        servers: Vec<ServerName>,
        /// Single tools more.
        include: Vec<ToolName>,
        /// Single tools less; these always win.
        exclude: Vec<ToolName>,
    },
}

/// A way from one phase to another.
#[derive(Debug, Clone)]
pub struct Transition {
    /// Where to.
    pub to: PhaseName,
    /// What must hold before; nothing when absent.
    pub when: Option<Expression>,
    /// What the model is told when it does not hold.
    pub otherwise: String,
}

impl Transition {
    /// A way that is always open.
    pub fn to(to: PhaseName) -> Self {
        Self { to, when: None, otherwise: String::new() }
    }

    /// A way that is open when a condition over the state holds.
    pub fn when(to: PhaseName, when: &str, otherwise: &str) -> Result<Self, ExpressionFault> {
        let when = Some(Expression::compile(when, STATE_ROOTS)?);
        Ok(Self { to, when, otherwise: otherwise.trim().to_owned() })
    }

    /// Whether the way is open; else the sentence for the model. What cannot be answered is no.
    pub fn open(&self, world: &World<'_>) -> Result<(), String> {
        let Some(when) = &self.when else { return Ok(()) };
        match holds(when, world) {
            Ok(true) => Ok(()),
            Ok(false) if self.otherwise.is_empty() => {
                Err(format!("{} can be entered only when {} holds.", self.to, when.source()))
            }
            Ok(false) => Err(self.otherwise.clone()),
            Err(fault) => Err(format!(
                "The condition of the way to {} could not be evaluated ({fault}), so it is closed.",
                self.to
            )),
        }
    }

    fn face(&self) -> Value {
        json!([self.to, self.when.as_ref().map(Expression::source), self.otherwise])
    }
}

/// A stretch of an agent's work.
#[derive(Debug, Clone)]
pub struct Phase {
    /// Its name.
    pub name: PhaseName,
    /// What it is for.
    pub about: String,
    /// The tools it grants.
    pub grant: Grant,
    /// Tools without which it must not begin.
    pub required: Vec<ToolName>,
    /// The ways out of it.
    pub transitions: Vec<Transition>,
    /// Rules the model is told.
    pub rules: Vec<String>,
    /// Guidance the model is told.
    pub guide: String,
    /// Whether answers in it need evidence.
    pub evidence: EvidenceMode,
}

impl Phase {
    /// A phase that grants everything and leads nowhere.
    pub fn new(name: PhaseName) -> Self {
        Self {
            name,
            about: String::new(),
            grant: Grant::All,
            required: Vec::new(),
            transitions: Vec::new(),
            rules: Vec::new(),
            guide: String::new(),
            evidence: EvidenceMode::Off,
        }
    }

    /// The way to another phase.
    pub fn transition(&self, to: &PhaseName) -> Option<&Transition> {
        self.transitions.iter().find(|transition| transition.to == *to)
    }

    /// Everything that its fingerprint is made of, beside the tools it grants.
    pub(crate) fn face(&self) -> Value {
        let transitions: Vec<Value> = self.transitions.iter().map(Transition::face).collect();
        let mut face =
            vec![json!(self.name), json!(self.about), json!(self.required), json!(transitions)];
        face.extend([json!(self.rules), json!(self.guide)]);
        // It is told only where it is used, so that fingerprints stay as they were.
        if !self.evidence.is_off() {
            face.push(json!(self.evidence));
        }
        Value::Array(face)
    }
}
