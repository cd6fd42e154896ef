//! Decides what the tools that write the manuscript take and answer, and how the file follows.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_kernel::envelope::{Code, Trouble};
use toolgate_kernel::key::{Access, Key, KeyRefusal};
use toolgate_kernel::section::Shown;
use toolgate_kernel::tool::{Effect, SpecDraft, SpecRefusal};
use toolgate_runtime::port::{Fault, Output, Tool};
use toolgate_runtime::{Transaction, tool};

use super::block::{Block, Kept, Name, free_number, section_names, total_words, trimmed};
use super::marker::markers;
use super::order::places;
use super::read::{blocks, key, no_key, no_section, section_touch};
use super::render::render;
use super::{PATH, manuscript_key};
use crate::text::{check_name, counted, not_there, words};

const GROUP: &str = "manuscript_write";

/// The tools, in the order they are shown.
pub(super) fn all() -> Result<Vec<Arc<dyn Tool>>, SpecRefusal> {
    Ok(vec![
        tool(append_spec(), append)?,
        tool(create_spec(), create)?,
        tool(replace_spec(), replace)?,
        tool(delete_spec(), delete)?,
    ])
}

#[derive(Deserialize, JsonSchema)]
struct Append {
    /// The text to add.
    content: String,
}

fn append_spec() -> SpecDraft {
    let about = "Adds text at the end of the manuscript, outside of all sections.";
    SpecDraft::new("append_to_manuscript", about)
        .group(GROUP)
        .effect(Effect::Staged)
        .argument_alias("content", "text")
        .touches(|_| whole())
        .example("A paragraph.", json!({ "content": "Nobody spoke." }), Value::Null)
}

fn append(tx: &mut Transaction, params: Append) -> Result<Output, Fault> {
    let text = content(&params.content)?;
    if text.trim().is_empty() {
        return Err(Fault::invalid("content: must not be blank; send the text.").at("content"));
    }
    let blocks = begin(tx)?;
    let name = Name::Passage(free_number(&blocks).to_string());
    insert(tx, &blocks, blocks.len(), &name, &text)?;
    let total = total_words(&finish(tx)?);
    let count = counted(words(&text), "word");
    Ok(Output::message(format!("appended {count} (total: {total})")))
}

#[derive(Deserialize, JsonSchema)]
struct NamedText {
    /// The name of the section: 1 to 200 characters on one line.
    name: String,
    /// Its text.
    content: String,
}

fn create_spec() -> SpecDraft {
    let about = "Makes a new section at the end of the manuscript. Its name must be free.";
    draft("create_section", about).argument_alias("content", "text").example(
        "The first section.",
        json!({ "name": "Opening", "content": "The sea was calm." }),
        Value::Null,
    )
}

fn create(tx: &mut Transaction, params: NamedText) -> Result<Output, Fault> {
    let (name, text) = (section_name(&params.name)?, content(&params.content)?);
    let blocks = begin(tx)?;
    must_be_free(&blocks, name)?;
    insert(tx, &blocks, blocks.len(), &Name::Section(name.to_owned()), &text)?;
    finish(tx)?;
    Ok(Output::message(format!("created section '{name}' ({})", counted(words(&text), "word"))))
}

fn replace_spec() -> SpecDraft {
    let about = "Replaces the whole text of one section. It stays where it is.";
    draft("replace_section", about).argument_alias("content", "text").example(
        "A better opening.",
        json!({ "name": "Opening", "content": "The sea had been calm for days." }),
        Value::Null,
    )
}

fn replace(tx: &mut Transaction, params: NamedText) -> Result<Output, Fault> {
    let (name, text) = (section_name(&params.name)?, content(&params.content)?);
    let blocks = begin(tx)?;
    let block = find(&blocks, name).ok_or_else(|| no_section(&blocks, "name", name))?;
    keep(tx, &block.name, block.at, &text)?;
    finish(tx)?;
    Ok(Output::message(format!("replaced section '{name}' ({})", counted(words(&text), "word"))))
}

#[derive(Deserialize, JsonSchema)]
struct SectionName {
    /// The name of the section.
    name: String,
}

fn delete_spec() -> SpecDraft {
    draft("delete_section", "Deletes one section with its text.").example(
        "A section that is not needed any more.",
        json!({ "name": "Opening" }),
        Value::Null,
    )
}

fn delete(tx: &mut Transaction, params: SectionName) -> Result<Output, Fault> {
    let name = section_name(&params.name)?;
    let blocks = begin(tx)?;
    let block = find(&blocks, name).ok_or_else(|| no_section(&blocks, "name", name))?;
    tx.remove(&key(&block.name)?)?;
    finish(tx)?;
    Ok(Output::message(format!("deleted section '{name}'")))
}

