//! Decides whether what is outside can be reached as written: servers, models, secrets.

use super::{Desk, Finding, Mistake, Severity, Step};
use crate::config::finding::quoted;
use crate::config::secret::Secret;
use crate::config::server::{ADDRESS_HELP, NO_ADDRESS, is_address};
use crate::config::{CallingRefusal, ToolCallingText, Transform, TransformKind, TransformRefusal};
use crate::names::nearest;

impl Desk<'_> {
    pub(super) fn outside(&self, found: &mut Vec<Finding>) {
        self.servers(found);
        self.models(found);
        if let Some(text) = &self.text().tool_calling {
            self.tool_calling(text, found);
        }
        self.inactive(found);
    }

    fn servers(&self, found: &mut Vec<Finding>) {
        for (name, server) in &self.text().mcp_servers {
            let path = [Step::Key("mcp_servers"), Step::Key(name.as_str())];
            for (key, message, help) in server.problems() {
                let place = self.place(&[&path[..], &[Step::Key(key)]].concat());
                let message = format!("mcp server {name}: {message}");
                found.push(Finding::error(Mistake::Server, message).at(place).help(help));
            }
            for (group, secrets) in [("env", &server.env), ("headers", &server.headers)] {
                for (key, secret) in secrets {
                    let inside = [Step::Key(group), Step::Key(key.as_str())];
                    self.secret(secret, &[&path[..], &inside].concat(), found);
                }
            }
            if let Some(secret) = &server.auth {
                self.secret(secret, &[&path[..], &[Step::Key("auth")]].concat(), found);
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
        let address = |url: &Option<String>, path: &[Step<'_>], found: &mut Vec<Finding>| {
            if url.as_deref().is_some_and(|url| !is_address(url)) {
                let finding = Finding::error(Mistake::Model, NO_ADDRESS);
                found.push(finding.at(self.place(path)).help(ADDRESS_HELP));
            }
        };
        address(&settings.base_url, &path("base_url"), found);
        for (name, model) in &self.text().models {
            let path = [Step::Key("models"), Step::Key(name.as_str())];
            let under = |key| [&path[..], &[Step::Key(key)]].concat();
            address(&model.base_url, &under("base_url"), found);
            if let Some(secret) = &model.api_key {
                self.secret(secret, &under("api_key"), found);
            }
            for (key, secret) in &model.headers {
                let inside = [Step::Key("headers"), Step::Key(key.as_str())];
                self.secret(secret, &[&path[..], &inside].concat(), found);
            }
            if model.model.trim().is_empty() && !self.doubtful("models") {
                let message = format!("the model {} has no name", quoted(name));
                let finding = Finding::error(Mistake::Model, message).at(self.key(&path));
                found.push(finding.help("add `model:` with the name that its server knows"));
            }
            let limits =
                [("connect_ms_max", model.connect_ms_max), ("reply_ms_max", model.reply_ms_max)];
            for (key, _) in limits.iter().filter(|(_, limit)| *limit == Some(0)) {
                found.push(self.zero(key, &under(key)));
            }
        }
    }

    fn zero(&self, key: &str, path: &[Step<'_>]) -> Finding {
        let message = format!("{key} is 0: 0 never means no limit");
        let finding = Finding::error(Mistake::OutOfRange, message).at(self.place(path));
        finding.help("leave the line out for the default")
    }

    fn tool_calling(&self, text: &ToolCallingText, found: &mut Vec<Finding>) {
        self.limits_twice(text, found);
        for (kind, names) in text.transforms() {
            for name in names.iter().flat_map(|names| names.names()) {
                if let Err(refusal) = Transform::parse(kind, name) {
                    self.unlisted(kind, name, &refusal, found);
                }
            }
        }
    }

    /// A limit that stands in two places with two values; also one that is the default in `limits`.
    fn limits_twice(&self, text: &ToolCallingText, found: &mut Vec<Finding>) {
        let limits = &self.text().limits;
        for (key, name, given, other) in [
            (
                "max_tool_args_bytes",
                "args_bytes_max",
                text.max_tool_args_bytes,
                limits.args_bytes_max,
            ),
            (
                "max_tool_output_bytes",
                "result_bytes_max",
                text.max_tool_output_bytes,
                limits.result_bytes_max,
            ),
        ] {
            let Some(given) = given.filter(|given| *given != other) else { continue };
            let written = |name| self.key(&[Step::Key("limits"), Step::Key(name)]).is_some();
            if written(name) || written(key) {
                found.push(self.calling(&CallingRefusal::TwoLimits { key, given, other }));
            }
        }
    }

    fn unlisted(
        &self,
        kind: TransformKind,
        name: &str,
        refusal: &TransformRefusal,
        found: &mut Vec<Finding>,
    ) {
        let path = [Step::Key("tool_calling"), Step::Key(kind.key())];
        let span = self.named(&path, |text| text == name).first().copied();
        let message = match refusal {
            TransformRefusal::Unknown { .. } => {
                format!("{}: there is no transform {}", kind.key(), quoted(name))
            }
            TransformRefusal::Misplaced { .. } => refusal.to_string(),
        };
        let finding = Finding::error(Mistake::UnknownName, message).at(span.or(self.place(&path)));
        found.push(finding.help(refusal.help()));
    }

    fn secret(&self, secret: &Secret, path: &[Step<'_>], found: &mut Vec<Finding>) {
        if let Err(refusal) = secret.parts() {
            let finding = Finding::error(Mistake::Secret, refusal.to_string());
            found.push(finding.at(self.place(path)));
        }
    }

    fn inactive(&self, found: &mut Vec<Finding>) {
        let text = self.text();
        for keys in text.inactive() {
            let message = format!("`{}` is read and checked, and not active yet", keys.join("."));
            let finding = Finding::new(Severity::Note, Mistake::Inactive, message);
            let path: Vec<Step<'_>> = keys.into_iter().map(Step::Key).collect();
            found.push(finding.at(self.key(&path)));
        }
        let model = text.settings.model.as_deref();
        if model.is_some_and(|model| !model.starts_with("script:")) {
            let message = "this model cannot be reached yet: only `script:FILE` is played";
            let finding = Finding::new(Severity::Note, Mistake::Inactive, message);
            found.push(finding.at(self.place(&[Step::Key("settings"), Step::Key("model")])));
        }
    }
}
