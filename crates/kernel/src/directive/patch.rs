//! Decides which changes of the draft a payload means, in the spellings that models use.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::read::entry;
use crate::json::parse_strict;
use crate::limits::Limits;

/// What is done at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatchVerb {
    /// Puts a value there.
    Set,
    /// Takes it away.
    Delete,
    /// Adds a value to the end of the list there.
    Append,
    /// Puts a value into the list there.
    Insert,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PatchOp {
    /// What is done.
    pub op: PatchVerb,
    /// Where: a JSON pointer that begins with `/draft/` or `/ui_state/`.
    pub path: String,
    /// The value; absent for `delete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The place in the list, for `insert`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
}

/// Changes that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchProblem {
    /// `MISSING_OPS`, `INVALID_PATCH_OP`, `INVALID_PATCH_PATH`, `MISSING_PATCH_VALUE` or
    /// `INVALID_PATCH_INDEX`.
    pub code: &'static str,
    /// The same in words.
    pub message: String,
}

/// Where changes may be made.
const PREFIXES: &[&str] = &["/draft/", "/ui_state/"];
/// The form of a payload, as a model is told.
pub(super) const PATCH_FORM: &str = "{\"ops\": [{\"op\": \"set\", \"path\": \"/draft/title\", \
     \"value\": \"any JSON\"}]}, where op is set, delete (without value), append (to a list) or \
     insert (into a list, with \"index\" from 0), and path begins with /draft/ or /ui_state/.";
/// Changes of one payload.
const OPS_MAX: usize = 1_000;

fn refuse<T>(code: &'static str, message: impl Into<String>) -> Result<T, PatchProblem> {
    Err(PatchProblem { code, message: message.into() })
}

/// The changes of a payload: `ops` as a list, as a single change, or as either written as text;
/// or the changes themselves. All of them are good, or none is taken.
pub fn patch_ops(payload: &Value) -> Result<Vec<PatchOp>, PatchProblem> {
    let ops = match payload {
        Value::Object(object) => match entry(object, "ops") {
            Some(ops) => ops,
            None if entry(object, "path").is_some() => payload,
            None => return refuse("MISSING_OPS", "ops must be there: a list of changes"),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            payload
        }
    };
    let written = match ops.as_str().map(|text| parse_strict(text, &Limits::default())) {
        None => None,
        Some(Ok(value)) => Some(value),
        Some(Err(_)) => return refuse("MISSING_OPS", "ops is a text that is no JSON"),
    };
    let ops = written.as_ref().unwrap_or(ops);
    let entries = match ops {
        Value::Array(entries) if !entries.is_empty() => entries.as_slice(),
        single @ Value::Object(_) => std::slice::from_ref(single),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return refuse("MISSING_OPS", "ops must be a list of at least one change");
        }
    };
    if entries.len() > OPS_MAX {
        return refuse("INVALID_PATCH_OP", format!("at most {OPS_MAX} changes are taken"));
    }
    entries.iter().enumerate().map(|(at, entry)| op(at, entry)).collect()
}

fn op(at: usize, written: &Value) -> Result<PatchOp, PatchProblem> {
    let Some(object) = written.as_object() else {
        return refuse("INVALID_PATCH_OP", format!("ops[{at}] must be an object"));
    };
    let value = entry(object, "value");
    let op = verb(at, object, value.is_some())?;
    let path = match entry(object, "path") {
        Some(Value::String(path)) => path.trim(),
        _ => "",
    };
    let Some(path) = whole_path(path) else {
        let message = format!("ops[{at}].path must begin with {}", PREFIXES.join(" or "));
        return refuse("INVALID_PATCH_PATH", message);
    };
    let value = match op {
        PatchVerb::Delete => None,
        PatchVerb::Set | PatchVerb::Append | PatchVerb::Insert => match value {
            Some(value) => Some(value.clone()),
            None => {
                return refuse("MISSING_PATCH_VALUE", format!("ops[{at}].value must be there"));
            }
        },
    };
    let index = match op {
        PatchVerb::Insert => Some(index(at, object)?),
        PatchVerb::Set | PatchVerb::Delete | PatchVerb::Append => None,
    };
    Ok(PatchOp { op, path, value, index })
}

/// The verb, in the words that models know from elsewhere; by the value when it is missing.
fn verb(
    at: usize,
    object: &Map<String, Value>,
    has_value: bool,
) -> Result<PatchVerb, PatchProblem> {
    let word = match entry(object, "op") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(word)) => word.trim().to_lowercase(),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            "?".to_owned()
        }
    };
    match word.as_str() {
        "" if has_value => Ok(PatchVerb::Set),
        "" => Ok(PatchVerb::Delete),
        "set" | "add" | "replace" => Ok(PatchVerb::Set),
        "delete" | "remove" | "rm" => Ok(PatchVerb::Delete),
        "append" | "push" => Ok(PatchVerb::Append),
        "insert" => Ok(PatchVerb::Insert),
        _ => refuse(
            "INVALID_PATCH_OP",
            format!("ops[{at}].op must be set, delete, append or insert"),
        ),
    }
}

/// A path from the root. A relative one is meant from the draft.
fn whole_path(path: &str) -> Option<String> {
    let rooted = PREFIXES.iter().any(|prefix| path.starts_with(prefix.trim_start_matches('/')));
    let path = match path {
        "" => return None,
        path if path.starts_with('/') => path.to_owned(),
        path if rooted => format!("/{path}"),
        path => format!("/draft/{path}"),
    };
    let inside = |prefix: &&str| path.strip_prefix(*prefix).is_some_and(|rest| !rest.is_empty());
    PREFIXES.iter().any(inside).then_some(path)
}

fn index(at: usize, object: &Map<String, Value>) -> Result<u64, PatchProblem> {
    let index = match entry(object, "index") {
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(value) => value.as_u64(),
        None => None,
    };
    match index {
        Some(index) => Ok(index),
        None => refuse(
            "INVALID_PATCH_INDEX",
            format!("ops[{at}].index must be a whole number from 0 on"),
        ),
    }
}
