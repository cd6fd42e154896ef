//! Decides whether agents that take part in conversations can be what is written of them.

use super::{Desk, Finding, Mistake, Severity, Step};
use crate::config::PackName;
use crate::config::finding::quoted;
use crate::names::{AgentId, nearest};
use crate::profile::{Field, same_name};

impl Desk<'_> {
    pub(super) fn agents(&self, found: &mut Vec<Finding>) {
        let agents = &self.text().agents;
        for (at, (id, text)) in agents.iter().enumerate() {
            let path = [Step::Key("agents"), Step::Key(id.as_str())];
            let under = |field: Field| [&path[..], &[Step::Key(field.as_str())]].concat();
            for field in Field::ALL {
                if let Some(Err(refusal)) = text.get(*field).map(|value| field.fit(value)) {
                    let finding = Finding::error(Mistake::Agent, refusal.to_string());
                    found.push(finding.at(self.place(&under(*field))));
                }
            }
            self.model_of(text.model.as_deref(), &under(Field::Model), found);
            let called = |id: &AgentId, name: &Option<String>| {
                name.clone().unwrap_or_else(|| id.to_string())
            };
            let name = called(id, &text.name);
            let taken = agents.iter().take(at).find(|(other, text)| {
                same_name(&called(other, &text.name), &name) || same_name(other.as_str(), &name)
            });
            if let Some((other, _)) = taken {
                let message = format!("the name {} is taken by the agent {other}", quoted(&name));
                let place = self.place(&under(Field::Name)).or_else(|| self.key(&path));
                let finding = Finding::error(Mistake::Agent, message).at(place);
                found.push(finding.help("agents are told apart by their names: choose another"));
            }
        }
        self.reviewer(found);
    }

    /// The model of an agent is one that a person declared.
    fn model_of(&self, model: Option<&str>, path: &[Step<'_>], found: &mut Vec<Finding>) {
        let models = &self.text().models;
        let Some(model) = model.map(str::trim).filter(|model| !model.is_empty()) else { return };
        if models.contains_key(model) || self.doubtful("models") {
            return;
        }
        let message = format!("there is no model {} under `models`", quoted(model));
        let finding = Finding::error(Mistake::UnknownName, message).at(self.place(path));
        found.push(match nearest(model, models.keys().map(String::as_str)) {
            Some(near) => finding.near(Some(near)),
            None => finding.help(format!("declare `{model}` under `models:`")),
        });
    }

    fn reviewer(&self, found: &mut Vec<Finding>) {
        let text = self.text();
        let packs = text.packs.as_deref().unwrap_or(PackName::DEFAULT);
        let has = packs.contains(&PackName::SelfAuthoring) || self.doubtful("packs");
        let idle = |message: &str| Finding::new(Severity::Warning, Mistake::Idle, message);
        if let Some(own) = &text.self_authoring {
            let path = [Step::Key("self_authoring"), Step::Key("reviewer")];
            let chosen = own.reviewer.as_deref().map(|model| text.chosen_by_name(model.trim()));
            if let (Some(Err(refusal)), false) = (chosen, self.doubtful("models")) {
                let finding = Finding::error(Mistake::Model, refusal.to_string());
                found.push(finding.at(self.place(&path)));
            }
            if !has {
                let message = "`self_authoring` changes nothing: the pack is not enabled";
                let place = self.key(&[Step::Key("self_authoring")]);
                found.push(idle(message).at(place).help("add `self_authoring` to `packs`"));
            }
        }
        let nobody = text.agents.is_empty() && !self.doubtful("agents");
        if packs.contains(&PackName::SelfAuthoring) && nobody {
            let message = "the pack self_authoring changes nothing: no agent is declared";
            let path = [Step::Key("packs")];
            let place = self.named(&path, |name| name == "self_authoring").first().copied();
            found.push(idle(message).at(place).help("declare one under `agents:`"));
        }
    }
}
