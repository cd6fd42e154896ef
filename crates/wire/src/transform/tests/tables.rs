//! The transforms of document 003 as tables (T16 to T24), and names in other spellings.

use serde_json::{Value, json};
use toolgate_kernel::config::{NamesText, ToolCallingText, Transform, TransformKind};
use toolgate_kernel::names::ToolName;
use toolgate_runtime::port::ReplyCall;

use super::super::Transforms;
use crate::dialect::Dialect;

fn one(transform: Transform) -> Transforms {
    Transforms::parse([(transform.kind(), transform.name())]).unwrap()
}

fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "a", "arguments": "{}"}})
}

/// T16, T17, T18: messages with calls are changed, and no others.
#[test]
fn messages_with_calls_are_mended_as_document_003_says() {
    use Transform::{ContentNullIfBlank, ReasoningEmptyIfMissing, SignatureSkipIfMissing};
    let signed = |signature: &str| {
        let mut call = call("x");
        call["signature"] = json!(signature);
        call
    };
    let skip = "skip_thought_signature_validator";
    let with = |key: &str, value: Value, calls: Value| json!({"role": "assistant", "tool_calls": calls, key: value});
    let own = || json!([call("x")]);
    let cases = [
        (
            ContentNullIfBlank,
            with("content", json!(" \n"), own()),
            with("content", Value::Null, own()),
        ),
        (
            ContentNullIfBlank,
            with("content", json!("so"), own()),
            with("content", json!("so"), own()),
        ),
        (
            ContentNullIfBlank,
            with("content", json!(""), json!([])),
            with("content", json!(""), json!([])),
        ),
        (
            ContentNullIfBlank,
            json!({"role": "assistant", "content": ""}),
            json!({"role": "assistant", "content": ""}),
        ),
        (
            ContentNullIfBlank,
            json!({"role": "user", "content": "", "tool_calls": [1]}),
            json!({"role": "user", "content": "", "tool_calls": [1]}),
        ),
        (
            ReasoningEmptyIfMissing,
            with("content", Value::Null, own()),
            json!({"role": "assistant", "tool_calls": own(), "content": null, "reasoning_content": ""}),
        ),
        (
            ReasoningEmptyIfMissing,
            with("reasoning_content", json!("why"), own()),
            with("reasoning_content", json!("why"), own()),
        ),
        (
            ReasoningEmptyIfMissing,
            json!({"role": "assistant", "content": "hi"}),
            json!({"role": "assistant", "content": "hi"}),
        ),
        (
            SignatureSkipIfMissing,
            with("content", Value::Null, json!([call("x"), signed("kept"), signed("")])),
            with("content", Value::Null, json!([signed(skip), signed("kept"), signed(skip)])),
        ),
        (SignatureSkipIfMissing, json!({"role": "tool"}), json!({"role": "tool"})),
        (SignatureSkipIfMissing, json!("no message"), json!("no message")),
    ];
    for (transform, mut message, expected) in cases {
        one(transform).messages(&mut message);
        assert_eq!(message, expected, "{}", transform.name());
    }
}

/// T19: only the description of the function itself goes.
#[test]
fn descriptions_of_tools_are_stripped_at_the_top_only() {
    let parameters = json!({"type": "object", "properties": {"a": {"description": "stays"}}});
    let tool = json!({"type": "function", "function": {"name": "f", "description": "goes", "parameters": parameters}});
    let mut tools = vec![tool, json!({"type": "other"}), json!(3)];
    one(Transform::StripDescriptions).tools(&mut tools);
    let stripped = json!({"type": "function", "function": {"name": "f", "parameters": parameters}});
    assert_eq!(tools, [stripped, json!({"type": "other"}), json!(3)]);
}

