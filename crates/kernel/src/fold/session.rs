//! Decides what a session is at any point of its log.

mod calls;
mod client_bytes;
mod flow;
mod fork;
mod person;
mod reply;
mod supplied;
mod words;

use std::sync::Arc;

use imbl::{OrdMap, OrdSet, Vector};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::client_bytes::ClientBytes;
pub use self::flow::{CallOrigin, InformationFlow, SeenFlow, TaintSource};
pub use self::person::{Allowance, Ruled, Waiting, shown};
use self::reply::Words;
pub use self::supplied::Supplied;
use super::{Lap, OpenCalls, OpenQuestion, Progress, State, Tally, Told, Turn};
use crate::approval::SignedAnswer;
use crate::credential::PersonKey;
use crate::digest::Digest;
use crate::event::{
    Asked, CallRefused, Change, Closing, Conversation, Ending, Event, FaultKind, Finish, Image,
    IterationClosed, Note, Origin, Record, RestoreRef, Saw, Usage,
};
use crate::json::canonical;
use crate::key::{Access, Key};
use crate::names::{AgentId, CallId, PhaseName, SessionId, ToolName};
use crate::plan::opening;
use crate::policy::RULE_OF_TWO;
use crate::request::{OpenRequest, RequiredTool};
use crate::time::Timestamp;

/// Keys whose reading a session remembers.
pub const READS_MAX: usize = 10_000;

/// Names of tools whose last result a session remembers.
const RESULTS_MAX: usize = 1_000;

