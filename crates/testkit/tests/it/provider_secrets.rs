//! A provider that repeats its key in any form, in any place of a reply: none of it is kept or shown.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_kernel::event::Event;
use toolgate_kernel::tool::Effect;
use toolgate_testkit::fake::{Fake, Fault, Play};
use toolgate_wire::dialect::Dialect;

use crate::corpus_bench::{Bench, crew, taking_text};
use crate::provider::{KEY, ask, block_on, exchange, play, spec};

fn escaped(text: &str) -> String {
    text.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect()
}

/// The key as text between quotes of JSON.
fn forms() -> Vec<(&'static str, String)> {
    let percent: String = KEY.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let hex: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
    // `printf 'user:sk-CANARY-0123456789' | base64`
    let base64 = "dXNlcjpzay1DQU5BUlktMDEyMzQ1Njc4OQ==".to_owned();
    vec![
        ("plain", KEY.to_owned()),
        ("escaped", escaped(KEY)),
        ("escaped twice", escaped(KEY).replace('\\', "\\\\")),
        ("percent", percent),
        ("hex", hex),
        ("base64", base64),
        ("reversed", KEY.chars().rev().collect()),
    ]
}

/// A reply that says the key in its words and in the arguments of a call.
fn page(dialect: Dialect, form: &str) -> String {
    // What JSON means by the form is what the server says; `form` itself stands in the bytes.
    let args = format!(r#"{{"path":"{form}"}}"#);
    let args_text = Value::from(args.clone()).to_string();
    match dialect {
        Dialect::Chat => format!(
            r#"{{"choices":[{{"finish_reason":"tool_calls","message":{{"content":"{form}","reasoning_content":"{form}","tool_calls":[{{"id":"{form}","type":"function","function":{{"name":"read","arguments":{args_text}}}}}]}}}}]}}"#
        ),
        Dialect::Responses => format!(
            r#"{{"status":"completed","output":[{{"type":"message","content":[{{"type":"output_text","text":"{form}"}}]}},{{"type":"function_call","call_id":"{form}","name":"read","arguments":{args_text}}}]}}"#
        ),
        Dialect::Anthropic => format!(
            r#"{{"stop_reason":"tool_use","content":[{{"type":"text","text":"{form}"}},{{"type":"tool_use","id":"{form}","name":"read","input":{args}}}]}}"#
        ),
        Dialect::Gemini => format!(
            r#"{{"candidates":[{{"finishReason":"STOP","content":{{"parts":[{{"text":"{form}"}},{{"functionCall":{{"id":"{form}","name":"read","args":{args}}}}}]}}}}]}}"#
        ),
    }
}

/// A key in two halves is whole once the parts of a reply are joined.
#[test]
fn a_key_in_two_parts_is_removed_when_they_are_joined() {
    let (first, second) = KEY.split_at(KEY.len() / 2);
    let parts =
        |key: &str| json!([{ "type": key, "text": first }, { "type": key, "text": second }]);
    let bodies = [
        (
            Dialect::Chat,
            json!({"choices": [{"finish_reason": "stop", "message": {"content": parts("text")}}]}),
        ),
        (
            Dialect::Responses,
            json!({"status": "completed", "output": [{"type": "message", "content": parts("output_text")}]}),
        ),
        (Dialect::Anthropic, json!({"stop_reason": "end_turn", "content": parts("text")})),
        (
            Dialect::Gemini,
            json!({"candidates": [{"finishReason": "STOP", "content": {"parts": [{"text": first}, {"text": second}]}}]}),
        ),
    ];
    for (dialect, body) in bodies {
        let told = block_on(async {
            let kind = "application/json".to_owned();
            let body = body.to_string().into_bytes();
            let fake =
                Fake::start(play(vec![Fault::Page { status: 200, kind, body }])).await.unwrap();
            let model = exchange().model(&spec(dialect, &fake, false)).unwrap();
            ask(&model, &fake).await.reply.unwrap()
        });
        assert_eq!(told.text, "***", "{dialect:?}");
        assert!(told.native.is_none() && !told.repairs.is_empty(), "{dialect:?}");
    }
}

#[test]
fn no_form_of_the_key_reaches_log_state_or_tool() {
    for dialect in Dialect::ALL {
        for (about, form) in forms() {
            let bench = Bench::new();
            block_on(async {
                let body = page(dialect, &form).into_bytes();
                let kind = "application/json".to_owned();
                let fault = Fault::Page { status: 200, kind, body };
                let script = json!({"replies": [{"text": "never"}, {"text": "Done."}]});
                let play = Play {
                    script: serde_json::from_value(script).unwrap(),
                    faults: vec![fault],
                    key: Some(KEY.to_owned()),
                    ..Play::default()
                };
                let fake = Fake::start(play).await.unwrap();
                let tool = bench.reaching(taking_text("read", "path", Effect::External));
                let mut crew = crew(json!({}), vec![tool], Vec::new()).unwrap();
                let spec = spec(dialect, &fake, false);
                crew.provider = Some(Arc::new(exchange().model(&spec).unwrap()));
                let mut driver = bench.open(crew).await;
                driver.run(&|_| {}).await.unwrap();
            });
            let events = serde_json::to_string(&bench.events()).unwrap();
            let seen = format!("{events} {:?}", bench.seen());
            let replied = bench.events().into_iter().find_map(|event| {
                let Event::ModelReplied { text, calls, .. } = event else { return None };
                Some((text, calls))
            });
            let (text, calls) = replied.unwrap();
            let alias = calls[0].alias.as_deref().unwrap();
            for said in [text.as_str(), alias, calls[0].args.as_str()] {
                assert!(said.contains("***"), "{dialect:?}, {about}: {said}");
            }
            // The inner part of the form, as it is written, at any depth of escapes.
            let inner: String = form.chars().filter(char::is_ascii_alphanumeric).collect();
            let inner = &inner[inner.len() / 4..inner.len() * 3 / 4];
            let plain: String = seen.chars().filter(char::is_ascii_alphanumeric).collect();
            for trace in [inner, "CANARY", "YRANAC"] {
                assert!(!plain.contains(trace), "{dialect:?}, {about}: {trace}\n{seen}");
            }
            assert_eq!(bench.effects().len(), 1, "{dialect:?}, {about}");
        }
    }
}
