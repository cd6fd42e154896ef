//! Decides which paths into the workspace are taken, and what they name.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::text::unseen;

/// Longest path, in bytes.
pub const PATH_BYTES_MAX: usize = 1_000;

/// Most names in a path, below its document.
pub const PATH_NAMES_MAX: usize = 32;

/// Longest name in a path, in bytes: what fits a key.
const NAME_BYTES_MAX: usize = toolgate_kernel::key::KEY_NAME_BYTES_MAX;

/// Names that mean something to programs that walk along paths, so no path has them.
const RESERVED: &[&str] = &["__proto__", "constructor", "prototype"];

/// A part of the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Root {
    /// What a person confirmed.
    Facts,
    /// What is being worked on.
    Draft,
    /// What is not to be changed.
    Locks,
    /// What a user interface shows.
    UiState,
    /// What waits for a person's word.
    Proposals,
}

impl Root {
    /// All there are, in the order they are shown.
    pub const ALL: [Self; 5] =
        [Self::Facts, Self::Draft, Self::Locks, Self::UiState, Self::Proposals];

    /// The part as it stands at the beginning of a path.
    pub fn name(self) -> &'static str {
        match self {
            Self::Facts => "facts",
            Self::Draft => "draft",
            Self::Locks => "locks",
            Self::UiState => "ui_state",
            Self::Proposals => "proposals",
        }
    }
}

/// A JSON pointer into the workspace: `/draft/chapters/0/title`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    /// The part of the workspace.
    pub root: Root,
    /// The names below it.
    pub below: Vec<String>,
}

/// A text that is no path into the workspace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathRefusal {
    /// It does not begin as it must.
    #[error("{given:?} is no path here. Begin with {}.", .allowed.join(" or "))]
    Root {
        /// What was given, cut short.
        given: String,
        /// How it may begin.
        allowed: Vec<String>,
    },
    /// It names a whole part.
    #[error("{path} is the whole of it. Name something below, such as {path}/title.")]
    Whole {
        /// The path.
        path: String,
    },
    /// It is too long.
    #[error(
        "The path has {bytes} bytes and {names} names. At most {PATH_BYTES_MAX} bytes and \
         {PATH_NAMES_MAX} names are taken."
    )]
    TooLong {
        /// Bytes of the text.
        bytes: usize,
        /// Names in it.
        names: usize,
    },
    /// A name in it cannot be used.
    #[error("{name:?} cannot be a name in a path: {why}.")]
    Name {
        /// The name, cut short.
        name: String,
        /// Why not.
        why: &'static str,
    },
}

impl PathRefusal {
    /// How a path may begin, where that is what is wrong.
    pub fn allowed(&self) -> Option<Vec<String>> {
        match self {
            Self::Root { allowed, .. } => Some(allowed.clone()),
            Self::Whole { .. } | Self::TooLong { .. } | Self::Name { .. } => None,
        }
    }
}

impl Path {
    /// The whole of a part.
    pub fn whole(root: Root) -> Self {
        Self { root, below: Vec::new() }
    }

    /// Reads a path that something is written at: exact, and into one of these parts.
    pub fn parse(text: &str, roots: &[Root]) -> Result<Self, PathRefusal> {
        let allowed = || roots.iter().map(|root| format!("/{}/", root.name())).collect();
        let cut = || text.chars().take(80).collect();
        let names = text.bytes().filter(|byte| *byte == b'/').count();
        if text.len() > PATH_BYTES_MAX || names > PATH_NAMES_MAX + 1 {
            return Err(PathRefusal::TooLong { bytes: text.len(), names });
        }
        let mut parts = text.split('/');
        let rooted = parts.next() == Some("");
        let first = parts.next().unwrap_or_default();
        let Some(root) = roots.iter().copied().find(|root| rooted && root.name() == first) else {
            return Err(PathRefusal::Root { given: cut(), allowed: allowed() });
        };
        let below: Result<_, _> = parts.map(name).collect();
        Ok(Self { root, below: below? })
    }

    /// The same, and below its part.
    pub fn inside(text: &str, roots: &[Root]) -> Result<Self, PathRefusal> {
        // A slash at the end would be a name without letters.
        let path = Self::parse(text.strip_suffix('/').unwrap_or(text), roots)?;
        match path.below.is_empty() {
            true => Err(PathRefusal::Whole { path: path.to_string() }),
            false => Ok(path),
        }
    }

    /// Reads a path that something is read at, in the spellings that models use: in quotes, after a
    /// `#`, without its slash.
    pub fn tolerant(text: &str) -> Result<Self, PathRefusal> {
        let text = text.trim().trim_matches(['"', '\'', '`']).trim_start_matches('#');
        let text = text.trim().trim_matches('/');
        Self::parse(&format!("/{text}"), &Root::ALL)
    }

