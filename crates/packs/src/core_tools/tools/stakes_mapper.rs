//! `stakes_mapper`: finds the sentences that may say what is at stake.

use std::ops::Range;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_kernel::tool::{SpecDraft, SpecRefusal};
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Output, Tool};

use super::super::answer::{Answer, dry_run};
use super::super::outline::Outline;
use super::super::sources::{Library, Source, footprint};
use super::super::text::{Quote, Token, token_words};
use super::super::time_markers::{TimeMarker, time_markers};
use super::super::word_lists::WordLists;
use super::super::{Setup, core_tool};
use super::{SourceRef, texts};
use crate::text::counted;

const NAME: &str = "stakes_mapper";

/// Scenes or beats in one answer when the call does not say.
const SCENES: u16 = 20;

/// Most candidates of a scene, and of a beat.
const SCENE_CANDIDATES: usize = 5;
const BEAT_CANDIDATES: usize = 3;

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// The outline whose beats are looked at; the outline of the project when nothing is given.
    outline_path: Option<SourceRef>,
    /// Scenes to look at, at most 12; they win over the outline.
    #[schemars(length(max = 12))]
    scene_paths: Option<Vec<SourceRef>>,
    /// Most scenes or beats in the answer; 20 when left out.
    #[schemars(range(min = 1, max = 50))]
    max_scenes: Option<u16>,
    /// Only says what would be read.
    dry_run: Option<bool>,
}

/// A sentence with words that may tell what is at stake.
#[derive(Serialize)]
struct StakesCandidate {
    classes: Vec<&'static str>,
    words: Vec<String>,
    score: usize,
    quote: Quote,
}

pub(super) fn tool(setup: &Arc<Setup>) -> Result<Arc<dyn Tool>, SpecRefusal> {
    let about = "Finds sentences of beats or scenes that may say what is at stake: need, risk, loss, survival, \
        condition, deadline, each with its quote.";
    let draft = SpecDraft::new(NAME, about)
        .alias("stakes_map")
        .touches(|args| Ok(footprint(args, &["outline_path", "scene_paths"])));
    core_tool(setup, draft, run)
}

fn run(setup: &Setup, tx: &Transaction, params: Params) -> Result<Output, Fault> {
    let mut library = Library::open(tx, setup);
    let scenes = texts(&params.scene_paths.unwrap_or_default());
    let outline = params.outline_path.as_ref().map(SourceRef::as_str);
    if params.dry_run.unwrap_or_default() {
        let (mut named, mut also) = (Vec::new(), Vec::new());
        match (scenes.is_empty(), outline) {
            (false, _) => named.extend(scenes.iter().map(|path| ("scene_paths", path.as_str()))),
            (true, Some(outline)) => named.push(("outline_path", outline)),
            (true, None) => also = Outline::entries(&library),
        }
        return dry_run(NAME, &library, &named, &also);
    }
    let max = usize::from(params.max_scenes.unwrap_or(SCENES));
    let mut answer = Answer::new(NAME);
    let lists = setup.lists_or_warn(&mut answer);
    let mut shown: Vec<Value> = Vec::new();
    let mut candidates = 0;
    if scenes.is_empty() {
        let outline = Outline::find(&mut library, "outline_path", outline)?;
        answer.set("outline", &outline.as_ref().map(Outline::references))?;
        if outline.is_none() {
            answer.set("note", &"There is no outline; name one, or name scenes.")?;
        }
        for beat in outline.iter().flat_map(|outline| &outline.beats).take(max) {
            let found = lists.map(|lists| stakes(&beat.source, &beat.body, lists, BEAT_CANDIDATES));
            candidates += found.as_ref().map_or(0, |(found, _)| found.len());
            let (found, more) = found.map_or((None, 0), |(found, more)| (Some(found), more));
            answer.leave_out("beats.candidates", more);
            let opening = match &found {
                Some(found) if !found.is_empty() => None,
                _ => beat.summary(),
            };
            shown.push(json!({ "beat": beat.brief(), "candidates": found, "opening": opening }));
            answer.source(&beat.source);
        }
        let all = outline.as_ref().map_or(0, |outline| outline.beats.len());
        answer.leave_out("beats", all.saturating_sub(max));
        answer.set("beats", &shown)?;
    } else {
        let outcomes = library.each("scene_paths", &scenes)?;
        for outcome in outcomes.iter().take(max) {
            let source = match outcome {
                Ok(source) => source,
                Err(unread) => {
                    shown.push(unread.shown());
                    continue;
                }
            };
            let whole = 0..source.text.raw.len();
            let found = lists.map(|lists| stakes(source, &whole, lists, SCENE_CANDIDATES));
            candidates += found.as_ref().map_or(0, |(found, _)| found.len());
            let (found, more) = found.map_or((None, 0), |(found, more)| (Some(found), more));
            answer.leave_out("scenes.candidates", more);
            let first = source.text.sentences.first();
            let opening = match &found {
                Some(found) if !found.is_empty() => None,
                _ => first.map(|first| source.text.quote(&source.reference, first.range.clone())),
            };
            shown.push(json!({
                "source": source.reference, "title": source.title(), "candidates": found, "opening": opening,
            }));
            answer.source(source);
        }
        answer.leave_out("scenes", outcomes.len().saturating_sub(max));
        answer.set("scenes", &shown)?;
    }
    answer.finish(format!(
        "{} in {}.",
        counted(candidates, "candidate"),
        counted(shown.len(), "text")
    ))
}

