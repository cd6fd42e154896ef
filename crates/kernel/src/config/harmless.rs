//! Lists what a configuration does that needs a person's trust.
//!
//! A configuration that comes with a cloned folder must start no program, follow no reference to a
//! secret and connect nowhere before a person trusts it. One without such reasons is harmless.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::address::HttpOrigin;
use super::provider::PROVIDERS;
use super::shown::{masked_address, masked_args, shown};
use super::{
    AgentText, Chosen, EgressConfig, ModelText, RuleOfTwoMode, Secret, SecretPart, ServerText,
    ToolCallingText, Transport,
};

/// A reason why a configuration needs a person's trust.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TrustReason {
    /// The key that is the reason, such as `mcp_servers.github.command`.
    pub key: String,
    /// What it does, in a sentence for a person.
    pub reason: String,
}

impl AgentText {
    /// Everything that needs a person's trust; empty for a harmless configuration.
    pub fn trust_reasons(&self) -> Vec<TrustReason> {
        let mut found = ReasonList::default();
        for (name, server) in &self.mcp_servers {
            found.server(name.as_str(), server);
        }
        for (name, model) in &self.models {
            found.declared_model(name, model);
        }
        found.undeclared_models(self);
        if let Some(url) = self.web.as_ref().and_then(|web| web.searxng_url.as_deref()) {
            found.address("web.searxng_url", url, "searches the web at");
        }
        if let Some(calling) = &self.tool_calling {
            found.calling("tool_calling", calling);
        }
        if let Some(directives) = &self.directives {
            found.options("directives.request_overrides", &directives.request_overrides);
        }
        found.egress(&self.egress);
        found.0
    }
}

