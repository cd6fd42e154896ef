//! The provider rows of the fault matrix, in every dialect, plain and streamed, over real sockets.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;
use toolgate_kernel::config::Transform;
use toolgate_kernel::event::{FaultKind, Finish};
use toolgate_kernel::fold::Turn;
use toolgate_runtime::port::{Desk, Provider, ProviderFault};
use toolgate_testkit::fake::{Fake, Fault, Play};
use toolgate_wire::dialect::Dialect;
use toolgate_wire::transform::Transforms;

use crate::provider::{Came, KEY, ask, asked, block_on, exchange, plan, play, spec};

/// What must come of a fault.
#[derive(Debug, Clone, Copy)]
enum Comes {
    /// A reply with so many calls, after so many requests.
    Reply(Finish, usize, usize),
    /// A fault of a kind, after so many requests.
    Fault(FaultKind, usize),
    /// The same when it was plain, and when it was streamed.
    Each((FaultKind, usize), (FaultKind, usize)),
    /// Four times this took too long, and nothing else did.
    Waited(&'static str),
}

const ALL: &[Dialect] = &Dialect::ALL;
const CHAT: &[Dialect] = &[Dialect::Chat];
const ANTHROPIC: &[Dialect] = &[Dialect::Anthropic];
const GEMINI: &[Dialect] = &[Dialect::Gemini];

/// How long a fault goes on, for which dialects it is staged, and what must come of it.
#[rustfmt::skip]
const TABLE: &[(&str, bool, &[Dialect], Comes)] = {
    use Comes::{Each, Fault, Reply, Waited};
    use FaultKind as K;
    use Finish::{Calls, Paused, Refused};
    &[
        ("none", false, ALL, Reply(Calls, 2, 1)),
        ("rate_limited", false, ALL, Reply(Calls, 2, 2)),
        ("rate_limited", true, ALL, Fault(K::RateLimited, 4)),
        ("rate_limited_garbage", false, ALL, Reply(Calls, 2, 2)),
        ("rate_limited_long", true, ALL, Fault(K::RateLimited, 1)),
        ("rate_limited_date", true, ALL, Fault(K::RateLimited, 1)),
        ("billing", true, ALL, Fault(K::Billing, 1)),
        ("spend_limit", true, ALL, Fault(K::Billing, 1)),
        ("payment", true, ALL, Fault(K::Billing, 1)),
        ("overloaded", false, ALL, Reply(Calls, 2, 2)),
        ("overloaded", true, ALL, Fault(K::Overloaded, 4)),
        ("unavailable", true, ALL, Fault(K::Overloaded, 4)),
        ("server_error", true, ALL, Fault(K::Overloaded, 4)),
        ("html", false, ALL, Reply(Calls, 2, 2)),
        ("html", true, ALL, Fault(K::Overloaded, 4)),
        ("unauthorized", true, ALL, Fault(K::Unauthorized, 1)),
        ("forbidden", true, ALL, Fault(K::Unauthorized, 1)),
        ("not_found", true, ALL, Fault(K::NotFound, 1)),
        ("bad_request", true, ALL, Fault(K::BadRequest, 1)),
        ("too_large", true, ALL, Fault(K::TooLarge, 1)),
        ("flat_too_large", true, ALL, Fault(K::TooLarge, 1)),
        ("flat_too_large_200", true, ALL, Fault(K::TooLarge, 1)),
        ("detail_200", true, ALL, Fault(K::BadRequest, 1)),
        ("plain_too_large", true, ALL, Fault(K::TooLarge, 1)),
        ("failed_call", false, CHAT, Reply(Calls, 2, 2)),
        ("failed_call", true, CHAT, Fault(K::MalformedCall, 2)),
        ("failed_call_event", true, CHAT, Fault(K::MalformedCall, 2)),
        ("wrong_key", true, GEMINI, Fault(K::Unauthorized, 1)),
        ("close", false, ALL, Reply(Calls, 2, 2)),
        ("close", true, ALL, Fault(K::CutOff, 4)),
        ("silence", true, ALL, Waited("the first byte of the answer took more than 41 ms")),
        ("stall", true, ALL, Waited("the next byte of the answer took more than 42 ms")),
        ("drip", true, ALL, Waited("the whole request took more than 120 ms")),
        ("pings", true, ALL, Waited("the whole request took more than 120 ms")),
        ("cut", false, ALL, Reply(Calls, 2, 2)),
        ("cut", true, ALL, Fault(K::CutOff, 4)),
        ("redirect", true, ALL, Fault(K::Redirected, 1)),
        ("html_200", true, ALL, Fault(K::Unreadable, 2)),
        ("bad_utf8", true, ALL, Fault(K::Unreadable, 2)),
        ("empty", true, ALL, Fault(K::Unreadable, 2)),
        ("error_200", true, ALL, Fault(K::Overloaded, 4)),
        ("error_event", false, ALL, Reply(Calls, 2, 2)),
        ("error_event", true, ALL, Fault(K::Overloaded, 4)),
        ("no_calls", false, &[Dialect::Chat, Dialect::Anthropic], Reply(Calls, 2, 2)),
        ("no_calls", true, &[Dialect::Chat, Dialect::Anthropic], Fault(K::NoCalls, 2)),
        ("stop_with_calls", true, ALL, Reply(Calls, 2, 1)),
        ("truncated", true, ALL, Fault(K::Truncated, 2)),
        ("context_exceeded", true, ALL, Fault(K::Truncated, 2)),
        ("malformed_call", true, GEMINI, Fault(K::MalformedCall, 2)),
        ("unexpected_call", true, GEMINI, Fault(K::MalformedCall, 2)),
        ("filtered", true, ALL, Reply(Refused, 0, 1)),
        ("filtered_half_way", true, ALL, Reply(Refused, 0, 1)),
        ("refused", true, ALL, Reply(Refused, 0, 1)),
        ("blocked", true, GEMINI, Fault(K::Filtered, 1)),
        ("paused", true, ANTHROPIC, Reply(Paused, 0, 1)),
        ("unknown_finish", true, ALL, Fault(K::UnknownFinish, 1)),
        ("empty_choices", true, CHAT, Each((K::Unreadable, 2), (K::CutOff, 4))),
        ("duplicate_ids", true, ALL, Reply(Calls, 2, 1)),
        ("blank_ids", true, ALL, Reply(Calls, 2, 1)),
        ("long_ids", true, ALL, Reply(Calls, 2, 1)),
        ("shared_index", true, CHAT, Reply(Calls, 2, 1)),
        ("index_from_one", true, CHAT, Reply(Calls, 2, 1)),
        ("repeated_name", true, CHAT, Reply(Calls, 2, 1)),
        ("double_finish", true, CHAT, Reply(Calls, 2, 1)),
        ("bad_args", true, CHAT, Reply(Calls, 2, 1)),
        ("huge_args", true, ALL, Reply(Calls, 2, 1)),
        ("deep_args", true, ALL, Reply(Calls, 2, 1)),
        ("deep_object", true, ALL, Reply(Calls, 2, 1)),
        ("events_as_json", true, ALL, Reply(Calls, 2, 1)),
        ("usage_lie", true, ALL, Reply(Calls, 2, 1)),
    ]
};

async fn came(name: &str, for_ever: bool, dialect: Dialect, stream: bool) -> Came {
    let fault = Fault::named(name).unwrap();
    let fake = Fake::start(Play { for_ever, ..play(vec![fault]) }).await.unwrap();
    let mut spec = spec(dialect, &fake, stream);
    // Each has one timer that can fire; the others are far away.
    match name {
        "silence" => spec.patience.first_byte_ms_max = Some(41),
        "stall" => spec.patience.idle_ms_max = Some(42),
        "drip" | "pings" => {
            spec.patience.request_ms_max = Some(120);
            // By themselves they are half the whole, and all of it: too near on a busy machine.
            spec.patience.idle_ms_max = Some(60_000);
            spec.patience.first_byte_ms_max = Some(60_000);
        }
        _ => {}
    }
    let model = exchange().model(&spec).unwrap();
    ask(&model, &fake).await
}

/// What is wrong with how a fault came out.
fn wrong(came: &Came, comes: Comes, stream: bool) -> Option<String> {
    let requests = came.seen.len();
    let failed = |fault: &ProviderFault, kind, wanted| {
        fault.kind == kind && fault.attempts.len() + 1 == wanted && requests == wanted
    };
    let right = match (&came.reply, comes) {
        (Ok(reply), Comes::Reply(finish, calls, wanted)) => {
            // A provider without ids needs none; those that are given are told apart.
            let ids: Vec<_> = reply.calls.iter().filter_map(|call| call.alias.as_ref()).collect();
            let distinct = ids.iter().collect::<BTreeSet<_>>().len() == ids.len();
            reply.finish == finish
                && reply.calls.len() == calls
                && distinct
                && reply.calls.iter().all(|call| call.name == "read")
                && reply.attempts.len() + 1 == wanted
                && requests == wanted
        }
        (Err(fault), Comes::Fault(kind, wanted)) => failed(fault, kind, wanted),
        (Err(fault), Comes::Each(plain, streamed)) => {
            let (kind, wanted) = if stream { streamed } else { plain };
            failed(fault, kind, wanted)
        }
        (Err(fault), Comes::Waited(what)) => {
            let reasons = fault.attempts.iter().map(|attempt| &attempt.reason);
            failed(fault, FaultKind::TimedOut, 4)
                && reasons.chain([&fault.reason]).all(|reason| reason == what)
        }
        (Ok(_), _) | (Err(_), _) => false,
    };
    if !right {
        return Some(format!("{requests} requests, {:?}", came.reply));
    }
    if let Some(refusal) = came.seen.iter().find_map(|seen| seen.refusal.as_ref()) {
        return Some(format!("the provider refuses the request: {refusal}"));
    }
    let told = came.told();
    (told.contains(KEY) || told.contains("CANARY")).then(|| format!("a secret: {told}"))
}

/// `FAULT=drip` stages one alone.
#[test]
fn every_fault_of_a_provider_comes_out_as_the_matrix_says() {
    let only = std::env::var("FAULT").unwrap_or_default();
    let mut complaints = Vec::new();
    for (name, for_ever, dialects, comes) in TABLE.iter().filter(|(name, ..)| name.contains(&only))
    {
        for dialect in *dialects {
            for stream in [false, true] {
                let came = block_on(came(name, *for_ever, *dialect, stream));
                if let Some(wrong) = wrong(&came, *comes, stream) {
                    let how = if stream { "streamed" } else { "plain" };
                    complaints.push(format!(
                        "{name} ({for_ever}), {}, {how}: should be {comes:?}, and is {wrong}",
                        dialect.as_str()
                    ));
                }
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Nobody asks again before the time that the server wants, in whichever way it says so.
#[test]
fn a_server_that_wants_time_gets_it() {
    let limited = || Fault::status(429, "rate_limit_error");
    let cases = [("retry-after", "1", 1_000), ("retry-after-ms", "300", 300)];
    let asking = Dialect::ALL.into_iter().flat_map(|dialect| {
        cases.map(|(name, value, ms)| async move {
            let fake = Fake::start(play(vec![limited().with(name, value)])).await.unwrap();
            let model = exchange().model(&spec(dialect, &fake, false)).unwrap();
            let began = tokio::time::Instant::now();
            let came = ask(&model, &fake).await;
            let took = began.elapsed().as_millis();
            let reply = came.reply.unwrap();
            assert_eq!(came.seen.len(), 2, "{dialect:?} {name}");
            assert!(reply.attempts[0].waited_ms >= ms, "{dialect:?} {name}: {reply:?}");
            assert!(took >= u128::from(ms), "{dialect:?} {name}: {took} ms");
        })
    });
    block_on(futures_util::future::join_all(asking));
}

/// The words before a break are kept as what they are, and are void for whoever sees them.
#[test]
fn a_stream_that_breaks_is_void_and_its_words_are_kept_apart() {
    block_on(async {
        for dialect in Dialect::ALL {
            let good = Fake::start(play(vec![])).await.unwrap();
            let model = exchange().model(&spec(dialect, &good, true)).unwrap();
            assert_eq!(ask(&model, &good).await.streamed, "Let me look at both.");
            // Cut behind the first words, wherever those stand in this dialect.
            let fake = Fake::start(Play { for_ever: true, ..play(vec![cut(dialect)]) }).await;
            let fake = fake.unwrap();
            let model = exchange().model(&spec(dialect, &fake, true)).unwrap();
            let came = ask(&model, &fake).await;
            let fault = came.reply.unwrap_err();
            assert_eq!(fault.kind, FaultKind::CutOff, "{dialect:?}");
            assert!("Let me look at both.".starts_with(&fault.partial), "{fault:?}");
            assert!(!fault.partial.is_empty(), "{dialect:?}: {fault:?}");
            assert_eq!(came.streamed.matches('!').count(), 3, "{}", came.streamed);
        }
    });
}

/// Words that wait because they may be a call are shown when nobody will read them as one.
#[test]
fn what_was_held_back_is_shown_when_the_stream_breaks() {
    let words = "So: <tool_call>{\"name\"";
    let body = format!("data: {}\n\n", json!({ "choices": [{ "delta": { "content": words } }] }));
    let (kind, body) = ("text/event-stream".to_owned(), body.into_bytes());
    let page = Fault::Page { status: 200, kind, body };
    block_on(async {
        let fake = Fake::start(Play { for_ever: true, ..play(vec![page]) }).await.unwrap();
        let mut spec = spec(Dialect::Chat, &fake, true);
        let printed = Transform::PrintedHermes;
        spec.options.transforms = Transforms::parse([(printed.kind(), printed.name())]).unwrap();
        spec.retries.attempts_max = 1;
        let came = ask(&exchange().model(&spec).unwrap(), &fake).await;
        assert_eq!(came.streamed, words);
        assert_eq!(came.reply.unwrap_err().partial, words);
    });
}

fn cut(dialect: Dialect) -> Fault {
    Fault::CutAt(match dialect {
        Dialect::Chat => 500,
        Dialect::Responses => 1_700,
        Dialect::Anthropic => 700,
        Dialect::Gemini => 500,
    })
}

/// A reply that ran out of room is asked for once more, with twice the room.
#[test]
fn a_reply_without_room_is_asked_for_again_with_twice_the_room() {
    block_on(async {
        for dialect in Dialect::ALL {
            let fake = Fake::start(play(vec![Fault::named("truncated").unwrap()])).await.unwrap();
            let model = exchange().model(&spec(dialect, &fake, false)).unwrap();
            let came = ask(&model, &fake).await;
            let room = |body: &serde_json::Value| {
                let text = body.to_string();
                (text.contains("1000"), text.contains("2000"))
            };
            let rooms: Vec<_> = came.seen.iter().map(|seen| room(&seen.body)).collect();
            assert_eq!(rooms, [(true, false), (false, true)], "{dialect:?}");
            assert_eq!(came.reply.unwrap().attempts[0].fault, FaultKind::Truncated);
        }
        // Overrides are laid over every request, so the bound is raised among them too.
        for (dialect, overrides) in [
            (Dialect::Chat, json!({"max_completion_tokens": 500})),
            (Dialect::Responses, json!({"max_output_tokens": 500})),
            (Dialect::Anthropic, json!({"max_tokens": 500})),
            (Dialect::Gemini, json!({"generationConfig": {"maxOutputTokens": 500}})),
        ] {
            let fake = Fake::start(play(vec![Fault::named("truncated").unwrap()])).await.unwrap();
            let mut spec = spec(dialect, &fake, false);
            spec.options.output_tokens_max = None;
            spec.options.request_overrides = overrides.as_object().unwrap().clone();
            let came = ask(&exchange().model(&spec).unwrap(), &fake).await;
            let rooms: Vec<bool> =
                came.seen.iter().map(|seen| seen.body.to_string().contains("1000")).collect();
            assert_eq!(rooms, [false, true], "{dialect:?}");
        }
    });
}

/// Without money nobody is asked again: not now, not in the next turn, not by another model of it.
#[test]
fn a_provider_without_money_is_left_alone() {
    block_on(async {
        let fault = Fault::named("billing").unwrap();
        let fake = Fake::start(Play { for_ever: true, ..play(vec![fault]) }).await.unwrap();
        let exchange = exchange();
        let (first, second) = (spec(Dialect::Chat, &fake, false), spec(Dialect::Chat, &fake, true));
        let (first, second) = (exchange.model(&first).unwrap(), exchange.model(&second).unwrap());
        assert_eq!(ask(&first, &fake).await.reply.unwrap_err().kind, FaultKind::Billing);
        for model in [&first, &second] {
            let came = ask(model, &fake).await;
            let fault = came.reply.unwrap_err();
            assert_eq!(fault.kind, FaultKind::CircuitOpen);
            // The clock of the tests stands at the begin of 2026, and money takes five minutes.
            assert!(fault.reason.contains("2026-01-01T00:0"), "{}", fault.reason);
            assert_eq!(came.seen.len(), 1, "nobody asked again");
        }
    });
}

/// An answer that broke off is told apart from one that never was an answer.
#[test]
fn half_an_answer_is_no_wrong_address() {
    block_on(async {
        for (name, words) in [("end", "no whole JSON"), ("empty", "does base_url lead")] {
            let fault = Fault::named(name).unwrap();
            let fake = Fake::start(Play { for_ever: true, ..play(vec![fault]) }).await.unwrap();
            let model = exchange().model(&spec(Dialect::Anthropic, &fake, false)).unwrap();
            let fault = ask(&model, &fake).await.reply.unwrap_err();
            assert_eq!(fault.kind, FaultKind::Unreadable, "{fault}");
            assert!(fault.reason.contains(words), "{fault}");
        }
    });
}

/// One that keeps failing is left alone: whoever stands in answers at once, and the fault says for
/// how long nobody else does.
#[test]
fn a_provider_that_keeps_failing_is_left_alone() {
    block_on(async {
        let fault = Fault::named("overloaded").unwrap();
        let broken = Fake::start(Play { for_ever: true, ..play(vec![fault]) }).await.unwrap();
        let exchange = exchange();
        let mut alone = spec(Dialect::Chat, &broken, true);
        alone.retries.attempts_max = 2;
        let model = exchange.model(&alone).unwrap();
        for opens in [false, false, true] {
            let fault = ask(&model, &broken).await.reply.unwrap_err();
            assert_eq!(fault.kind, FaultKind::Overloaded, "{fault}");
            assert_eq!(fault.reason.contains("left alone until 2026-01-01"), opens, "{fault}");
            assert_eq!(model.rest_ms().is_some_and(|ms| ms > 20_000), opens);
        }
        let asked = broken.seen().len();
        let fault = ask(&model, &broken).await.reply.unwrap_err();
        assert_eq!(fault.kind, FaultKind::CircuitOpen);
        let working = Fake::start(play(vec![])).await.unwrap();
        alone.fallback = vec![spec(Dialect::Anthropic, &working, true)];
        let reply = ask(&exchange.model(&alone).unwrap(), &working).await.reply.unwrap();
        assert_eq!(reply.attempts[0].fault, FaultKind::CircuitOpen);
        assert_eq!((asked, broken.seen().len()), (6, 6), "nobody asked it again");
    });
}

/// A model that is named stands in for one that cannot be used, and the log says who answered.
#[test]
fn another_model_stands_in_only_when_it_is_named() {
    block_on(async {
        for (name, stands_in) in [("overloaded", true), ("billing", true), ("bad_request", false)] {
            let fault = Fault::named(name).unwrap();
            let broken = Fake::start(Play { for_ever: true, ..play(vec![fault]) }).await.unwrap();
            let working = Fake::start(play(vec![])).await.unwrap();
            let mut first = spec(Dialect::Chat, &broken, true);
            first.fallback = vec![spec(Dialect::Anthropic, &working, true)];
            first.fallback[0].name = "fake:other".to_owned();
            let came = ask(&exchange().model(&first).unwrap(), &broken).await;
            assert_eq!(working.seen().len(), usize::from(stands_in), "{name}");
            match came.reply {
                Ok(reply) => {
                    assert_eq!(reply.model.as_deref(), Some("fake:other"), "{name}");
                    assert_eq!(reply.attempts.len(), came.seen.len(), "{name}");
                }
                Err(fault) => assert!(!stands_in, "{name}: {fault:?}"),
            }
        }
    });
}

/// A thought is sealed for the model that had it, at the address where it did: nobody else is sent
/// it, and it itself gets it back.
#[test]
fn a_sealed_thought_goes_back_to_who_had_it_and_to_nobody_else() {
    block_on(async {
        let thinks = Fault::named("call_in_thoughts").unwrap();
        let first = Fake::start(play(vec![thinks])).await.unwrap();
        let second = Fake::start(play(vec![])).await.unwrap();
        let exchange = exchange();
        let model = |fake: &Fake, name: &str| {
            let mut spec = spec(Dialect::Anthropic, fake, true);
            spec.options.model = name.to_owned();
            exchange.model(&spec).unwrap()
        };
        let reply = ask(&model(&first, "model"), &first).await.reply.unwrap();
        let mut plan = plan();
        plan.turns.push_back(Arc::new(Turn {
            number: 1,
            notes: Default::default(),
            images: Default::default(),
            text: reply.text.into(),
            calls: Arc::new([]),
            told: Default::default(),
            finish: reply.finish,
            native: reply.native.map(Arc::new),
        }));
        plan.feedback = vec!["Go on.".into()];
        for (fake, name, sealed) in
            [(&first, "model", true), (&second, "model", false), (&first, "other", false)]
        {
            let came = asked(&model(fake, name), &plan, &mut Desk::default()).await;
            came.reply.unwrap();
            let sent = fake.seen().last().unwrap().body.to_string();
            assert_eq!(sent.contains("c2ln"), sealed, "{name}: {sent}");
            assert!(sent.contains("Let me look at both."), "{name}: {sent}");
        }
    });
}

/// A model that hangs uses up its own time, and not that of the one that stands in for it.
#[test]
fn a_model_that_hangs_leaves_time_for_the_one_that_stands_in() {
    block_on(async {
        let silence = Fault::named("silence").unwrap();
        let hanging = Fake::start(Play { for_ever: true, ..play(vec![silence]) }).await.unwrap();
        let working = Fake::start(play(vec![])).await.unwrap();
        let mut first = spec(Dialect::Chat, &hanging, true);
        first.turn_ms_max = 200;
        first.fallback = vec![spec(Dialect::Gemini, &working, true)];
        let model = exchange().model(&first).unwrap();
        let came = ask(&model, &hanging).await;
        let attempts = came.reply.unwrap().attempts;
        assert_eq!(attempts.len(), 1);
        // The bound that was reached is named, and not that of a request.
        let told = "the turn took more than 200 ms (limits.turn_ms_max)";
        assert_eq!(attempts[0].reason, told);
        assert!(model.turn_ms_max() > Some(200 + first.fallback[0].turn_ms_max));
        first.fallback[0].turn_ms_max = 0;
        assert!(exchange().model(&first).is_err(), "zero is no limit");
    });
}

/// Connections are used again, also after an error that was read to its end.
#[test]
fn requests_share_a_connection() {
    block_on(async {
        for (stream, dialect) in Dialect::ALL.into_iter().flat_map(|d| [(false, d), (true, d)]) {
            let faults = vec![Fault::None, Fault::named("rate_limited").unwrap(), Fault::None];
            let fake = Fake::start(play(faults)).await.unwrap();
            let model = exchange().model(&spec(dialect, &fake, stream)).unwrap();
            for _ in 0..5 {
                ask(&model, &fake).await.reply.unwrap();
            }
            assert_eq!(fake.connections(), 1, "{dialect:?} {stream}");
        }
    });
}

/// Nobody at the address: tried again, told in a sentence.
#[test]
fn nobody_there_is_told_in_a_sentence() {
    block_on(async {
        let fake = Fake::start(play(vec![])).await.unwrap();
        let spec = spec(Dialect::Chat, &fake, false);
        let model = exchange().model(&spec).unwrap();
        let gone = Fake::start(play(vec![])).await.unwrap();
        drop(fake);
        tokio::task::yield_now().await;
        let fault = ask(&model, &gone).await.reply.unwrap_err();
        assert_eq!((fault.kind, fault.attempts.len()), (FaultKind::Unreachable, 3), "{fault:?}");
        assert!(fault.reason.contains("is the server running?"), "{}", fault.reason);
    });
}
