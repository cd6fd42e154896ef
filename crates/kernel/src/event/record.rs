//! Decides how an event stands in its stream: numbered, dated, with its actor and, where one is needed, a signed decision.

use std::fmt;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};

use super::write::Written;
use super::{Event, InboxEvent, ProjectEvent, Said};
use crate::actor::Actor;
use crate::decision::SignedDecision;
use crate::digest::Digest;
use crate::names::SessionId;
use crate::time::Timestamp;

/// One of the streams of a log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub enum StreamId {
    /// What all sessions share.
    Project,
    /// One session.
    Session(SessionId),
    /// What others say to one session.
    Inbox(SessionId),
}

impl StreamId {
    /// Kind and id apart.
    pub fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Project => ("project", ""),
            Self::Session(id) => ("session", id.as_str()),
            Self::Inbox(id) => ("inbox", id.as_str()),
        }
    }

    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, id) = text.split_once('/').unwrap_or((text, ""));
        match (kind, SessionId::parse(id)) {
            ("project", Err(_)) if id.is_empty() => Some(Self::Project),
            ("session", Ok(id)) => Some(Self::Session(id)),
            ("inbox", Ok(id)) => Some(Self::Inbox(id)),
            _ => None,
        }
    }
}

/// A text that names no stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a stream is project, session/ID or inbox/ID")]
pub struct StreamRefusal;

impl TryFrom<String> for StreamId {
    type Error = StreamRefusal;
    fn try_from(text: String) -> Result<Self, StreamRefusal> {
        Self::parse(&text).ok_or(StreamRefusal)
    }
}

impl Serialize for StreamId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            (kind, "") => f.write_str(kind),
            (kind, id) => write!(f, "{kind}/{id}"),
        }
    }
}

/// The project head a session record saw, when it is a newer one than the record before saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Saw {
    /// Sequence number in the project stream.
    pub seq: u64,
    /// Chain hash of that record.
    pub hash: Digest,
}

/// Names one restore of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RestoreRef {
    /// Its record in the project stream.
    pub seq: u64,
    /// Digest of the owner's statement, which no other restore has.
    pub statement: Digest,
}

/// An event in its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record<E> {
    /// Place in the stream, from one, without gaps.
    pub seq: u64,
    /// When it was written. Order is by `seq`.
    pub at: Timestamp,
    /// Who did it.
    pub actor: Actor,
    /// Which driver of the session wrote it; zero in streams that anyone may write.
    pub epoch: u64,
    /// The project head this driver had seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saw: Option<Saw>,
    /// What happened.
    pub event: E,
    /// The person's signed decision, where it counts only with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Box<SignedDecision>>,
}

/// An event whose author must be a person, and is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("only a person may do this ({act}); {actor} is not one")]
pub struct AuthorRefusal {
    /// What was tried.
    pub act: &'static str,
    /// Who tried.
    pub actor: Actor,
}

/// A record that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeRefusal {
    /// The bytes are no record.
    #[error("the bytes are no record of this stream")]
    Unreadable(#[source] serde_json::Error),
    /// The record claims an author it may not have.
    #[error(transparent)]
    Author(#[from] AuthorRefusal),
}

/// What only some actors may write. Checked before writing and again after reading.
pub trait Authored {
    /// The name of the act, when only a person may do it.
    fn human_act(&self) -> Option<&'static str>;

    /// Whether somebody who is no person may do it all the same: an edited file changes the state that
    /// it shows, and the user of a client answers within a delegation.
    fn is_open_to(&self, actor: &Actor) -> bool;
}

impl Authored for Event {
    fn human_act(&self) -> Option<&'static str> {
        match self {
            Self::StateChanged { .. } => Some("change state outside a call"),
            Self::Undone(_) => Some("undo calls"),
            Self::Heard { said, .. } => said.human_act(),
            Self::Opened { .. }
            | Self::Forked(_)
            | Self::ConfigBound { .. }
            | Self::IterationOpened { .. }
            | Self::IterationClosed(_)
            | Self::RequestOpened(_)
            | Self::PlanSent { .. }
            | Self::ModelReplied { .. }
            | Self::ModelFailed { .. }
            | Self::CallReceived { .. }
            | Self::CallAdmitted(_)
            | Self::CallAsked { .. }
            | Self::CallRefused(_)
            | Self::CallStarted { .. }
            | Self::CallSettled(_)
            | Self::FileConflicted { .. }
            | Self::PhaseEntered { .. }
            | Self::ToolsSupplied { .. }
            | Self::LogRestored { .. }
            | Self::Ended { .. } => None,
        }
    }

    fn is_open_to(&self, actor: &Actor) -> bool {
        let Self::Heard { said, .. } = self else { return false };
        said.is_open_to(actor)
    }
}

