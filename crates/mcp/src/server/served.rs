//! Decides what a server must be able to say to be served: one trait, whatever the transport.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::watch;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::limits::Limits;
use toolgate_kernel::names::PhaseName;

use super::line::Line;
use super::message::RequestId;
use super::refusal::Refused;
use super::revision::Revision;

/// Who speaks: the holder of a token, or whoever started the process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Principal {
    /// The id of the token; never the token itself.
    pub name: Arc<str>,
    /// The only phase in which it may act.
    pub phase: Option<PhaseName>,
}

/// Who asks, and how.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Who.
    pub principal: Arc<Principal>,
    /// In which revision.
    pub revision: Revision,
    /// What the client says it can do.
    pub capabilities: Value,
    /// The only phase that holds for this request: the token's, or that of the address.
    pub phase: Option<PhaseName>,
}

/// One request.
#[derive(Debug)]
pub struct Request<'a> {
    /// Its id.
    pub id: &'a RequestId,
    /// What is asked for.
    pub method: &'a str,
    /// With what, as JSON.
    pub params: &'a str,
    /// By whom.
    pub caller: &'a Caller,
}

/// How long an answer may be kept by a client, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    /// Milliseconds.
    pub ttl_ms: u64,
    /// Whether it is the same for everybody.
    pub public: bool,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The result as a JSON object, without what the protocol adds.
    pub json: String,
    /// How long it may be kept.
    pub cache: Option<Cache>,
    /// Whether the client must say more before there is a result.
    pub input_required: bool,
    /// What is said beside it: the members of its `_meta`, as JSON.
    pub meta: String,
}

impl Answer {
    /// A result.
    pub fn new(json: String) -> Self {
        Self { json, cache: None, input_required: false, meta: String::new() }
    }

    /// A result that may be kept.
    pub fn kept(json: &Value, cache: Cache) -> Self {
        Self { cache: Some(cache), ..Self::new(json.to_string()) }
    }

    /// The same with what is said beside it: the members of its `_meta`, as JSON.
    pub fn beside(mut self, meta: String) -> Self {
        self.meta = meta;
        self
    }

    /// The result as a revision wants it.
    pub(crate) fn write(&self, out: &mut String, revision: Revision, server: &str) {
        let modern = revision.modern();
        out.reserve(self.json.len() + self.meta.len() + server.len() + 160);
        out.push('{');
        if modern {
            let kind = if self.input_required { "input_required" } else { "complete" };
            out.push_str("\"resultType\":\"");
            out.push_str(kind);
            out.push_str("\",\"_meta\":{\"io.modelcontextprotocol/serverInfo\":");
            out.push_str(server);
            out.push_str(if self.meta.is_empty() { "" } else { "," });
        } else if !self.meta.is_empty() {
            out.push_str("\"_meta\":{");
        }
        if modern || !self.meta.is_empty() {
            out.push_str(&self.meta);
            out.push_str("},");
        }
        if let Some(Cache { ttl_ms, public }) = self.cache.filter(|_| modern) {
            let scope = if public { "public" } else { "private" };
            out.push_str(&format!("\"ttlMs\":{ttl_ms},\"cacheScope\":\"{scope}\","));
        }
        match self.json.strip_prefix('{').unwrap_or("}") {
            "}" => {
                out.truncate(out.strip_suffix(',').unwrap_or(out).len());
                out.push('}');
            }
            rest => out.push_str(rest),
        }
    }
}

/// What a server says of itself.
#[derive(Debug, Clone)]
pub struct Card {
    /// Name and version, as the protocol's `Implementation`.
    pub server: Value,
    /// What it can do.
    pub capabilities: Value,
    /// What a model should know of it.
    pub instructions: String,
}

impl Card {
    /// The answer to `initialize`.
    pub(crate) fn initialized(&self, revision: Revision) -> Answer {
        let mut result = json!({
            "protocolVersion": revision.as_str(),
            "capabilities": self.capabilities,
            "serverInfo": self.server,
        });
        self.instruct(&mut result);
        Answer::new(result.to_string())
    }

    /// The answer to `server/discover`.
    pub(crate) fn discovered(&self) -> Answer {
        let supported: Vec<&str> = Revision::ALL.iter().map(|known| known.as_str()).collect();
        let mut capabilities = self.capabilities.clone();
        if let Some(capabilities) = capabilities.as_object_mut() {
            // The newest revision has no way to set a level; a request carries its own.
            capabilities.shift_remove("logging");
        }
        let mut result = json!({ "supportedVersions": supported, "capabilities": capabilities });
        self.instruct(&mut result);
        Answer::kept(&result, Cache { ttl_ms: 60_000, public: false })
    }

    fn instruct(&self, result: &mut Value) {
        if let Some(result) = result.as_object_mut().filter(|_| !self.instructions.is_empty()) {
            result.insert("instructions".to_owned(), self.instructions.clone().into());
        }
    }
}

/// What a caller's lists look like now. Another digest means that a list changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lists {
    /// The tools.
    pub tools: Option<Digest>,
    /// The prompts.
    pub prompts: Option<Digest>,
    /// The resources.
    pub resources: Option<Digest>,
}

/// An answer on its way.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Answer, Refused>> + Send + 'a>>;

/// What is offered to MCP clients.
pub trait Served: Send + Sync + 'static {
    /// What is said of it to a caller.
    fn card(&self, caller: &Caller) -> Card;

    /// Answers a request that is not of the protocol itself. Dropping the answer cancels it.
    fn answer<'a>(&'a self, request: Request<'a>, line: &'a Line) -> Answering<'a>;

    /// The input schema of a tool, where some of its arguments must be repeated by headers.
    fn marked(&self, _tool: &str) -> Option<Value> {
        None
    }

    /// How much of clients is borne.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// Whether there is a phase of this name, with an address of its own.
    fn has_phase(&self, phase: &PhaseName) -> bool;

    /// How the caller's lists look now.
    fn lists(&self, caller: &Caller) -> Lists;

    /// Wakes whoever watches the lists.
    fn changes(&self) -> watch::Receiver<u64>;

    /// The server is told to stop: no call is begun that comes from now on, and its caller is told so.
    fn turn_away(&self) {}

    /// The server stops, and what was begun has had its time: whoever waits, for an answer, for tools
    /// from outside or for a person, is answered now.
    fn cut_off(&self) {}

    /// Waits until everything that was begun has come to its end, whether somebody waits for it or not.
    fn at_rest(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Everything that was begun is settled, and only answers are left to be read: what it needed may
    /// go.
    fn settled(&self) {}
}
