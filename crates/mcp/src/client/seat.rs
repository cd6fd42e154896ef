//! Decides when a server is connected to, tried again, or left alone, and when its list is read
//! again.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use toolgate_http::{Transport, after};
use toolgate_kernel::redact::Redactor;

use super::connection::Connection;
use super::fault::ServerFault;
use super::form::Respondent;
use super::guest::Guest;
use super::listing::{self, Found, Listed};
use super::open::{Side, open};
use super::plan::ServerPlan;
use super::secrets;
use super::switch::Signal;

/// Milliseconds for a list of tools.
const LIST_MS_MAX: u64 = 30_000;

/// A connection that lasted so long was no failure, however it ended.
const LASTING: Duration = Duration::from_secs(30);

/// One server, as all sessions share it.
pub(super) struct Seat {
    pub(super) plan: ServerPlan,
    side: Side,
    state: tokio::sync::Mutex<State>,
    /// Failures in a row.
    failures: AtomicU32,
    /// Whether the list must be read again before it is given out.
    stale: AtomicBool,
    list: Mutex<Option<Reading>>,
    /// When the list was last read because the server said that it changed.
    refreshed: Mutex<Option<Instant>>,
    /// When a server that failed may be tried again, so that whoever looks for news does.
    retry: Mutex<Option<Instant>>,
    /// Only one reads the list at a time.
    reading: tokio::sync::Mutex<()>,
    /// Whether it is let go, for whoever is about to connect.
    closing: watch::Sender<bool>,
}

/// A list, and when it was asked for.
#[derive(Clone)]
struct Reading {
    listed: Arc<Listed>,
    began: Instant,
}

#[derive(Default)]
struct State {
    connection: Option<(Arc<Connection>, Instant)>,
    again: Option<Instant>,
    last: Option<ServerFault>,
    closed: bool,
}

/// When a server that failed is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// After a while, which grows; a failure counts.
    InTime,
    /// Now, for a call that has to be sent again; however often that fails, it counts as one failure.
    AtOnce,
}

/// How a server stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Nobody needed it yet.
    Idle,
    /// It is connected.
    Connected,
    /// It failed, and will be tried again.
    Resting(ServerFault),
    /// It failed too often.
    Failed(ServerFault),
    /// It is being connected to, or let go.
    Busy,
}

impl Seat {
    pub(super) fn new(plan: ServerPlan, signal: Arc<Signal>, redactor: Redactor) -> Self {
        let (server, answer_ms_max) = (plan.name.clone(), plan.call_ms_max);
        let guest = Guest { answerer: None, server, answer_ms_max };
        secrets::register(&plan.reach, &redactor);
        Self {
            plan,
            side: Side { signal, guest, redactor },
            state: tokio::sync::Mutex::default(),
            failures: AtomicU32::new(0),
            stale: AtomicBool::new(true),
            list: Mutex::default(),
            refreshed: Mutex::default(),
            retry: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
            closing: watch::Sender::new(false),
        }
    }

    /// Removes secrets from what the server says.
    pub(super) fn redactor(&self) -> &Redactor {
        &self.side.redactor
    }

    /// Lets somebody answer the questions of the server to a person.
    pub(super) fn answered_by(&mut self, respondent: Arc<dyn Respondent>) {
        self.side.guest.answerer = Some(respondent);
    }

