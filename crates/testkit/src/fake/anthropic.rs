//! Decides what Anthropic's Messages take and say.

use serde_json::{Value, json};
use toolgate_kernel::event::Finish;

use super::Tongue;
use super::check::{ensure, event, list, only, plain_name, text};
use super::fault::Bend;
use super::http::Asked;
use super::said::{Said, cut};

pub(super) const TONGUE: Tongue = Tongue {
    check,
    plain,
    events,
    error,
    error_event: |code, words| event("error", &error(529, code, words)),
    input,
    words: WORDS,
};

const KEYS: &[&str] = &[
    "model",
    "max_tokens",
    "messages",
    "system",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "tools",
    "tool_choice",
    "thinking",
    "metadata",
    "service_tier",
    "output_config",
    "cache_control",
    "context_management",
    "container",
    "mcp_servers",
];

fn check(asked: &Asked, body: &Value) -> Result<(), String> {
    ensure(asked.header("anthropic-version").is_some(), "anthropic-version: header is required")?;
    only(body, KEYS, "the request")?;
    ensure(!text(body, "model").is_empty(), "model: field required")?;
    let tokens = body.get("max_tokens").and_then(Value::as_u64).unwrap_or(0);
    ensure(tokens > 0, "max_tokens: field required")?;
    let messages = list(body, "messages");
    ensure(!messages.is_empty(), "messages: at least one message is required")?;
    for tool in list(body, "tools").iter().filter(|tool| tool.get("type").is_none()) {
        ensure(plain_name(text(tool, "name"), 128), "tools: the name is not allowed")?;
        let schema = tool.get("input_schema").unwrap_or(&Value::Null);
        ensure(text(schema, "type") == "object", "tools: input_schema.type: field required")?;
    }
    if let Some(choice) = body.get("tool_choice") {
        let known = ["auto", "any", "tool", "none"].contains(&text(choice, "type"));
        ensure(known, "tool_choice: type is not known")?;
        ensure(!list(body, "tools").is_empty(), "tool_choice may only be specified with tools")?;
    }
    let first = messages.first().map(|message| text(message, "role"));
    ensure(first == Some("user"), "messages: first message must use the user role")?;
    transcript(messages)
}

/// A reply's calls are answered in the next message, before anything else in it.
fn transcript(messages: &[Value]) -> Result<(), String> {
    let (mut open, mut ids): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for message in messages {
        let role = text(message, "role");
        let blocks = list(message, "content");
        let words = message.get("content").and_then(Value::as_str);
        ensure(words.is_none_or(|words| !words.is_empty()), "messages: content must be non-empty")?;
        ensure(words.is_some() || !blocks.is_empty(), "messages: content must be non-empty")?;
        match role {
            "user" => open = answered(&open, blocks)?,
            "assistant" => {
                ensure(
                    open.is_empty(),
                    "tool_use ids without tool_result blocks immediately after",
                )?;
                for block in blocks {
                    let id = said(block)?;
                    if let Some(id) = id {
                        ensure(!ids.contains(&id), "tool_use ids must be unique")?;
                        ids.push(id);
                        open.push(id);
                    }
                }
            }
            _ => return Err(format!("messages: unexpected role {role}")),
        }
    }
    ensure(open.is_empty(), "tool_use ids were found without tool_result blocks")?;
    let last = messages.last().filter(|message| text(message, "role") == "assistant");
    let ending = last.map(|message| match list(message, "content").last() {
        Some(block) => text(block, "text"),
        None => text(message, "content"),
    });
    let clean = ending.is_none_or(|words| words.trim_end() == words);
    ensure(clean, "final assistant content cannot end with trailing whitespace")
}

/// The id of a call, when a block of a reply is one.
fn said(block: &Value) -> Result<Option<&str>, String> {
    match text(block, "type") {
        "text" => {
            ensure(
                !text(block, "text").trim().is_empty(),
                "text content blocks must be non-empty",
            )?;
            Ok(None)
        }
        "thinking" => {
            ensure(!text(block, "signature").is_empty(), "thinking: signature: field required")?;
            Ok(None)
        }
        "redacted_thinking" => Ok(None),
        "tool_use" => {
            let id = text(block, "id");
            ensure(plain_name(id, 512), "tool_use.id: does not match ^[a-zA-Z0-9_-]+$")?;
            ensure(plain_name(text(block, "name"), 200), "tool_use.name is not allowed")?;
            let object = block.get("input").is_some_and(Value::is_object);
            ensure(object, "tool_use.input: must be an object")?;
            Ok(Some(id))
        }
        kind => Err(format!("messages: {kind} is not expected in a reply")),
    }
}

/// What is still open after a message of the user.
fn answered<'a>(open: &[&'a str], blocks: &[Value]) -> Result<Vec<&'a str>, String> {
    let mut open = open.to_vec();
    let mut others = false;
    for block in blocks {
        match text(block, "type") {
            "tool_result" => {
                ensure(!others, "tool_result blocks must come first in the content")?;
                let id = text(block, "tool_use_id");
                let at = open.iter().position(|call| *call == id);
                open.remove(at.ok_or(format!("unexpected tool_use_id {id} in tool_result"))?);
            }
            "text" => {
                others = true;
                let empty = text(block, "text").trim().is_empty();
                ensure(!empty, "text content blocks must be non-empty")?;
            }
            "image" | "document" => others = true,
            kind => return Err(format!("messages: {kind} is not expected from a user")),
        }
    }
    ensure(open.is_empty(), "tool_use ids without tool_result blocks immediately after")?;
    Ok(open)
}

