//! Decides what happens next: a function of the log, so that resuming is replaying and asking.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::agent::Agent;
use crate::budget::Overspent;
use crate::digest::Digest;
use crate::event::{Closing, Ending, IterationClosed, Note, NoteKind, RawCall};
use crate::fold::{Lap, Progress, Session, World};
use crate::names::{CallId, PhaseName};
use crate::plan::{Choice, Plan, fingerprint};
use crate::prompt::{phase_note, system_prompt};
use crate::render::ResultFormat;

/// The next thing a driver has to do.
#[derive(Debug)]
pub enum Step {
    /// Open an iteration.
    OpenIteration(Opening),
    /// Close the open iteration.
    CloseIteration(Box<IterationClosed>),
    /// Send a request to the model.
    AskModel(Box<Plan>),
    /// Judge calls that were received, in order.
    Judge(Vec<Arc<RawCall>>),
    /// Ask a person about a call.
    AskPerson(CallId),
    /// Ask a person for a word before the next iteration.
    AskToGoOn,
    /// Run calls that were admitted, in order.
    Run(Vec<CallId>),
    /// End the session.
    Stop(Ending, String),
}

/// How an iteration begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// Its number.
    pub iteration: u64,
    /// The system prompt, fixed for the iteration.
    pub system: String,
    /// What is said at its start.
    pub input: String,
}

/// What is said at the start of every iteration but the first.
const GO_ON: &str = "Go on with the work on your own.";

/// What to do next in a session that a model drives.
pub fn next(agent: &Agent, world: &World<'_>) -> Step {
    let session = world.session;
    if let Some(ending) = session.ended {
        return Step::Stop(ending, String::new());
    }
    if let Some(step) = open_calls(session) {
        return step;
    }
    let Some(phase) = &session.phase else {
        return Step::Stop(Ending::Stopped, "the session has no phase".to_owned());
    };
    let over = over(agent, world);
    match &session.lap {
        Some(lap) => {
            let tokens = tokens(session, lap);
            let closing = match &over {
                Some(_) => Some((Closing::Stopped, "the session ends".to_owned())),
                None => closing(agent, session, lap, phase, tokens),
            };
            match closing {
                Some((closing, note)) => {
                    let row = Row { lap, phase, closing, note };
                    Step::CloseIteration(Box::new(row.closed(agent, world)))
                }
                None => Step::AskModel(Box::new(plan(agent, session, lap, phase, tokens))),
            }
        }
        None => match over.or_else(|| finished(agent, world)) {
            Some((ending, note)) => Step::Stop(ending, note),
            None if session.awaits => Step::AskToGoOn,
            None => Step::OpenIteration(opening(agent, world)),
        },
    }
}

/// Why the session ends now, whatever its iteration does.
fn over(agent: &Agent, world: &World<'_>) -> Option<(Ending, String)> {
    let session = world.session;
    if let Some(reason) = &session.stop {
        return Some((Ending::Stopped, reason.to_string()));
    }
    let driven_ms = session.driven_ms;
    if driven_ms > agent.limits.run_ms_max {
        return Some((Ending::DeadlineExceeded, format!("the run took {driven_ms} ms")));
    }
    if let Err(overspent @ Overspent(_)) = agent.budget.allows(&session.usage) {
        return Some((Ending::BudgetExceeded, overspent.to_string()));
    }
    None
}

/// Why the open iteration ends now.
fn closing(
    agent: &Agent,
    session: &Session,
    lap: &Lap,
    phase: &PhaseName,
    tokens: u64,
) -> Option<(Closing, String)> {
    let settings = &agent.settings;
    if let Some(reason) = &session.failure {
        return Some((Closing::Failed, reason.to_string()));
    }
    if settings.stop_after_phase_change && !lap.entered.is_empty() {
        return Some((Closing::PhaseChanged, format!("now in phase {phase}")));
    }
    let last = session.turns.back()?;
    if last.calls.is_empty() && session.feedback.is_empty() {
        return Some((Closing::Done, String::new()));
    }
    let (calls, calls_max) = (lap.calls, settings.max_tool_calls_per_iteration);
    if calls >= calls_max {
        let note = format!("tool call limit reached ({calls}/{calls_max})");
        return Some((Closing::CallLimit, note));
    }
    let turns_max = agent.limits.iteration_turns_max;
    if count(session.turns.len()) >= turns_max {
        return Some((Closing::TurnLimit, format!("turn limit reached ({turns_max})")));
    }
    let tokens_max = settings.max_context_tokens;
    if tokens >= tokens_max {
        let note = format!("context limit reached ({tokens}/{tokens_max} tokens)");
        return Some((Closing::ContextLimit, note));
    }
    None
}

/// The row of the open iteration, when something else than `next` ends it.
pub fn close(
    agent: &Agent,
    world: &World<'_>,
    closing: Closing,
    note: &str,
) -> Option<IterationClosed> {
    let (lap, phase) = (world.session.lap.as_ref()?, world.session.phase.as_ref()?);
    Some(Row { lap, phase, closing, note: note.to_owned() }.closed(agent, world))
}

/// What the row of an iteration is made of.
struct Row<'a> {
    lap: &'a Lap,
    phase: &'a PhaseName,
    closing: Closing,
    note: String,
}

