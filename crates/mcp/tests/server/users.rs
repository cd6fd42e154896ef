//! Where the operator trusts the users of clients, they say what a person must say: once, about
//! exactly what they saw, and nothing that is denied.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{Notify, watch};
use toolgate_mcp::server::{Principal, stdio};

use crate::stage::{Ask, Got, Ledger, Stage, gateway_with, told, until};

const FORMS: &str = r#"{ "elicitation": { "form": {} } }"#;

fn forms() -> Value {
    serde_json::from_str(FORMS).unwrap()
}

fn asked(word: &str) -> Value {
    json!({ "name": "asked", "arguments": { "word": word } })
}

/// A call of the newest revision by a client that can put a form before its user.
fn newest(ask: &Ask, mut params: Value) -> Ask {
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = forms();
    ask.clone().modern("tools/call", params)
}

fn yes() -> Value {
    json!({ "action": "accept", "content": { "run": true } })
}

fn code(got: &Got) -> Value {
    told(got).1["errors"][0]["code"].clone()
}

/// What a user may bring: what the call comes to then.
fn answers() -> Vec<(Value, &'static str)> {
    let (no, nobody) = ("APPROVAL_DENIED", "APPROVAL_PENDING");
    let accept = |content: Value| json!({ "action": "accept", "content": content });
    vec![
        (json!({ "action": "decline" }), no),
        (json!({ "action": "decline", "content": { "run": true } }), no),
        (accept(json!({ "run": false })), no),
        (json!({ "action": "cancel" }), nobody),
        (json!({ "action": "cancel", "content": { "run": true } }), nobody),
        (json!({ "action": "accept" }), nobody),
        (accept(json!({})), nobody),
        (accept(json!({ "run": "true" })), nobody),
        (accept(json!({ "run": 1 })), nobody),
        (accept(json!(true)), nobody),
        (json!({ "action": "ACCEPT", "content": { "run": true } }), nobody),
        (json!({ "content": { "run": true } }), nobody),
        (json!("accept"), nobody),
        (json!(null), nobody),
        (json!([yes()]), nobody),
    ]
}

/// A client of an older revision in the middle of a call, and what it was asked.
async fn questioned(visitor: &Ask, word: &str) -> (tokio::net::TcpStream, String, Value) {
    let mut stream = visitor.clone().rpc("tools/call", asked(word)).open().await;
    let mut held = String::new();
    until(&mut stream, &mut held, "requestedSchema").await;
    until(&mut stream, &mut held, "\n\n").await;
    let line = held.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let question = serde_json::from_str(line).unwrap();
    (stream, held, question)
}

async fn answer(visitor: &Ask, question: &Value, member: &str, value: Value) {
    let body = json!({ "jsonrpc": "2.0", "id": question["id"], member: value });
    assert_eq!(visitor.clone().raw(&body.to_string()).send().await.status, 202);
}

/// The rest of a call that was asked about.
async fn ended(mut stream: tokio::net::TcpStream, mut held: String) -> Got {
    until(&mut stream, &mut held, "\"isError\"").await;
    until(&mut stream, &mut held, "\r\n0\r\n").await;
    let mut got = Got::read(held.as_bytes());
    let last = got.events().pop().unwrap();
    got.body = last.to_string();
    got
}

#[tokio::test]
async fn a_user_of_an_older_client_is_asked_and_others_do_not_wait() {
    let stage = Stage::trusting(600_000).await;
    let token = stage.token("t", None);
    for (revision, mode) in [("2025-11-25", json!("form")), ("2025-06-18", Value::Null)] {
        let visitor = stage.visitor_who_can(stage.ask(&token), revision, forms()).await;
        let (stream, held, question) = questioned(&visitor, "a\u{202e}b\u{a0}c").await;
        assert_eq!(question["method"], "elicitation/create");
        let params = &question["params"];
        assert_eq!(params["mode"], mode);
        let message = params["message"].as_str().unwrap();
        for part in ["A person must see this.", "asked\n", "\"word\": \"a<U+202E>b<U+00A0>c\""] {
            assert!(message.contains(part), "{message}");
        }
        let field = &params["requestedSchema"]["properties"]["run"];
        assert_eq!((&field["type"], &field["default"]), (&json!("boolean"), &json!(false)));
        // Nothing ran yet, and everybody else goes on.
        let other = stage.ask(&stage.token("other", None));
        let got = other.modern("tools/call", json!({ "name": "record" })).send().await;
        assert!(!told(&got).0 && stage.done().is_empty());
        answer(&visitor, &question, "result", yes()).await;
        let got = ended(stream, held).await;
        assert!(!told(&got).0, "{}", got.body);
        assert_eq!(
            stage.ledger.lock().unwrap().drain(..).collect::<Vec<_>>(),
            ["asked a\u{202e}b\u{a0}c"]
        );
        // The word was for one call.
        let (stream, held, question) = questioned(&visitor, "a\u{202e}b\u{a0}c").await;
        answer(&visitor, &question, "result", json!({ "action": "decline" })).await;
        assert_eq!(code(&ended(stream, held).await), "APPROVAL_DENIED");
        assert!(stage.done().is_empty());
    }
}

