//! A server over a socket with tools that write down what they did, and a client that hides nothing.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::config::AgentText;
use toolgate_kernel::event::{Delegation, ProjectEvent};
use toolgate_kernel::fold::Project;
use toolgate_kernel::names::{PhaseName, SectionName, SessionId, ToolPattern};
use toolgate_kernel::section::Section;
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::token_key::TokenKey;
use toolgate_kernel::tool::{Effect, SpecDraft};
use toolgate_mcp::server::http::{Door, Opening};
use toolgate_mcp::server::token::{Claims, Roster, TokenPorter};
use toolgate_mcp::server::{Clerk, Driving, Gateway, http};
use toolgate_runtime::port::{Clock, Output, Person, Store, Tool};
use toolgate_runtime::{
    Crew, Driver, MemoryStore, Nothing, Pack, Runtime, SayFault, Toolbox, tool, waiting_tool,
};

use toolgate_testkit::signer::ada;

/// A clock that stands until somebody moves it.
#[derive(Default)]
pub(crate) struct StandingClock(pub(crate) AtomicI64);

impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }
}

/// Everything that reached the world, in order.
pub(crate) type Ledger = Arc<Mutex<Vec<String>>>;

#[derive(Default)]
pub(crate) struct Revoked(Mutex<Vec<String>>);

impl Revoked {
    pub(crate) fn revoke(&self, id: &str) {
        self.0.lock().unwrap().push(id.to_owned());
    }
}

impl Roster for Revoked {
    fn holds(&self, id: &str) -> bool {
        !self.0.lock().unwrap().iter().any(|revoked| revoked == id)
    }
}

/// Tools of two phases: `alpha` in A, `beta` in B, `common` and the way over in both.
pub(crate) const AGENT: &str = r#"{
    "phases": {
        "A": {
            "guide": "Begin here.", "rules": ["Be brief."],
            "tools": { "include": ["alpha", "common", "move_on", "slow", "record", "asked", "watch", "hide", "leave"] },
            "transitions": ["B"]
        },
        "B": { "tools": { "include": ["beta", "common", "move_on"] }, "transitions": ["A"] }
    },
    "policies": [
        { "rule": { "tools": ["common"], "deny": "args.word == 'no'", "message": "Not this word." } },
        { "rule": { "tools": ["asked"], "deny": "args.word == 'never'", "message": "Never." } },
        { "rule": { "tools": ["asked"], "ask": "true", "message": "A person must see this." } }
    ]
}"#;

#[derive(Deserialize, JsonSchema)]
struct Word {
    word: String,
}

#[derive(Deserialize, JsonSchema)]
struct To {
    to: String,
}

