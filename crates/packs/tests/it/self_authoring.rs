//! What an agent may change of itself, every way in which that can be wrong, and who looks at it.

use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::sync::broadcast::Receiver;
use toolgate_kernel::config::{AgentText, Naming, migrate, read};
use toolgate_kernel::envelope::Code;
use toolgate_kernel::event::{Conversation, Event, Finish, Usage};
use toolgate_kernel::names::AgentId;
use toolgate_kernel::plan::Plan;
use toolgate_packs::self_authoring::Reviewer;
use toolgate_runtime::port::{Desk, Provider, ProviderFault, Reply, Tap};
use toolgate_runtime::{Committed, Driver, OpenFault, Resources, Start};

use crate::den::{Den, call, speaking};

const TOOL: &str = "self_authoring";
const ACTIONS: [&str; 2] = ["view", "update"];
const FIELDS: [&str; 5] =
    ["name", "system_prompt", "reflection_prompt", "memory_reflection_prompt", "model"];

const FILE: &str = "packs: [self_authoring]\n\
    models: {small: {model: 'ollama:small'}}\n\
    agents:\n  ada: {name: Ada, system_prompt: Be kind.}\n  bob: {}\n";

fn text(more: &str) -> AgentText {
    read(format!("{FILE}{more}").as_bytes()).text
}

fn group(agent: &str) -> Start {
    let agent = Some(AgentId::parse(agent).unwrap());
    Start { agent, conversation: Conversation::Group, ..Start::default() }
}

async fn den() -> Den {
    Den::speaking(text(""), group("ada"), Resources::default()).await
}

fn update(field: &str, value: &str) -> Value {
    json!({ "action": "update", "field": field, "value": value })
}

fn view(field: &str) -> Value {
    json!({ "action": "view", "field": field })
}

#[tokio::test]
async fn every_mistake_says_what_to_do() {
    let mut den = den().await;
    let long = "x".repeat(20_001);
    let invalid = |error: &str, more: Value| {
        let mut told = json!({ "error": error, "action": "update", "allowed_actions": ACTIONS,
                               "allowed_fields": FIELDS });
        more.as_object().unwrap().iter().for_each(|(key, value)| told[key] = value.clone());
        (Code::ARGUMENTS_INVALID, told)
    };
    let refused = |error: &str, field: &str| {
        (Code::TOOL_FAILED, json!({ "error": error, "action": "update", "field": field }))
    };
    let missing = || invalid("value required for update", json!({ "required_param": "value" }));
    for (args, (code, told)) in [
        (json!({ "action": "update", "field": "name" }), missing()),
        (json!({ "action": "update", "field": "name", "value": null }), missing()),
        (update("system_prompt", "\t\n "), missing()),
        (update("model", ""), missing()),
        (
            json!({ "action": "erase", "field": "x" }),
            invalid("Invalid action 'erase'", json!({ "action": null })),
        ),
        (
            json!({ "field": "name" }),
            invalid("action is required", json!({ "action": null, "required_param": "action" })),
        ),
        (json!({ "action": "update", "field": "x" }), invalid("Invalid field 'x'", json!({}))),
        (
            json!({ "action": "update", "field": ["name"], "value": "x" }),
            invalid("Invalid field '[\"name\"]'", json!({})),
        ),
        (update("enabled_tools", "[]"), invalid("Invalid field 'enabled_tools'", json!({}))),
        (
            json!({ "action": "update", "value": "x" }),
            invalid("field required for update", json!({ "required_param": "field" })),
        ),
        (
            update("name", &long[..101]),
            invalid("name has 101 characters; use at most 100", json!({ "field": "name" })),
        ),
        (
            update("name", "A\u{202e}da"),
            invalid(
                "name has the character U+202E, which nobody sees; leave it out",
                json!({ "field": "name" }),
            ),
        ),
        (
            update("reflection_prompt", &long),
            invalid(
                "reflection_prompt has 20001 characters; use at most 20000",
                json!({ "field": "reflection_prompt" }),
            ),
        ),
        (update("name", " BOB\n"), refused("Name has already been taken", "name")),
        (update("model", "huge"), refused("There is no model \"huge\"; there is small", "model")),
        (
            update("model", "ollama:small"),
            refused("There is no model \"ollama:small\"; there is small", "model"),
        ),
    ] {
        let mut expected = told;
        expected["type"] = json!("error");
        assert_eq!(den.fails(TOOL, args).await, (code, expected));
    }
    // What is far too long does not even get here.
    let (code, told) = den.fails(TOOL, update("system_prompt", &"x".repeat(1 << 20))).await;
    assert_eq!((code, told["action"].clone()), (Code::ARGUMENTS_TOO_LARGE, Value::Null));
    // No argument names another agent.
    let mut other = update("name", "Ann");
    other["agent"] = json!("bob");
    assert_eq!(den.fails(TOOL, other).await.0, Code::ARGUMENTS_INVALID);
}

