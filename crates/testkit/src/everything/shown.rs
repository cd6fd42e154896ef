//! Decides which resources and prompts the fixture has, as the suite wants them.

use serde_json::{Value, json};

use super::Params;

/// A picture of one red dot.
pub(super) const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

/// A sound of no length.
pub(super) const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

pub(super) fn resources() -> Vec<Value> {
    let entry = |uri: &str, name: &str, kind: &str| json!({ "uri": uri, "name": name, "description": format!("{name}, for testing"), "mimeType": kind });
    vec![
        entry("test://static-text", "Static Text Resource", "text/plain"),
        entry("test://static-binary", "Static Binary Resource", "image/png"),
        entry("test://watched-resource", "Watched Resource", "text/plain"),
    ]
}

pub(super) fn templates() -> Vec<Value> {
    vec![json!({
        "uriTemplate": "test://template/{id}/data",
        "name": "Resource Template",
        "description": "A resource template with parameter substitution",
        "mimeType": "application/json",
    })]
}

pub(super) fn read(uri: &str) -> Option<Value> {
    let text = |kind: &str, text: &str| json!({ "uri": uri, "mimeType": kind, "text": text });
    match uri {
        "test://static-text" => {
            Some(text("text/plain", "This is the content of the static text resource."))
        }
        "test://static-binary" => Some(json!({ "uri": uri, "mimeType": "image/png", "blob": PNG })),
        "test://watched-resource" => Some(text("text/plain", "Watched resource content")),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let said =
                json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            Some(text("application/json", &said.to_string()))
        }
    }
}

pub(super) fn prompt_named(name: &str, arguments: &[&str]) -> Value {
    let arguments: Vec<Value> = arguments
        .iter()
        .map(|name| json!({ "name": name, "description": "A test argument", "required": true }))
        .collect();
    json!({ "name": name, "description": "A prompt for testing", "arguments": arguments })
}

pub(super) fn prompts() -> Vec<Value> {
    vec![
        prompt_named("test_simple_prompt", &[]),
        prompt_named("test_prompt_with_arguments", &["arg1", "arg2"]),
        prompt_named("test_prompt_with_embedded_resource", &["resourceUri"]),
        prompt_named("test_prompt_with_image", &[]),
        prompt_named("test_input_required_result_prompt", &[]),
    ]
}

fn user(content: Value) -> Value {
    json!({ "role": "user", "content": content })
}

fn words(text: &str) -> Value {
    user(json!({ "type": "text", "text": text }))
}

pub(super) fn prompt(params: &Params) -> Option<Vec<Value>> {
    Some(match params.name.as_str() {
        "test_simple_prompt" => vec![words("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (one, two) = (params.text("arg1"), params.text("arg2"));
            vec![words(&format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))]
        }
        "test_prompt_with_embedded_resource" => {
            let text = "Embedded resource content for testing.";
            let uri = params.text("resourceUri");
            let resource = json!({ "uri": uri, "mimeType": "text/plain", "text": text });
            let embedded = user(json!({ "type": "resource", "resource": resource }));
            vec![embedded, words("Please process the embedded resource above.")]
        }
        "test_prompt_with_image" => {
            let image = user(json!({ "type": "image", "data": PNG, "mimeType": "image/png" }));
            vec![image, words("Please analyze the image above.")]
        }
        _ => return None,
    })
}
