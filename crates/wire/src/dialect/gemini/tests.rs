//! What generateContent is told, and what its answers mean.

use serde_json::{Value, json};
use toolgate_kernel::event::{FaultKind, Finish};
use toolgate_kernel::names::ToolName;
use toolgate_kernel::plan::{Choice, OutputShape, ShapeMode};

use crate::dialect::Dialect::Gemini;
use crate::dialect::Options;
use crate::dialect::sample::{
    answered, encoded, messages, options, plan, sse, streamed, with_picture,
};

fn body(reason: &str, parts: Value) -> Value {
    json!({
        "candidates": [{ "content": { "role": "model", "parts": parts }, "finishReason": reason }],
        "usageMetadata": { "promptTokenCount": 40, "cachedContentTokenCount": 30,
            "toolUsePromptTokenCount": 2, "candidatesTokenCount": 8, "thoughtsTokenCount": 3 },
    })
}

fn call(name: &str) -> Value {
    json!({ "functionCall": { "name": name, "args": { "path": "a" } } })
}

#[test]
fn why_it_stopped_and_what_follows() {
    let words = json!([{ "text": "x" }]);
    let calls = json!([call("read_file")]);
    let table: &[(&str, &Value, Result<Finish, FaultKind>)] = &[
        ("STOP", &words, Ok(Finish::Stop)),
        ("STOP", &json!([]), Ok(Finish::Stop)),
        ("STOP", &Value::Null, Ok(Finish::Stop)),
        ("STOP", &calls, Ok(Finish::Calls)),
        ("MAX_TOKENS", &words, Ok(Finish::Length)),
        ("MAX_TOKENS", &calls, Err(FaultKind::Truncated)),
        ("SAFETY", &words, Ok(Finish::Refused)),
        ("SAFETY", &calls, Ok(Finish::Refused)),
        ("RECITATION", &words, Ok(Finish::Refused)),
        ("LANGUAGE", &words, Ok(Finish::Refused)),
        ("BLOCKLIST", &words, Ok(Finish::Refused)),
        ("PROHIBITED_CONTENT", &words, Ok(Finish::Refused)),
        ("SPII", &words, Ok(Finish::Refused)),
        ("IMAGE_SAFETY", &words, Ok(Finish::Refused)),
        ("MALFORMED_FUNCTION_CALL", &Value::Null, Err(FaultKind::MalformedCall)),
        ("UNEXPECTED_TOOL_CALL", &calls, Err(FaultKind::MalformedCall)),
        ("TOO_MANY_TOOL_CALLS", &calls, Err(FaultKind::MalformedCall)),
        ("MISSING_THOUGHT_SIGNATURE", &words, Err(FaultKind::BadRequest)),
        ("OTHER", &words, Err(FaultKind::UnknownFinish)),
        ("FINISH_REASON_UNSPECIFIED", &words, Err(FaultKind::UnknownFinish)),
        ("BORED", &words, Err(FaultKind::UnknownFinish)),
        ("", &words, Err(FaultKind::UnknownFinish)),
    ];
    for (reason, parts, wanted) in table {
        let told = Gemini.decode(&body(reason, (*parts).clone()));
        if let Ok(reply) = &told {
            assert_eq!(reply.calls.is_empty(), reply.finish != Finish::Calls, "{reason}");
        }
        let told = told.map(|reply| reply.finish).map_err(|fault| fault.kind);
        assert_eq!(told, *wanted, "{reason} with {parts}");
    }
}

#[test]
fn what_is_no_answer_is_a_typed_fault() {
    let error = |code: u16, status: &str| json!({ "error": { "code": code, "message": "m", "status": status } });
    for (body, kind) in [
        (json!({ "promptFeedback": { "blockReason": "SAFETY" } }), FaultKind::Filtered),
        (json!({ "candidates": [] }), FaultKind::Unreadable),
        (json!({}), FaultKind::Unreadable),
        (json!("<html>"), FaultKind::Unreadable),
        (json!({ "candidates": [{}] }), FaultKind::UnknownFinish),
        (error(429, "RESOURCE_EXHAUSTED"), FaultKind::RateLimited),
        (error(503, "UNAVAILABLE"), FaultKind::Overloaded),
        (error(400, "INVALID_ARGUMENT"), FaultKind::BadRequest),
        (error(403, "PERMISSION_DENIED"), FaultKind::Unauthorized),
        (json!([error(404, "NOT_FOUND")]), FaultKind::NotFound),
    ] {
        assert_eq!(Gemini.decode(&body).unwrap_err().kind, kind, "{body}");
    }
}

