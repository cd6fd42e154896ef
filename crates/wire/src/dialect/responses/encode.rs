//! Decides how a plan is written for the Responses API.

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
    Beside, kept, object, object_text, reasons, results, understood, wire_id,
};
use crate::dialect::{Frame, Options, picture};

/// Longest id that is taken.
const ID_CHARS_MAX: usize = 64;

pub(in crate::dialect) fn frame(plan: &Plan, options: &Options) -> Frame {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(options.model));
    body.insert("store".to_owned(), json!(false));
    if options.sampling.contains_key("reasoning") || reasons(&options.model) {
        // Thoughts are not kept by the provider, so they travel sealed. Other models refuse this.
        body.insert("include".to_owned(), json!(["reasoning.encrypted_content"]));
    }
    if !plan.system.trim().is_empty() {
        body.insert("instructions".to_owned(), json!(plan.system));
    }
    if plan.shape.is_none() && options.capabilities.tools {
        put_tools(&mut body, plan, options);
    }
    if let Some(tokens) = options.output_tokens_max {
        body.insert("max_output_tokens".to_owned(), json!(tokens));
    }
    options.sample(&mut body);
    rename(&mut body);
    // Tools and a form of the words never go into one request.
    if let Some(format) = plan.shape.as_deref().and_then(|shape| format(shape, options)) {
        match body.get_mut("text").and_then(Value::as_object_mut) {
            Some(text) => drop(text.insert("format".to_owned(), format)),
            None => drop(body.insert("text".to_owned(), json!({ "format": format }))),
        }
    }
    if options.streams() {
        body.insert("stream".to_owned(), json!(true));
    }
    Frame { path: "/responses".to_owned(), key: "input", body }
}

/// Options that chat completions name otherwise.
fn rename(body: &mut Map<String, Value>) {
    for key in ["max_tokens", "max_completion_tokens"] {
        if let Some(tokens) = body.shift_remove(key) {
            body.insert("max_output_tokens".to_owned(), tokens);
        }
    }
    if let Some(effort) = body.shift_remove("reasoning_effort") {
        let reasoning = body.entry("reasoning").or_insert_with(|| json!({}));
        if let Some(reasoning) = reasoning.as_object_mut() {
            reasoning.entry("effort").or_insert(effort);
        }
    }
}

fn put_tools(body: &mut Map<String, Value>, plan: &Plan, options: &Options) {
    let all = options.preserve_cache && !plan.every.is_empty();
    let tools: &[Arc<ToolSpec>] = if all { &plan.every } else { &plan.tools };
    if tools.is_empty() {
        return;
    }
    let narrowed = all && plan.tools.len() < plan.every.len();
    body.insert("tools".to_owned(), definitions(tools));
    body.insert("tool_choice".to_owned(), choice(plan, narrowed));
    if let Some(parallel) = options.parallel_tool_calls
        && options.capabilities.parallel_tool_calls
    {
        body.insert("parallel_tool_calls".to_owned(), json!(parallel));
    }
}

fn definitions(tools: &[Arc<ToolSpec>]) -> Value {
    let tools = tools
        .iter()
        .map(|tool| {
            json!({
                "type": "function",
                "name": tool.wire,
                "description": tool.about,
                "parameters": sent(&tool.input, Surface::OpenAi),
                // The API would else rewrite the schema so that no field may be left out.
                "strict": false,
            })
        })
        .collect();
    Value::Array(tools)
}

/// What may be called. When more is listed than may be called, the choice says which.
fn choice(plan: &Plan, narrowed: bool) -> Value {
    let mode = match &plan.choice {
        Choice::None => return json!("none"),
        _ if plan.tools.is_empty() => return json!("none"),
        Choice::Tool(name) => return json!({ "type": "function", "name": name }),
        Choice::Form(form) => return Value::Object(form.clone()),
        Choice::Auto => "auto",
        Choice::Required => "required",
    };
    if !narrowed {
        return json!(mode);
    }
    let tools = plan.tools.iter().map(|tool| json!({ "type": "function", "name": tool.wire }));
    json!({ "type": "allowed_tools", "mode": mode, "tools": tools.collect::<Vec<_>>() })
}

