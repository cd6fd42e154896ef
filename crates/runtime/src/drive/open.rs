//! Decides how a session begins, and how it goes on after whatever ended its driver.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex};

use toolgate_kernel::actor::Actor;
use toolgate_kernel::config::ConfigDigests;
use toolgate_kernel::credential::PersonKey;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{
    BoundFile, Conversation, Event, FileChange, Outcome, ProjectEvent, Record, StreamId,
};
use toolgate_kernel::fold::Session;
use toolgate_kernel::names::{AgentId, CallId, PhaseName, SessionId};
use toolgate_kernel::request::{RequestError, RequestOptions};
use toolgate_kernel::seeded::{Bug, seeded};

use super::settle::conflicted;
use super::{Crew, DriveFault, Driver, Pending, ReplacedConfig};
use crate::authority::SessionAuthority;
use crate::checkpoint;
use crate::execute::Cancel;
use crate::fork::ForkRefusal;
use crate::log::{ReadFault, Tip, read_from, read_signed};
use crate::picture::{Picture, PictureRefusal, Pictures};
use crate::port::{Desk, Placed, Row, StageTag, StoreFault};
use crate::receipts::ReceiptIndex;
use crate::runtime::{Runtime, SHARED_TRIES};
use crate::transaction::Shared;

/// Why a session cannot be opened or resumed.
#[derive(Debug, thiserror::Error)]
pub enum OpenFault {
    /// The log could not be written.
    #[error(transparent)]
    Store(#[from] StoreFault),
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadFault),
    /// The first events could not be appended.
    #[error(transparent)]
    Drive(#[from] DriveFault),
    /// What it is to be about is too long.
    #[error(
        "this has {0} bytes; a session is about at most {TITLE_BYTES_MAX}. Put the rest into a file"
    )]
    TooLong(usize),
    /// Too many pictures.
    #[error(transparent)]
    Pictures(#[from] PictureRefusal),
    /// There is such a session already.
    #[error("session {0} exists already; resume it")]
    Exists(SessionId),
    /// There is no such session.
    #[error("there is no session {0}; `toolgate sessions list` shows those there are")]
    Missing(SessionId),
    /// The configuration has no phase at all, or not the one the session is in.
    #[error("the session is in phase {0}, which the configuration no longer has; put it back")]
    PhaseGone(PhaseName),
    /// The configuration has no such agent to speak as.
    #[error(
        "the session speaks as the agent {0}, which the configuration does not declare; put it \
         back under `agents`"
    )]
    AgentGone(AgentId),
    /// Its request names what there is not.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// There is nothing to fork, or not there.
    #[error(transparent)]
    Fork(#[from] ForkRefusal),
    /// The agent has no phase.
    #[error("the agent has no phase to start in")]
    NoPhase,
}

/// How a session begins.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// What it is about, in the words of whoever begins it.
    pub title: String,
    /// Pictures shown at the start of each iteration.
    pub pictures: Vec<Picture>,
    /// Whether it is a conversation, which waits for a person after each answer.
    pub chat: bool,
    /// The agent it speaks as.
    pub agent: Option<AgentId>,
    /// The kind of conversation it is.
    pub conversation: Conversation,
    /// What its first request narrows.
    pub request: RequestOptions,
}

/// Refuses to speak as somebody who is not declared.
pub(super) fn declared(crew: &Crew, agent: Option<&AgentId>) -> Result<(), OpenFault> {
    match agent.filter(|id| !crew.agent.agents.contains_key(*id)) {
        Some(gone) => Err(OpenFault::AgentGone(gone.clone())),
        None => Ok(()),
    }
}

/// The first events of a session, and what is kept aside with them.
#[derive(Clone)]
pub(super) struct First {
    pub(super) events: Vec<Event>,
    pub(super) blobs: Vec<(Digest, Vec<u8>)>,
}

