//! Decides which addresses of pages are taken from somebody who is not trusted, such as a model: in
//! one plain form, on the internet, at the ports of the web. What reads differently to two readers
//! is refused, not mended.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hyper::Uri;

use super::address::{Origin, Plain, parse};
use super::egress::{Egress, is_public};
use super::idn::to_ascii;

/// Bytes of an address.
pub(super) const BYTES_MAX: usize = 8 << 10;

/// Ports that pages are served at.
const PORTS: &[u16] = &[80, 443, 8080, 8443];

/// Endings of names that mean something inside a network, and nothing on the internet.
const LOCAL: &[&str] = &[
    "localhost",
    "local",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "private",
    "localdomain",
    "home.arpa",
    "onion",
];

/// The address of a page that may be asked for. Where its name leads is looked at once more when it
/// is connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    origin: Origin,
    uri: Uri,
}

/// An address that is not taken. No text of it is repeated here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PageRefusal {
    /// It is no address.
    #[error("Invalid URL: write it like https://example.com/page")]
    Unreadable,
    /// It speaks something else.
    #[error("Invalid URL: must be http or https")]
    Scheme,
    /// It is longer than any.
    #[error("Invalid URL: at most {BYTES_MAX} bytes")]
    TooLong,
    /// It has characters that readers take differently.
    #[error("Invalid URL: it has spaces, backslashes or characters that are not shown")]
    NotPlain,
    /// It holds a name or a password.
    #[error("Invalid URL: a name or a password in it is never sent")]
    Password,
    /// Its host reads like another.
    #[error("Invalid URL: its host mixes scripts or is no name; write it in its xn-- form")]
    Host,
    /// Its port is none of the web's.
    #[error("URL blocked: only the ports 80, 443, 8080 and 8443 are used")]
    Port,
    /// It is not on the internet.
    #[error("URL blocked: only public addresses of the internet are reached")]
    Blocked,
    /// A secure page points to one that is not.
    #[error("URL blocked: a page over https points to one over http")]
    Downgrade,
}

impl PageRefusal {
    /// Whether the address is well written, and must not be reached.
    pub fn is_blocked(self) -> bool {
        matches!(self, Self::Port | Self::Blocked | Self::Downgrade)
    }
}

impl Page {
    /// Takes the address of a page. Nobody is asked yet.
    pub fn parse(text: &str) -> Result<Self, PageRefusal> {
        if text.len() > BYTES_MAX {
            return Err(PageRefusal::TooLong);
        }
        let (scheme, rest) = text.split_once(':').ok_or(PageRefusal::Unreadable)?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            word if is_scheme(word) => return Err(PageRefusal::Scheme),
            _ => return Err(PageRefusal::Unreadable),
        };
        let odd = |c: char| c.is_control() || c.is_whitespace() || c == '\\';
        if text.contains(odd) || text.chars().any(toolgate_kernel::letters::is_hidden) {
            return Err(PageRefusal::NotPlain);
        }
        let rest = rest.strip_prefix("//").ok_or(PageRefusal::Unreadable)?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end).ok_or(PageRefusal::Unreadable)?;
        if authority.contains('@') {
            return Err(PageRefusal::Password);
        }
        let (host, port) = host_and_port(authority, secure)?;
        let host = taken_host(host)?;
        if !PORTS.contains(&port) {
            return Err(PageRefusal::Port);
        }
        let scheme = if secure { "https" } else { "http" };
        // Nothing that is secret goes to a page, so clear text is no loss.
        let parsed = parse(&format!("{scheme}://{host}:{port}"), Plain::Anywhere);
        let (origin, _) = parsed.map_err(|_| PageRefusal::Unreadable)?;
        Ok(Self { origin: origin.only(Egress::Public), uri: path_of(path)? })
    }

    /// The page that this one points to, looked at as any other.
    pub fn follow(&self, location: &str) -> Result<Self, PageRefusal> {
        let scheme = if self.origin.is_secure() { "https" } else { "http" };
        let known = location.split_once(':').is_some_and(|(word, _)| is_scheme(word));
        let whole = if known {
            location.to_owned()
        } else if location.starts_with("//") {
            format!("{scheme}:{location}")
        } else {
            format!("{scheme}://{}{}", self.origin, self.path(location))
        };
        let page = Self::parse(&whole)?;
        if self.origin.is_secure() && !page.origin.is_secure() {
            return Err(PageRefusal::Downgrade);
        }
        Ok(page)
    }

    /// A path that is told from this page on.
    fn path(&self, location: &str) -> String {
        let own = self.uri.path();
        match location.chars().next() {
            Some('/') => location.to_owned(),
            Some('?') => format!("{own}{location}"),
            Some('#') | None => self.uri.to_string(),
            Some(_) => {
                let folder = own.rfind('/').and_then(|at| own.get(..=at)).unwrap_or("/");
                format!("{folder}{location}")
            }
        }
    }

    /// The server.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The path and the query, as they are sent.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }
}

