//! Decides who we are to an authorization server: a client that was registered beforehand, one that
//! describes itself at an address, or one that registers now.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::header::HeaderValue;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_http::Transport;

use super::address::{Guard, encoded, form};
use super::exchange::{Sent, ask};
use super::fault::OauthFault;
use super::metadata::Issuer;
use toolgate_kernel::hidden::Hidden;

/// What a person configured for a server's authorization.
#[derive(Debug, Clone, Default)]
pub struct OauthPlan {
    /// The id of a client that was registered beforehand.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<Hidden>,
    /// The scopes to ask for, in place of those the server names.
    pub scopes: Vec<String>,
    /// The address of a document that describes us.
    pub client_metadata_url: Option<String>,
}

/// A client, as an authorization server knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) id: String,
    pub(super) secret: Option<Hidden>,
    pub(super) proof: Proof,
}

/// How a client shows that it is the one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Proof {
    #[serde(rename = "none")]
    Nothing,
    #[serde(rename = "client_secret_basic")]
    Header,
    #[serde(rename = "client_secret_post")]
    Form,
}

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    #[serde(default)]
    client_secret: Option<String>,
    #[serde(default)]
    redirect_uris: Option<Vec<String>>,
    #[serde(default)]
    token_endpoint_auth_method: Option<Proof>,
}

/// The client that asks.
pub(super) async fn client(
    http: &Transport,
    guard: Guard,
    plan: &OauthPlan,
    issuer: &Issuer,
    redirect: &str,
) -> Result<Client, OauthFault> {
    if let Some(id) = &plan.client_id {
        let secret = plan.client_secret.clone();
        let proof = if secret.is_none() { Proof::Nothing } else { with_secret(issuer) };
        return Ok(Client { id: id.clone(), secret, proof });
    }
    if let Some(url) = &plan.client_metadata_url
        && issuer.client_id_metadata_document_supported
    {
        return Ok(Client { id: url.clone(), secret: None, proof: Proof::Nothing });
    }
    let endpoint = issuer.registration_endpoint.as_deref().ok_or(OauthFault::NoRegistration)?;
    let endpoint = guard.endpoint("registration endpoint", endpoint)?;
    let wanted = if knows(issuer, "none") { Proof::Nothing } else { with_secret(issuer) };
    let about = json!({
        "client_name": "toolgate",
        "application_type": "native",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": wanted,
    });
    let registered: Registered =
        ask(http, &endpoint, Sent::Json(about.to_string())).await?.json()?;
    // The answer goes to exactly the address that was registered.
    if registered.redirect_uris.is_some_and(|all| !all.iter().any(|one| one == redirect)) {
        return Err(OauthFault::OtherRedirect);
    }
    let secret = registered.client_secret.as_deref().map(Hidden::new);
    let proof = match (&secret, registered.token_endpoint_auth_method) {
        (None, _) => Proof::Nothing,
        (Some(_), Some(proof)) => proof,
        (Some(_), None) => with_secret(issuer),
    };
    Ok(Client { id: registered.client_id, secret, proof })
}

fn knows(issuer: &Issuer, method: &str) -> bool {
    let methods = issuer.token_endpoint_auth_methods_supported.as_ref();
    methods.is_none_or(|all| all.iter().any(|known| known == method))
}

/// How a secret is shown: in a header, unless the server wants it otherwise.
fn with_secret(issuer: &Issuer) -> Proof {
    let only_form = !knows(issuer, "client_secret_basic") && knows(issuer, "client_secret_post");
    if only_form { Proof::Form } else { Proof::Header }
}

impl Client {
    /// A form with who we are, and the header that goes with it.
    pub(super) fn signed(
        &self,
        pairs: &[(&str, &str)],
    ) -> Result<(String, Option<HeaderValue>), OauthFault> {
        let secret = self.secret.as_ref().map_or("", |secret| secret.reveal());
        let mut all = pairs.to_vec();
        let mut header = None;
        match self.proof {
            Proof::Nothing => all.push(("client_id", &self.id)),
            Proof::Form => all.extend([("client_id", self.id.as_str()), ("client_secret", secret)]),
            Proof::Header => {
                let both = format!("{}:{}", encoded(&self.id), encoded(secret));
                let value = format!("Basic {}", BASE64_STANDARD.encode(both));
                let why = "the client's id or secret cannot be sent";
                let mut value = HeaderValue::from_str(&value)
                    .map_err(|_| OauthFault::Unreadable { what: "client", why })?;
                value.set_sensitive(true);
                header = Some(value);
            }
        }
        Ok((form(&all), header))
    }
}
