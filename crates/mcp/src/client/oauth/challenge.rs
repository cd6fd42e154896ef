//! Decides what a server's `WWW-Authenticate` says: where its metadata are, and which scopes it
//! wants.

use hyper::header::{HeaderMap, WWW_AUTHENTICATE};

/// Parameters that are looked at.
const PARAMETERS_MAX: usize = 32;
/// Headers that are looked at, and their bytes together.
const HEADERS_MAX: usize = 8;
const BYTES_MAX: usize = 2_048;

/// What a server says about who may ask, as it came; nothing where that is nothing, or too long.
pub(in crate::client) fn told(headers: &HeaderMap) -> Option<String> {
    let all = headers.get_all(WWW_AUTHENTICATE).iter().take(HEADERS_MAX);
    let all: Vec<&str> = all.filter_map(|value| value.to_str().ok()).collect();
    let all = all.join(", ");
    (1..=BYTES_MAX).contains(&all.len()).then_some(all)
}

/// What a challenge says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::client) struct Challenge {
    /// Where the protected resource metadata are.
    pub(super) metadata: Option<String>,
    /// The scopes that are wanted.
    pub(in crate::client) scopes: Vec<String>,
    /// What is wrong with the token that was sent.
    pub(in crate::client) error: Option<String>,
}

impl Challenge {
    /// Reads what a server says with an answer.
    pub(in crate::client) fn of(headers: &HeaderMap) -> Self {
        told(headers).map(|text| Self::read(&text)).unwrap_or_default()
    }

    /// Reads the part of a header that is about bearer tokens. What cannot be read says nothing.
    pub(in crate::client) fn read(header: &str) -> Self {
        let mut found = Self::default();
        let Some(mut rest) = after_bearer(header) else { return found };
        for _ in 0..PARAMETERS_MAX {
            let Some((name, value, after)) = parameter(rest) else { break };
            rest = after;
            match name.to_ascii_lowercase().as_str() {
                "resource_metadata" => drop(found.metadata.get_or_insert(value)),
                "scope" if found.scopes.is_empty() => {
                    found.scopes = value.split_ascii_whitespace().map(str::to_owned).collect();
                }
                "error" => drop(found.error.get_or_insert(value)),
                _ => {}
            }
        }
        found
    }

    /// Whether the token is good, and not good enough.
    pub(in crate::client) fn wants_more(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

/// What follows the scheme, which may come after other schemes.
fn after_bearer(header: &str) -> Option<&str> {
    let lower = header.to_ascii_lowercase();
    let (mut from, mut quoted) = (0, false);
    for (at, c) in lower.char_indices() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => from = at + 1,
            ' ' if !quoted && lower.get(from..at).is_some_and(|word| word.trim() == "bearer") => {
                return header.get(at..);
            }
            _ => {}
        }
    }
    None
}

/// The next `name=value`, and what follows it. Another scheme is the end.
fn parameter(text: &str) -> Option<(&str, String, &str)> {
    let text = text.trim_start_matches([' ', '\t', ',']);
    let (name, rest) = text.split_once('=')?;
    let name = name.trim();
    let token = |c: char| c.is_ascii_alphanumeric() || "-_.*".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        return None;
    }
    let rest = rest.trim_start();
    let Some(inside) = rest.strip_prefix('"') else {
        let end = rest.find([',', ' ', '\t']).unwrap_or(rest.len());
        let (value, after) = rest.split_at_checked(end)?;
        return Some((name, value.to_owned(), after));
    };
    let (mut value, mut escaped) = (String::new(), false);
    for (at, c) in inside.char_indices() {
        match c {
            _ if escaped => {
                value.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return Some((name, value, inside.get(at + 1..)?)),
            _ => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: &str) -> (Option<String>, String, Option<String>) {
        let Challenge { metadata, scopes, error } = Challenge::read(header);
        (metadata, scopes.join(" "), error)
    }

    #[test]
    fn a_challenge_is_read_as_it_is_written() {
        let some = |text: &str| Some(text.to_owned());
        let table = [
            ("Bearer resource_metadata=\"https://a/b\"", some("https://a/b"), "", None),
            ("bearer  scope=\"a b\" , error=invalid_token", None, "a b", some("invalid_token")),
            (
                "Basic realm=\"x, Bearer resource_metadata=no\", Bearer scope=\"a\\\"b\"",
                None,
                "a\"b",
                None,
            ),
            ("Bearer scope=a, Basic realm=\"r\", scope=\"b\"", None, "a", None),
            ("Bearer", None, "", None),
            ("Basic realm=\"x\"", None, "", None),
            ("Bearer scope=\"never ends", None, "", None),
            ("", None, "", None),
        ];
        for (header, metadata, scopes, error) in table {
            assert_eq!(read(header), (metadata, scopes.to_owned(), error), "{header}");
        }
    }
}
