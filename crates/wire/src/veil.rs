//! Decides what of a server's words may be shown: short, in one line, and without any secret.

use std::fmt;
use std::fmt::Write;

/// Characters of a server's words that are kept.
pub(crate) const WORDS_CHARS_MAX: usize = 300;
/// Characters that are looked at.
const LOOKED_CHARS_MAX: usize = 2_000;
/// A part of a secret that is as long as this is a secret.
const PART_CHARS_MIN: usize = 8;
/// What stands in the place of a secret.
pub(crate) const MARK: &str = "***";

/// The secrets of a model in every form in which a server may echo them.
pub(crate) struct Veil {
    forms: Vec<Vec<char>>,
    /// Secrets too short to be looked for in parts.
    short: Vec<String>,
}

impl Veil {
    pub(crate) fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let mut veil = Self { forms: Vec::new(), short: Vec::new() };
        for secret in secrets.into_iter().map(str::trim).filter(|secret| !secret.is_empty()) {
            if secret.chars().count() < PART_CHARS_MIN {
                veil.short.push(secret.to_owned());
                continue;
            }
            veil.forms.extend(forms(secret).iter().map(|form| form.chars().collect()));
        }
        veil
    }

    /// The words as they may be shown.
    pub(crate) fn cover(&self, words: &str) -> String {
        let mut plain: String = words.chars().take(LOOKED_CHARS_MAX).collect();
        for secret in &self.short {
            plain = without_word(&plain, secret);
        }
        let plain: Vec<char> = plain.chars().collect();
        let (mut out, mut at) = (String::new(), 0);
        while let Some(c) = plain.get(at) {
            let rest = plain.get(at..).unwrap_or_default();
            let covered = self.forms.iter().map(|form| common(rest, form)).max().unwrap_or(0);
            if covered >= PART_CHARS_MIN {
                out.push_str(MARK);
                at += covered;
            } else {
                out.push(if c.is_control() { ' ' } else { *c });
                at += 1;
            }
        }
        cut(out.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

impl fmt::Debug for Veil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Veil(…)")
    }
}

/// A secret in every form in which a server may echo it.
pub(crate) fn forms(secret: &str) -> Vec<String> {
    let reversed = secret.chars().rev().collect();
    let quoted = secret.replace('\\', "\\\\").replace('"', "\\\"");
    let mut forms =
        vec![secret.to_owned(), reversed, hex(secret.as_bytes()), percent(secret), quoted];
    forms.extend((0..3).map(|offset| base64(secret.as_bytes(), offset)));
    forms
}

/// A short secret is covered where it stands by itself; inside other words it is their letters.
fn without_word(text: &str, secret: &str) -> String {
    let inside = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(secret) {
        let within = inside(before.chars().next_back()) || inside(after.chars().next());
        out.push_str(before);
        out.push_str(if within { secret } else { MARK });
        rest = after;
    }
    out + rest
}

/// How many characters at the begin of a text also stand somewhere in a secret.
fn common(text: &[char], secret: &[char]) -> usize {
    let same = |from: usize| {
        let rest = secret.iter().skip(from);
        text.iter().zip(rest).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count()
    };
    (0..secret.len()).map(same).max().unwrap_or(0)
}

fn cut(text: String) -> String {
    match text.char_indices().nth(WORDS_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn percent(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
        out
    })
}

/// What the bytes look like in base64 when `offset` other bytes stand before them; the digits that
/// depend on neighbours are left out.
fn base64(bytes: &[u8], offset: usize) -> String {
    let whole = bytes.get((3 - offset) % 3..).unwrap_or_default();
    let groups = whole.len() - whole.len() % 3;
    crate::dialect::base64(whole.get(..groups).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-CANARY/0123+456789";

    #[test]
    fn no_form_of_a_secret_comes_through() {
        let veil = Veil::new([KEY, "hush"]);
        let reversed: String = KEY.chars().rev().collect();
        let echoes = [
            format!("Incorrect API key provided: {KEY}."),
            format!("key={}", percent(KEY)),
            format!("key {}", hex(KEY.as_bytes())),
            format!("key {reversed}"),
            format!("Basic {}", base64(KEY.as_bytes(), 0)),
            format!("Basic YW{}", base64(KEY.as_bytes(), 2)),
            format!("a part of it, {}", &KEY[3..15]),
            format!("{KEY}{KEY}{KEY}"),
        ];
        for echo in echoes {
            let shown = veil.cover(&echo);
            assert!(shown.contains(MARK), "{shown}");
            assert!(!shown.contains("CANARY") && !shown.contains("YRANAC"), "{shown}");
            assert!(shown.len() < echo.len(), "{shown}");
        }
        assert_eq!(veil.cover("hush, or else"), "***, or else");
        assert!(!format!("{veil:?}").contains("CANARY"));
    }

    #[test]
    fn base64_is_found_wherever_it_begins() {
        // `printf 'user:sk-CANARY/0123+456789' | base64`
        let basic = "dXNlcjpzay1DQU5BUlkvMDEyMys0NTY3ODk=";
        assert_eq!(Veil::new([KEY]).cover(basic).matches(MARK).count(), 1);
    }

    #[test]
    fn words_are_short_and_in_one_line() {
        let veil = Veil::new([]);
        assert_eq!(veil.cover("a\r\n\tb\u{1b}[31m  c"), "a b [31m c");
        let long = veil.cover(&"ä".repeat(5_000));
        assert_eq!(long.chars().count(), WORDS_CHARS_MAX + 1);
        assert_eq!(veil.cover("as it is"), "as it is");
    }
}