#[test]
fn thoughts_count_as_written_and_the_cache_as_read() {
    let usage = Gemini.decode(&body("STOP", json!([]))).unwrap().usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (42, 11));
    assert_eq!((usage.cached_tokens, usage.cache_written_tokens), (30, 0));
}

#[test]
fn signatures_come_back_on_the_parts_they_came_on() {
    let parts = json!([
        { "text": "Hm.", "thought": true },
        { "text": "First." },
        { "functionCall": { "name": "read_file", "args": { "path": "a" } },
            "thoughtSignature": "s1" },
        { "text": " " },
        { "functionCall": { "name": "T3d_view", "args": {} } },
        { "text": "", "thoughtSignature": "s2" },
    ]);
    let reply = Gemini.decode(&body("STOP", parts.clone())).unwrap();
    assert_eq!(reply.text, "First. ");
    let names: Vec<&str> = reply.calls.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(names, ["read_file", "3d_view"]);
    let mut plan = plan();
    answered(&mut plan, reply, &["Before."]);
    plan.feedback.push("After.".into());
    let request = encoded(Gemini, &plan, &options("gemini-3-pro"));
    let mut kept = parts.as_array().unwrap().clone();
    kept.remove(3);
    let failed = plan.turns[0].told.values().nth(1).unwrap().envelope.to_json();
    assert_eq!(
        messages(&request),
        [
            json!({ "role": "user", "parts": [{ "text": "Begin." }] }),
            json!({ "role": "user", "parts": [{ "text": "Before." }] }),
            json!({ "role": "model", "parts": kept }),
            json!({ "role": "user", "parts": [
                { "functionResponse": { "name": "read_file",
                    "response": { "output": "Read.\n\nwords" } } },
                { "functionResponse": { "name": "T3d_view", "response": { "error": failed } } },
            ] }),
            json!({ "role": "user", "parts": [{ "text": "After." }] }),
        ]
    );
}

