//! Decides how callers without a model loop share a session: who is let in, and whose calls are at
//! work together. One that does not come to its end keeps nobody waiting but those in its way
//! (ADR 0025).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::envelope::Envelope;
use toolgate_kernel::event::RawCall;
use toolgate_kernel::fold::{OpenCall, Progress, Session};
use toolgate_kernel::gate::Refusal;
use toolgate_kernel::names::{CallId, PhaseName};
use toolgate_kernel::next::is_lifted;

use super::ask::LOOK_MS;
use super::company::Place;
use super::left::{Found, Look, look_for};
use super::run::perform;
use super::supply::SupplyOutcome;
use super::{DriveFault, Driver};
use crate::crash_point;
use crate::execute::{Cancel, Executed};
use crate::port::{Parts, Response};
use crate::transaction::Ran;

/// A call by a caller without a model loop.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// By what it is known before it is received.
    pub ticket: u64,
    /// Who calls.
    pub actor: Actor,
    /// The tool, as the caller names it.
    pub name: String,
    /// The arguments as text.
    pub args: String,
    /// What the caller calls the call.
    pub alias: Option<String>,
    /// The only phase in which the caller may act.
    pub phase: Option<PhaseName>,
}

/// What a caller without a model loop is told of a call.
#[derive(Debug, Clone)]
pub struct Answered {
    /// The envelope.
    pub envelope: Arc<Envelope>,
    /// Whether the data is kept from models.
    pub message_only: bool,
    /// The answer as it came, where it came in parts.
    pub parts: Option<Arc<Parts>>,
}

/// Where callers without a model loop stand in line.
pub trait Floor: Send + Sync {
    /// Whether whoever made a call still waits for it. From now on it is in the log.
    fn enters(&mut self, ticket: u64) -> bool;

    /// One of those who were let in is known by this id from now on.
    fn received(&mut self, ticket: u64, call: CallId);

    /// Whether whoever made a call that was received still waits for it. It begins now, and cannot be
    /// taken back any more. A call of which nothing is known here begins.
    fn begins(&mut self, call: CallId) -> bool;

    /// What came of a call, as soon as it is durable, with the session and the agent of that moment.
    fn answered(
        &mut self,
        session: &Arc<Session>,
        agent: &Arc<Agent>,
        call: CallId,
        answered: Answered,
    );

    /// There are other tools from outside than before, with the session and the agent of that moment.
    fn supplied(&mut self, session: &Arc<Session>, agent: &Arc<Agent>);

    /// More calls that may begin beside those at work. It waits while there are none, and nothing is
    /// lost when it is not waited for.
    fn more(&mut self) -> BoxFuture<'_, Vec<Incoming>>;
}

/// The calls that have not come to their end, and those who wait for what they need.
#[derive(Default)]
struct Hall {
    at_work: BTreeMap<CallId, Place>,
    /// Those that were admitted and have not begun, in call order.
    line: VecDeque<(CallId, Place)>,
    /// Those that a person must be asked about, one after the other.
    questions: VecDeque<Arc<RawCall>>,
    asking: Option<Asking>,
    /// Callers who wait for tools from outside.
    supplying: Waits<Arrived>,
    /// Calls that wait for them to be sent again.
    resending: Waits<Resent>,
    /// Those that came to their end and are not settled yet.
    ended: Vec<(Box<Ran>, Executed)>,
}

/// Waits that mostly nobody has. Having none costs nothing.
struct Waits<T>(Option<FuturesUnordered<BoxFuture<'static, T>>>);

impl<T> Default for Waits<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Waits<T> {
    fn push(&mut self, wait: BoxFuture<'static, T>) {
        self.0.get_or_insert_default().push(wait);
    }

    /// The next one that is over; nothing where there are none.
    async fn next(&mut self) -> Option<T> {
        self.0.as_mut()?.next().await
    }

    fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(FuturesUnordered::is_empty)
    }
}

/// A question that is before a person.
struct Asking {
    raw: Arc<RawCall>,
    open: Arc<OpenCall>,
    here: BoxFuture<'static, Option<Response>>,
    /// When it is looked whether somebody else has answered.
    look: Instant,
}

