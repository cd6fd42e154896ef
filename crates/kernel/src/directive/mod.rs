//! Decides what a directive is: an instruction in a model's words, checked and never obeyed by
//! itself.
//!
//! A reply that carries directives is one JSON object, `{assistant_text, directives: [{type,
//! payload}]}`. [`parse`] finds it in the words, [`Directives::read`] checks it, [`Ladder`] says
//! what to ask for next. Nothing here fails on what a model wrote: it is told in codes.

mod ladder;
mod parse;
mod patch;
mod prompt;
mod read;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::tool::{SchemaRefusal, Shape};

pub use ladder::{Ask, Done, Failed, Ladder, Means, Mode, Next, Outcome, Tried};
pub use parse::{Unreadable, parse, words_so_far};
pub use patch::{PatchOp, PatchProblem, PatchVerb, patch_ops};
pub use read::{Envelope, Warning};

/// Bytes of a reply that is read for directives.
pub const REPLY_BYTES_MAX: usize = 200_000;

/// The tool through which changes of the draft reach state, past the gate like every call.
pub const PATCH_TOOL: &str = "state_patch";

/// What a request for directives is called where a provider wants a name for it.
const SHAPE_NAME: &str = "toolgate_directives";

/// One directive, checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Directive {
    /// Its type, as it was declared.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it carries.
    pub payload: Map<String, Value>,
}

/// What came of asking for directives.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Directed {
    /// Whether they could be read.
    pub ok: bool,
    /// The mode that did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The directives that are good, in their order.
    pub directives: Vec<Directive>,
    /// What was dropped, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// Every step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<Tried>,
}

/// A type of directive.
#[derive(Debug)]
pub struct DirectiveType {
    /// Its name, as it was declared.
    pub name: String,
    /// What it is for.
    pub about: String,
    /// Other names it goes by.
    pub aliases: Vec<String>,
    /// The JSON Schema of its payload; absent when any object will do.
    pub schema: Option<Value>,
    /// Whether the payload is a list of changes of the draft, which reach state through the gate.
    pub patch: bool,
    shape: Option<Shape>,
}

/// Every type of directive, and how they are asked for.
#[derive(Debug, Default)]
pub struct Directives {
    types: Vec<DirectiveType>,
    modes: Vec<Mode>,
    repairs: u64,
}

/// Directives that cannot be used as they are declared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DirectiveRefusal {
    /// A type has no name.
    #[error("a directive has no name")]
    Nameless,
    /// Two types, or their aliases, are the same after folding.
    #[error("{name:?} and {other:?} mean the same directive")]
    Twice {
        /// One of them.
        name: String,
        /// The other.
        other: String,
    },
    /// The name, or an alias, is that of something only a person may do.
    #[error("the name {name:?} is reserved: `{act}` is for a person alone; give it another name")]
    PersonOnly {
        /// The name.
        name: String,
        /// What only a person may do.
        act: &'static str,
    },
    /// The schema of a payload cannot be enforced.
    #[error("directive {name:?}: {source}")]
    Schema {
        /// The type.
        name: String,
        /// What is wrong with it.
        source: SchemaRefusal,
    },
    /// A payload that is no object.
    #[error("directive {name:?}: a payload is an object; write `type: object`")]
    NoObject {
        /// The type.
        name: String,
    },
    /// A mode stands twice in the list.
    #[error("the mode {0} is listed twice")]
    ModeTwice(Mode),
}

impl DirectiveType {
    /// A type, with its schema compiled.
    pub fn new(name: &str, schema: Option<Value>) -> Result<Self, DirectiveRefusal> {
        let name = name.trim().to_owned();
        if folded(&name).trim_matches('_').is_empty() {
            return Err(DirectiveRefusal::Nameless);
        }
        let no_object = |schema: &Value| {
            schema.get("type").is_some_and(|kind| kind != "object") || schema.is_boolean()
        };
        if schema.as_ref().is_some_and(no_object) {
            return Err(DirectiveRefusal::NoObject { name });
        }
        let shape = match &schema {
            None => None,
            Some(schema) => match Shape::compile(schema) {
                Ok(shape) => Some(shape),
                Err(source) => return Err(DirectiveRefusal::Schema { name, source }),
            },
        };
        let (about, aliases) = (String::new(), Vec::new());
        Ok(Self { name, about, aliases, schema, patch: false, shape })
    }

    /// Every name it goes by.
    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases.iter().map(String::as_str))
    }
}

impl Directives {
    /// Puts types together. Without a type, any type passes.
    pub fn new(
        types: Vec<DirectiveType>,
        modes: Vec<Mode>,
        repairs: u64,
    ) -> Result<Self, DirectiveRefusal> {
        let mut seen: Vec<(String, &str)> = Vec::new();
        for (at, name) in
            types.iter().enumerate().flat_map(|(at, t)| t.names().map(move |n| (at, n)))
        {
            let key = folded(name);
            if let Some((_, other)) = seen.iter().find(|(known, _)| *known == key) {
                // An alias that only spells the name in another way says nothing new.
                let own = types.get(at).is_some_and(|own| own.names().any(|name| name == *other));
                if !own {
                    let (name, other) = (name.to_owned(), (*other).to_owned());
                    return Err(DirectiveRefusal::Twice { name, other });
                }
            }
            seen.push((key, name));
        }
        for (at, mode) in modes.iter().enumerate() {
            if modes.iter().take(at).any(|before| before == mode) {
                return Err(DirectiveRefusal::ModeTwice(*mode));
            }
        }
        let modes = if modes.is_empty() { Mode::ALL.to_vec() } else { modes };
        Ok(Self { types, modes, repairs })
    }

    /// Requests that the ladder makes at most.
    pub fn requests_max(&self) -> u64 {
        let modes = u64::try_from(self.modes.len()).unwrap_or(u64::MAX);
        modes.saturating_mul(self.repairs.saturating_add(1))
    }

    /// The types, in the order of their declaration.
    pub fn types(&self) -> &[DirectiveType] {
        &self.types
    }

    /// The type a model means: keys that differ in case and signs are one, then the aliases.
    fn find(&self, written: &str) -> Option<&DirectiveType> {
        let wanted = folded(written);
        let by_name = self.types.iter().find(|known| folded(&known.name) == wanted);
        by_name.or_else(|| {
            self.types.iter().find(|known| known.aliases.iter().any(|a| folded(a) == wanted))
        })
    }

    /// The JSON Schema of a reply. Payloads are open: they are checked here, where a wrong one
    /// costs one directive and not the reply.
    pub fn schema(&self) -> Value {
        let names: Vec<&str> = self.types.iter().map(|known| known.name.as_str()).collect();
        let mut kind = json!({"type": "string"});
        if let (Some(kind), false) = (kind.as_object_mut(), names.is_empty()) {
            kind.insert("enum".to_owned(), json!(names));
        }
        json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["assistant_text", "directives"],
            "properties": {
                "assistant_text": {"type": "string"},
                "directives": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "additionalProperties": false,
                        "required": ["type", "payload"],
                        "properties": {
                            "type": kind,
                            "payload": {"type": "object", "additionalProperties": true},
                        },
                    },
                },
            },
        })
    }
}

/// A key or a type in its one spelling: small letters, every other sign an underscore.
fn folded(text: &str) -> String {
    let fold = |c: char| if c.is_alphanumeric() { c } else { '_' };
    text.trim().to_lowercase().chars().map(fold).collect()
}
