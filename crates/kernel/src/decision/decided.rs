//! Which records count only with a person's signed decision, and what has to be signed for each.

use serde::Serialize;

use super::{DecisionKind, SIGNED_FAMILIES, SPOKEN_FAMILIES};
use crate::actor::Actor;
use crate::digest::Digest;
use crate::event::{CatalogueRuling, Change, Event, InboxEvent, ProjectEvent, Said, StreamId};
use crate::names::{Family, SessionId};

/// An event of which some count only with a person's signed decision.
pub trait Decided: Serialize {
    /// What has to be signed for it in this stream; nothing where it counts without.
    fn decision(&self, stream: &StreamId, author: &Actor) -> Option<DecisionKind>;

    /// Digest of all of it.
    fn content(&self) -> Digest {
        Digest::of_json(&serde_json::to_value(self).unwrap_or_default())
    }
}

impl Decided for Event {
    fn decision(&self, stream: &StreamId, _: &Actor) -> Option<DecisionKind> {
        let session = session_of(stream);
        if let Self::StateChanged { changes, .. } = self {
            let families = families(changes);
            return Some(DecisionKind::State { session, families, content: self.content() });
        }
        if let (Self::Undone(undone), Some(session)) = (self, session) {
            let calls = undone.calls.iter().map(|one| one.call).collect();
            return Some(DecisionKind::Undo { session, calls, content: self.content() });
        }
        None
    }
}

impl Decided for InboxEvent {
    fn decision(&self, stream: &StreamId, author: &Actor) -> Option<DecisionKind> {
        let Self::Spoken { said } = self;
        let session = session_of(stream)?;
        match said {
            // Their answers rest on a delegation, which is signed.
            Said::Answer(_) if matches!(author, Actor::ClientUser(_)) => None,
            Said::Answer(given) => Some(DecisionKind::Answer {
                session,
                call: given.call,
                tool: given.tool.clone(),
                question: given.shown,
                args_hash: given.args_hash,
                answer: given.answer,
                edited: given.args.is_some(),
                allow: given.allow,
                confirmed: given.confirmed.clone(),
                content: self.content(),
            }),
            Said::Withdraw { tool, policy } => {
                let (tool, policy) = (tool.clone(), policy.clone());
                Some(DecisionKind::Withdraw { session, tool, policy })
            }
            Said::ClearTaint { .. } => {
                Some(DecisionKind::Clear { session, content: self.content() })
            }
            Said::Feedback { .. } | Said::GoOn {} | Said::Stop { .. } => None,
        }
    }
}

impl Decided for ProjectEvent {
    fn decision(&self, _: &StreamId, author: &Actor) -> Option<DecisionKind> {
        match self {
            Self::PersonEnrolled { key, name, role, tools } => {
                let (key, name, role, tools) = (*key, name.clone(), *role, tools.clone());
                Some(DecisionKind::Enrol { key, name, role, tools })
            }
            Self::PersonRevoked { key, .. } => {
                Some(DecisionKind::Revoke { key: *key, content: self.content() })
            }
            Self::ConfigTrusted { reach, gate, text } => {
                Some(DecisionKind::Trust { reach: *reach, gate: *gate, text: *text })
            }
            Self::ClientDelegated(given) => Some(DecisionKind::Delegate {
                client: given.client.clone(),
                tools: given.tools.clone(),
                until: given.until,
                answers_max: given.answers_max,
            }),
            Self::DelegationEnded { delegation } => {
                Some(DecisionKind::EndDelegation { delegation: *delegation })
            }
            Self::LogRestored { seen, now } => {
                Some(DecisionKind::Restore { seen: *seen, now: *now })
            }
            Self::ToolPinned(pinned) if pinned.ruling.is_a_persons() => Some(DecisionKind::Pin {
                tool: pinned.tool.clone(),
                definition: pinned.definition.fingerprint(),
                ruling: pinned.ruling,
            }),
            // What a call changes, or what is written into a file that shows state, is not signed, so
            // neither reaches what must be.
            Self::ProjectChanged { call, changes, .. } => {
                let spoken = author.is_human() && changes.iter().all(is_spoken);
                let unsigned = call.is_some() || matches!(author, Actor::File(_)) || spoken;
                let signed = !unsigned || changes.iter().any(reaches_signed);
                let families = families(changes);
                let state =
                    || DecisionKind::State { session: None, families, content: self.content() };
                signed.then(state)
            }
            Self::CatalogueDecided(decided) => {
                let content = self.content();
                Some(match decided.ruling.clone() {
                    CatalogueRuling::Proposal { proposal, revision, digest, ruling } => {
                        DecisionKind::Decide { proposal, revision, digest, ruling, content }
                    }
                    CatalogueRuling::Entry { id, digest } => {
                        DecisionKind::AcceptPrompt { id, digest, content }
                    }
                    CatalogueRuling::Rollback { id, version, digest } => {
                        DecisionKind::RollBackPrompt { id, version, digest, content }
                    }
                })
            }
            Self::FamiliesCleared { families, .. } => Some(DecisionKind::ClearFamilies {
                families: families.clone(),
                content: self.content(),
            }),
            Self::ToolPinned(_)
            | Self::FamiliesMarked { .. }
            | Self::DelegationUsed { .. }
            | Self::ProjectOpened { .. }
            | Self::SessionOpened { .. }
            | Self::ProjectConfigured { .. } => None,
        }
    }
}

impl Said {
    /// Whether only a person may say it, so that it counts with a signature or a delegation alone.
    pub fn is_a_decision(&self) -> bool {
        matches!(self, Self::Answer(_) | Self::Withdraw { .. } | Self::ClearTaint { .. })
    }
}

fn session_of(stream: &StreamId) -> Option<SessionId> {
    match stream {
        StreamId::Session(id) | StreamId::Inbox(id) => Some(id.clone()),
        StreamId::Project => None,
    }
}

fn families(changes: &[Change]) -> Vec<Family> {
    let mut families: Vec<Family> =
        changes.iter().filter_map(|change| Some(change.key()?.family().clone())).collect();
    families.sort_unstable();
    families.dedup();
    families
}

fn is_spoken(change: &Change) -> bool {
    change.key().is_some_and(|key| SPOKEN_FAMILIES.contains(&key.family().as_str()))
}

fn reaches_signed(change: &Change) -> bool {
    change.key().is_none_or(|key| SIGNED_FAMILIES.contains(&key.family().as_str()))
}
