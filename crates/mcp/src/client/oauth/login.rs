//! Decides in which order a login goes: who gives out tokens, who we are there, what the person
//! opens, whether the answer is the right one, and only then the exchange of its code.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use hyper::header::HeaderMap;
use toolgate_http::{Patience, Transport, Verb, after};
use toolgate_kernel::digest::{Digest, unhex};
use toolgate_kernel::time::Timestamp;

use super::address::{Endpoint, Guard, bare, form, tame};
use super::callback::{Expected, code};
use super::challenge::Challenge;
use super::client::{Client, OauthPlan, client};
use super::exchange::{Sent, ask};
use super::fault::OauthFault;
use super::metadata::{Issuer, Resource, issuer, resource};
use super::permit::{Given, Permit};
use crate::client::place::Place;
use crate::client::plan::{Reach, ServerPlan};
use toolgate_kernel::hidden::Hidden;

/// Milliseconds until the server has said that it wants a token.
const PROBE_MS_MAX: u64 = 15_000;

/// Random bytes of one login; nobody else knows them.
pub struct Chance {
    /// What the answer must repeat.
    pub state: [u8; 32],
    /// What proves that the code is ours.
    pub verifier: [u8; 32],
}

/// What a login is for.
pub struct Request<'a> {
    /// The server.
    pub server: &'a ServerPlan,
    /// What a person configured for it.
    pub plan: &'a OauthPlan,
    /// The address on this computer where the answer comes.
    pub redirect: &'a str,
    /// What the login before this one brought, as far as it is known.
    pub before: Option<&'a Permit>,
}

/// A login that waits for its answer.
pub struct Login {
    address: String,
    state: String,
    verifier: Hidden,
    redirect: String,
    says_issuer: bool,
    token: Endpoint,
    /// The permit as it will be, without its tokens.
    permit: Permit,
}

impl Login {
    /// Finds out whom to ask, and makes the address that a person opens.
    pub async fn begin(
        http: &Transport,
        request: Request<'_>,
        chance: Chance,
    ) -> Result<Self, OauthFault> {
        let Reach::Http { url, .. } = &request.server.reach else {
            let why = "a program is given its secrets by `env`";
            return Err(OauthFault::Address { what: "address of the server", why });
        };
        if chance.state == chance.verifier {
            return Err(OauthFault::NoChance);
        }
        let guard = Guard::of(url)?;
        let challenge = probe(http, request.server).await?;
        let resource = resource(http, guard, url, &challenge).await?;
        let issuer = issuer(http, guard, &resource).await?;
        if is_elsewhere(&request, &issuer) {
            return Err(OauthFault::MovedIssuer);
        }
        // Every address is looked at before anything is sent to one of them.
        let token = guard.endpoint("token endpoint", &issuer.token_endpoint)?;
        let page = tame(&issuer.authorization_endpoint);
        guard.endpoint("authorization endpoint", &page)?;
        let client = client(http, guard, request.plan, &issuer, request.redirect).await?;
        let scopes = scopes(&request, &challenge, &resource, &issuer);
        let text = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let (state, verifier) = (text(&chance.state), text(&chance.verifier));
        let hash = unhex::<32>(&Digest::of(verifier.as_bytes()).to_string());
        let hash = text(&hash.ok_or(OauthFault::NoChance)?);
        let scope = scopes.join(" ");
        let mut pairs = vec![
            ("response_type", "code"),
            ("client_id", client.id.as_str()),
            ("redirect_uri", request.redirect),
            ("state", state.as_str()),
            ("code_challenge", hash.as_str()),
            ("code_challenge_method", "S256"),
            ("resource", resource.resource.as_str()),
        ];
        if !scope.is_empty() {
            pairs.push(("scope", &scope));
        }
        if scopes.iter().any(|scope| scope == "offline_access") {
            pairs.push(("prompt", "consent"));
        }
        let mark = if page.contains('?') { '&' } else { '?' };
        let address = format!("{page}{mark}{}", form(&pairs));
        let says_issuer = issuer.authorization_response_iss_parameter_supported;
        let permit = permit(url, issuer, &resource, client, scopes);
        let (redirect, verifier) = (request.redirect.to_owned(), Hidden::new(&verifier));
        Ok(Self { address, state, verifier, redirect, says_issuer, token, permit })
    }

