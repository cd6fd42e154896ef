//! Decides what becomes of a message that was posted: which era it is of, and how it is answered.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use hyper::header::{ACCEPT, CONTENT_TYPE};
use hyper::{HeaderMap, Response, StatusCode};
use serde_json::Value;
use tokio::sync::mpsc;

use super::body::{Done, Reply, Work};
use super::door::Entrance;
use super::headers::{self, SESSION, VERSION};
use super::{Server, empty, plain, token, until_denied};
use crate::server::line::{LINE_MESSAGES_MAX, Line};
use crate::server::message::{self, Message, RequestId, parts};
use crate::server::protocol::{self, Wanted};
use crate::server::refusal::{Refused, RpcCode};
use crate::server::revision::{Common, Revision};
use crate::server::served::{Answer, Caller, Request};
use crate::server::visit::{Running, Visit};

/// A message that is turned away, with the HTTP status beside the words.
struct Turned(StatusCode, Refused);

/// A request that is about to be answered.
struct Accepted {
    id: RequestId,
    method: String,
    params: String,
    caller: Caller,
    common: Common,
    visit: Option<Arc<Visit>>,
}

/// What somebody posted, before it is known what it is.
pub(super) struct Posted<'a> {
    pub(super) headers: &'a HeaderMap,
    pub(super) entrance: &'a Entrance,
}