impl Start {
    fn first(self, session: &SessionId, starter: Option<PersonKey>) -> First {
        let Self { title, pictures, chat, agent, conversation, request } = self;
        let (images, blobs) = Picture::split(pictures);
        let session = session.clone();
        let opened = Event::Opened { session, title, images, chat, agent, conversation, starter };
        let request = (!request.is_default()).then(|| Event::RequestOpened(Box::new(request)));
        First { events: std::iter::once(opened).chain(request).collect(), blobs }
    }
}

impl Driver {
    /// Opens a new session that is about something.
    pub async fn open(
        runtime: Arc<Runtime>,
        crew: Crew,
        id: SessionId,
        actor: &Actor,
        title: &str,
    ) -> Result<Self, OpenFault> {
        let start = Start { title: title.to_owned(), ..Start::default() };
        Self::open_with(runtime, crew, id, actor, start).await
    }

    /// Opens a new session.
    pub async fn open_with(
        runtime: Arc<Runtime>,
        crew: Crew,
        id: SessionId,
        actor: &Actor,
        start: Start,
    ) -> Result<Self, OpenFault> {
        let Some(phase) = crew.agent.first_phase() else { return Err(OpenFault::NoPhase) };
        let phase = phase.name.clone();
        if start.title.len() > TITLE_BYTES_MAX {
            return Err(OpenFault::TooLong(start.title.len()));
        }
        declared(&crew, start.agent.as_ref())?;
        start.request.check(&crew.agent, &phase, start.agent.as_ref())?;
        Picture::count(&start.pictures, &crew.agent.limits)?;
        let first = start.first(&id, crew.starter);
        Self::open_first(runtime, crew, id, actor, phase, first).await
    }

    /// Begins a session that is not there yet with its first events.
    pub(super) async fn open_first(
        runtime: Arc<Runtime>,
        crew: Crew,
        id: SessionId,
        actor: &Actor,
        phase: PhaseName,
        first: First,
    ) -> Result<Self, OpenFault> {
        // Whoever cannot have it leaves it to whoever drives it.
        let read = Self::read(&runtime, id).await?;
        if read.0.seq > 0 {
            return Err(OpenFault::Exists(read.0.id));
        }
        let mut driver = Self::claim(runtime, crew, read).await?;
        if driver.session.seq > 0 {
            // Somebody opened it a moment ago.
            return Err(OpenFault::Exists(driver.session.id.clone()));
        }
        driver.roll_forward().await?;
        driver.start(actor, phase, Some(first)).await?;
        Ok(driver)
    }

    /// Takes up a session where its log ends.
    pub async fn resume(
        runtime: Arc<Runtime>,
        crew: Crew,
        id: SessionId,
    ) -> Result<Self, OpenFault> {
        let read = Self::read_to_resume(&runtime, &crew, id).await?;
        Self::claim(runtime, crew, read).await?.resumed().await
    }

    /// Whether a session can be taken up, as far as that is known before anybody is fenced.
    pub async fn can_resume(
        runtime: &Runtime,
        crew: &Crew,
        id: SessionId,
    ) -> Result<(), OpenFault> {
        Self::read_to_resume(runtime, crew, id).await.map(drop)
    }

    /// Takes the session up again after this driver was stopped, unless somebody else took it over:
    /// whoever was fenced stays so.
    pub async fn resume_own(&mut self, crew: Crew) -> Result<Self, OpenFault> {
        let (runtime, id) = (Arc::clone(&self.runtime), self.session.id.clone());
        let read = Self::read_to_resume(&runtime, &crew, id.clone()).await?;
        // If what follows fails, it is under this epoch that it is tried once more. An answer that is
        // lost cannot be told from somebody else's claim: then the session counts as taken over, which
        // harms nobody, and whoever starts again has it.
        let stream = StreamId::Session(id);
        self.epoch = runtime.store.claim_again(&stream, self.epoch).await?;
        Self::claimed(runtime, crew, read, self.epoch).await?.resumed().await
    }

