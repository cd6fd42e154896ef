//! Decides how the session is driven for its callers, and what becomes of their calls when the driver
//! stops.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use tokio::sync::watch;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::fold::{Progress, Session};
use toolgate_kernel::names::CallId;
use toolgate_kernel::tool::Effect;
use toolgate_runtime::port::StoreFault;
use toolgate_runtime::{Answered, Crew, DriveFault, Driver, OpenFault};

use super::floor::{AtWork, Calls, ClerkFloor, Open, first, lock};
use super::{Delivery, Job, Latest, Switch, TAKEN_OVER, View, busy, delivery, lost, view_of};
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
    pub(super) crew: Crew,
    pub(super) driver: Driver,
    pub(super) shown: Shown,
    pub(super) open: Open,
    pub(super) queue: QueueOut<Job>,
    pub(super) users: Arc<Users>,
    pub(super) cancel: Switch,
    pub(super) taken_over: Arc<AtomicBool>,
    /// Whether somebody is served. It is gone with the work.
    pub(super) at_work: watch::Sender<bool>,
}

/// What is said of a call at work when somebody else takes the session over.
const LOST_TO_ANOTHER: &str =
    "Another process took this session over, and this server is stopping.";

/// The same of one that changed nothing: what a call at work changes here is not kept before it is
/// settled.
const CUT_BY_ANOTHER: &str = "Another process took this session over, and this server is stopping. \
                              The call was cut off and changed nothing: make it again.";

/// How far a call came before its driver was stopped.
enum Reached {
    /// It was not admitted, so nothing of it ran.
    Nothing,
    /// It may have been at work, and has not reached the world.
    NoChange,
    /// It may have reached the world.
    World,
}

impl Reached {
    fn of(session: &Session, call: CallId, effect: Option<Effect>) -> Self {
        match session.open.get(&call).map(|open| &open.progress) {
            // It came to an end that is not in the log, as what is cut off does.
            None if effect == Some(Effect::Read) => Self::NoChange,
            Some(Progress::Started(_)) | None => Self::World,
            Some(Progress::Admitted(_)) => Self::NoChange,
            Some(Progress::Received | Progress::Asked { .. } | Progress::Answered { .. }) => {
                Self::Nothing
            }
        }
    }
}

fn unwritten(fault: &DriveFault) -> String {
    format!("The log could not be written ({fault}).")
}

/// What came of calls that were open when the driver was stopped, as the log has it.
type Settled = BTreeMap<CallId, Answered>;

/// Whether the session can be driven on after its driver was stopped.
enum Resumed {
    Yes(Settled),
    /// The next call tries again.
    NotNow,
    /// Somebody else took it over.
    TakenOver(StoreFault),
}

impl Work {
    /// Drives the session until nobody comes any more, or somebody else takes it over.
    pub(super) async fn run(mut self) -> Result<(), StoreFault> {
        self.take_up().await?;
        while self.queue.0.look().await {
            // Said before anybody begins, so that nobody who asks finds it at rest too early.
            self.at_work.send_replace(true);
            self.serve().await?;
            self.at_work.send_replace(false);
        }
        Ok(())
    }

    /// Brings to an end what was left open when the session was driven last. That may take a while,
    /// and who only looks does not wait for it.
    async fn take_up(&mut self) -> Result<(), StoreFault> {
        if self.driver.session().open.is_empty() {
            return Ok(());
        }
        self.at_work.send_replace(true);
        if self.driver.settle_forsaken_but_unsent().await.is_err()
            && let Resumed::TakenOver(fault) = self.resume().await
        {
            return Err(fault);
        }
        self.show();
        if !self.driver.unsent().is_empty() {
            self.calls_together(Vec::new()).await?;
        }
        self.at_work.send_replace(false);
        Ok(())
    }

    /// Serves those who are next, and all who join them.
    async fn serve(&mut self) -> Result<(), StoreFault> {
        let (batch, ready) = first(self.driver.agent(), &self.queue.0);
        self.calls(batch).await?;
        let Some(phases) = ready else { return Ok(()) };
        match self.driver.make_ready(&phases).await {
            Ok(()) | Err(DriveFault::Ended) => {}
            Err(_) => {
                if let Resumed::TakenOver(fault) = self.resume().await {
                    return Err(fault);
                }
            }
        }
        self.show();
        Ok(())
    }

