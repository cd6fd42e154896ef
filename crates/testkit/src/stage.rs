//! Decides how a scenario is played: on any store, in one go or again after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, anyhow, ensure};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::calling::ToolProtocol;
use toolgate_kernel::decision::AllowanceTerms;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{
    Decision, Event, ProjectEvent, ProposalRuling, Record, Said, StreamId,
};
use toolgate_kernel::fold::{Project, Session, State};
use toolgate_kernel::hidden::Hidden;
use toolgate_kernel::names::{AgentId, SectionName, SessionId, ToolName};
use toolgate_kernel::plan::Plan;
use toolgate_kernel::redact::Redactor;
use toolgate_kernel::section::{FamilySpec, Section};
use toolgate_packs::catalogue::{
    ChiefRequest, NO_CHIEF, StateEdits, Workflow, assess, proposal, tool_names,
};
use toolgate_packs::core_tools::ProjectSources;
use toolgate_packs::enabled;
use toolgate_packs::issues::{IssueAuthor, IssueRules, decide_issue};
use toolgate_packs::self_authoring::Reviewer;
use toolgate_packs::workspace::{Skipped, decide};
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::port::{Clock, Files, Provider, Store, StoreFault};
use toolgate_runtime::{
    Author, Crew, DriveFault, Driver, Fork, HostKey, OpenFault, Pack, Range, Resources, Runtime,
    SayFault, Signer, Start, Toolbox, preview_fork,
};
use toolgate_store::{Folder, LogSetup};
use toolgate_wire::json_protocol::JsonToolModel;
use toolgate_wire::script::Script;

use crate::clock::FakeClock;
use crate::ledger::{Entry, Ledger};
use crate::person::ScriptedPerson;
use crate::scenario::{
    CatalogueAct, CatalogueStep, DecideText, FactsText, HomeText, IssueText, Scenario, SectionText,
    StepText,
};
use crate::signer::TestSigner;
use crate::tool::Props;
use crate::trace::trace;

/// The key every scenario signs with, so that traces come out the same.
pub const SCENARIO_KEY: [u8; 32] = [7; 32];

/// A log on the disk, as scenarios are played with one: signed with their key, at a time of its own.
pub fn log_setup() -> Result<LogSetup> {
    let host = HostKey::from_seed(&SCENARIO_KEY).context("the key of scenarios is none")?;
    Ok(LogSetup::new(host, Arc::new(FakeClock::default())))
}

/// The secret that the runtime of every scenario knows, as if a provider had it for a key.
pub const SCENARIO_SECRET: &str = "sk-Scenario-0123456789";

/// What a scenario is played on. It outlives the drivers that play it.
pub struct Stage {
    /// The scenario.
    pub scenario: Scenario,
    /// The log.
    pub store: Arc<dyn Store>,
    /// The project folder.
    pub folder: PathBuf,
    /// What fake tools share.
    pub props: Arc<Props>,
    files: Arc<dyn Files>,
    crew: Crew,
    /// Ada, who decides where no other person is named.
    person: Arc<TestSigner>,
    /// The others, by name.
    people: Mutex<BTreeMap<String, Arc<TestSigner>>>,
    /// Steps by people outside, who do not repeat themselves after a crash of ours, and forks that
    /// were refused.
    outside_done: Mutex<BTreeSet<usize>>,
    /// Where the project ended when such a step began, to see after a crash whether it is durable.
    outside_begun: Mutex<BTreeMap<usize, u64>>,
    /// What callers were told is done: it must be in the log for ever.
    acks: Mutex<Vec<(SessionId, Tip)>>,
}

/// What a scenario left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Played {
    /// The whole log as text, then state, files and the world.
    pub trace: String,
    /// Hashes of the states of all sessions and of the project.
    pub state: String,
    /// What reached the world.
    pub ledger: Vec<Entry>,
}

/// Why a scenario's agent was not built.
#[derive(Debug)]
pub struct Refused(pub String);

