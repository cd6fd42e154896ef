//! The end of a server, and of one that somebody else takes the session from: whoever waits is
//! answered, and what was begun is settled.

use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Cx, Poll};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream,
};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::envelope::Code;
use toolgate_kernel::event::{Event, Outcome, Record, StreamId};
use toolgate_mcp::server::{Clerk, Gateway, Order, Principal, stdio};
use toolgate_runtime::MemoryStore;
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::port::{Store, StoreFault};

use crate::stage::{Ledger, clerk, clerk_that_ends, session};

fn order(client: &str, name: &str) -> Order {
    Order {
        actor: Actor::Client(client.into()),
        name: name.to_owned(),
        args: "{}".to_owned(),
        alias: None,
        phase: None,
        user: None,
    }
}

async fn code(clerk: &Clerk, name: &str) -> Option<Code> {
    let answered = tokio::time::timeout(Duration::from_secs(5), clerk.call(order("a", name), None));
    answered.await.unwrap().answered.envelope.code().cloned()
}

/// Waits until a call of the session has begun.
async fn begun(store: &MemoryStore) {
    for _ in 0..500 {
        let started = |event: &Event| matches!(event, Event::CallStarted { .. });
        if events(store).await.iter().any(started) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no call has begun");
}

async fn events(store: &MemoryStore) -> Vec<Event> {
    let mut events = Vec::new();
    let stream = StreamId::Session(session());
    let take = |record: Record<Event>, _: &_| events.push(record.event);
    read_from(store, &stream, Tip::START, take).await.unwrap();
    events
}

/// One driver per session: whoever was fenced says so, stops, and never takes the session back.
#[tokio::test]
async fn whoever_is_fenced_stops_and_takes_nothing_back() {
    let (store, ledger, gate) =
        (Arc::new(MemoryStore::new()), Ledger::default(), Arc::new(Notify::new()));
    let (clerk, driving) = clerk_that_ends(&store, &ledger, &gate).await;
    let driving = tokio::spawn(driving);
    assert_eq!(code(&clerk, "alpha").await, None);
    let stream = StreamId::Session(session());
    let epoch = store.claim(&stream).await.unwrap();
    let told = clerk.call(order("a", "alpha"), None).await.answered.envelope;
    assert_eq!(told.code(), Some(&Code::CALL_CANCELLED));
    assert!(told.errors[0].message.contains("took this session over"), "{told:?}");
    let ended = tokio::time::timeout(Duration::from_secs(5), driving).await.unwrap().unwrap();
    assert_eq!(ended, Err(StoreFault::Fenced { stream: stream.clone() }));
    let told = clerk.call(order("a", "alpha"), None).await.answered.envelope;
    assert!(told.errors[0].message.contains("took this session over"), "{told:?}");
    assert_eq!(*ledger.lock().unwrap(), ["alpha"], "nothing more was done");
    assert_eq!(store.claim(&stream).await, Ok(epoch + 1), "nobody claimed it meanwhile");
}

#[tokio::test]
async fn a_call_at_work_that_is_fenced_may_have_happened() {
    let (store, ledger, gate) =
        (Arc::new(MemoryStore::new()), Ledger::default(), Arc::new(Notify::new()));
    let (clerk, driving) = clerk_that_ends(&store, &ledger, &gate).await;
    let driving = tokio::spawn(driving);
    let own = clerk.clone();
    let slow = tokio::spawn(async move { code(&own, "slow").await });
    begun(&store).await;
    store.claim(&StreamId::Session(session())).await.unwrap();
    gate.notify_one();
    assert_eq!(slow.await.unwrap(), Some(Code::OUTCOME_UNKNOWN));
    assert!(driving.await.unwrap().is_err());
    clerk.at_rest().await;
}

/// Of calls that were at work together, only those that may have reached the world are unknown.
#[tokio::test]
async fn a_call_that_was_not_begun_when_it_was_fenced_is_told_so() {
    let (store, ledger, gate) =
        (Arc::new(MemoryStore::new()), Ledger::default(), Arc::new(Notify::new()));
    let (clerk, driving) = clerk_that_ends(&store, &ledger, &gate).await;
    let driving = tokio::spawn(driving);
    let calls: Vec<_> = ["slow", "watch"]
        .into_iter()
        .map(|name| {
            let clerk = clerk.clone();
            tokio::spawn(async move { code(&clerk, name).await })
        })
        .collect();
    begun(&store).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    store.claim(&StreamId::Session(session())).await.unwrap();
    gate.notify_waiters();
    let mut codes = Vec::new();
    for call in calls {
        codes.push(call.await.unwrap());
    }
    assert_eq!(codes, [Some(Code::OUTCOME_UNKNOWN), Some(Code::CALL_CANCELLED)]);
    assert!(driving.await.unwrap().is_err());
}

/// Reads that do not end keep a place from nobody who goes another way, however many there are.
#[tokio::test]
async fn many_calls_of_one_way_leave_room_for_others() {
    let (store, ledger, gate) =
        (Arc::new(MemoryStore::new()), Ledger::default(), Arc::new(Notify::new()));
    let clerk = clerk(&store, &ledger, &gate, 600_000).await;
    let hung: Vec<_> = (0..100)
        .map(|_| {
            let clerk = clerk.clone();
            tokio::spawn(async move { clerk.call(order("b", "watch"), None).await })
        })
        .collect();
    // A quarter of the 64 places.
    let watching = async || {
        let watches = |event: &&Event| matches!(event, Event::CallReceived { call, .. } if call.name == "watch");
        events(&store).await.iter().filter(watches).count()
    };
    for _ in 0..500 {
        if watching().await >= 16 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for name in ["record", "alpha", "record"] {
        assert_eq!(code(&clerk, name).await, None, "{name}");
    }
    assert_eq!(watching().await, 16);
    assert!(hung.iter().all(|call| !call.is_finished()));
    while hung.iter().any(|call| !call.is_finished()) {
        gate.notify_waiters();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for call in hung {
        assert!(call.await.unwrap().answered.envelope.ok);
    }
}

struct Pipes {
    to: DuplexStream,
    from: DuplexStream,
    stop: watch::Sender<bool>,
    served: JoinHandle<Result<(), stdio::Broken>>,
}

fn pipes(gateway: Gateway, held: usize) -> Pipes {
    let (to, input) = tokio::io::duplex(1 << 20);
    let (output, from) = tokio::io::duplex(held);
    let (stop, stopped) = watch::channel(false);
    let principal = Arc::new(Principal { name: "stdio".into(), phase: None });
    let card = gateway.implementation();
    let served = tokio::spawn(async move {
        let input = BufReader::new(input);
        stdio::serve(input, output, Arc::new(gateway), principal, &card, stopped).await
    });
    Pipes { to, from, stop, served }
}

impl Pipes {
    async fn say(&mut self, message: &Value) {
        self.to.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Waits for the end, which must come soon.
    async fn ends(&mut self) {
        self.end().await.unwrap();
    }

    async fn end(&mut self) -> Result<(), stdio::Broken> {
        let began = Instant::now();
        let ended = tokio::time::timeout(Duration::from_secs(20), &mut self.served).await;
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        ended.unwrap().unwrap()
    }

    async fn all(mut self) -> Vec<Value> {
        let mut text = String::new();
        self.from.read_to_string(&mut text).await.unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn request(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn gateway(clerk: Clerk) -> Gateway {
    let (gateway, telling) = Gateway::new(clerk, "0");
    tokio::spawn(telling);
    gateway
}

/// A call that has begun comes to its end, whether its client waits for it, took it back, or left.
#[tokio::test]
async fn a_begun_call_that_nobody_waits_for_is_settled_at_the_end() {
    for ends in [true, false] {
        let (store, ledger, gate) =
            (Arc::new(MemoryStore::new()), Ledger::default(), Arc::new(Notify::new()));
        let mut pipes = pipes(gateway(clerk(&store, &ledger, &gate, 600_000).await), 1 << 16);
        pipes.say(&request(1, "tools/call", json!({ "name": "slow" }))).await;
        begun(&store).await;
        let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
        pipes.say(&cancel).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        if ends {
            gate.notify_one();
        }
        pipes.to.shutdown().await.unwrap();
        pipes.ends().await;
        let events = events(&store).await;
        let outcome = |event: &Event| {
            if let Event::CallSettled(settled) = event { Some(settled.outcome) } else { None }
        };
        let expected = if ends { Outcome::Done } else { Outcome::Unknown };
        let settled: Vec<Outcome> = events.iter().filter_map(outcome).collect();
        assert_eq!(settled, [expected]);
        assert!(pipes.all().await.is_empty(), "what was taken back is not answered");
    }
}

/// Whoever has no turn yet when the end comes is answered, however many there are.
#[tokio::test]
async fn whoever_waits_for_a_turn_is_answered_at_the_end() {
    let (store, ledger, gate) =
        (Arc::new(MemoryStore::new()), Ledger::default(), Arc::new(Notify::new()));
    let mut pipes = pipes(gateway(clerk(&store, &ledger, &gate, 600_000).await), 1 << 20);
    for id in 0..120 {
        let name = if id % 2 == 0 { "slow" } else { "watch" };
        pipes.say(&request(id, "tools/call", json!({ "name": name }))).await;
    }
    begun(&store).await;
    pipes.stop.send_replace(true);
    pipes.ends().await;
    let said = pipes.all().await;
    let ids: BTreeSet<u64> = said.iter().filter_map(|said| said["id"].as_u64()).collect();
    assert_eq!((said.len(), ids.len()), (120, 120), "each once");
    assert!(ledger.lock().unwrap().is_empty());
    let received = |event: &&Event| matches!(event, Event::CallReceived { .. });
    let count = events(&store).await.iter().filter(received).count();
    assert!(count < 40, "nobody is let in at the end: {count}");
}

/// What was said before the word to stop came is answered, also where it was not read by then.
#[tokio::test]
async fn what_was_not_read_before_the_end_is_refused() {
    let (store, ledger, gate) =
        (Arc::new(MemoryStore::new()), Ledger::default(), Arc::new(Notify::new()));
    let mut pipes = pipes(gateway(clerk(&store, &ledger, &gate, 600_000).await), 1 << 20);
    // Nothing of it is read before the word comes: the server has its turn when this test waits.
    let all: String = (0..50)
        .map(|id| format!("{}\n", request(id, "tools/call", json!({ "name": "alpha" }))))
        .collect();
    pipes.to.write_all(all.as_bytes()).await.unwrap();
    pipes.stop.send_replace(true);
    pipes.ends().await;
    let said = pipes.all().await;
    let ids: BTreeSet<u64> = said.iter().filter_map(|said| said["id"].as_u64()).collect();
    assert_eq!((said.len(), ids), (50, (0..50).collect()), "{said:?}");
    // As a result that a model can make use of.
    let told = |said: &Value| {
        let text = said["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        said["result"]["isError"] == true
            && text.contains("CALL_CANCELLED")
            && text.contains("The server is stopping. Nothing of it ran.")
    };
    assert!(said.iter().all(told), "{said:?}");
    assert!(ledger.lock().unwrap().is_empty(), "who is refused did nothing");
}

/// Also where it came as a batch: each of its requests is refused by its id.
#[tokio::test]
async fn a_batch_that_was_not_read_before_the_end_is_refused_part_by_part() {
    let (store, ledger, gate) =
        (Arc::new(MemoryStore::new()), Ledger::default(), Arc::new(Notify::new()));
    let mut pipes = pipes(gateway(clerk(&store, &ledger, &gate, 600_000).await), 1 << 20);
    let ask = |id: u64, method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    let hello = json!({ "protocolVersion": "2025-03-26", "capabilities": {} });
    pipes.say(&ask(1, "initialize", hello)).await;
    let mut held = String::new();
    BufReader::new(&mut pipes.from).read_line(&mut held).await.unwrap();
    let call = |id| ask(id, "tools/call", json!({ "name": "alpha" }));
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    pipes.say(&json!([call(2), told, call(3)])).await;
    pipes.stop.send_replace(true);
    pipes.ends().await;
    let said = pipes.all().await;
    let [batch] = said.as_slice() else { panic!("{said:?}") };
    let ids: Vec<&Value> = batch.as_array().unwrap().iter().map(|said| &said["id"]).collect();
    assert_eq!(ids, [2, 3], "{said:?}");
    assert!(ledger.lock().unwrap().is_empty());
}

/// An output that takes nothing.
struct Full;

impl AsyncWrite for Full {
    fn poll_write(self: Pin<&mut Self>, _: &mut Cx<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::StorageFull.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Cx<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Cx<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// What cannot be written is told also after the client's last message.
#[tokio::test]
async fn an_answer_that_cannot_be_written_at_the_end_is_a_fault() {
    let (store, ledger, gate) =
        (Arc::new(MemoryStore::new()), Ledger::default(), Arc::new(Notify::new()));
    let gateway = gateway(clerk(&store, &ledger, &gate, 600_000).await);
    let (card, line) =
        (gateway.implementation(), request(1, "tools/call", json!({ "name": "alpha" })));
    let principal = Arc::new(Principal { name: "stdio".into(), phase: None });
    let (_stop, stopped) = watch::channel(false);
    let (line, served) = (format!("{line}\n"), Arc::new(gateway));
    let ended = stdio::serve(line.as_bytes(), Full, served, principal, &card, stopped).await;
    assert!(matches!(ended, Err(stdio::Broken::Output(_))), "{ended:?}");
}

/// Whoever waits for a user's word when the end comes is told that it did not come.
#[tokio::test]
async fn whoever_waits_for_a_user_is_answered_at_the_end() {
    let (store, ledger, gate) =
        (Arc::new(MemoryStore::new()), Ledger::default(), Arc::new(Notify::new()));
    let gateway = gateway(clerk(&store, &ledger, &gate, 600_000).await).trusting_users();
    let mut pipes = pipes(gateway, 1 << 16);
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": { "elicitation": { "form": {} } } });
    let ask = |id: u64, method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    pipes.say(&ask(1, "initialize", hello)).await;
    let asked = json!({ "name": "asked", "arguments": { "word": "a" } });
    pipes.say(&ask(2, "tools/call", asked)).await;
    let mut held = String::new();
    let mut from = BufReader::new(&mut pipes.from);
    while !held.contains("elicitation/create") {
        from.read_line(&mut held).await.unwrap();
    }
    pipes.stop.send_replace(true);
    pipes.ends().await;
    let said = pipes.all().await;
    let answers: Vec<&Value> = said.iter().filter(|said| said["id"] == 2).collect();
    assert_eq!(answers.len(), 1, "{said:?}");
    assert!(answers[0].to_string().contains("APPROVAL_PENDING"), "{said:?}");
    assert!(ledger.lock().unwrap().is_empty());
}

/// A client that does not read and closes its end is not waited for: what was begun is settled.
#[tokio::test]
async fn a_client_that_does_not_read_keeps_nobody_from_ending() {
    let (store, ledger, gate) =
        (Arc::new(MemoryStore::new()), Ledger::default(), Arc::new(Notify::new()));
    let mut pipes = pipes(gateway(clerk(&store, &ledger, &gate, 600_000).await), 256);
    pipes.say(&request(1, "tools/call", json!({ "name": "slow" }))).await;
    begun(&store).await;
    for id in 2..200 {
        pipes.say(&request(id, "tools/list", json!({}))).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    pipes.to.shutdown().await.unwrap();
    let ended = pipes.end().await;
    assert!(matches!(ended, Err(stdio::Broken::Left)), "{ended:?}");
    let settled = |event: &Event| matches!(event, Event::CallSettled(_));
    assert_eq!(events(&store).await.iter().filter(|event| settled(event)).count(), 1);
}

/// A client that reads late has all of its answers, also to what was not begun before the end.
#[tokio::test]
async fn a_client_that_reads_late_loses_nothing() {
    for stops in [false, true] {
        let (store, ledger, gate) =
            (Arc::new(MemoryStore::new()), Ledger::default(), Arc::new(Notify::new()));
        let mut pipes = pipes(gateway(clerk(&store, &ledger, &gate, 600_000).await), 256);
        for id in 1..=11 {
            pipes.say(&request(id, "tools/list", json!({}))).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        for id in 12..=20 {
            pipes.say(&request(id, "tools/call", json!({ "name": "alpha" }))).await;
        }
        if stops {
            pipes.stop.send_replace(true);
        } else {
            pipes.to.shutdown().await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(1_600)).await;
        let mut text = String::new();
        pipes.from.read_to_string(&mut text).await.unwrap();
        pipes.ends().await;
        let said: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let ids: BTreeSet<u64> = said.iter().filter_map(|said| said["id"].as_u64()).collect();
        assert_eq!((said.len(), ids.len()), (20, 20), "{stops}: {text}");
        let done = ledger.lock().unwrap().len();
        assert_eq!(done, if stops { 0 } else { 9 }, "what was asked before the end is done");
    }
}

/// Whoever listens is told that it is over, also where nobody tells of news any more.
#[tokio::test]
async fn whoever_listens_is_answered_when_the_driver_is_gone() {
    let (store, ledger, gate) =
        (Arc::new(MemoryStore::new()), Ledger::default(), Arc::new(Notify::new()));
    let (gateway, telling) = Gateway::new(clerk(&store, &ledger, &gate, 600_000).await, "0");
    let telling = tokio::spawn(telling);
    let mut pipes = pipes(gateway, 1 << 16);
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    pipes.say(&request(1, "subscriptions/listen", wanted)).await;
    let mut held = String::new();
    BufReader::new(&mut pipes.from).read_line(&mut held).await.unwrap();
    assert!(held.contains("acknowledged"), "{held}");
    telling.abort();
    assert!(telling.await.is_err());
    tokio::time::sleep(Duration::from_millis(50)).await;
    pipes.stop.send_replace(true);
    pipes.ends().await;
    let said = pipes.all().await;
    assert_eq!(said.iter().filter(|said| said["id"] == 1).count(), 1, "{said:?}");
}

/// The last message need not end with a line.
#[tokio::test]
async fn a_last_line_without_an_end_is_a_message() {
    let (store, ledger, gate) =
        (Arc::new(MemoryStore::new()), Ledger::default(), Arc::new(Notify::new()));
    let mut pipes = pipes(gateway(clerk(&store, &ledger, &gate, 600_000).await), 1 << 16);
    let (one, two) = (request(1, "server/discover", json!({})), request(2, "ping", json!({})));
    pipes.to.write_all(format!("{one}\n{two}").as_bytes()).await.unwrap();
    pipes.to.shutdown().await.unwrap();
    pipes.ends().await;
    let said = pipes.all().await;
    let ids: Vec<&Value> = said.iter().map(|said| &said["id"]).collect();
    assert_eq!(ids, [1, 2], "{said:?}");
}
