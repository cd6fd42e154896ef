//! Decides whether transforms and presets exist, and whether they can do something for their model.

use super::{Desk, Finding, Mistake, Severity, Step};
use crate::config::finding::quoted;
use crate::config::{
    Chosen, Preset, Reach, Speech, ToolCallingText, Transform, TransformKind, TransformRefusal,
};

impl Desk<'_> {
    pub(super) fn transforms(&self, found: &mut Vec<Finding>) {
        let text = self.text();
        if let Some(calling) = &text.tool_calling {
            let speech = match text.chosen() {
                Ok(Chosen::Model(model)) => model.provider.known().speech,
                Ok(Chosen::None | Chosen::Script(_)) | Err(_) => Speech::Chat,
            };
            self.named_transforms(calling, &[Step::Key("tool_calling")], speech, found);
        }
        for (name, model) in &text.models {
            let path = [Step::Key("models"), Step::Key(name.as_str())];
            let speech = match text.chosen_by_name(name) {
                Ok(Chosen::Model(model)) => model.provider.known().speech,
                Ok(Chosen::None | Chosen::Script(_)) | Err(_) => Speech::Chat,
            };
            if let Some(calling) = &model.tool_calling {
                let inside = [&path[..], &[Step::Key("tool_calling")]].concat();
                self.named_transforms(calling, &inside, speech, found);
            }
            let inside = [&path[..], &[Step::Key("presets")]].concat();
            for name in model.presets.iter().flat_map(|names| names.names()) {
                self.preset(name, &inside, speech, found);
            }
        }
    }

    fn named_transforms(
        &self,
        calling: &ToolCallingText,
        path: &[Step<'_>],
        speech: Speech,
        found: &mut Vec<Finding>,
    ) {
        for (kind, names) in calling.transforms() {
            let inside = [path, &[Step::Key(kind.key())]].concat();
            for name in names.iter().flat_map(|names| names.names()) {
                let finding = match Transform::parse(kind, name) {
                    Err(refusal) => unlisted(kind, name, &refusal),
                    Ok(transform) if idle(transform, speech) => {
                        let message = format!("{} does nothing for this model", quoted(name));
                        let finding = Finding::new(Severity::Warning, Mistake::Model, message);
                        finding.help("it is for OpenAI chat completions; leave it out")
                    }
                    Ok(_) => continue,
                };
                found.push(self.at_name(finding, name, &inside));
            }
        }
    }

    fn preset(&self, name: &str, path: &[Step<'_>], speech: Speech, found: &mut Vec<Finding>) {
        let finding = match Preset::find(name) {
            Err(refusal) => {
                let message = format!("presets: there is no preset {}", quoted(name));
                Finding::error(Mistake::UnknownName, message).help(refusal.help())
            }
            Ok(preset) if preset.transforms.iter().any(|t| idle(*t, speech)) => {
                let message = format!("{} is not for this model", quoted(name));
                let finding = Finding::new(Severity::Warning, Mistake::Model, message);
                finding.help("it is for OpenAI chat completions; leave it out")
            }
            Ok(_) => return,
        };
        found.push(self.at_name(finding, name, path));
    }

    /// The finding, at the name in the list.
    fn at_name(&self, finding: Finding, name: &str, path: &[Step<'_>]) -> Finding {
        let span = self.named(path, |text| text == name).first().copied();
        finding.at(span.or(self.place(path)))
    }
}

fn unlisted(kind: TransformKind, name: &str, refusal: &TransformRefusal) -> Finding {
    let message = match refusal {
        TransformRefusal::Unknown { .. } => {
            format!("{}: there is no transform {}", kind.key(), quoted(name))
        }
        TransformRefusal::Misplaced { .. } => refusal.to_string(),
    };
    Finding::error(Mistake::UnknownName, message).help(refusal.help())
}

/// Whether a transform has nothing to change in a dialect.
fn idle(transform: Transform, speech: Speech) -> bool {
    transform.reach() == Reach::Chat && speech != Speech::Chat
}
