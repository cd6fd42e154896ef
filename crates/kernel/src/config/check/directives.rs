//! Decides whether the directives of a file can be used.

use super::{Desk, Finding, Mistake, Step};
use crate::calling::ToolProtocol;
use crate::config::{Chosen, DirectivesRefusal};

impl Desk<'_> {
    pub(super) fn directives(&self, found: &mut Vec<Finding>) {
        let Some(text) = &self.text().directives else { return };
        self.directives_beside_json(found);
        let Err(refusal) = text.build() else { return };
        let (code, keys) = match &refusal {
            DirectivesRefusal::Type { name, .. } => (Mistake::BadName, vec!["types", name]),
            DirectivesRefusal::Together(_) => (Mistake::BadName, vec!["types"]),
            DirectivesRefusal::Reserved(key) => {
                (Mistake::NotAllowed, vec!["request_overrides", key])
            }
            DirectivesRefusal::Repairs(_) => (Mistake::OutOfRange, vec!["repair_retry_count"]),
        };
        let path: Vec<Step<'_>> =
            std::iter::once("directives").chain(keys).map(Step::Key).collect();
        let message = format!("directives: {refusal}");
        found.push(Finding::error(code, message).at(self.key(&path)));
    }

    /// Both want the whole reply in a form of their own.
    fn directives_beside_json(&self, found: &mut Vec<Finding>) {
        let protocol = match self.text().chosen() {
            Ok(Chosen::Model(model)) => model.calling.tool_protocol,
            Ok(Chosen::None | Chosen::Script(_)) | Err(_) => {
                self.text().tool_calling.as_ref().and_then(|calling| calling.tool_protocol)
            }
        };
        if protocol == Some(ToolProtocol::Json) {
            let message = "`directives` cannot be used with `tool_protocol: json`";
            let finding = Finding::error(Mistake::NotAllowed, message);
            let help = "leave `directives` out, or use a model with tool calling of its own";
            found.push(finding.at(self.key(&[Step::Key("directives")])).help(help));
        }
    }
}
