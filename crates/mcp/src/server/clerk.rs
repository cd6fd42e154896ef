//! Decides how many callers share one session: their calls queue, and what waited is a batch.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::envelope::{Code, Envelope, Trouble};
use toolgate_kernel::fold::{Project, Session};
use toolgate_kernel::names::{CallId, PhaseName};
use toolgate_runtime::port::StoreFault;
use toolgate_runtime::{Crew, DriveFault, Driver, Runtime};

/// Calls that wait for their turn. Whoever comes later is told to try again.
const QUEUE_MAX: usize = 256;

/// Calls of one batch.
const BATCH_MAX: usize = 32;

/// How long a call may wait for its turn.
const QUEUE_WAIT: Duration = Duration::from_secs(60);

/// A call on its way to the session.
pub struct Order {
    /// Who calls.
    pub actor: Actor,
    /// The tool, as it was named.
    pub name: String,
    /// The arguments, as they were written.
    pub args: String,
    /// The caller's own name for the call.
    pub alias: Option<String>,
    /// The only phase in which the caller may act.
    pub phase: Option<PhaseName>,
}

/// What every caller may know of the session without waiting.
#[derive(Clone)]
pub struct View {
    /// The agent.
    pub agent: Arc<Agent>,
    /// The phase the session is in.
    pub phase: Option<PhaseName>,
    /// Whether it has ended.
    pub ended: bool,
}

const WAITING: u8 = 0;
const BEGUN: u8 = 1;
const CANCELLED: u8 = 2;

/// Whether a call may still be taken back.
#[derive(Clone, Default)]
struct Turn(Arc<AtomicU8>);

