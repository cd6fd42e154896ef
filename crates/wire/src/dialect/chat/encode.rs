//! Decides how a plan is written as chat completions.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolgate_kernel::event::RawCall;
use toolgate_kernel::fold::Turn;
use toolgate_kernel::plan::{Choice, OutputShape, Plan, ShapeMode};
use toolgate_kernel::tool::ToolSpec;

use super::NAME;
use crate::dialect::names::plain;
use crate::dialect::schema::{Surface, sent, strict};
use crate::dialect::shared::{
    Beside, is_wire_id, kept, object, object_text, reasons, results, understood,
};
use crate::dialect::{Frame, Options, picture};
use crate::transform::{After, Home};

/// Longest id that is taken: OpenAI refuses longer ones.
const ID_CHARS_MAX: usize = 40;
/// How long an id of ours is.
const SHORT_CHARS: usize = 9;

pub(in crate::dialect) fn frame(plan: &Plan, options: &Options) -> Frame {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(options.model));
    let tools: &[Arc<ToolSpec>] = if options.capabilities.tools { &plan.tools } else { &[] };
    if let Some(shape) = plan.shape.as_deref() {
        // Tools and a form of the words never go into one request.
        if let Some(format) = format(shape, options) {
            body.insert("response_format".to_owned(), format);
        }
    } else if !tools.is_empty() {
        body.insert("tools".to_owned(), definitions(tools, options));
        body.insert("tool_choice".to_owned(), choice(&plan.choice));
        if let Some(parallel) = options.parallel_tool_calls
            && options.capabilities.parallel_tool_calls
        {
            body.insert("parallel_tool_calls".to_owned(), json!(parallel));
        }
    }
    if let Some(tokens) = options.output_tokens_max {
        body.insert(tokens_key(options).to_owned(), json!(tokens));
    }
    options.sample(&mut body);
    if options.streams() {
        body.insert("stream".to_owned(), json!(true));
        // Mistral refuses to be asked, and tells without.
        if options.transforms.home() != Home::Mistral {
            body.insert("stream_options".to_owned(), json!({ "include_usage": true }));
        }
    }
    Frame { path: "/chat/completions".to_owned(), key: "messages", body }
}

/// OpenAI itself takes the newer key for every model, and for its thinking models nothing else,
/// also behind somebody's proxy. Most other servers know only the older one.
fn tokens_key(options: &Options) -> &'static str {
    match options.transforms.home() == Home::OpenAi || reasons(&options.model) {
        true => "max_completion_tokens",
        false => "max_tokens",
    }
}

fn definitions(tools: &[Arc<ToolSpec>], options: &Options) -> Value {
    let mut tools: Vec<Value> = tools
        .iter()
        .map(|tool| {
            json!({ "type": "function", "function": {
                "name": tool.wire,
                "description": tool.about,
                "parameters": sent(&tool.input, Surface::OpenAi),
            }})
        })
        .collect();
    options.transforms.tools(&mut tools);
    Value::Array(tools)
}

fn choice(choice: &Choice) -> Value {
    match choice {
        Choice::Auto => json!("auto"),
        Choice::None => json!("none"),
        Choice::Required => json!("required"),
        Choice::Tool(name) => json!({ "type": "function", "function": { "name": name } }),
        Choice::Form(form) => Value::Object(form.clone()),
    }
}

/// What holds the words to a form; nothing when the model cannot be held to it.
fn format(shape: &OutputShape, options: &Options) -> Option<Value> {
    match shape.mode {
        ShapeMode::JsonSchema if options.capabilities.json_schema => {
            let (schema, strict) = match strict(&shape.schema, Surface::OpenAiStrict) {
                Some(schema) => (schema, true),
                None => (sent(&shape.schema, Surface::OpenAi), false),
            };
            Some(json!({ "type": "json_schema", "json_schema": {
                "name": plain(&shape.name), "schema": schema, "strict": strict,
            }}))
        }
        ShapeMode::JsonObject if options.capabilities.json_object => {
            Some(json!({ "type": "json_object" }))
        }
        ShapeMode::JsonSchema | ShapeMode::JsonObject => None,
    }
}

pub(in crate::dialect) fn opening(plan: &Plan, options: &Options) -> Vec<Value> {
    let mut messages = Vec::with_capacity(2);
    if !plan.system.trim().is_empty() {
        messages.push(json!({ "role": "system", "content": plan.system }));
    }
    if !options.transforms.alternates() {
        messages.push(user(&Beside::of_input(plan), plan, options));
    }
    mend(&mut messages, options);
    messages
}

pub(in crate::dialect) fn turn(
    before: Option<&Turn>,
    turn: &Turn,
    plan: &Plan,
    options: &Options,
) -> Vec<Value> {
    let mut messages = said(before, &Beside::of_turn(turn), plan, options);
    messages.push(assistant(turn, options));
    options.transforms.order(after(before), &mut messages);
    mend(&mut messages, options);
    messages
}

