//! Decides who is speaking; every event names its actor.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

/// Who did something. It is a label for readers: authority comes from signed decisions alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub enum Actor {
    /// A person at a terminal or a page, by a label they chose. The label proves nothing; a key does.
    Human(Arc<str>),
    /// A file of the project that shows state and was edited, by its path. It is not a person.
    File(Arc<str>),
    /// The user of an MCP client, by the name of the client. They have no key, so they answer only
    /// within a delegation that a person signed.
    ClientUser(Arc<str>),
    /// A configured agent acting on its own account.
    Agent(Arc<str>),
    /// The model that writes replies and calls.
    Model(Arc<str>),
    /// A program that calls from outside: the command line, HTTP, MCP.
    Client(Arc<str>),
    /// toolgate itself.
    System,
}

/// The name of whoever calls from the command line.
const COMMAND_LINE: &str = "cli";

/// Characters of a person's label.
const LABEL_CHARS_MAX: usize = 32;

/// A text that names no actor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no actor: write human:, file:, client_user:, agent:, model: or client: and a name, or \
     system; a person's name has 1 to 32 characters from a-z, 0-9 and ._-"
)]
pub struct ActorRefusal(String);

impl Actor {
    /// Whether this is a person.
    pub fn is_human(&self) -> bool {
        matches!(self, Self::Human(_))
    }

    /// A label for a person: what can stand in one is kept, everything else becomes `-`.
    pub fn human(name: &str) -> Self {
        let plain = |c: char| if is_label(c) { c } else { '-' };
        let label: String = name.to_lowercase().chars().map(plain).take(LABEL_CHARS_MAX).collect();
        Self::Human(if label.is_empty() { "person".into() } else { label.into() })
    }

    /// Whoever calls from the command line.
    pub fn command_line() -> Self {
        Self::Client(COMMAND_LINE.into())
    }

    /// Whether this is [`Actor::command_line`].
    pub fn is_command_line(&self) -> bool {
        matches!(self, Self::Client(name) if name.as_ref() == COMMAND_LINE)
    }

    /// The kind as one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Human(_) => "human",
            Self::File(_) => "file",
            Self::ClientUser(_) => "client_user",
            Self::Agent(_) => "agent",
            Self::Model(_) => "model",
            Self::Client(_) => "client",
            Self::System => "system",
        }
    }

    /// The name, which all but the system have.
    pub fn name(&self) -> Option<&Arc<str>> {
        match self {
            Self::Human(name)
            | Self::File(name)
            | Self::ClientUser(name)
            | Self::Agent(name)
            | Self::Model(name)
            | Self::Client(name) => Some(name),
            Self::System => None,
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        match self.name() {
            Some(name) => write!(f, ":{name}"),
            None => Ok(()),
        }
    }
}

impl Serialize for Actor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl TryFrom<String> for Actor {
    type Error = ActorRefusal;
    fn try_from(text: String) -> Result<Self, ActorRefusal> {
        if text == "system" {
            return Ok(Self::System);
        }
        let (kind, name) = text.split_once(':').unwrap_or((text.as_str(), ""));
        let legal = (1..=200).contains(&name.len()) && !name.chars().any(char::is_control);
        match kind {
            "human" if is_label_text(name) => Ok(Self::Human(name.into())),
            "file" if legal => Ok(Self::File(name.into())),
            "client_user" if legal => Ok(Self::ClientUser(name.into())),
            "agent" if legal => Ok(Self::Agent(name.into())),
            "model" if legal => Ok(Self::Model(name.into())),
            "client" if legal => Ok(Self::Client(name.into())),
            _ => Err(ActorRefusal(text)),
        }
    }
}

fn is_label(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-')
}

fn is_label_text(text: &str) -> bool {
    (1..=LABEL_CHARS_MAX).contains(&text.len()) && text.chars().all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actors_round_trip_and_an_absent_principal_is_nobody() {
        for text in [
            "human:ada",
            "file:notes/a b.md",
            "client_user:editor",
            "agent:writer",
            "model:script:demo",
            "client:mcp",
            "system",
        ] {
            assert_eq!(Actor::try_from(text.to_owned()).unwrap().to_string(), text);
        }
        for text in [
            "",
            "human",
            "human:",
            "any",
            "root:x",
            "system:x",
            "human:a\nb",
            "human:user of x",
            "human:Ada",
        ] {
            assert!(Actor::try_from(text.to_owned()).is_err(), "{text:?}");
        }
        for (name, label) in
            [("Ada L", "ada-l"), ("user of client:x", "user-of-client-x"), ("", "person")]
        {
            assert_eq!(Actor::human(name).to_string(), format!("human:{label}"));
        }
    }
}
