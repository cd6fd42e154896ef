//! Only what an expression names is looked up.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::super::{COMPREHENSION_ITEMS_MAX, EvaluationFault, Lookup, Scope, Sequence, View};
use super::compile;

/// Notes by name, which count how often one is handed out.
struct Notes {
    notes: BTreeMap<String, String>,
    handed_out: Cell<usize>,
}

impl Lookup for Notes {
    fn field(&self, name: &str) -> Option<View<'_>> {
        let note = self.notes.get(name)?;
        self.handed_out.set(self.handed_out.get() + 1);
        Some(View::Text(note))
    }

    fn size(&self) -> usize {
        self.notes.len()
    }

    fn keys(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.notes.keys().map(String::as_str))
    }
}

struct Numbers(usize);

impl Sequence for Numbers {
    fn item(&self, index: usize) -> Option<View<'_>> {
        (index < self.0).then_some(View::Uint(index as u64))
    }

    fn size(&self) -> usize {
        self.0
    }
}

struct Project {
    notes: Notes,
    numbers: Numbers,
}

impl Project {
    fn with(notes: usize) -> Project {
        let notes = (0..notes).map(|index| (format!("n{index}"), "text".to_owned())).collect();
        Project { notes: Notes { notes, handed_out: Cell::new(0) }, numbers: Numbers(3) }
    }
}

impl Lookup for Project {
    fn field(&self, name: &str) -> Option<View<'_>> {
        match name {
            "notes" => Some(View::Object(&self.notes)),
            "numbers" => Some(View::List(&self.numbers)),
            "locked" => Some(View::Null),
            "ratio" => Some(View::Float(0.5)),
            "open" => Some(View::Bool(true)),
            _ => None,
        }
    }

    fn size(&self) -> usize {
        5
    }

    fn keys(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(["notes", "numbers", "locked", "ratio", "open"].into_iter())
    }
}

impl Scope for Project {
    fn get(&self, name: &str) -> Option<View<'_>> {
        (name == "project").then_some(View::Object(self))
    }
}

#[test]
fn lookups_answer_like_maps_and_touch_nothing_else() {
    let project = Project::with(10_000);
    for (source, touched) in [
        ("project.notes.size() >= 3", 0),
        ("project.notes.n7 == 'text'", 1),
        ("project.notes['n9999'] == 'text'", 1),
        ("'n1' in project.notes && !('x' in project.notes)", 1),
        ("has(project.notes.n1) && !has(project.notes.x)", 1),
        ("project.notes.exists(name, name == 'n10')", 0),
        ("project.numbers == [0, 1, 2] && project.numbers[2] == 2", 0),
        ("project.numbers.all(n, n < 3) && 2 in project.numbers", 0),
        ("project.locked == null && project.ratio < 1 && project.open", 0),
        ("project.numbers + [3] == [0, 1, 2, 3]", 0),
        ("project.notes != {'n1': 'text'}", 0),
    ] {
        project.notes.handed_out.set(0);
        assert_eq!(compile(source).unwrap().evaluate(&project), Ok(true), "{source}");
        assert_eq!(project.notes.handed_out.get(), touched, "{source}");
    }
}

#[test]
fn lookups_can_be_compared_with_maps() {
    let project = Project::with(2);
    let expression = compile("project.notes == {'n1': 'text', 'n0': 'text'}").unwrap();
    assert_eq!(expression.evaluate(&project), Ok(true));
}

#[test]
fn too_many_items_are_a_fault_that_nothing_absorbs() {
    let project = Project::with(COMPREHENSION_ITEMS_MAX + 1);
    let expression = compile("project.notes.all(name, name != '') || true").unwrap();
    let expected = EvaluationFault::TooManyItems { items: COMPREHENSION_ITEMS_MAX + 1 };
    assert_eq!(expression.evaluate(&project), Err(expected));
}

/// Says it is small and hands out keys without end.
struct Liar;

impl Lookup for Liar {
    fn field(&self, _: &str) -> Option<View<'_>> {
        Some(View::Null)
    }

    fn size(&self) -> usize {
        1
    }

    fn keys(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(std::iter::repeat("key"))
    }
}

impl Scope for Liar {
    fn get(&self, _: &str) -> Option<View<'_>> {
        Some(View::Object(self))
    }
}

#[test]
fn endless_keys_end_at_the_bound() {
    for source in ["project.all(key, key != '')", "project == session", "project.map(k, k) == []"] {
        let answer = compile(source).unwrap().evaluate(&Liar);
        assert_eq!(answer, Err(EvaluationFault::TooMuchWork), "{source}");
    }
}
