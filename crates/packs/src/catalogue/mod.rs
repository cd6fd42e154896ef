//! The pack `catalogue`: the sixteen core tools, and prompt tools that people approve.
//!
//! `registry` merges the three sources of prompt tools, `core_lock` sees to it that the core is what
//! was compiled in, `user_file` reads the user's own entries, and `inject` shows the catalogue to a
//! model, with `grounding` before it. A `proposal` moves by the `workflow`: submitted by a `tool` call
//! or a person, looked at by `checks`, a `harness` and the `chief`, decided by a person's signature.
//! `edits` are changes that belong together, `diff` shows two versions, `issue_link` keeps the issues
//! of a proposal with an `issue_text`, `versions` writes snapshots, `error` says why something was refused.

mod checks;
mod chief;
mod core_lock;
mod diff;
mod edits;
mod error;
mod grounding;
mod harness;
mod inject;
mod issue_link;
mod issue_text;
mod prompt_tool;
mod proposal;
mod registry;
mod tool;
mod user_file;
mod versions;
mod workflow;

use std::sync::Arc;

use serde_json::json;
use toolgate_kernel::config::{AgentText, PackName, ProfileText};
use toolgate_kernel::names::{NameRefusal, ToolName};
use toolgate_kernel::tool::SpecRefusal;
use toolgate_runtime::Pack;

pub use checks::{MechanicalFinding, mechanical};
pub use chief::{
    Assessment, CHIEF_MS_MAX, ChiefAnswer, ChiefModel, ChiefRequest, Recommendation, assess, parse,
};
pub use core_lock::{CORE_DIGEST, CoreLockError, check_core_lock};
pub use diff::{FieldChange, diff_lines, field_diff};
pub use edits::StateEdits;
pub use error::CatalogueError;
pub use harness::{
    CaseOutcome, CaseResult, CheckedReply, HarnessError, HarnessReport, HarnessRoom, check_reply,
    run_model, run_replies,
};
pub use issue_link::{OPENED_BY, PROPOSAL_TAG};
pub use issue_text::after;
pub use prompt_tool::{FIELDS, PromptScope, PromptTool, TakenIds, is_core};
pub use proposal::{
    Expected, PROPOSAL_FAMILY, Proposal, ProposalAuthor, ProposalKind, ProposalState, ReplyCheck,
    Submission, TestCase, proposal, proposals,
};
pub use registry::{
    ACCEPTED_FAMILY, Catalogue, CatalogueEntry, EntryStatus, HISTORY_FAMILY, KeptTool,
    PromptOrigin, TOOL_FAMILY, ToolVersion, versions,
};
pub use tool::tool_names;
pub use user_file::{FILE_BYTES_MAX, PromptFinding, UserPrompts};
pub use workflow::{Workflow, kept_digest};

use crate::core_tools::{self, CoreToolsOptions, SourceGlobs};
use tool::ProposeSetup;

/// The group of the tools that are about the catalogue itself.
const GROUP: &str = "prompt_tools";

/// Whom the issue of a proposal is assigned to where no agent is the chief.
pub const NO_CHIEF: &str = "chief";

/// Who keeps the families of the issues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IssueFamilies {
    /// This pack does.
    Own,
    /// The pack `issues` is there and does.
    OfPack,
}

/// The pack `catalogue` as a configuration sets it up, with the entries of the user's file.
pub fn catalogue(
    text: &AgentText,
    user: &UserPrompts,
    issues: IssueFamilies,
) -> Result<Pack, SpecRefusal> {
    let mut pack = core_tools::catalogue(core_tools_options(text))?;
    let own = text.catalogue.clone().unwrap_or_default();
    let wrong = |reason: String| {
        let named = |source: NameRefusal| SpecRefusal::Name { tool: GROUP.to_owned(), source };
        match ToolName::parse("file_locator").map_err(named) {
            Ok(tool) => SpecRefusal::Domain { tool, reason },
            Err(refusal) => refusal,
        }
    };
    let digest = core_lock::digest_of(&pack.section);
    check_core_lock(digest, CORE_DIGEST).map_err(|error| wrong(error.to_string()))?;
    let chief = own.chief.as_ref().map_or_else(|| NO_CHIEF.to_owned(), ToString::to_string);
    let setup = Arc::new(ProposeSetup { user: user.tools.clone(), chief });
    let tools = tool::tools(&setup)?;
    pack.section.tools.extend(tools.iter().map(|tool| Arc::clone(tool.spec())));
    pack.tools.extend(tools);
    let named = |source: NameRefusal| SpecRefusal::Name { tool: GROUP.to_owned(), source };
    pack.section.families.extend(tool::families().map_err(named)?);
    if issues == IssueFamilies::Own {
        pack.section.families.extend(crate::issues::families().map_err(named)?);
    }
    let text = inject::CatalogueText { inject: own.inject, user: user.tools.clone() };
    pack.section.live = Some(Arc::new(text));
    pack.section.face = json!({ "core_tools": digest });
    Ok(pack)
}

/// How the core tools work with a configuration.
pub fn core_tools_options(text: &AgentText) -> CoreToolsOptions {
    let own = text.catalogue.clone().unwrap_or_default();
    let globs = SourceGlobs::default();
    let sources = SourceGlobs {
        outline: own.sources.outline.unwrap_or(globs.outline),
        canon: own.sources.canon.unwrap_or(globs.canon),
        scenes: own.sources.scenes.unwrap_or(globs.scenes),
    };
    let archetype = |agent: &ProfileText| {
        agent.archetype.as_deref().map(|archetype| archetype.trim().to_lowercase())
    };
    let archetypes = text.agents.values().filter_map(archetype).collect();
    let packs = text.packs.as_deref().unwrap_or(PackName::DEFAULT);
    CoreToolsOptions {
        language: own.language,
        sources,
        archetypes: (!text.agents.is_empty()).then_some(archetypes),
        file_tools: packs.contains(&PackName::Files),
    }
}
