//! What becomes of calls: results, refusals, questions, progress, cancellation, two clients.

use std::time::Duration;

use serde_json::json;

use crate::stage::{Stage, told, until};

#[tokio::test]
async fn results_and_refusals_are_told_so_that_a_model_can_do_better() {
    let stage = Stage::new().await;
    let ask = stage.ask(&stage.token("t", None));
    let call = async |name: &str, arguments: serde_json::Value| {
        let params = json!({ "name": name, "arguments": arguments });
        ask.clone().modern("tools/call", params).send().await
    };
    let got = call("record", json!({})).await;
    let result = &got.json()["result"];
    assert_eq!(result["structuredContent"], json!({ "n": 42 }));
    assert_eq!(told(&got).1["data"], json!({ "n": 42 }));
    assert!(told(&got).1["receipt"].as_str().unwrap().starts_with("rcpt_"));
    for (name, arguments, code) in [
        ("common", json!({ "word": "no" }), "POLICY_DENIED"),
        ("common", json!({ "word": 7 }), "ARGUMENTS_INVALID"),
        ("common", json!({ "word": "a", "extra": 1 }), "ARGUMENTS_INVALID"),
        ("common", json!([1]), "ARGUMENTS_JSON_PARSE_ERROR"),
        ("comon", json!({}), "TOOL_UNKNOWN"),
        ("asked", json!({ "word": "a" }), "APPROVAL_PENDING"),
    ] {
        let got = call(name, arguments).await;
        let (failed, envelope) = told(&got);
        assert!(failed && got.status == 200, "{name}");
        assert_eq!(envelope["errors"][0]["code"], code, "{name}: {envelope}");
        assert!(got.json()["result"].get("structuredContent").is_none());
    }
    assert!(stage.done().is_empty());
    let got = ask.clone().modern("tools/call", json!({ "name": 7 })).send().await;
    assert_eq!(got.status, 400);
    let got = call("alpha", json!(null)).await;
    assert!(!told(&got).0);
}

#[tokio::test]
async fn the_oldest_revisions_get_no_structured_content() {
    let stage = Stage::new().await;
    for (revision, has) in [("2025-03-26", false), ("2025-06-18", true)] {
        let ask = stage.visitor(&stage.token("t", None), revision).await;
        let got = ask.clone().rpc("tools/call", json!({ "name": "record" })).send().await;
        assert_eq!(got.json()["result"].get("structuredContent").is_some(), has, "{revision}");
        let got = ask.rpc("tools/list", json!({})).send().await;
        let tools = got.json()["result"]["tools"].clone();
        let record = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "record");
        assert_eq!(record.unwrap().get("outputSchema").is_some(), has, "{revision}");
    }
}

/// What a tool keeps from models is kept from clients, who have models too.
#[tokio::test]
async fn data_that_is_kept_from_models_reaches_no_client() {
    let stage = Stage::new().await;
    let ask = stage.ask(&stage.token("t", None));
    let got = ask.modern("tools/call", json!({ "name": "hide" })).send().await;
    let (failed, envelope) = told(&got);
    assert_eq!(
        (failed, &envelope["message"], &envelope["data"]),
        (false, &json!("done"), &json!(null))
    );
    assert!(!got.body.contains("canary"), "{}", got.body);
}