fn input(body: &Value) -> String {
    let Some(user) = list(body, "messages").first() else { return String::new() };
    let part = list(user, "content").iter().find(|part| text(part, "type") == "text");
    part.map_or(text(user, "content"), |part| text(part, "text")).to_owned()
}

/// How the reasons to stop are written.
const WORDS: &[(Bend, &str)] = &[
    (Bend::StopWithCalls, "end_turn"),
    (Bend::NoCalls, "tool_use"),
    (Bend::Truncated, "max_tokens"),
    (Bend::ContextExceeded, "model_context_window_exceeded"),
    (Bend::Filtered, "refusal"),
    (Bend::FilteredHalfWay, "refusal"),
    (Bend::Refused, "refusal"),
    (Bend::Blocked, "refusal"),
    (Bend::Paused, "pause_turn"),
    (Bend::UnknownFinish, "banana"),
];

fn reason(said: &Said) -> &str {
    let natural = match said.finish {
        Finish::Stop => "end_turn",
        Finish::Calls => "tool_use",
        Finish::Length => "max_tokens",
        Finish::Refused => "refusal",
        Finish::Paused => "pause_turn",
    };
    said.word.as_deref().unwrap_or(natural)
}

fn usage(said: &Said) -> Value {
    if said.lies {
        return json!({"input_tokens": -5, "output_tokens": 1e30});
    }
    let usage = &said.usage;
    // Here the tokens read from the cache are counted beside the others.
    json!({
        "input_tokens": usage.input_tokens.saturating_sub(usage.cached_tokens),
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": usage.cache_written_tokens,
        "output_tokens": usage.output_tokens,
    })
}

fn content(said: &Said) -> Vec<Value> {
    let mut content = Vec::new();
    if said.is_bent(Bend::EmptyChoices) {
        return content;
    }
    if !said.thought.is_empty() {
        content.push(json!({"type": "thinking", "thinking": said.thought, "signature": "c2ln"}));
    }
    if !said.text.is_empty() {
        content.push(json!({"type": "text", "text": said.text}));
    }
    content.extend(said.calls.iter().map(|call| {
        json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.as_json()})
    }));
    content
}

fn plain(said: &Said) -> Value {
    json!({
        "id": format!("msg_{}", said.id), "type": "message", "role": "assistant",
        "model": said.model, "content": content(said), "stop_reason": reason(said),
        "stop_sequence": null, "usage": usage(said),
    })
}

fn events(said: &Said) -> Vec<String> {
    let start = json!({"type": "message_start", "message": {
        "id": format!("msg_{}", said.id), "type": "message", "role": "assistant",
        "model": said.model, "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": usage(said),
    }});
    let mut events = vec![event("message_start", &start)];
    events.push(event("ping", &json!({"type": "ping"})));
    for (at, block) in content(said).iter().enumerate() {
        block_events(said, at, block, &mut events);
    }
    let delta = json!({"type": "message_delta",
        "delta": {"stop_reason": reason(said), "stop_sequence": null}, "usage": usage(said)});
    events.push(event("message_delta", &delta));
    events.push(event("message_stop", &json!({"type": "message_stop"})));
    events
}

fn block_events(said: &Said, at: usize, block: &Value, events: &mut Vec<String>) {
    let mut say = |kind: &str, key: &str, value: Value| {
        let data = json!({"type": kind, "index": at, key: value});
        events.push(event(kind, &data));
    };
    let delta = "content_block_delta";
    match text(block, "type") {
        "tool_use" if said.calls.iter().any(|call| call.whole.as_ref() == block.get("input")) => {
            say("content_block_start", "content_block", block.clone());
        }
        "tool_use" => {
            let (id, name) = (text(block, "id"), text(block, "name"));
            let begun = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
            say("content_block_start", "content_block", begun);
            let calls: Vec<_> = said.calls.iter().filter(|call| call.id == id).collect();
            let same = calls.iter().find(|call| call.name == name).or(calls.first());
            let args = same.map(|call| call.args.clone()).unwrap_or_default();
            // Calls may share an id; each has its own arguments.
            let args = match block.get("input") {
                Some(input) if input.is_object() => input.to_string(),
                _ => args,
            };
            for piece in cut(&args, 7) {
                let piece = json!({"type": "input_json_delta", "partial_json": piece});
                say(delta, "delta", piece);
            }
        }
        "thinking" => {
            let begun = json!({"type": "thinking", "thinking": "", "signature": ""});
            say("content_block_start", "content_block", begun);
            let thought = json!({"type": "thinking_delta", "thinking": said.thought});
            say(delta, "delta", thought);
            say(delta, "delta", json!({"type": "signature_delta", "signature": "c2ln"}));
        }
        _ => {
            say("content_block_start", "content_block", json!({"type": "text", "text": ""}));
            for piece in said.pieces() {
                say(delta, "delta", json!({"type": "text_delta", "text": piece}));
            }
        }
    }
    events.push(event("content_block_stop", &json!({"type": "content_block_stop", "index": at})));
}

fn error(_: u16, code: &str, words: &str) -> Value {
    // A server in trouble has another name here.
    let code = if code == "server_error" { "api_error" } else { code };
    json!({"type": "error", "error": {"type": code, "message": words}})
}