    /// The address that the person opens. It holds nothing that a shell reads.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Takes the answer that came to our address: its query. A code is exchanged only when the
    /// answer is ours and comes from whom was asked.
    pub async fn finish(
        &self,
        http: &Transport,
        query: &str,
        now: Timestamp,
    ) -> Result<Permit, OauthFault> {
        let (state, issuer) = (self.state.as_str(), self.permit.issuer.as_str());
        let code = code(query, &Expected { state, issuer, says_issuer: self.says_issuer })?;
        let pairs = [
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", &self.redirect),
            ("code_verifier", self.verifier.reveal()),
            ("resource", &self.permit.resource),
        ];
        let (form, who) = self.permit.client.signed(&pairs)?;
        let told = ask(http, &self.token, Sent::Form(form, who.as_ref())).await?;
        Ok(self.permit.clone().with(Given::read(&told)?, now))
    }
}

/// Whether a client that was registered beforehand would show itself to another authorization server
/// than the one that knows it.
fn is_elsewhere(request: &Request<'_>, issuer: &Issuer) -> bool {
    let known = |before: &&Permit| Some(&before.client.id) == request.plan.client_id.as_ref();
    request.before.filter(known).is_some_and(|before| before.issuer != issuer.issuer)
}

fn permit(
    url: &str,
    issuer: Issuer,
    resource: &Resource,
    client: Client,
    scopes: Vec<String>,
) -> Permit {
    Permit {
        server: url.to_owned(),
        issuer: issuer.issuer,
        resource: resource.resource.clone(),
        token_endpoint: issuer.token_endpoint,
        client,
        access: Hidden::new(""),
        refresh: None,
        times: None,
        scopes,
        missed: Vec::new(),
    }
}

/// What is asked for: what a person configured, else what the server names; and what it missed the
/// last time. A token that can be renewed is asked for where there is one.
fn scopes(
    request: &Request<'_>,
    challenge: &Challenge,
    resource: &Resource,
    issuer: &Issuer,
) -> Vec<String> {
    let named = [&request.plan.scopes, &challenge.scopes, &resource.scopes_supported];
    let named = named.into_iter().find(|scopes| !scopes.is_empty()).cloned();
    let mut all = named.unwrap_or_default();
    let offline = "offline_access".to_owned();
    let renewable = request.plan.scopes.is_empty()
        && !all.is_empty()
        && issuer.scopes_supported.contains(&offline);
    let missed = request.before.map(Permit::scopes_missed).unwrap_or_default();
    let more = missed.into_iter().chain(renewable.then_some(offline));
    for scope in more {
        if !all.contains(&scope) {
            all.push(scope);
        }
    }
    all
}

/// Asks the server something without a token, to hear what it wants. A server that answers all the
/// same is looked up where such servers say who may use them.
async fn probe(http: &Transport, plan: &ServerPlan) -> Result<Challenge, OauthFault> {
    let what = "server";
    let Reach::Http { url, headers, .. } = &plan.reach else { return Ok(Challenge::default()) };
    let unusable = |_| OauthFault::Address { what, why: "its address or a header cannot be sent" };
    let place = Place::new(http, plan, url, headers, None).map_err(unusable)?;
    debug_assert!(!bare(url).is_empty());
    let deadline = after(tokio::time::Instant::now(), PROBE_MS_MAX);
    let body = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    let all = HeaderMap::clone(&place.headers);
    let patience = Patience { request_ms_max: Some(PROBE_MS_MAX), ..place.patience.clone() };
    let sending = place.send(Verb::Post, &all, body, deadline, &patience);
    let answer = sending.await.map_err(|fault| OauthFault::Unreachable { what, fault })?;
    if answer.status != 401 {
        return Ok(Challenge::default());
    }
    Ok(Challenge::of(&answer.headers))
}
