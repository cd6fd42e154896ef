//! What is new of a server's tools is written down whether or not somebody looks at it, and who looks
//! again and again wears no server out.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::{Notify, watch};
use toolgate_http::{Roots, Transport};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::config::AgentText;
use toolgate_kernel::event::{Event, Record, StreamId};
use toolgate_kernel::names::{PhaseName, ServerName, ToolName};
use toolgate_kernel::pin::{Definition, Pinned, Ruling};
use toolgate_mcp::Supplies;
use toolgate_mcp::client::{Bounds, Health, HttpKind, Reach, Registry, ServerPlan};
use toolgate_mcp::server::{Clerk, Order};
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::port::{Append, Store, Supplier, Supply, SupplyFault, Wanted};
use toolgate_runtime::{Crew, Driver, MemoryStore, Runtime, Toolbox};
use toolgate_testkit::bent::{Bend, Bent};
use toolgate_testkit::mcp::{Era, Mode, Server, serve_http};

use crate::stage::{Ledger, StandingClock, pack, session};

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

/// An agent with one phase and one server, and what brings its tools.
struct Stage {
    agent: Agent,
    registry: Arc<Registry>,
    runtime: Arc<Runtime>,
    supplies: Supplies,
}

fn stage(url: String, store: Arc<dyn Store>, bounds: Bounds) -> Stage {
    let name = ServerName::parse("x").unwrap();
    let text: AgentText = serde_json::from_value(json!({
        "mcp_servers": { "x": { "url": url } }, "phases": { "A": { "tools": { "mcp": ["x"] } } },
    }))
    .unwrap();
    let (headers, kind) = (Vec::new(), HttpKind::Streamable);
    let reach = Reach::Http { url, headers, bearer: None, keeper: None, kind };
    let (connect_ms_max, call_ms_max) = (5_000, 5_000);
    let plan = ServerPlan { name, reach, connect_ms_max, call_ms_max, bounds };
    let http = Arc::new(Transport::new(Roots::default()));
    let registry = Arc::new(Registry::new(vec![plan], http));
    let runtime = Arc::new(Runtime::new(store, Arc::new(StandingClock::default())));
    let agent = text.clone().build(Vec::new()).unwrap();
    let build = move |sections| text.clone().build(sections).map_err(|fault| fault.to_string());
    let (own, terms) = (Toolbox::default(), BTreeMap::new());
    let (asked, log) = (Arc::clone(&registry), Arc::clone(&runtime));
    let supplies = Supplies::new(asked, log, terms, own, Box::new(build));
    Stage { agent, registry, runtime, supplies }
}

/// Looks for a call that has to be sent again count as one failure, and reach a server that others
/// leave alone.
#[tokio::test]
async fn who_looks_for_a_server_again_and_again_does_not_use_its_tries_up() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let bounds = Bounds { backoff_ms: 1, failures_max: 3, ..Bounds::default() };
    let store = Arc::new(MemoryStore::new());
    let Stage { agent, registry, supplies, .. } =
        stage(format!("http://{address}/mcp"), store, bounds);
    let (phase, name) = (PhaseName::parse("A").unwrap(), ServerName::parse("x").unwrap());
    let calls = ["mcp__x__write".to_owned()];
    let has_tools = async |wanted| {
        let supplied = supplies.supply(&agent, &phase, wanted).await.unwrap();
        supplied.is_some_and(|supply| !supply.agent.toolset.entries().is_empty())
    };
    for _ in 0..8 {
        assert!(!has_tools(Wanted::Again(&calls)).await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(matches!(registry.health(&name), Ok(Health::Resting(_))));
    for _ in 0..200 {
        assert!(!has_tools(Wanted::Calls(&calls)).await);
        tokio::time::sleep(Duration::from_millis(5)).await;
        if let Ok(Health::Failed(_)) = registry.health(&name) {
            break;
        }
    }
    assert!(matches!(registry.health(&name), Ok(Health::Failed(_))));
    let listener = TcpListener::bind(address).unwrap();
    let server = Arc::new(Server::new(Mode::Normal, Era::Legacy, false, None));
    std::thread::spawn(move || serve_http(&server, &listener));
    assert!(!has_tools(Wanted::Calls(&calls)).await, "it is left alone");
    assert!(has_tools(Wanted::Again(&calls)).await);
    assert!(matches!(registry.health(&name), Ok(Health::Connected)));
}

/// A driver that settles a change does not look at those who wait for tools meanwhile. They may hold
/// nothing that it waits for.
#[tokio::test]
async fn who_waits_for_tools_and_is_not_looked_at_holds_up_no_change() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = Arc::new(Server::new(Mode::Normal, Era::Legacy, false, None));
    std::thread::spawn(move || serve_http(&server, &listener));
    let store = Arc::new(Bent::<Waits>::default());
    let waits = Arc::clone(&store);
    let Stage { agent, supplies, runtime, .. } = stage(url, store, Bounds::default());
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
    let store = Arc::new(MemoryStore::new());
    let runtime = Runtime::new(store, Arc::new(StandingClock::default()));
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

/// Brings tools when it is told to.
struct Late(watch::Receiver<bool>, Supply);

impl Supplier for Late {
    fn supply<'a>(
        &'a self,
        agent: &'a Agent,
        _: &'a PhaseName,
        _: Wanted<'a>,
    ) -> BoxFuture<'a, Result<Option<Supply>, SupplyFault>> {
        let (mut told, known) = (self.0.clone(), std::ptr::eq(agent, Arc::as_ptr(&self.1.agent)));
        Box::pin(async move {
            drop(told.wait_for(|told| *told).await);
            Ok((!known).then(|| self.1.clone()))
        })
    }
}

