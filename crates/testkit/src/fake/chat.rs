//! Decides what OpenAI's chat completions take and say.

use serde_json::{Value, json};
use toolgate_kernel::event::Finish;

use super::Tongue;
use super::check::{ensure, event, list, plain_name, text};
use super::fault::Bend;
use super::http::Asked;
use super::said::{Said, cut};

pub(super) const TONGUE: Tongue = Tongue {
    check,
    plain,
    events,
    error,
    error_event: |code, words| event("", &json!({"error": {"message": words, "type": code}})),
    input,
    words: WORDS,
};

fn check(_: &Asked, body: &Value) -> Result<(), String> {
    ensure(body.is_object(), "the body must be a JSON object")?;
    ensure(!text(body, "model").is_empty(), "you must provide a model parameter")?;
    let messages = list(body, "messages");
    ensure(!messages.is_empty(), "messages: too short, at least 1 is needed")?;
    tools(body)?;
    ensure(
        body.get("stream_options").is_none() || body.get("stream") == Some(&Value::Bool(true)),
        "stream_options is only allowed when stream is true",
    )?;
    transcript(messages)
}

fn tools(body: &Value) -> Result<(), String> {
    let tools = list(body, "tools");
    ensure(body.get("tools").is_none() || !tools.is_empty(), "tools: [] is too short")?;
    for key in ["tool_choice", "parallel_tool_calls"] {
        let alone = body.get(key).is_some() && tools.is_empty();
        ensure(!alone, format!("{key} is only allowed when tools are specified"))?;
    }
    for tool in tools {
        ensure(text(tool, "type") == "function", "tools: type must be function")?;
        let function = tool.get("function").unwrap_or(&Value::Null);
        ensure(plain_name(text(function, "name"), 64), "tools: the name is not allowed")?;
        let schema = function.get("parameters").unwrap_or(&Value::Null);
        let object = schema.is_null() || text(schema, "type") == "object";
        ensure(object, "tools: the schema of a function must be of type object")?;
    }
    Ok(())
}

/// Every call is answered at once and by its id, and nothing else is.
fn transcript(messages: &[Value]) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        let role = text(message, "role");
        if role == "tool" {
            let id = text(message, "tool_call_id");
            let at = open.iter().position(|call| *call == id);
            let at = at.ok_or("messages with role tool must answer a preceding tool_call")?;
            open.remove(at);
            ensure(message.get("content").is_some(), "a tool message needs content")?;
            continue;
        }
        ensure(open.is_empty(), "tool_call_ids did not have response messages")?;
        match role {
            "system" | "developer" | "user" => {
                let content = message.get("content").unwrap_or(&Value::Null);
                ensure(content.is_string() || content.is_array(), "content is missing")?;
            }
            "assistant" => open = calls(message)?,
            _ => return Err(format!("{role} is not one of the roles")),
        }
    }
    ensure(open.is_empty(), "tool_call_ids did not have response messages")
}

fn calls(message: &Value) -> Result<Vec<&str>, String> {
    let calls = list(message, "tool_calls");
    let given = message.get("tool_calls").is_some();
    ensure(!given || !calls.is_empty(), "tool_calls: [] is too short")?;
    let content = message.get("content").is_some_and(|content| !content.is_null());
    ensure(content || given, "an assistant message needs content or tool_calls")?;
    let mut ids = Vec::new();
    for call in calls {
        let (id, function) = (text(call, "id"), call.get("function").unwrap_or(&Value::Null));
        ensure((1..=40).contains(&id.len()), "tool_calls: the id is too long or missing")?;
        ensure(!ids.contains(&id), "tool_calls: an id is there twice")?;
        ensure(text(call, "type") == "function", "tool_calls: type must be function")?;
        ensure(plain_name(text(function, "name"), 64), "tool_calls: the name is not allowed")?;
        let args = function.get("arguments").is_some_and(Value::is_string);
        ensure(args, "tool_calls: arguments must be a string")?;
        ids.push(id);
    }
    Ok(ids)
}

