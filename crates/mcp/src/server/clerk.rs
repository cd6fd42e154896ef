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
use toolgate_kernel::tool::Effect;
use toolgate_runtime::port::{Person, StoreFault};
use toolgate_runtime::{Crew, DriveFault, Driver, Incoming, Runtime};

use super::user::{User, Users};

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
    /// The user of the caller, where one may be asked what a person must say.
    pub user: Option<User>,
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
    Ready(Vec<PhaseName>, oneshot::Sender<()>),
}

/// The way to a session for many callers. It is driven by [`Clerk::begin`]'s future.
#[derive(Clone)]
pub struct Clerk {
    jobs: mpsc::Sender<Job>,
    view: watch::Receiver<View>,
    /// Whether tools come from outside, so that they must be made ready before they are listed.
    supplied: bool,
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
        let users = Arc::new(Users::default());
        // Nobody is behind a call whose order names no user.
        crew.person.get_or_insert(Arc::clone(&users) as Arc<dyn Person>);
        let driver = open(Arc::clone(&runtime), crew.clone()).await?;
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        let (shown, view) = watch::channel(view_of(&driver));
        let supplied = crew.supplier.is_some();
        let work = Work { runtime, crew, driver, shown, beats, users };
        Ok((Self { jobs, view, supplied }, work.run(queue)))
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

    /// Makes ready the tools from outside that some phases have. Those that do not come are left
    /// out.
    pub async fn make_ready(&self, phases: Vec<PhaseName>) {
        let (reply, answer) = oneshot::channel();
        if self.supplied && self.jobs.try_send(Job::Ready(phases, reply)).is_ok() {
            drop(tokio::time::timeout(QUEUE_WAIT, answer).await);
        }
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
    users: Arc<Users>,
}

/// A call that has begun.
struct Begun {
    order: Order,
    beat: Option<mpsc::Sender<()>>,
    reply: oneshot::Sender<Envelope>,
}

impl Work {
    async fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        let mut jobs = Vec::with_capacity(BATCH_MAX);
        while queue.recv_many(&mut jobs, BATCH_MAX).await > 0 {
            let mut batch = Vec::with_capacity(jobs.len());
            for job in jobs.drain(..) {
                match job {
                    Job::Call { order, turn, beat, reply } => {
                        if !turn.begin() {
                            continue;
                        }
                        if order.phase.is_some() && self.may_move(&batch) {
                            self.calls(std::mem::take(&mut batch)).await;
                        }
                        batch.push(Begun { order, beat, reply });
                    }
                    Job::Look(reply) => {
                        self.calls(std::mem::take(&mut batch)).await;
                        let _gone = reply.send((self.driver.session(), self.driver.project()));
                    }
                    Job::Ready(phases, reply) => {
                        self.calls(std::mem::take(&mut batch)).await;
                        if self.driver.make_ready(&phases).await.is_err() {
                            self.resume().await;
                        }
                        self.show();
                        let _gone = reply.send(());
                    }
                }
            }
            self.calls(batch).await;
        }
    }

    /// Whether the phase may be another after these calls. Whoever is bound to a phase is judged
    /// when that is known.
    fn may_move(&self, batch: &[Begun]) -> bool {
        let toolset = &self.driver.agent().toolset;
        let effect = |begun: &Begun| {
            let place = toolset.find(&begun.order.name)?;
            Some(toolset.entries().get(place)?.spec.effect)
        };
        batch.iter().any(|begun| effect(begun).is_some_and(|effect| effect != Effect::Read))
    }

    /// Brings calls to their end as one batch, and answers each.
    async fn calls(&mut self, batch: Vec<Begun>) {
        if batch.is_empty() {
            return;
        }
        let answers = self.run_batch(&batch).await;
        self.show();
        for (begun, answer) in batch.into_iter().zip(answers) {
            // The caller may be gone; the log has the answer.
            let _gone = begun.reply.send(answer);
        }
    }

    async fn run_batch(&mut self, batch: &[Begun]) -> Vec<Envelope> {
        let all = |say: &dyn Fn(&str) -> Envelope| {
            batch.iter().map(|begun| say(&begun.order.name)).collect::<Vec<_>>()
        };
        // Once after a takeover, and once more is enough.
        for _ in 0..2 {
            let before = self.driver.durable_tip();
            self.listen(batch);
            let incoming = batch.iter().map(|Begun { order, .. }| Incoming {
                actor: order.actor.clone(),
                name: order.name.clone(),
                args: order.args.clone(),
                alias: order.alias.clone(),
                phase: order.phase.clone(),
            });
            let outcome = self.driver.calls(incoming.collect()).await;
            self.beats().clear();
            self.users.clear();
            let fault = match outcome {
                Ok(envelopes) => return envelopes,
                Err(DriveFault::Ended) => {
                    return all(&|name| {
                        busy(name, "The session has ended; nothing can be called.")
                    });
                }
                Err(DriveFault::Supply(fault)) => {
                    return all(&|name| busy(name, &format!("{fault}. Nothing of the call ran.")));
                }
                Err(fault) => fault,
            };
            let untouched = self.driver.durable_tip() == before;
            let resumed = self.resume().await;
            // Whoever took the session over wrote first, so nothing of these calls was begun.
            let outrun = untouched && matches!(fault, DriveFault::Store(StoreFault::Fenced { .. }));
            if !(resumed && outrun) {
                return all(&|name| lost(name, &fault));
            }
        }
        all(&|name| busy(name, "Somebody else drives this session. Nothing of the call ran."))
    }

    /// Lets those who want to know hear their calls' heartbeats, and says who is behind each.
    fn listen(&self, batch: &[Begun]) {
        let first = self.driver.session().next_call;
        let mut beats = self.beats();
        for (id, begun) in (first..).zip(batch) {
            if let Some(beat) = &begun.beat {
                beats.insert(CallId(id), beat.clone());
            }
            if let Some(user) = &begun.order.user {
                self.users.seat(CallId(id), user);
            }
        }
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