/// The fold of a session stream. Past transcripts leave it; they are in the log. A fork begins with
/// it, so it is part of the log there: a new field needs a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Place of the last record that was applied.
    pub seq: u64,
    /// Epoch of the driver that wrote it.
    pub epoch: u64,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When the last record was written.
    pub last_at: Timestamp,
    /// Milliseconds it was driven; while nobody drives it no time is counted.
    pub driven_ms: u64,
    /// What it is about.
    pub title: Arc<str>,
    /// Pictures shown at the start of each iteration.
    pub images: Vector<Arc<Image>>,
    /// Whether it is a conversation, which waits for a person after each answer.
    pub chat: bool,
    /// The agent it speaks as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// The kind of conversation it is.
    #[serde(default, skip_serializing_if = "Conversation::is_direct")]
    pub conversation: Conversation,
    /// The configuration in force.
    pub config: Option<Digest>,
    /// The phase it is in.
    pub phase: Option<PhaseName>,
    /// The phases it went through; the last one is open.
    pub stays: Vector<Stay>,
    /// Number of the open iteration; zero before the first.
    pub iteration: u64,
    /// What was said at the start of the last iteration.
    pub input: Arc<str>,
    /// The last iteration's system prompt.
    pub system: Arc<str>,
    /// The figures of the open iteration.
    pub lap: Option<Lap>,
    /// How the iteration before ended.
    pub closed: Option<Arc<IterationClosed>>,
    /// What the iteration before said at its end.
    pub summary: Arc<str>,
    /// Iterations in a row without a call.
    pub idle: u64,
    /// Whether a person's word is due before the next iteration.
    pub awaits: bool,
    /// Number of the last turn.
    pub turn: u64,
    /// Turns of the last iteration.
    pub turns: Vector<Arc<Turn>>,
    /// Whether a request is under way.
    pub asking: bool,
    /// Why the last request failed.
    pub failure: Option<(FaultKind, Arc<str>)>,
    /// Whether the last request showed no tools.
    pub toolless: bool,
    /// The model that was asked last.
    #[serde(default)]
    pub model: Option<Arc<str>>,
    /// How the last request asked for tools.
    pub asked: Option<Arc<Asked>>,
    /// The last result of each tool the model called, by the name it used.
    pub results: OrdMap<Arc<str>, bool>,
    /// Whether a reply had directives.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_directives: bool,
    /// The name of the last call that was refused as unknown, hidden or denied, and its turn; until a
    /// call of a later turn succeeds: then the model has corrected itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_callable: Option<(Arc<str>, u64)>,
    /// What toolgate itself says in the request that is under way.
    pub notes: Vector<Arc<Note>>,
    /// Calls that are not settled.
    pub open: OpenCalls,
    /// The id the next call gets.
    pub next_call: u64,
    /// How often each tool was used.
    pub tallies: OrdMap<ToolName, Arc<Tally>>,
    /// What was read, with the version that was seen.
    pub reads: OrdMap<Key, Seen>,
    /// The last call and how often it came in a row.
    pub repeated: Option<(ToolName, Digest, u64)>,
    /// Calls in a row that were refused because they came again and again.
    #[serde(default)]
    pub stuck: u64,
    /// Calls that succeeded: while it stands still, what was judged stays judged.
    pub successes: u64,
    /// Tokens used by everything in this session, as the provider counts.
    pub usage: Usage,
    /// The same, with what is thought of replies that the provider did not count.
    pub spent: Usage,
    /// Tokens the open request is thought to have.
    pub asked_tokens: u64,
    /// What is kept under keys.
    pub state: State,
    /// Words from outside that the model has not been shown yet.
    pub feedback: Vector<Arc<str>>,
    /// The pictures beside them.
    pub feedback_images: Vector<Arc<Image>>,
    /// Somebody asked to stop.
    pub stop: Option<Arc<str>>,
    /// How far the inbox was read.
    pub inbox: u64,
    /// Chain hash of the inbox up to there.
    pub inbox_hash: Digest,
    /// The newest project head a record of this session saw.
    pub saw: Option<Saw>,
    /// How it ended, when it has.
    pub ended: Option<Ending>,
    /// What there is from outside.
    #[serde(default)]
    pub supplied: Arc<Supplied>,
    /// Calls that were put off until a person says yes, by their ids.
    #[serde(default)]
    pub waiting: OrdMap<CallId, Arc<Waiting>>,
    /// Which policies need not ask about which tools any more.
    #[serde(default)]
    pub allowances: Vector<Arc<Allowance>>,
    /// Digests of the statements that were taken in; none counts twice.
    #[serde(default, skip_serializing_if = "OrdSet::is_empty")]
    pub statements: OrdSet<Digest>,
    /// What it read, as far as the rule of two has to know.
    #[serde(default, skip_serializing_if = "InformationFlow::is_default")]
    pub flow: InformationFlow,
    /// What the calls of clients added.
    #[serde(default, skip_serializing_if = "ClientBytes::is_empty")]
    pub client_bytes: ClientBytes,
    /// How answers were signed, by their places in the inbox.
    #[serde(default, skip_serializing_if = "OrdMap::is_empty")]
    pub answers: OrdMap<u64, SignedAnswer>,
    /// The key of the person who opened it, where they have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starter: Option<PersonKey>,
    /// Replies in a row that were not accepted, since the last words of a person.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rejections: u64,
    /// What the open request narrows; nothing when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Arc<OpenRequest>>,
    /// Where it was forked, when it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The newest restore of the log that it knows of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<RestoreRef>,
}

/// A time spent in a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stay {
    /// The phase.
    pub phase: PhaseName,
    /// When it was entered.
    pub entered_at: Timestamp,
    /// When and why it was left.
    pub left: Option<(Timestamp, Arc<str>)>,
    /// Iterations that began in it.
    pub loops: u64,
}

