//! Decides what `search_files` takes and answers, and how much it looks at.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_kernel::flow::FlowLabels;
use toolgate_kernel::tool::{Effect, SpecDraft, SpecRefusal};
use toolgate_runtime::port::{Fault, Output, Tool};
use toolgate_runtime::{Transaction, tool};

use super::READ;
use crate::text::{context, matching_lines, pattern};

/// Most matches that are shown.
const MATCHES_MAX: usize = 20;

/// Most lines around a match.
const CONTEXT_LINES_MAX: i64 = 10;

/// Largest file that is searched, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Most bytes that are searched at once.
const TOTAL_BYTES_MAX: u64 = 64 << 20;

pub(super) fn all(labels: FlowLabels) -> Result<Vec<Arc<dyn Tool>>, SpecRefusal> {
    Ok(vec![tool(search_spec(labels), search)?])
}

#[derive(Deserialize, JsonSchema)]
struct SearchFiles {
    /// A regular expression, in any case, matched line by line.
    query: String,
    /// The folder or file to look in; the whole project when left out.
    under: Option<String>,
    /// How many lines to show before and after a match, at most 10.
    #[serde(default)]
    context_lines: i64,
}

#[derive(Serialize, JsonSchema)]
struct Found {
    query: String,
    matches: Vec<Match>,
    /// All matching lines in what was searched, also those that are not shown.
    count: usize,
    /// Whether there are files that were not searched.
    cut: bool,
}

#[derive(Serialize, JsonSchema)]
struct Match {
    path: String,
    line: usize,
    context: String,
}

fn search_spec(labels: FlowLabels) -> SpecDraft {
    let about = "Searches text files line by line with a regular expression, in any case. \
                 At most 20 matches are shown; all are counted.";
    SpecDraft::new("search_files", about)
        .group(READ)
        .effect(Effect::Read)
        .labels(labels)
        .path_argument("under", None)
        .argument_alias("query", "pattern")
        .argument_alias("query", "regex")
        .argument_alias("under", "path")
        .argument_alias("under", "folder")
        .argument_alias("context_lines", "context")
        .returns::<Found>()
        .example(
            "Where the sea is named.",
            json!({ "query": "sea" }),
            json!({
                "query": "sea", "count": 1, "cut": false,
                "matches": [{ "path": "ideas/sea.md", "line": 1, "context": "The sea is calm." }],
            }),
        )
}

fn search(tx: &mut Transaction, params: SearchFiles) -> Result<Output, Fault> {
    let regex = pattern(&params.query)?;
    let lines = usize::try_from(params.context_lines.clamp(0, CONTEXT_LINES_MAX)).unwrap_or(0);
    let listing = tx.list_files(params.under.as_deref()).map_err(|fault| fault.at("under"))?;
    let Some(listing) = listing else {
        let under = params.under.unwrap_or_default();
        let message = format!("{under} does not exist. See what there is with list_files.");
        return Err(Fault::failed(message).at("under"));
    };
    let mut found = Found { query: params.query, matches: Vec::new(), count: 0, cut: listing.cut };
    let (mut bytes, mut late) = (0_u64, false);
    for file in listing.files {
        // What was found until the deadline is worth more than nothing.
        late = tx.now() >= tx.deadline();
        if late {
            found.cut = true;
            break;
        }
        let text = if file.bytes > FILE_BYTES_MAX || bytes + file.bytes > TOTAL_BYTES_MAX {
            found.cut = true;
            continue;
        } else {
            // What cannot be read, or is no text, has no lines to match.
            let content = tx.read_file(&file.path).ok().flatten();
            content.and_then(|content| String::from_utf8(content).ok()).unwrap_or_default()
        };
        bytes += file.bytes;
        for hit in matching_lines(&regex, &text) {
            // What follows the last line end is no line.
            if hit.begin == text.len() && !text.is_empty() {
                continue;
            }
            found.count += 1;
            if found.matches.len() < MATCHES_MAX {
                let context = context(&text, &hit, lines);
                found.matches.push(Match {
                    path: file.path.clone(),
                    line: hit.number + 1,
                    context,
                });
            }
        }
    }
    let shown = found.matches.len();
    let mut output = Output::data(
        match found.count {
            0 => "No line matches.".to_owned(),
            1 => "1 matching line.".to_owned(),
            count if count == shown => format!("{count} matching lines."),
            count => format!("{count} matching lines; the first {shown} are shown."),
        },
        &found,
    )?;
    if found.cut {
        let why = if late { "Time was up, so not" } else { "Not" };
        output.warnings.push(format!("{why} all files were searched: name a folder with `under`."));
    }
    Ok(output)
}