/// What the three that name a section have in common.
fn draft(name: &str, about: &str) -> SpecDraft {
    SpecDraft::new(name, about)
        .group(GROUP)
        .effect(Effect::Staged)
        .argument_alias("name", "section_name")
        .argument_alias("name", "section")
        .argument_alias("name", "title")
        .touches(|args| Ok([section_touch(args, "name", Access::Write), whole()?].concat()))
}

/// What every call that writes touches: the file and its fingerprint.
pub(super) fn whole() -> Result<Vec<(Access, Key)>, KeyRefusal> {
    let file = Key::parse(&format!("file:{PATH}"))?;
    Ok(vec![(Access::Write, manuscript_key()?), (Access::Write, file)])
}

/// The blocks, when the file still says the same. A person's words are never overwritten.
pub(super) fn begin(tx: &Transaction) -> Result<Vec<Block>, Fault> {
    let shown: Option<Shown> = tx.load(&manuscript_key().map_err(no_key)?)?;
    let found = tx.file_version(PATH)?;
    if found.is_some() && found != shown.map(|shown| shown.file) {
        let message = format!(
            "{PATH} is not as the last call left it, so it is not written over. Read the \
             manuscript again, then retry."
        );
        return Err(Fault::of(Trouble::new(Code::COMMIT_CONFLICT, message)));
    }
    blocks(tx)
}

/// Writes the file as the blocks are now, and its fingerprint.
pub(super) fn finish(tx: &mut Transaction) -> Result<Vec<Block>, Fault> {
    let blocks = blocks(tx)?;
    let was = tx.file_version(PATH)?;
    tx.write_file(PATH, Some(render(&blocks).into_bytes()))?;
    if let Some(file) = tx.file_version(PATH)? {
        tx.put(&manuscript_key().map_err(no_key)?, &Shown { file, was })?;
    }
    Ok(blocks)
}

/// Puts a new block before the one at `index`; others move when there is no room.
pub(super) fn insert(
    tx: &mut Transaction,
    blocks: &[Block],
    index: usize,
    name: &Name,
    text: &str,
) -> Result<(), Fault> {
    let mut present: Vec<Option<u64>> = blocks.iter().map(|block| Some(block.at)).collect();
    present.insert(index.min(blocks.len()), None);
    let mut old = blocks.iter();
    for (at, was) in places(&present).into_iter().zip(&present) {
        match was.and_then(|_| old.next()) {
            None => keep(tx, name, at, text)?,
            Some(block) if block.at != at => keep(tx, &block.name, at, block.text())?,
            Some(_) => {}
        }
    }
    Ok(())
}

/// Stages one block.
pub(super) fn keep(tx: &mut Transaction, name: &Name, at: u64, text: &str) -> Result<(), Fault> {
    tx.put(&key(name)?, &Kept { at, text })
}

/// A section by its name.
pub(super) fn find<'a>(blocks: &'a [Block], name: &str) -> Option<&'a Block> {
    blocks.iter().find(|block| block.section() == Some(name))
}

/// Refuses a name that a section has.
pub(super) fn must_be_free(blocks: &[Block], name: &str) -> Result<(), Fault> {
    if find(blocks, name).is_none() {
        return Ok(());
    }
    let names = section_names(blocks).map(str::to_owned).collect();
    let advice = "Replace it with replace_section, or use a name that is not listed.";
    Err(not_there(&format!("section '{name}' already exists"), advice, "", names).at("name"))
}

/// A name that a marker can carry.
fn section_name(given: &str) -> Result<&str, Fault> {
    let name = given.trim();
    checked_name("name", name).map(|()| name)
}

/// Refuses a name that a marker could not carry.
pub(super) fn checked_name(field: &str, name: &str) -> Result<(), Fault> {
    check_name(field, name)?;
    for mark in ["-->", "<!--"] {
        if name.contains(mark) {
            let message = format!("{field}: contains {mark}; leave it out.");
            return Err(Fault::invalid(message).at(field));
        }
    }
    Ok(())
}

/// A text as it is kept. One with markers in it would make up sections.
pub(super) fn content(given: &str) -> Result<String, Fault> {
    let plain = given.replace("\r\n", "\n");
    if let Some(marker) = markers(&plain).next() {
        let marker = plain.get(marker.begin..marker.end).unwrap_or_default();
        let message = format!(
            "content: contains the marker {marker}. Markers are made by the tools; leave it out \
             and send the text alone."
        );
        return Err(Fault::invalid(message).at("content"));
    }
    Ok(trimmed(&plain).to_owned())
}
