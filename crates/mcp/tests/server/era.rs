//! Which revision a request is of, and what each of them asks of it.

use serde_json::{Value, json};

use crate::stage::Stage;

const ALL: [&str; 5] = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

#[tokio::test]
async fn a_revision_that_is_not_spoken_is_refused_with_those_that_are() {
    let stage = Stage::new().await;
    let ask = stage.ask(&stage.token("t", None));
    let strange = ask.clone().header("MCP-Protocol-Version", "1999-01-01");
    for method in ["tools/list", "initialize", "server/discover"] {
        let got = strange.clone().rpc(method, json!({})).send().await;
        assert_eq!((got.status, got.code()), (400, -32022), "{method}");
        let data = &got.json()["error"]["data"];
        assert_eq!((&data["supported"], &data["requested"]), (&json!(ALL), &json!("1999-01-01")));
    }
    let mut params = json!({ "_meta": {} });
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "1999-01-01".into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let got = ask.clone().rpc("tools/list", params).send().await;
    assert_eq!((got.status, got.code()), (400, -32022));
}

#[tokio::test]
async fn headers_that_say_another_thing_than_the_body_run_nothing() {
    let stage = Stage::new().await;
    let ask = stage.ask(&stage.token("t", None));
    let call = json!({ "name": "alpha", "arguments": {} });
    let good = ask.modern("tools/call", call);
    let changed = |name: &str, value: Option<&str>| {
        let without = good.clone().without(name);
        value.map_or(without.clone(), |value| without.header(name, value))
    };
    for (name, value) in [
        ("Mcp-Name", Some("record")),
        ("Mcp-Name", None),
        ("Mcp-Name", Some("ALPHA")),
        ("Mcp-Name", Some("=?base64?%%?=")),
        ("Mcp-Method", Some("tools/list")),
        ("Mcp-Method", None),
        ("MCP-Protocol-Version", Some("2025-11-25")),
        ("MCP-Protocol-Version", None),
    ] {
        let got = changed(name, value).send().await;
        assert_eq!((got.status, got.code()), (400, -32020), "{name}: {value:?}");
    }
    let twice = good.clone().header("Mcp-Name", "alpha").send().await;
    assert_eq!(twice.status, 400);
    assert!(stage.done().is_empty());
    let wrapped = changed("Mcp-Name", Some("=?base64?YWxwaGE=?="));
    assert_eq!(wrapped.send().await.status, 200);
    assert_eq!(stage.done(), ["alpha"]);
}

#[tokio::test]
async fn the_newest_revision_says_all_of_itself() {
    let stage = Stage::new().await;
    let ask = stage.ask(&stage.token("t", None));
    let got = ask.clone().modern("server/discover", json!({})).send().await;
    let result = &got.json()["result"];
    assert_eq!(result["supportedVersions"], json!(ALL));
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "toolgate");
    assert!(result["ttlMs"].is_u64() && result["cacheScope"] == "private");
    assert!(result["instructions"].as_str().unwrap().contains("Be brief."));
    assert_eq!(got.header("mcp-session-id"), None);
    for lacking in ["protocolVersion", "clientCapabilities"] {
        let mut good = ask.clone().modern("tools/list", json!({}));
        let mut body: Value = serde_json::from_str(&good.body).unwrap();
        let meta = body["params"]["_meta"].as_object_mut().unwrap();
        meta.remove(&format!("io.modelcontextprotocol/{lacking}"));
        good.body = body.to_string();
        let got = good.send().await;
        assert_eq!((got.status, got.code()), (400, -32602), "{lacking}");
    }
    for old in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "no/such"] {
        let got = ask.clone().modern(old, json!({})).send().await;
        assert_eq!((got.status, got.code()), (404, -32601), "{old}");
    }
    for list in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        let got = ask.clone().modern(list, json!({})).send().await;
        let result = &got.json()["result"];
        assert!(result["ttlMs"].is_u64() && result["cacheScope"] == "private", "{list}");
        let got = ask.clone().modern(list, json!({ "cursor": "elsewhere" })).send().await;
        assert_eq!(got.code(), -32602, "{list}");
    }
}

