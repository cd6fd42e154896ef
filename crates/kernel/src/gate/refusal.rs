//! Decides how a refused call is put into words and into the log.

use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value;

use super::parse::parse;
use crate::agent::Agent;
use crate::envelope::{Code, Envelope, Trouble};
use crate::event::{CallRefused, Denial, DenialKind, RawCall, Stage};
use crate::fold::OpenCall;
use crate::names::{PhaseName, PolicyName};
use crate::tool::{ACTION, Effect, Unfit};

/// A call that may not run, and why. Few calls are refused and every step may refuse, so it takes
/// no more room than where its grounds are.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal(Box<Grounds>);

/// Why a call may not run.
#[derive(Debug, Clone, PartialEq)]
pub struct Grounds {
    /// Where on its path.
    pub stage: Stage,
    /// The policy that said no, where one did.
    pub denial: Option<Denial>,
    /// What the caller is told.
    pub errors: Vec<Trouble>,
    /// What the error of a domain tool says besides.
    pub data: Option<Box<Value>>,
}

impl Deref for Refusal {
    type Target = Grounds;
    fn deref(&self) -> &Grounds {
        &self.0
    }
}

impl Refusal {
    pub(super) fn new(stage: Stage, trouble: Trouble) -> Self {
        Self::of(stage, vec![trouble])
    }

    pub(super) fn of(stage: Stage, errors: Vec<Trouble>) -> Self {
        Self(Box::new(Grounds { stage, denial: None, errors, data: None }))
    }

    pub(super) fn denied(
        stage: Stage,
        policy: &PolicyName,
        kind: DenialKind,
        trouble: Trouble,
    ) -> Self {
        let mut refusal = Self::new(stage, trouble);
        refusal.0.denial = Some(Denial { policy: policy.clone(), kind });
        refusal
    }

    /// The caller may act in one phase only, and the session is in another.
    pub fn out_of_phase(own: &PhaseName, now: Option<&PhaseName>) -> Self {
        let now = now.map_or("none", PhaseName::as_str);
        let message = format!(
            "This access is for phase {own}, and the session is in phase {now}. \
             Nothing can be called until it is in {own}."
        );
        Self::not_granted(message, Vec::new())
    }

    /// The phase needs a server that is down, so nothing can be called in it.
    pub fn lacking(lack: &str) -> Self {
        let message = format!(
            "{lack}. Nothing of the call ran. The server is tried again by itself: make the call \
             again later. A person sees more with `toolgate tools --connect`."
        );
        Self::new(Stage::Resolve, Trouble::new(Code::TOOL_UNAVAILABLE, message))
    }

    /// The end came while the call waited for tools from outside.
    pub fn cancelled() -> Self {
        let message = "The call was cancelled while it waited for tools from outside. Nothing of \
                       it ran.";
        Self::new(Stage::Resolve, Trouble::new(Code::CALL_CANCELLED, message))
    }

    /// Nobody waits for the call any more, and it was not begun.
    pub fn forsaken() -> Self {
        let message = "The call was interrupted before it was begun. Nothing of it ran.";
        Self::new(Stage::Resolve, Trouble::new(Code::CALL_CANCELLED, message))
    }

    /// The same of one that was admitted. It may have been at work where that leaves no trace, as
    /// reading does.
    pub fn interrupted() -> Trouble {
        let message = "The call was interrupted before it came to its end. It changed nothing: make \
                       it again if you still need it.";
        Trouble::new(Code::CALL_CANCELLED, message)
    }

    /// The log was restored to a state in which the call was open.
    pub fn restored() -> Self {
        Self::new(Stage::Resolve, Self::lost_in_restore())
    }

    /// The same of one that was admitted.
    pub fn lost_in_restore() -> Trouble {
        let message = "The log was restored from a backup that was made while this call was open. The \
                       call may or may not have taken effect since. Check before you do it again.";
        Trouble::new(Code::OUTCOME_UNKNOWN, message)
    }

    /// The phase does not grant it. The grant is a policy of its own.
    pub(super) fn not_granted(message: String, available: Vec<String>) -> Self {
        Self::withheld("phase-grant", DenialKind::NotVisibleInPhase, message, available)
    }

    /// A person did not enable it for the agent that the session speaks as.
    pub(super) fn not_enabled(message: String, available: Vec<String>) -> Self {
        Self::withheld("enabled-tools", DenialKind::RuleDenied, message, available)
    }

    fn withheld(policy: &str, kind: DenialKind, message: String, available: Vec<String>) -> Self {
        let trouble = Trouble::new(Code::TOOL_NOT_GRANTED, message).allowing(available);
        match PolicyName::parse(policy) {
            Ok(policy) => Self::denied(Stage::Resolve, &policy, kind, trouble),
            Err(_) => Self::new(Stage::Resolve, trouble),
        }
    }

    /// What the call touches cannot be looked up, so nobody can judge it.
    pub fn unreachable(reason: &str) -> Self {
        let message =
            format!("What this call touches cannot be looked up ({reason}); it is not run.");
        Self::new(Stage::Judge, Trouble::new(Code::POLICY_ERROR, message))
    }

    /// What the call touches is there and cannot be read: the file system failed, and no policy.
    pub fn broken(reason: &str) -> Self {
        let message = format!("What this call touches cannot be read ({reason}); it is not run.");
        Self::new(Stage::Judge, Trouble::new(Code::TOOL_FAILED, message))
    }

