//! Decides what `list_files` and `read_file` take and answer.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_kernel::flow::FlowLabels;
use toolgate_kernel::key::Access;
use toolgate_kernel::tool::{Effect, SpecDraft, SpecRefusal};
use toolgate_runtime::port::{Fault, Output, Tool};
use toolgate_runtime::{Transaction, tool};

use super::{READ, text, touch};
use crate::text::counted;

/// Most files in one answer.
const SHOWN_MAX: usize = 500;

pub(super) fn all(labels: &FlowLabels) -> Result<Vec<Arc<dyn Tool>>, SpecRefusal> {
    Ok(vec![tool(list_spec(labels.clone()), list)?, tool(read_spec(labels.clone()), read)?])
}

#[derive(Deserialize, JsonSchema)]
struct ListFiles {
    /// The folder to look in; the whole project when left out.
    under: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct File {
    path: String,
    bytes: u64,
}

fn list_spec(labels: FlowLabels) -> SpecDraft {
    let about = "Lists the files of the project, or of one folder and the folders in it.";
    SpecDraft::new("list_files", about)
        .group(READ)
        .effect(Effect::Read)
        .labels(labels)
        .path_argument("under", None)
        .argument_alias("under", "path")
        .argument_alias("under", "folder")
        .argument_alias("under", "directory")
        .returns::<Vec<File>>()
        .example(
            "One folder.",
            json!({ "under": "ideas" }),
            json!([{ "path": "ideas/sea.md", "bytes": 120 }]),
        )
}

fn list(tx: &mut Transaction, params: ListFiles) -> Result<Output, Fault> {
    let under = params.under.as_deref();
    let listing = tx.list_files(under).map_err(|fault| fault.at("under"))?;
    let Some(listing) = listing else {
        let message = format!(
            "{} does not exist. See what there is with list_files without `under`.",
            under.unwrap_or_default()
        );
        return Err(Fault::failed(message).at("under"));
    };
    let count = listing.files.len();
    let message = match (listing.cut, count > SHOWN_MAX) {
        (false, false) => format!("{}.", counted(count, "file")),
        (false, true) => format!("{count} files; the first {SHOWN_MAX} are shown. Name a folder."),
        (true, _) => format!("More than {count} files; not all are shown. Name a folder."),
    };
    let files = listing.files.into_iter().take(SHOWN_MAX);
    let files: Vec<File> = files.map(|file| File { path: file.path, bytes: file.bytes }).collect();
    Output::data(message, &files)
}

#[derive(Deserialize, JsonSchema)]
struct ReadFile {
    /// The file.
    path: String,
    /// The first line to show, from 1.
    start_line: Option<u64>,
    /// The last line to show.
    end_line: Option<u64>,
}

fn read_spec(labels: FlowLabels) -> SpecDraft {
    let about = "Reads a text file, or some of its lines.";
    SpecDraft::new("read_file", about)
        .group(READ)
        .effect(Effect::Read)
        .labels(labels)
        .path_argument("path", None)
        .argument_alias("path", "file")
        .argument_alias("path", "file_path")
        .argument_alias("path", "filename")
        .returns::<String>()
        .touches(|args| Ok(touch(args, Access::Read)))
        .example("A whole file.", json!({ "path": "ideas/sea.md" }), json!("The sea is calm.\n"))
        .example(
            "Its first line.",
            json!({ "path": "ideas/sea.md", "start_line": 1, "end_line": 1 }),
            json!("The sea is calm.\n"),
        )
}

fn read(tx: &mut Transaction, params: ReadFile) -> Result<Output, Fault> {
    let path = params.path.as_str();
    let whole = text(tx, path)?;
    let lines = whole.split_inclusive('\n').count();
    if params.start_line.is_none() && params.end_line.is_none() {
        fits(tx, path, &whole, lines)?;
        return Output::data(format!("{path}: {}.", counted(lines, "line")), &whole);
    }
    let first = usize::try_from(params.start_line.unwrap_or(1)).unwrap_or(usize::MAX);
    let last = params.end_line.map_or(lines, |end| usize::try_from(end).unwrap_or(usize::MAX));
    if first == 0 || first > last || first > lines {
        let message = format!(
            "start_line and end_line: {path} has {}; ask for lines from 1 to {lines}, the first \
             not after the last.",
            counted(lines, "line")
        );
        return Err(Fault::invalid(message).at("start_line"));
    }
    let last = last.min(lines);
    let part: String = whole.split_inclusive('\n').skip(first - 1).take(last - first + 1).collect();
    fits(tx, path, &part, lines)?;
    Output::data(format!("{path}: lines {first} to {last} of {lines}."), &part)
}

/// Says beforehand what would be cut off, and what to do about it.
fn fits(tx: &Transaction, path: &str, text: &str, lines: usize) -> Result<(), Fault> {
    let max = usize::try_from(tx.agent().limits.result_bytes_max).unwrap_or(usize::MAX);
    // Quotes and line ends take two bytes in an answer.
    if text.len() + text.len() / 8 <= max {
        return Ok(());
    }
    let advice = match text.lines().nth(1) {
        Some(_) => "Ask for fewer with start_line and end_line.",
        None => "Look for a part of it with search_files.",
    };
    Err(Fault::failed(format!(
        "{path} has {}, and what was asked for has {} bytes; at most about {} can be shown at \
         once. {advice}",
        counted(lines, "line"),
        text.len(),
        max / 9 * 8
    ))
    .at("path"))
}
