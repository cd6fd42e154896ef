//! Decides what Gemini's generateContent takes and says.

use serde_json::{Value, json};
use toolgate_kernel::event::Finish;

use super::Tongue;
use super::check::{ensure, event, list, only, text};
use super::fault::Bend;
use super::http::Asked;
use super::said::Said;

pub(super) const TONGUE: Tongue = Tongue {
    check,
    plain,
    events,
    error,
    error_event: |code, words| event("", &error(503, code, words)),
    input,
    words: WORDS,
};

const KEYS: &[&str] = &[
    "contents",
    "systemInstruction",
    "system_instruction",
    "tools",
    "toolConfig",
    "tool_config",
    "generationConfig",
    "generation_config",
    "safetySettings",
    "safety_settings",
    "cachedContent",
];

/// What a schema may say where it is written the OpenAPI way.
const SCHEMA: &[&str] = &[
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "maxItems",
    "minItems",
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "example",
    "anyOf",
    "propertyOrdering",
    "default",
    "items",
    "minimum",
    "maximum",
];

fn check(asked: &Asked, body: &Value) -> Result<(), String> {
    let path = asked.path.split('?').next().unwrap_or_default();
    let method = path.rsplit(':').next().unwrap_or_default();
    let known = ["generateContent", "streamGenerateContent"].contains(&method);
    ensure(known, "the method is not known")?;
    let sse = method != "streamGenerateContent" || asked.path.contains("alt=sse");
    ensure(sse, "this fake streams events only: alt=sse is missing")?;
    ensure(!asked.path.contains("key="), "the key stands in the address")?;
    only(body, KEYS, "the request")?;
    for declared in list(body, "tools").iter().flat_map(|tool| list(tool, "functionDeclarations")) {
        ensure(function_name(text(declared, "name")), "the name of a function is not allowed")?;
        if let Some(schema) = declared.get("parameters") {
            self::schema(schema)?;
        }
    }
    let contents = list(body, "contents");
    ensure(!contents.is_empty(), "contents is not specified")?;
    transcript(contents)
}

fn function_name(name: &str) -> bool {
    let first = name.bytes().next().unwrap_or_default();
    let rest = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    (1..=64).contains(&name.len())
        && (first.is_ascii_alphabetic() || first == b'_')
        && name.bytes().all(rest)
}

fn schema(schema: &Value) -> Result<(), String> {
    only(schema, SCHEMA, "a schema")?;
    ensure(schema.get("type").is_none_or(Value::is_string), "type must be one word")?;
    let properties = schema.get("properties").and_then(Value::as_object);
    if text(schema, "type").eq_ignore_ascii_case("object") {
        ensure(properties.is_none_or(|map| !map.is_empty()), "properties: should be non-empty")?;
    }
    let inner = properties.into_iter().flat_map(|map| map.values());
    let inner = inner.chain(schema.get("items")).chain(list(schema, "anyOf"));
    inner.into_iter().try_for_each(self::schema)
}

/// Calls come after what a user said or results, and as many results come after them.
fn transcript(contents: &[Value]) -> Result<(), String> {
    let mut open = 0;
    let mut last = "";
    for content in contents {
        let (role, parts) = (text(content, "role"), list(content, "parts"));
        ensure(!parts.is_empty(), "contents.parts must not be empty")?;
        let count = |key: &str| parts.iter().filter(|part| part.get(key).is_some()).count();
        let (calls, results) = (count("functionCall"), count("functionResponse"));
        match role {
            "user" | "function" => {
                ensure(
                    results == open,
                    "the number of function response parts must be equal to \
                                         the number of function call parts",
                )?;
                open = 0;
            }
            "model" => {
                ensure(open == 0, "function calls must be followed by their responses")?;
                ensure(
                    calls == 0 || last != "model",
                    "function call turn comes immediately after a user turn or a function response",
                )?;
                open = calls;
            }
            _ => return Err("please use a valid role: user, model".to_owned()),
        }
        parts.iter().try_for_each(part)?;
        last = role;
    }
    ensure(open == 0, "function calls must be followed by their responses")
}

fn part(part: &Value) -> Result<(), String> {
    const DATA: &[&str] =
        &["text", "functionCall", "functionResponse", "inlineData", "inline_data"];
    let datas = DATA.iter().filter(|key| part.get(**key).is_some()).count();
    ensure(
        datas == 1,
        "contents.parts.data: required oneof field must have one initialized field",
    )?;
    let object = |call: &Value, key: &str| call.get(key).is_none_or(Value::is_object);
    if let Some(call) = part.get("functionCall") {
        ensure(function_name(text(call, "name")), "function_call.name is not allowed")?;
        ensure(object(call, "args"), "function_call.args must be an object")?;
    }
    if let Some(response) = part.get("functionResponse") {
        ensure(!text(response, "name").is_empty(), "function_response.name: cannot be empty")?;
        let given = response.get("response").is_some_and(Value::is_object);
        ensure(given, "function_response.response must be an object")?;
    }
    Ok(())
}

