//! Decides how a server is spoken to over streamable HTTP: a message is a request, and its answer
//! one message or a stream of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderValue};
use rmcp::model::{ErrorCode, ErrorData, ServerJsonRpcMessage};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use serde::Deserialize;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use toolgate_http::sse::{RESPONSE_BYTES_MAX, Reader, SseFault};
use toolgate_http::{Answer, HttpFault, Verb, after};
use toolgate_kernel::json::without_lone_surrogates;

use super::cut::cut_off;
use super::fault::{CallFault, ServerFault, shown};
use super::headers;
use super::message::{self, Head, Reply};
use super::place::Place;
use super::plan::Bounds;
use super::switch::{self, Heard, Switch};

/// The request for a stream of notifications, in the new revision.
const LISTEN: &str = "subscriptions/listen";
/// Messages for the protocol library that wait to be read.
const INBOUND_MAX: usize = 64;
/// Bytes of an error answer that are read.
const ERROR_BYTES_MAX: usize = 64 << 10;
/// Streams over which one answer may come.
const STREAMS_MAX: usize = 16;
/// Milliseconds before a stream is gone on with, where the server names none, and at most.
const RETRY_MS: u64 = 1_000;
const RETRY_MS_MAX: u64 = 30_000;
/// Milliseconds in which a stream should end after its answer, so that its connection can be kept.
const DRAIN_MS: u64 = 20;
/// Milliseconds for an answer that is not waited for.
const ASIDE_MS_MAX: u64 = 10_000;

/// A server over streamable HTTP.
pub(super) struct Web {
    pub(super) place: Place,
    /// The headers of every message, with the session and the version once they are known.
    standing: Mutex<Arc<HeaderMap>>,
    has_session: AtomicBool,
    /// Whether the server is of the 2026 revision.
    modern: OnceLock<bool>,
    /// Says that the stream of notifications should be opened.
    pub(super) wanted: Notify,
    /// Says that it is open, or that it could not be opened at once.
    pub(super) settled: Notify,
    /// What a server of the new revision is asked to tell.
    subscription: OnceLock<String>,
    /// Whether the list of tools was asked for: changes since then must be heard.
    has_listed: AtomicBool,
    pub(super) switch: Arc<Switch>,
    inbound: mpsc::Sender<ServerJsonRpcMessage>,
    bounds: Bounds,
    noise: AtomicU64,
    /// Why the handshake was refused.
    pub(super) refused: OnceLock<ServerFault>,
}

impl Web {
    pub(super) fn new(
        place: Place,
        switch: Arc<Switch>,
        bounds: Bounds,
    ) -> (Arc<Self>, mpsc::Receiver<ServerJsonRpcMessage>) {
        let (inbound, receiver) = mpsc::channel(INBOUND_MAX);
        let standing = Mutex::new(Arc::new(place.headers.clone()));
        let web = Self {
            place,
            standing,
            has_session: AtomicBool::new(false),
            modern: OnceLock::new(),
            wanted: Notify::new(),
            settled: Notify::new(),
            subscription: OnceLock::new(),
            has_listed: AtomicBool::new(false),
            switch,
            inbound,
            bounds,
            noise: AtomicU64::new(0),
            refused: OnceLock::new(),
        };
        (Arc::new(web), receiver)
    }

