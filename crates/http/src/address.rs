//! Decides which server an address names, and where a key may travel in clear text: nowhere but on
//! a private network.

use std::fmt;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::Uri;
use toolgate_kernel::config::is_private;

use super::egress::Egress;
use super::fault::HttpFault;
use super::network::Network;

/// Addresses of one name that are looked at.
const ADDRESSES_MAX: usize = 32;

/// A server: how it is spoken to, its name and its port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// Whether TLS is spoken.
    pub(super) secure: bool,
    /// Its name, or its address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// Whether clear text to a public address was allowed in so many words.
    pub(super) plain_allowed: bool,
    /// Where it may be.
    pub(super) egress: Egress,
}

/// An address that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressRefusal {
    /// It is no address.
    #[error("base_url is no address: write it like https://api.example.com/v1")]
    Unreadable,
    /// It speaks something else.
    #[error("base_url must begin with https:// or http://")]
    Scheme,
    /// It holds a name or a password.
    #[error("base_url holds a name or a password; give the key as api_key")]
    Password,
    /// It has a query.
    #[error(
        "base_url has a `?`, and no query is sent: leave it out; Azure needs no api-version at \
         https://NAME.openai.azure.com/openai/v1"
    )]
    Query,
}

/// A `base_url` taken apart: the server, and the path before the endpoint.
pub fn parse(base_url: &str, plain: Plain) -> Result<(Origin, String), AddressRefusal> {
    let text = base_url.trim();
    if text.contains('?') || text.contains('#') {
        return Err(AddressRefusal::Query);
    }
    let uri: Uri = text.parse().map_err(|_| AddressRefusal::Unreadable)?;
    let secure = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        Some(_) => return Err(AddressRefusal::Scheme),
        None => return Err(AddressRefusal::Unreadable),
    };
    let authority = uri.authority().ok_or(AddressRefusal::Unreadable)?;
    if authority.as_str().contains('@') {
        return Err(AddressRefusal::Password);
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_lowercase();
    if host.is_empty() {
        return Err(AddressRefusal::Unreadable);
    }
    let port = match authority.port() {
        Some(port) => port.as_u16(),
        // What stands after the host and is no port is a slip.
        None if authority.as_str() != authority.host() => return Err(AddressRefusal::Unreadable),
        None => {
            if secure {
                443
            } else {
                80
            }
        }
    };
    let path = uri.path().trim_end_matches('/').to_owned();
    let plain_allowed = plain == Plain::Anywhere;
    Ok((Origin { secure, host, port, plain_allowed, egress: Egress::Anywhere }, path))
}

/// Where `http://` may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Plain {
    /// On this computer and on private networks.
    #[default]
    Private,
    /// Anywhere; somebody decided that in so many words.
    Anywhere,
}

impl Origin {
    /// The same server, reached only where it may be. Its connections are shared with nobody who
    /// may go elsewhere.
    #[must_use]
    pub fn only(self, egress: Egress) -> Self {
        Self { egress, ..self }
    }

    /// Whether TLS is spoken.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// Its name, or its address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Where the server is, looked up once: what was checked is what is connected to.
    pub(super) async fn addresses(
        &self,
        network: &dyn Network,
        ms: u64,
    ) -> Result<Vec<SocketAddr>, HttpFault> {
        let none = || HttpFault::NoAddress { host: self.host.clone() };
        let mut found = match self.host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, self.port)],
            Err(_) => {
                let looking = network.look_up(&self.host, self.port);
                let looked = tokio::time::timeout(Duration::from_millis(ms), looking).await;
                let late = |_| HttpFault::Unready { what: "finding the address of the server", ms };
                looked.map_err(late)?.map_err(|_| none())?
            }
        };
        found.truncate(ADDRESSES_MAX);
        if found.is_empty() {
            return Err(none());
        }
        if !self.egress.allows(&found) {
            return Err(HttpFault::Forbidden { host: self.host.clone() });
        }
        if !self.secure && !self.plain_allowed && !all_private(&found) {
            return Err(HttpFault::ClearText { host: self.host.clone() });
        }
        Ok(found)
    }
}

/// The host as a `Host` header says it.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]", self.host)?;
        } else {
            f.write_str(&self.host)?;
        }
        let usual = if self.secure { 443 } else { 80 };
        if self.port == usual { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

/// Whether every one of these is on this computer or on a private network.
pub(super) fn all_private(addresses: &[SocketAddr]) -> bool {
    addresses.iter().all(|address| is_private(address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let table = [
            ("https://api.example.com/v1", "api.example.com", "/v1"),
            ("http://127.0.0.1:1234", "127.0.0.1:1234", ""),
            ("http://[::1]:8080/v1/", "[::1]:8080", "/v1"),
            ("https://API.Example.com:443/a/b//", "api.example.com", "/a/b"),
        ];
        for (text, host, path) in table {
            let (origin, found) = parse(text, Plain::Private).unwrap();
            assert_eq!((origin.to_string().as_str(), found.as_str()), (host, path), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let table = [
            ("", AddressRefusal::Unreadable),
            ("api.example.com/v1", AddressRefusal::Unreadable),
            ("ftp://example.com", AddressRefusal::Scheme),
            ("https://ada:word@example.com", AddressRefusal::Password),
            ("https://example.com/v1?key=sk-CANARY", AddressRefusal::Query),
            ("https://", AddressRefusal::Unreadable),
            ("https://example.com:99999/", AddressRefusal::Unreadable),
        ];
        for (text, refusal) in table {
            let found = parse(text, Plain::Private).unwrap_err();
            assert_eq!(found, refusal, "{text}");
            assert!(!found.to_string().contains("CANARY"));
        }
    }

    #[test]
    fn private_is_what_no_router_of_the_internet_carries() {
        let table = [
            ("127.0.0.1", true),
            ("10.1.2.3", true),
            ("172.31.0.1", true),
            ("172.32.0.1", false),
            ("192.168.1.9", true),
            ("100.64.0.1", true),
            ("100.128.0.1", false),
            ("169.254.0.1", true),
            ("8.8.8.8", false),
            ("0.0.0.0", false),
            ("::1", true),
            ("fd00::1", true),
            ("fe80::1", true),
            ("2001:4860:4860::8888", false),
            ("::ffff:192.168.1.9", true),
            ("::ffff:8.8.8.8", false),
        ];
        for (text, wanted) in table {
            assert_eq!(is_private(text.parse().unwrap()), wanted, "{text}");
        }
    }

    #[tokio::test]
    async fn clear_text_stays_on_private_networks() {
        let lookup = async |text: &str, plain| {
            let (origin, _) = parse(text, plain).unwrap();
            origin.addresses(&crate::network::System, 1_000).await.map(drop)
        };
        assert_eq!(lookup("http://127.0.0.1:1", Plain::Private).await, Ok(()));
        assert_eq!(lookup("https://8.8.8.8", Plain::Private).await, Ok(()));
        assert_eq!(lookup("http://8.8.8.8", Plain::Anywhere).await, Ok(()));
        for public in ["http://8.8.8.8", "http://134744072", "http://[::ffff:8.8.8.8]"] {
            let refused = lookup(public, Plain::Private).await;
            assert!(matches!(refused, Err(HttpFault::ClearText { .. })), "{public}: {refused:?}");
        }
    }
}
