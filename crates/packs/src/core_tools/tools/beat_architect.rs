//! `beat_architect`: looks what a scene brief says, asks for the rest, and lays out empty clusters.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_kernel::tool::{SpecDraft, SpecRefusal};
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Output, Tool};

use super::super::answer::{Answer, dry_run};
use super::super::names::counted;
use super::super::sources::{Library, Role};
use super::super::text::Text;
use super::super::word_lists::WordLists;
use super::super::{Setup, core_tool};

const NAME: &str = "beat_architect";

/// What each filled slot adds.
const SLOT_CONFIDENCE: usize = 20;

/// Filled slots from which on no question is needed.
const FILLED_MIN: usize = 4;

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Density {
    /// 5 clusters.
    Lean,
    /// 7 clusters.
    Balanced,
    /// 10 clusters.
    Dense,
}

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// What is known of the scene, in any words; labels such as `POV:` help.
    #[schemars(length(min = 1, max = 8_000))]
    scene_brief: String,
    /// How many clusters: lean 5, balanced 7 (when left out), dense 10.
    density: Option<Density>,
    /// Most clusters.
    #[schemars(range(min = 3, max = 12))]
    max_clusters: Option<u16>,
    /// Only says what would be read.
    dry_run: Option<bool>,
}

/// What a scene needs before it can be laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum SceneSlot {
    Pov,
    Place,
    Aim,
    Obstacle,
    Turn,
}

impl SceneSlot {
    const ALL: [Self; 5] = [Self::Pov, Self::Place, Self::Aim, Self::Obstacle, Self::Turn];

    /// The label that fills it in any language.
    fn label(self) -> &'static str {
        match self {
            Self::Pov => "pov",
            Self::Place => "place",
            Self::Aim => "aim",
            Self::Obstacle => "obstacle",
            Self::Turn => "turn",
        }
    }

    fn question(self) -> &'static str {
        match self {
            Self::Pov => "Through whose eyes do we see the scene?",
            Self::Place => "Where does it happen, and when?",
            Self::Aim => "What does the point-of-view character want in this scene?",
            Self::Obstacle => "Who or what stands in the way?",
            Self::Turn => "How does it end: what is decided, revealed or lost?",
        }
    }

    /// Whether a token fills it.
    fn takes(self, token: &str, lists: &WordLists) -> bool {
        let words = match self {
            Self::Pov => return token == "pov",
            Self::Place => &lists.slots.place,
            Self::Aim => &lists.slots.aim,
            Self::Obstacle => &lists.slots.obstacle,
            Self::Turn => &lists.slots.turn,
        };
        words.iter().any(|word| lists.is_form_of(word, token))
    }
}

#[derive(Serialize)]
struct FilledSlot {
    slot: SceneSlot,
    filled: bool,
    words: Vec<String>,
}

pub(super) fn tool(setup: &Arc<Setup>) -> Result<Arc<dyn Tool>, SpecRefusal> {
    let about = "Looks which of point of view, place, aim, obstacle and turn a scene brief names, asks for the rest, \
        and lays out empty clusters to fill.";
    core_tool(setup, SpecDraft::new(NAME, about).alias("beat_builder"), run)
}

fn run(setup: &Setup, tx: &Transaction, params: Params) -> Result<Output, Fault> {
    let mut library = Library::open(tx, setup);
    if params.dry_run.unwrap_or_default() {
        return dry_run(NAME, &library, &[], &library.of_role(Role::Canon));
    }
    let mut answer = Answer::new(NAME);
    let lists = setup.lists_or_warn(&mut answer);
    let brief = Text::new(params.scene_brief, 1, lists);
    let slots: Vec<FilledSlot> =
        SceneSlot::ALL.into_iter().map(|slot| fill(slot, &brief, lists)).collect();
    let is_filled = |slot| slots.iter().any(|it| it.slot == slot && it.filled);
    let filled = slots.iter().filter(|slot| slot.filled).count();
    let ready = filled >= FILLED_MIN && is_filled(SceneSlot::Pov) && is_filled(SceneSlot::Aim);
    let open = SceneSlot::ALL.into_iter().filter(|slot| !is_filled(*slot));
    let questions: Vec<Value> =
        open.map(|slot| json!({ "slot": slot, "question": slot.question() })).collect();
    let size = match params.density.unwrap_or(Density::Balanced) {
        Density::Lean => 5,
        Density::Balanced => 7,
        Density::Dense => 10,
    };
    let size = params.max_clusters.map_or(size, |max| usize::from(max).min(size));
    let clusters: Vec<Value> =
        if ready { (1..=size).map(|at| cluster(at, size)).collect() } else { Vec::new() };
    let mut known = library.known_names([]);
    known.learn(&brief, lists);
    let hits = known.names(&brief, lists);
    let (in_canon, unknown): (Vec<_>, Vec<_>) =
        counted(&hits).into_iter().partition(|name| known.in_canon(&name.key));
    for source in library.canon() {
        let names = source.names();
        if hits.iter().any(|hit| names.iter().any(|name| hit.has(name))) {
            answer.source(&source);
        }
    }
    let shown = |names: Vec<super::super::names::NameCount>| -> Vec<String> {
        names.into_iter().map(|name| name.shown).collect()
    };
    answer.set("slots", &slots)?;
    answer.set("confidence", &(filled * SLOT_CONFIDENCE))?;
    answer.set("needs_clarification", &!ready)?;
    answer.set("questions", &questions)?;
    answer.set("clusters", &clusters)?;
    answer.set("names", &json!({ "known": shown(in_canon), "unknown": shown(unknown) }))?;
    answer.finish(match ready {
        true => format!("{} of 5 slots are filled; {size} clusters.", filled),
        false => format!("{filled} of 5 slots are filled; ask before you plan."),
    })
}

/// The words of a brief that fill a slot, each once.
fn fill(slot: SceneSlot, brief: &Text, lists: Option<&WordLists>) -> FilledSlot {
    let mut words: Vec<String> = Vec::new();
    for token in &brief.tokens {
        let rest = brief.raw.get(token.end..).unwrap_or_default();
        let label = token.norm == slot.label() && rest.trim_start().starts_with(':');
        let listed = lists.map_or(token.norm == "pov" && slot == SceneSlot::Pov, |lists| {
            slot.takes(&token.norm, lists)
        });
        let word = brief.shown(token).to_owned();
        if (label || listed) && !words.contains(&word) {
            words.push(word);
        }
    }
    FilledSlot { slot, filled: !words.is_empty(), words }
}

/// An empty cluster; `at` counts from one.
fn cluster(at: usize, size: usize) -> Value {
    let (name, slots): (String, &[SceneSlot]) = if at == 1 {
        ("SCENE START".to_owned(), &[SceneSlot::Pov, SceneSlot::Place])
    } else if at == size {
        ("SCENE ENDING".to_owned(), &[SceneSlot::Turn])
    } else {
        (format!("CONTINUATION {}", at - 1), &[SceneSlot::Aim, SceneSlot::Obstacle])
    };
    json!({
        "name": name, "slots": slots, "anchor": "", "actions": [], "realization": "", "flexible": [],
        "fixed": [], "verify": [],
    })
}
