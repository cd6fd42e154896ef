//! Flags that narrow what one request may do.

use anyhow::Result;
use clap::Args;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::request::RequestOptions;

/// What this request may do, of what the phase grants.
#[derive(Args, Clone, Default)]
pub(crate) struct RequestFlags {
    /// Use only this tool, of those that the phase grants; may be given several times. `all` lifts
    /// it again.
    #[arg(long, value_name = "NAME")]
    allow_tool: Vec<String>,
    /// Ask the model for this tool until it called it; `any` for one of those it is shown.
    #[arg(long, value_name = "NAME")]
    require_tool: Option<String>,
}

impl RequestFlags {
    /// Whether any of them was given.
    pub(crate) fn is_given(&self) -> bool {
        !self.allow_tool.is_empty() || self.require_tool.is_some()
    }

    /// The options that they mean.
    pub(crate) fn options(&self, agent: &Agent) -> Result<RequestOptions> {
        Ok(RequestOptions::parse(agent, &self.allow_tool, self.require_tool.as_deref())?)
    }
}
