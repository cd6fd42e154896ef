//! Decides what is mended on the way to a model and back; nothing, until transforms are chosen.

use std::sync::Arc;

use serde_json::{Map, Value};
use toolgate_kernel::tool::ToolSpec;
use toolgate_runtime::port::{Reply, ReplyCall};

/// The transforms of a model, in order.
#[derive(Debug, Clone, Default)]
pub struct Transforms;

impl Transforms {
    /// Whether results are changed at all.
    pub fn changes_results(&self) -> bool {
        false
    }

    /// Mends one message of the request.
    pub fn messages(&self, _message: &mut Value) {}

    /// Mends the list of tools.
    pub fn tools(&self, _tools: &mut Vec<Value>) {}

    /// Mends the envelope of a result.
    pub fn result(&self, _envelope: &mut Value) {}

    /// Mends a message of chat completions before it is read.
    pub fn response(&self, _: &mut Map<String, Value>, _: &Vec<Arc<ToolSpec>>) -> Vec<String> {
        Vec::new()
    }

    /// Mends a reply of any other dialect.
    pub fn reply(&self, _: &mut Reply, _: &Vec<Arc<ToolSpec>>) {}

    /// Mends calls before they are judged.
    pub fn calls(&self, _: &mut [ReplyCall], _: &Vec<Arc<ToolSpec>>) -> Vec<String> {
        Vec::new()
    }
}
