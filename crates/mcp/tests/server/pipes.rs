//! The same server over two pipes: one message per line, both eras, news, cancellation.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};
use tokio::sync::{Notify, watch};
use toolgate_kernel::names::PhaseName;
use toolgate_mcp::server::{Principal, stdio};

use crate::stage::{Ledger, gateway};

struct Pipes {
    to: DuplexStream,
    from: Lines<BufReader<DuplexStream>>,
    ledger: Ledger,
    gate: Arc<Notify>,
    served: tokio::task::JoinHandle<()>,
    _stop: watch::Sender<bool>,
}

impl Pipes {
    async fn new(phase: Option<&str>) -> Self {
        let (ledger, gate) = (Ledger::default(), Arc::new(Notify::new()));
        let gateway = gateway(&ledger, &gate).await;
        let (to, input) = tokio::io::duplex(1 << 16);
        let (output, from) = tokio::io::duplex(1 << 16);
        let (stop, stopped) = watch::channel(false);
        let phase = phase.map(|phase| PhaseName::parse(phase).unwrap());
        let principal = Arc::new(Principal { name: "stdio".into(), phase });
        let card = gateway.implementation();
        let served = tokio::spawn(async move {
            let input = BufReader::new(input);
            stdio::serve(input, output, Arc::new(gateway), principal, &card, stopped)
                .await
                .unwrap();
        });
        let from = BufReader::new(from).lines();
        Self { to, from, ledger, gate, served, _stop: stop }
    }

    async fn say(&mut self, message: &Value) {
        self.to.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        let line = tokio::time::timeout(Duration::from_secs(5), self.from.next_line());
        serde_json::from_str(&line.await.unwrap().unwrap().unwrap()).unwrap()
    }

    async fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.say(&request(id, method, params)).await;
        self.hear().await
    }

    async fn hello(&mut self, revision: &str) {
        let params = json!({ "protocolVersion": revision, "capabilities": {} });
        let answer = self.ask(0, "initialize", params).await;
        assert_eq!(answer["result"]["protocolVersion"], revision);
        self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    }
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

#[tokio::test]
async fn both_eras_are_served_on_one_pipe() {
    let mut pipes = Pipes::new(None).await;
    let got = pipes.ask(1, "tools/list", json!({})).await;
    assert_eq!(got["error"]["code"], -32602, "neither a handshake nor a word of itself");
    let got = pipes.ask(2, "server/discover", modern(json!({}))).await;
    assert_eq!(got["result"]["supportedVersions"][0], "2026-07-28");
    let got = pipes.ask(3, "tools/list", modern(json!({}))).await;
    assert_eq!(got["result"]["tools"].as_array().unwrap().len(), 10);
    pipes.hello("2025-06-18").await;
    let got = pipes.ask(4, "tools/list", json!({})).await;
    assert_eq!(got["result"]["tools"].as_array().unwrap().len(), 9);
    pipes
        .say(&request(5, "tools/call", json!({ "name": "move_on", "arguments": { "to": "B" } })))
        .await;
    let (mut answered, mut told) = (false, false);
    while !(answered && told) {
        let message = pipes.hear().await;
        answered |= message["id"] == 5;
        told |= message["method"] == "notifications/tools/list_changed";
    }
}

