//! Decides how many callers share one session: their calls queue, and what waited is a batch.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot, watch};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::envelope::{Code, Envelope, Trouble};
use toolgate_kernel::fold::{Project, Session};
use toolgate_kernel::names::{CallId, PhaseName};
use toolgate_kernel::tool::Effect;
use toolgate_runtime::port::{Person, StoreFault};
use toolgate_runtime::{Answered, Crew, DriveFault, Driver, Floor, Incoming, Runtime};

use super::user::{User, Users};

/// Calls of one batch.
const BATCH_MAX: usize = 32;

/// Calls at work at once; servers behind them need not bear more.
const AT_ONCE_MAX: usize = 64;

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

/// What a caller is told.
pub struct Told {
    /// What came of the call.
    pub answered: Answered,
    /// The agent that it was made with.
    pub agent: Arc<Agent>,
}

enum Job {
    Call { order: Order, turn: Turn, beat: Option<mpsc::Sender<()>>, reply: oneshot::Sender<Told> },
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

/// Whether a call changes nothing that others could see: it reads, or is refused.
fn only_reads(agent: &Agent, order: &Order) -> bool {
    let place = agent.toolset.find(&order.name);
    let entry = place.and_then(|place| agent.toolset.entries().get(place));
    entry.is_none_or(|entry| entry.spec.effect == Effect::Read)
}

/// Where callers stand while a batch is at work.
struct Standing {
    open: Open,
    line: Arc<tokio::sync::Mutex<Line>>,
    shown: watch::Sender<View>,
    users: Arc<Users>,
}

impl Floor for Standing {
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
        session: &Session,
        agent: &Arc<Agent>,
        call: CallId,
        answered: Answered,
    ) {
        // Whoever is answered finds the session as the call left it.
        show(&self.shown, session, agent);
        self.users.leave(call);
        let begun = lock(&self.open).by_id.remove(&call);
        if let Some(begun) = begun {
            begun.answer(Told { answered, agent: Arc::clone(agent) });
        }
    }

    fn more(&mut self) -> BoxFuture<'_, Vec<Incoming>> {
        Box::pin(async {
            let mut line = self.line.lock().await;
            while line.look().await {
                let incoming = self.let_in(&mut line.next);
                if !incoming.is_empty() {
                    return incoming;
                }
                if !line.next.is_empty() {
                    break;
                }
            }
            // Nobody comes, or whoever is next waits until this batch is done.
            std::future::pending().await
        })
    }
}

