//! `toolgate mcp`: a session offered to MCP clients, over stdin and stdout or over HTTP.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::names::{PhaseName, SessionId};
use toolgate_kernel::token_key::TokenKey;
use toolgate_mcp::server::http::{Door, Opening};
use toolgate_mcp::server::token::TokenPorter;
use toolgate_mcp::server::{Clerk, Gateway, Principal, Served, http, pipes, stdio};
use toolgate_runtime::port::{Clock, StoreFault};
use toolgate_runtime::{Crew, Driver, OpenFault, Runtime};
use toolgate_store::{Handover, Hold, Rival};

use super::run::Have;
use super::{login, phase, pins, refusal};
use crate::console;
use crate::environment::Flags;
use crate::exit::{self, Exit};
use crate::host::SystemClock;
use crate::project::{Opened, Place, block_on};
use crate::roster::TokenFile;
use crate::servers::Servers;
use crate::stop::Stop;
use crate::trust::TrustedCrew;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  toolgate mcp\n  toolgate mcp --http 127.0.0.1:8765\n  toolgate \
                        mcp --session review --phase REVISION --strict"
)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: Option<What>,
    /// Serve over HTTP on this address, in place of stdin and stdout. A token is needed then.
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// The session that is offered; it is opened when it does not exist.
    #[arg(long, default_value = "mcp")]
    session: String,
    /// The phase to be in; the session is moved there first.
    #[arg(long)]
    phase: Option<String>,
    /// Offer this phase and nothing else. Over HTTP, tokens and addresses say so.
    #[arg(long, requires = "phase", conflicts_with = "http")]
    strict: bool,
    /// A host that clients may name beside this computer; may be given several times.
    #[arg(long, value_name = "HOST", requires = "http")]
    allow_host: Vec<String>,
    /// A web page's origin that is let in beside this computer's own; may be given several times.
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    allow_origin: Vec<String>,
    /// Put what a person must approve before the user of the client, where the client can. Their
    /// answers count within a delegation (`toolgate approvals delegate`). Programs that control the
    /// client can answer too.
    #[arg(long)]
    trust_client_user: bool,
    #[command(flatten)]
    have: Have,
}

/// What is done with servers, in place of being one.
#[derive(Subcommand)]
enum What {
    /// Which definitions of servers' tools are believed.
    #[command(after_help = "Example:\n  toolgate mcp pins list")]
    Pins {
        #[command(subcommand)]
        what: pins::What,
    },
    /// Logs in to a server that wants to know who asks. A person opens an address in a browser.
    #[command(after_help = "Example:\n  toolgate mcp login research")]
    Login {
        /// The server, as the configuration calls it.
        server: String,
        /// How long the answer of the browser is waited for, in seconds.
        #[arg(long, value_name = "SECONDS", default_value_t = 300,
              value_parser = clap::value_parser!(u64).range(1..=3_600))]
        wait: u64,
    },
    /// Forgets the token of a server.
    #[command(after_help = "Example:\n  toolgate mcp logout research")]
    Logout {
        /// The server, as the configuration calls it.
        server: String,
    },
}

impl Options {
    pub(crate) fn json(&self) -> bool {
        match &self.what {
            Some(What::Pins { what }) => what.json(),
            Some(What::Login { .. } | What::Logout { .. }) | None => false,
        }
    }
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    match &options.what {
        Some(What::Pins { what }) => return pins::run(place, what),
        Some(What::Login { server, wait }) => return login::login(place, server, *wait),
        Some(What::Logout { server }) => return login::logout(place, server),
        None => {}
    }
    block_on(serve(place, options))
}

/// Notes that are told; a server that always has new ones is not listened to for ever.
const NOTES_MAX: usize = 1_000;

async fn serve(place: &Place, options: &Options) -> Result<Exit> {
    let session = SessionId::parse(&options.session)?;
    let trusted = match place.trusted_crew(&Flags::default()).await {
        // A client shows nothing of a process that is gone.
        Err(error) if options.http.is_none() && exit::of(&error) == Exit::NotTrusted => {
            refusal::answer(&error).await?;
            return Err(error);
        }
        trusted => trusted?,
    };
    let TrustedCrew { mut crew, text, access } = trusted;
    let phase = phase(&crew.agent, options.phase.as_deref())?;
    let opened = place.open_trusted(&access, &crew.agent.limits)?;
    let servers = Servers::join(&mut crew, place, &access, &text, &opened)?;
    let rival = options.have.rival();
    let mut reception = options.http.map(|address| Reception::of(place, address)).transpose()?;
    // Whoever takes a session over first does what can fail, so that the other one goes on then.
    if rival == Rival::Displaced {
        if let Some(reception) = &mut reception {
            reception.bind_where_free(opened.offered_at(&session)).await?;
        }
        match Driver::can_resume(&opened.runtime, &crew, session.clone()).await {
            Ok(()) | Err(OpenFault::Missing(_)) => {}
            Err(fault) => return Err(fault.into()),
        }
    }
    let handover = opened.handover(&session).await?;
    let hold = opened.hold(&session, rival)?;
    let settled = Arc::new(Notify::new());
    let needless = settled.notified();
    let begin = Begin {
        session,
        phase,
        crew,
        hold: &hold,
        handover,
        reception,
        settled: Arc::clone(&settled),
    };
    servers.around_until(needless, offer(options, begin, &opened)).await
}

