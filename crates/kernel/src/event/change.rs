//! Decides how state may change: by small operations on keys, never by whole values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::key::Key;

/// One change of state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Change {
    /// The key has this value from now on.
    Put {
        /// The key.
        key: Key,
        /// The value.
        value: Value,
        /// Version of the family's layout, for upcasting on read.
        v: u16,
    },
    /// The key is gone.
    Remove {
        /// The key.
        key: Key,
    },
    /// The list at the key has one more item.
    Push {
        /// The key.
        key: Key,
        /// The item.
        value: Value,
        /// Version of the family's layout, for upcasting on read.
        v: u16,
    },
    /// Everything starts anew, what policies remember included.
    Clear {},
}

impl Change {
    /// The key it concerns; none when it concerns all.
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Put { key, .. } | Self::Remove { key } | Self::Push { key, .. } => Some(key),
            Self::Clear {} => None,
        }
    }
}
