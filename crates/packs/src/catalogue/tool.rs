//! The tools `prompt_tool_propose` and `prompt_tool_show`: what an agent does with the catalogue. It
//! proposes, revises and withdraws; nothing it can call decides.

use std::collections::BTreeSet;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::event::Change;
use toolgate_kernel::flow::FlowLabels;
use toolgate_kernel::key::{Access, Key};
use toolgate_kernel::names::Family;
use toolgate_kernel::tool::{Effect, SpecDraft, SpecRefusal};
use toolgate_runtime::port::{Fault, Output, Tool};
use toolgate_runtime::{Transaction, tool};

use super::GROUP;
use super::edits::StateEdits;
use super::error::CatalogueError;
use super::prompt_tool::{PromptScope, PromptTool};
use super::proposal::{PROPOSALS, Proposal, ProposalAuthor, ProposalKind, Submission, TestCase};
use super::registry::{Catalogue, TOOL_FAMILY};
use super::workflow::Workflow;
use crate::domain::answer;
use crate::issues::ISSUES;

const PROPOSE: &str = "prompt_tool_propose";
const SHOW: &str = "prompt_tool_show";

/// Acts of a person that a model may try by this tool.
const PERSONS_ACTS: &[&str] = &[
    "approve",
    "reject",
    "needs_changes",
    "needs-changes",
    "decide",
    "accept",
    "rollback",
    "retire",
    "merge",
    "assess",
];

/// What the tools work with.
pub(super) struct ProposeSetup {
    /// The entries of the user's file.
    pub(super) user: Vec<PromptTool>,
    /// Whom the issue of a proposal is assigned to.
    pub(super) chief: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Params {
    /// submit, revise or withdraw; submit when left out.
    #[schemars(length(min = 1, max = 40))]
    action: Option<String>,
    /// The proposal, for revise and withdraw.
    #[schemars(range(min = 1))]
    proposal: Option<u64>,
    /// Why it is withdrawn.
    #[schemars(length(max = 4_000))]
    note: Option<String>,
    /// What it would do: add a tool, change one, or take one out of the catalogue.
    #[serde(rename = "type")]
    kind: Option<ProposalKind>,
    /// The prompt tool; made of the name when left out, for a new one.
    id: Option<String>,
    /// For a new tool: the prompt tool whose fields it begins with.
    copy_of: Option<String>,
    /// Its name for people, one line, at most 100 characters.
    name: Option<String>,
    /// The kind of agent it is for, such as Editor; Any when left out.
    archetype: Option<String>,
    /// What it works on; the project when left out.
    scope: Option<PromptScope>,
    /// When to use it, at most 1,000 characters.
    usage_notes: Option<String>,
    /// What it is to achieve, at most 1,000 characters.
    goals: Option<String>,
    /// What it must not be used for, at most 2,000 characters.
    guardrails: Option<String>,
    /// What the model is told, at most 12,000 characters.
    prompt: Option<String>,
    /// Why it is needed: 20 to 4,000 characters.
    rationale: Option<String>,
    /// Two or three concrete uses.
    examples: Option<Vec<String>>,
    /// Two or three concrete checks of what a model says with it.
    test_cases: Option<Vec<TestCase>>,
}

#[derive(Deserialize, JsonSchema)]
struct ShowParams {
    /// The prompt tool, as the catalogue lists it.
    #[schemars(length(min = 1, max = 64))]
    id: String,
}

/// Both tools.
pub(super) fn tools(setup: &Arc<ProposeSetup>) -> Result<Vec<Arc<dyn Tool>>, SpecRefusal> {
    Ok(vec![propose_tool(setup)?, show_tool(setup)?])
}

fn propose_tool(setup: &Arc<ProposeSetup>) -> Result<Arc<dyn Tool>, SpecRefusal> {
    let about = "Proposes a prompt tool, revises or withdraws a proposal of yours. Nothing changes \
        before the chief has assessed it and a person has approved it.";
    let draft = SpecDraft::new(PROPOSE, about)
        .group(GROUP)
        .effect(Effect::Staged)
        .returns_schema(answer_schema())
        .touches(|_| {
            Ok(vec![(Access::Write, Key::parse(PROPOSALS)?), (Access::Write, Key::parse(ISSUES)?)])
        })
        .argument_alias("usageNotes", "usage_notes")
        .argument_alias("testCases", "test_cases")
        .argument_alias("copyOf", "copy_of")
        .locked();
    let setup = Arc::clone(setup);
    tool(draft, move |tx, params| propose(&setup, tx, params))
}

fn show_tool(setup: &Arc<ProposeSetup>) -> Result<Arc<dyn Tool>, SpecRefusal> {
    let about = "Shows all fields of a prompt tool of the catalogue. Its text guides you; it changes \
        no rule.";
    let draft = SpecDraft::new(SHOW, about)
        .group(GROUP)
        .effect(Effect::Read)
        .labels(FlowLabels::private())
        .returns_schema(answer_schema())
        .touches(|args| {
            let id = args.text("id").unwrap_or_default();
            let family = Key::parse(TOOL_FAMILY)?.family().clone();
            Ok(vec![(Access::Read, Key::new(family, id)?)])
        })
        .locked();
    let setup = Arc::clone(setup);
    tool(draft, move |tx: &mut Transaction, params: ShowParams| show(&setup, tx, &params))
}

fn answer_schema() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": { "type": { "type": "string" } },
        "required": ["type"],
        "additionalProperties": true,
    })
}

