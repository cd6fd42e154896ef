//! Decides that the same case means the same in every dialect.

use std::sync::Mutex;

use serde_json::Value;
use toolgate_kernel::event::Finish;
use toolgate_kernel::plan::Plan;
use toolgate_runtime::port::{Reply, Streamed};
use toolgate_wire::assemble::Page;
use toolgate_wire::dialect::rules::{Transcript, broken};
use toolgate_wire::dialect::{Dialect, Options, Request};

use crate::case::{Case, cases, dialects, file, folder};
use crate::play::{plain, streamed, tapped};

/// Every case in every dialect that has it.
fn each(mut look: impl FnMut(&str, &Case, Dialect)) {
    for (name, case) in &cases() {
        for dialect in dialects() {
            if !case.without.contains_key(dialect.as_str()) {
                look(&format!("{name}/{}", dialect.as_str()), case, dialect);
            }
        }
    }
}

fn part(at: &str, dialect: Dialect, ending: &str) -> String {
    let name = at.split('/').next().unwrap();
    file(name, dialect, ending).unwrap_or_else(|| panic!("{at}.{ending} is missing"))
}

fn arguments(text: &str) -> Value {
    match text.trim() {
        "" => serde_json::json!({}),
        text => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
    }
}

fn check(at: &str, case: &Case, reply: &Reply) {
    let said = case.reply.as_ref().unwrap();
    assert_eq!(reply.text, said.text, "{at}");
    let natural = if said.calls.is_empty() { Finish::Stop } else { Finish::Calls };
    assert_eq!(reply.finish, said.finish.unwrap_or(natural), "{at}");
    assert_eq!(reply.usage, said.usage, "{at}");
    let calls = |name: &str, args: Value| (name.to_owned(), args);
    let heard: Vec<_> = reply.calls.iter().map(|c| calls(&c.name, arguments(&c.args))).collect();
    let wanted: Vec<_> = said.calls.iter().map(|c| calls(&c.name, c.args.clone())).collect();
    assert_eq!(heard, wanted, "{at}");
    let mut ids: Vec<&str> = reply.calls.iter().filter_map(|c| c.alias.as_deref()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), reply.calls.len(), "{at}: ids are there and differ");
}

#[test]
fn plain_and_streamed_answers_say_what_the_case_says() {
    each(|at, case, dialect| {
        let whole = plain(dialect, &part(at, dialect, "reply.json"));
        let stream = part(at, dialect, "stream");
        let words = Mutex::new(String::new());
        let pieces = tapped(dialect, stream.as_bytes(), &|piece| {
            if let Streamed::Text(text) = piece {
                words.lock().unwrap().push_str(text);
            }
        });
        match (&case.fault, whole, pieces) {
            (Some(kind), Err(whole), Err(pieces)) => {
                assert_eq!((whole.kind, pieces.kind), (*kind, *kind), "{at}: {whole} / {pieces}");
            }
            (None, Ok(whole), Ok(pieces)) => {
                check(at, case, &whole);
                assert_eq!(pieces, whole, "{at}: streamed and plain");
                assert_eq!(words.into_inner().unwrap(), whole.text, "{at}: the words as they came");
            }
            (_, whole, pieces) => panic!("{at}: {whole:?}\n{pieces:?}"),
        }
    });
}

#[test]
fn a_stream_in_other_line_ends_says_the_same() {
    each(|at, _, dialect| {
        let stream = part(at, dialect, "stream");
        let told = streamed(dialect, stream.as_bytes());
        for end in ["\r\n", "\r"] {
            let other = stream.replace('\n', end);
            assert_eq!(streamed(dialect, other.as_bytes()), told, "{at}");
        }
    });
}

#[test]
fn requests_are_as_written_down_and_keep_the_rules() {
    each(|at, case, dialect| {
        let (plan, options) = (case.plan(), case.options());
        let request = dialect.encode(&plan, &options);
        golden(at, dialect, "request.json", &request);
        kept(at, dialect, &request, &plan, &options);
        if case.fault.is_none() {
            let reply = plain(dialect, &part(at, dialect, "reply.json")).unwrap();
            let plan = case.next_plan(&reply);
            let request = dialect.encode(&plan, &options);
            golden(at, dialect, "next.json", &request);
            kept(at, dialect, &request, &plan, &options);
        }
    });
}

/// What is sent is put together from bytes that were written before, and is what encoding gives.
#[test]
fn what_is_sent_is_byte_for_byte_what_encoding_gives() {
    let same = |at: &str, page: &mut Page, dialect: Dialect, plan: &Plan, options: &Options| {
        let sent = page.request(dialect, plan, options).unwrap();
        let whole = dialect.encode(plan, options);
        let sent_text = std::str::from_utf8(&sent.body).unwrap();
        assert_eq!(sent_text, serde_json::to_string(&whole.body).unwrap(), "{at}");
        assert_eq!(*sent.path, whole.path, "{at}");
    };
    each(|at, case, dialect| {
        let (plan, options) = (case.plan(), case.options());
        let mut page = Page::default();
        // Turn by turn, as a session grows; the end of the plan comes with its last turn.
        for length in 0..plan.turns.len() {
            let turns = plan.turns.iter().take(length).cloned().collect();
            same(at, &mut page, dialect, &Plan { turns, ..plan.clone() }, &options);
        }
        same(at, &mut page, dialect, &plan, &options);
        if case.fault.is_none() {
            let reply = plain(dialect, &part(at, dialect, "reply.json")).unwrap();
            let next = case.next_plan(&reply);
            same(at, &mut page, dialect, &next, &options);
            // And one that shows no tool any more.
            let toolless = Plan { tools: Vec::new(), ..next };
            same(at, &mut page, dialect, &toolless, &options);
        }
    });
}

