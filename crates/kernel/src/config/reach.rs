//! Says in lines what a configuration reaches, for a person who decides whether to trust it.
//!
//! Nothing is cut short: what does not fit on a screen is shown on the next one. Literal secrets are
//! masked.

use super::harmless::{given_variable, sent_parts};
use super::shown::{masked_address, masked_args, shown};
use super::{
    AgentText, HomeConfig, NetworkConfig, NetworkWord, SandboxConfig, SandboxModeConfig,
    SendsConfig, ServerText, Transport,
};
use crate::names::ServerName;

/// What a configuration does that reaches beyond the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReachLine {
    /// The server whose program it starts, where it is one.
    pub program: Option<ServerName>,
    /// What it does.
    pub text: String,
}

impl AgentText {
    /// Everything that the configuration starts, and every other thing in it that needs trust.
    pub fn reach_lines(&self) -> Vec<ReachLine> {
        let servers = self.mcp_servers.iter().map(|(name, server)| match server.transport() {
            Transport::Stdio => {
                ReachLine { program: Some(name.clone()), text: program(name, server) }
            }
            Transport::Http | Transport::Sse | Transport::StreamableHttp | Transport::Auto => {
                ReachLine { program: None, text: address(name, server) }
            }
        });
        // The key of a reason begins with the one of its server, which has a line of its own.
        let of_server = |key: &str| key.starts_with("mcp_servers.");
        let reasons = self.trust_reasons().into_iter().filter(|reason| !of_server(&reason.key));
        let reasons = reasons.map(|reason| {
            let text = format!("{}: {}", reason.key, reason.reason);
            ReachLine { program: None, text }
        });
        servers.chain(reasons).collect()
    }
}

/// The program of a server, with all that it is granted.
fn program(name: &ServerName, server: &ServerText) -> String {
    let command = server.command.as_deref().unwrap_or_default().to_owned();
    let words = std::iter::once(command).chain(masked_args(&server.args).into_iter().map(quoted));
    let mut parts = vec![format!("server {name}: {}", words.collect::<Vec<_>>().join(" "))];
    parts.extend(server.cwd.as_ref().map(|cwd| format!("in {cwd}")));
    parts.extend(grants(&server.sandbox.clone().unwrap_or_default()));
    let given: Vec<String> = server.env.iter().map(given_variable).collect();
    if !given.is_empty() {
        parts.push(format!("given {}", given.join(", ")));
    }
    parts.extend(tool_lines(server));
    parts.join("; ")
}

/// What the file says of the tools of a server: how often a call may run, and what the rule of two
/// takes them for.
fn tool_lines(server: &ServerText) -> Vec<String> {
    let effects = server
        .effects
        .iter()
        .map(|(tool, effect)| format!("{} has the effect {}", shown(tool), effect.as_str()));
    let labels = server.labels.iter().map(|(tool, labels)| {
        let flag = |name: &str, value: Option<bool>| {
            value.map(|value| if value { name.to_owned() } else { format!("not {name}") })
        };
        let sends = match (&labels.sends_to, labels.sends) {
            (Some(pointer), _) => Some(format!("sends to {}", shown(pointer))),
            (None, Some(SendsConfig::No)) => Some("sends nothing".to_owned()),
            (None, Some(SendsConfig::Configured)) => Some("sends to its service".to_owned()),
            (None, None) => None,
        };
        let told = [flag("private", labels.private), flag("untrusted", labels.untrusted), sends];
        let told: Vec<String> = told.into_iter().flatten().collect();
        format!("{} is said to be: {}", shown(tool), told.join(", "))
    });
    effects.chain(labels).collect()
}

/// An argument, in quotes where it is more than a word.
fn quoted(arg: String) -> String {
    let plain = !arg.is_empty() && !arg.chars().any(char::is_whitespace);
    if plain { arg } else { format!("{arg:?}") }
}

/// What a program may reach.
fn grants(sandbox: &SandboxConfig) -> Vec<String> {
    let paths = |paths: &[String]| {
        let named = |path: &String| match path.as_str() {
            "." => "this folder".to_owned(),
            path => path.to_owned(),
        };
        paths.iter().map(named).collect::<Vec<_>>().join(", ")
    };
    let mut parts = Vec::new();
    if sandbox.mode == SandboxModeConfig::Off {
        parts.push("not isolated: may do all that you can".to_owned());
        return parts;
    }
    if !sandbox.read.is_empty() {
        parts.push(format!("may read {}", paths(&sandbox.read)));
    }
    if !sandbox.write.is_empty() {
        parts.push(format!("may change {}", paths(&sandbox.write)));
    }
    parts.push(match &sandbox.network {
        NetworkConfig::Word(NetworkWord::All) => "may reach any address".to_owned(),
        NetworkConfig::Word(NetworkWord::None) => "may reach no address".to_owned(),
        NetworkConfig::Ports(ports) => {
            let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
            format!("may reach the TCP ports {}", ports.join(", "))
        }
    });
    if sandbox.home == HomeConfig::Shared {
        parts.push("may read your home".to_owned());
    }
    if sandbox.unix_sockets {
        parts.push("may use Unix sockets".to_owned());
    }
    let usual = SandboxConfig::default().pass_env;
    let passed = sandbox.pass_env.iter().filter(|name| !usual.contains(name));
    let passed: Vec<&str> = passed.map(String::as_str).collect();
    if !passed.is_empty() {
        parts.push(format!("given your {}", passed.join(", ")));
    }
    parts
}

/// The address of a server, with the secrets that are sent there.
fn address(name: &ServerName, server: &ServerText) -> String {
    let url = server.url.as_deref().unwrap_or_default();
    let mut parts = vec![format!("server {name}: connects to {}", masked_address(url))];
    let own = [("auth", server.auth.as_ref())];
    let oauth = server.oauth.as_ref().and_then(|oauth| oauth.client_secret.as_ref());
    let named = own.into_iter().chain([("oauth.client_secret", oauth)]);
    let named = named.filter_map(|(key, secret)| Some((key.to_owned(), secret?)));
    let headers =
        server.headers.iter().map(|(header, secret)| (format!("header {header}"), secret));
    for (key, secret) in named.chain(headers) {
        parts.push(match sent_parts(secret).as_slice() {
            [] => format!("sends {key} as it is written"),
            sent => format!("sends {key} from {}", sent.join(" and ")),
        });
    }
    if let Some(oauth) = &server.oauth {
        parts.extend(oauth.client_id.as_deref().map(|id| format!("as the client {}", shown(id))));
        if !oauth.scopes.is_empty() {
            let scopes: Vec<String> = oauth.scopes.iter().map(|scope| shown(scope)).collect();
            parts.push(format!("asks for the scopes {}", scopes.join(", ")));
        }
        let document = oauth.client_metadata_url.as_deref().map(masked_address);
        parts.extend(document.map(|url| format!("names the document {url}")));
    }
    parts.extend(tool_lines(server));
    parts.join("; ")
}
