//! `outline_analyzer`: reads the beats of an outline and reports what stands out in their structure.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolgate_kernel::tool::{SpecDraft, SpecRefusal};
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Output, Tool};

use super::super::answer::{Answer, dry_run};
use super::super::outline::{Beat, Outline, scenes};
use super::super::sources::{Library, Role, Source, footprint};
use super::super::text::{Quote, decimal, token_words};
use super::super::{Setup, core_tool};
use super::SourceRef;
use crate::text::counted;

const NAME: &str = "outline_analyzer";

/// Words below which a beat says nothing.
const EMPTY_WORDS: usize = 5;

/// Characters of the numbered text.
const TEXT_CHARS_MAX: usize = 12_000;

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// Beats, acts and findings.
    Structure,
    /// The numbered text of the outline too.
    Full,
}

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// The outline; the outline of the project, or the beats of the manuscript, when left out.
    outline_path: Option<SourceRef>,
    /// structure (when left out), or full for the numbered text too.
    mode: Option<Mode>,
    /// Only says what would be read.
    dry_run: Option<bool>,
}

/// Something in the structure that is worth a look.
#[derive(Serialize)]
struct Finding {
    kind: &'static str,
    /// The place of the beat.
    beat: Option<usize>,
    detail: String,
    quote: Option<Quote>,
}

pub(super) fn tool(setup: &Arc<Setup>) -> Result<Arc<dyn Tool>, SpecRefusal> {
    let about = "Reads the beats of an outline: numbers, titles, points of view, words, acts, the scene of each beat, \
        and gaps, doubles, empty and thin beats.";
    let draft = SpecDraft::new(NAME, about).touches(|args| Ok(footprint(args, &["outline_path"])));
    core_tool(setup, draft, run)
}

fn run(setup: &Setup, tx: &Transaction, params: Params) -> Result<Output, Fault> {
    let mut library = Library::open(tx, setup);
    let given = params.outline_path.as_ref().map(SourceRef::as_str);
    if params.dry_run.unwrap_or_default() {
        let named: Vec<_> = given.iter().map(|given| ("outline_path", *given)).collect();
        let mut also = if given.is_some() { Vec::new() } else { Outline::entries(&library) };
        also.extend(library.of_role(Role::Scene));
        return dry_run(NAME, &library, &named, &also);
    }
    let outline = match Outline::find(&mut library, "outline_path", given)? {
        Some(outline) => outline,
        // The outline a project has when nothing else is said.
        None => Outline::of(library.required("outline_path", "Story/SCN-outline.md")?),
    };
    let scenes: Vec<Arc<Source>> = scenes(&mut library);
    let mut scene_of: Vec<Option<Arc<Source>>> = vec![None; outline.beats.len()];
    let mut without_beat = Vec::new();
    for scene in &scenes {
        match outline.match_scene(scene) {
            Some((beat, _)) => {
                if let Some(slot) = scene_of.get_mut(beat.place - 1) {
                    slot.get_or_insert_with(|| Arc::clone(scene));
                }
            }
            None => without_beat.push(Arc::clone(scene)),
        }
    }
    let mut findings = findings(&outline.beats);
    for (beat, scene) in outline.beats.iter().zip(&scene_of) {
        if scene.is_none() {
            findings.push(finding("beat_without_scene", beat, "no scene was matched".to_owned()));
        }
    }
    for scene in &without_beat {
        findings.push(Finding {
            kind: "scene_without_beat",
            beat: None,
            detail: scene.reference.clone(),
            quote: scene
                .text
                .sentences
                .first()
                .map(|first| scene.text.quote(&scene.reference, first.range.clone())),
        });
    }
    let beats: Vec<Value> = outline
        .beats
        .iter()
        .zip(&scene_of)
        .map(|(beat, scene)| shown(&outline, beat, scene.as_deref()))
        .collect();
    let words: usize = outline.beats.iter().map(|beat| beat.words).sum();
    let acts = outline.acts.iter().map(|act| {
        json!({ "title": act.title, "words": act.words, "share": decimal(act.words, words, 100) })
    });
    let mut balance = Map::new();
    for pov in outline.beats.iter().filter_map(|beat| beat.pov.as_ref()) {
        let count = balance.get(pov).and_then(Value::as_u64).unwrap_or(0);
        balance.insert(pov.clone(), json!(count + 1));
    }
    let mut answer = Answer::new(NAME);
    let found = findings.len();
    answer.set("beats", &beats)?;
    answer.set("acts", &acts.collect::<Vec<_>>())?;
    answer.set("pov_balance", &balance)?;
    answer.set("findings", &findings)?;
    if params.mode == Some(Mode::Full) {
        let budget = TEXT_CHARS_MAX / outline.sources.len().max(1);
        let texts = outline.sources.iter().map(|source| {
            json!({ "source": source.reference, "excerpt": source.text.excerpt(0, budget) })
        });
        answer.set("text", &texts.collect::<Vec<_>>())?;
    }
    outline.sources.iter().for_each(|source| answer.source(source));
    scene_of.iter().flatten().chain(&without_beat).for_each(|scene| answer.source(scene));
    answer.finish(format!("{}, {}.", counted(beats.len(), "beat"), counted(found, "finding")))
}

