//! Who is let in over HTTP, and what nobody gets past: hosts, origins, tokens, sizes, slowness.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::stage::{Ask, Got, Stage, until};

fn list(ask: Ask) -> Ask {
    ask.modern("tools/list", json!({}))
}

/// MOA-009: a token of another service, such as one whose audience is somebody else, opens nothing.
#[tokio::test]
async fn a_request_without_a_good_token_is_refused_with_a_challenge() {
    let stage = Stage::new().await;
    let good = stage.token("good", None);
    assert_eq!(list(stage.ask(&good)).send().await.status, 200);
    let got = list(stage.ask(&good).without("Authorization")).send().await;
    assert_eq!(
        (got.status, got.header("www-authenticate")),
        (401, Some("Bearer realm=\"toolgate\""))
    );
    let foreign = "eyJhbGciOiJIUzI1NiJ9.eyJhdWQiOiJvdGhlciJ9.c2lnbmF0dXJl";
    let other_session = stage.token_for("x", "another", None, 1_000);
    let over = stage.token_for("x", "mcp", None, 0);
    let mut forged = good.clone();
    let last = if forged.pop() == Some('0') { '1' } else { '0' };
    forged.push(last);
    let known = ["expired", "revoked", "another session"];
    for (token, why) in [
        (foreign, None),
        (&other_session, Some("for another session")),
        (&over, Some("has expired")),
        (&forged, None),
        ("tgt_", None),
    ] {
        let got = list(stage.ask(token)).send().await;
        assert_eq!(got.status, 401, "{token}");
        let challenge = got.header("www-authenticate").unwrap();
        assert!(challenge.contains("invalid_token"), "{token}");
        match why {
            Some(why) => assert!(challenge.contains(why) && got.body.contains(why), "{challenge}"),
            // Whoever has none that was signed here is told nothing of others.
            None => {
                assert!(!known.iter().any(|why| (challenge.to_owned() + &got.body).contains(why)))
            }
        }
        assert!(!got.body.contains(token), "nothing of a token comes back");
    }
    let mut over_forged = over.clone();
    over_forged.pop();
    let got = list(stage.ask(&over_forged)).send().await;
    assert!(!got.body.contains("expired"), "{}", got.body);
    assert_eq!(list(stage.ask("")).send().await.status, 401);
    let twice = list(stage.ask(&good).header("Authorization", &format!("Bearer {good}")));
    assert_eq!(twice.send().await.status, 401);
    let basic = stage.ask(&good).without("Authorization").header("Authorization", "Basic YTpi");
    assert_eq!(list(basic).send().await.status, 401);
    stage.revoked.revoke("good");
    let got = list(stage.ask(&good)).send().await;
    assert!(got.status == 401 && got.body.contains("was revoked"), "{}", got.body);
    let late = stage.token("late", None);
    assert_eq!(list(stage.ask(&late)).send().await.status, 200);
    stage.clock.0.store(1_000, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(list(stage.ask(&late)).send().await.status, 401);
}

#[tokio::test]
async fn only_known_hosts_and_origins_are_let_in() {
    let stage = Stage::new().await;
    let ask = stage.ask(&stage.token("t", None));
    let host = |host: &str| list(ask.clone().without("Host").header("Host", host));
    for (name, status) in [
        ("localhost:1", 200),
        ("[::1]:1", 200),
        ("gate.example", 200),
        ("gate.example:8443", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost@evil.example", 403),
    ] {
        assert_eq!(host(name).send().await.status, status, "{name}");
    }
    let twice = list(ask.clone().header("Host", "evil.example")).send().await.status;
    assert!(twice == 403 || twice == 400, "{twice}");
    assert_eq!(list(ask.clone().without("Host")).send().await.status, 403);
    for (origin, status) in [
        ("http://localhost:3000", 200),
        ("https://127.0.0.1", 200),
        ("http://evil.example", 403),
        ("null", 403),
        ("file://", 403),
        ("http://localhost.evil.example", 403),
    ] {
        let got = list(ask.clone().header("Origin", origin)).send().await;
        assert_eq!(got.status, status, "{origin}");
    }
    // The door is shut before a token is looked at.
    let stranger = stage.ask("none").without("Host").header("Host", "evil.example");
    assert_eq!(list(stranger).send().await.status, 403);
}

/// Pages of an origin that was allowed by name may read what is answered; no other page may.
#[tokio::test]
async fn only_pages_that_were_allowed_may_read_answers() {
    let stage = Stage::new().await;
    let ask = stage.ask(&stage.token("t", None));
    let cors = |got: &Got| {
        got.headers.iter().filter(|(name, _)| name.starts_with("access-control-")).count()
    };
    let first = |origin: &str| {
        let asked = list(ask.clone().without("Authorization")).verb("OPTIONS");
        let asked = asked.header("Origin", origin).header("Access-Control-Request-Method", "POST");
        asked.header("Access-Control-Request-Headers", "authorization, Mcp-Method, x-evil")
    };
    let got = first("https://page.example").send().await;
    assert_eq!((got.status, got.body.as_str()), (204, ""));
    assert_eq!(got.header("access-control-allow-origin"), Some("https://page.example"));
    assert_eq!(got.header("access-control-allow-headers"), Some("authorization, mcp-method"));
    assert_eq!(got.header("access-control-allow-methods"), Some("POST, GET, DELETE"));
    assert_eq!(got.header("access-control-allow-credentials"), None, "cookies mean nothing here");
    assert_eq!(got.header("vary"), Some("origin"));
    let page = |ask: Ask| list(ask.header("Origin", "https://page.example"));
    let got = page(ask.clone()).send().await;
    assert_eq!((got.status, got.header("vary")), (200, Some("origin")));
    assert_eq!(got.header("access-control-allow-origin"), Some("https://page.example"));
    assert!(got.header("access-control-expose-headers").unwrap().contains("mcp-session-id"));
    // What is refused can be read too, so that the page knows why.
    let got = page(ask.clone().without("Authorization")).send().await;
    assert_eq!((got.status, cors(&got)), (401, 2));

    for (origin, status) in
        [("http://localhost:3000", 401), ("https://evil.example", 403), ("null", 403)]
    {
        let got = first(origin).send().await;
        assert_eq!((got.status, cors(&got)), (status, 0), "{origin}");
        let got = list(ask.clone().header("Origin", origin)).send().await;
        assert_eq!(cors(&got), 0, "{origin}");
    }
    let twice = first("https://page.example").header("Origin", "https://evil.example").send().await;
    assert_eq!((twice.status, cors(&twice)), (403, 0));
    let elsewhere = first("https://page.example").without("Host").header("Host", "evil.example");
    let got = elsewhere.send().await;
    assert_eq!((got.status, cors(&got)), (403, 0), "the host is looked at all the same");
    assert_eq!(list(ask.clone()).verb("OPTIONS").send().await.status, 405);
}

#[tokio::test]
async fn bodies_have_a_size_and_a_kind() {
    let stage = Stage::new().await;
    let ask = stage.ask(&stage.token("t", None));
    let large = "x".repeat((1 << 20) + 1);
    let got = list(ask.clone()).raw(&large).send().await;
    assert_eq!(got.status, 413);
    // The same without saying so before.
    let head = list(ask.clone()).raw("");
    let mut bytes = String::from_utf8(head.bytes()).unwrap();
    bytes = bytes.replace("Content-Length: 0", "Transfer-Encoding: chunked");
    bytes.push_str(&format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len()));
    let mut stream = TcpStream::connect(("127.0.0.1", stage.port)).await.unwrap();
    // The server may hang up before all of it is written.
    drop(stream.write_all(bytes.as_bytes()).await);
    let mut answer = Vec::new();
    drop(tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await);
    assert!(answer.is_empty() || Got::read(&answer).status == 413);
    let text = list(ask.clone().without("Content-Type").header("Content-Type", "text/plain"));
    assert_eq!(text.send().await.status, 415);
    for verb in ["PUT", "PATCH", "OPTIONS", "GET", "DELETE"] {
        assert_eq!(list(ask.clone()).verb(verb).send().await.status, 405, "{verb}");
    }
}

#[tokio::test]
async fn whoever_dawdles_is_let_go() {
    let stage = Stage::new().await;
    let mut slow = TcpStream::connect(("127.0.0.1", stage.port)).await.unwrap();
    slow.write_all(b"POST /mcp HTTP/1.1\r\nHost: local").await.unwrap();
    let ask = list(stage.ask(&stage.token("t", None)));
    let mut half = TcpStream::connect(("127.0.0.1", stage.port)).await.unwrap();
    let bytes = ask.bytes();
    half.write_all(&bytes[..bytes.len() - 5]).await.unwrap();
    // Others are served meanwhile.
    assert_eq!(ask.send().await.status, 200);
    let gone = async |stream: &mut TcpStream| {
        let mut bytes = Vec::new();
        let waited = tokio::time::timeout(Duration::from_secs(40), stream.read_to_end(&mut bytes));
        assert!(waited.await.is_ok(), "it is still open");
        Got::read(&bytes).status
    };
    assert!(matches!(gone(&mut slow).await, 0 | 408));
    assert_eq!(gone(&mut half).await, 408);
    assert!(stage.done().is_empty());
}

#[tokio::test]
async fn another_clients_handle_is_no_handle() {
    let stage = Stage::new().await;
    let one = stage.visitor(&stage.token("one", None), "2025-11-25").await;
    let handle = one.headers.iter().find(|(name, _)| name == "Mcp-Session-Id").unwrap().1.clone();
    let two = stage.ask(&stage.token("two", None)).header("Mcp-Session-Id", &handle);
    let call = json!({ "name": "alpha", "arguments": {} });
    assert_eq!(two.clone().rpc("tools/call", call.clone()).send().await.status, 404);
    assert_eq!(two.clone().verb("GET").send().await.status, 404);
    assert_eq!(two.clone().verb("DELETE").send().await.status, 404);
    // Nor is it one under another address, or one that was made up.
    let elsewhere = one.clone().at("/mcp/phase/A").rpc("tools/call", call.clone());
    assert_eq!(elsewhere.send().await.status, 404);
    let made_up = one.clone().without("Mcp-Session-Id").header("Mcp-Session-Id", "0123");
    assert_eq!(made_up.rpc("tools/call", call.clone()).send().await.status, 404);
    assert!(stage.done().is_empty());
    assert_eq!(one.clone().rpc("tools/call", call.clone()).send().await.status, 200);
    assert_eq!(one.clone().verb("DELETE").send().await.status, 204);
    assert_eq!(one.rpc("tools/call", call).send().await.status, 404);
    assert_eq!(stage.done(), ["alpha"]);
}

#[tokio::test]
async fn a_server_that_is_told_to_stop_finishes_what_it_began() {
    let stage = Stage::new().await;
    let ask = stage.ask(&stage.token("t", None));
    let slow = ask.modern("tools/call", json!({ "name": "slow", "arguments": {} }));
    let asking = tokio::spawn(async move { slow.send().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    stage.stop.send_replace(true);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(TcpStream::connect(("127.0.0.1", stage.port)).await.is_err());
    stage.gate.notify_one();
    assert_eq!(asking.await.unwrap().status, 200);
    tokio::time::timeout(Duration::from_secs(30), stage.served).await.unwrap().unwrap();
    assert_eq!(stage.ledger.lock().unwrap().as_slice(), ["slow"]);
}

/// Whoever listens does so as long as the token holds, and not longer.
#[tokio::test]
async fn a_stream_ends_when_its_token_is_revoked_or_over() {
    for revision in ["2025-11-25", "2026-07-28"] {
        for over in [false, true] {
            let stage = Stage::new().await;
            let mut streams = Vec::new();
            for (id, at) in [("one", 1_000), ("two", 9_000)] {
                let token = stage.token_for(id, "mcp", None, at);
                let listening = if revision == "2026-07-28" {
                    let filter = json!({ "notifications": { "toolsListChanged": true } });
                    stage.ask(&token).modern("subscriptions/listen", filter)
                } else {
                    stage.visitor(&token, revision).await.verb("GET").raw("")
                };
                let mut stream = listening.open().await;
                until(&mut stream, &mut String::new(), "\r\n\r\n").await;
                streams.push(stream);
            }
            if over {
                stage.clock.0.store(5_000, std::sync::atomic::Ordering::Relaxed);
            } else {
                stage.revoked.revoke("one");
            }
            let mut rest = Vec::new();
            let ended = streams[0].read_to_end(&mut rest);
            let ended = tokio::time::timeout(Duration::from_secs(5), ended).await;
            assert!(ended.is_ok(), "{revision}: the stream of a token that does not hold is open");
            let other = streams[1].read_to_end(&mut rest);
            let other = tokio::time::timeout(Duration::from_millis(300), other).await;
            assert!(other.is_err(), "{revision}: the other one goes on");
        }
    }
}

/// One client does not take all the places, and neither do those who show no token.
#[tokio::test]
async fn nobody_takes_all_the_places() {
    let stage = Stage::new().await;
    let (loud, quiet) = (stage.token("loud", None), stage.token("quiet", None));
    let keep = |token: &str| {
        let ask = stage.ask(token).modern("tools/list", json!({}));
        String::from_utf8(ask.bytes()).unwrap().replace("Connection: close\r\n", "")
    };
    let mut open = Vec::new();
    for at in 0..140 {
        let mut stream = TcpStream::connect(("127.0.0.1", stage.port)).await.unwrap();
        stream.write_all(keep(&loud).as_bytes()).await.unwrap();
        let mut held = String::new();
        let wanted = if at < 128 { "200 OK" } else { "429 Too Many Requests" };
        until(&mut stream, &mut held, wanted).await;
        open.push(stream);
    }
    assert_eq!(stage.ask(&quiet).modern("tools/list", json!({})).send().await.status, 200);
    for _ in 0..600 {
        open.push(TcpStream::connect(("127.0.0.1", stage.port)).await.unwrap());
    }
    let got = stage.ask(&quiet).modern("tools/list", json!({}));
    let got = tokio::time::timeout(Duration::from_secs(5), got.send()).await;
    assert_eq!(got.expect("strangers make room").status, 200);
}
