//! Decides what of the current iteration is kept for the next request to the model.

use std::sync::Arc;

use imbl::{OrdMap, Vector};
use serde::{Deserialize, Serialize};

use crate::envelope::Envelope;
use crate::event::RawCall;
use crate::names::CallId;

/// One model reply and the results of its calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Its number within the session.
    pub number: u64,
    /// Words from outside that the request of this turn showed, and no later one.
    pub notes: Vector<Arc<str>>,
    /// What the model said.
    pub text: Arc<str>,
    /// The calls it wanted, in order.
    pub calls: Arc<[Arc<RawCall>]>,
    /// What it was told of each.
    pub told: OrdMap<CallId, Arc<Told>>,
}

/// What the model is told of one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// The envelope.
    pub envelope: Arc<Envelope>,
    /// Whether the data is kept from the model.
    pub message_only: bool,
}

impl Turn {
    /// Calls that have no result yet, in order.
    pub fn open(&self) -> impl Iterator<Item = &Arc<RawCall>> {
        self.calls.iter().filter(|call| !self.told.contains_key(&call.id))
    }
}