/// A call that reads is answered while another one still reads, whichever came first.
#[tokio::test]
async fn a_slow_call_does_not_delay_a_fast_one() {
    let stage = Stage::new().await;
    let token = stage.token("t", None);
    let call = |name: &str| stage.ask(&token).modern("tools/call", json!({ "name": name }));
    let slow = call("watch");
    let slow = tokio::spawn(async move { slow.send().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    for _ in 0..3 {
        let got = tokio::time::timeout(Duration::from_secs(5), call("record").send()).await;
        assert!(!told(&got.expect("answered while another reads")).0);
    }
    // One that changes something waits until nobody reads, and so does whoever comes after it.
    let (alpha, record) = (call("alpha"), call("record"));
    let alpha = tokio::spawn(async move { alpha.send().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let record = tokio::spawn(async move { record.send().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!slow.is_finished() && !alpha.is_finished() && !record.is_finished());
    assert!(stage.done().is_empty());
    stage.gate.notify_one();
    assert!(!told(&slow.await.unwrap()).0);
    assert!(!told(&alpha.await.unwrap()).0 && !told(&record.await.unwrap()).0);
    assert_eq!(stage.done(), ["alpha"]);
}

#[tokio::test]
async fn progress_is_told_to_whoever_asks_for_it() {
    let stage = Stage::new().await;
    let ask = stage.ask(&stage.token("t", None));
    let params = json!({ "name": "slow", "arguments": {}, "_meta": { "progressToken": "tok" } });
    let slow = ask.modern("tools/call", params);
    let (gate, asking) = (stage.gate.clone(), tokio::spawn(async move { slow.send().await }));
    tokio::time::sleep(Duration::from_millis(200)).await;
    gate.notify_one();
    let got = asking.await.unwrap();
    assert_eq!(got.header("content-type"), Some("text/event-stream"));
    assert_eq!(got.header("x-accel-buffering"), Some("no"));
    let events = got.events();
    assert_eq!(events[0]["method"], "notifications/progress");
    assert_eq!(events[0]["params"]["progressToken"], "tok");
    assert_eq!(events.last().unwrap()["result"]["isError"], false);
}

#[tokio::test]
async fn a_call_that_has_not_begun_is_taken_back() {
    let stage = Stage::new().await;
    let token = stage.token("t", None);
    let slow = stage.ask(&token).modern("tools/call", json!({ "name": "slow" }));
    let first = tokio::spawn(async move { slow.send().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    // The newest revision cancels by hanging up.
    let waiting = stage.ask(&token).modern("tools/call", json!({ "name": "alpha" }));
    let stream = waiting.open().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(stream);
    // The older ones say so.
    let older = stage.visitor(&token, "2025-11-25").await;
    let call = older.clone().rpc("tools/call", json!({ "name": "alpha" }));
    let second = tokio::spawn(async move { call.send().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
                         "params": { "requestId": 1, "reason": "changed my mind" } });
    assert_eq!(older.raw(&cancel.to_string()).send().await.status, 202);
    let got = second.await.unwrap();
    assert_eq!((got.status, got.body.as_str()), (202, ""));
    tokio::time::sleep(Duration::from_millis(100)).await;
    stage.gate.notify_one();
    assert_eq!(first.await.unwrap().status, 200);
    // Whatever was taken back never reached the world.
    let last = stage.ask(&token).modern("tools/call", json!({ "name": "record" })).send().await;
    assert_eq!(last.status, 200);
    assert_eq!(stage.done(), ["slow"]);
}

#[tokio::test]
async fn two_clients_share_a_session_and_hear_of_its_phase() {
    let stage = Stage::new().await;
    let one = stage.visitor(&stage.token("one", None), "2025-11-25").await;
    let two = stage.visitor(&stage.token("two", None), "2025-06-18").await;
    let mut news = one.clone().verb("GET").raw("").open().await;
    let mut held = String::new();
    until(&mut news, &mut held, "\r\n\r\n").await;
    // One stream each is enough.
    assert_eq!(one.clone().verb("GET").send().await.status, 409);
    let newest = stage.ask(&stage.token("three", None));
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let mut listening = newest.clone().modern("subscriptions/listen", filter).open().await;
    let mut heard = String::new();
    until(&mut listening, &mut heard, "subscriptions/acknowledged").await;
    let moved = json!({ "name": "move_on", "arguments": { "to": "B" } });
    let got = two.clone().rpc("tools/call", moved).send().await;
    assert!(!told(&got).0);
    until(&mut news, &mut held, "notifications/tools/list_changed").await;
    let got = one.clone().rpc("tools/call", json!({ "name": "beta" })).send().await;
    assert!(!told(&got).0);
    // The list of the newest revision has not changed, so nothing is said of it.
    assert!(!heard.contains("list_changed"), "{heard}");
    stage.stop.send_replace(true);
    until(&mut listening, &mut heard, "\"resultType\":\"complete\"").await;
    assert!(!heard.contains("list_changed"), "{heard}");
    assert!(heard.contains("\"io.modelcontextprotocol/subscriptionId\":1"), "{heard}");
}

#[tokio::test]
async fn many_calls_at_once_are_each_answered_with_their_own() {
    let stage = Stage::new().await;
    let ask = stage.ask(&stage.token("t", None));
    let calls = (0..40).map(|number| {
        let word = format!("w{number}");
        let params = json!({ "name": "common", "arguments": { "word": word } });
        let call = ask.clone().modern("tools/call", params);
        tokio::spawn(async move { (word, call.send().await) })
    });
    let calls: Vec<_> = calls.collect();
    for call in calls {
        let (word, got) = call.await.unwrap();
        assert_eq!(told(&got).1["message"], word);
    }
    assert_eq!(stage.done().len(), 40);
}

/// One client that asks for much does not keep another from asking for little.
#[tokio::test]
async fn each_client_has_its_turn() {
    let stage = Stage::new().await;
    let call = |token: &str, tool: &str| {
        stage.ask(&stage.token(token, None)).modern("tools/call", json!({ "name": tool }))
    };
    let mut flood = Vec::new();
    for _ in 0..6 {
        flood.push(call("loud", "slow").open().await);
    }
    // All of them wait by now.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let quiet = call("quiet", "alpha");
    let quiet = tokio::spawn(async move { quiet.send().await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    for _ in 0..2 {
        stage.gate.notify_one();
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let got = tokio::time::timeout(Duration::from_secs(5), quiet).await.unwrap().unwrap();
    assert!(!told(&got).0, "{}", got.body);
    assert_eq!(stage.done(), ["slow", "slow", "alpha"], "one call of each, in turn");
}

/// Whoever only looks waits for no call.
#[tokio::test]
async fn lists_and_resources_do_not_wait_for_a_call() {
    let stage = Stage::new().await;
    let ask = stage.ask(&stage.token("t", None));
    let _slow = ask.clone().modern("tools/call", json!({ "name": "slow" })).open().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    for (method, params) in [
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        ("resources/read", json!({ "uri": "toolgate://session" })),
        ("prompts/list", json!({})),
    ] {
        let got = ask.clone().modern(method, params).send().await;
        assert!(got.json().get("result").is_some(), "{method}: {}", got.body);
    }
    assert!(stage.done().is_empty(), "it still waits");
}