#[tokio::test]
async fn older_revisions_begin_with_a_handshake() {
    let stage = Stage::new().await;
    let token = stage.token("t", None);
    for revision in &ALL[1..] {
        let ask = stage.visitor(&token, revision).await;
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let got = ask.clone().raw(&told.to_string()).send().await;
        assert_eq!((got.status, got.body.as_str()), (202, ""), "{revision}");
        let got = ask.clone().rpc("ping", json!({})).send().await;
        assert_eq!(got.json()["result"], json!({}), "{revision}");
        let got = ask.clone().rpc("server/discover", json!({})).send().await;
        assert_eq!((got.status, got.code()), (200, -32601), "{revision}");
        let got = ask.clone().rpc("resources/read", json!({ "uri": "no:such" })).send().await;
        assert_eq!(got.code(), -32002, "{revision}");
        let other = ask.clone().without("MCP-Protocol-Version");
        assert_eq!(other.clone().rpc("ping", json!({})).send().await.status, 200);
        let other = other.header("MCP-Protocol-Version", "2026-07-28");
        assert_eq!(other.rpc("ping", json!({})).send().await.status, 400, "{revision}");
    }
    let bare = stage.ask(&token).rpc("tools/list", json!({}));
    assert_eq!(bare.send().await.status, 400);
    let unknown = json!({ "protocolVersion": "1999-01-01", "capabilities": {} });
    let got = stage.ask(&token).rpc("initialize", unknown).send().await;
    assert_eq!(got.json()["result"]["protocolVersion"], "2025-11-25");
}

#[tokio::test]
async fn batches_are_for_the_revisions_that_have_them() {
    let stage = Stage::new().await;
    let token = stage.token("t", None);
    let call = |id: u64| {
        let params = json!({ "name": "alpha", "arguments": {} });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let batch = json!([call(1), note, call(2)]).to_string();
    let old = stage.visitor(&token, "2025-03-26").await;
    let got = old.clone().raw(&batch).send().await;
    let ids: Vec<i64> =
        got.json().as_array().unwrap().iter().map(|each| each["id"].as_i64().unwrap()).collect();
    assert_eq!(ids, [1, 2]);
    assert_eq!(stage.done(), ["alpha", "alpha"]);
    assert_eq!(old.clone().raw("[]").send().await.status, 400);
    let hello = json!([{ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} }]);
    let got = old.clone().raw(&hello.to_string()).send().await;
    assert_eq!(got.json()[0]["error"]["code"], -32600);
    let many: Vec<_> = (0..60).map(call).collect();
    assert_eq!(old.raw(&json!(many).to_string()).send().await.status, 400);
    for revision in ["2025-06-18", "2025-11-25"] {
        let ask = stage.visitor(&token, revision).await;
        let got = ask.raw(&batch).send().await;
        assert_eq!((got.status, got.code()), (400, -32600), "{revision}");
    }
    let newest = stage.ask(&token).modern("tools/call", json!({ "name": "alpha" })).raw(&batch);
    assert_eq!(newest.send().await.status, 400);
    assert_eq!(stage.done().len(), 2);
}

#[tokio::test]
async fn what_is_no_message_is_said_to_be_none() {
    let stage = Stage::new().await;
    let ask = stage.ask(&stage.token("t", None)).modern("tools/list", json!({}));
    for (body, code) in [
        ("", -32700),
        ("{", -32700),
        ("null", -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"tools/list"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[1]}"#, -32600),
    ] {
        let got = ask.clone().raw(body).send().await;
        assert_eq!((got.status, got.code()), (400, code), "{body}");
        // Whoever can be told what is refused is.
        let id = body.contains("\"id\":1").then(|| json!(1));
        assert_eq!(got.json().get("id"), id.as_ref(), "{body}");
    }
}
