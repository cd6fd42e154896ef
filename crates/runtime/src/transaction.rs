//! Decides what a running call may reach, and keeps what it changes staged until it settles.
//!
//! A transaction consumes the [`Admitted`](toolgate_kernel::gate::Admitted) it runs, so a call
//! cannot run twice:
//!
//! ```compile_fail
//! use toolgate_kernel::gate::Admitted;
//! use toolgate_runtime::{Driver, Transaction};
//! async fn twice(driver: &mut Driver, admitted: Admitted) {
//!     let first = Transaction::begin(driver, admitted).await;
//!     let second = Transaction::begin(driver, admitted).await;
//! }
//! ```
//!
//! Dropping it rolls back: what was staged is forgotten.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use toolgate_kernel::agent::Agent;
use toolgate_kernel::budget::Budget;
use toolgate_kernel::digest::{Digest, Trail};
use toolgate_kernel::envelope::{Code, Trouble};
use toolgate_kernel::event::{Change, Notice, RawCall, Usage};
use toolgate_kernel::fold::{Counted, Project, Session, Shelf, Slot, State, World};
use toolgate_kernel::gate::Call;
use toolgate_kernel::key::{Access, Key, Touched};
use toolgate_kernel::names::{CallId, Family, PhaseName};
use toolgate_kernel::prompt::system_prompt;
use toolgate_kernel::prompt_skips::PromptSkips;
use toolgate_kernel::section::{FamilySpec, Guard, Home};
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::tool::Effect;

use crate::port::{Clock, Fault, Files, Listing, Provider};

/// Things a handler may ask for by their type.
#[derive(Default, Clone)]
pub struct Resources {
    things: BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl Resources {
    /// Adds a thing; one of each type.
    pub fn with<T: Any + Send + Sync>(mut self, thing: T) -> Self {
        self.things.insert(TypeId::of::<T>(), Arc::new(thing));
        self
    }

    fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(self.things.get(&TypeId::of::<T>())?).downcast().ok()
    }
}

/// A running call. Handlers see the world through it and change nothing directly.
pub struct Transaction {
    /// What is left in the end. It has its place from the beginning and is not moved any more.
    ran: Box<Ran>,
    session: Arc<Session>,
    project: Arc<Project>,
    reach: Reach,
    /// The states with this call's own changes, made when the first change is staged.
    session_state: Option<State>,
    project_state: Option<State>,
}

/// What is left of a transaction whose handler came to its end. It holds no snapshot.
pub(crate) struct Ran {
    pub(crate) call: Box<Call>,
    /// The footprint with the versions the call began with.
    pub(crate) touched: Vec<Touched>,
    /// The footprint with the versions that hold once the call is committed.
    pub(crate) after: Vec<Touched>,
    /// The phase the call began in, where it wants to leave it: nothing else depends on it.
    pub(crate) phase: Option<PhaseName>,
    pub(crate) staged: Staged,
}

/// What every handler of a driver can reach beside the state.
pub(crate) struct Shared {
    pub(crate) agent: Arc<Agent>,
    pub(crate) files: Arc<dyn Files>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) provider: Option<Arc<dyn Provider>>,
    pub(crate) resources: Resources,
    pub(crate) heartbeat: Arc<dyn Fn(CallId) + Send + Sync>,
    /// How the last long file was fingerprinted: most are written again with little changed.
    pub(crate) trail: Mutex<Trail>,
}

impl Shared {
    fn fingerprint(&self, content: &Arc<Vec<u8>>) -> Digest {
        self.trail.lock().unwrap_or_else(PoisonError::into_inner).digest(content)
    }

    /// The same with another agent.
    pub(crate) fn with_agent(&self, agent: Arc<Agent>) -> Self {
        Self {
            agent,
            files: Arc::clone(&self.files),
            clock: Arc::clone(&self.clock),
            provider: self.provider.clone(),
            resources: self.resources.clone(),
            heartbeat: Arc::clone(&self.heartbeat),
            trail: Mutex::default(),
        }
    }
}

/// What one call can reach beside the state.
pub(crate) struct Reach {
    pub(crate) shared: Arc<Shared>,
    pub(crate) deadline: Timestamp,
}

/// A file as a call wants it.
pub(crate) struct StagedFile {
    /// Its content; `None` for a removal.
    pub(crate) content: Option<Arc<Vec<u8>>>,
    /// The version of that content, worked out once.
    pub(crate) version: Option<Digest>,
}