/// What Mistral and strict templates want besides: user and assistant take turns, results come
/// between a call and the next reply, nothing of the assistant is blank, and an id is nine letters
/// and digits that no other call has.
pub(super) fn strict(body: &Value) -> Result<(), String> {
    let (mut last, mut ids): (&str, Vec<&str>) = ("system", Vec::new());
    for message in list(body, "messages") {
        let role = text(message, "role");
        let fits = matches!(
            (last, role),
            ("system", "system" | "user")
                | ("user", "assistant")
                | ("assistant", "user")
                | ("calls", "tool")
                | ("tool", "tool" | "assistant")
        );
        ensure(fits, format!("Unexpected role '{role}' after role '{last}'"))?;
        last = role;
        if role == "assistant" {
            let calls = list(message, "tool_calls");
            let content = message.get("content").unwrap_or(&Value::Null);
            let blank = content.is_null() || content.as_str().is_some_and(|c| c.trim().is_empty());
            ensure(
                !blank || !calls.is_empty(),
                "Assistant message must have either content or tool_calls, but not none.",
            )?;
            for id in calls.iter().map(|call| text(call, "id")) {
                let short = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
                ensure(
                    short,
                    format!("Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."),
                )?;
                ensure(!ids.contains(&id), "Duplicate tool call id in assistant message")?;
                ids.push(id);
            }
            if !calls.is_empty() {
                last = "calls";
            }
        }
    }
    ensure(matches!(last, "user" | "tool"), "Expected last role User or Tool for serving")
}

fn input(body: &Value) -> String {
    let user = list(body, "messages").iter().find(|message| text(message, "role") == "user");
    user.map(|message| text(message, "content").to_owned()).unwrap_or_default()
}

/// How the reasons to stop are written.
const WORDS: &[(Bend, &str)] = &[
    (Bend::StopWithCalls, "stop"),
    (Bend::Refused, "stop"),
    (Bend::NoCalls, "tool_calls"),
    (Bend::Truncated, "length"),
    (Bend::ContextExceeded, "length"),
    (Bend::Filtered, "content_filter"),
    (Bend::FilteredHalfWay, "content_filter"),
    (Bend::Blocked, "content_filter"),
    (Bend::UnknownFinish, "banana"),
];

fn reason(said: &Said) -> &str {
    let natural = match said.finish {
        Finish::Stop | Finish::Paused => "stop",
        Finish::Calls => "tool_calls",
        Finish::Length => "length",
        Finish::Refused => "content_filter",
    };
    said.word.as_deref().unwrap_or(natural)
}

fn usage(said: &Said) -> Value {
    if said.lies {
        return json!({"prompt_tokens": -5, "completion_tokens": 1e30, "total_tokens": "many"});
    }
    let usage = &said.usage;
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    })
}

fn plain(said: &Said) -> Value {
    let mut message = json!({"role": "assistant", "content": said.text, "refusal": null});
    let calls: Vec<Value> = said
        .calls
        .iter()
        .map(|call| {
            json!({"id": call.id, "type": "function",
                   "function": {"name": call.name, "arguments": call.as_text()}})
        })
        .collect();
    if let Some(message) = message.as_object_mut() {
        if let (Some(call), true) = (said.calls.first(), said.is_bent(Bend::OldCall)) {
            let call = json!({"name": call.name, "arguments": call.as_text()});
            message.insert("function_call".to_owned(), call);
        } else if let (Some(call), true) = (calls.first(), said.is_bent(Bend::SingleCall)) {
            message.insert("tool_calls".to_owned(), call.clone());
        } else if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        if !said.thought.is_empty() {
            message.insert("reasoning_content".to_owned(), json!(said.thought));
        }
        if said.is_bent(Bend::Refused) {
            message.insert("content".to_owned(), Value::Null);
            message.insert("refusal".to_owned(), json!("I cannot help with that."));
        }
    }
    let choice = json!({"index": 0, "message": message, "logprobs": null,
                        "finish_reason": reason(said)});
    let choices = if said.is_bent(Bend::EmptyChoices) { vec![] } else { vec![choice] };
    json!({
        "id": said.id, "object": "chat.completion", "created": 1_767_225_600, "model": said.model,
        "choices": choices, "usage": usage(said),
    })
}

fn chunk(said: &Said, delta: &Value, reason: &Value) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
    event(
        "",
        &json!({
            "id": said.id, "object": "chat.completion.chunk", "created": 1_767_225_600,
            "model": said.model, "choices": [choice],
        }),
    )
}

