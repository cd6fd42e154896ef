//! Decides whether what is outside can be reached as written: servers, models, secrets.

use serde_json::{Map, Value};

use super::{Desk, Finding, Mistake, Step};
use crate::config::address::{AddressProblem, problems};
use crate::config::finding::quoted;
use crate::config::header::OWN_SERVER_HEADERS;
use crate::config::model::LimitKey;
use crate::config::secret::Secret;
use crate::config::server::{ADDRESS_HELP, NO_ADDRESS, NOTHING, is_address};
use crate::config::{
    CallingRefusal, ChoiceRefusal, Chosen, OWN_HEADERS, Speech, ToolCallingText, ToolUseMode,
};
use crate::names::nearest;

/// Milliseconds of one request that can be given to a model.
const REPLY_MS_CEILING: u64 = 3_600_000;
/// Tokens of one reply that can be asked for.
const TOKENS_CEILING: u64 = 10_000_000;
/// Tries without tools that can be asked for.
const RETRIES_CEILING: u64 = 10;

/// What to do about a model that is not marked reliable.
const MEASURE: &str = "measure it with `toolgate doctor --probe 10`, then write \
    `tool_calling_reliable: true` for it under `models`; or write `allow_unreliable: true`";

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
            for (key, secret) in &server.env {
                let inside = [Step::Key("env"), Step::Key(key.as_str())];
                self.secret(secret, &[&path[..], &inside].concat(), found);
            }
            self.headers(
                server.headers.iter(),
                &path,
                (Mistake::Server, OWN_SERVER_HEADERS),
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

    fn models(&self, found: &mut Vec<Finding>) {
        let settings = &self.text().settings;
        let path = |key| [Step::Key("settings"), Step::Key(key)];
        if let Some(secret) = &settings.api_key {
            self.secret(secret, &path("api_key"), found);
        }
        self.address(settings.base_url.as_deref(), false, &path("base_url"), found);
        for (name, model) in &self.text().models {
            let path = [Step::Key("models"), Step::Key(name.as_str())];
            let under = |key| [&path[..], &[Step::Key(key)]].concat();
            let plain = model.allow_plain_http == Some(true);
            self.address(model.base_url.as_deref(), plain, &under("base_url"), found);
            if let Some(secret) = &model.api_key {
                self.secret(secret, &under("api_key"), found);
            }
            self.headers(model.headers.iter(), &path, (Mistake::Model, OWN_HEADERS), found);
            self.model_name(name, found);
            self.prefix(name, model, found);
            self.bounds(name, model, found);
            for (key, limit, ceiling) in [
                ("connect_ms_max", model.connect_ms_max, REPLY_MS_CEILING),
                ("first_byte_ms_max", model.first_byte_ms_max, REPLY_MS_CEILING),
                ("idle_ms_max", model.idle_ms_max, REPLY_MS_CEILING),
                ("reply_ms_max", model.reply_ms_max, REPLY_MS_CEILING),
                ("max_output_tokens", model.max_output_tokens, TOKENS_CEILING),
            ] {
                match limit {
                    Some(0) => found.push(self.zero(key, &under(key))),
                    Some(limit) if limit > ceiling => {
                        found.push(self.too_high(key, limit, ceiling, &under(key)));
                    }
                    Some(_) | None => {}
                }
            }
            if let Some(calling) = &model.tool_calling {
                self.retries(calling, &under("tool_calling"), found);
            }
            self.thoughts(name, found);
        }
    }

    /// Anthropic counts thoughts toward a reply, and refuses a request without room for both.
    fn thoughts(&self, name: &str, found: &mut Vec<Finding>) {
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

    fn address(
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

    /// Models that must use tools by their own word and are not marked, whether or not a run uses
    /// them now. `but` is looked at with everything that holds for it.
    fn enforced_elsewhere(&self, but: Option<&str>, found: &mut Vec<Finding>) {
        let everywhere = self.text().tool_calling.as_ref().and_then(|all| all.allow_unreliable);
        for (name, model) in &self.text().models {
            let Some(own) = &model.tool_calling else { continue };
            let allowed = own.allow_unreliable.or(everywhere) == Some(true);
            let marked = model.tool_calling_reliable == Some(true);
            let enforced = own.tool_use_mode == Some(ToolUseMode::Enforced);
            if enforced && !marked && !allowed && but != Some(name.as_str()) {
                let message =
                    format!("tools must be used, and the model {name} is not marked reliable");
                let path = ["models", name, "tool_calling", "tool_use_mode"].map(Step::Key);
                let span = self.place(&path);
                found.push(Finding::error(Mistake::Model, message).at(span).help(MEASURE));
            }
        }
    }

    /// Whether the model of a run can be told, and does what is asked of it.
    fn chosen(&self, found: &mut Vec<Finding>) {
        if self.doubtful("models") || self.doubtful("settings") {
            return;
        }
        let place = |keys: &[&str]| {
            let path: Vec<Step<'_>> = keys.iter().copied().map(Step::Key).collect();
            self.place(&path)
        };
        let chosen = self.text().chosen().unwrap_or_else(|refusal| {
            let key =
                if let ChoiceRefusal::Declared { key, .. } = &refusal { key } else { "model" };
            // One that comes from elsewhere is told when it is used.
            if self.key(&[Step::Key("settings"), Step::Key(key)]).is_some() {
                let finding = Finding::error(Mistake::Model, refusal.to_string());
                found.push(finding.at(place(&["settings", key])));
            }
            Chosen::None
        });
        let taken = if let Chosen::Model(model) = &chosen { Some(&*model.name) } else { None };
        self.enforced_elsewhere(taken, found);
        let (calling, reliable, name) = match &chosen {
            Chosen::Model(model) => {
                (&model.calling, model.text.tool_calling_reliable == Some(true), &*model.name)
            }
            Chosen::None | Chosen::Script(_) => match &self.text().tool_calling {
                Some(calling) => (calling, matches!(chosen, Chosen::Script(_)), "of the run"),
                None => return,
            },
        };
        let enforced = calling.tool_use_mode == Some(ToolUseMode::Enforced);
        if enforced && !reliable && calling.allow_unreliable != Some(true) {
            let message =
                format!("tools must be used, and the model {name} is not marked reliable");
            let own = place(&["models", name, "tool_calling", "tool_use_mode"]);
            let span = own.or_else(|| place(&["tool_calling", "tool_use_mode"]));
            found.push(Finding::error(Mistake::Model, message).at(span).help(MEASURE));
        }
        if let Chosen::Model(model) = &chosen {
            // Those that cannot stand in are told elsewhere.
            let chain = self.text().fallbacks(model).unwrap_or_default();
            let weak = chain.iter().find(|m| m.text.tool_calling_reliable != Some(true));
            if let Some(weak) = weak.filter(|_| enforced && calling.allow_unreliable != Some(true))
            {
                let name = &weak.name;
                let message = format!(
                    "tools must be used, and the model {name} that stands in is not marked reliable"
                );
                let span = place(&["models", name, "model"]);
                found.push(Finding::error(Mistake::Model, message).at(span).help(MEASURE));
            }
        }
    }

    /// A request that was turned down is not tried for ever.
    fn retries(&self, calling: &ToolCallingText, path: &[Step<'_>], found: &mut Vec<Finding>) {
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