/// What a call wants changed.
#[derive(Default)]
pub(crate) struct Staged {
    pub(crate) session: Vec<Change>,
    pub(crate) project: Vec<Change>,
    pub(crate) files: BTreeMap<String, StagedFile>,
    pub(crate) phase: Option<(PhaseName, String)>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) aside: Aside,
}

/// What is written down of a call, whatever becomes of it.
#[derive(Default)]
pub(crate) struct Aside {
    pub(crate) notices: Vec<Notice>,
    /// Tokens of models that it asked.
    pub(crate) spent: Option<Usage>,
}

impl Staged {
    /// Forgets what was staged.
    pub(crate) fn forget(&mut self) {
        *self = Self { aside: std::mem::take(&mut self.aside), ..Self::default() };
    }

    /// Whether nothing is changed.
    pub(crate) fn is_empty(&self) -> bool {
        let changes = self.session.len() + self.project.len() + self.files.len();
        changes == 0 && self.phase.is_none()
    }
}

impl Transaction {
    pub(crate) fn new(
        call: Box<Call>,
        touched: Vec<Touched>,
        session: Arc<Session>,
        project: Arc<Project>,
        reach: Reach,
    ) -> Self {
        let (after, phase, staged) = (Vec::new(), None, Staged::default());
        let ran = Box::new(Ran { call, touched, after, phase, staged });
        Self { ran, session, project, reach, session_state: None, project_state: None }
    }

    /// The call.
    pub fn call(&self) -> &Call {
        &self.ran.call
    }

    /// The key the world is asked to honour: the same for every try of this call.
    pub fn idempotency_key(&self) -> String {
        idempotency_key(&self.session, self.ran.call.id())
    }

    /// The arguments as the tool's own type.
    pub fn params<P: DeserializeOwned>(&self) -> Result<P, Fault> {
        // The tree takes whatever is rare, and says what is wrong.
        P::deserialize(self.ran.call.args().root())
            .or_else(|_| P::deserialize(self.ran.call.args_tree()))
            .map_err(|error| Fault::invalid(format!("Tool validation failed: {error}")))
    }

    /// The arguments as JSON.
    pub fn args(&self) -> &Map<String, Value> {
        self.ran.call.args_tree()
    }

    /// The session as it was when the call began.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The project as it was when the call began.
    pub fn project(&self) -> &Project {
        &self.project
    }

    /// Calls of this tool in the same model reply that came before this one and passed the gate.
    /// Calls of a caller without a model are in no reply, so there are none.
    pub fn earlier(&self) -> impl Iterator<Item = &RawCall> {
        let open = self.session.open.get(&self.ran.call.id());
        let number = open.and_then(|open| open.turn);
        let turn = self.session.turns.iter().rev().find(|turn| Some(turn.number) == number);
        let passed = turn.into_iter().flat_map(|turn| turn.passed_before(self.ran.call.id()));
        let own = |raw: &&Arc<RawCall>| {
            self.agent().toolset.find(&raw.name) == Some(self.ran.call.place())
        };
        passed.filter(own).map(AsRef::as_ref)
    }

    /// The agent: its tools, phases and limits.
    pub fn agent(&self) -> &Agent {
        &self.reach.shared.agent
    }

    /// The system prompt in force. A call outside an iteration gets the one that would be.
    pub fn prompt(&self) -> Arc<str> {
        match self.session.lap {
            Some(_) => Arc::clone(&self.session.system),
            None => system_prompt(self.agent(), &self.world(), &PromptSkips::default()).into(),
        }
    }

