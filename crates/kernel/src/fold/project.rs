//! Decides what all sessions share: state under keys, and which sessions there are.

use imbl::OrdSet;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::State;
use crate::credential::PersonKey;
use crate::digest::Digest;
use crate::event::{BoundFile, ProjectEvent, Record};
use crate::json::canonical;
use crate::names::SessionId;
use crate::pin::Pins;
use crate::time::Timestamp;

/// The fold of the project stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Project {
    /// Place of the last record that was applied.
    pub seq: u64,
    /// Sessions that were opened.
    pub sessions: OrdSet<SessionId>,
    /// The configuration somebody last started with.
    pub config: Option<Digest>,
    /// The file of that configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_file: Option<Box<BoundFile>>,
    /// What is kept under keys.
    pub state: State,
    /// Which definitions of tools from MCP servers are believed.
    #[serde(default)]
    pub pins: Pins,
    /// The keys of the people who may decide here; none before the first was made known.
    #[serde(default)]
    pub people: OrdSet<PersonKey>,
    /// Where the first of them was made known. What people said before that nobody signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrolled: Option<Enrolled>,
}

/// Where in the log of the project, and when, the first person's key was made known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrolled {
    /// Place of the record.
    pub seq: u64,
    /// When it was written.
    pub at: Timestamp,
}

impl Project {
    /// Takes in the next record.
    pub fn apply(&mut self, record: &Record<ProjectEvent>) {
        debug_assert_eq!(record.seq, self.seq + 1);
        self.seq = record.seq;
        match &record.event {
            ProjectEvent::ProjectOpened { .. } => {}
            ProjectEvent::SessionOpened { session } => {
                self.sessions.insert(session.clone());
            }
            ProjectEvent::ProjectConfigured { config, file, .. } => {
                (self.config, self.config_file) = (Some(*config), file.clone());
            }
            ProjectEvent::ToolPinned(pinned) => self.pins.apply(pinned, &record.actor),
            ProjectEvent::PersonEnrolled { key } => {
                self.people.insert(*key);
                let here = Enrolled { seq: record.seq, at: record.at };
                self.enrolled = self.enrolled.or(Some(here));
            }
            ProjectEvent::ProjectChanged { changes, .. } => {
                for change in changes {
                    // What could not be made was refused when it was staged; a log that says
                    // otherwise is still read to its end.
                    let applied = self.state.apply(change);
                    debug_assert!(applied.is_ok());
                }
            }
        }
    }

    /// The state in canonical form, with its hash.
    pub fn export(&self) -> (Value, Digest) {
        let value = json!({ "state": self.state.export() });
        let hash = Digest::of(&canonical(&value));
        (value, hash)
    }
}
