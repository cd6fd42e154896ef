//! Decides how a session is driven: one driver, one log, one way for every call.

mod ask;
mod company;
mod evidence;
mod floor;
mod fork;
mod judge;
mod left;
mod model;
mod open;
mod redact;
mod request;
mod restored;
mod run;
mod settle;
mod supply;
mod take_in;
mod undo;

use std::collections::BTreeMap;
use std::mem::take;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::bounded::bounded_text;
use toolgate_kernel::credential::PersonKey;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::envelope::Envelope;
use toolgate_kernel::event::{
    AuthorRefusal, CallRefused, CallSettled, Event, ProjectEvent, RawCall, Record, StreamId,
};
use toolgate_kernel::fold::{Counted, Project, Session, StateRefusal, World};
use toolgate_kernel::gate::Admitted;
use toolgate_kernel::key::Key;
use toolgate_kernel::names::{CallId, PhaseName};
use toolgate_kernel::next::{Step, open_calls};
use toolgate_kernel::prompt_skips::PromptSkips;
use toolgate_kernel::request::RequestError;
use toolgate_kernel::seeded::{Bug, seeded};
use toolgate_kernel::time::Timestamp;

pub use company::Company;
pub use floor::{Answered, Floor, Incoming};
pub use model::Halt;
use model::Partial;
pub use open::{OpenFault, Start};
pub use restored::unknown_restore;

use crate::authority::{Author, sign};
use crate::crash_point;
use crate::execute::{Cancel, within};
use crate::log::{ReadFault, Tip, batch};
use crate::picture::Pictures;
use crate::port::{
    Append, Batch, Desk, EvidenceSources, FilesFault, Person, Promised, Provider, Rows, StoreFault,
    Supplier, SupplyFault, at_once, later,
};
use crate::receipts::ReceiptIndex;
use crate::runtime::{Committed, Runtime, SayFault};
use crate::toolbox::Toolbox;
use crate::transaction::Shared;
use crate::undo::UndoRefusal;