/// Callers for whom tools from outside are there now, or are not.
struct Arrived {
    incoming: Vec<Incoming>,
    phase: PhaseName,
    /// Nothing where they were cut off before.
    supplied: Option<SupplyOutcome>,
}

/// A call that can be sent again now, or cannot.
struct Resent {
    call: CallId,
    /// Until when its server is tried again.
    until: Instant,
    phase: PhaseName,
    found: Found,
}

/// What is waited for while calls are at work.
enum News {
    Resent(Resent),
    Ended(Box<Ran>, Executed),
    Arrived(Arrived),
    More(Vec<Incoming>),
    /// What the person said, or nothing.
    Answered(Option<Response>),
    /// It is time to look whether somebody else has answered.
    Look,
}

impl Hall {
    /// The next call that may begin. It counts as at work from now on.
    fn next(&mut self) -> Option<CallId> {
        let may_begin = |at: &usize| {
            let waiting = self.line.iter().take(*at).map(|(_, place)| place);
            let place = self.line.get(*at).map(|(_, place)| place);
            place.is_some_and(|place| place.may_begin(self.at_work.values(), waiting))
        };
        let at = (0..self.line.len()).find(may_begin)?;
        let (id, place) = self.line.remove(at)?;
        self.at_work.insert(id, place);
        Some(id)
    }

    /// Whether somebody changes something and may come to the end of it at once.
    fn has_new_change(&self) -> bool {
        self.at_work.values().any(Place::is_new_change)
    }

    /// Whether nobody waits for anything but those at work.
    fn is_quiet(&self) -> bool {
        self.supplying.is_empty()
            && self.resending.is_empty()
            && self.asking.is_none()
            && self.questions.is_empty()
    }
}

/// What comes from outside; nothing where everybody is cut off before.
async fn unless_cut_off(
    supplied: BoxFuture<'static, SupplyOutcome>,
    cancel: &Cancel,
) -> Option<SupplyOutcome> {
    tokio::select! {
        biased;
        supplied = supplied => Some(supplied),
        () = cancel.cancelled() => None,
    }
}

impl Driver {
    /// Several calls by callers without a model loop, as one batch: judged in order. Those that do not
    /// get in each other's way are at work together, and others may join them. Nobody waits for the
    /// answer of another.
    pub async fn calls(
        &mut self,
        incoming: Vec<Incoming>,
        floor: Box<dyn Floor>,
    ) -> Result<(), DriveFault> {
        self.enter_open()?;
        self.floor = Some(floor);
        let attended = self.attend(incoming).await;
        self.floor = None;
        attended?;
        // What could not be sent again is for whoever has the session next.
        self.settle_all_but(&self.unsent()).await
    }

    /// Brings calls to their end: each begins as soon as nobody is in its way, and is settled when it
    /// ends. Others may join meanwhile.
    async fn attend(&mut self, incoming: Vec<Incoming>) -> Result<(), DriveFault> {
        let cancel = self.cancel.clone();
        let (mut hall, mut running) = (Hall::default(), FuturesUnordered::new());
        // What goes wrong when others are let in waits for those at work: they come to their end.
        let until = self.resend_until();
        for call in self.unsent() {
            self.send_again(call, until, Look::First, &mut hall);
        }
        let mut trouble = self.welcome(incoming, &mut hall).await.err();
        loop {
            self.tick();
            if trouble.is_none() {
                trouble = self.judge_lifted(&mut hall).await.err();
            }
            while let Some(id) = hall.next() {
                match self.begin(id).await? {
                    Some(begun) => running.push(perform(begun, self.call_ms_max(id), &cancel)),
                    None => drop(hall.at_work.remove(&id)),
                }
            }
            if let Some(fault) = trouble.take_if(|_| running.is_empty()) {
                return Err(fault);
            }
            if trouble.is_none() {
                trouble = self.ask_next(&mut hall).await.err();
            }
            // What was received, admitted and begun is durable before anything of it runs.
            self.flush().await?;
            if running.is_empty() && hall.is_quiet() && trouble.is_none() {
                return Ok(());
            }
            if hall.has_new_change() {
                // Most changes are made at once. Others make way for what has nothing to do with them.
                match running.next().now_or_never().flatten() {
                    Some(one) => self.settle_those(one, &mut running, &mut hall).await?,
                    None => hall.at_work.values_mut().for_each(Place::is_seen_to_wait),
                }
                continue;
            }
            let news = match trouble {
                None => Some(self.news(&mut hall, &mut running).await),
                Some(_) => running.next().await.map(|(ran, executed)| News::Ended(ran, executed)),
            };
            let done = match news {
                Some(News::Ended(ran, executed)) => {
                    self.settle_those((ran, executed), &mut running, &mut hall).await?;
                    continue;
                }
                Some(News::More(incoming)) => self.welcome(incoming, &mut hall).await,
                Some(News::Arrived(arrived)) => self.arrived(arrived, &mut hall).await,
                Some(News::Resent(resent)) => self.resend(resent, &mut hall),
                Some(News::Answered(word)) => self.heard_here(word, &mut hall).await,
                Some(News::Look) => self.look_elsewhere(&mut hall).await,
                None => Ok(()),
            };
            trouble = trouble.or(done.err());
        }
    }

