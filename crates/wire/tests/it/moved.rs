//! Decides that events of a stream which come twice or in another order lead to no other calls, and
//! that a reply is bounded wherever its bytes stand.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolgate_http::sse::Reader;
use toolgate_kernel::event::Finish;
use toolgate_wire::dialect::{Dialect, ReplyBounds};

use crate::play::streamed;

fn bytes(events: &[Value]) -> String {
    let event = |event: &Value| {
        let name = event["type"].as_str().map(|name| format!("event: {name}\n"));
        format!("{}data: {event}\n\n", name.unwrap_or_default())
    };
    events.iter().map(event).collect()
}

/// How often each call would run.
fn calls(dialect: Dialect, events: &[Value]) -> BTreeMap<String, usize> {
    let reply = streamed(dialect, bytes(events).as_bytes());
    let calls = reply.ok().filter(|reply| reply.finish == Finish::Calls).map(|reply| reply.calls);
    let mut counts = BTreeMap::new();
    for call in calls.into_iter().flatten() {
        // Arguments that are no object are refused before anything runs.
        if let Ok(Value::Object(args)) = serde_json::from_str(&call.args) {
            *counts.entry(format!("{} {}", call.name, Value::Object(args))).or_default() += 1;
        }
    }
    counts
}

fn chat(delta: Value, finish: Value) -> Value {
    json!({ "id": "x", "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
}

fn piece(index: u64, id: Option<&str>, name: Option<&str>, args: &str) -> Value {
    let call = json!({ "index": index, "id": id, "function": { "name": name, "arguments": args } });
    chat(json!({ "tool_calls": [call] }), Value::Null)
}

fn chat_events(with_ids: bool) -> Vec<Value> {
    let again = |id| if with_ids { Some(id) } else { None };
    vec![
        piece(0, Some("a"), Some("pay"), "{\"n\":"),
        piece(1, Some("b"), Some("pay"), "{\"n\":"),
        // A number that came twice would be another number, and nobody could tell.
        piece(0, again("a"), None, "\"1\""),
        piece(1, again("b"), None, "\"23\""),
        piece(0, again("a"), None, "}"),
        piece(1, again("b"), None, "}"),
        chat(json!({}), json!("tool_calls")),
    ]
}

fn anthropic_events() -> Vec<Value> {
    let begin = |index: u64, id: &str| {
        let block = json!({ "type": "tool_use", "id": id, "name": "pay", "input": {} });
        json!({ "type": "content_block_start", "index": index, "content_block": block })
    };
    let grow = |index: u64, piece: &str| {
        let delta = json!({ "type": "input_json_delta", "partial_json": piece });
        json!({ "type": "content_block_delta", "index": index, "delta": delta })
    };
    let end = |index: u64| json!({ "type": "content_block_stop", "index": index });
    vec![
        json!({ "type": "message_start", "message": { "role": "assistant", "content": [] } }),
        begin(0, "a"),
        grow(0, "{\"n\":"),
        grow(0, "1}"),
        end(0),
        begin(1, "b"),
        grow(1, "{\"n\":"),
        grow(1, "23}"),
        end(1),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" } }),
        json!({ "type": "message_stop" }),
    ]
}

fn gemini_events() -> Vec<Value> {
    let chunk = |part: Value| json!({ "candidates": [{ "content": { "parts": [part] } }] });
    let call = |n: u64| chunk(json!({ "functionCall": { "name": "pay", "args": { "n": n } } }));
    let end = json!({ "candidates": [{ "content": { "parts": [] }, "finishReason": "STOP" }] });
    vec![chunk(json!({ "text": "Hi" })), call(1), call(23), end]
}

fn item(at: u64, args: &str, status: &str) -> Value {
    json!({ "type": "function_call", "id": format!("f{at}"), "call_id": format!("c{at}"),
        "name": "pay", "arguments": args, "status": status })
}

fn responses_events(end: Value) -> Vec<Value> {
    let mut events = vec![json!({ "type": "response.created", "response": { "id": "r" } })];
    for (at, args, pieces) in
        [(0, "{\"n\":1}", ["{\"n\":", "1}"]), (1, "{\"n\":23}", ["{\"n\":2", "3}"])]
    {
        let (id, added) = (format!("f{at}"), item(at, "", "in_progress"));
        events.push(
            json!({ "type": "response.output_item.added", "output_index": at, "item": added }),
        );
        for delta in pieces {
            events.push(json!({ "type": "response.function_call_arguments.delta",
                "output_index": at, "item_id": id, "delta": delta }));
        }
        events.push(json!({ "type": "response.function_call_arguments.done", "output_index": at,
            "item_id": id, "arguments": args }));
        let done = item(at, args, "completed");
        events
            .push(json!({ "type": "response.output_item.done", "output_index": at, "item": done }));
    }
    events.push(json!({ "type": "response.completed", "response": end }));
    events
}

#[test]
fn events_that_come_twice_or_elsewhere_lead_to_no_other_calls() {
    let output = [item(0, "{\"n\":1}", "completed"), item(1, "{\"n\":23}", "completed")];
    let whole = json!({ "status": "completed", "output": output });
    let bases = [
        (Dialect::Chat, chat_events(false)),
        (Dialect::Chat, chat_events(true)),
        (Dialect::Anthropic, anthropic_events()),
        (Dialect::Gemini, gemini_events()),
        (Dialect::Responses, responses_events(json!({ "status": "completed" }))),
        (Dialect::Responses, responses_events(whole)),
    ];
    let mut tried = 0;
    for (dialect, events) in bases {
        let meant = calls(dialect, &events);
        assert_eq!(meant.values().collect::<Vec<_>>(), [&1, &1], "{dialect:?}: {meant:?}");
        // What stands behind the end is not read, so it is as if it was lost: nobody can tell that.
        let last = events.len() - 1;
        for from in 0..events.len() {
            for to in 0..=last {
                let mut copied = events.clone();
                copied.insert(to, events[from].clone());
                let mut moved = events.clone();
                let event = moved.remove(from);
                moved.insert(to.min(last.saturating_sub(usize::from(from < last))), event);
                for other in [copied, moved] {
                    let run = calls(dialect, &other);
                    let fits = run.iter().all(|(call, count)| meant.get(call) >= Some(count));
                    assert!(fits, "{dialect:?} {from} to {to}: {run:?}");
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 800, "{tried}");
}

#[test]
fn a_reply_is_bounded_wherever_its_bytes_stand() {
    let long = "x".repeat(3_000);
    let args = json!({ "p": long }).to_string();
    let added = |name: &str, args: &str| {
        let item = json!({ "type": "function_call", "id": "f", "name": name, "arguments": args });
        json!({ "type": "response.output_item.added", "output_index": 0, "item": item })
    };
    let done = json!({ "type": "response.function_call_arguments.done", "output_index": 0,
        "item_id": "f", "arguments": args });
    let words = json!({ "type": "message", "content": [{ "type": "output_text", "text": long }] });
    let words = json!({ "type": "response.output_item.added", "output_index": 0, "item": words });
    let block =
        |block: Value| json!({ "type": "content_block_start", "index": 0, "content_block": block });
    let part = |part: Value| json!({ "candidates": [{ "content": { "parts": [part] } }] });
    let cases = [
        (Dialect::Responses, vec![added("pay", &args)]),
        (Dialect::Responses, vec![added(&long, "")]),
        (Dialect::Responses, vec![added("pay", ""), done]),
        (Dialect::Responses, vec![words]),
        (Dialect::Anthropic, vec![block(json!({ "type": "text", "text": long }))]),
        (
            Dialect::Anthropic,
            vec![block(json!({ "type": "tool_use", "name": "pay", "input": { "p": long } }))],
        ),
        (
            Dialect::Gemini,
            vec![part(json!({ "functionCall": { "name": "pay", "args": { "p": long } } }))],
        ),
        (Dialect::Gemini, vec![part(json!({ "text": long, "thought": true }))]),
        (Dialect::Chat, vec![piece(0, Some("a"), Some("pay"), &args)]),
        (Dialect::Chat, vec![piece(0, Some("a"), Some(&long), "")]),
        (Dialect::Chat, vec![chat(json!({ "reasoning_content": long }), Value::Null)]),
        (
            Dialect::Chat,
            vec![chat(
                json!({ "function_call": { "name": "pay", "arguments": args } }),
                Value::Null,
            )],
        ),
    ];
    for (dialect, events) in cases {
        for (bytes_max, fits) in [(1_000, false), (10_000, true)] {
            let mut gather = dialect.gather(ReplyBounds { bytes_max, calls_max: 10 });
            let read = Reader::default()
                .read(bytes(&events).as_bytes(), |event| gather.take(event, &|_| {}));
            assert_eq!(read.is_ok(), fits, "{dialect:?} {bytes_max}: {read:?}");
        }
    }
}

/// What is said once more at the end of an item is not counted twice.
#[test]
fn a_call_of_a_response_counts_once() {
    let mut gather = Dialect::Responses.gather(ReplyBounds { bytes_max: 5_000, calls_max: 10 });
    let args = json!({ "p": "x".repeat(3_000) }).to_string();
    let mut events = vec![json!({ "type": "response.output_item.added", "output_index": 0,
        "item": item(0, "", "in_progress") })];
    events.extend(args.as_bytes().chunks(100).map(|piece| {
        json!({ "type": "response.function_call_arguments.delta", "output_index": 0,
            "item_id": "f0", "delta": std::str::from_utf8(piece).unwrap() })
    }));
    events.push(json!({ "type": "response.function_call_arguments.done", "output_index": 0,
        "item_id": "f0", "arguments": args }));
    events.push(json!({ "type": "response.output_item.done", "output_index": 0,
        "item": item(0, &args, "completed") }));
    let read =
        Reader::default().read(bytes(&events).as_bytes(), |event| gather.take(event, &|_| {}));
    assert!(read.is_ok(), "{read:?}");
}
