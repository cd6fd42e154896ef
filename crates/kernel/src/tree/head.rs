//! What names a log, and what names one moment of it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::{Digest, hex, unhex};

/// The name of a log, which no other log has: 16 random bytes, written as hex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LogId([u8; 16]);

/// A text that names no log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the name of a log is 32 characters from 0-9 and a-f")]
pub struct LogIdRefusal;

impl LogId {
    /// A name from 16 random bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Reads a name as it was written.
    pub fn parse(text: &str) -> Result<Self, LogIdRefusal> {
        unhex(text).map(Self).ok_or(LogIdRefusal)
    }

    /// The log's name as the first line of its signed heads.
    pub fn origin(&self) -> String {
        format!("toolgate/{self}")
    }

    /// What people sign with, so that a signature for one log is worth nothing in another.
    pub fn digest(&self) -> Digest {
        Digest::of(self.origin().as_bytes())
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 32];
        hex(&self.0, &mut text);
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl TryFrom<String> for LogId {
    type Error = LogIdRefusal;
    fn try_from(text: String) -> Result<Self, LogIdRefusal> {
        Self::parse(&text)
    }
}

impl From<LogId> for String {
    fn from(id: LogId) -> Self {
        id.to_string()
    }
}

/// One moment of a log: how many commits it had, and the root over all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeHead {
    /// How many commits.
    pub size: u64,
    /// The root over them.
    pub root: Digest,
}
