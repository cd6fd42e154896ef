//! Makes versions of tools: an approved proposal, an accepted entry of the user's file, a rollback. The
//! snapshot stands before the tool, in one append.

use toolgate_kernel::event::{CatalogueDecided, CatalogueRuling};
use toolgate_kernel::fold::State;

use super::edits::StateEdits;
use super::error::CatalogueError;
use super::prompt_tool::{PromptTool, is_core};
use super::proposal::{Proposal, ProposalKind};
use super::registry::{
    ACCEPTED_FAMILY, AcceptedEntry, Catalogue, HISTORY_FAMILY, KeptTool, PromptOrigin, TOOL_FAMILY,
    ToolVersion, versions,
};
use super::user_file::unfit;
use super::workflow::{USER_CHARS_MAX, USER_TOOLS_MAX, Workflow};

impl Workflow<'_> {
    /// What accepting an entry of the user's file makes of the project.
    pub fn accept(&self, state: &State, id: &str) -> Result<CatalogueDecided, CatalogueError> {
        let Some(tool) = self.user.iter().find(|tool| tool.id == id) else {
            let known = self.user.iter().map(|tool| tool.id.clone()).collect();
            let message = format!("your prompt file has no entry {id}");
            return Err(CatalogueError::new("NOT_FOUND", message).allowing(known));
        };
        if let Some(why) = unfit(tool) {
            return Err(CatalogueError::new("PROMPT_TEXT_REFUSED", why));
        }
        let digest = tool.digest();
        let mut edits = StateEdits::of(state);
        self.check_room(state, tool)?;
        edits.put(&format!("{ACCEPTED_FAMILY}:{id}"), &AcceptedEntry { digest })?;
        let ruling = CatalogueRuling::Entry { id: id.to_owned(), digest };
        Ok(CatalogueDecided { ruling, changes: edits.into_changes(), note: String::new() })
    }

    /// What making an earlier version the newest one makes of the project.
    pub fn roll_back(
        &self,
        state: &State,
        id: &str,
        version: u64,
        by: &str,
    ) -> Result<CatalogueDecided, CatalogueError> {
        if is_core(id) {
            return Err(CatalogueError::core_locked(id));
        }
        let all = versions(state, id)?;
        let Some(tool) = all.iter().find(|one| one.version == version).map(|one| one.tool.clone())
        else {
            let known = all.iter().map(|one| one.version.to_string()).collect();
            let message = format!("{id} has no version {version}");
            return Err(CatalogueError::new("NOT_FOUND", message).allowing(known));
        };
        let Some(tool) = tool else {
            let message = format!("version {version} of {id} is where it was retired");
            return Err(CatalogueError::new("NOT_FOUND", message));
        };
        if let Some(why) = unfit(&tool) {
            return Err(CatalogueError::new("PROMPT_TEXT_REFUSED", why));
        }
        self.check_room(state, &tool)?;
        let digest = tool.digest();
        let mut edits = StateEdits::of(state);
        self.new_version(
            &mut edits,
            Some(tool),
            id,
            NewVersion { proposal: None, rolled_back_to: Some(version), by },
        )?;
        let ruling = CatalogueRuling::Rollback { id: id.to_owned(), version, digest };
        Ok(CatalogueDecided { ruling, changes: edits.into_changes(), note: String::new() })
    }

    pub(super) fn approve(
        &self,
        edits: &mut StateEdits,
        proposal: &Proposal,
        by: &str,
    ) -> Result<(), CatalogueError> {
        let catalogue = Catalogue::of(self.user, edits.state())?;
        let id = &proposal.tool.id;
        let now = catalogue.find(id);
        let changed = |message: String| CatalogueError::new("BASE_CHANGED", message).at("base");
        match proposal.kind {
            ProposalKind::New => {
                let is_tool = self.tools.contains(id) || is_core(id);
                if now.is_some() || is_tool {
                    return Err(changed(format!("the id {id} is taken by now")));
                }
            }
            ProposalKind::Modify | ProposalKind::Retire => {
                if now.map(|now| now.digest) != proposal.base {
                    let message =
                        format!("{id} is not what it was when proposal {} was made", proposal.id);
                    return Err(changed(message));
                }
            }
        }
        let tool = match proposal.kind {
            ProposalKind::Retire => None,
            ProposalKind::New | ProposalKind::Modify => {
                if let Some(why) = unfit(&proposal.tool) {
                    return Err(CatalogueError::new("PROMPT_TEXT_REFUSED", why));
                }
                self.check_room(edits.state(), &proposal.tool)?;
                Some(proposal.tool.clone())
            }
        };
        let (proposal, rolled_back_to) = (Some(proposal.id), None);
        self.new_version(edits, tool, id, NewVersion { proposal, rolled_back_to, by })
    }

    /// The snapshot first, then the tool.
    fn new_version(
        &self,
        edits: &mut StateEdits,
        tool: Option<PromptTool>,
        id: &str,
        new: NewVersion<'_>,
    ) -> Result<(), CatalogueError> {
        let before = versions(edits.state(), id)?;
        let version = before.last().map_or(1, |last| last.version.saturating_add(1));
        let first = before.iter().find_map(|one| one.tool.as_ref()).map(|tool| tool.created_at);
        let at = self.now.0;
        let tool = tool.map(|tool| PromptTool {
            created_at: first.filter(|at| *at != 0).unwrap_or(at),
            updated_at: at,
            ..tool
        });
        let NewVersion { proposal, rolled_back_to, by } = new;
        let by = by.to_owned();
        let snapshot =
            ToolVersion { version, tool: tool.clone(), proposal, rolled_back_to, by, at };
        edits.put(&format!("{HISTORY_FAMILY}:{id}/{version}"), &snapshot)?;
        let key = format!("{TOOL_FAMILY}:{id}");
        match tool {
            Some(tool) => edits.put(&key, &KeptTool { version, tool }),
            None => edits.remove(&key),
        }
    }

    /// Whether there is room for one more tool of a person, or for a longer one.
    fn check_room(&self, state: &State, tool: &PromptTool) -> Result<(), CatalogueError> {
        let catalogue = Catalogue::of(self.user, state)?;
        let others = || {
            catalogue
                .live()
                .filter(|entry| entry.source != PromptOrigin::Core && entry.tool.id != tool.id)
        };
        let chars: usize = others().map(|entry| entry.tool.chars()).sum();
        let (count, chars) = (others().count() + 1, chars + tool.chars());
        if count <= USER_TOOLS_MAX && chars <= USER_CHARS_MAX {
            return Ok(());
        }
        Err(CatalogueError::new(
            "CATALOGUE_FULL",
            format!(
                "the catalogue would have {count} tools of people with {chars} characters; at most \
                 {USER_TOOLS_MAX} and {USER_CHARS_MAX}. Retire one first"
            ),
        ))
    }
}

/// What a new version of a tool comes from.
struct NewVersion<'a> {
    proposal: Option<u64>,
    rolled_back_to: Option<u64>,
    by: &'a str,
}
