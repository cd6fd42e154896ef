//! What every case of the corpus is played on: a project folder, a log, a world, and the checks
//! that hold whatever the case is.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};

use serde_json::{Map, Value, json};
use tempfile::TempDir;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::config::AgentText;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::envelope::{Code, Envelope};
use toolgate_kernel::event::{CallRefused, CallSettled, Event, StreamId};
use toolgate_kernel::fold::Session;
use toolgate_kernel::names::{Family, SectionName, SessionId};
use toolgate_kernel::policy::Policy;
use toolgate_kernel::section::{FamilySpec, Home, Section};
use toolgate_kernel::tool::{Effect, SpecDraft, ToolSpec};
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::port::{Fault, Output, Promised, Tool, at_once, later};
use toolgate_runtime::verify::verify;
use toolgate_runtime::{Crew, Driver, MemoryStore, Pack, Runtime, Toolbox, Transaction};
use toolgate_store::Folder;
use toolgate_testkit::clock::FakeClock;
use toolgate_testkit::corpus::Outcome;
use toolgate_testkit::ledger::{Entry, Ledger};
use toolgate_wire::script::Script;

use crate::scenarios::block_on;

/// One case's own project, log and world.
pub(crate) struct Bench {
    folder: TempDir,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) world: Arc<Ledger>,
    /// The arguments that handlers got, in order.
    seen: Arc<Mutex<Vec<Map<String, Value>>>>,
    /// Effects that belong to the staging and not to the bad input.
    rightful: AtomicUsize,
    /// Panics that belong to the staging.
    staged_panics: AtomicU32,
    /// The state the session must be left in; by itself the one it was opened with.
    state: Mutex<Option<Digest>>,
    panics_before: u32,
}

impl Bench {
    pub(crate) fn new() -> Self {
        // A disk in memory where there is one: a case may change a folder ten thousand times.
        let in_memory = tempfile::tempdir_in("/dev/shm");
        let folder = in_memory.or_else(|_| tempfile::tempdir()).unwrap();
        let project = folder.path().join("project");
        let staged = project.join(".toolgate").join("staged");
        std::fs::create_dir_all(&staged).unwrap();
        let files = Arc::new(Folder::open(&project, &staged).unwrap());
        let store = Arc::new(MemoryStore::new());
        let clock = Arc::new(FakeClock::default());
        let runtime = Runtime::new(store.clone(), clock).with_files(files);
        Self {
            folder,
            store,
            runtime: Arc::new(runtime),
            world: Arc::new(Ledger::default()),
            seen: Arc::default(),
            rightful: AtomicUsize::new(0),
            staged_panics: AtomicU32::new(0),
            state: Mutex::new(None),
            panics_before: panics(),
        }
    }

    /// The project folder.
    pub(crate) fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// A folder beside the project, which nothing may reach.
    pub(crate) fn neighbour(&self) -> PathBuf {
        let neighbour = self.folder.path().join("neighbour");
        std::fs::create_dir_all(&neighbour).unwrap();
        neighbour
    }

    /// A tool that reaches the world and tells what it got.
    pub(crate) fn reaching(&self, draft: SpecDraft) -> Arc<dyn Tool> {
        let reach = self.reach();
        doing(draft, move |tx| {
            reach(tx)?;
            Output::data("Done.", tx.args())
        })
    }

