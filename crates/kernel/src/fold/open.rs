//! Decides what is known of a call on its way, and how those calls are kept: in a row, in call
//! order, because few are open at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::actor::Actor;
use crate::approval::{ApprovalRequirement, PartialApproval};
use crate::digest::Digest;
use crate::event::{Answer, Basis, CallAdmitted, RawCall};
use crate::names::{CallId, PhaseName, PolicyName, ToolName};
use crate::time::Timestamp;

/// A call on its way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenCall {
    /// The call as written.
    pub raw: Arc<RawCall>,
    /// Who wrote it.
    pub actor: Actor,
    /// The phase whose tools were shown when it was written.
    pub shown_in: Option<PhaseName>,
    /// The model turn it belongs to.
    pub turn: Option<u64>,
    /// How far it has come.
    pub progress: Progress,
    /// The call that waited for a person's yes, where this one is made of it.
    #[serde(default)]
    pub of: Option<CallId>,
    /// Whether a person changed its arguments.
    #[serde(default)]
    pub edited: bool,
}

/// How far a call has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Progress {
    /// It was received and not judged.
    Received,
    /// A person is asked.
    Asked(Box<OpenQuestion>),
    /// A person answered.
    Answered(Box<OpenAnswer>),
    /// It passed the gate.
    Admitted(Arc<CallAdmitted>),
    /// Its intent is durable; the world may have been reached.
    Started(Arc<CallAdmitted>),
}

/// What a person is asked about a call. It is large and rare, so a call has it elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenQuestion {
    /// The tool.
    pub tool: ToolName,
    /// The policy that asks.
    pub policy: PolicyName,
    /// Why.
    pub reason: Arc<str>,
    /// Hash of the arguments in question.
    pub args_hash: Digest,
    /// The arguments, where they differ from what was written.
    #[serde(default)]
    pub args: Option<Arc<Value>>,
    /// What a yes is bound to beside them.
    #[serde(default)]
    pub frame: Option<Digest>,
    /// When nobody need answer any more.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// The phase in which it was asked; a yes is bound to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PhaseName>,
    /// What an approval takes.
    #[serde(default, skip_serializing_if = "ApprovalRequirement::is_default")]
    pub requires: ApprovalRequirement,
    /// Those of several approvals that were given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<PartialApproval>,
}

/// What a person said about a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenAnswer {
    /// The tool that the answer is about.
    pub tool: ToolName,
    /// The answer.
    pub answer: Answer,
    /// Hash of the arguments the person wants.
    pub args_hash: Digest,
    /// What the answer is bound to beside them.
    #[serde(default)]
    pub frame: Option<Digest>,
    /// A sentence for the model.
    pub note: Arc<str>,
    /// Where the answer stands in the log.
    pub basis: Basis,
}

impl OpenQuestion {
    /// The arguments that an answer is for, where they are those of the hash that it is bound to.
    pub fn shown_args(&self, raw: &RawCall) -> Option<Value> {
        shown_args(self.args.as_deref(), raw, self.args_hash)
    }
}

/// The arguments that a person is shown of a call, where they have this hash. A record of a question may
/// name the hash of other ones.
pub(super) fn shown_args(
    changed: Option<&Value>,
    raw: &RawCall,
    args_hash: Digest,
) -> Option<Value> {
    let written = || match raw.args.trim() {
        // No arguments, as the gate reads it.
        "" | "null" => Some(Value::Object(Map::new())),
        text => serde_json::from_str(text).ok(),
    };
    let args = changed.cloned().or_else(written)?;
    (Digest::of_json(&args) == args_hash).then_some(args)
}

impl Progress {
    /// The word for it, as programs read it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Asked(_) => "asked",
            Self::Answered(_) => "answered",
            Self::Admitted(_) => "admitted",
            Self::Started(_) => "started",
        }
    }

    /// What the log says of the admission, from there on.
    pub fn admitted(&self) -> Option<&Arc<CallAdmitted>> {
        match self {
            Self::Admitted(admitted) | Self::Started(admitted) => Some(admitted),
            Self::Received | Self::Asked(_) | Self::Answered(_) => None,
        }
    }
}

/// Calls that are not settled, by their ids.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OpenCalls {
    /// Sorted by id, each id once.
    calls: Vec<Arc<OpenCall>>,
}

impl OpenCalls {
    /// The call, when it is open.
    pub fn get(&self, id: &CallId) -> Option<&Arc<OpenCall>> {
        self.calls.get(self.find(*id).ok()?)
    }

    /// The calls in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<OpenCall>> {
        self.calls.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether every call is settled.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(super) fn get_mut(&mut self, id: &CallId) -> Option<&mut OpenCall> {
        let at = self.find(*id).ok()?;
        self.calls.get_mut(at).map(Arc::make_mut)
    }

    pub(super) fn insert(&mut self, call: OpenCall) {
        let (id, call) = (call.raw.id, Arc::new(call));
        // A session gives each number once; a kept fold that does not is read all the same.
        drop(self.remove(&id));
        let (Ok(at) | Err(at)) = self.find(id);
        self.calls.insert(at, call);
    }

    pub(super) fn remove(&mut self, id: &CallId) -> Option<Arc<OpenCall>> {
        let at = self.find(*id).ok()?;
        Some(self.calls.remove(at))
    }

    fn find(&self, id: CallId) -> Result<usize, usize> {
        self.calls.binary_search_by_key(&id, |call| call.raw.id)
    }
}

// Checkpoints have them as a map.
impl Serialize for OpenCalls {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.calls.iter().map(|call| (call.raw.id, call)))
    }
}

impl<'de> Deserialize<'de> for OpenCalls {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let calls = BTreeMap::<CallId, Arc<OpenCall>>::deserialize(deserializer)?;
        // What a call is found by is its own id, whatever the key beside it says.
        let mut open = Self::default();
        calls.into_values().for_each(|call| open.insert(Arc::unwrap_or_clone(call)));
        Ok(open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: u64, name: &str) -> OpenCall {
        let (id, name, args) = (CallId(id), name.to_owned(), "{}".to_owned());
        OpenCall {
            raw: Arc::new(RawCall { id, name, args, alias: None }),
            actor: Actor::System,
            shown_in: None,
            turn: None,
            progress: Progress::Received,
            of: None,
            edited: false,
        }
    }

    #[test]
    fn calls_are_kept_in_order_and_come_back_from_a_checkpoint() {
        let mut open = OpenCalls::default();
        for (id, name) in [(2, "b"), (10, "c"), (1, "a"), (10, "d")] {
            open.insert(call(id, name));
        }
        let names = |open: &OpenCalls| -> Vec<String> {
            open.iter().map(|call| call.raw.name.clone()).collect()
        };
        assert_eq!(names(&open), ["a", "b", "d"].map(str::to_owned).to_vec());
        let text = serde_json::to_string(&open).unwrap();
        assert!(text.starts_with(r#"{"c1":{"raw":{"id":"c1""#), "{text}");
        assert_eq!(serde_json::from_str::<OpenCalls>(&text).unwrap(), open);
        assert_eq!(open.remove(&CallId(2)).map(|call| call.raw.id), Some(CallId(2)));
        assert!(open.get(&CallId(2)).is_none() && open.get(&CallId(10)).is_some());
    }
}