pub(crate) fn pack(ledger: &Ledger, gate: &Arc<Notify>) -> Pack {
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    for name in ["alpha", "beta", "nowhere"] {
        let ledger = Arc::clone(ledger);
        let draft = SpecDraft::new(name, "Writes its name down.").effect(Effect::External);
        let done = move |_: &mut toolgate_runtime::Transaction, _: Nothing| {
            ledger.lock().unwrap().push(name.to_owned());
            Ok(Output::message(format!("{name} was here.")))
        };
        tools.push(tool(draft, done).unwrap());
    }
    for name in ["common", "asked"] {
        let ledger = Arc::clone(ledger);
        let draft = SpecDraft::new(name, "Writes a word down.").effect(Effect::External);
        let done = move |_: &mut toolgate_runtime::Transaction, args: Word| {
            ledger.lock().unwrap().push(format!("{name} {}", args.word));
            Ok(Output::message(args.word))
        };
        tools.push(tool(draft, done).unwrap());
    }
    let draft = SpecDraft::new("move_on", "Enters another phase.").effect(Effect::Staged);
    let moved = |tx: &mut toolgate_runtime::Transaction, args: To| {
        tx.enter_phase(&PhaseName::parse(&args.to).unwrap(), "asked to")?;
        Ok(Output::message("moved"))
    };
    tools.push(tool(draft, moved).unwrap());
    let shape = json!({ "type": "object", "properties": { "n": { "type": "integer" } },
                        "required": ["n"] });
    let draft = SpecDraft::new("record", "Answers a record.").returns_schema(shape);
    let record = |_: &mut toolgate_runtime::Transaction, _: Nothing| {
        Output::data("a record", &json!({ "n": 42 }))
    };
    tools.push(tool(draft, record).unwrap());
    let draft = SpecDraft::new("hide", "Answers more than a model sees.");
    let hide = |_: &mut toolgate_runtime::Transaction, _: Nothing| {
        Ok(Output::data("done", &json!({ "secret": "canary" }))?.hidden())
    };
    tools.push(tool(draft, hide).unwrap());
    let (ledger, gate) = (Arc::clone(ledger), Arc::clone(gate));
    let watched = Arc::clone(&gate);
    let draft = SpecDraft::new("watch", "Reads until it is let go.");
    let watch = waiting_tool(draft, move |_, _: Nothing| {
        let gate = Arc::clone(&watched);
        Box::pin(async move {
            gate.notified().await;
            Ok(Output::message("seen"))
        })
    });
    tools.push(watch.unwrap());
    let left = Arc::clone(&gate);
    let draft = SpecDraft::new("leave", "Enters phase B in the end.").effect(Effect::External);
    let leave = waiting_tool(draft, move |tx, _: Nothing| {
        let gate = Arc::clone(&left);
        Box::pin(async move {
            gate.notified().await;
            tx.enter_phase(&PhaseName::parse("B").unwrap(), "at last")?;
            Ok(Output::message("left"))
        })
    });
    tools.push(leave.unwrap());
    let draft = SpecDraft::new("slow", "Waits until it is let go.").effect(Effect::External);
    let slow = waiting_tool(draft, move |tx, _: Nothing| {
        tx.beat();
        let (ledger, gate) = (Arc::clone(&ledger), Arc::clone(&gate));
        Box::pin(async move {
            gate.notified().await;
            ledger.lock().unwrap().push("slow".to_owned());
            Ok(Output::message("at last"))
        })
    });
    tools.push(slow.unwrap());
    Pack::new(Section::new(SectionName::parse("tools").unwrap()), tools)
}

pub(crate) struct Stage {
    pub(crate) port: u16,
    pub(crate) ledger: Ledger,
    pub(crate) gate: Arc<Notify>,
    pub(crate) clock: Arc<StandingClock>,
    pub(crate) revoked: Arc<Revoked>,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) served: tokio::task::JoinHandle<()>,
    key: TokenKey,
}

pub(crate) fn session() -> SessionId {
    SessionId::parse("mcp").unwrap()
}

/// A session with a clerk, which is driven until the test is over.
pub(crate) async fn gateway(ledger: &Ledger, gate: &Arc<Notify>) -> Gateway {
    gateway_with(ledger, gate, 600_000).await
}

/// The same, where a person has so long to answer.
pub(crate) async fn gateway_with(ledger: &Ledger, gate: &Arc<Notify>, answer_ms: u64) -> Gateway {
    let clerk = clerk(&Arc::new(MemoryStore::new()), ledger, gate, answer_ms).await;
    let (gateway, telling) = Gateway::new(clerk, "0");
    tokio::spawn(telling);
    gateway
}

/// A clerk that is driven until the test is over, with the log it writes.
pub(crate) async fn clerk(
    store: &Arc<MemoryStore>,
    ledger: &Ledger,
    gate: &Arc<Notify>,
    answer_ms: u64,
) -> Clerk {
    let mut text: AgentText = serde_json::from_str(AGENT).unwrap();
    text.limits.answer_ms_max = answer_ms;
    let store = Arc::clone(store) as Arc<dyn Store>;
    clerk_of(store, text, pack(ledger, gate), None).await
}

/// A clerk with tools of its own, and a person of its own where there is one.
pub(crate) async fn clerk_of(
    store: Arc<dyn Store>,
    text: AgentText,
    pack: Pack,
    person: Option<Arc<dyn Person>>,
) -> Clerk {
    let (clerk, driving) = clerk_and_work(store, text, pack, person).await;
    tokio::spawn(driving);
    clerk
}

/// Clients whose users may answer questions: the one over pipes, and those of some tokens.
const DELEGATED: [&str; 3] = ["stdio", "t", "other"];