    /// What a tool does to reach the world.
    pub(crate) fn reach(
        &self,
    ) -> impl Fn(&Transaction) -> Result<(), Fault> + Send + Sync + 'static {
        let (world, seen) = (Arc::clone(&self.world), Arc::clone(&self.seen));
        move |tx| {
            seen.lock().unwrap().push(tx.args().clone());
            let entry = Entry {
                key: tx.idempotency_key(),
                tool: tx.call().spec().name.to_string(),
                args_hash: tx.call().args_hash().to_string(),
            };
            world.write(entry).map_err(|error| Fault::failed(error.to_string()))
        }
    }

    pub(crate) fn seen(&self) -> Vec<Map<String, Value>> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn effects(&self) -> Vec<Entry> {
        self.world.entries().unwrap()
    }

    /// So many effects belong to the staging.
    pub(crate) fn allow_effects(&self, count: usize) {
        self.rightful.store(count, Ordering::SeqCst);
    }

    /// So many panics belong to the staging.
    pub(crate) fn allow_panics(&self, count: u32) {
        self.staged_panics.store(count, Ordering::SeqCst);
    }

    /// The session must be left in the state that this one is in.
    pub(crate) fn expect_state_of(&self, driver: &Driver) {
        *self.state.lock().unwrap() = Some(driver.session().export().1);
    }

    /// Opens the session of the case.
    pub(crate) async fn open(&self, crew: Crew) -> Driver {
        let driver = self.open_as("case", crew).await;
        self.expect_state_of(&driver);
        driver
    }

    pub(crate) async fn open_as(&self, name: &str, crew: Crew) -> Driver {
        let (runtime, actor) = (Arc::clone(&self.runtime), Actor::Human("ada".into()));
        Driver::open(runtime, crew, session(name), &actor, "corpus").await.unwrap()
    }

    /// Takes the case's session over with another crew, as a restart does.
    pub(crate) async fn resume(&self, crew: Crew) -> Driver {
        Driver::resume(Arc::clone(&self.runtime), crew, session("case")).await.unwrap()
    }

    /// Every event of the case's session.
    pub(crate) fn events(&self) -> Vec<Event> {
        let (mut events, stream) = (Vec::new(), StreamId::Session(session("case")));
        let each = |record: toolgate_kernel::event::Record<Event>, _: &_| events.push(record.event);
        block_on(read_from(self.store.as_ref(), &stream, Tip::START, each)).unwrap();
        events
    }

    /// What callers were told, in order.
    pub(crate) fn told(&self) -> Vec<Envelope> {
        let told = |event: Event| {
            if let Event::CallSettled(CallSettled { envelope, .. })
            | Event::CallRefused(CallRefused { envelope, .. }) = event
            {
                return Some(Envelope::clone(&envelope));
            }
            None
        };
        self.events().into_iter().filter_map(told).collect()
    }

    /// Everything that is wrong whatever the case is.
    pub(crate) fn wounds(&self, outcome: Outcome) -> Vec<String> {
        let mut wounds = Vec::new();
        let panicked = panics() - self.panics_before;
        if panicked != self.staged_panics.load(Ordering::SeqCst) {
            wounds.push(format!("{panicked} panics"));
        }
        let (effects, rightful) = (self.effects(), self.rightful.load(Ordering::SeqCst));
        if (effects.len() > rightful) != (outcome == Outcome::Accept) {
            wounds.push(format!("the world was reached: {effects:?}"));
        }
        let changes = matches!(outcome, Outcome::Accept | Outcome::Recover);
        if !changes && *self.state.lock().unwrap() != self.replayed().map(|s| s.export().1) {
            wounds.push("the session's state changed".to_owned());
        }
        if let Err(reason) = block_on(self.another_session_works()) {
            wounds.push(format!("another session does not work: {reason}"));
        }
        let report = block_on(verify(self.store.as_ref())).unwrap();
        wounds.extend(report.problems.iter().map(|problem| format!("{problem:?}")));
        wounds
    }

    /// The case's session, replayed from its stored bytes; none when none was opened.
    fn replayed(&self) -> Option<Session> {
        let (mut replayed, stream) =
            (Session::new(session("case")), StreamId::Session(session("case")));
        let each = |record: toolgate_kernel::event::Record<Event>, _: &_| replayed.apply(&record);
        block_on(read_from(self.store.as_ref(), &stream, Tip::START, each)).unwrap();
        (replayed.seq > 0).then_some(replayed)
    }

    async fn another_session_works(&self) -> Result<(), String> {
        let ping = doing(SpecDraft::new("ping", "Answers."), |_| Ok(Output::message("pong")));
        let crew =
            crew(json!({}), vec![ping], Vec::new()).map_err(|refusal| refusal.to_string())?;
        let mut driver = self.open_as("another", crew).await;
        let told = driver.call(&client(), "ping", "{}", None).await;
        let told = told.map_err(|fault| fault.to_string())?;
        if told.message == "pong" { Ok(()) } else { Err(told.to_json()) }
    }
}

