//! `file_locator`: finds sources by name, and in a deep scan by their words.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_kernel::tool::{SpecDraft, SpecRefusal};
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Output, Tool};

use super::super::answer::{Answer, dry_run};
use super::super::outline::{TitleParts, contains_run, scene_number, slug_words};
use super::super::sources::{Library, Role, Source, SourceEntry, field_value, glob};
use super::super::text::{Quote, normalised, token_ranges, token_words};
use super::super::{Setup, core_tool};
use crate::text::counted;

const NAME: &str = "file_locator";

/// Matches in one answer when the call does not say.
const RESULTS: u16 = 12;

/// Sources that are suggested when nothing matches.
const NEAR_MAX: usize = 5;

/// Most hits in a text that raise its score.
const HITS_MAX: usize = 20;

/// Quotes of each match in a deep scan.
const QUOTES_MAX: usize = 2;

/// Most keywords of a match.
const KEYWORDS_MAX: usize = 8;

/// Tokens of all matches together from which on the answer warns.
const TOKENS_WARNED: u64 = 30_000;

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum ScanMode {
    /// Looks at names alone and reads no text.
    FastScan,
    /// Reads the texts too: titles, aliases and words.
    DeepScan,
}

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// A name, a part of one, words, or with `include_globs` a pattern such as `**/CHAR-*`.
    #[schemars(length(min = 1, max = 400))]
    search_criteria: String,
    /// FAST_SCAN (when left out) looks at names, DEEP_SCAN reads the texts too.
    scan_mode: Option<ScanMode>,
    /// Most matches in the answer; 12 when left out.
    #[schemars(range(min = 1, max = 100))]
    max_results: Option<u16>,
    /// Takes `search_criteria` as a glob over refs.
    include_globs: Option<bool>,
    /// Only says what would be read.
    dry_run: Option<bool>,
}

pub(super) fn tool(setup: &Arc<Setup>) -> Result<Arc<dyn Tool>, SpecRefusal> {
    let about = "Finds files, manuscript sections and notes by name, or in a DEEP_SCAN by their words, with type, \
        point of view, scene number and title. Use it first.";
    let mut draft = SpecDraft::new(NAME, about)
        .alias("file_viewer")
        .alias("file_browser")
        .argument_alias("search_criteria", "query")
        .argument_alias("search_criteria", "criteria")
        .argument_alias("search_criteria", "dir");
    if !setup.file_tools {
        draft = draft.alias("list_files");
    }
    core_tool(setup, draft, run)
}

/// Something that is said of a source, and how far to trust it.
#[derive(Serialize)]
struct Metadata<T> {
    value: T,
    confidence: f64,
    match_basis: &'static str,
}

impl<T> Metadata<T> {
    fn front_matter(value: T) -> Self {
        Self { value, confidence: 1.0, match_basis: "METADATA_MATCH" }
    }

    fn content(value: T) -> Self {
        Self { value, confidence: 0.9, match_basis: "CONTENT_MATCH" }
    }

    fn file_name(value: T) -> Self {
        Self { value, confidence: 0.5, match_basis: "FILENAME_MATCH" }
    }
}

/// A source that fits, with its score.
struct Match {
    entry: SourceEntry,
    score: usize,
    hits: Vec<Quote>,
    source: Option<Arc<Source>>,
}

