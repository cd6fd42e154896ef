//! Decides how sessions with domain tools are set up and driven in tests.

use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use toolgate_kernel::agent::{Agent, AgentDraft};
use toolgate_kernel::config::AgentText;
use toolgate_kernel::envelope::{Code, Envelope};
use toolgate_kernel::event::{Finish, Usage};
use toolgate_kernel::limits::Limits;
use toolgate_kernel::names::SessionId;
use toolgate_kernel::plan::Plan;
use toolgate_kernel::policy::Policy;
use toolgate_kernel::time::Timestamp;
use toolgate_packs::enabled;
use toolgate_runtime::port::{Clock, Desk, Provider, ProviderFault, Reply, ReplyCall, Tap};
use toolgate_runtime::{Crew, Driver, MemoryStore, Pack, Resources, Runtime, Start, Toolbox};

use crate::support::client;

/// A clock that moves when it is told to.
pub(crate) struct Hand(AtomicI64);

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }
}

impl Hand {
    pub(crate) fn days_pass(&self, days: i64) {
        self.0.fetch_add(days * 86_400_000, Ordering::Relaxed);
    }
}

/// A project with some packs, and one of its sessions.
pub(crate) struct Den {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) crew: Crew,
    pub(crate) driver: Driver,
    pub(crate) clock: Arc<Hand>,
}

impl Den {
    pub(crate) async fn open(packs: &[Pack]) -> Self {
        Self::under(packs, Vec::new(), Limits::default()).await
    }

    pub(crate) async fn under(
        packs: &[Pack],
        policies: Vec<Arc<dyn Policy>>,
        limits: Limits,
    ) -> Self {
        let sections = packs.iter().map(|pack| pack.section.clone()).collect();
        let draft = AgentDraft { limits, policies, ..AgentDraft::new("den", sections) };
        let crew = Crew::new(Arc::new(Agent::build(draft).unwrap()), Toolbox::of(packs));
        let clock = Arc::new(Hand(AtomicI64::new(1_700_000_000_000)));
        let runtime = Arc::new(Runtime::new(Arc::new(MemoryStore::new()), Arc::clone(&clock) as _));
        let driver = session(&runtime, &crew, "s1").await;
        Self { runtime, crew, driver, clock }
    }

    /// One whose sessions are set up by a configuration, and speak as somebody.
    pub(crate) async fn speaking(text: AgentText, start: Start, resources: Resources) -> Self {
        let packs = enabled(&text).unwrap();
        let sections = packs.iter().map(|pack| pack.section.clone()).collect();
        let crew = Crew::new(Arc::new(text.build(sections).unwrap()), Toolbox::of(&packs));
        let clock = Arc::new(Hand(AtomicI64::new(1_700_000_000_000)));
        let store = Arc::new(MemoryStore::new());
        let runtime = Runtime::new(store, Arc::clone(&clock) as _).with_resources(resources);
        let runtime = Arc::new(runtime);
        let driver = speaking(&runtime, &crew, "s1", start).await;
        Self { runtime, crew, driver, clock }
    }

    /// Another session of the same project.
    pub(crate) async fn another(&self, name: &str) -> Driver {
        session(&self.runtime, &self.crew, name).await
    }

    pub(crate) async fn call(&mut self, tool: &str, args: Value) -> Envelope {
        call(&mut self.driver, tool, args).await
    }

    /// A call that must work; answers its data.
    pub(crate) async fn works(&mut self, tool: &str, args: Value) -> Value {
        let what = args.to_string();
        let envelope = self.call(tool, args).await;
        assert!(envelope.ok, "{what}: {:?}", envelope.errors);
        assert!(envelope.data["type"].is_string(), "{what}: {}", envelope.data);
        envelope.data
    }

    /// A call that must fail and leave nothing behind; answers its code and data.
    pub(crate) async fn fails(&mut self, tool: &str, args: Value) -> (Code, Value) {
        let what = args.to_string();
        let before = self.runtime.project().0.export().1;
        let envelope = self.call(tool, args).await;
        assert!(!envelope.ok, "{what} worked: {}", envelope.data);
        assert_eq!(envelope.data["type"], "error", "{what}");
        assert_eq!(envelope.data["error"].as_str(), Some(envelope.message.as_str()), "{what}");
        assert!(envelope.data.get("action").is_some(), "{what}");
        assert_eq!(self.runtime.project().0.export().1, before, "{what}");
        (envelope.errors[0].code.clone(), envelope.data)
    }

    /// Lets a model make these calls, one list for each reply; answers what it was told.
    pub(crate) async fn replies(&mut self, turns: Vec<Vec<(&str, Value)>>) -> Vec<Arc<Envelope>> {
        let call = |(name, args): (&str, Value)| ReplyCall {
            alias: None,
            name: name.to_owned(),
            // A text is sent as it stands, so that arguments can be wrong.
            args: args.as_str().map_or_else(|| args.to_string(), str::to_owned),
        };
        let turns: Vec<Vec<ReplyCall>> =
            turns.into_iter().map(|calls| calls.into_iter().map(call).collect()).collect();
        let script = Script { turns: Mutex::new(turns), at: AtomicUsize::new(0) };
        let crew = Crew { provider: Some(Arc::new(script)), ..self.crew.clone() };
        let id = SessionId::parse("model").unwrap();
        let opened = Driver::open(Arc::clone(&self.runtime), crew, id, &client(), "go").await;
        let mut driver = opened.unwrap();
        driver.run(&|_| {}).await.unwrap();
        let session = driver.session();
        let told = session.turns.iter().flat_map(|turn| turn.told.values());
        told.map(|told| Arc::clone(&told.envelope)).collect()
    }
}

pub(crate) async fn call(driver: &mut Driver, tool: &str, args: Value) -> Envelope {
    driver.call(&client(), tool, &args.to_string(), None).await.unwrap()
}

/// A session that speaks as somebody.
pub(crate) async fn speaking(
    runtime: &Arc<Runtime>,
    crew: &Crew,
    name: &str,
    start: Start,
) -> Driver {
    let id = SessionId::parse(name).unwrap();
    let opened = Driver::open_with(Arc::clone(runtime), crew.clone(), id, &client(), start).await;
    opened.unwrap()
}

async fn session(runtime: &Arc<Runtime>, crew: &Crew, name: &str) -> Driver {
    let id = SessionId::parse(name).unwrap();
    Driver::open(Arc::clone(runtime), crew.clone(), id, &client(), "den").await.unwrap()
}

/// A model that makes the calls it was given, then says that it is done.
struct Script {
    turns: Mutex<Vec<Vec<ReplyCall>>>,
    at: AtomicUsize,
}

impl Provider for Script {
    fn name(&self) -> &str {
        "scripted"
    }

    fn reply<'a>(
        &'a self,
        _: &'a Plan,
        _: &'a mut Desk,
        _: Tap<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<Reply, ProviderFault>> + Send + 'a>> {
        let at = self.at.fetch_add(1, Ordering::Relaxed);
        let calls = self.turns.lock().unwrap().get(at).cloned().unwrap_or_default();
        Box::pin(async move { Ok(Reply::new("Done.", calls, Finish::Stop, Usage::default())) })
    }
}
