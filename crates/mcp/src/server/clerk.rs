//! Decides how many callers share one session: their calls queue, and what waited is a batch. Whoever
//! only looks waits for no call.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot, watch};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::envelope::{Code, Envelope, Trouble};
use toolgate_kernel::fold::{Project, Session, Supplied};
use toolgate_kernel::names::{CallId, PhaseName};
use toolgate_kernel::tool::Effect;
use toolgate_runtime::port::{Person, StoreFault, Supplier};
use toolgate_runtime::{Answered, Crew, DriveFault, Driver, Floor, Incoming, Runtime};

use super::queue::{Full, Pick, Queue, QueueIn, QueueOut};
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
    /// Whether it has ended.
    pub ended: bool,
    /// What there is from outside, and what is not as it should be.
    pub supplied: Arc<Supplied>,
}

const WAITING: u8 = 0;
const BEGUN: u8 = 1;
const CANCELLED: u8 = 2;

/// A call's place in the queue, and whether it may still be taken back.
#[derive(Clone, Default)]
struct Ticket(Arc<AtomicU8>);

impl Ticket {
    fn begin(&self) -> bool {
        self.0.compare_exchange(WAITING, BEGUN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn cancel(&self) -> bool {
        self.0.compare_exchange(WAITING, CANCELLED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A call that nobody waits for any more is taken back if it has not begun.
struct Waiting(Ticket);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// What came of an order.
pub struct Delivery {
    /// What the caller is answered.
    pub answered: Answered,
    /// The agent that the call was made with.
    pub agent: Arc<Agent>,
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
}

/// The session as it stands in the log.
type Latest = Arc<Mutex<Arc<Session>>>;

/// The calls at work that have not been answered.
#[derive(Default)]
struct Calls {
    /// Those that have no id yet, in order.
    let_in: VecDeque<Begun>,
    by_id: BTreeMap<CallId, Begun>,
}

type Open = Arc<Mutex<Calls>>;

fn lock(open: &Open) -> std::sync::MutexGuard<'_, Calls> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the tool of a call does, where there is one.
fn effect(agent: &Agent, order: &Order) -> Option<Effect> {
    let entry = agent.toolset.entries().get(agent.toolset.find(&order.name)?)?;
    Some(entry.spec.effect)
}

/// Whether a call changes nothing that others could see: it reads, or is refused.
fn only_reads(agent: &Agent, order: &Order) -> bool {
    effect(agent, order).is_none_or(|effect| effect == Effect::Read)
}

/// Who is answered, and who may come in, while a batch is at work.
struct ClerkFloor {
    open: Open,
    queue: Arc<Queue<Job>>,
    shown: Shown,
    users: Arc<Users>,
}

impl Floor for ClerkFloor {
    fn received(&mut self, call: CallId) {
        let mut open = lock(&self.open);
        if let Some(begun) = open.let_in.pop_front() {
            if let Some(user) = &begun.order.user {
                self.users.seat(call, user);
            }
            open.by_id.insert(call, begun);
        }
    }

    fn answered(
        &mut self,
        session: &Arc<Session>,
        agent: &Arc<Agent>,
        call: CallId,
        answered: Answered,
    ) {
        // Whoever is answered finds the session as the call left it.
        self.shown.show(session, agent);
        self.users.leave(call);
        let begun = lock(&self.open).by_id.remove(&call);
        if let Some(begun) = begun {
            begun.answer(Delivery { answered, agent: Arc::clone(agent) });
        }
    }

    fn more(&mut self) -> BoxFuture<'_, Vec<Incoming>> {
        Box::pin(async {
            while self.queue.look().await {
                let (incoming, others) = self.let_in();
                if !incoming.is_empty() {
                    return incoming;
                }
                if others {
                    break;
                }
            }
            // Nobody comes, or whoever is next waits until this batch is done.
            std::future::pending().await
        })
    }
}

impl ClerkFloor {
    /// Calls that read go ahead; with the first that does not, everybody waits. Tells too whether
    /// somebody does.
    fn let_in(&self) -> (Vec<Incoming>, bool) {
        let agent = Arc::clone(&self.shown.view.borrow().agent);
        let most = count(agent.limits.mcp_calls_at_once_max);
        let (mut incoming, mut open) = (Vec::new(), lock(&self.open));
        let (mut others, mut free) =
            (false, most.saturating_sub(open.by_id.len() + open.let_in.len()));
        let takes = |_: &Arc<str>, job: &Job| match job {
            Job::Call { order, .. } if only_reads(&agent, order) && free > 0 => {
                free -= 1;
                Pick::Take
            }
            Job::Call { .. } | Job::Ready(_) => {
                others = true;
                Pick::Stop
            }
        };
        self.queue.take(takes, |job| {
            if let Some(begun) = job.begin() {
                incoming.push(begun.incoming());
                open.let_in.push_back(begun);
            }
        });
        (incoming, others)
    }
}

fn count(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

impl Clerk {
    /// Makes a clerk, and the work that somebody must drive. The session is taken up with `crew`
    /// whenever its driver was stopped.
    pub async fn begin<F>(
        runtime: Arc<Runtime>,
        mut crew: Crew,
        open: F,
    ) -> Result<(Self, BoxFuture<'static, ()>), toolgate_runtime::OpenFault>
    where
        F: AsyncFnOnce(Arc<Runtime>, Crew) -> Result<Driver, toolgate_runtime::OpenFault>,
    {
        let open_calls = Open::default();
        let heard = Arc::clone(&open_calls);
        crew.heartbeat = Arc::new(move |call| {
            if let Some(Begun { beat: Some(beat), .. }) = lock(&heard).by_id.get(&call) {
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
        let shown = Shown { view, latest: Arc::clone(&latest) };
        let clerk = Self {
            queue: Arc::new(QueueIn(Arc::clone(&queue))),
            view: watched,
            latest,
            runtime: Arc::clone(&runtime),
            supplier: crew.supplier.clone(),
        };
        let queue = QueueOut(queue);
        let work = Work { runtime, crew, driver, shown, open: open_calls, queue, users };
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
        let (ticket, name, client) = (Ticket::default(), order.name.clone(), order.client());
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
            Err(Full::Ended) => return busy("The server is stopping. Nothing of it ran."),
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
                return busy("The server is stopping. Nothing of it ran.");
            }
            delivery(&agent(), lost(&name, &DriveFault::Stopped))
        })
    }

    /// How the session looks with the tools from outside that some phases have. Those that do not
    /// come are left out. It waits for those who bring them, and for no call.
    pub async fn view_with(&self, phases: Vec<PhaseName>) -> View {
        let mut view = self.view();
        let Some(supplier) = &self.supplier else { return view };
        let before = Arc::clone(&view.agent);
        let wait = Duration::from_millis(before.limits.supply_ms_max);
        let mut lacks = false;
        for phase in &phases {
            let agent = Arc::clone(&view.agent);
            let supplied = tokio::time::timeout(wait, supplier.supply(&agent, phase)).await;
            match supplied {
                Ok(Ok(Some(supply))) => view.agent = supply.agent,
                // The driver finds the same, and writes it down.
                Ok(Err(_)) => lacks |= view.phase.as_ref() == Some(phase),
                Ok(Ok(None)) | Err(_) => {}
            }
        }
        if lacks || !Arc::ptr_eq(&before, &view.agent) {
            // The session goes on with them when it comes to it; a full queue has calls that do so.
            self.queue.0.put_alone(&Arc::from(""), Job::Ready(phases));
        }
        view
    }

    /// The session and the project as they are now.
    pub fn look(&self) -> (Arc<Session>, Arc<Project>) {
        let session = self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (session, self.runtime.project().0)
    }
}

impl Order {
    /// Whose turn it takes.
    fn client(&self) -> Arc<str> {
        self.actor.to_string().into()
    }
}

impl Job {
    /// A call that begins, unless it was taken back.
    fn begin(self) -> Option<Begun> {
        match self {
            Self::Call { order, ticket, beat, reply } => {
                ticket.begin().then_some(Begun { order, beat, reply })
            }
            Self::Ready(_) => None,
        }
    }
}

fn busy(tool: &str, message: &str) -> Envelope {
    Envelope::trouble(tool, vec![Trouble::new(Code::CALL_CANCELLED, message)])
}

fn delivery(agent: &Arc<Agent>, envelope: Envelope) -> Delivery {
    let answered = Answered { envelope: envelope.into(), message_only: false, parts: None };
    Delivery { answered, agent: Arc::clone(agent) }
}

fn view_of(session: &Session, agent: &Arc<Agent>) -> View {
    let (phase, ended) = (session.phase.clone(), session.ended.is_some());
    View { agent: Arc::clone(agent), phase, ended, supplied: Arc::clone(&session.supplied) }
}

/// What everybody may see.
#[derive(Clone)]
struct Shown {
    view: watch::Sender<View>,
    latest: Latest,
}

impl Shown {
    fn show(&self, session: &Arc<Session>, agent: &Arc<Agent>) {
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
struct Work {
    runtime: Arc<Runtime>,
    crew: Crew,
    driver: Driver,
    shown: Shown,
    open: Open,
    queue: QueueOut<Job>,
    users: Arc<Users>,
}

/// A call that has begun.
struct Begun {
    order: Order,
    beat: Option<mpsc::Sender<()>>,
    reply: oneshot::Sender<Delivery>,
}

impl Begun {
    fn incoming(&self) -> Incoming {
        let Order { actor, name, args, alias, phase, user: _ } = &self.order;
        Incoming {
            actor: actor.clone(),
            name: name.clone(),
            args: args.clone(),
            alias: alias.clone(),
            phase: phase.clone(),
        }
    }

    fn answer(self, delivery: Delivery) {
        // The caller may be gone; the log has the answer.
        let _gone = self.reply.send(delivery);
    }
}

impl Work {
    async fn run(mut self) {
        while self.queue.0.look().await {
            let (batch, ready) = self.next();
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

    /// The calls that are next and can be judged together, or phases whose tools are asked for.
    ///
    /// Of calls that reach the world each client has one at a time: they may take long, and others
    /// would wait for all of them.
    fn next(&self) -> (Vec<Begun>, Option<Vec<PhaseName>>) {
        let agent = self.driver.agent();
        let most = count(agent.limits.mcp_calls_together_max);
        let (mut batch, mut ready) = (Vec::new(), None);
        let (mut taken, mut moves, mut reached) = (0_usize, false, BTreeSet::new());
        let takes = |client: &Arc<str>, job: &Job| match job {
            Job::Ready(_) if taken == 0 => {
                taken = most;
                Pick::Take
            }
            Job::Ready(_) => Pick::Stop,
            Job::Call { .. } if taken >= most => Pick::Stop,
            // Whoever is bound to a phase is judged when it is known which one it is.
            Job::Call { order, .. } if order.phase.is_some() && moves => Pick::Stop,
            Job::Call { order, .. } => {
                let effect = effect(agent, order);
                let reaches = effect.is_some_and(Effect::needs_intent);
                if reaches && !reached.insert(Arc::clone(client)) {
                    return Pick::Pass;
                }
                taken += 1;
                moves |= effect.is_some_and(|effect| effect != Effect::Read);
                Pick::Take
            }
        };
        self.queue.0.take(takes, |job| match job {
            Job::Ready(phases) => ready = Some(phases),
            Job::Call { .. } => batch.extend(job.begin()),
        });
        (batch, ready)
    }

    /// Brings calls to their end as one batch. Each is answered as soon as it is in the log.
    async fn calls(&mut self, batch: Vec<Begun>) {
        if batch.is_empty() {
            return;
        }
        let mut left = batch;
        // Once after a takeover, and once more is enough.
        for _ in 0..2 {
            let before = self.driver.durable_tip();
            let incoming = left.iter().map(Begun::incoming).collect();
            *lock(&self.open) = Calls { let_in: left.into(), by_id: BTreeMap::new() };
            let (open, queue) = (Arc::clone(&self.open), Arc::clone(&self.queue.0));
            let (shown, users) = (self.shown.clone(), Arc::clone(&self.users));
            let floor = Box::new(ClerkFloor { open, queue, shown, users });
            let outcome = self.driver.calls(incoming, floor).await;
            self.users.clear();
            self.show();
            let Calls { let_in, by_id } = std::mem::take(&mut *lock(&self.open));
            left = by_id.into_values().chain(let_in).collect();
            let fault = match outcome {
                Ok(()) => return,
                Err(DriveFault::Ended) => {
                    return self.refuse(left, "The session has ended; nothing can be called.");
                }
                Err(fault) => fault,
            };
            let untouched = self.driver.durable_tip() == before;
            let resumed = self.resume().await;
            // Whoever took the session over wrote first, so nothing of these calls was begun.
            let fenced = matches!(fault, DriveFault::Store(StoreFault::Fenced { .. }));
            let outrun = untouched && (fenced || matches!(fault, DriveFault::Stopped));
            if !(resumed && outrun) {
                for begun in left {
                    let envelope = lost(&begun.order.name, &fault);
                    begun.answer(delivery(self.driver.agent(), envelope));
                }
                return;
            }
        }
        self.refuse(left, "Somebody else drives this session. Nothing of the call ran.");
    }

    fn refuse(&self, left: Vec<Begun>, message: &str) {
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
                self.driver = driver;
                self.driver.settle_open().await.is_ok()
            }
            // The next call tries again.
            Err(_) => false,
        }
    }

    fn show(&self) {
        self.shown.show(&self.driver.session(), self.driver.agent());
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
