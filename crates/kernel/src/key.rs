//! Decides how a piece of state or a file is named: a family and a name, written `note:x`.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::digest::Digest;
use crate::names::Family;

/// What a call touches and what state is kept under: `note:anna`, `file:canon.md`, `plan`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Key {
    family: Family,
    name: Arc<str>,
}

/// A text that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no key: write family:name, at most 512 bytes, without control characters")]
pub struct KeyRefusal(String);

/// Longest name within a family, in bytes.
pub const KEY_NAME_BYTES_MAX: usize = 512;

impl Key {
    /// The key `family:name`; an empty name is the family's single entry.
    pub fn new(family: Family, name: &str) -> Result<Self, KeyRefusal> {
        if name.len() > KEY_NAME_BYTES_MAX || name.chars().any(char::is_control) {
            return Err(KeyRefusal(name.chars().take(80).collect()));
        }
        Ok(Self { family, name: name.into() })
    }

    /// Reads `family:name`, or `family` alone for its single entry.
    pub fn parse(text: &str) -> Result<Self, KeyRefusal> {
        let (family, name) = text.split_once(':').unwrap_or((text, ""));
        let family =
            Family::parse(family).map_err(|_| KeyRefusal(text.chars().take(80).collect()))?;
        Self::new(family, name)
    }

    /// Which kind of thing this names.
    pub fn family(&self) -> &Family {
        &self.family
    }

    /// Which one of its kind.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name without copying it.
    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.family.as_str())?;
        if self.name.is_empty() { Ok(()) } else { write!(f, ":{}", self.name) }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl TryFrom<String> for Key {
    type Error = KeyRefusal;
    fn try_from(text: String) -> Result<Self, KeyRefusal> {
        Self::parse(&text)
    }
}

/// How a call touches a key.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// The content reaches the model.
    Read,
    /// The content is created, replaced or removed.
    Write,
}

impl Access {
    /// The access as one word, as the log has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// One entry of a footprint: a key, how it is touched, and the content that stood there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Touched {
    /// How.
    pub access: Access,
    /// What.
    pub key: Key,
    /// The content's version when it was looked up; absent when there was nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Digest>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip() {
        for text in ["note:anna", "plan", "file:a/b c.md", "section:Kapitel é"] {
            assert_eq!(Key::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "Note:x", ":x", "note:a\nb", "a b:c"] {
            assert!(Key::parse(text).is_err(), "{text:?}");
        }
        assert!(Key::parse(&format!("note:{}", "x".repeat(513))).is_err());
    }
}
