//! Decides which addresses are used that a server named: https on the internet. On this computer,
//! and in clear text there, only where the MCP server itself is on this computer.

use hyper::Uri;
use toolgate_http::{AddressRefusal, Egress, Origin, Plain, names_here};

use super::fault::OauthFault;

/// Bytes of an address.
const ADDRESS_BYTES_MAX: usize = 2_048;

/// What may be reached on behalf of one MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Guard {
    /// Whether the MCP server is on this computer.
    here: bool,
}

/// An address that may be used.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    /// What it is for.
    pub(super) what: &'static str,
    pub(super) origin: Origin,
    /// Its path and query.
    pub(super) uri: Uri,
}

impl Guard {
    /// The guard for an MCP server, whose address a person wrote down.
    pub(super) fn of(server: &str) -> Result<Self, OauthFault> {
        let (origin, _) = taken_apart("address of the server", bare(server))?;
        Ok(Self { here: names_here(origin.host()) })
    }

    /// Takes an address that a server named. Nobody is asked yet; where its name leads is checked
    /// again when it is connected to.
    pub(super) fn endpoint(&self, what: &'static str, url: &str) -> Result<Endpoint, OauthFault> {
        let refused = |why| Err(OauthFault::Address { what, why });
        if url.len() > ADDRESS_BYTES_MAX {
            return refused("it is too long");
        }
        if !url.chars().all(|c| c.is_ascii_graphic()) || url.contains(['#', '\\']) {
            return refused("it is no plain address");
        }
        let (origin, _) = taken_apart(what, bare(url))?;
        let egress = match (names_here(origin.host()), self.here) {
            (true, true) => Egress::Here,
            (true, false) => return refused("it is on this computer, and the server is not"),
            (false, _) if !origin.is_secure() => return refused("it must begin with https://"),
            (false, _) => Egress::Public,
        };
        let unusable = OauthFault::Address { what, why: "its path cannot be sent" };
        let whole: Uri = url.parse().map_err(|_| unusable.clone())?;
        let path = whole.path_and_query().map_or("/", |path| path.as_str());
        let uri = Uri::builder().path_and_query(path).build().map_err(|_| unusable)?;
        Ok(Endpoint { what, origin: origin.only(egress), uri })
    }
}

/// An address for a person to open: whatever a shell or a terminal could read in it is encoded.
pub(super) fn tame(url: &str) -> String {
    let mut out = String::with_capacity(url.len());
    for c in url.chars() {
        let plain = c.is_ascii_alphanumeric() || "-._~:/?@&=+,%[]#".contains(c);
        if plain {
            out.push(c);
        } else {
            encode(c, &mut out);
        }
    }
    out
}

/// A value in a query or a form.
pub(super) fn encoded(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if c.is_ascii_alphanumeric() || "-._~".contains(c) {
            out.push(c);
        } else {
            encode(c, &mut out);
        }
    }
    out
}

/// The pairs of a form.
pub(super) fn form(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
    pairs.collect::<Vec<_>>().join("&")
}

fn encode(c: char, out: &mut String) {
    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
        out.push_str(&format!("%{byte:02X}"));
    }
}

/// The server and the path of an address, as far as two addresses are compared.
pub(super) fn taken_apart(what: &'static str, url: &str) -> Result<(Origin, String), OauthFault> {
    toolgate_http::parse(url, Plain::Private).map_err(|refusal| {
        let why = match refusal {
            AddressRefusal::Unreadable => "it is no address",
            AddressRefusal::Scheme => "it must begin with https://",
            AddressRefusal::Password => "it holds a name or a password",
            AddressRefusal::Query => "it has a `?` or a `#`",
        };
        OauthFault::Address { what, why }
    })
}

/// An address without query and fragment.
pub(super) fn bare(url: &str) -> &str {
    url.trim().split(['?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: &str = "https://mcp.example.com/mcp";
    const NEAR: &str = "http://127.0.0.1:8080/mcp";

    fn allowed(server: &str, url: &str) -> bool {
        Guard::of(server).unwrap().endpoint("token endpoint", url).is_ok()
    }

    #[test]
    fn what_a_server_names_is_https_and_not_on_this_computer_unless_the_server_is() {
        for (url, far, near) in [
            ("https://auth.example.com/token?a=b", true, true),
            ("http://auth.example.com/token", false, false),
            ("http://127.0.0.1:9/token", false, true),
            ("https://localhost/token", false, true),
            ("http://[::1]:9/token", false, true),
            ("http://[::ffff:127.0.0.1]:9/token", false, true),
            ("http://169.254.169.254/latest/meta-data/", false, false),
            ("http://10.0.0.1/", false, false),
            ("http://0.0.0.0/", false, false),
            ("javascript:fetch('//evil')", false, false),
            ("file:///etc/passwd", false, false),
            ("data:text/html,x", false, false),
            ("//evil.example/", false, false),
            ("https://ada:word@auth.example.com/", false, false),
            ("https://auth.example.com/#code", false, false),
            ("https://auth.example.com/\r\nx: y", false, false),
            ("", false, false),
        ] {
            assert_eq!(allowed(FAR, url), far, "far {url}");
            assert_eq!(allowed(NEAR, url), near, "near {url}");
        }
    }

    /// MOA-005: no shell is used; and whoever pastes it into one is not harmed either.
    #[test]
    fn an_address_to_open_holds_nothing_that_a_shell_reads() {
        let tamed = tame("https://x/$(calc.exe)?a=`id`&b=|whoami;'\"\n\u{1b}[2J é");
        assert!(!tamed.contains(['$', '(', ')', '`', '|', ';', '\'', '"', '\n', '\u{1b}', ' ']));
        assert!(tamed.starts_with("https://x/%24%28calc.exe%29?a=%60id%60&b=%7Cwhoami"), "{tamed}");
        assert!(tamed.is_ascii());
        assert_eq!(encoded("a b&c=d/é"), "a%20b%26c%3Dd%2F%C3%A9");
    }
}
