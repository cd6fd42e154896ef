//! Decides what OpenAI's Responses take and say.

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
    error_event: |code, words| {
        event("error", &json!({"type": "error", "code": code, "message": words, "param": null}))
    },
    input,
    words: WORDS,
};

/// Parameters of the older dialect that this one refuses.
const FOREIGN: &[&str] =
    &["messages", "max_tokens", "max_completion_tokens", "response_format", "n"];

fn check(_: &Asked, body: &Value) -> Result<(), String> {
    ensure(body.is_object(), "the body must be a JSON object")?;
    ensure(!text(body, "model").is_empty(), "missing required parameter: model")?;
    if let Some(key) = FOREIGN.iter().find(|key| body.get(**key).is_some()) {
        return Err(format!("unsupported parameter: {key}"));
    }
    for tool in list(body, "tools").iter().filter(|tool| text(tool, "type") == "function") {
        ensure(plain_name(text(tool, "name"), 64), "tools: the name is not allowed")?;
        let schema = tool.get("parameters").unwrap_or(&Value::Null);
        let object = schema.is_null() || text(schema, "type") == "object";
        ensure(object, "tools: the schema of a function must be of type object")?;
    }
    ensure(
        list(body, "tools").iter().all(|tool| tool.get("function").is_none()),
        "missing required parameter: tools[0].name",
    )?;
    ensure(body.get("input").is_some(), "missing required parameter: input")?;
    items(list(body, "input"))
}

/// Every call has an output, every output a call, and every thought something after it.
fn items(items: &[Value]) -> Result<(), String> {
    let (mut called, mut answered): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for (at, item) in items.iter().enumerate() {
        let kind = item.get("type").and_then(Value::as_str).unwrap_or("message");
        let id = text(item, "call_id");
        match kind {
            "message" => {
                let role = text(item, "role");
                let known = ["user", "assistant", "system", "developer"].contains(&role);
                ensure(known, format!("invalid role {role}"))?;
                ensure(item.get("content").is_some(), "missing content")?;
            }
            "function_call" => {
                ensure((1..=64).contains(&id.len()), "call_id is missing or too long")?;
                ensure(plain_name(text(item, "name"), 64), "the name is not allowed")?;
                let args = item.get("arguments").is_some_and(Value::is_string);
                ensure(args, "arguments must be a string")?;
                called.push(id);
            }
            "function_call_output" => {
                let known = called.contains(&id);
                ensure(known, format!("no tool call found for function call output {id}"))?;
                ensure(item.get("output").is_some(), "missing output")?;
                answered.push(id);
            }
            "reasoning" => {
                let next = items.get(at + 1).map(|next| text(next, "type"));
                let followed = next.is_some_and(|kind| kind != "function_call_output");
                ensure(followed, "a reasoning item was provided without its following item")?;
            }
            _ => return Err(format!("invalid item of type {kind}")),
        }
    }
    match called.iter().find(|id| !answered.contains(id)) {
        Some(id) => Err(format!("no tool output found for function call {id}")),
        None => Ok(()),
    }
}

fn input(body: &Value) -> String {
    if let Some(words) = body.get("input").and_then(Value::as_str) {
        return words.to_owned();
    }
    let user = list(body, "input").iter().find(|item| text(item, "role") == "user");
    let Some(user) = user else { return String::new() };
    let part = list(user, "content").first().map(|part| text(part, "text"));
    part.unwrap_or_else(|| text(user, "content")).to_owned()
}

/// How the reasons to stop are written.
const WORDS: &[(Bend, &str)] = &[
    (Bend::Truncated, "max_output_tokens"),
    (Bend::ContextExceeded, "max_output_tokens"),
    (Bend::Filtered, "content_filter"),
    (Bend::FilteredHalfWay, "content_filter"),
    (Bend::Blocked, "content_filter"),
    (Bend::UnknownFinish, "banana"),
];

/// Why the response is incomplete; nothing when it is complete.
fn incomplete(said: &Said) -> Option<&str> {
    let natural = match said.finish {
        Finish::Length => Some("max_output_tokens"),
        Finish::Refused => Some("content_filter"),
        Finish::Stop | Finish::Calls | Finish::Paused => None,
    };
    said.word.as_deref().or(natural)
}

