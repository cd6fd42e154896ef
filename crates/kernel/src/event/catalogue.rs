//! What the log says of decisions about the catalogue of prompt tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Change;
use crate::digest::Digest;

/// A decision about the catalogue, with the changes of the state that it makes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CatalogueDecided {
    /// What was decided.
    pub ruling: CatalogueRuling,
    /// The changes.
    pub changes: Vec<Change>,
    /// Why, in the person's words.
    pub note: String,
}

/// What a person decides about the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "about", rename_all = "snake_case")]
pub enum CatalogueRuling {
    /// A proposal is approved, sent back or rejected.
    Proposal {
        /// Its number.
        proposal: u64,
        /// The revision that was shown.
        revision: u64,
        /// Digest of that revision.
        digest: Digest,
        /// The word on it.
        ruling: ProposalRuling,
    },
    /// An entry of the user's own file is used in this project.
    Entry {
        /// Its id.
        id: String,
        /// Digest of its fields.
        digest: Digest,
    },
    /// An earlier version of a tool is made its newest one.
    Rollback {
        /// The tool.
        id: String,
        /// The version.
        version: u64,
        /// Digest of its fields.
        digest: Digest,
    },
}

/// A person's word on a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProposalRuling {
    /// It becomes part of the catalogue.
    Approve,
    /// Its author is to change it.
    NeedsChanges,
    /// It is turned down for good.
    Reject,
}

impl ProposalRuling {
    /// The word as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::NeedsChanges => "needs-changes",
            Self::Reject => "reject",
        }
    }
}
