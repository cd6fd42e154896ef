//! Merges the three sources of prompt tools: the core tools, the user's own file, and the project.
//!
//! An entry of a later source takes the place of one with the same id, as a whole; a core tool keeps
//! its place whatever the others say. An entry of the user's file counts once a person has accepted
//! exactly these fields for the project.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::fold::{Shelf, State};

use super::edits::load;
use super::error::CatalogueError;
use super::prompt_tool::{PromptTool, is_core};
use crate::core_tools::core_prompts;

/// The family of the tools that people approved: `prompt_tool:<id>`.
pub const TOOL_FAMILY: &str = "prompt_tool";
/// The family of their versions: `prompt_tool_history:<id>/<n>`.
pub const HISTORY_FAMILY: &str = "prompt_tool_history";
/// The family of accepted entries of the user's file: `prompt_tool_accepted:<id>`.
pub const ACCEPTED_FAMILY: &str = "prompt_tool_accepted";

/// Where a prompt tool comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptOrigin {
    /// Compiled in, and locked.
    Core,
    /// The user's own file.
    User,
    /// Approved in the project.
    Project,
}

impl PromptOrigin {
    /// The origin as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

/// Whether a prompt tool is shown to models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryStatus {
    /// It is.
    Live,
    /// It waits for a person to accept it.
    Held,
}

/// A prompt tool of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CatalogueEntry {
    /// The tool.
    #[serde(flatten)]
    pub tool: PromptTool,
    /// Where it comes from.
    pub source: PromptOrigin,
    /// Whether it is shown.
    pub status: EntryStatus,
    /// Digest of its fields.
    pub digest: Digest,
    /// How many versions of it were approved here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

/// A tool as the project keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptTool {
    /// Its version, from one.
    pub version: u64,
    /// The tool.
    pub tool: PromptTool,
}

/// A version of a tool, written before the tool itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolVersion {
    /// Its number, from one.
    pub version: u64,
    /// The tool; absent where it was retired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<PromptTool>,
    /// The proposal that brought it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<u64>,
    /// The version that was made the newest one again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back_to: Option<u64>,
    /// Who approved it: a label.
    pub by: String,
    /// When, in milliseconds since 1970.
    pub at: i64,
}

/// An entry of the user's file that a person accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AcceptedEntry {
    /// Digest of its fields.
    pub digest: Digest,
}

/// All prompt tools, by name and then id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// The tools.
    pub entries: Vec<CatalogueEntry>,
}

impl Catalogue {
    /// The catalogue of a project: the core, the user's entries, and what the state has.
    pub fn of(user: &[PromptTool], state: &State) -> Result<Self, CatalogueError> {
        /// The core never changes, and this is asked before every request.
        static CORE: LazyLock<Vec<CatalogueEntry>> = LazyLock::new(|| {
            let live =
                |core| entry(PromptTool::from(core), PromptOrigin::Core, EntryStatus::Live, None);
            core_prompts().iter().map(live).collect()
        });
        let mut entries = CORE.clone();
        let kept = kept_tools(state)?;
        for tool in user.iter().filter(|tool| !is_core(&tool.id)) {
            let live = is_accepted(state, tool)?;
            let replaced = kept.iter().any(|kept| kept.tool.id == tool.id);
            if !replaced {
                let status = if live { EntryStatus::Live } else { EntryStatus::Held };
                entries.push(entry(tool.clone(), PromptOrigin::User, status, None));
            }
        }
        for KeptTool { version, tool } in kept.into_iter().filter(|kept| !is_core(&kept.tool.id)) {
            entries.push(entry(tool, PromptOrigin::Project, EntryStatus::Live, Some(version)));
        }
        let key = |entry: &CatalogueEntry| (entry.tool.name.to_lowercase(), entry.tool.id.clone());
        entries.sort_by_cached_key(key);
        Ok(Self { entries })
    }

    /// The tools that are shown to models.
    pub fn live(&self) -> impl Iterator<Item = &CatalogueEntry> {
        self.entries.iter().filter(|entry| entry.status == EntryStatus::Live)
    }

    /// A tool by its id.
    pub fn find(&self, id: &str) -> Option<&CatalogueEntry> {
        self.entries.iter().find(|entry| entry.tool.id == id)
    }

    /// Digest of what is shown to models.
    pub fn digest(&self) -> Digest {
        digest_of(self.live())
    }
}

/// Digest of some entries: their ids and fields, in order.
pub(super) fn digest_of<'a>(entries: impl Iterator<Item = &'a CatalogueEntry>) -> Digest {
    let parts = entries.map(|entry| serde_json::json!([entry.source, entry.tool.id, entry.digest]));
    Digest::of_json(&parts.collect())
}

fn entry(
    tool: PromptTool,
    source: PromptOrigin,
    status: EntryStatus,
    version: Option<u64>,
) -> CatalogueEntry {
    let digest = tool.digest();
    CatalogueEntry { tool, source, status, digest, version }
}

/// The tools that the project keeps.
pub(super) fn kept_tools(state: &State) -> Result<Vec<KeptTool>, CatalogueError> {
    let shelf = state.shelf(TOOL_FAMILY);
    let ids = shelf.into_iter().flat_map(Shelf::iter).map(|(id, _)| id);
    ids.filter_map(|id| load(state, &format!("{TOOL_FAMILY}:{id}")).transpose()).collect()
}

/// The versions of a tool, oldest first.
pub fn versions(state: &State, id: &str) -> Result<Vec<ToolVersion>, CatalogueError> {
    let prefix = format!("{id}/");
    let shelf = state.shelf(HISTORY_FAMILY);
    let names = shelf.into_iter().flat_map(Shelf::iter).map(|(name, _)| name);
    let own = names.filter(|name| name.starts_with(&prefix));
    let read = |name: &str| load(state, &format!("{HISTORY_FAMILY}:{name}")).transpose();
    let mut versions: Vec<ToolVersion> = own.filter_map(read).collect::<Result<_, _>>()?;
    versions.sort_by_key(|version| version.version);
    Ok(versions)
}

fn is_accepted(state: &State, tool: &PromptTool) -> Result<bool, CatalogueError> {
    let accepted: Option<AcceptedEntry> = load(state, &format!("{ACCEPTED_FAMILY}:{}", tool.id))?;
    Ok(accepted.is_some_and(|accepted| accepted.digest == tool.digest()))
}
