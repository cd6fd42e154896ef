//! Decides how requests reach this server over HTTP: bounded connections, headers, bodies and waits.

mod body;
mod connection;
mod door;
mod headers;
mod pages;
mod places;
mod post;
mod silence;
mod unread;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use toolgate_kernel::hidden::Hidden;
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::token_key::TokenKey;

use self::body::Reply;
use self::connection::Leaving;
use self::door::Entrance;
pub use self::door::{Denied, Door, Porter};
use self::pages::Page;
use self::places::{Place, Places};
use self::post::{Posted, events};
use super::line::LINE_MESSAGES_MAX;
use super::protocol::{self, Wanted};
use super::served::Served;
use super::stop::ends;
use super::visit::Visits;

/// How long a client may take for its body.
const BODY_WAIT: Duration = Duration::from_secs(20);

/// An MCP server over HTTP.
pub struct Server {
    served: Arc<dyn Served>,
    porter: Arc<dyn Porter>,
    door: Door,
    visits: Visits,
    /// Name and version, as every answer of the newest revision carries them.
    card: String,
    /// Bytes of one body.
    body_bytes_max: usize,
    stop: watch::Receiver<bool>,
}

/// What a server over HTTP is made of.
pub struct Opening {
    /// What is offered.
    pub served: Arc<dyn Served>,
    /// Who knows the tokens.
    pub porter: Arc<dyn Porter>,
    /// Which hosts and origins are let in.
    pub door: Door,
    /// Signs the handles of clients.
    pub key: TokenKey,
    /// The moment of opening.
    pub now: Timestamp,
    /// Name and version, as the protocol's `Implementation`.
    pub server: serde_json::Value,
}

/// Serves until it is told to stop, and then until what was begun is done, but not for long.
pub async fn serve(listener: TcpListener, opening: Opening, stop: watch::Receiver<bool>) {
    let Opening { served, porter, door, key, now, server } = opening;
    let visits = Visits::new(key, now.0);
    let (card, mut told) = (server.to_string(), stop.clone());
    let limits = served.limits();
    let count = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
    let body_bytes_max = count(limits.mcp_body_bytes_max);
    let stopping = Arc::clone(&served);
    let server = Arc::new(Server { served, porter, door, visits, card, body_bytes_max, stop });
    let places = Places::new(count(limits.mcp_connections_max));
    let (mut connections, mut next) = (JoinSet::new(), None);
    loop {
        let place = tokio::select! {
            _ = told.wait_for(|stopped| *stopped) => break,
            Some(_) = connections.join_next() => continue,
            // One waits for a place; whoever comes later waits in line with the system.
            stream = accept(&listener), if next.is_none() => {
                next = stream;
                continue;
            }
            place = places.take(), if next.is_some() => place,
        };
        if let Some(stream) = next.take() {
            let server = Arc::clone(&server);
            connections.spawn(connection(stream, server, place));
        }
    }
    drop(listener);
    stopping.turn_away();
    ends(stopping.as_ref(), async { while connections.join_next().await.is_some() {} }).await;
    connections.shutdown().await;
}

