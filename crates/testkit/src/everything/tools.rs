//! Decides what the fixture's plain tools say, log and ask.

use std::time::Duration;

use serde_json::{Value, json};
use toolgate_mcp::server::{Answer, Caller, Line, Refused, RpcCode};

use super::Params;
use super::shown::{PNG, WAV};

/// Every tool, with the properties of its arguments.
const TOOLS: &[&str] = &[
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_logging",
    "test_logging_tool",
    "test_tool_with_progress",
    "test_error_handling",
    "test_sampling",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
];

/// The tool with an argument that a header must repeat.
pub(super) const MARKED: &str = "test_custom_header";

pub(super) fn marked_schema() -> Value {
    let region = json!({ "type": "string", "x-mcp-header": "Region" });
    json!({ "type": "object", "properties": { "region": region } })
}

pub(super) fn shown(name: &str, properties: Value) -> Value {
    let input = json!({ "type": "object", "properties": properties });
    json!({ "name": name, "description": "A tool for testing", "inputSchema": input })
}

pub(super) fn list() -> Vec<Value> {
    let text = json!({ "type": "string" });
    let mut all: Vec<Value> = TOOLS
        .iter()
        .map(|name| match *name {
            "test_sampling" => shown(name, json!({ "prompt": text })),
            "test_elicitation" => shown(name, json!({ "message": text })),
            _ => shown(name, json!({})),
        })
        .collect();
    let about = "A tool whose argument a header repeats";
    all.push(json!({ "name": MARKED, "description": about, "inputSchema": marked_schema() }));
    all.push(json!({
        "name": "json_schema_2020_12_tool",
        "description": "Tool with JSON Schema 2020-12 features",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "$anchor": "addressDef",
                    "type": "object",
                    "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
                },
            },
            "properties": {
                "name": { "type": "string" },
                "address": { "$ref": "#/$defs/address" },
                "contactMethod": { "type": "string", "enum": ["phone", "email"] },
                "phone": { "type": "string" },
                "email": { "type": "string" },
            },
            "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
            "if": {
                "properties": { "contactMethod": { "const": "phone" } },
                "required": ["contactMethod"],
            },
            "then": { "required": ["phone"] },
            "else": { "required": ["email"] },
            "additionalProperties": false,
        },
    }));
    all
}

pub(super) fn said(text: &str) -> Answer {
    content(&json!([{ "type": "text", "text": text }]))
}

fn content(content: &Value) -> Answer {
    Answer::new(json!({ "content": content }).to_string())
}

fn failed(text: &str) -> Answer {
    let content = json!([{ "type": "text", "text": text }]);
    Answer::new(json!({ "content": content, "isError": true }).to_string())
}

/// A capability that a tool needs.
fn needs(caller: &Caller, capability: &str) -> Result<(), Refused> {
    if caller.capabilities.get(capability).is_some() {
        return Ok(());
    }
    let data = json!({ "requiredCapabilities": { capability: {} } });
    let words = format!("The client must declare {capability}.");
    Err(Refused::new(RpcCode::MissingCapability, words).with(data))
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

pub(super) async fn call(params: &Params, caller: &Caller, line: &Line) -> Result<Answer, Refused> {
    let resource = |uri: &str, kind: &str, text: &str| json!({ "type": "resource", "resource": { "uri": uri, "mimeType": kind, "text": text } });
    let image = json!({ "type": "image", "data": PNG, "mimeType": "image/png" });
    Ok(match params.name.as_str() {
        MARKED => said(params.text("region")),
        "test_simple_text" => said("This is a simple text response for testing."),
        "test_image_content" => content(&json!([image])),
        "test_audio_content" => {
            content(&json!([{ "type": "audio", "data": WAV, "mimeType": "audio/wav" }]))
        }
        "test_embedded_resource" => {
            let text = "This is an embedded resource content.";
            content(&json!([resource("test://embedded-resource", "text/plain", text)]))
        }
        "test_multiple_content_types" => {
            let text = json!({ "type": "text", "text": "Multiple content types test:" });
            let data = json!({ "test": "data", "value": 123 }).to_string();
            let mixed = resource("test://mixed-content-resource", "application/json", &data);
            content(&json!([text, image, mixed]))
        }
        "test_tool_with_logging" | "test_logging_tool" => {
            for step in
                ["Tool execution started", "Tool processing data", "Tool execution completed"]
            {
                line.log("info", "fixture", &json!(step));
                pause().await;
            }
            said("Logged three times.")
        }
        "test_tool_with_progress" => {
            for step in [0, 50, 100] {
                line.progress(step, Some(100), "");
                pause().await;
            }
            said("Done with progress.")
        }
        "test_streaming_elicitation" => {
            line.progress(1, None, "");
            said("Nothing was asked beside the request.")
        }
        "test_error_handling" => failed("This tool intentionally returns an error for testing"),
        "test_missing_capability" => {
            needs(caller, "sampling")?;
            said("The capability is there.")
        }
        "json_schema_2020_12_tool" => said("It takes what its schema takes."),
        "test_sampling" => {
            let message = json!({ "type": "text", "text": params.text("prompt") });
            let asked =
                json!({ "messages": [{ "role": "user", "content": message }], "maxTokens": 100 });
            match line.ask("sampling/createMessage", &asked).await {
                Ok(reply) => {
                    let text =
                        reply.pointer("/content/text").and_then(Value::as_str).unwrap_or_default();
                    said(&format!("LLM response: {text}"))
                }
                Err(fault) => failed(&fault.to_string()),
            }
        }
        "test_elicitation" => {
            let about = json!({ "type": "string", "description": "User's response" });
            let schema = object(json!({ "response": about }), &["response"]);
            elicited(line, params.text("message"), schema, "User response").await
        }
        "test_elicitation_sep1034_defaults" => {
            let properties = json!({
                "name": { "type": "string", "default": "John Doe" },
                "age": { "type": "integer", "default": 30 },
                "score": { "type": "number", "default": 95.5 },
                "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
                "verified": { "type": "boolean", "default": true },
            });
            let schema = object(properties, &[]);
            elicited(line, "Please look at these.", schema, "Elicitation completed").await
        }
        "test_elicitation_sep1330_enums" => {
            let schema = object(enums(), &[]);
            elicited(line, "Please choose.", schema, "Elicitation completed").await
        }
        name => return Err(Refused::params(format!("Unknown tool: {name}"))),
    })
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required })
}

fn enums() -> Value {
    let titled = |of: &str| {
        json!([
            { "const": "value1", "title": format!("First {of}") },
            { "const": "value2", "title": format!("Second {of}") },
            { "const": "value3", "title": format!("Third {of}") },
        ])
    };
    let plain = json!(["option1", "option2", "option3"]);
    json!({
        "untitledSingle": { "type": "string", "enum": plain },
        "titledSingle": { "type": "string", "oneOf": titled("Option") },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
    })
}

async fn elicited(line: &Line, message: &str, schema: Value, words: &str) -> Answer {
    let asked = json!({ "message": message, "requestedSchema": schema });
    match line.ask("elicitation/create", &asked).await {
        Ok(reply) => {
            let action = reply.get("action").and_then(Value::as_str).unwrap_or_default();
            said(&format!(
                "{words}: action={action}, content={}",
                reply.get("content").unwrap_or(&Value::Null)
            ))
        }
        Err(fault) => failed(&fault.to_string()),
    }
}
