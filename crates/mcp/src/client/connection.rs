//! Decides how something is asked over a connection, and how a connection ends.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rmcp::service::{RoleClient, RunningService, Subscription};
use serde_json::json;
use tokio::time::Instant;
use toolgate_http::Verb;
use toolgate_kernel::names::ServerName;
use toolgate_sandbox::IsolationLevel;

use super::child::{Program, Words};
use super::fault::{CallFault, ServerFault};
use super::form::Answerer;
use super::guest::{Guest, NAME};
use super::headers::Repeated;
use super::http::Web;
use super::message::{self, Reply};
use super::outbox::Outbox;
use super::plan::{Bounds, ServerPlan};
use super::sse::Mailbox;
use super::switch::Switch;

/// Calls in a row that a program may leave unanswered, saying nothing at all, before it is stopped.
const SILENT_MAX: u32 = 2;
/// How long the protocol library may take to end.
const SERVICE_END: Duration = Duration::from_millis(300);
/// Milliseconds to end a session over HTTP.
const SESSION_END_MS: u64 = 1_000;

/// What was agreed on.
#[derive(Debug, Clone)]
pub(super) struct Era {
    pub(super) version: String,
    /// Whether every request says who asks, instead of one handshake for all.
    pub(super) modern: bool,
    pub(super) has_tools: bool,
    pub(super) tells_changes: bool,
    pub(super) instructions: Option<String>,
}

/// How messages travel.
pub(super) enum Link {
    Pipes(Outbox),
    Web(Arc<Web>, Outbox),
    Sse(Arc<Mailbox>, Outbox),
}

/// What ends with the connection.
pub(super) struct Parts {
    pub(super) service: RunningService<RoleClient, Guest>,
    pub(super) subscription: Option<Subscription>,
    pub(super) program: Option<Program>,
}

/// A connection to a server.
pub(super) struct Connection {
    link: Link,
    pub(super) switch: Arc<Switch>,
    pub(super) era: Era,
    parts: Mutex<Option<Parts>>,
    words: Option<Words>,
    /// How isolated its program is; nothing for a server with an address.
    pub(super) isolation: Option<IsolationLevel>,
    pub(super) bounds: Bounds,
    /// What every request of the new revision says about us, as members of an object.
    meta: String,
    /// Who answers its questions to a person.
    pub(super) answerer: Answerer,
    pub(super) server: ServerName,
    /// The arguments that headers repeat, by tool.
    repeated: Mutex<BTreeMap<String, Arc<[Repeated]>>>,
    silent: AtomicU32,
}

/// A tool that is called: its name and its arguments, as JSON.
#[derive(Clone, Copy)]
pub(super) struct Called<'a> {
    pub(super) tool: &'a str,
    pub(super) args: &'a str,
}

impl Connection {
    pub(super) fn new(
        link: Link,
        switch: Arc<Switch>,
        era: Era,
        parts: Parts,
        plan: &ServerPlan,
    ) -> Self {
        let answerer = parts.service.service().answerer.clone();
        let about = about_us(&era, parts.service.service());
        let words = parts.program.as_ref().map(|program| program.words.clone());
        let isolation = parts.program.as_ref().map(|program| program.isolation.clone());
        Self {
            link,
            switch,
            meta: if era.modern { about } else { String::new() },
            era,
            parts: Mutex::new(Some(parts)),
            words,
            isolation,
            bounds: plan.bounds,
            answerer,
            server: plan.name.clone(),
            repeated: Mutex::default(),
            silent: AtomicU32::new(0),
        }
    }