/// T20, T21 and arguments that came as JSON.
#[test]
fn messages_from_a_model_are_mended_as_document_003_says() {
    use Transform::{ArgumentsToText, CallsToArray, FunctionCall};
    let read = |args: &str| {
        json!({"tool_calls": [{"id": "call_1", "type": "function",
            "function": {"name": "f", "arguments": args}}]})
    };
    let legacy = |args: Value| json!({"function_call": {"name": " f ", "arguments": args}});
    let cases = [
        (FunctionCall, legacy(json!("{\"a\":1}")), read("{\"a\":1}"), 1),
        (FunctionCall, legacy(json!({"a": 1})), read("{\"a\":1}"), 1),
        (FunctionCall, legacy(Value::Null), read("{}"), 1),
        (
            FunctionCall,
            json!({"tool_calls": [], "function_call": {"name": "f", "arguments": "{}"}}),
            read("{}"),
            1,
        ),
        (
            FunctionCall,
            json!({"tool_calls": [call("x")], "function_call": {"name": "f"}}),
            json!({"tool_calls": [call("x")], "function_call": {"name": "f"}}),
            0,
        ),
        (
            FunctionCall,
            json!({"function_call": {"name": " "}}),
            json!({"function_call": {"name": " "}}),
            0,
        ),
        (CallsToArray, json!({"tool_calls": call("x")}), json!({"tool_calls": [call("x")]}), 1),
        (CallsToArray, json!({"tool_calls": [call("x")]}), json!({"tool_calls": [call("x")]}), 0),
        (CallsToArray, json!({"content": "hi"}), json!({"content": "hi"}), 0),
        (
            ArgumentsToText,
            json!({"tool_calls": [{"function": {"name": "f", "arguments": {"a": [1]}}}, call("x")]}),
            json!({"tool_calls": [{"function": {"name": "f", "arguments": "{\"a\":[1]}"}}, call("x")]}),
            1,
        ),
        (
            ArgumentsToText,
            json!({"tool_calls": [{"function": {"name": "f", "arguments": []}}]}),
            json!({"tool_calls": [{"function": {"name": "f", "arguments": "[]"}}]}),
            1,
        ),
        (ArgumentsToText, json!({"tool_calls": "odd"}), json!({"tool_calls": "odd"}), 0),
    ];
    let names: Vec<ToolName> = Vec::new();
    for (transform, before, expected, repairs) in cases {
        let mut message = before.as_object().unwrap().clone();
        let told = one(transform).response(&mut message, &names);
        assert_eq!(Value::Object(message), expected, "{}: {before}", transform.name());
        assert_eq!(told.len(), repairs, "{}: {told:?}", transform.name());
    }
}

/// A thought that the words begin with stands beside them.
#[test]
fn a_leading_thought_stands_beside_the_words() {
    let thought = Transform::LeadingThought;
    let cases = [
        (
            json!({"content": "<think>\nwhy\n</think>\n\nSo."}),
            json!({"content": "So.", "reasoning_content": "why"}),
            1,
        ),
        (
            json!({"content": "why\n</think>\nSo."}),
            json!({"content": "So.", "reasoning_content": "why"}),
            1,
        ),
        (json!({"content": "<think>why"}), json!({"content": "", "reasoning_content": "why"}), 1),
        // What the server itself knows of comes first.
        (
            json!({"content": "<thinking>b</thinking>So.", "reasoning_content": "a"}),
            json!({"content": "So.", "reasoning_content": "a\n\nb"}),
            1,
        ),
        (json!({"content": "<think> </think>So."}), json!({"content": "So."}), 1),
        (json!({"content": "So."}), json!({"content": "So."}), 0),
        (json!({"content": null}), json!({"content": null}), 0),
        (json!({"content": [{"text": "<think>"}]}), json!({"content": [{"text": "<think>"}]}), 0),
    ];
    let names: Vec<ToolName> = Vec::new();
    for (before, expected, repairs) in cases {
        let mut message = before.as_object().unwrap().clone();
        let told = one(thought).response(&mut message, &names);
        assert_eq!(Value::Object(message), expected, "{before}");
        assert_eq!(told.len(), repairs, "{before}");
    }
    // Also in a reply that ran out of room: its thought is no part of its words.
    let mut body = json!({"choices": [{"finish_reason": "length",
        "message": {"content": "<think>and so on and"}}]});
    let reply = one(thought).read(Dialect::Chat, &mut body, &names).unwrap();
    assert_eq!((reply.text.as_str(), reply.repairs.len()), ("", 1));
}

