//! Decides what state is: versioned values and lists under keys; a copy costs nothing.

use std::sync::Arc;

use imbl::ordmap::DiffItem;
use imbl::{OrdMap, Vector};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::digest::Digest;
use crate::event::Change;
use crate::json::canonical;
use crate::key::Key;
use crate::names::Family;

/// Everything kept under keys.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    shelves: OrdMap<Family, Shelf>,
}

/// Everything kept under the keys of one family, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shelf {
    slots: OrdMap<Arc<str>, Slot>,
}

impl Shelf {
    /// What is kept under a name.
    pub fn get(&self, name: &str) -> Option<&Slot> {
        self.slots.get(name)
    }

    /// Every name with what is kept there, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Slot)> {
        self.slots.iter().map(|(name, slot)| (name.as_ref(), slot))
    }

    /// Every name whose content is another one than before, with what is kept there now. What two
    /// states share is not looked at, so this costs what has changed.
    pub fn changes_since<'a>(
        &'a self,
        before: &'a Self,
    ) -> impl Iterator<Item = (&'a str, Option<&'a Slot>)> {
        before.slots.diff(&self.slots).map(|item| match item {
            DiffItem::Add(name, slot) | DiffItem::Update { new: (name, slot), .. } => {
                (name.as_ref(), Some(slot))
            }
            DiffItem::Remove(name, _) => (name.as_ref(), None),
        })
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

/// What is kept under one key.
#[derive(Debug, Clone, PartialEq)]
pub struct Slot {
    body: Arc<Body>,
}

#[derive(Debug, Clone, PartialEq)]
struct Body {
    /// Fingerprint of the content: what a read saw and a write must still find.
    version: Digest,
    /// Version of the family's layout when this was written.
    layout: u16,
    content: Content,
}

#[derive(Debug, Clone, PartialEq)]
enum Content {
    One(Value),
    List(Vector<Arc<Value>>),
}

/// A change that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateRefusal {
    /// A push to something that is no list.
    #[error("{0} is no list: put a whole value, or remove it first")]
    NotAList(Key),
}

impl Slot {
    fn one(value: Value, layout: u16) -> Self {
        let version = Digest::of(&canonical(&value));
        Self { body: Arc::new(Body { version, layout, content: Content::One(value) }) }
    }

    /// Fingerprint of the content.
    pub fn version(&self) -> Digest {
        self.body.version
    }

    /// Version of the family's layout when this was written.
    pub fn layout(&self) -> u16 {
        self.body.layout
    }

    /// The content as one JSON value; a list is copied.
    pub fn value(&self) -> Value {
        match &self.body.content {
            Content::One(value) => value.clone(),
            Content::List(items) => items.iter().map(|item| item.as_ref().clone()).collect(),
        }
    }

    /// The value itself, when this is no list.
    pub fn as_one(&self) -> Option<&Value> {
        match &self.body.content {
            Content::One(value) => Some(value),
            Content::List(_) => None,
        }
    }

    /// The items, when this is a list.
    pub fn as_list(&self) -> Option<&Vector<Arc<Value>>> {
        match &self.body.content {
            Content::One(_) => None,
            Content::List(items) => Some(items),
        }
    }
}

impl State {
    /// What is kept under a key.
    pub fn get(&self, key: &Key) -> Option<&Slot> {
        self.shelf(key.family().as_str())?.get(key.name())
    }

    /// Fingerprint of what is kept under a key.
    pub fn version(&self, key: &Key) -> Option<Digest> {
        self.get(key).map(Slot::version)
    }

    /// Everything of one family; absent when it holds nothing.
    pub fn shelf(&self, family: &str) -> Option<&Shelf> {
        self.shelves.get(family)
    }

    /// Every family that holds something, in order.
    pub fn shelves(&self) -> impl Iterator<Item = (&Family, &Shelf)> {
        self.shelves.iter()
    }

    /// Makes one change. What cannot be made changes nothing.
    pub fn apply(&mut self, change: &Change) -> Result<(), StateRefusal> {
        match change {
            Change::Put { key, value, v } => self.insert(key, Slot::one(value.clone(), *v)),
            Change::Remove { key } => self.remove(key),
            Change::Push { key, value, v } => self.push(key, value, *v)?,
            Change::Clear {} => self.shelves = OrdMap::new(),
        }
        Ok(())
    }

    fn insert(&mut self, key: &Key, slot: Slot) {
        let shelf = self.shelves.entry(key.family().clone()).or_default();
        shelf.slots.insert(key.shared_name(), slot);
    }

    fn remove(&mut self, key: &Key) {
        let Some(shelf) = self.shelves.get_mut(key.family()) else { return };
        shelf.slots.remove(key.name());
        if shelf.is_empty() {
            self.shelves.remove(key.family());
        }
    }

    fn push(&mut self, key: &Key, value: &Value, layout: u16) -> Result<(), StateRefusal> {
        let (before, mut items) = match self.get(key).map(|slot| &slot.body) {
            None => (Digest::ZERO, Vector::new()),
            Some(body) => match &body.content {
                Content::List(items) => (body.version, items.clone()),
                Content::One(_) => return Err(StateRefusal::NotAList(key.clone())),
            },
        };
        // A list is fingerprinted link by link, so that a push never costs the whole list.
        let version = Digest::link(before, &canonical(value));
        items.push_back(Arc::new(value.clone()));
        let body = Arc::new(Body { version, layout, content: Content::List(items) });
        self.insert(key, Slot { body });
        Ok(())
    }

