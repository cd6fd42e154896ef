//! What the Messages API is told, and what its answers mean.

use serde_json::{Value, json};
use toolgate_kernel::digest::{Digest, Tag};
use toolgate_kernel::event::{FaultKind, Finish, Usage};
use toolgate_kernel::names::ToolName;
use toolgate_kernel::plan::{Choice, OutputShape, ShapeMode};
use toolgate_runtime::port::Reply;

use crate::assemble::Page;
use crate::dialect::Dialect::Anthropic;
use crate::dialect::Options;
use crate::dialect::sample::{
    answered, encoded, messages, options, plan, sse, streamed, with_picture,
};

fn body(reason: &str, content: Value) -> Value {
    json!({ "type": "message", "role": "assistant", "content": content, "stop_reason": reason,
        "usage": { "input_tokens": 5, "cache_read_input_tokens": 30,
            "cache_creation_input_tokens": 7, "output_tokens": 11 } })
}

fn call(id: &str, name: &str) -> Value {
    json!({ "type": "tool_use", "id": id, "name": name, "input": { "path": "a" } })
}

#[test]
fn why_it_stopped_and_what_follows() {
    let words = json!([{ "type": "text", "text": "x" }]);
    let calls = json!([call("toolu_1", "read_file")]);
    let table: &[(&str, &Value, Result<Finish, FaultKind>)] = &[
        ("end_turn", &words, Ok(Finish::Stop)),
        ("end_turn", &json!([]), Ok(Finish::Stop)),
        ("end_turn", &calls, Ok(Finish::Calls)),
        ("stop_sequence", &words, Ok(Finish::Stop)),
        ("tool_use", &calls, Ok(Finish::Calls)),
        ("tool_use", &words, Err(FaultKind::NoCalls)),
        ("max_tokens", &words, Ok(Finish::Length)),
        ("max_tokens", &calls, Err(FaultKind::Truncated)),
        ("model_context_window_exceeded", &words, Ok(Finish::Length)),
        ("model_context_window_exceeded", &calls, Err(FaultKind::Truncated)),
        ("pause_turn", &words, Ok(Finish::Paused)),
        ("pause_turn", &calls, Ok(Finish::Calls)),
        ("refusal", &words, Ok(Finish::Refused)),
        ("refusal", &calls, Ok(Finish::Refused)),
        ("", &words, Err(FaultKind::UnknownFinish)),
        ("bored", &words, Err(FaultKind::UnknownFinish)),
    ];
    for (reason, content, wanted) in table {
        let told = Anthropic.decode(&body(reason, (*content).clone()));
        if let Ok(reply) = &told {
            assert_eq!(reply.calls.is_empty(), reply.finish != Finish::Calls, "{reason}");
        }
        let told = told.map(|reply| reply.finish).map_err(|fault| fault.kind);
        assert_eq!(told, *wanted, "{reason} with {content}");
    }
}

#[test]
fn what_is_no_answer_is_a_typed_fault() {
    let error = |kind: &str| json!({ "type": "error", "error": { "type": kind, "message": "m" } });
    for (body, kind) in [
        (error("overloaded_error"), FaultKind::Overloaded),
        (error("rate_limit_error"), FaultKind::RateLimited),
        (error("billing_error"), FaultKind::Billing),
        (error("authentication_error"), FaultKind::Unauthorized),
        (error("permission_error"), FaultKind::Unauthorized),
        (error("not_found_error"), FaultKind::NotFound),
        (error("request_too_large"), FaultKind::TooLarge),
        (error("invalid_request_error"), FaultKind::BadRequest),
        (error("api_error"), FaultKind::Overloaded),
        (json!({}), FaultKind::Unreadable),
        (json!([]), FaultKind::Unreadable),
        (json!("<html>"), FaultKind::Unreadable),
        (json!({ "content": "text" }), FaultKind::Unreadable),
    ] {
        assert_eq!(Anthropic.decode(&body).unwrap_err().kind, kind, "{body}");
    }
}

#[test]
fn tokens_of_the_cache_are_in_the_sum() {
    let usage = Anthropic.decode(&body("end_turn", json!([]))).unwrap().usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (42, 11));
    assert_eq!((usage.cached_tokens, usage.cache_written_tokens), (30, 7));
}