/// Why a session cannot be driven on. What was acknowledged is in the log; resume it.
#[derive(Debug, thiserror::Error)]
pub enum DriveFault {
    /// The log could not be written or read.
    #[error(transparent)]
    Store(#[from] StoreFault),
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadFault),
    /// Somebody tried what only a person may do.
    #[error(transparent)]
    Author(#[from] AuthorRefusal),
    /// An earlier fault ended this driver.
    #[error("this driver stopped at an earlier fault; resume the session")]
    Stopped,
    /// A call came to no end, which is a mistake of ours.
    #[error("call {0} has no result")]
    NoResult(CallId),
    /// The session is over.
    #[error("the session has ended; open a new one")]
    Ended,
    /// A change that cannot be made to what is there.
    #[error(transparent)]
    Change(#[from] StateRefusal),
    /// A change of something that is not kept with the session.
    #[error("{0} is not kept with the session")]
    NotHere(Key),
    /// What a person wrote into a file could not be looked at.
    #[error(transparent)]
    Files(#[from] FilesFault),
    /// What a person said could not be written down.
    #[error(transparent)]
    Say(#[from] SayFault),
    /// Something from outside is missing without which the phase must not begin.
    #[error(transparent)]
    Supply(#[from] SupplyFault),
    /// Nothing can be undone, or not what was shown.
    #[error(transparent)]
    Undo(#[from] UndoRefusal),
    /// A request names what there is not.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A person asked for a phase that does not exist.
    #[error("there is no phase {0}")]
    NoPhase(PhaseName),
}

/// Who and what a driver works with.
#[derive(Clone)]
pub struct Crew {
    /// The agent.
    pub agent: Arc<Agent>,
    /// Its handlers.
    pub tools: Toolbox,
    /// The model, where one drives.
    pub provider: Option<Arc<dyn Provider>>,
    /// Who brings tools from outside, where there are any.
    pub supplier: Option<Arc<dyn Supplier>>,
    /// Where the evidence of replies is looked up; without it none is accepted.
    pub evidence: Option<Arc<dyn EvidenceSources>>,
    /// Somebody who can be asked.
    pub person: Option<Arc<dyn Person>>,
    /// The key of the person who opens sessions here, where they have one.
    pub starter: Option<PersonKey>,
    /// What is done about calls that a person must approve.
    pub on_ask: OnAsk,
    /// What the requests to the model leave out.
    pub skips: PromptSkips,
    /// Hears the heartbeats of running calls.
    pub heartbeat: Arc<dyn Fn(CallId) + Send + Sync>,
}

impl Crew {
    /// An agent with its handlers, without a model and with nobody to ask.
    pub fn new(agent: Arc<Agent>, tools: Toolbox) -> Self {
        let heartbeat = Arc::new(|_| {});
        let on_ask = OnAsk::Prompt;
        Self {
            agent,
            tools,
            provider: None,
            supplier: None,
            evidence: None,
            person: None,
            starter: None,
            on_ask,
            skips: PromptSkips::default(),
            heartbeat,
        }
    }
}

/// What is done about a call that a person must approve. Nothing here approves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnAsk {
    /// Whoever is there is asked; when nobody is, it is put off.
    Prompt,
    /// It is put off, also when somebody is there.
    Park,
    /// It is refused.
    Deny,
}

/// The configuration that was in force before another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplacedConfig {
    /// Its fingerprint.
    pub config: Digest,
    /// The text of its file without secrets, where it was made of one.
    pub text: Option<String>,
}

/// The one driver of a session.
pub struct Driver {
    runtime: Arc<Runtime>,
    crew: Crew,
    /// Its stream.
    stream: StreamId,
    epoch: u64,
    /// The session with what is about to be appended. Every way in appends before it returns;
    /// after one that did not, there is no way in.
    session: Arc<Session>,
    /// The end of the stream, with what is about to be appended.
    tip: Tip,
    /// The end of the stream as the log has it.
    base: Tip,
    pending: Pending,
    /// Calls that were admitted by this driver and have not begun.
    ready: Vec<Admitted>,
    /// What callers without a model loop wait for.
    results: Vec<(CallId, Answered)>,
    /// Where they stand in line, while their calls are brought to an end.
    floor: Option<Box<dyn Floor>>,
    /// The moment of the step that is being taken.
    now: Timestamp,
    /// What handlers can reach, whatever they are called with.
    shared: Arc<Shared>,
    cancel: Cancel,
    stopped: bool,
    /// Files that people changed at the very moment a call did, with the keys the call wrote.
    unplaced: BTreeMap<String, Vec<Key>>,
    /// Files of people that could not be taken in, as they were when that was told.
    unreadable: BTreeMap<&'static str, Option<Digest>>,
    /// The configuration that was in force before this start, when it is another one.
    replaced: Option<ReplacedConfig>,
    /// Whether there are other tools from outside than the log says so far.
    supplied: bool,
    /// What was written down as missing, without which the phase cannot begin.
    lack: Option<String>,
    /// What a seeded bug has not written yet.
    late: Option<Append>,
    /// What the model keeps of this session.
    desk: Desk,
    /// The receipts of this session, as far as they were looked up.
    receipts: ReceiptIndex,
    /// Whether this driver has asked the model before.
    asked: bool,
    /// The pictures that were shown, so that they are read once.
    pictures: Pictures,
    /// What has come so far of the reply that is under way.
    partial: Arc<Mutex<Partial>>,
}

/// Rows on their way to the log.
#[derive(Default)]
struct Pending {
    rows: Rows,
    /// Told to observers once the rows are durable. After an append that failed only a rewind lets
    /// the driver go on, and that forgets them.
    records: Vec<Arc<Record<Event>>>,
    blobs: Vec<(Digest, Vec<u8>)>,
}

impl Driver {
    /// The session as the log has it: a snapshot that stays as it is. After a fault only a
    /// resume can tell what the log has.
    pub fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session)
    }

    /// The project as this process has read it.
    pub fn project(&self) -> Arc<Project> {
        self.runtime.project().0
    }

    /// The agent.
    pub fn agent(&self) -> &Arc<Agent> {
        &self.crew.agent
    }

    /// The configuration that was in force at the last start, when it is not the one of now.
    pub fn replaced_config(&self) -> Option<&ReplacedConfig> {
        self.replaced.as_ref()
    }

    /// A switch that stops what is running.
    pub fn cancel(&self) -> Cancel {
        self.cancel.clone()
    }

    /// The end of the session's stream as the log has it.
    pub fn durable_tip(&self) -> Tip {
        self.base
    }

    /// One call by a caller without a model loop, through the whole gate.
    pub async fn call(
        &mut self,
        actor: &Actor,
        name: &str,
        args: &str,
        alias: Option<&str>,
    ) -> Result<Envelope, DriveFault> {
        self.enter_call().await?;
        let is_alone = self.session.open.is_empty();
        let (name, args) = (name.to_owned(), args.to_owned());
        let raw = self.receive(actor, name, args, alias.map(str::to_owned))?;
        // Nobody need look which call comes first.
        if is_alone {
            self.judge(std::slice::from_ref(&raw)).await?;
            if self.admitted(raw.id).is_some() {
                self.run_calls(&[raw.id]).await?;
            }
        }
        self.settle_received().await?;
        self.taken(raw.id)
    }

    /// Lets in whoever calls without a model loop, with the world as it is now.
    async fn enter_call(&mut self) -> Result<(), DriveFault> {
        self.enter_open()?;
        // Whoever came before may have been cut off.
        self.floor = None;
        self.hear_of_calls().await?;
        self.look_around().await
    }

    /// What a person said about calls, or about what the session read, counts before the next one.
    async fn hear_of_calls(&mut self) -> Result<(), DriveFault> {
        let session = &self.session;
        let waits = !session.waiting.is_empty() || !session.allowances.is_empty();
        if !waits && !session.flow.may_ask() {
            return Ok(());
        }
        self.tick();
        self.hear().await
    }

    /// Makes calls of those that waited and a person said yes to meanwhile, whoever made them first.
    /// Tells what came of them, and of calls that were brought to their end before.
    pub async fn take_up_approved(&mut self) -> Result<Vec<(CallId, Answered)>, DriveFault> {
        self.enter_call().await?;
        let waiting = self.session.waiting.iter();
        let yes = waiting.filter(|(_, waiting)| waiting.approved()).map(|(id, _)| *id);
        for id in yes.collect::<Vec<_>>() {
            self.take_up(id)?;
            self.settle_received().await?;
        }
        Ok(take(&mut self.results))
    }

    async fn look_around(&mut self) -> Result<(), DriveFault> {
        self.take_in_news().await?;
        if self.crew.supplier.is_some() { self.resupply().await } else { Ok(()) }
    }

    async fn take_in_news(&mut self) -> Result<(), DriveFault> {
        self.tick();
        if self.crew.agent.toolset.projections().next().is_some() {
            self.runtime.catch_up().await?;
            self.take_in().await?;
            self.tick();
        }
        Ok(())
    }

    fn receive(
        &mut self,
        actor: &Actor,
        name: String,
        args: String,
        alias: Option<String>,
    ) -> Result<Arc<RawCall>, DriveFault> {
        let id = CallId(self.session.next_call);
        let redactor = &self.runtime.redactor;
        let (name, args) = (redactor.redact(&name).into_owned(), redactor.redact_json(args));
        let alias = alias.map(|alias| redactor.redact(&alias).into_owned());
        let (name, alias) = self.bounded_call(name, alias);
        // Whoever makes a call again that a person has said yes to meanwhile gets what comes of it.
        let of = self.session.spoken_about(actor, &name, &args);
        let args = of.and_then(|of| self.session.waiting.get(&of)).map_or(args, |w| w.args_text());
        let call = Arc::new(RawCall { id, name, args, alias });
        self.note(actor, Event::CallReceived { call: Arc::clone(&call), of })?;
        Ok(call)
    }

    /// A name and an id from outside, cut where they are too long to be written down.
    pub(super) fn bounded_call(
        &self,
        name: String,
        alias: Option<String>,
    ) -> (String, Option<String>) {
        let limits = &self.crew.agent.limits;
        let alias = alias.map(|alias| bounded_text(&alias, limits.call_id_bytes_max).into_owned());
        (bounded_text(&name, limits.call_name_bytes_max).into_owned(), alias)
    }

    fn taken(&mut self, id: CallId) -> Result<Envelope, DriveFault> {
        let at = self.results.iter().position(|(call, _)| *call == id);
        let (_, answered) = self.results.swap_remove(at.ok_or(DriveFault::NoResult(id))?);
        Ok(Arc::unwrap_or_clone(answered.envelope))
    }

    /// Looks at the clock: once per step, so that a step happens at one moment.
    fn tick(&mut self) {
        self.now = self.runtime.clock.now();
    }

    /// Brings to their end the calls that were received at this very moment.
    async fn settle_received(&mut self) -> Result<(), DriveFault> {
        self.settle_all_but(&[]).await
    }

    /// The same for all but some that were begun.
    async fn settle_all_but(&mut self, kept: &[CallId]) -> Result<(), DriveFault> {
        loop {
            let step = open_calls(&self.session);
            match step {
                Some(Step::Judge(raws)) => self.judge(&raws).await?,
                Some(Step::AskPerson(id)) => self.ask(id).await?,
                Some(Step::TakeUp(id)) => self.take_up(id)?,
                Some(Step::Run(mut ids)) => {
                    ids.retain(|id| !kept.contains(id));
                    if ids.is_empty() {
                        break;
                    }
                    self.run_calls(&ids).await?;
                }
                _ => break,
            }
        }
        self.flush().await
    }

    fn world<'a>(&'a self, project: &'a Project) -> World<'a> {
        let now = self.now;
        let toolset = &self.crew.agent.toolset;
        World { session: &self.session, project, toolset, now, counted: Counted::NotYet }
    }

    /// Lets a caller in, unless an earlier one was cut off with something in line: nobody may
    /// append in its name.
    fn enter(&self) -> Result<(), DriveFault> {
        if self.pending.rows.is_empty() { self.alive() } else { Err(DriveFault::Stopped) }
    }

    /// The same for what cannot be done once the session has ended.
    fn enter_open(&self) -> Result<(), DriveFault> {
        self.enter()?;
        if self.session.ended.is_some() { Err(DriveFault::Ended) } else { Ok(()) }
    }

    fn alive(&self) -> Result<(), DriveFault> {
        if self.stopped { Err(DriveFault::Stopped) } else { Ok(()) }
    }

    /// Puts an event in line for the log; the outside does not see it before it is durable.
    fn note<'a>(&mut self, author: impl Into<Author<'a>>, event: Event) -> Result<(), DriveFault> {
        let author = author.into();
        self.alive()?;
        let mut record = Record {
            seq: self.session.seq + 1,
            at: self.now,
            actor: author.actor.clone(),
            epoch: self.epoch,
            saw: self.runtime.newly_seen(self.session.saw),
            event,
            decision: None,
        };
        if author.signer.is_some() {
            let (project, log) = (self.runtime.project().0, self.runtime.store.log_id());
            sign(&mut record, &self.stream, author, &project, log);
        }
        self.tip.add(&record, &mut self.pending.rows)?;
        Arc::make_mut(&mut self.session).apply(&record);
        if let Event::CallSettled(CallSettled { call, envelope, message_only, .. }) = &record.event
        {
            self.result(*call, envelope, *message_only);
        } else if let Event::CallRefused(CallRefused { call, envelope, .. }) = &record.event {
            self.result(*call, envelope, false);
        }
        if self.runtime.watched() {
            self.pending.records.push(Arc::new(record));
        }
        Ok(())
    }

    /// Keeps what a caller without a model loop waits for.
    fn result(&mut self, call: CallId, envelope: &Arc<Envelope>, message_only: bool) {
        if self.session.turns.back().is_none_or(|turn| !turn.told.contains_key(&call)) {
            // A settlement that was taken back and written anew counts in its last form.
            self.results.retain(|(other, _)| *other != call);
            let envelope = Arc::clone(envelope);
            self.results.push((call, Answered { envelope, message_only, parts: None }));
        }
    }

    /// Makes everything in line durable; only then is it so.
    async fn flush(&mut self) -> Result<(), DriveFault> {
        if self.pending.rows.is_empty() {
            return self.alive();
        }
        self.append(Vec::new(), |_| {}).await
    }

    /// Appends what is in line, together with batches for other streams.
    async fn append(
        &mut self,
        others: Vec<Batch>,
        appended: impl FnOnce(&Runtime),
    ) -> Result<(), DriveFault> {
        self.alive()?;
        let append = self.sealed(others);
        let append_ms_max = self.crew.agent.limits.append_ms_max;
        crash_point!("before_append");
        let answered = within(append_ms_max, pin!(self.write_down(append))).await;
        answered.ok_or(StoreFault::TimedOut(append_ms_max))??;
        crash_point!("after_append");
        self.base = self.tip;
        self.stopped = false;
        appended(&self.runtime);
        self.tell();
        Ok(())
    }

    /// What is in line, together with batches for other streams.
    fn sealed(&mut self, others: Vec<Batch>) -> Append {
        // Until the log has answered, nobody can say what is in it.
        self.stopped = true;
        let (rows, blobs) = (take(&mut self.pending.rows), take(&mut self.pending.blobs));
        let own = batch(self.stream.clone(), Some(self.epoch), self.base.seq, rows, self.tip);
        let mut batches = Vec::with_capacity(1 + others.len());
        batches.push(own);
        batches.extend(others);
        Append { batches, blobs }
    }

    /// Tells everyone who waits for it what is durable now.
    fn tell(&mut self) {
        for record in self.pending.records.drain(..) {
            self.runtime.publish(Committed::Session(self.session.id.clone(), record));
        }
        let supplied = take(&mut self.supplied);
        if let Some(floor) = &mut self.floor {
            if supplied {
                floor.supplied(&self.session, &self.crew.agent);
            }
            for (call, answered) in self.results.drain(..) {
                floor.answered(&self.session, &self.crew.agent, call, answered);
            }
        }
    }

    /// Hands everything to the store at once; the seeded bugs do it wrongly.
    fn write_down(&mut self, append: Append) -> Promised<'_, Result<(), StoreFault>> {
        if seeded(Bug::AckBeforeCommit) {
            // Said to be done, and written with the next one.
            return match self.late.replace(append) {
                Some(late) => self.runtime.store.append(late),
                None => at_once(Ok(())),
            };
        }
        if seeded(Bug::SplitTransaction) {
            let Append { batches, blobs } = append;
            return later(async move {
                for batch in batches {
                    let (batches, blobs) = (vec![batch], blobs.clone());
                    self.runtime.store.append(Append { batches, blobs }).await?;
                    crash_point!("between_appends");
                }
                Ok(())
            });
        }
        self.runtime.store.append(append)
    }

    /// Goes back to the session as it was, after the store said that nothing was appended.
    fn rewind(&mut self, session: &Arc<Session>) {
        self.pending = Pending::default();
        self.session = Arc::clone(session);
        self.tip = self.base;
        self.stopped = false;
    }

    /// Appends what is in line together with project events, all or nothing.
    async fn append_with_project<'a>(
        &mut self,
        author: impl Into<Author<'a>>,
        events: Vec<ProjectEvent>,
    ) -> Result<(), DriveFault> {
        let project = self.runtime.project_batch(author, events)?;
        let other = project.batch.clone();
        self.append(vec![other], |runtime| runtime.project_appended(project)).await
    }
}
