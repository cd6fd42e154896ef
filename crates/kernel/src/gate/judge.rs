//! Decides, with every policy that governs the tool, whether a call may run. Worst word wins.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;

use super::refusal::Refusal;
use super::{Admitted, Call, Circumstances, Yes, prepare, resolve};
use crate::agent::{Agent, ToolAudience};
use crate::approval::ApprovalRequirement;
use crate::digest::{Digest, Tag};
use crate::envelope::{Code, Trouble};
use crate::event::{Answer, Basis, DenialKind, Event, RawCall, Stage};
use crate::flow::CallLabels;
use crate::fold::{Counted, Progress, Session, World};
use crate::key::Touched;
use crate::names::{CallId, PolicyName};
use crate::policy::{Policy, Verdict};
use crate::seeded::{Bug, seeded};
use crate::time::Timestamp;
use crate::tool::Effect;

/// The gate's word on a call.
#[derive(Debug)]
pub enum Judgement {
    /// It may run.
    Admitted(Admitted),
    /// A person must be asked first.
    Asked {
        /// The call, for showing.
        call: Box<Call>,
        /// What they are asked.
        question: Box<Question>,
    },
    /// It may not run.
    Refused(Refusal),
}

/// What a person must be asked.
#[derive(Debug)]
pub struct Question {
    /// The policy that asks.
    pub policy: PolicyName,
    /// Why.
    pub reason: String,
    /// What a yes is bound to beside the arguments.
    pub frame: Digest,
    /// When nobody need answer any more.
    pub expires_at: Timestamp,
    /// What an approval takes.
    pub requires: ApprovalRequirement,
}

impl Judgement {
    /// What the log says of it.
    pub fn event(&self, raw: &RawCall) -> Event {
        match self {
            Self::Admitted(admitted) => Event::CallAdmitted(Arc::new(admitted.event())),
            Self::Asked { call, question } => Event::CallAsked {
                call: call.id,
                tool: call.spec.name.clone(),
                args_hash: call.args_hash,
                policy: question.policy.clone(),
                reason: question.reason.clone(),
                args: call.rewritten.then(|| Value::Object(call.args_tree().clone())),
                frame: Some(question.frame),
                expires_at: Some(question.expires_at),
                requires: (!question.requires.is_default())
                    .then(|| Box::new(question.requires.clone())),
            },
            Self::Refused(refusal) => Event::CallRefused(refusal.event(raw)),
        }
    }
}

/// Judges a validated call. `touched` is its footprint with the versions found.
pub fn admit(
    agent: &Agent,
    world: &World<'_>,
    call: Box<Call>,
    touched: Vec<Touched>,
) -> Judgement {
    if let Some(refusal) = repeated(agent, world, &call) {
        return Judgement::Refused(refusal);
    }
    let answer = world.session.open.get(&call.id).map(|open| &open.progress);
    // A yes is for the very arguments the person saw, and for what the question stood on.
    let yes = match answer {
        Some(Progress::Answered(said)) if said.answer == Answer::Deny => {
            return Judgement::Refused(Refusal::by_person(&said.note));
        }
        Some(Progress::Answered(said)) => {
            let (tool, basis) = (said.tool.clone(), said.basis.clone());
            (said.args_hash == call.args_hash).then_some(Yes { tool, basis, frame: said.frame })
        }
        _ => None,
    };
    match question(agent, world, &call, &touched, yes) {
        Err(refusal) => Judgement::Refused(refusal),
        Ok(Lifted::No(question)) => Judgement::Asked { call, question },
        Ok(Lifted::By(yes)) => {
            let circumstances = Circumstances::of(agent, world);
            let labels = labels(agent, world, &call);
            Judgement::Admitted(Admitted::new(call, touched, yes, circumstances, labels))
        }
    }
}

/// What the log says of an admitted call for the rule of two.
fn labels(agent: &Agent, world: &World<'_>, call: &Call) -> Option<Box<CallLabels>> {
    let mut labels = call.labels(world);
    if labels.sends.is_some() {
        let entry = agent.toolset.entries().get(call.place);
        let mut policies = entry.into_iter().flat_map(|entry| &entry.policies);
        labels.observed = policies.find_map(|policy| policy.observe(call, world));
    }
    (!labels.is_default()).then(|| Box::new(labels))
}

/// Whether the question about a call is answered.
enum Lifted {
    /// It may run: nothing asks, or this yes is for what asks.
    By(Option<Yes>),
    /// A person must be asked.
    No(Box<Question>),
}

