//! Flags that narrow what one request may do.

use anyhow::Result;
use clap::{Args, ValueEnum};
use toolgate_kernel::agent::Agent;
use toolgate_kernel::evidence::EvidenceMode;
use toolgate_kernel::request::RequestOptions;

/// Which tools this request may use, of those that the phase grants.
#[derive(Args, Clone, Default)]
pub(crate) struct ToolFlags {
    /// Use only this tool, of those that the phase grants; may be given several times. `all` lifts
    /// it again.
    #[arg(long, value_name = "NAME")]
    allow_tool: Vec<String>,
    /// Ask the model for this tool until it called it; `any` for one of those it is shown.
    #[arg(long, value_name = "NAME")]
    require_tool: Option<String>,
}

/// What a request to a model may do.
#[derive(Args, Clone, Default)]
pub(crate) struct RequestFlags {
    #[command(flatten)]
    tools: ToolFlags,
    /// Whether answers need evidence that can be verified. It can only be asked for, not switched
    /// off.
    #[arg(long, value_enum, value_name = "HOW")]
    evidence: Option<EvidenceFlag>,
}

/// What a request says of evidence.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EvidenceFlag {
    /// An answer without evidence that can be verified is not shown.
    Required,
}

impl ToolFlags {
    fn is_given(&self) -> bool {
        !self.allow_tool.is_empty() || self.require_tool.is_some()
    }

    /// The options that they mean.
    pub(crate) fn options(&self, agent: &Agent) -> Result<RequestOptions> {
        self.with(agent, EvidenceMode::Off)
    }

    fn with(&self, agent: &Agent, evidence: EvidenceMode) -> Result<RequestOptions> {
        let required = self.require_tool.as_deref();
        Ok(RequestOptions::parse(agent, &self.allow_tool, required, evidence)?)
    }
}

impl RequestFlags {
    /// Whether any of them was given.
    pub(crate) fn is_given(&self) -> bool {
        self.tools.is_given() || self.evidence.is_some()
    }

    /// The options that they mean.
    pub(crate) fn options(&self, agent: &Agent) -> Result<RequestOptions> {
        let evidence = match self.evidence {
            Some(EvidenceFlag::Required) => EvidenceMode::Required,
            None => EvidenceMode::Off,
        };
        self.tools.with(agent, evidence)
    }
}
