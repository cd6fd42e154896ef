//! Keeps what the log last said of tools from outside.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::names::{ServerName, ToolName};

/// What there is from outside, as the log last said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Supplied {
    /// The tools of MCP servers.
    pub tools: Vec<ToolName>,
    /// What is not as it should be.
    pub notes: Vec<String>,
    /// How isolated the program of each server is.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub isolation: BTreeMap<ServerName, String>,
}
