//! Decides which schemas of a server can be used: bounded, closed in themselves, and asking for
//! nothing that is none of the tool's business.

use std::collections::BTreeMap;

use serde_json::Value;
use toolgate_kernel::tool::Shape;

use super::{SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX};

/// Parts a schema may have once all its references are written out.
const PARTS_MAX: u64 = 10_000;

/// References that lead to one another; following them takes a part of the stack.
const REFERENCES_MAX: usize = 64;

/// The same where they are part of a longer name.
const CURIOUS_PARTS: &[&str] =
    &["apikey", "systemprompt", "idrsa", "privatekey", "fullconversation", "conversationsofar"];

/// Names of parameters that ask for the conversation or for keys, without case and punctuation.
const CURIOUS: &[&str] = &[
    "systemprompt",
    "conversation",
    "conversationhistory",
    "chathistory",
    "chatlog",
    "fullcontext",
    "modelcontext",
    "contextwindow",
    "previousmessages",
    "allmessages",
    "sidenote",
    "password",
    "passwd",
    "apikey",
    "secret",
    "secretkey",
    "accesstoken",
    "authtoken",
    "bearertoken",
    "privatekey",
    "sshkey",
    "credential",
    "credentials",
    "sessioncookie",
    "toollist",
];

/// Whether the schema of a tool's arguments can be enforced, and what it takes.
pub(super) fn check_input(schema: &Value) -> Result<Shape, String> {
    check(schema)?;
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("does not have \"type\": \"object\" at its root, as MCP requires".to_owned());
    }
    Shape::compile(schema).map_err(|refusal| format!("cannot be enforced: {refusal}"))
}

/// Whether a schema can be used; why not, where it cannot.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    if !schema.is_object() {
        return Err("is not an object".to_owned());
    }
    if depth(schema) > SCHEMA_DEPTH_MAX {
        return Err(format!("has more than {SCHEMA_DEPTH_MAX} levels"));
    }
    if schema.to_string().len() > SCHEMA_BYTES_MAX {
        return Err(format!("has more than {SCHEMA_BYTES_MAX} bytes"));
    }
    let mut weigher = Weigher { root: schema, known: BTreeMap::new() };
    let parts = weigher.parts(schema, &mut Vec::new())?;
    if parts > PARTS_MAX {
        return Err(format!("unfolds to more than {PARTS_MAX} parts"));
    }
    Ok(())
}

/// Levels of a value, counted without recursion beyond the bound.
fn depth(value: &Value) -> usize {
    fn walk(value: &Value, level: usize) -> usize {
        if level > SCHEMA_DEPTH_MAX {
            return level;
        }
        let below = |value: &Value| walk(value, level + 1);
        match value {
            Value::Array(items) => items.iter().map(below).max().unwrap_or(level),
            Value::Object(fields) => fields.values().map(below).max().unwrap_or(level),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => level,
        }
    }
    walk(value, 0)
}

/// Counts what a schema unfolds to, without unfolding it.
struct Weigher<'a> {
    root: &'a Value,
    /// What is known of each reference.
    known: BTreeMap<String, u64>,
}

impl<'a> Weigher<'a> {
    /// `open` are the references that are followed now, with whether a value was entered since.
    fn parts(&mut self, schema: &'a Value, open: &mut Vec<(String, bool)>) -> Result<u64, String> {
        let fields = match schema {
            Value::Object(fields) => fields,
            Value::Array(items) => {
                let mut sum = 0_u64;
                for item in items {
                    sum = sum.saturating_add(self.parts(item, open)?);
                }
                return Ok(sum);
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return Ok(0),
        };
        let mut sum = 1_u64;
        for (keyword, value) in fields {
            let more = match (keyword.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(to)) => {
                    self.reference(to, open)?
                }
                ("$ref" | "$dynamicRef" | "$recursiveRef", _) => {
                    return Err("has a reference that is no text".to_owned());
                }
                // Data, and definitions that count where they are used.
                ("const" | "enum" | "default" | "examples" | "$defs" | "definitions", _) => 0,
                ("properties" | "patternProperties" | "dependentSchemas", Value::Object(named)) => {
                    let mut inner = 0_u64;
                    for schema in named.values() {
                        let more = entered(open, |open| self.parts(schema, open))?;
                        inner = inner.saturating_add(more);
                    }
                    inner
                }
                ("allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else", _) => {
                    self.parts(value, open)?
                }
                _ => entered(open, |open| self.parts(value, open))?,
            };
            sum = sum.saturating_add(more);
        }
        Ok(sum)
    }

