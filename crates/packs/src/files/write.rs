//! Decides what `write_file` and `edit_file` take and answer.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_kernel::key::Access;
use toolgate_kernel::tool::{Effect, SpecDraft, SpecRefusal};
use toolgate_runtime::port::{Fault, Output, Tool};
use toolgate_runtime::{Transaction, tool};

use super::{WRITE, text, touch};
use crate::text::counted;

pub(super) fn all() -> Result<Vec<Arc<dyn Tool>>, SpecRefusal> {
    Ok(vec![tool(write_spec(), write)?, tool(edit_spec(), edit)?])
}

#[derive(Deserialize, JsonSchema)]
struct WriteFile {
    /// The file; folders are made when they are not there.
    path: String,
    /// Its whole content.
    content: String,
}

fn write_spec() -> SpecDraft {
    let about = "Writes a text file. A file that is there already is replaced.";
    draft("write_file", about)
        .argument_alias("content", "text")
        .argument_alias("content", "contents")
        .example(
            "A new file.",
            json!({ "path": "ideas/sea.md", "content": "The sea is calm.\n" }),
            Value::Null,
        )
}

fn write(tx: &mut Transaction, params: WriteFile) -> Result<Output, Fault> {
    let path = params.path.as_str();
    not_kept_by_others(tx, path)?;
    let there = tx.file_version(path).map_err(|fault| fault.at("path"))?.is_some();
    let bytes = counted(params.content.len(), "byte");
    tx.write_file(path, Some(params.content.into_bytes())).map_err(|fault| fault.at("path"))?;
    let verb = if there { "replaced" } else { "created" };
    Ok(Output::message(format!("{verb} {path} ({bytes})")))
}

#[derive(Deserialize, JsonSchema)]
struct EditFile {
    /// The file.
    path: String,
    /// The text to replace, exactly as it stands in the file.
    old_text: String,
    /// What takes its place.
    new_text: String,
    /// Whether every occurrence is replaced. Otherwise there must be exactly one.
    #[serde(default)]
    all: bool,
}

fn edit_spec() -> SpecDraft {
    let about = "Replaces a piece of text in a file. The piece must occur exactly once, unless all \
                 are to be replaced.";
    draft("edit_file", about)
        .argument_alias("old_text", "old_string")
        .argument_alias("old_text", "old")
        .argument_alias("new_text", "new_string")
        .argument_alias("new_text", "new")
        .argument_alias("all", "replace_all")
        .example(
            "One word.",
            json!({ "path": "ideas/sea.md", "old_text": "calm", "new_text": "rough" }),
            Value::Null,
        )
}

fn edit(tx: &mut Transaction, params: EditFile) -> Result<Output, Fault> {
    let path = params.path.as_str();
    not_kept_by_others(tx, path)?;
    let (old, new) = (params.old_text.as_str(), params.new_text.as_str());
    if old.is_empty() {
        let message = "old_text: must not be empty; write_file replaces a whole file.";
        return Err(Fault::invalid(message).at("old_text"));
    }
    let text = text(tx, path)?;
    let count = text.matches(old).count();
    let edited = match (count, params.all) {
        (0, _) => {
            let message = format!(
                "old_text does not occur in {path}. Read the file again and copy the text exactly."
            );
            return Err(Fault::failed(message).at("old_text"));
        }
        (1, _) | (_, true) => text.replace(old, new),
        (_, false) => {
            let message = format!(
                "old_text occurs {count} times in {path}. Give more of the text around it, or set \
                 all to true."
            );
            return Err(Fault::failed(message).at("old_text"));
        }
    };
    tx.write_file(path, Some(edited.into_bytes())).map_err(|fault| fault.at("path"))?;
    Ok(Output::message(format!("replaced {} in {path}", counted(count, "occurrence"))))
}

fn draft(name: &str, about: &str) -> SpecDraft {
    SpecDraft::new(name, about)
        .group(WRITE)
        .effect(Effect::Staged)
        .path_argument("path", None)
        .argument_alias("path", "file")
        .argument_alias("path", "file_path")
        .argument_alias("path", "filename")
        .touches(|args| Ok(touch(args, Access::Write)))
}

/// A file that shows state is written by the tools of that state. Written here, it would be taken
/// in as if a person had changed it.
fn not_kept_by_others(tx: &Transaction, path: &str) -> Result<(), Fault> {
    let plain = path.trim_end_matches(['.', ' ']).to_lowercase();
    let kept = tx.agent().toolset.projections().any(|shown| shown.path == plain);
    if !kept {
        return Ok(());
    }
    let message = format!(
        "{path} shows what other tools keep, and only they write it. Use those tools instead."
    );
    Err(Fault::failed(message).at("path"))
}
