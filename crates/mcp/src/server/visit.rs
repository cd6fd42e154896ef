//! Decides what is kept of a client of the older revisions between its requests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;
use toolgate_kernel::names::PhaseName;
use toolgate_kernel::token_key::TokenKey;

use super::line::{Asks, is_level};
use super::message::RequestId;
use super::refusal::Refused;
use super::revision::Revision;
use super::served::{Caller, Principal};

/// Clients of the older revisions at once.
const VISITS_MAX: usize = 1_024;

/// One token has at most this part of all places.
const CLIENT_PART: usize = 4;

/// How long nothing may be heard of one before it is forgotten to make room.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// Requests of one client that are being answered at once.
const RUNNING_MAX: usize = 256;

/// What is kept of one client.
pub(crate) struct Visit {
    pub(crate) caller: Caller,
    pub(crate) asks: Arc<Asks>,
    /// Whether it has its stream of news already; one is enough.
    pub(crate) streaming: AtomicBool,
    /// Ends its streams when it leaves.
    pub(crate) left: Notify,
    /// Its requests that are being answered.
    pub(crate) open: Arc<OpenRequests>,
    level: Mutex<Option<String>>,
    heard: Mutex<Instant>,
}

/// The params of `initialize` that matter here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hello {
    protocol_version: String,
    #[serde(default)]
    capabilities: Value,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Visit {
    /// A client that says hello.
    pub(crate) fn begin(
        params: &str,
        principal: Arc<Principal>,
        phase: Option<PhaseName>,
    ) -> Result<Self, Refused> {
        let hello: Hello = serde_json::from_str(params)
            .map_err(|_| Refused::params("initialize says protocolVersion and capabilities."))?;
        let revision = Revision::negotiate(&hello.protocol_version);
        let caller = Caller { principal, revision, capabilities: hello.capabilities, phase };
        Ok(Self {
            caller,
            asks: Arc::default(),
            streaming: AtomicBool::new(false),
            left: Notify::new(),
            level: Mutex::new(Some("info".to_owned())),
            open: Arc::default(),
            heard: Mutex::new(tokio::time::Instant::now()),
        })
    }

    /// Whether nothing of it is under way.
    fn is_idle(&self) -> bool {
        !self.streaming.load(Ordering::Relaxed) && lock(&self.open.0).is_empty()
    }

    /// The level from which log messages are sent.
    pub(crate) fn level(&self) -> Option<String> {
        lock(&self.level).clone()
    }

    /// Takes the level that the client wants.
    pub(crate) fn set_level(&self, params: &str) -> Result<(), Refused> {
        #[derive(Deserialize)]
        struct Wanted {
            level: String,
        }
        let wanted: Wanted = serde_json::from_str(params)
            .map_err(|_| Refused::params("logging/setLevel says a level."))?;
        if !is_level(&wanted.level) {
            return Err(Refused::params("There is no such level."));
        }
        *lock(&self.level) = Some(wanted.level);
        Ok(())
    }
}

/// Requests that are being answered, so that they can be cancelled.
#[derive(Default)]
pub(crate) struct OpenRequests(Mutex<BTreeMap<RequestId, Arc<Notify>>>);

impl OpenRequests {
    /// Notes that a request is being answered.
    pub(crate) fn run(self: &Arc<Self>, id: &RequestId) -> Result<Running, Refused> {
        let mut open = lock(&self.0);
        if open.len() >= RUNNING_MAX {
            return Err(Refused::params("Too many requests of this client are open.").malformed());
        }
        if open.contains_key(id) {
            return Err(Refused::params("A request with this id is still open.").malformed());
        }
        let cancelled = Arc::new(Notify::new());
        open.insert(id.clone(), Arc::clone(&cancelled));
        Ok(Running { requests: Arc::clone(self), id: id.clone(), cancelled })
    }

    /// Cancels a request, as a notification says it. One that is not open is none.
    pub(crate) fn cancel(&self, params: &str) {
        if let Some(id) = cancelled_id(params)
            && let Some(running) = lock(&self.0).get(&id)
        {
            running.notify_one();
        }
    }
}