    fn reference(&mut self, to: &str, open: &mut Vec<(String, bool)>) -> Result<u64, String> {
        let Some(pointer) = to.strip_prefix('#') else {
            return Err("refers to something outside of itself; that is never looked up".to_owned());
        };
        if let Some(at) = open.iter().position(|(known, _)| known == to) {
            // A tree of records may hold records; a schema that is only itself holds nothing.
            let entered = open.iter().skip(at).any(|(_, entered)| *entered);
            return if entered { Ok(1) } else { Err("refers to itself in a circle".to_owned()) };
        }
        if let Some(known) = self.known.get(to) {
            return Ok(*known);
        }
        if open.len() >= REFERENCES_MAX {
            return Err(format!("has more than {REFERENCES_MAX} references in a row"));
        }
        let target = self.root.pointer(&unescaped(pointer));
        let target = target.ok_or_else(|| "refers to a part that it does not have".to_owned())?;
        open.push((to.to_owned(), false));
        let parts = self.parts(target, open);
        open.pop();
        self.known.insert(to.to_owned(), parts.clone()?);
        parts
    }
}

/// Looks at a part of a value rather than at the same value again.
fn entered<T>(
    open: &mut Vec<(String, bool)>,
    look: impl FnOnce(&mut Vec<(String, bool)>) -> T,
) -> T {
    let before = open.last_mut().map(|(_, entered)| std::mem::replace(entered, true));
    let told = look(open);
    if let (Some(before), Some((_, entered))) = (before, open.last_mut()) {
        *entered = before;
    }
    told
}

/// A pointer as it stands in an address.
fn unescaped(pointer: &str) -> String {
    pointer.replace("%24", "$").replace("%7B", "{").replace("%7D", "}").replace("%25", "%")
}

/// Why a person must look at a tool that takes arguments it does not name: what they are, the
/// description does not say.
pub(super) fn open(shape: &Shape) -> Option<String> {
    shape
        .takes_unnamed_fields()
        .then(|| "its input schema is open: it takes arguments that it does not name".to_owned())
}

