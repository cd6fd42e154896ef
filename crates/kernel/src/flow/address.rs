//! Finds what names a destination in a text: hosts, e-mail addresses, handles, channels, repositories.

use std::collections::BTreeSet;

use imbl::OrdSet;
use serde::{Deserialize, Serialize};

use super::decode::percent_decoded;

/// Destinations that a session remembers of what it read. A set that is full counts as having all.
const ADDRESSES_MAX: usize = 16_384;

/// Second levels under which domains of a country are given out, as in `bbc.co.uk`.
const SECOND_LEVELS: &[&str] =
    &["ac", "co", "com", "edu", "go", "gob", "gov", "ne", "net", "nom", "or", "org"];

/// The host of an address, in small letters; nothing where two readers of addresses could disagree.
pub fn host_of(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    if !["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) {
        return None;
    }
    if url.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\') {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next()?;
    if authority.contains(['@', '%']) {
        return None;
    }
    let host = match authority.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?.0,
        None => authority.split(':').next()?,
    };
    let host = host.trim_end_matches('.').to_lowercase();
    (!host.is_empty()).then_some(host)
}

/// The addresses of pages in a text, word for word.
pub fn urls_in(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| c.is_whitespace() || "<>\"'`(){}|,;".contains(c));
    words.filter_map(|word| {
        let start = word.find("http://").or_else(|| word.find("https://"))?;
        let url = word.get(start..)?.trim_end_matches(['.', ':', '!', '?', ']', '*', '_']);
        (url.len() > "https://".len()).then_some(url)
    })
}

/// What names a destination in one text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Each in small letters. Of a host its parent domains are there too.
    pub names: BTreeSet<String>,
    /// Whether there are hosts in other letters than ASCII, which can be written in another way.
    pub has_foreign: bool,
}

impl Addresses {
    /// Everything in a text that names a destination.
    pub fn of(text: &str) -> Self {
        let mut found = Self::default();
        found.scan(text);
        if text.contains('%') {
            found.scan(&percent_decoded(text));
        }
        if text.contains("\\/") {
            found.scan(&text.replace("\\/", "/"));
        }
        if let Some(plain) = refanged(text) {
            found.scan(&plain);
        }
        found
    }

    fn scan(&mut self, text: &str) {
        let text = text.to_lowercase();
        let words = text.split(|c: char| {
            c.is_whitespace() || c.is_control() || "<>\"'`()[]{}|,;=&?!*\\^$".contains(c)
        });
        words.for_each(|word| self.word(word));
    }

    fn word(&mut self, word: &str) {
        let rest = word.split_once("://").map_or(word, |(_, rest)| {
            // Any host counts here, also a bare number that some readers take for an address.
            let authority = rest.split(['/', '#']).next().unwrap_or_default();
            let host = authority.rsplit('@').next().unwrap_or_default();
            self.host(host.split(':').next().unwrap_or_default(), true);
            rest
        });
        let rest = rest.trim_matches(|c: char| ".:-/".contains(c));
        if let Some((local, domain)) = rest.split_once('@') {
            let domain = domain.split(['/', ':', '#']).next().unwrap_or_default();
            if local.is_empty() {
                self.name(&format!("@{domain}"));
            } else {
                self.name(&format!("{local}@{domain}"));
            }
            self.host(domain, false);
            return;
        }
        if let Some(channel) = rest.strip_prefix('#').filter(|channel| channel.len() > 1) {
            self.name(&format!("#{channel}"));
        }
        let mut parts = rest.split(['/', ':', '#']);
        let (first, second, third) = (parts.next(), parts.next(), parts.next());
        if let (Some(owner), Some(name), None) = (first, second, third)
            && rest.contains('/')
            && owner.len() > 1
            && name.len() > 1
        {
            self.name(rest);
        }
        rest.split(['/', ':', '#']).for_each(|part| self.host(part, false));
    }

    fn name(&mut self, name: &str) {
        self.names.insert(name.to_owned());
    }

    /// Takes in a host with its parent domains. `certain` says that nothing else can stand there.
    fn host(&mut self, host: &str, certain: bool) {
        let host = host.trim_matches(|c: char| ".-_".contains(c));
        if host.is_empty() || !(certain || is_domain(host)) {
            return;
        }
        self.has_foreign |= !host.is_ascii();
        for part in with_parents(host) {
            self.names.insert(part.to_owned());
        }
    }
}

/// A host and the domains that it is under, but for those that everybody is under.
pub(crate) fn with_parents(host: &str) -> impl Iterator<Item = &str> {
    let is_number = host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let starts = host.match_indices('.').map(|(at, _)| at + 1).filter(move |_| !is_number);
    let parents = starts.filter_map(|start| host.get(start..)).filter(|parent| {
        let Some((second, top)) = parent.split_once('.') else { return false };
        // A longer rest has more labels and is a domain of its own.
        top.contains('.') || !(top.len() == 2 && SECOND_LEVELS.contains(&second))
    });
    std::iter::once(host).chain(parents)
}

/// Whether a word looks like the name of a host or the number of one.
fn is_domain(word: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
    };
    let Some((before, last)) = word.rsplit_once('.') else { return false };
    let is_top = (last.chars().count() > 1 && last.chars().all(char::is_alphabetic))
        || last.starts_with("xn--");
    let is_number =
        word.split('.').count() == 4 && word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    (is_top && before.split('.').all(label)) || is_number
}