    fn world(&self) -> World<'_> {
        World {
            session: &self.session,
            project: &self.project,
            toolset: &self.reach.shared.agent.toolset,
            now: self.now(),
            counted: Counted::Already,
        }
    }

    /// The model, where one drives this session.
    pub fn provider(&self) -> Option<&Arc<dyn Provider>> {
        self.reach.shared.provider.as_ref()
    }

    /// Something the program put within reach, by its type.
    pub fn resource<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.reach.shared.resources.get()
    }

    /// The moment now.
    pub fn now(&self) -> Timestamp {
        self.reach.shared.clock.now()
    }

    /// The moment this call must be over.
    pub fn deadline(&self) -> Timestamp {
        self.reach.deadline
    }

    /// What the run may spend.
    pub fn budget(&self) -> &Budget {
        &self.reach.shared.agent.budget
    }

    /// Says that the call is alive. It does not move the deadline.
    pub fn beat(&self) {
        (self.reach.shared.heartbeat)(self.ran.call.id());
    }

    /// Publishes something beside the answer; it is kept in the log when the call succeeds.
    pub fn notice(&mut self, topic: &str, text: impl Into<String>) -> Result<(), Fault> {
        let max = usize::try_from(self.reach.shared.agent.limits.notices_max).unwrap_or(usize::MAX);
        if self.ran.staged.notices.len() >= max {
            return Err(Fault::failed(format!("At most {max} notices per call.")));
        }
        let text = text.into();
        self.check_size("a notice", topic.len() + text.len())?;
        self.ran.staged.notices.push(Notice { topic: topic.to_owned(), text });
        Ok(())
    }

    /// Writes something down for people, also when the call fails. No model is shown it.
    pub fn audit(&mut self, topic: &str, text: impl Into<String>) -> Result<(), Fault> {
        let max = usize::try_from(self.reach.shared.agent.limits.notices_max).unwrap_or(usize::MAX);
        if self.ran.staged.aside.notices.len() >= max {
            return Err(Fault::failed(format!("At most {max} notices per call.")));
        }
        let text = text.into();
        self.check_size("a notice", topic.len() + text.len())?;
        self.ran.staged.aside.notices.push(Notice { topic: topic.to_owned(), text });
        Ok(())
    }

    /// Counts tokens of a model that the call asked, also when the call fails.
    pub fn spend(&mut self, usage: &Usage) {
        let aside = &mut self.ran.staged.aside;
        aside.spent = Some(aside.spent.unwrap_or_default().plus(usage));
    }

    /// What is kept under a key, with this call's own changes.
    pub fn get(&self, key: &Key) -> Result<Option<Slot>, Fault> {
        Ok(self.state(self.family(key)?.home)?.get(key).cloned())
    }

    /// Every name of a family with what is kept there, with this call's own changes.
    pub fn list(&self, family: &Family) -> Result<Vec<(String, Slot)>, Fault> {
        let spec = self.reach.shared.agent.toolset.family(family);
        let home = spec.ok_or_else(|| undeclared(&format!("family {family}")))?.home;
        let shelf = self.state(home)?.shelf(family.as_str());
        let entries = shelf.into_iter().flat_map(Shelf::iter);
        Ok(entries.map(|(name, slot)| (name.to_owned(), slot.clone())).collect())
    }

    /// What is kept under a key as a type, brought up to the current layout.
    pub fn load<T: DeserializeOwned>(&self, key: &Key) -> Result<Option<T>, Fault> {
        let spec = self.family(key)?;
        let Some(slot) = self.state(spec.home)?.get(key) else { return Ok(None) };
        let value = match &spec.upcast {
            Some(upcast) if slot.layout() < spec.layout => upcast(slot.layout(), slot.value()),
            _ => slot.value(),
        };
        let loaded = T::deserialize(value);
        loaded.map(Some).map_err(|error| Fault::failed(format!("{key} cannot be read: {error}.")))
    }

    /// Stages a value under a key.
    pub fn put(&mut self, key: &Key, value: &impl Serialize) -> Result<(), Fault> {
        let value = self.bounded(key, value)?;
        let v = self.family(key)?.layout;
        self.stage(Change::Put { key: key.clone(), value, v })
    }

    /// Stages one more item for the list under a key.
    pub fn push(&mut self, key: &Key, value: &impl Serialize) -> Result<(), Fault> {
        let value = self.bounded(key, value)?;
        let v = self.family(key)?.layout;
        self.stage(Change::Push { key: key.clone(), value, v })
    }

    /// Stages the removal of a key.
    pub fn remove(&mut self, key: &Key) -> Result<(), Fault> {
        self.stage(Change::Remove { key: key.clone() })
    }

    /// Stages a move to another phase, when the present one leads there.
    pub fn enter_phase(&mut self, to: &PhaseName, reason: &str) -> Result<(), Fault> {
        self.writable()?;
        let agent = &self.reach.shared.agent;
        let Some(from) = self.session.phase.as_ref().and_then(|from| agent.phase(from)) else {
            return Err(undeclared("phase"));
        };
        let refused = |message: String, allowed: Vec<&str>| {
            let allowed = allowed.into_iter().map(str::to_owned).collect();
            Fault::of(Trouble::new(Code::TRANSITION_REFUSED, message).allowing(allowed))
        };
        if agent.phase(to).is_none() {
            let mut phases: Vec<&str> = agent.phases().map(|phase| phase.name.as_str()).collect();
            phases.sort_unstable();
            return Err(refused(format!("There is no phase {to}."), phases));
        }
        let ways = || from.transitions.iter().map(|way| way.to.as_str()).collect();
        let Some(way) = from.transition(to) else {
            return Err(refused(format!("Phase {} does not lead to {to}.", from.name), ways()));
        };
        way.open(&self.world()).map_err(|otherwise| refused(otherwise, ways()))?;
        self.ran.staged.phase = Some((to.clone(), reason.to_owned()));
        Ok(())
    }

    /// The content of a file, with this call's own changes.
    pub fn read_file(&self, path: &str) -> Result<Option<Vec<u8>>, Fault> {
        if let Some(staged) = self.ran.staged.files.get(path) {
            return Ok(staged.content.as_deref().cloned());
        }
        self.reach.shared.files.read(path).map_err(|fault| Fault::failed(fault.to_string()))
    }

    /// The version of a file's content, with this call's own changes.
    pub fn file_version(&self, path: &str) -> Result<Option<Digest>, Fault> {
        if let Some(staged) = self.ran.staged.files.get(path) {
            return Ok(staged.version);
        }
        self.reach.shared.files.version(path).map_err(|fault| Fault::failed(fault.to_string()))
    }

    /// The plain files in a folder and below it, without this call's own changes; `None` when
    /// there is no such folder, and everything when none is given.
    pub fn list_files(&self, under: Option<&str>) -> Result<Option<Listing>, Fault> {
        self.reach.shared.files.list(under).map_err(|fault| Fault::failed(fault.to_string()))
    }

    /// Stages the content of a file; `None` removes it.
    pub fn write_file(&mut self, path: &str, content: Option<Vec<u8>>) -> Result<(), Fault> {
        self.writable()?;
        self.declared(&file_key(path)?)?;
        self.keep_out(path)?;
        let bytes = content.as_ref().map_or(0, Vec::len);
        self.check_size(path, bytes)?;
        let content = content.map(Arc::new);
        let version = content.as_ref().map(|content| self.reach.shared.fingerprint(content));
        self.ran.staged.files.insert(path.to_owned(), StagedFile { content, version });
        Ok(())
    }

    /// Lets go of the world the call saw and keeps what it leaves.
    pub(crate) fn ran(mut self) -> Box<Ran> {
        self.ran.after = self.touched_after();
        if self.ran.staged.phase.is_some() {
            self.ran.phase = self.session.phase.clone();
        }
        self.ran
    }

    /// The footprint with the versions that hold once this call is committed.
    fn touched_after(&self) -> Vec<Touched> {
        let after = |touched: &Touched| {
            let changed = |state: &Option<State>| match state {
                Some(state) => state.version(&touched.key),
                None => touched.version,
            };
            let version = match (touched.access, self.family(&touched.key).map(|spec| spec.home)) {
                (Access::Write, Ok(Home::Session)) => changed(&self.session_state),
                (Access::Write, Ok(Home::Project)) => changed(&self.project_state),
                (Access::Write, Ok(Home::Files)) => {
                    let staged = self.ran.staged.files.get(touched.key.name());
                    staged.map_or(touched.version, |staged| staged.version)
                }
                (Access::Write, Err(_)) | (Access::Read, _) => touched.version,
            };
            Touched { version, ..touched.clone() }
        };
        self.ran.touched.iter().map(after).collect()
    }

    fn stage(&mut self, change: Change) -> Result<(), Fault> {
        self.writable()?;
        let Some(key) = change.key() else { return Err(undeclared("change")) };
        self.declared(key)?;
        let spec = self.family(key)?;
        let home = spec.home;
        if spec.guard == Guard::HumanOnly {
            return Err(Fault::failed(format!("Only a person may change {key}.")));
        }
        let max = usize::try_from(self.reach.shared.agent.limits.changes_max).unwrap_or(usize::MAX);
        // The entry that counts its parts comes on top; a call has one for a key it declared.
        let wholes = if spec.whole.as_ref() == Some(key) { self.ran.call.keys().len() } else { 0 };
        let max = max.saturating_add(wholes);
        if self.ran.staged.session.len() + self.ran.staged.project.len() >= max {
            return Err(Fault::failed(format!("At most {max} changes per call.")));
        }
        let (state, list) = match home {
            Home::Session => {
                let state = self.session_state.get_or_insert_with(|| self.session.state.clone());
                (state, &mut self.ran.staged.session)
            }
            Home::Project => {
                let state = self.project_state.get_or_insert_with(|| self.project.state.clone());
                (state, &mut self.ran.staged.project)
            }
            Home::Files => return Err(undeclared("file: use write_file")),
        };
        state.apply(&change).map_err(|refusal| Fault::failed(refusal.to_string()))?;
        list.push(change);
        Ok(())
    }

    fn state(&self, home: Home) -> Result<&State, Fault> {
        match home {
            Home::Session => Ok(self.session_state.as_ref().unwrap_or(&self.session.state)),
            Home::Project => Ok(self.project_state.as_ref().unwrap_or(&self.project.state)),
            Home::Files => Err(undeclared("file: use read_file")),
        }
    }

    fn family(&self, key: &Key) -> Result<&FamilySpec, Fault> {
        let spec = self.reach.shared.agent.toolset.family(key.family());
        spec.ok_or_else(|| undeclared(&format!("family of {key}")))
    }

    /// A call that reads must not change, whatever its handler tries.
    fn writable(&self) -> Result<(), Fault> {
        if self.ran.call.spec().effect == Effect::Read {
            return Err(Fault::failed("This tool is declared to read; it cannot change anything."));
        }
        Ok(())
    }

    /// What a call changes must be in its footprint, or nobody could have judged it; a part may be
    /// there by its whole.
    fn declared(&self, key: &Key) -> Result<(), Fault> {
        let whole = self.family(key).ok().and_then(|family| family.whole.as_ref());
        let writes = |(access, touched): &(Access, Key)| {
            *access == Access::Write && (touched == key || Some(touched) == whole)
        };
        if self.ran.call.keys().iter().any(writes) {
            return Ok(());
        }
        Err(undeclared(&format!("write to {key}")))
    }

    /// A file that shows the state of another section is reached by no other name either.
    fn keep_out(&self, path: &str) -> Result<(), Fault> {
        let Shared { agent, files, .. } = self.reach.shared.as_ref();
        for kept in agent.toolset.kept_from(self.ran.call.place()) {
            let same = files.same_file(path, kept.path);
            if same.map_err(|fault| Fault::failed(fault.to_string()))? {
                let message =
                    format!("{path} is {}, which other tools keep. Use those.", kept.path);
                return Err(Fault::failed(message));
            }
        }
        Ok(())
    }

    fn bounded(&self, key: &Key, value: &impl Serialize) -> Result<Value, Fault> {
        let value = serde_json::to_value(value)
            .map_err(|error| Fault::failed(format!("{key} is not JSON: {error}.")))?;
        if let Value::String(text) = &value {
            self.check_size(&key.to_string(), text.len())?;
        } else if !matches!(value, Value::Null | Value::Bool(_) | Value::Number(_)) {
            self.check_size(&key.to_string(), value.to_string().len())?;
        }
        Ok(value)
    }

    fn check_size(&self, what: &str, bytes: usize) -> Result<(), Fault> {
        let max = self.reach.shared.agent.limits.value_bytes_max;
        if u64::try_from(bytes).unwrap_or(u64::MAX) > max {
            return Err(Fault::failed(format!(
                "{what} would have {bytes} bytes; at most {max} fit."
            )));
        }
        Ok(())
    }
}

fn undeclared(what: &str) -> Fault {
    Fault::failed(format!("The tool did not declare this {what}."))
}

pub(crate) fn idempotency_key(session: &Session, call: CallId) -> String {
    match session.restored {
        None => format!("{}/{call}", session.id),
        // Calls of the part that is lost had the same ids, and the world may know their keys.
        Some(restore) => format!("{}/{}/{call}", session.id, restore.statement.short()),
    }
}

/// The key of a file.
pub(crate) fn file_key(path: &str) -> Result<Key, Fault> {
    let family = Family::parse("file").map_err(|_| undeclared("file"))?;
    Key::new(family, path).map_err(|refusal| Fault::failed(refusal.to_string()))
}