    /// Reads a session that is to go on, where it can.
    async fn read_to_resume(
        runtime: &Runtime,
        crew: &Crew,
        id: SessionId,
    ) -> Result<(Session, Tip), OpenFault> {
        let read = Self::read(runtime, id).await?;
        let Some(phase) = &read.0.phase else {
            return Err(OpenFault::Missing(read.0.id));
        };
        if crew.agent.phase(phase).is_none() {
            return Err(OpenFault::PhaseGone(phase.clone()));
        }
        declared(crew, read.0.agent.as_ref())?;
        Ok(read)
    }

    /// Goes on with a session that was claimed.
    async fn resumed(mut self) -> Result<Self, OpenFault> {
        let driver = &mut self;
        let session = driver.session();
        let Some(phase) = &session.phase else {
            return Err(OpenFault::Missing(session.id.clone()));
        };
        let project = driver.runtime.catch_up().await?;
        driver.roll_forward().await?;
        driver.learn_of_restore(&project).await?;
        let config = Some(driver.crew.agent.fingerprint);
        let same = session.config == config && project.config == config;
        if !same && session.ended.is_none() {
            driver.start(&Actor::System, phase.clone(), None).await?;
        }
        Ok(self)
    }

    /// Reads a session as far as its log goes now.
    async fn read(runtime: &Runtime, id: SessionId) -> Result<(Session, Tip), OpenFault> {
        let stream = StreamId::Session(id.clone());
        let store = runtime.store.as_ref();
        // The project first: what it names is there by the time the session is read.
        let project = runtime.catch_up().await?;
        // A program with the host key can keep a fold in which an answer was not used yet, or nothing
        // untrusted was read. So once people decide in a project, its sessions are read whole; before
        // that, a kept fold with a decision in it is forged.
        let kept: Option<(Session, Tip)> = checkpoint::load(store, &stream).await?;
        let kept = kept.filter(|(session, _)| {
            let is_free = project.people.is_empty() && !session.rests_on_decisions();
            is_free || seeded(Bug::CheckpointCarriesAuthority)
        });
        let (mut session, from) = kept.unwrap_or_else(|| (Session::new(id), Tip::START));
        let log = runtime.store.log_id();
        let mut authority = SessionAuthority::of(log, &project, &session.id, session.saw);
        let each = |record: Record<Event>, _: &Row| {
            authority.take(&record, &session);
            session.apply(&record);
        };
        let tip = read_signed(store, &stream, from, each).await?;
        authority.end(store).await?;
        if tip == Tip::START && project.sessions.contains(&session.id) {
            return Err(ReadFault::Broken { stream, seq: 1 }.into());
        }
        // The log is the truth; a checkpoint that cannot be kept costs time, nothing else.
        drop(checkpoint::save(store, &stream, &session, (from, tip)).await);
        Ok((session, tip))
    }

    /// Fences whoever drove the session before.
    async fn claim(
        runtime: Arc<Runtime>,
        crew: Crew,
        read: (Session, Tip),
    ) -> Result<Self, OpenFault> {
        let stream = StreamId::Session(read.0.id.clone());
        let epoch = runtime.store.claim(&stream).await?;
        Self::claimed(runtime, crew, read, epoch).await
    }

