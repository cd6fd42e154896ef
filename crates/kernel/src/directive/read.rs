//! Decides which directives of a reply are good, and what is told of the others.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Directive, DirectiveType, Directives, folded, patch_ops};

/// A reply that was read: the words for a person, and the directives that are good.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// The words.
    pub assistant_text: String,
    /// The directives, in their order.
    pub directives: Vec<Directive>,
    /// What was dropped, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// A directive that was dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Warning {
    /// Why, as a code.
    pub code: String,
    /// Why, in words.
    pub message: String,
    /// Which one, counted from zero.
    pub index: usize,
}

/// Warnings that are told; more would bury the first.
const WARNINGS_MAX: usize = 50;

impl Directives {
    /// Checks an object that a model wrote. The code says what the envelope itself lacks; a
    /// single directive that is not good is dropped with a warning.
    pub fn read(&self, object: &Map<String, Value>) -> Result<Envelope, (&'static str, String)> {
        let Some(Value::String(text)) = entry(object, "assistant_text") else {
            let message = "assistant_text must be there, and be a text".to_owned();
            return Err(("MISSING_ASSISTANT_TEXT", message));
        };
        let Some(Value::Array(entries)) = entry(object, "directives") else {
            let message = "directives must be there, and be a list".to_owned();
            return Err(("MISSING_DIRECTIVES", message));
        };
        let mut envelope = Envelope { assistant_text: text.clone(), ..Envelope::default() };
        for (index, entry) in entries.iter().enumerate() {
            match self.directive(entry) {
                Ok(directive) => envelope.directives.push(directive),
                Err((code, message)) if envelope.warnings.len() < WARNINGS_MAX => {
                    envelope.warnings.push(Warning { code: code.to_owned(), message, index });
                }
                Err(_) => {}
            }
        }
        Ok(envelope)
    }

    fn directive(&self, written: &Value) -> Result<Directive, (&'static str, String)> {
        let Some(object) = written.as_object() else {
            return Err(("DIRECTIVE_NOT_OBJECT", "a directive is an object".to_owned()));
        };
        let kind = entry(object, "type").and_then(Value::as_str).map(str::trim);
        let Some(kind) = kind.filter(|kind| !kind.is_empty()) else {
            return Err(("MISSING_TYPE", "type must be there, and be a text".to_owned()));
        };
        let known = self.find(kind);
        if known.is_none() && !self.types().is_empty() {
            let names: Vec<&str> = self.types().iter().map(|known| known.name.as_str()).collect();
            let kind: String = kind.chars().take(80).collect();
            let message = format!("{kind:?} is no type: the types are {}", names.join(", "));
            return Err(("UNKNOWN_DIRECTIVE_TYPE", message));
        }
        let Some(Value::Object(payload)) = entry(object, "payload") else {
            let message = format!("{kind}: payload must be there, and be an object");
            return Err(("MISSING_PAYLOAD", message.chars().take(200).collect()));
        };
        let payload = match known {
            Some(known) => checked(known, payload.clone())?,
            None => payload.clone(),
        };
        let kind = known.map_or(kind, |known| known.name.as_str()).to_owned();
        Ok(Directive { kind, payload })
    }
}

/// A payload that fits its type.
fn checked(
    known: &DirectiveType,
    payload: Map<String, Value>,
) -> Result<Map<String, Value>, (&'static str, String)> {
    let mut payload = Value::Object(payload);
    if known.patch {
        let ops = patch_ops(&payload).map_err(|problem| (problem.code, problem.message))?;
        let ops: Vec<Value> = ops.iter().filter_map(|op| serde_json::to_value(op).ok()).collect();
        if let Some(object) = payload.as_object_mut() {
            object.retain(|key, _| folded(key) != "ops");
            object.insert("ops".to_owned(), Value::Array(ops));
        }
    }
    if let Some(shape) = &known.shape {
        shape.fit(&mut payload, &mut Vec::new()).map_err(|misfits| {
            let told: Vec<String> = misfits.iter().take(3).map(ToString::to_string).collect();
            ("PAYLOAD_INVALID", format!("{}: {}", known.name, told.join("; ")))
        })?;
    }
    match payload {
        Value::Object(payload) => Ok(payload),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(("PAYLOAD_INVALID", format!("{}: a payload is an object", known.name)))
        }
    }
}

/// The value under a key, in whatever spelling the key stands there; the exact one first.
pub(super) fn entry<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    let spelled = || object.iter().find(|(name, _)| folded(name) == key).map(|(_, value)| value);
    object.get(key).or_else(spelled)
}
