//! What becomes of calls: results, refusals, questions, progress, cancellation, two clients.

use std::time::Duration;

use serde_json::{Value, json};

use crate::stage::{Ask, Stage, told, until};

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
    // So is one that reaches the world, and one that changes something.
    let moved = stage.ask(&token).modern("tools/call", to("B"));
    for call in [call("alpha"), moved] {
        let got = tokio::time::timeout(Duration::from_secs(5), call.send()).await;
        assert!(!told(&got.expect("answered while another reads")).0);
    }
    assert!(!slow.is_finished());
    assert_eq!(stage.done(), ["alpha"]);
    stage.gate.notify_one();
    assert!(!told(&slow.await.unwrap()).0);
}

fn to(phase: &str) -> Value {
    json!({ "name": "move_on", "arguments": { "to": phase } })
}

/// A call that does not come to its end keeps those waiting that go the same way, and nobody else.
#[tokio::test]
async fn a_call_that_hangs_is_in_the_way_of_its_like_alone() {
    let stage = Stage::new().await;
    let (one, two) = (stage.token("one", None), stage.token("two", None));
    let call = |token: &str, params: Value| stage.ask(token).modern("tools/call", params);
    let named = |name: &str| json!({ "name": name });
    let begin = |call: Ask| tokio::spawn(async move { call.send().await });
    let hung = begin(call(&one, named("slow")));
    tokio::time::sleep(Duration::from_millis(100)).await;
    // Another one of the same way waits, whoever makes it.
    let like = [begin(call(&one, named("slow"))), begin(call(&two, named("slow")))];
    tokio::time::sleep(Duration::from_millis(100)).await;
    // Whoever waits there is overtaken by what goes another way, of the same client too.
    for token in [&one, &two] {
        for (params, code) in [
            (named("record"), None),
            (named("alpha"), None),
            (json!({ "name": "asked", "arguments": { "word": "a" } }), Some("APPROVAL_PENDING")),
            (json!({ "name": "common", "arguments": { "word": "no" } }), Some("POLICY_DENIED")),
            (named("beta"), Some("TOOL_NOT_GRANTED")),
        ] {
            let got =
                tokio::time::timeout(Duration::from_secs(5), call(token, params).send()).await;
            let (failed, envelope) = told(&got.expect("nobody is in its way"));
            assert_eq!(failed, code.is_some(), "{envelope}");
            assert_eq!(envelope["errors"][0]["code"].as_str(), code, "{envelope}");
        }
    }
    // What changes something overtakes what is at work, and not what its own client asked for before.
    let three = stage.token("three", None);
    let moved = call(&three, to("B"));
    let got = tokio::time::timeout(Duration::from_secs(5), moved.send()).await;
    assert!(!told(&got.expect("beside the one that hangs")).0);
    let back = begin(call(&one, to("A")));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!hung.is_finished() && !back.is_finished());
    assert!(like.iter().all(|like| !like.is_finished()));
    stage.gate.notify_one();
    assert!(!told(&hung.await.unwrap()).0, "it was begun before");
    // Those that waited are judged when their turn comes: the phase does not grant them any more, or
    // does again.
    assert!(!told(&back.await.unwrap()).0);
    stage.gate.notify_one();
    let mut codes = Vec::new();
    for like in like {
        let got = tokio::time::timeout(Duration::from_secs(5), like).await.unwrap().unwrap();
        codes.push(told(&got).1["errors"][0]["code"].clone());
    }
    assert!(codes.iter().any(|code| *code == "TOOL_NOT_GRANTED"), "{codes:?}");
}

/// A way to another phase leads from where its call began. When the phase is another by then, it
/// leads nowhere.
#[tokio::test]
async fn a_call_does_not_leave_a_phase_that_was_left_before() {
    let stage = Stage::new().await;
    let token = stage.token("t", None);
    let call = |params: Value| stage.ask(&token).modern("tools/call", params);
    let leaving = call(json!({ "name": "leave" }));
    let leaving = tokio::spawn(async move { leaving.send().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!told(&call(to("B")).send().await).0);
    stage.gate.notify_one();
    let (failed, envelope) = told(&leaving.await.unwrap());
    assert!(!failed, "what reached the world is done: {envelope}");
    assert!(envelope["warnings"].to_string().contains("The phase moved meanwhile"), "{envelope}");
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

/// Whoever gave up is in nobody's way: the next in line begins when the one before it ends, also
/// while another one hangs elsewhere and nobody new comes.
#[tokio::test]
async fn who_gave_up_keeps_nobody_waiting() {
    let stage = Stage::new().await;
    let tokens = ["one", "two", "three"].map(|name| stage.token(name, None));
    let call = |at: usize, name: &str| {
        stage.ask(&tokens[at]).modern("tools/call", json!({ "name": name }))
    };
    let begin = |call: Ask| tokio::spawn(async move { call.send().await });
    let pause = || tokio::time::sleep(Duration::from_millis(100));
    // Two at work: both wait for the gate, each its own way.
    let first = begin(call(0, "slow"));
    pause().await;
    let elsewhere = begin(call(0, "leave"));
    pause().await;
    let gone = call(1, "slow").open().await;
    pause().await;
    let next = begin(call(2, "slow"));
    pause().await;
    drop(gone);
    pause().await;
    stage.gate.notify_one();
    assert!(!told(&first.await.unwrap()).0);
    // The second permit is for whoever came next; the one elsewhere has waited longer for its own.
    stage.gate.notify_one();
    stage.gate.notify_one();
    let got = tokio::time::timeout(Duration::from_secs(5), next).await;
    assert!(!told(&got.expect("nobody is in its way").unwrap()).0);
    assert!(!told(&elsewhere.await.unwrap()).0);
}

#[tokio::test]
async fn a_call_that_has_not_begun_is_taken_back() {
    let stage = Stage::new().await;
    let token = stage.token("t", None);
    let slow = stage.ask(&token).modern("tools/call", json!({ "name": "slow" }));
    let first = tokio::spawn(async move { slow.send().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    // The newest revision cancels by hanging up.
    let waiting = stage.ask(&token).modern("tools/call", json!({ "name": "slow" }));
    let stream = waiting.open().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(stream);
    // The older ones say so.
    let older = stage.visitor(&token, "2025-11-25").await;
    let call = older.clone().rpc("tools/call", json!({ "name": "slow" }));
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
    let quiet = call("quiet", "slow");
    let quiet = tokio::spawn(async move { quiet.send().await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    for _ in 0..3 {
        stage.gate.notify_one();
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let got = tokio::time::timeout(Duration::from_secs(5), quiet).await.unwrap().unwrap();
    assert!(!told(&got).0, "{}", got.body);
    assert_eq!(stage.done().len(), 3, "one call of each, in turn");
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
