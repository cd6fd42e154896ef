//! Decides what can happen: the events of a session, its inbox and the project.

mod answer;
mod call;
mod catalogue;
mod change;
mod conversation;
mod fault;
mod forked;
mod iteration;
mod record;
mod reply;
mod undone;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use answer::Decision;
pub use call::{
    Answer, Attached, Basis, CallAdmitted, CallRefused, CallSettled, Denial, DenialKind,
    FileChange, Kept, Notice, Outcome, RawCall, Stage,
};
pub use catalogue::{CatalogueDecided, CatalogueRuling, ProposalRuling};
pub use change::Change;
pub use conversation::Conversation;
pub use fault::{FaultKind, Worth};
pub use forked::{Forked, Origin};
pub use iteration::{Asked, Closing, IterationClosed, Note, NoteKind};
pub use record::{AuthorRefusal, Authored, DecodeRefusal, Record, RestoreRef, Saw, StreamId};
pub use reply::{Attempt, Finish, Image, Native, Usage};
pub use undone::{Undone, UndoneCall};
pub use write::Written;

use crate::approval::{ApprovalRequirement, DecisionSigner};
use crate::credential::PersonKey;
use crate::decision::Role;
use crate::digest::Digest;
use crate::directive::Directed;
use crate::evidence::{EvidenceReason, EvidenceVerdict};
use crate::names::{
    AgentId, CallId, Family, PhaseName, PolicyName, ServerName, SessionId, ToolName, ToolPattern,
};
use crate::pin::Pinned;
use crate::request::RequestOptions;
use crate::time::Timestamp;
use crate::tree::{LogId, TreeHead};

