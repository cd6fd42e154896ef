//! Decides what the four workspace tools take and answer. None of them changes a fact or a lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::envelope::{Code, Trouble};
use toolgate_kernel::event::Change;
use toolgate_kernel::flow::FlowLabels;
use toolgate_kernel::fold::State;
use toolgate_kernel::json::{Document as Args, Part};
use toolgate_kernel::key::{Access, KeyRefusal};
use toolgate_kernel::tool::{Effect, SpecDraft, SpecRefusal};
use toolgate_runtime::port::{Fault, Output, Tool};
use toolgate_runtime::{Transaction, tool};

use super::NAME;
use super::document::{
    DOCUMENT_BYTES_MAX, Document, Locks, PROPOSAL_BYTES_MAX, PROPOSALS_MAX, Proposal, ProposalId,
    etag, last_proposal, proposal_key, proposals,
};
use super::patch::{PatchRefusal, Verb, apply};
use super::pointer::{Path, PathRefusal, Root};
use crate::text::counted;

/// Most changes of one patch.
pub const OPS_MAX: usize = 1_000;

/// Most paths that are read at once.
const SELECT_MAX: usize = 100;

/// Longest reason of a proposal and longest title, in characters.
const REASON_CHARS_MAX: usize = 2_000;

/// Most bytes of what a user interface is asked to show.
const RENDER_BYTES_MAX: usize = 32 << 10;

/// How the one workspace of a project is called.
pub const WORKSPACE_ID: &str = "project";

/// The parts that a patch may change.
const PATCHED: &[Root] = &[Root::Draft, Root::UiState];

/// The tools, in the order they are shown.
pub(super) fn all() -> Result<Vec<Arc<dyn Tool>>, SpecRefusal> {
    Ok(vec![
        tool(get_spec(), get)?,
        tool(patch_spec(), patch)?,
        tool(propose_spec(), propose)?,
        tool(render_spec(), render)?,
    ])
}

#[derive(Deserialize, JsonSchema)]
struct StateGet {
    /// JSON pointers of what to read, such as /draft/title; leave it out to read everything.
    select: Option<Vec<String>>,
    /// The workspace; leave it out.
    workspace_id: Option<String>,
}

/// How often each document changed.
#[derive(Debug, Serialize, JsonSchema)]
struct Etags {
    facts: u64,
    draft: u64,
    ui_state: u64,
}

/// What was read.
#[derive(Debug, Serialize, JsonSchema)]
struct Read {
    workspace_id: String,
    etags: Etags,
    /// By path; null where nothing is.
    values: BTreeMap<String, Value>,
}

fn get_spec() -> SpecDraft {
    let touches = |args: &Args| {
        let paths = texts(args, "select", None);
        let roots = paths.iter().filter_map(|path| Path::tolerant(path).ok()).map(|path| path.root);
        let mut roots: Vec<Root> = roots.collect();
        roots.sort_unstable();
        roots.dedup();
        let all = if paths.is_empty() { Root::ALL.to_vec() } else { roots };
        all.into_iter().map(|root| Ok((Access::Read, root.key()?))).collect()
    };
    SpecDraft::new("state_get", "Reads the workspace: facts, draft, locks, ui_state, proposals.")
        .group(NAME)
        .labels(FlowLabels::private())
        .argument_alias("select", "paths")
        .argument_alias("select", "pointers")
        .returns::<Read>()
        .touches(touches)
        .example(
            "The title, and something that is not there.",
            json!({ "select": ["/draft/title", "/facts/city"] }),
            json!({
                "workspace_id": WORKSPACE_ID,
                "etags": { "facts": 0, "draft": 1, "ui_state": 0 },
                "values": { "/draft/title": "The keeper", "/facts/city": null },
            }),
        )
}

