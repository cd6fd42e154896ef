//! Decides that nothing comes of a stream that was cut off, wherever that was.

use serde_json::{Value, json};
use toolgate_kernel::event::Finish;
use toolgate_runtime::port::Streamed;
use toolgate_wire::dialect::Dialect;

use crate::case::{cases, file};
use crate::play::{plain, streamed, tapped};

/// What ends a reply, as it stands in the bytes of a stream.
fn markers(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::Chat => &["\"finish_reason\":\"", "[DONE]"],
        Dialect::Responses => {
            &["\"type\":\"response.completed\"", "\"type\":\"response.incomplete\""]
        }
        Dialect::Anthropic => &["\"type\":\"message_stop\""],
        Dialect::Gemini => &["\"finishReason\":"],
    }
}

/// Where the event ends that ends the reply; the end of the stream when there is none.
fn whole_at(dialect: Dialect, stream: &str) -> usize {
    let found = markers(dialect).iter().filter_map(|marker| stream.find(marker)).min();
    let end = found.and_then(|at| Some(at + stream[at..].find("\n\n")? + 2));
    end.unwrap_or(stream.len() + 1)
}

#[test]
fn nothing_comes_of_a_stream_that_is_cut_at_any_byte() {
    let mut cuts = 0;
    for (name, case) in cases() {
        for dialect in Dialect::ALL {
            let Some(stream) = file(&name, dialect, "stream") else { continue };
            let whole = whole_at(dialect, &stream);
            for cut in 0..stream.len() {
                let told = streamed(dialect, &stream.as_bytes()[..cut]);
                let at = format!("{name}/{} at {cut} of {whole}", dialect.as_str());
                if cut < whole || case.fault.is_some() {
                    assert!(told.is_err(), "{at}: {told:?}");
                } else {
                    assert!(told.is_ok(), "{at}: {told:?}");
                }
                cuts += 1;
            }
        }
    }
    assert!(cuts > 10_000, "only {cuts} cuts were made");
}

/// A byte that is lost or changed inside the stream must never panic.
#[test]
fn a_stream_with_a_wrong_byte_is_answered_or_refused() {
    for (name, _) in cases() {
        for dialect in Dialect::ALL {
            let Some(stream) = file(&name, dialect, "stream") else { continue };
            for at in (0..stream.len()).step_by(29) {
                for byte in [b'"', b'}', b'0', b'\n', 0xff] {
                    let mut bytes = stream.clone().into_bytes();
                    bytes[at] = byte;
                    let _ = streamed(dialect, &bytes);
                }
                let mut bytes = stream.clone().into_bytes();
                bytes.remove(at);
                let _ = streamed(dialect, &bytes);
            }
        }
    }
}

/// Whether a driver would run calls of what came: only a reply that stopped as it may has any.
fn runs_calls(dialect: Dialect, events: &[Value]) -> bool {
    let event = |event: &Value| {
        let name = event["type"].as_str().map(|name| format!("event: {name}\n"));
        format!("{}data: {event}\n\n", name.unwrap_or_default())
    };
    let bytes: String = events.iter().map(event).collect();
    streamed(dialect, bytes.as_bytes()).is_ok_and(|reply| reply.finish == Finish::Calls)
}

