//! Decides how tools are listed for MCP clients, and how a result is told to one.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::envelope::Code;
use toolgate_kernel::event::Attached;
use toolgate_kernel::fold;
use toolgate_kernel::render::render;
use toolgate_kernel::tool::{Effect, ToolSpec};
use toolgate_runtime::Answered;
use toolgate_runtime::port::{Part, Parts};

use super::reach;
use crate::server::clerk::{Delivery, Order, View};
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
    /// Left out means none. What is null is handed to the gate, which guesses nothing.
    #[serde(borrow, default, deserialize_with = "given")]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    request_state: Option<&'a RawValue>,
    #[serde(borrow)]
    input_responses: Option<&'a RawValue>,
}

/// A value that is there, also where it is null.
fn given<'de: 'a, 'a, D: Deserializer<'de>>(reader: D) -> Result<Option<&'a RawValue>, D::Error> {
    Deserialize::deserialize(reader).map(Some)
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

/// Where the receipt of a call stands in its result.
const RECEIPT: &str = "toolgate/receipt";

/// A result as a client is told. A refusal is a result too, so that a model can do better. What
/// another server answered in parts is passed on in those parts.
pub(super) fn answer(caller: &Caller, name: &str, delivery: Delivery) -> Answer {
    let Delivery { answered, agent, who } = delivery;
    let Answered { mut envelope, message_only, parts } = answered;
    let place = agent.toolset.find(name);
    if envelope.code() == Some(&Code::TOOL_NOT_GRANTED)
        && caller.revision.modern()
        && caller.phase.is_none()
        && let Some(place) = place
    {
        let granting =
            agent.phases().filter(|phase| agent.grants(&phase.name, place, who.as_ref()));
        let granting: Vec<&str> = granting.map(|phase| phase.name.as_str()).collect();
        if !granting.is_empty() {
            let words = format!("{name} is granted in phase {}.", granting.join(", "));
            Arc::make_mut(&mut envelope).warnings.push(words);
        }
    }
    let spec = place.and_then(|place| agent.toolset.entries().get(place)).map(|entry| &entry.spec);
    let structured = envelope.ok
        && !message_only
        && caller.revision.structured()
        && envelope.data.is_object()
        && match &parts {
            Some(parts) => parts.structured,
            None => spec.is_some_and(|spec| is_record(&spec.output)),
        };
    let mut out = String::from("{\"content\":[");
    let mut meta = String::new();
    match parts.filter(|_| envelope.ok && !message_only) {
        Some(parts) => {
            let mut texts = envelope.warnings.clone();
            if parts.structured && parts.list.is_empty() && !structured {
                // Whoever takes no data has it as text, where there is nothing else.
                texts.insert(0, envelope.data.to_string());
            }
            write_parts(&mut out, caller.revision, &parts, &texts);
            let receipt = envelope.receipt.as_ref();
            meta = receipt.map(|it| format!("\"{RECEIPT}\":\"{it}\"")).unwrap_or_default();
        }
        None => {
            let told = fold::Told { envelope: Arc::clone(&envelope), message_only };
            write_text_part(&mut out, &render(&told, agent.tool_calling.result_format));
        }
    }
    out.push(']');
    if structured {
        out.push_str(",\"structuredContent\":");
        out.push_str(&envelope.data.to_string());
    }
    out.push_str(if envelope.ok { ",\"isError\":false}" } else { ",\"isError\":true}" });
    Answer::new(out).beside(meta)
}

/// The parts as they came, and what toolgate has to say about them. A kind of part that a revision
/// does not know is told of in words: a strict client would throw the whole result away.
fn write_parts(out: &mut String, revision: Revision, parts: &Parts, texts: &[String]) {
    let begin = out.len();
    for part in &parts.list {
        match part.attached.as_ref().filter(|it| revision < first_with(&it.kind)) {
            Some(it) => write_text_part(out, &in_words(part, it)),
            None => out.push_str(&part.json),
        }
        out.push(',');
    }
    for text in texts {
        write_text_part(out, text);
        out.push(',');
    }
    if out.len() > begin {
        out.pop();
    }
}