    /// Waits until something happens.
    async fn news<F>(&mut self, hall: &mut Hall, running: &mut FuturesUnordered<F>) -> News
    where
        F: Future<Output = (Box<Ran>, Executed)>,
    {
        let more = match &mut self.floor {
            None => Either::Left(std::future::pending()),
            Some(floor) => Either::Right(floor.more()),
        };
        let (Hall { supplying, resending, asking, .. }, cancel) = (hall, &self.cancel);
        tokio::select! {
            biased;
            Some((ran, executed)) = running.next() => News::Ended(ran, executed),
            Some(arrived) = supplying.next() => News::Arrived(arrived),
            Some(resent) = resending.next() => News::Resent(resent),
            news = word(asking, cancel) => news,
            incoming = more => News::More(incoming),
        }
    }

    /// Settles a call that came to its end, together with those that did at the same time.
    async fn settle_those<F>(
        &mut self,
        one: (Box<Ran>, Executed),
        running: &mut FuturesUnordered<F>,
        hall: &mut Hall,
    ) -> Result<(), DriveFault>
    where
        F: Future<Output = (Box<Ran>, Executed)>,
    {
        self.tick();
        hall.ended.push(one);
        hall.ended.extend(std::iter::from_fn(|| running.next().now_or_never().flatten()));
        for (ran, executed) in hall.ended.drain(..) {
            hall.at_work.remove(&ran.call.id());
            crash_point!("after_effect");
            self.settle(ran, executed).await?;
        }
        // Whoever waits for what is settled has it before the next call begins.
        self.flush().await
    }

    /// Asks for the tools of a call that has to be sent again, after a while. Nobody else waits for
    /// them.
    fn send_again(&self, call: CallId, until: Instant, look: Look, hall: &mut Hall) {
        let Some(open) = self.session.open.get(&call) else { return };
        let Some((phase, supplied)) = self.supplied_again(vec![open.raw.name.clone()]) else {
            return self.line_up(Arc::clone(&open.raw), hall);
        };
        let cancel = self.cancel.clone();
        hall.resending.push(Box::pin(async move {
            let found = look_for(supplied, look, until, &cancel).await;
            Resent { call, until, phase, found }
        }));
    }

    /// Puts a call in line that is sent again. One that was cut off stays as it is in the log.
    fn resend(&mut self, resent: Resent, hall: &mut Hall) -> Result<(), DriveFault> {
        self.tick();
        let Resent { call, until, phase, found } = resent;
        if let Found::CutOff = found {
            return Ok(());
        }
        if self.session.phase.as_ref() != Some(&phase) {
            // The phase moved meanwhile, and may need others.
            self.send_again(call, until, Look::First, hall);
            return Ok(());
        }
        let lacks = match found {
            Found::Told(supplied) => self.lacks_still(call, phase, supplied)?,
            Found::Late | Found::CutOff => true,
        };
        if lacks && tokio::time::Instant::now() < until {
            self.send_again(call, until, Look::Next, hall);
        } else if let Some(open) = self.session.open.get(&call) {
            self.line_up(Arc::clone(&open.raw), hall);
        }
        Ok(())
    }

