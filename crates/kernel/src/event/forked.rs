//! Decides what the log says of a session that was forked from another one: where from, and what it
//! begins with (ADR 0024).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::digest::Digest;
use crate::fold::Session;
use crate::names::SessionId;

/// A session begins with what another one knew.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forked {
    /// Where it was forked.
    pub from: Origin,
    /// Version of the program that did it: another one may fold otherwise.
    pub program: String,
    /// What it begins with: the fold of the other session there, without what is not carried over.
    #[schemars(with = "Map<String, Value>")]
    pub carried: Session,
    /// What is not carried over, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// What the model is told; nothing when it is empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// A place in the log of another session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// The session.
    pub session: SessionId,
    /// The last record of it that counts.
    pub seq: u64,
    /// Chain hash up to and with that record.
    pub hash: Digest,
}
