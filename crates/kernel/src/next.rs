//! Decides what happens next: a function of the log, so that resuming is replaying and asking.

use std::sync::Arc;

use imbl::Vector;
use serde_json::json;

use crate::agent::{Agent, Phase};
use crate::budget::Overspent;
use crate::digest::Digest;
use crate::event::{Ending, RawCall};
use crate::fold::{Progress, Session, Turn, World};
use crate::names::CallId;
use crate::tool::ToolSpec;

/// The next thing a driver has to do.
#[derive(Debug)]
pub enum Step {
    /// Open the first iteration.
    OpenIteration,
    /// Send a request to the model.
    AskModel(Plan),
    /// Judge calls that were received, in order.
    Judge(Vec<Arc<RawCall>>),
    /// Ask a person about a call.
    AskPerson(CallId),
    /// Run calls that were admitted, in order.
    Run(Vec<CallId>),
    /// End the session.
    Stop(Ending, String),
}

/// One request to a model: everything it will see.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The turn it opens.
    pub turn: u64,
    /// The system prompt, fixed for the iteration.
    pub system: Arc<str>,
    /// What was said at the start of the iteration.
    pub input: Arc<str>,
    /// The turns so far.
    pub turns: Vector<Arc<Turn>>,
    /// Words from outside, shown once.
    pub notes: Vec<Arc<str>>,
    /// The tools that are shown, which are those that may be called.
    pub tools: Vec<Arc<ToolSpec>>,
    /// Fingerprint of all of the above.
    pub fingerprint: Digest,
}

/// What to do next in a session that a model drives.
pub fn next(agent: &Agent, world: &World<'_>) -> Step {
    let session = world.session;
    if let Some(ending) = session.ended {
        return Step::Stop(ending, String::new());
    }
    if let Some(step) = open_calls(session) {
        return step;
    }
    if let Some(reason) = &session.stop {
        return Step::Stop(Ending::Stopped, reason.to_string());
    }
    let age_ms = world.now.ms_since(session.opened_at);
    if age_ms > agent.limits.run_ms_max {
        return Step::Stop(Ending::DeadlineExceeded, format!("the run took {age_ms} ms"));
    }
    if let Err(overspent @ Overspent(_)) = agent.budget.allows(&session.usage) {
        return Step::Stop(Ending::BudgetExceeded, overspent.to_string());
    }
    if session.iteration == 0 {
        return Step::OpenIteration;
    }
    if session.failures >= FAILURES_MAX {
        return Step::Stop(Ending::ModelFailed, "the model failed again and again".to_owned());
    }
    match session.turns.back() {
        Some(last) if last.calls.is_empty() && session.feedback.is_empty() => {
            Step::Stop(Ending::Completed, last.text.to_string())
        }
        _ if turns_used(world) >= agent.limits.iteration_turns_max => {
            let max = agent.limits.iteration_turns_max;
            Step::Stop(Ending::TurnsExceeded, format!("the iteration took {max} turns"))
        }
        _ => Step::AskModel(plan(agent, world)),
    }
}

/// Failed requests in a row before a run ends.
pub const FAILURES_MAX: u64 = 4;

fn turns_used(world: &World<'_>) -> u64 {
    u64::try_from(world.session.turns.len()).unwrap_or(u64::MAX)
}

/// What to do with calls that are under way. They come before everything else: no request
/// leaves a call open.
pub fn open_calls(session: &Session) -> Option<Step> {
    let mut received = Vec::new();
    let mut admitted = Vec::new();
    for open in session.open.iter() {
        let id = open.raw.id;
        match &open.progress {
            Progress::Received => received.push(Arc::clone(&open.raw)),
            Progress::Asked { .. } => return Some(Step::AskPerson(id)),
            Progress::Answered { .. } => received.push(Arc::clone(&open.raw)),
            Progress::Admitted(_) | Progress::Started(_) => admitted.push(id),
        }
    }
    if !received.is_empty() {
        return Some(Step::Judge(received));
    }
    (!admitted.is_empty()).then_some(Step::Run(admitted))
}

fn plan(agent: &Agent, world: &World<'_>) -> Plan {
    let session = world.session;
    let phase = session.phase.as_ref();
    let tools: Vec<Arc<ToolSpec>> = phase
        .into_iter()
        .flat_map(|phase| agent.visible(phase))
        .map(|entry| Arc::clone(&entry.spec))
        .collect();
    let system: Arc<str> = system_prompt(agent, phase.and_then(|phase| agent.phase(phase))).into();
    let notes: Vec<Arc<str>> = session.feedback.iter().cloned().collect();
    let versions: Vec<Digest> = tools.iter().map(|tool| tool.version).collect();
    let turns: Vec<_> = session.turns.iter().map(|turn| turn_face(turn)).collect();
    let fingerprint = Digest::of_json(&json!({
        "system": system, "input": session.input, "turns": turns, "notes": notes, "tools": versions,
    }));
    Plan {
        turn: session.turn + 1,
        system,
        input: Arc::clone(&session.input),
        turns: session.turns.clone(),
        notes,
        tools,
        fingerprint,
    }
}

fn turn_face(turn: &Turn) -> serde_json::Value {
    let calls: Vec<_> = turn.calls.iter().map(|call| json!([call.name, call.args])).collect();
    let told: Vec<_> = turn.told.values().map(|told| told.envelope.to_json()).collect();
    json!([turn.notes, turn.text, calls, told])
}

/// The system prompt: instructions, sections' texts, then the phase with its guide and rules.
pub fn system_prompt(agent: &Agent, phase: Option<&Phase>) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(
        (!agent.instructions.trim().is_empty()).then(|| agent.instructions.trim().to_owned()),
    );
    parts.extend(agent.toolset.texts().iter().cloned());
    if let Some(phase) = phase {
        let mut text = format!("Phase: {}", phase.name);
        for line in [phase.about.trim(), phase.guide.trim()] {
            if !line.is_empty() {
                text.push('\n');
                text.push_str(line);
            }
        }
        text.push_str("\nPhase rules:");
        if phase.rules.is_empty() {
            text.push_str("\n  None");
        }
        for (at, rule) in phase.rules.iter().enumerate() {
            text.push_str(&format!("\n  {}. {}", at + 1, rule.trim()));
        }
        parts.push(text);
    }
    parts.join("\n\n")
}