    /// Goes on with what came from outside; whether the server of a call is still not there.
    fn lacks_still(
        &mut self,
        call: CallId,
        phase: PhaseName,
        supplied: SupplyOutcome,
    ) -> Result<bool, DriveFault> {
        match self.take_supplied(phase, supplied) {
            Ok(()) => Ok(self.is_down(call)),
            Err(DriveFault::Supply(fault)) => {
                self.note_lack(&fault)?;
                Ok(true)
            }
            Err(fault) => Err(fault),
        }
    }

    /// Lets callers in, with the world as it is now.
    async fn welcome(
        &mut self,
        incoming: Vec<Incoming>,
        hall: &mut Hall,
    ) -> Result<(), DriveFault> {
        self.hear_of_calls().await?;
        self.take_in_news().await?;
        self.supply_and_admit(incoming, hall).await
    }

    /// Admits calls when the tools from outside are there that they need. Nobody else waits for those.
    async fn supply_and_admit(
        &mut self,
        incoming: Vec<Incoming>,
        hall: &mut Hall,
    ) -> Result<(), DriveFault> {
        let mut groups = vec![incoming];
        while let Some(incoming) = groups.pop() {
            let names = incoming.iter().map(|call| call.name.clone());
            let Some((phase, mut supplied)) = self.supplied_for(names) else {
                self.admit(incoming, hall).await?;
                continue;
            };
            if let Some(supplied) = (&mut supplied).now_or_never() {
                let supplied = Some(supplied);
                self.admit_supplied(Arrived { incoming, phase, supplied }, hall).await?;
            } else if incoming.len() > 1 {
                // Each waits for its own.
                groups.extend(incoming.into_iter().rev().map(|call| vec![call]));
            } else {
                let cancel = self.cancel.clone();
                hall.supplying.push(Box::pin(async move {
                    let supplied = unless_cut_off(supplied, &cancel).await;
                    Arrived { incoming, phase, supplied }
                }));
            }
        }
        Ok(())
    }

    /// Goes on with callers who waited for tools from outside.
    async fn arrived(&mut self, arrived: Arrived, hall: &mut Hall) -> Result<(), DriveFault> {
        self.tick();
        if arrived.supplied.is_none() || self.session.phase.as_ref() == Some(&arrived.phase) {
            return self.admit_supplied(arrived, hall).await;
        }
        // The phase moved meanwhile, and may need others.
        self.supply_and_admit(arrived.incoming, hall).await
    }

    async fn admit_supplied(
        &mut self,
        arrived: Arrived,
        hall: &mut Hall,
    ) -> Result<(), DriveFault> {
        let Arrived { mut incoming, phase, supplied } = arrived;
        let Some(supplied) = supplied else {
            // All are cut off at the same moment, and are told so together.
            let supplying = &mut hall.supplying;
            let others = std::iter::from_fn(|| supplying.next().now_or_never().flatten());
            incoming.extend(others.flat_map(|other| other.incoming));
            return self.turn_away(incoming, &Refusal::cancelled()).await;
        };
        match self.take_supplied(phase, supplied) {
            Ok(()) => self.admit(incoming, hall).await,
            Err(DriveFault::Supply(fault)) => {
                self.note_lack(&fault)?;
                self.turn_away(incoming, &Refusal::lacking(&fault.told())).await
            }
            Err(fault) => Err(fault),
        }
    }

    /// Receives and judges calls; those that are admitted stand in line.
    async fn admit(&mut self, incoming: Vec<Incoming>, hall: &mut Hall) -> Result<(), DriveFault> {
        let raws = self.receive_all(incoming)?;
        self.judge(&raws).await?;
        for raw in raws {
            self.line_up(raw, hall);
        }
        Ok(())
    }

    /// Puts a call that was judged where it waits: in line, or for a person's word.
    fn line_up(&self, raw: Arc<RawCall>, hall: &mut Hall) {
        let open = self.session.open.get(&raw.id);
        if let Some((open, admitted)) = open.zip(self.admitted(raw.id)) {
            let place = Place::of(admitted, open.actor.clone(), &self.crew.agent.toolset);
            hall.line.push_back((raw.id, place));
        } else if self.is_asked(raw.id) {
            hall.questions.push_back(raw);
        }
    }

