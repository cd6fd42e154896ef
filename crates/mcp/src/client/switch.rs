//! Decides who a message of a server is for: whoever waits for it here, the protocol library, or
//! nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rmcp::model::{ErrorCode, ErrorData, JsonRpcMessage, NumberOrString, ServerJsonRpcMessage};
use rmcp::service::{RoleClient, TxJsonRpcMessage};
use tokio::sync::{Notify, oneshot};
use toolgate_kernel::json::without_lone_surrogates;

use super::cut::cut_off;
use super::fault::{CallFault, ServerFault};
use super::message::{Head, NOT_A_MESSAGE, Reply, claimed_by_unreadable, number_at_an_end};

/// The number of our first request. The protocol library counts its own from 0 and sends a handful,
/// so a number alone tells whose request is meant, also where a server spells the id wrongly.
const FIRST_NUMBER: u64 = 1_001;

/// An answer to a request of ours, or why what came is none.
pub(super) type Answer = Result<Reply, CallFault>;

/// Requests of a server that are answered at the same time; more are not heard.
const REQUESTS_MAX: usize = 16;

/// What callers look at to know whether anything is new.
#[derive(Debug, Default)]
pub(super) struct Signal {
    /// The server says that its list is another one.
    pub(super) changed: AtomicBool,
    /// Moves with everything that is new, at all servers.
    pub(super) version: Arc<AtomicU64>,
}

/// What a server said that nobody wanted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Lines that are no message.
    pub(super) noise: AtomicU64,
    /// Answers to nothing that was asked, or asked once and answered already.
    pub(super) unasked: AtomicU64,
    /// Requests and notifications beyond what is borne.
    pub(super) unheard: AtomicU64,
}

/// Where the messages of one connection are given out.
pub(super) struct Switch {
    next: AtomicU64,
    waiting: Mutex<BTreeMap<u64, oneshot::Sender<Answer>>>,
    /// What the protocol library asked and was not answered yet.
    asked: Mutex<BTreeSet<i64>>,
    /// Requests of the server that were not answered yet.
    open: AtomicUsize,
    pub(super) counts: Counts,
    signal: Arc<Signal>,
    gone: OnceLock<ServerFault>,
    going: Notify,
    /// Messages heard, so that silence can be told.
    heard: AtomicU64,
}

/// Who a message is for.
pub(super) enum Heard {
    /// The protocol library.
    Theirs(Box<ServerJsonRpcMessage>),
    /// Somebody here had it, or nobody wants it.
    Done,
    /// It is no message.
    Noise,
}

impl Switch {
    pub(super) fn new(signal: Arc<Signal>) -> Self {
        Self {
            next: AtomicU64::new(FIRST_NUMBER),
            waiting: Mutex::default(),
            asked: Mutex::default(),
            open: AtomicUsize::new(0),
            counts: Counts::default(),
            signal,
            gone: OnceLock::new(),
            going: Notify::new(),
            heard: AtomicU64::new(0),
        }
    }

    /// A number for a request of our own that nobody waits for here: its answer comes another way.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// A place to wait for the answer to a request of our own.
    pub(super) fn wait(&self) -> (u64, oneshot::Receiver<Answer>) {
        let number = self.number();
        let (sender, receiver) = oneshot::channel();
        if self.gone.get().is_none() {
            self.waiting().insert(number, sender);
        }
        (number, receiver)
    }

    /// Nobody waits for this answer any more.
    pub(super) fn leave(&self, number: u64) -> bool {
        self.waiting().remove(&number).is_some()
    }

    /// Gives a message to whoever it is for.
    pub(super) fn hear(&self, text: &str) -> Heard {
        let text = &*without_lone_surrogates(text);
        let Some(head) = Head::read(text) else { return self.unreadable(text.as_bytes()) };
        self.heard.fetch_add(1, Ordering::Relaxed);
        match (&head.method, head.id) {
            (Some(method), None) => self.notified(method, text),
            // An id that is ours beside an answer is an answer, whatever else it has.
            (Some(_), Some(_)) if head.has_answer() => self.unreadable(text.as_bytes()),
            (Some(_), Some(_)) => self.requested(text),
            (None, _) => self.answered(&head, text),
        }
    }

