//! Decides what a model must do: one reply to one plan.

use std::any::Any;
use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use serde_json::Value;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::directive::{Directed, Means};
use toolgate_kernel::event::{Attempt, FaultKind, Finish, Native, Usage};
use toolgate_kernel::plan::Plan;

/// A call in a reply, as the model wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyCall {
    /// The provider's id for it, which may be blank or a duplicate.
    pub alias: Option<String>,
    /// The name.
    pub name: String,
    /// The arguments as text.
    pub args: String,
}

/// What a model answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Its words.
    pub text: String,
    /// The calls it wants made.
    pub calls: Vec<ReplyCall>,
    /// Why it stopped.
    pub finish: Finish,
    /// What it cost.
    pub usage: Usage,
    /// What the last of several requests cost alone.
    pub last_usage: Option<Usage>,
    /// The reply in its dialect's own form, when that says more.
    pub native: Option<Native>,
    /// Who answered, when it was not the model that was asked.
    pub model: Option<String>,
    /// The tries that failed before.
    pub attempts: Vec<Attempt>,
    /// What was mended in it, in words.
    pub repairs: Vec<String>,
    /// Its directives, where they were asked for.
    pub directed: Option<Directed>,
    /// How many of its calls may run, where the model that stood in is held to fewer.
    pub calls_max: Option<u64>,
}

impl Reply {
    /// Words and calls, and nothing besides.
    pub fn new(
        text: impl Into<String>,
        calls: Vec<ReplyCall>,
        finish: Finish,
        usage: Usage,
    ) -> Self {
        Self {
            text: text.into(),
            calls,
            finish,
            usage,
            last_usage: None,
            native: None,
            model: None,
            attempts: Vec::new(),
            repairs: Vec::new(),
            directed: None,
            calls_max: None,
        }
    }
}

/// Why there is no reply. The texts are for the log and hold no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ProviderFault {
    /// What went wrong.
    pub kind: FaultKind,
    /// The same in words.
    pub reason: String,
    /// The tries that failed before the last one.
    pub attempts: Vec<Attempt>,
    /// Words that had come before it broke.
    pub partial: String,
    /// Whether the server asked to be left alone for longer than is waited.
    pub parks: bool,
    /// The server's status, where it answered with one.
    pub status: Option<u16>,
    /// What the last try cost, where the provider says so.
    pub usage: Option<Usage>,
}

impl ProviderFault {
    /// A fault of some kind, in words.
    pub fn new(kind: FaultKind, reason: impl Into<String>) -> Self {
        Self {
            kind,
            reason: reason.into(),
            attempts: Vec::new(),
            partial: String::new(),
            parks: false,
            status: None,
            usage: None,
        }
    }

    /// A reply that cannot be used. It was paid for all the same, with what came before it.
    pub fn of_reply(kind: FaultKind, reason: impl Into<String>, reply: Reply) -> Self {
        let usage = Some(reply.usage).filter(|usage| *usage != Usage::default());
        let attempts = reply.attempts;
        Self { attempts, usage, ..Self::new(kind, reason) }
    }

    /// The same as one of several tries.
    pub fn attempt(&self) -> Attempt {
        let Self { kind, reason, status, usage, .. } = self;
        Attempt {
            fault: *kind,
            reason: reason.clone(),
            status: *status,
            waited_ms: 0,
            usage: *usage,
        }
    }
}

/// Something of a reply as it comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streamed<'a> {
    /// Words.
    Text(&'a str),
    /// Words that may turn out to be a call: they came, and are not shown yet.
    Held(&'a str),
    /// Words that were held and are none: they are shown now.
    Freed(&'a str),
    /// Thoughts, which are not part of the words.
    Thought(&'a str),
    /// A call that is being written. Nothing of it counts before the reply is whole.
    Call {
        /// The tool, as far as its name has come.
        name: &'a str,
        /// Bytes of its arguments that have come.
        bytes: usize,
    },
    /// What the request that is under way has cost so far, where the provider says so.
    Counted(Usage),
    /// The request failed, and is tried again after a while.
    Waits {
        /// Why it failed, in words.
        reason: &'a str,
        /// Milliseconds until then.
        ms: u64,
    },
    /// The request is tried again: what came so far is void.
    Again,
}

/// Sees a reply as it streams in. It stands beside the log.
pub type Tap<'a> = &'a (dyn Fn(Streamed<'_>) + Send + Sync);

/// What a model keeps of one session between its requests, such as the turns it has written out.
#[derive(Default)]
pub struct Desk(pub Option<Box<dyn Any + Send + Sync>>);

/// A model.
pub trait Provider: Send + Sync {
    /// Its name, as the log quotes it.
    fn name(&self) -> &str;

    /// Fingerprint of everything it adds to a plan: address, options, transforms.
    fn options(&self) -> Digest {
        Digest::ZERO
    }

    /// Milliseconds it may take for one reply with all its tries; as the limits say when absent.
    fn turn_ms_max(&self) -> Option<u64> {
        None
    }

    /// Milliseconds for which nobody asks it, because it failed too often; absent when it can be
    /// asked, or waiting would not help.
    fn rest_ms(&self) -> Option<u64> {
        None
    }

    /// How its provider can see to a form: by this schema, or as some JSON object.
    fn means(&self, _schema: &Value) -> Means {
        Means::default()
    }

    /// The transforms in force, by kind.
    fn transforms(&self) -> BTreeMap<String, Vec<String>> {
        BTreeMap::new()
    }

    /// One reply.
    fn reply<'a>(
        &'a self,
        plan: &'a Plan,
        desk: &'a mut Desk,
        tap: Tap<'a>,
    ) -> BoxFuture<'a, Result<Reply, ProviderFault>>;
}
