//! Narrows what one request may do: which tools it may use, which one it must use, and whether its
//! answers need evidence.
//!
//! A request is what a caller asks for once: a run, one message of a conversation, one call. Its
//! options can only take away from what the phase grants. The log says which options hold, so a
//! resumed session goes on under the same ones.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::{Agent, ToolAudience};
use crate::evidence::EvidenceMode;
use crate::names::{AgentId, PhaseName, ToolName, nearest};

/// The word that stands for every tool of the phase in a list of allowed tools.
const EVERY_TOOL: &str = "all";

/// The word that stands for any tool where one is required.
const ANY_TOOL: &str = "any";

/// Most tools that one request names.
const TOOLS_MAX: usize = 256;

/// What one request narrows. The default narrows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestOptions {
    /// The only tools it may use, of those that the phase grants; all of them when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<ToolName>>,
    /// The tool that the model is asked for until it made a call of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_tool: Option<RequiredTool>,
    /// Whether its answers need evidence, where the configuration does not require it already.
    #[serde(default, skip_serializing_if = "EvidenceMode::is_off")]
    pub evidence: EvidenceMode,
}

/// A tool that a request must use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequiredTool {
    /// Any of those that are shown.
    Any,
    /// This one.
    Tool(ToolName),
}

/// The options of a request that is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRequest {
    /// The options.
    pub options: RequestOptions,
    /// Whether the tool that it must use was called.
    #[serde(default)]
    pub used_required: bool,
}

impl OpenRequest {
    /// Whether a call of a tool is what it still asks for.
    pub(crate) fn is_required(&self, tool: &ToolName) -> bool {
        let meant = match &self.options.required_tool {
            None => false,
            Some(RequiredTool::Any) => true,
            Some(RequiredTool::Tool(name)) => name == tool || *name == tool.on_wire(),
        };
        meant && !self.used_required
    }
}

/// Options that a request cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// There is no such tool.
    #[error("there is no tool {name:?}{}; `toolgate tools` lists them", suggest(.near))]
    UnknownTool {
        /// What was written.
        name: String,
        /// The nearest name there is.
        near: Option<String>,
    },
    /// The tool that it must use is not among those it may use.
    #[error("the required tool {0} is not among the allowed tools; allow it too")]
    RequiredNotAllowed(ToolName),
    /// The tool that it must use is not granted.
    #[error("the required tool {tool} is not available in phase {phase}")]
    RequiredNotGranted {
        /// The tool.
        tool: ToolName,
        /// The phase.
        phase: PhaseName,
    },
    /// A tool is required, and none may be used.
    #[error("a tool is required, and none is available in phase {0}")]
    NoneToRequire(PhaseName),
    /// It names too many tools.
    #[error("a request names at most {TOOLS_MAX} tools")]
    TooMany,
}

fn suggest(near: &Option<String>) -> String {
    near.as_ref().map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}

impl RequestOptions {
    /// Options as a caller writes them. `all` among the allowed tools is no restriction, and `any`
    /// as the required tool is any of those that are shown.
    pub fn parse(
        agent: &Agent,
        allowed: &[String],
        required: Option<&str>,
        evidence: EvidenceMode,
    ) -> Result<Self, RequestError> {
        if allowed.len() > TOOLS_MAX {
            return Err(RequestError::TooMany);
        }
        let every = allowed.is_empty() || allowed.iter().any(|name| name == EVERY_TOOL);
        let mut tools: Vec<ToolName> = Vec::new();
        for name in allowed.iter().filter(|name| *name != EVERY_TOOL) {
            let tool = known_tool(agent, name)?;
            if !tools.contains(&tool) {
                tools.push(tool);
            }
        }
        let is_tool = |name: &str| agent.toolset.find(name).is_some();
        let required_tool = match required {
            None => None,
            Some(name) if name == ANY_TOOL && !is_tool(name) => Some(RequiredTool::Any),
            Some(name) => Some(RequiredTool::Tool(known_tool(agent, name)?)),
        };
        Ok(Self { allowed_tools: (!every).then_some(tools), required_tool, evidence })
    }

    /// Whether it narrows nothing.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it leaves a tool as the phase grants it.
    pub fn allows(&self, tool: &ToolName) -> bool {
        let Some(allowed) = &self.allowed_tools else { return true };
        allowed.iter().any(|one| one == tool || *one == tool.on_wire())
    }

    /// Checks that everything it names exists, and that what it requires can be used in a phase by
    /// the agent that the session speaks as.
    pub fn check(
        &self,
        agent: &Agent,
        phase: &PhaseName,
        who: Option<&AgentId>,
    ) -> Result<(), RequestError> {
        for tool in self.allowed_tools.iter().flatten() {
            known_tool(agent, tool.as_str())?;
        }
        let audience = ToolAudience { agent: who, request: Some(self) };
        match &self.required_tool {
            None => Ok(()),
            Some(RequiredTool::Any) => match agent.visible(phase, audience).next() {
                Some(_) => Ok(()),
                None => Err(RequestError::NoneToRequire(phase.clone())),
            },
            Some(RequiredTool::Tool(tool)) => {
                let tool = known_tool(agent, tool.as_str())?;
                if !self.allows(&tool) {
                    return Err(RequestError::RequiredNotAllowed(tool));
                }
                let shown = agent.visible(phase, audience).any(|entry| entry.spec.name == tool);
                // A tool of a server may be there by the time the model is asked.
                if shown || agent.grants_outside(phase, &tool, audience) {
                    return Ok(());
                }
                Err(RequestError::RequiredNotGranted { tool, phase: phase.clone() })
            }
        }
    }
}

/// The tool that a name means, by the name it has itself. Tools of servers that are declared are
/// known once the server was asked, so their names are taken as they are.
fn known_tool(agent: &Agent, name: &str) -> Result<ToolName, RequestError> {
    let found = agent.toolset.find(name).and_then(|at| agent.toolset.entries().get(at));
    if let Some(entry) = found {
        return Ok(entry.spec.name.clone());
    }
    if let Some(tool) = ToolName::parse(name).ok().filter(|tool| agent.declares_server_of(tool)) {
        return Ok(tool);
    }
    let known = agent.toolset.entries().iter().map(|entry| entry.spec.name.as_str());
    let near = nearest(name, known).map(str::to_owned);
    Err(RequestError::UnknownTool { name: name.chars().take(80).collect(), near })
}
