//! Decides how callers without a model loop share a session: who is let in, and whose calls are at
//! work together. One that does not come to its end keeps nobody waiting but those in its way
//! (ADR 0025).

use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{BoxFuture, Either, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::envelope::Envelope;
use toolgate_kernel::event::RawCall;
use toolgate_kernel::fold::{Progress, Session};
use toolgate_kernel::gate::Refusal;
use toolgate_kernel::names::{CallId, PhaseName};

use super::company::Company;
use super::run::perform;
use super::supply::Supplied;
use super::{DriveFault, Driver};
use crate::crash_point;
use crate::execute::Executed;
use crate::port::{Parts, SupplyFault};
use crate::transaction::Ran;

/// A call by a caller without a model loop.
#[derive(Debug, Clone)]
pub struct Incoming {
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
    /// The next of those who were let in is known by this id from now on.
    fn received(&mut self, call: CallId);

    /// What came of a call, as soon as it is durable, with the session and the agent of that moment.
    fn answered(
        &mut self,
        session: &Arc<Session>,
        agent: &Arc<Agent>,
        call: CallId,
        answered: Answered,
    );

    /// More calls that may begin beside those at work. It waits while there are none, and nothing is
    /// lost when it is not waited for.
    fn more(&mut self) -> BoxFuture<'_, Vec<Incoming>>;
}

/// The calls that were admitted and have not come to their end.
#[derive(Default)]
struct Hall {
    at_work: BTreeMap<CallId, Company>,
    /// Those that have not begun, in call order.
    line: VecDeque<(CallId, Company)>,
}

impl Hall {
    /// The next call that may begin. It counts as at work from now on.
    fn next(&mut self) -> Option<CallId> {
        let may_begin = |at: &usize| {
            let waiting = self.line.iter().take(*at).map(|(_, company)| company);
            let company = self.line.get(*at).map(|(_, company)| company);
            company.is_some_and(|company| company.may_begin(self.at_work.values(), waiting))
        };
        let at = (0..self.line.len()).find(may_begin)?;
        let (id, company) = self.line.remove(at)?;
        self.at_work.insert(id, company);
        Some(id)
    }

    /// Whether others may be let in: nobody changes anything, or is about to.
    fn is_open(&self) -> bool {
        let mut line = self.line.iter().map(|(_, company)| company);
        let changes = |company: &Company| *company == Company::Changes;
        !self.at_work.values().any(changes) && !line.any(changes)
    }
}

/// Callers who wait for tools from outside, while others are at work.
struct Supplying {
    incoming: Vec<Incoming>,
    phase: PhaseName,
    supplied: BoxFuture<'static, Supplied>,
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
        let entered = self.enter_call().await;
        self.floor = Some(floor);
        let done = match entered {
            Ok(()) => match self.receive_all(incoming) {
                Ok(_) => self.settle_received().await,
                Err(fault) => Err(fault),
            },
            Err(DriveFault::Supply(fault)) => self.turn_away(incoming, &fault).await,
            Err(fault) => Err(fault),
        };
        self.floor = None;
        done
    }

    fn receive_all(&mut self, incoming: Vec<Incoming>) -> Result<Vec<Arc<RawCall>>, DriveFault> {
        let mut raws = Vec::with_capacity(incoming.len());
        for Incoming { actor, name, args, alias, phase } in incoming {
            let raw = self.receive(&actor, name, args, alias)?;
            if let Some(floor) = &mut self.floor {
                floor.received(raw.id);
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

    /// Refuses calls in a phase that cannot begin.
    async fn turn_away(
        &mut self,
        incoming: Vec<Incoming>,
        fault: &SupplyFault,
    ) -> Result<(), DriveFault> {
        self.note_lack(fault)?;
        let refusal = Refusal::lacking(&fault.told());
        for raw in self.receive_all(incoming)? {
            self.refuse(&raw, &refusal)?;
        }
        self.flush().await
    }

    /// Runs calls of callers who do not wait for each other: each begins as soon as nobody is in its
    /// way, and is settled when it ends. Others may join meanwhile.
    pub(super) async fn run_beside(&mut self, ids: &[CallId]) -> Result<(), DriveFault> {
        let cancel = self.cancel.clone();
        let mut running = FuturesUnordered::new();
        let mut ended: Vec<(Ran, Executed)> = Vec::new();
        let (mut hall, mut supplying): (_, Option<Supplying>) = (Hall::default(), None);
        // What goes wrong when others are let in waits for those at work: they come to their end.
        let mut trouble: Option<DriveFault> = None;
        self.line_up(&mut hall, ids.iter().copied());
        loop {
            self.tick();
            if !ended.is_empty() {
                for (ran, executed) in ended.drain(..) {
                    hall.at_work.remove(&ran.call.id());
                    crash_point!("after_effect");
                    self.settle(ran, executed).await?;
                }
                // Whoever waits for what is settled has it before the next call begins.
                self.flush().await?;
            }
            while let Some(id) = hall.next() {
                match self.begin(id).await? {
                    Some(begun) => running.push(perform(begun, self.call_ms_max(id), &cancel)),
                    None => drop(hall.at_work.remove(&id)),
                }
            }
            // What was received, admitted and begun is durable before anything of it runs.
            self.flush().await?;
            if running.is_empty() && supplying.is_none() {
                return trouble.map_or(Ok(()), Err);
            }
            let open = supplying.is_none() && trouble.is_none() && hall.is_open();
            let more = match self.floor.as_mut().filter(|_| open) {
                None => Either::Left(std::future::pending()),
                Some(floor) => Either::Right(floor.more()),
            };
            let (incoming, supplied) = tokio::select! {
                biased;
                Some(one) = running.next() => {
                    ended.push(one);
                    // Those that ended at the same time are written down together.
                    ended.extend(std::iter::from_fn(|| running.next().now_or_never().flatten()));
                    continue;
                }
                (incoming, supplied) = arrived(&mut supplying) => (incoming, Some(supplied)),
                incoming = more => {
                    self.tick();
                    if let Err(fault) = self.hear_and_take_in().await {
                        trouble = Some(fault);
                        continue;
                    }
                    match self.supplied() {
                        None => (incoming, None),
                        Some((phase, mut supplied)) => match (&mut supplied).now_or_never() {
                            Some(at_once) => (incoming, Some((phase, at_once))),
                            None => {
                                // Nobody who is at work waits for it.
                                supplying = Some(Supplying { incoming, phase, supplied });
                                continue;
                            }
                        },
                    }
                }
            };
            self.tick();
            let taken = supplied.map_or(Ok(()), |(phase, it)| self.take_supplied(phase, it));
            match taken {
                Ok(()) => {
                    let raws = self.receive_all(incoming)?;
                    self.judge(&raws).await?;
                    for raw in &raws {
                        self.ask_beside(raw, &mut running, &mut ended).await?;
                    }
                    self.line_up(&mut hall, raws.iter().map(|raw| raw.id));
                }
                Err(DriveFault::Supply(fault)) => self.turn_away(incoming, &fault).await?,
                Err(fault) => trouble = Some(fault),
            }
        }
    }

    async fn hear_and_take_in(&mut self) -> Result<(), DriveFault> {
        self.hear_of_calls().await?;
        self.take_in_news().await
    }

    /// Puts those of some calls in line that were admitted.
    fn line_up(&self, hall: &mut Hall, ids: impl Iterator<Item = CallId>) {
        let company = |id| Some((id, Company::of_call(self.admitted(id)?.as_ref())));
        hall.line.extend(ids.filter_map(company));
    }

    /// Brings the questions about a call to an end, while others stay at work.
    async fn ask_beside<F>(
        &mut self,
        raw: &Arc<RawCall>,
        running: &mut FuturesUnordered<F>,
        ended: &mut Vec<(Ran, Executed)>,
    ) -> Result<(), DriveFault>
    where
        F: Future<Output = (Ran, Executed)>,
    {
        loop {
            match self.session.open.get(&raw.id).map(|open| &open.progress) {
                Some(Progress::Answered { .. }) => self.judge(std::slice::from_ref(raw)).await?,
                Some(Progress::Asked { .. }) => {
                    let mut asking = pin!(self.ask(raw.id));
                    loop {
                        tokio::select! {
                            biased;
                            asked = &mut asking => break asked?,
                            Some(one) = running.next() => ended.push(one),
                        }
                    }
                }
                Some(Progress::Received | Progress::Admitted(_) | Progress::Started(_)) | None => {
                    return Ok(());
                }
            }
        }
    }
}

/// Waits for tools from outside, where somebody does.
async fn arrived(supplying: &mut Option<Supplying>) -> (Vec<Incoming>, (PhaseName, Supplied)) {
    let Some(waiting) = supplying else { return std::future::pending().await };
    let supplied = (&mut waiting.supplied).await;
    let (incoming, phase) = (std::mem::take(&mut waiting.incoming), waiting.phase.clone());
    *supplying = None;
    (incoming, (phase, supplied))
}