impl Standing {
    /// Calls that read go ahead; with the first that does not, everybody waits.
    fn let_in(&self, next: &mut VecDeque<Job>) -> Vec<Incoming> {
        let agent = Arc::clone(&self.shown.borrow().agent);
        let (mut incoming, mut open) = (Vec::new(), lock(&self.open));
        while let Some(Job::Call { order, .. }) = next.front()
            && only_reads(&agent, order)
            && open.by_id.len() + open.let_in.len() < AT_ONCE_MAX
        {
            if let Some(Job::Call { order, turn, beat, reply }) = next.pop_front()
                && turn.begin()
            {
                let begun = Begun { order, beat, reply };
                incoming.push(begun.incoming());
                open.let_in.push_back(begun);
            }
        }
        incoming
    }
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
        // Whoever comes when it is full is told to try again.
        let waiting = usize::try_from(crew.agent.limits.mcp_queue_max).unwrap_or(usize::MAX);
        let (jobs, queue) = mpsc::channel(waiting);
        let line = Arc::new(tokio::sync::Mutex::new(Line {
            queue,
            came: Vec::new(),
            next: VecDeque::new(),
        }));
        let (shown, view) = watch::channel(view_of(&driver.session(), driver.agent()));
        let supplied = crew.supplier.is_some();
        let work = Work { runtime, crew, driver, shown, open: open_calls, line, users };
        Ok((Self { jobs, view, supplied }, Box::pin(work.run())))
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
    pub async fn call(&self, order: Order, beat: Option<mpsc::Sender<()>>) -> Told {
        let (reply, answer) = oneshot::channel();
        let (turn, name) = (Turn::default(), order.name.clone());
        let _waiting = Waiting(turn.clone());
        let job = Job::Call { order, turn: turn.clone(), beat, reply };
        let busy = |message: &str| told(&self.view().agent, busy(&name, message));
        if self.jobs.try_send(job).is_err() {
            return busy("Too many calls are waiting. Try again in a moment.");
        }
        let mut answer = std::pin::pin!(answer);
        let answered = match tokio::time::timeout(QUEUE_WAIT, answer.as_mut()).await {
            Ok(answered) => answered,
            Err(_) if turn.cancel() => {
                return busy("The call did not get its turn in time. Nothing of it ran.");
            }
            // It runs, and running has a deadline of its own.
            Err(_) => answer.await,
        };
        answered.unwrap_or_else(|_| {
            if turn.cancel() {
                return busy("The server is stopping. Nothing of it ran.");
            }
            told(&self.view().agent, lost(&name, &DriveFault::Stopped))
        })
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

fn told(agent: &Arc<Agent>, envelope: Envelope) -> Told {
    let answered = Answered { envelope: envelope.into(), message_only: false, parts: None };
    Told { answered, agent: Arc::clone(agent) }
}

fn view_of(session: &Session, agent: &Arc<Agent>) -> View {
    let (phase, ended) = (session.phase.clone(), session.ended.is_some());
    View { agent: Arc::clone(agent), phase, ended }
}

/// The session, in the hands of the one that drives it.
struct Work {
    runtime: Arc<Runtime>,
    crew: Crew,
    driver: Driver,
    shown: watch::Sender<View>,
    open: Open,
    line: Arc<tokio::sync::Mutex<Line>>,
    users: Arc<Users>,
}

/// Those who wait for their turn.
struct Line {
    queue: mpsc::Receiver<Job>,
    /// Those that came just now.
    came: Vec<Job>,
    /// Taken from the queue, and still waiting.
    next: VecDeque<Job>,
}

impl Line {
    /// Waits until somebody is there; nobody means that nobody will come.
    async fn look(&mut self) -> bool {
        if !self.next.is_empty() {
            return true;
        }
        // Giving up this wait loses nothing.
        let came = self.queue.recv_many(&mut self.came, BATCH_MAX).await > 0;
        self.next.extend(self.came.drain(..));
        came
    }
}

/// A call that has begun.
struct Begun {
    order: Order,
    beat: Option<mpsc::Sender<()>>,
    reply: oneshot::Sender<Told>,
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

    fn answer(self, told: Told) {
        // The caller may be gone; the log has the answer.
        let _gone = self.reply.send(told);
    }
}

impl Work {
    async fn run(mut self) {
        loop {
            let line = Arc::clone(&self.line);
            let mut line = line.lock().await;
            if !line.look().await {
                return;
            }
            let batch = self.batch(&mut line.next);
            // Whoever stays in line is seen there by those who would overtake them.
            let other = if batch.is_empty() { line.next.pop_front() } else { None };
            drop(line);
            self.calls(batch).await;
            match other {
                Some(Job::Look(reply)) => {
                    let _gone = reply.send((self.driver.session(), self.driver.project()));
                }
                Some(Job::Ready(phases, reply)) => {
                    match self.driver.make_ready(&phases).await {
                        Ok(()) | Err(DriveFault::Ended) => {}
                        Err(_) => drop(self.resume().await),
                    }
                    self.show();
                    let _gone = reply.send(());
                }
                Some(Job::Call { .. }) | None => {}
            }
        }
    }

    /// The calls at the head of the line that can be judged together.
    fn batch(&self, next: &mut VecDeque<Job>) -> Vec<Begun> {
        let mut batch = Vec::new();
        while let Some(Job::Call { order, .. }) = next.front() {
            if order.phase.is_some() && self.may_move(&batch) {
                break;
            }
            if let Some(Job::Call { order, turn, beat, reply }) = next.pop_front()
                && turn.begin()
            {
                batch.push(Begun { order, beat, reply });
            }
        }
        batch
    }

    /// Whether the phase may be another after these calls. Whoever is bound to a phase is judged
    /// when that is known.
    fn may_move(&self, batch: &[Begun]) -> bool {
        let agent = self.driver.agent();
        batch.iter().any(|begun| !only_reads(agent, &begun.order))
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
            let (open, line) = (Arc::clone(&self.open), Arc::clone(&self.line));
            let (shown, users) = (self.shown.clone(), Arc::clone(&self.users));
            let floor = Box::new(Standing { open, line, shown, users });
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
                Err(DriveFault::Supply(fault)) => {
                    return self.refuse(left, &format!("{fault}. Nothing of the call ran."));
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
                    begun.answer(told(self.driver.agent(), envelope));
                }
                return;
            }
        }
        self.refuse(left, "Somebody else drives this session. Nothing of the call ran.");
    }

    fn refuse(&self, left: Vec<Begun>, message: &str) {
        for begun in left {
            let envelope = busy(&begun.order.name, message);
            begun.answer(told(self.driver.agent(), envelope));
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
        show(&self.shown, &self.driver.session(), self.driver.agent());
    }
}

fn show(shown: &watch::Sender<View>, session: &Session, agent: &Arc<Agent>) {
    shown.send_if_modified(|shown| {
        let same = Arc::ptr_eq(&shown.agent, agent)
            && shown.phase == session.phase
            && shown.ended == session.ended.is_some();
        if !same {
            *shown = view_of(session, agent);
        }
        !same
    });
}

/// What is said of a call that the log could not follow.
fn lost(tool: &str, fault: &DriveFault) -> Envelope {
    let message = format!(
        "The log could not be written ({fault}). The call may or may not have taken effect; \
         look before you repeat it."
    );
    Envelope::trouble(tool, vec![Trouble::new(Code::OUTCOME_UNKNOWN, message)])
}
