//! Decides what is wrong with the address of a model before anybody is asked.

// Only the type: nothing here reaches a network.
use core::net::IpAddr;

use super::Severity;

/// What is wrong with an address, and what to write in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressProblem {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: String,
}

/// The ends of paths that requests go to, whatever the dialect.
const ENDPOINTS: &[&str] =
    &["/chat/completions", "/completions", "/responses", "/messages", "/models", "/embeddings"];

/// What is wrong with an address that is one.
pub(super) fn problems(base_url: &str, plain_allowed: bool) -> Vec<AddressProblem> {
    let mut found = Vec::new();
    let mut tell = |severity, message: String, help: String| {
        found.push(AddressProblem { severity, message, help });
    };
    if base_url.contains(['?', '#']) {
        let help = "leave the query out; Azure needs no api-version at \
                    https://NAME.openai.azure.com/openai/v1";
        let message = "base_url has a `?` or a `#`, and no query is sent".to_owned();
        tell(Severity::Error, message, help.into());
    }
    let authority = authority(base_url);
    if !reaches(authority) {
        let message = "base_url names no host that can be reached".to_owned();
        let help = "write host or host:port; a port is at most 65535, an IPv6 address has brackets";
        tell(Severity::Error, message, help.to_owned());
    }
    let path = base_url.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
    if !path.is_none_or(|(_, path)| leads_on(path)) {
        let message = "base_url has `.` or `..` in its path".to_owned();
        tell(Severity::Error, message, "write the path out".to_owned());
    }
    if authority.contains('@') {
        let message = "base_url holds a name or a password".to_owned();
        tell(Severity::Error, message, "give the key as `api_key`".to_owned());
    } else if base_url.starts_with("http://") && !plain_allowed {
        let host = host(authority);
        let help = "use https://, or allow it for this model with allow_plain_http: true";
        let told = "http:// would send what is secret in clear text";
        match whereabouts(&host) {
            Whereabouts::Private => {}
            Whereabouts::Public => {
                let message = format!("{host} is not on a private network, and {told}");
                tell(Severity::Error, message, help.to_owned());
            }
            Whereabouts::Unknown => {
                let message = format!("unless {host} is on a private network, {told}");
                tell(Severity::Warning, message, format!("then it is refused: {help}"));
            }
        }
    }
    if let Some((rest, endpoint)) = pasted(base_url) {
        let message = format!("base_url ends with {endpoint}, which toolgate adds itself");
        tell(Severity::Warning, message, format!("write {rest}"));
    }
    found
}

/// An address that ends with an endpoint: what stands before it, and the endpoint.
pub fn pasted(base_url: &str) -> Option<(&str, &str)> {
    let path = base_url.split(['?', '#']).next()?.trim_end_matches('/');
    let start = path.find("://")? + "://".len();
    let end = |endpoint: &&&str| path.get(start..).is_some_and(|rest| rest.ends_with(**endpoint));
    if let Some(endpoint) = ENDPOINTS.iter().find(end) {
        return path.split_at_checked(path.len() - endpoint.len());
    }
    // Gemini's endpoints stand after the model.
    let at = path.rfind("/models/")?;
    path.split_at_checked(at).filter(|(_, endpoint)| endpoint.contains(":"))
}

/// What stands between the scheme and the path.
pub(super) fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

/// The server that an address names, as far as no two readers of addresses can disagree about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HttpOrigin {
    tls: bool,
    host: String,
    port: u16,
}

impl HttpOrigin {
    /// Reads an address. Names and passwords, escapes, backslashes, letters outside of ASCII and
    /// everything else that readers take differently have no origin.
    pub(super) fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        if !url.chars().all(|c| c.is_ascii_graphic() && c != '\\') {
            return None;
        }
        let authority = rest.split(['/', '?', '#']).next()?;
        let (host, port) = match authority.strip_prefix('[') {
            Some(inner) => {
                let (host, port) = inner.split_once(']')?;
                (host.parse::<core::net::Ipv6Addr>().ok()?.to_string(), port)
            }
            None => {
                let (host, port) =
                    authority.split_at(authority.find(':').unwrap_or(authority.len()));
                let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
                (!host.is_empty() && host.chars().all(plain)).then_some(())?;
                (host.to_ascii_lowercase(), port)
            }
        };
        let port = match port.strip_prefix(':') {
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok()?,
            Some(_) => return None,
            None if port.is_empty() => {
                if tls {
                    443
                } else {
                    80
                }
            }
            None => return None,
        };
        Some(Self { tls, host, port })
    }

    /// Whether it is this computer, whatever a name server says.
    pub(super) fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => address.is_loopback(),
            Ok(IpAddr::V6(address)) => {
                address.is_loopback()
                    || address.to_ipv4_mapped().is_some_and(|mapped| mapped.is_loopback())
            }
            Err(_) => self.host == "localhost",
        }
    }
}