/// The best candidates of a range of bytes in the order of the text, and how many more there are.
fn stakes(
    source: &Source,
    range: &Range<usize>,
    lists: &WordLists,
    max: usize,
) -> (Vec<StakesCandidate>, usize) {
    let text = &source.text;
    let markers = time_markers(text, lists);
    let mut found: Vec<StakesCandidate> = Vec::new();
    let within = |it: &Range<usize>| range.start <= it.start && it.start < range.end;
    for sentence in text.sentences.iter().filter(|it| within(&it.range)) {
        let tokens = text.tokens_in(&sentence.tokens);
        let mut classes: Vec<&'static str> = Vec::new();
        let (mut words, mut first): (Vec<String>, Option<usize>) = (Vec::new(), None);
        for (class, listed) in lists.stakes.classes() {
            let fitting: Vec<(usize, String)> =
                listed.iter().filter_map(|it| stands_in(it, tokens, lists)).collect();
            if !fitting.is_empty() {
                classes.push(class);
                let least = fitting.iter().map(|(at, _)| *at).chain(first).min();
                first = least;
                words.extend(fitting.into_iter().map(|(_, word)| word));
            }
        }
        if let Some(word) = deadline(&sentence.tokens, &text.tokens, &markers, lists) {
            classes.push("deadline");
            words.push(word);
        }
        if !classes.is_empty() {
            let quote = text.quote_at(&source.reference, first.unwrap_or(sentence.range.start));
            found.push(StakesCandidate { score: classes.len(), classes, words, quote });
        }
    }
    let more = found.len().saturating_sub(max);
    // The sort is stable: what has the same score stays in the order of the text.
    found.sort_by_key(|candidate| std::cmp::Reverse(candidate.score));
    found.truncate(max);
    (found, more)
}

/// The word of a sentence that is a listed one, and its place; several words stand in a row as
/// written.
fn stands_in(listed: &str, tokens: &[Token], lists: &WordLists) -> Option<(usize, String)> {
    let words = token_words(listed);
    if let [word] = words.as_slice() {
        let found = tokens.iter().find(|token| lists.is_form_of(word, &token.norm));
        return found.map(|token| (token.start, token.norm.clone()));
    }
    let mut runs = tokens.windows(words.len().max(1));
    let found = runs.find(|run| run.iter().map(|token| &token.norm).eq(&words))?;
    found.first().map(|token| (token.start, listed.to_owned()))
}

/// The word that makes a time marker behind it a deadline: `before noon`, `until the next morning`.
fn deadline(
    sentence: &Range<usize>,
    tokens: &[Token],
    markers: &[TimeMarker],
    lists: &WordLists,
) -> Option<String> {
    let norm = |at: usize| tokens.get(at).map_or("", |token| token.norm.as_str());
    sentence.clone().filter(|at| lists.deadline.contains(norm(*at))).find_map(|at| {
        let article =
            lists.time.of.contains(norm(at + 1)) || lists.time.a_unit.contains(norm(at + 1));
        let starts = |marker: &&TimeMarker| {
            let start = marker.tokens.start;
            sentence.contains(&start) && (start == at + 1 || (article && start == at + 2))
        };
        markers.iter().find(starts).map(|_| norm(at).to_owned())
    })
}
