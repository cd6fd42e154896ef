//! Decides how an event stands in its stream: numbered, dated, signed for by an actor.

use std::fmt;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::write::Written;
use super::{Event, InboxEvent, ProjectEvent, Said};
use crate::actor::Actor;
use crate::credential::Signed;
use crate::digest::Digest;
use crate::names::SessionId;
use crate::time::Timestamp;

/// One of the streams of a log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
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
    /// The signature of the person who did it, where they have a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<Box<Signed>>,
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
}

impl Authored for Event {
    fn human_act(&self) -> Option<&'static str> {
        match self {
            Self::Answered { .. } => Some("answer a question"),
            Self::StateChanged { .. } => Some("change state outside a call"),
            Self::Undone(_) => Some("undo calls"),
            Self::Heard { said, .. } => said.human_act(),
            Self::Opened { .. }
            | Self::Forked(_)
            | Self::ConfigBound { .. }
            | Self::IterationOpened { .. }
            | Self::IterationClosed(_)
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
            | Self::Ended { .. } => None,
        }
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
            Self::ToolPinned(_)
            | Self::ProjectChanged { .. }
            | Self::ProjectOpened { .. }
            | Self::SessionOpened { .. }
            | Self::ProjectConfigured { .. } => None,
        }
    }
}

impl Authored for InboxEvent {
    fn human_act(&self) -> Option<&'static str> {
        let Self::Spoken { said } = self;
        said.human_act()
    }
}

impl Said {
    fn human_act(&self) -> Option<&'static str> {
        match self {
            Self::GoOn {} => Some("let a run go on"),
            Self::Answer(_) => Some("answer a question"),
            Self::Withdraw { .. } => Some("withdraw what was allowed"),
            Self::Feedback { .. } | Self::Stop { .. } => None,
        }
    }
}

impl<E: Authored> Record<E> {
    /// Refuses what only a person may write, for everyone else.
    pub fn check_author(&self) -> Result<(), AuthorRefusal> {
        match self.event.human_act() {
            Some(act) if !self.actor.is_human() => {
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
        self.write(bytes, self.signed.as_deref());
        Ok(())
    }

    /// Appends the bytes that a person signs.
    pub(crate) fn encode_unsigned_into(&self, bytes: &mut Vec<u8>) -> Result<(), AuthorRefusal> {
        self.check_author()?;
        self.write(bytes, None);
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
