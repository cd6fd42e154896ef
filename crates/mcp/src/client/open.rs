//! Decides how a connection begins: which transport, and which of the two eras.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{ProtocolVersion, ServerPeerInfo, SubscriptionFilter};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, RoleClient, RunningService,
    Subscription,
};
use rmcp::transport::Transport;
use toolgate_http::Transport as Http;
use toolgate_kernel::bounded::bounded_text;
use toolgate_kernel::redact::Redactor;

use super::child::{Launch, Program};
use super::connection::{Connection, Era, Link, Parts, about_us};
use super::fault::{ServerFault, shown};
use super::guest::Guest;
use super::http::Web;
use super::lines::Lines;
use super::outbox::Outbox;
use super::place::Place;
use super::plan::{HttpKind, Reach, ServerPlan};
use super::sse::Older;
use super::stdio::{self, Pipes};
use super::stream::Wire;
use super::switch::{Signal, Switch};

/// How long the wish to hear of changes may take.
const LISTEN: Duration = Duration::from_secs(5);

/// Bytes of the revision that a server names; all there are have ten.
const VERSION_BYTES_MAX: u64 = 64;

/// What a connection has of this side.
pub(super) struct Side {
    /// Whom it tells what is new.
    pub(super) signal: Arc<Signal>,
    /// Who answers the server.
    pub(super) guest: Guest,
    /// Removes secrets from what the server says.
    pub(super) redactor: Redactor,
}

/// Connects to a server and agrees on a revision.
pub(super) async fn open(
    plan: &ServerPlan,
    http: &Http,
    side: &Side,
) -> Result<Connection, ServerFault> {
    let opening = async {
        match &plan.reach {
            Reach::Nowhere { why } => Err(ServerFault::Lacking(why.clone())),
            Reach::Stdio { .. } => piped(plan, side).await,
            Reach::Http { url, headers, bearer, keeper, kind } => {
                let place = Place::new(http, plan, url, headers, bearer.as_ref())?;
                let place = place.kept_by(keeper.as_ref());
                match kind {
                    HttpKind::Streamable => streamable(plan, place, side).await,
                    HttpKind::Sse => older(plan, &place, side).await,
                    HttpKind::Auto => either(plan, place, side).await,
                }
            }
        }
    };
    let wait = Duration::from_millis(plan.connect_ms_max);
    tokio::time::timeout(wait, opening).await.map_err(|_| plan.late())?
}

/// Streamable HTTP, and the older transport where the server does not know it.
async fn either(plan: &ServerPlan, place: Place, side: &Side) -> Result<Connection, ServerFault> {
    match streamable(plan, place.clone(), side).await {
        Err(ServerFault::Status(400 | 404 | 405 | 406 | 415 | 501)) => {
            older(plan, &place, side).await
        }
        other => other,
    }
}

async fn piped(plan: &ServerPlan, side: &Side) -> Result<Connection, ServerFault> {
    let first = start(plan, side, auto(), plan.connect_ms_max / 2).await;
    match first {
        // An old server may end, or fall silent, at a question it does not know. It is asked once
        // more in the old way.
        Err(
            ServerFault::Ended(_)
            | ServerFault::Denied { .. }
            | ServerFault::TimedOut { .. }
            | ServerFault::Misunderstood(_),
        ) => {
            let legacy = ClientLifecycleMode::Initialize;
            start(plan, side, legacy, plan.connect_ms_max).await
        }
        other => other,
    }
}

async fn start(
    plan: &ServerPlan,
    side: &Side,
    mode: ClientLifecycleMode,
    ms: u64,
) -> Result<Connection, ServerFault> {
    let Reach::Stdio { program, args, env, cwd, sandbox } = &plan.reach else {
        return Err(ServerFault::Unknown);
    };
    let bounds = plan.bounds;
    let launch = Launch { program, args, env, cwd, sandbox: sandbox.as_deref() };
    let (program, stdin, stdout) =
        Program::start(&launch, bounds.stderr_bytes_max, &side.redactor)?;
    let words = program.words.clone();
    let switch = Arc::new(Switch::new(Arc::clone(&side.signal)));
    let outbox = stdio::outbox(stdin);
    let pipes = Pipes {
        lines: Lines::new(stdout, bounds.message_bytes_max),
        outbox: outbox.clone(),
        switch: Arc::clone(&switch),
        words: words.clone(),
        bounds,
        noise: 0,
    };
    let late = |_| ServerFault::TimedOut { what: "the handshake", ms, words: words.last() };
    let greeting = greet(pipes, mode, side, &switch);
    let greeted = tokio::time::timeout(Duration::from_millis(ms), greeting).await;
    let greeted = greeted.map_err(late).and_then(|greeted| greeted);
    let (service, era) = greeted.map_err(|fault| program.explain(fault))?;
    let parts = parts(service, program, &era).await;
    Ok(Connection::new(Link::Pipes(outbox), switch, era, parts, plan))
}