async fn accept(listener: &TcpListener) -> Option<TcpStream> {
    match listener.accept().await {
        Ok((stream, _)) => Some(stream),
        Err(_) => {
            // Too many open files, most likely; the next moment may be better.
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

async fn connection(stream: TcpStream, server: Arc<Server>, place: Place) {
    drop(stream.set_nodelay(true));
    let (mut stop, place) = (server.stop.clone(), &Arc::new(place));
    let respond = |request| {
        let (server, place) = (Arc::clone(&server), Arc::clone(place));
        async move { respond(&server, &place, request).await }
    };
    let leaving = async {
        tokio::select! {
            () = place.lost() => Leaving::AtOnce,
            _ = stop.wait_for(|stopped| *stopped) => Leaving::WhenAnswered,
        }
    };
    connection::serve(stream, respond, leaving).await;
}

async fn respond(
    server: &Arc<Server>,
    place: &Place,
    request: Request<Incoming>,
) -> Response<Reply> {
    let (head, body) = request.into_parts();
    let page = Page::of(&server.door, &head.headers);
    let page = page.filter(|_| server.door.host_is_known(&head.uri, &head.headers));
    let mut reply = match &page {
        Some(_) if pages::asks_first(&head.method, &head.headers) => {
            let mut reply = empty(StatusCode::NO_CONTENT);
            reply.headers_mut().extend(pages::may_send(&head.headers));
            reply
        }
        Some(_) | None => answer(server, place, head, body).await,
    };
    if let Some(page) = page {
        page.may_read(reply.headers_mut());
    }
    reply
}

async fn answer(
    server: &Arc<Server>,
    place: &Place,
    head: Parts,
    body: Incoming,
) -> Response<Reply> {
    let (porter, served) = (server.porter.as_ref(), server.served.as_ref());
    let entrance = match server.door.enter(&head.uri, &head.headers, porter, served) {
        Ok(entrance) => entrance,
        Err((StatusCode::UNAUTHORIZED, denied)) => return unauthorized(denied),
        Err((status, _)) => return closing(turned_away(status)),
    };
    if !place.belongs_to(&entrance.principal.name) {
        let words = "Too many connections with this token; close some, then try again.";
        return closing(plain(StatusCode::TOO_MANY_REQUESTS, words));
    }
    match head.method {
        Method::POST => match read(&head.headers, body, server.body_bytes_max).await {
            Ok(body) => {
                let posted = Posted { headers: &head.headers, entrance: &entrance };
                posted.handle(server, &body).await
            }
            // What is left of a body is not read, so nothing more can come this way.
            Err(status) => closing(turned_away(status)),
        },
        Method::GET => stream(server, &head.headers, &entrance),
        Method::DELETE => leave(server, &head.headers, &entrance),
        _ => not_allowed(),
    }
}

async fn read(headers: &HeaderMap, body: Incoming, bytes_max: usize) -> Result<Bytes, StatusCode> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    let said = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if said.is_some_and(|said: usize| said > bytes_max) {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    let whole = Limited::new(body, bytes_max).collect();
    match tokio::time::timeout(BODY_WAIT, whole).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(fault)) if fault.is::<LengthLimitError>() => Err(StatusCode::PAYLOAD_TOO_LARGE),
        Ok(Err(_)) => Err(StatusCode::BAD_REQUEST),
        Err(_) => Err(StatusCode::REQUEST_TIMEOUT),
    }
}

/// The stream of news that clients of the older revisions may open.
fn stream(server: &Arc<Server>, headers: &HeaderMap, entrance: &Entrance) -> Response<Reply> {
    let Ok(Some(handle)) = headers::only(headers, &headers::SESSION) else { return not_allowed() };
    let found = server.visits.find(handle, &entrance.principal, entrance.phase.as_ref());
    let Some(visit) = found else { return plain(StatusCode::NOT_FOUND, "") };
    if visit.streaming.swap(true, Ordering::Relaxed) {
        return plain(StatusCode::CONFLICT, "There is a stream already.");
    }
    let (sender, messages) = mpsc::channel(LINE_MESSAGES_MAX);
    let (server, mut stop) = (Arc::clone(server), server.stop.clone());
    let (streaming, token) = (Streaming(Arc::clone(&visit)), token(headers));
    let work = Box::pin(async move {
        let _streaming = streaming;
        let served = server.served.as_ref();
        tokio::select! {
            () = protocol::listen(served, &visit.caller, Wanted::ALL, None, &sender) => {}
            () = visit.left.notified() => {}
            () = until_denied(server.porter.as_ref(), &token) => {}
            _ = stop.wait_for(|stopped| *stopped) => {}
        }
        None
    });
    events(Reply::events(None, messages, work))
}

/// How often it is looked whether whoever listens may still do so.
const TOKEN_LOOK: Duration = Duration::from_secs(2);

/// The token of a request, for as long as its stream is open.
fn token(headers: &HeaderMap) -> Hidden {
    Hidden::new(door::bearer(headers).unwrap_or_default())
}

/// Waits until a token does not hold any more: it was revoked, or is over.
async fn until_denied(porter: &dyn Porter, token: &Hidden) {
    let mut look = tokio::time::interval(TOKEN_LOOK);
    loop {
        look.tick().await;
        if porter.admit(Some(token.reveal())).is_err() {
            return;
        }
    }
}

/// A stream of news; when it ends, another may begin.
struct Streaming(Arc<super::visit::Visit>);

impl Drop for Streaming {
    fn drop(&mut self) {
        self.0.streaming.store(false, Ordering::Relaxed);
    }
}

fn leave(server: &Server, headers: &HeaderMap, entrance: &Entrance) -> Response<Reply> {
    let Ok(Some(handle)) = headers::only(headers, &headers::SESSION) else { return not_allowed() };
    match server.visits.find(handle, &entrance.principal, entrance.phase.as_ref()) {
        None => plain(StatusCode::NOT_FOUND, ""),
        Some(_) => {
            server.visits.forget(handle);
            empty(StatusCode::NO_CONTENT)
        }
    }
}

fn not_allowed() -> Response<Reply> {
    let mut reply = plain(StatusCode::METHOD_NOT_ALLOWED, "");
    reply.headers_mut().insert(hyper::header::ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
    reply
}

/// What was wrong with a token is told to those who have one that was signed here, and to nobody else.
fn unauthorized(denied: Option<Denied>) -> Response<Reply> {
    macro_rules! invalid {
        ($why:literal) => {
            concat!(
                "Bearer realm=\"toolgate\", error=\"invalid_token\", error_description=\"",
                $why,
                "\""
            )
        };
    }
    let (challenge, words) = match denied {
        Some(Denied::Invalid) => (
            "Bearer realm=\"toolgate\", error=\"invalid_token\"",
            "This is no token of this server; make one with: toolgate token create",
        ),
        Some(Denied::Expired) => (
            invalid!("The token has expired"),
            "The token has expired; make a new one with: toolgate token create",
        ),
        Some(Denied::Revoked) => (
            invalid!("The token was revoked"),
            "The token was revoked; make a new one with: toolgate token create",
        ),
        Some(Denied::OtherSession) => (
            invalid!("The token is for another session"),
            "The token is for another session; make one with: toolgate token create --session NAME",
        ),
        Some(Denied::Missing) | None => {
            ("Bearer realm=\"toolgate\"", "A token is needed; make one with: toolgate token create")
        }
    };
    let mut reply = closing(plain(StatusCode::UNAUTHORIZED, words));
    reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    reply
}

fn closing(mut reply: Response<Reply>) -> Response<Reply> {
    reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    reply
}

/// Nobody is told more than that: what there is here is for those who are let in.
fn turned_away(status: StatusCode) -> Response<Reply> {
    let words = match status {
        StatusCode::FORBIDDEN => {
            "This host or web page is not let in; see --allow-host and --allow-origin."
        }
        StatusCode::NOT_FOUND => {
            "There is nothing here; the address ends in /mcp, or in /mcp/phase/ and a phase."
        }
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "Send it as application/json.",
        StatusCode::PAYLOAD_TOO_LARGE => "The body is too large (limits.mcp_body_bytes_max).",
        StatusCode::REQUEST_TIMEOUT => "The body did not come in time.",
        _ => "",
    };
    plain(status, words)
}

fn plain(status: StatusCode, words: &'static str) -> Response<Reply> {
    let mut reply = Response::new(Reply::whole(words));
    *reply.status_mut() = status;
    reply
}

fn empty(status: StatusCode) -> Response<Reply> {
    let mut reply = Response::new(Reply::Whole(None));
    *reply.status_mut() = status;
    reply
}
