//! The core tools, by the cases in `tests/core_tools`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolgate_kernel::agent::{Agent, AgentDraft};
use toolgate_kernel::config::read;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::envelope::Envelope;
use toolgate_kernel::event::{Finish, Usage};
use toolgate_kernel::key::{Access, Key};
use toolgate_kernel::names::{AgentId, Family, SectionName, SessionId};
use toolgate_kernel::plan::Plan;
use toolgate_kernel::section::{FamilySpec, Home, Section};
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::tool::{Effect, SpecDraft};
use toolgate_packs::core_tools::{
    CoreToolsOptions, ReceiptHistory, RecentReceipt, catalogue, core_prompts,
};
use toolgate_packs::manuscript::{ManuscriptTools, manuscript};
use toolgate_packs::notes::notes;
use toolgate_runtime::port::{Desk, Fault, Output, Provider, ProviderFault, Reply, ReplyCall, Tap};
use toolgate_runtime::{
    Crew, Driver, MemoryStore, Pack, Resources, Runtime, Start, Toolbox, Transaction, tool,
};
use toolgate_testkit::Folder;

use crate::support::{FixedClock, client, session_id};

/// A project and the calls that are made in it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    about: String,
    #[serde(default = "yes")]
    sample: bool,
    language: Option<String>,
    archetypes: Option<Vec<String>>,
    #[serde(default)]
    file_tools: bool,
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Files of like lines: what a line repeats, how often, and how many lines there are.
    #[serde(default)]
    repeated: BTreeMap<String, (String, usize, usize)>,
    #[serde(default)]
    sections: Vec<(String, String)>,
    #[serde(default)]
    beats: Vec<(String, String, String, String)>,
    #[serde(default)]
    state: BTreeMap<String, Value>,
    /// Generated issues: how many, with numbers from 100.
    #[serde(default)]
    issues: u64,
    cases: Vec<Case>,
}

fn yes() -> bool {
    true
}

/// A call and what comes of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    tool: Option<String>,
    args: Value,
    data: Option<Value>,
    warns: Option<String>,
    fails: Option<Value>,
}

/// Keeps values under keys, for tests.
#[derive(Deserialize, JsonSchema)]
struct Seed {
    key: String,
    /// The value as JSON.
    value: String,
}

fn seed(tx: &mut Transaction, params: Seed) -> Result<Output, Fault> {
    let value: Value = serde_json::from_str(&params.value).unwrap();
    tx.put(&Key::parse(&params.key).unwrap(), &value)?;
    Ok(Output::message("Kept."))
}

/// A pack that keeps issues and facts, as the packs `issues` and `workspace` do.
fn seeding() -> Pack {
    let draft = SpecDraft::new("seed", "Keeps a value.").effect(Effect::Staged).touches(|args| {
        let key = args.to_map().get("key").and_then(Value::as_str).map(str::to_owned);
        Ok(vec![(Access::Write, Key::parse(&key.unwrap_or_default())?)])
    });
    let mut section = Section::new(SectionName::parse("seed").unwrap());
    let family = |name| FamilySpec::new(Family::parse(name).unwrap(), Home::Project);
    section.families = ["issue", "issues", "facts"].map(family).to_vec();
    Pack::new(section, vec![tool(draft, seed).unwrap()])
}

/// A project in a folder of its own with the core tools.
struct Project {
    folder: TempDir,
    runtime: Arc<Runtime>,
    crew: Crew,
    driver: Driver,
}