#[test]
fn thoughts_come_back_unchanged_and_in_order() {
    let content = json!([
        { "type": "thinking", "thinking": "Hm.", "signature": "s1" },
        { "type": "redacted_thinking", "data": "sealed" },
        { "type": "text", "text": "First." },
        { "type": "tool_use", "id": "toolu_1", "name": "read_file", "input": { "path": "a" } },
        { "type": "thinking", "thinking": "", "signature": "s2" },
        { "type": "text", "text": "\n\n" },
        { "type": "tool_use", "id": "toolu_1", "name": "nope", "input": {} },
        { "type": "thinking", "thinking": "nobody signed it" },
    ]);
    let reply = Anthropic.decode(&body("tool_use", content.clone())).unwrap();
    assert_eq!(reply.text, "First.\n\n");
    let mut plan = plan();
    answered(&mut plan, reply, &["Before."]);
    plan.feedback.push("After.".into());
    let request = encoded(Anthropic, &plan, &options("claude"));
    let mut kept = content.as_array().unwrap().clone();
    // Blank words and unsigned thoughts are refused; ids are ours.
    kept.remove(7);
    kept.remove(5);
    kept[3]["id"] = json!("c1");
    kept[5]["id"] = json!("c2");
    let failed = &plan.turns[0].told.values().nth(1).unwrap().envelope;
    assert_eq!(
        messages(&request),
        [
            json!({ "role": "user", "content": [{ "type": "text", "text": "Begin." }] }),
            json!({ "role": "user", "content": [{ "type": "text", "text": "Before." }] }),
            json!({ "role": "assistant", "content": kept }),
            json!({ "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "c1", "content": "Read.\n\nwords" },
                { "type": "tool_result", "tool_use_id": "c2", "content": failed.to_json(),
                    "is_error": true },
                { "type": "text", "text": "After." },
            ] }),
        ]
    );
}

#[test]
fn a_reply_that_no_longer_holds_keeps_its_thoughts() {
    let content = json!([
        { "type": "text", "text": "Words." },
        call("toolu_1", "read_file"),
        { "type": "redacted_thinking", "data": "sealed" },
        call("toolu_2", "read_file"),
    ]);
    let mut reply = Anthropic.decode(&body("tool_use", content)).unwrap();
    reply.calls.truncate(1);
    let mut plan = plan();
    answered(&mut plan, reply, &[]);
    let request = encoded(Anthropic, &plan, &options("claude"));
    assert_eq!(
        messages(&request)[1]["content"],
        json!([
            { "type": "redacted_thinking", "data": "sealed" },
            { "type": "text", "text": "Words." },
            call("c1", "read_file"),
        ])
    );
}

#[test]
fn what_another_dialect_kept_is_not_sent() {
    let content = json!([{ "type": "thinking", "thinking": "x", "signature": "s" },
        { "type": "text", "text": "Words." }]);
    let mut reply = Anthropic.decode(&body("end_turn", content)).unwrap();
    reply.native.as_mut().unwrap().dialect = "responses".into();
    let mut plan = plan();
    answered(&mut plan, reply, &[]);
    let request = encoded(Anthropic, &plan, &options("claude"));
    assert_eq!(messages(&request)[1]["content"], json!([{ "type": "text", "text": "Words." }]));
}

#[test]
fn the_frame_says_everything_else() {
    let sampling = json!({ "temperature": 0.5, "stop": "END" });
    let options = Options {
        sampling: sampling.as_object().unwrap().clone(),
        stream: true,
        ..options("claude-x")
    };
    let mut plan = plan();
    plan.tools.truncate(1);
    with_picture(&mut plan);
    let request = encoded(Anthropic, &plan, &options);
    assert_eq!(request.path, "/messages");
    assert_eq!(
        Value::Object(request.body),
        json!({
            "model": "claude-x",
            "max_tokens": 8192,
            "cache_control": { "type": "ephemeral" },
            "system": [{ "type": "text", "text": "Be brief.",
                "cache_control": { "type": "ephemeral" } }],
            "tools": [{ "name": "read_file", "description": "A tool.", "input_schema": {
                "type": "object", "properties": { "path": { "type": "string" } },
                "required": ["path"], "additionalProperties": false } }],
            "tool_choice": { "type": "auto" },
            "stream": true,
            "temperature": 0.5,
            "stop_sequences": ["END"],
            "messages": [{ "role": "user", "content": [
                { "type": "image", "source": { "type": "base64", "media_type": "image/png",
                    "data": "Zm9vYmFy" } },
                { "type": "text", "text": "Begin." },
            ] }],
        })
    );
}

