//! Decides what a person's word leaves in a session: calls that wait for it, answers, what is allowed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Session;
use crate::actor::Actor;
pub use crate::approval::shown;
use crate::approval::{ApprovalRequirement, DecisionSigner, PartialApproval};
use crate::credential::PersonKey;
use crate::decision::{AllowanceTerms, DecisionRef};
use crate::digest::Digest;
use crate::envelope::{Code, Envelope};
use crate::event::{Answer, Basis, CallAdmitted, Decision, RawCall, Undone};
use crate::fold::open::shown_args;
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
    /// What an approval takes.
    #[serde(default, skip_serializing_if = "ApprovalRequirement::is_default")]
    pub requires: ApprovalRequirement,
    /// Those of several approvals that were given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<PartialApproval>,
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
    /// Where the answer stands in the log.
    pub basis: Basis,
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

    /// The arguments that it would run with, as a person is shown them; nothing where they are other ones
    /// than an answer is bound to.
    pub fn shown_args(&self) -> Option<Value> {
        let changed = self.word.as_ref().and_then(|word| word.args.as_deref());
        changed.cloned().or_else(|| shown_args(self.args.as_deref(), &self.raw, self.args_hash))
    }

    /// Hash of the arguments that an answer is for.
    fn answered_args_hash(&self, args: Option<&Value>) -> Digest {
        args.map_or(self.args_hash, Digest::of_json)
    }

    /// Whether a call is the one that waited, with the arguments that the person answered about.
    fn is_taken_up_by(&self, raw: &RawCall) -> bool {
        let is_named = raw.name == self.raw.name || raw.name == self.tool.as_str();
        is_named && raw.args == self.args_text()
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

/// Later calls that raise the same question need no answer, because a person said so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Allowance {
    /// The tool.
    pub tool: ToolName,
    /// The policy that asked first.
    pub policy: PolicyName,
    /// What the question stood on: the tool, the phase, every policy that asks and the configuration.
    /// Where any of it is another, it is another question.
    pub frame: Option<Digest>,
    /// How long it lasts.
    pub terms: AllowanceTerms,
    /// How many calls it was used for.
    pub uses: u64,
    /// The decision it rests on.
    pub decision: DecisionRef,
    /// Who said so.
    pub who: Actor,
    /// When.
    pub since: Timestamp,
}

impl Allowance {
    /// Whether it covers one more call that raises this question at this time.
    fn covers(&self, tool: &ToolName, frame: Option<Digest>, now: Timestamp) -> bool {
        self.tool == *tool && self.is_for(frame) && now <= self.terms.until && self.is_left()
    }

    fn is_for(&self, frame: Option<Digest>) -> bool {
        (frame.is_some() && self.frame == frame) || seeded(Bug::AllowanceByName)
    }

    fn is_left(&self) -> bool {
        self.uses < self.terms.uses_max
    }
}

/// Where an answer came from.
pub(super) struct AnswerSource<'a> {
    pub(super) who: &'a Actor,
    pub(super) at: Timestamp,
    pub(super) basis: Basis,
    pub(super) decision: DecisionRef,
    pub(super) signer: Option<DecisionSigner>,
}

impl AnswerSource<'_> {
    /// Whether the user of a client, where one answered, answered about a call of that client.
    fn may_answer_about(&self, caller: &Actor) -> bool {
        match (self.who, caller) {
            (Actor::ClientUser(user), Actor::Client(client)) => user == client,
            (Actor::ClientUser(_), _) => false,
            _ => true,
        }
    }

    /// What a call rests on after this answer; nothing where it does not count towards what the rules
    /// require, or others must approve too.
    fn basis_after(
        &self,
        word: &Decision,
        requires: &ApprovalRequirement,
        starter: Option<&PersonKey>,
        given: &mut Vec<PartialApproval>,
    ) -> Option<Basis> {
        if word.answer == Answer::Deny {
            return Some(self.basis.clone());
        }
        requires.accepts(self.signer.as_ref(), starter, given, word.args.is_some()).ok()?;
        if !requires.is_confirmed(&word.confirmed) {
            return None;
        }
        let Some(signer) = self.signer.filter(|_| requires.count > 1) else {
            return Some(self.basis.clone());
        };
        given.push(PartialApproval { key: signer.key, decision: self.decision.clone() });
        let count = u64::try_from(given.len()).unwrap_or(u64::MAX);
        let decisions = || given.iter().map(|one| one.decision.clone()).collect();
        (count >= requires.count).then(|| Basis::Answers(decisions()))
    }
}

