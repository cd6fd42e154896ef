//! Decides who gives out tokens for a server, and whether that one can be trusted with it: RFC 9728,
//! RFC 8414 and OpenID discovery.

use serde::Deserialize;
use toolgate_http::Transport;

use super::address::{Endpoint, Guard, bare, taken_apart};
use super::challenge::Challenge;
use super::exchange::{Exchanged, Sent, ask};
use super::fault::OauthFault;

const RESOURCE: &str = "protected resource metadata";
const SERVER: &str = "authorization server metadata";

/// What a server says about who may use it.
#[derive(Debug, Deserialize)]
pub(super) struct Resource {
    /// Whom a token is for.
    pub(super) resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    pub(super) scopes_supported: Vec<String>,
}

/// What an authorization server says about itself.
#[derive(Debug, Deserialize)]
pub(super) struct Issuer {
    /// Its name, exactly.
    pub(super) issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    #[serde(default)]
    pub(super) registration_endpoint: Option<String>,
    #[serde(default)]
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) scopes_supported: Vec<String>,
    #[serde(default)]
    pub(super) client_id_metadata_document_supported: bool,
    /// Whether its answers say whom they are from.
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

/// Finds what the server says about who may use it: where its challenge points, else at the places
/// that are known.
pub(super) async fn resource(
    http: &Transport,
    guard: Guard,
    server: &str,
    challenge: &Challenge,
) -> Result<Resource, OauthFault> {
    let places = match &challenge.metadata {
        Some(named) => vec![named.clone()],
        None => around(server, "oauth-protected-resource")?,
    };
    let places = places.iter().map(|place| guard.endpoint(RESOURCE, place));
    let places: Vec<Endpoint> = places.collect::<Result<_, _>>()?;
    let found: Resource = first(http, &places).await?.ok_or(OauthFault::NoMetadata)?.json()?;
    if !covers(&found.resource, server) {
        return Err(OauthFault::OtherResource);
    }
    Ok(found)
}

/// Finds what the authorization server of a resource says about itself.
pub(super) async fn issuer(
    http: &Transport,
    guard: Guard,
    resource: &Resource,
) -> Result<Issuer, OauthFault> {
    let named = resource.authorization_servers.first().ok_or(OauthFault::NoMetadata)?;
    // A name that must not be asked is refused before a place is made of it.
    guard.endpoint("authorization server", named)?;
    let mut places = around(named, "oauth-authorization-server")?;
    places.truncate(1);
    places.extend(around(named, "openid-configuration")?.into_iter().take(1));
    let inside = format!("{}/.well-known/openid-configuration", named.trim_end_matches('/'));
    if !places.contains(&inside) {
        places.push(inside);
    }
    let places = places.iter().map(|place| guard.endpoint(SERVER, place));
    let places: Vec<Endpoint> = places.collect::<Result<_, _>>()?;
    let found: Issuer = first(http, &places).await?.ok_or(OauthFault::NoMetadata)?.json()?;
    if found.issuer != *named {
        return Err(OauthFault::OtherIssuer);
    }
    let methods = found.code_challenge_methods_supported.as_deref().unwrap_or_default();
    if !methods.iter().any(|method| method == "S256") {
        return Err(OauthFault::NoPkce);
    }
    Ok(found)
}

/// The first of these places where something is.
async fn first(http: &Transport, places: &[Endpoint]) -> Result<Option<Exchanged>, OauthFault> {
    for place in places {
        let told = ask(http, place, Sent::Nothing).await?;
        if !(400..500).contains(&told.status) {
            return Ok(Some(told));
        }
    }
    Ok(None)
}

/// The known places of a document about an address: with its path, and without.
fn around(url: &str, document: &str) -> Result<Vec<String>, OauthFault> {
    let (origin, path) = taken_apart("address", bare(url))?;
    let scheme = if origin.is_secure() { "https" } else { "http" };
    let root = format!("{scheme}://{origin}/.well-known/{document}");
    Ok(if path.is_empty() { vec![root] } else { vec![format!("{root}{path}"), root] })
}

/// Whether a token for a resource is one for this server: the same server, and the same path or one
/// above it.
fn covers(resource: &str, server: &str) -> bool {
    let parse = |url: &str| taken_apart("resource", url).ok();
    let (Some((theirs, above)), Some((ours, path))) = (parse(resource), parse(bare(server))) else {
        return false;
    };
    let below = path.strip_prefix(&above);
    theirs == ours && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_covers_what_is_at_or_below_it_on_the_same_server() {
        let server = "https://mcp.example.com/a/mcp?x=1";
        for (resource, wanted) in [
            ("https://mcp.example.com/a/mcp", true),
            ("https://MCP.example.com:443/a/mcp/", true),
            ("https://mcp.example.com/a", true),
            ("https://mcp.example.com", true),
            ("https://mcp.example.com/a/m", false),
            ("https://mcp.example.com/b", false),
            ("https://mcp.example.com:8443/a/mcp", false),
            ("http://mcp.example.com/a/mcp", false),
            ("https://mcp.example.com.evil.example/a/mcp", false),
            ("https://evil.example/https://mcp.example.com/a/mcp", false),
            ("https://mcp.example.com@evil.example/a/mcp", false),
            ("", false),
        ] {
            assert_eq!(covers(resource, server), wanted, "{resource}");
        }
    }

    #[test]
    fn documents_are_looked_for_where_the_specification_puts_them() {
        let places = around("https://mcp.example.com/a/mcp?x=1", "oauth-protected-resource");
        let root = "https://mcp.example.com/.well-known/oauth-protected-resource";
        assert_eq!(places.unwrap(), [format!("{root}/a/mcp"), root.to_owned()]);
        let places = around("http://127.0.0.1:81", "x").unwrap();
        assert_eq!(places, ["http://127.0.0.1:81/.well-known/x"]);
    }
}
