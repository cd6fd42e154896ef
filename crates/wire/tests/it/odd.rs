//! Decides that no answer, however odd, leads to a request that its provider would refuse: that would
//! be told as a fault of ours.

use std::cell::OnceCell;

use serde_json::{Map, Value, json};
use toolgate_kernel::event::FaultKind;
use toolgate_kernel::plan::Plan;
use toolgate_runtime::port::Reply;
use toolgate_wire::dialect::rules::Transcript;
use toolgate_wire::dialect::{Dialect, Options, WireFault};

use crate::case::{Case, cases, file};
use crate::play::{paid, plain, streamed};

/// What stands in a place where something else is due.
fn odd() -> Vec<Value> {
    vec![
        json!(null),
        json!(""),
        json!(" "),
        json!("x"),
        json!(0),
        json!(true),
        json!([null]),
        json!({}),
    ]
}

/// Every place in a value, from the outside in.
fn places(value: &Value) -> Vec<String> {
    let mut found = vec![String::new()];
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    for (key, value) in inner {
        let key = key.replace('~', "~0").replace('/', "~1");
        found.extend(places(value).into_iter().map(|place| format!("/{key}{place}")));
    }
    found
}

/// The value with each of its places changed: to something odd, gone, or there once more.
fn changed(value: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for place in places(value) {
        for other in odd() {
            let mut copy = value.clone();
            *copy.pointer_mut(&place).unwrap() = other.clone();
            found.push((format!("{place} is {other}"), copy));
        }
        let Some((above, key)) = place.rsplit_once('/') else { continue };
        let mut gone = value.clone();
        match gone.pointer_mut(above).unwrap() {
            Value::Object(fields) => drop(fields.remove(key)),
            Value::Array(items) => drop(items.remove(key.parse().unwrap())),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        found.push((format!("{place} is gone"), gone));
        let mut twice = value.clone();
        if let Value::Array(items) = twice.pointer_mut(above).unwrap() {
            let again = items[key.parse::<usize>().unwrap()].clone();
            items.push(again);
            found.push((format!("{place} is there twice"), twice));
        }
    }
    found
}

/// The events of a stream: the name and the data of each.
fn events(stream: &str) -> Vec<(String, String)> {
    let event = |text: &str| {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let data = field("data:")?.trim().to_owned();
        Some((field("event:").unwrap_or_default().trim().to_owned(), data))
    };
    stream.split("\n\n").filter_map(event).collect()
}

fn written(events: &[(String, String)]) -> String {
    let event = |(name, data): &(String, String)| match name.as_str() {
        "" => format!("data: {data}\n\n"),
        name => format!("event: {name}\ndata: {data}\n\n"),
    };
    events.iter().map(event).collect()
}

/// What is answered.
struct Asked<'a> {
    name: &'a str,
    case: &'a Case,
    plan: Plan,
    options: Options,
    dialect: Dialect,
    /// A request without its messages: where nothing was called before, and where something was.
    frames: [OnceCell<Map<String, Value>>; 2],
}