/// What holds the words to a form; nothing when the model cannot be held to it.
fn format(shape: &OutputShape, options: &Options) -> Option<Value> {
    match shape.mode {
        ShapeMode::JsonSchema if options.capabilities.json_schema => {
            let (schema, strict) = match strict(&shape.schema, Surface::OpenAiStrict) {
                Some(schema) => (schema, true),
                None => (sent(&shape.schema, Surface::OpenAi), false),
            };
            Some(json!({
                "type": "json_schema", "name": plain(&shape.name),
                "schema": schema, "strict": strict,
            }))
        }
        ShapeMode::JsonObject if options.capabilities.json_object => {
            Some(json!({ "type": "json_object" }))
        }
        ShapeMode::JsonSchema | ShapeMode::JsonObject => None,
    }
}

pub(in crate::dialect) fn opening(plan: &Plan, options: &Options) -> Vec<Value> {
    vec![user(&Beside::of_input(plan), plan, options)]
}

pub(in crate::dialect) fn turn(
    before: Option<&Turn>,
    turn: &Turn,
    plan: &Plan,
    options: &Options,
) -> Vec<Value> {
    let mut items = said(before, &Beside::of_turn(turn), plan, options);
    match kept(turn, NAME, options).and_then(Value::as_array) {
        Some(kept) => replay(kept, turn, &mut items),
        None => retell(turn, &mut items),
    }
    items
}

pub(in crate::dialect) fn closing(plan: &Plan, options: &Options) -> Vec<Value> {
    let last = plan.turns.back().map(Arc::as_ref);
    said(last, &Beside::of_plan(plan), plan, options)
}

/// The results of a turn's calls, then what is said beside them.
fn said(turn: Option<&Turn>, beside: &Beside<'_>, plan: &Plan, options: &Options) -> Vec<Value> {
    let mut items = Vec::new();
    if let Some(turn) = turn {
        items.extend(results(turn, plan, options).map(|(call, text)| {
            object([
                ("type", "function_call_output".into()),
                ("call_id", wire_id(call, ID_CHARS_MAX).into()),
                ("output", text.into()),
            ])
        }));
    }
    if !beside.is_empty() {
        items.push(user(beside, plan, options));
    }
    items
}

fn user(beside: &Beside<'_>, plan: &Plan, options: &Options) -> Value {
    let mut parts = Vec::with_capacity(beside.images.len() + 1);
    if !beside.words.is_empty() {
        parts.push(object([("type", "input_text".into()), ("text", beside.text().into())]));
    }
    for image in &beside.images {
        parts.push(match picture::address(image, plan, options) {
            Some(url) => {
                json!({ "type": "input_image", "image_url": url, "detail": "auto" })
            }
            None => json!({ "type": "input_text", "text": picture::in_words(image) }),
        });
    }
    object([("type", "message".into()), ("role", "user".into()), ("content", parts.into())])
}

/// A reply as it came, its calls put in where they stood.
fn replay(kept: &[Value], turn: &Turn, items: &mut Vec<Value>) {
    let mut calls = turn.calls.iter();
    for item in kept {
        match item.get("type").and_then(Value::as_str) {
            Some("function_call") => items.extend(calls.next().map(|raw| call(raw, turn))),
            _ => items.push(item.clone()),
        }
    }
    items.extend(calls.map(|raw| call(raw, turn)));
}

/// A reply in words and calls.
fn retell(turn: &Turn, items: &mut Vec<Value>) {
    if !turn.text.is_empty() {
        items.push(json!({
            "type": "message", "role": "assistant",
            "content": [{ "type": "output_text", "text": turn.text }],
        }));
    }
    items.extend(turn.calls.iter().map(|raw| call(raw, turn)));
}

fn call(call: &RawCall, turn: &Turn) -> Value {
    object([
        ("type", "function_call".into()),
        ("call_id", wire_id(call, ID_CHARS_MAX).into()),
        ("name", plain(&call.name).into()),
        ("arguments", object_text(&understood(call, turn)).into()),
    ])
}
