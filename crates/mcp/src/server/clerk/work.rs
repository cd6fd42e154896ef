//! Decides how the session is driven for its callers, and what becomes of their calls when the driver
//! stops.

use std::sync::{Arc, PoisonError};

use tokio::sync::watch;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::fold::Session;
use toolgate_runtime::port::StoreFault;
use toolgate_runtime::{Crew, DriveFault, Driver, Runtime};

use super::floor::{AtWork, Calls, ClerkFloor, Open, first, lock};
use super::{Job, Latest, Switch, View, busy, delivery, lost, view_of};
use crate::server::queue::QueueOut;
use crate::server::user::Users;

/// What everybody may see.
#[derive(Clone)]
pub(super) struct Shown {
    pub(super) view: watch::Sender<View>,
    pub(super) latest: Latest,
}

impl Shown {
    pub(super) fn show(&self, session: &Arc<Session>, agent: &Arc<Agent>) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        // Those who are answered together are shown the same.
        if !Arc::ptr_eq(&latest, session) {
            *latest = Arc::clone(session);
        }
        drop(latest);
        self.view.send_if_modified(|view| {
            let same = Arc::ptr_eq(&view.agent, agent)
                && Arc::ptr_eq(&view.supplied, &session.supplied)
                && view.phase == session.phase
                && view.ended == session.ended.is_some();
            if !same {
                *view = view_of(session, agent);
            }
            !same
        });
    }
}

/// The session, in the hands of the one that drives it.
pub(super) struct Work {
    pub(super) runtime: Arc<Runtime>,
    pub(super) crew: Crew,
    pub(super) driver: Driver,
    pub(super) shown: Shown,
    pub(super) open: Open,
    pub(super) queue: QueueOut<Job>,
    pub(super) users: Arc<Users>,
    pub(super) cancel: Switch,
}

impl Work {
    pub(super) async fn run(mut self) {
        while self.queue.0.look().await {
            let (batch, ready) = first(self.driver.agent(), &self.queue.0);
            self.calls(batch).await;
            if let Some(phases) = ready {
                match self.driver.make_ready(&phases).await {
                    Ok(()) | Err(DriveFault::Ended) => {}
                    Err(_) => drop(self.resume().await),
                }
                self.show();
            }
        }
    }

    /// Brings calls to their end as one batch. Each is answered as soon as it is in the log.
    async fn calls(&mut self, batch: Vec<AtWork>) {
        if batch.is_empty() {
            return;
        }
        let mut left = batch;
        // Once after a takeover, and once more is enough.
        for _ in 0..2 {
            let before = self.driver.durable_tip();
            let incoming = {
                let mut open = lock(&self.open);
                *open = Calls::default();
                left.into_iter().map(|begun| open.let_in(begun)).collect()
            };
            let (open, queue) = (Arc::clone(&self.open), Arc::clone(&self.queue.0));
            let (shown, users) = (self.shown.clone(), Arc::clone(&self.users));
            let floor = Box::new(ClerkFloor { open, queue, shown, users });
            let outcome = self.driver.calls(incoming, floor).await;
            self.users.clear();
            self.show();
            let Calls { let_in, by_id, .. } = std::mem::take(&mut *lock(&self.open));
            let received = by_id.into_values();
            let waiting: Vec<AtWork> = let_in.into_values().collect();
            let fault = match outcome {
                Ok(()) => return,
                Err(DriveFault::Ended) => {
                    let left = received.chain(waiting).collect();
                    return self.refuse(left, "The session has ended; nothing can be called.");
                }
                Err(fault) => fault,
            };
            let untouched = self.driver.durable_tip() == before;
            let resumed = self.resume().await;
            // Whoever took the session over wrote first, so nothing of these calls was begun.
            let fenced = matches!(fault, DriveFault::Store(StoreFault::Fenced { .. }));
            let outrun = untouched && (fenced || matches!(fault, DriveFault::Stopped));
            if resumed && outrun {
                left = received.chain(waiting).collect();
                continue;
            }
            for begun in received {
                let envelope = lost(&begun.order.name, &fault);
                begun.answer(delivery(self.driver.agent(), envelope));
            }
            let message = format!("The log could not be written ({fault}). Nothing of it ran.");
            return self.refuse(waiting, &message);
        }
        self.refuse(left, "Somebody else drives this session. Nothing of the call ran.");
    }

    fn refuse(&self, left: Vec<AtWork>, message: &str) {
        for begun in left {
            let envelope = busy(&begun.order.name, message);
            begun.answer(delivery(self.driver.agent(), envelope));
        }
    }

    /// Takes the session up again after its driver was stopped.
    async fn resume(&mut self) -> bool {
        let (runtime, crew) = (Arc::clone(&self.runtime), self.crew.clone());
        match Driver::resume(runtime, crew, self.driver.session().id.clone()).await {
            Ok(driver) => {
                self.is_driven_by(driver);
                self.driver.settle_open().await.is_ok()
            }
            // The next call tries again.
            Err(_) => false,
        }
    }

    /// A new driver is stopped if the old one was.
    fn is_driven_by(&mut self, driver: Driver) {
        let mut cancel = self.cancel.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *cancel, driver.cancel()).is_cancelled() {
            cancel.cancel();
        }
        drop(cancel);
        self.driver = driver;
    }

    fn show(&self) {
        self.shown.show(&self.driver.session(), self.driver.agent());
    }
}