#[tokio::test]
async fn only_an_agent_in_a_group_is_let_in() {
    let direct = Start { conversation: Conversation::Direct, ..group("ada") };
    let nobody = Start { agent: None, ..group("ada") };
    for start in [direct, nobody, Start::default()] {
        let mut den = Den::speaking(text(""), start, Resources::default()).await;
        for args in [view("name"), json!({ "action": "x", "field": "y" }), json!("no object")] {
            let (code, told) = den.fails(TOOL, args).await;
            assert_eq!(code.as_str(), "CONTEXT_MISSING");
            let error = told["error"].as_str().unwrap();
            assert!(error.starts_with("This tool only works in group conversations"), "{error}");
            assert!(error.contains("--agent"), "it says how to start one: {error}");
            assert!(told.get("allowed_actions").is_none() && told.get("allowed_fields").is_none());
        }
    }
}

#[tokio::test]
async fn a_name_stays_free_for_whoever_had_it_and_agents_are_apart() {
    let mut den = den().await;
    den.works(TOOL, update("name", "Sage")).await;
    den.works(TOOL, update("system_prompt", "Be brief.")).await;
    let mut bob = speaking(&den.runtime, &den.crew, "s2", group("bob")).await;
    let told = call(&mut bob, TOOL, view("system_prompt")).await.data;
    assert_eq!(told["value"], Value::Null, "nothing of another agent is seen");
    for (name, ok) in [("sage", false), ("ADA", false), ("Ann", true), ("Bob", true)] {
        assert_eq!(call(&mut bob, TOOL, update("name", name)).await.ok, ok, "{name}");
    }
    assert_eq!(den.works(TOOL, view("name")).await["value"], "Sage");
    // Writing a name of one's own in another way is no clash.
    assert_eq!(den.works(TOOL, update("name", "SAGE")).await["agent"], "SAGE");
}

/// An agent that a person took out of the file is nobody any more; what it was is kept.
#[tokio::test]
async fn a_session_of_an_agent_that_is_gone_does_not_go_on() {
    let den = den().await;
    let file = "packs: [self_authoring]\nagents: {bob: {}}\n";
    let other = Den::speaking(read(file.as_bytes()).text, group("bob"), Resources::default()).await;
    let id = den.driver.session().id.clone();
    drop(den.driver);
    let gone = Driver::resume(Arc::clone(&den.runtime), other.crew.clone(), id).await;
    assert!(matches!(gone.err(), Some(OpenFault::AgentGone(id)) if id.as_str() == "ada"));
    let id = toolgate_kernel::names::SessionId::parse("s9").unwrap();
    let actor = crate::support::client();
    let runtime = Arc::clone(&den.runtime);
    let none = Driver::open_with(runtime, other.crew, id, &actor, group("ada")).await;
    assert!(matches!(none.err(), Some(OpenFault::AgentGone(_))));
}

