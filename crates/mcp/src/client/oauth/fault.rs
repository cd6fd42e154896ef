//! Decides how it is told that an authorization failed. No text in it holds a code, a token or a
//! secret; of what a server wrote, only short words without control characters are shown.

use toolgate_http::HttpFault;

/// Why there is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OauthFault {
    /// An address that a server named must not be used.
    #[error("the {what} cannot be used: {why}")]
    Address {
        /// Which address.
        what: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A server that was named cannot be asked.
    #[error("the {what} cannot be asked: {fault}")]
    Unreachable {
        /// What was asked.
        what: &'static str,
        /// Why not.
        fault: HttpFault,
    },
    /// It points elsewhere.
    #[error("the {what} points to another address; that is not followed")]
    Redirected {
        /// What was asked.
        what: &'static str,
    },
    /// It answered with a status that means nothing here.
    #[error("the {what} answered with status {status}")]
    Status {
        /// What was asked.
        what: &'static str,
        /// The status.
        status: u16,
    },
    /// What came is not what was asked for.
    #[error("the {what} cannot be read: {why}")]
    Unreadable {
        /// What was asked.
        what: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The server does not say who gives out tokens for it.
    #[error("it does not say who gives out tokens for it, so nobody can be asked for one")]
    NoMetadata,
    /// The metadata are about another server.
    #[error("the protected resource metadata are about another server than this one")]
    OtherResource,
    /// The metadata are of another authorization server.
    #[error("the authorization server says that it is another one than it was named")]
    OtherIssuer,
    /// The server names another authorization server than before.
    #[error(
        "the server names another authorization server than at the last login, and the configured client belongs to that one; if this is right, log out first"
    )]
    MovedIssuer,
    /// There is no protection of the code.
    #[error(
        "the authorization server does not say that it supports PKCE with S256; without it a code can be stolen, so this is refused"
    )]
    NoPkce,
    /// Nobody knows us there.
    #[error(
        "the authorization server does not let clients register; put a client_id under `oauth:`"
    )]
    NoRegistration,
    /// It registered something else than was asked for.
    #[error("the authorization server registered another address for the answer than ours")]
    OtherRedirect,
    /// An answer that belongs to no question of ours.
    #[error("this answer belongs to another login")]
    NotOurs,
    /// The answer does not come from the server that was asked.
    #[error(
        "the answer does not come from the authorization server that was asked; its code is not used"
    )]
    WrongSender,
    /// The person, or the server, said no.
    #[error("the authorization server said no: {0}")]
    Denied(String),
    /// The answer has no code.
    #[error("the answer has no code")]
    NoCode,
    /// The random bytes are not random.
    #[error("the random values for this login are too short")]
    NoChance,
}
