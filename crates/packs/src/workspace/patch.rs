//! Decides what one change does to a document. Pure: all of a patch is made on a copy, or none is kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::pointer::{Path, position};

/// Most names that a refusal lists.
const LISTED_MAX: usize = 20;

/// What is done at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verb {
    /// Puts a value there.
    Set,
    /// Takes it away.
    Delete,
    /// Adds a value to the end of the list there.
    Append,
    /// Puts a value into the list there.
    Insert,
}

/// A change that cannot be made. The model reads this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatchRefusal {
    #[error("There is nothing at {path}. Leave this op out, or look with state_get first.")]
    NothingThere { path: String, names: Vec<String> },
    #[error("{path} is {kind}, so nothing can be below it. Set {path} as a whole.")]
    NoParent { path: String, kind: &'static str },
    #[error("{path} is {kind} and no list. Set it, or choose another path.")]
    NoList { path: String, kind: &'static str },
    #[error(
        "{name:?} is no place in the list {path}: it has {count} items, counted from 0. Use append \
         to add one."
    )]
    NoPlace { path: String, name: String, count: usize },
    #[error("value must be there for set, append and insert; null is a value.")]
    NoValue,
    #[error("index must be there for insert: a whole number from 0 to {count}.")]
    NoIndex { count: usize },
}

impl PatchRefusal {
    /// What there is instead.
    pub(super) fn allowed(&self) -> Option<Vec<String>> {
        match self {
            Self::NothingThere { names, .. } => Some(names.clone()),
            Self::NoParent { .. }
            | Self::NoList { .. }
            | Self::NoPlace { .. }
            | Self::NoValue
            | Self::NoIndex { .. } => None,
        }
    }
}

/// Makes one change. `value` and `index` are as the caller gave them.
pub(super) fn apply(
    document: &mut Value,
    path: &Path,
    verb: Verb,
    value: Option<Value>,
    index: Option<u64>,
) -> Result<(), PatchRefusal> {
    let needed = || value.clone().ok_or(PatchRefusal::NoValue);
    match verb {
        Verb::Set => set(document, path, needed()?),
        Verb::Delete => delete(document, path),
        Verb::Append => {
            let value = needed()?;
            list(document, path)?.push(value);
            Ok(())
        }
        Verb::Insert => {
            let value = needed()?;
            let items = list(document, path)?;
            let given = index.ok_or(PatchRefusal::NoIndex { count: items.len() })?;
            let at = usize::try_from(given).unwrap_or(usize::MAX);
            // A list that was not there is made with the one item.
            match (items.is_empty(), at <= items.len()) {
                (true, _) => items.push(value),
                (false, true) => items.insert(at, value),
                (false, false) => return Err(PatchRefusal::NoIndex { count: items.len() }),
            }
            Ok(())
        }
    }
}

fn set(document: &mut Value, path: &Path, value: Value) -> Result<(), PatchRefusal> {
    match slot(document, path, Missing::Made)? {
        Some(Slot::Member(map, name)) => {
            map.insert(name, value);
        }
        Some(Slot::Item(items, at)) => match items.get_mut(at) {
            Some(item) => *item = value,
            None => items.push(value),
        },
        None => {}
    }
    Ok(())
}

fn delete(document: &mut Value, path: &Path) -> Result<(), PatchRefusal> {
    let nothing = |names: Vec<String>| PatchRefusal::NothingThere { path: path.to_string(), names };
    match slot(document, path, Missing::Refused)? {
        Some(Slot::Member(map, name)) => match map.shift_remove(&name) {
            Some(_) => Ok(()),
            None => Err(nothing(map.keys().take(LISTED_MAX).cloned().collect())),
        },
        Some(Slot::Item(items, at)) if at < items.len() => {
            items.remove(at);
            Ok(())
        }
        Some(Slot::Item(..)) | None => Err(nothing(Vec::new())),
    }
}

/// The list at a path, made when nothing is there.
fn list<'a>(document: &'a mut Value, path: &Path) -> Result<&'a mut Vec<Value>, PatchRefusal> {
    let found = match slot(document, path, Missing::Made)? {
        Some(Slot::Member(map, name)) => map.entry(name).or_insert_with(|| Value::Array(vec![])),
        Some(Slot::Item(items, at)) => {
            if at == items.len() {
                items.push(Value::Array(vec![]));
            }
            match items.get_mut(at) {
                Some(item) => item,
                None => return Err(no_list(path, "nothing")),
            }
        }
        None => return Err(no_list(path, "nothing")),
    };
    let kind = kind(found);
    match found {
        Value::Array(items) => Ok(items),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            Err(no_list(path, kind))
        }
    }
}

/// What becomes of a part of a path that is not there.
#[derive(Clone, Copy, PartialEq)]
enum Missing {
    /// An object is made, or a list where `-` comes next.
    Made,
    /// It stays missing.
    Refused,
}

