//! Decides what a condition may look at: the call and the folds, read in place.

use std::sync::Arc;

use imbl::Vector;
use serde_json::{Map, Value};

use super::expression::{EvaluationFault, Expression, Lookup, Scope, Sequence, View};
use super::rule::RuleExample;
use crate::fold::{Shelf, Slot, State, World};
use crate::gate::Call;
use crate::json::Part;
use crate::key::Touched;
use crate::section::{Home, Toolset};

/// The variables of a condition.
pub const RULE_ROOTS: &[&str] = &[
    "args",
    "tool",
    "phase",
    "actor",
    "touches",
    "iteration",
    "turn",
    "session",
    "project",
    "facts",
    "now",
];

/// The variables of a condition that concerns no call.
pub const STATE_ROOTS: &[&str] =
    &["phase", "iteration", "turn", "session", "project", "facts", "now"];

/// The family of the facts. Its single entry counts their changes; every other one is a fact.
pub const FACTS_FAMILY: &str = "facts";

/// Whether a condition over the state holds. Whoever asks must take a fault for a no.
pub fn holds(condition: &Expression, world: &World<'_>) -> Result<bool, EvaluationFault> {
    condition.evaluate(&StateScope::new(world))
}

/// The world without a call.
struct StateScope<'a> {
    world: &'a World<'a>,
    session: Shelves<'a>,
    project: Shelves<'a>,
    /// Where somebody keeps them.
    facts: Option<Facts<'a>>,
}

impl<'a> StateScope<'a> {
    fn new(world: &'a World<'a>) -> Self {
        let toolset = world.toolset;
        let kept = toolset.family_named(FACTS_FAMILY).is_some();
        let shelf = world.project.state.shelf(FACTS_FAMILY).unwrap_or(&EMPTY);
        Self {
            world,
            facts: kept.then_some(Facts(shelf)),
            session: Shelves { state: &world.session.state, toolset, home: Home::Session },
            project: Shelves { state: &world.project.state, toolset, home: Home::Project },
        }
    }
}

impl Scope for StateScope<'_> {
    fn get(&self, name: &str) -> Option<View<'_>> {
        let session = self.world.session;
        Some(match name {
            "phase" => View::Text(session.phase.as_ref()?.as_str()),
            "iteration" => View::Uint(session.iteration),
            "turn" => View::Uint(session.turn),
            "session" => View::Object(&self.session),
            "project" => View::Object(&self.project),
            "facts" => View::Object(self.facts.as_ref()?),
            "now" => View::Int(self.world.now.0),
            _ => return None,
        })
    }
}

/// One call in its world.
pub(super) struct CallScope<'a> {
    call: &'a Call,
    state: StateScope<'a>,
    actor: String,
    touches: Keys,
}

impl<'a> CallScope<'a> {
    pub(super) fn new(call: &'a Call, touched: &[Touched], world: &'a World<'a>) -> Self {
        Self {
            call,
            state: StateScope::new(world),
            actor: call.actor().to_string(),
            touches: Keys(touched.iter().map(|touched| touched.key.to_string()).collect()),
        }
    }
}

impl Scope for CallScope<'_> {
    fn get(&self, name: &str) -> Option<View<'_>> {
        Some(match name {
            "args" => View::Object(self.call),
            "tool" => View::Text(self.call.spec().name.as_str()),
            "actor" => View::Text(&self.actor),
            "touches" => View::List(&self.touches),
            _ => return self.state.get(name),
        })
    }
}

/// An example stands alone: its arguments and phase, and no world around it.
pub(super) struct ExampleScope<'a> {
    pub(super) tool: &'a str,
    pub(super) example: &'a RuleExample,
}

impl Scope for ExampleScope<'_> {
    fn get(&self, name: &str) -> Option<View<'_>> {
        Some(match name {
            "args" => View::Object(&self.example.args),
            "tool" => View::Text(self.tool),
            "phase" => View::Text(&self.example.phase),
            "actor" => View::Text("model:example"),
            "iteration" | "turn" => View::Uint(1),
            "now" => View::Int(0),
            _ => return None,
        })
    }
}

