//! Decides which names are legal; every name that means something is its own type.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

/// A text that is not a legal name of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {text:?} is not legal: use {grammar}")]
pub struct NameRefusal {
    kind: &'static str,
    text: String,
    grammar: &'static str,
}

const ID_GRAMMAR: &str = "1 to 64 characters from a-z, 0-9, _ and -";
const WORD_GRAMMAR: &str = "1 to 64 characters from A-Z, a-z, 0-9, _, - and .";

fn is_id(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
}

fn is_word(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:literal, $check:ident, $grammar:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $type(Arc<str>);

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl $type {
            /// Accepts exactly what the grammar allows; nothing is trimmed or folded.
            pub fn parse(text: &str) -> Result<Self, NameRefusal> {
                if $check(text) {
                    return Ok(Self(text.into()));
                }
                let text = text.chars().take(80).collect();
                Err(NameRefusal { kind: $kind, text, grammar: $grammar })
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl std::borrow::Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameRefusal;
            fn try_from(text: String) -> Result<Self, NameRefusal> {
                Self::parse(&text)
            }
        }
    };
}

name!(
    /// The name of a tool, as the model writes it.
    ToolName, "tool name", is_id, ID_GRAMMAR
);
name!(
    /// The name of a group of tools.
    GroupName, "group name", is_id, ID_GRAMMAR
);
name!(
    /// The name of a section of the prompt.
    SectionName, "section name", is_id, ID_GRAMMAR
);
name!(
    /// The name of a policy, as a refusal quotes it.
    PolicyName, "policy name", is_id, ID_GRAMMAR
);
name!(
    /// The name of an MCP server.
    ServerName, "server name", is_id, ID_GRAMMAR
);
name!(
    /// The name of a phase.
    PhaseName, "phase name", is_word, WORD_GRAMMAR
);
name!(
    /// The id of a session.
    SessionId, "session id", is_id, ID_GRAMMAR
);
name!(
    /// The first half of a state key: which kind of thing it names.
    Family, "state family", is_id, ID_GRAMMAR
);

/// The id of a call, our own: its ordinal within the session, written `c17`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct CallId(pub u64);

impl Serialize for CallId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}", self.0)
    }
}

impl TryFrom<String> for CallId {
    type Error = NameRefusal;
    fn try_from(text: String) -> Result<Self, NameRefusal> {
        let number =
            text.strip_prefix('c').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        number.and_then(|digits| digits.parse().ok()).map(CallId).ok_or(NameRefusal {
            kind: "call id",
            text: text.chars().take(80).collect(),
            grammar: "the letter c and a number",
        })
    }
}

/// The legal name nearest to a mistyped one, when one is near enough to suggest.
pub fn nearest<'a>(wrong: &str, legal: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let within = (wrong.chars().count() / 3).clamp(1, 3);
    legal
        .into_iter()
        .map(|name| (distance(wrong, name), name))
        .filter(|(far, _)| *far <= within)
        .min_by_key(|(far, _)| *far)
        .map(|(_, name)| name)
}

/// Edit distance, two letters that changed places counting once; names are short, so the plain
/// table is enough.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(100).collect();
    let mut above: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    let mut before = None;
    for (i, ca) in a.chars().take(100).enumerate() {
        let mut next = vec![i + 1];
        for (j, cb) in b.iter().enumerate() {
            let cell = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX - 1);
            let mut best = cell(&row, j) + usize::from(ca != *cb);
            best = best.min(cell(&row, j + 1) + 1).min(cell(&next, j) + 1);
            let swapped = j > 0 && before == Some(*cb) && b.get(j - 1) == Some(&ca);
            if swapped {
                best = best.min(cell(&above, j - 1) + 1);
            }
            next.push(best);
        }
        (above, row, before) = (row, next, Some(ca));
    }
    row.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_exact() {
        for good in ["a", "read_file", "get_weather_2", &"x".repeat(64)] {
            assert!(ToolName::parse(good).is_ok(), "{good}");
        }
        for bad in ["", " read", "read ", "Read", "re\u{200b}ad", "a.b", "a/b", &"x".repeat(65)] {
            assert!(ToolName::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn call_ids_round_trip() {
        assert_eq!(CallId::try_from("c17".to_owned()), Ok(CallId(17)));
        assert!(CallId::try_from("c+1".to_owned()).is_err());
        assert!(CallId::try_from("17".to_owned()).is_err());
        for number in [0, 7, 10, 1_234_567_890, u64::MAX] {
            assert_eq!(serde_json::to_value(CallId(number)).unwrap(), format!("c{number}"));
        }
    }

    #[test]
    fn the_nearest_name_is_suggested_only_when_near() {
        assert_eq!(nearest("raed_file", ["read_file", "write_file"]), Some("read_file"));
        assert_eq!(nearest("modle", ["base_url", "model"]), Some("model"));
        assert_eq!(nearest("publish", ["read_file", "write_file"]), None);
    }
}
