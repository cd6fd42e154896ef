//! Decides who is let in next: whoever is in nobody's way (ADR 0025).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::fold::Session;
use toolgate_kernel::names::{CallId, PhaseName, ToolName};
use toolgate_runtime::{Answered, Company, Floor, Incoming};

use super::work::Shown;
use super::{BEGUN, Delivery, ENTERED, Job, Order, Ticket};
use crate::server::queue::{Pick, Queue};
use crate::server::user::Users;

/// The calls at work that have not been answered.
#[derive(Default)]
pub(super) struct Calls {
    /// Those that have no id yet, by ticket, which says their order.
    pub(super) let_in: BTreeMap<u64, AtWork>,
    pub(super) by_id: BTreeMap<CallId, AtWork>,
    /// The next ticket.
    next: u64,
}

impl Calls {
    /// Somebody is let in.
    pub(super) fn let_in(&mut self, begun: AtWork) -> Incoming {
        let ticket = self.next;
        self.next += 1;
        let Order { actor, name, args, alias, phase, user: _ } = &begun.order;
        let incoming = Incoming {
            ticket,
            actor: actor.clone(),
            name: name.clone(),
            args: args.clone(),
            alias: alias.clone(),
            phase: phase.clone(),
        };
        self.let_in.insert(ticket, begun);
        incoming
    }
}

pub(super) type Open = Arc<Mutex<Calls>>;

pub(super) fn lock(open: &Open) -> std::sync::MutexGuard<'_, Calls> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call that was let in. It can be taken back while it waits for tools from outside.
pub(super) struct AtWork {
    pub(super) order: Order,
    ticket: Ticket,
    pub(super) beat: Option<mpsc::Sender<()>>,
    reply: oneshot::Sender<Delivery>,
    company: Company,
    way: Way,
}

impl AtWork {
    pub(super) fn answer(self, delivery: Delivery) {
        // The caller may be gone; the log has the answer.
        let _gone = self.reply.send(delivery);
    }
}

impl Job {
    /// A call that is let in, unless it was taken back.
    fn begin(self, agent: &Agent) -> Option<AtWork> {
        match self {
            Self::Call { ticket, .. } if ticket.is_cancelled() => None,
            Self::Call { order, ticket, beat, reply } => {
                let (company, way) = company(agent, &order);
                Some(AtWork { order, ticket, beat, reply, company, way })
            }
            Self::Ready(_) => None,
        }
    }
}

/// By which way a call goes, and so what it may have to wait for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// A tool of our own.
    Own(ToolName),
    /// A server, as far as the name tells.
    Server(Arc<str>),
}

impl Way {
    fn of(tool: &ToolName) -> Self {
        match tool.of_server() {
            Some((server, _)) => Self::Server(server.into()),
            None => Self::Own(tool.clone()),
        }
    }

    /// The way of a name that is not known yet: its server may still have to say what it has. Names
    /// that do not tell whose they are go one way together.
    fn of_unknown(agent: &Agent, name: &str) -> Self {
        let named = agent.phases().flat_map(|phase| agent.servers(&phase.name));
        let mut named = named.filter(|server| ToolName::begins_with_server(name, server));
        Self::Server(named.next().map_or("", |server| server.as_str()).into())
    }
}

/// What a call does while it is at work, and its way. One of no tool that is known is refused, or made
/// to wait by the driver.
fn company(agent: &Agent, order: &Order) -> (Company, Way) {
    let place = agent.toolset.find(&order.name);
    let entry = place.and_then(|place| agent.toolset.entries().get(place));
    match entry.map(|entry| &entry.spec) {
        Some(spec) => (Company::of(&spec.name, spec.effect), Way::of(&spec.name)),
        None => (Company::Looks, Way::of_unknown(agent, &order.name)),
    }
}

/// How many go which way. One way takes a quarter of all places, and servers together three quarters:
/// those that are slow to start, or to answer, keep no place from the others. Nor does one server keep
/// the last place from another: the first call of each finds one, however many of others hang.
#[derive(Default)]
struct Ways {
    taken: BTreeMap<Way, usize>,
    servers: usize,
}

impl Ways {
    fn add(&mut self, way: Way) {
        self.servers += usize::from(matches!(way, Way::Server(_)));
        *self.taken.entry(way).or_default() += 1;
    }

