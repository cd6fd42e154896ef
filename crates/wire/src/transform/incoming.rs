//! Decides what is mended in a message of OpenAI chat completions before its calls are read.

use serde_json::{Map, Value, json};

use super::granted::Granted;
use super::printed::Form;
use super::thought;

pub(super) fn function_call(message: &mut Map<String, Value>) -> Option<&'static str> {
    if has_entries(message.get("tool_calls")) {
        return None;
    }
    let name = legacy_name(message)?.to_owned();
    // A number or a truth value is no arguments. The dialect refuses such a call.
    if matches!(
        message.get("function_call")?.get("arguments"),
        Some(Value::Bool(_) | Value::Number(_))
    ) {
        return None;
    }
    let args = match message.shift_remove("function_call")?.get_mut("arguments") {
        Some(Value::String(text)) => std::mem::take(text),
        Some(args @ (Value::Object(_) | Value::Array(_))) => args.to_string(),
        None | Some(Value::Null | Value::Bool(_) | Value::Number(_)) => "{}".to_owned(),
    };
    message.insert("tool_calls".to_owned(), json!([call("call_1", &name, args)]));
    Some("the old function_call was read as a call")
}

/// The name in an old `function_call`.
fn legacy_name(message: &Map<String, Value>) -> Option<&str> {
    let name = message.get("function_call")?.get("name")?.as_str()?.trim();
    (!name.is_empty()).then_some(name)
}

pub(super) fn calls_to_array(message: &mut Map<String, Value>) -> Option<&'static str> {
    let calls = message.get_mut("tool_calls").filter(|calls| calls.is_object())?;
    let single = calls.take();
    *calls = if has_entries(Some(&single)) { json!([single]) } else { json!([]) };
    Some("a single call was read as a list of calls")
}

pub(super) fn arguments_to_text(message: &mut Map<String, Value>) -> Option<&'static str> {
    let calls = match message.get_mut("tool_calls")? {
        Value::Array(calls) => calls.as_mut_slice(),
        single @ Value::Object(_) => std::slice::from_mut(single),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    let mut mended = false;
    for function in calls.iter_mut().filter_map(|call| call.get_mut("function")) {
        if let Some(args) = function.get_mut("arguments").filter(|a| a.is_object() || a.is_array())
        {
            *args = Value::String(args.to_string());
            mended = true;
        }
    }
    mended.then_some("arguments that came as JSON were written as text")
}

/// The thought stands beside the words then, as servers send it that know of thoughts.
pub(super) fn leading_thought(message: &mut Map<String, Value>) -> Option<&'static str> {
    let (thought, words) = thought::leading(message.get("content")?.as_str()?)?;
    let (thought, words) = (thought.trim().to_owned(), words.trim_start().to_owned());
    message.insert("content".to_owned(), Value::String(words));
    if !thought.is_empty() {
        let before = message.get("reasoning_content").and_then(Value::as_str).unwrap_or_default();
        let all = if before.is_empty() { thought } else { format!("{before}\n\n{thought}") };
        message.insert("reasoning_content".to_owned(), Value::String(all));
    }
    Some("a thought was taken out of the words")
}

/// Takes calls out of the words, unless there are calls already or no tool is granted.
pub(super) fn take_printed(
    form: &Form,
    message: &mut Map<String, Value>,
    granted: &Granted<'_>,
) -> Vec<String> {
    let has_calls = has_entries(message.get("tool_calls")) || legacy_name(message).is_some();
    if has_calls || granted.is_empty() {
        return Vec::new();
    }
    let salvaged = message.get("content").and_then(Value::as_str);
    let salvaged = salvaged.and_then(|text| form.salvage(text, granted));
    let Some(salvaged) = salvaged else { return Vec::new() };
    message.insert("content".to_owned(), Value::String(salvaged.text));
    if !salvaged.calls.is_empty() {
        let calls = salvaged.calls.into_iter();
        let calls: Vec<Value> = calls.map(|(id, name, args)| call(&id, &name, args)).collect();
        message.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    salvaged.repairs
}

fn call(id: &str, name: &str, args: String) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": args}})
}

/// Whether there is a list or an object with something in it.
fn has_entries(value: Option<&Value>) -> bool {
    match value {
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(map)) => !map.is_empty(),
        None | Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => false,
    }
}