/// Whether host and port are ones.
fn reaches(authority: &str) -> bool {
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, port)) if host.parse::<core::net::Ipv6Addr>().is_ok() => (host, port),
            Some(_) | None => return false,
        },
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_port = |port: &str| port.strip_prefix(':').is_some_and(|p| p.parse::<u16>().is_ok());
    !host.is_empty() && (port.is_empty() || is_port(port))
}

/// Whether every part of a path is where it says it is.
pub(super) fn leads_on(path: &str) -> bool {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    !path.split('/').any(|part| matches!(part, "." | ".."))
}

/// The host without brackets and port.
fn host(authority: &str) -> String {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.to_lowercase()
}

/// Where a host is, as far as its name tells.
enum Whereabouts {
    Private,
    Public,
    Unknown,
}

fn whereabouts(host: &str) -> Whereabouts {
    match host.parse::<IpAddr>() {
        Ok(address) if is_private(address) => Whereabouts::Private,
        Ok(_) => Whereabouts::Public,
        // A name without a dot is one of this network.
        Err(_) if !host.contains('.') => Whereabouts::Private,
        Err(_) if [".localhost", ".local", ".lan"].iter().any(|end| host.ends_with(end)) => {
            Whereabouts::Private
        }
        Err(_) => Whereabouts::Unknown,
    }
}

/// Whether an address is on this computer or on a private network.
pub fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            // 100.64.0.0/10 is shared space of carriers and of private overlay networks.
            let shared = first == 100 && (64..128).contains(&second);
            address.is_loopback() || address.is_private() || address.is_link_local() || shared
        }
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => is_private(IpAddr::V4(mapped)),
            None => {
                address.is_loopback()
                    || address.is_unique_local()
                    || address.is_unicast_link_local()
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_clear_text_may_travel() {
        for (url, wanted) in [
            ("http://localhost:1234/v1", None),
            ("http://gpu-box:8000", None),
            ("http://gpu.local:8000", None),
            ("http://192.168.1.9:1234", None),
            ("http://100.64.0.1", None),
            ("http://[::1]:8080/v1", None),
            ("https://api.example.com/v1", None),
            ("https://8.8.8.8/v1", None),
            ("http://8.8.8.8/v1", Some(Severity::Error)),
            ("http://[2606:4700::1111]/v1", Some(Severity::Error)),
            ("http://api.example.com/v1", Some(Severity::Warning)),
        ] {
            let found = problems(url, false);
            assert_eq!(found.first().map(|problem| problem.severity), wanted, "{url}: {found:?}");
            assert_eq!(problems(url, true), [], "{url}");
        }
    }

    #[test]
    fn an_address_names_a_host_and_a_path() {
        for (url, legal) in [
            ("https://example.com", true),
            ("https://example.com:65535/v1", true),
            ("https://[::1]:8080/v1", true),
            ("https://[fe80::1]", true),
            ("https://example.com:65536/v1", false),
            ("https://example.com:/v1", false),
            ("https://example.com:80:90/v1", false),
            ("https://[::1/v1", false),
            ("https://[x]/v1", false),
            ("https://example.com/v1/../x", false),
            ("https://example.com/./v1", false),
            ("https://example.com/v1..x", true),
        ] {
            assert_eq!(problems(url, false).is_empty(), legal, "{url}");
        }
    }

    #[test]
    fn an_endpoint_that_was_pasted_is_known() {
        for (url, wanted) in [
            ("https://a.example/v1/chat/completions", Some("https://a.example/v1")),
            ("https://a.example/v1/chat/completions/", Some("https://a.example/v1")),
            ("https://a.example/v1/messages", Some("https://a.example/v1")),
            ("https://a.example/v1/responses?x=1", Some("https://a.example/v1")),
            (
                "https://g.example/v1beta/models/g-3:generateContent",
                Some("https://g.example/v1beta"),
            ),
            ("https://a.example/v1", None),
            ("https://models.example/messages.d", None),
            ("https://a.example/models/llama", None),
            ("https://", None),
        ] {
            assert_eq!(pasted(url).map(|(rest, _)| rest), wanted, "{url}");
        }
    }

    #[test]
    fn queries_and_passwords_are_refused_and_not_repeated() {
        let query = problems("https://x.openai.azure.com/openai?api-version=CANARY", false);
        assert!(query[0].severity == Severity::Error && query[0].help.contains("/openai/v1"));
        let password = problems("https://ada:CANARY@example.com", false);
        assert!(password[0].help.contains("api_key"));
        for problem in query.iter().chain(&password) {
            assert!(!format!("{problem:?}").contains("CANARY"), "{problem:?}");
        }
    }
}
