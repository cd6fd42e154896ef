//! Decides whether models are written down so that each is one, can be asked, and can stand in.

use serde_json::Value;

use super::{Desk, Finding, Mistake, Severity, Step};
use crate::config::address::leads_on;
use crate::config::finding::quoted;
use crate::config::{
    ChoiceRefusal, Chosen, ModelText, OUTPUT_KEYS, ProviderName, Speech, ToolUseMode, header,
};
use crate::names::nearest;

/// Milliseconds of one request that can be given to a model.
const REPLY_MS_CEILING: u64 = 3_600_000;
/// Tokens of one reply that can be asked for.
const TOKENS_CEILING: u64 = 10_000_000;

/// What to do about a model that is not marked reliable.
const MEASURE: &str = "measure it with `toolgate doctor --probe 10`, then write \
    `tool_calling_reliable: true` for it under `models`; or write `allow_unreliable: true`";

impl Desk<'_> {
    pub(super) fn models(&self, found: &mut Vec<Finding>) {
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
            self.headers(model.headers.iter(), &path, (Mistake::Model, header::is_own), found);
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

    /// The name of a model says which one is meant.
    fn model_name(&self, name: &str, found: &mut Vec<Finding>) {
        let place = self.key(&[Step::Key("models"), Step::Key(name)]);
        let mut tell = |severity, message: String, help: &str| {
            found.push(Finding::new(severity, Mistake::BadName, message).at(place).help(help));
        };
        if name.trim().is_empty() || name.trim() != name {
            let message = format!("{} is no name for a model", quoted(name));
            tell(Severity::Error, message, "write a word, such as `writer`");
        } else if name.starts_with("script:") {
            let message = format!("{} names a file that plays a model", quoted(name));
            tell(Severity::Error, message, "write another name; --model would never find this one");
        } else if let Ok(Chosen::Model(model)) = self.text().chosen_by_name(name)
            && name.split_once(':').is_some_and(|(it, _)| ProviderName::parse(it).is_some())
            && model.served() != name
        {
            let message = format!("{} reads as another model than it is", quoted(name));
            let help = format!("it is {}; write another name", model.served());
            tell(Severity::Warning, message, &help);
        }
        self.served_name(name, found);
    }

    /// The name by which its server knows a model.
    fn served_name(&self, name: &str, found: &mut Vec<Finding>) {
        let Ok(Chosen::Model(model)) = self.text().chosen_by_name(name) else { return };
        let named = model.text.model.trim();
        let path = ["models", name, "model"].map(Step::Key);
        if named.is_empty() && !self.doubtful("models") {
            let message = format!("the model {} has no name", quoted(name));
            let place = self.key(&path[..2]);
            let finding = Finding::error(Mistake::Model, message).at(place);
            found.push(finding.help("add `model:` with the name that its server knows"));
        } else if model.provider.known().speech == Speech::Gemini
            && named.split('/').any(|part| matches!(part, "" | "." | ".."))
        {
            let message = format!("{} cannot stand in an address", quoted(named));
            let finding = Finding::error(Mistake::Model, message).at(self.place(&path));
            found.push(finding.help("no part of it may be empty, `.` or `..`"));
        }
    }

    /// What stands between the address and the endpoint is a path and nothing else.
    fn prefix(&self, name: &str, model: &ModelText, found: &mut Vec<Finding>) {
        let Some(prefix) = model.api_prefix.as_deref().map(str::trim) else { return };
        let plain = |c: char| c.is_ascii_alphanumeric() || "/-._~:".contains(c);
        if !prefix.chars().all(plain) || !leads_on(prefix) {
            let message = format!("api_prefix: {} is no path", quoted(prefix));
            let path = ["models", name, "api_prefix"].map(Step::Key);
            let finding = Finding::error(Mistake::Model, message).at(self.place(&path));
            found.push(finding.help("write it like `/v1`, or `\"\"` for none"));
        }
    }

    /// The bound of a reply among the options: a number, and the only one.
    fn bounds(&self, name: &str, model: &ModelText, found: &mut Vec<Finding>) {
        let bound = model.output_tokens_max();
        for key in OUTPUT_KEYS {
            let Some(value) = model.options.get(*key) else { continue };
            let path = ["models", name, "options", key].map(Step::Key);
            let (message, help) = match value.as_u64() {
                Some(0) => {
                    found.push(self.zero(key, &path));
                    continue;
                }
                None if *value != Value::Null => (
                    format!("{key} is no whole number"),
                    "write how many tokens a reply may have".to_owned(),
                ),
                Some(given) if bound.is_some_and(|bound| bound != given) => {
                    let bound = bound.unwrap_or_default();
                    let message =
                        format!("{key} is {given}, and elsewhere a reply may have {bound}");
                    (message, "write it in one place: `max_output_tokens` of the model".to_owned())
                }
                Some(_) | None => continue,
            };
            let finding = Finding::error(Mistake::OutOfRange, message).at(self.place(&path));
            found.push(finding.help(help));
        }
    }

    /// The tool that is asked for is there, and may be called.
    pub(super) fn choice(&self, found: &mut Vec<Finding>) {
        if self.doubtful("models") || self.doubtful("settings") {
            return;
        }
        let chosen = self.text().chosen().unwrap_or(Chosen::None);
        let own = if let Chosen::Model(model) = &chosen { Some(&model.calling) } else { None };
        let Some(calling) = own.or(self.text().tool_calling.as_ref()) else { return };
        if let (Some(tool), Some(agent)) = (calling.chosen_tool(), self.agent()) {
            let entries = agent.toolset.entries();
            let known = entries.iter().map(|entry| entry.spec.name.as_str());
            let at = self.place(&self.calling_key("tool_choice"));
            let is_there = agent.toolset.find(tool).is_some();
            let of_server = self.of_a_server(tool);
            if !is_there && !of_server && !self.of_a_pack("tool", tool) {
                let message = format!("tool_choice: no tool is named {}", quoted(tool));
                let finding = Finding::error(Mistake::UnknownName, message);
                found.push(finding.at(at).near(nearest(tool, known)));
            } else if (is_there || of_server) && calling.takes_away(tool) {
                let message = format!("tool_choice: {} is taken away by the lists", quoted(tool));
                let finding = Finding::error(Mistake::UnknownName, message).at(at);
                found.push(finding.help("look at `tool_denylist` and `tool_allowlist`"));
            }
        }
    }

    /// Whether the model of a run can be told, and does what is asked of it.
    pub(super) fn chosen(&self, found: &mut Vec<Finding>) {
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

    /// A model that is meant as it is, beside those that are declared as the same one.
    pub(super) fn namesakes(&self, found: &mut Vec<Finding>) {
        let Ok(Chosen::Model(model)) = self.text().chosen() else { return };
        let path = [Step::Key("settings"), Step::Key("model")];
        if self.text().declared().is_some() || self.key(&path).is_none() {
            return;
        }
        if let Some(told) = self.text().meant_as_it_is(&model) {
            let finding = Finding::new(Severity::Note, Mistake::Model, told);
            found.push(finding.at(self.place(&path)));
        }
    }

    /// Models that stand in: each is there, is another one, can do so, and is asked once.
    pub(super) fn stand_ins(&self, found: &mut Vec<Finding>) {
        let models = &self.text().models;
        for (name, model) in models {
            let Some(fallback) = model.fallback.as_deref() else { continue };
            let path = [Step::Key("models"), Step::Key(name.as_str()), Step::Key("fallback")];
            let place = self.place(&path);
            if fallback == name {
                let message = format!("fallback: the model {} stands in for itself", quoted(name));
                let finding = Finding::error(Mistake::UnknownName, message).at(place);
                found.push(finding.help("name another model, or leave it out"));
                continue;
            }
            if !models.contains_key(fallback) {
                let message = format!("fallback: there is no other model {}", quoted(fallback));
                let finding = Finding::error(Mistake::UnknownName, message).at(place);
                found.push(finding.near(nearest(fallback, models.keys().map(String::as_str))));
                continue;
            }
            if let Ok(Chosen::Model(chosen)) = self.text().chosen_by_name(name)
                && let Err(refusal) = self.text().fallbacks(&chosen)
                && !matches!(refusal, ChoiceRefusal::Unknown { .. })
            {
                found.push(Finding::error(Mistake::Model, refusal.to_string()).at(place));
            }
            let next = |name: &str| models.get(name).and_then(|model| model.fallback.as_deref());
            let chain = std::iter::successors(Some(fallback), |name| next(name));
            // A circle is told once, where it leads up again.
            let up = models.get_index_of(fallback) < models.get_index_of(name);
            if up && chain.take(models.len()).any(|other| other == name) {
                let message =
                    format!("fallback: this leads back to {}; each is asked once", quoted(name));
                found.push(Finding::new(Severity::Note, Mistake::Model, message).at(place));
            }
        }
    }
}