/// Parameters that ask for the conversation or for keys.
pub(super) fn curious(schema: &Value) -> Vec<String> {
    fn walk(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                let named = fields.get("properties").and_then(Value::as_object);
                for name in named.into_iter().flat_map(|named| named.keys()) {
                    let plain: String = name
                        .chars()
                        .filter(char::is_ascii_alphanumeric)
                        .map(|c| c.to_ascii_lowercase())
                        .collect();
                    let within = CURIOUS_PARTS.iter().any(|part| plain.contains(part));
                    if within || CURIOUS.contains(&plain.as_str()) {
                        found.push(format!(
                            "its parameter {name} asks for the conversation or a key"
                        ));
                    }
                }
                fields.values().for_each(|field| walk(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = Vec::new();
    walk(schema, &mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_stay_inside_and_come_to_an_end() {
        let tree = json!({"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}},
            "$defs": {"node": {"type": "object", "properties": {
                "below": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}}});
        assert_eq!(check(&tree), Ok(()));
        assert_eq!(
            check(&json!({"type": "object", "properties": {"again": {"$ref": "#"}}})),
            Ok(())
        );
        for (schema, why) in [
            (json!({"$ref": "#"}), "circle"),
            (
                json!({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}),
                "circle",
            ),
            (json!({"properties": {"a": {"$ref": "other.json"}}}), "outside"),
            (json!({"properties": {"a": {"$ref": "#/$defs/none"}}}), "does not have"),
            (json!({"$ref": 7}), "no text"),
            (json!([]), "not an object"),
            (json!(true), "not an object"),
            (json!(null), "not an object"),
        ] {
            assert!(check(&schema).is_err_and(|told| told.contains(why)), "{schema}");
        }
    }

    #[test]
    fn levels_and_bytes_are_bounded_at_the_limit() {
        // Each level is an object in an object: two levels of the value.
        let nested =
            |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({ "items": inner }));
        assert_eq!(check(&nested(SCHEMA_DEPTH_MAX)), Ok(()));
        assert!(check(&nested(SCHEMA_DEPTH_MAX + 1)).is_err());
        let long = |bytes: usize| {
            let empty = json!({ "title": "" }).to_string().len();
            json!({ "title": "x".repeat(bytes - empty) })
        };
        assert_eq!(check(&long(SCHEMA_BYTES_MAX)), Ok(()));
        assert!(check(&long(SCHEMA_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn a_schema_that_takes_unnamed_arguments_is_open() {
        let object = |more: &str| -> Value {
            serde_json::from_str(&format!(r#"{{"type":"object"{more}}}"#)).unwrap()
        };
        for more in [
            "",
            r#","additionalProperties":true"#,
            r#","additionalProperties":{}"#,
            r#","additionalProperties":{"description":"more"}"#,
            r#","additionalProperties":{"type":["string","number","boolean","array","object"]}"#,
            r#","properties":{},"additionalProperties":true"#,
            r#","properties":{"a":{"type":"string"}},"additionalProperties":{}"#,
            r##","additionalProperties":{"$ref":"#/$defs/x"},"$defs":{"x":{}}"##,
            r##","additionalProperties":{"anyOf":[{"$ref":"#/$defs/x"}]},"$defs":{"x":true}"##,
            r##","anyOf":[{"$ref":"#/$defs/x"}],"$defs":{"x":{}}"##,
            r##","oneOf":[{"$ref":"#/$defs/x"}],"$defs":{"x":true}"##,
            r#","anyOf":[{}]"#,
            r#","anyOf":[{"type":"object"},{"type":"object","properties":{}}]"#,
            r#","anyOf":[{"type":["object","null"]}]"#,
        ] {
            let schema = object(more);
            let shape = check_input(&schema).unwrap_or_else(|why| panic!("{schema} {why}"));
            assert!(open(&shape).is_some(), "{schema}");
        }
        for more in [
            r#","properties":{}"#,
            r#","additionalProperties":false"#,
            r#","properties":{"a":{}},"required":["a"]"#,
            r##","anyOf":[{"$ref":"#/$defs/x"}],"$defs":{"x":{"type":"object","properties":{}}}"##,
        ] {
            let schema = object(more);
            assert!(open(&check_input(&schema).unwrap()).is_none(), "{schema}");
        }
    }

    #[test]
    fn a_schema_that_cannot_be_enforced_is_excluded() {
        let root = "at its root";
        let value = "is not valid in JSON Schema";
        let keyword = "cannot be enforced";
        for (schema, why) in [
            (json!({}), root),
            (json!({"type": "string"}), root),
            (json!({"type": ["object"]}), root),
            (json!({"type": ["object", "null"]}), root),
            (json!({"properties": {"a": {"type": "string"}}}), root),
            (json!({"$ref": "#/$defs/x", "$defs": {"x": {}}}), root),
            (json!({"anyOf": [{"type": "object"}]}), root),
            (json!({"type": "object", "$ref": "#/$defs/x", "$defs": {"x": {}}}), keyword),
            (json!({"type": "object", "allOf": [{}]}), keyword),
            (json!({"type": "object", "properties": null}), value),
            (json!({"type": "object", "properties": 5}), value),
            (json!({"type": "object", "properties": []}), value),
            (json!({"type": "object", "properties": {"a": {}}, "required": ["a", 7]}), value),
            (json!({"type": "object", "properties": {"a": {"$id": "x"}}}), keyword),
            (json!({"type": "object", "properties": {}, "$defs": {"a": {"$id": "x"}}}), keyword),
            (
                json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=a)"}}}),
                value,
            ),
            (json!({"type": "object", "patternProperties": {"": {}}}), keyword),
            (json!({"type": "object", "properties": {}, "title": 5}), value),
            (
                json!({"type": "object", "properties": {}, "$schema": "https://example.org/s"}),
                value,
            ),
        ] {
            let told = check_input(&schema).err();
            assert!(told.as_ref().is_some_and(|told| told.contains(why)), "{schema}: {told:?}");
        }
    }

    /// Thousands of references in a row end in a refusal and not in the end of the stack.
    #[test]
    fn references_in_a_row_are_bounded() {
        let mut defs = serde_json::Map::new();
        for at in 0..2_000 {
            defs.insert(format!("d{at}"), json!({"$ref": format!("#/$defs/d{}", at + 1)}));
        }
        defs.insert("d2000".to_owned(), json!({}));
        let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}},
                            "$defs": defs});
        let thread = std::thread::Builder::new().stack_size(1 << 20);
        let told = thread.spawn(move || check_input(&schema).err()).unwrap().join().unwrap();
        assert!(told.is_some_and(|told| told.contains("in a row")));
    }
}