fn run(setup: &Setup, tx: &Transaction, params: Params) -> Result<Output, Fault> {
    let mut library = Library::open(tx, setup);
    let deep = params.scan_mode == Some(ScanMode::DeepScan);
    let entries = library.entries().to_vec();
    if params.dry_run.unwrap_or_default() {
        return dry_run(NAME, &library, &[], if deep { &entries } else { &[] });
    }
    let criteria = params.search_criteria.trim();
    let refused = |reason: String| {
        Fault::invalid(format!("search_criteria: {reason}.")).at("search_criteria")
    };
    let pattern = match params.include_globs {
        Some(true) => Some(glob(criteria).map_err(refused)?),
        _ => None,
    };
    let words = token_words(&criteria.replace(['_', '/', '.'], " ").replace('-', " "));
    let mut answer = Answer::new(NAME);
    if library.cut {
        answer.warn("The folder has more files than were looked at.");
    }
    let mut unread = 0;
    let mut matches = Vec::new();
    for entry in &entries {
        let source = if deep { library.read(entry).ok() } else { None };
        unread += usize::from(deep && source.is_none());
        let (score, hits) = match &pattern {
            Some(pattern) if pattern.is_match(&entry.reference) => (70, Vec::new()),
            Some(_) => continue,
            None => score(entry, source.as_deref(), criteria, &words),
        };
        if score > 0 {
            matches.push(Match { entry: entry.clone(), score, hits, source });
        }
    }
    if unread > 0 {
        answer.warn(format!(
            "{} could not be read as text and were matched by name.",
            counted(unread, "source")
        ));
    }
    // The sort is stable: equal scores stay in reading order.
    matches.sort_by_key(|found| std::cmp::Reverse(found.score));
    let bytes = matches.iter().fold(0_u64, |sum, it| sum.saturating_add(it.entry.bytes));
    let (tokens, total) = (bytes.div_ceil(4), matches.len());
    if tokens > TOKENS_WARNED {
        answer.warn(format!(
            "All matches together have about {tokens} tokens; read only what is needed."
        ));
    }
    let max = usize::from(params.max_results.unwrap_or(RESULTS));
    let canon: Vec<Vec<String>> = library
        .of_role(Role::Canon)
        .iter()
        .filter(|entry| entry.reference != "facts")
        .map(|entry| token_words(&entry.name_title()))
        .collect();
    let shown = matches.iter().take(max).map(|it| shown(it, &canon, deep, setup)).collect();
    answer.leave_out("files", total.saturating_sub(max));
    answer.list("files", shown, max)?;
    answer.set("searched", &entries.len())?;
    answer.set("estimated_tokens", &tokens)?;
    if matches.is_empty() {
        answer.set("near", &library.near(criteria, NEAR_MAX))?;
    }
    for source in matches.iter().take(max).filter_map(|it| it.source.as_ref()) {
        answer.source(source);
    }
    let depth = if deep { "names and texts" } else { "names" };
    answer.finish(format!("Found {total} of {}, by {depth}.", counted(entries.len(), "source")))
}

/// How well a source fits, and where its text does.
fn score(
    entry: &SourceEntry,
    source: Option<&Source>,
    criteria: &str,
    words: &[String],
) -> (usize, Vec<Quote>) {
    let (reference, wanted) = (entry.reference.to_lowercase(), criteria.to_lowercase());
    let name = reference.rsplit('/').next().unwrap_or(&reference);
    let stem = entry.stem().to_lowercase();
    let mut own =
        token_words(&entry.reference.replace(['_', '/', '.', ':'], " ").replace('-', " "));
    if let Some(source) = source {
        own.extend(token_words(&source.title()));
        source.aliases().iter().for_each(|alias| own.extend(token_words(alias)));
    }
    let by_name = if reference == wanted {
        100
    } else if name == wanted || stem == wanted {
        90
    } else if reference.contains(&wanted) {
        70
    } else if !words.is_empty() && words.iter().all(|word| own.contains(word)) {
        50
    } else {
        0
    };
    let (count, quotes) = source.map(|source| hits(source, words)).unwrap_or_default();
    let by_text = if count > 0 { 30 + count.min(HITS_MAX) } else { 0 };
    (by_name.max(by_text), quotes)
}

