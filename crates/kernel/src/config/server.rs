//! Decides how an MCP server is written down.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::address::authority;
use super::flow::LabelsConfig;
use super::loader::is_loader_variable;
use super::sandbox::SandboxConfig;
use super::secret::Secret;
use crate::tool::Effect;

/// An MCP server as it is written down.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServerText {
    /// How it is reached; `stdio` when there is a command, else `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// The program to start, for `stdio`. One word: no shell is ever used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments, one per entry.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables it is given; it gets no others that hold secrets.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub env: IndexMap<String, Secret>,
    /// Whether `env` may set variables that make the program load other code, such as `LD_PRELOAD`,
    /// `PYTHONPATH` or `NODE_OPTIONS`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub loader_env: bool,
    /// The folder it is started in; the project when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// What the program may reach on this computer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxConfig>,
    /// Its address, for every other transport.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers that are sent with every request.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub headers: IndexMap<String, Secret>,
    /// A token that is sent as `Authorization: Bearer`.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Secret>,
    /// How `toolgate mcp login` introduces itself, where the server's authorization wants more than
    /// it finds out by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OauthText>,
    /// Milliseconds to wait for a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_ms_max: Option<u64>,
    /// Milliseconds one call may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_ms_max: Option<u64>,
    /// What its tools do, by name; `external` for those that are not named.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub effects: BTreeMap<String, Effect>,
    /// What its tools bring into a session and where they send, by name; `*` for all of them. What is left
    /// out follows from what the server is given.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, LabelsConfig>,
    /// Whether its tools are shown by their own names, where nobody else has them, and not as
    /// `mcp__server__tool`.
    pub short_names: bool,
    /// Whether a phase that uses it must not begin without it.
    pub required: bool,
}

/// Who we are to the authorization server of an MCP server, and what we ask for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OauthText {
    /// The id of a client that was registered beforehand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Its secret, where it has one.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<Secret>,
    /// The scopes that are asked for; those the server names when left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// The address of a client id metadata document, which then is the id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_metadata_url: Option<String>,
    /// The port on this computer where the answer is waited for; any free one when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_port: Option<u16>,
}

/// How an MCP server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// A program that is started and spoken to through its input and output.
    Stdio,
    /// The same as `streamable_http`.
    Http,
    /// Server-sent events, as of 2024.
    Sse,
    /// HTTP, as of 2025.
    StreamableHttp,
    /// `streamable_http` first, then `sse`.
    Auto,
}