/// Who a secret is sent to.
#[derive(Clone, Copy)]
enum Recipient<'a> {
    /// A model at an address; absent when the file leaves open which one.
    Model(Option<&'a str>),
    /// An MCP server at an address.
    Server(&'a str),
}

/// Arguments of a program that are shown.
const SHOWN_ARGS_MAX: usize = 12;

/// The reasons so far.
#[derive(Default)]
struct ReasonList(Vec<TrustReason>);

impl ReasonList {
    fn push(&mut self, key: &str, reason: String) {
        let reason = TrustReason { key: key.to_owned(), reason };
        if !self.0.contains(&reason) {
            self.0.push(reason);
        }
    }

    /// An address that is not on this computer.
    fn address(&mut self, key: &str, url: &str, does: &str) {
        if !HttpOrigin::parse(url).is_some_and(|origin| origin.is_loopback()) {
            self.push(key, format!("{does} {}", masked_shown(url)));
        }
    }

    /// An address of a model that is neither on this computer nor a known provider's own.
    fn model_address(&mut self, key: &str, url: &str, does: &str) {
        if !PROVIDERS.iter().any(|known| is_same_origin(url, known.base_url)) {
            self.address(key, url, does);
        }
    }

    fn server(&mut self, name: &str, server: &ServerText) {
        let key = |field: &str| format!("mcp_servers.{name}.{field}");
        if server.command.is_some() || server.transport() == Transport::Stdio {
            let program = server.command.as_deref().unwrap_or_default();
            let mut reason = format!("server {name} starts the program {}", shown(program));
            for arg in masked_args(&server.args).iter().take(SHOWN_ARGS_MAX) {
                reason.push(' ');
                reason.push_str(&shown(arg));
            }
            if let Some(more @ 1..) = server.args.len().checked_sub(SHOWN_ARGS_MAX) {
                reason.push_str(&format!(" … ({more} more)"));
            }
            let given: Vec<String> = server.env.iter().map(given_variable).collect();
            if !given.is_empty() {
                reason.push_str("; given ");
                reason.push_str(&given.join(", "));
            }
            self.push(&key("command"), reason);
        }
        let Some(url) = server.url.as_deref() else { return };
        self.address(&key("url"), url, &format!("server {name} is reached at"));
        if let Some(token) = &server.auth {
            self.secret(&key("auth"), token, Recipient::Server(url));
        }
        for (header, value) in &server.headers {
            self.secret(&key(&format!("headers.{header}")), value, Recipient::Server(url));
        }
        let Some(oauth) = &server.oauth else { return };
        if let Some(secret) = &oauth.client_secret {
            self.secret(&key("oauth.client_secret"), secret, Recipient::Server(url));
        }
        if let Some(document) = &oauth.client_metadata_url {
            let does = format!("server {name} is told the address");
            self.address(&key("oauth.client_metadata_url"), document, &does);
        }
    }

    fn declared_model(&mut self, name: &str, model: &ModelText) {
        let key = |field: &str| format!("models.{name}.{field}");
        let own = model.provider_or_default().known().base_url;
        let url = model.base_url.as_deref().unwrap_or(own);
        self.model_address(&key("base_url"), url, &format!("model {name} is reached at"));
        if let Some(secret) = &model.api_key {
            self.secret(&key("api_key"), secret, Recipient::Model(Some(url)));
        }
        for (header, value) in &model.headers {
            self.secret(&key(&format!("headers.{header}")), value, Recipient::Model(Some(url)));
        }
        self.options(&key("options"), &model.options);
        if let Some(calling) = &model.tool_calling {
            self.calling(&key("tool_calling"), calling);
        }
    }

    /// Models that are named as `provider:model`, wherever they are named: address and key of the
    /// settings hold for all of them.
    fn undeclared_models(&mut self, text: &AgentText) {
        let settings = &text.settings;
        if let Some(url) = settings.base_url.as_deref() {
            self.model_address("settings.base_url", url, "the model is reached at");
        }
        let Some(secret) = &settings.api_key else { return };
        let reviewer = text.self_authoring.iter().filter_map(|own| own.reviewer.as_deref());
        let names = settings.model.as_deref().into_iter();
        let names = names
            .chain(text.models.values().filter_map(|model| model.fallback.as_deref()))
            .chain(text.agents.values().filter_map(|agent| agent.model.as_deref()))
            .chain(reviewer)
            .map(str::trim)
            .filter(|name| !text.models.contains_key(*name));
        let mut asked = BTreeSet::new();
        for name in names {
            asked.insert(match text.chosen_by_name(name) {
                Ok(Chosen::Model(model)) => {
                    let own = model.provider.known().base_url;
                    Some(model.text.base_url.unwrap_or_else(|| own.to_owned()))
                }
                Ok(Chosen::Script(_)) => continue,
                Ok(Chosen::None) | Err(_) => None,
            });
        }
        // A flag or a variable can name the model that the file leaves open.
        if settings.model.is_none() {
            asked.insert(settings.base_url.clone());
        }
        for url in asked {
            self.secret("settings.api_key", secret, Recipient::Model(url.as_deref()));
        }
    }

    /// A secret that is sent to somebody. A literal says nothing that the file did not say; a
    /// provider's own variable may go to that provider and nowhere else.
    fn secret(&mut self, key: &str, secret: &Secret, recipient: Recipient<'_>) {
        let (to, own) = match recipient {
            Recipient::Model(Some(url)) => (masked_shown(url), Some(url)),
            Recipient::Model(None) => ("a model that the file does not name".to_owned(), None),
            Recipient::Server(url) => (masked_shown(url), None),
        };
        let Ok(parts) = secret.parts() else {
            return self.push(key, format!("sends a secret that cannot be read to {to}"));
        };
        for part in parts {
            match part {
                SecretPart::Word(_) => {}
                SecretPart::Variable(name) if own.is_some_and(|url| is_own_key(url, name)) => {}
                SecretPart::Variable(name) => {
                    self.push(key, format!("sends the variable {name} to {to}"));
                }
                SecretPart::File(path) => {
                    self.push(key, format!("reads the file {} and sends it to {to}", shown(path)));
                }
            }
        }
    }

    /// What leaves without a question. The pack `web` needs no trust only because the rule of two asks.
    fn egress(&mut self, egress: &EgressConfig) {
        match egress.rule_of_two {
            RuleOfTwoMode::Ask | RuleOfTwoMode::Strict | RuleOfTwoMode::Deny => {}
            RuleOfTwoMode::Observe | RuleOfTwoMode::Off => {
                let reason = "asks before nothing that a session sends, whatever it has read";
                self.push("egress.rule_of_two", reason.to_owned());
            }
        }
        for destination in &egress.allow {
            let reason = format!("sends to {} without a question", shown(destination));
            self.push("egress.allow", reason);
        }
    }

    fn calling(&mut self, key: &str, calling: &ToolCallingText) {
        self.options(&format!("{key}.request_overrides"), &calling.request_overrides);
    }

    /// Options are sent to the provider as they are, and some of them let it connect elsewhere.
    fn options(&mut self, key: &str, options: &Map<String, Value>) {
        for (name, value) in options {
            self.option(&format!("{key}.{name}"), value);
        }
    }

    fn option(&mut self, key: &str, value: &Value) {
        match value {
            Value::String(text) if text.contains("://") => {
                self.push(key, format!("the provider is told the address {}", masked_shown(text)));
            }
            Value::Array(items) => items.iter().for_each(|item| self.option(key, item)),
            Value::Object(map) => self.options(key, map),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// Whether two addresses surely name the same server.
fn is_same_origin(url: &str, own: &str) -> bool {
    HttpOrigin::parse(url).is_some_and(|origin| HttpOrigin::parse(own) == Some(origin))
}

/// Whether a variable is the one of the provider that an address belongs to.
fn is_own_key(url: &str, variable: &str) -> bool {
    let known = PROVIDERS.iter().filter(|known| known.key_variable == Some(variable));
    known.into_iter().any(|known| is_same_origin(url, known.base_url))
}

/// How a program is given a variable.
pub(super) fn given_variable((name, value): (&String, &Secret)) -> String {
    let own = format!("the variable {}", shown(name));
    let mut sources = sent_parts(value);
    sources.retain(|source| *source != own);
    let name = shown(name);
    if sources.is_empty() { name } else { format!("{name} from {}", sources.join(" and ")) }
}

/// The variables and files that a secret is made of.
pub(super) fn sent_parts(secret: &Secret) -> Vec<String> {
    let parts = secret.parts().unwrap_or_default().into_iter();
    let sources = parts.filter_map(|part| match part {
        SecretPart::Word(_) => None,
        SecretPart::Variable(source) => Some(format!("the variable {}", shown(source))),
        SecretPart::File(path) => Some(format!("the file {}", shown(path))),
    });
    sources.collect()
}

/// An address to show, without a password and without its query.
fn masked_shown(url: &str) -> String {
    shown(&masked_address(url))
}
