//! Decides what the tools that read the manuscript take and answer.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_kernel::flow::FlowLabels;
use toolgate_kernel::json::Document;
use toolgate_kernel::key::{Access, KeyRefusal};
use toolgate_kernel::tool::{Effect, SpecDraft, SpecRefusal};
use toolgate_runtime::port::{Fault, Output, Tool};
use toolgate_runtime::{Nothing, Transaction, tool};

use super::block::{Block, Name, PASSAGES, SECTIONS, family, kept_text, ordered, section_names};
use super::render::{closing_lines, lay_out};
use crate::text::{check_name, context, matching_lines, not_there, pattern, words};

const GROUP: &str = "manuscript_read";

/// Most sections that are described at once.
const SHOWN_MAX: usize = 1_000;

/// Most matches that are shown; all are counted.
const MATCHES_MAX: usize = 20;

/// Most lines around a match.
const CONTEXT_LINES_MAX: i64 = 10;

/// The tools, in the order they are shown.
pub(super) fn all() -> Result<Vec<Arc<dyn Tool>>, SpecRefusal> {
    Ok(vec![
        tool(info_spec(), info)?,
        tool(section_spec(), section)?,
        tool(tail_spec(), tail)?,
        tool(search_spec(), search)?,
    ])
}

#[derive(Serialize, JsonSchema)]
struct Info {
    total_words: usize,
    total_lines: usize,
    section_count: usize,
    sections: Vec<SectionInfo>,
}

#[derive(Serialize, JsonSchema)]
struct SectionInfo {
    name: String,
    words: usize,
    /// First and last line in manuscript.md.
    line_range: Vec<usize>,
}

fn info_spec() -> SpecDraft {
    let about =
        "Describes the manuscript without its text: words, lines, and the sections in order.";
    draft("get_manuscript_info", about).returns::<Info>().example(
        "A manuscript with one section.",
        json!({}),
        json!({
            "total_words": 4, "total_lines": 3, "section_count": 1,
            "sections": [{ "name": "Opening", "words": 4, "line_range": [1, 3] }],
        }),
    )
}

fn info(tx: &mut Transaction, _: Nothing) -> Result<Output, Fault> {
    let blocks = blocks(tx)?;
    let mut info = Info { total_words: 0, total_lines: 0, section_count: 0, sections: Vec::new() };
    for placed in lay_out(&blocks) {
        let words = words(placed.block.text());
        info.total_words += words;
        info.total_lines = placed.last + closing_lines(&blocks);
        let Some(name) = placed.block.section() else { continue };
        info.section_count += 1;
        if info.sections.len() < SHOWN_MAX {
            let line_range = vec![placed.first, placed.last];
            info.sections.push(SectionInfo { name: name.to_owned(), words, line_range });
        }
    }
    let message = match info.section_count.saturating_sub(SHOWN_MAX) {
        0 => String::new(),
        more => format!("{more} sections are not shown."),
    };
    Output::data(message, &info)
}

#[derive(Deserialize, JsonSchema)]
struct ReadSection {
    /// The name of the section.
    section_name: String,
}

fn section_spec() -> SpecDraft {
    draft("read_manuscript_section", "Reads the text of one section.")
        .argument_alias("section_name", "section")
        .argument_alias("section_name", "name")
        .returns::<String>()
        .touches(|args| Ok(section_touch(args, "section_name", Access::Read)))
        .example("A section.", json!({ "section_name": "Opening" }), json!("The sea was calm."))
}

fn section(tx: &mut Transaction, params: ReadSection) -> Result<Output, Fault> {
    let name = params.section_name.trim();
    check_name("section_name", name)?;
    match tx.get(&key(&Name::Section(name.to_owned()))?)? {
        Some(slot) => Output::data("", &kept_text(&slot)),
        None => Err(no_section(&blocks(tx)?, "section_name", name)),
    }
}

#[derive(Deserialize, JsonSchema)]
struct ReadTail {
    /// How many words; at least one is shown.
    #[serde(default = "default_words")]
    word_count: i64,
}

fn default_words() -> i64 {
    300
}

fn tail_spec() -> SpecDraft {
    draft("read_manuscript_tail", "Reads the last words of the manuscript, without line breaks.")
        .argument_alias("word_count", "words")
        .argument_alias("word_count", "count")
        .returns::<String>()
        .example("The last two words.", json!({ "word_count": 2 }), json!("was calm."))
}

