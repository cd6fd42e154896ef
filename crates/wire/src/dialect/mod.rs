//! Decides which dialect speaks: the one place that knows all four, and what they share.
//!
//! A dialect is a module with the same few functions: `frame`, `opening`, `turn`, `closing`,
//! `decode` and `gather`. All are pure.

mod anthropic;
mod chat;
mod fault;
mod gather;
mod gemini;
mod headers;
mod names;
mod options;
mod picture;
mod responses;
pub mod rules;
#[cfg(test)]
pub(crate) mod sample;
pub mod schema;
mod shared;

use serde_json::{Map, Value};
use toolgate_kernel::directive::Means;
use toolgate_kernel::event::Usage;
use toolgate_kernel::fold::Turn;
use toolgate_kernel::plan::Plan;
use toolgate_runtime::port::Reply;

pub(crate) use chat::LATE_WORDS;
pub use fault::WireFault;
pub(crate) use fault::{by_status, by_words};
pub use gather::{Gather, ReplyBounds};
pub(crate) use gather::{Gathering, ReplySize};
pub use headers::Headers;
pub use options::{Capabilities, Options};

/// How a model is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dialect {
    /// OpenAI chat completions, and every server that is compatible with them.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini generateContent.
    Gemini,
}

/// A request: where it goes and what it says.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The path after the base address, such as `/chat/completions`.
    pub path: String,
    /// The body.
    pub body: Map<String, Value>,
}

/// A request without its messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// The path after the base address.
    pub path: String,
    /// The key under which the messages go. It is not yet in the body; it comes last.
    pub key: &'static str,
    /// Everything else.
    pub body: Map<String, Value>,
}

impl Frame {
    /// The request with its messages put in.
    pub fn filled(self, messages: Vec<Value>) -> Request {
        let Self { path, key, mut body } = self;
        body.insert(key.to_owned(), Value::Array(messages));
        Request { path, body }
    }
}

/// Calls the function of the dialect's module.
macro_rules! speak {
    ($dialect:expr, $function:ident($($argument:expr),*)) => {
        match $dialect {
            Dialect::Chat => chat::$function($($argument),*),
            Dialect::Responses => responses::$function($($argument),*),
            Dialect::Anthropic => anthropic::$function($($argument),*),
            Dialect::Gemini => gemini::$function($($argument),*),
        }
    };
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Chat, Self::Responses, Self::Anthropic, Self::Gemini];

    /// The dialect in one word, as replies that are kept in their own form name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    /// The whole request. Slow, and the truth: what is put together from parts must equal it.
    pub fn encode(self, plan: &Plan, options: &Options) -> Request {
        let mut messages = self.opening(plan, options);
        let mut before = None;
        for turn in &plan.turns {
            messages.extend(self.turn(before, turn, plan, options));
            before = Some(turn.as_ref());
        }
        messages.extend(self.closing(plan, options));
        self.frame(plan, options).filled(messages)
    }

    /// Everything but the messages.
    pub fn frame(self, plan: &Plan, options: &Options) -> Frame {
        let mut frame = speak!(self, frame(plan, options));
        options.overrule(&mut frame.body);
        if self.thoughtless(plan, options) {
            frame.body.shift_remove("thinking");
        }
        frame
    }

    /// Whether this request may not ask for thoughts, because of how its transcript ends.
    pub(crate) fn thoughtless(self, plan: &Plan, options: &Options) -> bool {
        self == Self::Anthropic && anthropic::thoughtless(plan, options)
    }

    /// The first messages: the system prompt, where it is a message, and the input.
    pub fn opening(self, plan: &Plan, options: &Options) -> Vec<Value> {
        speak!(self, opening(plan, options))
    }

    /// What a turn adds: the results of the turn before it, its notes, its reply. It never changes
    /// again, byte for byte.
    pub fn turn(
        self,
        before: Option<&Turn>,
        turn: &Turn,
        plan: &Plan,
        options: &Options,
    ) -> Vec<Value> {
        speak!(self, turn(before, turn, plan, options))
    }

    /// The last messages: the results of the last turn, and what is said beside them.
    pub fn closing(self, plan: &Plan, options: &Options) -> Vec<Value> {
        speak!(self, closing(plan, options))
    }

    /// What a whole answer says.
    pub fn decode(self, body: &Value) -> Result<Reply, WireFault> {
        if let Some(fault) = WireFault::told(body) {
            return Err(fault);
        }
        speak!(self, decode(body))
    }

    /// Tokens that a reply has room for when nobody said how many; nothing where the server
    /// decides.
    pub(crate) fn output_tokens(self) -> Option<u64> {
        match self {
            Self::Anthropic => Some(anthropic::OUTPUT_TOKENS),
            Self::Chat | Self::Responses | Self::Gemini => None,
        }
    }

    /// Which forms of the words can be put into a request. What cannot be is asked for in words.
    pub(crate) fn holds(self, schema: &Value) -> Means {
        match self {
            Self::Chat | Self::Responses | Self::Gemini => {
                Means { json_schema: true, json_object: true }
            }
            Self::Anthropic => {
                Means { json_schema: anthropic::enforced(schema).is_some(), json_object: false }
            }
        }
    }

    /// What a whole answer cost, whether it can be used or not.
    pub fn usage(self, body: &Value) -> Usage {
        self.counts(body).map(|counts| self.cost(counts)).unwrap_or_default()
    }

    /// Where an answer, or an event of a stream, counts what it cost.
    fn counts(self, body: &Value) -> Option<&Value> {
        let key = if self == Self::Gemini { gemini::COUNTS } else { "usage" };
        body.get(key).filter(|counts| counts.is_object())
    }

    /// What such counts mean.
    fn cost(self, counts: &Value) -> Usage {
        speak!(self, cost(counts))
    }

    /// Puts the events of a stream together to one whole answer.
    pub fn gather(self, bounds: ReplyBounds) -> Gather {
        Gather::new(self, speak!(self, gather()), bounds)
    }
}
