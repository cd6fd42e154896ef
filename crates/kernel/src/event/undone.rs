//! Decides what the log says of calls that a person undid: by new changes, never by taking records
//! away (ADR 0022).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Change, FileChange};
use crate::names::{CallId, ToolName};

/// Calls that a person undid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Undone {
    /// Its own id, in one row with the calls: the copies of its files are staged under it.
    pub id: CallId,
    /// The calls, in the order they were made.
    pub calls: Vec<UndoneCall>,
    /// What goes back in the session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// The files that go back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
    /// What could not be undone, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// What the model is told.
    pub note: String,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UndoneCall {
    /// The call.
    pub call: CallId,
    /// Its tool.
    pub tool: ToolName,
}
