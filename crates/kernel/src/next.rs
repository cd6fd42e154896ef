//! Decides what happens next: a function of the log, so that resuming is replaying and asking.

mod ending;
mod rejection;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::ending::finished;
pub use self::rejection::{asks_last_words, stop_hook};
use self::rejection::{forced, rejected};
use crate::agent::Agent;
use crate::budget::Overspent;
use crate::calling::Finishing;
use crate::digest::Digest;
use crate::event::{Closing, Ending, Finish, IterationClosed, Note, NoteKind, RawCall};
use crate::evidence::{EvidenceMode, instructions};
use crate::fold::{Lap, OpenQuestion, Progress, Session, Turn, Waiting, World};
use crate::names::{CallId, PhaseName, ToolName};
use crate::plan::{Choice, Plan, fingerprint};
use crate::profile;
use crate::prompt::{catalogue, phase_note, system_prompt};
use crate::prompt_skips::PromptSkips;
use crate::request::RequiredTool;
use crate::tool::ToolSpec;

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
    /// Make a new call of one that waited, now that a person said yes.
    TakeUp(CallId),
    /// Ask a person for a word before the next iteration.
    AskToGoOn,
    /// Wait for what a person says next, and why when it is not just their turn.
    Listen(String),
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
    /// Fingerprint of what the prompt says of the agent, where it says something.
    pub profile: Option<Digest>,
    /// Fingerprint of the catalogue in the prompt, where there is one.
    pub catalogue: Option<Digest>,
}

/// What is said at the start of every iteration but the first.
const GO_ON: &str = "Go on with the work on your own.";

/// What is said when a conversation begins anew.
const CUT: &str = "This conversation could not be kept whole, and begins anew here.";

/// What to do next in a session that a model drives.
pub fn next(agent: &Agent, world: &World<'_>, skips: &PromptSkips) -> Step {
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
    let over = over(agent, session);
    match &session.lap {
        Some(lap) => {
            let tokens = tokens(session, lap);
            let course = match &over {
                Some(_) => Course::Close(Closing::Stopped, "the session ends".to_owned()),
                None => course(agent, session, lap, phase, tokens),
            };
            match course {
                Course::Close(closing, note) => {
                    let row = Row { lap, phase, closing, note };
                    Step::CloseIteration(Box::new(row.closed(agent, world)))
                }
                Course::Listen(why) => Step::Listen(why),
                Course::Ask(manner) => {
                    let asked = Asked { lap, phase, tokens, manner, skips };
                    Step::AskModel(Box::new(plan(agent, world, asked)))
                }
            }
        }
        None => match over.or_else(|| finished(agent, world, skips)) {
            Some((ending, note)) => Step::Stop(ending, note),
            None if session.awaits => Step::AskToGoOn,
            None if listens(session) => Step::Listen(String::new()),
            None => Step::OpenIteration(opening(agent, world, skips)),
        },
    }
}

/// Whether a conversation waits for a person before it begins anew.
fn listens(session: &Session) -> bool {
    let failed = session.closed.as_ref().is_some_and(|closed| closed.closing == Closing::Failed);
    session.chat && session.iteration > 0 && session.feedback.is_empty() && !failed
}

/// How an open iteration goes on.
enum Course {
    /// The model is asked.
    Ask(Manner),
    /// A person is listened to.
    Listen(String),
    /// It ends.
    Close(Closing, String),
}

/// How the model is asked, beside what is always said.
#[derive(Default)]
struct Manner {
    toolless: bool,
    notes: Vec<Note>,
}

impl Manner {
    /// Asks for last words, where they are due.
    fn finishing(finish: Option<&Finishing>, toolless: bool) -> Self {
        let text = finish.map(|finish| finish.text.clone());
        Self {
            toolless: toolless || finish.is_some_and(|finish| !finish.tools),
            notes: text.map(|text| Note { about: NoteKind::Finish, text }).into_iter().collect(),
        }
    }

    /// Tells why the last reply was not accepted, beside what it was asked with.
    fn rejected(mut self, reason: &str) -> Self {
        let text = format!(
            "Your last reply was not accepted, and nobody was shown it: {reason}. Write the whole \
             reply once more, in the form that is asked for."
        );
        self.notes.push(Note { about: NoteKind::Rejected, text });
        self
    }
}