impl Authored for ProjectEvent {
    fn human_act(&self) -> Option<&'static str> {
        match self {
            Self::ProjectChanged { call: None, .. } => Some("change state outside a call"),
            Self::ToolPinned(pinned) if pinned.ruling.is_a_persons() => {
                Some("accept or reject what a server offers")
            }
            Self::PersonEnrolled { .. } => Some("make a person's key known"),
            Self::PersonRevoked { .. } => Some("revoke a person's key"),
            Self::ConfigTrusted { .. } => Some("trust a configuration"),
            Self::CatalogueDecided(_) => Some("decide about the catalogue"),
            Self::ClientDelegated(_) => Some("let the user of a client answer"),
            Self::FamiliesCleared { .. } => Some("clear the mark of untrusted state"),
            Self::DelegationEnded { .. } => Some("take a delegation back"),
            Self::LogRestored { .. } => Some("accept a restored log"),
            Self::ToolPinned(_)
            | Self::ProjectChanged { .. }
            | Self::ProjectOpened { .. }
            | Self::SessionOpened { .. }
            | Self::FamiliesMarked { .. }
            | Self::DelegationUsed { .. }
            | Self::ProjectConfigured { .. } => None,
        }
    }

    fn is_open_to(&self, actor: &Actor) -> bool {
        matches!((self, actor), (Self::ProjectChanged { .. }, Actor::File(_)))
    }
}

impl Authored for InboxEvent {
    fn human_act(&self) -> Option<&'static str> {
        let Self::Spoken { said } = self;
        said.human_act()
    }

    fn is_open_to(&self, actor: &Actor) -> bool {
        let Self::Spoken { said } = self;
        said.is_open_to(actor)
    }
}

impl Said {
    fn human_act(&self) -> Option<&'static str> {
        match self {
            Self::GoOn {} => Some("let a run go on"),
            Self::Answer(_) => Some("answer a question"),
            Self::Withdraw { .. } => Some("withdraw what was allowed"),
            Self::ClearTaint { .. } => Some("clear the taint of a session"),
            Self::Feedback { .. } | Self::Stop { .. } => None,
        }
    }

    fn is_open_to(&self, actor: &Actor) -> bool {
        matches!((self, actor), (Self::Answer(_), Actor::ClientUser(_)))
    }
}

impl<E: Authored> Record<E> {
    /// Refuses what only a person may write, for everyone else.
    pub fn check_author(&self) -> Result<(), AuthorRefusal> {
        match self.event.human_act() {
            Some(act) if !self.actor.is_human() && !self.event.is_open_to(&self.actor) => {
                Err(AuthorRefusal { act, actor: self.actor.clone() })
            }
            _ => Ok(()),
        }
    }
}

impl<E: Written> Record<E> {
    /// The bytes that are stored and chained.
    pub fn encode(&self) -> Result<Vec<u8>, AuthorRefusal> {
        let mut bytes = Vec::new();
        self.encode_into(&mut bytes)?;
        Ok(bytes)
    }

    /// Appends the bytes that are stored and chained.
    pub fn encode_into(&self, bytes: &mut Vec<u8>) -> Result<(), AuthorRefusal> {
        self.check_author()?;
        self.write(bytes);
        Ok(())
    }
}

impl<E: Authored + DeserializeOwned> Record<E> {
    /// Reads stored bytes back.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeRefusal> {
        let record: Self = serde_json::from_slice(bytes).map_err(DecodeRefusal::Unreadable)?;
        record.check_author()?;
        Ok(record)
    }
}