/// Where clients are received over HTTP.
struct Reception {
    address: SocketAddr,
    /// Nothing where whoever is displaced may still have the address.
    listener: Option<TcpListener>,
    key: TokenKey,
    roster: TokenFile,
}

/// How often and when it is tried again to have an address of which somebody else lets go: five
/// seconds in all.
const BIND_TRIES_MAX: u32 = 50;
const BIND_WAIT: Duration = Duration::from_millis(100);

impl Reception {
    fn of(place: &Place, address: SocketAddr) -> Result<Self> {
        let (key, roster) = (place.token_key()?, TokenFile::beside(&place.home()?));
        Ok(Self { address, listener: None, key, roster })
    }

    /// Has the address, unless the one who is displaced has it.
    async fn bind_where_free(&mut self, rivals: Option<SocketAddr>) -> Result<()> {
        let is_rivals = rivals.is_some_and(|rivals| rivals.port() == self.address.port());
        match TcpListener::bind(self.address).await {
            Ok(listener) => self.listener = Some(listener),
            Err(fault) if fault.kind() == io::ErrorKind::AddrInUse && is_rivals => {}
            Err(fault) => return Err(self.unbound(fault)),
        }
        Ok(())
    }

    /// Has the address. Whoever was displaced lets go of it soon.
    async fn bind(&mut self, rival: Rival) -> Result<TcpListener> {
        if let Some(listener) = self.listener.take() {
            return Ok(listener);
        }
        let mut tries = if rival == Rival::Displaced { BIND_TRIES_MAX } else { 0 };
        loop {
            match TcpListener::bind(self.address).await {
                Ok(listener) => return Ok(listener),
                Err(fault) if fault.kind() == io::ErrorKind::AddrInUse && tries > 0 => {
                    tries -= 1;
                    tokio::time::sleep(BIND_WAIT).await;
                }
                Err(fault) => return Err(self.unbound(fault)),
            }
        }
    }

    fn unbound(&self, fault: io::Error) -> anyhow::Error {
        anyhow::Error::new(fault).context(format!("{} cannot be listened on", self.address))
    }
}

/// With what a session is offered.
struct Begin<'a> {
    session: SessionId,
    /// The phase it is moved to first.
    phase: Option<PhaseName>,
    crew: Crew,
    hold: &'a Hold,
    handover: Handover,
    /// Where clients are received; nothing over pipes.
    reception: Option<Reception>,
    /// Who is told at the end that servers are needed no more.
    settled: Arc<Notify>,
}

/// How often it is looked whether another process took the session over.
const HOLD_LOOK: Duration = Duration::from_secs(1);

/// Offers the session until somebody says stop, or another process takes it over.
async fn offer(options: &Options, begin: Begin<'_>, opened: &Opened) -> Result<Exit> {
    let Begin { session, phase, crew, hold, handover, reception, settled } = begin;
    let name = session.clone();
    let open = async |runtime: Arc<Runtime>, crew: Crew| {
        let driver = take_up(runtime, crew, name, phase.as_ref(), handover).await?;
        console::replaced_config(&driver);
        Ok(driver)
    };
    let (clerk, driving) = Clerk::begin(Arc::clone(&opened.runtime), crew, open).await?;
    // Whatever the process itself waits for is woken by a system call, and this is for each call.
    let mut driving = tokio::spawn(driving);
    let noting = tell_notes(clerk.clone());
    let (gateway, telling) = Gateway::new(clerk, env!("CARGO_PKG_VERSION"));
    let mut gateway = gateway.saying_when_settled(settled);
    if options.trust_client_user {
        console::hint(
            "What a person must approve is put before the users of clients; their answers count within \
             a delegation: toolgate approvals delegate CLIENT --tools PATTERN",
        );
        gateway = gateway.trusting_users();
    }
    let (stop, stopped) = watch::channel(false);
    let mut heard = Stop::listen()?;
    let stopping = async {
        heard.heard().await;
        stop.send_replace(true);
        // What was begun may end; the server says when it is done.
        std::future::pending::<()>().await;
    };
    let (id, fenced) = (session.clone(), |fault: StoreFault| match hold.lost(&session) {
        Some(lost) => anyhow::Error::new(lost),
        None => anyhow::Error::new(fault),
    });
    let losing = async {
        loop {
            tokio::time::sleep(HOLD_LOOK).await;
            if let Some(lost) = hold.lost(&session) {
                return anyhow::Error::new(lost);
            }
        }
    };
    let mut serving = std::pin::pin!(async {
        match reception {
            None => over_pipes(gateway, options, stopped).await.map(|()| Exit::Done),
            Some(reception) => over_http(reception, gateway, (id, hold), options, stopped).await,
        }
    });
    let beside = async {
        tokio::join!(telling, noting);
        // They end with the driver, which says why.
        std::future::pending::<()>().await;
    };
    let why = tokio::select! {
        exit = serving.as_mut() => return exit,
        driven = &mut driving => match driven {
            Ok(Ok(())) => return Ok(Exit::Done),
            Ok(Err(fault)) => fenced(fault),
            Err(fault) => anyhow::Error::new(fault).context("the session's driver broke down"),
        },
        lost = losing => lost,
        () = beside => return Ok(Exit::Done),
        () = stopping => return Ok(Exit::Done),
    };
    // Whoever waits is answered before the end, as at any other.
    stop.send_replace(true);
    if let Err(broken) = serving.await {
        console::hint(&format!("! {broken:#}"));
    }
    Err(why.context(format!("nothing more is done in session {session} here")))
}