/// The request keeps the rules, whole and as it grows, and its turns never change.
fn kept(at: &str, dialect: Dialect, request: &Request, plan: &Plan, options: &Options) {
    assert_eq!(broken(dialect, &request.body), None, "{at}");
    let frame = dialect.frame(plan, options);
    let mut transcript = Transcript::new(dialect);
    let mut messages = dialect.opening(plan, options);
    assert_eq!(transcript.add(&messages), None, "{at}");
    let mut before = None;
    for turn in &plan.turns {
        let more = dialect.turn(before, turn, plan, options);
        assert_eq!(transcript.add(&more), None, "{at}");
        messages.extend(more);
        before = Some(turn.as_ref());
    }
    let closing = dialect.closing(plan, options);
    assert_eq!(transcript.end(&closing, &frame.body), None, "{at}");
    messages.extend(closing);
    let put_together = frame.filled(messages);
    let text = |body| serde_json::to_string(body).unwrap();
    assert_eq!(text(&put_together.body), text(&request.body), "{at}");
}

/// Compares with the file, or writes it when `UPDATE` is set.
fn golden(at: &str, dialect: Dialect, ending: &str, request: &Request) {
    let shown = serde_json::json!({ "path": request.path, "body": request.body });
    let text = format!("{}\n", serde_json::to_string_pretty(&shown).unwrap());
    let name = at.split('/').next().unwrap();
    if std::env::var_os("UPDATE").is_some() {
        let path = folder().join(name).join(format!("{}.{ending}", dialect.as_str()));
        std::fs::write(path, text).unwrap();
        return;
    }
    assert_eq!(text, part(at, dialect, ending), "{at}.{ending}: UPDATE=1 writes it anew");
}

/// What one request shows at its end, the next one shows in the same place.
#[test]
fn a_request_is_the_begin_of_the_next() {
    each(|at, case, dialect| {
        if case.fault.is_some() {
            return;
        }
        let reply = plain(dialect, &part(at, dialect, "reply.json")).unwrap();
        let key = dialect.frame(&case.plan(), &case.options()).key;
        let messages = |plan: &toolgate_kernel::plan::Plan| {
            let body = dialect.encode(plan, &case.options()).body;
            body[key].as_array().unwrap().clone()
        };
        let (first, next) = (messages(&case.plan()), messages(&case.next_plan(&reply)));
        assert_eq!(first, next[..first.len()], "{at}");
    });
}

#[test]
fn every_case_says_what_it_shows() {
    assert!(cases().iter().all(|(_, case)| case.about.ends_with('.')));
    for (name, case) in cases() {
        for dialect in case.without.keys() {
            let known = Dialect::ALL.iter().any(|known| known.as_str() == dialect);
            assert!(known, "{name}: there is no dialect {dialect:?}");
        }
    }
}

#[test]
fn a_model_is_asked_for_what_it_takes() {
    let (plan, options) = (cases().remove(0).1.plan(), Options::default());
    let frame = |dialect: Dialect, model: &str| {
        let (model, tokens) = (model.to_owned(), Some(9));
        dialect.frame(&plan, &Options { model, output_tokens_max: tokens, ..options.clone() }).body
    };
    for (model, thinks) in [
        ("gpt-5-mini", true),
        ("openai/o3", true),
        ("gpt-4o", false),
        ("gpt-5-chat-latest", false),
        ("olmo-2", false),
    ] {
        let chat = frame(Dialect::Chat, model);
        assert_eq!(chat.contains_key("max_completion_tokens"), thinks, "{model}");
        assert_eq!(chat.contains_key("max_tokens"), !thinks, "{model}");
        let responses = frame(Dialect::Responses, model);
        assert_eq!(responses.contains_key("include"), thinks, "{model}");
    }
}

#[test]
fn a_stream_is_asked_for_only_where_the_model_can() {
    let plan = cases().remove(0).1.plan();
    let mut options = Options { stream: true, ..Options::default() };
    let chat = Dialect::Chat.frame(&plan, &options).body;
    assert_eq!(chat["stream"], true);
    assert_eq!(chat["stream_options"]["include_usage"], true);
    assert_eq!(Dialect::Responses.frame(&plan, &options).body["stream"], true);
    options.capabilities.streaming = false;
    assert!(!Dialect::Chat.frame(&plan, &options).body.contains_key("stream"));
}
