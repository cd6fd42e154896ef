//! Decides that a streamed answer says what the same answer says at once, and that errors, a great
//! many calls and items without a place are what they are.

use serde_json::{Value, json};
use toolgate_http::sse::Event;
use toolgate_kernel::event::FaultKind;
use toolgate_runtime::port::Reply;
use toolgate_wire::dialect::{Dialect, ReplyBounds, WireFault};

use crate::case::file;
use crate::play::{plain, streamed};

fn told(dialect: Dialect, events: &[Value]) -> Result<Reply, WireFault> {
    let bytes: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    streamed(dialect, bytes.as_bytes())
}

/// Arguments that readers see differently, with those that all see alike.
const ARGUMENTS: &[&str] = &[
    r#"{"key":"a"}"#,
    r#"{"key":"a","key":"b"}"#,
    r#"{"n":[{"a":1,"a":2}]}"#,
    r#"{"n":18446744073709551615}"#,
    r#"{"n":18446744073709551616}"#,
    r#"{"n":-9223372036854775809}"#,
    r#"{"n":0.1234567890123456789}"#,
    r#"{"n":1e400}"#,
    r#"{"n":-0.0}"#,
    r#"{"n":1E2}"#,
    r#"{"n":"\ud800"}"#,
    r#"{"n":"\u0000"}"#,
    r#"{}"#,
];