#[tokio::test]
async fn a_strict_pipe_shows_its_phase_only() {
    let mut pipes = Pipes::new(Some("B")).await;
    let got = pipes.ask(1, "tools/list", modern(json!({}))).await;
    let tools = got["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["beta", "common", "move_on"]);
    let got = pipes
        .ask(2, "tools/call", modern(json!({ "name": "common", "arguments": { "word": "x" } })))
        .await;
    assert_eq!(got["result"]["isError"], true, "the session is in phase A");
    assert!(pipes.ledger.lock().unwrap().is_empty());
}

#[tokio::test]
async fn nonsense_and_long_lines_do_not_end_it() {
    let mut pipes = Pipes::new(None).await;
    pipes.to.write_all(b"\n  \n{\n").await.unwrap();
    assert_eq!(pipes.hear().await["error"]["code"], -32700);
    let to = &mut pipes.to;
    let long = "x".repeat(1 << 18);
    for _ in 0..5 {
        to.write_all(long.as_bytes()).await.unwrap();
    }
    to.write_all(b"\n").await.unwrap();
    assert_eq!(pipes.hear().await["error"]["code"], -32600);
    // Whoever waits for an answer to one that is too long gets it.
    let long = request(17, "tools/call", modern(json!({ "name": "alpha", "pad": long.repeat(5) })));
    pipes.say(&long).await;
    let got = pipes.hear().await;
    assert_eq!((&got["id"], &got["error"]["code"]), (&json!(17), &json!(-32600)), "{got}");
    pipes.to.write_all(b"\xff\xfe\n").await.unwrap();
    assert_eq!(pipes.hear().await["error"]["code"], -32700);
    let got = pipes.ask(1, "server/discover", modern(json!({}))).await;
    assert_eq!(got["id"], 1);
}

#[tokio::test]
async fn a_cancelled_request_is_not_answered_and_the_end_is_waited_for() {
    let mut pipes = Pipes::new(None).await;
    pipes.say(&request(1, "tools/call", modern(json!({ "name": "slow" })))).await;
    // What comes together is one batch, and begins together.
    tokio::time::sleep(Duration::from_millis(50)).await;
    // One that goes the same way waits.
    pipes.say(&request(2, "tools/call", modern(json!({ "name": "slow" })))).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 } });
    pipes.say(&cancel).await;
    let got = pipes.ask(3, "tools/list", modern(json!({}))).await;
    assert_eq!(got["id"], 3);
    pipes.gate.notify_one();
    // The other side closes its end; what it asked for is answered all the same.
    pipes.to.shutdown().await.unwrap();
    assert_eq!(pipes.hear().await["id"], 1);
    tokio::time::timeout(Duration::from_secs(5), pipes.served).await.unwrap().unwrap();
    assert!(pipes.from.next_line().await.unwrap().is_none());
    assert_eq!(pipes.ledger.lock().unwrap().as_slice(), ["slow"]);
}

#[tokio::test]
async fn what_is_asked_at_once_is_answered_line_by_line() {
    let mut pipes = Pipes::new(None).await;
    let call = |id| format!("{}\n", request(id, "tools/call", modern(json!({ "name": "alpha" }))));
    let asked: String = (0..20).map(call).collect();
    pipes.to.write_all(asked.as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    for _ in 0..20 {
        let answer = pipes.hear().await;
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        heard.push(answer["id"].as_u64().unwrap());
    }
    heard.sort_unstable();
    assert_eq!(heard, (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn batches_on_a_pipe() {
    let mut pipes = Pipes::new(None).await;
    pipes.hello("2025-03-26").await;
    let batch = json!([
        request(1, "ping", json!({})),
        request(2, "tools/call", json!({ "name": "alpha" }))
    ]);
    pipes.say(&batch).await;
    let got = pipes.hear().await;
    assert_eq!(got.as_array().unwrap().len(), 2);
    let mut pipes = Pipes::new(None).await;
    pipes.hello("2025-11-25").await;
    pipes.say(&batch).await;
    assert_eq!(pipes.hear().await["error"]["code"], -32600);
}

/// Before the handshake a client may ask whether anybody is there, and nothing else.
#[tokio::test]
async fn a_ping_is_answered_before_the_handshake() {
    let mut pipes = Pipes::new(None).await;
    let got = pipes.ask(1, "ping", json!({})).await;
    assert_eq!((&got["id"], &got["result"]), (&json!(1), &json!({})), "{got}");
    assert_eq!(pipes.ask(2, "tools/list", json!({})).await["error"]["code"], -32602);
    pipes.hello("2025-11-25").await;
    assert_eq!(pipes.ask(3, "ping", json!({})).await["result"], json!({}));
}

/// A handshake is made once, and never inside of a batch; whoever can be told what is refused is.
#[tokio::test]
async fn a_handshake_is_made_once() {
    let mut pipes = Pipes::new(None).await;
    pipes.hello("2025-03-26").await;
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {} });
    let again = pipes.ask(7, "initialize", hello.clone()).await;
    assert_eq!((&again["id"], &again["error"]["code"]), (&json!(7), &json!(-32600)), "{again}");
    pipes.say(&json!([request(8, "initialize", hello), [request(9, "ping", json!({}))]])).await;
    let got = pipes.hear().await;
    let codes: Vec<&Value> =
        got.as_array().unwrap().iter().map(|it| &it["error"]["code"]).collect();
    assert_eq!(codes, [&json!(-32600), &json!(-32600)], "{got}");
    assert_eq!(got[0]["id"], 8, "{got}");
    // The first handshake still holds: this revision has batches, and the other one has none.
    pipes.say(&json!([request(10, "ping", json!({}))])).await;
    assert_eq!(pipes.hear().await[0]["id"], 10);
    for bad in [json!({ "jsonrpc": "1.0", "id": 11, "method": "ping" }), json!({ "id": 11 })] {
        pipes.say(&bad).await;
        let got = pipes.hear().await;
        assert_eq!((&got["id"], &got["error"]["code"]), (&json!(11), &json!(-32600)), "{got}");
    }
}
