//! Decides which names are legal; every name that means something is its own type.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use crate::bounded::bounded_text;
use crate::digest::Digest;

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

/// Bytes of a refused name that are told.
const TOLD_BYTES_MAX: u64 = 160;

/// A refused name, cut where it is too long to be told.
fn cut(text: &str) -> String {
    bounded_text(text, TOLD_BYTES_MAX).into_owned()
}

/// What the name of a tool of an MCP server begins with.
const REMOTE: &str = "mcp:";

/// Longest name of a tool as its MCP server gives it.
const REMOTE_BYTES_MAX: usize = 128;

fn is_tool(text: &str) -> bool {
    is_id(text) || remote_parts(text).is_some() || today(text).is_some()
}

/// Names of tools that other programs had, each with the tool that does its work today. They stay
/// as other names of those tools; `toolgate migrate` writes today's names in their place.
pub const FORMER_TOOLS: &[(&str, &str)] = &[
    ("ViewSystemPromptTool", "self_authoring"),
    ("UpdateSystemPromptTool", "self_authoring"),
    ("WebSearchTool", "web"),
    ("WebFetchTool", "web"),
];

/// The tool that does the work of a former one.
pub fn today(former: &str) -> Option<&'static str> {
    FORMER_TOOLS.iter().find(|(name, _)| *name == former).map(|(_, today)| *today)
}

/// The server and its name for the tool, of `mcp:server:tool`.
fn remote_parts(text: &str) -> Option<(&str, &str)> {
    let (server, tool) = text.strip_prefix(REMOTE)?.split_once(':')?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    let legal = (1..=REMOTE_BYTES_MAX).contains(&tool.len()) && tool.bytes().all(plain);
    (is_id(server) && legal).then_some((server, tool))
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
                Err(NameRefusal { kind: $kind, text: cut(text), grammar: $grammar })
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
    /// The name of a tool: of our own, as the model writes it, or `mcp:server:tool`.
    ToolName, "tool name", is_tool, ID_GRAMMAR
);
name!(
    /// One tool, or all tools whose names begin alike: `mcp:bank:*`.
    ToolPattern, "tool pattern", is_tool_pattern, PATTERN_GRAMMAR
);

impl ToolPattern {
    /// Whether a tool is one of these.
    pub fn fits(&self, tool: &ToolName) -> bool {
        match self.as_str().strip_suffix('*') {
            Some(start) => tool.as_str().starts_with(start),
            None => self.as_str() == tool.as_str(),
        }
    }
}

const PATTERN_GRAMMAR: &str =
    "the name of a tool, or a beginning of one that ends with : or _ and then *, or * alone";

fn is_tool_pattern(text: &str) -> bool {
    match text.strip_suffix('*') {
        None => is_tool(text),
        Some("") => true,
        Some(start) => {
            let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':');
            start.len() <= REMOTE_BYTES_MAX
                && start.bytes().all(plain)
                && start.ends_with([':', '_'])
        }
    }
}

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
    /// What an agent that takes part in conversations is known by; its name may change.
    AgentId, "agent id", is_id, ID_GRAMMAR
);
name!(
    /// The id of a session.
    SessionId, "session id", is_id, ID_GRAMMAR
);
name!(
    /// The first half of a state key: which kind of thing it names.
    Family, "state family", is_id, ID_GRAMMAR
);

impl ToolName {
    /// The name of a tool of our own, which is none of a server's.
    pub fn own(text: &str) -> Result<Self, NameRefusal> {
        if is_id(text) {
            return Ok(Self(text.into()));
        }
        Err(NameRefusal { kind: "tool name", text: cut(text), grammar: ID_GRAMMAR })
    }

    /// Another name of a tool of our own: one it could have, or a former one.
    pub fn other(text: &str) -> Result<Self, NameRefusal> {
        if today(text).is_some() { Ok(Self(text.into())) } else { Self::own(text) }
    }

    /// The same tool by the name it has today.
    pub fn today(&self) -> Self {
        today(&self.0).map_or_else(|| self.clone(), |name| Self(name.into()))
    }

    /// The name of a tool of an MCP server.
    pub fn remote(server: &ServerName, tool: &str) -> Result<Self, NameRefusal> {
        let name = format!("{REMOTE}{server}:{tool}");
        let legal = remote_parts(&name).is_some_and(|(_, kept)| kept == tool);
        let refused = || {
            let (kind, text) = ("tool name of an MCP server", cut(tool));
            NameRefusal { kind, text, grammar: REMOTE_GRAMMAR }
        };
        if legal { Ok(Self(name.into())) } else { Err(refused()) }
    }

    /// The MCP server and its name for the tool, where it is one of a server's.
    pub fn of_server(&self) -> Option<(&str, &str)> {
        remote_parts(&self.0)
    }

