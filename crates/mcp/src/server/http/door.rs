//! Decides who may come in over HTTP: which host was meant, from which page, with which token.

use std::sync::Arc;

use hyper::header::{AUTHORIZATION, HOST, ORIGIN};
use hyper::{HeaderMap, StatusCode, Uri};
use toolgate_http::names_here;
use toolgate_kernel::names::PhaseName;

use super::super::served::{Principal, Served};

/// Why nobody is let in with what was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// No token was shown.
    Missing,
    /// It is not one of ours.
    Invalid,
    /// It is one of ours, and opens another session. Only whoever has such a one is told.
    OtherSession,
    /// It is one of ours, and over.
    Expired,
    /// It is one of ours, and was revoked.
    Revoked,
}

/// Says who holds a token.
pub trait Porter: Send + Sync + 'static {
    /// Looks at what came after `Bearer`.
    fn admit(&self, token: Option<&str>) -> Result<Arc<Principal>, Denied>;
}

/// Which hosts and origins are let in beside this computer's own.
#[derive(Debug, Clone, Default)]
pub struct Door {
    /// `name` or `name:port`.
    pub hosts: Vec<String>,
    /// `scheme://name` or `scheme://name:port`.
    pub origins: Vec<String>,
}

/// Where on this server somebody wants to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entrance {
    pub(crate) principal: Arc<Principal>,
    /// The only phase that holds for the request.
    pub(crate) phase: Option<PhaseName>,
}

impl Door {
    /// Lets somebody in, or says with which status not.
    pub(crate) fn enter(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        porter: &dyn Porter,
        served: &dyn Served,
    ) -> Result<Entrance, (StatusCode, Option<Denied>)> {
        if !self.host_is_known(uri, headers) || !self.origin_is_known(headers) {
            return Err((StatusCode::FORBIDDEN, None));
        }
        let principal = porter
            .admit(bearer(headers))
            .map_err(|denied| (StatusCode::UNAUTHORIZED, Some(denied)))?;
        let missing = (StatusCode::NOT_FOUND, None);
        let place = match uri.path().strip_prefix("/mcp") {
            Some("" | "/") => None,
            Some(rest) => {
                let name = rest.strip_prefix("/phase/").ok_or(missing)?;
                let phase = PhaseName::parse(name).map_err(|_| missing)?;
                Some(phase).filter(|phase| served.has_phase(phase)).ok_or(missing).map(Some)?
            }
            None => return Err(missing),
        };
        let phase = match (&principal.phase, place) {
            // What a token cannot reach is not there for it.
            (Some(own), Some(place)) if *own != place => return Err(missing),
            (Some(own), _) => Some(own.clone()),
            (None, place) => place,
        };
        Ok(Entrance { principal, phase })
    }

    /// A page that had its own name point here is told by the name it used.
    pub(super) fn host_is_known(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let mut named = headers.get_all(HOST).iter();
        let host = match (named.next(), named.next()) {
            (Some(host), None) => host.to_str().ok(),
            _ => None,
        };
        let Some(host) = host else { return false };
        // A whole address in the request line must name the same host.
        if uri.authority().is_some_and(|authority| authority.as_str() != host) {
            return false;
        }
        is_loopback(host) || self.hosts.iter().any(|known| same_host(known, host))
    }

    fn origin_is_known(&self, headers: &HeaderMap) -> bool {
        headers.get_all(ORIGIN).iter().all(|origin| {
            let Ok(origin) = origin.to_str() else { return false };
            let own = origin.split_once("://").is_some_and(|(scheme, host)| {
                matches!(scheme, "http" | "https") && is_loopback(host)
            });
            own || self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
        })
    }
}

/// The name without its port.
fn bare(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inside, after)) if after.is_empty() || is_port(after) => inside,
        Some(_) => "",
        None => match host.split_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            Some(_) => "",
            None => host,
        },
    }
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_loopback(host: &str) -> bool {
    names_here(bare(host))
}

/// A known host without a port stands for every port of it.
fn same_host(known: &str, host: &str) -> bool {
    known.eq_ignore_ascii_case(host)
        || (bare(known) == known && known.eq_ignore_ascii_case(bare(host)))
}

/// The token of a request. Two of them are none.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut shown = headers.get_all(AUTHORIZATION).iter();
    let only = shown.next()?;
    if shown.next().is_some() {
        return Some("");
    }
    let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_computer_is_known_by_itself() {
        for host in ["localhost", "localhost:80", "127.0.0.1:9", "[::1]", "[::1]:9", "LOCALHOST"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "[::1]x",
            "127.0.0.1:9@evil",
            "",
            "::1:x",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
        assert!(same_host("gate.example", "gate.example:8443"));
        assert!(!same_host("gate.example:1", "gate.example:2"));
        assert!(!same_host("gate.example", "evil.gate.example"));
    }
}
