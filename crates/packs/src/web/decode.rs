//! Decides what the bytes of a page are as text: in which letters they are written, whether they
//! are text at all, and which characters nobody would see.

use encoding_rs::{Encoding, REPLACEMENT, UTF_8};
use toolgate_kernel::letters::is_hidden;

/// Bytes in which a page says how it is written.
const META_BYTES: usize = 1_024;

/// Kinds of content that are text.
const TEXTS: &[&str] =
    &["json", "xml", "javascript", "ecmascript", "yaml", "x-www-form-urlencoded"];

/// What a server says of a body.
pub(super) struct Kind {
    /// Such as `text/html`; empty when it says nothing.
    pub(super) name: String,
    charset: Option<String>,
}

impl Kind {
    pub(super) fn of(header: Option<&str>) -> Self {
        let mut parts = header.unwrap_or_default().split(';');
        let name = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let charset = parts.find_map(|part| {
            let (key, value) = part.split_once('=')?;
            let value = value.trim().trim_matches(['"', '\'']);
            key.trim().eq_ignore_ascii_case("charset").then(|| value.to_owned())
        });
        Self { name, charset }
    }

    /// Whether it can be read by a model. What says nothing of itself is looked at.
    pub(super) fn is_text(&self) -> bool {
        let kind = self.name.as_str();
        kind.is_empty() || kind.starts_with("text/") || TEXTS.iter().any(|t| kind.ends_with(t))
    }

    /// Whether it is a page with tags.
    pub(super) fn is_html(&self, body: &[u8]) -> bool {
        if !self.name.is_empty() {
            return self.name.contains("html");
        }
        let start: Vec<u8> = body.iter().take(512).map(u8::to_ascii_lowercase).collect();
        let begins = |word: &[u8]| start.windows(word.len()).any(|part| part == word);
        begins(b"<!doctype html") || begins(b"<html")
    }

    /// The body as text; nothing when it is none.
    pub(super) fn decoded(&self, body: &[u8]) -> Option<String> {
        let (marked, _) = Encoding::for_bom(body).map_or((None, 0), |(e, n)| (Some(e), n));
        let named = || self.charset.clone().or_else(|| in_meta(body));
        let encoding = marked.or_else(|| Encoding::for_label(named()?.as_bytes()));
        // Letters that nobody reads any more are read as what they most likely are.
        let encoding = encoding.filter(|found| *found != REPLACEMENT).unwrap_or(UTF_8);
        if encoding.is_ascii_compatible() && is_binary(body) {
            return None;
        }
        Some(encoding.decode(body).0.into_owned())
    }
}

/// How a page says that it is written.
fn in_meta(body: &[u8]) -> Option<String> {
    let start = String::from_utf8_lossy(body.get(..META_BYTES).unwrap_or(body)).to_lowercase();
    let meta = start.match_indices("<meta").find_map(|(at, _)| {
        let tag = start.get(at..)?.split('>').next()?;
        tag.split_once("charset=").map(|(_, value)| value.to_owned())
    })?;
    let value = meta.trim_start_matches(['"', '\'', ' ']);
    let end = value.find(['"', '\'', ' ', ';', '/']).unwrap_or(value.len());
    value.get(..end).map(str::to_owned)
}

/// Whether bytes are no text, whatever a server says of them.
fn is_binary(body: &[u8]) -> bool {
    let start = body.get(..4_096).unwrap_or(body);
    let odd = |b: &&u8| matches!(b, 0..=8 | 14..=26 | 28..=31 | 127);
    start.contains(&0) || start.iter().filter(odd).count() * 20 > start.len()
}

/// A text without the characters that nobody sees, and how many those were. Line breaks stay.
pub(super) fn seen(text: &str) -> (String, usize) {
    let mut gone = 0;
    let unseen = |c: char| is_hidden(c) || (c.is_control() && !matches!(c, '\n' | '\t'));
    let kept = text.replace("\r\n", "\n").replace('\r', "\n");
    let kept = kept.chars().filter(|c| {
        let unseen = unseen(*c);
        gone += usize::from(unseen);
        !unseen
    });
    let kept: String = kept.collect();
    (kept, gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: &str, body: &[u8]) -> Option<String> {
        Kind::of(Some(kind)).decoded(body)
    }

    #[test]
    fn a_page_is_read_in_its_letters() {
        for (kind, body, text) in [
            ("text/html", "grün".as_bytes(), "grün"),
            ("text/html; charset=ISO-8859-1", b"gr\xfcn", "grün"),
            ("text/html; charset=\"windows-1251\"", b"\xe4\xe0", "да"),
            ("text/html; charset=utf-7", b"+ADw-b+AD4-", "+ADw-b+AD4-"),
            ("text/html; charset=nonsense", "ü".as_bytes(), "ü"),
            ("text/html; charset=iso-2022-kr", "ü".as_bytes(), "ü"),
            ("text/html", b"<meta charset=latin1>gr\xfcn", "<meta charset=latin1>grün"),
            ("text/plain; charset=latin1", b"\xef\xbb\xbf\xc3\xbc", "ü"),
            ("text/plain", b"\xff\xfe\xfc\x00", "ü"),
            ("text/plain", b"a\xffb", "a\u{fffd}b"),
        ] {
            assert_eq!(read(kind, body).as_deref(), Some(text), "{kind}");
        }
    }

    #[test]
    fn what_is_no_text_is_not_read() {
        assert_eq!(read("text/plain", b"\x7fELF\x02\x01\x01\x00\x00"), None);
        assert_eq!(read("text/plain", &[1, 2, 3, 4, b'a']), None);
        for (kind, is) in [
            ("application/zip", false),
            ("image/png", false),
            ("application/octet-stream", false),
            ("application/json", true),
            ("application/ld+json; charset=utf-8", true),
            ("image/svg+xml", true),
            ("TEXT/Plain", true),
            ("", true),
        ] {
            assert_eq!(Kind::of(Some(kind)).is_text(), is, "{kind}");
        }
    }

    #[test]
    fn characters_that_nobody_sees_are_taken_out_and_counted() {
        let (text, gone) = seen("a\u{e0041}\u{200b}\u{202e}b\r\nc\td\u{1b}");
        assert_eq!((text.as_str(), gone), ("ab\nc\td", 4));
    }
}