impl Stage {
    /// Sets a scenario up in a project folder.
    pub fn new(
        scenario: Scenario,
        store: Arc<dyn Store>,
        folder: &Path,
        ledger: Ledger,
    ) -> Result<Result<Self, Refused>> {
        let staged = folder.join(".toolgate").join("staged");
        std::fs::create_dir_all(&staged)?;
        for (path, content) in &scenario.files {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().context("file without folder")?)?;
            if !path.exists() {
                std::fs::write(path, content)?;
            }
        }
        let files: Arc<dyn Files> = Arc::new(Folder::open(folder, &staged)?);
        let root = folder.to_owned();
        let props = Arc::new(Props {
            ledger,
            clock: Arc::new(FakeClock::default()),
            files: Arc::clone(&files),
            outside: Box::new(move |path, content| drop(std::fs::write(root.join(path), content))),
            cancel: Mutex::new(None),
        });
        let person = TestSigner::new("ada")?;
        let people = Mutex::new(BTreeMap::from([("ada".to_owned(), Arc::clone(&person))]));
        let crew = match crew(&scenario, &props, &person) {
            Ok(crew) => crew,
            Err(refused) => return Ok(Err(Refused(format!("{refused:#}")))),
        };
        let (folder, outside_done, acks) = (folder.to_owned(), Mutex::default(), Mutex::default());
        Ok(Ok(Self {
            scenario,
            store,
            folder,
            props,
            files,
            crew,
            person,
            people,
            outside_done,
            outside_begun: Mutex::default(),
            acks,
        }))
    }

    /// The same stage over the log as a new process opens it.
    pub fn reopened(mut self, store: Arc<dyn Store>) -> Self {
        self.store = store;
        self
    }

    /// The first session's driver, for tests that make their own calls.
    pub async fn open_session(&self) -> Result<Driver> {
        self.driver(&session_id(1)?).await
    }

    /// A second session's driver, as another process has one.
    pub async fn open_other_session(&self) -> Result<Driver> {
        self.driver(&session_id(2)?).await
    }

    /// The driver of a session that is there, for tests that make their own calls.
    pub async fn open(&self, id: &str) -> Result<Driver> {
        self.driver(&SessionId::parse(id)?).await
    }

    /// What a fork of a session would begin with.
    pub async fn preview_fork(&self, from: &SessionId, at: Option<u64>) -> Result<Fork, OpenFault> {
        preview_fork(&self.process(), &self.crew.agent, from, at).await
    }

    /// A fork under a name of its own.
    pub async fn forked(&self, id: &str, fork: Fork) -> Result<Driver> {
        let runtime = Arc::new(self.process().with_files(Arc::clone(&self.files)));
        let (crew, actor) = (self.crew.clone(), Actor::Client("scenario".into()));
        Ok(Driver::fork(runtime, crew, SessionId::parse(id)?, &actor, fork).await?)
    }

    /// The first session's stream.
    pub fn stream(&self) -> StreamId {
        session_id(1).map_or(StreamId::Project, StreamId::Session)
    }

    /// What was acknowledged and is not in the log.
    pub async fn lost_acks(&self) -> Result<Vec<String>> {
        let acks = self.acks.lock().map_err(|_| anyhow!("poisoned"))?.clone();
        let mut lost = Vec::new();
        for (session, tip) in acks {
            let stream = StreamId::Session(session);
            let rows = self.store.read(&stream, tip.seq, 1).await?;
            if rows.first().is_none_or(|row| row.hash != tip.hash) {
                lost.push(format!("{stream}, record {}, was acknowledged and is lost", tip.seq));
            }
        }
        Ok(lost)
    }

    fn acknowledged(&self, driver: &Driver) -> Result<()> {
        let mut acks = self.acks.lock().map_err(|_| anyhow!("poisoned"))?;
        acks.push((driver.session().id.clone(), driver.durable_tip()));
        Ok(())
    }

    /// Plays the scenario from wherever its log ends.
    pub async fn play(&self) -> Result<Played> {
        let mut session = session_id(1)?;
        let mut sessions = vec![session.clone()];
        let mut driver = self.driver(&session).await?;
        let has_run_step = self.scenario.steps.contains(&StepText::Run);
        if self.scenario.script.is_some() && !has_run_step {
            self.run(&mut driver).await?;
        }
        let mut counts = self.counts(&session).await?;
        for (at, step) in self.scenario.steps.iter().enumerate() {
            match step {
                StepText::Call(call) => {
                    counts.calls_due += 1;
                    let made = self.counts(&session).await?.taken_up;
                    if driver.session().next_call <= counts.model_calls + counts.calls_due + made {
                        let actor = Actor::Client("scenario".into());
                        let args = call.arguments(&self.scenario.input);
                        driver.call(&actor, &call.tool, &args, call.id.as_deref()).await?;
                        self.acknowledged(&driver)?;
                    }
                }
                StepText::Run => {
                    self.run(&mut driver).await?;
                    counts.model_calls = self.counts(&session).await?.model_calls;
                }
                StepText::Restart => {
                    self.replays(&driver).await?;
                    drop(driver);
                    driver = self.driver(&session).await?;
                }
                StepText::OtherSession | StepText::OtherSessionAs(_) => {
                    self.replays(&driver).await?;
                    session = session_id(sessions.len() + 1)?;
                    sessions.push(session.clone());
                    let own = self.scenario.speaks.agent.as_ref();
                    let agent =
                        if let StepText::OtherSessionAs(agent) = step { Some(agent) } else { own };
                    driver = self.driver_as(&session, agent.cloned()).await?;
                    counts = self.counts(&session).await?;
                }
                StepText::Fork(text) => {
                    self.replays(&driver).await?;
                    let id = session_id(sessions.len() + 1)?;
                    match self.fork(at, &session, &id, text.at).await? {
                        Ok(forked) => {
                            let refused = std::mem::take(&mut counts.refused);
                            (driver, session) = (forked, id.clone());
                            sessions.push(id);
                            counts = Counts { refused, ..self.counts(&session).await? };
                        }
                        // One that is refused is part of what a scenario shows.
                        Err(refusal) => counts.refused.push(refusal),
                    }
                }
                StepText::Request(text) => {
                    counts.requests_due += 1;
                    if counts.requests < counts.requests_due {
                        // One that is refused is part of what a scenario shows.
                        match text.options(driver.agent()) {
                            Err(refusal) => counts.refused.push(refusal.to_string()),
                            Ok(options) => match driver
                                .open_request(&Actor::Human("ada".into()), &options)
                                .await
                            {
                                Ok(()) => {}
                                Err(DriveFault::Request(refusal)) => {
                                    counts.refused.push(refusal.to_string());
                                }
                                Err(fault) => return Err(fault.into()),
                            },
                        }
                    }
                }
                StepText::Change(change) => {
                    counts.changes_due += 1;
                    if counts.changes < counts.changes_due {
                        let changes = change.changes.clone();
                        // A change that is refused is part of what a scenario shows.
                        let refused = driver
                            .change(self.author(&change.actor), changes, "scenario")
                            .await
                            .err();
                        counts.refused.extend(refused.map(|fault| fault.to_string()));
                    }
                }
                StepText::Facts(facts) => {
                    counts.refused.extend(self.facts(at, facts).await?);
                }
                StepText::Catalogue(step) => {
                    counts.refused.extend(self.catalogue(at, step).await?);
                }
                StepText::Issue(issue) => {
                    counts.refused.extend(self.issue(at, issue).await?);
                }
                StepText::Undo(calls) => {
                    let done = || self.outside_done.lock().map_err(|_| anyhow!("poisoned"));
                    // What was refused before the crash would mean other calls by now.
                    if done()?.contains(&at) {
                        continue;
                    }
                    let undone = counts.undos > counts.undos_due;
                    match if undone { Ok(()) } else { self.undo(&mut driver, *calls).await } {
                        Ok(()) => {
                            // An undo has an id in one row with the calls.
                            counts.undos_due += 1;
                            counts.calls_due += 1;
                        }
                        // One that is refused is part of what a scenario shows.
                        Err(DriveFault::Undo(refusal)) => {
                            done()?.insert(at);
                            counts.refused.push(refusal.to_string());
                        }
                        Err(fault) => return Err(fault.into()),
                    }
                }
                StepText::MoveTo(phase) => {
                    counts.moves_due += 1;
                    if counts.moves < counts.moves_due {
                        driver.move_to(&Actor::Human("ada".into()), phase, "scenario").await?;
                    }
                }
                StepText::TakeUp => {
                    driver.take_up_approved().await?;
                    self.acknowledged(&driver)?;
                }
                StepText::Say(_)
                | StepText::Decide(_)
                | StepText::Enrol(_)
                | StepText::ClockMs(_)
                | StepText::WriteFile(..) => {
                    self.outside(at, step, &session).await?;
                }
            }
        }
        let refused = counts.refused;
        self.replays(&driver).await?;
        drop(driver);
        self.played(&sessions, &refused).await
    }

    /// Whether the log, read from its beginning, gives the session that was driven.
    async fn replays(&self, driver: &Driver) -> Result<()> {
        let live = driver.session();
        let mut replayed = Session::new(live.id.clone());
        let stream = StreamId::Session(live.id.clone());
        let apply = |record: Record<Event>, _: &_| replayed.apply(&record);
        read_from(self.store.as_ref(), &stream, Tip::START, apply).await?;
        ensure!(replayed == *live, "{stream}: what was driven is not what the log says");
        Ok(())
    }

    /// Opens the session, or resumes it and settles what a crash left open.
    async fn driver(&self, id: &SessionId) -> Result<Driver> {
        self.driver_as(id, self.scenario.speaks.agent.clone()).await
    }

    /// The same, and a session that is opened speaks as an agent.
    async fn driver_as(&self, id: &SessionId, agent: Option<AgentId>) -> Result<Driver> {
        let runtime = Arc::new(self.process().with_files(Arc::clone(&self.files)));
        let crew = self.crew.clone();
        let resumed = Driver::resume(Arc::clone(&runtime), crew.clone(), id.clone()).await;
        let mut driver = match resumed {
            Ok(driver) => driver,
            Err(OpenFault::Missing(_)) => {
                let actor = Actor::Human("ada".into());
                let Scenario { about, input, chat, speaks, request, .. } = &self.scenario;
                let request = request.options(&crew.agent)?;
                let title = if input.is_empty() { about } else { input }.clone();
                let conversation = speaks.conversation;
                let start =
                    Start { title, chat: *chat, agent, conversation, request, ..Start::default() };
                Driver::open_with(runtime, crew, id.clone(), &actor, start).await?
            }
            Err(fault) => return Err(fault.into()),
        };
        if let Ok(mut slot) = self.props.cancel.lock() {
            *slot = Some(driver.cancel());
        }
        driver.settle_open().await?;
        Ok(driver)
    }

    /// Forks a session, or resumes the fork when it is there.
    async fn fork(
        &self,
        step: usize,
        from: &SessionId,
        id: &SessionId,
        at: Option<u64>,
    ) -> Result<Result<Driver, String>> {
        let refused = || self.outside_done.lock().map_err(|_| anyhow!("poisoned"));
        if refused()?.contains(&step) {
            return Ok(Err("it was refused before the crash".to_owned()));
        }
        if self.process().catch_up().await?.sessions.contains(id) {
            return Ok(Ok(self.driver(id).await?));
        }
        let fork = match self.preview_fork(from, at).await {
            Ok(fork) => fork,
            Err(OpenFault::Fork(refusal)) => {
                refused()?.insert(step);
                return Ok(Err(refusal.to_string()));
            }
            Err(fault) => return Err(fault.into()),
        };
        let driver = self.forked(id.as_str(), fork).await?;
        self.acknowledged(&driver)?;
        Ok(Ok(driver))
    }

    async fn run(&self, driver: &mut Driver) -> Result<()> {
        driver.run(&|_| {}).await?;
        self.acknowledged(driver)
    }

    async fn undo(&self, driver: &mut Driver, calls: usize) -> Result<(), DriveFault> {
        let undo = driver.undo_preview(Range::Calls(calls)).await?;
        driver.undo(self.author(&Actor::Human("ada".into())), &undo, "").await
    }

    /// The person of this name; the same one each time, because each statement is another one.
    fn signer(&self, name: &str) -> Result<Arc<TestSigner>> {
        let mut people = self.people.lock().map_err(|_| anyhow!("poisoned"))?;
        if let Some(signer) = people.get(name) {
            return Ok(Arc::clone(signer));
        }
        let signer = TestSigner::new(name)?;
        people.insert(name.to_owned(), Arc::clone(&signer));
        Ok(signer)
    }

    /// Somebody as the author of something: people sign.
    fn author<'a>(&'a self, actor: &'a Actor) -> Author<'a> {
        if actor.is_human() { self.person.author(actor) } else { actor.into() }
    }

    async fn outside(&self, at: usize, step: &StepText, session: &SessionId) -> Result<()> {
        let done = || self.outside_done.lock().map_err(|_| anyhow!("poisoned"));
        if done()?.contains(&at) {
            return Ok(());
        }
        // A person whose decision met the crash decides again: where it is in the log already, a second
        // time changes nothing. Whatever else is done outside is done once.
        if matches!(step, StepText::Decide(_) | StepText::Enrol(_)) {
            self.done_outside(step, session).await?;
            done()?.insert(at);
            return Ok(());
        }
        done()?.insert(at);
        self.done_outside(step, session).await
    }

    async fn done_outside(&self, step: &StepText, session: &SessionId) -> Result<()> {
        match step {
            StepText::Say(say) => {
                self.process().say(session, self.author(&say.actor), say.said.clone()).await?;
            }
            StepText::Decide(decide) => {
                let said = Said::Answer(Box::new(self.decision(decide, session).await?));
                let (who, signer) = (Actor::human(&decide.who), self.signer(&decide.who)?);
                self.process().say(session, signer.author(&who), said).await?;
            }
            StepText::Enrol(people) => {
                let ada = Actor::Human("ada".into());
                for (name, role) in people {
                    let event = ProjectEvent::PersonEnrolled {
                        key: self.signer(name)?.key(),
                        name: name.clone(),
                        role: *role,
                        tools: Vec::new(),
                    };
                    let enrol = |_: &Project| Ok::<_, SayFault>((vec![event.clone()], ()));
                    self.process().decide(self.author(&ada), enrol).await?;
                }
            }
            StepText::ClockMs(ms) => self.props.clock.pass_ms(*ms),
            StepText::WriteFile(path, content) => std::fs::write(self.folder.join(path), content)?,
            StepText::Call(_)
            | StepText::Restart
            | StepText::MoveTo(_)
            | StepText::Change(_)
            | StepText::Facts(_)
            | StepText::Catalogue(_)
            | StepText::Issue(_)
            | StepText::TakeUp
            | StepText::Undo(_)
            | StepText::Fork(_)
            | StepText::Request(_)
            | StepText::Run
            | StepText::OtherSession
            | StepText::OtherSessionAs(_) => {}
        }
        Ok(())
    }

    /// Whether a step by a person outside is in the log already, though a crash came before it was known.
    async fn is_durable(&self, at: usize, actor: &Actor) -> Result<bool> {
        let head = self.store.head(&StreamId::Project).await?;
        let ends_at = head.map_or(0, |head| head.seq);
        let begun = *self
            .outside_begun
            .lock()
            .map_err(|_| anyhow!("poisoned"))?
            .entry(at)
            .or_insert(ends_at);
        let mut found = false;
        let each = |record: Record<ProjectEvent>, _: &_| {
            let is_act = matches!(
                record.event,
                ProjectEvent::ProjectChanged { call: None, .. } | ProjectEvent::CatalogueDecided(_)
            );
            found |= record.seq > begun && is_act && record.actor == *actor;
        };
        read_from(self.store.as_ref(), &StreamId::Project, Tip::START, each).await?;
        Ok(found)
    }

    /// Somebody does something about the catalogue; answers what was refused.
    async fn catalogue(&self, at: usize, step: &CatalogueStep) -> Result<Option<String>> {
        let done = || self.outside_done.lock().map_err(|_| anyhow!("poisoned"));
        if done()?.contains(&at) || self.is_durable(at, &step.actor).await? {
            return Ok(None);
        }
        let clock = Arc::clone(&self.props.clock);
        let now = clock.now();
        let runtime = Runtime::new(Arc::clone(&self.store), clock);
        let tools = tool_names(&self.crew.agent);
        let workflow = Workflow { user: &[], tools: &tools, chief: NO_CHIEF, now };
        let by = step.actor.name().map(ToString::to_string).unwrap_or_default();
        let assessment = match &step.act {
            CatalogueAct::Assess(id) => match proposal(&runtime.catch_up().await?.state, *id) {
                Ok(found) => {
                    let model = Err("no model plays the chief".to_owned());
                    let request = ChiefRequest { model, nonce: "", harness: None, now };
                    Some(assess(&found, request).await)
                }
                Err(_) => None,
            },
            CatalogueAct::Approve(_)
            | CatalogueAct::NeedsChanges(_)
            | CatalogueAct::Reject(_)
            | CatalogueAct::Rollback(..) => None,
        };
        let decided = |state: &State| -> Result<ProjectEvent> {
            let decide = |id, ruling| workflow.decide(state, id, ruling, "As agreed.", &by);
            let decided = match &step.act {
                CatalogueAct::Assess(id) => {
                    let mut edits = StateEdits::of(state);
                    proposal(state, *id)?;
                    let assessment = assessment.clone().context("it was not assessed")?;
                    workflow.assess(&mut edits, *id, assessment)?;
                    let (changes, reason) = (edits.into_changes(), "assess".to_owned());
                    return Ok(ProjectEvent::ProjectChanged {
                        changes,
                        session: None,
                        call: None,
                        reason,
                    });
                }
                CatalogueAct::Approve(id) => decide(*id, ProposalRuling::Approve)?,
                CatalogueAct::NeedsChanges(id) => decide(*id, ProposalRuling::NeedsChanges)?,
                CatalogueAct::Reject(id) => decide(*id, ProposalRuling::Reject)?,
                CatalogueAct::Rollback(id, version) => {
                    workflow.roll_back(state, id, *version, &by)?
                }
            };
            Ok(ProjectEvent::CatalogueDecided(Box::new(decided)))
        };
        let decision = runtime.decide(self.author(&step.actor), |project| {
            Ok::<_, anyhow::Error>((vec![decided(&project.state)?], ()))
        });
        let told = match decision.await {
            Ok(()) => None,
            // A log that fails is the crash loop's doing; the person says it again.
            Err(error) if error.chain().any(|cause| cause.is::<StoreFault>()) => return Err(error),
            Err(refusal) => Some(format!("{refusal:#}")),
        };
        done()?.insert(at);
        Ok(told)
    }

    /// Somebody decides about facts and locks; answers what was refused or skipped.
    async fn facts(&self, at: usize, facts: &FactsText) -> Result<Vec<String>> {
        let done = || self.outside_done.lock().map_err(|_| anyhow!("poisoned"));
        if done()?.contains(&at) {
            return Ok(Vec::new());
        }
        let clock = Arc::clone(&self.props.clock);
        let runtime = Runtime::new(Arc::clone(&self.store), clock);
        let act = facts.act.act()?;
        let decision = runtime.decide(self.author(&facts.actor), |project| {
            let decision = decide(project, &act)?;
            let events = decision.event().into_iter().collect();
            Ok::<_, anyhow::Error>((events, decision))
        });
        let told = match decision.await {
            Ok(decision) => {
                let skipped = decision.skipped.into_iter();
                let line = |one: Skipped| {
                    format!("{} at {}: {}, {}", one.proposal, one.path, one.why, one.message)
                };
                skipped.map(line).collect()
            }
            // A log that fails is the crash loop's doing; the person says it again.
            Err(error) if error.chain().any(|cause| cause.is::<StoreFault>()) => return Err(error),
            Err(refusal) => vec![format!("{refusal:#}")],
        };
        done()?.insert(at);
        Ok(told)
    }

    /// A person does something with an issue, without a key; answers what was refused.
    async fn issue(&self, at: usize, issue: &IssueText) -> Result<Vec<String>> {
        let done = || self.outside_done.lock().map_err(|_| anyhow!("poisoned"));
        if done()?.contains(&at) || self.is_durable(at, &issue.actor).await? {
            return Ok(Vec::new());
        }
        let clock = Arc::clone(&self.props.clock);
        let runtime = Runtime::new(Arc::clone(&self.store), Arc::clone(&clock) as _);
        let name = issue.actor.name().map(ToString::to_string).unwrap_or_default();
        let (author, rules) = (IssueAuthor::Person(name), IssueRules::default());
        let act = issue.act.act();
        let written = runtime.decide(&issue.actor, |project| {
            let outcome = decide_issue(&project.state, &rules, &author, clock.now(), &act)?;
            let event = outcome.event(&format!("issue {}", outcome.issue.id))?;
            Ok::<_, anyhow::Error>((vec![event], ()))
        });
        let told = match written.await {
            Ok(()) => Vec::new(),
            // A log that fails is the crash loop's doing; the person says it again.
            Err(error) if error.chain().any(|cause| cause.is::<StoreFault>()) => return Err(error),
            Err(refusal) => vec![format!("{refusal:#}")],
        };
        done()?.insert(at);
        Ok(told)
    }

    /// A process that works on the log.
    fn process(&self) -> Runtime {
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.props.clock));
        let runtime = Runtime::new(store, clock)
            .with_redactor(Redactor::new(&[Hidden::new(SCENARIO_SECRET)]));
        let Some(script) = &self.scenario.reviewer else { return runtime };
        let reviewer: Arc<dyn Provider> = Arc::new(Script::new("reviewer", script.clone()));
        runtime.with_resources(Resources::default().with(Reviewer(Ok(reviewer))))
    }

    /// The word of a person who was shown what waits now; one who saw nothing says it of nothing.
    async fn decision(&self, decide: &DecideText, session: &SessionId) -> Result<Decision> {
        let mut now = Session::new(session.clone());
        let stream = StreamId::Session(session.clone());
        let apply = |record: Record<Event>, _: &_| now.apply(&record);
        read_from(self.store.as_ref(), &stream, Tip::START, apply).await?;
        let waiting = now.waiting.get(&decide.call);
        let (frame, args_hash) =
            waiting.map_or((None, Digest::ZERO), |waiting| (waiting.frame, waiting.args_hash));
        let tool = match waiting {
            Some(waiting) => waiting.tool.clone(),
            None => ToolName::parse("unknown")?,
        };
        let DecideText { call, answer, note, args, always, .. } = decide.clone();
        let allow = always.then(|| AllowanceTerms::default_from(self.props.clock.now()));
        let decision = Decision::new(call, tool, frame, args_hash, answer);
        let decision = match args {
            Some(args) => decision.with_args(args),
            None => decision,
        };
        Ok(Decision { note, allow, ..decision })
    }

    async fn counts(&self, session: &SessionId) -> Result<Counts> {
        let (mut counts, mut undid) = (Counts::default(), false);
        let stream = StreamId::Session(session.clone());
        read_from::<Event>(self.store.as_ref(), &stream, Tip::START, |record, _| {
            if let Event::ModelReplied { calls, .. } = &record.event {
                counts.model_calls += u64::try_from(calls.len()).unwrap_or(0);
            }
            if let Event::Forked(forked) = &record.event {
                // Ids of calls go on where they were.
                counts.model_calls += forked.carried.next_call.saturating_sub(1);
            }
            let taken_up = matches!(record.event, Event::CallReceived { of: Some(_), .. });
            counts.taken_up += u64::from(taken_up);
            counts.changes += usize::from(matches!(record.event, Event::StateChanged { .. }));
            // That of its opening is no step.
            let requested = matches!(record.event, Event::RequestOpened(_)) && record.seq > 2;
            counts.requests += usize::from(requested);
            counts.undos += usize::from(matches!(record.event, Event::Undone(_)));
            let moved = matches!(record.event, Event::PhaseEntered { call: None, .. });
            // Right after an undo it is the way back.
            counts.moves += usize::from(moved && !undid);
            undid = matches!(record.event, Event::Undone(_));
        })
        .await?;
        Ok(counts)
    }

    async fn played(&self, sessions: &[SessionId], refused: &[String]) -> Result<Played> {
        let mut streams = vec![StreamId::Project];
        for session in sessions {
            streams.push(StreamId::Session(session.clone()));
            streams.push(StreamId::Inbox(session.clone()));
        }
        let mut text = trace(self.store.as_ref(), &streams).await?;
        for refusal in refused {
            text.push_str(&format!("refused: {refusal}\n"));
        }
        let mut state = String::new();
        for session in sessions {
            let driver = self.driver(session).await?;
            let (value, hash) = driver.session().export();
            state.push_str(&format!("{session} {} {value}\n", hash.short()));
        }
        let project = self.driver(&session_id(1)?).await?.project();
        let (value, hash) = project.export();
        state.push_str(&format!("project {} {value}\n", hash.short()));
        text.push_str("# state\n");
        text.push_str(&state);
        text.push_str(&self.files_text()?);
        let ledger = self.props.ledger.entries()?;
        for entry in &ledger {
            let args: String = entry.args_hash.chars().take(8).collect();
            text.push_str(&format!("world {} {} {args}\n", entry.key, entry.tool));
        }
        Ok(Played { trace: text, state, ledger })
    }

    /// The project's files, and whatever is left where copies are staged.
    fn files_text(&self) -> Result<String> {
        let mut out = String::new();
        let mut found = BTreeMap::new();
        let mut folders = vec![self.folder.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(&self.folder)?.display().to_string();
                    if !name.contains("log.db") && !name.ends_with(".ledger") {
                        found.insert(name, std::fs::read_to_string(&path)?);
                    }
                }
            }
        }
        for (name, content) in found {
            out.push_str(&format!("file {name} {content:?}\n"));
        }
        Ok(out)
    }
}

