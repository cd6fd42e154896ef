//! Serves the gateway that `bench/` compares: every call of a client passes the whole gate on its way
//! to a server. The peers ask for no token, so this one lets everybody on this computer in.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use tokio::net::TcpListener;
use tokio::sync::watch;
use toolgate_http::{Roots, Transport};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::config::AgentText;
use toolgate_kernel::names::{ServerName, SessionId};
use toolgate_kernel::token_key::TokenKey;
use toolgate_kernel::tool::Effect;
use toolgate_mcp::client::{Bounds, HttpKind, Reach, Registry, ServerPlan, inherited};
use toolgate_mcp::server::http::{self, Denied, Door, Opening, Porter};
use toolgate_mcp::server::{Clerk, Gateway, Principal, pipes, stdio};
use toolgate_mcp::{Supplies, Terms};
use toolgate_runtime::port::{Clock, Store};
use toolgate_runtime::{Crew, Driver, MemoryStore, Runtime, Toolbox};
use toolgate_store::SqliteStore;

use crate::dispatch::{SystemClock, log_setup};

#[derive(Args)]
pub(crate) struct Options {
    /// Where it listens on this computer; 0 for stdin and stdout.
    port: u16,
    /// The server behind it: its address, or the program to start.
    upstream: String,
    /// Arguments of the program.
    args: Vec<String>,
    /// Keep the log on disk, in this folder, and not in memory.
    #[arg(long)]
    durable: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(serve(options))
}

async fn serve(options: &Options) -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let key = TokenKey::from_bytes(&[7; 32]);
    let store: Arc<dyn Store> = match &options.durable {
        None => Arc::new(MemoryStore::new()),
        Some(folder) => Arc::new(SqliteStore::open(folder.join("log.db"), &log_setup()?)?),
    };
    let runtime = Arc::new(Runtime::new(store, Arc::clone(&clock)));
    let text: AgentText = serde_json::from_value(serde_json::json!({
        "packs": [],
        "mcp_servers": { "up": { "url": "http://localhost/" } },
        "phases": { "OPEN": { "tools": { "mcp": ["up"] } } },
        "policies": [{ "rule": {
            "tools": ["mcp:up:echo"], "deny": "size(args.text) > 1000", "message": "Shorter, please.",
        } }],
    }))?;
    let mut crew = Crew::new(Arc::new(text.clone().build(Vec::new())?), Toolbox::default());
    let name = ServerName::parse("up")?;
    let terms = Terms {
        effects: BTreeMap::from([("echo".to_owned(), Effect::Read)]),
        short_names: true,
        required: true,
        server: text.mcp_servers.get(&name).cloned().context("the server is declared")?,
        is_logged_in: false,
    };
    let http = Arc::new(Transport::new(Roots::default()));
    let registry = Arc::new(Registry::new(vec![plan(options, &name)], http));
    let build = move |sections| text.clone().build(sections).map_err(|refusal| refusal.to_string());
    let supplies = Supplies::new(
        registry,
        Arc::clone(&runtime),
        BTreeMap::from([(name, terms)]),
        Toolbox::default(),
        Box::new(build),
    );
    crew.supplier = Some(Arc::new(supplies));
    let open = async |runtime: Arc<Runtime>, crew: Crew| {
        let actor = Actor::Client("bench".into());
        let id = SessionId::parse("gateway").map_err(|_| toolgate_runtime::OpenFault::NoPhase)?;
        Driver::open(runtime, crew, id, &actor, "calls").await
    };
    let (clerk, driving) = Clerk::begin(runtime, crew, open).await?;
    let driving = tokio::spawn(driving);
    let (gateway, telling) = Gateway::new(clerk, "bench");
    let (_stop, stopped) = watch::channel(false);
    let server = gateway.implementation();
    let serving = async {
        if options.port == 0 {
            let (input, output) = (pipes::input(), pipes::output());
            let principal = Arc::new(Principal { name: "bench".into(), phase: None });
            // Whatever the process itself waits for is woken by a system call.
            let serving = tokio::spawn(async move {
                stdio::serve(input, output, Arc::new(gateway), principal, &server, stopped).await
            });
            return Ok(serving.await??);
        }
        let listener = TcpListener::bind(("127.0.0.1", options.port)).await;
        let listener = listener.with_context(|| format!("port {} is taken", options.port))?;
        let opening = Opening {
            served: Arc::new(gateway),
            porter: Arc::new(Everybody(Arc::new(Principal { name: "bench".into(), phase: None }))),
            door: Door { hosts: Vec::new(), origins: Vec::new() },
            key,
            now: clock.now(),
            server,
        };
        http::serve(listener, opening, stopped).await;
        Ok(())
    };
    tokio::select! {
        served = serving => served,
        _ = driving => Ok(()),
        () = telling => Ok(()),
    }
}

fn plan(options: &Options, name: &ServerName) -> ServerPlan {
    let url = &options.upstream;
    let reach = if url.starts_with("http://") || url.starts_with("https://") {
        let (headers, kind) = (Vec::new(), HttpKind::Streamable);
        Reach::Http { url: url.clone(), headers, bearer: None, keeper: None, kind }
    } else {
        let env = inherited([("PATH", "/usr/bin:/bin")]);
        let (program, args, cwd) = (url.into(), options.args.clone(), PathBuf::from("/"));
        Reach::Stdio { program, args, env, cwd, sandbox: None }
    };
    let (connect_ms_max, call_ms_max) = (30_000, 30_000);
    ServerPlan { name: name.clone(), reach, connect_ms_max, call_ms_max, bounds: Bounds::default() }
}

/// A door without a lock, for measuring what is behind it.
struct Everybody(Arc<Principal>);

impl Porter for Everybody {
    fn admit(&self, _: Option<&str>) -> Result<Arc<Principal>, Denied> {
        Ok(Arc::clone(&self.0))
    }
}