/// Thoughts count toward the bound that the API wants, wherever they are asked for.
#[test]
fn a_bound_that_nobody_set_has_room_for_thoughts() {
    let budget = |tokens: u64| {
        let thinking = json!({ "thinking": { "type": "enabled", "budget_tokens": tokens } });
        thinking.as_object().unwrap().clone()
    };
    let sampled = Options { sampling: budget(2_000), ..Options::default() };
    let overruled = Options { request_overrides: budget(9_000), ..sampled.clone() };
    let bounded = Options { output_tokens_max: Some(3_000), ..sampled.clone() };
    for (options, wanted) in
        [(Options::default(), 8_192), (sampled, 10_192), (overruled, 17_192), (bounded, 3_000)]
    {
        let body = encoded(Anthropic, &plan(), &options).body;
        assert_eq!(body["max_tokens"], wanted, "{:?}", body.get("thinking"));
    }
}

/// Calls of another model begin with no thought that could be sent, and the API refuses to think on
/// from there. When they are over, it thinks again.
#[test]
fn after_calls_of_another_model_it_is_not_asked_to_think() {
    let answer = json!({ "stop_reason": "tool_use", "content": [
        { "type": "thinking", "thinking": "Hm.", "signature": "signed" },
        { "type": "tool_use", "id": "a", "name": "read_file", "input": { "path": "a" } }] });
    let called = || Anthropic.decode(&answer).unwrap();
    let unthought = || Reply { native: None, ..called() };
    let words = || Reply::new("Done.", Vec::new(), Finish::Stop, Usage::default());
    let maker = |name: &str| Tag::from(Digest::of(name.as_bytes()));
    let mut foreign = called();
    foreign.native.as_mut().unwrap().maker = Some(maker("another"));
    for (kind, replies, thinks) in [
        ("enabled", vec![], true),
        ("enabled", vec![(called(), "")], true),
        ("enabled", vec![(called(), ""), (unthought(), "")], true),
        ("enabled", vec![(foreign.clone(), "")], false),
        ("enabled", vec![(unthought(), ""), (called(), "")], false),
        ("enabled", vec![(unthought(), ""), (called(), "Go on.")], true),
        ("enabled", vec![(unthought(), ""), (words(), "")], true),
        ("adaptive", vec![(foreign.clone(), "")], true),
    ] {
        let asked = json!({ "thinking": { "type": kind, "budget_tokens": 2_000 } });
        let mut options = options("m");
        options.request_overrides = asked.as_object().unwrap().clone();
        let (mut plan, mut page) = (plan(), Page::default());
        page.request(Anthropic, &plan, &options).unwrap();
        let told = format!("{kind} {}", replies.len());
        for (reply, note) in replies {
            let notes = [note];
            answered(&mut plan, reply, if note.is_empty() { &[] } else { &notes });
        }
        plan.feedback = vec!["And now?".into()];
        let request = encoded(Anthropic, &plan, &options);
        assert_eq!(request.body.contains_key("thinking"), thinks, "{told}: {:?}", request.body);
        let prepared = page.request(Anthropic, &plan, &options).unwrap();
        assert_eq!(prepared.body, serde_json::to_vec(&request.body).unwrap(), "{told}");
    }
}

