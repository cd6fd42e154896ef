//! `reader_experience_simulator`: what a first reader meets from scene to scene.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_kernel::tool::{SpecDraft, SpecRefusal};
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Output, Tool};

use super::super::answer::{Answer, dry_run};
use super::super::names::{NameCount, counted};
use super::super::outline::Outline;
use super::super::sources::{Library, Source, field_value, footprint};
use super::super::text::decimal;
use super::super::time_markers::time_markers;
use super::super::{Setup, core_tool};
use super::{SourceRef, texts};

const NAME: &str = "reader_experience_simulator";

/// Words that are read in a minute.
const WORDS_A_MINUTE: usize = 250;

/// Characters of opening and ending.
const EDGE_CHARS_MAX: usize = 450;

/// Most names of each list.
const NAMES_MAX: usize = 20;

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// The scenes in the order in which they are read, 1 to 12.
    #[schemars(length(min = 1, max = 12))]
    scene_paths: Vec<SourceRef>,
    /// Only says what would be read.
    dry_run: Option<bool>,
}

/// A scene as its first reader knows it.
struct ReadScene {
    source: Arc<Source>,
    names: Vec<NameCount>,
    pov: Option<String>,
}

pub(super) fn tool(setup: &Arc<Setup>) -> Result<Arc<dyn Tool>, SpecRefusal> {
    let about = "Reads scenes in order as a first reader does: length, dialogue, opening and ending, names that are \
        new or return, and what carries over from one scene to the next.";
    let draft = SpecDraft::new(NAME, about)
        .alias("reader_simulator")
        .touches(|args| Ok(footprint(args, &["scene_paths"])));
    core_tool(setup, draft, run)
}

fn run(setup: &Setup, tx: &Transaction, params: Params) -> Result<Output, Fault> {
    let mut library = Library::open(tx, setup);
    let given = texts(&params.scene_paths);
    if params.dry_run.unwrap_or_default() {
        let named: Vec<_> = given.iter().map(|path| ("scene_paths", path.as_str())).collect();
        return dry_run(NAME, &library, &named, &[]);
    }
    let outcomes = library.each("scene_paths", &given)?;
    let outline = Outline::find(&mut library, "scene_paths", None)?;
    let mut answer = Answer::new(NAME);
    let lists = setup.lists_or_warn(&mut answer);
    let known = library.known_names(outcomes.iter().flatten().map(AsRef::as_ref));
    let read: Vec<Option<ReadScene>> = outcomes
        .iter()
        .map(|outcome| {
            let source = outcome.as_ref().ok()?;
            let names = counted(&known.names(&source.text, lists));
            let written = || source.text.lines().find_map(|(_, line)| field_value(line, "pov"));
            let planned = || outline.as_ref()?.match_scene(source)?.0.pov.clone();
            let pov = source.text.front.pov.clone().or_else(written).or_else(planned);
            Some(ReadScene { source: Arc::clone(source), names, pov })
        })
        .collect();
    // The last scene in which each name stood.
    let mut met: BTreeMap<String, usize> = BTreeMap::new();
    let mut scenes = Vec::new();
    for (at, (outcome, scene)) in outcomes.iter().zip(&read).enumerate() {
        match (outcome, scene) {
            (Err(unread), _) => scenes.push(unread.shown()),
            (Ok(_), Some(scene)) => {
                scenes.push(describe(&mut answer, scene, at, &met));
                met.extend(scene.names.iter().map(|name| (name.key.clone(), at)));
                answer.source(&scene.source);
            }
            (Ok(_), None) => {}
        }
    }
    let transitions: Vec<Value> = read
        .windows(2)
        .filter_map(|pair| match pair {
            [Some(from), Some(to)] => Some(transition(setup, from, to)),
            _ => None,
        })
        .collect();
    let count = read.iter().flatten().count();
    answer.set("scenes", &scenes)?;
    answer.set("transitions", &transitions)?;
    answer.finish(format!(
        "{}, {}.",
        crate::text::counted(count, "scene"),
        crate::text::counted(transitions.len(), "transition")
    ))
}

fn describe(
    answer: &mut Answer,
    scene: &ReadScene,
    at: usize,
    met: &BTreeMap<String, usize>,
) -> Value {
    let ReadScene { source, names, pov } = scene;
    let text = &source.text;
    let words = text.words();
    let new: Vec<&str> = names
        .iter()
        .filter(|name| !met.contains_key(&name.key))
        .map(|name| name.shown.as_str())
        .collect();
    let returning = names.iter().filter_map(|name| {
        let since = at - met.get(&name.key)?;
        Some(json!({ "name": name.shown, "scenes_since": since }))
    });
    answer.leave_out("scenes.names", names.len().saturating_sub(NAMES_MAX));
    json!({
        "source": source.reference, "title": source.title(), "pov": pov, "words": words,
        "minutes": decimal(words, WORDS_A_MINUTE, 10), "dialogue_ratio": text.dialogue_ratio(),
        "opening": text.opening(&source.reference, EDGE_CHARS_MAX),
        "ending": text.ending(&source.reference, EDGE_CHARS_MAX),
        "names": names.iter().take(NAMES_MAX).map(|it| json!({ "name": it.shown, "count": it.count })).collect::<Vec<_>>(),
        "new_names": new.iter().take(NAMES_MAX).collect::<Vec<_>>(),
        "returning": returning.take(NAMES_MAX).collect::<Vec<_>>(),
        "new_names_per_1000_words": decimal(new.len() * 1_000, words, 10),
    })
}

/// What carries over from one scene to the next.
fn transition(setup: &Setup, from: &ReadScene, to: &ReadScene) -> Value {
    let shared =
        from.names.iter().filter(|name| to.names.iter().any(|other| other.key == name.key));
    let opening = to.source.text.opening(&to.source.reference, EDGE_CHARS_MAX);
    let marker = setup.lists.map(|lists| {
        let markers = time_markers(&to.source.text, lists);
        let last = opening.as_ref().map_or(0, |quote| quote.end_line);
        let opens = |at: usize| to.source.text.line_of(at) <= last;
        markers
            .into_iter()
            .find(|marker| opens(marker.range.start))
            .map(|marker| marker.shown(&to.source))
    });
    json!({
        "from": from.source.reference, "to": to.source.reference,
        "from_ending": from.source.text.ending(&from.source.reference, EDGE_CHARS_MAX),
        "to_opening": opening, "shared_names": shared.map(|name| &name.shown).take(NAMES_MAX).collect::<Vec<_>>(),
        "opening_time": marker.flatten(), "pov": [from.pov, to.pov],
    })
}