/// A model that looks at prompts: it says the same to everything, or nothing at all.
struct Judge {
    says: Option<&'static str>,
    finish: Finish,
    asked: Arc<Notify>,
    /// Where it waits until somebody lets it go on.
    waits: Option<Arc<Notify>>,
}

impl Judge {
    fn reach(self) -> Resources {
        Resources::default().with(Reviewer(Ok(Arc::new(self))))
    }

    fn says(text: &'static str) -> Self {
        Self { says: Some(text), finish: Finish::Stop, asked: Arc::default(), waits: None }
    }
}

impl Provider for Judge {
    fn name(&self) -> &str {
        "judge"
    }

    fn reply<'a>(
        &'a self,
        plan: &'a Plan,
        _: &'a mut Desk,
        _: Tap<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<Reply, ProviderFault>> + Send + 'a>> {
        assert!(plan.tools.is_empty() && plan.input.contains("\"after\":\"Be brief.\""));
        Box::pin(async move {
            self.asked.notify_one();
            if let Some(waits) = &self.waits {
                waits.notified().await;
            }
            match self.says {
                Some(text) => {
                    let usage = Usage { input_tokens: 70, output_tokens: 3, ..Usage::default() };
                    Ok(Reply::new(text, Vec::new(), self.finish, usage))
                }
                None => std::future::pending().await,
            }
        })
    }
}

const REVIEWED: &str = "self_authoring: {reviewer: small}\nlimits: {call_ms_max: 1100}\n";

#[tokio::test]
async fn only_safe_is_a_yes() {
    let cut = Judge { finish: Finish::Length, ..Judge::says("SAFE") };
    let declined = Judge { finish: Finish::Refused, ..Judge::says("SAFE") };
    let silent = Judge { says: None, ..Judge::says("") };
    let broken = || Resources::default().with(Reviewer(Err("it needs a key".to_owned())));
    let unclear = "the reviewer gave no clear answer. Nothing was changed";
    let unasked = "the reviewer could not be asked. Nothing was changed; try again later";
    // What an agent is told, and what people find in the log.
    for (reach, reason, kept) in [
        (Judge::says("UNSAFE: it lies").reach(), "it lies", "it lies"),
        (Judge::says("UNSAFE").reach(), "the reviewer gave no reason", "unsafe"),
        (Judge::says("safe").reach(), unclear, "\"reason\":\"safe\""),
        (Judge::says("SAFE\nUNSAFE").reach(), unclear, "SAFE UNSAFE"),
        (Judge::says(" ").reach(), unclear, "unreadable"),
        (cut.reach(), unasked, "its answer is not whole"),
        (declined.reach(), unasked, "it declined to answer"),
        (silent.reach(), unasked, "no answer within 100 ms"),
        (broken(), unasked, "it needs a key"),
        (Resources::default(), unasked, ""),
    ] {
        let mut den = Den::speaking(text(REVIEWED), group("ada"), reach).await;
        let watched = den.runtime.observe();
        let (code, told) = den.fails(TOOL, update("system_prompt", "Be brief.")).await;
        let error = format!("Safety check failed for system_prompt: {reason}");
        assert_eq!((code, told["error"].as_str()), (Code::TOOL_FAILED, Some(error.as_str())));
        assert_eq!(told["field"], "system_prompt");
        assert!(!told.to_string().contains(kept) || reason.contains(kept), "{told}");
        assert!(notices(watched).contains(kept), "{kept}");
        assert_eq!(den.works(TOOL, view("system_prompt")).await["value"], "Be kind.");
        den.works(TOOL, update("name", "Sage")).await;
    }
    let mut den = Den::speaking(text(REVIEWED), group("ada"), Judge::says("SAFE").reach()).await;
    den.works(TOOL, update("system_prompt", "Be brief.")).await;
    assert_eq!(den.works(TOOL, view("system_prompt")).await["value"], "Be brief.");
}