/// Why the session ends now, whatever its iteration does.
pub fn over(agent: &Agent, session: &Session) -> Option<(Ending, String)> {
    if let Some(reason) = &session.stop {
        return Some((Ending::Stopped, reason.to_string()));
    }
    let driven_ms = session.driven_ms;
    if driven_ms > agent.limits.run_ms_max {
        return Some((Ending::DeadlineExceeded, format!("the run took {driven_ms} ms")));
    }
    if !session.chat && session.stuck >= agent.limits.repeat_calls_max {
        let note = "the model makes the same call again and again";
        return Some((Ending::Stalled, note.to_owned()));
    }
    if let Err(overspent @ Overspent(_)) = agent.budget.allows(&session.spent) {
        return Some((Ending::BudgetExceeded, overspent.to_string()));
    }
    None
}

/// Pauses of a provider in a row after which a reply counts as it is.
const PAUSES_MAX: u64 = 8;

/// How the open iteration goes on.
fn course(agent: &Agent, session: &Session, lap: &Lap, phase: &PhaseName, tokens: u64) -> Course {
    if let Some((fault, reason)) =
        session.failure.as_ref().filter(|(fault, _)| fault.rejects_reply())
    {
        return rejected(agent, session, lap, *fault, reason);
    }
    if let Some((fault, reason)) = &session.failure {
        let finish = session.turns.back().and_then(|last| finishing(agent, session, lap, last));
        let finish = finish.as_ref();
        let toolless = tries_toolless(agent, session);
        // A conversation asks again in the same words, unless the context is what was turned down.
        let stuck = if fault.may_be_last_words() {
            lap.withdrew
        } else {
            fault.about_the_request() && !session.turns.is_empty()
        };
        if toolless || (session.chat && !stuck) {
            return Course::Ask(Manner::finishing(finish, toolless));
        }
        return Course::Close(Closing::Failed, reason.to_string());
    }
    let stops = agent.settings.stop_after_phase_change && !session.chat;
    if stops && !lap.entered.is_empty() {
        return Course::Close(Closing::PhaseChanged, format!("now in phase {phase}"));
    }
    let Some(last) = session.turns.back() else { return Course::Ask(Manner::default()) };
    if last.calls.is_empty() && session.feedback.is_empty() {
        return silent(agent, session, lap, last);
    }
    match limit(agent, session, lap, tokens) {
        None => Course::Ask(forced(agent, session, lap).unwrap_or_default()),
        // The next words of a person begin a new count, but not a new context.
        Some((closing, note)) if session.chat && closing != Closing::ContextLimit => {
            if session.feedback.is_empty() {
                Course::Listen(note)
            } else {
                Course::Ask(Manner::default())
            }
        }
        Some((closing, note)) => Course::Close(closing, note),
    }
}

/// How it goes on when the model wants no call made and nobody has said anything.
fn silent(agent: &Agent, session: &Session, lap: &Lap, last: &Turn) -> Course {
    if last.finish == Finish::Paused && lap.pauses <= PAUSES_MAX {
        return Course::Ask(Manner::default());
    }
    match finishing(agent, session, lap, last) {
        Some(finish) => Course::Ask(Manner::finishing(Some(&finish), false)),
        None => {
            let (closing, why) = fallen_silent(last.finish);
            if session.chat {
                return Course::Listen(why.to_owned());
            }
            Course::Close(closing, why.to_owned())
        }
    }
}

/// Why a model says nothing more, by how its last reply ended. One that was cut is not done.
fn fallen_silent(finish: Finish) -> (Closing, &'static str) {
    match finish {
        Finish::Stop | Finish::Calls => (Closing::Done, ""),
        Finish::Refused => (Closing::Refused, "the model declined, or a filter stopped it"),
        Finish::Length => (Closing::Truncated, "the reply ran out of room"),
        Finish::Paused => (Closing::Truncated, "the provider made pause after pause"),
    }
}

/// Whether the model is asked for its last words: it ended with nothing after calls.
fn finishing(agent: &Agent, session: &Session, lap: &Lap, last: &Turn) -> Option<Finishing> {
    let silent = last.calls.is_empty() && session.feedback.is_empty();
    let worked = lap.calls > lap.before_words.0;
    let nothing = last.text.trim().is_empty() && last.finish != Finish::Refused;
    let due = silent && worked && nothing && !lap.finished;
    agent.tool_calling.last_words().filter(|_| due)
}

