//! Looks up what a reply cites: the sources of the core tools, and issues.

use std::sync::Arc;

use toolgate_kernel::config::AgentText;
use toolgate_kernel::evidence::{CitedSource, SourceRole};
use toolgate_kernel::fold::{Project, State};
use toolgate_kernel::path::project_path;
use toolgate_runtime::port::{EvidenceSources, Files, Listing};
use unicode_normalization::UnicodeNormalization;

use super::sources::{Library, Role, RoleGlobs, SourceAccess};
use super::{CoreToolsOptions, Setup};
use crate::catalogue::core_tools_options;
use crate::issues::all_issues;

/// The sources of a project, for the evidence of replies.
pub struct ProjectSources {
    setup: Setup,
}

impl ProjectSources {
    /// Sources with these roles; the sentence says which glob is not usable.
    pub fn new(options: CoreToolsOptions) -> Result<Self, String> {
        let CoreToolsOptions { language, sources, archetypes, file_tools } = options;
        let globs = RoleGlobs::new(&sources)?;
        Ok(Self { setup: Setup { language, lists: None, globs, archetypes, file_tools } })
    }

    /// The sources that a configuration names. Globs that are not usable are refused with the
    /// configuration; until then no evidence is found.
    pub fn configured(text: &AgentText) -> Option<Arc<dyn EvidenceSources>> {
        let sources = Self::new(core_tools_options(text)).ok()?;
        Some(Arc::new(sources))
    }
}

/// What is there at the moment, outside of every call.
struct Current<'a> {
    project: &'a Project,
    files: &'a dyn Files,
}

impl SourceAccess for Current<'_> {
    fn state(&self) -> &State {
        &self.project.state
    }

    fn listing(&self) -> Listing {
        self.files.list(None).ok().flatten().unwrap_or_default()
    }

    fn content(&self, path: &str) -> Option<Vec<u8>> {
        // The one form of a path leads to nothing that is protected.
        let path = project_path(path, None).ok()?;
        self.files.read(&path).ok().flatten()
    }
}

impl EvidenceSources for ProjectSources {
    fn source(&self, project: &Project, files: &dyn Files, given: &str) -> Option<CitedSource> {
        let current = Current { project, files };
        let mut library = Library::open(&current, &self.setup);
        let entry = library.find("source", given).ok().flatten()?;
        let source = library.read(&entry).ok()?;
        let lines: Vec<&str> = source.text.lines().map(|(_, line)| line).collect();
        Some(CitedSource {
            reference: source.reference.clone(),
            sha256: source.sha256,
            first_line: u64::try_from(source.text.first_line).unwrap_or(1),
            text: lines.join("\n"),
        })
    }

    fn role(&self, given: &str) -> SourceRole {
        match self.setup.globs.role_of(given.trim()) {
            Role::Outline => SourceRole::Outline,
            Role::Canon => SourceRole::Canon,
            Role::Scene => SourceRole::Scene,
            Role::Other => SourceRole::Other,
        }
    }

    fn has_issue(&self, project: &Project, number: u64) -> bool {
        let issues = all_issues(&project.state).unwrap_or_default();
        issues.iter().any(|issue| issue.id == number)
    }

    fn normal_form(&self, text: &str) -> String {
        text.nfc().collect()
    }
}
