//! Decides how sessions with the workspace pack share one project in tests, and how a person decides.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_kernel::agent::{Agent, AgentDraft};
use toolgate_kernel::envelope::Envelope;
use toolgate_kernel::fold::Project;
use toolgate_kernel::limits::Limits;
use toolgate_kernel::names::SessionId;
use toolgate_kernel::policy::Policy;
use toolgate_packs::workspace::{
    Act, ActRefusal, Document, Path, ProposalId, Root, Upshot, decide, workspace,
};
use toolgate_runtime::{Author, Crew, Driver, MemoryStore, Pack, Runtime, SayFault, Toolbox};

use toolgate_testkit::signer::ada;

use crate::support::{FixedClock, client};

/// A project with a workspace, and one session in it.
pub(crate) struct Bureau {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) driver: Driver,
}

/// Why a person's word was not written down.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Undecided {
    #[error(transparent)]
    Act(#[from] ActRefusal),
    #[error(transparent)]
    Say(#[from] SayFault),
}

impl Bureau {
    pub(crate) async fn open() -> Self {
        Self::under(Vec::new()).await
    }

    pub(crate) async fn under(policies: Vec<Arc<dyn Policy>>) -> Self {
        let store = Arc::new(MemoryStore::new());
        let runtime = Arc::new(Runtime::new(store.clone(), Arc::new(FixedClock)));
        let driver = session(&runtime, "s1", policies, None).await;
        Self { runtime, store, driver }
    }

    /// One more session of the same project.
    pub(crate) async fn another(&self, name: &str) -> Driver {
        session(&self.runtime, name, Vec::new(), None).await
    }

    /// One more session of the same project, with another pack beside.
    pub(crate) async fn beside(&self, name: &str, pack: Pack) -> Driver {
        session(&self.runtime, name, Vec::new(), Some(pack)).await
    }

    pub(crate) async fn call(&mut self, tool: &str, args: Value) -> Envelope {
        self.driver.call(&client(), tool, &args.to_string(), None).await.unwrap()
    }

    /// A call that must work; answers its data.
    pub(crate) async fn works(&mut self, tool: &str, args: Value) -> Value {
        let what: String = format!("{tool} {args}").chars().take(200).collect();
        let told = self.call(tool, args).await;
        assert!(told.ok, "{what}: {:?}", told.errors);
        told.data
    }

    /// A call that must fail and leave nothing behind; answers code, message and argument.
    pub(crate) async fn fails(&mut self, tool: &str, args: Value) -> (String, String, String) {
        let what: String = format!("{tool} {args}").chars().take(200).collect();
        let before = self.project().export().1;
        let told = self.call(tool, args).await;
        assert!(!told.ok, "{what} worked: {}", told.message);
        assert_eq!(self.project().export().1, before, "{what}: nothing changed");
        let first = told.errors[0].clone();
        (first.code.to_string(), first.message, first.path.unwrap_or_default())
    }

    pub(crate) async fn sets(&mut self, path: &str, value: Value) -> Value {
        self.works("state_patch", json!({"ops": [{"op": "set", "path": path, "value": value}]}))
            .await
    }

    pub(crate) async fn proposes(&mut self, path: &str, value: Value) -> ProposalId {
        let args = json!({"path": path, "value": value, "reason": "It says so."});
        let answer = self.works("facts_propose", args).await;
        serde_json::from_value(answer["proposal"].clone()).unwrap()
    }

    pub(crate) fn project(&self) -> Arc<Project> {
        self.runtime.project().0
    }

    pub(crate) fn document(&self, root: Root) -> (u64, Value) {
        let Document { etag, value } = Document::of(&self.project().state, root);
        (etag, value)
    }

    /// A person decides, as a command at the terminal does it.
    pub(crate) async fn decides(&self, act: Act) -> Result<Upshot, Undecided> {
        self.decides_as(ada(), act).await
    }

    pub(crate) async fn decides_as(&self, who: Author<'_>, act: Act) -> Result<Upshot, Undecided> {
        let told = |project: &Project| {
            let upshot = decide(project, &act)?;
            Ok((upshot.event().into_iter().collect(), upshot))
        };
        self.runtime.decide(who, told).await
    }

    pub(crate) async fn commits(&self, ids: &[ProposalId]) -> Result<Upshot, Undecided> {
        self.decides(Act::Commit(ids.to_vec())).await
    }

    pub(crate) async fn locks(&self, path: &str) -> Result<Upshot, Undecided> {
        self.decides(Act::Lock(held(path), "It is decided.".to_owned())).await
    }
}

pub(crate) fn held(path: &str) -> Path {
    Path::parse(path, &[Root::Facts, Root::Draft]).unwrap()
}

async fn session(
    runtime: &Arc<Runtime>,
    name: &str,
    policies: Vec<Arc<dyn Policy>>,
    beside: Option<Pack>,
) -> Driver {
    let packs: Vec<Pack> = [workspace().unwrap()].into_iter().chain(beside).collect();
    let sections = packs.iter().map(|pack| pack.section.clone()).collect();
    let limits = Limits { args_bytes_max: 8 << 20, repeat_calls_max: 1_000, ..Limits::default() };
    let draft = AgentDraft { limits, policies, ..AgentDraft::new("editor", sections) };
    let crew = Crew::new(Arc::new(Agent::build(draft).unwrap()), Toolbox::of(&packs));
    let (runtime, id) = (Arc::clone(runtime), SessionId::parse(name).unwrap());
    Driver::open(runtime, crew, id, &client(), "edit").await.unwrap()
}