fn in_words(part: &Part, attached: &Attached) -> String {
    let link: Option<Value> = serde_json::from_str(&part.json).ok();
    match link.as_ref().and_then(|link| link.get("uri")?.as_str()) {
        Some(uri) => format!("[link: {uri}]"),
        None => {
            let named = attached.media_type.as_deref().unwrap_or("of no type");
            format!("[{}: {named}, {} bytes]", attached.kind, attached.bytes)
        }
    }
}

/// The revision that brought a kind of part.
fn first_with(kind: &str) -> Revision {
    match kind {
        "audio" => Revision::V2025_03_26,
        "resource_link" => Revision::V2025_06_18,
        _ => Revision::V2024_11_05,
    }
}

fn write_text_part(out: &mut String, text: &str) {
    out.push_str("{\"type\":\"text\",\"text\":");
    out.push_str(&Value::from(text).to_string());
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::served::Principal;
    use toolgate_kernel::agent::{Agent, AgentDraft};
    use toolgate_kernel::envelope::Envelope;

    fn told(parts: &[&str], data: Value, structured: bool, revision: Revision) -> Value {
        let part = |json: &&str| Part { json: (*json).to_owned(), attached: None, picture: None };
        let list = parts.iter().map(part).collect();
        let envelope = Envelope::answer("t", String::new(), data, vec!["a word".to_owned()]);
        let answered = Answered {
            envelope: envelope.into(),
            message_only: false,
            parts: Some(Arc::new(Parts { list, structured })),
        };
        let principal = Arc::new(Principal { name: "t".into(), phase: None });
        let caller = Caller { principal, revision, capabilities: Value::Null, phase: None };
        let agent = Arc::new(Agent::build(AgentDraft::new("a", Vec::new())).unwrap());
        serde_json::from_str(&answer(&caller, "t", Delivery { answered, agent, who: None }).json)
            .unwrap()
    }

    #[test]
    fn whoever_takes_no_data_has_it_as_text_where_there_is_nothing_else() {
        let (old, new) = (Revision::V2025_03_26, Revision::V2025_06_18);
        let text = |text: &str| json!({ "type": "text", "text": text });
        let got = told(&[], json!({"n":1}), true, old);
        assert_eq!(got["content"], json!([text("{\"n\":1}"), text("a word")]));
        assert!(got.get("structuredContent").is_none());
        let got = told(&[], json!({"n":1}), true, new);
        assert_eq!(
            (&got["content"], &got["structuredContent"]),
            (&json!([text("a word")]), &json!({"n":1}))
        );
        let got = told(&[r#"{"type":"text","text":"x"}"#], json!({"result":"x"}), false, new);
        assert_eq!(got["content"], json!([text("x"), text("a word")]));
        assert!(got.get("structuredContent").is_none());
    }

    #[test]
    fn a_part_that_a_revision_does_not_know_is_told_of_in_words() {
        let attached = |kind: &str| Attached {
            kind: kind.to_owned(),
            media_type: Some("audio/wav".to_owned()),
            hash: toolgate_kernel::digest::Digest::ZERO,
            bytes: 4,
            shown: false,
        };
        let part = |json: &str, kind| Part {
            json: json.to_owned(),
            attached: Some(attached(kind)),
            picture: None,
        };
        let link = r#"{"type":"resource_link","uri":"file:///a","name":"a"}"#;
        let audio = r#"{"type":"audio","data":"AAAA","mimeType":"audio/wav"}"#;
        let list = vec![part(audio, "audio"), part(link, "resource_link")];
        let parts = Parts { list, structured: false };
        let written = |revision| {
            let mut out = String::from("[");
            write_parts(&mut out, revision, &parts, &[]);
            serde_json::from_str::<Value>(&format!("{out}]")).unwrap()
        };
        let old = written(Revision::V2024_11_05);
        assert_eq!(old[0]["text"], "[audio: audio/wav, 4 bytes]");
        assert_eq!(old[1]["text"], "[link: file:///a]");
        let between = written(Revision::V2025_03_26);
        assert_eq!((&between[0]["type"], &between[1]["type"]), (&json!("audio"), &json!("text")));
        assert_eq!(written(Revision::V2025_06_18)[1]["uri"], "file:///a");
    }
}
