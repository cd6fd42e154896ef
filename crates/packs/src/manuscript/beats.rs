//! Decides what the tools for storyline, chapter and beat take and answer. A beat is a section.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_kernel::flow::FlowLabels;
use toolgate_kernel::json::Document;
use toolgate_kernel::key::Access;
use toolgate_kernel::tool::{Effect, SpecDraft, SpecRefusal};
use toolgate_runtime::port::{Fault, Output, Tool};
use toolgate_runtime::{Transaction, tool};

use super::block::{Block, Name, kept_text};
use super::read::{blocks, key};
use super::write::{begin, checked_name, content, find, finish, insert, keep, whole};
use crate::text::{counted, not_there, words};

const GROUP: &str = "beats";

/// The tools, in the order they are shown. Their examples tell one story, in the order add,
/// append, update, read.
pub(super) fn all() -> Result<Vec<Arc<dyn Tool>>, SpecRefusal> {
    Ok(vec![
        tool(add_spec(), add)?,
        tool(append_spec(), append)?,
        tool(update_spec(), update)?,
        tool(read_spec(), read)?,
    ])
}

#[derive(Deserialize, JsonSchema)]
struct BeatText {
    /// The storyline.
    storyline: String,
    /// The chapter of the storyline.
    chapter: String,
    /// The beat of the chapter.
    beat: String,
    /// The text.
    content: String,
}

#[derive(Deserialize, JsonSchema)]
struct BeatName {
    /// The storyline.
    storyline: String,
    /// The chapter of the storyline.
    chapter: String,
    /// The beat of the chapter.
    beat: String,
}

fn add_spec() -> SpecDraft {
    let about = "Adds a beat at the end of its chapter. Storyline and chapter are made when they \
                 are not there.";
    writing("add_beat", about).example(
        "The first beat of a storyline.",
        json!({ "storyline": "Main", "chapter": "One", "beat": "Dawn", "content": "It was early." }),
        Value::Null,
    )
}

fn add(tx: &mut Transaction, params: BeatText) -> Result<Output, Fault> {
    let name = name(&params.storyline, &params.chapter, &params.beat)?;
    let text = content(&params.content)?;
    let blocks = begin(tx)?;
    if find(&blocks, &name).is_some() {
        let advice = "Change it with update_beat or append_to_beat, or use another name.";
        let what = format!("beat '{name}' already exists");
        return Err(not_there(&what, advice, "", beats(&blocks)).at("beat"));
    }
    insert(tx, &blocks, place(&blocks, &name), &Name::Section(name.clone()), &text)?;
    finish(tx)?;
    Ok(Output::message(format!("added beat '{name}' ({})", counted(words(&text), "word"))))
}

/// Where a new beat goes: after its chapter, else after its storyline, else at the end.
fn place(blocks: &[Block], name: &str) -> usize {
    let parts = super::block::beat(name);
    let last = |alike: &dyn Fn(&str, &str) -> bool| {
        let beat = |block: &Block| block.beat().is_some_and(|(s, c, _)| alike(s, c));
        blocks.iter().rposition(beat).map(|index| index + 1)
    };
    let Some((storyline, chapter, _)) = parts else { return blocks.len() };
    last(&|s, c| s == storyline && c == chapter)
        .or_else(|| last(&|s, _| s == storyline))
        .unwrap_or(blocks.len())
}

fn update_spec() -> SpecDraft {
    writing("update_beat", "Replaces the whole text of one beat. It stays where it is.").example(
        "A better beginning.",
        json!({ "storyline": "Main", "chapter": "One", "beat": "Dawn", "content": "It was late." }),
        Value::Null,
    )
}

fn update(tx: &mut Transaction, params: BeatText) -> Result<Output, Fault> {
    let name = name(&params.storyline, &params.chapter, &params.beat)?;
    let text = content(&params.content)?;
    let blocks = begin(tx)?;
    let block = find(&blocks, &name).ok_or_else(|| no_beat(&blocks, &name))?;
    keep(tx, &block.name, block.at, &text)?;
    finish(tx)?;
    Ok(Output::message(format!("updated beat '{name}' ({})", counted(words(&text), "word"))))
}

