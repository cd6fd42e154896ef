//! Decides what is kept of an authorization: the tokens, whom they are for, who gave them and where
//! they are renewed.

use serde::{Deserialize, Serialize};
use toolgate_kernel::time::Timestamp;

use super::client::{Client, Proof};
use super::exchange::Exchanged;
use super::fault::OauthFault;
use toolgate_kernel::hidden::Hidden;

/// Bytes of one token.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Milliseconds before its end at which a token is renewed.
const EARLY_MS: u64 = 60_000;

/// Leave to use one MCP server, as its authorization server gave it. It is for that server alone,
/// and shows nothing of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permit {
    /// The address of the MCP server.
    pub(super) server: String,
    /// Who gave it.
    pub(super) issuer: String,
    /// Whom the token is for, in the words of the server.
    pub(super) resource: String,
    pub(super) token_endpoint: String,
    pub(super) client: Client,
    pub(super) access: Hidden,
    pub(super) refresh: Option<Hidden>,
    /// When the token is renewed, and when it is over.
    pub(super) times: Option<(Timestamp, Timestamp)>,
    pub(super) scopes: Vec<String>,
    /// Scopes that the server missed since.
    pub(super) missed: Vec<String>,
}

/// The same as it is written down.
#[derive(Serialize, Deserialize)]
struct Written {
    version: u16,
    server: String,
    issuer: String,
    resource: String,
    token_endpoint: String,
    client_id: String,
    client_secret: Option<String>,
    client_proof: Proof,
    access_token: String,
    refresh_token: Option<String>,
    times: Option<(Timestamp, Timestamp)>,
    scopes: Vec<String>,
    #[serde(default)]
    missed: Vec<String>,
}

/// What a token endpoint gives out.
#[derive(Deserialize)]
pub(super) struct Given {
    access_token: String,
    token_type: String,
    #[serde(default)]
    expires_in: Option<f64>,
    #[serde(default)]
    refresh_token: Option<String>,
    #[serde(default)]
    scope: Option<String>,
}

#[derive(Deserialize)]
struct Refused {
    error: String,
}

impl Given {
    /// What came, if it is a token that can be sent.
    pub(super) fn read(told: &Exchanged) -> Result<Self, OauthFault> {
        if (400..500).contains(&told.status) {
            // Only the code of the error: its description may repeat what was sent.
            let refused: Refused = told.body()?;
            return Err(OauthFault::Denied(word(&refused.error)));
        }
        let given: Self = told.json()?;
        let unusable = |why| Err(OauthFault::Unreadable { what: "token", why });
        if !given.token_type.eq_ignore_ascii_case("bearer") {
            return unusable("it is of a kind that is not known here");
        }
        let plain = |token: &str| {
            let fits = !token.is_empty() && token.len() <= TOKEN_BYTES_MAX;
            fits && token.chars().all(|c| c.is_ascii_graphic())
        };
        if !plain(&given.access_token) || !given.refresh_token.as_deref().is_none_or(plain) {
            return unusable("it cannot be sent");
        }
        Ok(given)
    }
}

impl Permit {
    /// The same permit with what was given now.
    pub(super) fn with(self, given: Given, now: Timestamp) -> Self {
        let life = given.expires_in.filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        // A year is longer than anybody keeps one.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let life = life.map(|seconds| (seconds.min(31_536_000.0) * 1_000.0) as u64);
        let times = life.map(|ms| {
            let early = EARLY_MS.min(ms / 2);
            (now.plus_ms(ms.saturating_sub(early)), now.plus_ms(ms))
        });
        let scopes = given.scope.map(|scope| words(&scope));
        Self {
            access: Hidden::new(&given.access_token),
            refresh: given.refresh_token.as_deref().map(Hidden::new).or(self.refresh),
            times,
            scopes: scopes.unwrap_or(self.scopes),
            ..self
        }
    }

    /// What nobody else may know.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &Hidden> {
        [&self.access].into_iter().chain(&self.refresh).chain(&self.client.secret)
    }

    /// The address of the MCP server that it is for.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Who gave it.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// When its token is over, as far as that was said.
    pub fn over(&self) -> Option<Timestamp> {
        self.times.map(|(_, over)| over)
    }

    /// Whether its token can be renewed without a person.
    pub fn is_renewable(&self) -> bool {
        self.refresh.is_some()
    }

    /// What to ask for the next time beside what the server names: what was given, and what the
    /// server missed since.
    pub(super) fn scopes_missed(&self) -> Vec<String> {
        let all = self.scopes.iter().chain(&self.missed);
        if self.missed.is_empty() { Vec::new() } else { all.cloned().collect() }
    }

    /// Everything, for a file that nobody else can read.
    pub fn written(&self) -> String {
        let text = |secret: &Hidden| secret.reveal().to_owned();
        let kept = Written {
            version: 1,
            server: self.server.clone(),
            issuer: self.issuer.clone(),
            resource: self.resource.clone(),
            token_endpoint: self.token_endpoint.clone(),
            client_id: self.client.id.clone(),
            client_secret: self.client.secret.as_ref().map(text),
            client_proof: self.client.proof,
            access_token: text(&self.access),
            refresh_token: self.refresh.as_ref().map(text),
            times: self.times,
            scopes: self.scopes.clone(),
            missed: self.missed.clone(),
        };
        serde_json::to_string(&kept).unwrap_or_default()
    }

    /// A permit that was written; nothing where it is not one.
    pub fn read(text: &str) -> Option<Self> {
        let kept: Written =
            serde_json::from_str(text).ok().filter(|kept: &Written| kept.version == 1)?;
        let secret = kept.client_secret.as_deref().map(Hidden::new);
        let client = Client { id: kept.client_id, secret, proof: kept.client_proof };
        Some(Self {
            server: kept.server,
            issuer: kept.issuer,
            resource: kept.resource,
            token_endpoint: kept.token_endpoint,
            client,
            access: Hidden::new(&kept.access_token),
            refresh: kept.refresh_token.as_deref().map(Hidden::new),
            times: kept.times,
            scopes: kept.scopes,
            missed: kept.missed,
        })
    }
}

/// The words of a list of scopes.
pub(super) fn words(scope: &str) -> Vec<String> {
    scope.split_ascii_whitespace().map(str::to_owned).collect()
}

/// The code of an error, without anything else that somebody put there.
pub(super) fn word(error: &str) -> String {
    let legal = |c: &char| c.is_ascii_alphanumeric() || "_-.".contains(*c);
    let word: String = error.chars().take_while(legal).take(40).collect();
    if word.is_empty() { "no reason given".to_owned() } else { word }
}