    /// Whether one more may go, where these servers may be called.
    fn has_room<'a>(&self, way: &Way, most: usize, servers: impl Iterator<Item = &'a str>) -> bool {
        let share = (most / 4).max(1);
        let taken = self.taken.get(way).copied().unwrap_or(0);
        let left = most.saturating_sub(share).max(1).saturating_sub(self.servers);
        match way {
            Way::Own(_) => taken < share,
            Way::Server(_) if taken == 0 => left > 0,
            Way::Server(_) => taken < share && left > self.idle(servers),
        }
    }

    /// How many servers nobody calls now.
    fn idle<'a>(&self, servers: impl Iterator<Item = &'a str>) -> usize {
        let at_work = |server: &str| self.taken.contains_key(&Way::Server(server.into()));
        let all: BTreeSet<&str> = servers.collect();
        all.into_iter().filter(|server| !at_work(server)).count()
    }
}

/// Who is answered, and who may come in, while calls are at work.
pub(super) struct ClerkFloor {
    pub(super) open: Open,
    pub(super) queue: Arc<Queue<Job>>,
    pub(super) shown: Shown,
    pub(super) users: Arc<Users>,
}

impl Floor for ClerkFloor {
    fn enters(&mut self, ticket: u64) -> bool {
        let mut open = lock(&self.open);
        let enters = open.let_in.get(&ticket).is_some_and(|begun| begun.ticket.come_to(ENTERED));
        if !enters {
            open.let_in.remove(&ticket);
        }
        enters
    }

    fn begins(&mut self, call: CallId) -> bool {
        lock(&self.open).by_id.get(&call).is_none_or(|begun| begun.ticket.come_to(BEGUN))
    }

    fn received(&mut self, ticket: u64, call: CallId) {
        let mut open = lock(&self.open);
        if let Some(begun) = open.let_in.remove(&ticket) {
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
            let (agent, who) = (Arc::clone(agent), session.agent.clone());
            begun.answer(Delivery { answered, agent, who });
        }
    }

    fn supplied(&mut self, session: &Arc<Session>, agent: &Arc<Agent>) {
        self.shown.show(session, agent);
    }

    fn more(&mut self) -> BoxFuture<'_, Vec<Incoming>> {
        Box::pin(async {
            while self.queue.look().await {
                let incoming = self.let_in();
                if !incoming.is_empty() {
                    return incoming;
                }
                // Whoever is there waits for somebody at work; others may come who do not.
                self.queue.news().await;
            }
            // Nobody comes any more.
            std::future::pending().await
        })
    }
}

impl ClerkFloor {
    /// Lets in those who are in nobody's way.
    fn let_in(&self) -> Vec<Incoming> {
        let agent = Arc::clone(&self.shown.view.borrow().agent);
        let most = count(agent.limits.mcp_calls_at_once_max);
        let (mut incoming, mut open) = (Vec::new(), lock(&self.open));
        let all = open.by_id.values().chain(open.let_in.values());
        // The driver sees to it that nobody gets in the way of a change that takes a while.
        let reaches = all.filter(|begun| matches!(begun.company, Company::Reaches(_)));
        let at_work = reaches.map(|begun| begun.company.clone()).collect();
        // Whoever waits for tools from outside is not overtaken by a change of the same client.
        let waits = open.let_in.values().filter(|begun| !begun.ticket.is_cancelled());
        let behind = waits.map(|begun| begun.order.actor.clone()).collect();
        let room = most.saturating_sub(open.by_id.len() + open.let_in.len());
        let mut look = Look { at_work, behind, room, joins: true, ..Look::of(&agent) };
        let all = open.by_id.values().chain(open.let_in.values());
        all.for_each(|begun| look.ways.add(begun.way.clone()));
        self.queue.take(
            |client, job| look.pick(client, job),
            |job| incoming.extend(job.begin(&agent).map(|begun| open.let_in(begun))),
        );
        incoming
    }
}

/// The calls that are next and can be judged together while nobody is at work, or phases whose tools
/// are asked for.
pub(super) fn first(agent: &Agent, queue: &Queue<Job>) -> (Vec<AtWork>, Option<Vec<PhaseName>>) {
    let (mut batch, mut ready) = (Vec::new(), None);
    let room = count(agent.limits.mcp_calls_together_max);
    let mut look = Look { room, ..Look::of(agent) };
    queue.take(
        |client, job| look.pick(client, job),
        |job| match job {
            Job::Ready(phases) => ready = Some(phases),
            Job::Call { .. } => batch.extend(job.begin(agent)),
        },
    );
    (batch, ready)
}

