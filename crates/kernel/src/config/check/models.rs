//! Decides whether models are written down so that each is one, can be asked, and can stand in.

use serde_json::Value;

use super::{Desk, Finding, Mistake, Severity, Step};
use crate::config::address::leads_on;
use crate::config::finding::quoted;
use crate::config::{
    ChoiceRefusal, Chosen, ModelText, OUTPUT_KEYS, ProviderName, Secret, Speech, header,
};
use crate::names::nearest;

impl Desk<'_> {
    /// The name of a model says which one is meant.
    pub(super) fn model_name(&self, name: &str, found: &mut Vec<Finding>) {
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

    /// Headers that cannot be sent, or are not anybody's to send.
    pub(super) fn headers<'t>(
        &self,
        given: impl Iterator<Item = (&'t String, &'t Secret)>,
        path: &[Step<'_>],
        (mistake, own): (Mistake, &[&str]),
        found: &mut Vec<Finding>,
    ) {
        let mut seen: Vec<String> = Vec::new();
        for (name, secret) in given {
            let inside = [path, &[Step::Key("headers"), Step::Key(name.as_str())]].concat();
            let small = name.to_ascii_lowercase();
            let told = if !header::is_name(name) {
                let message = format!("{} is no name of a header", quoted(name));
                Some((message, self.key(&inside), "write letters, digits and dashes: x-team"))
            } else if own.contains(&small.as_str()) {
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

    /// What stands between the address and the endpoint is a path and nothing else.
    pub(super) fn prefix(&self, name: &str, model: &ModelText, found: &mut Vec<Finding>) {
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
    pub(super) fn bounds(&self, name: &str, model: &ModelText, found: &mut Vec<Finding>) {
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