/// What came of one call, by what its caller was told and whether anything was reached.
pub(crate) fn outcome(told: &Envelope, effects: usize) -> Outcome {
    let denials = [
        Code::TOOL_NOT_GRANTED,
        Code::POLICY_DENIED,
        Code::POLICY_ERROR,
        Code::APPROVAL_PENDING,
        Code::APPROVAL_DENIED,
    ];
    let bounds = [Code::TOOL_TIMED_OUT, Code::TOOL_OUTPUT_TOO_LARGE];
    match told.code() {
        None if effects > 0 => Outcome::Accept,
        None => Outcome::Inert,
        Some(code) if denials.contains(code) => Outcome::Deny,
        Some(code) if bounds.contains(code) => Outcome::Bounded,
        Some(_) => Outcome::Reject,
    }
}

pub(crate) fn client() -> Actor {
    Actor::Client("corpus".into())
}

pub(crate) fn session(name: &str) -> SessionId {
    SessionId::parse(name).unwrap()
}

/// An agent as a configuration describes it, over one section that keeps notes and a book.
pub(crate) fn crew(
    config: Value,
    tools: Vec<Arc<dyn Tool>>,
    policies: Vec<Arc<dyn Policy>>,
) -> Result<Crew, toolgate_kernel::config::ConfigRefusal> {
    let mut section = Section::new(SectionName::parse("desk").unwrap());
    let kept = [("note", Home::Session), ("book", Home::Project)];
    section.families =
        kept.map(|(name, home)| FamilySpec::new(Family::parse(name).unwrap(), home)).to_vec();
    section.policies = policies;
    let pack = Pack::new(section, tools);
    let text: AgentText = serde_json::from_value(config).unwrap();
    let agent = text.build(vec![pack.section.clone()])?;
    Ok(Crew::new(Arc::new(agent), Toolbox::of(&[pack])))
}

/// The same crew with a model that plays these replies: each a list of `(tool, arguments, id)`.
pub(crate) fn with_model(mut crew: Crew, replies: &[Vec<(&str, String, &str)>]) -> Crew {
    let replies: Vec<Value> = replies
        .iter()
        .map(|calls| {
            let calls: Vec<Value> = calls
                .iter()
                .map(|(tool, raw, id)| json!({"tool": tool, "raw": raw, "id": id}))
                .collect();
            json!({ "calls": calls })
        })
        .chain([json!({"text": "Done."})])
        .collect();
    let script = serde_json::from_value(json!({ "replies": replies })).unwrap();
    crew.provider = Some(Arc::new(Script::new("corpus", script)));
    crew
}

/// A description of a tool with one required text.
pub(crate) fn taking_text(name: &str, field: &str, effect: Effect) -> SpecDraft {
    let schema = json!({
        "type": "object", "required": [field], "properties": {field: {"type": "string"}},
    });
    SpecDraft::new(name, "A tool of the corpus.").params_schema(schema).effect(effect)
}

/// A tool that does this.
pub(crate) fn doing<F>(draft: SpecDraft, deed: F) -> Arc<dyn Tool>
where
    F: Fn(&mut Transaction) -> Result<Output, Fault> + Send + Sync + 'static,
{
    Arc::new(Doing { spec: Arc::new(draft.build().unwrap()), deed })
}

struct Doing<F> {
    spec: Arc<ToolSpec>,
    deed: F,
}

impl<F> Tool for Doing<F>
where
    F: Fn(&mut Transaction) -> Result<Output, Fault> + Send + Sync,
{
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn run<'a>(&'a self, tx: &'a mut Transaction) -> Promised<'a, Result<Output, Fault>> {
        at_once((self.deed)(tx))
    }
}

/// A tool that never answers.
pub(crate) struct Hanging(pub(crate) Arc<ToolSpec>);

impl Tool for Hanging {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn run<'a>(&'a self, _: &'a mut Transaction) -> Promised<'a, Result<Output, Fault>> {
        later(std::future::pending())
    }
}

thread_local! {
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

static COUNTING: Once = Once::new();

/// Panics of this thread so far, those that somebody caught among them.
pub(crate) fn panics() -> u32 {
    COUNTING.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.with(|panics| panics.set(panics.get() + 1));
            before(info);
        }));
    });
    PANICS.with(Cell::get)
}