/// What a read saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// The content's version.
    pub version: Option<Digest>,
    /// The iteration in which it was read.
    pub iteration: u64,
    /// Whether it was read, or written by this session itself.
    pub access: Access,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn bytes(text: &str) -> u64 {
    count(text.len())
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

impl Session {
    /// A session before its first record.
    pub fn new(id: SessionId) -> Self {
        Self {
            id,
            seq: 0,
            epoch: 0,
            opened_at: Timestamp(0),
            last_at: Timestamp(0),
            driven_ms: 0,
            title: "".into(),
            images: Vector::new(),
            chat: false,
            agent: None,
            conversation: Conversation::Direct,
            config: None,
            phase: None,
            stays: Vector::new(),
            iteration: 0,
            input: "".into(),
            system: "".into(),
            lap: None,
            closed: None,
            summary: "".into(),
            idle: 0,
            awaits: false,
            turn: 0,
            turns: Vector::new(),
            asking: false,
            failure: None,
            toolless: false,
            model: None,
            asked: None,
            results: OrdMap::new(),
            has_directives: false,
            not_callable: None,
            notes: Vector::new(),
            open: OpenCalls::default(),
            next_call: 1,
            tallies: OrdMap::new(),
            reads: OrdMap::new(),
            repeated: None,
            stuck: 0,
            successes: 0,
            usage: Usage::default(),
            spent: Usage::default(),
            asked_tokens: 0,
            state: State::default(),
            feedback: Vector::new(),
            feedback_images: Vector::new(),
            stop: None,
            inbox: 0,
            inbox_hash: Digest::ZERO,
            saw: None,
            ended: None,
            supplied: Arc::default(),
            waiting: OrdMap::new(),
            allowances: Vector::new(),
            statements: OrdSet::new(),
            flow: InformationFlow::default(),
            client_bytes: ClientBytes::default(),
            answers: OrdMap::new(),
            starter: None,
            rejections: 0,
            request: None,
            origin: None,
            restored: None,
        }
    }

    /// Takes in the next record. It only copies what the record says.
    pub fn apply(&mut self, record: &Record<Event>) {
        debug_assert_eq!(record.seq, self.seq + 1);
        self.seq = record.seq;
        if self.epoch == record.epoch {
            let ms = record.at.ms_since(self.last_at);
            self.driven_ms = self.driven_ms.saturating_add(ms);
        }
        (self.epoch, self.last_at) = (record.epoch, record.at);
        self.saw = record.saw.or(self.saw);
        if let Some(signed) = &record.decision {
            self.statements.insert(signed.statement.digest());
        }
        match &record.event {
            Event::Opened { title, images, chat, agent, conversation, starter, .. } => {
                self.starter = *starter;
                self.opened_at = record.at;
                self.title = title.as_str().into();
                self.images = images.iter().cloned().map(Arc::new).collect();
                self.chat = *chat;
                (self.agent, self.conversation) = (agent.clone(), *conversation);
                self.flow.hear(title, &record.actor);
            }
            Event::Forked(forked) => self.forked(forked),
            Event::ConfigBound { config, phase, .. } => {
                self.lapse(*config);
                self.config = Some(*config);
                if self.phase.as_ref() != Some(phase) {
                    self.enter(phase, "configuration bound", record.at);
                }
            }
            Event::IterationOpened { iteration, system, input, profile, catalogue, .. } => {
                self.iteration_opened(*iteration, system, input, record.at);
                if let Some(lap) = &mut self.lap {
                    (lap.told_profile, lap.told_catalogue) = (*profile, *catalogue);
                }
            }
            Event::IterationClosed(closed) => self.iteration_closed(closed),
            Event::RequestOpened(options) => {
                let options = options.as_ref().clone();
                let open = OpenRequest { used_required: false, options };
                self.request = (!open.options.is_default()).then(|| Arc::new(open));
            }
            Event::PlanSent { turn, model, notes, tools, asked, tokens_estimated, .. } => {
                self.roll();
                if self.model.as_deref() != Some(model) {
                    self.model = Some(model.as_str().into());
                }
                self.asked_tokens = *tokens_estimated;
                self.turn = *turn;
                self.asking = true;
                self.toolless = tools.is_empty();
                let failed = self.failure.take().is_some();
                if let Some(lap) = self.lap.as_mut().filter(|_| failed && tools.is_empty()) {
                    lap.toolless += 1;
                }
                if asked.is_some() {
                    self.asked.clone_from(asked);
                }
                self.notes = notes.iter().cloned().map(Arc::new).collect();
            }
            Event::ModelReplied {
                turn,
                text,
                calls,
                usage,
                last_usage,
                finish,
                native,
                attempts,
                calls_max,
                directed,
                ..
            } => {
                self.has_directives |=
                    directed.as_ref().is_some_and(|it| !it.directives.is_empty());
                self.pay(&Usage::discarded(attempts, None));
                let reply = Words { text, calls, finish: *finish, native };
                self.replied(*turn, reply, &record.actor);
                self.usage = self.usage.plus(usage);
                self.spent = self.spent.plus(&self.believed(usage, text, calls));
                if let Some(lap) = &mut self.lap {
                    (lap.usage, lap.last) = (lap.usage.plus(usage), last_usage.unwrap_or(*usage));
                    (lap.calls_before, lap.calls_max) = (lap.calls, *calls_max);
                    (lap.toolless, lap.withdrew) = (0, false);
                    lap.pauses = if *finish == Finish::Paused { lap.pauses + 1 } else { 0 };
                }
            }
            Event::ModelFailed { reason, fault, attempts, usage, .. } => {
                self.asking = false;
                self.pay(&Usage::discarded(attempts, usage.as_ref()));
                // One that was stopped is asked again as if it never had been.
                if fault.rejects_reply() {
                    self.rejections += 1;
                }
                let stopped = *fault == FaultKind::Stopped;
                self.failure = (!stopped).then(|| (*fault, reason.as_str().into()));
            }
            Event::CallReceived { call, of } => {
                let bytes = call.name.len().saturating_add(call.args.len());
                self.client_bytes.add(&record.actor, record.at, bytes);
                self.receive(Arc::clone(call), &record.actor, None);
                if let Some(of) = of {
                    self.taken_up(call.id, *of);
                }
            }
            Event::CallAdmitted(admitted) => self.admitted(admitted, record.at),
            Event::CallAsked {
                call,
                tool,
                policy,
                reason,
                args,
                args_hash,
                frame,
                expires_at,
                requires,
            } => {
                if let Some(open) = self.open.get(call) {
                    self.flow.sends(tool.as_str(), args.as_ref(), &open.raw);
                }
                let phase = self.phase.clone();
                let question = OpenQuestion {
                    phase,
                    tool: tool.clone(),
                    policy: policy.clone(),
                    reason: reason.as_str().into(),
                    args: args.clone().map(Arc::new),
                    args_hash: *args_hash,
                    frame: *frame,
                    expires_at: *expires_at,
                    requires: requires.as_deref().cloned().unwrap_or_default(),
                    given: Vec::new(),
                };
                self.progress(*call, |_| Progress::Asked(Box::new(question)));
            }
            Event::CallRefused(CallRefused { call, envelope, denial, .. }) => {
                let is_flow = denial.as_ref().is_some_and(|one| one.policy.as_str() == RULE_OF_TWO);
                if let Some(open) = self.open.get(call).filter(|_| is_flow) {
                    self.flow.sends(&envelope.tool, None, &open.raw);
                }
                self.answered_client(*call, envelope, record.at);
                self.put_off(*call, envelope, record.at);
                let envelope = Arc::clone(envelope);
                self.close(*call, || Told { envelope, message_only: false });
            }
            Event::CallStarted { call, .. } => self.progress(*call, |progress| {
                if let Progress::Admitted(admitted) = progress {
                    return Progress::Started(admitted);
                }
                progress
            }),
            Event::CallSettled(settled) => {
                self.answered_client(settled.call, &settled.envelope, record.at);
                self.settled(settled);
            }
            Event::FileConflicted { note, .. } => {
                self.feedback.push_back(note.as_str().into());
            }
            Event::StateChanged { changes, .. } => self.change(changes),
            Event::Undone(undone) => self.undone(undone),
            Event::PhaseEntered { phase, reason, .. } => {
                self.enter(phase, reason, record.at);
                if let Some(lap) = &mut self.lap {
                    lap.entered.push_back(phase.clone());
                }
            }
            Event::ToolsSupplied { tools, notes, isolation, .. } => {
                let (tools, notes) = (tools.clone(), notes.clone());
                let isolation = isolation.clone();
                self.supplied = Arc::new(Supplied { tools, notes, isolation });
            }
            Event::LogRestored { restore } => {
                self.forget_decisions("The log was restored from a backup");
                self.restored = Some(*restore);
            }
            // An inbox is heard from its beginning, and each word of it once.
            Event::Heard { inbox, .. } if *inbox != self.inbox.saturating_add(1) => {}
            Event::Heard { inbox, hash, said, statement, signer } => {
                (self.inbox, self.inbox_hash) = (*inbox, *hash);
                // A statement counts once, however often it stands in the inbox.
                let is_new = statement.is_none_or(|one| self.statements.insert(one).is_none());
                if is_new {
                    self.hears(said, &record.actor, record.at, *signer);
                }
            }
            Event::Ended { ending, .. } => self.ended = Some(*ending),
        }
        if !self.waiting.is_empty() {
            self.expire(record.at);
        }
    }

    fn iteration_opened(&mut self, iteration: u64, system: &str, input: &str, at: Timestamp) {
        self.iteration = iteration;
        (self.system, self.input) = (system.into(), input.into());
        self.turns = Vector::new();
        self.repeated = None;
        self.failure = None;
        self.rejections = 0;
        if let Some(stay) = self.stays.back_mut() {
            stay.loops += 1;
        }
        self.lap = self.phase.clone().map(|phase| Lap {
            opened_at: at,
            start_phase: phase.clone(),
            entered: Vector::new(),
            told_phase: phase,
            told_profile: None,
            told_catalogue: None,
            calls: 0,
            calls_before: 0,
            successes_before: self.successes,
            usage: Usage::default(),
            last: Usage::default(),
            warned: false,
            rolled: opening(system, input, &self.images),
            finished: false,
            told_evidence: false,
            pauses: 0,
            calls_max: None,
            toolless: 0,
            withdrew: false,
            before_words: (0, 0),
            rolled_bytes: bytes(system) + bytes(input),
            rolled_messages: 2,
            rolled_turn: 0,
        });
    }

    fn iteration_closed(&mut self, closed: &IterationClosed) {
        let before = self.lap.take().map_or(0, |lap| lap.successes_before);
        self.summary = closed.summary.as_str().into();
        if self.successes > before {
            self.idle = 0;
        } else if closed.closing != Closing::Failed {
            self.idle += 1;
        }
        self.awaits = closed.awaits;
        self.closed = Some(Arc::new(closed.clone()));
    }

    fn enter(&mut self, phase: &PhaseName, reason: &str, at: Timestamp) {
        if let Some(stay) = self.stays.back_mut() {
            stay.left = Some((at, reason.into()));
        }
        let phase = phase.clone();
        self.stays.push_back(Stay { phase: phase.clone(), entered_at: at, left: None, loops: 0 });
        self.phase = Some(phase);
    }

    fn change(&mut self, changes: &[Change]) {
        for change in changes {
            if matches!(change, Change::Clear {}) {
                self.tallies = OrdMap::new();
                self.reads = OrdMap::new();
                self.repeated = None;
            }
            // What could not be made was refused when it was staged; a log that says otherwise
            // is still read to its end.
            let applied = self.state.apply(change);
            debug_assert!(applied.is_ok());
        }
    }

    /// What the model was told of calls since the last words of a person; in a run, in this iteration.
    pub fn round(&self) -> impl Iterator<Item = &Arc<Told>> {
        let before = match &self.lap {
            // Words that were not answered yet begin a round without calls.
            _ if self.chat && !self.feedback.is_empty() => u64::MAX,
            Some(lap) if self.chat => lap.before_words.1,
            Some(_) | None => 0,
        };
        let before = usize::try_from(before).unwrap_or(usize::MAX);
        self.turns.iter().skip(before).flat_map(|turn| turn.told.values())
    }

    /// The tool that the open request must still use.
    pub fn required_tool(&self) -> Option<&RequiredTool> {
        let request = self.request.as_ref().filter(|request| !request.used_required)?;
        request.options.required_tool.as_ref()
    }

    /// How often a tool was used.
    pub fn tally(&self, tool: &ToolName) -> Option<&Tally> {
        self.tallies.get(tool).map(AsRef::as_ref)
    }

    /// The part of the session that a failed call must leave as it was, with its hash.
    pub fn export(&self) -> (Value, Digest) {
        let value = json!({ "phase": self.phase, "state": self.state.export() });
        let hash = Digest::of(&canonical(&value));
        (value, hash)
    }
}
