//! Decides how several schemas become one: references put in place, parts of a whole joined.

use serde_json::{Map, Value, json};

/// Most schemas one tool may grow to once its definitions are put in place.
const NODES_MAX: usize = 2_000;
/// Deepest nesting that is sent.
const DEPTH_MAX: usize = 24;

/// Puts definitions in the place of references.
pub(super) struct Inliner<'a> {
    root: &'a Value,
    open: Vec<&'a str>,
    nodes: usize,
    /// Whether a definition that holds itself, or too much, was cut.
    pub(super) cut: bool,
}

impl<'a> Inliner<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self { root, open: Vec::new(), nodes: 0, cut: false }
    }

    /// The schema without references and without parts of a whole.
    pub(super) fn node(&mut self, schema: &'a Value, depth: usize) -> Map<String, Value> {
        // `true` takes everything, and so does what is no schema.
        let Some(map) = schema.as_object() else { return Map::new() };
        self.nodes += 1;
        if depth > DEPTH_MAX || self.nodes > NODES_MAX {
            self.cut = true;
            return stub(map, None);
        }
        let mut node = match map.get("$ref").and_then(Value::as_str) {
            Some(target) => self.definition(target, depth),
            None => Map::new(),
        };
        for (keyword, value) in map {
            let value = match (keyword.as_str(), value) {
                ("$ref" | "$defs" | "definitions" | "allOf", _) => continue,
                ("properties", Value::Object(fields)) => {
                    let each = fields.iter().map(|(name, inner)| {
                        (name.clone(), Value::Object(self.node(inner, depth + 1)))
                    });
                    Value::Object(each.collect())
                }
                ("anyOf" | "oneOf" | "prefixItems", Value::Array(inner)) => {
                    inner.iter().map(|inner| Value::Object(self.node(inner, depth + 1))).collect()
                }
                ("items" | "additionalProperties", inner @ Value::Object(_)) => {
                    Value::Object(self.node(inner, depth + 1))
                }
                (_, value) => value.clone(),
            };
            node.insert(keyword.clone(), value);
        }
        for part in map.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            let part = self.node(part, depth + 1);
            join(&mut node, part);
        }
        node
    }

    fn definition(&mut self, target: &'a str, depth: usize) -> Map<String, Value> {
        let found = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let Some(found) = found else { return Map::new() };
        if self.open.contains(&target) {
            self.cut = true;
            let name = target.rsplit('/').next().unwrap_or_default();
            return found.as_object().map(|map| stub(map, Some(name))).unwrap_or_default();
        }
        self.open.push(target);
        let node = self.node(found, depth + 1);
        self.open.pop();
        node
    }
}

/// What is left of a schema that is cut: its type, and what it is.
fn stub(map: &Map<String, Value>, name: Option<&str>) -> Map<String, Value> {
    let mut node = Map::new();
    if let Some(kind) = map.get("type") {
        node.insert("type".to_owned(), kind.clone());
    }
    if let Some(name) = name {
        node.insert("description".to_owned(), json!(format!("again of the form {name}")));
    }
    node
}

/// Joins a part of a whole to the rest: all of its fields, and its rules where none stand yet.
pub(super) fn join(node: &mut Map<String, Value>, part: Map<String, Value>) {
    for (keyword, value) in part {
        match (keyword.as_str(), node.get_mut(&keyword), value) {
            ("properties", Some(Value::Object(there)), Value::Object(more)) => {
                for (name, schema) in more {
                    there.entry(name).or_insert(schema);
                }
            }
            ("required", Some(Value::Array(there)), Value::Array(more)) => {
                let fresh: Vec<Value> =
                    more.into_iter().filter(|name| !there.contains(name)).collect();
                there.extend(fresh);
            }
            (_, Some(_), _) => {}
            (_, None, value) => {
                node.insert(keyword, value);
            }
        }
    }
}

/// A record made of the several forms a record may have. What every form needs is needed; what
/// some form knows may be given.
pub(super) fn one_record(forms: Vec<Map<String, Value>>) -> Map<String, Value> {
    let mut fields: Map<String, Value> = Map::new();
    let mut needed: Option<Vec<Value>> = None;
    let mut told = Vec::new();
    for form in forms {
        let required: Vec<Value> =
            form.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let names: Vec<&str> = required.iter().filter_map(Value::as_str).collect();
        told.push(if names.is_empty() { "nothing".to_owned() } else { names.join(", ") });
        needed = Some(match needed {
            None => required.clone(),
            Some(so_far) => so_far.into_iter().filter(|name| required.contains(name)).collect(),
        });
        let Some(Value::Object(more)) = form.get("properties") else { continue };
        for (name, schema) in more {
            let there = fields.entry(name.clone()).or_insert_with(|| schema.clone());
            widen(there, schema);
        }
    }
    let mut node = Map::new();
    node.insert("type".to_owned(), json!("object"));
    node.insert("properties".to_owned(), Value::Object(fields));
    node.insert("required".to_owned(), Value::Array(needed.unwrap_or_default()));
    let words = format!("needs one of: {}", told.join(" | "));
    node.insert("description".to_owned(), Value::String(words));
    node
}

/// Makes a schema take what another one takes, too.
fn widen(there: &mut Value, schema: &Value) {
    if there == schema {
        return;
    }
    if let (Some(choices), Some(more)) = (choices(there), choices(schema)) {
        let mut all = choices;
        all.extend(more.into_iter().filter(|value| !all.contains(value)).collect::<Vec<_>>());
        if let Some(map) = there.as_object_mut() {
            map.shift_remove("const");
            map.insert("enum".to_owned(), Value::Array(all));
        }
        return;
    }
    match there.get_mut("anyOf").and_then(Value::as_array_mut) {
        Some(forms) if forms.contains(schema) => {}
        Some(forms) => forms.push(schema.clone()),
        None => *there = json!({ "anyOf": [there.clone(), schema] }),
    }
}

/// The values a schema offers, where it is nothing but a choice.
pub(super) fn choices(schema: &Value) -> Option<Vec<Value>> {
    if let Some(value) = schema.get("const") {
        return Some(vec![value.clone()]);
    }
    schema.get("enum").and_then(Value::as_array).cloned()
}
