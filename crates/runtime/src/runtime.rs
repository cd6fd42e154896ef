//! Decides what the drivers of one project share: the log, the clock, the key, the project fold.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::decision::Role;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{
    AuthorRefusal, Event, InboxEvent, ProjectEvent, Record, RestartedFrom, Said, Saw, StreamId,
};
use toolgate_kernel::fold::{Project, Session};
use toolgate_kernel::limits::Limits;
use toolgate_kernel::names::{SessionId, ToolName};
use toolgate_kernel::pin::Pinned;
use toolgate_kernel::redact::Redactor;
use toolgate_kernel::tree::LogId;

use crate::authority::{
    Author, InboxWord, check_project, check_seal, check_word, sealed_head, sign,
};
use crate::crash_point;
use crate::execute::within;
use crate::log::{ReadFault, Tip, batch, news, read_signed};
use crate::people::{enrolled, first_person, may_sign};
use crate::picture::{Picture, PictureRefusal};
use crate::port::{Append, Batch, Clock, Files, NoFiles, Row, Rows, Store, StoreFault};
use crate::transaction::Resources;

/// An event that is durable. Observers get these and can disturb nothing.
#[derive(Debug, Clone)]
pub enum Committed {
    /// In a session.
    Session(SessionId, Arc<Record<Event>>),
    /// In the project.
    Project(Arc<Record<ProjectEvent>>),
}

/// What the drivers of one project share.
pub struct Runtime {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The name of the log.
    pub(crate) log: LogId,
    pub(crate) files: Arc<dyn Files>,
    pub(crate) resources: Resources,
    pub(crate) redactor: Redactor,
    /// Version of the program, for the log.
    pub(crate) program: String,
    mirror: Mutex<Mirror>,
    /// Where the mirror ends, for whoever only wants to know whether there is news.
    mirrored: AtomicU64,
    /// One project append at a time; snapshots do not wait for it.
    pub(crate) project_turn: tokio::sync::Mutex<()>,
    /// Whether anybody ever watched.
    observed: AtomicBool,
    watchers: broadcast::Sender<Committed>,
}

/// The project fold as far as this process has read it.
struct Mirror {
    project: Arc<Project>,
    tip: Tip,
}

/// Why something could not be said to a session.
#[derive(Debug, thiserror::Error)]
pub enum SayFault {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreFault),
    /// The inbox cannot be read.
    #[error(transparent)]
    Read(#[from] ReadFault),
    /// The speaker may not say this.
    #[error(transparent)]
    Author(#[from] AuthorRefusal),
    /// It is too long.
    #[error("this has {0} bytes; at most {1} can be said at once")]
    TooLong(usize, usize),
    /// Too many pictures.
    #[error(transparent)]
    Pictures(#[from] PictureRefusal),
    /// A person's word was not signed.
    #[error("only a person may say this, and it must be signed with their key")]
    Unsigned,
    /// It was signed with a key that this project does not know.
    #[error("this project knows another person's key; see `toolgate doctor`")]
    Stranger,
    /// The key is known, and may not decide this.
    #[error(
        "your key is enrolled here as {0}, or it is revoked or limited to other tools; this takes {1}; \
         see `toolgate people list`"
    )]
    NotAllowed(Role, Role),
    /// It would allow too much for later.
    #[error("this may last at most 30 days and be for at most 1,000 uses")]
    Unbounded,
    /// No delegation lets the user of a client answer this.
    #[error(
        "no delegation lets the user of this client answer about {0}; a person gives one with \
         `toolgate approvals delegate`"
    )]
    NotDelegated(ToolName),
    /// It would not count, so it was not written.
    #[error("this would not count, so nothing was written: {0}")]
    NotCounted(&'static str),
    /// Others kept being first.
    #[error("too much is happening at once; try again")]
    Busy,
}

impl SayFault {
    /// Whether it is about who said it, and not about the log.
    pub(crate) fn is_about_the_author(&self) -> bool {
        match self {
            Self::Author(_)
            | Self::Unsigned
            | Self::Stranger
            | Self::NotAllowed(..)
            | Self::Unbounded
            | Self::NotCounted(_)
            | Self::NotDelegated(_) => true,
            Self::Store(_) | Self::Read(_) | Self::TooLong(..) | Self::Pictures(_) | Self::Busy => {
                false
            }
        }
    }
}