/// T23: empty parts go, everything else stays.
#[test]
fn envelopes_are_made_compact() {
    let cases = [
        (
            json!({"ok": true, "tool": "t", "data": {}, "warnings": [], "errors": []}),
            json!({"ok": true, "tool": "t"}),
        ),
        (json!({"ok": true, "data": null, "message": ""}), json!({"ok": true, "message": ""})),
        (
            json!({"ok": false, "data": {"a": null}, "warnings": ["w"], "errors": [{"code": "C"}]}),
            json!({"ok": false, "data": {"a": null}, "warnings": ["w"], "errors": [{"code": "C"}]}),
        ),
        (json!({"ok": true, "data": 0}), json!({"ok": true, "data": 0})),
        (json!("text"), json!("text")),
    ];
    let transforms = one(Transform::CompactEnvelope);
    assert!(transforms.changes_results() && !Transforms::default().changes_results());
    for (mut envelope, expected) in cases {
        transforms.result(&mut envelope);
        assert_eq!(envelope, expected);
    }
}

/// T24 as DESIGN has it: an unknown name is refused for each kind, with what was probably meant.
#[test]
fn unknown_names_are_refused() {
    for kind in TransformKind::ALL {
        let refusal = Transforms::parse([(kind, "no_such_thing")]).unwrap_err();
        assert!(refusal.to_string().contains(kind.key()), "{refusal}");
    }
    let refusal = Transforms::parse([(TransformKind::Result, "tool_result_compact_envelop")]);
    assert!(refusal.unwrap_err().help().contains("tool_result_compact_envelope"));
}

#[test]
fn transforms_are_read_from_a_configuration_in_order_and_once() {
    let names = " Tool-Names-Normalize ,assistant_tool_calls_arguments_blank_to_empty_object, \
                 tool_names_normalize";
    let text = ToolCallingText {
        tool_call_transforms: Some(NamesText::Text(names.to_owned())),
        ..ToolCallingText::default()
    };
    let transforms = Transforms::of(&text).unwrap();
    let expected = [Transform::NormalizeNames, Transform::BlankArguments];
    assert_eq!(transforms.list(TransformKind::Call), expected);
}

#[test]
fn blank_arguments_become_an_empty_object() {
    let call = |args: &str| ReplyCall { alias: None, name: "a".into(), args: args.into() };
    let mut calls = vec![call(""), call(" \n"), call("{\"a\":1}"), call("null")];
    let names: Vec<ToolName> = Vec::new();
    let repairs = one(Transform::BlankArguments).calls(&mut calls, &names);
    let args: Vec<&str> = calls.iter().map(|call| call.args.as_str()).collect();
    assert_eq!((args, repairs.len()), (vec!["{}", "{}", "{\"a\":1}", "null"], 2));
}

#[test]
fn names_land_on_exactly_one_granted_tool_or_stay() {
    let granted: Vec<ToolName> = ["read_file", "state_get", "list-all", "list_all", "a.b"]
        .iter()
        .filter_map(|name| ToolName::parse(name).ok())
        .collect();
    let cases = [
        ("read_file", "read_file"),
        (" read_file\n", "read_file"),
        ("Read-File", "read_file"),
        ("READ.FILE", "read_file"),
        ("state.get", "state_get"),
        // Two tools would do, so neither is taken; one that is exact stays.
        ("List.All", "List.All"),
        ("list-all", "list-all"),
        // Likeness is not enough.
        ("readfile", "readfile"),
        ("read_fil", "read_fil"),
        ("functions.read_file", "functions.read_file"),
        ("", ""),
    ];
    for (written, expected) in cases {
        let mut calls = [ReplyCall { alias: None, name: written.into(), args: "{}".into() }];
        let repairs = one(Transform::NormalizeNames).calls(&mut calls, &granted);
        assert_eq!(calls[0].name, expected);
        assert_eq!(repairs.len(), usize::from(written != expected), "{repairs:?}");
    }
}
