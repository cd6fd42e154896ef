//! Decides whether the directives of a file can be used.

use super::{Desk, Finding, Mistake, Step};
use crate::config::DirectivesRefusal;

impl Desk<'_> {
    pub(super) fn directives(&self, found: &mut Vec<Finding>) {
        let Some(text) = &self.text().directives else { return };
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
}