/// Whether a request that was turned down is tried again without tools.
pub fn tries_toolless(agent: &Agent, session: &Session) -> bool {
    let (Some((fault, _)), Some(lap)) = (&session.failure, &session.lap) else { return false };
    let calling = &agent.tool_calling;
    let shown =
        session.phase.as_ref().is_some_and(|phase| agent.visible(phase, session).next().is_some());
    let left = calling.enforced.is_none() && lap.toolless < calling.toolless_retries;
    // A request that showed none for another reason is not helped by showing none.
    let shown = shown && (lap.toolless > 0 || !session.toolless);
    shown && left && fault.may_be_tools()
}

/// Which limit the open iteration has reached.
fn limit(agent: &Agent, session: &Session, lap: &Lap, tokens: u64) -> Option<(Closing, String)> {
    let settings = &agent.settings;
    let (calls, calls_max) = (session.counted_calls(), settings.max_tool_calls_per_iteration);
    if calls >= calls_max {
        let note = format!("tool call limit reached ({calls}/{calls_max})");
        return Some((Closing::CallLimit, note));
    }
    let turns_max = agent.limits.iteration_turns_max;
    let before = if session.chat { lap.before_words.1 } else { 0 };
    if count(session.turns.len()).saturating_sub(before) >= turns_max {
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
            awaits: !session.chat && !agent.settings.auto_pilot && !lap.entered.is_empty(),
        }
    }
}

fn opening(agent: &Agent, world: &World<'_>, skips: &PromptSkips) -> Opening {
    let session = world.session;
    let system = system_prompt(agent, world, skips);
    let mut input = session.title.to_string();
    if session.chat && session.iteration > 0 {
        input = CUT.to_owned();
        if !session.summary.is_empty() {
            input.push_str(&format!("\n\nYou said last: {}", session.summary));
        }
        // What is still waiting is shown by itself.
        let mut said = session.turns.iter().rev().flat_map(|turn| turn.notes.iter().rev());
        if let Some(words) = said.next().filter(|_| session.feedback.is_empty()) {
            input.push_str(&format!("\n\nThe person said last: {words}"));
        }
    } else if session.iteration > 0 {
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
    let profile = profile::note(agent, world).map(|text| Digest::of(text.as_bytes()));
    let catalogue = catalogue(agent, world, skips).map(|text| Digest::of(text.as_bytes()));
    Opening { iteration: session.iteration + 1, system, input, profile, catalogue }
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
    let rolled = last.is_none_or(|turn| turn.number <= lap.rolled_turn);
    let turn = if rolled { 0 } else { last.map_or(0, |turn| turn.bytes()) };
    let by_bytes = (lap.rolled_bytes + turn + count(fresh)) / TOKEN_BYTES;
    // What was cut from the last reply was counted, and is not sent again.
    let cut = last.filter(|turn| turn.calls.iter().any(|call| turn.is_cut(call)));
    let said = cut.map_or(lap.last.output_tokens, |turn| turn.said_bytes() / TOKEN_BYTES);
    let counted = lap.last.input_tokens.saturating_add(said);
    let told = last.map_or(0, |turn| turn.told_bytes());
    // A provider that counts too little, or not at all, is not believed.
    by_bytes.max(counted.saturating_add((told + count(fresh)) / TOKEN_BYTES))
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
            asked if is_lifted(session, asked) => received.push(Arc::clone(&open.raw)),
            Progress::Asked(_) => return Some(Step::AskPerson(id)),
            Progress::Answered(_) => received.push(Arc::clone(&open.raw)),
            Progress::Admitted(_) | Progress::Started(_) => admitted.push(id),
        }
    }
    if !received.is_empty() {
        return Some(Step::Judge(received));
    }
    if !admitted.is_empty() {
        return Some(Step::Run(admitted));
    }
    if session.waiting.is_empty() {
        return None;
    }
    // Whoever calls without a model makes the call again, and gets what comes of it.
    let yes = |waiting: &Waiting| waiting.modelled && waiting.approved();
    session.waiting.iter().find(|(_, waiting)| yes(waiting)).map(|(id, _)| Step::TakeUp(*id))
}

/// Whether a question need not be put any more: a yes for the whole session, given meanwhile, is for
/// this call too. It is judged again.
pub fn is_lifted(session: &Session, progress: &Progress) -> bool {
    let Progress::Asked(question) = progress else { return false };
    let OpenQuestion { tool, frame, requires, .. } = question.as_ref();
    session.allowed(tool, *frame, session.last_at, requires).is_some()
}

/// What a request is made of, beside the agent and the world.
struct Asked<'a> {
    lap: &'a Lap,
    phase: &'a PhaseName,
    tokens: u64,
    manner: Manner,
    skips: &'a PromptSkips,
}