fn append_spec() -> SpecDraft {
    writing("append_to_beat", "Adds a paragraph at the end of one beat.").example(
        "One more paragraph.",
        json!({ "storyline": "Main", "chapter": "One", "beat": "Dawn", "content": "Birds sang." }),
        Value::Null,
    )
}

fn append(tx: &mut Transaction, params: BeatText) -> Result<Output, Fault> {
    let name = name(&params.storyline, &params.chapter, &params.beat)?;
    let more = content(&params.content)?;
    if more.trim().is_empty() {
        return Err(Fault::invalid("content: must not be blank; send the text.").at("content"));
    }
    let blocks = begin(tx)?;
    let block = find(&blocks, &name).ok_or_else(|| no_beat(&blocks, &name))?;
    let text = match block.text() {
        "" => more.clone(),
        text => format!("{text}\n\n{more}"),
    };
    keep(tx, &block.name, block.at, &text)?;
    finish(tx)?;
    let (count, total) = (counted(words(&more), "word"), words(&text));
    Ok(Output::message(format!("appended {count} to beat '{name}' (total: {total})")))
}

fn read_spec() -> SpecDraft {
    SpecDraft::new("read_beat", "Reads the text of one beat.")
        .group(GROUP)
        .effect(Effect::Read)
        .labels(FlowLabels::private())
        .returns::<String>()
        .touches(|args| Ok(touch(args, Access::Read)))
        .example(
            "A beat.",
            json!({ "storyline": "Main", "chapter": "One", "beat": "Dawn" }),
            json!("It was late."),
        )
}

fn read(tx: &mut Transaction, params: BeatName) -> Result<Output, Fault> {
    let name = name(&params.storyline, &params.chapter, &params.beat)?;
    match tx.get(&key(&Name::Section(name.clone()))?)? {
        Some(slot) => Output::data("", &kept_text(&slot)),
        None => Err(no_beat(&blocks(tx)?, &name)),
    }
}

/// What the three that write have in common.
fn writing(name: &str, about: &str) -> SpecDraft {
    SpecDraft::new(name, about)
        .group(GROUP)
        .effect(Effect::Staged)
        .argument_alias("content", "text")
        .touches(|args| Ok([touch(args, Access::Write), whole()?].concat()))
}

/// The section of a beat.
fn touch(args: &Document, access: Access) -> Vec<(Access, toolgate_kernel::key::Key)> {
    let part = |field: &str| args.text(field).unwrap_or_default().trim();
    let name = [part("storyline"), part("chapter"), part("beat")].join("/");
    Name::Section(name).key().ok().map(|key| (access, key)).into_iter().collect()
}

/// The name of a beat: its three parts, none of which may look like two.
fn name(storyline: &str, chapter: &str, beat: &str) -> Result<String, Fault> {
    let parts = [("storyline", storyline), ("chapter", chapter), ("beat", beat)];
    for (field, part) in parts {
        checked_name(field, part.trim())?;
        if part.contains('/') {
            let message = format!("{field}: contains a slash; leave it out.");
            return Err(Fault::invalid(message).at(field));
        }
    }
    let name = parts.map(|(_, part)| part.trim()).join("/");
    checked_name("beat", &name).map(|()| name)
}

fn beats(blocks: &[Block]) -> Vec<String> {
    let beat = |block: &Block| block.beat().and(block.section()).map(str::to_owned);
    blocks.iter().filter_map(beat).collect()
}

fn no_beat(blocks: &[Block], name: &str) -> Fault {
    let advice = "Use one of the beats that are listed, written storyline/chapter/beat.";
    let none = "There are no beats yet; make one with add_beat.";
    not_there(&format!("beat '{name}' not found"), advice, none, beats(blocks)).at("beat")
}
