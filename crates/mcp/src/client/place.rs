//! Decides where messages to a server over HTTP go, and which headers they have.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
};
use hyper::{Uri, Version};
use tokio::time::Instant;
use toolgate_http::{
    AddressRefusal, Answer, Asking, HttpFault, Origin, Patience, Plain, Server, Transport, Verb,
};
use toolgate_kernel::config::is_server_header;
use toolgate_kernel::names::ServerName;

use super::fault::ServerFault;
use super::oauth::{self, Challenge, Keeper};
use super::plan::ServerPlan;
use toolgate_kernel::hidden::Hidden;

/// A server over HTTP: its connections, the path, and the headers that every message has.
#[derive(Clone)]
pub(super) struct Place {
    server: Arc<Server>,
    origin: Origin,
    /// The address as it is configured; paths that a server names are relative to it.
    url: String,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) patience: Patience,
    /// The name of the server.
    name: ServerName,
    /// Who has the token of a login.
    keeper: Option<Arc<Keeper>>,
}

impl Place {
    pub(super) fn new(
        transport: &Transport,
        plan: &ServerPlan,
        url: &str,
        headers: &[(String, Hidden)],
        bearer: Option<&Hidden>,
    ) -> Result<Self, ServerFault> {
        let (origin, uri) = address(url)?;
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            let (name, value) = header(name, value)?;
            all.insert(name, value);
        }
        if let Some(token) = bearer {
            let value = Hidden::new(format!("Bearer {}", token.reveal()));
            all.insert(AUTHORIZATION, header("authorization", &value)?.1);
        }
        let host = HeaderValue::from_str(&origin.to_string());
        all.insert(HOST, host.map_err(|_| ServerFault::Address("its host is no name"))?);
        all.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        all.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let patience = Patience {
            connect_ms_max: plan.connect_ms_max.max(1),
            // A server may think as long as a call may take.
            idle_ms_max: Some(plan.call_ms_max.max(1)),
            request_ms_max: Some(plan.call_ms_max.max(1)),
            answer_bytes_max: u64::try_from(plan.bounds.message_bytes_max).unwrap_or(u64::MAX),
            ..Patience::default()
        };
        let server = transport.server(origin.clone());
        let (url, name) = (url.trim().to_owned(), plan.name.clone());
        Ok(Self { server, origin, url, uri, headers: all, patience, name, keeper: None })
    }

    /// The same place, with the token of a login where there is one.
    pub(super) fn kept_by(self, keeper: Option<&Arc<Keeper>>) -> Self {
        let keeper = keeper.cloned();
        if let Some(keeper) = &keeper {
            keeper.look();
        }
        Self { keeper, ..self }
    }

    /// Sends a message; the head of the answer is there when this returns. A token that the server
    /// refuses is renewed once, and one that lacks rights exchanged for that of a login since; the
    /// message, which the server did not take, is sent with it.
    pub(super) async fn send(
        &self,
        verb: Verb,
        headers: &HeaderMap,
        body: Bytes,
        deadline: Instant,
        patience: &Patience,
    ) -> Result<Answer, HttpFault> {
        let Some(keeper) = &self.keeper else {
            return self.put(verb, headers, body, deadline, patience).await;
        };
        // Whoever has no login has no room for one.
        Box::pin(self.send_with_login(keeper, verb, headers, body, deadline, patience)).await
    }

    async fn send_with_login(
        &self,
        keeper: &Arc<Keeper>,
        verb: Verb,
        headers: &HeaderMap,
        body: Bytes,
        deadline: Instant,
        patience: &Patience,
    ) -> Result<Answer, HttpFault> {
        let late = |_| oauth::late(patience.request_ms(false));
        let token = tokio::time::timeout_at(deadline, keeper.header()).await.map_err(late)??;
        let Some(token) = token else {
            return self.put(verb, headers, body, deadline, patience).await;
        };
        let mut all = headers.clone();
        all.insert(AUTHORIZATION, token.clone());
        let answer = self.put(verb, &all, body.clone(), deadline, patience).await?;
        let other = match answer.status {
            401 => {
                let other = tokio::time::timeout_at(deadline, keeper.instead_of(&token));
                other.await.map_err(late)??
            }
            403 if Challenge::of(&answer.headers).wants_more() => keeper.since(&token),
            _ => None,
        };
        let Some(other) = other else { return Ok(answer) };
        all.insert(AUTHORIZATION, other);
        self.put(verb, &all, body, deadline, patience).await
    }

    async fn put(
        &self,
        verb: Verb,
        headers: &HeaderMap,
        body: Bytes,
        deadline: Instant,
        patience: &Patience,
    ) -> Result<Answer, HttpFault> {
        let asking = Asking { uri: &self.uri, headers, body, deadline };
        self.server.send_as(verb, &asking, patience).await
    }

    /// How long a stream of notifications is read: it says nothing for hours.
    pub(super) fn stream_patience(&self) -> Patience {
        /// A day; then it is opened anew.
        const DAY_MS: u64 = 24 * 3_600_000;
        Patience {
            first_byte_ms_max: Some(self.patience.connect_ms_max),
            idle_ms_max: Some(DAY_MS),
            request_ms_max: Some(DAY_MS),
            answer_bytes_max: u64::MAX,
            ..self.patience.clone()
        }
    }

    /// The same place with another path, which the server named. It must be on the same server.
    pub(super) fn elsewhere(&self, named: &str) -> Result<Self, ServerFault> {
        let named = named.trim();
        let url = if named.contains("://") {
            named.to_owned()
        } else if named.starts_with("//") || named.contains('\\') {
            return Err(ServerFault::Elsewhere);
        } else {
            self.beside(named).ok_or(ServerFault::Elsewhere)?
        };
        let (origin, uri) = address(&url)?;
        if origin != self.origin {
            return Err(ServerFault::Elsewhere);
        }
        Ok(Self { uri, url, ..self.clone() })
    }

    /// What a server means that wants to know who asks, or wants more than the token allows.
    pub(super) fn unauthorized(&self, answer: &Answer) -> ServerFault {
        let challenge = oauth::told(&answer.headers);
        let status = answer.status;
        let Some(keeper) = &self.keeper else {
            return ServerFault::Unauthorized { status, challenge };
        };
        let server = self.name.clone();
        let told = Challenge::read(challenge.as_deref().unwrap_or_default());
        if status == 403 && told.wants_more() {
            keeper.missed(&told.scopes);
            let scopes = super::fault::shown(&told.scopes.join(" "), 200);
            return ServerFault::WantsMore { server, scopes };
        }
        if status == 401 {
            // A person may log in at any time; the next message has the token then.
            keeper.look();
            return ServerFault::WantsLogin { server, challenge };
        }
        ServerFault::Unauthorized { status, challenge }
    }

    /// A path, seen from this one.
    fn beside(&self, path: &str) -> Option<String> {
        let (scheme, rest) = self.url.split_once("://")?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let authority = rest.get(..end)?;
        if path.starts_with('/') {
            return Some(format!("{scheme}://{authority}{path}"));
        }
        let base = self.uri.path();
        let folder = base.get(..=base.rfind('/')?)?;
        Some(format!("{scheme}://{authority}{folder}{path}"))
    }
}