#[tokio::test]
async fn whatever_is_no_clear_yes_of_an_older_client_runs_nothing() {
    let stage = Stage::trusting(600_000).await;
    let ask = stage.ask(&stage.token("t", None));
    let visitor = stage.visitor_who_can(ask, "2025-11-25", json!({ "elicitation": {} })).await;
    for (brought, wanted) in answers() {
        let (stream, held, question) = questioned(&visitor, "a").await;
        answer(&visitor, &question, "result", brought.clone()).await;
        assert_eq!(code(&ended(stream, held).await), wanted, "{brought}");
    }
    let (stream, held, question) = questioned(&visitor, "a").await;
    answer(&visitor, &question, "error", json!({ "code": -1, "message": "no" })).await;
    assert_eq!(code(&ended(stream, held).await), "APPROVAL_PENDING");
    // An answer to another question is none to this one.
    let (stream, held, question) = questioned(&visitor, "a").await;
    answer(&visitor, &json!({ "id": 9_999 }), "result", yes()).await;
    answer(&visitor, &question, "result", json!({ "action": "cancel" })).await;
    assert_eq!(code(&ended(stream, held).await), "APPROVAL_PENDING");
    // Whoever hangs up has said nothing.
    let (stream, _, question) = questioned(&visitor, "a").await;
    drop(stream);
    tokio::time::sleep(Duration::from_millis(100)).await;
    answer(&visitor, &question, "result", yes()).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(stage.done().is_empty());
}

#[tokio::test]
async fn a_user_of_the_newest_client_answers_with_the_next_request() {
    let stage = Stage::trusting(600_000).await;
    let ask = stage.ask(&stage.token("t", None));
    let first = newest(&ask, asked("a")).send().await.json();
    let first = &first["result"];
    assert_eq!(first["resultType"], "input_required");
    let question = &first["inputRequests"]["approval"];
    assert_eq!(question["method"], "elicitation/create");
    assert!(question["params"]["message"].as_str().unwrap().contains("\"word\": \"a\""));
    assert!(stage.done().is_empty());
    let again = |word: &str, responses: Value, state: &Value| {
        let mut params = asked(word);
        params["inputResponses"] = responses;
        params["requestState"] = state.clone();
        params
    };
    let state = &first["requestState"];
    // It was given to somebody else.
    let other = stage.ask(&stage.token("other", None));
    let stolen = newest(&other, again("a", json!({ "approval": yes() }), state)).send().await;
    assert_eq!(stolen.code(), -32602);
    let with = again("a", json!({ "approval": yes() }), state);
    let got = newest(&ask, with.clone()).send().await;
    assert!(!told(&got).0, "{}", got.body);
    assert_eq!(stage.done(), ["asked a"]);
    // It holds once.
    assert_eq!(newest(&ask, with).send().await.code(), -32602);
    for state in [json!("1.0"), json!("7"), json!(""), json!("x.y")] {
        let with = again("a", json!({ "approval": yes() }), &state);
        assert_eq!(newest(&ask, with).send().await.code(), -32602, "{state}");
    }
    // It holds for what was seen.
    let state = newest(&ask, asked("a")).send().await.json()["result"]["requestState"].clone();
    let got = newest(&ask, again("b", json!({ "approval": yes() }), &state)).send().await;
    assert_eq!(code(&got), "APPROVAL_PENDING");
    // And nobody is asked for ever.
    for (brought, wanted) in answers() {
        let first = newest(&ask, asked("a")).send().await.json();
        let state = &first["result"]["requestState"];
        let got = newest(&ask, again("a", json!({ "approval": brought }), state)).send().await;
        assert_eq!(code(&got), wanted, "{brought}");
    }
    let state = newest(&ask, asked("a")).send().await.json()["result"]["requestState"].clone();
    let got = newest(&ask, again("a", json!({ "other": yes() }), &state)).send().await;
    assert_eq!(code(&got), "APPROVAL_PENDING");
    assert_eq!(stage.done(), ["asked a"]);
}

#[tokio::test]
async fn a_word_that_comes_too_late_is_none() {
    let stage = Stage::trusting(300).await;
    let ask = stage.ask(&stage.token("t", None));
    let mut late = asked("a");
    let state = newest(&ask, asked("a")).send().await.json()["result"]["requestState"].clone();
    late["requestState"] = state;
    late["inputResponses"] = json!({ "approval": yes() });
    let visitor = stage.visitor_who_can(ask.clone(), "2025-11-25", forms()).await;
    let (stream, held, _) = questioned(&visitor, "a").await;
    assert_eq!(code(&ended(stream, held).await), "APPROVAL_PENDING");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(newest(&ask, late).send().await.code(), -32602);
    assert!(stage.done().is_empty());
}