/// How far the log says a session has come.
#[derive(Default)]
struct Counts {
    model_calls: u64,
    calls_due: u64,
    taken_up: u64,
    changes: usize,
    changes_due: usize,
    moves: usize,
    moves_due: usize,
    undos: usize,
    undos_due: usize,
    requests: usize,
    requests_due: usize,
    refused: Vec<String>,
}

fn session_id(number: usize) -> Result<SessionId> {
    Ok(SessionId::parse(&format!("s{number}"))?)
}

fn crew(scenario: &Scenario, props: &Arc<Props>, person: &Arc<TestSigner>) -> Result<Crew> {
    let mut packs = Vec::new();
    for (at, text) in scenario.sections.iter().enumerate() {
        let families = if at == 0 { families(scenario) } else { Vec::new() };
        packs.push(pack(text, families, props)?);
    }
    if scenario.agent.packs.is_some() {
        packs.extend(enabled(&scenario.agent)?);
    }
    let sections = packs.iter().map(|pack| pack.section.clone()).collect();
    let agent: Agent = scenario.agent.clone().build(sections)?;
    let mut crew = Crew::new(Arc::new(agent), Toolbox::of(&packs));
    crew.evidence = ProjectSources::configured(&scenario.agent);
    let starter = scenario.starter.as_deref().map(TestSigner::new).transpose()?;
    crew.starter = starter.map(|signer| signer.key());
    if let Some(script) = &scenario.script {
        let script: Arc<dyn Provider> = Arc::new(Script::new("scenario", script.clone()));
        crew.provider = Some(match crew.agent.tool_calling.protocol {
            ToolProtocol::Native => script,
            ToolProtocol::Json => {
                // The nonce is new in every request, and the same in every play.
                let nonce = |plan: &Plan| Some(format!("{:032x}", plan.turn));
                Arc::new(JsonToolModel::new(script, crew.agent.limits.clone(), nonce))
            }
        });
    }
    if !scenario.answers.is_empty() || !scenario.words.is_empty() {
        let (answers, words) = (scenario.answers.clone(), scenario.words.clone());
        let (signer, clock) = (Arc::clone(person), Arc::clone(&props.clock));
        crew.person = Some(Arc::new(ScriptedPerson { signer, clock, answers, words }));
    }
    Ok(crew)
}

fn families(scenario: &Scenario) -> Vec<FamilySpec> {
    let spec = |(name, home): (&_, &HomeText)| {
        let spec = FamilySpec::new(Clone::clone(name), home.home());
        if *home == HomeText::HumanOnly { spec.human_only() } else { spec }
    };
    scenario.families.iter().map(spec).collect()
}

fn pack(text: &SectionText, families: Vec<FamilySpec>, props: &Arc<Props>) -> Result<Pack> {
    let mut section = Section::new(SectionName::parse(&text.name)?);
    section.text.clone_from(&text.text);
    section.enabled = text.enabled;
    section.families = families;
    for (at, policy) in text.policies.iter().enumerate() {
        section.policies.push(policy.clone().build(at + 1)?);
    }
    let mut tools = Vec::new();
    for tool in &text.tools {
        match &tool.does {
            Some(deeds) => {
                let tool = tool.tool(deeds.clone(), props)?;
                section.tools.push(Arc::clone(tool.spec()));
                tools.push(tool);
            }
            // Declared, and nobody handles it.
            None => section.tools.push(Arc::new(tool.draft().build()?)),
        }
    }
    Ok(Pack { section, tools })
}
