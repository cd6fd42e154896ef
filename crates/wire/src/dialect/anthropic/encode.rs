//! Decides how a plan is written for the Messages API.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolgate_kernel::event::{Finish, Image, RawCall};
use toolgate_kernel::fold::Turn;
use toolgate_kernel::plan::{Choice, OutputShape, Plan, ShapeMode};
use toolgate_kernel::tool::ToolSpec;

use super::NAME;
use crate::dialect::names::{object, plain};
use crate::dialect::schema::{Surface, sent, strict};
use crate::dialect::shared::{Beside, kept, results, understood};
use crate::dialect::{Frame, Options, picture};

/// The API wants a bound of every reply. This one is taken when nobody set one.
pub(in crate::dialect) const OUTPUT_TOKENS: u64 = 8_192;

/// Options under the names that other providers give them.
const RENAMED: &[(&str, &str)] = &[
    ("stop", "stop_sequences"),
    ("max_output_tokens", "max_tokens"),
    ("max_completion_tokens", "max_tokens"),
];

pub(in crate::dialect) fn frame(plan: &Plan, options: &Options) -> Frame {
    let mut body = Map::new();
    let mut put = |key: &str, value: Value| body.insert(key.to_owned(), value);
    put("model", json!(options.model));
    put("max_tokens", json!(output_tokens(options)));
    // The provider marks the last block that can be kept, and moves the mark as the talk grows.
    put("cache_control", json!({ "type": "ephemeral" }));
    if !plan.system.trim().is_empty() {
        // A mark of its own: the next iteration begins with the same tools and the same system.
        let block = json!({ "type": "text", "text": plan.system,
            "cache_control": { "type": "ephemeral" } });
        put("system", json!([block]));
    }
    let (tools, callable) = tools(plan, options);
    if !tools.is_empty() {
        put("tools", definitions(tools));
        put("tool_choice", tool_choice(plan, options, callable));
    }
    if let Some(format) = plan.shape.as_deref().and_then(format) {
        put("output_config", json!({ "format": format }));
    }
    if options.streams() {
        put("stream", json!(true));
    }
    options.sample(&mut body);
    rename(&mut body);
    Frame { path: "/messages".to_owned(), key: "messages", body }
}

/// Thoughts count towards the bound, so room for the answer is added to theirs.
fn output_tokens(options: &Options) -> u64 {
    let thoughts = thinking(options, "budget_tokens").and_then(Value::as_u64).unwrap_or(0);
    options.output_tokens_max.unwrap_or_else(|| OUTPUT_TOKENS.saturating_add(thoughts))
}

fn rename(body: &mut Map<String, Value>) {
    for (theirs, ours) in RENAMED {
        let Some(value) = body.shift_remove(*theirs) else { continue };
        let value = match (*ours, value) {
            ("stop_sequences", Value::String(one)) => json!([one]),
            (_, value) => value,
        };
        body.insert((*ours).to_owned(), value);
    }
}

/// Whether any of the tools that are defined may be called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Callable {
    Yes,
    No,
}

/// The tools that are defined. Words that must have a form leave no room for calls. A talk with
/// calls in it needs definitions, even when none may be called.
fn tools<'a>(plan: &'a Plan, options: &Options) -> (&'a [Arc<ToolSpec>], Callable) {
    let called = || plan.turns.iter().any(|turn| !turn.calls.is_empty());
    if options.capabilities.tools && plan.shape.is_none() && !plan.tools.is_empty() {
        return (&plan.tools, Callable::Yes);
    }
    if called() { (&plan.every, Callable::No) } else { (&[], Callable::No) }
}

fn definitions(tools: &[Arc<ToolSpec>]) -> Value {
    let tools = tools
        .iter()
        .map(|tool| {
            json!({
                "name": tool.wire,
                "description": tool.about,
                "input_schema": sent(&tool.input, Surface::Anthropic),
            })
        })
        .collect();
    Value::Array(tools)
}

fn tool_choice(plan: &Plan, options: &Options, callable: Callable) -> Value {
    let none = json!({ "type": "none" });
    if callable == Callable::No {
        return none;
    }
    let mut choice = match &plan.choice {
        Choice::None => return none,
        Choice::Form(form) => return Value::Object(form.clone()),
        // With thoughts, the API refuses to be told that it must call.
        Choice::Required | Choice::Tool(_) if thinks(options) => json!({ "type": "auto" }),
        Choice::Auto => json!({ "type": "auto" }),
        Choice::Required => json!({ "type": "any" }),
        Choice::Tool(name) => json!({ "type": "tool", "name": name }),
    };
    if options.parallel_tool_calls == Some(false)
        && options.capabilities.parallel_tool_calls
        && let Some(choice) = choice.as_object_mut()
    {
        choice.insert("disable_parallel_tool_use".to_owned(), json!(true));
    }
    choice
}

fn thinks(options: &Options) -> bool {
    let kind = thinking(options, "type").and_then(Value::as_str);
    kind.is_some_and(|kind| kind != "disabled")
}

/// Whether the calls under way began without a thought of this model: another one made them. The
/// API refuses to think on then, unless the model decides by itself when it thinks.
pub(in crate::dialect) fn thoughtless(plan: &Plan, options: &Options) -> bool {
    if thinking(options, "type").and_then(Value::as_str) != Some("enabled") {
        return false;
    }
    let mut first = None;
    for turn in plan.turns.iter().rev().take_while(|turn| !turn.calls.is_empty()) {
        first = Some(turn);
        // What the user says begins anew.
        if !turn.notes.is_empty() {
            break;
        }
    }
    first.is_some_and(|turn| {
        let kept = kept(turn, NAME, options).and_then(Value::as_array);
        let kind = kept.and_then(|kept| kept.first()?.get("type")?.as_str());
        !matches!(kind, Some("thinking" | "redacted_thinking"))
    })
}

