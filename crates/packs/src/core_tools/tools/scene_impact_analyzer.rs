//! `scene_impact_analyzer`: what a reader meets in a scene: opening, ending, questions, conflict.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_kernel::tool::{SpecDraft, SpecRefusal};
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Output, Tool};

use super::super::answer::{Answer, dry_run};
use super::super::outline::{Outline, shown_match};
use super::super::sources::{Library, Source, footprint};
use super::super::text::{Quote, Sentence, Text, decimal};
use super::super::word_lists::WordLists;
use super::super::{Setup, core_tool};
use super::SourceRef;
use crate::text::counted;

const NAME: &str = "scene_impact_analyzer";

/// Characters of the opening, and of the ending.
const EDGE_CHARS_MAX: usize = 550;

/// Most quotes of conflict.
const CONFLICT_MAX: usize = 5;

/// Parts of equal length that the sentences are counted in.
const QUARTERS: usize = 4;

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// The scene.
    scene_path: SourceRef,
    /// The outline; the outline of the project when left out.
    outline_path: Option<SourceRef>,
    /// Only says what would be read.
    dry_run: Option<bool>,
}

pub(super) fn tool(setup: &Arc<Setup>) -> Result<Arc<dyn Tool>, SpecRefusal> {
    let about = "Shows what a reader meets in a scene: opening and ending, questions, exclamations, dialogue, \
        sentences of conflict, their course through the scene, and its beat.";
    let draft = SpecDraft::new(NAME, about)
        .alias("impact_analyzer")
        .touches(|args| Ok(footprint(args, &["scene_path", "outline_path"])));
    core_tool(setup, draft, run)
}

fn run(setup: &Setup, tx: &Transaction, params: Params) -> Result<Output, Fault> {
    let mut library = Library::open(tx, setup);
    let given = params.outline_path.as_ref().map(SourceRef::as_str);
    let scene = params.scene_path.as_str();
    if params.dry_run.unwrap_or_default() {
        let mut named = vec![("scene_path", scene)];
        named.extend(given.map(|given| ("outline_path", given)));
        let also = if given.is_some() { Vec::new() } else { Outline::entries(&library) };
        return dry_run(NAME, &library, &named, &also);
    }
    let source = library.required("scene_path", scene)?;
    let outline = Outline::find(&mut library, "outline_path", given)?;
    let mut answer = Answer::new(NAME);
    let lists = setup.lists_or_warn(&mut answer);
    let text = &source.text;
    answer.source(&source);
    if let Some((beat, _)) = outline.as_ref().and_then(|outline| outline.match_scene(&source)) {
        answer.source(&beat.source);
    }
    let places = lists.into_iter().flat_map(|lists| {
        text.sentences.iter().filter_map(move |sentence| conflict_at(text, sentence, lists))
    });
    let quotes: Vec<Quote> = places.map(|at| text.quote_at(&source.reference, at)).collect();
    let conflicts = quotes.len();
    answer.set("source", &source.reference)?;
    answer.set("words", &text.words())?;
    answer.set("sentences", &text.sentences.len())?;
    answer.set("opening", &text.opening(&source.reference, EDGE_CHARS_MAX))?;
    answer.set("ending", &text.ending(&source.reference, EDGE_CHARS_MAX))?;
    answer.set("first_sentence", &text.sentences.first().map(|it| kind(text, it)))?;
    answer.set("last_sentence", &text.sentences.last().map(|it| kind(text, it)))?;
    answer.set("signals", &signals(text))?;
    answer.set("dialogue_ratio", &text.dialogue_ratio())?;
    if lists.is_some() {
        answer.set(
            "conflict",
            &json!({
                "count": conflicts, "quotes": quotes.iter().take(CONFLICT_MAX).collect::<Vec<_>>(),
            }),
        )?;
        answer.leave_out("conflict.quotes", conflicts.saturating_sub(CONFLICT_MAX));
    } else {
        answer.set("conflict", &Value::Null)?;
    }
    answer.set("quarters", &quarters(&source, lists))?;
    answer.set("outline_match", &shown_match(outline.as_ref(), &source))?;
    if outline.is_none() {
        answer.set("note", &"There is no outline, so the purpose of the scene is unknown.")?;
    }
    answer.finish(format!(
        "{}: {}, {} of conflict.",
        source.reference,
        counted(text.sentences.len(), "sentence"),
        counted(conflicts, "sentence")
    ))
}

/// Where a sentence has its first word of conflict.
fn conflict_at(text: &Text, sentence: &Sentence, lists: &WordLists) -> Option<usize> {
    let listed = |norm: &str| lists.conflict.iter().any(|word| lists.is_form_of(word, norm));
    let mut tokens = text.tokens_in(&sentence.tokens).iter();
    tokens.find(|token| listed(&token.norm)).map(|token| token.start)
}

/// What a sentence is to a reader.
fn kind(text: &Text, sentence: &Sentence) -> &'static str {
    if text.slice(sentence.range.clone()).contains(['?', '？']) {
        "question"
    } else if text.tokens_in(&sentence.tokens).iter().any(|token| token.dialogue) {
        "dialogue"
    } else {
        "statement"
    }
}

/// Marks of feeling, with how many of them stand in dialogue. Marks in a row count once.
fn signals(text: &Text) -> Value {
    let (mut questions, mut exclamations, mut ellipses) = ([0, 0], [0, 0], [0, 0]);
    for paragraph in &text.paragraphs {
        let body = text.slice(paragraph.range.clone());
        let mut before = ' ';
        for (at, c) in body.char_indices() {
            let place = paragraph.range.start + at;
            let counter = match c {
                '?' | '？' if !matches!(before, '?' | '？') => Some(&mut questions),
                '!' | '！' if !matches!(before, '!' | '！') => Some(&mut exclamations),
                '…' if before != '…' => Some(&mut ellipses),
                '.' if before != '.'
                    && body.get(at..).is_some_and(|rest| rest.starts_with("...")) =>
                {
                    Some(&mut ellipses)
                }
                _ => None,
            };
            if let Some([all, dialogue]) = counter {
                *all += 1;
                // A mark belongs to the token before it, else to the one behind it.
                let next = text.tokens.partition_point(|token| token.start < place);
                let token = next.checked_sub(1).and_then(|at| text.tokens.get(at));
                let own = token.filter(|token| token.start >= paragraph.range.start);
                *dialogue +=
                    usize::from(own.or(text.tokens.get(next)).is_some_and(|token| token.dialogue));
            }
            before = c;
        }
    }
    let shown = |[all, dialogue]: [usize; 2]| json!({ "count": all, "in_dialogue": dialogue, "outside": all - dialogue });
    json!({
        "questions": shown(questions), "exclamations": shown(exclamations), "ellipses": shown(ellipses),
    })
}

/// The course of the scene in four parts with as many sentences.
fn quarters(source: &Source, lists: Option<&WordLists>) -> Vec<Value> {
    let text = &source.text;
    let count = text.sentences.len();
    (0..QUARTERS)
        .map(|part| {
            let range = part * count / QUARTERS..(part + 1) * count / QUARTERS;
            let sentences = text.sentences.get(range).unwrap_or_default();
            let tokens: usize = sentences.iter().map(|it| it.tokens.len()).sum();
            let asking = sentences.iter().filter(|it| kind(text, it) == "question").count();
            let conflict = lists.map(|lists| {
                sentences.iter().filter(|it| conflict_at(text, it, lists).is_some()).count()
            });
            json!({
                "sentences": sentences.len(), "conflict": conflict, "questions": asking,
                "mean_length": decimal(tokens, sentences.len(), 10),
            })
        })
        .collect()
}
