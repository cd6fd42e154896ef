//! Decides how many callers share one session: their calls queue, and what waited is a batch. Whoever
//! only looks waits for no call.

mod floor;
mod work;

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use tokio::sync::{mpsc, oneshot, watch};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::envelope::{Code, Envelope, Trouble};
use toolgate_kernel::fold::{Project, Session, Supplied};
use toolgate_kernel::limits::Limits;
use toolgate_kernel::names::{AgentId, PhaseName};
use toolgate_runtime::port::{Person, StoreFault, Supplier, Wanted};
use toolgate_runtime::{Answered, Cancel, Crew, Driver, Runtime};

use self::floor::{AtWork, Open, lock};
use self::work::{Shown, Work};
use super::queue::{Full, Queue, QueueIn, QueueOut};
use super::user::{User, Users};

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
    /// The agent it speaks as.
    pub who: Option<AgentId>,
    /// Whether it has ended.
    pub ended: bool,
    /// What there is from outside, and what is not as it should be.
    pub supplied: Arc<Supplied>,
}

/// In the queue.
const WAITING: u8 = 0;
/// In the log, and not begun: it waits for others, or for a person.
const ENTERED: u8 = 1;
const BEGUN: u8 = 2;
const CANCELLED: u8 = 3;

/// A call's place in the queue, and whether it may still be taken back.
#[derive(Clone, Default)]
struct Ticket(Arc<AtomicU8>);

impl Ticket {
    /// Whether it was not taken back, also where it had come so far before.
    fn come_to(&self, place: u8) -> bool {
        let next = |now| (now < place).then_some(place);
        let before = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        before != Err(CANCELLED)
    }

    fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire) == CANCELLED
    }

    /// Takes it back, unless the log knows of it.
    fn cancel(&self) -> bool {
        self.0.compare_exchange(WAITING, CANCELLED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Takes it back, unless it has begun.
    fn take_back(&self) {
        let gone = |now| (now < BEGUN).then_some(CANCELLED);
        let _begun = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, gone);
    }
}

/// A call that nobody waits for any more is taken back if it has not begun.
struct Waiting(Ticket);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.take_back();
    }
}

/// What came of an order.
pub struct Delivery {
    /// What the caller is answered.
    pub answered: Answered,
    /// The agent that the call was made with.
    pub agent: Arc<Agent>,
    /// As whom the session speaks; nobody where no call was made.
    pub who: Option<AgentId>,
}

enum Job {
    Call {
        order: Order,
        ticket: Ticket,
        beat: Option<mpsc::Sender<()>>,
        reply: oneshot::Sender<Delivery>,
    },
    /// Tools from outside that were asked for, for the driver to take when it comes to it.
    Ready(Vec<PhaseName>),
}

/// The work of a clerk. It ends when nobody can call any more, or with the fault that says that
/// somebody else took the session over.
pub type Driving = BoxFuture<'static, Result<(), StoreFault>>;

/// The way to a session for many callers. It is driven by [`Clerk::begin`]'s future.
#[derive(Clone)]
pub struct Clerk {
    queue: Arc<QueueIn<Job>>,
    view: watch::Receiver<View>,
    /// The session as whoever was answered last found it. Looking at it waits for nobody.
    latest: Latest,
    runtime: Arc<Runtime>,
    /// Who brings tools from outside, which must be there before they are listed.
    supplier: Option<Arc<dyn Supplier>>,
    cancel: Switch,
    /// Whether somebody else drives the session now.
    taken_over: Arc<AtomicBool>,
    /// Whether somebody is served, also when whoever called has left.
    at_work: watch::Receiver<bool>,
    /// Whether tools are waited for that did not come soon.
    late: Arc<AtomicBool>,
}

/// Stops what the driver of now is running.
type Switch = Arc<Mutex<Cancel>>;

/// The session as it stands in the log.
type Latest = Arc<Mutex<Arc<Session>>>;

