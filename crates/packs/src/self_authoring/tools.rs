//! Decides what an agent sees of itself, and how a change of it is kept.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_kernel::config::AgentText;
use toolgate_kernel::json::Document;
use toolgate_kernel::key::{Access, Key, KeyRefusal};
use toolgate_kernel::names::{AgentId, NameRefusal};
use toolgate_kernel::profile::{self, AGENT_FAMILY, AGENTS, Field, Profile, same_name};
use toolgate_kernel::tool::{ACTION, Setting, SpecRefusal};
use toolgate_runtime::port::{Fault, Output};
use toolgate_runtime::{Pack, Transaction};

use super::consent::{Consent, Models};
use super::{NAME, review};
use crate::domain::{Domain, answer, key, whole_and_parts};

const ABOUT: &str = "Shows or changes what you are: your name, your prompts and, if a person says \
                     yes, your model. Actions: view, update.";

/// A new prompt is looked at first, or kept as it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Review {
    Asked,
    Nobody,
}

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// What is looked at or changed.
    field: Option<Field>,
    /// What it shall be; for update. A model is one that a person declared.
    value: Option<String>,
}

/// What is told of a field.
#[derive(Serialize)]
struct Config<'a> {
    action: &'a str,
    field: Field,
    /// Null while it is not set.
    value: Option<&'a str>,
    /// The agent's name, as it is after the call.
    agent: &'a str,
}

/// Counts the changes of all agents, so that two of them never pass each other by.
#[derive(Default, Serialize, Deserialize)]
struct Whole {
    changes: u64,
}

/// The tool `self_authoring`.
pub fn self_authoring(text: &AgentText) -> Result<Pack, SpecRefusal> {
    let models: Models = Arc::new(text.models.keys().cloned().collect());
    let reviewer = text.self_authoring.as_ref().and_then(|own| own.reviewer.as_deref());
    let reviewed = if reviewer.is_some() { Review::Asked } else { Review::Nobody };
    let fields: Vec<&str> = Field::ALL.iter().map(|field| field.as_str()).collect();
    let known = Arc::clone(&models);
    let domain = Domain::<Params>::new(NAME, ABOUT)
        .action("view", "Shows a field.", &["field"], view)
        .waiting_action("update", "Changes a field.", &["field", "value"], move |tx, params| {
            Box::pin(update(tx, params, Arc::clone(&known), reviewed))
        })
        .fields(&fields)
        .setting(Setting::AgentInGroup)
        .reads(&["view"])
        .touches(touches)
        .describe(|draft| {
            let draft = draft.alias("ViewSystemPromptTool").alias("UpdateSystemPromptTool");
            let input = json!({ "action": "update", "field": "name", "value": "Sage" });
            let output = json!({ "type": "config", "action": "update", "field": "name",
                "value": "Sage", "agent": "Sage" });
            draft.example("A new name.", input, output)
        });
    let mut pack = domain.pack("", |_| whole_and_parts(AGENTS, &[AGENT_FAMILY]))?;
    let named = |source: NameRefusal| SpecRefusal::Name { tool: NAME.to_owned(), source };
    pack.section.policies.push(Arc::new(Consent::new(models, reviewer).map_err(named)?));
    Ok(pack)
}

fn touches(args: &Document) -> Result<Vec<(Access, Key)>, KeyRefusal> {
    let access = if args.text(ACTION) == Some("view") { Access::Read } else { Access::Write };
    Ok(vec![(access, Key::parse(AGENTS)?)])
}

fn view(tx: &mut Transaction, params: Params) -> Result<Output, Fault> {
    let (_, profile) = own(tx)?;
    told("view", params.field.unwrap_or(Field::Name), &profile)
}

async fn update(
    tx: &mut Transaction,
    params: Params,
    models: Models,
    reviewed: Review,
) -> Result<Output, Fault> {
    let (id, mut profile) = own(tx)?;
    let field = params.field.unwrap_or(Field::Name);
    let value = field.fit(params.value.as_deref().unwrap_or_default()).map_err(|refusal| {
        Fault::invalid(refusal.to_string()).at("value").with("field", field.as_str())
    })?;
    match field {
        Field::Name => check_free(tx, &id, &value)?,
        Field::Model => check_declared(&models, &value)?,
        Field::SystemPrompt | Field::ReflectionPrompt | Field::MemoryReflectionPrompt => {
            if reviewed == Review::Asked {
                let agent = profile.name.clone().unwrap_or_default();
                review::review(tx, &agent, field, profile.get(field), &value).await?;
            }
        }
    }
    let kept = profile::key(&id).ok_or_else(|| Fault::failed("The agent cannot be kept."))?;
    // Only what was changed is kept: the rest stays as a person declares it.
    let mut changed: Profile = tx.load(&kept)?.unwrap_or_default();
    changed.set(field, value.clone());
    profile.set(field, value);
    let mut whole: Whole = tx.load(&key(AGENTS)?)?.unwrap_or_default();
    whole.changes += 1;
    tx.put(&key(AGENTS)?, &whole)?;
    tx.put(&kept, &changed)?;
    told("update", field, &profile)
}

fn told(action: &str, field: Field, profile: &Profile) -> Result<Output, Fault> {
    let agent = profile.name.as_deref().unwrap_or_default();
    answer("config", "", &Config { action, field, value: profile.get(field), agent })
}

/// The session's own agent. No argument names another one.
fn own(tx: &Transaction) -> Result<(AgentId, Profile), Fault> {
    let id = tx.session().agent.clone();
    let own = id.and_then(|id| Some((id.clone(), tx.agent().profile(tx.project(), &id)?)));
    // The gate lets no other session pass.
    own.ok_or_else(|| Fault::failed("This session speaks as no agent."))
}

/// Refuses a name by which another agent is known: the one it has, or the one in the file.
fn check_free(tx: &Transaction, id: &AgentId, name: &str) -> Result<(), Fault> {
    let agent = tx.agent();
    let taken = agent.agents.keys().filter(|other| *other != id).any(|other| {
        let profile = agent.profile(tx.project(), other).unwrap_or_default();
        same_name(other.as_str(), name) || profile.name.is_some_and(|own| same_name(&own, name))
    });
    if taken {
        return Err(Fault::failed("Name has already been taken").with("field", "name"));
    }
    Ok(())
}

fn check_declared(models: &Models, name: &str) -> Result<(), Fault> {
    if models.contains(name) {
        return Ok(());
    }
    let known: Vec<&str> = models.iter().map(String::as_str).collect();
    let known = match known.is_empty() {
        true => "none is declared".to_owned(),
        false => format!("there is {}", known.join(", ")),
    };
    let shown: String = name.chars().take(80).collect();
    let message = format!("There is no model {shown:?}; {known}");
    Err(Fault::failed(message).with("field", Field::Model.as_str()))
}
