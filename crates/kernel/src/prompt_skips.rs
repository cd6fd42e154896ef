//! What one request to a model leaves out.

use serde::{Deserialize, Serialize};

/// What the requests of a driver leave out, for flows that need the model's words alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PromptSkips {
    /// No catalogue of prompt tools.
    pub skip_tool_catalog: bool,
    /// No grounding: neither facts nor issues.
    pub skip_grounding: bool,
    /// Neither of both, no tools and no words about them: one raw reply.
    pub skip_tools: bool,
}

impl PromptSkips {
    /// Whether the catalogue is shown.
    pub fn shows_catalogue(&self) -> bool {
        !self.skip_tool_catalog && !self.skip_tools
    }

    /// Whether facts and issues are shown.
    pub fn shows_grounding(&self) -> bool {
        !self.skip_grounding && !self.skip_tools
    }
}