impl Clerk {
    /// Makes a clerk, and the work that somebody must drive. The session is taken up with `crew`
    /// whenever its driver was stopped, unless somebody else took it over: that ends the work.
    pub async fn begin<F>(
        runtime: Arc<Runtime>,
        mut crew: Crew,
        open: F,
    ) -> Result<(Self, Driving), toolgate_runtime::OpenFault>
    where
        F: AsyncFnOnce(Arc<Runtime>, Crew) -> Result<Driver, toolgate_runtime::OpenFault>,
    {
        let open_calls = Open::default();
        let heard = Arc::clone(&open_calls);
        crew.heartbeat = Arc::new(move |call| {
            if let Some(AtWork { beat: Some(beat), .. }) = lock(&heard).by_id.get(&call) {
                // Whoever does not listen has heard enough.
                let _full = beat.try_send(());
            }
        });
        let users = Arc::new(Users::default());
        // Nobody is behind a call whose order names no user.
        crew.person.get_or_insert(Arc::clone(&users) as Arc<dyn Person>);
        let driver = open(Arc::clone(&runtime), crew.clone()).await?;
        let queue = Arc::new(Queue::new(&crew.agent.limits));
        let (view, watched) = watch::channel(view_of(&driver.session(), driver.agent()));
        let latest = Arc::new(Mutex::new(driver.session()));
        let (at_work, serving) = watch::channel(false);
        let shown = Shown { view, latest: Arc::clone(&latest) };
        let clerk = Self {
            queue: Arc::new(QueueIn(Arc::clone(&queue))),
            view: watched,
            latest,
            runtime,
            supplier: crew.supplier.clone(),
            cancel: Arc::new(Mutex::new(driver.cancel())),
            taken_over: Arc::default(),
            at_work: serving,
            late: Arc::default(),
        };
        let (queue, cancel) = (QueueOut(queue), Arc::clone(&clerk.cancel));
        let (open, taken_over) = (open_calls, Arc::clone(&clerk.taken_over));
        let work = Work { crew, driver, shown, open, queue, users, cancel, taken_over, at_work };
        Ok((clerk, Box::pin(work.run())))
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
    pub async fn call(&self, order: Order, beat: Option<mpsc::Sender<()>>) -> Delivery {
        let (reply, answer) = oneshot::channel();
        let (ticket, name, client) = (Ticket::default(), order.name.clone(), order.actor.clone());
        let _waiting = Waiting(ticket.clone());
        let job = Job::Call { order, ticket: ticket.clone(), beat, reply };
        let agent = || self.view.borrow().agent.clone();
        let busy = |message: &str| delivery(&agent(), busy(&name, message));
        match self.queue.0.put(&client, job) {
            Ok(()) => {}
            Err(Full::All) => return busy("Too many calls are waiting. Try again in a moment."),
            Err(Full::Client) => {
                return busy("Too many of your calls are waiting. Try again in a moment.");
            }
            Err(Full::Ended) => return busy(self.why_it_stops()),
        }
        let mut answer = std::pin::pin!(answer);
        let wait = Duration::from_millis(agent().limits.mcp_queue_ms_max);
        let answered = match tokio::time::timeout(wait, answer.as_mut()).await {
            Ok(answered) => answered,
            Err(_) if ticket.cancel() => {
                return busy("The call did not get its turn in time. Nothing of it ran.");
            }
            // It runs, and running has a deadline of its own.
            Err(_) => answer.await,
        };
        answered.unwrap_or_else(|_| {
            if ticket.cancel() {
                return busy(self.why_it_stops());
            }
            delivery(&agent(), lost(&name, "The server stopped meanwhile."))
        })
    }

    fn why_it_stops(&self) -> &'static str {
        match self.taken_over.load(Ordering::Acquire) {
            true => TAKEN_OVER,
            false => "The server is stopping. Nothing of it ran.",
        }
    }

    /// Takes no more calls. Those that came before have their turn.
    pub fn turn_away(&self) {
        self.queue.0.turn_away();
    }

    /// Cuts off the calls at work and those who wait for tools from outside or for a person. They are
    /// settled and answered, and no other one begins: whoever waits for a turn is told so at once.
    pub fn cut_off(&self) {
        self.queue.0.end();
        self.cancel.lock().unwrap_or_else(PoisonError::into_inner).cancel();
    }

    /// Waits until every call that has begun is settled, also those that nobody waits for any more.
    pub async fn at_rest(&self) {
        // Whoever drives it no more has nothing at work.
        drop(self.at_work.clone().wait_for(|at_work| !at_work).await);
    }

