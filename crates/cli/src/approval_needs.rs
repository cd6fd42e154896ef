//! What an approval takes where one approver is not enough: shown on the card, checked before a person
//! is asked for a passphrase, and arguments typed once more.

use std::collections::BTreeSet;

use anyhow::Result;
use serde::Serialize;
use serde_json::{Map, Value};
use toolgate_kernel::approval::{ApprovalRequirement, DecisionSigner, PartialApproval};
use toolgate_kernel::credential::PersonKey;
use toolgate_kernel::decision::Role;
use toolgate_kernel::fold::Project;
use toolgate_runtime::port::Question;

use crate::console::hint;
use crate::credential;
use crate::person::{TRIES, word};
use crate::project::Place;

/// What an approval takes, and those of several approvals that were given.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ApprovalNeeds {
    /// What the rules want.
    pub(crate) requires: ApprovalRequirement,
    /// Approvals that were given.
    pub(crate) given: Vec<PartialApproval>,
    /// Who opened the session.
    pub(crate) starter: Option<PersonKey>,
}

impl From<&Question> for ApprovalNeeds {
    fn from(question: &Question) -> Self {
        let Question { requires, given, starter, .. } = question;
        Self { requires: requires.clone(), given: given.clone(), starter: *starter }
    }
}

impl ApprovalNeeds {
    /// A line of the card; nothing where any one approver is enough.
    pub(crate) fn line(&self) -> Option<String> {
        let ApprovalRequirement { role, count, confirm, .. } = &self.requires;
        if (*role, *count) == (Role::Approver, 1) && confirm.is_empty() {
            return None;
        }
        let who = match count {
            1 => format!("the approval of an {role}"),
            count => format!(
                "approvals of {count} people, each {role} or above, {} given",
                self.given.len()
            ),
        };
        let typed: Vec<&str> = confirm.iter().map(String::as_str).collect();
        Some(match typed.as_slice() {
            [] => who,
            typed => format!("{who}; you type the value of {}", typed.join(", ")),
        })
    }

    /// Why the approval of the person of this account would not count. One without a key is told by the
    /// signature that is missing.
    pub(crate) fn check(&self, place: &Place, project: &Project, is_edited: bool) -> Result<()> {
        let Some(key) = credential::known_key(place)? else { return Ok(()) };
        let Some(person) = project.people.get(&key) else { return Ok(()) };
        let signer = DecisionSigner { key, role: person.role };
        self.requires.accepts(Some(&signer), self.starter.as_ref(), &self.given, is_edited)?;
        Ok(())
    }

    /// How many people must approve after one more has.
    pub(crate) fn missing_after_one(&self) -> u64 {
        let given = u64::try_from(self.given.len()).unwrap_or(u64::MAX);
        self.requires.count.saturating_sub(given.saturating_add(1))
    }

    /// Asks for the values that must be typed once more, and tells the names of these arguments. Nothing
    /// when a value is not what would run.
    pub(crate) async fn confirm(&self, args: &Map<String, Value>) -> Option<BTreeSet<String>> {
        for name in &self.requires.confirm {
            if !confirm_argument(name, args.get(name)).await {
                hint(&format!("That is not the value of {name}. Nothing was decided."));
                return None;
            }
        }
        Some(self.requires.confirm.clone())
    }
}

/// Asks for the value of one argument. It is compared as it would run, not as it is shown.
async fn confirm_argument(name: &str, value: Option<&Value>) -> bool {
    let wanted = match value {
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(value) => value.to_string(),
        None => "none".to_owned(),
    };
    hint(&format!("Type the value of {name} (none if there is no such argument):"));
    for left in (0..TRIES).rev() {
        let Some(typed) = word().await else { return false };
        if typed.trim() == wanted {
            return true;
        }
        if left > 0 {
            hint(&format!("That is not the value of {name}. Type it once more:"));
        }
    }
    false
}
