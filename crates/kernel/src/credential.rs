//! Decides what a person signs with a key of their own, and what counts only with that signature.
//!
//! Signing and checking are done where there is cryptography; this says what is signed.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::actor::Actor;
use crate::digest::{Digest, hex, unhex};
use crate::event::{
    AuthorRefusal, Change, Event, InboxEvent, ProjectEvent, Record, Said, StreamId, Written,
};

/// The public half of a person's key, by which the person is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct PersonKey(pub [u8; 32]);

/// A person's signature under one record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Signed {
    /// Whose it is.
    pub by: PersonKey,
    /// The signature itself.
    pub signature: Signature,
}

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

/// Families that no file shows and no tool writes: what is in them is a person's signed word.
pub const SIGNED_FAMILIES: &[&str] = &["facts", "locks"];

/// An event that may need a person's own signature, once the project knows a person's key.
pub trait Signable: Written {
    /// Whether it counts only with a signature when this is its author.
    fn needs_signature(&self, author: &Actor) -> bool;
}

impl Signable for Event {
    fn needs_signature(&self, author: &Actor) -> bool {
        // The operator's word lets the user of a client answer, who has no key here (ADR 0016).
        matches!(self, Self::Answered { .. }) && !author.is_client_user()
            || matches!(self, Self::StateChanged { .. } | Self::Undone(_))
    }
}

impl Signable for InboxEvent {
    fn needs_signature(&self, _: &Actor) -> bool {
        let Self::Spoken { said } = self;
        said.must_be_signed()
    }
}

impl Said {
    /// Whether it counts only with a person's signature, where one is known.
    pub fn must_be_signed(&self) -> bool {
        match self {
            Self::Answer(_) | Self::Withdraw { .. } => true,
            // Whoever may write to the log may say a word to the model, or stop it.
            Self::Feedback { .. } | Self::GoOn {} | Self::Stop { .. } => false,
        }
    }
}

impl Signable for ProjectEvent {
    fn needs_signature(&self, author: &Actor) -> bool {
        match self {
            Self::PersonEnrolled { .. } => true,
            Self::ToolPinned(pinned) => pinned.ruling.is_a_persons(),
            // Nobody signs what a call changes, or what is written into a file that shows state,
            // so neither reaches anything that must be signed.
            Self::ProjectChanged { call, changes, .. } => {
                call.is_none() && !author.is_editor() || changes.iter().any(reaches_signed)
            }
            Self::ProjectOpened { .. }
            | Self::SessionOpened { .. }
            | Self::ProjectConfigured { .. } => false,
        }
    }
}

fn reaches_signed(change: &Change) -> bool {
    change.key().is_none_or(|key| SIGNED_FAMILIES.contains(&key.family().as_str()))
}

/// What a person signs: the record without its signature, in its place. Taken to another log,
/// stream or place, a signature is worth nothing.
pub fn words<E: Signable>(
    log: &Digest,
    stream: &StreamId,
    before: Digest,
    record: &Record<E>,
) -> Result<Vec<u8>, AuthorRefusal> {
    let mut words = b"toolgate person 1\n".to_vec();
    words.extend_from_slice(stream.to_string().as_bytes());
    words.push(b'\n');
    words.extend_from_slice(&log.0);
    words.extend_from_slice(&before.0);
    record.encode_unsigned_into(&mut words)?;
    Ok(words)
}