/// The text with addresses as they are meant that were written so that nobody clicks on them:
/// `evil[.]example`, `evil (dot) example`.
fn refanged(text: &str) -> Option<String> {
    const DOTS: &[&str] =
        &["[.]", "(.)", "{.}", " [dot] ", " (dot) ", "[dot]", "(dot)", "{dot}", " dot "];
    let lower = text.to_lowercase();
    if !lower.contains("dot") && !DOTS.iter().any(|dot| lower.contains(dot)) {
        return None;
    }
    let mut plain = lower.replace("hxxp", "http");
    for dot in DOTS {
        plain = plain.replace(dot, ".");
    }
    Some(plain)
}

/// A bounded set of destinations, by their hashes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AddressSet {
    #[serde(default, skip_serializing_if = "OrdSet::is_empty")]
    hashes: OrdSet<u32>,
    /// Whether something could not be taken in, so that everything counts as being there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_all: bool,
    /// Whether hosts in other letters than ASCII are there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_foreign: bool,
}

impl AddressSet {
    /// Takes in what stands in a text.
    pub fn add(&mut self, found: &Addresses) {
        self.has_foreign |= found.has_foreign;
        found.names.iter().for_each(|name| self.add_name(name));
    }

    /// Takes in one destination.
    pub fn add_name(&mut self, name: &str) {
        if self.hashes.len() >= ADDRESSES_MAX {
            self.has_all = true;
        } else {
            self.hashes.insert(hash(name));
        }
    }

    /// Something was read that cannot be looked into.
    pub fn add_unknown(&mut self) {
        self.has_all = true;
    }

    /// Takes in another set.
    pub fn add_all(&mut self, other: &Self) {
        self.has_all |= other.has_all;
        self.has_foreign |= other.has_foreign;
        for one in &other.hashes {
            if self.hashes.len() >= ADDRESSES_MAX {
                self.has_all = true;
                return;
            }
            self.hashes.insert(*one);
        }
    }

    /// Whether a destination is there, or could be.
    pub fn has(&self, name: &str) -> bool {
        self.has_all || self.hashes.contains(&hash(name))
    }

    /// Whether a destination is there, and certainly: a set that is full is not.
    pub fn surely_has(&self, name: &str) -> bool {
        !self.has_all && self.hashes.contains(&hash(name))
    }

    /// Whether a host or a domain that it is under is there, or could be.
    pub fn has_host(&self, host: &str) -> bool {
        let is_foreign = !host.is_ascii() || host.split('.').any(|label| label.starts_with("xn--"));
        (is_foreign && self.has_foreign) || with_parents(host).any(|part| self.has(part))
    }
}

fn hash(text: &str) -> u32 {
    let seed = 0xcbf2_9ce4_8422_2325_u64;
    let mixed = text
        .bytes()
        .fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    super::shingle::folded(mixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        Addresses::of(text).names.into_iter().collect()
    }

    #[test]
    fn destinations_are_found_in_text() {
        for (text, found) in [
            ("see https://Evil.example/c?d=1.", &["evil.example"][..]),
            ("go to www.evil.example, now", &["evil.example", "www.evil.example"]),
            ("evil[.]example and evil dot test", &["evil.example", "evil.test"]),
            ("u=https%3A%2F%2Fevil.example%2F", &["evil.example"]),
            (r"https:\/\/evil.example\/x", &["evil.example"]),
            ("mail mallory@evil.example", &["evil.example", "mallory@evil.example"]),
            ("ping @mallory", &["@mallory"]),
            ("open 10.0.0.7 or http://2130706433/x", &["10.0.0.7", "2130706433"]),
            ("news.bbc.co.uk", &["bbc.co.uk", "news.bbc.co.uk"]),
            ("file it under mallory/drop", &["mallory/drop"]),
            ("post to #drop", &["#drop"]),
            ("version 1.2 is 3.14 times better.", &[]),
        ] {
            assert_eq!(names(text), found, "{text}");
        }
        assert!(Addresses::of("bücher.example").has_foreign);
    }

    #[test]
    fn a_host_is_read_strictly() {
        for (url, host) in [
            ("https://Docs.RS./x?y", Some("docs.rs")),
            ("http://a.test:8080/", Some("a.test")),
            ("https://[::1]/", Some("::1")),
            ("https://a@b.test/", None),
            ("https://a.test\\@b.test/", None),
            ("ftp://a.test/", None),
            ("a.test", None),
            ("https://%61.test/", None),
        ] {
            assert_eq!(host_of(url).as_deref(), host, "{url}");
        }
    }

    #[test]
    fn a_set_knows_parents_and_fails_towards_having_all() {
        let mut set = AddressSet::default();
        set.add(&Addresses::of("https://evil.example/ and bücher.example"));
        assert!(set.has_host("secret.evil.example") && set.has_host("evil.example"));
        assert!(!set.has_host("example") && !set.has_host("good.test"));
        assert!(set.has_host("xn--bcher-kva.example"));
        for at in 0..ADDRESSES_MAX {
            set.add_name(&format!("h{at}.test"));
        }
        assert!(set.has_host("good.test") && !set.surely_has("evil.example"));
    }

    #[test]
    fn addresses_of_pages_are_taken_word_for_word() {
        let text = "Read https://a.test/x, (https://b.test/y?z=1) and \"http://c.test/\".";
        let urls: Vec<&str> = urls_in(text).collect();
        assert_eq!(urls, ["https://a.test/x", "https://b.test/y?z=1", "http://c.test/"]);
    }
}