/// What can happen in a session. Packs add state keys, never variants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event {
    /// The session began.
    Opened {
        /// The session's own id, so that a record cannot be moved to another stream.
        session: SessionId,
        /// What it is about, in the words of whoever opened it, and what the first iteration is told.
        title: String,
        /// Pictures shown at the start of each iteration.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Image>,
        /// Whether it is a conversation, which waits for a person after each answer.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        chat: bool,
        /// The agent it speaks as; absent when it speaks as none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<AgentId>,
        /// The kind of conversation it is.
        #[serde(default, skip_serializing_if = "Conversation::is_direct")]
        conversation: Conversation,
        /// The key of the person who opened it, where they have one. It is not signed: it bounds what
        /// this person may approve, and permits nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        starter: Option<PersonKey>,
    },
    /// The session begins with what another one knew.
    Forked(Box<Forked>),
    /// A configuration took effect.
    ConfigBound {
        /// Fingerprint of tools, phases, policies and limits.
        config: Digest,
        /// Version of the program that bound it.
        program: String,
        /// The phase the session is in from here on.
        phase: PhaseName,
        /// What the configuration file is, where there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<Box<BoundFile>>,
    },
    /// A stretch with fresh context began.
    IterationOpened {
        /// Its number, from one.
        iteration: u64,
        /// Hash of the system prompt.
        prompt: Digest,
        /// The system prompt, which is fixed for the iteration.
        #[serde(default)]
        system: String,
        /// What the person or caller says at its start.
        input: String,
        /// Fingerprint of what the prompt says of the agent, where it says something.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<Digest>,
        /// Fingerprint of the catalogue in the prompt, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        catalogue: Option<Digest>,
    },
    /// A stretch came to its end: the row of its figures.
    IterationClosed(Box<IterationClosed>),
    /// A caller asked for something, under these options; they hold until the next such record.
    RequestOpened(Box<RequestOptions>),
    /// A request went to the model.
    PlanSent {
        /// The turn it opens, from one within the session.
        turn: u64,
        /// The model it went to.
        model: String,
        /// Fingerprint of messages, tool definitions and options.
        plan: Digest,
        /// The tools that were shown.
        tools: Vec<ToolName>,
        /// What toolgate itself has to say in it, shown once.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notes: Vec<Note>,
        /// Tokens it is thought to have.
        #[serde(default)]
        tokens_estimated: u64,
        /// Messages in it, the system prompt too.
        #[serde(default)]
        messages: u64,
        /// How tools are asked for, where it is not as in the request before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked: Option<Arc<Asked>>,
    },
    /// The model answered.
    ModelReplied {
        /// The turn.
        turn: u64,
        /// Its text.
        text: String,
        /// The calls it wants made, untrusted.
        calls: Vec<Arc<RawCall>>,
        /// Why it stopped.
        finish: Finish,
        /// What it cost.
        usage: Usage,
        /// What the last of several requests cost alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_usage: Option<Usage>,
        /// The reply in its dialect's own form, when that says more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Arc<Native>>,
        /// What was mended in it, in words.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        repairs: Vec<String>,
        /// Its directives, where they were asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        directed: Option<Arc<Directed>>,
        /// The tries that failed before it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attempts: Vec<Attempt>,
        /// How many of its calls may run, where the model that stood in is held to fewer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        calls_max: Option<u64>,
        /// What became of its evidence, where evidence is required.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<Box<EvidenceVerdict>>,
    },
    /// The model could not be reached or its reply could not be used.
    ModelFailed {
        /// The turn.
        turn: u64,
        /// What happened, without secrets.
        reason: String,
        /// The same as one word.
        #[serde(default)]
        fault: FaultKind,
        /// The tries that failed before the last one.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attempts: Vec<Attempt>,
        /// The server's status, where it answered with one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        /// What the last try cost, where the provider says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// Words that had come before it broke; nothing of them counts.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        partial: String,
        /// Why its evidence was not accepted, where that is what failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<EvidenceReason>,
    },
    /// A call came from a caller without a model loop, or a person's yes made it.
    CallReceived {
        /// The call, untrusted.
        call: Arc<RawCall>,
        /// The call that waited for a person's yes, where this one is made of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<CallId>,
    },
    /// A call passed the gate.
    CallAdmitted(Arc<CallAdmitted>),
    /// A policy wants a person's word first.
    CallAsked {
        /// The call.
        call: CallId,
        /// The tool.
        tool: ToolName,
        /// Hash of the arguments the person is shown.
        args_hash: Digest,
        /// The policy that asks.
        policy: PolicyName,
        /// Why it asks.
        reason: String,
        /// The arguments after aliases and coercions, where they differ from what was written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        args: Option<Value>,
        /// What a yes is bound to beside the arguments: the tool's version, the phase, the policy
        /// and the configuration.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        frame: Option<Digest>,
        /// When nobody need answer any more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
        /// What an approval takes, where one approver is not enough.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requires: Option<Box<ApprovalRequirement>>,
    },
    /// A call was refused; nothing of it ran.
    CallRefused(CallRefused),
    /// A call is about to reach the world: its durable intent.
    CallStarted {
        /// The call.
        call: CallId,
        /// The key the world is asked to honour.
        key: String,
    },
    /// A call came to its end, with everything it changed in the session.
    CallSettled(CallSettled),
    /// A file was changed by somebody else, and what it says cannot be brought together with ours.
    ///
    /// It was left as it is; the version of a settled call is kept aside.
    FileConflicted {
        /// The settled call that changed it at the same moment.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallId>,
        /// The file.
        path: String,
        /// What was found there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        found: Option<Digest>,
        /// What the model is told.
        note: String,
    },
    /// A person changed the session's state.
    StateChanged {
        /// The changes.
        changes: Vec<Change>,
        /// Why.
        reason: String,
    },
    /// A person undid calls.
    Undone(Box<Undone>),
    /// The session moved to another phase.
    PhaseEntered {
        /// Where to.
        phase: PhaseName,
        /// Where from.
        from: PhaseName,
        /// Why.
        reason: String,
        /// The call that asked for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallId>,
    },
    /// Tools from outside came or went.
    ToolsSupplied {
        /// The phase they are for.
        phase: PhaseName,
        /// The tools of MCP servers that there are now.
        tools: Vec<ToolName>,
        /// What is not as it should be: servers that cannot be reached, tools that are held.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notes: Vec<String>,
        /// How isolated the program of each server is: `full`, `partial: …` or `none: …`. Servers
        /// with an address are not listed.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        isolation: BTreeMap<ServerName, String>,
    },
    /// The session goes on in a log that was restored: what people decided before lapses, and calls
    /// that were open may have run in the part that is lost.
    LogRestored {
        /// Which restore.
        restore: RestoreRef,
    },
    /// Something from the inbox was taken in.
    Heard {
        /// Sequence number in the inbox.
        inbox: u64,
        /// Chain hash of that record, so that a lost inbox is noticed.
        hash: Digest,
        /// What was said.
        said: Said,
        /// Digest of the statement that a person signed for it, where they did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        statement: Option<Digest>,
        /// Who signed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signer: Option<DecisionSigner>,
    },
    /// The session came to its end.
    Ended {
        /// How.
        ending: Ending,
        /// In words.
        note: String,
    },
}

