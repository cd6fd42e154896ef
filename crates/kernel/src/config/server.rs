//! Decides how an MCP server is written down.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// The folder it is started in; the project when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Its address, for every other transport.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers that are sent with every request.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub headers: IndexMap<String, Secret>,
    /// A token that is sent as `Authorization: Bearer`.
    #[serde(skip_serializing)]
    pub auth: Option<Secret>,
    /// Milliseconds to wait for a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_ms_max: Option<u64>,
    /// Milliseconds one call may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_ms_max: Option<u64>,
    /// What its tools do, by name; `external` for those that are not named.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub effects: BTreeMap<String, Effect>,
    /// Whether its tools are shown by their own names, where nobody else has them, and not as
    /// `mcp__server__tool`.
    pub short_names: bool,
    /// Whether a phase that uses it must not begin without it.
    pub required: bool,
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

impl ServerText {
    /// How it is reached, said or not.
    pub fn transport(&self) -> Transport {
        match (self.transport, &self.command) {
            (Some(transport), _) => transport,
            (None, Some(_)) => Transport::Stdio,
            (None, None) => Transport::Auto,
        }
    }

    /// What is wrong with it: the key it concerns, what is the matter, what to write.
    pub(super) fn problems(&self) -> Vec<(&'static str, &'static str, &'static str)> {
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
            (_, None) if !stdio => {
                found.push(("transport", "this server needs an address", "add `url:`"));
            }
            _ => {}
        }
        if self.command.as_deref().is_some_and(|command| !one_word(command)) {
            found.push((
                "command",
                "the command is one program without spaces, quotes or shell characters",
                "no shell is used: write `command: npx` and `args: [\"-y\", \"the-server\"]`",
            ));
        }
        if self.url.as_deref().is_some_and(|url| !is_address(url)) {
            found.push(("url", NO_ADDRESS, ADDRESS_HELP));
        }
        for (key, limit) in
            [("connect_ms_max", self.connect_ms_max), ("call_ms_max", self.call_ms_max)]
        {
            if limit == Some(0) {
                found.push((key, "0 never means no limit", "leave the line out for the default"));
            }
        }
        found
    }
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
        ] {
            assert_eq!(server(text).problems().len(), problems, "{text}");
        }
    }
}
