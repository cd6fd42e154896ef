//! Decides what is remembered of a tool's use, for policies that count.

use imbl::Vector;
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Admissions a tally remembers the moments of; no rate can be wider.
pub const RATE_CALLS_MAX: usize = 1_000;

/// How often a tool was admitted and succeeded, since the session began or was reset.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Calls admitted.
    pub admitted: u64,
    /// Calls that succeeded.
    pub succeeded: u64,
    turn: (u64, u64),
    iteration: (u64, u64),
    recent: Vector<Timestamp>,
}

impl Tally {
    pub(super) fn admit(&mut self, turn: u64, iteration: u64, at: Timestamp) {
        self.admitted += 1;
        count(&mut self.turn, turn);
        count(&mut self.iteration, iteration);
        if self.recent.len() == RATE_CALLS_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(at);
    }

    /// Calls admitted in a turn.
    pub fn in_turn(&self, turn: u64) -> u64 {
        if self.turn.0 == turn { self.turn.1 } else { 0 }
    }

    /// Calls admitted in an iteration.
    pub fn in_iteration(&self, iteration: u64) -> u64 {
        if self.iteration.0 == iteration { self.iteration.1 } else { 0 }
    }

    /// Calls admitted within the last `ms` before `now`. A clock that went back counts as now.
    pub fn within(&self, ms: u64, now: Timestamp) -> u64 {
        let recent = self.recent.iter().rev().take_while(|at| now.ms_since(**at) < ms);
        u64::try_from(recent.count()).unwrap_or(u64::MAX)
    }
}

fn count(slot: &mut (u64, u64), number: u64) {
    if slot.0 == number {
        slot.1 += 1;
    } else {
        *slot = (number, 1);
    }
}
