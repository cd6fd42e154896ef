//! Decides when a person must say yes: whenever an agent would speak through another model.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_kernel::approval::ApprovalRequirement;
use toolgate_kernel::fold::World;
use toolgate_kernel::gate::Call;
use toolgate_kernel::json::Document;
use toolgate_kernel::key::Touched;
use toolgate_kernel::names::{NameRefusal, PolicyName, ToolName};
use toolgate_kernel::policy::{Names, Policy, Verdict};
use toolgate_kernel::profile::Field;
use toolgate_kernel::tool::{ACTION, ToolSpec};

use super::NAME;

/// The models that a person declared.
pub(super) type Models = Arc<BTreeSet<String>>;

/// Asks before an agent changes its model. It comes with the tool, so no configuration is without
/// it, and a yes for the whole session does not lift it.
pub(super) struct Consent {
    name: PolicyName,
    tool: ToolName,
    models: Models,
    /// Who looks at new prompts: a change of this is a change of what is enforced.
    reviewer: Option<String>,
}

impl Consent {
    pub(super) fn new(models: Models, reviewer: Option<&str>) -> Result<Self, NameRefusal> {
        let (name, tool) = (PolicyName::parse("own-model")?, ToolName::own(NAME)?);
        Ok(Self { name, tool, models, reviewer: reviewer.map(str::to_owned) })
    }
}

/// Whether a call would change the model.
fn changes_model(args: &Document) -> bool {
    args.text(ACTION) == Some("update") && args.text("field") == Some(Field::Model.as_str())
}

impl Policy for Consent {
    fn name(&self) -> &PolicyName {
        &self.name
    }

    fn governs(&self, tool: &ToolSpec) -> bool {
        tool.name == self.tool
    }

    fn judge(&self, call: &Call, _: &[Touched], _: &World<'_>) -> Verdict {
        if !changes_model(call.args()) {
            return Verdict::Allow;
        }
        let value = call.args().text("value").unwrap_or_default().trim();
        // One that nobody declared is turned down by the tool; nobody need be asked about it.
        match self.models.contains(value) {
            true => Verdict::Ask(format!("The agent wants to speak through the model {value}.")),
            false => Verdict::Allow,
        }
    }

    fn requires(&self) -> ApprovalRequirement {
        ApprovalRequirement { each_time: true, ..ApprovalRequirement::default() }
    }

    fn names(&self) -> Names<'_> {
        Names { tools: vec![&self.tool], ..Names::default() }
    }

    fn describe(&self) -> Value {
        json!({ "own_model": { "models": *self.models, "reviewer": self.reviewer } })
    }
}
