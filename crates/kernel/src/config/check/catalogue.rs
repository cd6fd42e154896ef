//! Checks the catalogue: its chief is an agent that is declared, and archetypes are one line.

use super::{Desk, Finding, Mistake, Severity, Step};
use crate::config::catalogue::ARCHETYPE_CHARS_MAX;
use crate::config::finding::quoted;
use crate::config::{AgentText, PackName};
use crate::letters::is_unseen;
use crate::names::{AgentId, nearest};

impl Desk<'_> {
    pub(super) fn catalogue(&self, found: &mut Vec<Finding>) {
        let text = self.text();
        for (id, agent) in &text.agents {
            if let Some(wrong) = agent.archetype.as_deref().and_then(archetype_fault) {
                let path = [Step::Key("agents"), Step::Key(id.as_str()), Step::Key("archetype")];
                found.push(Finding::error(Mistake::Agent, wrong).at(self.place(&path)));
            }
        }
        let Some(own) = &text.catalogue else { return };
        if let Some(chief) = &own.chief {
            self.chief(text, chief, found);
        }
        let packs = text.packs.as_deref().unwrap_or(PackName::DEFAULT);
        if !packs.contains(&PackName::Catalogue) && !self.doubtful("packs") {
            let message = "`catalogue` changes nothing: the pack catalogue is not enabled";
            let finding = Finding::new(Severity::Warning, Mistake::Idle, message);
            let place = self.key(&[Step::Key("catalogue")]);
            found.push(finding.at(place).help("add `catalogue` to `packs`"));
        }
    }

    fn chief(&self, text: &AgentText, chief: &AgentId, found: &mut Vec<Finding>) {
        if text.agents.contains_key(chief) || self.doubtful("agents") {
            return;
        }
        let message = format!("there is no agent {} under `agents`", quoted(chief.as_str()));
        let place = self.place(&[Step::Key("catalogue"), Step::Key("chief")]);
        let finding = Finding::error(Mistake::UnknownName, message).at(place);
        found.push(match nearest(chief.as_str(), text.agents.keys().map(AgentId::as_str)) {
            Some(near) => finding.near(Some(near)),
            None => finding.help(format!("declare `{chief}` under `agents:`")),
        });
    }
}

/// Why a text is not an archetype.
fn archetype_fault(text: &str) -> Option<String> {
    let chars = text.chars().count();
    if is_unseen(text) {
        Some("archetype is blank".to_owned())
    } else if chars > ARCHETYPE_CHARS_MAX {
        Some(format!("archetype has {chars} characters; use at most {ARCHETYPE_CHARS_MAX}"))
    } else if text.contains(char::is_control) {
        Some("archetype is one line without control characters".to_owned())
    } else {
        None
    }
}
