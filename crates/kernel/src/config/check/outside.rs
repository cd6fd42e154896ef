//! Decides whether what is outside can be reached as written: servers, models, secrets.

use serde_json::{Map, Value};

use super::{Desk, Finding, Mistake, Step};
use crate::config::address::{AddressProblem, problems};
use crate::config::finding::quoted;
use crate::config::model::LimitKey;
use crate::config::secret::Secret;
use crate::config::server::{ADDRESS_HELP, NO_ADDRESS, NOTHING, is_address};
use crate::config::{
    CallingRefusal, Chosen, SandboxModeConfig, ServerText, Severity, Speech, ToolCallingText,
    header,
};
use crate::names::nearest;

/// Tries without tools that can be asked for.
const RETRIES_CEILING: u64 = 10;

impl Desk<'_> {
    pub(super) fn outside(&self, found: &mut Vec<Finding>) {
        self.servers(found);
        self.models(found);
        self.chosen(found);
        self.choice(found);
        self.namesakes(found);
        if !self.doubtful("models") {
            self.stand_ins(found);
        }
        if let Some(text) = &self.text().tool_calling {
            self.limits_twice(text, found);
            self.retries(text, &[Step::Key("tool_calling")], found);
        }
        self.transforms(found);
        self.idle(found);
    }

    fn servers(&self, found: &mut Vec<Finding>) {
        for (name, server) in &self.text().mcp_servers {
            let path = [Step::Key("mcp_servers"), Step::Key(name.as_str())];
            for (key, message, help) in server.problems() {
                // Of what could not be read it is not known what it has, and what it needs.
                if [NOTHING, "transport"].contains(&key) && self.doubtful("mcp_servers") {
                    continue;
                }
                let keys = key.split('/').filter(|key| !key.is_empty());
                let inside: Vec<Step<'_>> = keys.map(Step::Key).collect();
                let place = self.place(&[&path[..], &inside].concat());
                let message = format!("mcp server {name}: {message}");
                found.push(Finding::error(Mistake::Server, message).at(place).help(help));
            }
            for key in server.forbidden_loader_variables() {
                let place = self.key(&[&path[..], &[Step::Key("env"), Step::Key(key)]].concat());
                let message =
                    format!("mcp server {name}: {} makes its program load other code", quoted(key));
                let help = "leave it out, or write `loader_env: true` beside `env:`";
                found.push(Finding::error(Mistake::Server, message).at(place).help(help));
            }
            self.sandbox(name.as_str(), server, found);
            for (key, secret) in &server.env {
                let inside = [Step::Key("env"), Step::Key(key.as_str())];
                self.secret(secret, &[&path[..], &inside].concat(), found);
            }
            self.headers(
                server.headers.iter(),
                &path,
                (Mistake::Server, header::is_own_of_server),
                found,
            );
            if let Some(secret) = &server.auth {
                self.secret(secret, &[&path[..], &[Step::Key("auth")]].concat(), found);
            }
            if let Some(secret) = server.oauth.as_ref().and_then(|o| o.client_secret.as_ref()) {
                let inside = [Step::Key("oauth"), Step::Key("client_secret")];
                self.secret(secret, &[&path[..], &inside].concat(), found);
            }
        }
        for (name, phase) in &self.text().phases {
            let grant = phase.tools.as_ref().map(|tools| tools.full()).unwrap_or_default();
            for entry in &grant.mcp {
                let server = entry.split('/').next().unwrap_or_default();
                if self.text().mcp_servers.contains_key(server) || self.doubtful("mcp_servers") {
                    continue;
                }
                let phase = Step::Key(name.as_str());
                let path = [Step::Key("phases"), phase, Step::Key("tools"), Step::Key("mcp")];
                let span = self.named(&path, |text| text == entry).first().copied();
                let message = format!("there is no MCP server {}", quoted(server));
                let finding = Finding::error(Mistake::UnknownName, message).at(span);
                let known = self.text().mcp_servers.keys().map(|name| name.as_str());
                found.push(match nearest(server, known) {
                    Some(near) => finding.near(Some(near)),
                    None => finding.help(format!("declare `{server}` under `mcp_servers:`")),
                });
            }
        }
    }

    /// What the isolation of a program cannot do as it is written, and what follows from it.
    fn sandbox(&self, name: &str, server: &ServerText, found: &mut Vec<Finding>) {
        let path = [Step::Key("mcp_servers"), Step::Key(name), Step::Key("sandbox")];
        let inside = |key| [&path[..], &[Step::Key(key)]].concat();
        let mut tell = |severity, message: String, place, help: &str| {
            let message = format!("mcp server {name}: {message}");
            found.push(Finding::new(severity, Mistake::Server, message).at(place).help(help));
        };
        for variable in server.forbidden_passed_variables() {
            let message = format!("{} makes its program load other code", quoted(variable));
            let help = "leave it out, or write `loader_env: true` beside `env:`";
            tell(Severity::Error, message, self.place(&inside("pass_env")), help);
        }
        let config = server.sandbox.clone().unwrap_or_default();
        if config.mode == SandboxModeConfig::Off {
            let message = "its program is NOT isolated: it can read your keys and this log";
            let help = "leave `mode: off` out, and grant what it needs with `read:` and `write:`";
            tell(Severity::Warning, message.to_owned(), self.place(&inside("mode")), help);
        } else if server.needs_unix_socket() && !config.unix_sockets {
            let message = "its program speaks to a service over a Unix socket, which is refused";
            let help = "write `sandbox: {unix_sockets: true, write: [/var/run/docker.sock]}`; the \
                        service then acts for it outside the sandbox";
            tell(Severity::Warning, message.to_owned(), self.place(&path[..2]), help);
        }
        for _ in config.writes_project() {
            let message = "it may change what is in the project now; new names at its top are \
                           refused, because toolgate's own files lie there";
            let help = "name folders in which it makes files: write: [docs, src]";
            tell(Severity::Note, message.to_owned(), self.place(&inside("write")), help);
        }
    }

    /// Headers that cannot be sent, or are not anybody's to send.
    pub(super) fn headers<'t>(
        &self,
        given: impl Iterator<Item = (&'t String, &'t Secret)>,
        path: &[Step<'_>],
        (mistake, own): (Mistake, fn(&str) -> bool),
        found: &mut Vec<Finding>,
    ) {
        let mut seen: Vec<String> = Vec::new();
        for (name, secret) in given {
            let inside = [path, &[Step::Key("headers"), Step::Key(name.as_str())]].concat();
            let small = name.to_ascii_lowercase();
            let told = if !header::is_name(name) {
                let message = format!("{} is no name of a header", quoted(name));
                Some((message, self.key(&inside), "write letters, digits and dashes: x-team"))
            } else if own(name) {
                let message = format!("the header {} is not yours to set", quoted(name));
                Some((message, self.key(&inside), "leave it out"))
            } else if seen.contains(&small) {
                let message = format!("the header {} stands here twice", quoted(name));
                Some((message, self.key(&inside), "case is of no account; keep one"))
            } else if !header::is_value(secret) {
                let message = format!(
                    "the value of {} has characters that cannot be sent in a header",
                    quoted(name)
                );
                Some((message, self.place(&inside), "write one line of plain characters"))
            } else {
                None
            };
            if let Some((message, place, help)) = told {
                found.push(Finding::error(mistake, message).at(place).help(help));
            }
            seen.push(small);
            self.secret(secret, &inside, found);
        }
    }

    /// Anthropic counts thoughts toward a reply, and refuses a request without room for both.
    pub(super) fn thoughts(&self, name: &str, found: &mut Vec<Finding>) {
        let Ok(Chosen::Model(model)) = self.text().chosen_by_name(name) else { return };
        if model.provider.known().speech != Speech::Anthropic {
            return;
        }
        let (options, overrides) = (&model.text.options, &model.calling.request_overrides);
        let said = |key: &str| {
            let in_map = |map: &Map<String, Value>| map.get("thinking")?.get(key).cloned();
            in_map(overrides).or_else(|| in_map(options))
        };
        let number = |map: &Map<String, Value>, key: &str| map.get(key).and_then(Value::as_u64);
        let room = number(overrides, "max_tokens").or(model.text.output_tokens_max());
        let budget = said("budget_tokens").and_then(|budget| budget.as_u64());
        let (Some(room), Some(budget)) = (room, budget) else { return };
        // With thoughts between calls, which a header asks for, they have room of their own.
        let beta = |(name, _): (&String, &Secret)| name.eq_ignore_ascii_case("anthropic-beta");
        let thinks = said("type").is_none_or(|kind| kind != "disabled");
        if budget < room || !thinks || model.text.headers.iter().any(beta) {
            return;
        }
        let own = |place: &[&'static str]| -> Vec<Step<'_>> {
            let path = [&["models", name][..], place, &["thinking", "budget_tokens"]].concat();
            path.into_iter().map(Step::Key).collect()
        };
        let written = ["tool_calling", "request_overrides", "thinking", "budget_tokens"];
        let paths = [
            own(&["tool_calling", "request_overrides"]),
            written.map(Step::Key).to_vec(),
            own(&["options"]),
        ];
        let path = paths.iter().find(|path| self.key(path).is_some());
        let span = path.and_then(|path| self.place(path));
        let message = format!(
            "budget_tokens is {budget}, and a reply has room for {room}: thoughts count toward it"
        );
        let finding = Finding::error(Mistake::OutOfRange, message).at(span);
        found.push(
            finding.help("make `max_output_tokens` larger than both the thoughts and the answer"),
        );
    }

    pub(super) fn address(
        &self,
        url: Option<&str>,
        plain_allowed: bool,
        path: &[Step<'_>],
        found: &mut Vec<Finding>,
    ) {
        let Some(url) = url.map(str::trim) else { return };
        if !is_address(url) {
            let finding = Finding::error(Mistake::Model, NO_ADDRESS);
            found.push(finding.at(self.place(path)).help(ADDRESS_HELP));
            return;
        }
        for AddressProblem { severity, message, help } in problems(url, plain_allowed) {
            let finding = Finding::new(severity, Mistake::Model, message);
            found.push(finding.at(self.place(path)).help(help));
        }
    }

    /// A request that was turned down is not tried for ever.
    pub(super) fn retries(
        &self,
        calling: &ToolCallingText,
        path: &[Step<'_>],
        found: &mut Vec<Finding>,
    ) {
        let key = "fallback_retry_count";
        if let Some(count) = calling.fallback_retry_count.filter(|count| *count > RETRIES_CEILING) {
            let path = [path, &[Step::Key(key)]].concat();
            found.push(self.too_high(key, count, RETRIES_CEILING, &path));
        }
    }

    pub(super) fn too_high(
        &self,
        key: &str,
        given: u64,
        ceiling: u64,
        path: &[Step<'_>],
    ) -> Finding {
        let message = format!("{key} is {given}: at most {ceiling} is possible");
        Finding::error(Mistake::OutOfRange, message).at(self.place(path))
    }

    pub(super) fn zero(&self, key: &str, path: &[Step<'_>]) -> Finding {
        let message = format!("{key} is 0: 0 never means no limit");
        let finding = Finding::error(Mistake::OutOfRange, message).at(self.place(path));
        finding.help("leave the line out for the default")
    }

    /// A limit that stands in two places with two values; also one that is the default in `limits`.
    fn limits_twice(&self, text: &ToolCallingText, found: &mut Vec<Finding>) {
        let mut limits = self.text().limits.clone();
        for LimitKey { key, name, given, of } in text.limits() {
            let other = *of(&mut limits);
            let Some(given) = given.filter(|given| *given != other) else { continue };
            let written = |name| self.key(&[Step::Key("limits"), Step::Key(name)]).is_some();
            if written(name) || written(key) {
                found.push(self.calling(&CallingRefusal::TwoLimits { key, given, other }));
            }
        }
    }

    pub(super) fn secret(&self, secret: &Secret, path: &[Step<'_>], found: &mut Vec<Finding>) {
        if let Err(refusal) = secret.parts() {
            let finding = Finding::error(Mistake::Secret, refusal.to_string());
            found.push(finding.at(self.place(path)));
        }
    }
}
