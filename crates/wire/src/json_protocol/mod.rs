//! Calls tools through JSON in the words of a model, for models without tool calling of their own.
//!
//! The request has no tools. The protocol comes last in it: the form of a call, the schemas of the
//! granted tools, and a nonce that only this request knows, so that no text the model reads can make
//! a call. What the reply means is decided by [`parse_reply`]; the gate behind it is the same.

mod parse;
mod render;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::directive::Means;
use toolgate_kernel::event::{FaultKind, Finish};
use toolgate_kernel::limits::Limits;
use toolgate_kernel::names::ToolName;
use toolgate_kernel::plan::{Choice, Plan};
use toolgate_runtime::port::{Desk, Provider, ProviderFault, Reply, ReplyCall, Streamed, Tap};

pub use parse::{
    ExpectedReply, ProtocolCall, ProtocolError, ProtocolReply, TOOL_CALL_INVALID_FORMAT,
    TOOL_CALL_MULTIPLE, TOOL_CALL_NONCE_INVALID, parse_reply,
};
use render::{call_shape, text_plan};

/// Characters of a reply that was not taken, as the log keeps them.
const PARTIAL_CHARS_MAX: usize = 4_000;

/// The form of the protocol, for fingerprints of requests.
const FORM: &[u8] = b"json tool protocol 1";

/// Makes the nonce of a request: 32 hex digits that cannot be guessed. Nothing where the system has
/// no randomness.
pub type NonceSource = dyn Fn(&Plan) -> Option<String> + Send + Sync;

/// A model that calls tools through JSON in its words.
pub struct JsonToolModel {
    inner: Arc<dyn Provider>,
    nonce: Box<NonceSource>,
    limits: Limits,
}

impl JsonToolModel {
    /// The protocol on top of a model.
    pub fn new(
        inner: Arc<dyn Provider>,
        limits: Limits,
        nonce: impl Fn(&Plan) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self { inner, nonce: Box::new(nonce), limits }
    }

    async fn turn(&self, plan: &Plan, tap: Tap<'_>) -> Result<Reply, ProviderFault> {
        let Some(nonce) = (self.nonce)(plan) else {
            let reason = "no nonce can be made: the system gives no random numbers";
            return Err(ProviderFault::new(FaultKind::Unusable, reason));
        };
        let expected = expected(plan);
        let mut asked = text_plan(plan, expected, &nonce);
        if expected == ExpectedReply::Call {
            let shape = call_shape(&plan.tools, &plan.choice, &nonce);
            asked.shape =
                shape.filter(|shape| self.inner.means(&shape.schema).json_schema).map(Arc::new);
        }
        // The transcript is written otherwise than without the protocol, so nothing is kept of it.
        let mut desk = Desk::default();
        let reply = self.inner.reply(&asked, &mut desk, &quiet(tap)).await?;
        if !matches!(reply.finish, Finish::Stop | Finish::Calls) {
            return cut_reply(reply, tap);
        }
        let names: Vec<&str> = plan.every.iter().map(|tool| tool.wire.as_str()).collect();
        match parse_reply(&reply.text, expected, &nonce, &names, &self.limits) {
            Ok(ProtocolReply::Words(text)) => {
                tap(Streamed::Freed(&text));
                let (calls, finish, native) = (Vec::new(), Finish::Stop, None);
                Ok(Reply { text, calls, finish, native, ..reply })
            }
            Ok(ProtocolReply::Final) => {
                let (text, calls, finish) = (String::new(), Vec::new(), Finish::Stop);
                Ok(Reply { text, calls, finish, native: None, ..reply })
            }
            Ok(ProtocolReply::Call(ProtocolCall { tool, args })) => {
                let (name, args) = (meant(plan, &tool), Value::Object(args).to_string());
                let call = ReplyCall { alias: None, name, args };
                let (text, finish) = (String::new(), Finish::Calls);
                Ok(Reply { text, calls: vec![call], finish, native: None, ..reply })
            }
            Err(error) => {
                let partial = reply.text.chars().take(PARTIAL_CHARS_MAX).collect();
                let fault =
                    ProviderFault::of_reply(FaultKind::ToolCallRejected, error.to_string(), reply);
                Err(ProviderFault { partial, ..fault })
            }
        }
    }
}

/// What the reply to a plan may be.
fn expected(plan: &Plan) -> ExpectedReply {
    let has_results = plan.turns.back().is_some_and(|turn| !turn.calls.is_empty());
    match &plan.choice {
        _ if plan.tools.is_empty() => ExpectedReply::Answer,
        Choice::None => ExpectedReply::Answer,
        Choice::Required | Choice::Tool(_) => ExpectedReply::Call,
        Choice::Auto | Choice::Form(_) if has_results => ExpectedReply::Decision,
        Choice::Auto | Choice::Form(_) => ExpectedReply::CallOrWords,
    }
}

/// The name of the tool that is meant: as it is written, else in small letters with `_`, where exactly
/// one granted tool is called so. The gate decides about it either way.
fn meant(plan: &Plan, written: &str) -> String {
    let is_called = |name: &str| {
        let called = |own: &ToolName| own.as_str() == name;
        plan.tools
            .iter()
            .filter(|tool| {
                called(&tool.wire) || called(&tool.name) || tool.aliases.iter().any(called)
            })
            .count()
    };
    if is_called(written) > 0 {
        return written.to_owned();
    }
    let plain = written.to_lowercase().replace(['-', '.', ' '], "_");
    if is_called(&plain) == 1 { plain } else { written.to_owned() }
}

/// A reply that did not come to its end. Half a call is none.
fn cut_reply(reply: Reply, tap: Tap<'_>) -> Result<Reply, ProviderFault> {
    let text = reply.text.trim_start();
    if reply.finish == Finish::Length && text.starts_with(['{', '`']) {
        let reason = "the reply was cut off inside its call";
        return Err(ProviderFault::of_reply(FaultKind::Truncated, reason, reply));
    }
    tap(Streamed::Freed(&reply.text));
    Ok(Reply { calls: Vec::new(), native: None, ..reply })
}

/// Words are kept back until the reply is parsed.
fn quiet<'a>(tap: Tap<'a>) -> impl Fn(Streamed<'_>) + Send + Sync + 'a {
    move |streamed| match streamed {
        Streamed::Text(text) | Streamed::Held(text) => tap(Streamed::Held(text)),
        Streamed::Again | Streamed::Thought(_) | Streamed::Counted(_) | Streamed::Waits { .. } => {
            tap(streamed)
        }
        Streamed::Freed(_) | Streamed::Call { .. } => {}
    }
}

impl Provider for JsonToolModel {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn options(&self) -> Digest {
        Digest::link(self.inner.options(), FORM)
    }

    fn turn_ms_max(&self) -> Option<u64> {
        self.inner.turn_ms_max()
    }

    fn rest_ms(&self) -> Option<u64> {
        self.inner.rest_ms()
    }

    fn means(&self, schema: &Value) -> Means {
        self.inner.means(schema)
    }

    fn transforms(&self) -> BTreeMap<String, Vec<String>> {
        self.inner.transforms()
    }

    fn reply<'a>(
        &'a self,
        plan: &'a Plan,
        _: &'a mut Desk,
        tap: Tap<'a>,
    ) -> BoxFuture<'a, Result<Reply, ProviderFault>> {
        Box::pin(self.turn(plan, tap))
    }
}
