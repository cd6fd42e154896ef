//! Decides what a token is: signed words that open one session, for a time, perhaps in one phase.

use std::fmt;
use std::sync::Arc;

use toolgate_kernel::digest::unhex;
use toolgate_kernel::names::{PhaseName, SessionId};
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::token_key::TokenKey;
use toolgate_runtime::port::Clock;

use super::http::{Denied, Porter};
use super::served::Principal;

/// What every token begins with, so that one that was lost can be recognised.
const PREFIX: &str = "tgt_";

/// Longest token that is looked at.
const TOKEN_BYTES_MAX: usize = 512;

/// What a token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// Its id: lower-case letters and digits.
    pub id: String,
    /// The session it opens.
    pub session: SessionId,
    /// The only phase in which it holds.
    pub phase: Option<PhaseName>,
    /// When it is over.
    pub expires: Timestamp,
}

/// The token itself, which is shown once and never printed by accident.
pub struct Token(String);

impl Token {
    /// The token, for the one who made it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Claims {
    /// Ids and sessions have no dot, nor has a time; a phase may have some. So the first two words are
    /// read from the left and the last one from the right, and there is one way to read a token.
    fn words(&self) -> String {
        let phase = self.phase.as_ref().map_or("", |phase| phase.as_str());
        format!("{}.{}.{}.{}", self.id, self.session, phase, self.expires.0)
    }

    /// What is signed says what it is for: a token of this log's MCP server, and nothing else.
    fn signed(words: &str) -> Vec<u8> {
        format!("token for mcp {words}").into_bytes()
    }

    /// Makes the token.
    pub fn sign(&self, key: &TokenKey) -> Token {
        let words = self.words();
        let mac = key.sign(&Self::signed(&words));
        let mac: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
        Token(format!("{PREFIX}{words}.{mac}"))
    }

    /// Reads a token that was signed with this key.
    pub fn read(token: &str, key: &TokenKey) -> Option<Self> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (words, mac) = token.strip_prefix(PREFIX)?.rsplit_once('.')?;
        if !key.verifies(&Self::signed(words), &unhex(mac)?) {
            return None;
        }
        let (id, rest) = words.split_once('.')?;
        let (session, rest) = rest.split_once('.')?;
        let (phase, expires) = rest.rsplit_once('.')?;
        let expires = Timestamp(expires.parse().ok()?);
        let phase = match phase {
            "" => None,
            named => Some(PhaseName::parse(named).ok()?),
        };
        let (id, session) = (id.to_owned(), SessionId::parse(session).ok()?);
        Some(Self { id, session, phase, expires })
    }
}

/// Knows which tokens were made and not revoked. It is asked for every request.
pub trait Roster: Send + Sync + 'static {
    /// Whether the token of this id still holds. What cannot be found out is no.
    fn holds(&self, id: &str) -> bool;
}

/// Lets in who shows a token for one session.
pub struct TokenPorter {
    /// The key that signs tokens.
    pub key: TokenKey,
    /// The session that is served.
    pub session: SessionId,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Which tokens hold.
    pub roster: Arc<dyn Roster>,
}

impl Porter for TokenPorter {
    fn admit(&self, token: Option<&str>) -> Result<Arc<Principal>, Denied> {
        let claims = Claims::read(token.ok_or(Denied::Missing)?, &self.key);
        let Claims { id, session, phase, expires } = claims.ok_or(Denied::Invalid)?;
        if session != self.session {
            return Err(Denied::OtherSession);
        }
        if self.clock.now() >= expires {
            return Err(Denied::Expired);
        }
        if !self.roster.holds(&id) {
            return Err(Denied::Revoked);
        }
        Ok(Arc::new(Principal { name: id.into(), phase }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_what_was_signed_and_nothing_else_is_one() {
        let key = TokenKey::from_bytes(&[7; 32]);
        let claims = Claims {
            id: "ab12".into(),
            session: SessionId::parse("mcp").unwrap(),
            phase: Some(PhaseName::parse("PLAN").unwrap()),
            expires: Timestamp(1_000),
        };
        let token = claims.sign(&key);
        assert_eq!(Claims::read(token.reveal(), &key), Some(claims.clone()));
        let free = Claims { phase: None, ..claims };
        assert_eq!(Claims::read(free.sign(&key).reveal(), &key), Some(free.clone()));
        assert!(!format!("{token:?}").contains("ab12"));
        for name in ["draft.1", "a.b.c", "1.2", ".", "v1."] {
            let phase = Some(PhaseName::parse(name).unwrap());
            let dotted = Claims { phase, ..free.clone() };
            assert_eq!(Claims::read(dotted.sign(&key).reveal(), &key), Some(dotted), "{name}");
        }
        let other = TokenKey::from_bytes(&[8; 32]);
        assert_eq!(Claims::read(token.reveal(), &other), None);
        for (from, to) in
            [("PLAN", ""), ("1000", "9000"), ("mcp", "xyz"), ("ab12", "ab13"), ("tgt_", "")]
        {
            let changed = token.reveal().replacen(from, to, 1);
            assert_eq!(Claims::read(&changed, &key), None, "{changed}");
        }
        // A token of another service is just words.
        let foreign = "eyJhbGciOiJIUzI1NiJ9.eyJhdWQiOiJvdGhlciJ9.c2lnbmF0dXJl";
        assert_eq!(Claims::read(foreign, &key), None);
        assert_eq!(Claims::read(&"tgt_".repeat(1_000), &key), None);
    }
}