fn output(said: &Said) -> Vec<Value> {
    let mut output = Vec::new();
    if said.is_bent(Bend::EmptyChoices) {
        return output;
    }
    if !said.thought.is_empty() {
        output.push(json!({"type": "reasoning", "id": format!("rs_{}", said.id), "summary": [
            {"type": "summary_text", "text": said.thought}]}));
    }
    if said.is_bent(Bend::Refused) {
        output.push(json!({"type": "message", "id": format!("msg_{}", said.id),
            "role": "assistant", "status": "completed",
            "content": [{"type": "refusal", "refusal": "I cannot help with that."}]}));
    } else if !said.text.is_empty() {
        output.push(json!({"type": "message", "id": format!("msg_{}", said.id),
            "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": said.text, "annotations": []}]}));
    }
    let calls = said.calls.iter().enumerate().map(|(at, call)| {
        json!({"type": "function_call", "id": format!("fc_{}_{at}", said.id), "call_id": call.id,
               "name": call.name, "arguments": call.as_text(), "status": "completed"})
    });
    output.extend(calls);
    output
}

fn response(said: &Said, output: &[Value], status: &str) -> Value {
    let usage = &said.usage;
    let usage = match said.lies {
        true => json!({"input_tokens": -5, "output_tokens": 1e30}),
        false => json!({
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {
                "cached_tokens": usage.cached_tokens,
                "cache_write_tokens": usage.cache_written_tokens,
            },
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.input_tokens + usage.output_tokens,
        }),
    };
    let details = incomplete(said).map(|reason| json!({"reason": reason}));
    json!({
        "id": format!("resp_{}", said.id), "object": "response", "created_at": 1_767_225_600,
        "model": said.model, "status": status, "error": null, "incomplete_details": details,
        "output": output, "parallel_tool_calls": true, "tool_choice": "auto", "tools": [],
        "usage": usage,
    })
}

fn status(said: &Said) -> &'static str {
    if incomplete(said).is_some() { "incomplete" } else { "completed" }
}

fn plain(said: &Said) -> Value {
    response(said, &output(said), status(said))
}

fn events(said: &Said) -> Vec<String> {
    let mut events = Vec::new();
    let mut say = |kind: &str, mut data: Value| {
        let number = events.len();
        if let Some(data) = data.as_object_mut() {
            data.insert("type".to_owned(), json!(kind));
            data.insert("sequence_number".to_owned(), json!(number));
        }
        events.push(event(kind, &data));
    };
    say("response.created", json!({"response": response(said, &[], "in_progress")}));
    let output = output(said);
    for (at, item) in output.iter().enumerate() {
        let id = text(item, "id");
        let place = json!({"output_index": at, "item_id": id, "content_index": 0});
        let with = |key: &str, value: &str| {
            let mut data = place.clone();
            if let Some(data) = data.as_object_mut() {
                data.insert(key.to_owned(), json!(value));
            }
            data
        };
        let mut begun = item.clone();
        for (key, blank) in
            [("content", json!([])), ("arguments", json!("")), ("status", json!("in_progress"))]
        {
            if let Some(found) = begun.get_mut(key) {
                *found = blank;
            }
        }
        say("response.output_item.added", json!({"output_index": at, "item": begun}));
        match text(item, "type") {
            "function_call" => {
                for piece in cut(text(item, "arguments"), 7) {
                    say("response.function_call_arguments.delta", with("delta", &piece));
                }
                let done = with("arguments", text(item, "arguments"));
                say("response.function_call_arguments.done", done);
            }
            "message" if !said.is_bent(Bend::Refused) => {
                let part = json!({"type": "output_text", "text": "", "annotations": []});
                let added =
                    json!({"output_index": at, "item_id": id, "content_index": 0, "part": part});
                say("response.content_part.added", added);
                let words = |key: &str, value: &str| {
                    json!({"output_index": at, "item_id": id, "content_index": 0, key: value,
                           "logprobs": []})
                };
                for piece in said.pieces() {
                    say("response.output_text.delta", words("delta", piece));
                }
                say("response.output_text.done", words("text", &said.text));
            }
            _ => {}
        }
        say("response.output_item.done", json!({"output_index": at, "item": item}));
    }
    let whole = response(said, &output, status(said));
    say(&format!("response.{}", status(said)), json!({"response": whole}));
    events
}

fn error(_: u16, code: &str, words: &str) -> Value {
    json!({"error": {"message": words, "type": code, "param": null, "code": code}})
}