/// The new revision, and once the old one where the server did not understand the question.
async fn streamable(
    plan: &ServerPlan,
    place: Place,
    side: &Side,
) -> Result<Connection, ServerFault> {
    match web(plan, place.clone(), side, auto()).await {
        Err(ServerFault::Misunderstood(_)) => {
            web(plan, place, side, ClientLifecycleMode::Initialize).await
        }
        other => other,
    }
}

async fn web(
    plan: &ServerPlan,
    place: Place,
    side: &Side,
    mode: ClientLifecycleMode,
) -> Result<Connection, ServerFault> {
    let switch = Arc::new(Switch::new(Arc::clone(&side.signal)));
    let (web, inbound) = Web::new(place, Arc::clone(&switch), plan.bounds);
    let wire = Wire::new(Arc::clone(&web), inbound, plan.bounds);
    let greeted = greet(wire, mode, side, &switch).await;
    let (service, era) = greeted.map_err(|fault| web.refused.get().cloned().unwrap_or(fault))?;
    web.agreed(&era.version, era.modern);
    // What is told or asked before somebody listens is told to nobody.
    if era.modern && era.tells_changes {
        web.hear_of_changes(Some(about_us(&era, service.service())), LISTEN).await;
    } else if !era.modern && (era.tells_changes || side.guest.answerer.is_some()) {
        web.hear_of_changes(None, LISTEN).await;
    }
    let parts = Parts { service, subscription: None, program: None };
    let spoken = Arc::clone(&web);
    let outbox = Outbox::start(move |message| {
        let web = Arc::clone(&spoken);
        async move {
            web.aside(message).await;
            true
        }
    });
    Ok(Connection::new(Link::Web(web, outbox), switch, era, parts, plan))
}

async fn older(plan: &ServerPlan, place: &Place, side: &Side) -> Result<Connection, ServerFault> {
    let switch = Arc::new(Switch::new(Arc::clone(&side.signal)));
    let older = Older::open(place, Arc::clone(&switch), plan.bounds).await?;
    let mailbox = older.mailbox();
    let (service, era) = greet(older, ClientLifecycleMode::Initialize, side, &switch).await?;
    let parts = Parts { service, subscription: None, program: None };
    let spoken = Arc::clone(&mailbox);
    let outbox = Outbox::start(move |message| {
        let mailbox = Arc::clone(&spoken);
        async move {
            let deadline = toolgate_http::after(tokio::time::Instant::now(), 10_000);
            let _ = mailbox.put(toolgate_http::Verb::Post, message, deadline).await;
            true
        }
    });
    Ok(Connection::new(Link::Sse(mailbox, outbox), switch, era, parts, plan))
}

/// The new revision first; an old one where the server says, in the words of the protocol, that it
/// does not know the new.
fn auto() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

async fn greet<T: Transport<RoleClient> + 'static>(
    transport: T,
    mode: ClientLifecycleMode,
    side: &Side,
    switch: &Switch,
) -> Result<(RunningService<RoleClient, Guest>, Era), ServerFault> {
    let served = side.guest.clone().serve_with_lifecycle(transport, mode).await;
    let service = served.map_err(|error| match switch.gone() {
        Some(fault) => fault.clone(),
        None => refused(&error),
    })?;
    let info = service.peer().peer_info();
    let silent = || ServerFault::Protocol("it does not say who it is".to_owned());
    let info = info.ok_or_else(silent)?;
    let version = info.protocol_version.as_str();
    let is_date = version.len() == 10 && version.bytes().all(|c| c.is_ascii_digit() || c == b'-');
    if !is_date {
        let version = shown(version, 40);
        return Err(ServerFault::Protocol(format!("it speaks {version:?}, which is no revision")));
    }
    Ok((service, era(&info)))
}

fn era(info: &ServerPeerInfo) -> Era {
    let tools = info.capabilities.tools.as_ref();
    Era {
        version: bounded_text(info.protocol_version.as_str(), VERSION_BYTES_MAX).into_owned(),
        modern: !info.protocol_version.has_initialize(),
        has_tools: tools.is_some(),
        tells_changes: tools.is_some_and(|tools| tools.list_changed == Some(true)),
        instructions: info.instructions.clone(),
    }
}

/// What a connection to a program consists of; one of the new revision is asked to tell when its
/// list changes, one of an old revision does so by itself.
async fn parts(service: RunningService<RoleClient, Guest>, program: Program, era: &Era) -> Parts {
    let mut subscription: Option<Subscription> = None;
    if era.modern && era.tells_changes {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        let listening = tokio::time::timeout(LISTEN, service.peer().listen(filter)).await;
        subscription = listening.ok().and_then(Result::ok);
    }
    Parts { service, subscription, program: Some(program) }
}

/// What a failed handshake means. An error in the words of the new revision is no misunderstanding.
fn refused(error: &ClientInitializeError) -> ServerFault {
    let words = shown(&error.to_string(), 300);
    let misunderstood = matches!(
        error,
        ClientInitializeError::ExpectedInitResult(_)
            | ClientInitializeError::ExpectedInitResponse(_)
            | ClientInitializeError::ConflictInitResponseId(..)
            | ClientInitializeError::UncorrelatedErrorResponse { .. }
    );
    if misunderstood { ServerFault::Misunderstood(words) } else { ServerFault::Protocol(words) }
}