    /// The changes that make this state out of an empty one.
    pub fn as_changes(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (family, shelf) in &self.shelves {
            for (name, slot) in shelf.iter() {
                let colon = if name.is_empty() { "" } else { ":" };
                let Ok(key) = Key::parse(&format!("{family}{colon}{name}")) else { continue };
                let v = slot.layout();
                match slot.as_list() {
                    Some(items) if items.is_empty() => {
                        changes.push(Change::Put { key, value: Value::Array(Vec::new()), v });
                    }
                    Some(items) => changes.extend(items.iter().map(|item| Change::Push {
                        key: key.clone(),
                        value: Value::clone(item),
                        v,
                    })),
                    None => changes.push(Change::Put { key, value: slot.value(), v }),
                }
            }
        }
        changes
    }

    /// All of it as JSON: key to `{v, value}`.
    pub fn export(&self) -> Value {
        let mut all = Map::new();
        for (family, shelf) in &self.shelves {
            for (name, slot) in shelf.iter() {
                let kind = if slot.as_one().is_some() { "value" } else { "items" };
                let mut body = Map::new();
                body.insert("v".to_owned(), slot.layout().into());
                body.insert(kind.to_owned(), slot.value());
                let colon = if name.is_empty() { "" } else { ":" };
                all.insert(format!("{family}{colon}{name}"), Value::Object(body));
            }
        }
        Value::Object(all)
    }

    /// Reads what [`State::export`] wrote.
    pub fn import(exported: &Value) -> Option<Self> {
        let mut state = Self::default();
        for (key, body) in exported.as_object()? {
            let key = Key::parse(key).ok()?;
            let v = u16::try_from(body.get("v")?.as_u64()?).ok()?;
            match (body.get("value"), body.get("items")) {
                (Some(value), None) => {
                    state.apply(&Change::Put { key, value: value.clone(), v }).ok()?;
                }
                (None, Some(items)) => {
                    for value in items.as_array()? {
                        let (key, value) = (key.clone(), value.clone());
                        state.apply(&Change::Push { key, value, v }).ok()?;
                    }
                }
                _ => return None,
            }
        }
        Some(state)
    }
}

impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.export().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for State {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let exported = Value::deserialize(deserializer)?;
        Self::import(&exported).ok_or_else(|| D::Error::custom("is no exported state"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn key(text: &str) -> Key {
        Key::parse(text).unwrap()
    }

    fn put(name: &str, value: Value) -> Change {
        Change::Put { key: key(name), value, v: 1 }
    }

    fn push(name: &str, value: Value) -> Change {
        Change::Push { key: key(name), value, v: 1 }
    }

    #[test]
    fn versions_follow_content() {
        let mut state = State::default();
        state.apply(&put("note:a", json!({"x":1,"y":2}))).unwrap();
        let first = state.version(&key("note:a"));
        state.apply(&put("note:a", json!({"y":2,"x":1}))).unwrap();
        assert_eq!(state.version(&key("note:a")), first);
        state.apply(&put("note:a", json!(null))).unwrap();
        assert_ne!(state.version(&key("note:a")), first);
        state.apply(&Change::Remove { key: key("note:a") }).unwrap();
        assert_eq!(state.version(&key("note:a")), None);
    }

    #[test]
    fn a_push_to_a_value_is_refused_and_changes_nothing() {
        let mut state = State::default();
        state.apply(&put("note:a", json!([1]))).unwrap();
        let before = state.clone();
        assert!(state.apply(&push("note:a", json!(2))).is_err());
        assert_eq!(state, before);
    }

    #[test]
    fn a_shelf_tells_what_has_changed() {
        let mut state = State::default();
        for name in ["a:x", "a:y", "a:z"] {
            state.apply(&put(name, json!(1))).unwrap();
        }
        let before = state.shelf("a").unwrap().clone();
        state.apply(&put("a:w", json!(0))).unwrap();
        state.apply(&put("a:x", json!(1))).unwrap();
        state.apply(&put("a:y", json!(2))).unwrap();
        state.apply(&Change::Remove { key: key("a:z") }).unwrap();
        let shelf = state.shelf("a").unwrap();
        let changed: Vec<_> = shelf
            .changes_since(&before)
            .map(|(name, slot)| (name, slot.map(Slot::value)))
            .collect();
        assert_eq!(changed, [("w", Some(json!(0))), ("y", Some(json!(2))), ("z", None)]);
        assert_eq!(shelf.changes_since(shelf).count(), 0);
        assert_eq!(Shelf::default().changes_since(shelf).count(), 3);
    }

    #[test]
    fn an_export_comes_back_equal() {
        let mut state = State::default();
        for change in [put("a:x", json!([1])), push("b", json!(1)), push("b", json!("é"))] {
            state.apply(&change).unwrap();
        }
        assert_eq!(State::import(&state.export()), Some(state.clone()));
        assert_eq!(state.shelves().count(), 2);
        assert_eq!(state.shelf("a").map(Shelf::len), Some(1));
    }
}