    /// The connection, made now if there is none.
    pub(super) async fn connection(
        &self,
        http: &Transport,
        pace: Pace,
        deadline: Instant,
    ) -> Result<Arc<Connection>, ServerFault> {
        let late = |_| self.plan.late();
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(_) => tokio::time::timeout_at(deadline, self.state.lock()).await.map_err(late)?,
        };
        if state.closed {
            return Err(ServerFault::Closed);
        }
        if let Some((connection, _)) = &state.connection {
            match connection.switch.gone() {
                None => return Ok(Arc::clone(connection)),
                Some(fault) => {
                    let fault = fault.clone();
                    self.vanished(&mut state, fault);
                }
            }
        }
        if pace == Pace::InTime {
            self.unless_closed(self.rest(&state, deadline)).await?;
        }
        // It is large and rare, so that no call should have room for it.
        let opening = Box::pin(async {
            let opened =
                tokio::time::timeout_at(deadline, open(&self.plan, http, &self.side)).await;
            opened.unwrap_or_else(|_| Err(self.plan.late()))
        });
        match self.unless_closed(opening).await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                state.connection = Some((Arc::clone(&connection), tokio::time::Instant::now()));
                *self.retry.lock().unwrap_or_else(PoisonError::into_inner) = None;
                self.stale.store(true, Ordering::Release);
                self.side.signal.version.fetch_add(1, Ordering::AcqRel);
                Ok(connection)
            }
            Err(fault) => {
                let fault = secrets::redact_server_fault(self.redactor(), fault);
                self.failed(&mut state, pace, fault.clone());
                Err(fault)
            }
        }
    }

    /// Works, unless the server is let go meanwhile: then the work is dropped, and what it started
    /// ends.
    async fn unless_closed<T>(
        &self,
        work: impl Future<Output = Result<T, ServerFault>>,
    ) -> Result<T, ServerFault> {
        let mut closing = self.closing.subscribe();
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => Err(ServerFault::Closed),
            done = work => done,
        }
    }

    /// Waits until the server may be tried again, if that is soon enough.
    async fn rest(&self, state: &State, deadline: Instant) -> Result<(), ServerFault> {
        let failures = self.failures.load(Ordering::Acquire);
        let last = || state.last.clone().unwrap_or(ServerFault::Closed);
        let many = failures >= self.plan.bounds.failures_max;
        match state.again {
            Some(again) if many && again > tokio::time::Instant::now() => {
                Err(ServerFault::Failed { failures, last: Box::new(last()) })
            }
            Some(again) if again > deadline => Err(last()),
            Some(again) => {
                tokio::time::sleep_until(again).await;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The connection is gone: what is left of it is cleared away, and it counts as a failure
    /// unless it lasted.
    fn vanished(&self, state: &mut State, fault: ServerFault) {
        let Some((old, since)) = state.connection.take() else { return };
        if since.elapsed() >= LASTING {
            self.failures.store(0, Ordering::Release);
        }
        self.failed(state, Pace::InTime, fault);
        // Ending a program takes seconds, and whoever asks next does not wait for it.
        tokio::spawn(async move { old.close().await });
    }

    fn failed(&self, state: &mut State, pace: Pace, fault: ServerFault) {
        state.last = Some(fault);
        let now = tokio::time::Instant::now();
        let failures = match pace {
            Pace::InTime => self.failures.fetch_add(1, Ordering::AcqRel).saturating_add(1),
            // Those who wait for their time go on waiting as they did.
            Pace::AtOnce if state.again.is_some_and(|again| again > now) => return,
            Pace::AtOnce => self.failures.fetch_max(1, Ordering::AcqRel).max(1),
        };
        let factor = 1_u64 << failures.saturating_sub(1).min(16);
        let bounds = &self.plan.bounds;
        let many = failures >= bounds.failures_max;
        let ms = if many { bounds.left_ms } else { bounds.backoff_ms.saturating_mul(factor) };
        let again = after(now, ms);
        state.again = Some(again);
        *self.retry.lock().unwrap_or_else(PoisonError::into_inner) = Some(again);
    }

    /// A tool of the server answered: whatever failed before is forgotten.
    pub(super) fn served(&self) {
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Release);
        }
    }

    /// Clears a connection away that is gone.
    pub(super) async fn tidy(&self) {
        let mut state = self.state.lock().await;
        let gone = state.connection.as_ref().and_then(|(old, _)| old.switch.gone().cloned());
        if let Some(fault) = gone {
            self.vanished(&mut state, fault);
        }
    }

    /// Whether there is something new to be asked for: a server that failed may be tried again, or
    /// its word that its list changed is due.
    pub(super) fn is_due(&self) -> bool {
        let now = tokio::time::Instant::now();
        let retry = {
            let mut retry = self.retry.lock().unwrap_or_else(PoisonError::into_inner);
            retry.take_if(|again| *again <= now).is_some()
        };
        self.is_changed(now) || retry
    }

    /// Whether the list must be read again now: the server says that it changed, and the last reading
    /// for that reason is long enough ago. The first change is never made to wait.
    fn is_changed(&self, now: Instant) -> bool {
        let changed = self.side.signal.changed.load(Ordering::Acquire);
        if !changed || self.due().is_some_and(|due| now < due) {
            return false;
        }
        // In this order: whoever sees no change any more sees that the list is stale.
        self.stale.store(true, Ordering::Release);
        self.side.signal.changed.store(false, Ordering::Release);
        *self.refreshed.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        true
    }

    /// From when on the list may be read because of a change; at once where it never was.
    fn due(&self) -> Option<Instant> {
        let last = *self.refreshed.lock().unwrap_or_else(PoisonError::into_inner);
        last.map(|last| after(last, self.plan.bounds.refresh_ms_min))
    }

    /// What the server says it has: what is known, unless something is new.
    pub(super) async fn tools(
        &self,
        http: &Transport,
        pace: Pace,
    ) -> Result<Arc<Listed>, ServerFault> {
        let ms = self.plan.connect_ms_max.saturating_add(self.plan.call_ms_max);
        let deadline = after(tokio::time::Instant::now(), ms);
        let connection = self.connection(http, pace, deadline).await?;
        let words = String::new();
        let late = |_| ServerFault::TimedOut { what: "reading its list of tools", ms, words };
        let _one = tokio::time::timeout_at(deadline, self.reading.lock()).await.map_err(late)?;
        self.is_changed(tokio::time::Instant::now());
        match self.known().filter(|_| !self.stale.load(Ordering::Acquire)) {
            Some(known) => Ok(known.listed),
            None => self.read(&connection).await,
        }
    }

    /// What the server says it has, where nothing need be asked for it.
    pub(super) fn at_hand(&self) -> Option<Arc<Listed>> {
        let state = self.state.try_lock().ok()?;
        let (connection, _) = state.connection.as_ref().filter(|_| !state.closed)?;
        self.is_changed(tokio::time::Instant::now());
        if self.stale.load(Ordering::Acquire) || connection.switch.gone().is_some() {
            return None;
        }
        Some(self.known()?.listed)
    }

    fn known(&self) -> Option<Reading> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the list. Only one does so at a time.
    async fn read(&self, connection: &Connection) -> Result<Arc<Listed>, ServerFault> {
        // Less than a phase waits for all of its servers, so that one is missed and not all.
        let ms = self.plan.call_ms_max.min(LIST_MS_MAX);
        let began = tokio::time::Instant::now();
        let listed = match listing::list(connection, self.redactor(), after(began, ms)).await {
            Ok(listed) => Arc::new(listed),
            Err(fault) => {
                self.tidy().await;
                return Err(fault);
            }
        };
        let reading = Reading { listed: Arc::clone(&listed), began };
        *self.list.lock().unwrap_or_else(PoisonError::into_inner) = Some(reading);
        self.stale.store(false, Ordering::Release);
        Ok(listed)
    }

    /// Whether a tool is still what it was when it was looked at. Where the server said since that
    /// its list changed, the list is read first. That happens once in a while and no more often, so
    /// that a call may have to wait for it: it is not sent on the strength of an old list.
    pub(super) async fn is_still(
        &self,
        connection: &Connection,
        tool: &Found,
        deadline: Instant,
    ) -> Result<bool, ServerFault> {
        let is_old = || {
            self.side.signal.changed.load(Ordering::Acquire) || self.stale.load(Ordering::Acquire)
        };
        if !is_old() {
            return Ok(true);
        }
        let came = tokio::time::Instant::now();
        let unsure = |_| ServerFault::Unsure { ms: self.plan.bounds.refresh_ms_min };
        if let Some(due) = self.due().filter(|_| !self.stale.load(Ordering::Acquire)) {
            let waiting = tokio::time::sleep_until(due);
            tokio::time::timeout_at(deadline, waiting).await.map_err(unsure)?;
        }
        let one = tokio::time::timeout_at(deadline, self.reading.lock()).await.map_err(unsure)?;
        // Whoever waited for another's reading has what it found, whatever was said meanwhile.
        let fresh = self.known().filter(|known| known.began >= came || !is_old());
        let listed = match fresh {
            Some(fresh) => fresh.listed,
            None => {
                self.is_changed(tokio::time::Instant::now());
                let listed = self.read(connection).await?;
                // Whoever keeps tools must look at them again.
                self.side.signal.version.fetch_add(1, Ordering::AcqRel);
                listed
            }
        };
        drop(one);
        let mut same = listed.tools.iter().filter(|found| found.name == tool.name);
        Ok(same.next() == Some(tool) && same.next().is_none())
    }

    /// How the server stands.
    pub(super) fn health(&self) -> Health {
        let Ok(state) = self.state.try_lock() else { return Health::Busy };
        let failures = self.failures.load(Ordering::Acquire);
        let gone =
            state.connection.as_ref().map(|(connection, _)| connection.switch.gone().cloned());
        match (gone, &state.last) {
            (Some(None), _) => Health::Connected,
            (Some(Some(fault)), _) => Health::Resting(fault),
            (None, Some(fault)) if failures >= self.plan.bounds.failures_max => {
                Health::Failed(fault.clone())
            }
            (None, Some(fault)) if failures > 0 => Health::Resting(fault.clone()),
            (None, Some(_) | None) => Health::Idle,
        }
    }

    /// What a program wrote to its error output last.
    pub(super) async fn words(&self) -> Option<String> {
        let state = self.state.lock().await;
        state.connection.as_ref().and_then(|(connection, _)| connection.words())
    }

    /// What was said that nobody wanted: noise, answers to nothing, and what was not heard.
    pub(super) async fn counts(&self) -> Option<[u64; 3]> {
        let state = self.state.lock().await;
        let counts = &state.connection.as_ref()?.0.switch.counts;
        let read = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        Some([read(&counts.noise), read(&counts.unasked), read(&counts.unheard)])
    }

    /// Forgets all failures, because a person says so.
    pub(super) async fn revive(&self) {
        let mut state = self.state.lock().await;
        self.failures.store(0, Ordering::Release);
        state.again = None;
        state.last = None;
    }

    /// Ends the connection, for good.
    pub(super) async fn close(&self) {
        self.closing.send_replace(true);
        let mut state = self.state.lock().await;
        state.closed = true;
        if let Some((connection, _)) = state.connection.take() {
            connection.close().await;
        }
    }
}
