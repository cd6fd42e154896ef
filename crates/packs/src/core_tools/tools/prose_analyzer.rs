//! `prose_analyzer`: measures the prose of a scene, with a quote or lines for every figure.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolgate_kernel::tool::{SpecDraft, SpecRefusal};
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Output, Tool};

use super::super::answer::{Answer, dry_run};
use super::super::sources::{Library, Source, footprint};
use super::super::text::{Quote, Sentence, Text, decimal};
use super::super::word_lists::WordLists;
use super::super::{Setup, core_tool};
use super::{SourceRef, is_adverb};
use crate::text::counted;

const NAME: &str = "prose_analyzer";

/// Characters of the scene that are shown.
const EXCERPT_CHARS_MAX: usize = 2_000;

/// How often a content token stands in the scene to be listed, and how many are.
const REPEATED_MIN: usize = 3;
const REPEATED_MAX: usize = 10;

/// Sentences in a row that make a monotone run, and how far their lengths differ.
const RUN_MIN: usize = 3;
const RUN_SPREAD: usize = 2;

/// Most runs, and most lines of one word.
const RUNS_MAX: usize = 10;
const LINES_MAX: usize = 20;

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Focus {
    /// Lengths of sentences and paragraphs.
    Pacing,
    /// Dialogue, person, senses.
    Voice,
    /// Adverbs, repetition, runs of like sentences.
    Rhythm,
    /// All of it.
    All,
}

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// The scene.
    scene_path: SourceRef,
    /// What to measure; everything when left out.
    focus: Option<Focus>,
    /// Only says what would be read.
    dry_run: Option<bool>,
}

pub(super) fn tool(setup: &Arc<Setup>) -> Result<Arc<dyn Tool>, SpecRefusal> {
    let about = "Measures the prose of a scene: sentence lengths, dialogue, person, senses, adverbs, repetition and \
        runs of like sentences, with quotes and lines.";
    let draft = SpecDraft::new(NAME, about).touches(|args| Ok(footprint(args, &["scene_path"])));
    core_tool(setup, draft, run)
}

fn run(setup: &Setup, tx: &Transaction, params: Params) -> Result<Output, Fault> {
    let mut library = Library::open(tx, setup);
    let given = params.scene_path.as_str();
    if params.dry_run.unwrap_or_default() {
        return dry_run(NAME, &library, &[("scene_path", given)], &[]);
    }
    let source = library.required("scene_path", given)?;
    let text = &source.text;
    let focus = params.focus.unwrap_or(Focus::All);
    let wants = |one: Focus| focus == one || focus == Focus::All;
    let mut answer = Answer::new(NAME);
    let lists = match wants(Focus::Voice) || wants(Focus::Rhythm) {
        true => setup.lists_or_warn(&mut answer),
        false => setup.lists,
    };
    answer.set("source", &source.reference)?;
    answer.set("words", &text.words())?;
    answer.set("sentences", &text.sentences.len())?;
    answer.set("paragraphs", &text.paragraphs.len())?;
    if wants(Focus::Pacing) {
        answer.set("pacing", &pacing(&source))?;
    }
    if wants(Focus::Voice) {
        answer.set("voice", &voice(text, lists))?;
    }
    if wants(Focus::Rhythm) {
        answer.set("rhythm", &rhythm(&source, lists))?;
    }
    answer.set("excerpt", &text.excerpt(0, EXCERPT_CHARS_MAX))?;
    answer.source(&source);
    answer.finish(format!(
        "{}: {}, {}, {}.",
        source.reference,
        counted(text.words(), "word"),
        counted(text.sentences.len(), "sentence"),
        counted(text.paragraphs.len(), "paragraph")
    ))
}

fn length(sentence: &Sentence) -> usize {
    sentence.tokens.len()
}

fn pacing(source: &Source) -> Value {
    let text = &source.text;
    let lengths: Vec<usize> = text.sentences.iter().map(length).collect();
    let mut sorted = lengths.clone();
    sorted.sort_unstable();
    let (count, sum) = (lengths.len(), lengths.iter().sum::<usize>());
    let at = |at: usize| sorted.get(at).copied().unwrap_or(0);
    let median = decimal(at(count / 2) + at(count.saturating_sub(1) / 2), 2, 10);
    // The first one wins a tie.
    let longest = text.sentences.iter().rev().max_by_key(|sentence| length(sentence));
    let shortest = text.sentences.iter().min_by_key(|sentence| length(sentence));
    let shown = |sentence: Option<&Sentence>| {
        let of = |it: &Sentence| json!({ "length": length(it), "quote": text.quote(&source.reference, it.range.clone()) });
        sentence.map(of)
    };
    let paragraphs: Vec<usize> = text.paragraphs.iter().map(|it| it.tokens.len()).collect();
    json!({
        "mean": decimal(sum, count, 10), "median": median, "deviation": deviation(&lengths),
        "longest": shown(longest), "shortest": shown(shortest), "paragraph_lengths": paragraphs,
    })
}

/// The deviation of a whole population, in one decimal.
fn deviation(lengths: &[usize]) -> f64 {
    let float = |number: usize| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    if lengths.is_empty() {
        return 0.0;
    }
    let count = float(lengths.len());
    let mean = lengths.iter().map(|length| float(*length)).sum::<f64>() / count;
    let squares: f64 = lengths.iter().map(|length| (float(*length) - mean).powi(2)).sum();
    ((squares / count).sqrt() * 10.0).round() / 10.0
}