    /// The headers of every message.
    pub(super) fn headers(&self) -> Arc<HeaderMap> {
        Arc::clone(&self.standing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn stand(&self, name: &'static str, value: &str) {
        let Ok(value) = HeaderValue::from_str(value) else { return };
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut standing).insert(name, value);
    }

    /// Whether the session must be ended when the connection is.
    pub(super) fn has_session(&self) -> bool {
        self.has_session.load(Ordering::Relaxed)
    }

    /// Which revision the server speaks; every message says so from now on.
    pub(super) fn agreed(&self, version: &str, modern: bool) {
        let _ = self.modern.set(modern);
        self.stand("mcp-protocol-version", version);
    }

    /// Asks and waits for the answer. Nothing of it is sent twice.
    pub(super) async fn ask(
        &self,
        number: u64,
        method: &str,
        tool: Option<(&str, &[headers::Repeated], &str)>,
        body: Bytes,
        deadline: Instant,
    ) -> Result<Reply, CallFault> {
        if method == "tools/list" {
            self.has_listed.store(true, Ordering::Release);
        }
        let mut all = self.headers();
        if self.modern.get() == Some(&true) {
            let all = Arc::make_mut(&mut all);
            headers::standard(all, method, tool.map(|(name, ..)| name));
            if let Some((_, repeated, args)) = tool {
                headers::arguments(all, repeated, args);
            }
        }
        let began = tokio::time::Instant::now();
        let told = |fault| self.call_fault(fault, began);
        let sending = self.place.send(Verb::PostOnce, &all, body, deadline, &self.place.patience);
        let mut answer = sending.await.map_err(told)?;
        if !(200..300).contains(&answer.status) {
            return self.refusal(number, &mut answer).await;
        }
        if !answer.is("text/event-stream") {
            let max = self.bounds.message_bytes_max;
            let (text, whole) = answer.up_to(max).await.map_err(told)?;
            if !whole {
                return Ok(cut_off(&text));
            }
            let misfit = |why: &str| CallFault::Misfit(why.to_owned());
            let text = std::str::from_utf8(&text).map_err(|_| misfit("it is not UTF-8"))?;
            return match answer_to(number, text) {
                Some(answer) => answer.map_err(misfit),
                None => Err(misfit("it answers something else")),
            };
        }
        self.streamed(&mut answer, number, deadline).await.map_err(told)?
    }

    /// Reads a stream until the answer to a request of ours comes. Servers of older revisions may
    /// close it and go on in another one, which asks for nothing anew.
    async fn streamed(
        &self,
        answer: &mut Answer,
        number: u64,
        deadline: Instant,
    ) -> Result<switch::Answer, HttpFault> {
        let mut reader = Reader::bounded(self.bounds.message_bytes_max, RESPONSE_BYTES_MAX);
        for _ in 0..STREAMS_MAX {
            let cut = match self.read_until(answer, &mut reader, number).await {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) | Err(HttpFault::CutOff) => HttpFault::CutOff,
                Err(fault) => return Err(fault),
            };
            let Some(id) = reader.last_id().filter(|_| self.modern.get() != Some(&true)) else {
                return Err(cut);
            };
            let ms = reader.retry_ms().unwrap_or(RETRY_MS).min(RETRY_MS_MAX);
            tokio::time::sleep_until(after(tokio::time::Instant::now(), ms).min(deadline)).await;
            match self.resume(id, deadline).await {
                Ok(next) => *answer = next,
                // The request itself has arrived, whatever was late here.
                Err(HttpFault::TimedOut { what, ms } | HttpFault::Unready { what, ms }) => {
                    return Err(HttpFault::TimedOut { what, ms });
                }
                Err(_) => return Err(cut),
            }
        }
        Err(HttpFault::CutOff)
    }