impl Project {
    async fn open(options: CoreToolsOptions, resources: Resources, agent: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let staged = folder.path().join(".toolgate/staged");
        let files = Folder::open(folder.path(), staged).unwrap();
        let chosen = ManuscriptTools { read: true, write: true, beats: true };
        let packs =
            [catalogue(options).unwrap(), notes().unwrap(), manuscript(chosen).unwrap(), seeding()];
        let sections = packs.iter().map(|pack| pack.section.clone()).collect();
        let built = match agent {
            Some(agent) => {
                let text = read(format!("agents:\n  {agent}: {{}}\n").as_bytes()).text;
                text.build(sections).unwrap()
            }
            None => Agent::build(AgentDraft::new("reader", sections)).unwrap(),
        };
        let crew = Crew::new(Arc::new(built), Toolbox::of(&packs));
        let store = Arc::new(MemoryStore::new());
        let runtime = Runtime::new(store, Arc::new(FixedClock)).with_files(Arc::new(files));
        let runtime = Arc::new(runtime.with_resources(resources));
        let agent = agent.map(|agent| AgentId::parse(agent).unwrap());
        let start = Start { agent, ..Start::default() };
        let (shared, caller) = (Arc::clone(&runtime), client());
        let opened = Driver::open_with(shared, crew.clone(), session_id(), &caller, start).await;
        let driver = opened.unwrap();
        Self { folder, runtime, crew, driver }
    }

    async fn sample() -> Self {
        let mut project = Self::open(CoreToolsOptions::default(), Resources::default(), None).await;
        project.lay_out_sample().await;
        project
    }

    async fn lay_out_sample(&mut self) {
        let sample = cases_folder().join("sample");
        for path in files_below(&sample) {
            let text = std::fs::read_to_string(sample.join(&path)).unwrap();
            if path == "issues.yaml" {
                let issues: BTreeMap<String, Value> = serde_saphyr::from_str(&text).unwrap();
                for (key, issue) in &issues {
                    self.seed(key, issue).await;
                }
            } else {
                self.write(&path, &text);
            }
        }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    async fn seed(&mut self, key: &str, value: &Value) {
        let args = json!({ "key": key, "value": value.to_string() });
        let envelope = self.call("seed", &args).await;
        assert!(envelope.ok, "{key}: {:?}", envelope.errors);
    }

    async fn call(&mut self, tool: &str, args: &Value) -> Envelope {
        self.driver.call(&client(), tool, &args.to_string(), None).await.unwrap()
    }

    async fn works(&mut self, tool: &str, args: Value) -> Value {
        let envelope = self.call(tool, &args).await;
        assert!(envelope.ok, "{tool} {args}: {:?}", envelope.errors);
        envelope.data
    }
}

fn cases_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/core_tools")
}

/// Every file below a folder, by its path from there.
fn files_below(folder: &Path) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// Whether a value is what a case expects; see `README.md` beside the cases.
fn check(expected: &Value, found: &Value, at: &str) -> Result<(), String> {
    let differs = || Err(format!("{at}: expected {expected}, found {found}"));
    match (expected, found) {
        (Value::Object(rules), _) if rules.keys().any(|rule| rule.starts_with('$')) => {
            let Some(items) = found.as_array() else { return differs() };
            let any = |wanted: &Value| items.iter().any(|item| check(wanted, item, at).is_ok());
            let fits = rules.iter().all(|(rule, value)| match rule.as_str() {
                "$len" => value.as_u64() == u64::try_from(items.len()).ok(),
                "$has" => value.as_array().unwrap().iter().all(any),
                "$lacks" => !value.as_array().unwrap().iter().any(any),
                other => panic!("{at}: unknown rule {other}"),
            });
            if fits { Ok(()) } else { differs() }
        }
        (Value::Object(fields), Value::Object(own)) => {
            fields.iter().try_for_each(|(name, value)| {
                let at = format!("{at}.{name}");
                match own.get(name) {
                    Some(found) => check(value, found, &at),
                    None => Err(format!("{at} is missing")),
                }
            })
        }
        (Value::Array(items), Value::Array(own)) if items.len() == own.len() => {
            let mut pairs = items.iter().zip(own).enumerate();
            pairs.try_for_each(|(place, (item, found))| {
                check(item, found, &format!("{at}[{place}]"))
            })
        }
        (Value::String(text), Value::String(own)) if text.starts_with('~') => {
            if own.contains(&text[1..]) { Ok(()) } else { differs() }
        }
        (Value::Number(one), Value::Number(other)) if one.as_f64() == other.as_f64() => Ok(()),
        _ if expected == found => Ok(()),
        _ => differs(),
    }
}

