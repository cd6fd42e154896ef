//! Decides how a person is asked about a call.

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::event::Answer;
use toolgate_kernel::names::{CallId, PolicyName, ToolName};

/// What a person is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: ToolName,
    /// Exactly what would run.
    pub args: Map<String, Value>,
    /// The policy that asks.
    pub policy: PolicyName,
    /// Why it asks.
    pub reason: String,
}

/// A person's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The person. Anyone else is refused by the kernel.
    pub who: Actor,
    /// The answer.
    pub answer: Answer,
    /// A sentence for the model.
    pub note: String,
}

/// Somebody who can be asked. `None` means that nobody answered.
pub trait Person: Send + Sync {
    /// Asks, and waits for the answer.
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Option<Response>>;
}