    /// Receives calls. Those that must not be made in the phase of now are refused.
    fn receive_all(&mut self, incoming: Vec<Incoming>) -> Result<Vec<Arc<RawCall>>, DriveFault> {
        let mut raws = Vec::with_capacity(incoming.len());
        for Incoming { ticket, actor, name, args, alias, phase } in incoming {
            // Whoever waited for tools from outside may have left: nothing of the call runs.
            if self.floor.as_mut().is_some_and(|floor| !floor.enters(ticket)) {
                continue;
            }
            let raw = self.receive(&actor, name, args, alias)?;
            if let Some(floor) = &mut self.floor {
                floor.received(ticket, raw.id);
            }
            let now = self.session.phase.as_ref();
            if let Some(own) = phase.filter(|own| Some(own) != now) {
                self.refuse(&raw, &Refusal::out_of_phase(&own, now))?;
            } else {
                raws.push(raw);
            }
        }
        Ok(raws)
    }

    /// Refuses calls without judging them.
    async fn turn_away(
        &mut self,
        incoming: Vec<Incoming>,
        refusal: &Refusal,
    ) -> Result<(), DriveFault> {
        for raw in self.receive_all(incoming)? {
            self.refuse(&raw, refusal)?;
        }
        self.flush().await
    }

    /// Asks a person about the next call, where nobody is asked about another one. Everybody else
    /// goes on meanwhile.
    async fn ask_next(&mut self, hall: &mut Hall) -> Result<(), DriveFault> {
        while hall.asking.is_none() {
            let Some(raw) = hall.questions.pop_front() else { return Ok(()) };
            let Some(asked) = self.question(raw.id).await? else { continue };
            let (open, ms) = (Arc::clone(&asked.open), self.crew.agent.limits.answer_ms_max);
            let here = Box::pin(async move { asked.heard(ms).await });
            hall.asking = Some(Asking { raw, open, here, look: next_look() });
        }
        Ok(())
    }

    async fn heard_here(
        &mut self,
        word: Option<Response>,
        hall: &mut Hall,
    ) -> Result<(), DriveFault> {
        let Some(Asking { raw, open, .. }) = hall.asking.take() else { return Ok(()) };
        if self.is_asked(raw.id) {
            self.take_answer(&open, word).await?;
        }
        self.judge_answered(raw, hall).await
    }

    /// Hears whether somebody else has answered.
    async fn look_elsewhere(&mut self, hall: &mut Hall) -> Result<(), DriveFault> {
        self.tick();
        self.hear().await?;
        match hall.asking.take_if(|asking| !self.is_asked(asking.raw.id)) {
            Some(Asking { raw, .. }) => self.judge_answered(raw, hall).await,
            None => {
                hall.asking.iter_mut().for_each(|asking| asking.look = next_look());
                Ok(())
            }
        }
    }

    /// Judges calls again that nobody need be asked about any more.
    async fn judge_lifted(&mut self, hall: &mut Hall) -> Result<(), DriveFault> {
        for raw in std::mem::take(&mut hall.questions) {
            let open = self.session.open.get(&raw.id).map(|open| &open.progress);
            if open.is_some_and(|asked| is_lifted(&self.session, asked)) {
                self.judge(std::slice::from_ref(&raw)).await?;
                self.line_up(raw, hall);
            } else {
                hall.questions.push_back(raw);
            }
        }
        Ok(())
    }

    /// Judges a call again that a person has spoken about.
    async fn judge_answered(
        &mut self,
        raw: Arc<RawCall>,
        hall: &mut Hall,
    ) -> Result<(), DriveFault> {
        let open = self.session.open.get(&raw.id).map(|open| &open.progress);
        if matches!(open, Some(Progress::Answered(_))) {
            self.judge(std::slice::from_ref(&raw)).await?;
            self.line_up(raw, hall);
        }
        Ok(())
    }
}

/// Waits for a person's word, where one is asked. At the end nobody is waited for.
async fn word(asking: &mut Option<Asking>, cancel: &Cancel) -> News {
    let Some(asking) = asking else { return std::future::pending().await };
    tokio::select! {
        biased;
        () = cancel.cancelled() => News::Answered(None),
        word = &mut asking.here => News::Answered(word),
        () = tokio::time::sleep_until(asking.look) => News::Look,
    }
}

fn next_look() -> Instant {
    tokio::time::Instant::now() + Duration::from_millis(LOOK_MS)
}