impl Posted<'_> {
    pub(super) async fn handle(&self, server: &Arc<Server>, body: &Bytes) -> Response<Reply> {
        let Ok(text) = std::str::from_utf8(body) else {
            return refused(None, &Refused::new(RpcCode::Parse, "This is not UTF-8."), true);
        };
        if text.trim_start().starts_with('[') {
            return self.batch(server, text).await;
        }
        match Message::read(text) {
            Err(refusal) => refused(message::id_of(text).as_ref(), &refusal, true),
            Ok(Message::Notification { method, params }) => {
                match self.told(server, &method, params) {
                    Ok(()) => empty(StatusCode::ACCEPTED),
                    Err(Turned(status, refusal)) => turned(None, status, &refusal),
                }
            }
            Ok(Message::Response { id, outcome }) => match self.visit(server) {
                Ok(visit) => {
                    visit.asks.answered(&id, outcome);
                    empty(StatusCode::ACCEPTED)
                }
                Err(Turned(status, refusal)) => turned(None, status, &refusal),
            },
            Ok(Message::Request { id, method, params }) => {
                if method == "initialize" && !declares_modern(params) {
                    return self.initialize(server, &id, params);
                }
                match self.asked(server, &id, &method, params) {
                    Ok(asked) => self.answer(server, asked).await,
                    Err(Turned(status, refusal)) => turned(Some(&id), status, &refusal),
                }
            }
        }
    }

    /// The version that the header names, which must be one of ours.
    fn version(&self) -> Result<Option<Revision>, Refused> {
        match headers::only(self.headers, &VERSION)? {
            None => Ok(None),
            Some(named) => match Revision::parse(named) {
                Some(revision) => Ok(Some(revision)),
                None => Err(Refused::version(named)),
            },
        }
    }

    /// The client of an older revision that a handle names.
    fn visit(&self, server: &Server) -> Result<Arc<Visit>, Turned> {
        let bad = |refusal: Refused| Turned(StatusCode::BAD_REQUEST, refusal);
        let version = self.version().map_err(bad)?;
        let handle = headers::only(self.headers, &SESSION).map_err(bad)?;
        let Some(handle) = handle else {
            let words = "Mcp-Session-Id is missing; begin with initialize.";
            return Err(bad(Refused::new(RpcCode::InvalidRequest, words)));
        };
        let Entrance { principal, phase } = self.entrance;
        let Some(visit) = server.visits.find(handle, principal, phase.as_ref()) else {
            let words = "There is no such session; begin anew with initialize.";
            return Err(Turned(
                StatusCode::NOT_FOUND,
                Refused::new(RpcCode::InvalidRequest, words),
            ));
        };
        match version {
            Some(version) if version != visit.caller.revision => {
                Err(bad(Refused::header("MCP-Protocol-Version is not the negotiated one")))
            }
            _ => Ok(visit),
        }
    }

    fn told(&self, server: &Server, method: &str, params: &str) -> Result<(), Turned> {
        let version = self.version().map_err(|refusal| Turned(StatusCode::BAD_REQUEST, refusal))?;
        if version.is_some_and(Revision::modern) {
            // The newest revision has no notification that means something here.
            return Ok(());
        }
        let visit = self.visit(server)?;
        if method == "notifications/cancelled" {
            visit.open.cancel(params);
        }
        Ok(())
    }

    fn initialize(&self, server: &Server, id: &RequestId, params: &str) -> Response<Reply> {
        if let Err(refusal) = self.version() {
            return refused(Some(id), &refusal, true);
        }
        if self.visit(server).is_ok() {
            let words = "initialize was made already; leave Mcp-Session-Id away to begin anew.";
            return refused(Some(id), &Refused::new(RpcCode::InvalidRequest, words), false);
        }
        let Entrance { principal, phase } = self.entrance;
        let visit = match Visit::begin(params, Arc::clone(principal), phase.clone()) {
            Ok(visit) => visit,
            Err(refusal) => return refused(Some(id), &refusal, false),
        };
        let caller = visit.caller.clone();
        let Some(handle) = server.visits.take(visit) else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "Too many clients; try again later.");
        };
        let answer = server.served.card(&caller).initialized(caller.revision);
        let mut reply = json(StatusCode::OK, message::response(id, &answer.json));
        if let Ok(handle) = handle.parse() {
            reply.headers_mut().insert(SESSION, handle);
        }
        reply
    }

    /// Finds out of which era a request is, and holds it to what that era asks.
    fn asked(
        &self,
        server: &Server,
        id: &RequestId,
        method: &str,
        params: &str,
    ) -> Result<Accepted, Turned> {
        let bad = |refusal: Refused| Turned(StatusCode::BAD_REQUEST, refusal);
        let common = Common::read(params).map_err(bad)?;
        let version = self.version().map_err(bad)?;
        let modern = version.is_some_and(Revision::modern) || common.version().is_some();
        let (id, method, params) = (id.clone(), method.to_owned(), params.to_owned());
        if !modern {
            let visit = self.visit(server)?;
            let caller = visit.caller.clone();
            return Ok(Accepted { id, method, params, caller, common, visit: Some(visit) });
        }
        if let (Some(version), Some(said)) = (version, common.version())
            && said.as_str().is_some_and(|said| said != version.as_str())
        {
            let words = "MCP-Protocol-Version does not match the version of the body";
            return Err(bad(Refused::header(words)));
        }
        let (revision, capabilities) = common.complete().map_err(bad)?;
        if version.is_none() {
            return Err(bad(Refused::header("MCP-Protocol-Version is missing")));
        }
        headers::check(self.headers, &method, &common).map_err(bad)?;
        let tool = common.name.as_ref().and_then(Value::as_str);
        let tool = tool.filter(|_| method == "tools/call");
        if let Some(schema) = tool.and_then(|tool| server.served.marked(tool)) {
            headers::check_arguments(self.headers, &schema, &params).map_err(bad)?;
        }
        let Entrance { principal, phase } = self.entrance;
        let (principal, phase) = (Arc::clone(principal), phase.clone());
        let caller = Caller { principal, revision, capabilities, phase };
        Ok(Accepted { id, method, params, caller, common, visit: None })
    }

    fn takes_events(&self) -> bool {
        let accepted = self.headers.get_all(ACCEPT).iter();
        accepted
            .filter_map(|value| value.to_str().ok())
            .any(|value| value.contains("text/event-stream") || value.contains("*/*"))
    }

    async fn answer(&self, server: &Arc<Server>, asked: Accepted) -> Response<Reply> {
        let modern = asked.caller.revision.modern();
        if modern && asked.method == "subscriptions/listen" {
            return self.subscribe(server, asked);
        }
        let running = match asked.visit.as_ref().map(|visit| visit.open.run(&asked.id)).transpose()
        {
            Ok(running) => running,
            Err(refusal) => return refused(Some(&asked.id), &refusal, modern),
        };
        let (sender, mut messages) = mpsc::channel(LINE_MESSAGES_MAX);
        let mut work = work(Arc::clone(server), asked, sender, running);
        if !self.takes_events() {
            // Nothing can be said or asked meanwhile.
            drop(messages);
            return done(work.await);
        }
        tokio::select! {
            biased;
            last = &mut work => done(last),
            Some(first) = messages.recv() => events(Reply::events(Some(first), messages, work)),
        }
    }

    fn subscribe(&self, server: &Arc<Server>, asked: Accepted) -> Response<Reply> {
        let lists = server.served.lists(&asked.caller);
        let wanted = match Wanted::read(&asked.params, &lists) {
            Ok(wanted) => wanted,
            Err(refusal) => return refused(Some(&asked.id), &refusal, true),
        };
        let (sender, messages) = mpsc::channel(LINE_MESSAGES_MAX);
        let (server, mut stop) = (Arc::clone(server), server.stop.clone());
        let token = token(self.headers);
        let work = Box::pin(async move {
            let served = server.served.as_ref();
            let news = protocol::listen(served, &asked.caller, wanted, Some(&asked.id), &sender);
            tokio::select! {
                // There is nobody any more who would tell of news.
                () = news => {}
                () = until_denied(server.porter.as_ref(), &token) => return None,
                _ = stop.wait_for(|stopped| *stopped) => {}
            }
            let text = protocol::listened(&asked.id, &server.card);
            Some(Done { status: StatusCode::OK, text })
        });
        events(Reply::events(None, messages, work))
    }

    /// Several messages at once, which two revisions have and the others do not.
    async fn batch(&self, server: &Arc<Server>, text: &str) -> Response<Reply> {
        let visit = match self.visit(server) {
            Ok(visit) if visit.caller.revision.has_batches() => visit,
            Ok(_) | Err(Turned(StatusCode::BAD_REQUEST, _)) => {
                let words = "Batches are not taken in this revision; send one message at a time.";
                return refused(None, &Refused::new(RpcCode::InvalidRequest, words), true);
            }
            Err(Turned(status, refusal)) => return turned(None, status, &refusal),
        };
        let parts = match parts(text, server.served.limits().mcp_batch_max) {
            Ok(parts) => parts,
            Err(refusal) => return refused(None, &refusal, true),
        };
        // All of them are at work at once; their answers come in order.
        let mut answers: Vec<BoxFuture<'_, Option<String>>> = Vec::new();
        let said = |text: String| Box::pin(std::future::ready(Some(text)));
        for part in parts {
            match Message::read(part) {
                Err(refusal) => {
                    answers.push(said(message::refusal(message::id_of(part).as_ref(), &refusal)));
                }
                Ok(Message::Notification { method, params }) => {
                    // It was found to be this client's already.
                    drop(self.told(server, &method, params));
                }
                Ok(Message::Response { id, outcome }) => visit.asks.answered(&id, outcome),
                Ok(Message::Request { id, method, .. }) if method == "initialize" => {
                    let words = "initialize is never part of a batch.";
                    let refusal = Refused::new(RpcCode::InvalidRequest, words);
                    answers.push(said(message::refusal(Some(&id), &refusal)));
                }
                Ok(Message::Request { id, method, params }) => {
                    let asked = self.asked(server, &id, &method, params);
                    let running = asked.and_then(|asked| match visit.open.run(&id) {
                        Ok(running) => Ok((asked, running)),
                        Err(refusal) => Err(Turned(StatusCode::OK, refusal)),
                    });
                    answers.push(match running {
                        Err(Turned(_, refusal)) => said(message::refusal(Some(&id), &refusal)),
                        Ok((asked, running)) => {
                            let (sender, messages) = mpsc::channel(LINE_MESSAGES_MAX);
                            let work = work(Arc::clone(server), asked, sender, Some(running));
                            Box::pin(async move {
                                // Nobody reads what is said meanwhile.
                                let _messages = messages;
                                work.await.map(|done| done.text)
                            })
                        }
                    });
                }
            }
        }
        let answers: Vec<String> = join_all(answers).await.into_iter().flatten().collect();
        if answers.is_empty() {
            return empty(StatusCode::ACCEPTED);
        }
        json(StatusCode::OK, format!("[{}]", answers.join(",")))
    }
}