    /// The `_meta` of a request, with more members where there are any; empty when there are none.
    pub(super) fn meta(&self, more: &str) -> String {
        match (self.meta.is_empty(), more.is_empty()) {
            (true, true) => String::new(),
            (false, true) => format!(r#""_meta":{{{}}}"#, self.meta),
            (true, false) => format!(r#""_meta":{{{more}}}"#),
            (false, false) => format!(r#""_meta":{{{},{more}}}"#, self.meta),
        }
    }

    /// Remembers which arguments headers repeat.
    pub(super) fn repeat(&self, tools: BTreeMap<String, Arc<[Repeated]>>) {
        *self.repeated.lock().unwrap_or_else(PoisonError::into_inner) = tools;
    }

    /// Asks and waits until the deadline, which nothing extends.
    pub(super) async fn ask(
        &self,
        method: &str,
        params: &str,
        called: Option<Called<'_>>,
        deadline: Instant,
    ) -> Result<Reply, CallFault> {
        if let Some(fault) = self.switch.gone() {
            return Err(CallFault::NotSent(fault.clone()));
        }
        match &self.link {
            Link::Web(web, outbox) => {
                let number = self.switch.number();
                let body = message::request(number, method, params);
                // A closed stream is a cancelled request in the new revision, and nothing in the old.
                let outbox = (!self.era.modern).then_some(outbox);
                let mut leaving = Leaving { switch: None, outbox, number };
                let repeated = called.and_then(|called| {
                    let all = self.repeated.lock().unwrap_or_else(PoisonError::into_inner);
                    all.get(called.tool).map(Arc::clone)
                });
                let repeated = repeated.as_deref().unwrap_or_default();
                let tool = called.map(|called| (called.tool, repeated, called.args));
                let reply = web.ask(number, method, tool, body, deadline).await;
                if !matches!(reply, Err(CallFault::TimedOut { .. })) {
                    leaving.outbox = None;
                }
                reply
            }
            Link::Pipes(outbox) => {
                let sending =
                    async |body| if outbox.put(body, deadline).await { Ok(()) } else { Err(None) };
                self.ask_on_a_stream(outbox, method, params, deadline, sending).await
            }
            Link::Sse(mailbox, outbox) => {
                let sending =
                    async |body| mailbox.put(Verb::PostOnce, body, deadline).await.map_err(Some);
                self.ask_on_a_stream(outbox, method, params, deadline, sending).await
            }
        }
    }

    /// Asks where all answers come over one stream.
    async fn ask_on_a_stream(
        &self,
        outbox: &Outbox,
        method: &str,
        params: &str,
        deadline: Instant,
        send: impl AsyncFnOnce(Bytes) -> Result<(), Option<CallFault>>,
    ) -> Result<Reply, CallFault> {
        let began = tokio::time::Instant::now();
        let heard = self.switch.heard();
        let (number, answer) = self.switch.wait();
        let mut leaving = Leaving { switch: Some(&self.switch), outbox: Some(outbox), number };
        if let Err(fault) = send(message::request(number, method, params)).await {
            leaving.outbox = None;
            let gone = || self.switch.gone().cloned().unwrap_or(ServerFault::Hung);
            return Err(fault.unwrap_or_else(|| CallFault::NotSent(gone())));
        }
        match tokio::time::timeout_at(deadline, answer).await {
            Ok(Ok(reply)) => {
                leaving.outbox = None;
                self.silent.store(0, Ordering::Relaxed);
                reply
            }
            Ok(Err(_)) => {
                leaving.outbox = None;
                let gone = self.switch.gone().cloned().unwrap_or(ServerFault::Closed);
                Err(CallFault::Lost(gone))
            }
            Err(_) => {
                drop(leaving);
                self.was_silent(heard);
                let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                Err(CallFault::TimedOut { ms })
            }
        }
    }

    /// Stops a program that says nothing any more.
    fn was_silent(&self, heard_before: u64) {
        if self.switch.heard() != heard_before {
            self.silent.store(0, Ordering::Relaxed);
        } else if self.silent.fetch_add(1, Ordering::Relaxed) + 1 >= SILENT_MAX {
            self.switch.end(ServerFault::Hung);
        }
    }

    /// What a program wrote to its error output last.
    pub(super) fn words(&self) -> Option<String> {
        self.words.as_ref().map(Words::all)
    }

    /// Ends the connection: a session is given back, a program leaves or is made to.
    pub(super) async fn close(&self) {
        self.switch.end(ServerFault::Closed);
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Parts { mut service, subscription, program }) = parts else { return };
        drop(subscription);
        let _ = service.close_with_timeout(SERVICE_END).await;
        drop(service);
        if let Link::Web(web, _) = &self.link
            && web.has_session()
        {
            web.leave(SESSION_END_MS).await;
        }
        if let (Some(program), Link::Pipes(outbox)) = (program, &self.link) {
            outbox.close();
            program.stop().await;
        }
    }
}

/// What every request of the new revision says about us, as members of an object.
pub(super) fn about_us(era: &Era, guest: &Guest) -> String {
    let version = json!(era.version);
    let can = if guest.answerer.is_some() { r#"{"elicitation":{"form":{}}}"# } else { "{}" };
    let about = json!({"name": NAME, "version": env!("CARGO_PKG_VERSION")});
    let prefix = "io.modelcontextprotocol";
    format!(
        r#""{prefix}/protocolVersion":{version},"{prefix}/clientInfo":{about},"{prefix}/clientCapabilities":{can}"#
    )
}

/// Tells the server when nobody waits for an answer any more.
struct Leaving<'a> {
    switch: Option<&'a Switch>,
    outbox: Option<&'a Outbox>,
    number: u64,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if let Some(switch) = self.switch {
            switch.leave(self.number);
        }
        if let Some(outbox) = self.outbox {
            outbox.drop_in(message::cancelled(self.number, "nobody waits for it any more"));
        }
    }
}
