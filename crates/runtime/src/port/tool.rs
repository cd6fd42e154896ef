//! Decides what a tool must do: run inside a transaction and answer or fail.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};
use toolgate_kernel::envelope::{Code, Trouble};
use toolgate_kernel::event::Attached;
use toolgate_kernel::tool::ToolSpec;

use super::Promised;
use crate::transaction::Transaction;

/// A tool with its handler.
pub trait Tool: Send + Sync {
    /// What the gate knows of it.
    fn spec(&self) -> &Arc<ToolSpec>;

    /// Runs one call. Everything it changes is staged in the transaction.
    fn run<'a>(&'a self, tx: &'a mut Transaction) -> Promised<'a, Result<Output, Fault>>;
}

/// An answer in parts, as another server sent it: for callers who take parts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Parts {
    /// The parts, in order.
    pub list: Vec<Part>,
    /// Whether the data came as data, and was not made of the words in the parts.
    pub structured: bool,
}

/// One part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The part as it came: a JSON object.
    pub json: String,
    /// What the log says of it, where it is no text.
    pub attached: Option<Attached>,
    /// The bytes, where it is a picture.
    pub picture: Option<Vec<u8>>,
}

/// What a tool answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// A sentence for the model.
    pub message: String,
    /// The data.
    pub data: Value,
    /// Whether the data is kept from the model.
    pub message_only: bool,
    /// What was ignored on the way.
    pub warnings: Vec<String>,
    /// The answer as it came, where it came in parts.
    pub parts: Option<Arc<Parts>>,
}

impl Output {
    /// An answer in words alone.
    pub fn message(message: impl Into<String>) -> Self {
        let (data, warnings) = (Value::Null, Vec::new());
        Self { message: message.into(), data, message_only: false, warnings, parts: None }
    }

    /// An answer with data. Data that cannot be written as JSON is a fault.
    pub fn data(message: impl Into<String>, data: &impl Serialize) -> Result<Self, Fault> {
        let data = serde_json::to_value(data)
            .map_err(|error| Fault::failed(format!("The answer is not JSON: {error}.")))?;
        Ok(Self { data, ..Self::message(message) })
    }

    /// The same, with the data kept from the model. No security boundary: the log has it.
    pub fn hidden(mut self) -> Self {
        self.message_only = true;
        self
    }
}

/// Why a tool did not do it. Everything it staged is forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What the model is told, first things first.
    pub errors: Vec<Trouble>,
    /// Whether it may have been done all the same: whoever was asked to do it fell silent.
    pub lost: bool,
    /// Fields of its own in the error of a domain tool, such as the `query` that failed.
    pub data: Map<String, Value>,
}

impl Fault {
    /// The tool failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::of(Trouble::new(Code::TOOL_FAILED, message))
    }

    /// The tool may have done it or not: its answer was lost. For a tool that reaches the world the
    /// outcome is unknown then.
    pub fn lost(message: impl Into<String>) -> Self {
        Self { lost: true, ..Self::failed(message) }
    }

    /// The arguments make no sense here, which only the tool could see.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::of(Trouble::new(Code::ARGUMENTS_INVALID, message))
    }

    /// Trouble of any kind.
    pub fn of(trouble: Trouble) -> Self {
        Self { errors: vec![trouble], lost: false, data: Map::new() }
    }

    /// The same with the argument it concerns.
    pub fn at(mut self, path: &str) -> Self {
        if let Some(first) = self.errors.first_mut() {
            first.path = Some(path.to_owned());
        }
        self
    }

    /// The same with one more field in the error of a domain tool.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.data.insert(name.to_owned(), value.into());
        self
    }

    /// The same with what is allowed instead.
    pub fn allowing(mut self, allowed: Vec<String>) -> Self {
        if let Some(first) = self.errors.first_mut() {
            first.allowed = Some(allowed);
        }
        self
    }
}
