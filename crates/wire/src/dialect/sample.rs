//! A small plan for tests: two tools, and turns made of replies.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::{OrdMap, Vector};
use serde_json::{Value, json};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::envelope::{Code, Envelope, Trouble};
use toolgate_kernel::event::{Image, RawCall};
use toolgate_kernel::fold::{Told, Turn};
use toolgate_kernel::names::CallId;
use toolgate_kernel::plan::{Choice, Plan};
use toolgate_kernel::render::ResultFormat;
use toolgate_kernel::tool::{SpecDraft, ToolSpec};
use toolgate_runtime::port::Reply;

use super::{Dialect, Options, Request, WireFault};
use toolgate_http::sse::Reader;

pub(crate) fn tool(name: &str) -> Arc<ToolSpec> {
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } },
        "required": ["path"] });
    Arc::new(SpecDraft::new(name, "A tool.").params_schema(schema).build().unwrap())
}

/// A plan that shows two tools, says one thing, and has no turns.
pub(crate) fn plan() -> Plan {
    let tools = vec![tool("read_file"), tool("3d_view")];
    Plan {
        turn: 1,
        iteration: 1,
        title: "t".into(),
        system: "Be brief.".into(),
        input: "Begin.".into(),
        images: Vector::new(),
        turns: Vector::new(),
        feedback: Vec::new(),
        feedback_images: Vec::new(),
        notes: Vec::new(),
        every: tools.clone().into(),
        tools,
        choice: Choice::Auto,
        result_format: ResultFormat::Text,
        shape: None,
        pictures: BTreeMap::new(),
        tokens_estimated: 0,
        fingerprint: Digest::ZERO,
    }
}

/// Adds a reply as a turn. Calls of `read_file` are answered, others fail.
pub(crate) fn answered(plan: &mut Plan, reply: Reply, notes: &[&str]) {
    let first: usize = plan.turns.iter().map(|turn| turn.calls.len()).sum();
    let id = |at: usize| CallId(u64::try_from(first + at + 1).unwrap());
    let calls: Vec<Arc<RawCall>> = reply
        .calls
        .into_iter()
        .enumerate()
        .map(|(at, call)| {
            Arc::new(RawCall { id: id(at), name: call.name, args: call.args, alias: call.alias })
        })
        .collect();
    let told: OrdMap<CallId, Arc<Told>> = calls
        .iter()
        .map(|call| {
            let envelope = match call.name.as_str() {
                "read_file" => {
                    Envelope::answer("read_file", "Read.".into(), json!("words"), Vec::new())
                }
                other => Envelope::trouble(other, vec![Trouble::new(Code::TOOL_FAILED, "no")]),
            };
            (call.id, Arc::new(Told { envelope: envelope.into(), message_only: false }))
        })
        .collect();
    plan.turns.push_back(Arc::new(Turn {
        number: u64::try_from(plan.turns.len() + 1).unwrap(),
        notes: notes.iter().map(|note| Arc::from(*note)).collect(),
        images: Vector::new(),
        text: reply.text.into(),
        calls: calls.into(),
        told,
        finish: reply.finish,
        native: reply.native.map(Arc::new),
    }));
}

/// Puts a picture beside the input.
pub(crate) fn with_picture(plan: &mut Plan) {
    let bytes: Arc<[u8]> = Arc::from(&b"foobar"[..]);
    let hash = Digest::of(&bytes);
    plan.images.push_back(Arc::new(Image { media_type: "image/png".into(), hash }));
    plan.pictures.insert(hash, bytes);
}

pub(crate) fn options(model: &str) -> Options {
    Options { model: model.into(), ..Options::default() }
}

/// The whole request, which breaks no rule of its dialect.
pub(crate) fn encoded(dialect: Dialect, plan: &Plan, options: &Options) -> Request {
    let request = dialect.encode(plan, options);
    assert_eq!(super::rules::broken(dialect, &request.body), None, "{:?}", request.body);
    request
}

/// The messages of a request.
pub(crate) fn messages(request: &Request) -> &[Value] {
    let key = if request.body.contains_key("contents") { "contents" } else { "messages" };
    request.body[key].as_array().unwrap()
}

/// What a stream says, decoded.
pub(crate) fn streamed(dialect: Dialect, stream: &[u8]) -> Result<Reply, WireFault> {
    let mut gather = dialect.gather(super::ReplyBounds::default());
    let tap = |_: toolgate_runtime::port::Streamed<'_>| {};
    Reader::default().read(stream, |event| gather.take(event, &tap))?;
    match gather.fault() {
        Some(fault) => Err(fault),
        None => dialect.decode(&gather.body()),
    }
}

/// Events as they come over the wire.
pub(crate) fn sse(events: &[Value]) -> Vec<u8> {
    let event = |event: &Value| match event.get("type").and_then(Value::as_str) {
        Some(name) => format!("event: {name}\ndata: {event}\n\n"),
        None => format!("data: {event}\n\n"),
    };
    events.iter().map(event).collect::<String>().into_bytes()
}