fn shown(outline: &Outline, beat: &Beat, scene: Option<&Source>) -> Value {
    let act = beat.act.and_then(|at| outline.acts.get(at)).map(|act| &act.title);
    json!({
        "place": beat.place, "number": beat.number, "title": beat.title, "act": act, "pov": beat.pov,
        "when": beat.when, "where": beat.location, "source": beat.source.reference,
        "lines": beat.lines(), "words": beat.words, "summary": beat.summary(),
        "scene": scene.map(|scene| &scene.reference),
    })
}

fn finding(kind: &'static str, beat: &Beat, detail: String) -> Finding {
    Finding { kind, beat: Some(beat.place), detail, quote: Some(beat.heading_quote()) }
}

/// What stands out in the beats themselves.
fn findings(beats: &[Beat]) -> Vec<Finding> {
    let mut found = Vec::new();
    let (mut numbers, mut titles) = (BTreeMap::new(), BTreeMap::new());
    let mut before: Option<usize> = None;
    for beat in beats.iter().filter(|beat| beat.written) {
        let first = numbers.insert(beat.number, beat.place);
        if let Some(first) = first {
            found.push(finding(
                "number_twice",
                beat,
                format!("{} is also the number of beat {first}", beat.number),
            ));
        } else if let Some(last) = before.filter(|last| beat.number > last + 1) {
            found.push(finding("number_gap", beat, format!("{} comes after {last}", beat.number)));
        }
        before = Some(before.map_or(beat.number, |last| last.max(beat.number)));
    }
    let mut words: Vec<usize> = beats.iter().map(|beat| beat.words).collect();
    words.sort_unstable();
    // Twice the median, so that it is a whole number.
    let middle = |at: usize| words.get(at).copied().unwrap_or(0);
    let twice_median = middle(words.len() / 2) + middle(words.len().saturating_sub(1) / 2);
    for beat in beats {
        let title = token_words(&beat.title);
        if let Some(first) = titles.insert(title, beat.place) {
            found.push(finding("title_twice", beat, format!("also the title of beat {first}")));
        }
        if beat.words < EMPTY_WORDS {
            found.push(finding("empty_beat", beat, counted(beat.words, "word")));
        } else if beat.words * 8 < twice_median {
            let median = decimal(twice_median, 2, 10);
            found.push(finding(
                "thin_beat",
                beat,
                format!("{}; the median is {median}", counted(beat.words, "word")),
            ));
        }
        if beat.pov.is_none() {
            found.push(finding("no_pov", beat, "no point of view is named".to_owned()));
        }
    }
    found
}
