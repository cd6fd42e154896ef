//! Decides how facts, a draft, locks and what a user interface shows are kept, apart from any
//! conversation.
//!
//! `pointer` reads paths, `patch` makes one change, `document` says how it is kept, `tools` has what
//! the model calls. Facts and locks change by a person's word alone: `decide` says what becomes of
//! it, `history` what became of it before.

mod decide;
mod document;
mod history;
mod patch;
mod pointer;
mod tools;

use toolgate_kernel::fold::World;
use toolgate_kernel::names::{Family, NameRefusal, SectionName};
use toolgate_kernel::section::{FamilySpec, Home, Section, Variable};
use toolgate_kernel::tool::SpecRefusal;
use toolgate_runtime::Pack;

pub use decide::{Act, ActRefusal, Made, Proposed, Skipped, Upshot, decide};
pub use document::{
    DOCUMENT_BYTES_MAX, Document, LOCKS_MAX, Lock, Locks, PROPOSAL_BYTES_MAX, PROPOSALS_MAX,
    Proposal, ProposalId, ProposalIdRefusal, last_proposal, proposals,
};
pub use history::{Behind, ENTRIES_MAX, Entry, History};
pub use pointer::{PATH_BYTES_MAX, PATH_NAMES_MAX, Path, PathRefusal, Root};
pub use tools::{OPS_MAX, WORKSPACE_ID};

/// The section and the group of its tools.
const NAME: &str = "workspace";

/// Most bytes of the facts in a prompt.
const PROMPT_BYTES_MAX: usize = 16_000;

const TEXT: &str = "## Workspace\n\n\
    The workspace holds `/facts` (true, confirmed by a person), `/draft` (what you work on), \
    `/locks` (paths that must not change) and `/ui_state` (what the user interface shows). \
    `state_get` reads it. `state_patch` changes `/draft/` and `/ui_state/`. You cannot change \
    facts: `facts_propose` suggests one with a reason, and a person decides. `ui_render` says \
    what the user interface should show.";

/// The four tools of the workspace.
pub fn workspace() -> Result<Pack, SpecRefusal> {
    let named = |source: NameRefusal| SpecRefusal::Name { tool: NAME.to_owned(), source };
    let mut section = Section::new(SectionName::parse(NAME).map_err(named)?);
    section.text = TEXT.to_owned();
    for root in Root::ALL {
        let family = FamilySpec::new(Family::parse(root.family()).map_err(named)?, Home::Project);
        section.families.push(match root {
            Root::Facts | Root::Locks => family.human_only(),
            // The entries are parts of the one that counts them.
            Root::Draft | Root::UiState | Root::Proposals => match root.key() {
                Ok(whole) => family.part_of(whole),
                Err(_) => family,
            },
        });
    }
    section.locked = Some(document::locked);
    section.variables = vec![Variable { name: "facts", show: facts_text }];
    Ok(Pack::new(section, tools::all()?))
}

/// The facts for a prompt, one on each line.
fn facts_text(world: &World<'_>) -> String {
    let facts = Document::of(&world.project.state, Root::Facts).value;
    let (mut text, mut left_out) = (String::new(), 0_usize);
    for (name, value) in facts.as_object().into_iter().flatten() {
        let line = format!("- {name}: {value}\n");
        if left_out > 0 || text.len() + line.len() > PROMPT_BYTES_MAX {
            left_out += 1;
        } else {
            text.push_str(&line);
        }
    }
    match (text.is_empty(), left_out) {
        (true, 0) => "none".to_owned(),
        (_, 0) => text.trim_end().to_owned(),
        (_, more) => format!("{text}- {more} more; state_get shows them"),
    }
}