/// Every case in every dialect, with a file of it.
fn each(ending: &str, mut look: impl FnMut(&Asked<'_>, &str)) {
    for (name, case) in &cases() {
        let (plan, options) = (case.plan(), case.options());
        for dialect in Dialect::ALL {
            let Some(text) = file(name, dialect, ending) else { continue };
            let (plan, options) = (plan.clone(), options.clone());
            look(&Asked { name, case, plan, options, dialect, frames: Default::default() }, &text);
        }
    }
}

/// What was looked at, and what went wrong.
#[derive(Default)]
struct Looked {
    all: usize,
    wrong: Vec<String>,
}

impl Looked {
    /// Looks whether a reply can be answered: the next request keeps the rules.
    fn at(&mut self, asked: &Asked<'_>, what: &str, told: Result<Reply, WireFault>) {
        self.all += 1;
        let Ok(reply) = told else { return };
        let Asked { name, case, plan, options, dialect, frames } = asked;
        let next = case.next_after(plan.clone(), &reply);
        let called = next.turns.iter().any(|turn| !turn.calls.is_empty());
        // The rest of a request is the same for all of them, and takes long to write.
        let frame = frames[usize::from(called)].get_or_init(|| dialect.frame(&next, options).body);
        let mut messages = dialect.opening(&next, options);
        let mut before = None;
        for turn in &next.turns {
            messages.extend(dialect.turn(before, turn, &next, options));
            before = Some(turn.as_ref());
        }
        messages.extend(dialect.closing(&next, options));
        if let Some(rule) = Transcript::new(*dialect).end(&messages, frame) {
            self.wrong.push(format!("{name}/{}: {what} breaks {}", dialect.as_str(), rule.name));
        }
    }

    fn end(self) {
        let Self { all, wrong } = self;
        assert!(all > 10_000, "only {all} were looked at");
        let first = wrong.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
        assert!(wrong.is_empty(), "{} of {all}:\n{first}", wrong.len());
    }
}

#[test]
fn an_odd_answer_is_taken_or_refused_and_can_be_answered() {
    let mut looked = Looked::default();
    each("reply.json", |asked, body| {
        // What is nested deeper than this reader takes is looked at elsewhere.
        let Ok(body) = serde_json::from_str::<Value>(body) else { return };
        for (what, body) in changed(&body) {
            looked.at(asked, &what, plain(asked.dialect, &body.to_string()));
        }
    });
    looked.end();
}

#[test]
fn an_odd_stream_is_taken_or_refused_and_can_be_answered() {
    let mut looked = Looked::default();
    each("stream", |asked, stream| {
        let events = events(stream);
        let mut look = |what: String, events: &[(String, String)]| {
            looked.at(asked, &what, streamed(asked.dialect, written(events).as_bytes()));
        };
        for (number, (event, data)) in events.iter().enumerate() {
            let mut gone = events.clone();
            let again = gone.remove(number);
            look(format!("event {number} is gone"), &gone);
            gone.push(again.clone());
            look(format!("event {number} is last"), &gone);
            let mut twice = events.clone();
            twice.insert(number, again);
            look(format!("event {number} is there twice"), &twice);
            let Ok(data) = serde_json::from_str::<Value>(data) else { continue };
            for (what, data) in changed(&data) {
                let mut events = events.clone();
                events[number] = (event.clone(), data.to_string());
                look(format!("event {number}{what}"), &events);
            }
        }
    });
    looked.end();
}

/// The answers of one dialect, whose first part stands in a place of its own.
fn answer(dialect: Dialect, parts: &[Value]) -> String {
    match dialect {
        Dialect::Chat => json!({ "choices": [{ "message": { "tool_calls": parts } }] }),
        Dialect::Responses => json!({ "status": "completed", "output": parts }),
        Dialect::Anthropic => json!({ "stop_reason": "tool_use", "content": parts }),
        Dialect::Gemini => {
            let content = json!({ "role": "model", "parts": parts });
            json!({ "candidates": [{ "finishReason": "STOP", "content": content }] })
        }
    }
    .to_string()
}

/// A call beside something that a model has no business to say, or that says nothing.
#[test]
fn what_no_model_says_is_not_said_again() {
    let mut looked = Looked::default();
    let call = json!({ "functionCall": { "name": "list_notes", "args": {} },
        "thoughtSignature": "s" });
    let gemini = [
        json!({ "text": "", "thoughtSignature": null }),
        json!({ "text": "", "thoughtSignature": "" }),
        json!({ "text": " ", "thoughtSignature": 3 }),
        json!({ "text": null, "thought": true }),
        json!({ "functionCall": null }),
        json!({ "functionCall": null, "text": "", "thoughtSignature": null }),
        json!({ "functionResponse": { "name": "list_notes", "response": {} } }),
        json!(null),
        json!("x"),
        json!({}),
    ];
    let tool_use = json!({ "type": "tool_use", "id": "t", "name": "list_notes", "input": {} });
    let thought = json!({ "type": "thinking", "thinking": "Hm.", "signature": "s" });
    let anthropic = [
        json!({ "type": "tool_result", "tool_use_id": "t", "content": "x" }),
        json!({ "type": "text", "text": null }),
        json!({ "type": "thinking", "thinking": null, "signature": null }),
        json!({ "type": "redacted_thinking", "data": null }),
        json!({ "type": "new_thing" }),
    ];
    let function = json!({ "type": "function_call", "call_id": "t", "name": "list_notes",
        "arguments": "{}" });
    let sealed = json!({ "type": "reasoning", "summary": [], "encrypted_content": "x" });
    let said = |role: Value| {
        let part = json!({ "type": "output_text", "text": "x" });
        json!({ "type": "message", "role": role, "content": [null, part], "phase": "x" })
    };
    let responses = [
        json!({ "type": "function_call_output", "call_id": "t", "output": "x" }),
        said(json!("user")),
        said(json!("system")),
        said(json!(null)),
        json!({ "type": "message", "content": "x", "phase": "y" }),
        json!({ "type": "reasoning", "encrypted_content": null }),
        json!({ "type": null }),
        json!(null),
    ];
    let cases = cases();
    let (name, case) = cases.iter().find(|(name, _)| name == "one_call").unwrap();
    let mut look = |dialect: Dialect, parts: &[Value]| {
        let (plan, options) = (case.plan(), case.options());
        let asked = Asked { name, case, plan, options, dialect, frames: Default::default() };
        let text = answer(dialect, parts);
        let told = plain(dialect, &text);
        let reply = told.as_ref().unwrap_or_else(|fault| panic!("{fault}: {text}"));
        assert_eq!(reply.calls.len(), 1, "{text}");
        looked.at(&asked, &text, told);
    };
    for odd in gemini {
        look(Dialect::Gemini, &[call.clone(), odd.clone()]);
        look(Dialect::Gemini, &[odd, call.clone()]);
    }
    for odd in anthropic {
        look(Dialect::Anthropic, &[thought.clone(), odd.clone(), tool_use.clone()]);
        look(Dialect::Anthropic, &[thought.clone(), tool_use.clone(), odd]);
    }
    for odd in responses {
        look(Dialect::Responses, &[sealed.clone(), function.clone(), odd.clone()]);
        look(Dialect::Responses, &[sealed.clone(), odd, function.clone()]);
    }
    let called = json!({ "id": "t", "function": { "name": "list_notes", "arguments": "{}" } });
    for odd in [json!(null), json!({}), json!({ "function": null, "id": null })] {
        look(Dialect::Chat, &[odd.clone(), called.clone()]);
        look(Dialect::Chat, &[called.clone(), odd]);
    }
    assert!(looked.wrong.is_empty(), "{:#?}", looked.wrong);
}

/// Half a call must not be passed over as if it were nothing.
#[test]
fn a_block_that_does_not_say_what_it_is_is_a_fault_of_the_provider() {
    let whole = [
        json!({ "type": "message_start", "message": { "role": "assistant" } }),
        json!({ "type": "content_block_start", "index": 0,
            "content_block": { "type": "tool_use", "id": "t", "name": "list_notes", "input": {} } }),
        json!({ "type": "content_block_delta", "index": 0,
            "delta": { "type": "input_json_delta", "partial_json": "{}" } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" } }),
        json!({ "type": "message_stop" }),
    ];
    let told = |events: &[Value]| {
        let events: Vec<_> =
            events.iter().map(|event| (String::new(), event.to_string())).collect();
        streamed(Dialect::Anthropic, written(&events).as_bytes())
    };
    assert_eq!(told(&whole).unwrap().calls.len(), 1);
    for block in [json!(null), json!({}), json!({ "type": null, "text": "x" }), json!("x")] {
        let mut events = whole.clone();
        events[1]["content_block"] = block.clone();
        let fault = told(&events).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Unreadable, "{block}");
        assert!(fault.reason.contains("does not say what it is"), "{fault}");
        let plain = plain(Dialect::Anthropic, &answer(Dialect::Anthropic, &[block])).unwrap_err();
        assert_eq!(plain.kind, FaultKind::Unreadable);
    }
    for (key, odd) in
        [("type", json!(null)), ("partial_json", json!(null)), ("partial_json", json!(3))]
    {
        let mut events = whole.clone();
        events[2]["delta"][key] = odd;
        assert!(told(&events).is_err(), "{:?}", events[2]);
    }
    // An event that comes once more begins no other call, and takes back no reason to stop.
    let mut twice = whole.to_vec();
    twice.insert(1, whole[1].clone());
    assert_eq!(told(&twice).unwrap().calls.len(), 1);
    let mut declined = whole.to_vec();
    declined[4]["delta"]["stop_reason"] = json!("refusal");
    declined.insert(5, whole[4].clone());
    assert!(told(&declined).unwrap().calls.is_empty());
}

/// A whole answer as a stream that says the same.
fn as_stream(dialect: Dialect, body: &Value) -> Option<String> {
    let event = |data: Value| (String::new(), data.to_string());
    let events = match dialect {
        Dialect::Gemini => vec![event(body.clone())],
        Dialect::Responses => {
            let status = body.get("status").and_then(Value::as_str);
            let status = status.filter(|status| matches!(*status, "failed" | "incomplete"));
            let kind = format!("response.{}", status.unwrap_or("completed"));
            vec![event(json!({ "type": kind, "response": body }))]
        }
        Dialect::Chat => {
            let mut body = body.clone();
            let choice = body.pointer_mut("/choices/0")?.as_object_mut()?;
            // In a stream, a piece may say nothing.
            let mut message = choice.remove("message").filter(Value::is_object)?;
            let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
            for (index, call) in calls.into_iter().flatten().enumerate() {
                if let Some(call) = call.as_object_mut() {
                    call.insert("index".to_owned(), json!(index));
                }
            }
            choice.insert("delta".to_owned(), message);
            vec![event(body), (String::new(), "[DONE]".to_owned())]
        }
        Dialect::Anthropic => {
            let mut message = body.as_object()?.clone();
            let content = message.remove("content")?;
            let reason = message.remove("stop_reason");
            let blocks = content.as_array()?.iter().zip(0..);
            let begin = event(json!({ "type": "message_start", "message": message }));
            let blocks = blocks.flat_map(|(block, index)| {
                let kind = "content_block_start";
                let begin = json!({ "type": kind, "index": index, "content_block": block });
                let end = json!({ "type": "content_block_stop", "index": index });
                [event(begin), event(end)]
            });
            let end = json!({ "type": "message_delta", "delta": { "stop_reason": reason } });
            let end = [event(end), event(json!({ "type": "message_stop" }))];
            std::iter::once(begin).chain(blocks).chain(end).collect()
        }
    };
    Some(written(&events))
}

/// The answer of a server that failed when it had counted.
fn failed(dialect: Dialect, body: &Value) -> Option<(String, Value)> {
    let mut body = body.clone();
    let fields = body.as_object_mut()?;
    fields.insert("error".to_owned(), json!({ "code": "server_error", "message": "Sorry." }));
    if dialect == Dialect::Responses {
        fields.insert("status".to_owned(), json!("failed"));
    }
    Some(("it failed".to_owned(), body))
}

/// That is what it says, and what it cost, also where it cannot be used.
#[test]
fn an_odd_answer_says_the_same_plain_and_streamed() {
    let mut wrong = Vec::new();
    let mut all = 0;
    each("reply.json", |asked, body| {
        let Ok(body) = serde_json::from_str::<Value>(body) else { return };
        for (what, body) in changed(&body).into_iter().chain(failed(asked.dialect, &body)) {
            // Without streaming, the index of a choice says nothing and is not read.
            if ["/choices/0/index ", "/candidates/0/index "].iter().any(|it| what.contains(it)) {
                continue;
            }
            let Some(stream) = as_stream(asked.dialect, &body) else { continue };
            let cost = asked.dialect.usage(&body);
            let whole = (plain(asked.dialect, &body.to_string()).map_err(|_| ()), cost);
            let (pieces, cost) = paid(asked.dialect, stream.as_bytes(), &|_| {});
            let pieces = (pieces.map_err(|_| ()), cost);
            all += 1;
            // Two equal calls with one id are two in a list; in a stream they may be one, sent twice.
            // In the same way a second choice of one index is a piece of the first in a stream.
            let doubled = ["tool_calls/", "/choices/0 "].iter().any(|it| what.contains(it))
                && what.ends_with("is there twice");
            if whole != pieces && !(doubled && pieces.0.is_err()) {
                let (name, dialect) = (asked.name, asked.dialect.as_str());
                wrong.push(format!("{name}/{dialect}: {what}\n  {whole:?}\n  {pieces:?}"));
            }
        }
    });
    let first = wrong.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
    assert!(all > 5_000 && wrong.is_empty(), "{} of {all}:\n{first}", wrong.len());
}
