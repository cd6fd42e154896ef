//! Decides what of the configured servers is shared by all sessions: one connection each, one list
//! each, and one word about what is new.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{BoxFuture, FutureExt, Shared, join_all, ready};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use toolgate_http::Transport;
use toolgate_kernel::names::ServerName;
use toolgate_kernel::redact::Redactor;

use super::call::{self, Answered, RemoteCall};
use super::fault::{CallFault, ServerFault};
use super::form::Respondent;
use super::listing::Listed;
use super::plan::ServerPlan;
use super::seat::{Health, Pace, Seat};
use super::secrets;
use super::switch::Signal;

/// All configured servers. Dropping it ends their programs at once; [`Registry::close`] lets them
/// leave first.
pub struct Registry {
    seats: BTreeMap<ServerName, Arc<Seat>>,
    http: Arc<Transport>,
    version: Arc<AtomicU64>,
    /// Servers that are asked for their lists, whoever waits for it.
    asking: Mutex<BTreeMap<ServerName, AbortHandle>>,
}

/// The list of a server that is being asked for. Whoever gives up the wait ends nothing.
pub(crate) type Asking = Shared<BoxFuture<'static, Result<Arc<Listed>, ServerFault>>>;

impl Registry {
    /// The servers of these plans. None is connected to before it is needed.
    pub fn new(plans: Vec<ServerPlan>, http: Arc<Transport>) -> Self {
        Self::with_redactor(plans, http, &Redactor::default())
    }

    /// The same with a redactor that others use too. The secrets of the servers are added to it.
    pub fn with_redactor(
        plans: Vec<ServerPlan>,
        http: Arc<Transport>,
        redactor: &Redactor,
    ) -> Self {
        let version = Arc::new(AtomicU64::new(0));
        let seat = |plan: ServerPlan| {
            let signal = Signal { version: Arc::clone(&version), ..Signal::default() };
            (plan.name.clone(), Arc::new(Seat::new(plan, Arc::new(signal), redactor.clone())))
        };
        let seats = plans.into_iter().map(seat).collect();
        Self { seats, http, version, asking: Mutex::default() }
    }

    /// Lets somebody answer the servers' questions to a person, which are refused otherwise. It
    /// holds for connections that are made from now on.
    #[must_use]
    pub fn answered_by(mut self, respondent: &Arc<dyn Respondent>) -> Self {
        for seat in self.seats.values_mut().filter_map(Arc::get_mut) {
            seat.answered_by(Arc::clone(respondent));
        }
        self
    }

    /// The names of all servers, in order.
    pub fn servers(&self) -> impl Iterator<Item = &ServerName> {
        self.seats.keys()
    }

    /// A number that is another one when a list changed, or a server went or came back. Whoever
    /// keeps tools compares it with the number from before they were asked for.
    pub fn version(&self) -> u64 {
        for seat in self.seats.values() {
            if seat.is_due() {
                self.version.fetch_add(1, Ordering::AcqRel);
            }
        }
        self.version.load(Ordering::Acquire)
    }

    /// What a server says it has. It is connected to if it is not; its list is read again only when
    /// the server says that it changed: at once, and then at most once in five seconds.
    pub async fn tools(&self, server: &ServerName) -> Result<Arc<Listed>, ServerFault> {
        self.seat(server)?.tools(&self.http, Pace::InTime).await
    }

    /// The same beside everything else: what is known is there at once, and what must be asked for is
    /// asked for whether somebody waits or not.
    pub(crate) fn ask(&self, server: &ServerName, pace: Pace) -> Asking {
        let seat = match self.seat(server) {
            Ok(seat) => Arc::clone(seat),
            Err(fault) => return ready(Err(fault)).boxed().shared(),
        };
        if let Some(known) = seat.at_hand() {
            return ready(Ok(known)).boxed().shared();
        }
        let http = Arc::clone(&self.http);
        let task = tokio::spawn(async move { seat.tools(&http, pace).await });
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        asking.insert(server.clone(), task.abort_handle());
        async { task.await.unwrap_or(Err(ServerFault::Closed)) }.boxed().shared()
    }

