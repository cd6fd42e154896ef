//! How a run ends whose last reply was declined, filtered or cut, and what discarded replies cost.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_kernel::event::{Ending, FaultKind};
use toolgate_runtime::Halt;
use toolgate_testkit::fake::{Fake, Fault, Play};
use toolgate_wire::dialect::Dialect;

use crate::corpus_bench::{Bench, crew};
use crate::provider::{KEY, ask, block_on, exchange, play, spec};

/// Drives a run against the fake to its end.
async fn ended(reply: &Value, fault: &str, dialect: Dialect, stream: bool) -> (Halt, usize) {
    let fake = Fake::start(Play {
        script: serde_json::from_value(json!({ "replies": [reply] })).unwrap(),
        faults: vec![Fault::named(fault).unwrap()],
        for_ever: true,
        key: Some(KEY.to_owned()),
        ..Play::default()
    });
    let fake = fake.await.unwrap();
    let mut crew = crew(json!({}), Vec::new(), Vec::new()).unwrap();
    let spec = spec(dialect, &fake, stream);
    crew.provider = Some(Arc::new(exchange().model(&spec).unwrap()));
    let bench = Bench::new();
    let mut driver = bench.open_as("run", crew).await;
    (driver.run(&|_| {}).await.unwrap(), fake.seen().len())
}

#[test]
fn no_reply_that_was_declined_or_cut_completes_a_run() {
    let said = json!({"text": "And so the keeper"});
    let cut = json!({"text": "And so the keeper", "finish": "length"});
    let table = [
        (&said, "none", Ending::Completed),
        (&said, "filtered", Ending::Refused),
        (&said, "filtered_half_way", Ending::Refused),
        (&said, "refused", Ending::Refused),
        (&cut, "none", Ending::Truncated),
    ];
    block_on(async {
        for (stream, dialect) in Dialect::ALL.into_iter().flat_map(|d| [(false, d), (true, d)]) {
            for (reply, fault, wanted) in table {
                let at = format!("{fault} {reply} {dialect:?} {stream}");
                let (halt, requests) = ended(reply, fault, dialect, stream).await;
                assert!(
                    matches!(halt, Halt::Ended(ending, _) if ending == wanted),
                    "{at}: {halt:?}"
                );
                assert_eq!(requests, 1, "{at}: nothing is asked again");
            }
        }
    });
}

#[test]
fn a_reply_that_cannot_be_used_is_paid_for_and_asked_for_with_more_room() {
    block_on(async {
        for (stream, dialect) in Dialect::ALL.into_iter().flat_map(|d| [(false, d), (true, d)]) {
            let fault = Fault::named("truncated").unwrap();
            let fake = Fake::start(play(vec![fault.clone()])).await.unwrap();
            let mut once = spec(dialect, &fake, stream);
            once.options.output_tokens_max = None;
            let came = ask(&exchange().model(&once).unwrap(), &fake).await;
            let reply = came.reply.unwrap();
            let paid = reply.attempts[0].usage.expect("the provider counted");
            assert!(paid.input_tokens > 0 && paid.output_tokens > 0, "{dialect:?}: {paid:?}");
            let text = came.seen[1].body.to_string();
            // One dialect asks for 8192 by itself.
            let anthropic = dialect == Dialect::Anthropic;
            let room = 2 * if anthropic { 8_192 } else { paid.output_tokens };
            assert!(text.contains(&format!("okens\":{room}")), "{dialect:?}: {text}");
            // And when it fails for good.
            let fake = Fake::start(Play { for_ever: true, ..play(vec![fault]) }).await.unwrap();
            let model = exchange().model(&spec(dialect, &fake, stream)).unwrap();
            let failed = ask(&model, &fake).await.reply.unwrap_err();
            assert_eq!(failed.kind, FaultKind::Truncated, "{dialect:?}");
            assert!(failed.usage.unwrap().input_tokens > 0, "{dialect:?}");
        }
        // An error answer has a status and cost nothing.
        let fault = Fault::named("unauthorized").unwrap();
        let fake = Fake::start(Play { for_ever: true, ..play(vec![fault]) }).await.unwrap();
        let model = exchange().model(&spec(Dialect::Chat, &fake, true)).unwrap();
        let failed = ask(&model, &fake).await.reply.unwrap_err();
        assert_eq!((failed.status, failed.usage), (Some(401), None));
    });
}

#[test]
fn a_stream_that_breaks_off_is_paid_for_as_far_as_it_was_counted() {
    block_on(async {
        // Anthropic counts what it has read before it says the first word.
        let fault = Fault::CutAt(700);
        let fake = Fake::start(Play { for_ever: true, ..play(vec![fault]) }).await.unwrap();
        let model = exchange().model(&spec(Dialect::Anthropic, &fake, true)).unwrap();
        let failed = ask(&model, &fake).await.reply.unwrap_err();
        assert_eq!(failed.kind, FaultKind::CutOff);
        assert!(failed.usage.expect("it was counted").input_tokens > 0);
    });
}

/// Some say in one breath that they failed and what it cost. Plain and streamed count alike.
#[test]
fn an_answer_that_fails_when_it_was_counted_is_paid_for() {
    let error = r#""error":{"code":"server_error","message":"Sorry."}"#;
    let tokens = r#""usage":{"input_tokens":7,"output_tokens":5}"#;
    let response = format!(r#"{{"status":"failed","output":[],{tokens},{error}}}"#);
    let event = format!(r#"{{"type":"response.failed","response":{response}}}"#);
    let chat = format!(r#"{{"usage":{{"prompt_tokens":7,"completion_tokens":5}},{error}}}"#);
    let counts = r#""usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":5}"#;
    let gemini = format!("{{{counts},{error}}}");
    let table = [
        (Dialect::Responses, response, event),
        (Dialect::Chat, chat.clone(), chat),
        (Dialect::Gemini, gemini.clone(), gemini),
    ];
    block_on(async {
        for (dialect, plain, event) in table {
            let stream = ("text/event-stream", format!("data: {event}\n\n"));
            for (kind, body) in [("application/json", plain), stream] {
                let body = body.into_bytes();
                let page = Fault::Page { status: 200, kind: kind.to_owned(), body };
                let fake = Fake::start(Play { for_ever: true, ..play(vec![page]) }).await.unwrap();
                let mut once = spec(dialect, &fake, kind.ends_with("stream"));
                once.retries.attempts_max = 1;
                let failed = ask(&exchange().model(&once).unwrap(), &fake).await.reply.unwrap_err();
                assert_eq!(failed.kind, FaultKind::Overloaded, "{dialect:?} {kind}");
                let paid = failed.usage.map(|paid| (paid.input_tokens, paid.output_tokens));
                assert_eq!(paid, Some((7, 5)), "{dialect:?} {kind}");
            }
        }
    });
}