fn get(tx: &mut Transaction, params: StateGet) -> Result<Output, Fault> {
    check_workspace(params.workspace_id.as_deref())?;
    let state = &tx.project().state;
    let select = params.select.filter(|select| !select.is_empty());
    let everything = || Root::ALL.map(|root| Path::whole(root).to_string()).to_vec();
    let select = select.unwrap_or_else(everything);
    if select.len() > SELECT_MAX {
        let message = format!("select: at most {SELECT_MAX} paths are read at once.");
        return Err(Fault::invalid(message).at("select"));
    }
    let paths: Vec<_> = select.iter().map(|text| (text, Path::tolerant(text))).collect();
    let mut documents = BTreeMap::new();
    for root in paths.iter().filter_map(|(_, path)| Some(path.as_ref().ok()?.root)) {
        documents.entry(root).or_insert_with(|| shown(state, root));
    }
    let (mut values, mut warnings) = (BTreeMap::new(), Vec::new());
    for (text, path) in paths {
        let value = path.as_ref().ok().and_then(|path| path.find(documents.get(&path.root)?));
        let (name, missing) = match &path {
            Ok(path) => (path.to_string(), format!("There is nothing at {path}.")),
            Err(refusal) => (text.chars().take(200).collect(), refusal.to_string()),
        };
        warnings.extend(value.is_none().then_some(missing));
        values.insert(name, value.cloned().unwrap_or_default());
    }
    let etag = |root| etag(state, root);
    let etags =
        Etags { facts: etag(Root::Facts), draft: etag(Root::Draft), ui_state: etag(Root::UiState) };
    let read = Read { workspace_id: WORKSPACE_ID.to_owned(), etags, values };
    Ok(Output { warnings, ..Output::data("", &read)? })
}

