//! Decides what of the current iteration is kept for the next request to the model.

use std::borrow::Cow;
use std::sync::Arc;

use imbl::{OrdMap, Vector};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::envelope::{Code, Envelope};
use crate::event::{Finish, Image, Native, RawCall};
use crate::names::CallId;

/// One model reply and the results of its calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Its number within the session.
    pub number: u64,
    /// Words from outside that the request of this turn showed, and no later one.
    pub notes: Vector<Arc<str>>,
    /// The pictures beside them.
    pub images: Vector<Arc<Image>>,
    /// What the model said.
    pub text: Arc<str>,
    /// The calls it wanted, in order.
    pub calls: Arc<[Arc<RawCall>]>,
    /// What it was told of each.
    pub told: OrdMap<CallId, Arc<Told>>,
    /// Why it stopped.
    pub finish: Finish,
    /// The reply in its dialect's own form, when that says more.
    pub native: Option<Arc<Native>>,
}

/// What the model is told of one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// The envelope.
    pub envelope: Arc<Envelope>,
    /// Whether the data is kept from the model.
    pub message_only: bool,
}

/// Bytes of unread arguments that are shown to the model again.
const UNREAD_BYTES_MAX: usize = 4_000;

impl Turn {
    /// The arguments of a call as the model reads them again. What the gate could not read or found
    /// too large is cut: whole, it could fill the context, and its error would never be read.
    pub fn args_again<'a>(&self, call: &'a RawCall) -> Cow<'a, str> {
        if !self.is_cut(call) {
            return Cow::Borrowed(&call.args);
        }
        let end = call.args.floor_char_boundary(UNREAD_BYTES_MAX);
        let start = call.args.get(..end).unwrap_or_default();
        let cut = json!({ "cut": start, "bytes": call.args.len() });
        Cow::Owned(cut.to_string())
    }

    /// Whether the model reads less of a call's arguments than it wrote.
    pub fn is_cut(&self, call: &RawCall) -> bool {
        let unread = [Code::ARGUMENTS_TOO_LARGE, Code::ARGUMENTS_JSON_PARSE_ERROR];
        let code = self.told.get(&call.id).and_then(|told| told.envelope.code());
        call.args.len() > UNREAD_BYTES_MAX && code.is_some_and(|code| unread.contains(code))
    }

    /// Bytes of what the model itself said, as it reads it again.
    pub(crate) fn said_bytes(&self) -> u64 {
        let calls = self.calls.iter().map(|call| call.name.len() + self.args_again(call).len());
        u64::try_from(self.text.len() + calls.sum::<usize>()).unwrap_or(u64::MAX)
    }

    /// Bytes it takes in a request, roughly.
    pub(crate) fn bytes(&self) -> u64 {
        let notes = self.notes.iter().map(|note| note.len());
        let notes = u64::try_from(notes.sum::<usize>()).unwrap_or(u64::MAX);
        self.said_bytes().saturating_add(notes).saturating_add(self.told_bytes())
    }

    /// Messages it takes in a request.
    pub(crate) fn messages(&self) -> u64 {
        let own = 1 + usize::from(!self.notes.is_empty()) + self.calls.len();
        u64::try_from(own).unwrap_or(u64::MAX)
    }

    /// Bytes of what it was told.
    pub(crate) fn told_bytes(&self) -> u64 {
        let told = self.told.values().map(|told| told.envelope.to_json().len());
        u64::try_from(told.sum::<usize>()).unwrap_or(u64::MAX)
    }

    /// Calls before another one of this turn that the gate let pass, in order. A call that was
    /// refused has no receipt; one without a result is still on its way.
    pub fn passed_before(&self, call: CallId) -> impl Iterator<Item = &Arc<RawCall>> {
        let before = self.calls.iter().take_while(move |earlier| earlier.id != call);
        before.filter(|earlier| {
            let told = self.told.get(&earlier.id);
            told.is_none_or(|told| told.envelope.receipt.is_some())
        })
    }

    /// Calls that have no result yet, in order.
    pub fn open(&self) -> impl Iterator<Item = &Arc<RawCall>> {
        self.calls.iter().filter(|call| !self.told.contains_key(&call.id))
    }
}
