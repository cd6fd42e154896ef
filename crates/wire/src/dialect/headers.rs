//! Decides which headers a provider wants, and where the key goes: never into the address.

use std::fmt;

use super::Dialect;

/// The version of the Messages API that is spoken.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// The headers of a request, in order. One of them may hold the key, so values are never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Headers(Vec<(&'static str, String)>);

impl Headers {
    /// Name and value of each.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl Dialect {
    /// What a request must carry besides its body. `key` is the secret itself, if there is one.
    pub fn headers(self, key: Option<&str>) -> Headers {
        let named = match self {
            Self::Chat | Self::Responses => {
                key.map(|key| ("authorization", format!("Bearer {key}")))
            }
            Self::Anthropic => key.map(|key| ("x-api-key", key.to_owned())),
            Self::Gemini => key.map(|key| ("x-goog-api-key", key.to_owned())),
        };
        let version =
            (self == Self::Anthropic).then(|| ("anthropic-version", ANTHROPIC_VERSION.to_owned()));
        Headers(named.into_iter().chain(version).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_dialect_has_its_headers_and_none_is_printed() {
        let table: &[(Dialect, &[(&str, &str)])] = &[
            (Dialect::Chat, &[("authorization", "Bearer CANARY")]),
            (Dialect::Responses, &[("authorization", "Bearer CANARY")]),
            (Dialect::Anthropic, &[("x-api-key", "CANARY"), ("anthropic-version", "2023-06-01")]),
            (Dialect::Gemini, &[("x-goog-api-key", "CANARY")]),
        ];
        for (dialect, wanted) in table {
            let headers = dialect.headers(Some("CANARY"));
            assert_eq!(headers.iter().collect::<Vec<_>>(), *wanted);
            assert!(!format!("{headers:?}").contains("CANARY"));
            let without: Vec<&str> = wanted.iter().skip(1).map(|(name, _)| *name).collect();
            let bare: Vec<&str> = dialect.headers(None).0.iter().map(|(name, _)| *name).collect();
            assert_eq!(bare, without);
        }
    }
}
