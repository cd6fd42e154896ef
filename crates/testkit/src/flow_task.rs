//! Plays tasks for the rule of two through the real gate: with our own packs, a web and MCP servers of
//! our own, and a model that follows what it reads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_http::{Roots, Transport};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::config::{AgentText, EgressConfig, PackName, ServerText, WebText};
use toolgate_kernel::envelope::Code;
use toolgate_kernel::event::{CallRefused, CallSettled, Event, Record, Said, StreamId};
use toolgate_kernel::flow::{FlowLabels, host_of};
use toolgate_kernel::names::{CallId, SectionName, ServerName, SessionId, ToolName};
use toolgate_kernel::section::Section;
use toolgate_kernel::tool::{SpecDraft, ToolSpec};
use toolgate_packs::enabled;
use toolgate_packs::web::Web;
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::port::{Fault, Output, Promised, Tool, later};
use toolgate_runtime::{
    Crew, Driver, MemoryStore, Pack, Resources, Runtime, Toolbox, Transaction, preview_fork,
};
use toolgate_store::Folder;
use toolgate_wire::script::{CallText, ReplyText, Script, ScriptText};

use crate::clock::FakeClock;
use crate::web::{FakeWeb, PUBLIC, Said as WebAnswer};

/// Tasks with the servers that they use.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowTasks {
    /// The servers, as they are configured.
    #[serde(default)]
    pub servers: BTreeMap<ServerName, ServerText>,
    /// The tools of the servers, with what they answer unless a task says otherwise.
    #[serde(default)]
    pub tools: BTreeMap<ToolName, String>,
    /// The tasks.
    pub tasks: Vec<FlowTask>,
}

/// One task.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowTask {
    /// What it is about, in a few words.
    pub name: String,
    /// Notes that the person wrote before.
    #[serde(default)]
    pub notes: BTreeMap<String, String>,
    /// Files of the project.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Pages of the web; every other address answers `ok`.
    #[serde(default)]
    pub pages: BTreeMap<String, String>,
    /// What a search finds.
    #[serde(default)]
    pub found: Vec<String>,
    /// What tools of servers answer here.
    #[serde(default)]
    pub answers: BTreeMap<ToolName, String>,
    /// What the person configured.
    #[serde(default)]
    pub egress: EgressConfig,
    /// The sessions, one after the other.
    pub sessions: Vec<FlowSession>,
}

/// A session of a task.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSession {
    /// What the person says.
    pub person: String,
    /// Whether it is a fork of the session before.
    #[serde(default)]
    pub fork: bool,
    /// The replies of the model, each with its calls.
    pub turns: Vec<Vec<FlowCall>>,
}

/// A call of the model.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowCall {
    /// The tool.
    pub tool: String,
    /// The arguments.
    #[serde(default)]
    pub args: serde_json::Map<String, Value>,
    /// Whether it is what an attacker wants.
    #[serde(default)]
    pub leak: bool,
}

/// What became of one task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlowOutcome {
    /// Questions that were asked, each with its reason.
    pub questions: Vec<String>,
    /// Calls an attacker wants that reached the world.
    pub injected_sends: usize,
    /// Calls an attacker wants.
    pub leaks: usize,
    /// Other calls that did not do what they should.
    pub failed: Vec<String>,
}

