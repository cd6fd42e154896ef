//! Decides what a memory is, how it is named, and how memories are found.

use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::fold::{Project, Shelf, Slot};
use toolgate_kernel::key::Key;
use toolgate_kernel::time::Timestamp;
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Output};

use super::index::Index;
use crate::domain::{answer, check_length, fitting, key};

/// The memories: `memory:<id>`.
pub(super) const MEMORY: &str = "memory";

/// What every step of a refinement changes, so that it may put any memory back. Saving and
/// forgetting name their one memory instead, so that sessions do so side by side.
pub(super) const WHOLE: &str = "refinements";

/// Most memories of a project.
pub const MEMORIES_MAX: usize = 100_000;

/// Longest memory, in characters.
pub const CONTENT_CHARS_MAX: usize = 2_000;

/// Results that a search shows when it is not said how many.
const SHOWN: u64 = 10;
const SHOWN_MAX: u64 = 100;

/// Days after which a journal entry is no longer recalled by itself.
const FADES_DAYS: u64 = 7;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Journal,
    Core,
}

/// A memory as it is kept. Its id is made of its content, so the same text is one memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Memory {
    pub(super) kind: Kind,
    pub(super) content: String,
    pub(super) saved_at: Timestamp,
    #[serde(default)]
    pub(super) protected: bool,
}

impl Memory {
    pub(super) fn id(&self) -> String {
        id_of(&self.content)
    }

    pub(super) fn chars(&self) -> u64 {
        u64::try_from(self.content.chars().count()).unwrap_or(u64::MAX)
    }

    /// The memory as an answer shows it.
    pub(super) fn shown(&self) -> Value {
        json!({
            "id": self.id(),
            "kind": self.kind,
            "content": self.content,
            "protected": self.protected,
            "saved_at": self.saved_at.to_string(),
        })
    }

    pub(super) fn keep(&self, tx: &mut Transaction) -> Result<(), Fault> {
        tx.put(&memory_key(&self.id())?, self)
    }
}

/// The id of a memory with this content.
pub(super) fn id_of(content: &str) -> String {
    let digest = Digest::of(content.trim().as_bytes()).to_string();
    format!("m{}", digest.get(..12).unwrap_or(&digest))
}

pub(super) fn memory_key(id: &str) -> Result<Key, Fault> {
    key(&format!("{MEMORY}:{id}"))
}

/// The content of a new memory, in the form that is kept.
pub(super) fn checked(content: Option<&str>) -> Result<String, Fault> {
    let content = content.unwrap_or_default().trim();
    check_length("content", content, CONTENT_CHARS_MAX)?;
    Ok(content.to_owned())
}

pub(super) fn find(tx: &Transaction, id: &str) -> Result<Memory, Fault> {
    let missing = || {
        let shown: String = id.chars().take(80).collect();
        let message = format!("There is no memory '{shown}'. Search for it");
        Fault::failed(message).at("id").with("id", shown)
    };
    let Ok(key) = memory_key(id) else { return Err(missing()) };
    tx.load(&key)?.ok_or_else(missing)
}

/// Characters of all core memories as they were when the call began. They are only counted, so none
/// is read in full.
pub(super) fn core_chars(tx: &Transaction) -> u64 {
    let shelf = tx.project().state.shelf(MEMORY).into_iter();
    let values = shelf.flat_map(Shelf::iter).filter_map(|(_, slot)| slot.as_one());
    let core = values.filter(|value| value.get("kind").and_then(Value::as_str) == Some("core"));
    let contents = core.filter_map(|value| value.get("content")?.as_str());
    contents.map(|content| u64::try_from(content.chars().count()).unwrap_or(u64::MAX)).sum()
}

/// Every memory of a project.
pub(super) fn kept(project: &Project) -> impl Iterator<Item = Memory> {
    let shelf = project.state.shelf(MEMORY).into_iter();
    shelf.flat_map(Shelf::iter).filter_map(|(_, slot)| read(slot))
}

pub(super) fn count(tx: &Transaction) -> usize {
    tx.project().state.shelf(MEMORY).map_or(0, Shelf::len)
}

fn read(slot: &Slot) -> Option<Memory> {
    Memory::deserialize(slot.as_one()?).ok()
}

/// Core memories and the journal of the last days, the newest first: so many of them, and how many
/// there are. Only those that are shown are read in full.
pub(super) fn recalled(tx: &Transaction, kind: Option<Kind>, limit: usize) -> (Vec<Memory>, usize) {
    let now = tx.now();
    let shelf = tx.project().state.shelf(MEMORY).into_iter();
    let slots = shelf.flat_map(Shelf::iter).filter_map(|(_, slot)| slot.as_one());
    let mut found: Vec<(bool, Timestamp, &str, &Value)> = slots
        .filter_map(|value| {
            let journal = value.get("kind")?.as_str()? == "journal";
            let saved_at = Timestamp(value.get("saved_at")?.as_i64()?);
            let wanted = kind.is_none_or(|kind| journal == (kind == Kind::Journal));
            let faded = journal && now.ms_since(saved_at) >= FADES_DAYS * 86_400_000;
            let content = value.get("content")?.as_str()?;
            (wanted && !faded).then_some((journal, saved_at, content, value))
        })
        .collect();
    let total = found.len();
    found.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)).then_with(|| a.2.cmp(b.2)));
    let shown = found.into_iter().take(limit);
    (shown.filter_map(|(.., value)| Memory::deserialize(value).ok()).collect(), total)
}

/// Finds memories by their words.
#[derive(Default)]
pub(super) struct Finder {
    index: Mutex<Index>,
}

impl Finder {
    /// What a search answers.
    pub(super) fn search(
        &self,
        tx: &Transaction,
        query: &str,
        kind: Option<Kind>,
        limit: Option<u64>,
    ) -> Result<Output, Fault> {
        let none = Shelf::default();
        let shelf = tx.project().state.shelf(MEMORY).unwrap_or(&none);
        let limit = usize::try_from(limit.unwrap_or(SHOWN).clamp(1, SHOWN_MAX)).unwrap_or(1);
        let (found, total) = {
            let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
            index.update(shelf, |slot| {
                let Memory { kind, content, .. } = read(slot)?;
                Some((content, kind == Kind::Core))
            });
            index.search(query, kind.map(|kind| kind == Kind::Core), limit)
        };
        let shown = found.iter().filter_map(|found| {
            let mut shown = read(shelf.get(&found.name)?)?.shown();
            if let Value::Object(shown) = &mut shown {
                // Two digits tell enough.
                let score = (found.score * 100.0).round() / 100.0;
                shown.insert("score".to_owned(), json!(score));
            }
            Some(shown)
        });
        let (results, _) = fitting(tx, shown)?;
        answer("memory_results", "", &json!({ "query": query, "results": results, "found": total }))
    }
}