#[test]
fn which_tool_is_asked_for() {
    let read = || ToolName::parse("read_file").unwrap();
    let form = json!({ "type": "auto", "x": 1 });
    let thinking = json!({ "thinking": { "type": "enabled", "budget_tokens": 2000 } });
    let quiet = Options::default();
    let thoughtful =
        Options { sampling: thinking.as_object().unwrap().clone(), ..Options::default() };
    let mut single = Options { parallel_tool_calls: Some(false), ..Options::default() };
    single.capabilities.parallel_tool_calls = true;
    for (choice, options, wanted) in [
        (Choice::Auto, &quiet, json!({ "type": "auto" })),
        (Choice::None, &single, json!({ "type": "none" })),
        (Choice::Required, &quiet, json!({ "type": "any" })),
        (Choice::Required, &thoughtful, json!({ "type": "auto" })),
        (Choice::Tool(read()), &quiet, json!({ "type": "tool", "name": "read_file" })),
        (Choice::Tool(read()), &thoughtful, json!({ "type": "auto" })),
        (Choice::Form(form.as_object().unwrap().clone()), &single, form.clone()),
        (Choice::Auto, &single, json!({ "type": "auto", "disable_parallel_tool_use": true })),
    ] {
        let mut plan = plan();
        plan.choice = choice;
        assert_eq!(encoded(Anthropic, &plan, options).body["tool_choice"], wanted);
    }
    assert_eq!(encoded(Anthropic, &plan(), &thoughtful).body["max_tokens"], json!(10_192));
}

#[test]
fn a_talk_with_calls_has_tools_even_when_none_may_be_called() {
    let mut plan = plan();
    plan.tools.clear();
    assert!(!encoded(Anthropic, &plan, &options("c")).body.contains_key("tools"));
    let reply = Anthropic.decode(&body("tool_use", json!([call("a", "read_file")]))).unwrap();
    answered(&mut plan, reply, &[]);
    let body = encoded(Anthropic, &plan, &options("c")).body;
    assert_eq!(body["tools"].as_array().unwrap().len(), 2);
    assert_eq!(body["tool_choice"], json!({ "type": "none" }));
}

#[test]
fn a_form_is_asked_for_when_it_can_be_enforced() {
    let closed = json!({ "type": "object", "properties": { "a": { "type": "string" } },
        "required": ["a"], "additionalProperties": false });
    let open = json!({ "type": "object", "properties": { "a": { "type": "object" } } });
    for (mode, schema, wanted) in [
        (
            ShapeMode::JsonSchema,
            closed.clone(),
            json!({ "format": { "type": "json_schema", "schema": closed } }),
        ),
        (ShapeMode::JsonSchema, open, Value::Null),
        (ShapeMode::JsonObject, json!({}), Value::Null),
    ] {
        let mut plan = plan();
        plan.shape = Some(OutputShape { name: "s".into(), mode, schema }.into());
        let body = encoded(Anthropic, &plan, &options("c")).body;
        assert_eq!(body.get("output_config").cloned().unwrap_or_default(), wanted);
        assert!(!body.contains_key("tools"));
    }
}

#[test]
fn a_pause_ends_with_the_reply_itself() {
    let content = json!([
        { "type": "text", "text": "Looking. " },
        { "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {} },
    ]);
    let mut plan = plan();
    let paused = Anthropic.decode(&body("pause_turn", content.clone())).unwrap();
    assert_eq!(paused.finish, Finish::Paused);
    answered(&mut plan, paused, &[]);
    let request = encoded(Anthropic, &plan, &options("c"));
    assert_eq!(messages(&request).len(), 2);
    assert_eq!(messages(&request)[1], json!({ "role": "assistant", "content": content }));
}

#[test]
fn arguments_that_cannot_be_read_are_shown_as_written() {
    let start = json!({ "type": "content_block_start", "index": 0,
        "content_block": { "type": "tool_use", "id": "t", "name": "read_file", "input": {} } });
    let piece = |text: &str| {
        json!({ "type": "content_block_delta", "index": 0,
            "delta": { "type": "input_json_delta", "partial_json": text } })
    };
    let end = [
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" },
            "usage": { "output_tokens": 3 } }),
        json!({ "type": "message_stop" }),
    ];
    for (pieces, args, sent) in [
        (&["{\"pa", "th\": \"a\"}"][..], "{\"path\":\"a\"}", json!({ "path": "a" })),
        (&[], "{}", json!({})),
        (&[""], "{}", json!({})),
        (&["{\"path\""], "{\"path\"", json!({ "unreadable": "{\"path\"" })),
        (&["{\"a\":1,\"a\":2}"], "{\"a\":1,\"a\":2}", json!({ "a": 2 })),
    ] {
        let mut events = vec![json!({ "type": "message_start", "message": {} }), start.clone()];
        events.extend(pieces.iter().map(|text| piece(text)));
        events.extend(end.clone());
        let reply = streamed(Anthropic, &sse(&events)).unwrap();
        assert_eq!(reply.calls[0].args, args);
        let mut plan = plan();
        answered(&mut plan, reply, &[]);
        let request = encoded(Anthropic, &plan, &options("c"));
        assert_eq!(messages(&request)[1]["content"][0]["input"], sent);
    }
}