    /// Drives a session under an epoch of its own, with what others wrote last.
    async fn claimed(
        runtime: Arc<Runtime>,
        crew: Crew,
        (mut session, from): (Session, Tip),
        epoch: u64,
    ) -> Result<Self, OpenFault> {
        let stream = StreamId::Session(session.id.clone());
        let project = runtime.catch_up().await?;
        let log = runtime.store.log_id();
        let mut authority = SessionAuthority::of(log, &project, &session.id, session.saw);
        let each = |record: Record<Event>, _: &Row| {
            authority.take(&record, &session);
            session.apply(&record);
        };
        let tip = read_signed(runtime.store.as_ref(), &stream, from, each).await?;
        authority.end(runtime.store.as_ref()).await?;
        if epoch <= session.epoch {
            // Whoever claimed it since may have written already. This tells, and then says so.
            runtime.store.claim_again(&stream, epoch).await?;
            // Epochs only grow. One that was put back would let an old driver write again.
            return Err(ReadFault::Broken { stream, seq: tip.seq }.into());
        }
        let session = Arc::new(session);
        let now = runtime.clock.now();
        let shared = Arc::new(Shared {
            agent: Arc::clone(&crew.agent),
            files: Arc::clone(&runtime.files),
            clock: Arc::clone(&runtime.clock),
            provider: crew.provider.clone(),
            resources: runtime.resources.clone(),
            heartbeat: Arc::clone(&crew.heartbeat),
            trail: Mutex::default(),
        });
        Ok(Self {
            stream,
            session,
            runtime,
            crew,
            epoch,
            tip,
            base: tip,
            pending: Pending::default(),
            ready: Vec::new(),
            results: Vec::new(),
            floor: None,
            now,
            shared,
            cancel: Cancel::default(),
            stopped: false,
            late: None,
            desk: Desk::default(),
            receipts: ReceiptIndex::default(),
            asked: false,
            pictures: Pictures::default(),
            partial: Arc::default(),
            unplaced: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            replaced: None,
            supplied: false,
            lack: None,
        })
    }

    /// Says with which configuration the session begins, or goes on, to session and project.
    async fn start(
        &mut self,
        actor: &Actor,
        phase: PhaseName,
        first: Option<First>,
    ) -> Result<(), OpenFault> {
        let runtime = Arc::clone(&self.runtime);
        let (before, config) = (self.session(), self.crew.agent.fingerprint);
        let source = self.crew.agent.source.as_deref();
        let text = source.map(|source| source.masked_text.clone().into_bytes());
        let file = source.map(|source| {
            let ConfigDigests { reach, gate, rest } = source.digests;
            Box::new(BoundFile {
                reach,
                gate,
                rest,
                text: Digest::of(source.masked_text.as_bytes()),
                overrides: source.overrides.clone(),
            })
        });
        let turn = runtime.project_turn.lock().await;
        for _ in 0..SHARED_TRIES {
            let project = runtime.catch_up().await?;
            let (session, mut events) = (before.id.clone(), Vec::new());
            if let Some(First { events: begins, blobs }) = first.clone() {
                if project.seq == 0 {
                    events.push(ProjectEvent::ProjectOpened { restarted_from: None });
                }
                events.push(ProjectEvent::SessionOpened { session: session.clone() });
                for event in begins {
                    self.note(actor, event)?;
                }
                self.pending.blobs.extend(blobs);
            }
            if before.config != Some(config) {
                let (program, phase) = (runtime.program.clone(), phase.clone());
                self.note(
                    &Actor::System,
                    Event::ConfigBound { config, program, phase, file: file.clone() },
                )?;
            }
            if first.is_some() {
                self.note_restore(&project)?;
            }
            if project.config != Some(config) {
                events.push(ProjectEvent::ProjectConfigured {
                    config,
                    session,
                    file: file.clone(),
                });
            }
            if let Some(text) = &text {
                self.pending.blobs.push((Digest::of(text), text.clone()));
            }
            let replaced = project.config.or(before.config).filter(|before| *before != config);
            self.replaced = match replaced {
                Some(config) => {
                    Some(replaced_config(&runtime, config, project.config_file.as_deref()).await?)
                }
                None => None,
            };
            let appended = match events.is_empty() {
                true => self.flush().await,
                false => self.append_with_project(actor, events).await,
            };
            match appended {
                Err(DriveFault::Store(StoreFault::Moved { stream: StreamId::Project, .. })) => {
                    self.rewind(&before);
                }
                done => {
                    drop(turn);
                    return Ok(done?);
                }
            }
        }
        Err(DriveFault::Stopped.into())
    }