/// The address as it is used, with its host in ASCII and nothing after a `#`.
impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.origin.is_secure() { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.origin, self.uri)
    }
}

fn is_scheme(word: &str) -> bool {
    let rest = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    word.starts_with(|c: char| c.is_ascii_alphabetic()) && word.chars().all(rest)
}

fn host_and_port(authority: &str, secure: bool) -> Result<(&str, u16), PageRefusal> {
    let usual = if secure { 443 } else { 80 };
    let after = authority.rfind(']').map_or(0, |at| at + 1);
    let tail = authority.get(after..).unwrap_or_default();
    let Some(colon) = tail.find(':').map(|at| after + at) else {
        return if after == 0 || tail.is_empty() {
            Ok((authority, usual))
        } else {
            Err(PageRefusal::Unreadable)
        };
    };
    let (host, port) = authority.split_at_checked(colon).ok_or(PageRefusal::Unreadable)?;
    let port = port.strip_prefix(':').unwrap_or_default();
    let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let port = port.parse().ok().filter(|_| digits).ok_or(PageRefusal::Unreadable)?;
    Ok((host, port))
}

/// The host in the one form that is used.
fn taken_host(host: &str) -> Result<String, PageRefusal> {
    if let Some(inside) = host.strip_prefix('[') {
        let inside = inside.strip_suffix(']').ok_or(PageRefusal::Unreadable)?;
        let address: Ipv6Addr = inside.parse().map_err(|_| PageRefusal::Unreadable)?;
        let public = is_public(IpAddr::V6(address));
        return if public { Ok(format!("[{address}]")) } else { Err(PageRefusal::Blocked) };
    }
    let ascii = to_ascii(host).ok_or(PageRefusal::Host)?;
    let parts: Vec<&str> = ascii.split('.').collect();
    let legal = |part: &&str| {
        let letters = part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
        (1..=63).contains(&part.len()) && letters
    };
    if ascii.len() > 253 || !parts.iter().all(legal) {
        return Err(PageRefusal::Host);
    }
    let last = parts.last().copied().unwrap_or_default();
    if is_number(last) {
        // What ends like a number is an address to every reader, in one form or another. Only the
        // plain one is taken.
        let address: Ipv4Addr = ascii.parse().map_err(|_| PageRefusal::Blocked)?;
        return if is_public(IpAddr::V4(address)) { Ok(ascii) } else { Err(PageRefusal::Blocked) };
    }
    let local = |ending: &str| {
        let before = ascii.strip_suffix(ending);
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    if parts.len() < 2 || LOCAL.iter().any(|ending| local(ending)) {
        return Err(PageRefusal::Blocked);
    }
    Ok(ascii)
}

fn is_number(part: &str) -> bool {
    let hex =
        part.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_hexdigit()));
    hex || part.bytes().all(|b| b.is_ascii_digit())
}

