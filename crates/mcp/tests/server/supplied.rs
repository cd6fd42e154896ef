//! What is new of a server's tools is written down whether or not somebody looks at it.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::Notify;
use toolgate_http::{Roots, Transport};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::config::AgentText;
use toolgate_kernel::event::StreamId;
use toolgate_kernel::names::{PhaseName, ServerName, ToolName};
use toolgate_kernel::pin::{Definition, Pinned, Ruling};
use toolgate_kernel::seal::SigningKey;
use toolgate_mcp::Supplies;
use toolgate_mcp::client::{Bounds, HttpKind, Reach, Registry, ServerPlan};
use toolgate_runtime::port::{Append, Supplier, Wanted};
use toolgate_runtime::{MemoryStore, Runtime, Toolbox};
use toolgate_testkit::bent::{Bend, Bent};
use toolgate_testkit::mcp::{Era, Mode, Server, serve_http};

use crate::stage::StandingClock;

/// A log that waits before it writes something of the project.
#[derive(Default)]
struct Waits {
    reached: Notify,
    gate: Notify,
}

impl Bend for Waits {
    fn before_append<'a>(&'a self, append: &'a Append) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if append.batches.iter().any(|batch| *batch.stream() == StreamId::Project) {
                self.reached.notify_one();
                self.gate.notified().await;
            }
        })
    }
}

/// A driver that settles a change does not look at those who wait for tools meanwhile. They may hold
/// nothing that it waits for.
#[tokio::test]
async fn who_waits_for_tools_and_is_not_looked_at_holds_up_no_change() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = Arc::new(Server::new(Mode::Normal, Era::Legacy, false, None));
    std::thread::spawn(move || serve_http(&server, &listener));
    let name = ServerName::parse("x").unwrap();
    let text: AgentText = serde_json::from_value(json!({
        "mcp_servers": { "x": { "url": url } }, "phases": { "A": { "tools": { "mcp": ["x"] } } },
    }))
    .unwrap();
    let (headers, kind) = (Vec::new(), HttpKind::Streamable);
    let reach = Reach::Http { url, headers, bearer: None, keeper: None, kind };
    let (connect_ms_max, call_ms_max, bounds) = (5_000, 5_000, Bounds::default());
    let plan = ServerPlan { name, reach, connect_ms_max, call_ms_max, bounds };
    let http = Arc::new(Transport::new(Roots::default()));
    let registry = Arc::new(Registry::new(vec![plan], http));
    let store = Arc::new(Bent::<Waits>::default());
    let waits = Arc::clone(&store);
    let key = SigningKey::from_bytes(&[7; 32]);
    let runtime = Arc::new(Runtime::new(store, Arc::new(StandingClock::default()), key));
    let agent = text.clone().build(Vec::new()).unwrap();
    let build = move |sections| text.clone().build(sections).map_err(|fault| fault.to_string());
    let (own, terms) = (Toolbox::default(), BTreeMap::new());
    let supplies = Supplies::new(registry, Arc::clone(&runtime), terms, own, Box::new(build));
    let phase = PhaseName::parse("A").unwrap();
    let mut supplied = supplies.supply(&agent, &phase, Wanted::All);
    tokio::select! {
        _ = &mut supplied => panic!("nothing new was written down"),
        () = waits.bend.reached.notified() => {}
    }
    waits.bend.gate.notify_one();
    let change = runtime.pin(&Actor::System, Vec::new());
    let done = tokio::time::timeout(Duration::from_secs(5), change).await;
    done.expect("nobody is in its way").unwrap();
    assert!(supplied.await.unwrap().is_some());
}

/// Somebody who looked is gone before what it saw is written down, and the next one saw the same.
#[tokio::test]
async fn what_was_seen_is_written_down_once() {
    let key = SigningKey::from_bytes(&[7; 32]);
    let store = Arc::new(MemoryStore::new());
    let runtime = Runtime::new(store, Arc::new(StandingClock::default()), key);
    let (input, annotations) = (json!({ "type": "object" }), json!(null));
    let (title, about, output) = (None, "Searches.".to_owned(), None);
    let definition = Definition { title, about, input, output, annotations };
    let (tool, ruling) = (ToolName::parse("mcp:x:search").unwrap(), Ruling::FirstSeen);
    let seen = Pinned { tool, ruling, definition, why: Vec::new() };
    runtime.pin(&Actor::System, vec![seen.clone()]).await.unwrap();
    let before = runtime.project().0.seq;
    runtime.pin(&Actor::System, vec![seen]).await.unwrap();
    assert_eq!(runtime.project().0.seq, before);
}