/// Calls that came before it was known that one must wait for the other are in the log already. The one
/// that has not begun is taken back all the same.
#[tokio::test]
async fn a_call_that_waits_for_another_in_the_log_is_taken_back() {
    let (ledger, gate) = (Ledger::default(), Arc::new(Notify::new()));
    let text: AgentText =
        serde_json::from_value(json!({ "packs": [], "phases": { "A": {} } })).unwrap();
    let pack = pack(&ledger, &gate);
    let agent = Arc::new(text.clone().build(vec![pack.section.clone()]).unwrap());
    let supply = Supply {
        agent,
        tools: Toolbox::of(&[pack]),
        notes: Vec::new(),
        isolation: Default::default(),
    };
    let (tell, told) = watch::channel(false);
    let base = Arc::new(text.build(Vec::new()).unwrap());
    let supplier = Some(Arc::new(Late(told, supply)) as Arc<dyn Supplier>);
    let crew = Crew { supplier, ..Crew::new(base, Toolbox::default()) };
    let store = Arc::new(MemoryStore::new());
    let log = Arc::clone(&store) as Arc<dyn Store>;
    let runtime = Arc::new(Runtime::new(log, Arc::new(StandingClock::default())));
    let open = async |runtime: Arc<Runtime>, crew: Crew| {
        Driver::open(runtime, crew, session(), &Actor::Client("test".into()), "a test").await
    };
    let (clerk, driving) = Clerk::begin(runtime, crew, open).await.unwrap();
    tokio::spawn(driving);
    let call = |client: &str| {
        let (actor, clerk) = (Actor::Client(client.into()), clerk.clone());
        let (name, args) = ("slow".to_owned(), "{}".to_owned());
        let order = Order { actor, name, args, alias: None, phase: None, user: None };
        tokio::spawn(async move { clerk.call(order, None).await })
    };
    let (one, other) = (call("one"), call("other"));
    tokio::time::sleep(Duration::from_millis(50)).await;
    tell.send_replace(true);
    // Both are in the log, and one of them, whichever it is, has begun.
    let begun = async || loop {
        let (mut of, mut admitted, mut begun) = (BTreeMap::new(), 0, None);
        let each = |record: Record<Event>, _: &_| {
            if let Event::CallReceived { call, .. } = &record.event {
                of.insert(call.id, record.actor.to_string());
            } else if let Event::CallStarted { call, .. } = &record.event {
                begun = of.get(call).cloned();
            }
            admitted += usize::from(matches!(record.event, Event::CallAdmitted(_)));
        };
        read_from(store.as_ref(), &StreamId::Session(session()), Tip::START, each).await.unwrap();
        match begun {
            Some(begun) if admitted == 2 => break begun,
            Some(_) | None => tokio::task::yield_now().await,
        }
    };
    let begun = tokio::time::timeout(Duration::from_secs(10), begun()).await.unwrap();
    let (begun, waiting) = if begun == "client:one" { (one, other) } else { (other, one) };
    waiting.abort();
    drop(waiting.await);
    gate.notify_one();
    assert!(begun.await.unwrap().answered.envelope.ok);
    gate.notify_one();
    clerk.at_rest().await;
    assert_eq!(*ledger.lock().unwrap(), ["slow"]);
    assert!(clerk.look().0.open.is_empty(), "it is settled");
}