#[test]
fn a_reason_that_forbids_calls_is_kept_when_another_follows() {
    let part = json!({ "functionCall": { "name": "add", "args": {} } });
    let gemini = |reason: &str| json!({ "candidates": [{ "finishReason": reason }] });
    let call = json!({ "candidates": [{ "content": { "parts": [part] } }] });
    let block = json!({ "type": "tool_use", "id": "t1", "name": "add", "input": {} });
    let begun = [
        json!({ "type": "message_start", "message": { "role": "assistant", "content": [] } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_stop", "index": 0 }),
    ];
    let anthropic =
        |reason: &str| json!({ "type": "message_delta", "delta": { "stop_reason": reason } });
    let stop = json!({ "type": "message_stop" });
    assert!(runs_calls(Dialect::Gemini, &[call.clone(), gemini("STOP"), gemini("STOP")]));
    for reason in ["SAFETY", "MAX_TOKENS", "MALFORMED_FUNCTION_CALL", "NEW"] {
        for order in [[reason, "STOP"], ["STOP", reason]] {
            let events = [call.clone(), gemini(order[0]), gemini(order[1])];
            assert!(!runs_calls(Dialect::Gemini, &events), "{order:?}");
        }
    }
    let ended = |reasons: [&str; 2]| {
        let reasons = reasons.map(anthropic);
        [begun.as_slice(), &reasons, std::slice::from_ref(&stop)].concat()
    };
    assert!(runs_calls(Dialect::Anthropic, &ended(["tool_use", "end_turn"])));
    for reason in ["refusal", "max_tokens", "new"] {
        for order in [[reason, "tool_use"], ["tool_use", reason], [reason, "end_turn"]] {
            assert!(!runs_calls(Dialect::Anthropic, &ended(order)), "{order:?}");
        }
    }
}

#[test]
fn a_candidate_is_not_ended_by_another_one() {
    let part = json!({ "functionCall": { "name": "add", "args": {} } });
    let begun = |index: u64| json!({ "index": index, "content": { "parts": [part.clone()] } });
    let ended = |index: u64, reason: &str| json!({ "index": index, "finishReason": reason });
    let chunk = |candidates: &[Value]| json!({ "candidates": candidates });
    let apart = [chunk(&[begun(0)]), chunk(&[ended(1, "STOP")])];
    assert!(!runs_calls(Dialect::Gemini, &apart));
    let other = [chunk(&[begun(0), begun(1)]), chunk(&[ended(0, "MAX_TOKENS"), ended(1, "STOP")])];
    assert!(!runs_calls(Dialect::Gemini, &other));
    let own = [chunk(&[begun(0), begun(1)]), chunk(&[ended(1, "SAFETY"), ended(0, "STOP")])];
    assert!(runs_calls(Dialect::Gemini, &own));
}

#[test]
fn a_response_that_ends_as_incomplete_is_so_whatever_is_in_it() {
    let item = json!({ "type": "function_call", "call_id": "c", "name": "add", "arguments": "{}" });
    let done = json!({ "type": "response.output_item.done", "output_index": 0, "item": item });
    let end = |kind: &str, response: &Value| json!({ "type": kind, "response": response });
    let whole = json!({ "status": "completed" });
    let ended = [done.clone(), end("response.completed", &whole)];
    assert!(runs_calls(Dialect::Responses, &ended));
    let details = json!({ "incomplete_details": { "reason": "max_output_tokens" } });
    for response in [json!({}), Value::Null, details, whole] {
        let ended = [done.clone(), end("response.incomplete", &response)];
        assert!(!runs_calls(Dialect::Responses, &ended), "{response}");
    }
}

/// A plain answer and a stream, in which the words are these pieces as JSON has them.
fn worded(dialect: Dialect, pieces: &[&str]) -> (String, String) {
    let all = pieces.concat();
    let stream = |events: Vec<String>| -> String {
        events.iter().map(|event| format!("data: {event}\n\n")).collect()
    };
    let each = |event: &dyn Fn(&str) -> String| -> Vec<String> {
        pieces.iter().map(|piece| event(piece)).collect()
    };
    match dialect {
        Dialect::Chat => {
            let usage = r#""usage":{"prompt_tokens":7,"completion_tokens":2.0}"#;
            let body = format!(
                r#"{{"choices":[{{"message":{{"content":"{all}"}},"finish_reason":"stop"}}],{usage}}}"#
            );
            let delta = |text: &str| {
                format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#)
            };
            let end = format!(
                r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"stop"}}],{usage}}}"#
            );
            (body, stream(each(&delta).into_iter().chain([end, "[DONE]".to_owned()]).collect()))
        }
        Dialect::Responses => {
            let message = format!(
                r#"{{"type":"message","id":"m","role":"assistant","status":"completed","content":[{{"type":"output_text","text":"{all}","annotations":[]}}]}}"#
            );
            let body = format!(
                r#"{{"id":"r","status":"completed","output":[{message}],"usage":{{"input_tokens":7,"output_tokens":2.0}}}}"#
            );
            let delta = |text: &str| {
                format!(
                    r#"{{"type":"response.output_text.delta","output_index":0,"content_index":0,"item_id":"m","delta":"{text}"}}"#
                )
            };
            let end = format!(r#"{{"type":"response.completed","response":{body}}}"#);
            (body.clone(), stream(each(&delta).into_iter().chain([end]).collect()))
        }
        Dialect::Anthropic => {
            let body = format!(
                r#"{{"type":"message","role":"assistant","content":[{{"type":"text","text":"{all}"}}],"stop_reason":"end_turn","usage":{{"input_tokens":7,"output_tokens":2.0}}}}"#
            );
            let begin = [
                r#"{"type":"message_start","message":{"type":"message","role":"assistant","content":[],"usage":{"input_tokens":7,"output_tokens":1}}}"#,
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            ];
            let delta = |text: &str| {
                format!(
                    r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#
                )
            };
            let end = [
                r#"{"type":"content_block_stop","index":0}"#,
                r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2.0}}"#,
                r#"{"type":"message_stop"}"#,
            ];
            let (begin, end) = (begin.map(str::to_owned), end.map(str::to_owned));
            (body, stream(begin.into_iter().chain(each(&delta)).chain(end).collect()))
        }
        Dialect::Gemini => {
            let part = |text: &str, end: &str| {
                format!(
                    r#"{{"candidates":[{{"content":{{"role":"model","parts":[{{"text":"{text}"}}]}}{end}}}],"usageMetadata":{{"promptTokenCount":7,"candidatesTokenCount":2.0}}}}"#
                )
            };
            let end = r#","finishReason":"STOP""#;
            let last = pieces.len() - 1;
            let events = pieces.iter().enumerate();
            let events = events.map(|(at, text)| part(text, if at == last { end } else { "" }));
            (part(&all, end), stream(events.collect()))
        }
    }
}

