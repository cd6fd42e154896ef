//! Decides what the actions of the tool `memory` take and answer.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_kernel::json::Document;
use toolgate_kernel::key::{Access, Key, KeyRefusal};
use toolgate_kernel::names::Family;
use toolgate_kernel::tool::{ACTION, SpecRefusal};
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Output, Tool};

use super::NAME;
use super::store::{
    Finder, Kind, MEMORIES_MAX, MEMORY, Memory, checked, count, find, id_of, memory_key, recalled,
};
use crate::domain::{Domain, answer, fitting, given};

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// What is to be remembered, at most 2000 characters.
    content: Option<String>,
    /// journal (fades after a week; the usual one) or core (stays); of a search, which are found.
    kind: Option<Kind>,
    /// The id of a memory.
    id: Option<String>,
    /// Words to look for.
    query: Option<String>,
    /// Most results that are shown: 1 to 100.
    limit: Option<u64>,
}

/// The tool `memory`.
pub(super) fn tool(finder: &Arc<Finder>) -> Result<Arc<dyn Tool>, SpecRefusal> {
    let finder = Arc::clone(finder);
    Domain::new(
        NAME,
        "Remembers short texts for later conversations: save, recall, search, forget.",
    )
    .action("save", "Remembers a text.", &["content"], save)
    .action("recall", "Shows a memory, or the core and the journal of the week.", &[], recall)
    .action("search", "Finds memories by their words.", &["query"], move |tx, params: Params| {
        let query = given(params.query.as_deref()).unwrap_or_default();
        finder.search(tx, query, params.kind, params.limit)
    })
    .action("forget", "Removes a memory.", &["id"], forget)
    .reads(&["recall", "search"])
    .touches(touches)
    .describe(|draft| {
        let input = json!({ "action": "search", "query": "anna fears" });
        let output =
            json!({ "type": "memory_results", "query": "anna fears", "results": [], "found": 0 });
        draft.example("Nothing is known yet.", input, output)
    })
    .tool()
}

fn touches(args: &Document) -> Result<Vec<(Access, Key)>, KeyRefusal> {
    let id = args.text("id").map(str::to_owned);
    let (access, id) = match args.text(ACTION) {
        Some("save") => (Access::Write, args.text("content").map(id_of)),
        Some("forget") => (Access::Write, id),
        Some("recall") => (Access::Read, id),
        _ => return Ok(Vec::new()),
    };
    Ok(touched(id).map(|key| (access, key)).into_iter().collect())
}

/// The key of a memory, unless there can be none: the handler says so in words that help.
pub(super) fn touched(id: Option<String>) -> Option<Key> {
    Family::parse(MEMORY).ok().and_then(|family| Key::new(family, &id?).ok())
}

fn save(tx: &mut Transaction, params: Params) -> Result<Output, Fault> {
    let content = checked(params.content.as_deref())?;
    let kind = params.kind.unwrap_or(Kind::Journal);
    let known: Option<Memory> = tx.load(&memory_key(&id_of(&content))?)?;
    if known.is_none() && count(tx) >= MEMORIES_MAX {
        let message = format!("There are {MEMORIES_MAX} memories. Forget some first");
        return Err(Fault::failed(message));
    }
    let new = known.is_none();
    let mut memory =
        known.unwrap_or(Memory { kind, content, saved_at: tx.now(), protected: false });
    if kind == Kind::Core {
        memory.kind = kind;
    }
    memory.keep(tx)?;
    answer("memory_saved", "", &json!({ "memory": memory.shown(), "new": new }))
}

fn recall(tx: &mut Transaction, params: Params) -> Result<Output, Fault> {
    if let Some(id) = given(params.id.as_deref()) {
        return answer("memory", "", &json!({ "memory": find(tx, id)?.shown() }));
    }
    let limit = usize::try_from(params.limit.unwrap_or(50).clamp(1, 100)).unwrap_or(1);
    let (memories, total) = recalled(tx, params.kind, limit);
    let (shown, _) = fitting(tx, memories.iter().map(Memory::shown))?;
    answer("memories", "", &json!({ "memories": shown, "total": total }))
}

fn forget(tx: &mut Transaction, params: Params) -> Result<Output, Fault> {
    let id = given(params.id.as_deref()).unwrap_or_default();
    let memory = find(tx, id)?;
    if memory.protected {
        return Err(Fault::failed(format!("Memory '{id}' is protected")).at("id").with("id", id));
    }
    tx.remove(&memory_key(id)?)?;
    answer("memory_forgotten", "", &json!({ "memory": memory.shown() }))
}