impl Session {
    /// An answer to a question that is open.
    fn answered(
        &mut self,
        call: CallId,
        given: &Decision,
        args_hash: Digest,
        source: &AnswerSource<'_>,
    ) {
        let starter = self.starter;
        let Some(open) = self.open.get_mut(&call) else { return };
        let Progress::Asked(question) = &mut open.progress else { return };
        let OpenQuestion { tool, policy, frame, requires, given: approvals, .. } =
            question.as_mut();
        let Some(basis) = source.basis_after(given, requires, starter.as_ref(), approvals) else {
            return;
        };
        let (tool, policy, frame) = (tool.clone(), policy.clone(), *frame);
        let lasting = !requires.asks_each_time();
        let (actor, raw) = (open.actor.clone(), Arc::clone(&open.raw));
        let (answer, note) = (given.answer, given.note.as_str().into());
        let said = OpenAnswer { tool: tool.clone(), answer, args_hash, frame, note, basis };
        open.progress = Progress::Answered(Box::new(said));
        if let Some(args) = &given.args {
            change_args(open, args);
        }
        self.no_longer_waits(&actor, &raw);
        if lasting {
            self.allow(given, tool, policy, frame, source);
        }
    }

    /// Later calls need no answer where a person said so, and only a person with a key can.
    fn allow(
        &mut self,
        given: &Decision,
        tool: ToolName,
        policy: PolicyName,
        frame: Option<Digest>,
        source: &AnswerSource<'_>,
    ) {
        let Some(terms) = given.allow.filter(|_| given.answer == Answer::Approve) else { return };
        if !matches!(source.basis, Basis::Answer(_)) {
            return;
        }
        self.withdraw(&tool, &policy);
        let (who, since) = (source.who.clone(), source.at);
        let decision = source.decision.clone();
        let allowance = Allowance { tool, policy, frame, terms, uses: 0, decision, who, since };
        self.allowances.push_back(Arc::new(allowance));
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

    /// The decision by which a call that raises this question at this time needs no answer. It has to be
    /// one of a person who may approve what the rules ask about.
    pub fn allowed(
        &self,
        tool: &ToolName,
        frame: Option<Digest>,
        now: Timestamp,
        requires: &ApprovalRequirement,
    ) -> Option<&DecisionRef> {
        let is_enough =
            |one: &Allowance| self.satisfies(&Basis::Allowance(one.decision.clone()), requires);
        let covers = |one: &&Arc<Allowance>| one.covers(tool, frame, now) && is_enough(one);
        self.allowances.iter().find(covers).map(|one| &one.decision)
    }

    /// Whether anything in it lets a call run because a person said so.
    pub fn rests_on_decisions(&self) -> bool {
        let is_answered = |open: &OpenCall| match &open.progress {
            Progress::Answered(_) => true,
            Progress::Admitted(admitted) | Progress::Started(admitted) => {
                !admitted.basis.is_rules()
            }
            Progress::Received | Progress::Asked(_) => false,
        };
        !self.allowances.is_empty()
            || self.waiting.values().any(|one| one.word.is_some() || !one.given.is_empty())
            || self.open.iter().any(|open| is_answered(open))
    }

    /// Whether an allowance that a call of this tool was admitted on is still there, and lasts.
    pub fn still_allows(
        &self,
        decision: &DecisionRef,
        tool: &ToolName,
        frame: Option<Digest>,
        now: Timestamp,
    ) -> bool {
        let lasts = |one: &Allowance| one.tool == *tool && now <= one.terms.until;
        let is_it = |one: &Allowance| one.decision == *decision && one.is_for(frame);
        self.allowances.iter().any(|one| is_it(one) && lasts(one))
    }

    /// A person's word from outside. It counts for what the person was shown, and for nothing else.
    pub(super) fn hears_answer(&mut self, word: &Decision, source: &AnswerSource<'_>) {
        let Decision { call, answer, note, args, .. } = word;
        if let Some(open) = self.open.get(call) {
            let Progress::Asked(question) = &open.progress else { return };
            let OpenQuestion { args_hash, frame, tool, .. } = question.as_ref();
            let is_it = shown(*frame, *args_hash) == word.shown && *tool == word.tool;
            let args_hash = args.as_ref().map_or(*args_hash, Digest::of_json);
            let is_for = args_hash == word.args_hash && source.may_answer_about(&open.actor);
            if is_it && is_for {
                self.answered(*call, word, args_hash, source);
            }
            return;
        }
        let fits = |waiting: &&Arc<Waiting>| {
            waiting.shown() == word.shown
                && waiting.tool == word.tool
                && waiting.answered_args_hash(args.as_ref()) == word.args_hash
                && source.may_answer_about(&waiting.actor)
                && waiting.word.is_none()
        };
        let Some(waiting) = self.waiting.get(call).filter(fits) else {
            return;
        };
        let (tool, policy, frame) = (waiting.tool.clone(), waiting.policy.clone(), waiting.frame);
        if *answer == Answer::Deny && waiting.modelled {
            let why = if note.is_empty() { String::new() } else { format!(": {note}") };
            let told = format!("A person was asked about {call} ({tool}) and said no{why}.");
            self.feedback.push_back(told.as_str().into());
            self.waiting.remove(call);
            return;
        }
        let mut waiting = waiting.as_ref().clone();
        let starter = self.starter.as_ref();
        let basis = source.basis_after(word, &waiting.requires, starter, &mut waiting.given);
        let Some(basis) = basis else {
            self.waiting.insert(*call, Arc::new(waiting));
            return;
        };
        let lasting = !waiting.requires.asks_each_time();
        let args = args.clone().map(Arc::new);
        let who = source.who.clone();
        let ruled = Ruled { who, answer: *answer, args, note: note.as_str().into(), basis };
        waiting.word = Some(ruled);
        self.waiting.insert(*call, Arc::new(waiting));
        if lasting {
            self.allow(word, tool, policy, frame, source);
        }
    }

    /// Keeps a call that nobody was there to be asked about.
    pub(super) fn put_off(&mut self, call: CallId, envelope: &Envelope, since: Timestamp) {
        if envelope.code() != Some(&Code::APPROVAL_PENDING) {
            return;
        }
        let Some(open) = self.open.get(&call) else { return };
        let Progress::Asked(question) = &open.progress else { return };
        let OpenQuestion {
            tool,
            policy,
            reason,
            args,
            args_hash,
            frame,
            expires_at,
            phase,
            requires,
            given,
        } = question.as_ref();
        let waiting = Waiting {
            requires: requires.clone(),
            given: given.clone(),
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
        let made = self.open.get(&call).map(|open| Arc::clone(&open.raw));
        // The answer is for the call that the person was shown, and not for another one in its name.
        let is_it =
            |waiting: &&Arc<Waiting>| made.as_ref().is_some_and(|raw| waiting.is_taken_up_by(raw));
        let Some(waiting) = self.waiting.get(&of).filter(is_it).cloned() else { return };
        self.waiting.remove(&of);
        let (Some(open), Some(word)) = (self.open.get_mut(&call), &waiting.word) else { return };
        let args_hash = waiting.answered_args_hash(word.args.as_deref());
        let (tool, basis) = (waiting.tool.clone(), word.basis.clone());
        let (answer, frame, note) = (word.answer, waiting.frame, Arc::clone(&word.note));
        let said = OpenAnswer { tool, answer, args_hash, frame, note, basis };
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

    /// Whether what a call rests on is all that the rules require of an approval, whatever the log says
    /// that they asked for.
    pub fn satisfies(&self, basis: &Basis, requires: &ApprovalRequirement) -> bool {
        let counts = |decision: &DecisionRef| {
            self.answers.get(&decision.seq).is_some_and(|answer| {
                answer.role >= requires.role && requires.is_confirmed(&answer.confirmed)
            })
        };
        match basis {
            Basis::Rules => false,
            Basis::Delegation { .. } => requires.is_default(),
            Basis::Answer(decision) => requires.count <= 1 && counts(decision),
            Basis::Answers(decisions) => {
                let count = u64::try_from(decisions.len()).unwrap_or(u64::MAX);
                count >= requires.count && decisions.iter().all(counts)
            }
            Basis::Allowance(decision) => !requires.asks_each_time() && counts(decision),
        }
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
        if self.config != Some(config) {
            self.forget_decisions("The configuration changed");
        }
    }

    /// Questions, answers and approvals so far do not count any more.
    pub(super) fn forget_decisions(&mut self, why: &str) {
        let asked: Vec<CallId> = self.open.iter().map(|open| open.raw.id).collect();
        for call in asked {
            self.progress(call, |progress| match progress {
                Progress::Asked(_) | Progress::Answered(_) => Progress::Received,
                Progress::Admitted(admitted) if !admitted.basis.is_rules() => Progress::Received,
                Progress::Received | Progress::Admitted(_) | Progress::Started(_) => progress,
            });
        }
        let waiting: Vec<CallId> = self.waiting.keys().copied().collect();
        for call in waiting {
            self.forget(call, &format!("{why} before a person answered"));
        }
        self.allowances.clear();
    }
}

fn change_args(open: &mut OpenCall, args: &Value) {
    let raw = RawCall { args: args.to_string(), ..open.raw.as_ref().clone() };
    (open.raw, open.edited) = (Arc::new(raw), true);
}

impl Session {
    /// What policies count is as if the calls had not succeeded. That they were admitted stays.
    pub(super) fn undone(&mut self, undone: &Undone) {
        self.next_call = self.next_call.max(undone.id.0 + 1);
        for one in &undone.calls {
            if let Some(tally) = self.tallies.get_mut(&one.tool) {
                let tally = Arc::make_mut(tally);
                tally.succeeded = tally.succeeded.saturating_sub(1);
            }
        }
        self.change(&undone.changes);
        self.feedback.push_back(undone.note.as_str().into());
    }

    /// What a record says of an admitted call, with its basis only where the decision that it names is
    /// found before it. A record alone approves nothing.
    pub(super) fn resolved(
        &mut self,
        admitted: Arc<CallAdmitted>,
        at: Timestamp,
    ) -> Arc<CallAdmitted> {
        let before = self.open.get(&admitted.call).map(|open| &open.progress);
        let (args_hash, frame) = (admitted.args_hash, admitted.frame);
        let again = |earlier: &CallAdmitted| {
            earlier.basis == admitted.basis
                && earlier.tool == admitted.tool
                && earlier.args_hash == args_hash
                && earlier.frame == frame
        };
        let found = match (&admitted.basis, before) {
            (Basis::Rules, _) => return admitted,
            (_, Some(Progress::Admitted(earlier) | Progress::Started(earlier)))
                if again(earlier) =>
            {
                true
            }
            (
                Basis::Answer(_) | Basis::Answers(_) | Basis::Delegation { .. },
                Some(Progress::Answered(said)),
            ) => {
                said.answer == Answer::Approve
                    && said.args_hash == args_hash
                    && said.frame == frame
                    && said.tool == admitted.tool
                    && said.basis == admitted.basis
            }
            (Basis::Allowance(decision), _) => self.uses_up(decision, &admitted.tool, frame, at),
            (Basis::Answer(_) | Basis::Answers(_) | Basis::Delegation { .. }, _) => false,
        };
        if found || seeded(Bug::BasisNotResolved) {
            return admitted;
        }
        Arc::new(CallAdmitted { basis: Basis::Rules, frame: None, ..admitted.as_ref().clone() })
    }

    /// Counts one use of an allowance, where it covers one more.
    fn uses_up(
        &mut self,
        decision: &DecisionRef,
        tool: &ToolName,
        frame: Option<Digest>,
        at: Timestamp,
    ) -> bool {
        let mut all = self.allowances.iter_mut();
        let Some(one) = all.find(|one| one.decision == *decision && one.covers(tool, frame, at))
        else {
            return false;
        };
        Arc::make_mut(one).uses += 1;
        true
    }
}
