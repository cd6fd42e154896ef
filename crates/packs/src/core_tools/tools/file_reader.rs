//! `file_reader`: shows some lines of a source, verbatim and numbered.

use std::fmt::Write;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use toolgate_kernel::tool::{SpecDraft, SpecRefusal};
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Output, Tool};

use super::super::answer::{Answer, dry_run};
use super::super::sources::{Library, footprint};
use super::super::{Setup, core_tool};
use super::{SourceRef, whole};

const NAME: &str = "file_reader";

/// Lines after the first one that are shown when the call does not say.
const LINES_AFTER: usize = 80;

/// Most lines in one answer.
const LINES_MAX: usize = 250;

/// Most characters of one line.
const LINE_CHARS_MAX: usize = 2_000;

/// Most characters of the text as JSON, so that the whole answer keeps its bound.
const TEXT_CHARS_MAX: usize = 22_000;

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// The ref: a path, `section:<name>`, `note:<key>` or `facts`.
    file_path: SourceRef,
    /// The first line; the first of the source when left out. A section has the lines of `manuscript.md`.
    #[schemars(range(min = 1))]
    start_line: Option<u32>,
    /// The last line; 80 after the first when left out.
    #[schemars(range(min = 1))]
    end_line: Option<u32>,
    /// Whether each line begins with its number; true when left out.
    include_line_numbers: Option<bool>,
    /// Only says what would be read.
    dry_run: Option<bool>,
}

pub(super) fn tool(setup: &Arc<Setup>) -> Result<Arc<dyn Tool>, SpecRefusal> {
    let about = "Shows up to 250 lines of a file, section, note or the facts, verbatim and with line numbers.";
    let mut draft = SpecDraft::new(NAME, about)
        .touches(|args| Ok(footprint(args, &["file_path"])))
        .argument_alias("file_path", "path")
        .argument_alias("file_path", "file");
    if !setup.file_tools {
        draft = draft.alias("read_file");
    }
    core_tool(setup, draft, run)
}

fn run(setup: &Setup, tx: &Transaction, params: Params) -> Result<Output, Fault> {
    let mut library = Library::open(tx, setup);
    let given = params.file_path.as_str();
    if params.dry_run.unwrap_or_default() {
        return dry_run(NAME, &library, &[("file_path", given)], &[]);
    }
    let source = library.required("file_path", given)?;
    let text = &source.text;
    let (first, last) = (text.first_line, text.last_line());
    let total = text.line_count();
    // A section begins somewhere in manuscript.md: from line 1 means from its beginning.
    let start = params.start_line.map_or(first, whole).max(first);
    let end = params.end_line.map_or(start.saturating_add(LINES_AFTER), whole);
    if start > last || end < start {
        let message = format!(
            "start_line and end_line: {} has total_lines {total}, from line {first} to {last}; ask for lines among \
             these, the first not after the last.",
            source.reference
        );
        return Err(Fault::invalid(message).at("start_line"));
    }
    let mut answer = Answer::new(NAME);
    let wanted = end.min(last);
    let within = wanted.min(start + LINES_MAX - 1);
    let numbered = params.include_line_numbers.unwrap_or(true);
    let (mut shown, mut chars, mut cut_lines, mut end) = (String::new(), 0, Vec::new(), start);
    for line in start..=within {
        let whole_line = text.line(line - first);
        let kept: String = whole_line.chars().take(LINE_CHARS_MAX).collect();
        let mut row = String::new();
        if line > start {
            row.push('\n');
        }
        if numbered {
            let _ = write!(row, "{line}: ");
        }
        row.push_str(&kept);
        let length = serde_json::Value::from(row.as_str()).to_string().chars().count();
        if chars + length > TEXT_CHARS_MAX {
            break;
        }
        if kept.len() < whole_line.len() {
            cut_lines.push(line);
        }
        (chars, end) = (chars + length, line);
        shown.push_str(&row);
    }
    if end < wanted {
        answer.warn(format!(
            "Lines {start} to {end} are shown; one answer has at most {LINES_MAX} lines and about {TEXT_CHARS_MAX} \
             characters. Go on with start_line {}.",
            end + 1
        ));
    }
    answer.set("source", &source.reference)?;
    answer.set("start_line", &start)?;
    answer.set("end_line", &end)?;
    answer.set("total_lines", &total)?;
    answer.set("text", &shown)?;
    answer.set("cut_lines", &cut_lines)?;
    answer.set("sha256", &source.sha256)?;
    answer.source(&source);
    answer.finish(format!("{}: lines {start} to {end} of {total}.", source.reference))
}