/// Where a value is kept: under a name of an object, or at a place of a list.
enum Slot<'a> {
    Member(&'a mut Map<String, Value>, String),
    Item(&'a mut Vec<Value>, usize),
}

/// The slot that a path names; none when what it is in is not there.
fn slot<'a>(
    document: &'a mut Value,
    path: &Path,
    missing: Missing,
) -> Result<Option<Slot<'a>>, PatchRefusal> {
    let Some((last, above)) = path.below.split_last() else { return Ok(None) };
    let nexts = path.below.iter().skip(1);
    let (mut here, mut walked) = (document, Path::whole(path.root));
    for (name, next) in above.iter().zip(nexts) {
        here = match here {
            Value::Object(map) => match member(map, name, next, missing) {
                Some(value) => value,
                None => return Ok(None),
            },
            Value::Array(items) => {
                let at = place(items, &walked, name)?;
                match items.get_mut(at) {
                    Some(item) => item,
                    None => return Ok(None),
                }
            }
            flat @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                return Err(no_parent(&walked, flat));
            }
        };
        walked.below.push(name.clone());
    }
    match here {
        Value::Object(map) => Ok(Some(Slot::Member(map, last.clone()))),
        Value::Array(items) => {
            // As JSON pointers have it: the place after the last one.
            let end = last == "-" && missing == Missing::Made;
            let at = if end { items.len() } else { place(items, &walked, last)? };
            Ok(Some(Slot::Item(items, at)))
        }
        flat @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            Err(no_parent(&walked, flat))
        }
    }
}

/// The place of an item that is there.
fn place(items: &[Value], list: &Path, name: &str) -> Result<usize, PatchRefusal> {
    let (path, name, count) = (list.to_string(), name.to_owned(), items.len());
    let at = position(&name).filter(|at| *at < count);
    at.ok_or(PatchRefusal::NoPlace { path, name, count })
}

fn member<'a>(
    map: &'a mut Map<String, Value>,
    name: &str,
    next: &str,
    missing: Missing,
) -> Option<&'a mut Value> {
    if missing == Missing::Made && !map.contains_key(name) {
        let made = if next == "-" { Value::Array(vec![]) } else { Value::Object(Map::new()) };
        map.insert(name.to_owned(), made);
    }
    map.get_mut(name)
}

fn no_list(path: &Path, kind: &'static str) -> PatchRefusal {
    PatchRefusal::NoList { path: path.to_string(), kind }
}

fn no_parent(path: &Path, value: &Value) -> PatchRefusal {
    PatchRefusal::NoParent { path: path.to_string(), kind: kind(value) }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::pointer::Root;
    use super::*;

    fn patched(
        before: Value,
        path: &str,
        verb: Verb,
        value: Option<Value>,
        index: Option<u64>,
    ) -> Result<Value, PatchRefusal> {
        let mut document = before;
        let path = Path::inside(path, &[Root::Draft]).unwrap();
        apply(&mut document, &path, verb, value, index)?;
        Ok(document)
    }

    #[test]
    fn every_verb_does_what_it_says() {
        let one = || Some(json!(1));
        let table = [
            (json!({}), "/draft/a", Verb::Set, one(), None, json!({"a": 1})),
            (json!({}), "/draft/a/b/c", Verb::Set, one(), None, json!({"a": {"b": {"c": 1}}})),
            (json!({"a": [0, 0]}), "/draft/a/1", Verb::Set, one(), None, json!({"a": [0, 1]})),
            (json!({"a": [0]}), "/draft/a/-", Verb::Set, one(), None, json!({"a": [0, 1]})),
            (json!({}), "/draft/a/-", Verb::Set, one(), None, json!({"a": [1]})),
            (json!({"a": {}}), "/draft/a/-", Verb::Set, one(), None, json!({"a": {"-": 1}})),
            (json!({"a": 1, "b": 2}), "/draft/a", Verb::Delete, None, None, json!({"b": 2})),
            (json!({"a": [1, 2]}), "/draft/a/0", Verb::Delete, None, None, json!({"a": [2]})),
            (json!({}), "/draft/a", Verb::Append, one(), None, json!({"a": [1]})),
            (json!({"a": [0]}), "/draft/a", Verb::Append, one(), None, json!({"a": [0, 1]})),
            (json!({"a": [[]]}), "/draft/a/0", Verb::Append, one(), None, json!({"a": [[1]]})),
            (json!({}), "/draft/x/a", Verb::Insert, one(), Some(3), json!({"x": {"a": [1]}})),
            (
                json!({"a": [0, 2]}),
                "/draft/a",
                Verb::Insert,
                one(),
                Some(1),
                json!({"a": [0, 1, 2]}),
            ),
            (json!({"a": [0]}), "/draft/a", Verb::Insert, one(), Some(1), json!({"a": [0, 1]})),
        ];
        for (before, path, verb, value, index, after) in table {
            assert_eq!(patched(before, path, verb, value, index), Ok(after), "{verb:?} {path}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let (one, a) = (Some(json!(1)), json!({"a": [0], "t": "x", "o": {"k": null}}));
        let table = [
            ("/draft/a/01", Verb::Set, one.clone(), None),
            ("/draft/a/-1", Verb::Set, one.clone(), None),
            ("/draft/a/1", Verb::Set, one.clone(), None),
            ("/draft/t/x", Verb::Set, one.clone(), None),
            ("/draft/o/k/x", Verb::Set, one.clone(), None),
            ("/draft/a/7/x", Verb::Set, one.clone(), None),
            ("/draft/nope", Verb::Delete, None, None),
            ("/draft/nope/deep/er", Verb::Delete, None, None),
            ("/draft/a/1", Verb::Delete, None, None),
            ("/draft/a/-", Verb::Delete, None, None),
            ("/draft/t", Verb::Append, one.clone(), None),
            ("/draft/o", Verb::Insert, one.clone(), Some(0)),
            ("/draft/a", Verb::Insert, one.clone(), Some(2)),
            ("/draft/a", Verb::Insert, one, None),
            ("/draft/a", Verb::Set, None, None),
            ("/draft/a", Verb::Append, None, None),
        ];
        for (path, verb, value, index) in table {
            assert!(patched(a.clone(), path, verb, value, index).is_err(), "{verb:?} {path}");
        }
    }
}