impl Event {
    /// The variant's name as it stands in the log.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Opened { .. } => "opened",
            Self::Forked(_) => "forked",
            Self::ConfigBound { .. } => "config_bound",
            Self::IterationOpened { .. } => "iteration_opened",
            Self::IterationClosed(_) => "iteration_closed",
            Self::RequestOpened(_) => "request_opened",
            Self::PlanSent { .. } => "plan_sent",
            Self::ModelReplied { .. } => "model_replied",
            Self::ModelFailed { .. } => "model_failed",
            Self::CallReceived { .. } => "call_received",
            Self::CallAdmitted(_) => "call_admitted",
            Self::CallAsked { .. } => "call_asked",
            Self::CallRefused(_) => "call_refused",
            Self::CallStarted { .. } => "call_started",
            Self::CallSettled(_) => "call_settled",
            Self::FileConflicted { .. } => "file_conflicted",
            Self::StateChanged { .. } => "state_changed",
            Self::Undone(_) => "undone",
            Self::PhaseEntered { .. } => "phase_entered",
            Self::ToolsSupplied { .. } => "tools_supplied",
            Self::LogRestored { .. } => "log_restored",
            Self::Heard { .. } => "heard",
            Self::Ended { .. } => "ended",
        }
    }
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The work is done.
    Completed,
    /// Somebody stopped it.
    Stopped,
    /// The time was over.
    DeadlineExceeded,
    /// The tokens were spent.
    BudgetExceeded,
    /// More turns than allowed.
    TurnsExceeded,
    /// More iterations than allowed.
    IterationsExceeded,
    /// The model made no call in iteration after iteration.
    Stalled,
    /// Tools had to be used, and none was called.
    NoToolCalls,
    /// Tools had to be used, and what they did in the end did not work.
    ToolError,
    /// The model declined, or a filter stopped it.
    Refused,
    /// The model's last reply ran out of room, so what it said is not whole.
    Truncated,
    /// The model's reply was not accepted, twice.
    Rejected,
}

/// What people and other processes say to a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Said {
    /// Words for the model, shown once.
    Feedback {
        /// The words.
        text: String,
        /// Pictures beside them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Image>,
    },
    /// Go on after a pause.
    GoOn {},
    /// Stop at the next step.
    Stop {
        /// Why.
        reason: String,
    },
    /// A person's word on a call that waits for it.
    Answer(Box<Decision>),
    /// What was allowed for the whole session is asked about again.
    Withdraw {
        /// The tool.
        tool: ToolName,
        /// The policy that asks about it.
        policy: PolicyName,
    },
    /// What the session read so far is no longer taken into account by the rule of two.
    ClearTaint {
        /// Why.
        reason: String,
        /// The last record of the session that the person looked at. What was read after it stays.
        seen: u64,
    },
}

/// What can happen in an inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum InboxEvent {
    /// Somebody said something.
    Spoken {
        /// What.
        said: Said,
    },
}

/// A configuration file that was put in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BoundFile {
    /// Digest of what it reaches: programs, addresses, secrets.
    pub reach: Digest,
    /// Digest of what it allows: policies, phases, grants, limits of calls.
    pub gate: Digest,
    /// Digest of everything else.
    pub rest: Digest,
    /// Hash of its text without secrets, which is kept aside.
    pub text: Digest,
    /// What flags and environment variables filled in: keys of the file with their values, secrets
    /// masked.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, String>,
}