#[tokio::test]
async fn what_is_denied_stays_denied_and_what_cannot_be_shown_is_not_asked() {
    let stage = Stage::trusting(600_000).await;
    let ask = stage.ask(&stage.token("t", None));
    let visitor = stage.visitor_who_can(ask.clone(), "2025-11-25", forms()).await;
    let long = "x".repeat(20_000);
    for (word, wanted) in [("never", "POLICY_DENIED"), (long.as_str(), "APPROVAL_PENDING")] {
        let got = newest(&ask, asked(word)).send().await;
        assert_eq!(code(&got), wanted);
        let got = visitor.clone().rpc("tools/call", asked(word)).send().await;
        assert_eq!(code(&got), wanted);
    }
    assert!(stage.done().is_empty());
}

#[tokio::test]
async fn without_trust_or_a_way_to_ask_nothing_is_different() {
    let url = json!({ "elicitation": { "url": {} } });
    for (stage, can) in [
        (Stage::new().await, forms()),
        (Stage::trusting(600_000).await, json!({})),
        (Stage::trusting(600_000).await, url),
        (Stage::trusting(600_000).await, json!({ "elicitation": true })),
    ] {
        let ask = stage.ask(&stage.token("t", None));
        let mut params = asked("a");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = can.clone();
        params["requestState"] = json!("1.x");
        params["inputResponses"] = json!({ "approval": yes() });
        let got = ask.clone().modern("tools/call", params).send().await;
        assert_eq!(code(&got), "APPROVAL_PENDING", "{can}");
        let visitor = stage.visitor_who_can(ask, "2025-11-25", can).await;
        let got = visitor.rpc("tools/call", asked("a")).send().await;
        assert_eq!(code(&got), "APPROVAL_PENDING");
        assert!(stage.done().is_empty());
    }
    let stage = Stage::trusting(600_000).await;
    let ask = stage.ask(&stage.token("t", None));
    // A revision without such questions, and a client that reads no events.
    let older = stage.visitor_who_can(ask.clone(), "2025-03-26", forms()).await;
    let got = older.rpc("tools/call", asked("a")).send().await;
    assert_eq!(code(&got), "APPROVAL_PENDING");
    let deaf = stage.visitor_who_can(ask, "2025-11-25", forms()).await;
    let deaf = deaf.without("Accept").header("Accept", "application/json");
    let got = deaf.rpc("tools/call", asked("a")).send().await;
    assert_eq!(code(&got), "APPROVAL_PENDING");
    assert!(stage.done().is_empty());
}

#[tokio::test]
async fn over_pipes_it_is_the_same_in_both_eras() {
    let (ledger, gate) = (Ledger::default(), Arc::new(Notify::new()));
    let gateway = gateway_with(&ledger, &gate, 600_000).await.trusting_users();
    let (mut to, input) = tokio::io::duplex(1 << 16);
    let (output, from) = tokio::io::duplex(1 << 16);
    let (_stop, stopped) = watch::channel(false);
    let principal = Arc::new(Principal { name: "stdio".into(), phase: None });
    let card = gateway.implementation();
    tokio::spawn(async move {
        let input = BufReader::new(input);
        stdio::serve(input, output, Arc::new(gateway), principal, &card, stopped).await.unwrap();
    });
    let mut from = BufReader::new(from).lines();
    let mut say = async |message: Value| {
        to.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        let line = tokio::time::timeout(Duration::from_secs(5), from.next_line());
        let line = line.await.unwrap().unwrap().unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    let request = |id: u64, method: &str, params: &Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": forms() });
    say(request(1, "initialize", &hello)).await;
    let question = say(request(2, "tools/call", &asked("old"))).await;
    assert_eq!(question["method"], "elicitation/create");
    let reply = json!({ "jsonrpc": "2.0", "id": question["id"], "result": yes() });
    let got = say(reply).await;
    assert_eq!((&got["id"], &got["result"]["isError"]), (&json!(2), &json!(false)));
    let mut params = asked("new");
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": forms(),
    });
    let first = say(request(3, "tools/call", &params)).await;
    assert_eq!(first["result"]["resultType"], "input_required");
    params["requestState"] = first["result"]["requestState"].clone();
    params["inputResponses"] = json!({ "approval": yes() });
    let got = say(request(4, "tools/call", &params)).await;
    assert_eq!(got["result"]["isError"], false, "{got}");
    assert_eq!(*ledger.lock().unwrap(), ["asked old", "asked new"]);
}
