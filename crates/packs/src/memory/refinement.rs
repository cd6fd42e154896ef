//! Decides how memories are put in order: so many changes in a session, each written down as it was
//! before and after, and all of them taken back when too much of the core would be lost.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_kernel::config::{MemoryText, Refinement};
use toolgate_kernel::json::{Document, Part};
use toolgate_kernel::key::{Access, Key, KeyRefusal};
use toolgate_kernel::tool::{ACTION, SpecRefusal};
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Output, Tool};

use super::store::{Finder, Kind, Memory, WHOLE, checked, core_chars, find, id_of, memory_key};
use super::tools::touched;
use crate::domain::{Domain, answer, given, key};

/// How far a refinement has come, for one session.
pub(super) const SESSION: &str = "refinement";

/// What it did, step by step.
pub(super) const STEPS: &str = "refinement_steps";

/// Changes that succeed in one session; what fails does not count.
pub const MUTATIONS_MAX: u64 = 10;

/// Steps of a session, with those that do not count.
const STEPS_MAX: usize = 1_000;

const IDS_MAX: usize = 50;

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// Words to look for.
    query: Option<String>,
    /// The id of a memory.
    id: Option<String>,
    /// The ids of several memories, at most 50.
    ids: Option<Vec<String>>,
    /// What the memory shall say, at most 2000 characters.
    content: Option<String>,
    /// What was done and why.
    summary: Option<String>,
    /// Most results that are shown: 1 to 100.
    limit: Option<u64>,
}

/// A refinement as the session keeps it.
#[derive(Serialize, Deserialize)]
struct State {
    status: Status,
    mutations: u64,
    /// Characters of all core memories without its changes, and with them.
    core_before: u64,
    core_now: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Open,
    Completed,
    Terminated,
}

/// One step, as the log has it.
#[derive(Serialize, Deserialize)]
struct Step {
    action: String,
    changes: Vec<Changed>,
}

/// A memory before and after a step; null where there was or is none.
#[derive(Serialize, Deserialize)]
struct Changed {
    id: String,
    before: Option<Memory>,
    after: Option<Memory>,
}

/// The tool `refinement`.
pub(super) fn tool(finder: &Arc<Finder>, text: MemoryText) -> Result<Arc<dyn Tool>, SpecRefusal> {
    let (finder, percent) = (Arc::clone(finder), text.core_percent_min.clamp(1, 100));
    let about = "Puts memories in order within bounds: search, consolidate, update, delete, \
                 protect, complete.";
    let mut domain = Domain::new(SESSION, about).action(
        "search",
        "Finds memories by their words.",
        &["query"],
        move |tx, params: Params| {
            begun(tx)?;
            finder.search(
                tx,
                given(params.query.as_deref()).unwrap_or_default(),
                None,
                params.limit,
            )
        },
    );
    domain = match text.refinement {
        Refinement::Full => domain
            .action(
                "consolidate",
                "Makes one memory of several.",
                &["ids", "content"],
                move |tx, params| consolidate(tx, &params, percent),
            )
            .action("update", "Rewrites a memory.", &["id", "content"], move |tx, params| {
                update(tx, &params, percent)
            }),
        Refinement::DedupOnly => {
            let why = "Here a refinement only removes what is there twice.";
            domain.absent("consolidate", why).absent("update", why)
        }
    };
    domain
        .action("delete", "Removes memories by id or ids.", &[], move |tx, params| {
            delete(tx, params, percent)
        })
        .action("protect", "Keeps a memory from being removed or rewritten.", &["id"], protect)
        .action("complete", "Ends the refinement.", &["summary"], complete)
        .reads(&["search"])
        .touches(touches)
        .describe(|draft| {
            let input = json!({ "action": "complete", "summary": "Nothing was there twice." });
            let output = json!({ "type": "refinement_completed", "mutations": 0, "core_before": 0,
                "core_after": 0, "summary": "Nothing was there twice." });
            draft.group(super::NAME).example("Nothing had to be done.", input, output)
        })
        .tool()
}