fn tail(tx: &mut Transaction, params: ReadTail) -> Result<Output, Fault> {
    let count = usize::try_from(params.word_count.max(1)).unwrap_or(usize::MAX);
    let blocks = blocks(tx)?;
    let from_the_end = blocks.iter().rev().flat_map(|block| block.text().split_whitespace().rev());
    let mut tail: Vec<&str> = from_the_end.take(count).collect();
    tail.reverse();
    Output::data("", &tail.join(" "))
}

#[derive(Deserialize, JsonSchema)]
struct Search {
    /// A regular expression, in any case, matched line by line.
    query: String,
    /// How many lines to show before and after a match, at most 10.
    #[serde(default = "default_context")]
    context_lines: i64,
}

fn default_context() -> i64 {
    2
}

#[derive(Serialize, JsonSchema)]
struct Found {
    query: String,
    matches: Vec<Match>,
    /// All matching lines, also those that are not shown.
    count: usize,
}

#[derive(Serialize, JsonSchema)]
struct Match {
    /// The line in manuscript.md.
    line: usize,
    /// The section it stands in; null outside of sections.
    section: Option<String>,
    context: String,
}

fn search_spec() -> SpecDraft {
    let about = "Searches the manuscript line by line with a regular expression, in any case. \
                 At most 20 matches are shown; all are counted.";
    draft("search_manuscript", about)
        .argument_alias("query", "pattern")
        .argument_alias("query", "regex")
        .argument_alias("context_lines", "context")
        .returns::<Found>()
        .example(
            "Where the sea is named.",
            json!({ "query": "sea", "context_lines": 0 }),
            json!({
                "query": "sea", "count": 1,
                "matches": [{ "line": 2, "section": "Opening", "context": "The sea was calm." }],
            }),
        )
}

fn search(tx: &mut Transaction, params: Search) -> Result<Output, Fault> {
    let regex = pattern(&params.query)?;
    let lines = usize::try_from(params.context_lines.clamp(0, CONTEXT_LINES_MAX)).unwrap_or(0);
    let (mut matches, mut count) = (Vec::new(), 0);
    for placed in lay_out(&blocks(tx)?) {
        let text = placed.block.text();
        for hit in matching_lines(&regex, text) {
            count += 1;
            if matches.len() < MATCHES_MAX {
                let section = placed.block.section().map(str::to_owned);
                let line = placed.text_line() + hit.number;
                matches.push(Match { line, section, context: context(text, &hit, lines) });
            }
        }
    }
    let message = match count {
        0..=MATCHES_MAX => {
            format!("{count} matching {}.", if count == 1 { "line" } else { "lines" })
        }
        more => format!("{more} matching lines; the first {MATCHES_MAX} are shown."),
    };
    Output::data(message, &Found { query: params.query, matches, count })
}

fn draft(name: &str, about: &str) -> SpecDraft {
    SpecDraft::new(name, about).group(GROUP).effect(Effect::Read).labels(FlowLabels::private())
}

/// The blocks as this call sees them, in order.
pub(super) fn blocks(tx: &Transaction) -> Result<Vec<Block>, Fault> {
    let list = |name| tx.list(&family(name).map_err(no_key)?);
    Ok(ordered(list(SECTIONS)?, list(PASSAGES)?))
}

/// The key of a block.
pub(super) fn key(name: &Name) -> Result<toolgate_kernel::key::Key, Fault> {
    name.key().map_err(no_key)
}

/// A name that gives no key.
pub(super) fn no_key(refusal: KeyRefusal) -> Fault {
    Fault::invalid(refusal.to_string())
}

/// The section that an argument names. One that cannot be is refused by the handler, in words that
/// help.
pub(super) fn section_touch(
    args: &Document,
    field: &str,
    access: Access,
) -> Vec<(Access, toolgate_kernel::key::Key)> {
    let name = args.text(field).unwrap_or_default().trim().to_owned();
    Name::Section(name).key().ok().map(|key| (access, key)).into_iter().collect()
}

/// The fault for a section that is not there.
pub(super) fn no_section(blocks: &[Block], field: &str, name: &str) -> Fault {
    let names: Vec<String> = section_names(blocks).map(str::to_owned).collect();
    let advice = match names.len() {
        1 => "Use the one that is listed.".to_owned(),
        many => format!("Use one of the {many} sections that are listed."),
    };
    let none = "There are no sections yet; make one with create_section.";
    not_there(&format!("section '{name}' not found"), &advice, none, names).at(field)
}