    /// Something that is no message. Requests that it names are failed at once: their answer is lost,
    /// and nothing is gained by waiting for the deadline.
    pub(super) fn unreadable(&self, text: &[u8]) -> Heard {
        let heard = self.noise();
        let failed = claimed_by_unreadable(text);
        let failed = failed.into_iter().filter_map(|number| self.fail(number, NOT_A_MESSAGE));
        failed.last().unwrap_or(heard)
    }

    /// Fails the request of this number. One of the protocol library is failed in its own words.
    fn fail(&self, number: u64, why: &'static str) -> Option<Heard> {
        let theirs = i64::try_from(number).ok().filter(|number| self.asked().remove(number));
        if let Some(number) = theirs {
            let error = ErrorData::new(ErrorCode::INTERNAL_ERROR, why, None);
            let id = Some(NumberOrString::Number(number));
            return Some(Heard::Theirs(Box::new(ServerJsonRpcMessage::error(error, id))));
        }
        let waiter = self.waiting().remove(&number)?;
        // A caller that stopped waiting has removed its number before.
        drop(waiter.send(Err(CallFault::Misfit(why.to_owned()))));
        None
    }

    fn notified(&self, method: &str, text: &str) -> Heard {
        match method {
            "notifications/tools/list_changed" => {
                self.signal.changed.store(true, Ordering::Release);
                Heard::Done
            }
            "notifications/subscriptions/acknowledged" | "notifications/cancelled" => {
                self.theirs(text)
            }
            // Progress and log lines have no reader, and extend no deadline.
            _ => {
                self.counts.unheard.fetch_add(1, Ordering::Relaxed);
                Heard::Done
            }
        }
    }