fn touches(args: &Document) -> Result<Vec<(Access, Key)>, KeyRefusal> {
    let session = Key::parse(SESSION)?;
    let action = args.text(ACTION);
    if action == Some("search") {
        return Ok(vec![(Access::Read, session)]);
    }
    let mut touches = vec![
        (Access::Write, Key::parse(WHOLE)?),
        (Access::Write, session),
        (Access::Write, Key::parse(STEPS)?),
    ];
    let listed = match args.get("ids") {
        Some(Part::List(ids)) => ids.filter_map(|id| id.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    };
    let written = args.text("content").map(id_of).filter(|_| action != Some("complete"));
    let ids = listed.into_iter().chain(args.text("id").map(str::to_owned)).chain(written);
    for key in ids.take(IDS_MAX + 2).filter_map(|id| touched(Some(id))) {
        let touch = (Access::Write, key);
        if !touches.contains(&touch) {
            touches.push(touch);
        }
    }
    Ok(touches)
}

fn consolidate(tx: &mut Transaction, params: &Params, percent: u64) -> Result<Output, Fault> {
    let mut state = mutable(tx)?;
    let (merged, skipped) = chosen(tx, params)?;
    if merged.len() < 2 {
        return Err(Fault::failed("At least two memories that are not protected are needed")
            .with("skipped", skipped));
    }
    let core = merged.iter().any(|memory| memory.kind == Kind::Core);
    let memory = Memory {
        kind: if core { Kind::Core } else { Kind::Journal },
        content: checked(params.content.as_deref())?,
        saved_at: tx.now(),
        protected: false,
    };
    let ids: Vec<String> = merged.iter().map(Memory::id).collect();
    let shown = json!({ "memory": memory.shown(), "merged": ids, "skipped": skipped });
    replace(tx, &mut state, "consolidate", merged, Some(memory))?;
    settle(tx, state, percent, "memories_consolidated", shown)
}

fn update(tx: &mut Transaction, params: &Params, percent: u64) -> Result<Output, Fault> {
    let mut state = mutable(tx)?;
    let before = find(tx, given(params.id.as_deref()).unwrap_or_default())?;
    refuse_protected(&before)?;
    let memory = Memory { content: checked(params.content.as_deref())?, ..before.clone() };
    if memory.content == before.content {
        return Err(Fault::failed("The memory says so already").with("id", memory.id()));
    }
    let shown = json!({ "memory": memory.shown(), "replaced": before.id() });
    replace(tx, &mut state, "update", vec![before], Some(memory))?;
    settle(tx, state, percent, "memory_updated", shown)
}

fn delete(tx: &mut Transaction, mut params: Params, percent: u64) -> Result<Output, Fault> {
    let mut state = mutable(tx)?;
    if params.ids.as_ref().is_none_or(Vec::is_empty) {
        let Some(id) = given(params.id.as_deref()) else {
            return Err(Fault::invalid("id or ids is required for delete action")
                .at("id")
                .with("required_param", "id"));
        };
        params.ids = Some(vec![id.to_owned()]);
    }
    let (gone, skipped) = chosen(tx, &params)?;
    if gone.is_empty() {
        return Err(Fault::failed("Protected memories cannot be deleted").with("skipped", skipped));
    }
    let ids: Vec<String> = gone.iter().map(Memory::id).collect();
    replace(tx, &mut state, "delete", gone, None)?;
    settle(tx, state, percent, "memories_deleted", json!({ "deleted": ids, "skipped": skipped }))
}

fn protect(tx: &mut Transaction, params: Params) -> Result<Output, Fault> {
    let state = current(tx)?;
    let before = find(tx, given(params.id.as_deref()).unwrap_or_default())?;
    if before.protected {
        let id = before.id();
        return Err(Fault::failed(format!("Memory '{id}' is protected already")).with("id", id));
    }
    let memory = Memory { protected: true, ..before.clone() };
    memory.keep(tx)?;
    let shown = json!({ "memory": memory.shown() });
    let changed = Changed { id: memory.id(), before: Some(before), after: Some(memory) };
    note(tx, "protect", vec![changed])?;
    tx.put(&key(SESSION)?, &state)?;
    answer("memory_protected", "", &shown)
}

fn complete(tx: &mut Transaction, params: Params) -> Result<Output, Fault> {
    let mut state = current(tx)?;
    state.status = Status::Completed;
    note(tx, "complete", Vec::new())?;
    tx.put(&key(SESSION)?, &state)?;
    let shown = json!({ "mutations": state.mutations, "core_before": state.core_before,
        "core_after": state.core_now, "summary": params.summary });
    answer("refinement_completed", "", &shown)
}

/// The refinement of this session, begun when there is none.
fn current(tx: &Transaction) -> Result<State, Fault> {
    let core = core_chars(tx);
    Ok(match begun(tx)? {
        Some(state) => state.beside_others(core),
        None => State { status: Status::Open, mutations: 0, core_before: core, core_now: core },
    })
}

impl State {
    /// Takes in what others did since its last step. What they saved was never its to lose, and what
    /// they forgot it did not lose: its own share of the loss stays what it was.
    fn beside_others(mut self, core: u64) -> Self {
        match core.checked_sub(self.core_now) {
            Some(saved) => self.core_before = self.core_before.saturating_add(saved),
            None => {
                let share = u128::from(self.core_before) * u128::from(core);
                let share = share / u128::from(self.core_now.max(1));
                self.core_before = u64::try_from(share).unwrap_or(u64::MAX);
            }
        }
        self.core_now = core;
        self
    }
}

/// The refinement of this session, unless it is over. A session has one.
fn begun(tx: &Transaction) -> Result<Option<State>, Fault> {
    let state: Option<State> = tx.load(&key(SESSION)?)?;
    match state.as_ref().map(|state| state.status) {
        Some(Status::Terminated) => Err(Fault::failed("Session terminated")),
        Some(Status::Completed) => Err(Fault::failed("Session completed")),
        Some(Status::Open) | None => Ok(state),
    }
}

/// The same for one more change.
fn mutable(tx: &Transaction) -> Result<State, Fault> {
    let state = current(tx)?;
    if state.mutations >= MUTATIONS_MAX {
        let message =
            format!("Mutation limit reached ({MUTATIONS_MAX} per session). Call complete");
        return Err(Fault::failed(message).with("mutations", state.mutations));
    }
    Ok(state)
}

/// The memories that are named: those that may be changed, and the ids of protected ones.
fn chosen(tx: &Transaction, params: &Params) -> Result<(Vec<Memory>, Vec<String>), Fault> {
    let mut ids = params.ids.clone().unwrap_or_default();
    if ids.len() > IDS_MAX {
        let message = format!("ids has {} entries; use at most {IDS_MAX}", ids.len());
        return Err(Fault::invalid(message).at("ids").with("field", "ids"));
    }
    ids.sort();
    ids.dedup();
    let (mut free, mut skipped) = (Vec::new(), Vec::new());
    for id in ids {
        let memory = find(tx, &id)?;
        if memory.protected { skipped.push(id) } else { free.push(memory) }
    }
    Ok((free, skipped))
}

fn refuse_protected(memory: &Memory) -> Result<(), Fault> {
    if !memory.protected {
        return Ok(());
    }
    let id = memory.id();
    Err(Fault::failed(format!("Memory '{id}' is protected")).at("id").with("id", id))
}

/// Puts one memory, or none, in the place of others.
fn replace(
    tx: &mut Transaction,
    state: &mut State,
    action: &str,
    gone: Vec<Memory>,
    new: Option<Memory>,
) -> Result<(), Fault> {
    let mut changes = Vec::new();
    for before in gone {
        tx.remove(&memory_key(&before.id())?)?;
        changes.push(Changed { id: before.id(), before: Some(before), after: None });
    }
    if let Some(mut after) = new {
        let id = after.id();
        // A memory that says the same already stays what it was, and is core if one of both is.
        let known: Option<Memory> = tx.load(&memory_key(&id)?)?;
        let protected = known.as_ref().is_some_and(|known| known.protected);
        let core = known.as_ref().is_some_and(|known| known.kind == Kind::Core);
        after.protected = protected;
        after.kind = if core { Kind::Core } else { after.kind };
        after.keep(tx)?;
        // What was removed above and has come back is one change.
        match changes.iter_mut().find(|change| change.id == id) {
            Some(change) => change.after = Some(after),
            None => changes.push(Changed { id, before: known, after: Some(after) }),
        }
    }
    let core = |memory: &Option<Memory>| {
        let memory = memory.as_ref().filter(|memory| memory.kind == Kind::Core);
        memory.map_or(0, Memory::chars)
    };
    for change in &changes {
        state.core_now =
            (state.core_now + core(&change.after)).saturating_sub(core(&change.before));
    }
    state.mutations += 1;
    note(tx, action, changes)
}

/// Writes a step down, as it was before and after.
fn note(tx: &mut Transaction, action: &str, changes: Vec<Changed>) -> Result<(), Fault> {
    if steps(tx)?.len() >= STEPS_MAX {
        return Err(Fault::failed(format!(
            "A refinement has at most {STEPS_MAX} steps. Call complete"
        )));
    }
    tx.push(&key(STEPS)?, &Step { action: action.to_owned(), changes })?;
    let whole: u64 = tx.load(&key(WHOLE)?)?.unwrap_or_default();
    tx.put(&key(WHOLE)?, &(whole + 1))
}

fn steps(tx: &Transaction) -> Result<Vec<Step>, Fault> {
    Ok(tx.load(&key(STEPS)?)?.unwrap_or_default())
}

/// Answers what a change did, unless too much of the core is lost by it: then all is taken back.
fn settle(
    tx: &mut Transaction,
    mut state: State,
    percent: u64,
    kind: &str,
    shown: Value,
) -> Result<Output, Fault> {
    if state.core_now * 100 >= state.core_before * percent {
        tx.put(&key(SESSION)?, &state)?;
        let mut shown = shown;
        if let Value::Object(shown) = &mut shown {
            shown.insert("mutations_left".to_owned(), (MUTATIONS_MAX - state.mutations).into());
        }
        return answer(kind, "", &shown);
    }
    let (lost, before) = (state.core_now, state.core_before);
    let kept = take_back(tx)?;
    let why = format!(
        "A refinement was taken back: it would have left {lost} of {before} characters of the core \
         memories, less than {percent} percent. Its {} undone.",
        match state.mutations {
            1 => "one change is".to_owned(),
            many => format!("{many} changes are"),
        }
    );
    let entry =
        Memory { kind: Kind::Journal, content: why.clone(), saved_at: tx.now(), protected: false };
    entry.keep(tx)?;
    note(tx, "taken_back", Vec::new())?;
    (state.status, state.core_now) = (Status::Terminated, before);
    tx.put(&key(SESSION)?, &state)?;
    let shown = json!({ "reason": why, "undone": state.mutations, "not_restored": kept, "journal": entry.id() });
    answer("refinement_terminated", &why, &shown)
}

/// Puts every memory back as it was before the first step. One that somebody else changed since
/// stays as it is, and is told.
fn take_back(tx: &mut Transaction) -> Result<Vec<String>, Fault> {
    let mut kept = Vec::new();
    for step in steps(tx)?.into_iter().rev() {
        for Changed { id, before, after } in step.changes.into_iter().rev() {
            let now: Option<Memory> = tx.load(&memory_key(&id)?)?;
            match before {
                _ if now != after => kept.push(id),
                Some(before) => before.keep(tx)?,
                None => tx.remove(&memory_key(&id)?)?,
            }
        }
    }
    Ok(kept)
}
