//! Defines where the runtime looks up what a reply cites.

use toolgate_kernel::evidence::{CitedSource, SourceRole};
use toolgate_kernel::fold::Project;

use super::Files;

/// The sources that replies may cite, as they are now.
pub trait EvidenceSources: Send + Sync {
    /// The source that a text names.
    fn source(&self, project: &Project, files: &dyn Files, given: &str) -> Option<CitedSource>;

    /// The role that a source has by its name.
    fn role(&self, given: &str) -> SourceRole;

    /// Whether there is an issue with this number.
    fn has_issue(&self, project: &Project, number: u64) -> bool;

    /// The text in normal form C.
    fn normal_form(&self, text: &str) -> String;
}
