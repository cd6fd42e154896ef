//! Decides how a session with the planning pack is set up and driven in tests.

use std::sync::Arc;

use serde_json::Value;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::{Agent, AgentDraft};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::envelope::{Code, Envelope};
use toolgate_kernel::key::Key;
use toolgate_kernel::limits::Limits;
use toolgate_kernel::names::SessionId;
use toolgate_kernel::time::Timestamp;
use toolgate_packs::planning::{Plan, PlanStatus, StepStatus, Strategy, planning};
use toolgate_runtime::port::Clock;
use toolgate_runtime::{Crew, Driver, MemoryStore, Runtime, Toolbox};

/// A clock that stands still.
pub(crate) struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp(1_700_000_000_000)
    }
}

/// What a call must come to.
pub(crate) enum Come {
    /// It works, with this message.
    Works(&'static str),
    /// It fails, with this text after `Tool validation failed: `, and leaves no trace in the state.
    Fails(&'static str),
}

/// One session with the planning pack.
pub(crate) struct Desk {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) crew: Crew,
    pub(crate) driver: Driver,
}

impl Desk {
    pub(crate) async fn open() -> Self {
        Self::with_limits(Limits::default()).await
    }

    pub(crate) async fn with_limits(limits: Limits) -> Self {
        let packs = [planning(Strategy::React).unwrap()];
        let sections = packs.iter().map(|pack| pack.section.clone()).collect();
        let draft = AgentDraft { limits, ..AgentDraft::new("planner", sections) };
        let crew = Crew::new(Arc::new(Agent::build(draft).unwrap()), Toolbox::of(&packs));
        let store = Arc::new(MemoryStore::new());
        let runtime = Arc::new(Runtime::new(store, Arc::new(FixedClock)));
        let (shared, id) = (Arc::clone(&runtime), session_id());
        let opened = Driver::open(shared, crew.clone(), id, &client(), "planning").await;
        Self { runtime, crew, driver: opened.unwrap() }
    }

    /// One call through the whole gate; `tool` is its name without `planning_`.
    pub(crate) async fn call(&mut self, tool: &str, args: Value) -> Envelope {
        let (name, args) = (format!("planning_{tool}"), args.to_string());
        self.driver.call(&client(), &name, &args, None).await.unwrap()
    }

    /// Makes calls one after the other and checks what each comes to.
    pub(crate) async fn play(&mut self, calls: impl IntoIterator<Item = (&str, Value, Come)>) {
        for (tool, args, come) in calls {
            let what = format!("{tool} {}", args.to_string().chars().take(200).collect::<String>());
            let before = self.hash();
            let envelope = self.call(tool, args).await;
            match come {
                Come::Works(message) => {
                    assert_eq!(envelope.message, message, "{what}");
                    assert!(envelope.ok, "{what}");
                    let plan: Plan = serde_json::from_value(envelope.data).unwrap();
                    assert_eq!(Some(plan), self.plan(), "{what}: the answer is the plan");
                }
                Come::Fails(text) => {
                    let message = format!("Tool validation failed: {text}");
                    assert_eq!(envelope.message, message, "{what}");
                    assert_eq!(envelope.code(), Some(&Code::ARGUMENTS_INVALID), "{what}");
                    assert!(!envelope.ok && envelope.data.is_null(), "{what}");
                    assert_eq!(self.hash(), before, "{what}: the state is as before");
                }
            }
        }
    }

    /// The plan as the session keeps it.
    pub(crate) fn plan(&self) -> Option<Plan> {
        let key = Key::parse("plan").unwrap();
        let slot = self.driver.session().state.get(&key)?.value();
        Some(serde_json::from_value(slot).unwrap())
    }

    /// Status of the plan, with number, title and status of its steps.
    pub(crate) fn outline(&self) -> (PlanStatus, Vec<(u64, String, StepStatus)>) {
        let plan = self.plan().unwrap();
        let steps = plan.steps.into_iter().map(|step| (step.step_id, step.title, step.status));
        (plan.status, steps.collect())
    }

    pub(crate) fn hash(&self) -> Digest {
        self.driver.session().export().1
    }
}

pub(crate) fn session_id() -> SessionId {
    SessionId::parse("s1").unwrap()
}

pub(crate) fn client() -> Actor {
    Actor::Client("test".into())
}