/// The log that a new one was begun in place of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RestartedFrom {
    /// Its name.
    #[schemars(with = "String")]
    pub log: LogId,
    /// Its commits at that time.
    pub size: u64,
    /// The root over them; absent where it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<Digest>,
    /// Whether no owner of that log began this one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owner_lost: bool,
}

/// What can happen in a project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ProjectEvent {
    /// The project began.
    ProjectOpened {
        /// The log before this one, where a person began a new one in its place.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        restarted_from: Option<RestartedFrom>,
    },
    /// A session began; its stream must exist from here on.
    SessionOpened {
        /// The session.
        session: SessionId,
    },
    /// Another configuration than the one before is in force.
    ProjectConfigured {
        /// Fingerprint of tools, phases, policies and limits.
        config: Digest,
        /// The session that began, or went on, with it.
        session: SessionId,
        /// What the configuration file is, where there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<Box<BoundFile>>,
    },
    /// State shared by all sessions changed.
    ProjectChanged {
        /// The changes.
        changes: Vec<Change>,
        /// The session whose call made them, or whose calls were undone; absent when a person made
        /// them otherwise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
        /// The call that made them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallId>,
        /// Why.
        reason: String,
    },
    /// A person decided about the catalogue of prompt tools.
    CatalogueDecided(Box<CatalogueDecided>),
    /// A session that had read untrusted content wrote state of these families: from here on reading
    /// them is reading untrusted content.
    FamiliesMarked {
        /// The families.
        families: Vec<Family>,
        /// The session.
        session: SessionId,
        /// The call that wrote.
        call: CallId,
    },
    /// A person looked at what these families hold: reading them is no longer reading untrusted content.
    FamiliesCleared {
        /// The families.
        families: Vec<Family>,
        /// Why.
        reason: String,
    },
    /// Something was decided about a tool of an MCP server.
    ToolPinned(Box<Pinned>),
    /// From here on this person's key is known, and what they sign in their role counts.
    PersonEnrolled {
        /// The key.
        key: PersonKey,
        /// The person's label.
        name: String,
        /// What they may do.
        role: Role,
        /// The tools they may answer about; empty means all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tools: Vec<ToolPattern>,
    },
    /// From here on what this key signs does not count.
    PersonRevoked {
        /// The key.
        key: PersonKey,
        /// Why.
        reason: String,
    },
    /// A person trusts a configuration.
    ConfigTrusted {
        /// Digest of what it reaches.
        reach: Digest,
        /// Digest of what it allows.
        gate: Digest,
        /// Digest of its text without secrets.
        text: Digest,
    },
    /// A person lets the user of a client answer some questions.
    ClientDelegated(Box<Delegation>),
    /// A person takes a delegation back.
    DelegationEnded {
        /// Where the delegation stands in this stream.
        delegation: u64,
    },
    /// An owner accepts that an older state of the log was put in its place: the commits between are
    /// lost, and what people allowed for later lapses.
    LogRestored {
        /// The newest head of the log that was known here.
        #[schemars(with = "serde_json::Value")]
        seen: TreeHead,
        /// The head of the state that it goes on from.
        #[schemars(with = "serde_json::Value")]
        now: TreeHead,
    },
    /// The user of a client answered within a delegation.
    DelegationUsed {
        /// Where the delegation stands in this stream.
        delegation: u64,
        /// The session.
        session: SessionId,
        /// The call.
        call: CallId,
        /// The tool.
        tool: ToolName,
        /// What the question stood on, and the arguments.
        question: Digest,
    },
}

/// What the user of a client may answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Delegation {
    /// The client, by the name it is known by here.
    pub client: String,
    /// Questions about these tools.
    pub tools: Vec<ToolPattern>,
    /// Until when.
    pub until: Timestamp,
    /// How many answers.
    pub answers_max: u64,
}
