//! Decides whether a provider can be made to keep to a schema, and how it is written then.

use serde_json::{Map, Value, json};

use super::merge::Inliner;
use super::{Said, Surface, shape};

/// Deepest nesting, and most fields, that are enforced.
const DEPTH_MAX: usize = 10;
const FIELDS_MAX: usize = 5_000;

/// The schema as a provider enforces it; nothing when it cannot say all of it, because a record is
/// open, a value may be anything, or a form holds itself.
pub fn strict(schema: &Value, to: Surface) -> Option<Value> {
    let mut inliner = Inliner::new(schema);
    let inlined = inliner.node(schema, 0);
    let (mut node, said) = shape(inlined, to);
    if inliner.cut || said == Said::Loosely {
        return None;
    }
    let mut closer = Closer { every: to == Surface::OpenAiStrict, fields: 0 };
    closer.close(&mut node, 1)?;
    Some(Value::Object(node))
}

struct Closer {
    /// Whether every field must be needed; one that may be left out is null instead.
    every: bool,
    fields: usize,
}

impl Closer {
    fn close(&mut self, node: &mut Map<String, Value>, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        if let Some(forms) = node.get_mut("anyOf").and_then(Value::as_array_mut) {
            return forms.iter_mut().try_for_each(|form| self.close(form.as_object_mut()?, depth));
        }
        let kind = node.get("type")?;
        let kinds = kind.as_array().cloned().unwrap_or_else(|| vec![kind.clone()]);
        if kinds.contains(&json!("array")) {
            self.close(node.get_mut("items")?.as_object_mut()?, depth + 1)?;
        }
        if kinds.contains(&json!("object")) {
            self.record(node, depth)?;
        }
        Some(())
    }

    fn record(&mut self, node: &mut Map<String, Value>, depth: usize) -> Option<()> {
        if node.get("additionalProperties").is_some_and(Value::is_object) {
            return None;
        }
        let needed: Vec<String> = node
            .get("required")
            .and_then(|names| serde_json::from_value(names.clone()).ok())
            .unwrap_or_default();
        let closed = node.get("additionalProperties") == Some(&Value::Bool(false));
        let fields = node.get_mut("properties").and_then(Value::as_object_mut)?;
        if fields.is_empty() && !closed {
            return None;
        }
        self.fields += fields.len();
        if self.fields > FIELDS_MAX {
            return None;
        }
        for (name, schema) in fields.iter_mut() {
            let schema = schema.as_object_mut()?;
            self.close(schema, depth + 1)?;
            if self.every && !needed.contains(name) {
                or_null(schema);
            }
        }
        if self.every {
            let names: Vec<&String> = fields.keys().collect();
            let names = json!(names);
            node.insert("required".to_owned(), names);
        }
        node.insert("additionalProperties".to_owned(), Value::Bool(false));
        Some(())
    }
}

fn or_null(schema: &mut Map<String, Value>) {
    let null = json!({ "type": "null" });
    if let Some(forms) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        if !forms.contains(&null) {
            forms.push(null);
        }
        return;
    }
    let plain = !schema.contains_key("enum");
    match schema.get("type").cloned() {
        Some(Value::String(kind)) if plain => {
            schema.insert("type".to_owned(), json!([kind, "null"]));
        }
        Some(Value::String(_)) => {
            let about = schema.shift_remove("description");
            let inner = std::mem::take(schema);
            schema.extend(about.map(|about| ("description".to_owned(), about)));
            schema.insert("anyOf".to_owned(), Value::Array(vec![Value::Object(inner), null]));
        }
        _ => {}
    }
}