/// Whether a body says of itself that it is of the newest revision.
fn declares_modern(params: &str) -> bool {
    Common::read(params).is_ok_and(|common| common.version().is_some())
}

/// Answers one request. It ends when it is cancelled, or dropped.
fn work(
    server: Arc<Server>,
    asked: Accepted,
    sender: mpsc::Sender<String>,
    running: Option<Running>,
) -> Work {
    Box::pin(async move {
        let Accepted { id, method, params, caller, common, visit } = asked;
        let revision = caller.revision;
        let level = match &visit {
            Some(visit) => visit.level(),
            None => common.meta.as_ref().and_then(|meta| meta.log_level.clone()),
        };
        let asks = visit.as_ref().map(|visit| Arc::clone(&visit.asks));
        let line = Line::new(sender, asks, common.progress(), level.as_deref());
        let request = Request { id: &id, method: &method, params: &params, caller: &caller };
        let answering = async {
            match &visit {
                Some(visit) if method == "logging/setLevel" => {
                    visit.set_level(&params).map(|()| Answer::new("{}".to_owned()))
                }
                _ => protocol::answer(server.served.as_ref(), request, &line).await,
            }
        };
        let answered = match &running {
            None => answering.await,
            Some(running) => tokio::select! {
                biased;
                answered = answering => answered,
                () = running.cancelled() => return None,
            },
        };
        Some(match answered {
            Ok(answer) => {
                let result = |out: &mut String| answer.write(out, revision, &server.card);
                Done { status: StatusCode::OK, text: message::response_with(&id, result) }
            }
            Err(refusal) => Done {
                status: refusal.status(revision.modern()),
                text: message::refusal(Some(&id), &refusal),
            },
        })
    })
}

fn done(done: Option<Done>) -> Response<Reply> {
    match done {
        Some(Done { status, text }) => json(status, text),
        // Cancelled: nobody waits for an answer any more.
        None => empty(StatusCode::ACCEPTED),
    }
}

fn json(status: StatusCode, text: String) -> Response<Reply> {
    let mut reply = Response::new(Reply::whole(text));
    *reply.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static("application/json");
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    reply
}

fn refused(id: Option<&RequestId>, refusal: &Refused, modern: bool) -> Response<Reply> {
    turned(id, refusal.status(modern), refusal)
}

fn turned(id: Option<&RequestId>, status: StatusCode, refusal: &Refused) -> Response<Reply> {
    json(status, message::refusal(id, refusal))
}

/// A stream of events, which no proxy may hold back.
pub(super) fn events(reply: Reply) -> Response<Reply> {
    use hyper::header::{CACHE_CONTROL, HeaderName, HeaderValue};
    let mut reply = Response::new(reply);
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    let buffering = HeaderName::from_static("x-accel-buffering");
    headers.insert(buffering, HeaderValue::from_static("no"));
    reply
}