/// One look at those who wait.
struct Look<'a> {
    agent: &'a Agent,
    /// What those at work do, and those who were picked, beside looking.
    at_work: BTreeSet<Company>,
    /// Clients of whom a call stays behind.
    behind: BTreeSet<Actor>,
    /// How many more may come.
    room: usize,
    ways: Ways,
    /// Whether others are at work already.
    joins: bool,
    /// Whether somebody was picked, and whether one who may move the phase.
    picked: bool,
    moves: bool,
}

impl<'a> Look<'a> {
    fn of(agent: &'a Agent) -> Self {
        let (at_work, behind) = (BTreeSet::new(), BTreeSet::new());
        let (room, ways) = (0, Ways::default());
        Self { agent, at_work, behind, room, ways, joins: false, picked: false, moves: false }
    }

    fn pick(&mut self, client: &Actor, job: &Job) -> Pick {
        let order = match job {
            // Whoever gave up is in nobody's way, and goes.
            Job::Call { ticket, .. } if ticket.is_cancelled() => return Pick::Take,
            Job::Call { order, .. } => order,
            // Whoever is let in brings the news along.
            Job::Ready(_) if self.joins || self.picked => return Pick::Pass,
            Job::Ready(_) => {
                self.room = 0;
                return Pick::Take;
            }
        };
        // Whoever is bound to a phase is judged when it is known which one it is.
        if self.room == 0 || (order.phase.is_some() && self.moves) {
            return Pick::Stop;
        }
        let (company, way) = company(self.agent, order);
        // All wait for one that changes something. In a batch the driver sees to that.
        if self.joins && self.at_work.contains(&Company::Changes) {
            return Pick::Stop;
        }
        let most = count(self.agent.limits.mcp_calls_at_once_max);
        if !self.ways.has_room(&way, most, servers(self.agent)) {
            // Others of the client may go, by another way.
            self.behind.insert(client.clone());
            return Pick::Later;
        }
        match &company {
            Company::Looks => {}
            // One at a time by one way to the world, whoever calls. Others of the client may go.
            Company::Reaches(_) if self.at_work.contains(&company) => {
                self.behind.insert(client.clone());
                return Pick::Later;
            }
            // What changes something overtakes no other call of its client.
            Company::Changes if self.behind.contains(client) => return Pick::Pass,
            Company::Reaches(_) | Company::Changes => {
                self.moves = true;
                self.at_work.insert(company);
            }
        }
        self.ways.add(way);
        (self.room, self.picked) = (self.room - 1, true);
        Pick::Take
    }
}

/// The servers that any phase has, and the one that nobody knows: calls of unknown tools are to wait
/// for their own place too.
fn servers(agent: &Agent) -> impl Iterator<Item = &str> {
    let all = agent.phases().flat_map(|phase| agent.servers(&phase.name));
    all.map(|server| server.as_str()).chain([""])
}

fn count(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many calls of however many servers hang, the first one of another server begins.
    #[test]
    fn servers_that_hang_leave_a_place_for_each_other_one() {
        const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
        for (most, hanging) in [(64, 3), (64, 5), (16, 4), (8, 5)] {
            let (mut ways, all) = (Ways::default(), || NAMES.into_iter());
            let mut go = |server: &str, calls: usize| {
                let way = Way::Server(server.into());
                let mut gone = 0;
                while gone < calls && ways.has_room(&way, most, all()) {
                    ways.add(way.clone());
                    gone += 1;
                }
                gone
            };
            let hung: usize = NAMES.iter().take(hanging).map(|server| go(server, 100)).sum();
            let others: Vec<usize> =
                NAMES.iter().skip(hanging).map(|server| go(server, 1)).collect();
            assert!(others.iter().all(|begun| *begun == 1), "{most} {hanging}: {others:?}");
            assert!(hung + others.len() <= most - most / 4, "{most} {hanging}: {hung}");
            let own = Way::Own(ToolName::parse("list_notes").unwrap());
            assert!(ways.has_room(&own, most, all()));
        }
    }
}