/// All policies' word on a call that a person may have said yes to. A yes lifts a question, and
/// never a no.
fn question(
    agent: &Agent,
    world: &World<'_>,
    call: &Call,
    touched: &[Touched],
    yes: Option<Yes>,
) -> Result<Lifted, Refusal> {
    let Some(Asking { policies, reason, requires }) = word(agent, world, call, touched)? else {
        // An answer to a question that nothing raises any more is not what it runs on.
        return Ok(Lifted::By(None));
    };
    let frame = frame(agent, world, call, &policies);
    let Some((policy, _)) = policies.into_iter().next() else { return Ok(Lifted::By(None)) };
    if let Some(yes) = yes.filter(|yes| yes.covers(call, world, frame, &requires)) {
        return Ok(Lifted::By(Some(yes)));
    }
    // What a person allowed for later calls is not asked about again, unless each call needs a yes of
    // its own.
    let tool = &call.spec.name;
    if let Some(decision) = world.session.allowed(tool, Some(frame), world.now, &requires) {
        let basis = Basis::Allowance(decision.clone());
        return Ok(Lifted::By(Some(Yes { tool: tool.clone(), basis, frame: Some(frame) })));
    }
    let expires_at = world.now.plus_ms(agent.limits.approval_ms_max);
    Ok(Lifted::No(Box::new(Question { policy, reason, frame, expires_at, requires })))
}

/// What a question stands on beside the arguments. When any of it is another, so is the question.
fn frame(
    agent: &Agent,
    world: &World<'_>,
    call: &Call,
    policies: &[(PolicyName, Value)],
) -> Digest {
    let phase = world.session.phase.as_ref().unwrap_or(&call.shown_in);
    Digest::of_json(&serde_json::json!([
        call.spec.name,
        call.spec.version,
        phase,
        world.session.agent,
        policies,
        agent.fingerprint,
    ]))
}

/// Judges an admitted call again when the world moved since it was admitted: another phase or
/// configuration, a call that succeeded, other versions of what it touches.
///
/// What a person approved stays approved; what is denied now is denied, and what would have to
/// be asked now waits for a new call.
pub fn confirm(
    agent: &Agent,
    world: &World<'_>,
    admitted: Admitted,
    touched: Vec<Touched>,
) -> Result<Admitted, Refusal> {
    // Tools from outside come and go: the same tool may have another place by now, or be another.
    let place = agent.toolset.find(admitted.call.spec.name.as_str());
    let entry = place.and_then(|place| Some((place, agent.toolset.entries().get(place)?)));
    let same = entry.filter(|(_, entry)| entry.spec.version == admitted.call.spec.version);
    let Some((place, _)) = same else { return Err(changed()) };
    if admitted.still_holds(agent, world)
        && touched == admitted.touched
        && place == admitted.call.place
    {
        return Ok(admitted);
    }
    let (circumstances, yes) = (Circumstances::of(agent, world), admitted.yes());
    let labels = admitted.labels();
    let Admitted { mut call, .. } = admitted;
    call.place = place;
    let phase = world.session.phase.as_ref().unwrap_or(&call.shown_in);
    let who = ToolAudience::from(world.session);
    if !agent.grants(phase, call.place, who) {
        let available = resolve::available(agent, who, phase, &call.shown_in);
        return Err(resolve::withheld(agent, who, call.place, phase, available));
    }
    let world = World { counted: Counted::Already, ..*world };
    match question(agent, &world, &call, &touched, yes)? {
        Lifted::No(question) => Err(Refusal::asked_too_late(&question.reason)),
        Lifted::By(yes) => Ok(Admitted::new(call, touched, yes, circumstances, labels)),
    }
}

/// Takes up an admitted call from the log, to run it after a crash. It is judged again before
/// it runs, whatever the log says.
///
/// `None` means that it may have reached the world already: its outcome is unknown.
pub fn readmit(agent: &Agent, world: &World<'_>, id: CallId) -> Result<Option<Admitted>, Refusal> {
    let Some(open) = world.session.open.get(&id) else { return Ok(None) };
    let (logged, started) = match &open.progress {
        Progress::Admitted(logged) => (logged, false),
        Progress::Started(logged) => (logged, true),
        Progress::Received | Progress::Asked(_) | Progress::Answered(_) => return Ok(None),
    };
    if started && logged.effect == Effect::External && !seeded(Bug::BlindRetry) {
        return Ok(None);
    }
    let call = prepare(agent, world.session, &world.project.pins, open)?;
    if call.args_hash != logged.args_hash || Tag::from(call.spec.version) != logged.version {
        return Err(changed());
    }
    // No circumstances are like these, so the call is judged again.
    let never = u64::MAX;
    let circumstances = Circumstances {
        config: agent.fingerprint,
        phase: None,
        successes: never,
        project: never,
        request: None,
    };
    let (basis, frame) = (logged.basis.clone(), logged.frame);
    let tool = logged.tool.clone();
    let yes = (!basis.is_rules()).then_some(Yes { tool, basis, frame });
    let touched = logged.touches.clone();
    let labels = logged.labels.clone();
    Ok(Some(Admitted::new(call, touched, yes, circumstances, labels)))
}

fn changed() -> Refusal {
    let message = "The tool changed since this call was admitted. Make the call again.";
    Refusal::new(Stage::Judge, Trouble::new(Code::COMMIT_CONFLICT, message))
}

/// The policies that ask about a call.
struct Asking {
    /// Each with what it enforces: another rule under the same name is another question.
    policies: Vec<(PolicyName, Value)>,
    reason: String,
    /// What an approval takes: all that any of them wants.
    requires: ApprovalRequirement,
}