    /// Whether a text begins as the names of a server's tools do, in either spelling.
    pub fn begins_with_server(text: &str, server: &ServerName) -> bool {
        let is_before = |before: &str, after: &str| {
            let rest =
                text.strip_prefix(before).and_then(|rest| rest.strip_prefix(server.as_str()));
            rest.is_some_and(|rest| rest.starts_with(after))
        };
        is_before(REMOTE, ":") || is_before("mcp__", "__")
    }

    /// The name models and MCP clients are shown. Most of them take no `:`, so a tool of a server
    /// becomes `mcp__server__tool`; one that cannot be told from others that way, or is too long,
    /// ends with a part of its hash.
    pub fn on_wire(&self) -> Self {
        let Some((server, tool)) = self.of_server() else { return self.clone() };
        let lower = |b: char| if b == '.' { '_' } else { b.to_ascii_lowercase() };
        let shown: String = tool.chars().map(lower).collect();
        let whole = format!("mcp__{server}__{shown}");
        let plain = shown == tool && !server.contains("__") && !server.ends_with('_');
        if plain && whole.len() <= WIRE_BYTES_MAX {
            return Self(whole.into());
        }
        let hash = Digest::of(self.0.as_bytes()).to_string();
        let (hash, _) = hash.split_at_checked(WIRE_HASH_BYTES).unwrap_or((&hash, ""));
        let room = WIRE_BYTES_MAX - WIRE_HASH_BYTES - 1;
        // All of it is ASCII, so any length is a place to cut.
        let (kept, _) = whole.split_at_checked(room).unwrap_or((&whole, ""));
        Self(format!("{kept}_{hash}").into())
    }
}

const REMOTE_GRAMMAR: &str = "1 to 128 characters from A-Z, a-z, 0-9, _, - and .";

/// Longest name that every provider takes.
pub const WIRE_BYTES_MAX: usize = 64;

/// How much of a hash tells two long names apart.
const WIRE_HASH_BYTES: usize = 10;

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
            text: cut(&text),
            grammar: "the letter c and a number",
        })
    }
}

/// The legal name nearest to a mistyped one, when one is near enough to suggest. Large and small
/// letters make no difference, unless nothing else does.
pub fn nearest<'a>(wrong: &str, legal: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let within = (wrong.chars().count() / 3).clamp(1, 3);
    let small = wrong.to_lowercase();
    legal
        .into_iter()
        .map(|name| ((distance(&small, &name.to_lowercase()), distance(wrong, name)), name))
        .filter(|((far, _), _)| *far <= within)
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
    fn tools_of_servers_have_two_spellings() {
        let long = "x".repeat(80);
        for (name, wire) in [
            ("read_file", "read_file"),
            ("mcp:web:search", "mcp__web__search"),
            ("mcp:web:a__b", "mcp__web__a__b"),
            // Everything that could be taken for another one ends with its own hash.
            ("mcp:web:Search", "mcp__web__search_"),
            ("mcp:web:a.b", "mcp__web__a_b_"),
            ("mcp:a__b:c", "mcp__a__b__c_"),
            ("mcp:a_:b", "mcp__a___b_"),
            (&format!("mcp:web:{long}"), "mcp__web__xxxx"),
        ] {
            let name = ToolName::parse(name).unwrap();
            let shown = name.on_wire();
            assert!(shown.as_str().starts_with(wire), "{shown}");
            assert!(is_id(shown.as_str()), "{shown}");
            let exact = ["read_file", "mcp__web__search", "mcp__web__a__b"].contains(&wire);
            assert_eq!(shown.as_str() == wire, exact, "{shown}");
        }
        let server = ServerName::parse("web").unwrap();
        assert_eq!(ToolName::remote(&server, "a.B").unwrap().of_server(), Some(("web", "a.B")));
        let long = "x".repeat(129);
        for bad in ["", "a b", "a:b", "a/b", "ä", "a\u{200b}b", "a\n", long.as_str()] {
            assert!(ToolName::remote(&server, bad).is_err(), "{bad:?}");
        }
        for bad in ["mcp:web", "mcp::x", "mcp:Web:x", "mcp:web:", "web:x"] {
            assert!(ToolName::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn whose_name_it_is_is_seen_in_either_spelling() {
        let begins = |text: &str, server: &str| {
            ToolName::begins_with_server(text, &ServerName::parse(server).unwrap())
        };
        assert!(begins("mcp:web:search", "web") && begins("mcp__web__search", "web"));
        assert!(begins("mcp__a__b__c_0123456789", "a__b"));
        assert!(!begins("mcp:web:search", "we") && !begins("mcp__webs__x", "web"));
        assert!(!begins("search", "web") && !begins("web__search", "web"));
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
        assert_eq!(nearest("revision", ["REVIEW", "REVISION"]), Some("REVISION"));
        assert_eq!(nearest("Read", ["READ", "Reed", "read"]), Some("read"));
    }
}