    fn requested(&self, text: &str) -> Heard {
        if self.open.fetch_add(1, Ordering::Relaxed) >= REQUESTS_MAX {
            self.open.fetch_sub(1, Ordering::Relaxed);
            self.counts.unheard.fetch_add(1, Ordering::Relaxed);
            return Heard::Done;
        }
        let heard = self.theirs(text);
        if !matches!(heard, Heard::Theirs(_)) {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
        heard
    }

    fn answered(&self, head: &Head<'_>, text: &str) -> Heard {
        if let Some(number) = head.ours() {
            return match head.answer() {
                Ok(reply) => self.give(number, reply),
                Err(why) => {
                    let heard = self.noise();
                    self.fail(number, why).unwrap_or(heard)
                }
            };
        }
        let asked = match head.theirs() {
            Some(number) if self.asked().contains(&number) => {
                let answer = head.answer().map(|_| serde_json::from_str(text));
                return match answer {
                    Ok(Ok(message)) => {
                        self.asked().remove(&number);
                        Heard::Theirs(Box::new(message))
                    }
                    Ok(Err(_)) => self.misspelled(head, NOT_A_MESSAGE),
                    Err(why) => self.misspelled(head, why),
                };
            }
            Some(_) => false,
            // An error that tells no id can only mean the one thing that is waited for.
            None => head.id.is_none() && head.error.is_some() && self.asked().pop_first().is_some(),
        };
        if asked {
            return self.theirs(text);
        }
        self.counts.unasked.fetch_add(1, Ordering::Relaxed);
        self.misspelled(head, "its id is not the one that was asked")
    }

    /// An answer that names a request, but not as the protocol wants it.
    fn misspelled(&self, head: &Head<'_>, why: &'static str) -> Heard {
        head.claimed().and_then(|number| self.fail(number, why)).unwrap_or(Heard::Done)
    }

    fn give(&self, number: u64, reply: Reply) -> Heard {
        let waiter = self.waiting().remove(&number);
        // Whoever stopped waiting has taken the number away before.
        if waiter.is_none_or(|waiter| waiter.send(Ok(reply)).is_err()) {
            self.counts.unasked.fetch_add(1, Ordering::Relaxed);
        }
        Heard::Done
    }

    /// A message that is too long to be read.
    pub(super) fn too_long(&self, begin: &[u8], end: &[u8]) -> Heard {
        if let Some(number) = number_at_an_end(begin, end) {
            self.give(number, cut_off(begin));
        }
        self.noise()
    }

    pub(super) fn noise(&self) -> Heard {
        self.counts.noise.fetch_add(1, Ordering::Relaxed);
        Heard::Noise
    }

    fn theirs(&self, text: &str) -> Heard {
        match serde_json::from_str(text) {
            Ok(message) => Heard::Theirs(Box::new(message)),
            Err(_) => self.noise(),
        }
    }

    /// Remembers what the protocol library asks and answers.
    pub(super) fn said(&self, message: &TxJsonRpcMessage<RoleClient>) {
        match message {
            JsonRpcMessage::Request(request) => {
                if let NumberOrString::Number(number) = &request.id {
                    self.asked().insert(*number);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {
                let less = |open: usize| Some(open.saturating_sub(1));
                let _ = self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
            }
            JsonRpcMessage::Notification(_) => {}
        }
    }

    /// The server is gone. Whoever waits is told, and so is whoever looks for news.
    pub(super) fn end(&self, fault: ServerFault) {
        if self.gone.set(fault).is_ok() {
            self.waiting().clear();
            self.signal.version.fetch_add(1, Ordering::AcqRel);
            self.going.notify_waiters();
        }
    }

    /// Why the server is gone, if it is.
    pub(super) fn gone(&self) -> Option<&ServerFault> {
        self.gone.get()
    }

    /// Waits until the server is gone.
    pub(super) async fn end_told(&self) {
        let told = self.going.notified();
        if self.gone.get().is_none() {
            told.await;
        }
    }

    /// How many messages were heard so far.
    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, oneshot::Sender<Answer>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asked(&self) -> std::sync::MutexGuard<'_, BTreeSet<i64>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch() -> Switch {
        Switch::new(Arc::default())
    }

    fn unasked(switch: &Switch) -> u64 {
        switch.counts.unasked.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn the_first_answer_counts_and_others_are_counted() {
        let switch = switch();
        let (number, answer) = switch.wait();
        assert_eq!(number, FIRST_NUMBER);
        for id in [r#""tg-2""#, r#""1""#, "1", "999", "null"] {
            switch.hear(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"no":1}}}}"#));
        }
        for text in [r#"{"first":1}"#, r#"{"second":1}"#] {
            switch.hear(&format!(r#"{{"jsonrpc":"2.0","id":"tg-{number}","result":{text}}}"#));
        }
        assert_eq!(answer.await, Ok(Ok(Reply::Result(r#"{"first":1}"#.to_owned()))));
        assert_eq!(unasked(&switch), 6);
    }

    /// What names a request and is no answer to it fails it at once, and never counts as one.
    #[tokio::test]
    async fn a_malformed_answer_fails_its_request_at_once() {
        for text in [
            r#"{"jsonrpc":"2.0","id":"tg-N","result":"#,
            r#"{"jsonrpc":"2.0","id":"tg-N","result":null}"#,
            r#"{"jsonrpc":"2.0","id":"tg-N"}"#,
            r#"{"jsonrpc":"2.0","id":"tg-N","result":{},"error":{"code":1,"message":"x"}}"#,
            r#"{"jsonrpc":"2.0","id":"tg-N","error":"no"}"#,
            r#"{"jsonrpc":"2.0","id":"tg-N","error":7}"#,
            r#"{"jsonrpc":"2.0","id":"tg-N","error":null}"#,
            r#"{"id":"tg-N","result":{"content":[]}}"#,
            r#"{"jsonrpc":"1.0","id":"tg-N","result":{"content":[]}}"#,
            r#"{"jsonrpc":2,"id":"tg-N","result":{"content":[]}}"#,
            r#"{"jsonrpc":"2.0","id":N,"result":{"content":[]}}"#,
            r#"{"jsonrpc":"2.0","id":"N","result":{"content":[]}}"#,
            r#"{"jsonrpc":"2.0","id":"tg-N","id":"tg-N","result":{"content":[]}}"#,
            r#"{"jsonrpc":"2.0","id":"tg-N","result":{},"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":"tg-N","method":"x","result":{"content":[]}}"#,
            r#"{"jsonrpc":"2.0","id":"tg-N","method":7,"result":{"content":[]}}"#,
            r#"[{"jsonrpc":"2.0","id":"tg-N","result":{"content":[]}}]"#,
            "{\"jsonrpc\":\"2.0\",\"id\":\"tg-N\",\"result\":{\"a\":\"\u{1}\"}}",
        ] {
            let switch = switch();
            let (number, answer) = switch.wait();
            switch.hear(&text.replace('N', &number.to_string()));
            let answer = tokio::time::timeout(std::time::Duration::ZERO, answer).await;
            assert!(matches!(answer, Ok(Ok(Err(CallFault::Misfit(_))))), "{text}: {answer:?}");
        }
    }

    #[tokio::test]
    async fn bytes_that_are_no_text_fail_the_request_they_name() {
        let switch = switch();
        let ((number, answer), (_, other)) = (switch.wait(), switch.wait());
        let line = format!(r#"{{"jsonrpc":"2.0","id":"tg-{number}","result":{{"a":"#);
        switch.unreadable(&[line.as_bytes(), b"\"\xff\"}}"].concat());
        assert!(matches!(answer.await, Ok(Err(CallFault::Misfit(_)))));
        assert!(tokio::time::timeout(std::time::Duration::ZERO, other).await.is_err());
    }

    /// The handshake is the protocol library's; it is told in its own words.
    #[test]
    fn a_malformed_answer_to_the_protocol_library_is_an_error() {
        for text in [
            r#"{"jsonrpc":"2.0","id":3,"result":null}"#,
            r#"{"jsonrpc":"2.0","id":3,"error":"no"}"#,
            r#"{"jsonrpc":"2.0","id":"3","result":{}}"#,
            r#"{"id":3,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":3,"result":"#,
        ] {
            let switch = switch();
            switch.asked().insert(3);
            let heard = switch.hear(text);
            let is_error = matches!(&heard, Heard::Theirs(message)
                if matches!(**message, ServerJsonRpcMessage::Error(_)));
            assert!(is_error, "{text}");
            assert!(switch.asked().is_empty(), "{text}");
        }
    }

    #[tokio::test]
    async fn whoever_waits_learns_that_the_server_is_gone() {
        let signal = Arc::new(Signal::default());
        let switch = Switch::new(Arc::clone(&signal));
        let (_, answer) = switch.wait();
        switch.end(ServerFault::Hung);
        switch.end(ServerFault::Closed);
        assert!(answer.await.is_err());
        assert_eq!(switch.gone(), Some(&ServerFault::Hung));
        assert_eq!(signal.version.load(Ordering::Relaxed), 1);
        // Nobody can wait for what will not come.
        assert!(switch.wait().1.await.is_err());
        switch.end_told().await;
    }

    #[test]
    fn a_server_that_asks_without_end_is_heard_up_to_a_bound() {
        let switch = switch();
        let heard = (0..100).filter(|n| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{n},"method":"ping"}}"#);
            matches!(switch.hear(&text), Heard::Theirs(_))
        });
        assert_eq!(heard.count(), REQUESTS_MAX);
    }

    #[test]
    fn a_changed_list_is_noted_and_progress_is_not_passed_on() {
        let signal = Arc::new(Signal::default());
        let switch = Switch::new(Arc::clone(&signal));
        for method in ["progress", "message", "resources/updated"] {
            let text = format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}"}}"#);
            assert!(matches!(switch.hear(&text), Heard::Done));
        }
        assert!(!signal.changed.load(Ordering::Relaxed));
        switch.hear(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
        assert!(signal.changed.load(Ordering::Relaxed));
    }
}
