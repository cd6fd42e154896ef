//! Decides which addresses a server may have that somebody else named: what an outsider writes down
//! must not lead into a private network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Where a server may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Egress {
    /// Anywhere: a person wrote its address down.
    #[default]
    Anywhere,
    /// On the internet, and nowhere else.
    Public,
    /// On this computer, and nowhere else.
    Here,
}

impl Egress {
    /// Whether every one of these addresses may be connected to.
    pub(super) fn allows(self, addresses: &[SocketAddr]) -> bool {
        let all = |fits: fn(IpAddr) -> bool| addresses.iter().all(|address| fits(address.ip()));
        match self {
            Self::Anywhere => true,
            Self::Public => all(is_public),
            Self::Here => all(is_here),
        }
    }
}

/// Whether an address is one of this computer.
pub fn is_here(address: IpAddr) -> bool {
    plain(address).is_loopback()
}

/// Whether a host says in so many words that it is this computer. It comes without its port; no
/// name is looked up.
pub fn names_here(host: &str) -> bool {
    let inside = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = inside.unwrap_or(host).parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(is_here)
}

/// An address of the old kind that is written as one of the new kind is still the old one.
fn plain(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// Whether an address is on the internet.
pub(super) fn is_public(address: IpAddr) -> bool {
    match plain(address) {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// What the registry of special addresses does not list (RFC 6890 and its successors).
fn is_public_v4(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        [0 | 10 | 127 | 224..=255, ..]
            | [100, 64..=127, ..]
            | [169, 254, ..]
            | [172, 16..=31, ..]
            | [192, 168, ..]
            | [192, 0, 0 | 2, _]
            | [192, 88, 99, _]
            | [198, 18 | 19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _]
            // A public address that only the computers of one cloud can reach, and that serves them
            // their secrets.
            | [168, 63, 129, 16]
    )
}

/// Addresses that are given out, without those that carry an old address or none that is used.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let given_out = first & 0xe000 == 0x2000;
    let special = match first {
        // Tunnels and other protocols' own; documentation.
        0x2001 => second < 0x0200 || second == 0x0db8,
        // An old address inside a new one.
        0x2002 => true,
        0x3fff => second < 0x1000,
        _ => false,
    };
    given_out && !special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_computer_is_here() {
        for host in
            ["localhost", "LOCALHOST", "127.0.0.1", "127.8.8.8", "::1", "[::1]", "::ffff:127.0.0.1"]
        {
            assert!(names_here(host), "{host}");
        }
        for host in [
            "",
            "localhost.",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.1",
            "0.0.0.0",
            "[::]",
            "10.0.0.1",
            "localhost:80",
            "[::1",
        ] {
            assert!(!names_here(host), "{host}");
        }
    }

    #[test]
    fn public_is_what_the_internet_carries_and_nothing_else() {
        let table = [
            ("8.8.8.8", true),
            ("1.1.1.1", true),
            ("100.128.0.1", true),
            ("172.32.0.1", true),
            ("2001:4860:4860::8888", true),
            ("::ffff:8.8.8.8", true),
            ("0.0.0.0", false),
            ("10.1.2.3", false),
            ("100.64.0.1", false),
            ("127.0.0.1", false),
            ("169.254.169.254", false),
            ("172.31.0.1", false),
            ("192.0.0.1", false),
            ("192.0.2.1", false),
            ("168.63.129.16", false),
            ("168.63.129.17", true),
            ("192.168.1.9", false),
            ("198.18.0.1", false),
            ("198.51.100.1", false),
            ("203.0.113.1", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("::127.0.0.1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:169.254.169.254", false),
            ("64:ff9b::7f00:1", false),
            ("64:ff9b:1::7f00:1", false),
            ("100::1", false),
            ("2001::1", false),
            ("2001:db8::1", false),
            ("2002:7f00:1::", false),
            ("3fff::1", false),
            ("fc00::1", false),
            ("fd00:ec2::254", false),
            ("fe80::1", false),
            ("ff02::1", false),
        ];
        for (text, wanted) in table {
            assert_eq!(is_public(text.parse().unwrap()), wanted, "{text}");
        }
    }

    #[test]
    fn one_private_address_among_public_ones_is_enough_to_refuse() {
        let at = |text: &str| SocketAddr::new(text.parse().unwrap(), 443);
        assert!(Egress::Public.allows(&[at("8.8.8.8")]));
        assert!(!Egress::Public.allows(&[at("8.8.8.8"), at("127.0.0.1")]));
        assert!(Egress::Here.allows(&[at("127.0.0.1"), at("::1"), at("::ffff:127.0.0.1")]));
        assert!(!Egress::Here.allows(&[at("127.0.0.1"), at("8.8.8.8")]));
        assert!(!Egress::Here.allows(&[at("0.0.0.0")]));
        assert!(Egress::Anywhere.allows(&[at("10.0.0.1")]));
    }

    /// What was looked up is what is checked, and nobody is connected to before.
    #[tokio::test]
    async fn a_name_that_leads_here_is_not_connected_to() {
        use crate::{Asking, HttpFault, Patience, Plain, Roots, Transport, after, parse};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (transport, headers) = (Transport::new(Roots::default()), hyper::HeaderMap::new());
        let uri = hyper::Uri::from_static("/");
        for host in ["localhost", "127.0.0.1", "0.0.0.0", "2130706433", "[::ffff:127.0.0.1]"] {
            let (origin, _) = parse(&format!("http://{host}:{port}"), Plain::Private).unwrap();
            let deadline = after(tokio::time::Instant::now(), 5_000);
            let body = bytes::Bytes::new();
            let asking = Asking { uri: &uri, headers: &headers, body, deadline };
            let server = transport.server(origin.only(Egress::Public));
            let sent = server.send(&asking, &Patience::default()).await;
            let fault = sent.err();
            assert!(matches!(fault, Some(HttpFault::Forbidden { .. })), "{host}: {fault:?}");
        }
        assert!(listener.accept().is_err(), "somebody was connected to");
    }
}