    /// Puts in place what was settled and not placed, whoever settled it: others may read it.
    /// Forgets what this session staged and did not settle.
    pub(super) async fn roll_forward(&mut self) -> Result<(), DriveFault> {
        let files = Arc::clone(&self.runtime.files);
        let mut tags: BTreeMap<SessionId, Vec<StageTag>> = BTreeMap::new();
        for tag in files.leftovers()? {
            tags.entry(tag.session.clone()).or_default().push(tag);
        }
        for (session, tags) in tags {
            let (own, mut settled) = (session == self.session.id, Settled::default());
            let stream = StreamId::Session(session);
            let take = |record, _: &Row| settled.take(record);
            let read = read_from(self.runtime.store.as_ref(), &stream, Tip::START, take).await;
            if !own && read.is_err() {
                // What another session cannot say of itself is for its own resume to find.
                continue;
            }
            read?;
            for tag in tags {
                match settled.change(&tag) {
                    // A later call wrote the file anew.
                    Some(change) if settled.superseded(&tag, &change.path) => {
                        files.discard(&tag)?
                    }
                    Some(change) if own => self.place(&tag, change, &mut settled.reported)?,
                    // A conflict is told by the session whose call it was.
                    Some(change) => {
                        drop(files.place(&tag, &change.path, change.old, change.new));
                    }
                    None if own => files.discard(&tag)?,
                    // It may be about to settle.
                    None => {}
                }
            }
        }
        self.flush().await
    }

    fn place(
        &mut self,
        tag: &StageTag,
        change: FileChange,
        reported: &mut BTreeSet<(CallId, String)>,
    ) -> Result<(), DriveFault> {
        let FileChange { path, old, new, kept: _ } = change;
        if let Placed::Conflict { found } = self.runtime.files.place(tag, &path, old, new)? {
            // The copy stays for a person to look at; saying it once is enough.
            self.runtime.files.set_aside(tag)?;
            if reported.insert((tag.call, path.clone())) {
                self.note(&Actor::System, conflicted(tag.call, path, found))?;
            }
        }
        Ok(())
    }
}

/// What a session's log says of the files its calls changed.
#[derive(Default)]
struct Settled {
    files: BTreeMap<CallId, Vec<FileChange>>,
    /// Conflicts that were told already.
    reported: BTreeSet<(CallId, String)>,
}

impl Settled {
    fn take(&mut self, record: Record<Event>) {
        if let Event::FileConflicted { call: Some(call), path, .. } = record.event {
            self.reported.insert((call, path));
        } else if let Event::Undone(undone) = record.event {
            undone.calls.iter().for_each(|one| drop(self.files.remove(&one.call)));
            self.files.insert(undone.id, undone.files);
        } else if let Event::CallSettled(event) = record.event
            && event.outcome == Outcome::Done
            && !event.files.is_empty()
        {
            self.files.insert(event.call, event.files);
        }
    }

    /// Whether a later call of the session changed the same file.
    fn superseded(&self, tag: &StageTag, path: &str) -> bool {
        let later = (Bound::Excluded(tag.call), Bound::Unbounded);
        let mut later = self.files.range(later).flat_map(|(_, changes)| changes);
        later.any(|change| change.path == path)
    }

    fn change(&self, tag: &StageTag) -> Option<FileChange> {
        self.files.get(&tag.call)?.get(tag.at).cloned()
    }
}

/// Bytes of what a session is about.
const TITLE_BYTES_MAX: usize = 100_000;

/// What is known of the configuration before this one.
async fn replaced_config(
    runtime: &Runtime,
    config: Digest,
    file: Option<&BoundFile>,
) -> Result<ReplacedConfig, StoreFault> {
    let text = match file {
        Some(file) => runtime.store.blob(file.text).await?,
        None => None,
    };
    let text = text.and_then(|text| String::from_utf8(text).ok());
    Ok(ReplacedConfig { config, text })
}