/// The arguments of a call. What has no parts is read in place; the rest is seen as a tree.
impl Lookup for Call {
    fn field(&self, name: &str) -> Option<View<'_>> {
        Some(match self.args().get(name)? {
            Part::Null => View::Null,
            Part::Bool(truth) => View::Bool(truth),
            Part::Unsigned(number) => i64::try_from(number).map_or(View::Uint(number), View::Int),
            Part::Signed(number) => View::Int(number),
            Part::Float(number) => View::Float(number),
            Part::Text(text) => View::Text(text),
            Part::List(_) | Part::Object(_) => View::Json(self.args_tree().get(name)?),
        })
    }

    fn size(&self) -> usize {
        self.args().members().len()
    }

    fn keys(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.args().members().map(|(name, _)| name))
    }
}

impl Lookup for Map<String, Value> {
    fn field(&self, name: &str) -> Option<View<'_>> {
        self.get(name).map(View::Json)
    }

    fn size(&self) -> usize {
        self.len()
    }

    fn keys(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.keys().map(String::as_str))
    }
}

struct Keys(Vec<String>);

impl Sequence for Keys {
    fn item(&self, index: usize) -> Option<View<'_>> {
        self.0.get(index).map(|key| View::Text(key))
    }

    fn size(&self) -> usize {
        self.0.len()
    }
}

/// The state of one fold, by family: `project.note["anna"]`.
struct Shelves<'a> {
    state: &'a State,
    toolset: &'a Toolset,
    home: Home,
}

/// A family that may hold something and holds nothing.
static EMPTY: std::sync::LazyLock<Shelf> = std::sync::LazyLock::new(Shelf::default);

impl Lookup for Shelves<'_> {
    /// A family nobody keeps is a mistake in the rule, so it is missing and the rule denies.
    fn field(&self, name: &str) -> Option<View<'_>> {
        if let Some(shelf) = self.state.shelf(name) {
            // A family with a single entry is that entry: `session.plan`.
            return Some(match shelf.get("") {
                Some(single) if shelf.len() == 1 => slot_view(single),
                _ => View::Object(shelf),
            });
        }
        let kept = self.toolset.family_named(name).is_some_and(|family| family.home == self.home);
        kept.then(|| View::Object(&*EMPTY))
    }

    fn size(&self) -> usize {
        self.state.shelves().count()
    }

    fn keys(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.state.shelves().map(|(family, _)| family.as_str()))
    }
}

/// What a person confirmed, by name: `facts.city`.
struct Facts<'a>(&'a Shelf);

impl Lookup for Facts<'_> {
    fn field(&self, name: &str) -> Option<View<'_>> {
        self.0.get(name).filter(|_| !name.is_empty()).map(slot_view)
    }

    fn size(&self) -> usize {
        self.keys().count()
    }

    fn keys(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.0.iter().map(|(name, _)| name).filter(|name| !name.is_empty()))
    }
}

impl Lookup for Shelf {
    fn field(&self, name: &str) -> Option<View<'_>> {
        self.get(name).map(slot_view)
    }

    fn size(&self) -> usize {
        self.len()
    }

    fn keys(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.iter().map(|(name, _)| name))
    }
}

fn slot_view(slot: &Slot) -> View<'_> {
    match (slot.as_one(), slot.as_list()) {
        (Some(value), _) => View::Json(value),
        (None, Some(items)) => View::List(items),
        (None, None) => View::Null,
    }
}

impl Sequence for Vector<Arc<Value>> {
    fn item(&self, index: usize) -> Option<View<'_>> {
        self.get(index).map(|item| View::Json(item))
    }

    fn size(&self) -> usize {
        self.len()
    }
}