/// A part of the workspace as a reader sees it.
fn shown(state: &State, root: Root) -> Value {
    match root {
        Root::Facts | Root::Draft | Root::UiState => Document::of(state, root).value,
        Root::Locks => json!(Locks::of(state)),
        Root::Proposals => {
            let one = |(id, proposal): (ProposalId, Proposal)| {
                let Proposal { path, value, reason, .. } = proposal;
                (id.to_string(), json!({ "path": path, "value": value, "reason": reason }))
            };
            proposals(state).into_iter().map(one).collect()
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct StatePatch {
    /// The changes, in order: all of them are made, or none. At most 1,000.
    ops: Vec<Op>,
    /// The etag of the document as you read it. When it changed since, nothing is done.
    etag: Option<u64>,
    /// The workspace; leave it out.
    workspace_id: Option<String>,
}

/// One change.
#[derive(Deserialize, JsonSchema)]
struct Op {
    /// set puts a value, delete takes it away, append and insert add to a list.
    op: Verb,
    /// A JSON pointer below /draft/ or /ui_state/, such as /draft/chapters/0/title.
    path: String,
    /// The value; not for delete.
    #[serde(default, deserialize_with = "given")]
    value: Option<Value>,
    /// The place in the list, from 0; for insert.
    index: Option<u64>,
}

/// A null that is written is a value; only what is left out is none.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// What a patch did.
#[derive(Debug, Serialize, JsonSchema)]
struct Patched {
    /// Changes that were made.
    applied: usize,
    /// The etags of the documents it concerned.
    etags: BTreeMap<String, u64>,
}

fn patch_spec() -> SpecDraft {
    let about = "Changes the draft or the ui_state: set, delete, append, insert. All changes are \
                 made, or none. Facts and locked paths cannot be changed.";
    let touches = |args: &Args| {
        let paths = texts(args, "ops", Some("path"));
        let roots = PATCHED.iter().filter(|root| {
            let start = format!("/{}", root.name());
            paths.iter().any(|path| path.starts_with(&start))
        });
        let written = roots.map(|root| Ok((Access::Write, root.key()?)));
        // A lock that comes while the call is at work is a conflict.
        written.chain([Ok((Access::Read, Root::Locks.key()?))]).collect()
    };
    SpecDraft::new("state_patch", about)
        .group(NAME)
        .effect(Effect::Staged)
        .returns::<Patched>()
        .touches(touches)
        .example(
            "A title and a first chapter.",
            json!({ "ops": [
                { "op": "set", "path": "/draft/title", "value": "The keeper" },
                { "op": "append", "path": "/draft/chapters", "value": { "name": "Storm" } },
            ] }),
            json!({ "applied": 2, "etags": { "draft": 1 } }),
        )
}

fn patch(tx: &mut Transaction, params: StatePatch) -> Result<Output, Fault> {
    check_workspace(params.workspace_id.as_deref())?;
    if params.ops.is_empty() || params.ops.len() > OPS_MAX {
        let count = params.ops.len();
        let message = format!("ops: has {count} changes; send 1 to {OPS_MAX}.");
        return Err(Fault::invalid(message).at("ops"));
    }
    let mut ops = Vec::new();
    for (at, op) in params.ops.into_iter().enumerate() {
        let refused = |refusal: PathRefusal| refused_path(&format!("ops[{at}].path"), &refusal);
        ops.push((Path::inside(&op.path, PATCHED).map_err(refused)?, op));
    }
    let state = &tx.project().state;
    let locks = Locks::of(state);
    let concerned = |root: &Root| ops.iter().any(|(path, _)| path.root == *root);
    let roots: Vec<Root> = PATCHED.iter().copied().filter(concerned).collect();
    let before: BTreeMap<Root, Document> =
        roots.iter().map(|root| (*root, Document::of(state, *root))).collect();
    check_etag(params.etag, &before)?;
    let mut after = before.clone();
    let (applied, mut paths) = (ops.len(), Vec::new());
    for (at, (path, op)) in ops.into_iter().enumerate() {
        let Some(document) = after.get_mut(&path.root) else { continue };
        make(document, &locks, &path, op, at)?;
        paths.push(path);
    }
    let (mut etags, mut all) = (BTreeMap::new(), Vec::new());
    for (root, document) in &after {
        let Some(was) = before.get(root) else { continue };
        check_locks(&locks, *root, (&was.value, &document.value), &paths)?;
        let changes = changes(*root, document, was)?;
        etags.insert(root.name().to_owned(), was.etag + u64::from(!changes.is_empty()));
        all.extend(changes);
    }
    stage(tx, all)?;
    let message = format!("{} applied.", counted(applied, "change"));
    Output::data(message, &Patched { applied, etags })
}

/// Makes one change of a patch, unless it is under a lock.
fn make(
    document: &mut Document,
    locks: &Locks,
    path: &Path,
    op: Op,
    at: usize,
) -> Result<(), Fault> {
    let field = format!("ops[{at}].path");
    if let Some(lock) = locks.over(path) {
        return Err(locked(&field, path, &lock));
    }
    let refused = |refusal: PatchRefusal| {
        let allowed = refusal.allowed();
        let fault = Fault::invalid(format!("ops[{at}]: {refusal}")).at(&field);
        allowed.map_or(fault.clone(), |allowed| fault.allowing(allowed))
    };
    apply(&mut document.value, path, op.op, op.value, op.index).map_err(refused)
}

/// A change may reach what is held from above, or by moving the items of a list.
fn check_locks(
    locks: &Locks,
    root: Root,
    (before, after): (&Value, &Value),
    paths: &[Path],
) -> Result<(), Fault> {
    let Some(lock) = locks.broken(&Path::whole(root), before, after) else { return Ok(()) };
    // The change that came nearest to it is the one to leave out.
    let reaching = paths.iter().enumerate().filter(|(_, path)| path.parent().covers(&lock));
    let nearest = reaching.max_by_key(|(_, path)| path.below.len());
    let (at, path) = nearest.unwrap_or((0, &lock));
    Err(locked(&format!("ops[{at}].path"), path, &lock))
}

/// What makes a document what it became.
fn changes(root: Root, document: &Document, before: &Document) -> Result<Vec<Change>, Fault> {
    let bytes = document.bytes();
    if bytes > DOCUMENT_BYTES_MAX {
        let name = root.name();
        return Err(Fault::failed(format!(
            "{name} would have {bytes} bytes; at most {DOCUMENT_BYTES_MAX} fit. Delete something \
             first, or keep it in a file."
        )));
    }
    document.changes(root, before).map_err(unnamed)
}

/// Stages changes of documents, what counts them last.
fn stage(tx: &mut Transaction, mut changes: Vec<Change>) -> Result<(), Fault> {
    changes.sort_by_key(|change| change.key().is_some_and(|key| key.name().is_empty()));
    for change in changes {
        match change {
            Change::Put { key, value, .. } => tx.put(&key, &value)?,
            Change::Push { key, value, .. } => tx.push(&key, &value)?,
            Change::Remove { key } => tx.remove(&key)?,
            Change::Clear {} => {}
        }
    }
    Ok(())
}

/// A document that somebody changed since it was read is not written over.
fn check_etag(etag: Option<u64>, before: &BTreeMap<Root, Document>) -> Result<(), Fault> {
    let Some(etag) = etag else { return Ok(()) };
    if before.len() > 1 {
        let message = "etag: the paths are in two documents. Send a patch for each, or no etag.";
        return Err(Fault::invalid(message).at("etag"));
    }
    match before.iter().find(|(_, document)| document.etag != etag) {
        None => Ok(()),
        Some((root, document)) => {
            let (name, now) = (root.name(), document.etag);
            let message = format!(
                "{name} has etag {now}, not {etag}: it changed since you read it, and nothing was \
                 done. Read it with state_get, then patch it with etag {now}."
            );
            Err(domain("ETAG_MISMATCH", message).at("etag"))
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct FactsPropose {
    /// Where the fact belongs: a JSON pointer below /facts/, such as /facts/characters/anna/age.
    path: String,
    /// What it should be: any JSON value; null to forget the fact.
    value: Value,
    /// Why you think so, for the person who decides.
    reason: String,
    /// The workspace; leave it out.
    workspace_id: Option<String>,
}

/// What was proposed.
#[derive(Debug, Serialize, JsonSchema)]
struct Answered {
    proposal: ProposalId,
    path: String,
    /// What stands there meanwhile; null when nothing does.
    current: Value,
    status: String,
}

fn propose_spec() -> SpecDraft {
    let about = "Proposes a fact with a reason. A person decides; until then the facts stay as \
                 they are.";
    SpecDraft::new("facts_propose", about)
        .group(NAME)
        .effect(Effect::Staged)
        .returns::<Answered>()
        // What stands there is part of the proposal, so that a later commit sees a conflict.
        .touches(|_| {
            let (facts, proposals) = (Root::Facts.key()?, Root::Proposals.key()?);
            Ok(vec![(Access::Read, facts), (Access::Write, proposals)])
        })
        .example(
            "A city that a letter names.",
            json!({
                "path": "/facts/city", "value": "Lisbon",
                "reason": "The letter in the first chapter is from there.",
            }),
            json!({
                "proposal": "p1", "path": "/facts/city", "current": null, "status": "waiting",
            }),
        )
}

fn propose(tx: &mut Transaction, params: FactsPropose) -> Result<Output, Fault> {
    check_workspace(params.workspace_id.as_deref())?;
    let refused = |refusal: PathRefusal| refused_path("path", &refusal);
    let path = Path::inside(&params.path, &[Root::Facts]).map_err(refused)?;
    let reason = params.reason.trim().to_owned();
    let chars = reason.chars().count();
    if chars == 0 || chars > REASON_CHARS_MAX {
        let message = format!(
            "reason: has {chars} characters. Say in 1 to {REASON_CHARS_MAX} why a person should \
             believe this."
        );
        return Err(Fault::invalid(message).at("reason"));
    }
    let bytes = params.value.to_string().len() + reason.len();
    if bytes > PROPOSAL_BYTES_MAX {
        let message = format!(
            "value: has {bytes} bytes with its reason; at most {PROPOSAL_BYTES_MAX} can be shown \
             to a person. Propose smaller facts."
        );
        return Err(Fault::invalid(message).at("value"));
    }
    let state = &tx.project().state;
    if proposals(state).len() >= PROPOSALS_MAX {
        let message = format!(
            "{PROPOSALS_MAX} proposals wait for a person already. Go on without this one; they \
             must be decided first."
        );
        return Err(domain("PROPOSALS_FULL", message));
    }
    let facts = Document::of(state, Root::Facts);
    let current = path.find(&facts.value).cloned();
    let lock = Locks::of(state).over(&path);
    let id = ProposalId(last_proposal(state).0.saturating_add(1));
    let proposal = Proposal {
        path: path.to_string(),
        value: params.value,
        reason,
        by: tx.call().actor().clone(),
        session: tx.session().id.clone(),
        call: tx.call().id(),
        at: tx.now(),
        stood: current.as_ref().map(Digest::of_json),
    };
    tx.put(&proposal_key(id).map_err(unnamed)?, &proposal)?;
    tx.put(&Root::Proposals.key().map_err(unnamed)?, &id.0)?;
    let warning = lock.map(|lock| {
        format!("{lock} is locked: nothing changes there unless a person unlocks it first.")
    });
    let answer = Answered {
        proposal: id,
        path: proposal.path,
        current: current.unwrap_or_default(),
        status: "waiting".to_owned(),
    };
    let message = format!("Proposed as {id}. A person decides; the facts are unchanged.");
    Ok(Output { warnings: warning.into_iter().collect(), ..Output::data(message, &answer)? })
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct UiRender {
    /// What kind of thing to show, such as notice, form, list or panel.
    kind: String,
    /// Its title.
    title: String,
    /// A text below the title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// What else it needs, such as the fields of a form: any JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
}

fn render_spec() -> SpecDraft {
    let about = "Says what the user interface should show. It is kept at /ui_state/notice until the \
                 next one.";
    SpecDraft::new("ui_render", about)
        .group(NAME)
        .effect(Effect::Staged)
        .returns::<Patched>()
        .touches(|_| Ok(vec![(Access::Write, Root::UiState.key()?)]))
        .example(
            "A short notice.",
            json!({ "kind": "notice", "title": "The first chapter is ready." }),
            json!({ "applied": 1, "etags": { "ui_state": 1 } }),
        )
}

fn render(tx: &mut Transaction, params: UiRender) -> Result<Output, Fault> {
    let named = (1..=64).contains(&params.kind.len())
        && params.kind.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if !named {
        let message = "kind: write 1 to 64 small letters, digits or underscores, such as notice.";
        return Err(Fault::invalid(message).at("kind"));
    }
    if params.title.trim().is_empty() {
        return Err(Fault::invalid("title: must not be blank.").at("title"));
    }
    let shown = json!(params);
    let bytes = shown.to_string().len();
    if bytes > RENDER_BYTES_MAX {
        let message = format!(
            "This has {bytes} bytes; at most {RENDER_BYTES_MAX} are shown. Put the rest into the \
             draft and name its path."
        );
        return Err(Fault::invalid(message));
    }
    let before = Document::of(&tx.project().state, Root::UiState);
    let mut after = before.clone();
    if let Some(members) = after.value.as_object_mut() {
        members.insert("notice".to_owned(), shown);
    }
    let changes = changes(Root::UiState, &after, &before)?;
    let etag = before.etag + u64::from(!changes.is_empty());
    stage(tx, changes)?;
    let etags = BTreeMap::from([(Root::UiState.name().to_owned(), etag)]);
    Output::data("It is shown.", &Patched { applied: 1, etags })
}

/// One workspace per project: another one is not here. Some models send the name of the argument.
fn check_workspace(id: Option<&str>) -> Result<(), Fault> {
    let own = ["", "workspace_id", WORKSPACE_ID];
    match id.map(str::trim) {
        Some(id) if !own.contains(&id) => {
            let id: String = id.chars().take(80).collect();
            let message = format!(
                "There is no workspace {id:?}. This project has one, {WORKSPACE_ID}; leave \
                 workspace_id out."
            );
            let fault = domain("WORKSPACE_NOT_FOUND", message).at("workspace_id");
            Err(fault.allowing(vec![WORKSPACE_ID.to_owned()]))
        }
        Some(_) | None => Ok(()),
    }
}

/// The texts of a list of arguments, or of one field of each of its entries.
fn texts<'a>(args: &'a Args, name: &str, field: Option<&str>) -> Vec<&'a str> {
    let Some(Part::List(items)) = args.get(name) else { return Vec::new() };
    let text = |item: Part<'a>| match (item, field) {
        (Part::Object(mut members), Some(field)) => {
            members.find_map(|(name, part)| (name == field).then(|| part.as_str()).flatten())
        }
        (item, _) => item.as_str(),
    };
    items.filter_map(text).collect()
}

fn refused_path(field: &str, refusal: &PathRefusal) -> Fault {
    let fault = Fault::invalid(format!("{field}: {refusal}")).at(field);
    refusal.allowed().map_or(fault.clone(), |allowed| fault.allowing(allowed))
}

fn locked(field: &str, path: &Path, lock: &Path) -> Fault {
    let message = format!(
        "{field}: {path} is held by the lock on {lock}, and nothing was done. Leave it out; only a \
         person unlocks."
    );
    domain("PATH_LOCKED", message).at(field)
}

fn domain(code: &str, message: impl Into<String>) -> Fault {
    Fault::of(Trouble::new(Code::domain(code).unwrap_or(Code::TOOL_FAILED), message))
}

fn unnamed(refusal: KeyRefusal) -> Fault {
    Fault::invalid(refusal.to_string())
}