impl Turn {
    fn begin(&self) -> bool {
        self.0.compare_exchange(WAITING, BEGUN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn cancel(&self) -> bool {
        self.0.compare_exchange(WAITING, CANCELLED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A call that nobody waits for any more is taken back if it has not begun.
struct Waiting(Turn);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

enum Job {
    Call {
        order: Order,
        turn: Turn,
        beat: Option<mpsc::Sender<()>>,
        reply: oneshot::Sender<Envelope>,
    },
    Look(oneshot::Sender<(Arc<Session>, Arc<Project>)>),
}

/// The way to a session for many callers. It is driven by [`Clerk::begin`]'s future.
#[derive(Clone)]
pub struct Clerk {
    jobs: mpsc::Sender<Job>,
    view: watch::Receiver<View>,
}

type Beats = Arc<Mutex<BTreeMap<CallId, mpsc::Sender<()>>>>;

impl Clerk {
    /// Makes a clerk, and the work that somebody must drive. The session is taken up with `crew`
    /// whenever its driver was stopped.
    pub async fn begin<F>(
        runtime: Arc<Runtime>,
        mut crew: Crew,
        open: F,
    ) -> Result<(Self, impl Future<Output = ()> + Send), toolgate_runtime::OpenFault>
    where
        F: AsyncFnOnce(Arc<Runtime>, Crew) -> Result<Driver, toolgate_runtime::OpenFault>,
    {
        let beats = Beats::default();
        let heard = Arc::clone(&beats);
        crew.heartbeat = Arc::new(move |call| {
            let beats = heard.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(beat) = beats.get(&call) {
                // Whoever does not listen has heard enough.
                let _full = beat.try_send(());
            }
        });
        let driver = open(Arc::clone(&runtime), crew.clone()).await?;
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        let (shown, view) = watch::channel(view_of(&driver));
        let desk = Work { runtime, crew, driver, shown, beats };
        Ok((Self { jobs, view }, desk.run(queue)))
    }

    /// How the session looks now.
    pub fn view(&self) -> View {
        self.view.borrow().clone()
    }

    /// Wakes whenever the view changed.
    pub fn watch(&self) -> watch::Receiver<View> {
        self.view.clone()
    }

    /// Makes a call through the whole gate. Dropping this takes back a call that has not begun.
    pub async fn call(&self, order: Order, beat: Option<mpsc::Sender<()>>) -> Envelope {
        let (reply, answer) = oneshot::channel();
        let (turn, name) = (Turn::default(), order.name.clone());
        let _waiting = Waiting(turn.clone());
        let job = Job::Call { order, turn: turn.clone(), beat, reply };
        if self.jobs.try_send(job).is_err() {
            return busy(&name, "Too many calls are waiting. Try again in a moment.");
        }
        let mut answer = std::pin::pin!(answer);
        let answered = match tokio::time::timeout(QUEUE_WAIT, answer.as_mut()).await {
            Ok(answered) => answered,
            Err(_) if turn.cancel() => {
                return busy(&name, "The call did not get its turn in time. Nothing of it ran.");
            }
            // It runs, and running has a deadline of its own.
            Err(_) => answer.await,
        };
        answered.unwrap_or_else(|_| busy(&name, "The server is stopping. Nothing of it ran."))
    }

    /// The session and the project as they are now.
    pub async fn look(&self) -> Option<(Arc<Session>, Arc<Project>)> {
        let (reply, answer) = oneshot::channel();
        self.jobs.try_send(Job::Look(reply)).ok()?;
        tokio::time::timeout(QUEUE_WAIT, answer).await.ok()?.ok()
    }
}

fn busy(tool: &str, message: &str) -> Envelope {
    Envelope::trouble(tool, vec![Trouble::new(Code::CALL_CANCELLED, message)])
}

fn view_of(driver: &Driver) -> View {
    let session = driver.session();
    let (phase, ended) = (session.phase.clone(), session.ended.is_some());
    View { agent: Arc::clone(driver.agent()), phase, ended }
}

/// The session, in the hands of the one that drives it.
struct Work {
    runtime: Arc<Runtime>,
    crew: Crew,
    driver: Driver,
    shown: watch::Sender<View>,
    beats: Beats,
}

impl Work {
    async fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        let mut jobs = Vec::with_capacity(BATCH_MAX);
        while queue.recv_many(&mut jobs, BATCH_MAX).await > 0 {
            for job in jobs.drain(..) {
                match job {
                    Job::Look(reply) => {
                        drop(reply.send((self.driver.session(), self.driver.project())));
                    }
                    Job::Call { order, turn, beat, reply } => {
                        if turn.begin() {
                            let envelope = self.call(order, beat).await;
                            // The caller may be gone; the log has the answer.
                            drop(reply.send(envelope));
                        }
                    }
                }
            }
            self.show();
        }
    }

    async fn call(&mut self, order: Order, beat: Option<mpsc::Sender<()>>) -> Envelope {
        // Once after a takeover, and once more is enough.
        for _ in 0..2 {
            let id = CallId(self.driver.session().next_call);
            if let Some(refused) = self.out_of_phase(&order) {
                return refused;
            }
            if let Some(beat) = &beat {
                self.beats().insert(id, beat.clone());
            }
            let before = self.driver.durable_tip();
            let Order { actor, name, args, alias, .. } = &order;
            let outcome = self.driver.call(actor, name, args, alias.as_deref()).await;
            self.beats().remove(&id);
            let fault = match outcome {
                Ok(envelope) => return envelope,
                Err(DriveFault::Ended) => {
                    return busy(name, "The session has ended. Nothing can be called in it.");
                }
                Err(fault) => fault,
            };
            let untouched = self.driver.durable_tip() == before;
            let resumed = self.resume().await;
            // Whoever took the session over wrote first, so nothing of this call was begun.
            let outrun = untouched && matches!(fault, DriveFault::Store(StoreFault::Fenced { .. }));
            if !(resumed && outrun) {
                return lost(name, &fault);
            }
        }
        busy(&order.name, "Somebody else drives this session. Nothing of the call ran.")
    }

    /// A caller that is bound to a phase acts in that phase and in no other.
    fn out_of_phase(&self, order: &Order) -> Option<Envelope> {
        let own = order.phase.as_ref()?;
        let session = self.driver.session();
        if session.phase.as_ref() == Some(own) {
            return None;
        }
        let now = session.phase.as_ref().map_or("none", |phase| phase.as_str());
        let message = format!(
            "This access is for phase {own}, and the session is in phase {now}. \
             Nothing can be called until it is in {own}."
        );
        let trouble = Trouble::new(Code::TOOL_NOT_GRANTED, message).allowing(Vec::new());
        Some(Envelope::trouble(&order.name, vec![trouble]))
    }

    /// Takes the session up again after its driver was stopped.
    async fn resume(&mut self) -> bool {
        let (runtime, crew) = (Arc::clone(&self.runtime), self.crew.clone());
        match Driver::resume(runtime, crew, self.driver.session().id.clone()).await {
            Ok(driver) => {
                self.driver = driver;
                self.driver.settle_open().await.is_ok()
            }
            // The next call tries again.
            Err(_) => false,
        }
    }

    fn beats(&self) -> std::sync::MutexGuard<'_, BTreeMap<CallId, mpsc::Sender<()>>> {
        self.beats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self) {
        self.shown.send_if_modified(|shown| {
            let now = view_of(&self.driver);
            let same = Arc::ptr_eq(&shown.agent, &now.agent)
                && shown.phase == now.phase
                && shown.ended == now.ended;
            *shown = now;
            !same
        });
    }
}

/// What is said of a call that the log could not follow.
fn lost(tool: &str, fault: &DriveFault) -> Envelope {
    let message = format!(
        "The log could not be written ({fault}). The call may or may not have taken effect; \
         look before you repeat it."
    );
    Envelope::trouble(tool, vec![Trouble::new(Code::OUTCOME_UNKNOWN, message)])
}