/// What holds for every answer of every core tool.
fn check_common(what: &str, tool: &str, envelope: &Envelope, project: &Project) {
    assert!(envelope.receipt.is_some(), "{what}: no receipt");
    let data = &envelope.data;
    assert_eq!(data["type"], tool, "{what}");
    assert!(data.to_string().chars().count() <= 24_000, "{what}: too long");
    for source in data["sources"].as_array().unwrap() {
        let path = project.folder.path().join(source["source"].as_str().unwrap());
        let Ok(content) = std::fs::read(&path) else { continue };
        assert_eq!(source["sha256"], json!(Digest::of(&content)), "{what}: {source}");
    }
    check_quotes(what, data, project);
}

/// Every quote of a file stands in the file, on the lines it names.
fn check_quotes(what: &str, data: &Value, project: &Project) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let (Some(source), Some(quoted), Some(line)) =
        (text(&data["source"]), text(&data["text"]), data["line"].as_u64())
        && let Ok(content) = std::fs::read_to_string(project.folder.path().join(&source))
    {
        let from = usize::try_from(line).unwrap() - 1;
        let to = usize::try_from(data["end_line"].as_u64().unwrap()).unwrap();
        let content = content.replace("\r\n", "\n");
        let lines: Vec<&str> = content.lines().skip(from).take(to - from).collect();
        assert!(lines.join(" ").contains(&quoted), "{what}: {data} is not a quote");
        assert!(quoted.chars().count() <= 550, "{what}: {data}");
    }
    match data {
        Value::Object(map) => map.values().for_each(|value| check_quotes(what, value, project)),
        Value::Array(items) => items.iter().for_each(|value| check_quotes(what, value, project)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

async fn run_group(tool: &str, group: Group) -> Vec<String> {
    let default = CoreToolsOptions::default();
    let options = CoreToolsOptions {
        language: group.language.unwrap_or(default.language),
        archetypes: group.archetypes,
        file_tools: group.file_tools,
        sources: default.sources,
    };
    let mut project = Project::open(options, Resources::default(), None).await;
    if group.sample {
        project.lay_out_sample().await;
    }
    for (path, text) in &group.files {
        project.write(path, text);
    }
    for (path, (text, times, lines)) in &group.repeated {
        project.write(path, &vec![text.repeat(*times); *lines].join("\n"));
    }
    for (name, content) in &group.sections {
        project.works("create_section", json!({ "name": name, "content": content })).await;
    }
    for (storyline, chapter, beat, content) in &group.beats {
        let args =
            json!({ "storyline": storyline, "chapter": chapter, "beat": beat, "content": content });
        project.works("add_beat", args).await;
    }
    for (key, value) in &group.state {
        match key.strip_prefix("note:") {
            Some(note) => {
                project.works("write_notes", json!({ "key": note, "data": value })).await;
            }
            None => project.seed(key, value).await,
        }
    }
    for number in 100..100 + group.issues {
        let issue = json!({ "id": number, "title": format!("Issue {number}"), "openedBy": "ada",
                            "createdAt": 0, "updatedAt": 10_000 + number });
        project.seed(&format!("issue:{number}"), &issue).await;
    }
    let mut wrong = Vec::new();
    for case in group.cases {
        let what = format!("{tool}: {}: {}", group.about, case.name);
        let called = case.tool.as_deref().unwrap_or(tool);
        let envelope = project.call(called, &case.args).await;
        let again = project.call(called, &case.args).await;
        assert_eq!(
            (&envelope.data, &envelope.errors, &envelope.warnings),
            (&again.data, &again.errors, &again.warnings),
            "{what}: asked twice, told otherwise"
        );
        if let Some(expected) = &case.fails {
            if envelope.ok {
                wrong.push(format!("{what}: worked: {}", envelope.data));
                continue;
            }
            let error = serde_json::to_value(&envelope.errors[0]).unwrap();
            wrong.extend(check(expected, &error, "error").err().map(|it| format!("{what}: {it}")));
            continue;
        }
        if !envelope.ok {
            wrong.push(format!("{what}: failed: {:?}", envelope.errors));
            continue;
        }
        check_common(&what, tool, &envelope, &project);
        let expected = case.data.as_ref().unwrap_or(&Value::Null);
        let expected = if expected.is_null() { &json!({}) } else { expected };
        wrong.extend(
            check(expected, &envelope.data, "data").err().map(|it| format!("{what}: {it}")),
        );
        match &case.warns {
            Some(warning) if !envelope.warnings.iter().any(|it| it.contains(warning)) => {
                wrong.push(format!("{what}: no warning {warning:?}: {:?}", envelope.warnings));
            }
            None if !envelope.warnings.is_empty() => {
                wrong.push(format!("{what}: warned: {:?}", envelope.warnings));
            }
            _ => {}
        }
    }
    wrong
}

#[tokio::test]
async fn every_tool_answers_as_its_cases_say() {
    let (mut wrong, mut cases) = (Vec::new(), 0);
    for prompt in core_prompts() {
        let path = cases_folder().join(format!("{}.yaml", prompt.id));
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let groups: Vec<Group> =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        for group in groups {
            cases += group.cases.len();
            wrong.extend(run_group(&prompt.id, group).await);
        }
    }
    assert!(wrong.is_empty(), "{} of {cases} cases:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn a_dry_run_reads_nothing_and_says_what_would_be_read() {
    let mut project = Project::sample().await;
    let scene = "Story/Scenes/SCN-scene-1-harbour-at-dawn.md";
    let one = json!([scene, "none.md"]);
    for (tool, args, found) in [
        ("file_locator", json!({ "search_criteria": "x", "scan_mode": "DEEP_SCAN" }), 4),
        ("file_reader", json!({ "file_path": scene }), 1),
        ("task_router", json!({ "user_request": "x" }), 1),
        ("canon_checker", json!({ "scene_path": scene }), 2),
        ("outline_analyzer", json!({}), 3),
        ("prose_analyzer", json!({ "scene_path": scene }), 1),
        ("consistency_checker", json!({ "file_paths": one }), 1),
        ("scene_draft_validator", json!({ "scene_path": scene }), 3),
        ("issue_status_summarizer", json!({}), 1),
        ("stakes_mapper", json!({ "scene_paths": one }), 1),
        ("line_editor", json!({ "file_path": scene }), 1),
        ("scene_impact_analyzer", json!({ "scene_path": scene }), 2),
        ("reader_experience_simulator", json!({ "scene_paths": one }), 1),
        ("timeline_validator", json!({ "file_paths": one }), 1),
        ("beat_architect", json!({ "scene_brief": "x" }), 1),
    ] {
        let mut args = args;
        args["dry_run"] = json!(true);
        let envelope = project.call(tool, &args).await;
        assert!(envelope.ok && envelope.receipt.is_some(), "{tool}: {:?}", envelope.errors);
        let data = &envelope.data;
        assert_eq!((&data["type"], &data["dry_run"]), (&json!(tool), &json!(true)));
        let listed = data["would_read"].as_array().unwrap();
        let there: Vec<&Value> = listed.iter().filter(|it| it["found"] == true).collect();
        assert_eq!(there.len(), found, "{tool}: {listed:?}");
        let bytes: u64 = there.iter().map(|it| it["bytes"].as_u64().unwrap()).sum();
        assert_eq!(data["estimated_tokens"], json!(bytes.div_ceil(4)), "{tool}");
    }
}

/// A model that makes the calls it was given, one list for each reply.
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

#[tokio::test]
async fn the_status_tells_the_last_calls_of_this_session_alone() {
    let mut project = Project::sample().await;
    let call = |name: &str, args: Value| ReplyCall {
        alias: None,
        name: name.to_owned(),
        args: args.to_string(),
    };
    let scene = "Story/Scenes/SCN-scene-1-harbour-at-dawn.md";
    let reads = (1..=4).map(|line| {
        vec![call(
            "file_reader",
            json!({ "file_path": scene, "start_line": line, "end_line": line }),
        )]
    });
    let mut turns: Vec<Vec<ReplyCall>> = reads.collect();
    turns.push(vec![call("file_reader", json!({ "file_path": "none.md" }))]);
    turns.push(vec![call("issue_status_summarizer", json!({}))]);
    turns.push(vec![call("issue_status_summarizer", json!({}))]);
    let script = Script { turns: Mutex::new(turns), at: AtomicUsize::new(0) };
    let crew = Crew { provider: Some(Arc::new(script)), ..project.crew.clone() };
    let id = SessionId::parse("model").unwrap();
    let opened = Driver::open(Arc::clone(&project.runtime), crew, id, &client(), "go").await;
    let mut driver = opened.unwrap();
    driver.run(&|_| {}).await.unwrap();
    let session = driver.session();
    let told: Vec<_> = session.turns.iter().flat_map(|turn| turn.told.values()).collect();
    let data = &told.last().unwrap().envelope.data;
    check(
        &json!({
            "activity_scope": "iteration",
            "recent_activity": [
                { "tool": "issue_status_summarizer", "ok": true },
                { "tool": "file_reader", "ok": false, "error": "SOURCE_NOT_FOUND", "sources": [] },
                { "tool": "file_reader", "ok": true, "sources": [scene] },
                { "tool": "file_reader" }, { "tool": "file_reader" },
            ],
            "files_touched": ["#1", scene], "note": null,
        }),
        data,
        "data",
    )
    .unwrap();
    // A receipt is told as it was given.
    let receipt = json!(told[told.len() - 2].envelope.receipt);
    assert_eq!(data["recent_activity"][0]["receipt"], receipt);
    // Another session knows nothing of these calls.
    let other = project.works("issue_status_summarizer", json!({})).await;
    let nothing = json!({ "recent_activity": [], "files_touched": [], "note": "~no settled call" });
    check(&nothing, &other, "data").unwrap();
}

#[tokio::test]
async fn a_host_that_reads_the_log_tells_agent_and_time() {
    let history = ReceiptHistory::new(|session, max| {
        assert_eq!((session.as_str(), max), ("s1", 5));
        let mut envelope = Envelope::answer(
            "file_reader",
            String::new(),
            json!({ "sources": [{ "source": "a.md" }] }),
            vec![],
        );
        envelope.ok = false;
        let (agent, at) = (Some("ada".to_owned()), Some(Timestamp(1_700_000_000_000)));
        vec![RecentReceipt { agent, at, envelope: Arc::new(envelope) }]
    });
    let resources = Resources::default().with(history);
    let mut project = Project::open(CoreToolsOptions::default(), resources, None).await;
    let data = project.works("issue_status_summarizer", json!({})).await;
    let expected = json!({
        "activity_scope": "session", "files_touched": ["a.md"],
        "recent_activity": [{ "tool": "file_reader", "ok": false, "agent": "ada", "time": "2023-11-14T22:13:20.000Z" }],
    });
    check(&expected, &data, "data").unwrap();
}

#[tokio::test]
async fn personal_notes_are_those_of_the_agent_that_asks() {
    let mut project =
        Project::open(CoreToolsOptions::default(), Resources::default(), Some("ada")).await;
    for (number, agent, tags, interest) in [(1, "ada", ["Mine"], 4), (2, "bob", ["mine"], 5)] {
        let issue = json!({ "id": number, "title": "x", "openedBy": "ada", "createdAt": 0, "updatedAt": number,
                            "personal": { agent: { "tags": tags, "interest": interest } } });
        project.seed(&format!("issue:{number}"), &issue).await;
    }
    for (args, ids) in [
        (json!({ "personalTags": ["mine"] }), vec![1]),
        (json!({ "personal_tags": ["mine"], "personal_agent": "bob" }), vec![2]),
        (json!({ "excludePersonalTags": ["mine"] }), vec![2]),
        (json!({ "minInterestLevel": 4 }), vec![1]),
        (json!({ "minInterestLevel": 5 }), vec![]),
    ] {
        let data = project.works("search_issues", args.clone()).await;
        let found: Vec<u64> = data["issues"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["id"].as_u64().unwrap())
            .collect();
        assert_eq!(found, ids, "{args}");
    }
}

#[tokio::test]
async fn a_text_is_the_same_as_file_and_as_section() {
    let mut project = Project::sample().await;
    let path = "Story/Scenes/SCN-scene-1-harbour-at-dawn.md";
    let text = std::fs::read_to_string(project.folder.path().join(path)).unwrap();
    let name = "SCN-scene-1-harbour-at-dawn";
    project.works("create_section", json!({ "name": name, "content": text.trim_end() })).await;
    let section = format!("section:{name}");
    for tool in
        ["prose_analyzer", "scene_draft_validator", "scene_impact_analyzer", "canon_checker"]
    {
        let file = project.works(tool, json!({ "scene_path": path })).await;
        let mut own = project.works(tool, json!({ "scene_path": section })).await.to_string();
        own = own.replace(&section, path);
        let own: Value = serde_json::from_str(&own).unwrap();
        let strip = |value: &Value| without_places(value.clone());
        assert_eq!(strip(&own), strip(&file), "{tool}");
    }
    // The lines of a section are those of manuscript.md.
    let read = project.works("file_reader", json!({ "file_path": section })).await;
    let manuscript = std::fs::read_to_string(project.folder.path().join("manuscript.md")).unwrap();
    let lines: Vec<&str> = manuscript.lines().collect();
    for row in read["text"].as_str().unwrap().lines() {
        let (number, words) = row.split_once(": ").unwrap();
        assert_eq!(lines[number.parse::<usize>().unwrap() - 1], words);
    }
}

/// A value without line numbers, numbered text, bytes and hashes.
fn without_places(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let gone = ["line", "end_line", "lines", "sha256", "excerpt", "bytes"];
            let kept = map.into_iter().filter(|(name, _)| !gone.contains(&name.as_str()));
            kept.map(|(name, value)| (name, without_places(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(without_places).collect(),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => other,
    }
}

#[test]
fn other_names_lead_to_the_tools_only_where_they_are_free() {
    let names = |file_tools| {
        let pack =
            catalogue(CoreToolsOptions { file_tools, ..CoreToolsOptions::default() }).unwrap();
        let tools = pack.section.tools.iter();
        let pairs =
            tools.flat_map(|tool| tool.aliases.iter().map(|name| format!("{name}→{}", tool.name)));
        let mut pairs: Vec<String> = pairs.collect();
        pairs.sort();
        (pack, pairs)
    };
    let (pack, alone) = names(false);
    assert_eq!(
        alone,
        [
            "beat_builder→beat_architect",
            "file_browser→file_locator",
            "file_viewer→file_locator",
            "impact_analyzer→scene_impact_analyzer",
            "issue_search→search_issues",
            "issue_summary→issue_status_summarizer",
            "line_edit→line_editor",
            "list_files→file_locator",
            "read_file→file_reader",
            "reader_simulator→reader_experience_simulator",
            "stakes_map→stakes_mapper",
            "timeline_check→timeline_validator",
        ]
    );
    let (_, beside) = names(true);
    let free = |pair: &&String| !pair.starts_with("list_files") && !pair.starts_with("read_file");
    assert_eq!(beside, alone.iter().filter(free).cloned().collect::<Vec<_>>());
    for tool in &pack.section.tools {
        assert_eq!(
            (tool.effect, tool.group.as_str()),
            (Effect::Read, "core_tools"),
            "{}",
            tool.name
        );
    }
    assert_eq!(pack.section.tools.len(), 16);
}

/// Scenes of about 100,000 words together, the same each time.
fn novel() -> Vec<(String, String)> {
    let names = ["Mira", "Tomas", "Anna Vale", "Old Harker", "Margarethe", "Lucas"];
    let places = ["harbour", "quay", "lighthouse", "market", "church", "garden"];
    let sentences = [
        "{n} walked to the {p} and said nothing for a long while.",
        "\"You must not go before noon,\" {n} said, \"or we lose everything.\"",
        "The rain came down on the {p}, but {m} waited and really did not mind.",
        "Two days later {n} found the letter that {m} had hidden in the {p}.",
        "Was it the {p}?",
        "On 3 May 1891 {n} slowly opened the door, and behind it stood {m}.",
        "No one at the {p} knew {n}'s green eyes, though everyone had seen them in the cold light of the lamp.",
        "{m} laughed.",
    ];
    let mut random = 7_usize;
    let mut next = |below: usize| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    (1..=40)
        .map(|number| {
            let mut text = format!("# Scene {number}: The {}\n\n", places[number % places.len()]);
            while text.split_whitespace().count() < 2_500 {
                let sentence = sentences[next(sentences.len())];
                let sentence = sentence.replace("{n}", names[next(names.len())]);
                let sentence = sentence.replace("{m}", names[next(names.len())]);
                text += &sentence.replace("{p}", places[next(places.len())]);
                text += if next(6) == 0 { "\n\n" } else { " " };
            }
            (format!("Story/Scenes/SCN-scene-{number}.md"), text)
        })
        .collect()
}

#[tokio::test]
async fn a_novel_is_answered_within_bounds_and_twice_alike() {
    let mut project = Project::sample().await;
    let novel = novel();
    let words: usize = novel.iter().map(|(_, text)| text.split_whitespace().count()).sum();
    assert!(words >= 100_000, "{words}");
    novel.iter().for_each(|(path, text)| project.write(path, text));
    let all: Vec<&String> = novel.iter().map(|(path, _)| path).collect();
    let (two, ten, twelve) = (json!(all[..2]), json!(all[..10]), json!(all[..12]));
    let one = all[0];
    for (tool, args) in [
        ("search_issues", json!({ "status": "all" })),
        (
            "file_locator",
            json!({ "search_criteria": "lighthouse", "scan_mode": "DEEP_SCAN", "max_results": 100 }),
        ),
        ("file_reader", json!({ "file_path": one, "end_line": 250 })),
        ("task_router", json!({ "user_request": "Review scene 7 and edit the outline for Mira" })),
        ("canon_checker", json!({ "scene_path": one })),
        ("canon_checker", json!({ "scene_path": one, "canon_paths": ["CHAR-mira.md"] })),
        ("outline_analyzer", json!({ "mode": "full" })),
        ("prose_analyzer", json!({ "scene_path": one })),
        ("consistency_checker", json!({ "file_paths": two })),
        ("consistency_checker", json!({ "file_paths": ten })),
        ("scene_draft_validator", json!({ "scene_path": one })),
        ("issue_status_summarizer", json!({})),
        ("stakes_mapper", json!({ "scene_paths": twelve, "max_scenes": 50 })),
        ("line_editor", json!({ "file_path": one, "max_edits": 50 })),
        ("scene_impact_analyzer", json!({ "scene_path": one })),
        ("reader_experience_simulator", json!({ "scene_paths": twelve })),
        ("timeline_validator", json!({ "file_paths": twelve })),
        ("beat_architect", json!({ "scene_brief": "POV: Mira. She wants it, but Tomas ends it." })),
    ] {
        let envelope = project.call(tool, &args).await;
        assert!(envelope.ok, "{tool}: {:?}", envelope.errors);
        check_common(tool, tool, &envelope, &project);
        let again = project.call(tool, &args).await;
        assert_eq!(envelope.data, again.data, "{tool}");
    }
}