    /// Nobody is asked any more.
    fn stop_asking(&self) {
        let asking =
            std::mem::take(&mut *self.asking.lock().unwrap_or_else(PoisonError::into_inner));
        asking.values().for_each(AbortHandle::abort);
    }

    /// Calls a tool of a server. Nothing the server says extends the deadline, and a call is sent
    /// at most once: one that certainly did not arrive is sent anew, once.
    pub async fn call(
        &self,
        server: &ServerName,
        asked: RemoteCall<'_>,
        deadline: Instant,
    ) -> Result<Answered, CallFault> {
        let seat = self.seat(server).map_err(CallFault::NotSent)?;
        let ms = seat.plan.call_ms_max;
        let deadline = deadline.min(toolgate_http::after(tokio::time::Instant::now(), ms));
        match self.attempt(seat, asked, deadline).await {
            Err(CallFault::NotSent(ServerFault::Failed { failures, last })) => {
                Err(CallFault::NotSent(ServerFault::Failed { failures, last }))
            }
            // Only a person, or time, changes this.
            Err(CallFault::NotSent(
                fault @ (ServerFault::WantsLogin { .. }
                | ServerFault::WantsMore { .. }
                | ServerFault::Unauthorized { .. }
                | ServerFault::Unsure { .. }),
            )) => Err(CallFault::NotSent(fault)),
            Err(CallFault::NotSent(_)) => Box::pin(self.attempt(seat, asked, deadline)).await,
            other => other,
        }
    }

    async fn attempt(
        &self,
        seat: &Seat,
        asked: RemoteCall<'_>,
        deadline: Instant,
    ) -> Result<Answered, CallFault> {
        let connecting = seat.connection(&self.http, Pace::InTime, deadline);
        let connection = connecting.await.map_err(CallFault::NotSent)?;
        if let Some(known) = asked.known {
            let looking = Box::pin(seat.is_still(&connection, known, deadline));
            if !looking.await.map_err(CallFault::NotSent)? {
                return Err(CallFault::Changed);
            }
        }
        let answered = call::call(&connection, asked, deadline).await;
        match &answered {
            Ok(_) => seat.served(),
            Err(_) if connection.switch.gone().is_some() => seat.tidy().await,
            Err(_) => {}
        }
        let answered = answered.map(|answer| secrets::redact_answer(seat.redactor(), answer));
        answered.map_err(|fault| secrets::redact_call_fault(seat.redactor(), fault))
    }

    /// How a server stands.
    pub fn health(&self, server: &ServerName) -> Result<Health, ServerFault> {
        Ok(self.seat(server)?.health())
    }

    /// What the program of a server wrote to its error output: the last of it.
    pub async fn words(&self, server: &ServerName) -> Option<String> {
        self.seat(server).ok()?.words().await
    }

    /// How much a server said that nobody wanted: lines that are no messages, answers to nothing,
    /// and notifications or requests that were not heard.
    pub async fn counts(&self, server: &ServerName) -> Option<[u64; 3]> {
        self.seat(server).ok()?.counts().await
    }

    /// Lets a server that failed too often be tried again, because a person says so.
    pub async fn revive(&self, server: &ServerName) -> Result<(), ServerFault> {
        self.seat(server)?.revive().await;
        Ok(())
    }

    /// Ends all connections; the programs and all that they started are gone within five seconds.
    pub async fn close(&self) {
        self.stop_asking();
        join_all(self.seats.values().map(|seat| seat.close())).await;
    }

    fn seat(&self, server: &ServerName) -> Result<&Arc<Seat>, ServerFault> {
        self.seats.get(server).ok_or(ServerFault::Unknown)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop_asking();
    }
}