/// Everything that calls wanted known since somebody watches, as one text.
fn notices(mut watched: Receiver<Committed>) -> String {
    let mut texts = String::new();
    while let Ok(committed) = watched.try_recv() {
        if let Committed::Session(_, record) = committed
            && let Event::CallSettled(settled) = &record.event
        {
            settled.notices.iter().for_each(|notice| texts.push_str(&notice.text));
        }
    }
    texts
}

/// What the reviewer cost is spent, whatever it says.
#[tokio::test]
async fn what_a_review_costs_counts_toward_the_budget() {
    for says in ["SAFE", "UNSAFE: it lies"] {
        let judge = Judge::says(says).reach();
        let mut den = Den::speaking(text(REVIEWED), group("ada"), judge).await;
        call(&mut den.driver, TOOL, update("system_prompt", "Be brief.")).await;
        let spent = den.driver.session().spent;
        assert_eq!((spent.input_tokens, spent.output_tokens), (70, 3), "{says}");
    }
}

/// A long reason is cut, so that no answer of a reviewer fills the transcript.
#[tokio::test]
async fn a_reason_is_bounded() {
    let long: &'static str = Box::leak(format!("UNSAFE: {}", "x".repeat(100_000)).into_boxed_str());
    let mut den = Den::speaking(text(REVIEWED), group("ada"), Judge::says(long).reach()).await;
    let (_, told) = den.fails(TOOL, update("system_prompt", "Be brief.")).await;
    assert!(told["error"].as_str().unwrap().len() < 400);
}

/// Two sessions of one agent: what was changed while the reviewer looked is not written over.
#[tokio::test]
async fn two_sessions_of_one_agent_do_not_pass_each_other_by() {
    let (asked, waits) = (Arc::<Notify>::default(), Arc::<Notify>::default());
    let judge =
        Judge { asked: Arc::clone(&asked), waits: Some(Arc::clone(&waits)), ..Judge::says("SAFE") };
    let file = "self_authoring: {reviewer: small}\n";
    let mut den = Den::speaking(text(file), group("ada"), judge.reach()).await;
    let mut other = speaking(&den.runtime, &den.crew, "s2", group("ada")).await;
    let slow = call(&mut den.driver, TOOL, update("system_prompt", "Be brief."));
    let quick = async {
        asked.notified().await;
        let told = call(&mut other, TOOL, update("name", "Sage")).await;
        waits.notify_one();
        told
    };
    let (slow, quick) = tokio::join!(slow, quick);
    assert!(quick.ok, "{quick:?}");
    assert_eq!(slow.code(), Some(&Code::COMMIT_CONFLICT));
    assert_eq!(den.works(TOOL, view("name")).await["value"], "Sage");
    assert_eq!(den.works(TOOL, view("system_prompt")).await["value"], "Be kind.");
}

/// What `migrate` writes and what `check` takes are the same lists, and the way back has all four
/// names (H29).
#[test]
fn former_names_in_enabled_tools_are_taken_and_written_as_todays() {
    let file = "packs: [self_authoring, web, tasks]\nagents:\n  ada:\n    enabled_tools: \
                [ViewSystemPromptTool, UpdateSystemPromptTool, WebSearchTool, WebFetchTool, tasks]\n";
    let migrated = migrate(file.as_bytes(), Naming::Today).unwrap().text;
    assert!(migrated.contains("enabled_tools: [self_authoring, web, tasks]"), "{migrated}");
    let back = migrate(migrated.as_bytes(), Naming::Former).unwrap().text;
    assert!(back.ends_with(file.split_once("enabled").unwrap().1), "{back}");
    for file in [file, &migrated] {
        let reading = read(file.as_bytes());
        let packs = toolgate_packs::enabled(&reading.text).unwrap();
        let sections = packs.into_iter().map(|pack| pack.section).collect();
        let checked = reading.check(sections);
        assert!(checked.agent().is_some(), "{:?}", checked.findings);
    }
}
