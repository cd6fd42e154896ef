//! Decides which kinds of conversation a session can be.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of conversation a session is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Conversation {
    /// One person, or nobody, and the model.
    #[default]
    Direct,
    /// Several take part, and the agent is one of them.
    Group,
}

impl Conversation {
    /// Whether it is the usual kind, which the log does not mention.
    pub(crate) fn is_direct(&self) -> bool {
        *self == Self::Direct
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Group => "group",
        }
    }
}
