//! Decides what a person's word leaves in a session: calls that wait for it, answers, what is allowed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Session;
use crate::actor::Actor;
use crate::digest::Digest;
use crate::envelope::{Code, Envelope};
use crate::event::{Answer, CallAdmitted, Decision, RawCall};
use crate::fold::{OpenAnswer, OpenCall, OpenQuestion, Progress, Told};
use crate::names::{CallId, PhaseName, PolicyName, ToolName};
use crate::seeded::{Bug, seeded};
use crate::time::Timestamp;

/// A call that was put off until a person says yes. The yes makes a new call of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// The call as written.
    pub raw: Arc<RawCall>,
    /// Who wrote it.
    pub actor: Actor,
    /// Whether a model wrote it in a turn of its own: it is told what becomes of the call. Anybody
    /// else makes the call again.
    pub modelled: bool,
    /// The tool it resolved to.
    pub tool: ToolName,
    /// The policy that asks.
    pub policy: PolicyName,
    /// Why.
    pub reason: Arc<str>,
    /// The arguments, where they differ from what was written.
    pub args: Option<Arc<Value>>,
    /// Hash of the arguments in question.
    pub args_hash: Digest,
    /// What a yes is bound to beside them.
    pub frame: Option<Digest>,
    /// The phase in which it was asked; a yes is bound to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PhaseName>,
    /// When it was put off.
    pub since: Timestamp,
    /// When nobody need answer any more.
    pub expires_at: Option<Timestamp>,
    /// A person's word that nothing was made of yet.
    pub word: Option<Ruled>,
}

/// A person's word on a call that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ruled {
    /// The person.
    pub who: Actor,
    /// The answer.
    pub answer: Answer,
    /// The arguments, where the person changed them.
    pub args: Option<Arc<Value>>,
    /// A sentence for the model.
    pub note: Arc<str>,
}

impl Waiting {
    /// What a person is shown when asked about it: the frame and the arguments.
    pub fn shown(&self) -> Digest {
        shown(self.frame, self.args_hash)
    }

    /// Whether a person said yes, and nothing was made of it yet.
    pub fn approved(&self) -> bool {
        self.word.as_ref().is_some_and(|word| word.answer == Answer::Approve)
    }

    /// The arguments it would run with, as a text.
    pub fn args_text(&self) -> String {
        let changed = self.word.as_ref().and_then(|word| word.args.as_ref());
        match changed.or(self.args.as_ref()) {
            Some(args) => args.to_string(),
            None => self.raw.args.clone(),
        }
    }
}

/// What a person is shown when asked: what the question stands on, and the arguments.
pub fn shown(frame: Option<Digest>, args_hash: Digest) -> Digest {
    Digest::link(frame.unwrap_or(Digest::ZERO), &args_hash.0)
}

/// A policy need not ask about a tool any more, because a person said so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Allowance {
    /// The tool.
    pub tool: ToolName,
    /// The policy.
    pub policy: PolicyName,
    /// Who said so.
    pub who: Actor,
    /// When.
    pub since: Timestamp,
}

/// An answer as an event says it.
pub(super) struct Given<'a> {
    pub(super) answer: Answer,
    pub(super) args_hash: Digest,
    pub(super) note: &'a str,
    pub(super) args: Option<&'a Value>,
    pub(super) always: bool,
}

impl Session {
    /// An answer to a question that somebody waits for.
    pub(super) fn answered(
        &mut self,
        call: CallId,
        given: Given<'_>,
        who: &Actor,
        since: Timestamp,
    ) {
        let Some(open) = self.open.get_mut(&call) else { return };
        let mut frame = None;
        let mut asked = None;
        if let Progress::Asked(question) = &open.progress {
            let OpenQuestion { tool, policy, .. } = question.as_ref();
            (frame, asked) = (question.frame, Some((tool.clone(), policy.clone())));
        }
        let (actor, raw) = (open.actor.clone(), Arc::clone(&open.raw));
        let (answer, args_hash, note) = (given.answer, given.args_hash, given.note.into());
        let said = OpenAnswer { answer, args_hash, frame, note };
        open.progress = Progress::Answered(Box::new(said));
        if let Some(args) = given.args {
            change_args(open, args);
        }
        self.no_longer_waits(&actor, &raw);
        if let Some((tool, policy)) = asked.filter(|_| given.always && answer == Answer::Approve) {
            self.allow(tool, policy, who, since);
        }
    }

