//! Decides what can be said to a client while its request is being answered.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::message::{self, RequestId};

/// Messages that wait for a slow reader before more are dropped.
pub(crate) const LINE_MESSAGES_MAX: usize = 64;

/// Questions to one client that may be open at once.
const ASKS_MAX: usize = 64;

/// Milliseconds a client may take to answer one.
const ASK_MS_MAX: u64 = 120_000;

/// The levels of log messages, the least first.
const LEVELS: &[&str] =
    &["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Why a client gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskFault {
    /// This revision has no such questions; the answer says what is needed instead.
    #[error("clients of this revision are not asked beside their request")]
    NotHere,
    /// Too many questions are open.
    #[error("too many questions to this client are open")]
    TooMany,
    /// It went away, or took too long.
    #[error("the client did not answer")]
    Silent,
    /// It said no.
    #[error("the client answered with an error: {0}")]
    Refused(String),
}

/// Our questions to one client that have no answer yet.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    next: AtomicU64,
    open: Mutex<BTreeMap<u64, oneshot::Sender<Result<Value, String>>>>,
}

impl Asks {
    /// Hands on what a client answered. Whatever nobody waits for is dropped.
    pub(crate) fn answered(&self, id: &RequestId, outcome: Result<&str, String>) {
        let Ok(id) = id.as_json().parse() else { return };
        let waiting = self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if let Some(waiting) = waiting {
            let value = outcome.map(|text| serde_json::from_str(text).unwrap_or_default());
            drop(waiting.send(value));
        }
    }
}

/// A question that is forgotten with whoever waits for its answer.
struct Open<'a> {
    asks: &'a Asks,
    id: u64,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.asks.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// The way back to a client while its request is being answered.
pub struct Line {
    out: mpsc::Sender<String>,
    asks: Option<Arc<Asks>>,
    progress: Option<Value>,
    told: AtomicU64,
    level: Option<usize>,
}

impl Line {
    pub(crate) fn new(
        out: mpsc::Sender<String>,
        asks: Option<Arc<Asks>>,
        progress: Option<Value>,
        level: Option<&str>,
    ) -> Self {
        let level = level.and_then(|level| LEVELS.iter().position(|known| *known == level));
        Self { out, asks, progress, told: AtomicU64::new(0), level }
    }

    /// Whether the client wants to hear of progress.
    pub fn wants_progress(&self) -> bool {
        self.progress.is_some()
    }

    /// Tells the client something. What it does not read in time is dropped.
    pub fn notify(&self, method: &str, params: &Value) {
        drop(self.out.try_send(message::notification(method, params)));
    }

    /// Tells how far it got, if the client wants to know. A number that does not grow is not told.
    pub fn progress(&self, progress: u64, total: Option<u64>, words: &str) {
        let Some(token) = &self.progress else { return };
        if progress > 0 && self.told.fetch_max(progress, Ordering::Relaxed) >= progress {
            return;
        }
        let mut params = json!({ "progressToken": token, "progress": progress });
        if let Some(params) = params.as_object_mut() {
            total.map(|total| params.insert("total".to_owned(), total.into()));
            (!words.is_empty()).then(|| params.insert("message".to_owned(), words.into()));
        }
        self.notify("notifications/progress", &params);
    }

    /// Tells that it is still at work.
    pub fn beat(&self, words: &str) {
        let next = self.told.load(Ordering::Relaxed) + 1;
        self.progress(next, None, words);
    }

    /// Writes a log message, if the client asked for this level.
    pub fn log(&self, level: &str, logger: &str, data: &Value) {
        let at = LEVELS.iter().position(|known| *known == level);
        if self.level.zip(at).is_some_and(|(from, at)| at >= from) {
            let params = json!({ "level": level, "logger": logger, "data": data });
            self.notify("notifications/message", &params);
        }
    }

    /// Asks the client something, where its revision has such questions.
    pub async fn ask(&self, method: &str, params: &Value) -> Result<Value, AskFault> {
        self.ask_within(ASK_MS_MAX, method, params).await
    }

    /// The same, with another deadline.
    pub async fn ask_within(
        &self,
        ms: u64,
        method: &str,
        params: &Value,
    ) -> Result<Value, AskFault> {
        let asks = self.asks.as_ref().ok_or(AskFault::NotHere)?;
        let (sender, receiver) = oneshot::channel();
        let id = asks.next.fetch_add(1, Ordering::Relaxed) + 1;
        {
            let mut open = asks.open.lock().unwrap_or_else(PoisonError::into_inner);
            if open.len() >= ASKS_MAX {
                return Err(AskFault::TooMany);
            }
            open.insert(id, sender);
        }
        let _open = Open { asks, id };
        let asked = async {
            self.out.send(message::request(id, method, params)).await.ok()?;
            receiver.await.ok()
        };
        let answered = tokio::time::timeout(Duration::from_millis(ms), asked).await;
        match answered.ok().flatten() {
            Some(Ok(value)) => Ok(value),
            Some(Err(said)) => Err(AskFault::Refused(said)),
            None => Err(AskFault::Silent),
        }
    }
}

/// Whether there is such a level of log messages.
pub(crate) fn is_level(level: &str) -> bool {
    LEVELS.contains(&level)
}