/// The request that `notifications/cancelled` names.
fn cancelled_id(params: &str) -> Option<RequestId> {
    let params: Value = serde_json::from_str(params).ok()?;
    RequestId::read(&params.get("requestId")?.to_string())
}

/// A request that is being answered.
pub(crate) struct Running {
    requests: Arc<OpenRequests>,
    id: RequestId,
    cancelled: Arc<Notify>,
}

impl Running {
    /// Waits until the client no longer wants it.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.notified().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        lock(&self.requests.0).remove(&self.id);
    }
}

/// All clients of the older revisions, by the handle that each was given.
pub(crate) struct Visits {
    key: TokenKey,
    /// When this process began, so that no handle is given twice.
    began: i64,
    next: AtomicU64,
    open: Mutex<BTreeMap<String, Arc<Visit>>>,
}

impl Visits {
    pub(crate) fn new(key: TokenKey, began: i64) -> Self {
        Self { key, began, next: AtomicU64::new(0), open: Mutex::default() }
    }

    /// Takes a client in, and says by which handle it is known. Nobody can guess one. Where its token
    /// has its part already, the client of that token makes room of whom nothing is under way and
    /// nothing was heard for the longest time.
    pub(crate) fn take(&self, visit: Visit) -> Option<String> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let words = format!("visit {} {number}", self.began);
        let mac = self.key.sign(words.as_bytes());
        let handle: String = mac.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let mut open = lock(&self.open);
        if open.len() >= VISITS_MAX {
            let now = tokio::time::Instant::now();
            open.retain(|_, visit| now.duration_since(*lock(&visit.heard)) < IDLE);
        }
        let own = &visit.caller.principal.name;
        let is_own = |other: &&Arc<Visit>| other.caller.principal.name == *own;
        if open.values().filter(is_own).count() >= VISITS_MAX / CLIENT_PART {
            let idle = open.iter().filter(|(_, other)| is_own(other) && other.is_idle());
            let oldest = idle.min_by_key(|(_, other)| *lock(&other.heard));
            let oldest = oldest.map(|(handle, _)| handle.clone())?;
            open.remove(&oldest);
        }
        if open.len() >= VISITS_MAX {
            return None;
        }
        open.insert(handle.clone(), Arc::new(visit));
        Some(handle)
    }

    /// The client behind a handle. Another's handle is no handle at all.
    pub(crate) fn find(
        &self,
        handle: &str,
        principal: &Principal,
        phase: Option<&PhaseName>,
    ) -> Option<Arc<Visit>> {
        let visit = Arc::clone(lock(&self.open).get(handle)?);
        let own = *visit.caller.principal == *principal && visit.caller.phase.as_ref() == phase;
        *lock(&visit.heard) = tokio::time::Instant::now();
        own.then_some(visit)
    }

    /// Forgets a client that leaves.
    pub(crate) fn forget(&self, handle: &str) {
        if let Some(visit) = lock(&self.open).remove(handle) {
            visit.left.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_token_has_all_places_and_its_own_clients_make_room() {
        let visits = Visits::new(TokenKey::from_bytes(&[7; 32]), 0);
        let principal = |name: &str| Arc::new(Principal { name: name.into(), phase: None });
        let (one, other) = (principal("one"), principal("other"));
        let take = |principal: &Arc<Principal>| {
            let hello = r#"{"protocolVersion":"2025-06-18"}"#;
            visits.take(Visit::begin(hello, Arc::clone(principal), None).unwrap())
        };
        let first = take(&one).unwrap();
        let running = visits.find(&first, &one, None).unwrap();
        let running = running.open.run(&RequestId::read("1").unwrap()).unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        let second = take(&one).unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        let others: Vec<String> = (0..2 * VISITS_MAX).map(|_| take(&one).unwrap()).collect();
        assert_eq!(lock(&visits.open).len(), VISITS_MAX / CLIENT_PART);
        assert!(visits.find(&first, &one, None).is_some(), "it is being answered");
        assert!(visits.find(&second, &one, None).is_none(), "it was silent for the longest time");
        assert!(visits.find(others.last().unwrap(), &one, None).is_some());
        assert!(take(&other).is_some());
        drop(running);
    }
}
