//! How the rule of two is written down: what is sent where without a question, and what tools of
//! servers bring into a session.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NetworkConfig, NetworkWord, SandboxModeConfig, ServerText, Transport};
use crate::flow::{FlowLabels, Sends};
use crate::tool::Effect;

/// What may leave a session that has read private data and untrusted content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EgressConfig {
    /// What happens to a call that sends to a destination that is not approved.
    pub rule_of_two: RuleOfTwoMode,
    /// Destinations that are approved: hosts such as `docs.rs` or `*.rust-lang.org`, and tools that send
    /// to their own service, such as `mcp:github:create_issue` or `mcp:github:*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
}

/// How strict the rule of two is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleOfTwoMode {
    /// Asks a person where what was read may have influenced the call.
    #[default]
    Ask,
    /// Asks before every call that sends to a destination that is not approved.
    Strict,
    /// Runs the call and logs what would have been asked.
    Observe,
    /// Refuses where `ask` asks.
    Deny,
    /// Does not look at it.
    Off,
}

/// What a tool of a server brings into a session and where it sends. What is left out follows from the
/// server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LabelsConfig {
    /// Whether its answers have private data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private: Option<bool>,
    /// Whether its answers have content that people outside may have written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untrusted: Option<bool>,
    /// Whether its arguments leave: `configured` to the server's own service, or `no`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sends: Option<SendsConfig>,
    /// The argument that holds the address they leave to, as a JSON Pointer such as `/url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sends_to: Option<String>,
}

/// Whether the arguments of a tool leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SendsConfig {
    /// They stay on this computer.
    No,
    /// They go to the service of the server.
    Configured,
}

/// How the pack `files` is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FilesConfig {
    /// Whether people outside may have written what is in the files, as in a folder of downloads.
    pub untrusted: bool,
}

impl LabelsConfig {
    /// What is wrong with it: the key, what is the matter, what to write.
    pub(super) fn problem(&self) -> Option<(&'static str, &'static str, &'static str)> {
        if self.sends_to.is_some() && self.sends.is_some() {
            let what = "`sends_to` says already that its arguments leave";
            return Some(("labels", what, "keep `sends_to:`, or `sends:`"));
        }
        let is_pointer = |text: &String| text.starts_with('/') && text.len() > 1;
        (!self.sends_to.as_ref().is_none_or(is_pointer)).then_some((
            "labels",
            "`sends_to` is the JSON Pointer of an argument",
            "write it like `sends_to: /url`",
        ))
    }

    /// The labels with what is written here in their place.
    fn over(&self, labels: FlowLabels) -> FlowLabels {
        let sends = match (&self.sends_to, self.sends) {
            (Some(pointer), _) => Sends::To(pointer.clone()),
            (None, Some(SendsConfig::No)) => Sends::No,
            (None, Some(SendsConfig::Configured)) => Sends::Configured,
            (None, None) => labels.sends,
        };
        FlowLabels {
            private: self.private.unwrap_or(labels.private),
            untrusted: self.untrusted.unwrap_or(labels.untrusted),
            sends,
            finds_urls: false,
        }
    }
}

impl ServerText {
    /// What the tools of this server are taken for. `is_logged_in` says that a login is kept for it, and
    /// `told` is what the server says itself, which can only add something.
    pub fn tool_labels(&self, tool: &str, is_logged_in: bool, told: &FlowLabels) -> FlowLabels {
        let effect = self.effects.get(tool).copied().unwrap_or(Effect::External);
        let sends = if self.has_no_network() || effect == Effect::Read {
            Sends::No
        } else {
            Sends::Configured
        };
        let private = is_logged_in || self.reads_private_data();
        let own = FlowLabels { private, untrusted: true, sends, finds_urls: false };
        let labels = own.tightened_by(told);
        let all = self.labels.get("*").map_or(labels.clone(), |all| all.over(labels));
        self.labels.get(tool).map_or(all.clone(), |own| own.over(all))
    }

    /// Whether it was given something that others do not have: files of the project, a secret, a login.
    fn reads_private_data(&self) -> bool {
        let is_program = self.transport() == Transport::Stdio;
        let config = self.sandbox.clone().unwrap_or_default();
        let reads = is_program
            && (config.mode == SandboxModeConfig::Off
                || !(config.read.is_empty() && config.write.is_empty()));
        let is_secret = !self.env.is_empty() || !self.headers.is_empty();
        reads || is_secret || self.auth.is_some() || self.oauth.is_some()
    }

    fn has_no_network(&self) -> bool {
        // What is not isolated may connect wherever it likes.
        let sandbox = self.sandbox.as_ref().filter(|it| it.mode != SandboxModeConfig::Off);
        let network = sandbox.map(|sandbox| &sandbox.network);
        let is_none = matches!(network, Some(NetworkConfig::Word(NetworkWord::None)));
        self.transport() == Transport::Stdio && is_none
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(server: &str, tool: &str) -> FlowLabels {
        let server: ServerText = serde_json::from_str(server).unwrap();
        server.tool_labels(tool, false, &FlowLabels::default())
    }

    #[test]
    fn labels_follow_from_what_a_server_is_given() {
        for (server, private, sends) in [
            (r#"{"command":"uvx"}"#, true, Sends::Configured),
            (r#"{"command":"uvx","sandbox":{"read":[]}}"#, false, Sends::Configured),
            (r#"{"command":"uvx","sandbox":{"read":[],"network":"none"}}"#, false, Sends::No),
            (r#"{"command":"uvx","sandbox":{"read":[]},"env":{"T":"x"}}"#, true, Sends::Configured),
            (r#"{"url":"https://a.test"}"#, false, Sends::Configured),
            (r#"{"url":"https://a.test","auth":"env:T"}"#, true, Sends::Configured),
            (r#"{"url":"https://a.test","oauth":{}}"#, true, Sends::Configured),
            (r#"{"url":"https://a.test","effects":{"do":"read"}}"#, false, Sends::No),
        ] {
            let found = labels(server, "do");
            assert!(found.untrusted, "{server}");
            assert_eq!((found.private, found.sends), (private, sends), "{server}");
        }
    }

    #[test]
    fn a_person_says_what_a_tool_is_and_a_server_can_only_add() {
        let server = r#"{"url":"https://a.test","auth":"env:T","labels":{
            "*":{"untrusted":false},
            "fetch":{"private":false,"sends_to":"/url"},
            "time":{"sends":"no","private":false}}}"#;
        let fetch = labels(server, "fetch");
        assert_eq!((fetch.private, fetch.untrusted), (false, false));
        assert_eq!(fetch.sends, Sends::To("/url".to_owned()));
        assert!(labels(server, "time").is_default());
        assert!(labels(server, "other").private);
        let read: ServerText =
            serde_json::from_str(r#"{"url":"https://a.test","effects":{"look":"read"}}"#).unwrap();
        let told = FlowLabels { sends: Sends::Configured, private: true, ..FlowLabels::default() };
        let tightened = read.tool_labels("look", false, &told);
        assert!(tightened.private && tightened.sends == Sends::Configured);
    }
}
