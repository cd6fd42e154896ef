//! Decides how tools are listed for MCP clients, and how a result is told to one.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::envelope::{Code, Envelope};
use toolgate_kernel::fold::Told;
use toolgate_kernel::render::render;
use toolgate_kernel::tool::{Effect, ToolSpec};

use super::reach;
use crate::server::clerk::{Order, View};
use crate::server::refusal::Refused;
use crate::server::revision::Revision;
use crate::server::served::{Answer, Caller};
use crate::server::user::User;

/// The tools that a caller sees.
pub(super) fn list(view: &View, caller: &Caller) -> Vec<Value> {
    reach(view, caller).iter().map(|spec| shown(spec, caller.revision)).collect()
}

fn shown(spec: &ToolSpec, revision: Revision) -> Value {
    let mut tool = json!({
        "name": spec.wire.as_str(),
        "description": spec.about,
        "inputSchema": without_header_names(&spec.input),
        "annotations": {
            "readOnlyHint": spec.effect == Effect::Read,
            "destructiveHint": spec.effect == Effect::External,
            "idempotentHint": matches!(spec.effect, Effect::Read | Effect::Idempotent),
            "openWorldHint": spec.effect == Effect::External,
        },
    });
    if let Some(tool) = tool.as_object_mut()
        && revision.structured()
        && is_record(&spec.output)
    {
        tool.insert("outputSchema".to_owned(), spec.output.clone());
    }
    tool
}

/// Structured content is a record, so a schema of anything else is not shown.
fn is_record(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

/// A tool of another server may ask for its arguments as headers; here they travel in the body.
fn without_header_names(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| *name != "x-mcp-header");
            kept.map(|(name, part)| (name.clone(), without_header_names(part))).collect()
        }
        Value::Array(items) => items.iter().map(without_header_names).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

/// The params of `tools/call`. The arguments stay as they were written; the gate reads them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Params<'a> {
    pub(super) name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    request_state: Option<&'a RawValue>,
    #[serde(borrow)]
    input_responses: Option<&'a RawValue>,
}

impl<'a> Params<'a> {
    pub(super) fn read(params: &'a str) -> Result<Self, Refused> {
        serde_json::from_str(params)
            .map_err(|_| Refused::params("tools/call says a name, and arguments as an object."))
    }

    pub(super) fn order(&self, caller: &Caller, user: Option<User>) -> Order {
        Order {
            actor: Actor::Client(Arc::clone(&caller.principal.name)),
            name: self.name.clone(),
            args: self.arguments.map_or("{}", RawValue::get).to_owned(),
            alias: None,
            phase: caller.phase.clone(),
            user,
        }
    }

    /// What a result that was none yet gave to bring back.
    pub(super) fn state(&self) -> Option<String> {
        serde_json::from_str(self.request_state?.get()).ok()
    }

    /// What is brought in answer to it.
    pub(super) fn responses(&self) -> Map<String, Value> {
        let responses = self.input_responses.map(|text| serde_json::from_str(text.get()));
        responses.and_then(Result::ok).unwrap_or_default()
    }
}

/// A result as a client is told. A refusal is a result too, so that a model can do better.
pub(super) fn answer(view: &View, caller: &Caller, name: &str, mut envelope: Envelope) -> Answer {
    let agent = &view.agent;
    let place = agent.toolset.find(name);
    if envelope.code() == Some(&Code::TOOL_NOT_GRANTED)
        && caller.revision.modern()
        && caller.phase.is_none()
        && let Some(place) = place
    {
        let granting = agent.phases().filter(|phase| agent.grants(&phase.name, place));
        let granting: Vec<&str> = granting.map(|phase| phase.name.as_str()).collect();
        if !granting.is_empty() {
            let words = format!("{name} is granted in phase {}.", granting.join(", "));
            envelope.warnings.push(words);
        }
    }
    let spec = place.and_then(|place| agent.toolset.entries().get(place)).map(|entry| &entry.spec);
    let structured = spec.is_some_and(|spec| {
        envelope.ok
            && caller.revision.structured()
            && is_record(&spec.output)
            && envelope.data.is_object()
    });
    let (ok, envelope) = (envelope.ok, Arc::new(envelope));
    let told = Told { envelope: Arc::clone(&envelope), message_only: false };
    let text = render(&told, agent.tool_calling.result_format);
    let mut out = String::with_capacity(text.len() + 64);
    out.push_str("{\"content\":[{\"type\":\"text\",\"text\":");
    out.push_str(&Value::String(text).to_string());
    out.push_str("}]");
    if structured {
        out.push_str(",\"structuredContent\":");
        out.push_str(&envelope.data.to_string());
    }
    out.push_str(if ok { ",\"isError\":false}" } else { ",\"isError\":true}" });
    Answer::new(out)
}