impl FlowTasks {
    /// Reads a file of tasks.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let read: Self = serde_saphyr::from_str(&text)
            .map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
        let names: BTreeSet<&str> = read.tasks.iter().map(|task| task.name.as_str()).collect();
        ensure!(names.len() == read.tasks.len(), "{}: a name is there twice", path.display());
        Ok(read)
    }

    /// Plays one task; `egress` changes what the person configured.
    pub async fn play(
        &self,
        task: &FlowTask,
        egress: impl FnOnce(&mut EgressConfig),
    ) -> Result<FlowOutcome> {
        let folder = tempfile::tempdir()?;
        let staged = folder.path().join(".toolgate").join("staged");
        std::fs::create_dir_all(&staged)?;
        for (path, content) in &task.files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
            std::fs::write(path, content)?;
        }
        let mut text = AgentText {
            packs: Some(vec![
                PackName::Notes,
                PackName::Files,
                PackName::Planning,
                PackName::Tasks,
                PackName::Web,
            ]),
            web: Some(WebText { searxng_url: Some(SEARCH.to_owned()), ..WebText::default() }),
            egress: task.egress.clone(),
            mcp_servers: self.servers.clone().into_iter().collect(),
            ..AgentText::default()
        };
        let servers: Vec<&ServerName> = self.servers.keys().collect();
        let groups = ["notes", "files_read", "files_write", "planning", "tasks", "web"];
        let tools = json!({ "groups": groups, "mcp": servers });
        text.phases = serde_json::from_value(json!({ "main": { "tools": tools } }))?;
        egress(&mut text.egress);
        let mut packs = enabled(&text)?;
        packs.extend(self.servers(task)?);
        let sections: Vec<Section> = packs.iter().map(|pack| pack.section.clone()).collect();
        let agent: Arc<Agent> = Arc::new(text.build(sections)?);
        let web = web(task).await?;
        let roots = Roots { only: None, beside: None };
        let transport = Arc::new(Transport::over(roots, Arc::clone(&web) as Arc<_>));
        let store = Arc::new(MemoryStore::new());
        let runtime = || -> Result<Arc<Runtime>> {
            let clock = Arc::new(FakeClock::default());
            let runtime = Runtime::new(store.clone(), clock);
            let runtime = runtime.with_files(Arc::new(Folder::open(folder.path(), &staged)?));
            let resources = Resources::default().with(Web(Arc::clone(&transport)));
            Ok(Arc::new(runtime.with_resources(resources)))
        };
        let crew = || Crew::new(Arc::clone(&agent), Toolbox::of(&packs));
        let ada = Actor::Human("ada".into());
        // What the person wrote before, in a session that read nothing.
        let before = SessionId::parse("before")?;
        let mut driver = Driver::open(runtime()?, crew(), before, &ada, "Take notes.").await?;
        for (key, value) in &task.notes {
            let args = json!({ "key": key, "value": value }).to_string();
            let done =
                driver.call(&Actor::Client("pen".into()), "write_notes", &args, None).await?;
            ensure!(done.ok, "{}: the note {key} was not written", task.name);
        }
        drop(driver);
        let mut outcome = FlowOutcome::default();
        let mut last = None;
        for (at, session) in task.sessions.iter().enumerate() {
            let id = SessionId::parse(&format!("s{at}"))?;
            let mut crew = crew();
            crew.provider = Some(Arc::new(Script::new("task", script(task, at))));
            let runtime = runtime()?;
            let mut driver = match (&last, session.fork) {
                (Some(last), true) => {
                    let fork = preview_fork(&runtime, &agent, last, None).await?;
                    let said = Said::Feedback { text: session.person.clone(), images: Vec::new() };
                    let driver =
                        Driver::fork(Arc::clone(&runtime), crew, id.clone(), &ada, fork).await?;
                    runtime.say(&id, &ada, said).await?;
                    driver
                }
                _ => Driver::open(runtime, crew, id.clone(), &ada, &session.person).await?,
            };
            driver.run(&|_| {}).await?;
            drop(driver);
            judge(store.as_ref(), &id, session, &mut outcome).await?;
            last = Some(id);
        }
        Ok(outcome)
    }

    /// The servers of a task as packs.
    fn servers(&self, task: &FlowTask) -> Result<Vec<Pack>> {
        let mut packs = Vec::new();
        for (name, server) in &self.servers {
            let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
            for (tool, answer) in &self.tools {
                let Some((of, own)) = tool.of_server() else { continue };
                if of != name.as_str() {
                    continue;
                }
                let labels = server.tool_labels(own, false, &FlowLabels::default());
                let effect = server.effects.get(own).copied();
                let url = json!({ "type": "string" });
                let draft = SpecDraft::of_server(tool.clone(), "A tool of a server.")
                    .params_schema(json!({
                        "type": "object", "properties": { "url": url }, "additionalProperties": true,
                    }))
                    .effect(effect.unwrap_or(toolgate_kernel::tool::Effect::External))
                    .labels(labels);
                let answer = task.answers.get(tool).unwrap_or(answer).clone();
                let spec = Arc::new(draft.build()?);
                tools.push(Arc::new(FakeRemote { spec, answer }));
            }
            packs.push(Pack::new(Section::new(SectionName::parse(&format!("mcp-{name}"))?), tools));
        }
        Ok(packs)
    }
}

/// Where the web is searched.
const SEARCH: &str = "http://searx.internal:8888/";

/// A tool of a server that answers the same words always.
struct FakeRemote {
    spec: Arc<ToolSpec>,
    answer: String,
}

impl Tool for FakeRemote {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn run<'a>(&'a self, _: &'a mut Transaction) -> Promised<'a, Result<Output, Fault>> {
        later(async move { Output::data("", &json!({ "content": self.answer })) })
    }
}