    /// How the session looks with the tools from outside that some phases have. Those that do not
    /// come soon are left out, and told of as news when they are there. It waits for those who bring
    /// them, and for no call.
    pub async fn view_with(&self, phases: Vec<PhaseName>) -> View {
        let mut view = self.view();
        let Some(supplier) = &self.supplier else { return view };
        let before = Arc::clone(&view.agent);
        // One server that is slow or mute is not to cost a client the tools of all others.
        let Limits { supply_ms_max, list_ms_max, .. } = before.limits;
        let wait = Duration::from_millis(supply_ms_max.min(list_ms_max));
        // All are asked at the same time; those that do not come are not waited for again.
        let asking = phases.iter().map(|phase| supplier.supply(&before, phase, Wanted::All));
        if tokio::time::timeout(wait, join_all(asking)).await.is_err() {
            self.take_later(supplier, &before, &phases);
        }
        let mut lacks = false;
        for phase in &phases {
            let agent = Arc::clone(&view.agent);
            let supplied = supplier.supply(&agent, phase, Wanted::AtHand);
            match tokio::time::timeout(wait, supplied).await {
                Ok(Ok(Some(supply))) => view.agent = supply.agent,
                // The driver finds the same, and writes it down.
                Ok(Err(_)) => lacks |= view.phase.as_ref() == Some(phase),
                Ok(Ok(None)) | Err(_) => {}
            }
        }
        if lacks || !Arc::ptr_eq(&before, &view.agent) {
            // The session goes on with them when it comes to it; a full queue has calls that do so.
            self.queue.0.put_alone(&Actor::System, Job::Ready(phases));
        }
        view
    }

    /// Whether tools are waited for that did not come soon.
    pub fn awaits_tools(&self) -> bool {
        self.late.load(Ordering::Acquire)
    }

    /// Waits for tools that did not come soon, for the driver to take. One such wait at a time is
    /// enough: who lists again asks again.
    fn take_later(&self, supplier: &Arc<dyn Supplier>, agent: &Arc<Agent>, phases: &[PhaseName]) {
        if self.late.swap(true, Ordering::AcqRel) {
            return;
        }
        let (supplier, agent, phases) = (Arc::clone(supplier), Arc::clone(agent), phases.to_vec());
        let (queue, late) = (Arc::downgrade(&self.queue), Arc::clone(&self.late));
        tokio::spawn(async move {
            let wait = Duration::from_millis(agent.limits.supply_ms_max);
            let asking = phases.iter().map(|phase| supplier.supply(&agent, phase, Wanted::All));
            drop(tokio::time::timeout(wait, join_all(asking)).await);
            late.store(false, Ordering::Release);
            if let Some(queue) = queue.upgrade() {
                queue.0.put_alone(&Actor::System, Job::Ready(phases));
            }
        });
    }

    /// The session and the project as they are now.
    pub fn look(&self) -> (Arc<Session>, Arc<Project>) {
        let session = self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (session, self.runtime.project().0)
    }
}

fn busy(tool: &str, message: &str) -> Envelope {
    Envelope::trouble(tool, vec![Trouble::new(Code::CALL_CANCELLED, message)])
}

fn delivery(agent: &Arc<Agent>, envelope: Envelope) -> Delivery {
    let answered = Answered { envelope: envelope.into(), message_only: false, parts: None };
    Delivery { answered, agent: Arc::clone(agent), who: None }
}

fn view_of(session: &Session, agent: &Arc<Agent>) -> View {
    let (phase, ended) = (session.phase.clone(), session.ended.is_some());
    let who = session.agent.clone();
    View { agent: Arc::clone(agent), phase, who, ended, supplied: Arc::clone(&session.supplied) }
}

/// What is said of a call that was not begun before somebody else took the session over.
const TAKEN_OVER: &str =
    "Another process took this session over, and this server is stopping. Nothing of it ran.";

/// What is said of a call that the log could not follow.
fn lost(tool: &str, why: &str) -> Envelope {
    let message =
        format!("{why} The call may or may not have taken effect; look before you repeat it.");
    Envelope::trouble(tool, vec![Trouble::new(Code::OUTCOME_UNKNOWN, message)])
}