/// A person lets the user of a client answer.
async fn delegate(runtime: &Runtime, client: &str) {
    let tools = vec![ToolPattern::parse("*").unwrap()];
    let until = Timestamp(24 * 3_600_000);
    let terms = Delegation { client: client.to_owned(), tools, until, answers_max: 1_000 };
    let event = ProjectEvent::ClientDelegated(Box::new(terms));
    let decide = |_: &Project| Ok::<_, SayFault>((vec![event.clone()], ()));
    runtime.decide(ada(), decide).await.unwrap();
}

/// The same, with the work that somebody must drive.
async fn clerk_and_work(
    store: Arc<dyn Store>,
    text: AgentText,
    pack: Pack,
    person: Option<Arc<dyn Person>>,
) -> (Clerk, Driving) {
    let clock = Arc::new(StandingClock::default());
    let agent = Arc::new(text.build(vec![pack.section.clone()]).unwrap());
    let crew = Crew { person, ..Crew::new(agent, Toolbox::of(&[pack])) };
    let runtime = Arc::new(Runtime::new(store, clock));
    for client in DELEGATED {
        delegate(&runtime, client).await;
    }
    let open = async |runtime: Arc<Runtime>, crew: Crew| {
        let actor = Actor::Client("test".into());
        Driver::open(runtime, crew, session(), &actor, "a test").await
    };
    Clerk::begin(runtime, crew, open).await.unwrap()
}

/// A clerk whose end is looked at.
pub(crate) async fn clerk_that_ends(
    store: &Arc<MemoryStore>,
    ledger: &Ledger,
    gate: &Arc<Notify>,
) -> (Clerk, Driving) {
    let text: AgentText = serde_json::from_str(AGENT).unwrap();
    let store = Arc::clone(store) as Arc<dyn Store>;
    clerk_and_work(store, text, pack(ledger, gate), None).await
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let (ledger, gate) = (Ledger::default(), Arc::new(Notify::new()));
        let gateway = gateway(&ledger, &gate).await;
        Self::serving(gateway, ledger, gate).await
    }

    /// A server whose operator trusts the users of clients, who have so long to answer.
    pub(crate) async fn trusting(answer_ms: u64) -> Self {
        let (ledger, gate) = (Ledger::default(), Arc::new(Notify::new()));
        let gateway = gateway_with(&ledger, &gate, answer_ms).await.trusting_users();
        Self::serving(gateway, ledger, gate).await
    }

    async fn serving(gateway: Gateway, ledger: Ledger, gate: Arc<Notify>) -> Self {
        let key = TokenKey::from_bytes(&[7; 32]);
        let clock = Arc::new(StandingClock::default());
        let revoked = Arc::new(Revoked::default());
        let porter = TokenPorter {
            key: key.clone(),
            session: session(),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            roster: Arc::clone(&revoked) as Arc<dyn Roster>,
        };
        let opening = Opening {
            server: gateway.implementation(),
            served: Arc::new(gateway),
            porter: Arc::new(porter),
            door: Door {
                hosts: vec!["gate.example".into()],
                origins: vec!["https://page.example".into()],
            },
            key: key.clone(),
            now: Timestamp(0),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (stop, stopped) = watch::channel(false);
        let served = tokio::spawn(http::serve(listener, opening, stopped));
        Self { port, ledger, gate, clock, revoked, stop, served, key }
    }

    pub(crate) fn token(&self, id: &str, phase: Option<&str>) -> String {
        self.token_for(id, "mcp", phase, 1_000)
    }

    pub(crate) fn token_for(
        &self,
        id: &str,
        session: &str,
        phase: Option<&str>,
        at: i64,
    ) -> String {
        let claims = Claims {
            id: id.to_owned(),
            session: SessionId::parse(session).unwrap(),
            phase: phase.map(|phase| PhaseName::parse(phase).unwrap()),
            expires: Timestamp(at),
        };
        claims.sign(&self.key).reveal().to_owned()
    }

    pub(crate) fn done(&self) -> Vec<String> {
        self.ledger.lock().unwrap().clone()
    }

    pub(crate) fn ask(&self, token: &str) -> Ask {
        Ask {
            port: self.port,
            verb: "POST".into(),
            path: "/mcp".into(),
            headers: vec![
                ("Host".into(), format!("127.0.0.1:{}", self.port)),
                ("Authorization".into(), format!("Bearer {token}")),
                ("Content-Type".into(), "application/json".into()),
                ("Accept".into(), "application/json, text/event-stream".into()),
            ],
            body: String::new(),
        }
    }

    /// A client of an older revision, after its handshake.
    pub(crate) async fn visitor(&self, token: &str, revision: &str) -> Ask {
        self.visitor_at(self.ask(token), revision).await
    }

    pub(crate) async fn visitor_at(&self, ask: Ask, revision: &str) -> Ask {
        self.visitor_who_can(ask, revision, json!({})).await
    }

    /// The same, with what the client says it can do.
    pub(crate) async fn visitor_who_can(&self, ask: Ask, revision: &str, can: Value) -> Ask {
        let hello = json!({ "protocolVersion": revision, "capabilities": can,
                            "clientInfo": { "name": "test", "version": "0" } });
        let reply = ask.clone().rpc("initialize", hello).send().await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        assert_eq!(reply.json()["result"]["protocolVersion"], revision);
        let handle = reply.header("mcp-session-id").unwrap().to_owned();
        ask.header("Mcp-Session-Id", &handle).header("MCP-Protocol-Version", revision)
    }
}