/// How often the words stand in a text that has all of them, and quotes of the first places.
fn hits(source: &Source, words: &[String]) -> (usize, Vec<Quote>) {
    let text = &source.text;
    let (mut places, mut seen) = (Vec::new(), vec![false; words.len()]);
    // Headings count too, so the whole text is looked at and not its prose alone.
    for (start, end) in token_ranges(&text.raw) {
        let norm = normalised(text.slice(start..end));
        for (word, seen) in words.iter().zip(&mut seen) {
            if *word == norm {
                *seen = true;
                places.push(start);
            }
        }
    }
    if words.is_empty() || seen.contains(&false) {
        return (0, Vec::new());
    }
    let mut quotes: Vec<Quote> = Vec::new();
    for place in &places {
        let quote = text.quote_at(&source.reference, *place);
        if quotes.len() < QUOTES_MAX && !quotes.contains(&quote) {
            quotes.push(quote);
        }
    }
    (places.len(), quotes)
}

fn shown(found: &Match, canon: &[Vec<String>], deep: bool, setup: &Setup) -> Value {
    let (entry, source) = (&found.entry, found.source.as_deref());
    let title = title(entry, source);
    let mut keywords = slug_words(&entry.reference);
    keywords.extend(token_words(&title.value));
    let content = |word: &String| setup.lists.is_none_or(|lists| lists.is_content(word));
    let mut unique: Vec<String> = Vec::new();
    for word in keywords.into_iter().filter(content) {
        if !unique.contains(&word) && unique.len() < KEYWORDS_MAX {
            unique.push(word);
        }
    }
    let mut file = json!({
        "source": entry.reference, "type": entry.role, "pov": pov(entry, source, canon),
        "scene_number": number(entry, source), "title": title, "keywords": unique,
        // The port of the project's files tells no time of change.
        "bytes": entry.bytes, "modified": null, "score": found.score,
    });
    if let (true, Some(map)) = (deep, file.as_object_mut()) {
        map.insert("quotes".to_owned(), json!(found.hits));
    }
    file
}

fn title(entry: &SourceEntry, source: Option<&Source>) -> Metadata<String> {
    let text = source.map(|source| &source.text);
    let front = text.and_then(|text| text.front.title.clone());
    let heading = text.and_then(|text| text.headings.first()).map(|heading| heading.title.clone());
    match (front, heading.filter(|heading| !heading.is_empty())) {
        (Some(title), _) => Metadata::front_matter(title),
        (None, Some(title)) => Metadata::content(title),
        (None, None) => Metadata::file_name(entry.name_title()),
    }
}

fn pov(
    entry: &SourceEntry,
    source: Option<&Source>,
    canon: &[Vec<String>],
) -> Option<Metadata<String>> {
    let text = source.map(|source| &source.text);
    if let Some(pov) = text.and_then(|text| text.front.pov.clone()) {
        return Some(Metadata::front_matter(pov));
    }
    let line = text.and_then(|text| text.lines().find_map(|(_, line)| field_value(line, "pov")));
    let heading =
        || text.and_then(|text| text.headings.first()).and_then(|it| TitleParts::of(&it.title).pov);
    if entry.role != Role::Outline
        && let Some(pov) = line.or_else(heading)
    {
        return Some(Metadata::content(pov));
    }
    let slug = slug_words(&entry.reference);
    let named = canon.iter().find(|name| contains_run(&slug, name));
    named.filter(|_| entry.role == Role::Scene).map(|name| Metadata::file_name(name.join(" ")))
}

fn number(entry: &SourceEntry, source: Option<&Source>) -> Option<Metadata<usize>> {
    let text = source.map(|source| &source.text);
    let front =
        text.and_then(|text| text.front.scene.as_ref()).and_then(|scene| scene.parse().ok());
    if let Some(number) = front {
        return Some(Metadata::front_matter(number));
    }
    let heading = text.and_then(|text| text.headings.first());
    if let Some(number) = heading.and_then(|heading| TitleParts::of(&heading.title).number) {
        return Some(Metadata::content(number));
    }
    scene_number(&slug_words(&entry.reference)).map(Metadata::file_name)
}
