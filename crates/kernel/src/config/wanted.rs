//! Decides what a schema wants and what was written in its place, in words.

use serde_json::Value;

use super::finding::quoted;
use super::secret::holds_secret;
use super::tree::{Key, Kind, Node, endless, scalar};

/// What a list under a key is a list of.
const LISTS: &[(&str, &str)] = &[
    ("groups", "group names"),
    ("include", "tool names"),
    ("exclude", "tool names"),
    ("required", "tool names"),
    ("allow", "tool names"),
    ("deny", "tool names"),
    ("tools", "tool names"),
    ("tool_groups", "tool names"),
    ("sequential", "tool names"),
    ("transitions", "phases"),
    ("rules", "texts"),
    ("packs", "pack names"),
    ("mcp", "server names"),
    ("families", "state families"),
    ("policies", "policies"),
];

/// What to write instead, where it is plain.
pub(super) fn advice(expected: &str, node: &Node, secret: bool) -> Option<String> {
    let Kind::Scalar { text, plain } = &node.kind else { return None };
    if endless(text) && *plain {
        return Some("every limit is finite: write a number".to_owned());
    }
    match scalar(text, *plain) {
        Value::Null => Some("write something after the colon, or leave the line out".to_owned()),
        _ if secret => None,
        Value::String(text) if expected.starts_with("a list") && !text.contains('\n') => {
            Some(format!("write [{}]", text.chars().take(60).collect::<String>()))
        }
        Value::String(text) if expected.starts_with("true") => match text.to_lowercase().as_str() {
            "yes" | "on" | "y" => Some("write true".to_owned()),
            "no" | "off" | "n" => Some("write false".to_owned()),
            _ => None,
        },
        Value::String(text) if text.parse::<u64>().is_ok() && expected.contains("number") => {
            Some("write it without quotes".to_owned())
        }
        Value::Number(_) | Value::Bool(_) if expected.contains("a text") => {
            Some(format!("write \"{text}\" in quotes"))
        }
        Value::String(_)
        | Value::Number(_)
        | Value::Bool(_)
        | Value::Array(_)
        | Value::Object(_) => None,
    }
}

/// What a schema takes, in words.
pub(super) fn expected(schema: &Value, list: &str) -> String {
    let word = types(schema).into_iter().find(|name| *name != "null").unwrap_or("object");
    match word {
        "array" => {
            let of = LISTS.iter().find(|(key, _)| *key == list).map(|(_, of)| *of);
            of.map_or_else(|| "a list".to_owned(), |of| format!("a list of {of}"))
        }
        "boolean" => "true or false".to_owned(),
        "integer" => "a whole number".to_owned(),
        "number" => "a number".to_owned(),
        "string" => "a text".to_owned(),
        _ => "a map of keys".to_owned(),
    }
}

fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

pub(super) fn has_type(schema: &Value, name: &str) -> bool {
    types(schema).contains(&name)
}

pub(super) fn has_required(schema: &Value, entries: &[(Key, Node)]) -> bool {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let mut names = required.filter_map(Value::as_str);
    names.all(|name| entries.iter().any(|(key, _)| key.text == name))
}

pub(super) fn only_null(schema: &Value) -> bool {
    types(schema) == ["null"]
}

pub(super) fn choices(schema: &Value) -> Vec<&str> {
    let one = schema.get("const").and_then(Value::as_str);
    let several = schema.get("enum").and_then(Value::as_array);
    one.into_iter().chain(several.into_iter().flatten().filter_map(Value::as_str)).collect()
}

/// Whether a schema takes values of this kind at all.
pub(super) fn takes(schema: &Value, kind: &Kind) -> bool {
    let types = types(schema);
    if types.is_empty() {
        return true;
    }
    let is = |name: &str| types.contains(&name);
    match kind {
        Kind::List(_) => is("array"),
        Kind::Map(_) => is("object"),
        Kind::Scalar { text, plain } => match scalar(text, *plain) {
            Value::Null => is("null"),
            Value::Bool(_) => is("boolean"),
            Value::Number(number) => is("number") || is("integer") && !number.is_f64(),
            Value::String(_) | Value::Array(_) | Value::Object(_) => {
                is("string") && !(*plain && endless(text))
            }
        },
    }
}

pub(super) fn scalar_kind(kind: &Kind) -> &'static str {
    match kind {
        Kind::List(_) => "a list",
        Kind::Map(_) => "a map",
        Kind::Scalar { text, plain: true } if endless(text) => "a number without end",
        Kind::Scalar { text, plain } => match scalar(text, *plain) {
            Value::Null => "nothing",
            Value::Bool(_) => "a truth value",
            Value::Number(_) => "a number",
            Value::String(_) | Value::Array(_) | Value::Object(_) => "a text",
        },
    }
}

/// What was found, quoted where it is short and no secret.
pub(super) fn found(kind: &Kind, secret: bool) -> String {
    let word = scalar_kind(kind);
    match kind {
        Kind::Scalar { text, .. }
            if !secret && !holds_secret(text) && !text.is_empty() && !text.contains('\n') =>
        {
            format!("{word}: {}", quoted(text))
        }
        Kind::Scalar { .. } | Kind::List(_) | Kind::Map(_) => word.to_owned(),
    }
}

pub(super) fn listed(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().take(12).map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