/// One request, every byte of it.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) port: u16,
    pub(crate) verb: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Ask {
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    pub(crate) fn at(mut self, path: &str) -> Self {
        self.path = path.to_owned();
        self
    }

    pub(crate) fn verb(mut self, verb: &str) -> Self {
        self.verb = verb.to_owned();
        self
    }

    pub(crate) fn raw(mut self, body: &str) -> Self {
        self.body = body.to_owned();
        self
    }

    /// A request of an older revision.
    pub(crate) fn rpc(self, method: &str, params: Value) -> Self {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.raw(&body.to_string())
    }

    /// A request of the newest revision, which says all of itself.
    pub(crate) fn modern(self, method: &str, mut params: Value) -> Self {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
        let can = &mut params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        if can.is_null() {
            *can = json!({});
        }
        let name = params["name"].as_str().or(params["uri"].as_str()).map(str::to_owned);
        let mut ask =
            self.header("MCP-Protocol-Version", "2026-07-28").header("Mcp-Method", method);
        if let Some(name) = name {
            ask = ask.header("Mcp-Name", &name);
        }
        ask.rpc(method, params)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\nConnection: close\r\n", self.verb, self.path);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n{}", self.body.len(), self.body));
        text.into_bytes()
    }

    /// Opens a connection and leaves it open.
    pub(crate) async fn open(&self) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        stream.write_all(&self.bytes()).await.unwrap();
        stream
    }

    pub(crate) async fn send(&self) -> Got {
        let mut stream = self.open().await;
        let mut bytes = Vec::new();
        let reading = stream.read_to_end(&mut bytes);
        tokio::time::timeout(Duration::from_secs(10), reading).await.unwrap().unwrap();
        Got::read(&bytes)
    }
}

/// Calls a tool and says what came of it: the text of the result, and whether it is an error.
pub(crate) fn told(got: &Got) -> (bool, Value) {
    let json = got.json();
    let result = &json["result"];
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{json}"));
    (result["isError"].as_bool().unwrap(), serde_json::from_str(text).unwrap())
}

pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Got {
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut lines = head.lines();
        let first = lines.next().unwrap_or_default();
        let status = first.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let chunked = headers.iter().any(|(name, _)| name == "transfer-encoding");
        let body = if chunked { unchunked(body) } else { body.to_owned() };
        Self { status, headers, body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|_| panic!("{}: {}", self.status, self.body))
    }

    pub(crate) fn code(&self) -> i64 {
        self.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("{}", self.body))
    }

    /// The messages of a stream of events.
    pub(crate) fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

fn unchunked(mut rest: &str) -> String {
    let mut out = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || after.len() < size {
            break;
        }
        out.push_str(&after[..size]);
        rest = after.get(size + 2..).unwrap_or_default();
    }
    out
}

/// Reads from a connection until a text has come.
pub(crate) async fn until(stream: &mut TcpStream, held: &mut String, text: &str) {
    let mut buffer = [0; 4096];
    let reading = async {
        while !held.contains(text) {
            let read = stream.read(&mut buffer).await.unwrap();
            assert!(read > 0, "closed before {text:?} came: {held}");
            held.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    };
    let came = tokio::time::timeout(Duration::from_secs(10), reading).await;
    assert!(came.is_ok(), "{text:?} did not come");
}
