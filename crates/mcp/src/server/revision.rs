//! Decides which revisions of the protocol are spoken, and what a request of the newest must carry.

use serde::Deserialize;
use serde_json::Value;

use super::refusal::Refused;

/// A revision of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    /// The first one.
    V2024_11_05,
    /// With streamable HTTP, and with batches.
    V2025_03_26,
    /// With structured content and elicitation, without batches.
    V2025_06_18,
    /// The last one with a handshake.
    V2025_11_25,
    /// Without a handshake and without sessions: every request says all of itself.
    V2026_07_28,
}

impl Revision {
    /// All that are spoken here, the newest first.
    pub const ALL: &'static [Self] = &[
        Self::V2026_07_28,
        Self::V2025_11_25,
        Self::V2025_06_18,
        Self::V2025_03_26,
        Self::V2024_11_05,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// A revision by its name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|known| known.as_str() == text)
    }

    /// Whether there is no handshake: each request stands for itself.
    pub fn modern(self) -> bool {
        self >= Self::V2026_07_28
    }

    /// What is answered to a handshake: the revision itself, or the newest that has one.
    pub(crate) fn negotiate(asked: &str) -> Self {
        Self::parse(asked).filter(|known| !known.modern()).unwrap_or(Self::V2025_11_25)
    }

    /// Whether several messages may come at once.
    pub(crate) fn has_batches(self) -> bool {
        matches!(self, Self::V2024_11_05 | Self::V2025_03_26)
    }

    /// Whether results may carry structured content.
    pub fn structured(self) -> bool {
        self >= Self::V2025_06_18
    }
}

/// What a request says of itself in `_meta`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Meta {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    pub(crate) version: Option<Value>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    pub(crate) capabilities: Option<Value>,
    #[serde(rename = "io.modelcontextprotocol/logLevel")]
    pub(crate) log_level: Option<String>,
    #[serde(rename = "progressToken")]
    pub(crate) progress: Option<Value>,
}

/// The few params that the protocol itself looks at.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Common {
    #[serde(rename = "_meta")]
    pub(crate) meta: Option<Meta>,
    pub(crate) name: Option<Value>,
    pub(crate) uri: Option<Value>,
}

impl Common {
    pub(crate) fn read(params: &str) -> Result<Self, Refused> {
        serde_json::from_str(params).map_err(|_| {
            Refused::params(
                "Each param is given once, and _meta is an object of the declared form.",
            )
            .malformed()
        })
    }

    /// The version that the body declares.
    pub(crate) fn version(&self) -> Option<&Value> {
        self.meta.as_ref()?.version.as_ref()
    }

    /// The token under which progress is told: a string or a whole number.
    pub(crate) fn progress(&self) -> Option<Value> {
        let token = self.meta.as_ref()?.progress.as_ref()?;
        (token.is_string() || token.is_i64() || token.is_u64()).then(|| token.clone())
    }

    /// What a request of the newest revision must say of itself.
    pub(crate) fn complete(&self) -> Result<(Revision, Value), Refused> {
        let missing = |field: &str| {
            let message = format!(
                "_meta lacks io.modelcontextprotocol/{field}, or it is malformed. Clients of an older \
                 revision begin with initialize."
            );
            Refused::params(message).malformed()
        };
        let meta = self.meta.as_ref();
        let version = meta.and_then(|meta| meta.version.as_ref()).and_then(Value::as_str);
        let version = version.ok_or_else(|| missing("protocolVersion"))?;
        let known = Revision::parse(version).filter(|known| known.modern());
        let known = known.ok_or_else(|| Refused::version(version))?;
        let capabilities = meta.and_then(|meta| meta.capabilities.as_ref());
        let capabilities = capabilities.filter(|said| said.is_object());
        Ok((known, capabilities.ok_or_else(|| missing("clientCapabilities"))?.clone()))
    }
}