    async fn read_until(
        &self,
        answer: &mut Answer,
        reader: &mut Reader,
        number: u64,
    ) -> Result<Option<switch::Answer>, HttpFault> {
        let mut reply = None;
        loop {
            let bytes = match answer.chunk().await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return Ok(None),
                Err(HttpFault::TooLarge { .. }) => return Ok(Some(Ok(cut_off(&reader.open())))),
                Err(fault) => return Err(fault),
            };
            let read = reader.read(&bytes, |event| {
                match answer_to(number, event.data) {
                    Some(found) if reply.is_none() => {
                        reply = Some(found.map_err(|why| CallFault::Misfit(why.to_owned())));
                    }
                    // The first event of a stream may only tell its id.
                    None if event.data.is_empty() => {}
                    Some(_) | None => self.pass(event.data),
                }
                Ok::<(), SseFault>(())
            });
            match (reply.take(), read) {
                (Some(reply), _) => {
                    // What follows is nothing, or nothing that is wanted.
                    answer.drain(DRAIN_MS).await;
                    return Ok(Some(reply));
                }
                (None, Err(SseFault::EventTooLong(_) | SseFault::TooLong(_))) => {
                    return Ok(Some(Ok(cut_off(&reader.open()))));
                }
                (None, Err(SseFault::NotText)) => return Err(HttpFault::Unreadable("no UTF-8")),
                (None, Ok(())) => {}
            }
        }
    }

    /// Goes on with a stream that was closed before the answer.
    async fn resume(&self, id: &str, deadline: Instant) -> Result<Answer, HttpFault> {
        let unreadable = || HttpFault::Unreadable("it cannot be gone on with");
        let mut all = HeaderMap::clone(&self.headers());
        all.insert("accept", HeaderValue::from_static("text/event-stream"));
        all.insert("last-event-id", HeaderValue::from_str(id).map_err(|_| unreadable())?);
        let sending =
            self.place.send(Verb::Get, &all, Bytes::new(), deadline, &self.place.patience);
        let answer = sending.await?;
        let open = answer.status == 200 && answer.is("text/event-stream");
        if open { Ok(answer) } else { Err(unreadable()) }
    }

    fn call_fault(&self, fault: HttpFault, began: Instant) -> CallFault {
        if !fault.may_have_arrived() {
            // Whoever looks for news learns that it is down.
            self.switch.end(fault.clone().into());
            return CallFault::NotSent(fault.into());
        }
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        match fault {
            HttpFault::TimedOut { .. } => CallFault::TimedOut { ms },
            HttpFault::TooLarge { .. } => {
                CallFault::TooLarge { max: self.bounds.message_bytes_max }
            }
            HttpFault::Redirected { .. }
            | HttpFault::NoAddress { .. }
            | HttpFault::Unreachable { .. }
            | HttpFault::Unready { .. }
            | HttpFault::Tls { .. }
            | HttpFault::NoRoots { .. }
            | HttpFault::ClearText { .. }
            | HttpFault::Forbidden { .. }
            | HttpFault::NoTls { .. }
            | HttpFault::OnlyTls { .. }
            | HttpFault::CutOff
            | HttpFault::Unreadable(_) => CallFault::Lost(fault.into()),
        }
    }

    /// What a status that is no success means for a call.
    async fn refusal(&self, number: u64, answer: &mut Answer) -> Result<Reply, CallFault> {
        let status = answer.status;
        if matches!(status, 401 | 403) {
            return Err(CallFault::NotSent(self.place.unauthorized(answer)));
        }
        let text = answer.beginning(ERROR_BYTES_MAX).await;
        let text = String::from_utf8_lossy(&text);
        let lost = match status {
            404 if self.has_session() => {
                // The next call finds another connection. Whether this one was done before the
                // session was lost is not known, unless the server answers it.
                self.switch.end(ServerFault::SessionEnded);
                Some(ServerFault::SessionEnded)
            }
            // Whoever stands between may have given up waiting for a server that did what was asked.
            500.. => Some(ServerFault::Status(status)),
            _ => None,
        };
        refused(status, number, &text, lost)
    }

    /// Gives a message to whoever it is for.
    pub(super) fn pass(&self, text: &str) {
        match self.switch.hear(text) {
            Heard::Theirs(message) => {
                if self.inbound.try_send(*message).is_err() {
                    self.switch.counts.unheard.fetch_add(1, Ordering::Relaxed);
                }
            }
            Heard::Done => {}
            Heard::Noise => {
                if self.noise.fetch_add(1, Ordering::Relaxed) >= self.bounds.noise_max {
                    let (max, words) = (self.bounds.noise_max, String::new());
                    self.switch.end(ServerFault::Noisy { max, words });
                }
            }
        }
    }

    /// Says something that has no answer, or whose answer is not waited for.
    pub(super) async fn aside(&self, body: Bytes) {
        let deadline = after(tokio::time::Instant::now(), ASIDE_MS_MAX);
        let all = self.headers();
        let sent = self.place.send(Verb::Post, &all, body, deadline, &self.place.patience).await;
        if let Ok(mut answer) = sent {
            answer.drain(100).await;
        }
    }

    /// Ends the session.
    pub(super) async fn leave(&self, ms: u64) {
        let deadline = after(tokio::time::Instant::now(), ms);
        let all = self.headers();
        let sending =
            self.place.send(Verb::Delete, &all, Bytes::new(), deadline, &self.place.patience);
        if let Ok(mut answer) = sending.await {
            answer.drain(ms).await;
        }
    }

    /// Sends a message of the protocol library and reads what comes back.
    pub(super) async fn exchange(
        &self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> Result<(), ServerFault> {
        let unwritable = |_| ServerFault::Protocol("a message cannot be written".to_owned());
        let text = serde_json::to_string(&item).map_err(unwritable)?;
        let method =
            Head::read(&text).and_then(|head| head.method).unwrap_or_default().into_owned();
        let mut all = HeaderMap::clone(&self.headers());
        let first = method == "server/discover";
        if first || self.modern.get() == Some(&true) {
            let version = HeaderValue::from_static("2026-07-28");
            all.entry("mcp-protocol-version").or_insert(version);
            if !method.is_empty() {
                headers::standard(&mut all, &method, None);
            }
        }
        let patience = &self.place.patience;
        let deadline = after(tokio::time::Instant::now(), patience.request_ms(false));
        let sending = self.place.send(Verb::Post, &all, text.into(), deadline, patience);
        let mut answer = sending.await.map_err(|fault| {
            // The protocol library would tell it in its own words.
            let fault = ServerFault::from(fault);
            let _ = self.refused.set(fault.clone());
            fault
        })?;
        if !(200..300).contains(&answer.status) {
            return self.rejected(&mut answer, &method, item).await;
        }
        self.remember(&answer, &method);
        if answer.is("text/event-stream") {
            return self.follow(&mut answer, &method).await;
        }
        let body = answer.whole().await?;
        if !body.is_empty() {
            self.take(&String::from_utf8_lossy(&body), &method);
        }
        if method == "notifications/initialized" {
            self.wanted.notify_one();
        }
        Ok(())
    }

    fn remember(&self, answer: &Answer, method: &str) {
        let session = answer.headers.get("mcp-session-id").and_then(|value| value.to_str().ok());
        if method == "initialize"
            && let Some(session) = session
        {
            self.stand("mcp-session-id", session);
            self.has_session.store(true, Ordering::Relaxed);
        }
    }

    async fn follow(&self, answer: &mut Answer, method: &str) -> Result<(), ServerFault> {
        let mut reader = Reader::bounded(self.bounds.message_bytes_max, RESPONSE_BYTES_MAX);
        while let Some(bytes) = answer.chunk().await? {
            let read = reader.read(&bytes, |event| {
                self.take(event.data, method);
                Ok::<(), SseFault>(())
            });
            read.map_err(|fault| ServerFault::Protocol(fault.to_string()))?;
        }
        Ok(())
    }

    /// Waits until the server tells when something changes, or does not do so in time. One of the
    /// new revision is asked to, now and whenever the stream of that breaks; `about_us` is what
    /// every request to it says.
    pub(super) async fn hear_of_changes(&self, about_us: Option<String>, within: Duration) {
        if let Some(about) = about_us {
            let params =
                format!(r#"{{"notifications":{{"toolsListChanged":true}},"_meta":{{{about}}}}}"#);
            let _ = self.subscription.set(params);
            self.wanted.notify_one();
        }
        let _ = tokio::time::timeout(within, self.settled.notified()).await;
    }

    /// Whether the stream of notifications is a request, which is answered with a word first.
    pub(super) fn subscribes(&self) -> bool {
        self.subscription.get().is_some()
    }

    /// Nobody listened for a while. A list that was read before then is read again.
    pub(super) fn may_have_missed_changes(&self) {
        if self.has_listed.load(Ordering::Acquire) {
            self.pass(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
        }
    }

    /// Takes a message that answers the protocol library, and what it agrees to.
    fn take(&self, text: &str, method: &str) {
        #[derive(Deserialize)]
        struct Agreed {
            result: Version,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            protocol_version: String,
        }
        if method == "initialize"
            && let Ok(agreed) = serde_json::from_str::<Agreed>(text)
        {
            self.agreed(&agreed.result.protocol_version, false);
        }
        self.pass(text);
    }

    /// What a status that is no success means for the handshake. An error of the protocol is told
    /// as such, so that a server of the new revision is not taken for an old one; anything else
    /// that refuses the first question is an old server.
    async fn rejected(
        &self,
        answer: &mut Answer,
        method: &str,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> Result<(), ServerFault> {
        let status = answer.status;
        if matches!(status, 401 | 403) {
            let fault = self.place.unauthorized(answer);
            let _ = self.refused.set(fault.clone());
            return Err(fault);
        }
        let text = answer.beginning(ERROR_BYTES_MAX).await;
        let text = String::from_utf8_lossy(&text);
        let told = serde_json::from_str::<ServerJsonRpcMessage>(&text).ok();
        let error = match told {
            Some(ServerJsonRpcMessage::Error(error)) => Some(error.error),
            Some(_) | None if method == "server/discover" && status < 500 => {
                let words = format!("refused with status {status}");
                Some(ErrorData::new(ErrorCode::INVALID_REQUEST, words, None))
            }
            Some(_) | None => None,
        };
        let TxJsonRpcMessage::<RoleClient>::Request(request) = item else { return Ok(()) };
        let Some(error) = error else {
            let _ = self.refused.set(ServerFault::Status(status));
            return Err(ServerFault::Status(status));
        };
        let message = ServerJsonRpcMessage::error(error, Some(request.id));
        if let Ok(text) = serde_json::to_string(&message) {
            self.pass(&text);
        }
        Ok(())
    }

    /// Opens the stream of notifications: a request of its own in the new revision.
    pub(super) async fn listen(&self) -> Result<Answer, ServerFault> {
        let mut all = HeaderMap::clone(&self.headers());
        let (verb, body) = match self.subscription.get() {
            Some(params) => {
                headers::standard(&mut all, LISTEN, None);
                (Verb::Post, message::request(self.switch.number(), LISTEN, params))
            }
            None => {
                all.insert("accept", HeaderValue::from_static("text/event-stream"));
                (Verb::Get, Bytes::new())
            }
        };
        let patience = self.place.stream_patience();
        let deadline = after(tokio::time::Instant::now(), patience.request_ms(false));
        let answer = self.place.send(verb, &all, body, deadline, &patience).await?;
        if answer.status != 200 || !answer.is("text/event-stream") {
            return Err(ServerFault::Status(answer.status));
        }
        Ok(answer)
    }
}

/// What an answer with a status that is no success means for a call. `lost` is what is wrong where
/// the call may have been done unless the server itself refuses it.
fn refused(
    status: u16,
    number: u64,
    text: &str,
    lost: Option<ServerFault>,
) -> Result<Reply, CallFault> {
    match (answer_to(number, text), lost) {
        (Some(Ok(reply @ Reply::Error { .. })), _) => Ok(reply),
        (Some(Ok(_)), _) => Err(CallFault::Misfit(format!("it has a result and status {status}"))),
        (Some(Err(why)), Some(_)) => Err(CallFault::Misfit(why.to_owned())),
        // An error that is not this request's may be that of a gateway.
        (None, Some(lost)) => Err(CallFault::Lost(lost)),
        (Some(Err(_)) | None, None) => match Head::read(text).and_then(|head| head.reply()) {
            Some(reply @ Reply::Error { .. }) => Ok(reply),
            _ => Err(CallFault::Refused { code: i64::from(status), message: shown(text, 200) }),
        },
    }
}

/// What a message answers to a request of ours, or why it cannot be read as its answer; nothing
/// where it does not name the request.
fn answer_to(number: u64, text: &str) -> Option<Result<Reply, &'static str>> {
    let text = &*without_lone_surrogates(text);
    match Head::read(text) {
        // A request or a notification of the server is no answer, whatever its id is.
        Some(head) if head.method.is_some() && !head.has_answer() => None,
        Some(head) if head.ours() == Some(number) => Some(head.answer()),
        Some(head) => {
            (head.claimed() == Some(number)).then_some(Err("its id is not the one that was asked"))
        }
        None => {
            let claimed = message::claimed_by_unreadable(text.as_bytes());
            claimed.contains(&number).then_some(Err(message::NOT_A_MESSAGE))
        }
    }
}

/// What the protocol library gets from the web.
pub(super) type Received = RxJsonRpcMessage<RoleClient>;

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of a gateway that gave up waiting says nothing about what the server did.
    #[test]
    fn only_the_server_itself_refuses_a_call() {
        let own = r#"{"jsonrpc":"2.0","id":"tg-7","error":{"code":-32602,"message":"no"}}"#;
        let result = r#"{"jsonrpc":"2.0","id":"tg-7","result":{"content":[]}}"#;
        let gateway = r#"{"error":{"code":504,"message":"upstream request timeout"}}"#;
        let nameless = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"no"}}"#;
        let other = own.replace("tg-7", "tg-8");
        for status in [404_u16, 500, 502, 503, 504, 520, 599] {
            let told = |text: &str| refused(status, 7, text, Some(ServerFault::Status(status)));
            assert!(matches!(told(own), Ok(Reply::Error { code: -32602, .. })), "{status}");
            assert!(matches!(told(result), Err(CallFault::Misfit(_))), "{status}");
            for text in [gateway, nameless, &other, "", "Bad Gateway", "<html>"] {
                assert!(matches!(told(text), Err(CallFault::Lost(_))), "{status}: {text}");
            }
        }
        for text in [own, gateway, nameless, "No such thing", ""] {
            let told = refused(400, 7, text, None);
            assert!(matches!(told, Ok(Reply::Error { .. }) | Err(CallFault::Refused { .. })));
        }
        assert!(matches!(refused(400, 7, result, None), Err(CallFault::Misfit(_))));
    }
}