/// The key it concerns, what is the matter, what to write.
type Problem = (&'static str, &'static str, &'static str);

/// The key of a problem that concerns all of a server.
pub(super) const NOTHING: &str = "";

/// Milliseconds that a server can be waited for.
const MS_CEILING: u64 = 3_600_000;

impl ServerText {
    /// How it is reached, said or not.
    pub fn transport(&self) -> Transport {
        match (self.transport, &self.command) {
            (Some(transport), _) => transport,
            (None, Some(_)) => Transport::Stdio,
            (None, None) => Transport::Auto,
        }
    }

    /// The variables of `env` that make a program load other code, where the file does not allow
    /// them.
    pub(super) fn forbidden_loader_variables(&self) -> impl Iterator<Item = &str> {
        let names = self.env.keys().map(String::as_str).filter(|_| !self.loader_env);
        names.filter(|name| is_loader_variable(name))
    }

    /// The same for `sandbox.pass_env`.
    pub(super) fn forbidden_passed_variables(&self) -> impl Iterator<Item = &str> {
        let passed = self.sandbox.iter().filter(|_| !self.loader_env);
        passed.flat_map(SandboxConfig::loader_variables)
    }

    /// Whether its program is known to speak to a service over a Unix socket.
    pub(super) fn needs_unix_socket(&self) -> bool {
        const CLIENTS: &[&str] = &["docker", "docker-compose", "nerdctl", "podman"];
        let name = self.command.as_deref().and_then(|command| command.rsplit('/').next());
        name.is_some_and(|name| CLIENTS.contains(&name))
    }

    /// What is wrong with it.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        let stdio = self.transport() == Transport::Stdio;
        match (&self.command, &self.url) {
            (None, _) if stdio => {
                found.push(("transport", "a stdio server needs a command", "add `command:`"));
            }
            (Some(_), _) if !stdio => found.push((
                "command",
                "a command is started for stdio only",
                "leave `command:` out, or write `transport: stdio`",
            )),
            (_, Some(_)) if stdio => {
                found.push(("url", "a stdio server has no address", "leave `url:` out"));
            }
            (_, None) if !stdio => match self.transport {
                Some(_) => found.push(("transport", "this server needs an address", "add `url:`")),
                None => found.push((
                    NOTHING,
                    "this server has neither a program nor an address",
                    "add `command:` for a program, or `url:`",
                )),
            },
            _ => {}
        }
        self.idle_keys(stdio, &mut found);
        if self.command.as_deref().is_some_and(|command| !one_word(command)) {
            found.push((
                "command",
                "the command is one program without spaces, quotes or shell characters",
                "no shell is used: write `command: npx` and `args: [\"-y\", \"the-server\"]`",
            ));
        }
        match self.url.as_deref() {
            Some(url) if !is_address(url) => found.push((
                "url",
                NO_ADDRESS,
                "write it out, such as https://mcp.example.com/mcp; only secrets may name variables",
            )),
            Some(url) if has_password(url) => found.push((
                "url",
                "an address holds no name and no password",
                "write the secret under `auth:` or `headers:`",
            )),
            Some(_) | None => {}
        }
        if self.effects.values().any(|effect| *effect == Effect::Staged) {
            found.push((
                "effects",
                "what a server did cannot be taken back, so none of its tools is staged",
                "write `read`, `idempotent` or `external`",
            ));
        }
        found.extend(self.sandbox.iter().flat_map(SandboxConfig::problems));
        found.extend(self.labels.values().filter_map(LabelsConfig::problem));
        self.oauth_problems(&mut found);
        for (key, limit) in
            [("connect_ms_max", self.connect_ms_max), ("call_ms_max", self.call_ms_max)]
        {
            match limit {
                Some(0) => found.push((
                    key,
                    "0 never means no limit",
                    "leave the line out for the default",
                )),
                Some(limit) if limit > MS_CEILING => {
                    found.push((key, "this is longer than an hour", "write at most 3600000"));
                }
                Some(_) | None => {}
            }
        }
        found
    }

    /// What is written down and would be used by nobody, and what could not be sent.
    fn idle_keys(&self, stdio: bool, found: &mut Vec<Problem>) {
        let mut wrong = |key, what, help| found.push((key, what, help));
        if stdio {
            let what = "a program is given its secrets by `env`";
            if !self.headers.is_empty() {
                wrong("headers", what, "leave `headers:` out");
            }
            if self.auth.is_some() {
                wrong("auth", what, "leave `auth:` out");
            }
        } else if self.url.is_some() {
            let what = "a server with an address is not started here";
            let help = "leave it out, or write `command:` in place of `url:`";
            let idle = [
                ("args", self.args.is_empty()),
                ("env", self.env.is_empty()),
                ("loader_env", !self.loader_env),
                ("cwd", self.cwd.is_none()),
                ("sandbox", self.sandbox.is_none()),
            ];
            idle.into_iter().filter(|(_, left)| !left).for_each(|(key, _)| wrong(key, what, help));
        }
        if self.auth.is_some() && self.has_token_header() {
            let help = "keep `auth:`, or the header `Authorization`";
            wrong("auth", "a server has one token, and `headers:` has another", help);
        }
        if self.env.keys().any(|name| name.is_empty() || name.contains(['=', '\0'])) {
            wrong("env", "a variable has a name without `=`", "write it like `NAME: value`");
        }
    }

    /// Whether a token is sent that is written down as a header.
    fn has_token_header(&self) -> bool {
        self.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"))
    }

    fn oauth_problems(&self, found: &mut Vec<Problem>) {
        let Some(oauth) = &self.oauth else { return };
        let mut wrong = |key, what, help| found.push((key, what, help));
        if self.transport() == Transport::Stdio {
            wrong("oauth", "a program is given its secrets by `env`", "leave `oauth:` out");
        }
        if self.auth.is_some() || self.has_token_header() {
            let help = "keep `oauth:`, or the token under `auth:` or `headers:`";
            wrong("oauth", "a server has one token, and this is a second way to get it", help);
        }
        if oauth.client_id.as_deref().is_some_and(|id| id.trim().is_empty()) {
            wrong("oauth/client_id", "an id is not empty", "leave the line out to be registered");
        }
        if oauth.client_secret.is_some() && oauth.client_id.is_none() {
            let help = "add `client_id:`, or leave `client_secret:` out";
            wrong("oauth/client_secret", "a secret belongs to a client_id", help);
        }
        if let Some(url) = &oauth.client_metadata_url {
            let rest = url.strip_prefix("https://").filter(|_| is_address(url));
            let path = rest.and_then(|rest| rest.split_once('/')).map(|(_, path)| path);
            if path.is_none_or(|path| path.is_empty() || path.contains('#')) {
                let what = "a client id metadata document has an https address with a path";
                let help = "write it like https://example.com/toolgate.json";
                wrong("oauth/client_metadata_url", what, help);
            }
            if oauth.client_id.is_some() {
                let help = "keep `client_id:` or `client_metadata_url:`";
                wrong("oauth/client_metadata_url", "it is an id, and there is another", help);
            }
        }
        if !oauth.scopes.iter().all(|scope| is_scope(scope)) {
            let help = "write one per entry: [\"mcp:read\", \"mcp:write\"]";
            wrong("oauth/scopes", "a scope is a word without spaces and quotes", help);
        }
        if oauth.callback_port == Some(0) {
            let help = "leave the line out for any free port";
            wrong("oauth/callback_port", "0 is no port", help);
        }
    }
}