    fn allow(&mut self, tool: ToolName, policy: PolicyName, who: &Actor, since: Timestamp) {
        self.withdraw(&tool, &policy);
        self.allowances.push_back(Arc::new(Allowance { tool, policy, who: who.clone(), since }));
    }

    pub(super) fn withdraw(&mut self, tool: &ToolName, policy: &PolicyName) {
        self.allowances.retain(|allowance| allowance.tool != *tool || allowance.policy != *policy);
    }

    /// The call that waited, when this is the same one again and a person has spoken about it.
    pub fn spoken_about(&self, actor: &Actor, name: &str, args: &str) -> Option<CallId> {
        // Nearly always nothing waits, and every call asks.
        if self.waiting.is_empty() {
            return None;
        }
        let same = |waiting: &Waiting| {
            let raw = &waiting.raw;
            waiting.word.is_some()
                && waiting.actor == *actor
                && raw.name == name
                && raw.args == args
        };
        self.waiting.iter().find(|(_, waiting)| same(waiting)).map(|(id, _)| *id)
    }

    /// Whether a person allowed it for the whole session.
    pub fn allowed(&self, tool: &ToolName, policy: &PolicyName) -> bool {
        self.allowances
            .iter()
            .any(|allowance| allowance.tool == *tool && allowance.policy == *policy)
    }

    /// A person's word from outside. It counts for what the person was shown, and for nothing else.
    pub(super) fn hears_answer(&mut self, word: &Decision, who: &Actor, at: Timestamp) {
        let Decision { call, answer, note, args, always, .. } = word;
        if let Some(open) = self.open.get(call) {
            let Progress::Asked(question) = &open.progress else { return };
            let OpenQuestion { args_hash, frame, .. } = question.as_ref();
            if shown(*frame, *args_hash) == word.shown {
                let args_hash = args.as_ref().map_or(*args_hash, Digest::of_json);
                let (answer, args, always) = (*answer, args.as_ref(), *always);
                self.answered(*call, Given { answer, args_hash, note, args, always }, who, at);
            }
            return;
        }
        let fits =
            |waiting: &&Arc<Waiting>| waiting.shown() == word.shown && waiting.word.is_none();
        let Some(waiting) = self.waiting.get(call).filter(fits) else {
            return;
        };
        let (tool, policy) = (waiting.tool.clone(), waiting.policy.clone());
        if *answer == Answer::Deny && waiting.modelled {
            let why = if note.is_empty() { String::new() } else { format!(": {note}") };
            let told = format!("A person was asked about {call} ({tool}) and said no{why}.");
            self.feedback.push_back(told.as_str().into());
            self.waiting.remove(call);
            return;
        }
        let args = args.clone().map(Arc::new);
        let word = Ruled { who: who.clone(), answer: *answer, args, note: note.as_str().into() };
        let waiting = Waiting { word: Some(word), ..waiting.as_ref().clone() };
        self.waiting.insert(*call, Arc::new(waiting));
        if *always && *answer == Answer::Approve {
            self.allow(tool, policy, who, at);
        }
    }

    /// Keeps a call that nobody was there to be asked about.
    pub(super) fn put_off(&mut self, call: CallId, envelope: &Envelope, since: Timestamp) {
        if envelope.code() != Some(&Code::APPROVAL_PENDING) {
            return;
        }
        let Some(open) = self.open.get(&call) else { return };
        let Progress::Asked(question) = &open.progress else { return };
        let OpenQuestion { tool, policy, reason, args, args_hash, frame, expires_at, phase } =
            question.as_ref();
        let waiting = Waiting {
            phase: phase.clone(),
            raw: Arc::clone(&open.raw),
            actor: open.actor.clone(),
            modelled: open.turn.is_some(),
            tool: tool.clone(),
            policy: policy.clone(),
            reason: Arc::clone(reason),
            args: args.clone(),
            args_hash: *args_hash,
            frame: *frame,
            since,
            expires_at: *expires_at,
            word: None,
        };
        self.no_longer_waits(&waiting.actor.clone(), &open.raw.clone());
        self.waiting.insert(call, Arc::new(waiting));
    }

    /// A call that was answered another way, or is made again, need not wait any more.
    fn no_longer_waits(&mut self, actor: &Actor, raw: &RawCall) {
        let same = |waiting: &Waiting| {
            waiting.word.is_none()
                && waiting.actor == *actor
                && waiting.raw.name == raw.name
                && waiting.raw.args == raw.args
        };
        let gone = self.waiting.iter().find(|(_, waiting)| same(waiting)).map(|(id, _)| *id);
        gone.and_then(|id| self.waiting.remove(&id));
    }