/// What is said of its thoughts, the nearest word first.
fn thinking<'a>(options: &'a Options, key: &str) -> Option<&'a Value> {
    let said = |from: &'a Map<String, Value>| from.get("thinking")?.get(key);
    said(&options.request_overrides).or_else(|| said(&options.sampling))
}

/// A form the API can enforce. What it cannot is asked for in words only.
fn format(shape: &OutputShape) -> Option<Value> {
    match shape.mode {
        ShapeMode::JsonObject => None,
        ShapeMode::JsonSchema => {
            let schema = enforced(&shape.schema)?;
            Some(json!({ "type": "json_schema", "schema": schema }))
        }
    }
}

/// A schema as the API enforces it; nothing when it cannot keep to all of it.
pub(in crate::dialect) fn enforced(schema: &Value) -> Option<Value> {
    strict(schema, Surface::AnthropicStrict)
}

pub(in crate::dialect) fn opening(plan: &Plan, options: &Options) -> Vec<Value> {
    let mut blocks = Vec::new();
    beside(&mut blocks, &Beside::of_input(plan), plan, options);
    message("user", blocks).into_iter().collect()
}

pub(in crate::dialect) fn turn(
    before: Option<&Turn>,
    turn: &Turn,
    plan: &Plan,
    options: &Options,
) -> Vec<Value> {
    let asked = user(before, &Beside::of_turn(turn), plan, options);
    let reply = message("assistant", reply(turn, options));
    asked.into_iter().chain(reply).collect()
}

pub(in crate::dialect) fn closing(plan: &Plan, options: &Options) -> Vec<Value> {
    let last = plan.turns.last().map(AsRef::as_ref);
    user(last, &Beside::of_plan(plan), plan, options).into_iter().collect()
}

/// One message: the results of a turn first, then what is said beside them.
fn user(before: Option<&Turn>, said: &Beside<'_>, plan: &Plan, options: &Options) -> Option<Value> {
    let mut blocks = Vec::new();
    if let Some(before) = before {
        for (call, text) in results(before, plan, options) {
            let failed = before.told.get(&call.id).is_some_and(|told| !told.envelope.ok);
            blocks.push(result(call, text, failed));
        }
    }
    beside(&mut blocks, said, plan, options);
    message("user", blocks)
}

fn result(call: &RawCall, text: String, failed: bool) -> Value {
    let mut block = json!({ "type": "tool_result", "tool_use_id": wire_id(call), "content": text });
    if failed && let Some(block) = block.as_object_mut() {
        block.insert("is_error".to_owned(), json!(true));
    }
    block
}

/// Pictures, then words.
fn beside(blocks: &mut Vec<Value>, said: &Beside<'_>, plan: &Plan, options: &Options) {
    blocks.extend(said.images.iter().map(|image| shown(image, plan, options)));
    // The API refuses blank words.
    let words = said.text();
    if !words.trim().is_empty() {
        blocks.push(json!({ "type": "text", "text": words }));
    }
}

fn shown(image: &Image, plan: &Plan, options: &Options) -> Value {
    match picture::shown(image, plan, options) {
        Some(data) => json!({
            "type": "image",
            "source": { "type": "base64", "media_type": image.media_type, "data": data },
        }),
        None => json!({ "type": "text", "text": picture::in_words(image) }),
    }
}

/// A message; none when it would say nothing.
fn message(role: &str, blocks: Vec<Value>) -> Option<Value> {
    if blocks.is_empty() {
        return None;
    }
    Some(json!({ "role": role, "content": blocks }))
}

/// The id of a call. Ours is legal and there only once, which no id from outside is bound to be.
fn wire_id(call: &RawCall) -> String {
    call.id.to_string()
}

/// The reply of a turn, in its own form where that was kept and still holds.
fn reply(turn: &Turn, options: &Options) -> Vec<Value> {
    let kept = kept(turn, NAME, options).and_then(Value::as_array);
    let mut blocks = Vec::new();
    if let Some(kept) = kept {
        if kept.iter().filter(|block| is_call(block)).count() == turn.calls.len() {
            return again(kept, turn);
        }
        // The calls are no longer those of the reply: its thoughts stay, in their order.
        let own = |block: &&Value| !is_call(block) && block.get("type") != Some(&json!("text"));
        blocks.extend(kept.iter().filter(own).cloned());
    }
    // The last words of a reply that goes on may not end with a blank.
    let text = if turn.finish == Finish::Paused { turn.text.trim_end() } else { &turn.text };
    if !text.trim().is_empty() {
        blocks.push(json!({ "type": "text", "text": text }));
    }
    blocks.extend(turn.calls.iter().map(|call| {
        json!({
            "type": "tool_use",
            "id": wire_id(call),
            "name": plain(&call.name),
            "input": object(&understood(call, turn)),
        })
    }));
    blocks
}

fn is_call(block: &Value) -> bool {
    block.get("type") == Some(&json!("tool_use"))
}

/// A kept reply with the ids and names of our calls.
fn again(kept: &[Value], turn: &Turn) -> Vec<Value> {
    let mut calls = turn.calls.iter();
    let mut blocks = kept.to_vec();
    for block in blocks.iter_mut().filter(|block| is_call(block)) {
        if let (Some(block), Some(call)) = (block.as_object_mut(), calls.next()) {
            block.insert("id".to_owned(), json!(wire_id(call)));
            block.insert("name".to_owned(), json!(plain(&call.name)));
            // Arguments that could not be read came as text.
            if turn.is_cut(call) || !block.get("input").is_some_and(Value::is_object) {
                block.insert("input".to_owned(), Value::Object(object(&understood(call, turn))));
            }
        }
    }
    blocks
}