/// Committed events an observer may lag behind before it loses some. It belongs to the program,
/// not to an agent, so no configuration sets it.
pub const OBSERVER_EVENTS_MAX: usize = 1_024;

/// Bytes of what is said at once.
const SAID_BYTES_MAX: usize = 100_000;

/// Bytes of an answer to a question, with the arguments of the call.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Milliseconds the log may take for what somebody says. No agent's limits hold for them.
const SAY_MS_MAX: u64 = 30_000;

/// Changes in one record when a new log takes over the state of another one.
const CARRIED_CHANGES_MAX: usize = 200;

/// Times an append to a shared stream is tried again when others were first.
pub(crate) const SHARED_TRIES: usize = 20;

impl Runtime {
    /// A runtime over a log. Nothing is read before it is needed.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self {
            log: store.log_id(),
            store,
            clock,
            files: Arc::new(NoFiles),
            resources: Resources::default(),
            redactor: Redactor::default(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            mirror: Mutex::new(Mirror { project: Arc::new(Project::default()), tip: Tip::START }),
            mirrored: AtomicU64::new(0),
            project_turn: tokio::sync::Mutex::new(()),
            observed: AtomicBool::new(false),
            watchers: broadcast::Sender::new(OBSERVER_EVENTS_MAX),
        }
    }

    /// The project's files.
    pub fn files(&self) -> Arc<dyn Files> {
        Arc::clone(&self.files)
    }

    /// The same over a project folder.
    pub fn with_files(mut self, files: Arc<dyn Files>) -> Self {
        self.files = files;
        self
    }

    /// The same with things handlers may ask for.
    pub fn with_resources(mut self, resources: Resources) -> Self {
        self.resources = resources;
        self
    }

    /// The same with a redactor: what callers send and what tools answer is logged without the
    /// secrets that it knows.
    pub fn with_redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    /// Sees every event once it is durable. Who reads too slowly loses some, and is told so.
    pub fn observe(&self) -> broadcast::Receiver<Committed> {
        self.observed.store(true, Ordering::Relaxed);
        self.watchers.subscribe()
    }

    pub(crate) fn publish(&self, committed: Committed) {
        // Nobody listening is no trouble.
        drop(self.watchers.send(committed));
    }

    pub(crate) fn watched(&self) -> bool {
        // Asked for every record, so it must not take a lock where nobody ever listened.
        self.observed.load(Ordering::Relaxed) && self.watchers.receiver_count() > 0
    }

    fn mirror(&self) -> MutexGuard<'_, Mirror> {
        self.mirror.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The project as far as it was read, and the head it was read to.
    pub fn project(&self) -> (Arc<Project>, Tip) {
        let mirror = self.mirror();
        (Arc::clone(&mirror.project), mirror.tip)
    }

    /// The project, where it is known without reading that nobody appended more to it.
    fn caught_up(&self) -> Option<Arc<Project>> {
        let (project, tip) = self.project();
        let whole = tip != Tip::START && self.store.ends_at(&StreamId::Project, tip.seq);
        whole.then_some(project)
    }

    /// Reads what other processes appended to the project.
    pub async fn catch_up(&self) -> Result<Arc<Project>, ReadFault> {
        if let Some(project) = self.caught_up() {
            return Ok(project);
        }
        let mut tip = self.mirror().tip;
        if tip == Tip::START {
            self.load().await?;
            tip = self.mirror().tip;
        }
        let news = news(self.store.as_ref(), &StreamId::Project, tip).await?;
        let mut mirror = self.mirror();
        for (record, hash) in news {
            // Another driver of this process may have read the same news meanwhile.
            if record.seq == mirror.tip.seq + 1 {
                if check_project(self.log, &mirror.project, &record).is_err() {
                    let (stream, seq) = (StreamId::Project, record.seq);
                    return Err(ReadFault::Unfounded { stream, seq });
                }
                mirror.tip = Tip { seq: record.seq, hash };
                Arc::make_mut(&mut mirror.project).apply(&record);
            }
        }
        self.mirrored.store(mirror.tip.seq, Ordering::Release);
        Ok(Arc::clone(&mirror.project))
    }

    /// What others said to a session and it has not heard. Words of a person count when they are
    /// signed by one who is known here.
    pub async fn unheard(&self, session: &Session) -> Result<Vec<InboxWord>, ReadFault> {
        let (store, stream) = (self.store.as_ref(), StreamId::Inbox(session.id.clone()));
        let heard = Tip { seq: session.inbox, hash: session.inbox_hash };
        let unheard = news::<InboxEvent>(store, &stream, heard).await?;
        if unheard.is_empty() {
            return Ok(Vec::new());
        }
        let project = self.catch_up().await?;
        let mut words = Vec::with_capacity(unheard.len());
        for (record, hash) in unheard {
            let InboxEvent::Spoken { said } = &record.event;
            let end = match said.is_a_decision() {
                true => store.project_end_at(&stream, record.seq).await?,
                false => None,
            };
            // What a person said while they might counts, whatever became of their key since.
            let Ok(signer) = check_word(self.log, &project, &record, &session.id, end) else {
                return Err(ReadFault::Unfounded { seq: record.seq, stream });
            };
            words.push(InboxWord { record, hash, signer });
        }
        Ok(words)
    }

    /// Reads the project from its beginning. Who may decide, what is locked and which definitions are
    /// accepted follow from its records alone, so a kept fold is not used.
    async fn load(&self) -> Result<(), ReadFault> {
        let (store, stream) = (self.store.as_ref(), StreamId::Project);
        let (mut project, mut unfounded, mut sealed) = (Project::default(), None, None);
        let each = |record: Record<ProjectEvent>, _: &Row| {
            sealed = sealed_head(&record).or(sealed);
            if check_project(self.log, &project, &record).is_err() {
                unfounded = unfounded.or(Some(record.seq));
            }
            project.apply(&record);
        };
        let tip = read_signed(store, &stream, Tip::START, each).await?;
        if let Some(seq) = unfounded {
            return Err(ReadFault::Unfounded { stream, seq });
        }
        check_seal(store, &project, &stream, sealed).await?;
        let mut mirror = self.mirror();
        if mirror.tip.seq < tip.seq {
            *mirror = Mirror { project: Arc::new(project), tip };
            self.mirrored.store(tip.seq, Ordering::Release);
        }
        Ok(())
    }

    /// Prepares records for the end of the project stream. Hold `project_turn` meanwhile.
    pub(crate) fn project_batch<'a>(
        &self,
        author: impl Into<Author<'a>>,
        events: Vec<ProjectEvent>,
    ) -> Result<ProjectBatch, SayFault> {
        let author = author.into();
        let (project, before) = self.project();
        let (mut tip, mut rows, mut records) = (before, Rows::default(), Vec::new());
        // What an event of the batch decides counts for the ones after it.
        let mut following = Arc::clone(&project);
        for event in events {
            let (seq, at, actor) = (tip.seq + 1, self.clock.now(), author.actor.clone());
            let mut record = Record { seq, at, actor, epoch: 0, saw: None, event, decision: None };
            sign(&mut record, &StreamId::Project, author, &following, self.log);
            // What no reader would take is not written: nobody could go on from there.
            let uses = matches!(record.event, ProjectEvent::DelegationUsed { .. });
            if record.decision.is_some() || uses {
                check_project(self.log, &following, &record)
                    .map_err(|unfounded| SayFault::NotCounted(unfounded.as_str()))?;
            }
            if author.signer.is_some() {
                Arc::make_mut(&mut following).apply(&record);
            }
            tip.add(&record, &mut rows)?;
            records.push(record);
        }
        let batch = batch(StreamId::Project, None, before.seq, rows, tip);
        Ok(ProjectBatch { batch, records, tip, project })
    }

    /// Takes in what was just appended.
    pub(crate) fn project_appended(&self, appended: ProjectBatch) {
        let mut mirror = self.mirror();
        let mut project = appended.project;
        for record in appended.records {
            Arc::make_mut(&mut project).apply(&record);
            if self.watched() {
                self.publish(Committed::Project(Arc::new(record)));
            }
        }
        // Another driver of this process may have read this, and more, already.
        if mirror.tip.seq < appended.tip.seq {
            *mirror = Mirror { project, tip: appended.tip };
            self.mirrored.store(appended.tip.seq, Ordering::Release);
        }
    }

    /// Writes down what was decided about tools of MCP servers, outside every session. What is known
    /// by then is not said again: it could undo what a person said since.
    pub async fn pin<'a>(
        &self,
        author: impl Into<Author<'a>>,
        pinned: Vec<Pinned>,
    ) -> Result<(), SayFault> {
        let decide = |project: &Project| {
            let news = pinned.iter().filter(|one| project.pins.is_news(one));
            let news = news.map(|one| ProjectEvent::ToolPinned(Box::new(one.clone())));
            Ok::<_, SayFault>((news.collect(), ()))
        };
        self.decide(author, decide).await
    }

    /// Writes down what somebody decides about the project as it is at that moment, outside every
    /// session. When others change it first, it is decided again about what it is then.
    ///
    /// What only a person may decide is refused for everyone else.
    pub async fn decide<'a, T, E: From<SayFault>>(
        &self,
        author: impl Into<Author<'a>>,
        mut decide: impl FnMut(&Project) -> Result<(Vec<ProjectEvent>, T), E>,
    ) -> Result<T, E> {
        let author = self.attested(author.into()).await.map_err(SayFault::from)?;
        let turn = self.project_turn.lock().await;
        for _ in 0..SHARED_TRIES {
            let project = self.catch_up().await.map_err(SayFault::from)?;
            let (decided, told) = decide(&project)?;
            if decided.is_empty() {
                return Ok(told);
            }
            let opens = |event| matches!(event, &ProjectEvent::ProjectOpened { .. });
            let begins = project.seq == 0 && !decided.iter().any(opens);
            let opened = begins.then_some(ProjectEvent::ProjectOpened { restarted_from: None });
            let enrolled = enrolled(&project, author, &decided);
            let events: Vec<ProjectEvent> =
                opened.into_iter().chain(enrolled).chain(decided).collect();
            may_sign(&project, author, &StreamId::Project, &events, self.clock.now())?;
            let prepared = self.project_batch(author, events)?;
            let batches = vec![prepared.batch.clone()];
            let append = self.store.append(Append { batches, blobs: Vec::new() });
            match within(SAY_MS_MAX, pin!(append)).await {
                Some(Ok(())) => {
                    crash_point!("after_decide");
                    self.project_appended(prepared);
                    drop(turn);
                    return Ok(told);
                }
                Some(Err(StoreFault::Moved { .. })) => {}
                Some(Err(fault)) => return Err(SayFault::from(fault).into()),
                None => return Err(SayFault::from(StoreFault::TimedOut(SAY_MS_MAX)).into()),
            }
        }
        Err(SayFault::Busy.into())
    }

    /// Begins this log, which is empty, in place of another one: with a person's key and with the state
    /// that the person takes over.
    pub async fn restart(
        &self,
        author: Author<'_>,
        from: RestartedFrom,
        project: &Project,
    ) -> Result<(), SayFault> {
        let state = &project.state;
        let Some(signer) = author.signer else { return Err(SayFault::Unsigned) };
        let reason = format!("taken over from log {}", from.log);
        let opened = ProjectEvent::ProjectOpened { restarted_from: Some(from) };
        let enrolled = first_person(author.actor, signer);
        let changes = state.as_changes();
        let taken_over = changes.chunks(CARRIED_CHANGES_MAX).map(|changes| {
            let (changes, reason) = (changes.to_vec(), reason.clone());
            ProjectEvent::ProjectChanged { changes, session: None, call: None, reason }
        });
        // What may be untrusted stays so.
        let marked = project.untrusted.iter().map(|(family, write)| {
            let (families, session) = (vec![family.clone()], write.session.clone());
            ProjectEvent::FamiliesMarked { families, session, call: write.call }
        });
        let events = [opened, enrolled].into_iter().chain(taken_over).chain(marked);
        let events: Vec<_> = events.collect();
        self.decide(author, |project| match project.seq {
            0 => Ok((events.clone(), ())),
            _ => Err(SayFault::Busy),
        })
        .await
    }

    /// The newest project head, for a session record that has not seen it.
    pub(crate) fn newly_seen(&self, seen: Option<Saw>) -> Option<Saw> {
        if seen.map_or(0, |saw| saw.seq) == self.mirrored.load(Ordering::Acquire) {
            return None;
        }
        let Tip { seq, hash } = self.mirror().tip;
        Some(Saw { seq, hash })
    }

    /// Says something to a session. Any process may; its driver hears it at the next step.
    pub async fn say<'a>(
        &self,
        session: &SessionId,
        author: impl Into<Author<'a>>,
        said: Said,
    ) -> Result<u64, SayFault> {
        self.say_beside(session, author.into(), said, Vec::new()).await
    }

    /// Says something to a session and shows it pictures.
    pub async fn show(
        &self,
        session: &SessionId,
        actor: &Actor,
        text: String,
        pictures: Vec<Picture>,
        limits: &Limits,
    ) -> Result<u64, SayFault> {
        Picture::count(&pictures, limits)?;
        let (images, blobs) = Picture::split(pictures);
        self.say_beside(session, actor.into(), Said::Feedback { text, images }, blobs).await
    }

    async fn say_beside(
        &self,
        session: &SessionId,
        author: Author<'_>,
        said: Said,
        blobs: Vec<(Digest, Vec<u8>)>,
    ) -> Result<u64, SayFault> {
        let bytes = match &said {
            Said::Feedback { text, .. }
            | Said::Stop { reason: text }
            | Said::ClearTaint { reason: text, seen: _ } => text.len(),
            Said::Answer(decision) => {
                decision.note.len()
                    + decision.args.as_ref().map_or(0, |args| args.to_string().len())
            }
            Said::GoOn {} | Said::Withdraw { .. } => 0,
        };
        // The arguments of a call may be longer than what somebody says.
        let bytes_max = match &said {
            Said::Answer(_) => ANSWER_BYTES_MAX,
            Said::Feedback { .. }
            | Said::Stop { .. }
            | Said::GoOn {}
            | Said::Withdraw { .. }
            | Said::ClearTaint { .. } => SAID_BYTES_MAX,
        };
        if bytes > bytes_max {
            return Err(SayFault::TooLong(bytes, bytes_max));
        }
        let said = self.delegated(session, author.actor, said).await?;
        let is_decision = said.is_a_decision();
        let event = InboxEvent::Spoken { said };
        let (store, stream) = (self.store.as_ref(), StreamId::Inbox(session.clone()));
        for _ in 0..SHARED_TRIES {
            let author = self.vouch(author, &stream, &event).await?;
            // It counts as things stand in the project now, so it is written only while they do.
            if is_decision {
                self.catch_up().await?;
            }
            let (project, place) = self.project();
            let saw = is_decision.then_some(Saw { seq: place.seq, hash: place.hash });
            let head = store.head(&stream).await?;
            let mut tip = head.map_or(Tip::START, |head| Tip { seq: head.seq, hash: head.link });
            let (after, seq, at) = (tip.seq, tip.seq + 1, self.clock.now());
            let (actor, event) = (author.actor.clone(), event.clone());
            let mut record = Record { seq, at, actor, epoch: 0, saw, event, decision: None };
            sign(&mut record, &stream, author, &project, self.log);
            let mut rows = Rows::default();
            tip.add(&record, &mut rows)?;
            let mut batches = vec![batch(stream.clone(), None, after, rows, tip)];
            if is_decision {
                check_word(self.log, &project, &record, session, Some(place.seq))
                    .map_err(|unfounded| SayFault::NotCounted(unfounded.as_str()))?;
                batches.push(batch(StreamId::Project, None, place.seq, Rows::default(), place));
            }
            let append = self.store.append(Append { batches, blobs: blobs.clone() });
            match within(SAY_MS_MAX, pin!(append)).await {
                Some(Ok(())) => {
                    crash_point!("after_say");
                    return Ok(seq);
                }
                Some(Err(StoreFault::Moved { .. })) => {}
                Some(Err(fault)) => return Err(fault.into()),
                None => return Err(StoreFault::TimedOut(SAY_MS_MAX).into()),
            }
        }
        Err(SayFault::Busy)
    }
}

/// Records on their way to the project stream.
pub(crate) struct ProjectBatch {
    pub(crate) batch: Batch,
    records: Vec<Record<ProjectEvent>>,
    tip: Tip,
    project: Arc<Project>,
}
