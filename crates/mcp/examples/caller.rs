//! Decides what the conformance suite sees of our client: it lists the tools of a server, leaves out
//! those that cannot be used, and calls every other one. Where a server wants a login, it plays the
//! person and the browser, and says yes.

use std::collections::BTreeSet;
use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolgate_http::{Roots, Transport};
use toolgate_kernel::hidden::Hidden;
use toolgate_kernel::names::ServerName;
use toolgate_kernel::pin::Definition;
use toolgate_kernel::time::Timestamp;
use toolgate_mcp::client::oauth::{Chance, Keeper, Login, OauthPlan, Permit, Permits, Request};
use toolgate_mcp::client::{
    Bounds, CallFault, Form, Found, HttpKind, Listed, Reach, Registry, RemoteCall, Respondent,
    ServerFault, ServerPlan,
};
use toolgate_mcp::scan::{Scanned, scan};
use toolgate_runtime::port::Clock;

/// Milliseconds of a call.
const CALL_MS: u64 = 20_000;
/// Logins that the person has patience for.
const LOGINS_MAX: u8 = 3;
/// Where answers to a login go. Nobody listens there: what a browser would bring is read from where
/// it is sent.
const REDIRECT: &str = "http://127.0.0.1:4000/callback";
/// The document that describes this client, where a server wants one.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";
/// Bytes of an answer to the browser.
const PAGE_BYTES_MAX: u64 = 64 << 10;

type Fallible<T> = Result<T, Box<dyn Error>>;

/// The one permit, while the program runs.
#[derive(Default, Clone)]
struct Drawer(Arc<Mutex<Option<Permit>>>);

impl Permits for Drawer {
    fn load(&self) -> Option<Permit> {
        self.0.lock().ok()?.clone()
    }

    fn save(&self, permit: &Permit) {
        if let Ok(mut kept) = self.0.lock() {
            *kept = Some(permit.clone());
        }
    }
}

/// A clock that begins with the program: a token says how long it lasts, and never until when.
#[derive(Clone, Copy)]
struct Hands(tokio::time::Instant);

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        Timestamp(i64::try_from(self.0.elapsed().as_millis()).unwrap_or_default())
    }
}

/// A person who is content with what a form proposes.
struct Content;

impl Respondent for Content {
    fn fill<'a>(&'a self, form: &'a Form) -> BoxFuture<'a, Option<Map<String, Value>>> {
        let filled = made(&form.schema).as_object().cloned();
        Box::pin(std::future::ready(filled))
    }
}

/// A client, and the person who uses it.
struct Caller {
    name: ServerName,
    server: ServerPlan,
    oauth: OauthPlan,
    http: Arc<Transport>,
    registry: Registry,
    drawer: Drawer,
    hands: Hands,
    logins: u8,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Fallible<()> {
    let url = std::env::args().next_back().ok_or("say the address of the server")?;
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Value = serde_json::from_str(&context).unwrap_or_default();
    let mut caller = Caller::new(&url, &context)?;
    let listed = caller.tools().await?;
    for (tool, args) in calls(&listed.tools, &context) {
        let told = caller.call(&tool, &args).await?;
        writeln!(std::io::stdout(), "{tool}: {told}")?;
    }
    caller.registry.close().await;
    Ok(())
}

impl Caller {
    fn new(url: &str, context: &Value) -> Fallible<Self> {
        let http = Arc::new(Transport::new(Roots::default()));
        let (drawer, hands) = (Drawer::default(), Hands(tokio::time::Instant::now()));
        let keeper = Keeper::new(url, Arc::clone(&http), Box::new(drawer.clone()), Arc::new(hands));
        let reach = Reach::Http {
            url: url.to_owned(),
            headers: Vec::new(),
            bearer: None,
            keeper: Some(Arc::new(keeper)),
            kind: HttpKind::Streamable,
        };
        let name = ServerName::parse("suite")?;
        let server = ServerPlan {
            name: name.clone(),
            reach,
            connect_ms_max: 20_000,
            call_ms_max: CALL_MS,
            bounds: Bounds::default(),
        };
        let text = |key| context.get(key).and_then(Value::as_str);
        let oauth = OauthPlan {
            client_id: text("client_id").map(str::to_owned),
            client_secret: text("client_secret").map(Hidden::new),
            scopes: Vec::new(),
            client_metadata_url: Some(DOCUMENT.to_owned()),
        };
        let respondent: Arc<dyn Respondent> = Arc::new(Content);
        let registry = Registry::new(vec![server.clone()], Arc::clone(&http));
        let registry = registry.answered_by(&respondent);
        Ok(Self { name, server, oauth, http, registry, drawer, hands, logins: 0 })
    }