pub(in crate::dialect) fn closing(plan: &Plan, options: &Options) -> Vec<Value> {
    let last = plan.turns.back().map(Arc::as_ref);
    let mut messages = said(last, &Beside::of_plan(plan), plan, options);
    options.transforms.close(after(last), &mut messages);
    mend(&mut messages, options);
    messages
}

/// The results of a turn's calls, then what is said beside them.
fn said(turn: Option<&Turn>, beside: &Beside<'_>, plan: &Plan, options: &Options) -> Vec<Value> {
    let mut messages = Vec::new();
    if turn.is_none() && options.transforms.alternates() {
        // The input waits for what is said beside it, because both are one message then.
        messages.push(user(&Beside::of_input(plan), plan, options));
    }
    if let Some(turn) = turn {
        messages.extend(results(turn, plan, options).map(|(call, text)| {
            object([
                ("role", "tool".into()),
                ("tool_call_id", id(call, options).into()),
                ("content", text.into()),
            ])
        }));
    }
    if !beside.is_empty() {
        messages.push(user(beside, plan, options));
    }
    messages
}

/// What stands before the messages of a turn.
fn after(before: Option<&Turn>) -> After {
    if before.is_some() { After::Reply } else { After::System }
}

/// The id of a call: the provider's own, or ours where that one would not be taken. Ours is nine
/// letters and digits, because Mistral takes nothing else.
fn id<'a>(call: &'a RawCall, options: &Options) -> Cow<'a, str> {
    // One that looks like ours might be that of another call.
    let digits = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
    let ours = |id: &str| id.len() == SHORT_CHARS && id.strip_prefix('c').is_some_and(digits);
    let taken = |id: &&str| match options.transforms.short_ids() {
        true => id.len() == SHORT_CHARS && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        false => is_wire_id(id, ID_CHARS_MAX),
    };
    match call.alias.as_deref().filter(|id| taken(id) && !ours(id)) {
        Some(alias) => Cow::Borrowed(alias),
        None => Cow::Owned(format!("c{:08}", call.id.0 % 100_000_000)),
    }
}

fn mend(messages: &mut [Value], options: &Options) {
    messages.iter_mut().for_each(|message| options.transforms.messages(message));
}

/// A message of the user: plain words where there is no picture.
fn user(beside: &Beside<'_>, plan: &Plan, options: &Options) -> Value {
    if beside.images.is_empty() {
        return object([("role", "user".into()), ("content", beside.text().into())]);
    }
    let mut parts = Vec::with_capacity(beside.images.len() + 1);
    if !beside.words.is_empty() {
        parts.push(json!({ "type": "text", "text": beside.text() }));
    }
    for image in &beside.images {
        parts.push(match picture::address(image, plan, options) {
            Some(url) => {
                json!({ "type": "image_url", "image_url": { "url": url } })
            }
            None => json!({ "type": "text", "text": picture::in_words(image) }),
        });
    }
    object([("role", "user".into()), ("content", parts.into())])
}

/// A reply as it is sent back.
fn assistant(turn: &Turn, options: &Options) -> Value {
    let kept = kept(turn, NAME, options).and_then(Value::as_object);
    let mut message = Map::new();
    message.insert("role".to_owned(), "assistant".into());
    message.insert("content".to_owned(), turn.text.as_ref().into());
    // Mistral refuses what it does not know, such as the thoughts that another server wants back.
    let strict = options.transforms.home() == Home::Mistral;
    let replayed = |key: &str| key == "content" || (!strict && key != "tool_calls");
    for (key, value) in kept.into_iter().flatten().filter(|(key, _)| replayed(key)) {
        message.insert(key.clone(), value.clone());
    }
    if !turn.calls.is_empty() {
        let extras = kept.filter(|_| !strict).and_then(|kept| kept.get("tool_calls")?.as_array());
        let extra = |at: usize| extras.and_then(|extras| extras.get(at)?.as_object());
        let calls = turn
            .calls
            .iter()
            .enumerate()
            .map(|(at, raw)| call(raw, &understood(raw, turn), extra(at), options));
        message.insert("tool_calls".to_owned(), calls.collect());
    }
    Value::Object(message)
}

fn call(
    call: &RawCall,
    args: &str,
    extra: Option<&Map<String, Value>>,
    options: &Options,
) -> Value {
    let function =
        object([("name", plain(&call.name).into()), ("arguments", object_text(args).into())]);
    let mut written = Map::new();
    written.insert("id".to_owned(), id(call, options).into());
    written.insert("type".to_owned(), "function".into());
    written.insert("function".to_owned(), function);
    for (key, value) in extra.into_iter().flatten() {
        written.insert(key.clone(), value.clone());
    }
    Value::Object(written)
}