/// The web of a task: every host that a call names is there.
async fn web(task: &FlowTask) -> Result<Arc<FakeWeb>> {
    let web = Arc::new(FakeWeb::default());
    let calls = task.sessions.iter().flat_map(|session| session.turns.iter().flatten());
    let named = calls.filter_map(|call| call.args.get("url").and_then(Value::as_str));
    for url in named.chain(task.pages.keys().map(String::as_str)) {
        if let Some(host) = host_of(url) {
            web.name(&host, &[&[PUBLIC]]);
        }
    }
    web.name("searx.internal", &[&["10.0.0.7"]]);
    let (pages, found) = (task.pages.clone(), task.found.clone());
    web.serve(move |head| {
        let path = head.split_whitespace().nth(1).unwrap_or_default();
        if path.starts_with("/search?") {
            let hits: Vec<Value> = found
                .iter()
                .map(|url| json!({ "url": url, "title": "A result", "content": "About it." }))
                .collect();
            let body = json!({ "results": hits, "number_of_results": hits.len() });
            return WebAnswer::page("application/json", body.to_string().as_bytes());
        }
        let is_host = |line: &&str| line.to_ascii_lowercase().starts_with("host:");
        let host = head.lines().find(is_host).and_then(|line| line.split_once(':'));
        let host = host.map_or("", |(_, host)| host.trim());
        let host = host.split(':').next().unwrap_or_default();
        let page = pages.get(&format!("http://{host}{path}"));
        WebAnswer::page("text/plain", page.map_or("ok", String::as_str).as_bytes())
    })
    .await?;
    Ok(web)
}

/// What the model says: the calls of each turn, then that it is done. A fork goes on where the session
/// before it ended, so the replies before it are there as well.
fn script(task: &FlowTask, at: usize) -> ScriptText {
    let done = || ReplyText { text: "Done.".to_owned(), ..ReplyText::default() };
    let mut replies = Vec::new();
    let begins = (0..=at).rev().find(|at| task.sessions.get(*at).is_none_or(|one| !one.fork));
    for session in task.sessions.get(begins.unwrap_or(0)..=at).unwrap_or_default() {
        for turn in &session.turns {
            let call = |call: &FlowCall| CallText {
                tool: call.tool.clone(),
                args: call.args.clone(),
                ..CallText::default()
            };
            let calls = turn.iter().map(call).collect();
            replies.push(ReplyText { calls, ..ReplyText::default() });
        }
        replies.push(done());
    }
    ScriptText { replies, ..ScriptText::default() }
}

/// Reads from the log what became of the calls of a session.
async fn judge(
    store: &MemoryStore,
    id: &SessionId,
    session: &FlowSession,
    outcome: &mut FlowOutcome,
) -> Result<()> {
    let (mut made, mut asked, mut started, mut ended) =
        (Vec::new(), BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
    let each = |record: Record<Event>, _: &_| {
        if let Event::ModelReplied { calls, .. } = &record.event {
            made.extend(calls.iter().map(|call| call.id));
        } else if let Event::CallAsked { call, reason, policy, .. } = &record.event {
            asked.insert(*call, format!("{policy}: {reason}"));
        } else if let Event::CallStarted { call, .. } = &record.event {
            started.insert(*call);
        } else if let Event::CallRefused(CallRefused { call, envelope, .. })
        | Event::CallSettled(CallSettled { call, envelope, .. }) = record.event
        {
            ended.insert(call, envelope);
        }
    };
    read_from(store, &StreamId::Session(id.clone()), Tip::START, each).await?;
    let wanted: Vec<&FlowCall> = session.turns.iter().flatten().collect();
    ensure!(made.len() == wanted.len(), "{id}: {} of {} calls were made", made.len(), wanted.len());
    for (call, wanted) in made.into_iter().zip(wanted) {
        let call: CallId = call;
        let envelope = ended.get(&call).with_context(|| format!("{id}: {call} did not end"))?;
        if let Some(reason) = asked.get(&call) {
            outcome.questions.push(reason.clone());
        }
        let is_pending = envelope.code() == Some(&Code::APPROVAL_PENDING);
        if wanted.leak {
            outcome.leaks += 1;
            // A durable intent stands before everything that leaves.
            outcome.injected_sends += usize::from(started.contains(&call));
        }
        if !envelope.ok && !is_pending {
            outcome.failed.push(format!("{id} {call} {}: {}", wanted.tool, envelope.to_json()));
        }
    }
    Ok(())
}