    /// Whether this is the other path, or above it. Only whole names count.
    pub fn covers(&self, other: &Self) -> bool {
        self.root == other.root && other.below.starts_with(&self.below)
    }

    /// The path of what this is a part of; itself for a whole part.
    pub fn parent(&self) -> Self {
        let names = self.below.len().saturating_sub(1);
        Self { root: self.root, below: self.below.iter().take(names).cloned().collect() }
    }

    /// What is there in a document.
    pub fn find<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        self.below.iter().try_fold(document, |value, name| match value {
            Value::Object(map) => map.get(name),
            Value::Array(items) => items.get(position(name)?),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        })
    }
}

/// One name of a path, with what stands for `~` and `/` put back.
fn name(text: &str) -> Result<String, PathRefusal> {
    let refuse = |why| Err(PathRefusal::Name { name: text.chars().take(80).collect(), why });
    let mut name = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '~' => match chars.next() {
                Some('0') => name.push('~'),
                Some('1') => name.push('/'),
                _ => return refuse("write ~0 for ~ and ~1 for /"),
            },
            c if unseen(c) => return refuse("it has a character that nobody sees"),
            c if in_pieces(c) => {
                return refuse("write each letter in one piece, without marks of its own (NFC)");
            }
            c => name.push(c),
        }
    }
    match () {
        () if name.is_empty() => refuse("it is empty"),
        () if name.len() > NAME_BYTES_MAX => refuse("it is too long"),
        () if RESERVED.contains(&name.as_str()) => refuse("programs give it a meaning"),
        () => Ok(name),
    }
}

/// Marks that make one letter of two characters: with them, two names would look alike.
fn in_pieces(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{1100}'..='\u{11ff}' | '\u{3099}' | '\u{309a}')
}

/// A place in a list, written as a number without zeros before it.
pub(super) fn position(name: &str) -> Option<usize> {
    let plain = name == "0" || !name.starts_with('0');
    let digits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    (plain && digits).then(|| name.parse().ok()).flatten()
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.root.name())?;
        self.below
            .iter()
            .try_for_each(|name| write!(f, "/{}", name.replace('~', "~0").replace('/', "~1")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const WRITTEN: &[Root] = &[Root::Draft, Root::UiState];

    #[test]
    fn paths_round_trip() {
        for text in ["/draft/a", "/ui_state/notice", "/draft/a~01/b~1c", "/draft/café/0"] {
            assert_eq!(Path::inside(text, WRITTEN).unwrap().to_string(), text);
        }
        assert_eq!(Path::inside("/draft/a~01", WRITTEN).unwrap().below, ["a~1"]);
    }

    #[test]
    fn what_leads_elsewhere_is_refused() {
        let long = format!("/draft{}", "/a".repeat(33));
        let wide = format!("/draft/{}", "a".repeat(1_000));
        for text in [
            "",
            "/",
            "draft/a",
            "/facts/a",
            "/drafts/a",
            "/DRAFT/a",
            "/phase",
            "/draft",
            "/draft/",
            "/draft//a",
            "/draft/~2",
            "/draft/a~",
            "/draft/__proto__/x",
            "/draft/constructor/prototype/x",
            "/draft/a\u{202e}b",
            "/draft/cafe\u{301}",
            "/draft/a\nb",
            &long,
            &wide,
        ] {
            assert!(Path::inside(text, WRITTEN).is_err(), "{text}");
        }
    }

    #[test]
    fn reading_takes_what_models_write() {
        for text in
            ["/draft/a", "draft/a", "#/draft/a", "\"/draft/a\"", "'draft/a/' ", "`#draft/a`"]
        {
            assert_eq!(Path::tolerant(text).unwrap().to_string(), "/draft/a", "{text}");
        }
        assert!(Path::tolerant("/nothing/here").is_err());
    }

    #[test]
    fn only_whole_names_cover() {
        let path = |text: &str| Path::parse(text, &Root::ALL).unwrap();
        assert!(path("/facts/a").covers(&path("/facts/a/b")));
        assert!(path("/facts/a").covers(&path("/facts/a")));
        assert!(path("/facts").covers(&path("/facts/a")));
        assert!(!path("/facts/a").covers(&path("/facts/ab")));
        assert!(!path("/facts/a").covers(&path("/draft/a")));
        assert_eq!(path("/facts/a/b").parent(), path("/facts/a"));
    }

    #[test]
    fn a_place_in_a_list_has_one_spelling() {
        let document = json!({"list": [1, 2], "o": {"01": 3}});
        let find = |text: &str| {
            let path = Path::parse(text, &Root::ALL).unwrap();
            path.find(&document).cloned()
        };
        assert_eq!(find("/draft/list/1"), Some(json!(2)));
        assert_eq!(find("/draft/o/01"), Some(json!(3)));
        for text in ["/draft/list/01", "/draft/list/-1", "/draft/list/2", "/draft/list/+1"] {
            assert_eq!(find(text), None, "{text}");
        }
    }
}