/// The path and the query; what cannot stand in them is encoded, and a fragment is not sent.
fn path_of(text: &str) -> Result<Uri, PageRefusal> {
    let text = text.split('#').next().unwrap_or_default();
    let slash = if text.starts_with('/') { "" } else { "/" };
    let mut path = String::with_capacity(text.len() + 1);
    path.push_str(slash);
    for c in text.chars() {
        if c.is_ascii_graphic() && !"\"<>`{}|^".contains(c) {
            path.push(c);
        } else {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                path.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    let built = Uri::builder().path_and_query(path).build();
    built.map_err(|_| PageRefusal::Unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_shown_as_it_is_asked_for() {
        for (text, shown) in [
            ("https://example.com", "https://example.com/"),
            ("HTTP://Example.COM:80/a?b=c#d", "http://example.com/a?b=c"),
            ("http://example.com#@127.0.0.1/", "http://example.com/"),
            ("https://bücher.example/ü?q=ä", "https://xn--bcher-kva.example/%C3%BC?q=%C3%A4"),
            ("https://example.com:8443/x", "https://example.com:8443/x"),
            ("http://93.184.216.34/", "http://93.184.216.34/"),
            ("http://[2606:2800:220:1::1]/", "http://[2606:2800:220:1::1]/"),
            ("https://a_b.example.com/%2e%2e/", "https://a_b.example.com/%2e%2e/"),
        ] {
            assert_eq!(Page::parse(text).unwrap().to_string(), shown, "{text}");
        }
    }

    #[test]
    fn what_reads_differently_to_two_readers_is_refused() {
        use PageRefusal::{Blocked, Host, NotPlain, Password, Port, Scheme, TooLong, Unreadable};
        for (text, refusal) in [
            ("", Unreadable),
            ("example.com", Unreadable),
            ("//127.0.0.1/", Unreadable),
            ("http:/example.com", Unreadable),
            ("http://", Host),
            ("http:///x", Host),
            ("ftp://example.com/", Scheme),
            ("javascript:alert(1)", Scheme),
            ("file:///etc/passwd", Scheme),
            ("jar:http://example.com!/", Scheme),
            ("http://example.com/a b", NotPlain),
            ("http:\\\\127.0.0.1\\", NotPlain),
            ("http://127.0.0.1\\@example.com/", NotPlain),
            ("http://example.com/\r\nHost: x", NotPlain),
            ("http://loc\u{ad}alhost/", NotPlain),
            (" http://example.com/", Unreadable),
            ("http://user:word@example.com/", Password),
            ("http://example.com@127.0.0.1/", Password),
            ("http://ex\u{430}mple.com/", Host),
            ("http://127.0.0.1%00.example.com/", Host),
            ("http://example.com./", Host),
            ("http://localhost./", Host),
            ("http://example.com:/", Unreadable),
            ("http://example.com:99999/", Unreadable),
            ("http://example.com:+80/", Unreadable),
            ("http://[::1%25lo]/", Unreadable),
            ("http://[::1]x/", Unreadable),
            ("http://example.com:22/", Port),
            ("http://example.com:0/", Port),
            ("http://127.0.0.1/", Blocked),
            ("http://127.1/", Blocked),
            ("http://2130706433/", Blocked),
            ("http://0x7f000001/", Blocked),
            ("http://0x7f.1/", Blocked),
            ("http://017700000001/", Blocked),
            ("http://0177.0.0.1/", Blocked),
            ("http://1.2.3.4.5/", Blocked),
            ("http://010.8.8.8/", Blocked),
            ("http://[::ffff:127.0.0.1]/", Blocked),
            ("http://[64:ff9b::7f00:1]/", Blocked),
            ("http://[2002:7f00:1::]/", Blocked),
            ("http://localhost/", Blocked),
            ("http://LOCALHOST/", Blocked),
            ("http://a.localhost/", Blocked),
            ("http://intranet/", Blocked),
            ("http://db.internal/", Blocked),
            ("http://printer.local/", Blocked),
            ("http://router.home.arpa/", Blocked),
        ] {
            assert_eq!(Page::parse(text), Err(refusal), "{text:?}");
        }
        let long = format!("http://example.com/{}", "a".repeat(BYTES_MAX));
        assert_eq!(Page::parse(&long), Err(TooLong));
    }

    #[test]
    fn where_a_page_points_is_looked_at_as_any_other() {
        let page = Page::parse("https://example.com/a/b?c").unwrap();
        for (location, shown) in [
            ("/x", "https://example.com/x"),
            ("x", "https://example.com/a/x"),
            ("?y", "https://example.com/a/b?y"),
            ("#z", "https://example.com/a/b?c"),
            ("//other.example/x", "https://other.example/x"),
            ("https://other.example", "https://other.example/"),
        ] {
            assert_eq!(page.follow(location).unwrap().to_string(), shown, "{location}");
        }
        for (location, refusal) in [
            ("http://example.com/", PageRefusal::Downgrade),
            ("//127.0.0.1/", PageRefusal::Blocked),
            ("http://169.254.169.254/", PageRefusal::Blocked),
            ("file:///etc/passwd", PageRefusal::Scheme),
            ("/a b", PageRefusal::NotPlain),
        ] {
            assert_eq!(page.follow(location), Err(refusal), "{location}");
        }
    }
}