    async fn tools(&mut self) -> Fallible<Arc<Listed>> {
        loop {
            match self.registry.tools(&self.name).await {
                Ok(listed) => return Ok(listed),
                Err(fault) => self.helped(fault).await?,
            }
        }
    }

    /// What a call came to, in words.
    async fn call(&mut self, tool: &str, args: &str) -> Fallible<String> {
        loop {
            let deadline = tokio::time::Instant::now() + Duration::from_millis(CALL_MS);
            let asked = RemoteCall { tool, args, known: None, key: None };
            match self.registry.call(&self.name, asked, deadline).await {
                Ok(answered) => return Ok(answered.text),
                Err(CallFault::NotSent(fault)) => self.helped(fault).await?,
                Err(fault) => return Ok(fault.to_string()),
            }
        }
    }

    /// Logs in where that is what is missing, and not too often.
    async fn helped(&mut self, fault: ServerFault) -> Fallible<()> {
        let wants = matches!(fault, ServerFault::WantsLogin { .. } | ServerFault::WantsMore { .. });
        if !wants || self.logins >= LOGINS_MAX {
            return Err(fault.into());
        }
        self.logins += 1;
        let before = self.drawer.load();
        let before = before.as_ref();
        let request =
            Request { server: &self.server, plan: &self.oauth, redirect: REDIRECT, before };
        let chance = Chance { state: random()?, verifier: random()? };
        let login = Login::begin(&self.http, request, chance).await?;
        let answer = opened(login.address())?;
        let permit = login.finish(&self.http, &answer, self.hands.now()).await?;
        self.drawer.save(&permit);
        self.registry.revive(&self.name).await?;
        Ok(())
    }
}

fn random() -> Fallible<[u8; 32]> {
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Opens a page on this computer, as a browser would, and gives the query of the address that it
/// leads to.
fn opened(address: &str) -> Fallible<String> {
    let rest = address.strip_prefix("http://").ok_or("the page is not on this computer")?;
    let (host, path) = rest.split_once('/').ok_or("the page has no path")?;
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")?;
    let mut page = String::new();
    stream.take(PAGE_BYTES_MAX).read_to_string(&mut page)?;
    let place = page.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("location").then(|| value.trim().to_owned())
    });
    let place = place.ok_or("the page leads nowhere")?;
    let (to, query) = place.split_once('?').ok_or("the answer is empty")?;
    if to != REDIRECT {
        return Err("the answer goes to somebody else".into());
    }
    Ok(query.to_owned())
}

/// What is called: what the suite asks for, or every tool that can be used.
fn calls(tools: &[Found], context: &Value) -> Vec<(String, String)> {
    let usable = |tool: &&Found| {
        let definition = Definition {
            title: tool.title.clone(),
            about: tool.about.clone().unwrap_or_default(),
            input: tool.input.clone(),
            output: tool.output.clone(),
            annotations: tool.annotations.clone(),
        };
        !matches!(scan(&tool.name, &definition, &BTreeSet::new()), Scanned::Excluded(_))
    };
    let usable: Vec<_> = tools.iter().filter(usable).collect();
    if let Some(wanted) = context.get("toolCalls").and_then(Value::as_array) {
        let text = |call: &Value, key| call.get(key).cloned().unwrap_or_default();
        let name = |call: &Value| text(call, "name").as_str().unwrap_or_default().to_owned();
        let known = |call: &&Value| usable.iter().any(|tool| tool.name == name(call));
        let call = |call: &Value| (name(call), text(call, "arguments").to_string());
        return wanted.iter().filter(known).map(call).collect();
    }
    // One scenario wants to see a schema again as it came.
    let shown = usable.iter().find(|tool| tool.name == "json_schema_2020_12_tool");
    let call = |tool: &&Found| {
        let args = match shown {
            Some(shown) if tool.name == "json_schema_echo" => json!({ "schema": shown.input }),
            Some(_) | None => made(&tool.input),
        };
        (tool.name.clone(), args.to_string())
    };
    usable.iter().map(call).collect()
}

/// Arguments that fit a schema.
fn made(schema: &Value) -> Value {
    if let Some(given) = schema.get("default").or_else(|| schema.get("const")) {
        return given.clone();
    }
    if let Some(first) = schema.get("enum").and_then(|all| all.get(0)) {
        return first.clone();
    }
    match schema.get("type").and_then(Value::as_str).unwrap_or_default() {
        "object" => {
            let fields = schema.get("properties").and_then(Value::as_object);
            let made = |(name, schema): (&String, &Value)| (name.clone(), made(schema));
            Value::Object(fields.into_iter().flatten().map(made).collect::<Map<_, _>>())
        }
        "number" | "integer" => json!(5),
        "boolean" => json!(true),
        "array" => json!([]),
        _ => json!("words"),
    }
}
