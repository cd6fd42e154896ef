//! Decides who is speaking; every event names its actor.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

/// Who did something. A kind of principal, not a role: only [`Actor::Human`] is a person.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub enum Actor {
    /// A person.
    Human(Arc<str>),
    /// A configured agent acting on its own account.
    Agent(Arc<str>),
    /// The model that writes replies and calls.
    Model(Arc<str>),
    /// A program that calls from outside: the command line, HTTP, MCP.
    Client(Arc<str>),
    /// toolgate itself.
    System,
}

/// The name of whoever writes into a file that shows state.
const EDITOR: &str = "editor";

/// The name of whoever calls from the command line.
const COMMAND_LINE: &str = "cli";

/// How the name of the user of a client begins.
const CLIENT_USER: &str = "user of ";

/// A text that names no actor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no actor: write human:, agent:, model: or client: and a name, or system")]
pub struct ActorRefusal(String);

impl Actor {
    /// Whether this is a person.
    pub fn is_human(&self) -> bool {
        matches!(self, Self::Human(_))
    }

    /// Whoever writes into a file that shows state. It counts as a person's word, and nobody can
    /// be asked to sign it.
    pub fn editor() -> Self {
        Self::Human(EDITOR.into())
    }

    /// Whether this is [`Actor::editor`].
    pub fn is_editor(&self) -> bool {
        matches!(self, Self::Human(name) if name.as_ref() == EDITOR)
    }

    /// Whoever calls from the command line.
    pub fn command_line() -> Self {
        Self::Client(COMMAND_LINE.into())
    }

    /// Whether this is [`Actor::command_line`].
    pub fn is_command_line(&self) -> bool {
        matches!(self, Self::Client(name) if name.as_ref() == COMMAND_LINE)
    }

    /// The user of a client, whom the operator trusts (ADR 0016).
    pub fn client_user(client: &Self) -> Self {
        Self::Human(format!("{CLIENT_USER}{client}").into())
    }

    /// Whether this is the user of a client.
    pub fn is_client_user(&self) -> bool {
        matches!(self, Self::Human(name) if name.starts_with(CLIENT_USER))
    }

    /// The kind as one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Human(_) => "human",
            Self::Agent(_) => "agent",
            Self::Model(_) => "model",
            Self::Client(_) => "client",
            Self::System => "system",
        }
    }

    /// The name, which all but the system have.
    pub fn name(&self) -> Option<&Arc<str>> {
        match self {
            Self::Human(name) | Self::Agent(name) | Self::Model(name) | Self::Client(name) => {
                Some(name)
            }
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
            "human" if legal => Ok(Self::Human(name.into())),
            "agent" if legal => Ok(Self::Agent(name.into())),
            "model" if legal => Ok(Self::Model(name.into())),
            "client" if legal => Ok(Self::Client(name.into())),
            _ => Err(ActorRefusal(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actors_round_trip_and_an_absent_principal_is_nobody() {
        for text in ["human:ada", "agent:writer", "model:script:demo", "client:mcp", "system"] {
            assert_eq!(Actor::try_from(text.to_owned()).unwrap().to_string(), text);
        }
        for text in ["", "human", "human:", "any", "root:x", "system:x", "human:a\nb"] {
            assert!(Actor::try_from(text.to_owned()).is_err(), "{text:?}");
        }
    }
}
