//! Decides how a rule that cannot be sent is told in words.

use serde_json::{Map, Value};

/// Longest rule that is told. A longer one is left to our own check and its message.
const WORDS_CHARS_MAX: usize = 120;

/// Keywords that say nothing a model needs.
const SILENT: &[&str] = &[
    "$schema",
    "$id",
    "$anchor",
    "$comment",
    "$defs",
    "definitions",
    "$ref",
    "title",
    "deprecated",
    "readOnly",
    "writeOnly",
];

/// A rule as a few words; nothing when it is long or says nothing.
pub(super) fn rule(keyword: &str, value: &Value) -> Option<String> {
    if SILENT.contains(&keyword) || keyword.starts_with("x-") {
        return None;
    }
    let text = match keyword {
        "pattern" => format!("matches {}", plain(value)),
        "minLength" => format!("at least {value} characters"),
        "maxLength" => format!("at most {value} characters"),
        "minimum" => format!("at least {value}"),
        "maximum" => format!("at most {value}"),
        "exclusiveMinimum" => format!("more than {value}"),
        "exclusiveMaximum" => format!("less than {value}"),
        "multipleOf" => format!("a multiple of {value}"),
        "minItems" => format!("at least {value} items"),
        "maxItems" => format!("at most {value} items"),
        "minProperties" => format!("at least {value} fields"),
        "maxProperties" => format!("at most {value} fields"),
        "uniqueItems" if value == &Value::Bool(true) => "no item twice".to_owned(),
        "uniqueItems" => return None,
        "format" => format!("format {}", plain(value)),
        "default" => format!("default {value}"),
        "examples" => format!("for example {}", value.get(0)?),
        other => format!("{other}: {value}"),
    };
    (text.chars().count() <= WORDS_CHARS_MAX).then_some(text)
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Puts words at the end of a description.
pub(super) fn add(node: &mut Map<String, Value>, words: &[String]) {
    if words.is_empty() {
        return;
    }
    let words = words.join("; ");
    let told = match node.get("description").and_then(Value::as_str) {
        Some(about) if !about.trim().is_empty() => format!("{} ({words})", about.trim_end()),
        _ => words,
    };
    node.insert("description".to_owned(), Value::String(told));
}