#[test]
fn ids_are_sent_back_where_they_came() {
    let with_id = |id: &str, at: u64| json!({ "functionCall": { "id": id, "name": "read_file", "args": { "at": at } } });
    let reply = Gemini.decode(&body("STOP", json!([with_id("x", 1), with_id("x", 2)]))).unwrap();
    let mut plan = plan();
    answered(&mut plan, reply, &[]);
    let request = encoded(Gemini, &plan, &options("gemini-2.5-pro"));
    let ids = |at: usize, kind: &str| -> Vec<String> {
        let parts = messages(&request)[at]["parts"].as_array().unwrap();
        parts.iter().map(|part| part[kind]["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(1, "functionCall"), ["x", "x__2"]);
    assert_eq!(ids(2, "functionResponse"), ["x", "x__2"]);
}

#[test]
fn calls_of_another_model_are_marked_where_signatures_are_wanted() {
    let mut plan = plan();
    let mut parts = json!([call("read_file"), call("read_file")]);
    parts[1]["functionCall"]["args"] = json!({ "path": "b" });
    answered(&mut plan, Gemini.decode(&body("STOP", parts.clone())).unwrap(), &[]);
    for (model, signature) in [
        ("gemini-3-pro", json!("skip_thought_signature_validator")),
        ("gemini-2.5-pro", Value::Null),
    ] {
        let request = encoded(Gemini, &plan, &options(model));
        let sent = &messages(&request)[1]["parts"];
        assert_eq!(sent[0].get("thoughtSignature").cloned().unwrap_or_default(), signature);
        assert_eq!(sent[1], parts[1]);
    }
}

#[test]
fn the_frame_says_everything_else() {
    let mut plan = plan();
    plan.tools.truncate(1);
    with_picture(&mut plan);
    let options = Options { output_tokens_max: Some(99), ..options("gemini-x") };
    let request = encoded(Gemini, &plan, &options);
    assert_eq!(request.path, "/models/gemini-x:generateContent");
    assert_eq!(
        Value::Object(request.body),
        json!({
            "systemInstruction": { "parts": [{ "text": "Be brief." }] },
            "tools": [{ "functionDeclarations": [
                { "name": "read_file", "description": "A tool.", "parametersJsonSchema": {
                    "type": "object", "properties": { "path": { "type": "string" } },
                    "required": ["path"], "additionalProperties": false } },
            ] }],
            "toolConfig": { "functionCallingConfig": { "mode": "AUTO" } },
            "generationConfig": { "maxOutputTokens": 99 },
            "contents": [{ "role": "user", "parts": [
                { "inlineData": { "mimeType": "image/png", "data": "Zm9vYmFy" } },
                { "text": "Begin." },
            ] }],
        })
    );
}

#[test]
fn which_tools_may_be_called() {
    let view = || ToolName::parse("3d_view").unwrap();
    let names = |mode: &str, names: &[&str]| json!({ "functionCallingConfig": { "mode": mode, "allowedFunctionNames": names } });
    let mode = |mode: &str| json!({ "functionCallingConfig": { "mode": mode } });
    let form = json!({ "functionCallingConfig": { "mode": "X" } });
    let preserve = Options { preserve_cache: true, ..Options::default() };
    let plain = Options::default();
    for (choice, options, shown, declared, wanted) in [
        (Choice::Auto, &plain, 1, 1, mode("AUTO")),
        (Choice::Auto, &preserve, 2, 2, mode("AUTO")),
        (Choice::Auto, &preserve, 1, 2, names("VALIDATED", &["read_file"])),
        (Choice::Auto, &preserve, 0, 2, mode("NONE")),
        (Choice::Required, &plain, 1, 1, mode("ANY")),
        (Choice::Required, &preserve, 1, 2, names("ANY", &["read_file"])),
        (Choice::Tool(view()), &plain, 2, 2, names("ANY", &["T3d_view"])),
        (Choice::None, &preserve, 1, 2, mode("NONE")),
        (Choice::Form(form.as_object().unwrap().clone()), &plain, 1, 1, form.clone()),
    ] {
        let mut plan = plan();
        plan.tools.truncate(shown);
        plan.choice = choice;
        let body = encoded(Gemini, &plan, options).body;
        assert_eq!(body["toolConfig"], wanted);
        let declarations = body["tools"][0]["functionDeclarations"].as_array().unwrap();
        assert_eq!(declarations.len(), declared);
    }
}

#[test]
fn a_form_and_tools_are_never_in_one_request() {
    let schema = json!({ "type": "object", "properties": { "a": { "const": "x" } } });
    let mut plan = plan();
    let shape = |mode| OutputShape { name: "s".into(), mode, schema: schema.clone() };
    plan.shape = Some(shape(ShapeMode::JsonSchema).into());
    answered(&mut plan, Gemini.decode(&self::body("STOP", json!([call("x")]))).unwrap(), &[]);
    let body = encoded(Gemini, &plan, &options("g")).body;
    assert!(!body.contains_key("tools"));
    let sent = json!({ "type": "object",
        "properties": { "a": { "type": "string", "enum": ["x"] } } });
    assert_eq!(
        body["generationConfig"],
        json!({ "responseMimeType": "application/json", "responseJsonSchema": sent })
    );
    plan.shape = Some(shape(ShapeMode::JsonObject).into());
    let body = encoded(Gemini, &plan, &options("g")).body;
    assert_eq!(body["generationConfig"], json!({ "responseMimeType": "application/json" }));
}

#[test]
fn chunks_become_the_same_answer() {
    let chunk = |parts: Value, reason: Value| {
        json!({ "candidates": [{ "content": { "role": "model", "parts": parts },
            "finishReason": reason }], "usageMetadata": { "promptTokenCount": 7 } })
    };
    let stream = [
        chunk(json!([{ "text": "Hm", "thought": true }]), Value::Null),
        chunk(json!([{ "text": "m.", "thought": true }]), Value::Null),
        chunk(json!([{ "text": "A " }]), Value::Null),
        chunk(json!([{ "text": "" }, { "text": "b" }]), Value::Null),
        chunk(json!([{ "text": "", "thoughtSignature": "s" }]), json!("STOP")),
        json!({ "usageMetadata": { "promptTokenCount": 40, "candidatesTokenCount": 2 } }),
    ];
    let plain = json!({ "candidates": [{ "content": { "role": "model", "parts": [
        { "text": "Hmm.", "thought": true }, { "text": "A b" },
        { "text": "", "thoughtSignature": "s" },
    ] }, "finishReason": "STOP" }],
        "usageMetadata": { "promptTokenCount": 40, "candidatesTokenCount": 2 } });
    assert_eq!(streamed(Gemini, &sse(&stream)), Gemini.decode(&plain));
    let cut = streamed(Gemini, &sse(&stream[..4])).unwrap_err();
    assert_eq!(cut.kind, FaultKind::CutOff);
    let blocked = [json!({ "promptFeedback": { "blockReason": "OTHER" } })];
    assert_eq!(streamed(Gemini, &sse(&blocked)).unwrap_err().kind, FaultKind::Filtered);
}