fn events(said: &Said) -> Vec<String> {
    let delta = |delta: Value| chunk(said, &delta, &Value::Null);
    let mut events = vec![delta(json!({"role": "assistant", "content": ""}))];
    if !said.thought.is_empty() {
        events.push(delta(json!({"reasoning_content": said.thought})));
    }
    if said.is_bent(Bend::Refused) {
        events.push(delta(json!({"refusal": "I cannot help with that."})));
    } else {
        events.extend(said.pieces().iter().map(|piece| delta(json!({"content": piece}))));
    }
    call_events(said, &mut events);
    if !said.is_bent(Bend::EmptyChoices) {
        events.push(chunk(said, &json!({}), &json!(reason(said))));
    } else {
        events.clear();
    }
    if said.is_bent(Bend::DoubleFinish) {
        // The end once more, with every call in one piece.
        let whole = |(at, call): (usize, &super::said::SaidCall)| {
            json!({"index": at, "id": call.id, "type": "function",
                   "function": {"name": call.name, "arguments": call.as_text()}})
        };
        let calls: Vec<Value> = said.calls.iter().enumerate().map(whole).collect();
        events.push(chunk(said, &json!({"tool_calls": calls}), &json!(reason(said))));
    }
    events.push(event(
        "",
        &json!({
            "id": said.id, "object": "chat.completion.chunk", "created": 1_767_225_600,
            "model": said.model, "choices": [], "usage": usage(said),
        }),
    ));
    events.push("data: [DONE]\n\n".to_owned());
    events
}

fn call_events(said: &Said, events: &mut Vec<String>) {
    if said.is_bent(Bend::OldCall) || said.is_bent(Bend::SingleCall) {
        let whole = said.calls.iter().map(|call| {
            let function = json!({"name": call.name, "arguments": call.as_text()});
            match said.is_bent(Bend::OldCall) {
                true => json!({"function_call": function}),
                false => json!({"tool_calls": {"id": call.id, "function": function}}),
            }
        });
        events.extend(whole.map(|delta| chunk(said, &delta, &Value::Null)));
        return;
    }
    for (at, call) in said.calls.iter().enumerate() {
        let index = match said.bend {
            Some(Bend::SharedIndex) => 0,
            Some(Bend::IndexFromOne) => at + 1,
            _ => at,
        };
        let piece = |id: Option<&str>, name: Option<&str>, args: &str| {
            let mut function = json!({"arguments": args});
            let mut call = json!({"index": index, "type": "function"});
            if let (Some(function), Some(name)) = (function.as_object_mut(), name) {
                function.insert("name".to_owned(), json!(name));
            }
            if let Some(call) = call.as_object_mut() {
                if let Some(id) = id {
                    call.insert("id".to_owned(), json!(id));
                }
                call.insert("function".to_owned(), function);
            }
            chunk(said, &json!({"tool_calls": [call]}), &Value::Null)
        };
        if call.whole.is_some() {
            let function = json!({"name": call.name, "arguments": call.as_text()});
            let whole = json!({"index": index, "id": call.id, "function": function});
            events.push(chunk(said, &json!({"tool_calls": [whole]}), &Value::Null));
            continue;
        }
        let (id, name) = (Some(call.id.as_str()), call.name.as_str());
        let half = name.len() / 2;
        let split = said.is_bent(Bend::SplitName);
        match (name.get(..half), name.get(half..)) {
            (Some(first), Some(second)) if split => {
                events.push(piece(id, Some(first), ""));
                events.push(piece(None, Some(second), ""));
            }
            _ => events.push(piece(id, Some(name), "")),
        }
        let again = said.is_bent(Bend::RepeatedName).then_some(name);
        // A filter that stops the reply half-way leaves half a call.
        let halves = if said.is_bent(Bend::FilteredHalfWay) { 1 } else { usize::MAX };
        let pieces = cut(&call.args, 7);
        events.extend(pieces.iter().take(halves).map(|args| piece(None, again, args)));
    }
}

fn error(_: u16, code: &str, words: &str) -> Value {
    json!({"error": {"message": words, "type": code, "param": null, "code": code}})
}
