//! Decides what is mended on the way to a model and back; nothing, until transforms are chosen.

use serde_json::Value;

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
}
