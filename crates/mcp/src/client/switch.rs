//! Decides who a message of a server is for: whoever waits for it here, the protocol library, or
//! nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rmcp::model::{JsonRpcMessage, NumberOrString, ServerJsonRpcMessage};
use rmcp::service::{RoleClient, TxJsonRpcMessage};
use tokio::sync::{Notify, oneshot};

use super::cut::cut_off;
use super::fault::ServerFault;
use super::message::{Head, Reply, number_at_an_end};

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
    waiting: Mutex<BTreeMap<u64, oneshot::Sender<Reply>>>,
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
            next: AtomicU64::new(1),
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
    pub(super) fn wait(&self) -> (u64, oneshot::Receiver<Reply>) {
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
        let Some(head) = Head::read(text) else { return self.noise() };
        self.heard.fetch_add(1, Ordering::Relaxed);
        match (&head.method, head.id) {
            (Some(method), None) => self.notified(method, text),
            (Some(_), Some(_)) => self.requested(text),
            (None, _) => self.answered(&head, text),
        }
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
            let Some(reply) = head.reply() else { return self.noise() };
            return self.give(number, reply);
        }
        let asked = match head.theirs() {
            Some(number) => self.asked().remove(&number),
            // An error that tells no id can only mean the one thing that is waited for.
            None => head.id.is_none() && head.error.is_some() && self.asked().pop_first().is_some(),
        };
        if asked {
            return self.theirs(text);
        }
        self.counts.unasked.fetch_add(1, Ordering::Relaxed);
        Heard::Done
    }

    fn give(&self, number: u64, reply: Reply) -> Heard {
        let waiter = self.waiting().remove(&number);
        // Whoever stopped waiting has taken the number away before.
        if waiter.is_none_or(|waiter| waiter.send(reply).is_err()) {
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

    fn waiting(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, oneshot::Sender<Reply>>> {
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
        assert_eq!(number, 1);
        for id in [r#""tg-2""#, r#""1""#, "1", "999"] {
            switch.hear(&format!(r#"{{"id":{id},"result":{{"no":1}}}}"#));
        }
        switch.hear(r#"{"id":"tg-1","result":{"first":1}}"#);
        switch.hear(r#"{"id":"tg-1","result":{"second":1}}"#);
        assert_eq!(answer.await, Ok(Reply::Result(r#"{"first":1}"#.to_owned())));
        assert_eq!(unasked(&switch), 5);
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
