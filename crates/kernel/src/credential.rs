//! The public key by which a person is known, and a signature made with it.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::digest::{hex, unhex};

/// The public half of a person's key, by which the person is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct PersonKey(pub [u8; 32]);

/// The bytes of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Signature(pub [u8; 64]);

/// A text that is neither a key nor a signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a person's key has 64, a signature 128 characters from 0-9 and a-f")]
pub struct HexRefusal;

impl TryFrom<String> for PersonKey {
    type Error = HexRefusal;
    fn try_from(text: String) -> Result<Self, HexRefusal> {
        unhex(&text).map(Self).ok_or(HexRefusal)
    }
}

impl TryFrom<String> for Signature {
    type Error = HexRefusal;
    fn try_from(text: String) -> Result<Self, HexRefusal> {
        unhex(&text).map(Self).ok_or(HexRefusal)
    }
}

impl fmt::Display for PersonKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 64];
        hex(&self.0, &mut text);
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl PersonKey {
    /// The first characters, enough for a person to tell two apart.
    pub fn short(&self) -> String {
        self.to_string().chars().take(12).collect()
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 128];
        hex(&self.0, &mut text);
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl Serialize for PersonKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Signature {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