fn voice(text: &Text, lists: Option<&WordLists>) -> Value {
    let person = lists.map(|lists| {
        let outside = || text.tokens.iter().filter(|token| !token.dialogue);
        let count = |words: &BTreeSet<String>| outside().filter(|it| words.contains(&it.norm)).count();
        let person = &lists.person;
        json!({ "first": count(&person.first), "second": count(&person.second), "third": count(&person.third) })
    });
    let senses = lists.map(|lists| {
        let mut senses = Map::new();
        for (sense, words) in &lists.senses {
            let fits = |norm: &str| words.iter().any(|word| lists.is_form_of(word, norm));
            let mut found: BTreeMap<&str, usize> = BTreeMap::new();
            for token in text.tokens.iter().filter(|token| fits(&token.norm)) {
                *found.entry(&token.norm).or_default() += 1;
            }
            let count: usize = found.values().sum();
            senses.insert(sense.clone(), json!({ "count": count, "words": found }));
        }
        Value::Object(senses)
    });
    json!({ "dialogue_ratio": text.dialogue_ratio(), "person": person, "senses": senses })
}

#[derive(Serialize)]
struct WordPlaces {
    word: String,
    count: usize,
    lines: Vec<usize>,
}

/// Where some words stand, the most frequent first.
fn places<'t>(text: &'t Text, of: impl Iterator<Item = (&'t str, usize)>) -> Vec<WordPlaces> {
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    let mut places: Vec<WordPlaces> = Vec::new();
    for (word, start) in of {
        let at = *index.entry(word).or_insert(places.len());
        if at == places.len() {
            places.push(WordPlaces { word: word.to_owned(), count: 0, lines: Vec::new() });
        }
        let Some(place) = places.get_mut(at) else { continue };
        place.count += 1;
        let line = text.line_of(start);
        if place.lines.last() != Some(&line) && place.lines.len() < LINES_MAX {
            place.lines.push(line);
        }
    }
    // The sort is stable: what is as frequent stays in the order of the text.
    places.sort_by_key(|place| std::cmp::Reverse(place.count));
    places
}

fn rhythm(source: &Source, lists: Option<&WordLists>) -> Value {
    let text = &source.text;
    let adverbs = lists.map(|lists| {
        let adverbs = text.tokens.iter().filter(|token| is_adverb(&token.norm, lists));
        let words = places(text, adverbs.map(|token| (token.norm.as_str(), token.start)));
        json!({ "count": words.iter().map(|it| it.count).sum::<usize>(), "words": words })
    });
    let repeated = lists.map(|lists| {
        let content = text.tokens.iter().filter(|token| lists.is_content(&token.norm));
        let mut words = places(text, content.map(|token| (token.norm.as_str(), token.start)));
        words.retain(|word| word.count >= REPEATED_MIN);
        words.truncate(REPEATED_MAX);
        words
    });
    json!({ "adverbs": adverbs, "repeated": repeated, "runs": runs(source) })
}

/// Whether a sentence goes on with a run.
type GoesOn<'a> = &'a dyn Fn(&[Sentence], &Sentence) -> bool;

/// Sentences in a row that begin with the same token, or are nearly as long as each other.
fn runs(source: &Source) -> Vec<Value> {
    let text = &source.text;
    let first = |sentence: &Sentence| {
        text.tokens.get(sentence.tokens.start).map(|token| token.norm.as_str())
    };
    let same_start = |run: &[Sentence], next: &Sentence| {
        run.first().is_none_or(|begin| first(begin) == first(next))
    };
    let same_length = |run: &[Sentence], next: &Sentence| {
        let lengths = || run.iter().map(length).chain([length(next)]);
        let (least, most) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
        most - least <= RUN_SPREAD
    };
    let mut found: Vec<(&'static str, Range<usize>)> = Vec::new();
    let kinds: [(&'static str, GoesOn<'_>); 2] =
        [("same_start", &same_start), ("same_length", &same_length)];
    for (kind, goes_on) in kinds {
        let mut start = 0;
        for at in 0..=text.sentences.len() {
            let run = text.sentences.get(start..at).unwrap_or_default();
            if text.sentences.get(at).is_some_and(|next| goes_on(run, next)) {
                continue;
            }
            if run.len() >= RUN_MIN {
                found.push((kind, start..at));
            }
            start = at;
        }
    }
    // The longest runs first; the sort is stable.
    found.sort_by_key(|(_, run)| std::cmp::Reverse(run.len()));
    found.truncate(RUNS_MAX);
    let shown = |(kind, run): (&'static str, Range<usize>)| {
        let sentences = text.sentences.get(run).unwrap_or_default();
        let quote = |at: Option<&Sentence>| -> Option<Quote> {
            at.map(|it| text.quote(&source.reference, it.range.clone()))
        };
        json!({
            "kind": kind, "sentences": sentences.len(),
            "lengths": sentences.iter().take(LINES_MAX).map(length).collect::<Vec<_>>(),
            "first": quote(sentences.first()), "last": quote(sentences.last()),
        })
    };
    found.into_iter().map(shown).collect()
}
