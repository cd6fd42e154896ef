//! Decides what the four notes tools take and answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_kernel::flow::FlowLabels;
use toolgate_kernel::fold::Slot;
use toolgate_kernel::json::Document;
use toolgate_kernel::key::{Access, Key};
use toolgate_kernel::names::Family;
use toolgate_kernel::tool::{Effect, SpecDraft, SpecRefusal};
use toolgate_runtime::port::{Fault, Output, Tool};
use toolgate_runtime::{Nothing, Transaction, tool};

use super::{FAMILY, NAME};
use crate::text::{check_name, counted, not_there, words};

/// Most notes that one list shows.
const SHOWN_MAX: usize = 1_000;

/// The tools, in the order they are shown. Their examples tell one story, in the order write,
/// list, read, delete.
pub(super) fn all() -> Result<Vec<Arc<dyn Tool>>, SpecRefusal> {
    Ok(vec![
        tool(list_spec(), list)?,
        tool(read_spec(), read)?,
        tool(write_spec(), write)?,
        tool(delete_spec(), delete)?,
    ])
}

fn list_spec() -> SpecDraft {
    SpecDraft::new("list_notes", "Lists the keys of all notes, each with the kind of its value.")
        .group(NAME)
        .labels(FlowLabels::private())
        .returns::<BTreeMap<String, String>>()
        .example(
            "One note, an object with two fields.",
            json!({}),
            json!({ "character:anna": "object (2 keys)" }),
        )
}

fn list(tx: &mut Transaction, _: Nothing) -> Result<Output, Fault> {
    let notes = tx.list(&family()?)?;
    let count = notes.len();
    let hints: BTreeMap<String, String> =
        notes.into_iter().take(SHOWN_MAX).map(|(key, slot)| (key, hint(&slot))).collect();
    let message = match count.saturating_sub(SHOWN_MAX) {
        0 => format!("{}.", counted(count, "note")),
        more => format!("{count} notes; {more} of them are not shown."),
    };
    Output::data(message, &hints)
}

/// What kind of value a note has.
fn hint(slot: &Slot) -> String {
    match slot.as_one() {
        Some(Value::Object(map)) => format!("object ({} keys)", map.len()),
        Some(Value::Array(items)) => format!("array ({} items)", items.len()),
        Some(Value::String(text)) => format!("string ({} words)", words(text)),
        Some(Value::Bool(_)) => "boolean".to_owned(),
        Some(Value::Number(_)) => "number".to_owned(),
        Some(Value::Null) => "null".to_owned(),
        None => format!("array ({} items)", slot.as_list().map_or(0, |items| items.len())),
    }
}

#[derive(Deserialize, JsonSchema)]
struct NoteKey {
    /// The key of the note.
    key: String,
}

fn read_spec() -> SpecDraft {
    let about = "Reads the value of one note.";
    let draft = draft("read_notes", about, Effect::Read, Access::Read);
    draft.labels(FlowLabels::private()).example(
        "A character.",
        json!({ "key": "character:anna" }),
        json!({ "age": 34, "fear": "open water" }),
    )
}

fn read(tx: &mut Transaction, params: NoteKey) -> Result<Output, Fault> {
    check_name("key", &params.key)?;
    match tx.get(&note(&params.key)?)? {
        Some(slot) => Output::data("", &slot.value()),
        None => Err(missing(tx, &params.key)?),
    }
}

#[derive(Deserialize, JsonSchema)]
struct WriteNotes {
    /// The key of the note: 1 to 200 characters.
    key: String,
    /// What is kept: any JSON value, also null.
    data: Value,
}

fn write_spec() -> SpecDraft {
    let about = "Keeps a value under a key. A note that is there already is replaced.";
    draft("write_notes", about, Effect::Staged, Access::Write)
        .argument_alias("data", "value")
        .argument_alias("data", "content")
        .example(
            "A character.",
            json!({ "key": "character:anna", "data": { "age": 34, "fear": "open water" } }),
            Value::Null,
        )
}

fn write(tx: &mut Transaction, params: WriteNotes) -> Result<Output, Fault> {
    check_name("key", &params.key)?;
    tx.put(&note(&params.key)?, &params.data)?;
    Ok(Output::message(format!("wrote notes key '{}'", params.key)))
}

fn delete_spec() -> SpecDraft {
    draft("delete_notes", "Deletes one note.", Effect::Staged, Access::Write).example(
        "A character that is not needed any more.",
        json!({ "key": "character:anna" }),
        Value::Null,
    )
}

fn delete(tx: &mut Transaction, params: NoteKey) -> Result<Output, Fault> {
    check_name("key", &params.key)?;
    let key = note(&params.key)?;
    if tx.get(&key)?.is_none() {
        return Err(missing(tx, &params.key)?);
    }
    tx.remove(&key)?;
    Ok(Output::message(format!("deleted notes key '{}'", params.key)))
}

/// What the three with a key have in common.
fn draft(name: &str, about: &str, effect: Effect, access: Access) -> SpecDraft {
    let touches = move |args: &Document| {
        let key = args.text("key").unwrap_or_default();
        // A key that cannot be is refused by the handler, in words that help.
        let key = Family::parse(FAMILY).ok().and_then(|family| Key::new(family, key).ok());
        Ok(key.map(|key| (access, key)).into_iter().collect())
    };
    SpecDraft::new(name, about)
        .group(NAME)
        .effect(effect)
        .argument_alias("key", "name")
        .argument_alias("key", "note_key")
        .touches(touches)
}

fn missing(tx: &Transaction, key: &str) -> Result<Fault, Fault> {
    let keys = tx.list(&family()?)?.into_iter().map(|(key, _)| key).collect();
    let what = format!("notes key '{key}' not found");
    let advice = "Use one of the keys that are listed.";
    Ok(not_there(&what, advice, "There are no notes yet.", keys).at("key"))
}

fn family() -> Result<Family, Fault> {
    Family::parse(FAMILY).map_err(|refusal| Fault::failed(refusal.to_string()))
}

fn note(key: &str) -> Result<Key, Fault> {
    Key::new(family()?, key).map_err(|refusal| Fault::invalid(refusal.to_string()).at("key"))
}
