//! Decides how the fixture asks for more before it answers, as the newest revision does it.

use serde_json::{Map, Value, json};
use toolgate_kernel::digest::unhex;
use toolgate_kernel::token_key::TokenKey;
use toolgate_mcp::server::{Answer, Caller, Refused};

use super::Params;
use super::tools::said;

fn form(message: &str, field: &str, kind: &str) -> Value {
    let schema =
        json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
    json!({
        "method": "elicitation/create",
        "params": { "mode": "form", "message": message, "requestedSchema": schema },
    })
}

fn sample(text: &str) -> Value {
    let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
    let params = json!({ "messages": [message], "maxTokens": 100 });
    json!({ "method": "sampling/createMessage", "params": params })
}

fn roots() -> Value {
    json!({ "method": "roots/list", "params": {} })
}

/// What is asked for before there is an answer.
fn required(requests: Value, state: Option<String>) -> Answer {
    let mut result = Map::from_iter([("inputRequests".to_owned(), requests)]);
    result.extend(state.map(|state| ("requestState".to_owned(), state.into())));
    Answer { input_required: true, ..Answer::new(Value::Object(result).to_string()) }
}

/// A state that comes back as it was given, or not at all.
fn signed(key: &TokenKey, words: &str) -> String {
    let mac = key.sign(words.as_bytes());
    let mac: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{words}.{mac}")
}

fn opened<'a>(key: &TokenKey, state: &'a str) -> Result<&'a str, Refused> {
    let fault = || Refused::params("The requestState is not one that this server gave.");
    let (words, mac) = state.rsplit_once('.').ok_or_else(fault)?;
    let mac = unhex(mac).ok_or_else(fault)?;
    key.verifies(words.as_bytes(), &mac).then_some(words).ok_or_else(fault)
}

/// An answer of the client, if it is one of the right kind.
fn answered<'a>(responses: &'a Map<String, Value>, key: &str) -> Option<&'a Map<String, Value>> {
    responses.get(key)?.as_object()
}

pub(super) fn prompt(params: &Params) -> Result<Answer, Refused> {
    if answered(&params.input_responses, "user_context").is_none() {
        let form = form("What context should the prompt use?", "context", "string");
        return Ok(required(json!({ "user_context": form }), None));
    }
    let content = json!({ "type": "text", "text": "A prompt with context." });
    let messages = json!([{ "role": "user", "content": content }]);
    Ok(Answer::new(json!({ "messages": messages }).to_string()))
}

pub(super) fn call(params: &Params, caller: &Caller, key: &TokenKey) -> Result<Answer, Refused> {
    let given = &params.input_responses;
    let state = params.request_state.as_deref().map(|state| opened(key, state)).transpose()?;
    let name = form("What is your name?", "name", "string");
    Ok(match params.name.as_str() {
        "test_input_required_result_elicitation" => match answered(given, "user_name") {
            Some(reply) => {
                let name = reply.get("content").and_then(|content| content.get("name")?.as_str());
                said(&format!("Hello, {}!", name.unwrap_or("nobody")))
            }
            None => required(json!({ "user_name": name }), None),
        },
        "test_input_required_result_sampling" => match answered(given, "capital_question") {
            Some(_) => said("The capital of France is Paris."),
            None => {
                let question = sample("What is the capital of France?");
                required(json!({ "capital_question": question }), None)
            }
        },
        "test_input_required_result_list_roots" => match answered(given, "client_roots") {
            Some(reply) => said(&format!("Roots: {}", Value::Object(reply.clone()))),
            None => required(json!({ "client_roots": roots() }), None),
        },
        "test_input_required_result_request_state"
        | "test_input_required_result_tampered_state" => {
            match (answered(given, "confirm"), state) {
                (Some(_), Some("confirming")) => said("state-ok"),
                _ => {
                    let form = form("Please confirm", "ok", "boolean");
                    required(json!({ "confirm": form }), Some(signed(key, "confirming")))
                }
            }
        }
        "test_input_required_result_multiple_inputs" => {
            let wanted = ["user_name", "greeting", "client_roots"];
            if state == Some("three") && wanted.iter().all(|key| answered(given, key).is_some()) {
                return Ok(said("All three were given."));
            }
            let greeting = sample("Generate a greeting");
            let asked = json!({ "user_name": name, "greeting": greeting, "client_roots": roots() });
            required(asked, Some(signed(key, "three")))
        }
        "test_input_required_result_multi_round" => match state {
            Some("round-2") if answered(given, "step2").is_some() => said("Three rounds."),
            Some("round-1") if answered(given, "step1").is_some() => {
                let form = form("Step 2: What is your favorite color?", "color", "string");
                required(json!({ "step2": form }), Some(signed(key, "round-2")))
            }
            _ => {
                let form = form("Step 1: What is your name?", "name", "string");
                required(json!({ "step1": form }), Some(signed(key, "round-1")))
            }
        },
        "test_input_required_result_capabilities" => {
            let mut asked = Map::new();
            let declared = |capability: &str| caller.capabilities.get(capability).is_some();
            if declared("elicitation") {
                asked.insert("user_name".to_owned(), name);
            }
            if declared("sampling") {
                asked.insert("greeting".to_owned(), sample("Generate a greeting"));
            }
            match asked.is_empty() || !given.is_empty() {
                true => said("Nothing more is needed."),
                false => required(Value::Object(asked), None),
            }
        }
        name => return Err(Refused::params(format!("Unknown tool: {name}"))),
    })
}
