//! `line_editor`: finds places for a line edit and rewrites nothing.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::tool::{SpecDraft, SpecRefusal};
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Output, Tool};

use super::super::answer::{Answer, dry_run};
use super::super::sources::{Library, Role, Source, footprint};
use super::super::text::{Quote, Text};
use super::super::word_lists::WordLists;
use super::super::{Setup, core_tool};
use super::{SourceRef, is_adverb, whole};
use crate::text::counted;

const NAME: &str = "line_editor";

/// Findings in one answer when the call does not say.
const EDITS: u16 = 12;

/// Tokens from which on a sentence is long.
const LONG_TOKENS: usize = 30;

/// How often a content token stands within how many tokens to be a repetition.
const REPEATED_MIN: usize = 3;
const REPEATED_WITHIN: usize = 100;

/// Most lines of one repetition.
const LINES_MAX: usize = 10;

/// Characters of the text that are shown.
const EXCERPT_CHARS_MAX: usize = 4_000;

/// The name of a text that came with the call.
const GIVEN: &str = "text";

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// The source to look at; either this or `text`.
    file_path: Option<SourceRef>,
    /// The text to look at; either this or `file_path`.
    #[schemars(length(min = 1, max = 20_000))]
    text: Option<String>,
    /// The first line.
    #[schemars(range(min = 1))]
    start_line: Option<u32>,
    /// The last line.
    #[schemars(range(min = 1))]
    end_line: Option<u32>,
    /// Most findings in the answer; 12 when left out.
    #[schemars(range(min = 1, max = 50))]
    max_edits: Option<u16>,
    /// Only says what would be read.
    dry_run: Option<bool>,
}

/// Kinds of findings, in the order in which they are taken in turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum EditKind {
    DoubleSpace,
    RepeatedWord,
    LongSentence,
    Filler,
    Adverb,
    Repetition,
}

impl EditKind {
    const ALL: [Self; 6] = [
        Self::DoubleSpace,
        Self::RepeatedWord,
        Self::LongSentence,
        Self::Filler,
        Self::Adverb,
        Self::Repetition,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::DoubleSpace => "double_space",
            Self::RepeatedWord => "repeated_word",
            Self::LongSentence => "long_sentence",
            Self::Filler => "filler",
            Self::Adverb => "adverb",
            Self::Repetition => "repetition",
        }
    }
}

/// A place for an edit.
#[derive(Serialize)]
struct EditFinding {
    kind: EditKind,
    quote: Quote,
    /// Where the word stands, in characters from one.
    line: usize,
    column: usize,
    word: Option<String>,
    /// Tokens of a long sentence, blanks of a double space, else how often the word stands there.
    count: usize,
    /// The lines of a repetition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lines: Vec<usize>,
    #[serde(skip)]
    at: usize,
}

pub(super) fn tool(setup: &Arc<Setup>) -> Result<Arc<dyn Tool>, SpecRefusal> {
    let about = "Finds double blanks, repeated words, long sentences, fillers, adverbs and repetitions in a source or \
        a given text, each with its place. It rewrites nothing.";
    let draft = SpecDraft::new(NAME, about)
        .alias("line_edit")
        .argument_alias("file_path", "path")
        .argument_alias("file_path", "file")
        .touches(|args| Ok(footprint(args, &["file_path"])));
    core_tool(setup, draft, run)
}

fn run(setup: &Setup, tx: &Transaction, params: Params) -> Result<Output, Fault> {
    let mut library = Library::open(tx, setup);
    let source = match (&params.file_path, params.text) {
        (Some(_), None) if params.dry_run.unwrap_or_default() => {
            let given = params.file_path.as_ref().map_or("", SourceRef::as_str);
            return dry_run(NAME, &library, &[("file_path", given)], &[]);
        }
        (None, Some(_)) if params.dry_run.unwrap_or_default() => {
            return dry_run(NAME, &library, &[], &[]);
        }
        (Some(path), None) => library.required("file_path", path.as_str())?,
        (None, Some(text)) => {
            let sha256 = Digest::of(text.as_bytes());
            let text = Text::new(text.replace("\r\n", "\n"), 1, setup.lists);
            Arc::new(Source { reference: GIVEN.to_owned(), role: Role::Other, sha256, text })
        }
        (Some(_), Some(_)) => {
            return Err(
                Fault::invalid("file_path and text: give one of the two, not both.").at("text")
            );
        }
        (None, None) => return Err(Fault::invalid("file_path or text is needed.").at("file_path")),
    };
    let text = &source.text;
    let (first, last) = (text.first_line, text.last_line());
    let start = params.start_line.map_or(first, whole).max(first);
    let end = params.end_line.map_or(last, whole).min(last);
    if start > end {
        let message = format!(
            "start_line and end_line: {} has total_lines {}, from line {first} to {last}; ask for lines among these, \
             the first not after the last.",
            source.reference,
            text.line_count()
        );
        return Err(Fault::invalid(message).at("start_line"));
    }
    let range = text.line_range(start - first).start..text.line_range(end - first).end;
    let mut answer = Answer::new(NAME);
    let lists = setup.lists_or_warn(&mut answer);
    let by_kind = findings(&source, &range, lists);
    let mut counts = Map::new();
    for kind in EditKind::ALL {
        let needs_list = !matches!(
            kind,
            EditKind::DoubleSpace | EditKind::RepeatedWord | EditKind::LongSentence
        );
        let count = by_kind.get(&kind).map_or(0, Vec::len);
        counts.insert(
            kind.as_str().to_owned(),
            if needs_list && lists.is_none() { json!(null) } else { json!(count) },
        );
    }
    let total: usize = by_kind.values().map(Vec::len).sum();
    let max = usize::from(params.max_edits.unwrap_or(EDITS));
    let shown = in_turns(by_kind, max);
    answer.leave_out("findings", total.saturating_sub(shown.len()));
    answer.set("source", &source.reference)?;
    answer.set("lines", &[start, end])?;
    answer.set("findings", &shown)?;
    answer.set("counts", &counts)?;
    answer.set("excerpt", &text.excerpt_of(start - first..end - first + 1, EXCERPT_CHARS_MAX))?;
    answer.source(&source);
    answer.finish(format!("{} in lines {start} to {end}.", counted(total, "finding")))
}