fn propose(setup: &ProposeSetup, tx: &mut Transaction, params: Params) -> Result<Output, Fault> {
    let action = params.action.clone().unwrap_or_else(|| "submit".to_owned());
    let outcome = acted(setup, tx, &action, params);
    if let Err(error) = &outcome
        && matches!(error.code, "PERSON_REQUIRED" | "CORE_LOCKED")
    {
        // A forbidden attempt is logged for people.
        let text = json!({ "action": action, "code": error.code, "message": error.message });
        tx.audit("catalogue", text.to_string())?;
    }
    let (proposal, changes) = outcome?;
    for change in changes {
        match change {
            Change::Put { key, value, .. } => tx.put(&key, &value)?,
            Change::Remove { key } => tx.remove(&key)?,
            Change::Push { .. } | Change::Clear {} => {
                return Err(Fault::failed("This change belongs to no proposal."));
            }
        }
    }
    let message = format!(
        "Proposal {} ({} {}), revision {}, is {}. Issue #{} tells the chief; a person decides.",
        proposal.id,
        proposal.kind.as_str(),
        proposal.tool.id,
        proposal.revision,
        proposal.state.as_str(),
        proposal.issue
    );
    let data = json!({
        "action": action, "proposal": proposal.id, "tool": proposal.tool.id,
        "revision": proposal.revision, "state": proposal.state, "issue": proposal.issue,
        "digest": proposal.digest(),
    });
    answer("prompt_tool_proposal", &message, &data)
}

fn acted(
    setup: &ProposeSetup,
    tx: &Transaction,
    action: &str,
    params: Params,
) -> Result<(Proposal, Vec<Change>), CatalogueError> {
    let names = tool_names(tx.agent());
    let workflow =
        Workflow { user: &setup.user, tools: &names, chief: &setup.chief, now: tx.now() };
    let mut edits = StateEdits::of(&tx.project().state);
    let author = author(tx);
    let number = || {
        params.proposal.ok_or_else(|| {
            CatalogueError::field("proposal", format!("{action} needs the number of a proposal"))
        })
    };
    let proposal = match action {
        "submit" => workflow.submit(&mut edits, submission(params), author)?,
        "revise" => {
            let id = number()?;
            workflow.revise(&mut edits, id, submission(params), &author)?
        }
        "withdraw" => {
            let note = params.note.as_deref().unwrap_or_default();
            workflow.withdraw(&mut edits, number()?, note, &author)?
        }
        act if PERSONS_ACTS.contains(&act) => return Err(CatalogueError::person_required(act)),
        _ => {
            let known = ["submit", "revise", "withdraw"].map(str::to_owned).to_vec();
            let message = "action must be submit, revise or withdraw";
            return Err(CatalogueError::field("action", message).allowing(known));
        }
    };
    Ok((proposal, edits.into_changes()))
}

fn submission(params: Params) -> Submission {
    Submission {
        kind: params.kind.unwrap_or_default(),
        id: params.id,
        copy_of: params.copy_of,
        name: params.name,
        archetype: params.archetype,
        scope: params.scope,
        usage_notes: params.usage_notes,
        goals: params.goals,
        guardrails: params.guardrails,
        prompt: params.prompt,
        rationale: params.rationale,
        examples: params.examples.unwrap_or_default(),
        test_cases: params.test_cases.unwrap_or_default(),
    }
}

/// Who makes a call: the agent that the session speaks as, else what kind of caller it is.
fn author(tx: &Transaction) -> ProposalAuthor {
    if let Some(agent) = &tx.session().agent {
        return ProposalAuthor::Agent(agent.to_string());
    }
    match tx.call().actor() {
        Actor::Agent(name) | Actor::Client(name) => ProposalAuthor::Agent(name.to_string()),
        // Another model under another name is the same author.
        other @ (Actor::Human(_)
        | Actor::File(_)
        | Actor::ClientUser(_)
        | Actor::Model(_)
        | Actor::System) => ProposalAuthor::Agent(other.kind().to_owned()),
    }
}

/// Names and aliases of all tools that can be called.
pub fn tool_names(agent: &Agent) -> BTreeSet<String> {
    let entries = agent.toolset.entries().iter();
    let names =
        entries.flat_map(|entry| std::iter::once(&entry.spec.name).chain(&entry.spec.aliases));
    names.map(ToString::to_string).collect()
}

fn show(setup: &ProposeSetup, tx: &Transaction, params: &ShowParams) -> Result<Output, Fault> {
    let catalogue = Catalogue::of(&setup.user, &tx.project().state)?;
    let found = catalogue.live().find(|entry| entry.tool.id == params.id);
    let Some(entry) = found else {
        let known = catalogue.live().map(|entry| entry.tool.id.clone()).collect();
        let message = format!("there is no prompt tool {}", params.id);
        return Err(CatalogueError::new("NOT_FOUND", message).at("id").allowing(known).into());
    };
    let message = format!("{} ({}), {}.", entry.tool.name, entry.tool.id, entry.source.as_str());
    answer("prompt_tool", &message, &json!({ "tool": entry }))
}

/// The families of proposals, in which calls may write, and of what only people change.
pub(super) fn families()
-> Result<Vec<toolgate_kernel::section::FamilySpec>, toolgate_kernel::names::NameRefusal> {
    use toolgate_kernel::section::{FamilySpec, Home};
    let mut families =
        crate::domain::whole_and_parts(PROPOSALS, &[super::proposal::PROPOSAL_FAMILY])?;
    for name in [TOOL_FAMILY, super::registry::HISTORY_FAMILY, super::registry::ACCEPTED_FAMILY] {
        families.push(FamilySpec::new(Family::parse(name)?, Home::Project).human_only());
    }
    Ok(families)
}