impl Row<'_> {
    fn closed(self, agent: &Agent, world: &World<'_>) -> IterationClosed {
        let (session, lap) = (world.session, self.lap);
        let mut said = session.turns.iter().rev().map(|turn| turn.text.trim());
        // An iteration without words leaves those of the one before.
        let said = said.find(|text| !text.is_empty()).unwrap_or(&session.summary);
        let chars = usize::try_from(agent.settings.summary_max_chars).unwrap_or(usize::MAX);
        IterationClosed {
            iteration: session.iteration,
            closing: self.closing,
            note: self.note,
            summary: said.chars().take(chars).collect(),
            start_phase: lap.start_phase.clone(),
            end_phase: self.phase.clone(),
            entered: lap.entered.iter().cloned().collect(),
            turns: count(session.turns.len()),
            calls: lap.calls,
            input_tokens: lap.usage.input_tokens,
            output_tokens: lap.usage.output_tokens,
            took_ms: world.now.ms_since(lap.opened_at),
            awaits: !agent.settings.auto_pilot && !lap.entered.is_empty(),
        }
    }
}

/// Why no further iteration follows.
fn finished(agent: &Agent, world: &World<'_>) -> Option<(Ending, String)> {
    let session = world.session;
    let closed = session.closed.as_ref()?;
    let words = || session.turns.back().map(|turn| turn.text.to_string()).unwrap_or_default();
    if closed.closing == Closing::Failed {
        return None;
    }
    // A terminal phase has one last iteration, however it ends.
    if agent.terminal(&closed.start_phase) {
        return Some((Ending::Completed, words()));
    }
    let alone = agent.phases().count() == 1;
    let silent = closed.calls == 0 && !agent.settings.stop_only_on_complete;
    if closed.closing == Closing::Done && (alone || silent) {
        return Some((Ending::Completed, words()));
    }
    if closed.closing == Closing::TurnLimit && alone {
        return Some((Ending::TurnsExceeded, closed.note.clone()));
    }
    if session.idle >= agent.limits.idle_iterations_max {
        let note = format!("no call in {} iterations in a row", session.idle);
        return Some((Ending::Stalled, note));
    }
    if session.iteration >= agent.limits.iterations_max {
        let note = format!("{} iterations are over", session.iteration);
        return Some((Ending::IterationsExceeded, note));
    }
    None
}

fn opening(agent: &Agent, world: &World<'_>) -> Opening {
    let session = world.session;
    let system = system_prompt(agent, world);
    let mut input = session.title.to_string();
    if session.iteration > 0 {
        // A fresh context knows nothing of the work unless it is told.
        let told = |word: &str| agent.prompt.uses(word);
        input = GO_ON.to_owned();
        if !told("initial_seed") && !session.title.is_empty() {
            input.push_str(&format!("\n\nThe work: {}", session.title));
        }
        if !told("previous_summary") && !session.summary.is_empty() {
            input.push_str(&format!(
                "\n\nYou said at the end of the last iteration: {}",
                session.summary
            ));
        }
    }
    Opening { iteration: session.iteration + 1, system, input }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Bytes that make a token, roughly and rather too few.
const TOKEN_BYTES: u64 = 4;

/// Tokens of the next request: what the provider counted last, and by bytes what came since.
fn tokens(session: &Session, lap: &Lap) -> u64 {
    let fresh: usize = session.feedback.iter().map(|text| text.len()).sum();
    let last = session.turns.back();
    let counted = lap.last.input_tokens.saturating_add(lap.last.output_tokens);
    if counted > 0 {
        let told = last.map_or(0, |turn| turn.told_bytes());
        return counted.saturating_add((told + count(fresh)) / TOKEN_BYTES);
    }
    let rolled = last.is_none_or(|turn| turn.number <= lap.rolled_turn);
    let turn = if rolled { 0 } else { last.map_or(0, |turn| turn.bytes()) };
    (lap.rolled_bytes + turn + count(fresh)) / TOKEN_BYTES
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

fn plan(agent: &Agent, session: &Session, lap: &Lap, phase: &PhaseName, tokens: u64) -> Plan {
    let mut plan = Plan {
        turn: session.turn + 1,
        iteration: session.iteration,
        title: Arc::clone(&session.title),
        system: Arc::clone(&session.system),
        input: Arc::clone(&session.input),
        images: session.images.clone(),
        turns: session.turns.clone(),
        feedback: session.feedback.iter().cloned().collect(),
        feedback_images: session.feedback_images.iter().cloned().collect(),
        notes: notes(agent, lap, phase),
        tools: agent.visible(phase).map(|entry| Arc::clone(&entry.spec)).collect(),
        every: Arc::clone(&agent.every),
        choice: Choice::Auto,
        result_format: ResultFormat::default(),
        shape: None,
        pictures: BTreeMap::new(),
        tokens_estimated: tokens,
        fingerprint: Digest::ZERO,
    };
    plan.fingerprint = fingerprint(session, &plan);
    plan
}

/// What toolgate itself has to say in the next request.
fn notes(agent: &Agent, lap: &Lap, phase: &PhaseName) -> Vec<Note> {
    let mut notes = Vec::new();
    if *phase != lap.told_phase
        && let Some(phase) = agent.phase(phase)
    {
        notes.push(Note { about: NoteKind::Phase, text: phase_note(phase) });
    }
    let (calls, max) = (lap.calls, agent.settings.max_tool_calls_per_iteration);
    if !lap.warned && calls.saturating_mul(10) >= max.saturating_mul(8) {
        let text = format!(
            "{calls} of {max} tool calls of this iteration are used. Finish what you began and \
             keep what matters: the next iteration starts with a fresh context."
        );
        notes.push(Note { about: NoteKind::Calls, text });
    }
    notes
}