/// Half a character fails nothing: with the other half it is the character, alone it is lost.
#[test]
fn halves_of_a_character_meet_or_are_lost() {
    let table: [(&[&str], &str); 6] = [
        (&["Hi \\ud83d", "\\ude00."], "Hi 😀."),
        (&["Hi \\ud83d", "."], "Hi \u{fffd}."),
        (&["Hi \\ud83d", "\\ud83d", "\\ude00"], "Hi \u{fffd}😀"),
        (&["\\ude00", " \\\\ud83d \\ud83d\\ude00"], "\u{fffd} \\ud83d 😀"),
        (&["Bye \\uD83D"], "Bye \u{fffd}"),
        (&["Hi 😀", "."], "Hi 😀."),
    ];
    for dialect in Dialect::ALL {
        for (pieces, wanted) in table {
            let (body, events) = worded(dialect, pieces);
            let at = format!("{} {pieces:?}", dialect.as_str());
            let shown = std::sync::Mutex::new(String::new());
            let tap = |streamed: Streamed<'_>| {
                if let Streamed::Text(text) = streamed {
                    shown.lock().unwrap().push_str(text);
                }
            };
            let said = plain(dialect, &body).unwrap_or_else(|fault| panic!("{at}: {fault:?}"));
            let told = tapped(dialect, events.as_bytes(), &tap);
            let told = told.unwrap_or_else(|fault| panic!("{at}: {fault:?}"));
            assert_eq!((said.text.as_str(), told.text.as_str()), (wanted, wanted), "{at}");
            assert_eq!(*shown.lock().unwrap(), wanted, "{at}");
            for usage in [said.usage, told.usage] {
                assert_eq!((usage.input_tokens, usage.output_tokens), (7, 2), "{at}");
            }
        }
    }
}