    /// Brings calls to their end as one batch. Each is answered as soon as it is in the log.
    async fn calls(&mut self, batch: Vec<AtWork>) -> Result<(), StoreFault> {
        if batch.is_empty() {
            return Ok(());
        }
        self.calls_together(batch).await
    }

    /// The same, also where nobody calls yet and something has to be sent again.
    async fn calls_together(&mut self, batch: Vec<AtWork>) -> Result<(), StoreFault> {
        let mut left = batch;
        // Once after somebody was cut off, and once more is enough.
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
            let (received, waiting): (_, Vec<AtWork>) = (by_id, let_in.into_values().collect());
            let fault = match outcome {
                Ok(()) => return Ok(()),
                Err(DriveFault::Ended) => {
                    let left = received.into_values().chain(waiting).collect();
                    self.refuse(left, "The session has ended; nothing can be called.");
                    return Ok(());
                }
                Err(fault) => fault,
            };
            // Then the log has nothing of these calls, so nothing of them was begun.
            let untouched = self.driver.durable_tip() == before;
            let stopped_at = self.driver.session();
            let mut settled = match self.resume().await {
                Resumed::TakenOver(fault) => {
                    for (call, one) in received {
                        let tool = &one.order.name;
                        let tools = &self.driver.agent().toolset;
                        let entry = tools.find(tool).and_then(|at| tools.entries().get(at));
                        let effect = entry.map(|entry| entry.spec.effect);
                        let told = match Reached::of(&stopped_at, call, effect) {
                            _ if untouched => busy(tool, TAKEN_OVER),
                            Reached::Nothing => busy(tool, TAKEN_OVER),
                            Reached::NoChange => busy(tool, CUT_BY_ANOTHER),
                            Reached::World => lost(tool, LOST_TO_ANOTHER),
                        };
                        one.answer(delivery(self.driver.agent(), told));
                    }
                    self.refuse(waiting, TAKEN_OVER);
                    return Err(fault);
                }
                Resumed::Yes(_) if untouched && matches!(fault, DriveFault::Stopped) => {
                    left = received.into_values().chain(waiting).collect();
                    continue;
                }
                Resumed::Yes(settled) => settled,
                Resumed::NotNow => Settled::new(),
            };
            for (call, begun) in received {
                let agent = Arc::clone(self.driver.agent());
                let delivered = match settled.remove(&call) {
                    // Whoever still waits is told what the log says.
                    Some(answered) => {
                        Delivery { answered, agent, who: self.driver.session().agent.clone() }
                    }
                    None => delivery(&agent, lost(&begun.order.name, &unwritten(&fault))),
                };
                begun.answer(delivered);
            }
            self.refuse(waiting, &format!("{} Nothing of it ran.", unwritten(&fault)));
            return Ok(());
        }
        self.refuse(left, "The session could not be taken up again. Nothing of the call ran.");
        Ok(())
    }

    fn refuse(&self, left: Vec<AtWork>, message: &str) {
        for begun in left {
            let envelope = busy(&begun.order.name, message);
            begun.answer(delivery(self.driver.agent(), envelope));
        }
    }

    /// Takes the session up again after its driver was stopped. Whoever was fenced stays so.
    async fn resume(&mut self) -> Resumed {
        let settled = match self.driver.resume_own(self.crew.clone()).await {
            Ok(driver) => {
                self.is_driven_by(driver);
                self.driver.settle_forsaken().await
            }
            Err(OpenFault::Store(fault) | OpenFault::Drive(DriveFault::Store(fault))) => {
                Err(DriveFault::Store(fault))
            }
            Err(_) => return Resumed::NotNow,
        };
        match settled {
            Ok(settled) => Resumed::Yes(settled.into_iter().collect()),
            Err(DriveFault::Store(fault @ StoreFault::Fenced { .. })) => {
                // Whoever waits from now on is told so too.
                self.taken_over.store(true, Ordering::Release);
                Resumed::TakenOver(fault)
            }
            Err(_) => Resumed::NotNow,
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