#[test]
fn a_blank_reason_says_nothing_and_takes_nothing_back() {
    let words = [
        json!({ "type": "content_block_start", "index": 0,
            "content_block": { "type": "text", "text": "Hi." } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_stop" }),
    ];
    let said = |start: &str, reasons: &[&str]| {
        let start = json!({ "type": "message_start", "message": { "stop_reason": start } });
        let reason =
            |reason| json!({ "type": "message_delta", "delta": { "stop_reason": reason } });
        let mut events = vec![start, words[0].clone(), words[1].clone()];
        events.extend(reasons.iter().map(reason));
        events.push(words[2].clone());
        streamed(Anthropic, &sse(&events)).map(|reply| reply.finish)
    };
    assert_eq!(said("", &["end_turn"]), Ok(Finish::Stop));
    assert_eq!(said("", &["", "end_turn"]), Ok(Finish::Stop));
    assert_eq!(said("", &["end_turn", " "]), Ok(Finish::Stop));
    assert_eq!(said("", &["refusal", "", "end_turn"]), Ok(Finish::Refused));
    assert_eq!(said("", &[""]).map_err(|fault| fault.kind), Err(FaultKind::UnknownFinish));
}

#[test]
fn what_was_said_in_short_is_kept_and_sent_back() {
    let events = [
        json!({ "type": "message_start", "message": {} }),
        json!({ "type": "content_block_start", "index": 0,
            "content_block": { "type": "compaction", "content": null } }),
        json!({ "type": "content_block_delta", "index": 0,
            "delta": { "type": "compaction_delta", "content": "So far: " } }),
        json!({ "type": "content_block_delta", "index": 0,
            "delta": { "type": "compaction_delta", "content": "much." } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "content_block_start", "index": 1,
            "content_block": { "type": "text", "text": "Hi." } }),
        json!({ "type": "content_block_stop", "index": 1 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" } }),
        json!({ "type": "message_stop" }),
    ];
    let reply = streamed(Anthropic, &sse(&events)).unwrap();
    let mut plan = plan();
    answered(&mut plan, reply, &[]);
    let request = encoded(Anthropic, &plan, &options("c"));
    let kept = json!({ "type": "compaction", "content": "So far: much." });
    assert_eq!(messages(&request)[1]["content"][0], kept);
}

#[test]
fn blocks_are_never_merged_and_strangers_are_refused() {
    let start = |id: &str| {
        json!({ "type": "content_block_start", "index": 0,
            "content_block": { "type": "tool_use", "id": id, "name": "read_file", "input": {} } })
    };
    let piece = |index: u64, text: &str| {
        json!({ "type": "content_block_delta", "index": index,
            "delta": { "type": "input_json_delta", "partial_json": text } })
    };
    let end = [
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" } }),
        json!({ "type": "message_stop" }),
        piece(9, "after the end"),
    ];
    let stop = json!({ "type": "content_block_stop", "index": 0 });
    let mut events = Vec::new();
    for (id, args) in [("a", "{\"path\":\"1\"}"), ("b", "{\"path\":\"2\"}")] {
        events.extend([start(id), piece(0, args), stop.clone()]);
    }
    events.extend(end.clone());
    let reply = streamed(Anthropic, &sse(&events)).unwrap();
    let calls: Vec<_> =
        reply.calls.iter().map(|c| (c.alias.as_deref().unwrap(), c.args.as_str())).collect();
    assert_eq!(calls, [("a", "{\"path\":\"1\"}"), ("b", "{\"path\":\"2\"}")]);
    let fault = streamed(Anthropic, &sse(&[piece(0, "{}")])).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unreadable);
}