#[test]
fn arguments_are_the_same_plain_and_streamed() {
    for args in ARGUMENTS {
        let block = |input: &str| {
            format!(r#"{{"type":"tool_use","id":"t","name":"read_note","input":{input}}}"#)
        };
        let whole = format!(r#"{{"stop_reason":"tool_use","content":[{}]}}"#, block(args));
        let begin = |input: &str| {
            format!(
                r#"{{"type":"content_block_start","index":0,"content_block":{}}}"#,
                block(input)
            )
        };
        let piece = json!({ "type": "content_block_delta", "index": 0,
            "delta": { "type": "input_json_delta", "partial_json": args } });
        let end = [
            json!({ "type": "content_block_stop", "index": 0 }),
            json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" } }),
            json!({ "type": "message_stop" }),
        ];
        let stream = |events: &[String]| {
            let end = end.iter().map(Value::to_string);
            let all = events.iter().cloned().chain(end);
            let bytes: String = all.map(|event| format!("data: {event}\n\n")).collect();
            streamed(Dialect::Anthropic, bytes.as_bytes()).unwrap()
        };
        let anthropic = plain(Dialect::Anthropic, &whole).unwrap();
        assert_eq!(stream(&[begin("{}"), piece.to_string()]), anthropic, "{args}");
        assert_eq!(stream(&[begin(args)]), anthropic, "{args}");

        let call = format!(r#"{{"functionCall":{{"name":"read_note","args":{args}}}}}"#);
        let whole = format!(
            r#"{{"candidates":[{{"finishReason":"STOP","content":{{"parts":[{call}]}}}}]}}"#
        );
        let gemini = plain(Dialect::Gemini, &whole).unwrap();
        let pieces = streamed(Dialect::Gemini, format!("data: {whole}\n\n").as_bytes()).unwrap();
        assert_eq!(pieces, gemini, "{args}");

        let item = format!(
            r#"{{"type":"function_call","call_id":"t","name":"read_note","arguments":{args}}}"#
        );
        let whole = format!(r#"{{"status":"completed","output":[{item}]}}"#);
        let responses = plain(Dialect::Responses, &whole).unwrap();
        let end = format!("data: {{\"type\":\"response.completed\",\"response\":{whole}}}\n\n");
        assert_eq!(streamed(Dialect::Responses, end.as_bytes()).unwrap(), responses, "{args}");

        let call = format!(
            r#""tool_calls":[{{"id":"t","function":{{"name":"read_note","arguments":{args}}}}}]"#
        );
        let whole =
            format!(r#"{{"choices":[{{"finish_reason":"tool_calls","message":{{{call}}}}}]}}"#);
        let chat = plain(Dialect::Chat, &whole).unwrap();
        let piece = whole.replace("message", "delta");
        let pieces = streamed(Dialect::Chat, format!("data: {piece}\n\n").as_bytes()).unwrap();
        assert_eq!(pieces, chat, "{args}");

        for (reply, other) in [(&gemini, &anthropic), (&responses, &anthropic), (&chat, &anthropic)]
        {
            assert_eq!(reply.calls[0].args, other.calls[0].args, "{args}");
        }
    }
}

#[test]
fn an_event_that_is_named_an_error_ends_the_turn() {
    for dialect in Dialect::ALL {
        let stream = file("one_call", dialect, "stream").unwrap();
        for data in ["", "upstream went away", "\"overloaded\"", "[]", "null", "3", "{}", "{\"a\":"]
        {
            let bytes = format!("event: error\ndata: {data}\n\n{stream}");
            let fault = streamed(dialect, bytes.as_bytes()).unwrap_err();
            assert_eq!(fault.kind, FaultKind::Overloaded, "{dialect:?}: {data}");
            assert!(fault.reason.starts_with("the server answered with an error"), "{fault}");
        }
        let bytes = format!("data: {{\"type\":\"error\",\"error\":null}}\n\n{stream}");
        assert!(streamed(dialect, bytes.as_bytes()).is_err(), "{dialect:?}");
    }
}

/// The events of two calls, the first of which is written by `change`.
fn two_calls(ends: &[&str], change: impl Fn(&mut Value)) -> Vec<Value> {
    let mut events = Vec::new();
    let item = |at: u64| {
        json!({ "type": "function_call", "id": format!("fc_{at}"), "call_id": format!("call_{at}"),
            "name": format!("tool_{at}"), "arguments": "", "status": "in_progress" })
    };
    for at in [0, 1] {
        let kind = "response.output_item.added";
        events.push(json!({ "type": kind, "output_index": at, "item": item(at) }));
    }
    for piece in ["{\"of\":", "N}"] {
        for at in [0_u64, 1] {
            let delta = piece.replace('N', &at.to_string());
            events.push(json!({ "type": "response.function_call_arguments.delta",
                "output_index": at, "item_id": format!("fc_{at}"), "delta": delta }));
        }
    }
    for kind in ends {
        for at in [0_u64, 1] {
            let args = format!("{{\"of\":{at}}}");
            let mut item = item(at);
            item["arguments"] = json!(args);
            item["status"] = json!("completed");
            events.push(json!({ "type": kind, "output_index": at, "item_id": format!("fc_{at}"),
                "arguments": args, "item": item }));
        }
    }
    events.iter_mut().for_each(change);
    let response = json!({ "status": "completed", "output": [] });
    events.push(json!({ "type": "response.completed", "response": response }));
    events
}

/// Whoever leaves something out gets the right calls or none, never one with the other's arguments.
#[test]
fn items_of_a_response_are_never_mixed() {
    let done = "response.output_item.done";
    let args_done = "response.function_call_arguments.done";
    let ends: [&[&str]; 4] = [&[], &[args_done], &[done], &[args_done, done]];
    let without = |keys: &'static [&'static str]| {
        move |event: &mut Value| {
            for key in keys {
                event.as_object_mut().unwrap().remove(*key);
                if let Some(item) = event.get_mut("item") {
                    item.as_object_mut().unwrap().remove(*key);
                }
            }
        }
    };
    let same = |event: &mut Value| {
        event["output_index"] = json!(0);
    };
    let look = |events: &[Value], must: bool| match told(Dialect::Responses, events) {
        Ok(reply) => {
            let calls: Vec<_> =
                reply.calls.iter().map(|call| (call.name.as_str(), call.args.as_str())).collect();
            assert_eq!(calls, [("tool_0", "{\"of\":0}"), ("tool_1", "{\"of\":1}")]);
        }
        Err(fault) => {
            let kind = matches!(fault.kind, FaultKind::Unreadable | FaultKind::CutOff);
            assert!(!must && kind, "{fault}");
        }
    };
    for ends in ends {
        // A call that was never said to be whole is none.
        let ended = !ends.is_empty();
        look(&two_calls(ends, |_| {}), ended);
        look(&two_calls(ends, without(&["output_index"])), ended);
        look(&two_calls(ends, same), ended);
        look(&two_calls(ends, without(&["item_id", "id"])), ended);
        look(&two_calls(ends, without(&["item_id", "id", "call_id"])), ended);
        look(&two_calls(ends, without(&["output_index", "item_id"])), false);
        look(&two_calls(ends, without(&["output_index", "item_id", "id"])), false);
        look(&two_calls(ends, without(&["output_index", "item_id", "id", "call_id"])), false);
        // Each event has an id of its own making.
        let number = std::cell::Cell::new(0);
        let made_up = |event: &mut Value| {
            number.set(number.get() + 1);
            event["item_id"] = json!(format!("x{}", number.get()));
            if let Some(item) = event.get_mut("item") {
                item["id"] = json!(format!("y{}", number.get()));
            }
        };
        look(&two_calls(ends, made_up), ended);
    }
}

#[test]
fn the_last_event_of_a_response_settles_what_was_unclear() {
    let mut events = two_calls(&[], |event| {
        let event = event.as_object_mut().unwrap();
        event.remove("output_index");
        event.remove("item_id");
    });
    assert!(told(Dialect::Responses, &events).is_err());
    let call = json!({ "type": "function_call", "call_id": "c", "name": "t", "arguments": "{}" });
    let end = events.last_mut().unwrap();
    end["response"]["output"] = json!([call]);
    let reply = told(Dialect::Responses, &events).unwrap();
    assert_eq!((reply.calls.len(), reply.calls[0].args.as_str()), (1, "{}"));
}

/// Some servers send the whole call once more after the finish. Nothing else may come there.
#[test]
fn after_the_finish_only_a_repeated_call_is_taken() {
    let piece = |id: &str, name: &str, args: &str, finish: Value| {
        let call = json!({ "index": 0, "id": id, "function": { "name": name, "arguments": args } });
        json!({ "choices": [{ "delta": { "tool_calls": [call] }, "finish_reason": finish }] })
    };
    let written = "{\"a\":{\"b\":{}}}";
    let mut events = vec![piece("a", "t", "{", Value::Null)];
    let pieces = ["\"a\":", "{", "\"b\":", "{", "}", "}"];
    events.extend(pieces.map(|args| piece("", "", args, Value::Null)));
    events.push(piece("", "", "}", json!("tool_calls")));
    for (id, name) in [("a", "t"), ("", "t"), ("", ""), ("a", "")] {
        let mut events = events.clone();
        events.push(piece(id, name, written, Value::Null));
        let reply = told(Dialect::Chat, &events).unwrap();
        assert_eq!((reply.calls.len(), reply.calls[0].args.as_str()), (1, written), "{id} {name}");
    }
    for (id, name, args) in [("b", "t", written), ("a", "u", written), ("a", "t", "{}")] {
        let mut events = events.clone();
        events.push(piece(id, name, args, Value::Null));
        let fault = told(Dialect::Chat, &events).unwrap_err();
        assert_eq!(fault.kind, FaultKind::MalformedCall, "{id} {name} {args}");
    }
}

/// A reply that is too large is refused while it streams, not when it is over.
#[test]
fn bounds_of_a_reply_hold_while_it_streams() {
    let chat = |at: usize, args: &str| {
        let call = json!({ "index": at, "id": format!("c{at}"), "function": { "name": "t", "arguments": args } });
        json!({ "choices": [{ "delta": { "tool_calls": [call] } }] })
    };
    let said = |words: &str| json!({ "choices": [{ "delta": { "content": words } }] });
    let thought = |words: &str| json!({ "choices": [{ "delta": { "reasoning": words } }] });
    let block = |at: usize, args: &str| {
        json!({ "type": "content_block_start", "index": at, "content_block":
            { "type": "tool_use", "id": format!("c{at}"), "name": "t", "input": { "a": args } } })
    };
    let part = |args: &str| {
        let part = json!({ "functionCall": { "name": "t", "args": { "a": args } } });
        json!({ "candidates": [{ "content": { "parts": [part] } }] })
    };
    let item = |at: usize, args: &str| {
        let item = json!({ "type": "function_call", "call_id": format!("c{at}"), "name": "t", "arguments": args });
        json!({ "type": "response.output_item.done", "output_index": at, "item": item })
    };
    let long = "x".repeat(600);
    let cases: Vec<(Dialect, Vec<Value>, &str)> = vec![
        (Dialect::Chat, (0..5).map(|at| chat(at, "{}")).collect(), "calls"),
        (Dialect::Anthropic, (0..5).map(|at| block(at, "")).collect(), "calls"),
        (Dialect::Gemini, (0..5).map(|_| part("")).collect(), "calls"),
        (Dialect::Responses, (0..5).map(|at| item(at, "{}")).collect(), "calls"),
        (Dialect::Chat, vec![said(&long), said(&long)], "bytes"),
        (Dialect::Chat, vec![thought(&long), said(&long)], "bytes"),
        (Dialect::Chat, vec![chat(0, &long), chat(1, &long)], "bytes"),
        (Dialect::Anthropic, vec![block(0, &long), block(1, &long)], "bytes"),
        (Dialect::Gemini, vec![part(&long), part(&long)], "bytes"),
        (Dialect::Responses, vec![item(0, &long), item(1, &long)], "bytes"),
    ];
    for (dialect, events, what) in cases {
        let bounds = ReplyBounds { bytes_max: 1_000, calls_max: 4 };
        let mut gather = dialect.gather(bounds);
        let mut taken = events
            .iter()
            .map(|event| gather.take(Event { name: "", data: &event.to_string() }, &|_| {}));
        let fault = taken.find_map(Result::err).unwrap();
        assert_eq!(fault.kind, FaultKind::Unreadable, "{dialect:?}");
        assert!(fault.reason.contains(what), "{dialect:?}: {fault}");
    }
}

/// Of several choices in one chunk one counts, as it does in an answer that is not streamed.
#[test]
fn two_choices_with_one_index_are_two() {
    let choice = |words: &str, key: &str| json!({ "index": 0, "finish_reason": "stop", key: { "content": words } });
    let body = json!({ "choices": [choice("One.", "message"), choice("Two.", "message")] });
    let event = json!({ "choices": [choice("One.", "delta"), choice("Two.", "delta")] });
    assert_eq!(plain(Dialect::Chat, &body.to_string()).unwrap().text, "One.");
    assert_eq!(told(Dialect::Chat, &[event]).unwrap().text, "One.");
}

/// A server may give all arguments when a call begins, and stream none.
#[test]
fn arguments_that_are_there_at_the_beginning_stay() {
    let item = |args: &str| {
        json!({ "type": "function_call", "id": "i", "call_id": "c", "name": "t", "arguments": args,
            "status": "in_progress" })
    };
    let added = |args: &str| json!({ "type": "response.output_item.added", "item": item(args) });
    let piece = json!({ "type": "response.function_call_arguments.delta", "delta": "{\"b\":2}" });
    let end = json!({ "type": "response.completed", "response": { "output": [] } });
    let reply = told(Dialect::Responses, &[added("{\"a\":1}"), end.clone()]).unwrap();
    assert_eq!(reply.calls[0].args, "{\"a\":1}");
    let done = json!({ "type": "response.function_call_arguments.done", "arguments": "{\"b\":2}" });
    let reply = told(Dialect::Responses, &[added("{}"), piece, done, end]).unwrap();
    assert_eq!(reply.calls[0].args, "{\"b\":2}");
}

/// A few pieces that say little are put together where nothing else can be meant.
#[test]
fn a_response_with_one_item_needs_no_place() {
    let item = json!({ "type": "function_call", "call_id": "c", "name": "t", "arguments": "" });
    let piece = json!({ "type": "response.function_call_arguments.delta", "delta": "{\"a\":1}" });
    let end = json!({ "type": "response.completed", "response": { "output": [] } });
    let added = json!({ "type": "response.output_item.added", "item": item });
    let done = json!({ "type": "response.function_call_arguments.done", "arguments": "{\"a\":1}" });
    let reply = told(Dialect::Responses, &[added, piece, done, end.clone()]).unwrap();
    assert_eq!(reply.calls[0].args, "{\"a\":1}");
    let said = json!({ "type": "response.output_text.delta", "delta": "Hel" });
    let more = json!({ "type": "response.output_text.delta", "delta": "lo." });
    let reply = told(Dialect::Responses, &[said, more, end.clone()]).unwrap();
    assert_eq!(reply.text, "Hello.");
    let no = json!({ "type": "response.refusal.delta", "delta": "No." });
    let reply = told(Dialect::Responses, &[no, end]).unwrap();
    assert_eq!(
        (reply.text.as_str(), reply.finish),
        ("No.", toolgate_kernel::event::Finish::Refused)
    );
}

/// An answer is bounded by its bytes alone while it is read, so its time must be too: whoever looks at
/// all calls for each of them is here for minutes.
#[test]
fn a_great_many_calls_are_read_to_the_last() {
    const MANY: usize = 30_000;
    let call = |id: &str, at: usize| {
        let args = format!("{{\"n\":{at}}}");
        json!({ "id": id, "function": { "name": "t", "arguments": args } })
    };
    for id in ["", "a"] {
        let calls: Vec<Value> = (0..MANY).map(|at| call(id, at)).collect();
        let choice = json!({ "finish_reason": "tool_calls", "message": { "tool_calls": calls } });
        let body = json!({ "choices": [choice] }).to_string();
        assert_eq!(plain(Dialect::Chat, &body).unwrap().calls.len(), MANY);
        let event = body.replace("\"message\"", "\"delta\"");
        let _ = streamed(Dialect::Chat, format!("data: {event}\n\n").as_bytes());
    }
    let calls: Vec<Value> = (0..MANY)
        .map(|at| {
            let mut call = call(&format!("c{at}"), at);
            call["index"] = json!(at);
            call
        })
        .collect();
    let choice = |calls: &Value| json!({ "choices": [{ "delta": { "tool_calls": calls } }] });
    let end = json!({ "choices": [{ "delta": {}, "finish_reason": "tool_calls" }] });
    assert!(told(Dialect::Chat, &[choice(&json!(calls)), end.clone()]).is_ok());
    // The same calls under the same ids again: sent once more, or to be run twice.
    let events = [choice(&json!(calls)), choice(&json!(calls[..100])), end.clone()];
    assert!(told(Dialect::Chat, &events).is_err());
    // The reply is over, and then comes once more: by ids, without them, and with one id for all.
    for id in ["", "a"] {
        let begin = |at: usize| {
            let args = format!("{{\"n\":{at}}}");
            json!({ "id": id, "index": at, "function": { "name": "t", "arguments": args } })
        };
        let calls: Vec<Value> = (0..MANY).map(begin).collect();
        let mut events = vec![choice(&json!(calls)), end.clone()];
        events.extend(calls.iter().map(|call| choice(&json!([call]))));
        assert_eq!(told(Dialect::Chat, &events).unwrap().calls.len(), MANY, "{id}");
    }
    // One call whose name is said again with every byte of its arguments.
    let piece = |args: &str| {
        choice(&json!([{ "index": 0, "id": "a", "function": { "name": "t", "arguments": args } }]))
    };
    let mut events = vec![piece("{\"a\":\"")];
    events.extend(vec![piece("x"); MANY]);
    events.push(piece("\"}"));
    events.extend(vec![piece(" "); MANY]);
    events.push(end);
    assert_eq!(told(Dialect::Chat, &events).unwrap().calls.len(), 1);

    let part = |at: usize| json!({ "functionCall": { "name": "t", "args": { "n": at } } });
    let content = json!({ "parts": (0..MANY).map(part).collect::<Vec<_>>() });
    let body = json!({ "candidates": [{ "finishReason": "STOP", "content": content }] });
    assert_eq!(plain(Dialect::Gemini, &body.to_string()).unwrap().calls.len(), MANY);
    assert_eq!(told(Dialect::Gemini, &[body]).unwrap().calls.len(), MANY);

    let block =
        |at: usize| json!({ "type": "tool_use", "id": "a", "name": "t", "input": { "n": at } });
    let blocks: Vec<Value> = (0..MANY).map(block).collect();
    let body = json!({ "stop_reason": "tool_use", "content": blocks });
    assert_eq!(plain(Dialect::Anthropic, &body.to_string()).unwrap().calls.len(), MANY);
    let begin = |at: usize| json!({ "type": "content_block_start", "index": at, "content_block": block(at) });
    let grow = json!({ "type": "content_block_delta", "index": 0,
        "delta": { "type": "input_json_delta", "partial_json": " " } });
    let mut events: Vec<Value> = (0..MANY).map(begin).collect();
    events.extend(vec![grow; MANY]);
    events.extend((0..MANY).map(|at| json!({ "type": "content_block_stop", "index": at })));
    events.push(json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" } }));
    events.push(json!({ "type": "message_stop" }));
    assert_eq!(told(Dialect::Anthropic, &events).unwrap().calls.len(), MANY);

    let item = |at: usize| {
        json!({ "type": "function_call", "id": format!("i{at}"), "call_id": "a", "name": "t",
            "arguments": format!("{{\"n\":{at}}}") })
    };
    let added = |at: usize| json!({ "type": "response.output_item.added", "output_index": at, "item": item(at) });
    let done = |at: usize| json!({ "type": "response.output_item.done", "output_index": at, "item": item(at) });
    let mut events: Vec<Value> = (0..MANY).map(added).collect();
    events.extend((0..MANY).map(done));
    events.push(json!({ "type": "response.completed", "response": {} }));
    assert_eq!(told(Dialect::Responses, &events).unwrap().calls.len(), MANY);
}

#[test]
fn a_call_without_its_function_around_it_is_the_same_plain_and_streamed() {
    let call = json!({ "index": 0, "id": "a", "name": "t", "arguments": "{\"n\":1}" });
    let choice = |key: &str| json!({ "choices": [{ key: { "tool_calls": [call] }, "finish_reason": "tool_calls" }] });
    let said = plain(Dialect::Chat, &choice("message").to_string()).unwrap();
    let came = told(Dialect::Chat, &[choice("delta")]).unwrap();
    let calls = |reply: &Reply| -> Vec<(String, String)> {
        reply.calls.iter().map(|call| (call.name.clone(), call.args.clone())).collect()
    };
    assert_eq!(calls(&said), [("t".to_owned(), "{\"n\":1}".to_owned())]);
    assert_eq!(calls(&came), calls(&said));
}
