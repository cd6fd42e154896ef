//! Decides how a session with the writer's packs and a real folder is set up and driven in tests.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;
use toolgate_kernel::agent::{Agent, AgentDraft};
use toolgate_kernel::config::FilesConfig;
use toolgate_kernel::envelope::{Code, Envelope};
use toolgate_kernel::fold::{Counted, World};
use toolgate_kernel::names::PhaseName;
use toolgate_kernel::phase::{Phase, Transition};
use toolgate_kernel::policy::Policy;
use toolgate_kernel::time::Timestamp;
use toolgate_packs::files::files;
use toolgate_packs::manuscript::{ManuscriptTools, manuscript};
use toolgate_packs::notes::notes;
use toolgate_packs::phase::phase;
use toolgate_runtime::port::Clock;
use toolgate_runtime::{Crew, Driver, MemoryStore, Pack, Runtime, Toolbox};
use toolgate_testkit::Folder;

use crate::meddle::{Meddled, Meddling};
use crate::support::{FixedClock, client, session_id};

/// One session with all packs, in a folder of its own.
pub(crate) struct Room {
    pub(crate) folder: TempDir,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) driver: Driver,
    /// What happens when the next file is put in place.
    pub(crate) next: Arc<Mutex<Option<Meddling>>>,
}

/// Every pack a writer has.
pub(crate) fn packs() -> Vec<Pack> {
    let chosen = ManuscriptTools { read: true, write: true, beats: true };
    vec![
        notes().unwrap(),
        manuscript(chosen).unwrap(),
        phase().unwrap(),
        files(FilesConfig::default()).unwrap(),
    ]
}

impl Room {
    pub(crate) async fn open() -> Self {
        Self::under(Vec::new()).await
    }

    pub(crate) async fn under(policies: Vec<Arc<dyn Policy>>) -> Self {
        Self::at(policies, Arc::new(FixedClock)).await
    }

    pub(crate) async fn at(policies: Vec<Arc<dyn Policy>>, clock: Arc<dyn Clock>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let staged = folder.path().join(".toolgate/staged");
        let (root, next) = (folder.path().to_owned(), Arc::new(Mutex::default()));
        let files =
            Meddled { folder: Folder::open(&root, staged).unwrap(), root, next: Arc::clone(&next) };
        let runtime = Runtime::new(Arc::new(MemoryStore::new()), clock);
        let runtime = Arc::new(runtime.with_files(Arc::new(files)));
        let driver = Self::driver(&runtime, policies).await;
        Self { folder, runtime, driver, next }
    }

    async fn driver(runtime: &Arc<Runtime>, policies: Vec<Arc<dyn Policy>>) -> Driver {
        let packs = packs();
        let sections = packs.iter().map(|pack| pack.section.clone()).collect();
        let name = |name| PhaseName::parse(name).unwrap();
        let to = |from, to: &[&'static str]| Phase {
            transitions: to.iter().copied().map(name).map(Transition::to).collect(),
            ..Phase::new(name(from))
        };
        let phases =
            vec![to("B_DRAFT", &["C_REVISE", "B_DRAFT"]), to("C_REVISE", &[]), to("A_END", &[])];
        let draft = AgentDraft { policies, phases, ..AgentDraft::new("writer", sections) };
        let crew = Crew::new(Arc::new(Agent::build(draft).unwrap()), Toolbox::of(&packs));
        let opened =
            Driver::open(Arc::clone(runtime), crew, session_id(), &client(), "write").await;
        opened.unwrap()
    }

    pub(crate) async fn call(&mut self, tool: &str, args: Value) -> Envelope {
        self.driver.call(&client(), tool, &args.to_string(), None).await.unwrap()
    }

    /// A call that must work; answers its message and data.
    pub(crate) async fn works(&mut self, tool: &str, args: Value) -> (String, Value) {
        let what: String = format!("{tool} {args}").chars().take(200).collect();
        let envelope = self.call(tool, args).await;
        assert!(envelope.ok, "{what}: {} {:?}", envelope.message, envelope.errors);
        (envelope.message, envelope.data)
    }

    /// A call that must fail and leave nothing behind; answers code, message, path and what is allowed.
    pub(crate) async fn fails(
        &mut self,
        tool: &str,
        args: Value,
    ) -> (Code, String, Option<String>, Option<Vec<String>>) {
        let before = (self.runtime.project().0.export().1, self.tree());
        let envelope = self.call(tool, args.clone()).await;
        assert!(!envelope.ok, "{tool} {args} worked: {}", envelope.message);
        assert_eq!((self.runtime.project().0.export().1, self.tree()), before, "{tool} {args}");
        let trouble = envelope.errors[0].clone();
        (trouble.code, trouble.message, trouble.path, trouble.allowed)
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// A file as it is on the disk.
    pub(crate) fn file(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.path(path)).ok()
    }

    /// A person writes a file.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Every file of the project with its content.
    pub(crate) fn tree(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let (mut all, mut folders) = (Vec::new(), vec![self.folder.path().to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let (kind, path) = {
                    let e = entry.unwrap();
                    (e.file_type().unwrap(), e.path())
                };
                if kind.is_dir() {
                    folders.push(path);
                } else if kind.is_file() {
                    all.push((path.clone(), std::fs::read(path).unwrap()));
                }
            }
        }
        all.sort();
        all
    }

    /// What a variable says in a prompt now.
    pub(crate) fn variable(&self, name: &str) -> String {
        let (session, project) = (self.driver.session(), self.runtime.project().0);
        let toolset = &self.driver.agent().toolset;
        let world = World {
            session: &session,
            project: &project,
            toolset,
            now: Timestamp(0),
            counted: Counted::NotYet,
        };
        let variable = toolset.variables().iter().find(|v| v.name == name).unwrap();
        (variable.show)(&world)
    }

    /// Makes sections with these texts.
    pub(crate) async fn sections(&mut self, sections: &[(&str, &str)]) {
        for (name, content) in sections {
            self.works("create_section", json!({ "name": name, "content": content })).await;
        }
    }
}
