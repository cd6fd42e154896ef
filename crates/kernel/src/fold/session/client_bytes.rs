//! Counts what the calls of each MCP client add to a session in a day.

use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::envelope::Envelope;
use crate::json::{Room, weigh};
use crate::time::Timestamp;

const DAY_MS: i64 = 24 * 3_600_000;

/// How an answer is weighed: as far as any answer may go.
const ROOM: Room = Room { depth_max: 200, nodes_max: 1_000_000, bytes_max: 16 << 20 };

/// What one client added on one day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct DayBytes {
    day: i64,
    bytes: u64,
}

/// What clients added, each on the last day on which it called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientBytes(OrdMap<Arc<str>, DayBytes>);

impl ClientBytes {
    /// Whether no client called.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes that a caller added on the day of this moment. The person at the command line is no client.
    pub fn on_day(&self, actor: &Actor, at: Timestamp) -> u64 {
        let Some(client) = client(actor) else { return 0 };
        let found = self.0.get(client).filter(|found| found.day == day(at));
        found.map_or(0, |found| found.bytes)
    }

    pub(super) fn add(&mut self, actor: &Actor, at: Timestamp, bytes: usize) {
        let Some(client) = client(actor) else { return };
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let today = self.on_day(actor, at).saturating_add(bytes);
        self.0.insert(Arc::clone(client), DayBytes { day: day(at), bytes: today });
    }

    pub(super) fn add_answer(&mut self, actor: &Actor, at: Timestamp, envelope: &Envelope) {
        if client(actor).is_some() {
            let data = weigh(&envelope.data, &ROOM).unwrap_or(ROOM.bytes_max);
            self.add(actor, at, envelope.message.len().saturating_add(data));
        }
    }
}

fn client(actor: &Actor) -> Option<&Arc<str>> {
    match actor {
        Actor::Client(name) if !actor.is_command_line() => Some(name),
        Actor::Client(_)
        | Actor::Human(_)
        | Actor::Agent(_)
        | Actor::Model(_)
        | Actor::ClientUser(_)
        | Actor::File(_)
        | Actor::System => None,
    }
}

fn day(at: Timestamp) -> i64 {
    at.0.div_euclid(DAY_MS)
}