fn is_scope(scope: &str) -> bool {
    let legal = |c: char| matches!(c, '!'..='~') && !matches!(c, '"' | '\\');
    !scope.is_empty() && scope.chars().all(legal)
}

fn one_word(command: &str) -> bool {
    let bad = |c: char| {
        c.is_whitespace()
            || c.is_control()
            || matches!(c, '\0' | '\u{7f}')
            || "&|;<>()$`\"'*?#!{}[]".contains(c)
    };
    !command.is_empty() && !command.contains(bad)
}

pub(super) const NO_ADDRESS: &str = "this is not an address that can be used";
pub(super) const ADDRESS_HELP: &str =
    "write it out, such as http://localhost:1234/v1; only secrets may name variables";

/// Whether an address holds a name or a password.
fn has_password(url: &str) -> bool {
    authority(url).contains('@')
}

/// Whether a text is an address: http or https, a host, and no variables in it.
pub(super) fn is_address(url: &str) -> bool {
    let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !"${}\"'<>`\\".contains(c);
    host.is_some_and(|host| !host.is_empty() && !host.starts_with(['/', ':', '?', '#']))
        && url.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loader_variables_need_a_word_of_their_own() {
        let server = |text: &str| -> ServerText { serde_json::from_str(text).unwrap() };
        for (text, forbidden) in [
            (r#"{"command":"npx","env":{"TOKEN":"a"}}"#, &[][..]),
            (r#"{"command":"npx","env":{"LD_PRELOAD":"a.so","A":"b"}}"#, &["LD_PRELOAD"]),
            (
                r#"{"command":"npx","env":{"LD_PRELOAD":"a.so"},"loader_env":false}"#,
                &["LD_PRELOAD"],
            ),
            (r#"{"command":"npx","env":{"LD_PRELOAD":"a.so"},"loader_env":true}"#, &[]),
        ] {
            let found: Vec<_> =
                server(text).forbidden_loader_variables().map(str::to_owned).collect();
            assert_eq!(found, forbidden, "{text}");
        }
    }

    #[test]
    fn a_server_is_reached_in_one_way() {
        let server = |text: &str| -> ServerText { serde_json::from_str(text).unwrap() };
        for (text, problems) in [
            (r#"{"transport":"stdio","command":"npx","args":["-y","x"]}"#, 0),
            (r#"{"command":"npx"}"#, 0),
            (r#"{"url":"http://localhost:8080/mcp"}"#, 0),
            (r#"{"transport":"sse","url":"https://x.example/mcp"}"#, 0),
            (r#"{}"#, 1),
            (r#"{"transport":"stdio"}"#, 1),
            (r#"{"transport":"stdio","command":"npx","url":"http://x"}"#, 1),
            (r#"{"transport":"http","command":"npx"}"#, 1),
            (r#"{"command":"npx evil && curl https://evil.example"}"#, 1),
            (r#"{"command":"$(id)"}"#, 1),
            (r#"{"url":"http://${HOME}/"}"#, 1),
            (r#"{"url":"file:///etc/passwd"}"#, 1),
            (r#"{"url":"http://x","call_ms_max":0}"#, 1),
            (r#"{"url":"http://x","call_ms_max":3600001}"#, 1),
            (r#"{"url":"https://ada:secret@x/mcp"}"#, 1),
            (r#"{"url":"https://x/mcp?user=a@b"}"#, 0),
            (r#"{"url":"https://x","headers":{"X-Team":"a"},"auth":"env:TOKEN"}"#, 0),
            (r#"{"url":"https://x","headers":{"authorization":"a"},"auth":"env:TOKEN"}"#, 1),
            (r#"{"url":"https://x","args":["a"],"env":{"A":"b"},"cwd":"c"}"#, 3),
            (r#"{"url":"https://x","loader_env":true}"#, 1),
            (r#"{"command":"npx","auth":"env:TOKEN","headers":{"X-Team":"a"}}"#, 2),
            (r#"{"command":"npx","env":{"A=B":"c"}}"#, 1),
            (r#"{"command":"npx","effects":{"a":"read","b":"staged"}}"#, 1),
            (r#"{"url":"https://x","oauth":{}}"#, 0),
            (r#"{"url":"https://x","oauth":{"client_id":"a","client_secret":"b"}}"#, 0),
            (
                r#"{"url":"https://x","oauth":{"client_metadata_url":"https://a/b","scopes":["c:d"]}}"#,
                0,
            ),
            (r#"{"url":"https://x","oauth":{},"auth":"env:TOKEN"}"#, 1),
            (r#"{"url":"https://x","oauth":{},"headers":{"AUTHORIZATION":"Bearer x"}}"#, 1),
            (r#"{"command":"npx","oauth":{}}"#, 1),
            (r#"{"url":"https://x","oauth":{"client_id":" "}}"#, 1),
            (r#"{"url":"https://x","oauth":{"client_secret":"b"}}"#, 1),
            (r#"{"url":"https://x","oauth":{"client_metadata_url":"http://a/b"}}"#, 1),
            (r#"{"url":"https://x","oauth":{"client_metadata_url":"https://a/"}}"#, 1),
            (
                r#"{"url":"https://x","oauth":{"client_id":"a","client_metadata_url":"https://a/b"}}"#,
                1,
            ),
            (r#"{"url":"https://x","oauth":{"scopes":["a b"]}}"#, 1),
            (r#"{"url":"https://x","oauth":{"callback_port":0}}"#, 1),
        ] {
            assert_eq!(server(text).problems().len(), problems, "{text}");
        }
    }
}
