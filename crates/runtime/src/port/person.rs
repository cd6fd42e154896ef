//! Decides how a person is asked about a call.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::{BoxFuture, ready};
use serde_json::{Map, Value};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::approval::{ApprovalRequirement, PartialApproval};
use toolgate_kernel::credential::PersonKey;
use toolgate_kernel::decision::AllowanceTerms;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::Answer;
use toolgate_kernel::names::{CallId, PhaseName, PolicyName, ToolName};
use toolgate_kernel::tool::ToolSpec;

use crate::authority::Signer;

/// What a person is asked.
#[derive(Debug, Clone)]
pub struct Question {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: ToolName,
    /// What is known of it, for whoever writes other arguments.
    pub spec: Arc<ToolSpec>,
    /// Exactly what would run.
    pub args: Map<String, Value>,
    /// The policy that asks.
    pub policy: PolicyName,
    /// Why it asks.
    pub reason: String,
    /// What the answer is bound to: the arguments, the tool's version, the phase, the policy and
    /// the configuration.
    pub shown: Digest,
    /// What an approval takes.
    pub requires: ApprovalRequirement,
    /// Those of several approvals that were given.
    pub given: Vec<PartialApproval>,
    /// The key of the person who opened the session.
    pub starter: Option<PersonKey>,
}

/// A person's word.
#[derive(Clone)]
pub struct Response {
    /// The person. Anyone else is refused by the kernel.
    pub who: Actor,
    /// Their key, where they have one.
    pub signer: Option<Arc<dyn Signer>>,
    /// The answer.
    pub answer: Answer,
    /// A sentence for the model.
    pub note: String,
    /// The arguments it runs with, where the person changed them.
    pub args: Option<Map<String, Value>>,
    /// Whether later calls that raise the same question need no answer, and for how long.
    pub allow: Option<AllowanceTerms>,
    /// Arguments whose values the person typed before they approved.
    pub confirmed: BTreeSet<String>,
    /// Digest of the exact lines that the person was shown.
    pub card: Digest,
}

impl Response {
    /// A plain answer to what was shown.
    pub fn of(who: Actor, answer: Answer) -> Self {
        let (note, args, allow, card) = (String::new(), None, None, Digest::ZERO);
        Self { who, signer: None, answer, note, args, allow, confirmed: BTreeSet::new(), card }
    }
}

/// Where a run stands when a person is asked whether it goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// The phase that was entered.
    pub phase: PhaseName,
    /// What the iteration before said at its end.
    pub summary: String,
}

/// A person's word at a pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The person. Anyone else is refused by the kernel.
    pub who: Actor,
    /// What the model is told in the next iteration; nothing when blank.
    pub feedback: String,
}

/// Somebody who can be asked. `None` means that nobody answered.
pub trait Person: Send + Sync {
    /// Asks about a call, and waits for the answer.
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Option<Response>>;

    /// Asks whether the run goes on, and waits for the word.
    fn go_on<'a>(&'a self, _: &'a Pause) -> BoxFuture<'a, Option<Word>> {
        Box::pin(ready(None))
    }
}