/// Says once what is the matter with servers and their tools, as soon as it is known.
async fn tell_notes(clerk: Clerk) {
    let (mut views, mut told) = (clerk.watch(), BTreeSet::new());
    while views.changed().await.is_ok() {
        let supplied = Arc::clone(&views.borrow_and_update().supplied);
        for note in &supplied.notes {
            if told.len() < NOTES_MAX && told.insert(note.clone()) {
                console::hint(&format!("! {}", console::visible(note)));
            }
        }
    }
}

/// Opens the session or goes on with it.
async fn take_up(
    runtime: Arc<Runtime>,
    crew: Crew,
    session: SessionId,
    phase: Option<&PhaseName>,
    handover: Handover,
) -> Result<Driver, OpenFault> {
    let actor = Actor::Client("mcp".into());
    let resume = || Driver::resume(Arc::clone(&runtime), crew.clone(), session.clone());
    let mut driver = match resume().await {
        Err(OpenFault::Missing(_)) => {
            let (runtime, crew) = (Arc::clone(&runtime), crew.clone());
            match Driver::open(runtime, crew, session.clone(), &actor, "MCP clients").await {
                // Somebody opened it at the same moment.
                Err(OpenFault::Exists(_)) => resume().await,
                other => other,
            }
        }
        other => other,
    }?;
    // It is claimed; bringing to an end what is open may take a while.
    drop(handover);
    if let Some(phase) = phase {
        // Where the session was is where that belongs.
        driver.settle_forsaken().await?;
        driver.move_to(&actor, phase, "asked for on the command line").await?;
    }
    Ok(driver)
}

async fn over_pipes(
    gateway: Gateway,
    options: &Options,
    stop: watch::Receiver<bool>,
) -> Result<()> {
    let card = gateway.implementation();
    let bound = options.phase.as_deref().filter(|_| options.strict);
    let phase = bound.and_then(|name| PhaseName::parse(name).ok());
    let principal = Arc::new(Principal { name: "stdio".into(), phase });
    let served: Arc<dyn Served> = Arc::new(gateway);
    let (input, output) = (pipes::input(), pipes::output());
    // As with the driver: the process itself is woken by a system call. Whoever does not wait for it
    // any more ends it.
    let mut serving = JoinSet::new();
    serving.spawn(async move { stdio::serve(input, output, served, principal, &card, stop).await });
    match serving.join_next().await.transpose().context("serving the client broke down")? {
        Some(Err(broken)) => Err(broken.into()),
        Some(Ok(())) | None => Ok(()),
    }
}

async fn over_http(
    mut reception: Reception,
    gateway: Gateway,
    (session, hold): (SessionId, &Hold),
    options: &Options,
    mut stop: watch::Receiver<bool>,
) -> Result<Exit> {
    let listener = tokio::select! {
        listener = reception.bind(options.have.rival()) => listener?,
        _ = stop.wait_for(|stopped| *stopped) => return Ok(Exit::Done),
    };
    let address = listener.local_addr()?;
    hold.offer_at(address)?;
    let Reception { key, roster, .. } = reception;
    let porter = TokenPorter {
        key: key.clone(),
        session,
        clock: Arc::new(SystemClock),
        roster: Arc::new(roster),
    };
    let server = gateway.implementation();
    let opening = Opening {
        served: Arc::new(gateway),
        porter: Arc::new(porter),
        door: Door { hosts: options.allow_host.clone(), origins: options.allow_origin.clone() },
        key,
        now: SystemClock.now(),
        server,
    };
    console::hint(&format!("Listening on http://{address}/mcp"));
    if !toolgate_http::is_here(address.ip()) {
        console::hint("This address is reached from outside, without TLS: put a proxy before it.");
    }
    http::serve(listener, opening, stop).await;
    Ok(Exit::Done)
}
