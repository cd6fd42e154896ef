//! Decides how a failed exchange with a server is told: what happened, and what to do about it.

use toolgate_kernel::event::FaultKind;

/// Why there is no answer, or only a part of one. No text in it holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpFault {
    /// The name of the server is not known.
    #[error("the address of {host} was not found; check how it is written, and the network")]
    NoAddress {
        /// The server.
        host: String,
    },
    /// Nobody answers there.
    #[error("no connection to {host}: {reason}; is the server running?")]
    Unreachable {
        /// The server and its port.
        host: String,
        /// What the operating system says.
        reason: String,
    },
    /// The server could not prove who it is. There is no way around it.
    #[error("{host} is not trusted: {reason}")]
    Tls {
        /// The server.
        host: String,
        /// What is wrong with its certificate or its TLS.
        reason: String,
    },
    /// The server speaks no TLS.
    #[error("{host} {how}; it may be one that is reached with http:// only")]
    NoTls {
        /// The server and its port.
        host: String,
        /// What it did instead.
        how: &'static str,
    },
    /// The server speaks nothing but TLS.
    #[error("{host} wants TLS; https:// is needed in place of http://")]
    OnlyTls {
        /// The server and its port.
        host: String,
    },
    /// There is nothing to check certificates against.
    #[error("no certificate authorities were found, so https cannot be used: {reason}")]
    NoRoots {
        /// Where they were looked for.
        reason: String,
    },
    /// The key would travel in clear text.
    #[error(
        "{host} is not on a private network, and http:// would send what is secret in clear \
         text; use https://"
    )]
    ClearText {
        /// The server.
        host: String,
    },
    /// An outsider named an address that must not be reached.
    #[error("{host} is not on the internet, and only such addresses are reached here")]
    Forbidden {
        /// The server.
        host: String,
    },
    /// What must be there before a request was not there in time. Nothing was sent.
    #[error("{what} took more than {ms} ms")]
    Unready {
        /// What was waited for.
        what: &'static str,
        /// How long.
        ms: u64,
    },
    /// The wait for an answer took too long.
    #[error("{what} took more than {ms} ms")]
    TimedOut {
        /// What was waited for.
        what: &'static str,
        /// How long.
        ms: u64,
    },
    /// The connection ended before the answer did.
    #[error("the connection broke before the answer was complete")]
    CutOff,
    /// The answer is larger than anything that is taken.
    #[error("the answer has more than {max} bytes")]
    TooLarge {
        /// The bound.
        max: u64,
    },
    /// The server points elsewhere. The key is not sent there.
    #[error(
        "the server answered {status} and points to another address; redirects are not followed, \
         because a key would go there too"
    )]
    Redirected {
        /// The status.
        status: u16,
        /// Where it points, as it says; nobody has looked at it.
        to: Option<String>,
    },
    /// The answer is no HTTP, or is packed in a way nobody asked for.
    #[error("the answer cannot be read: {0}")]
    Unreadable(&'static str),
}

impl HttpFault {
    /// Whether the server may have seen the request.
    pub fn may_have_arrived(&self) -> bool {
        match self {
            Self::NoAddress { .. }
            | Self::Unreachable { .. }
            | Self::Tls { .. }
            | Self::NoRoots { .. }
            | Self::NoTls { .. }
            | Self::OnlyTls { .. }
            | Self::Forbidden { .. }
            | Self::ClearText { .. }
            | Self::Unready { .. } => false,
            Self::TimedOut { .. }
            | Self::CutOff
            | Self::TooLarge { .. }
            | Self::Redirected { .. }
            | Self::Unreadable(_) => true,
        }
    }

    /// The same in the words of the log.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::NoAddress { .. } | Self::Unreachable { .. } => FaultKind::Unreachable,
            Self::Tls { .. } => FaultKind::Tls,
            Self::NoRoots { .. }
            | Self::ClearText { .. }
            | Self::Forbidden { .. }
            | Self::NoTls { .. }
            | Self::OnlyTls { .. } => FaultKind::Unusable,
            Self::Unready { .. } | Self::TimedOut { .. } => FaultKind::TimedOut,
            Self::CutOff => FaultKind::CutOff,
            Self::TooLarge { .. } => FaultKind::TooLarge,
            Self::Redirected { .. } => FaultKind::Redirected,
            Self::Unreadable(_) => FaultKind::Unreadable,
        }
    }
}