    /// A new call was made of one that waited: it has its answer already.
    pub(super) fn taken_up(&mut self, call: CallId, of: CallId) {
        let Some(waiting) = self.waiting.remove(&of) else { return };
        let (Some(open), Some(word)) = (self.open.get_mut(&call), &waiting.word) else { return };
        let args_hash = word.args.as_deref().map_or(waiting.args_hash, Digest::of_json);
        let (answer, frame, note) = (word.answer, waiting.frame, Arc::clone(&word.note));
        let said = OpenAnswer { answer, args_hash, frame, note };
        open.progress = Progress::Answered(Box::new(said));
        open.edited = word.args.is_some();
        if !waiting.modelled {
            return;
        }
        open.of = Some(of);
        if !word.note.is_empty() {
            let told = format!("A person says about {of}: {}", word.note);
            self.feedback.push_back(told.as_str().into());
        }
    }

    /// The model is told what became of a call that waited.
    pub(super) fn tell_of(&mut self, open: &OpenCall, told: impl FnOnce() -> Told) {
        let Some(of) = open.of else { return };
        let Told { envelope, message_only } = told();
        let result = if message_only {
            envelope.message.clone()
        } else {
            serde_json::to_string(&envelope).unwrap_or_default()
        };
        let (name, id) = (&open.raw.name, open.raw.id);
        let told = format!("A person said yes to {of} ({name}). It was made as {id}: {result}");
        self.feedback.push_back(told.as_str().into());
    }

    /// What nobody answered in time waits no more, whatever the clock says later.
    pub(super) fn expire(&mut self, now: Timestamp) {
        let over = |waiting: &Waiting| waiting.expires_at.is_some_and(|at| at < now);
        let gone: Vec<CallId> =
            self.waiting.iter().filter(|(_, waiting)| over(waiting)).map(|(id, _)| *id).collect();
        for call in gone {
            self.forget(call, "Nobody answered in time");
        }
    }

    fn forget(&mut self, call: CallId, why: &str) {
        let Some(waiting) = self.waiting.remove(&call) else { return };
        let told = format!("{why}: {call} ({}) was not run.", waiting.tool);
        self.feedback.push_back(told.as_str().into());
    }

    /// Questions, answers and approvals hold under the configuration they were given under.
    pub(super) fn lapse(&mut self, config: Digest) {
        if self.config == Some(config) {
            return;
        }
        let asked: Vec<CallId> = self.open.iter().map(|open| open.raw.id).collect();
        for call in asked {
            self.progress(call, |progress| match progress {
                Progress::Asked(_) | Progress::Answered(_) => Progress::Received,
                Progress::Admitted(admitted) if admitted.approved => Progress::Received,
                Progress::Received | Progress::Admitted(_) | Progress::Started(_) => progress,
            });
        }
        let waiting: Vec<CallId> = self.waiting.keys().copied().collect();
        for call in waiting {
            self.forget(call, "The configuration changed before a person answered");
        }
        self.allowances.clear();
    }
}

fn change_args(open: &mut OpenCall, args: &Value) {
    let raw = RawCall { args: args.to_string(), ..open.raw.as_ref().clone() };
    (open.raw, open.edited) = (Arc::new(raw), true);
}

/// What a record says of an admitted call, with an approval only where a person's answer to this very
/// question stands before it. A record alone approves nothing.
pub(super) fn only_as_answered(
    before: &Progress,
    admitted: Arc<CallAdmitted>,
) -> Arc<CallAdmitted> {
    let (args_hash, frame) = (admitted.args_hash, admitted.frame);
    let answered = match before {
        Progress::Answered(said) => {
            said.answer == Answer::Approve && said.args_hash == args_hash && said.frame == frame
        }
        Progress::Admitted(earlier) | Progress::Started(earlier) => {
            earlier.approved && earlier.args_hash == args_hash && earlier.frame == frame
        }
        Progress::Received | Progress::Asked(_) => false,
    };
    if answered || !admitted.approved || seeded(Bug::BasisNotResolved) {
        return admitted;
    }
    Arc::new(CallAdmitted { approved: false, frame: None, ..admitted.as_ref().clone() })
}