    /// A person's no.
    pub fn by_person(note: &str) -> Self {
        let message = match note {
            "" => "A person was asked and said no.".to_owned(),
            note => format!("A person was asked and said no: {note}"),
        };
        Self::new(Stage::Answer, Trouble::new(Code::APPROVAL_DENIED, message))
    }

    /// Nobody was there to ask, or nobody answered: the call waits under its id.
    pub fn pending(open: &OpenCall, reason: &str) -> Self {
        let id = open.raw.id;
        let next = match open.turn {
            Some(_) => "you will be told what becomes of it. Go on without it.".to_owned(),
            // The yes makes the call there and then, and prints what came of it.
            None if open.actor.is_command_line() => {
                format!("it runs when you approve it: toolgate approvals approve {id}")
            }
            None => "make the same call again when a person has answered.".to_owned(),
        };
        let message =
            format!("A person must approve this first ({reason}). It waits as {id}; {next}");
        Self::new(Stage::Answer, Trouble::new(Code::APPROVAL_PENDING, message))
    }

    /// A person must be asked, and was not when the call was admitted.
    pub fn asked_too_late(reason: &str) -> Self {
        let message = format!("A person must approve this now ({reason}). Make the call again.");
        Self::new(Stage::Answer, Trouble::new(Code::APPROVAL_PENDING, message))
    }

    /// The question that stands in the log is not about this call.
    pub fn asked_about_another() -> Self {
        let message = "The question about this call is about another tool or other arguments, so no \
                       person is asked. Nothing of it ran. Make the call again.";
        Self::new(Stage::Answer, Trouble::new(Code::COMMIT_CONFLICT, message))
    }

    /// More would wait for a person than one person can look at.
    pub fn too_many_wait(waiting: usize, reason: &str) -> Self {
        let message = format!(
            "A person must approve this first ({reason}), and {waiting} calls wait for that \
             already. Go on without it."
        );
        Self::new(Stage::Answer, Trouble::new(Code::APPROVALS_OVER_LIMIT, message))
    }

    /// The log is as large as it may be, so nothing is done that would have to stand in it.
    pub fn log_full(bytes: u64, bytes_max: u64) -> Self {
        let message = format!(
            "The log of this project has {bytes} bytes, and `limits.log_bytes_max` is {bytes_max}. \
             A person raises it, or begins a new log with `toolgate log restart`."
        );
        Self::new(Stage::Judge, Trouble::new(Code::LOG_FULL, message))
    }

    /// A client added as much to the log today as it may.
    pub fn client_quota(bytes_max: u64) -> Self {
        let message = format!(
            "The calls of this client added {bytes_max} bytes to the log today, which is all they may \
             (`limits.client_bytes_per_day_max`). Go on tomorrow."
        );
        Self::new(Stage::Judge, Trouble::new(Code::CLIENT_QUOTA_EXCEEDED, message))
    }

    /// Nobody is asked in this run, so what a person must approve is not done.
    pub fn nobody_asked(reason: &str) -> Self {
        let message = format!(
            "A person must approve this ({reason}), and nobody is asked. Go on without it."
        );
        Self::new(Stage::Answer, Trouble::new(Code::APPROVAL_DENIED, message))
    }

    /// What the caller is told.
    pub fn envelope(&self, raw: &RawCall) -> Envelope {
        let data = self.data.as_deref().cloned().unwrap_or_default();
        Envelope { data, ..Envelope::trouble(&raw.name, self.errors.clone()) }
    }

    /// The same in the words of the tool that was called: the errors of domain tools have data.
    pub fn of_tool(mut self, agent: &Agent, raw: &RawCall) -> Self {
        let entry = agent.toolset.find(&raw.name).and_then(|at| agent.toolset.entries().get(at));
        if let Some(domain) = entry.and_then(|entry| entry.spec.domain.as_ref()) {
            let more = self.0.data.take().unwrap_or_default();
            let data = domain.error(action(agent, raw).as_deref(), &self.errors, &more);
            self.0.data = Some(Box::new(data));
        }
        self
    }

    /// What the log says.
    pub fn event(&self, raw: &RawCall) -> CallRefused {
        CallRefused {
            call: raw.id,
            stage: self.stage,
            denial: self.denial.clone(),
            envelope: Arc::new(self.envelope(raw)),
        }
    }
}

impl From<Unfit> for Refusal {
    fn from(unfit: Unfit) -> Self {
        let data = Box::new(unfit.data());
        let mut refusal = Self::new(Stage::Validate, unfit.trouble);
        refusal.0.data = Some(data);
        refusal
    }
}

/// The action that a call of a domain tool names, as the gate reads it; `None` when the tool has no
/// such action, or the arguments cannot be read.
pub fn action(agent: &Agent, raw: &RawCall) -> Option<String> {
    let entry = agent.toolset.entries().get(agent.toolset.find(&raw.name)?)?;
    let parsed = parse(raw, Effect::Read, &agent.limits).ok()?;
    let named = parsed.args.text(ACTION)?;
    let known = entry.spec.domain.as_ref()?.actions.iter().find(|action| action.name == named)?;
    Some(known.name.clone())
}