/// The server and the path of an address, its query too.
fn address(url: &str) -> Result<(Origin, Uri), ServerFault> {
    let text = url.trim();
    let bare = text.split(['?', '#']).next().unwrap_or_default();
    let refused = |refusal| match refusal {
        AddressRefusal::Unreadable | AddressRefusal::Query => {
            ServerFault::Address("write it like https://mcp.example.com/mcp")
        }
        AddressRefusal::Scheme => ServerFault::Address("it must begin with https:// or http://"),
        AddressRefusal::Password => {
            ServerFault::Address("it holds a name or a password; use headers or a bearer token")
        }
    };
    let (origin, _) = toolgate_http::parse(bare, Plain::Private).map_err(refused)?;
    let unusable = |_| ServerFault::Address("its path cannot be sent");
    let whole: Uri = text.split('#').next().unwrap_or_default().parse().map_err(unusable)?;
    let path = whole.path_and_query().map_or("/", |path| path.as_str());
    let uri = Uri::builder().path_and_query(path).build();
    // The library wants to be asked for a version somewhere; it is always this one.
    debug_assert_eq!(Version::default(), Version::HTTP_11);
    Ok((origin, uri.map_err(|_| ServerFault::Address("its path cannot be sent"))?))
}

fn header(name: &str, value: &Hidden) -> Result<(HeaderName, HeaderValue), ServerFault> {
    let refused = || ServerFault::Header(super::fault::shown(name, 80));
    let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refused())?;
    if !is_server_header(name) {
        return Err(refused());
    }
    let mut value = HeaderValue::from_str(value.reveal()).map_err(|_| refused())?;
    value.set_sensitive(true);
    Ok((parsed, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::plan::{Bounds, HttpKind, Reach};
    use toolgate_http::Roots;

    fn place(url: &str, headers: &[(&str, &str)]) -> Result<Place, ServerFault> {
        let reach = Reach::Http {
            url: url.into(),
            headers: vec![],
            bearer: None,
            keeper: None,
            kind: HttpKind::Auto,
        };
        let plan = ServerPlan {
            name: ServerName::parse("x").unwrap(),
            reach,
            connect_ms_max: 1,
            call_ms_max: 1,
            bounds: Bounds::default(),
        };
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), Hidden::new(value))).collect();
        let bearer = Hidden::new("canary");
        Place::new(&Transport::new(Roots::default()), &plan, url, &headers, Some(&bearer))
    }

    #[test]
    fn an_address_keeps_its_path_and_query() {
        for (url, path) in [
            ("http://127.0.0.1:1/mcp/", "/mcp/"),
            ("http://127.0.0.1:1/mcp?key=1", "/mcp?key=1"),
            ("http://127.0.0.1:1", "/"),
            ("https://x.example/a#b", "/a"),
        ] {
            assert_eq!(place(url, &[]).unwrap().uri.to_string(), path, "{url}");
        }
        for url in ["ftp://x", "x", "http://a:b@x/", "javascript:alert(1)", ""] {
            assert!(matches!(place(url, &[]), Err(ServerFault::Address(_))), "{url}");
        }
    }

    #[test]
    fn a_named_path_stays_on_the_server() {
        let place = place("http://127.0.0.1:81/mcp/sse?a=1", &[]).unwrap();
        for (named, path) in [
            ("/messages?id=1", "/messages?id=1"),
            ("messages", "/mcp/messages"),
            ("http://127.0.0.1:81/m", "/m"),
        ] {
            assert_eq!(place.elsewhere(named).unwrap().uri.to_string(), path, "{named}");
        }
        for named in [
            "http://169.254.169.254/",
            "http://127.0.0.1:82/m",
            "https://127.0.0.1:81/m",
            "//evil.example/m",
            "http://127.0.0.1:81@evil.example/m",
            "\\\\evil.example\\m",
        ] {
            assert!(place.elsewhere(named).is_err(), "{named}");
        }
    }

    #[test]
    fn headers_are_one_line_and_leave_ours_alone() {
        for (name, value) in
            [("X\r\nY", "a"), ("x-a", "b\r\nc: d"), ("Host", "evil"), ("mcp-session-id", "1")]
        {
            assert!(place("http://127.0.0.1/", &[(name, value)]).is_err(), "{name}");
        }
        let place = place("http://127.0.0.1/", &[("x-a", "b")]).unwrap();
        assert_eq!(place.headers["x-a"], "b");
        assert!(!format!("{:?}", place.headers).contains("canary"));
    }
}