fn plan(agent: &Agent, world: &World<'_>, asked: Asked<'_>) -> Plan {
    let Asked { lap, phase, tokens, manner, skips } = asked;
    let session = world.session;
    let raw = skips.skip_tools;
    let tools = agent.visible(phase, session);
    let tools = tools.filter(|_| !manner.toolless && !raw);
    let tools: Vec<Arc<ToolSpec>> = tools.map(|entry| Arc::clone(&entry.spec)).collect();
    let mut notes = notes(agent, world, lap, phase, skips);
    notes.extend(manner.notes);
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
        notes,
        choice: if raw { Choice::Auto } else { choice(agent, session, &tools) },
        tools,
        every: if raw { Arc::new([]) } else { every(agent, session) },
        result_format: agent.tool_calling.result_format,
        shape: None,
        pictures: BTreeMap::new(),
        tokens_estimated: tokens,
        fingerprint: Digest::ZERO,
    };
    plan.fingerprint = fingerprint(session, &plan);
    plan
}

/// Every tool that is sent, in any phase: what the open request leaves of it.
fn every(agent: &Agent, session: &Session) -> Arc<[Arc<ToolSpec>]> {
    let every = agent.every_for(session.agent.as_ref());
    match session.request.as_ref().map(|request| &request.options) {
        Some(options) if options.allowed_tools.is_some() => {
            every.iter().filter(|tool| options.allows(&tool.name)).cloned().collect()
        }
        Some(_) | None => every,
    }
}

/// Which tool is asked for; a tool that is not shown cannot be. What the open request must use comes
/// before what the configuration asks for.
fn choice(agent: &Agent, session: &Session, tools: &[Arc<ToolSpec>]) -> Choice {
    let shown = |name: &ToolName| {
        let tool = tools.iter().find(|tool| tool.name == *name || tool.wire == *name);
        tool.map(|tool| Choice::Tool(tool.wire.clone()))
    };
    let required = match session.required_tool() {
        Some(RequiredTool::Any) if !tools.is_empty() => Some(Choice::Required),
        Some(RequiredTool::Tool(name)) => shown(name),
        Some(RequiredTool::Any) | None => None,
    };
    let choice = &agent.tool_calling.choice;
    required.unwrap_or_else(|| match choice {
        Choice::Tool(name) => shown(name).unwrap_or(Choice::Auto),
        Choice::Auto | Choice::None | Choice::Required | Choice::Form(_) => choice.clone(),
    })
}

/// What toolgate itself has to say in the next request.
fn notes(
    agent: &Agent,
    world: &World<'_>,
    lap: &Lap,
    phase: &PhaseName,
    skips: &PromptSkips,
) -> Vec<Note> {
    let (session, mut notes) = (world.session, Vec::new());
    let now = profile::note(agent, world);
    if let Some(text) = now.filter(|now| lap.told_profile != Some(Digest::of(now.as_bytes()))) {
        notes.push(Note { about: NoteKind::Profile, text });
    }
    if *phase != lap.told_phase
        && let Some(phase) = agent.phase(phase)
    {
        notes.push(Note { about: NoteKind::Phase, text: phase_note(phase) });
    }
    let evidence = agent.evidence(session) == EvidenceMode::Required;
    if evidence && !lap.told_evidence {
        let text = instructions(agent.archetype(session));
        notes.push(Note { about: NoteKind::Evidence, text });
    }
    if skips.shows_catalogue() {
        let now = catalogue(agent, world, skips);
        let told = |now: &String| lap.told_catalogue == Some(Digest::of(now.as_bytes()));
        let changed = now.filter(|now| !told(now));
        notes.extend(changed.map(|text| Note { about: NoteKind::Catalogue, text }));
        let live = agent.toolset.live().iter();
        let due = live.flat_map(|live| live.with_results(agent, world));
        notes.extend(due.map(|text| Note { about: NoteKind::Prompt, text }));
    }
    let (calls, max) = (session.counted_calls(), agent.settings.max_tool_calls_per_iteration);
    // The words of a person begin a new count.
    let anew = session.chat && !session.feedback.is_empty();
    if !lap.warned && !anew && calls.saturating_mul(10) >= max.saturating_mul(8) {
        let text = format!(
            "{calls} of {max} tool calls of this iteration are used. Finish what you began and \
             keep what matters: the next iteration starts with a fresh context."
        );
        notes.push(Note { about: NoteKind::Calls, text });
    }
    notes
}