/// All policies' word: an error refuses, `Some` asks, `None` allows.
fn word(
    agent: &Agent,
    world: &World<'_>,
    call: &Call,
    touched: &[Touched],
) -> Result<Option<Asking>, Refusal> {
    let mut asked: Option<Asking> = None;
    for (policy, word) in words(agent, world, call, touched)? {
        let Some(reason) = word? else { continue };
        let (name, requires) = (policy.name(), policy.requires());
        let mut described = (name.clone(), policy.describe());
        if let Some(bound) = policy.binding(call) {
            described.1 = serde_json::json!([described.1, bound]);
        }
        match &mut asked {
            None => asked = Some(Asking { policies: vec![described], reason, requires }),
            // One answer is for all of them, so all of them are told.
            Some(asking) => {
                asking.policies.push(described);
                asking.requires.merge(&requires);
                asking.reason.push_str(&format!(" Also {name}: {reason}"));
            }
        }
    }
    Ok(asked)
}

/// A policy's word: an error refuses, `Some` asks, `None` allows.
type Word = Result<Option<String>, Refusal>;

/// Each policy's word, one after the other.
pub(super) fn words<'a>(
    agent: &'a Agent,
    world: &'a World<'_>,
    call: &'a Call,
    touched: &'a [Touched],
) -> Result<impl Iterator<Item = (&'a dyn Policy, Word)>, Refusal> {
    let Some(entry) = agent.toolset.entries().get(call.place) else {
        return Err(Refusal::unreachable("the tool is not one of this agent's"));
    };
    Ok(entry.policies.iter().map(move |policy| {
        let judged = catch_unwind(AssertUnwindSafe(|| policy.judge(call, touched, world)));
        let broke_down = |_| Verdict::Broken("the policy broke down".to_owned());
        let word = match judged.unwrap_or_else(broke_down) {
            Verdict::Allow => Ok(None),
            Verdict::Ask(reason) => Ok(Some(reason)),
            Verdict::Deny(reason) => Err(denied(policy.as_ref(), reason)),
            Verdict::Broken(_) if seeded(Bug::AllowOnPolicyError) => Ok(None),
            Verdict::Broken(reason) => Err(broken(policy.as_ref(), &reason)),
        };
        (policy.as_ref(), word)
    }))
}

fn denied(policy: &dyn Policy, reason: String) -> Refusal {
    let reason = if reason.is_empty() { "Policy denied.".to_owned() } else { reason };
    let trouble = Trouble::new(Code::POLICY_DENIED, reason);
    Refusal::denied(Stage::Judge, policy.name(), DenialKind::RuleDenied, trouble)
}

fn broken(policy: &dyn Policy, reason: &str) -> Refusal {
    let message = format!(
        "Policy '{}' could not be evaluated ({reason}), so the call is denied.",
        policy.name()
    );
    let trouble = Trouble::new(Code::POLICY_ERROR, message);
    Refusal::denied(Stage::Judge, policy.name(), DenialKind::PolicyError, trouble)
}

/// The same call again and again, by a model that does not notice.
pub(super) fn repeated(agent: &Agent, world: &World<'_>, call: &Call) -> Option<Refusal> {
    let (tool, hash, times) = world.session.repeated.as_ref()?;
    let same = call.from_model && *tool == call.spec.name && *hash == call.args_hash;
    if !same || *times < agent.limits.repeat_calls_max {
        return None;
    }
    let message =
        format!("The same call was made {times} times in a row. Do something else, or finish.");
    Some(Refusal::new(Stage::Judge, Trouble::new(Code::CALL_REPEATED, message)))
}

pub(super) fn over_limit(agent: &Agent, session: &Session, raw: &RawCall) -> Option<Refusal> {
    let turn = session.turns.back()?;
    let at = turn.calls.iter().position(|call| call.id == raw.id)?;
    let at = u64::try_from(at).unwrap_or(u64::MAX);
    let name: String = raw.name.chars().take(80).collect();
    let (turn_max, lap_max) =
        (agent.limits.turn_calls_max, agent.settings.max_tool_calls_per_iteration);
    // A model that stands in may be held to fewer.
    let own_max = session.lap.as_ref().and_then(|lap| lap.calls_max);
    let turn_max = own_max.map_or(turn_max, |own| own.min(turn_max));
    let before = session.lap.as_ref().map_or(0, |lap| lap.calls_before);
    let before = before.saturating_sub(session.calls_before_words());
    let message = if at >= turn_max {
        format!("A turn runs at most {turn_max} of its calls; {name:?} was not run. Call it again.")
    } else if before.saturating_add(at) >= lap_max {
        format!(
            "An iteration runs at most {lap_max} of its calls; {name:?} was not run. Call it \
             again in the next one."
        )
    } else {
        return None;
    };
    Some(Refusal::new(Stage::Judge, Trouble::new(Code::CALLS_OVER_LIMIT, message)))
}