fn input(body: &Value) -> String {
    let user = list(body, "contents").iter().find(|content| text(content, "role") == "user");
    let parts = user.map(|user| list(user, "parts")).unwrap_or_default();
    let words = parts.iter().find(|part| part.get("text").is_some());
    words.map(|part| text(part, "text").to_owned()).unwrap_or_default()
}

/// How the reasons to stop are written.
const WORDS: &[(Bend, &str)] = &[
    (Bend::Truncated, "MAX_TOKENS"),
    (Bend::ContextExceeded, "MAX_TOKENS"),
    (Bend::MalformedCall, "MALFORMED_FUNCTION_CALL"),
    (Bend::UnexpectedCall, "UNEXPECTED_TOOL_CALL"),
    (Bend::Filtered, "SAFETY"),
    (Bend::FilteredHalfWay, "SAFETY"),
    (Bend::Refused, "SAFETY"),
    (Bend::UnknownFinish, "BANANA"),
];

fn reason(said: &Said) -> &str {
    let natural = match said.finish {
        Finish::Stop | Finish::Calls | Finish::Paused => "STOP",
        Finish::Length => "MAX_TOKENS",
        Finish::Refused => "SAFETY",
    };
    said.word.as_deref().unwrap_or(natural)
}

fn usage(said: &Said) -> Value {
    if said.lies {
        return json!({"promptTokenCount": -5, "candidatesTokenCount": 1e30});
    }
    let usage = &said.usage;
    json!({
        "promptTokenCount": usage.input_tokens,
        "cachedContentTokenCount": usage.cached_tokens,
        "candidatesTokenCount": usage.output_tokens,
        "totalTokenCount": usage.input_tokens + usage.output_tokens,
    })
}

fn call_parts(said: &Said) -> Vec<Value> {
    let call = |call: &super::said::SaidCall| json!({"functionCall": {"id": call.id, "name": call.name, "args": call.as_json()}});
    said.calls.iter().map(call).collect()
}

fn answer(said: &Said, parts: Vec<Value>, reason: Option<&str>) -> Value {
    if said.is_bent(Bend::Blocked) {
        return json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": usage(said),
                      "modelVersion": said.model});
    }
    let mut candidate = json!({"index": 0});
    if let Some(candidate) = candidate.as_object_mut() {
        // A call that cannot be read leaves no content at all.
        if !said.is_bent(Bend::MalformedCall) {
            let content = json!({"role": "model", "parts": parts});
            candidate.insert("content".to_owned(), content);
        }
        if let Some(reason) = reason {
            candidate.insert("finishReason".to_owned(), json!(reason));
        }
    }
    let candidates = if said.is_bent(Bend::EmptyChoices) { vec![] } else { vec![candidate] };
    json!({"candidates": candidates, "usageMetadata": usage(said), "modelVersion": said.model,
           "responseId": said.id})
}

fn words(said: &Said) -> Vec<Value> {
    let mut parts = Vec::new();
    if !said.thought.is_empty() {
        parts.push(json!({"text": said.thought, "thought": true}));
    }
    if !said.text.is_empty() {
        parts.push(json!({"text": said.text}));
    }
    parts
}

fn plain(said: &Said) -> Value {
    let parts = words(said).into_iter().chain(call_parts(said)).collect();
    answer(said, parts, Some(reason(said)))
}

fn events(said: &Said) -> Vec<String> {
    let mut events = Vec::new();
    if !said.thought.is_empty() {
        let thought = json!({"text": said.thought, "thought": true});
        events.push(event("", &answer(said, vec![thought], None)));
    }
    for piece in said.pieces() {
        events.push(event("", &answer(said, vec![json!({"text": piece})], None)));
    }
    events.push(event("", &answer(said, call_parts(said), Some(reason(said)))));
    events
}

fn error(status: u16, code: &str, words: &str) -> Value {
    // Here the codes have names of their own.
    let name = match code {
        "authentication_error" => "UNAUTHENTICATED",
        "permission_error" => "PERMISSION_DENIED",
        "not_found_error" => "NOT_FOUND",
        "invalid_request_error" => "INVALID_ARGUMENT",
        "rate_limit_error" => "RESOURCE_EXHAUSTED",
        "server_error" => "INTERNAL",
        "overloaded_error" => "UNAVAILABLE",
        other => &other.to_uppercase(),
    };
    json!({"error": {"code": status, "message": words, "status": name}})
}
