//! Decides which marks of a schema may become headers: `x-mcp-header`, as the 2026 revision has it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

const MARK: &str = "x-mcp-header";

/// Whether all marks of a schema are legal: a plain word, once, on a text, a whole number or a
/// truth value that is reached through records alone.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    let mut walk = Walk { seen: BTreeSet::new() };
    match schema {
        Value::Object(fields) if fields.contains_key(MARK) => {
            Err(format!("has {MARK} on the whole"))
        }
        Value::Object(fields) => walk.record(fields, true),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Ok(())
        }
    }
}

struct Walk {
    seen: BTreeSet<String>,
}

impl Walk {
    fn record(&mut self, fields: &Map<String, Value>, reached: bool) -> Result<(), String> {
        for (keyword, value) in fields {
            match (keyword.as_str(), value) {
                ("default" | "const" | "enum" | "examples", _) => {}
                (MARK, _) if !reached => return Err(format!("has {MARK} where no value is told")),
                (MARK, mark) => self.mark(mark, fields)?,
                ("properties", Value::Object(named)) => self.all(named, reached)?,
                (
                    "$defs" | "definitions" | "dependentSchemas" | "patternProperties",
                    Value::Object(named),
                ) => self.all(named, false)?,
                (_, value) => self.inner(value, false)?,
            }
        }
        Ok(())
    }

    fn all(&mut self, named: &Map<String, Value>, reached: bool) -> Result<(), String> {
        named.values().try_for_each(|schema| self.inner(schema, reached))
    }

    fn inner(&mut self, value: &Value, reached: bool) -> Result<(), String> {
        match value {
            Value::Object(fields) => self.record(fields, reached),
            Value::Array(items) => items.iter().try_for_each(|item| self.inner(item, false)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn mark(&mut self, mark: &Value, fields: &Map<String, Value>) -> Result<(), String> {
        let Value::String(mark) = mark else { return Err(format!("has {MARK} that is no text")) };
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if mark.is_empty() || !mark.bytes().all(token) {
            return Err(format!("has {MARK} that is no name of a header"));
        }
        if !self.seen.insert(mark.to_ascii_lowercase()) {
            return Err(format!("has the same {MARK} twice"));
        }
        let plain = ["string", "integer", "boolean"];
        let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
        if plain.contains(&kind) { Ok(()) } else { Err(format!("has {MARK} on {kind:?}")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_mark_is_a_word_on_a_plain_value() {
        let of = |schema: Value| check(&json!({"type": "object", "properties": {"r": schema}}));
        assert_eq!(of(json!({"type": "string", MARK: "Region"})), Ok(()));
        assert_eq!(
            of(json!({"type": "object", "properties": {"n": {"type": "integer", MARK: "N"}}})),
            Ok(())
        );
        assert_eq!(of(json!({"type": "string", "default": {MARK: ""}})), Ok(()));
        for schema in [
            json!({"type": "string", MARK: ""}),
            json!({"type": "string", MARK: "a b"}),
            json!({"type": "string", MARK: "X\r\nY"}),
            json!({"type": "string", MARK: 7}),
            json!({"type": "number", MARK: "N"}),
            json!({"type": "array", "items": {"type": "string", MARK: "I"}}),
            json!({"anyOf": [{"type": "string", MARK: "I"}]}),
        ] {
            assert!(of(schema.clone()).is_err(), "{schema}");
        }
        let twice = json!({"properties": {
            "a": {"type": "string", MARK: "R"}, "b": {"type": "string", MARK: "r"}}});
        assert!(check(&twice).is_err());
        assert!(check(&json!({MARK: "R"})).is_err());
    }
}
