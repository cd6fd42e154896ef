//! Decides what a model adds to every request: its name, its options, what it can do.

use serde_json::{Map, Value, json};
use toolgate_kernel::config::{OUTPUT_KEYS, unreserved};
use toolgate_kernel::json::lay_over;

use crate::transform::Transforms;

/// What a model can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// It can call tools.
    pub tools: bool,
    /// It can see pictures.
    pub images: bool,
    /// It can be held to a JSON Schema.
    pub json_schema: bool,
    /// It can be held to JSON.
    pub json_object: bool,
    /// It can be told how many calls one reply may make.
    pub parallel_tool_calls: bool,
    /// It can stream.
    pub streaming: bool,
}

impl Default for Capabilities {
    /// What is thought of a server that nothing is known of.
    fn default() -> Self {
        Self {
            tools: true,
            images: true,
            json_schema: false,
            json_object: true,
            parallel_tool_calls: false,
            streaming: true,
        }
    }
}

/// What a model adds to a plan.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The model's name, as its server knows it.
    pub model: String,
    /// Sampling options; unknown ones are passed on.
    pub sampling: Map<String, Value>,
    /// Laid over the body last; reserved keys are left out.
    pub request_overrides: Map<String, Value>,
    /// Whether the reply is to be streamed.
    pub stream: bool,
    /// Most tokens of a reply.
    pub output_tokens_max: Option<u64>,
    /// Whether the list of tools stays the same and a restriction says which may be called.
    pub preserve_cache: bool,
    /// Whether one reply may make several calls; nothing is said when this is `None`.
    pub parallel_tool_calls: Option<bool>,
    /// What the model can do.
    pub capabilities: Capabilities,
    /// What is mended on the way out.
    pub transforms: Transforms,
}

impl Options {
    /// Everything a fingerprint is made of: the same on every machine and in every version.
    pub(crate) fn face(&self) -> Value {
        let can = &self.capabilities;
        json!({
            "model": self.model,
            "sampling": self.sampling,
            "request_overrides": self.request_overrides,
            "output_tokens_max": self.output_tokens_max,
            "preserve_cache": self.preserve_cache,
            "parallel_tool_calls": self.parallel_tool_calls,
            "capabilities": {
                "tools": can.tools, "images": can.images, "json_schema": can.json_schema,
                "json_object": can.json_object,
                "parallel_tool_calls": can.parallel_tool_calls,
            },
            "transforms": self.transforms.names(),
        })
    }

    /// Whether the reply is streamed: wanted and possible.
    pub fn streams(&self) -> bool {
        self.stream && self.capabilities.streaming
    }

    /// Puts the sampling options in, where they are keys of the body.
    pub(super) fn sample(&self, body: &mut Map<String, Value>) {
        body.extend(unreserved(&self.sampling));
    }

    /// Doubles the bound of a reply among the overrides, which are laid over every other.
    pub(crate) fn double_overrides(&mut self) {
        double(&mut self.request_overrides);
        let gemini = self.request_overrides.get_mut("generationConfig");
        if let Some(inside) = gemini.and_then(Value::as_object_mut) {
            double(inside);
        }
    }

    /// Lays the overrides over the body.
    pub(super) fn overrule(&self, body: &mut Map<String, Value>) {
        lay_over(body, &unreserved(&self.request_overrides));
    }
}

/// Doubles the bound of a reply, wherever it stands among these keys.
fn double(keys: &mut Map<String, Value>) {
    for key in OUTPUT_KEYS {
        if let Some(tokens) = keys.get(*key).and_then(Value::as_u64) {
            keys.insert((*key).to_owned(), tokens.saturating_mul(2).into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn overrides_are_merged_in_depth_and_reserved_keys_are_left_out() {
        let overrides = map(json!({
            "model": "x", "messages": [], "tools": [], "tool_choice": "none",
            "response_format": {}, "stream": true, "functions": [], "output_format": {},
            "text": {"format": {"type": "text"}, "verbosity": "low"},
            "output_config": {"format": {}},
            "generationConfig": {"responseMimeType": "x", "responseJsonSchema": {}, "topK": 3},
            "top_k": 40, "provider": {"order": ["b"], "nested": {"deep": 2}}, "stop": null,
        }));
        let options = Options { request_overrides: overrides, ..Options::default() };
        let mut body = map(json!({
            "model": "m", "stop": ["a"], "text": {"format": {"type": "json_object"}},
            "provider": {"order": ["a", "c"], "nested": {"kept": 1, "deep": 1}},
        }));
        options.overrule(&mut body);
        let expected = json!({
            "model": "m", "stop": null,
            "text": {"format": {"type": "json_object"}, "verbosity": "low"},
            "generationConfig": {"topK": 3},
            "provider": {"order": ["b"], "nested": {"kept": 1, "deep": 2}}, "top_k": 40,
        });
        assert_eq!(Value::Object(body), expected);
    }
}