/// One finding of each kind after the other until there are enough, in the order of the text.
fn in_turns(mut by_kind: BTreeMap<EditKind, Vec<EditFinding>>, max: usize) -> Vec<EditFinding> {
    by_kind.values_mut().for_each(|list| list.reverse());
    let mut shown: Vec<EditFinding> = Vec::new();
    while shown.len() < max {
        let before = shown.len();
        for list in by_kind.values_mut() {
            if shown.len() < max {
                shown.extend(list.pop());
            }
        }
        if shown.len() == before {
            break;
        }
    }
    shown.sort_by_key(|finding| (finding.at, finding.kind));
    shown
}

/// All findings of a range of bytes, by kind, in the order of the text.
fn findings(
    source: &Source,
    range: &Range<usize>,
    lists: Option<&WordLists>,
) -> BTreeMap<EditKind, Vec<EditFinding>> {
    let text = &source.text;
    let mut found: BTreeMap<EditKind, Vec<EditFinding>> = BTreeMap::new();
    let mut add =
        |kind, at: usize, sentence: Option<Range<usize>>, word: Option<&str>, count, lines| {
            found.entry(kind).or_default().push(EditFinding {
                kind,
                quote: match sentence {
                    Some(sentence) => text.quote(&source.reference, sentence),
                    None => text.quote_at(&source.reference, at),
                },
                line: text.line_of(at),
                column: text.column_of(at),
                word: word.map(str::to_owned),
                count,
                lines,
                at,
            });
        };
    for at in double_spaces(text).filter(|at| range.contains(at)) {
        let blanks = text.slice(at..range.end).chars().take_while(|c| *c == ' ').count();
        add(EditKind::DoubleSpace, at, None, None, blanks, Vec::new());
    }
    let tokens = text.tokens_between(range);
    for pair in tokens.windows(2) {
        let [one, other] = pair else { continue };
        let between = text.slice(one.end..other.start);
        let same = one.norm == other.norm && one.paragraph == other.paragraph;
        if same && !between.is_empty() && between.chars().all(char::is_whitespace) {
            add(EditKind::RepeatedWord, one.start, None, Some(text.shown(one)), 2, Vec::new());
        }
    }
    for sentence in text.sentences.iter().filter(|it| range.contains(&it.range.start)) {
        if sentence.tokens.len() >= LONG_TOKENS {
            let count = sentence.tokens.len();
            add(
                EditKind::LongSentence,
                sentence.range.start,
                Some(sentence.range.clone()),
                None,
                count,
                Vec::new(),
            );
        }
    }
    let Some(lists) = lists else { return found };
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, token) in tokens.iter().enumerate() {
        let kind = if lists.fillers.contains(&token.norm) {
            Some(EditKind::Filler)
        } else {
            is_adverb(&token.norm, lists).then_some(EditKind::Adverb)
        };
        if let Some(kind) = kind {
            add(kind, token.start, None, Some(text.shown(token)), 1, Vec::new());
        }
        if lists.is_content(&token.norm) {
            places.entry(&token.norm).or_default().push(at);
        }
    }
    for (word, places) in places {
        for cluster in clusters(&places) {
            let at = |place: usize| tokens.get(place);
            let Some(first) = cluster.first().and_then(|place| at(*place)) else { continue };
            let mut lines: Vec<usize> = cluster
                .iter()
                .filter_map(|place| at(*place))
                .map(|token| text.line_of(token.start))
                .collect();
            lines.dedup();
            lines.truncate(LINES_MAX);
            add(EditKind::Repetition, first.start, None, Some(word), cluster.len(), lines);
        }
    }
    found.values_mut().for_each(|list| list.sort_by_key(|finding| finding.at));
    found
}

/// Groups of places of which each three in a row stand within a window.
fn clusters(places: &[usize]) -> Vec<&[usize]> {
    let mut clusters = Vec::new();
    let mut start = 0;
    while start + REPEATED_MIN <= places.len() {
        let near = |at: usize| match (places.get(at + 1 - REPEATED_MIN), places.get(at)) {
            (Some(first), Some(last)) => last - first < REPEATED_WITHIN,
            _ => false,
        };
        let mut end = start + REPEATED_MIN - 1;
        while near(end) {
            end += 1;
        }
        if end >= start + REPEATED_MIN {
            clusters.extend(places.get(start..end));
            start = end;
        } else {
            start += 1;
        }
    }
    clusters
}

/// Where two blanks or more stand inside a line of prose.
fn double_spaces(text: &Text) -> impl Iterator<Item = usize> {
    text.paragraphs.iter().flat_map(|paragraph| {
        let body = text.slice(paragraph.range.clone());
        body.match_indices("  ").filter_map(move |(at, _)| {
            let before = body.get(..at).and_then(|head| head.chars().next_back())?;
            let after = body.get(at..).and_then(|tail| tail.chars().find(|c| *c != ' '));
            // A blank more at either end of a line is markup.
            let inside = !before.is_whitespace() && after.is_some_and(|c| c != '\n');
            inside.then_some(paragraph.range.start + at)
        })
    })
}
