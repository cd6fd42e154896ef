//! Decides how an agent remembers: short texts, found again by their words, shared by all sessions.
//!
//! `store` has the rules, `index` finds texts by their words, `tools` is what the model calls, and
//! `refinement` how the whole is put in order, within bounds.

mod index;
mod refinement;
mod store;
mod tools;

use std::sync::Arc;

use toolgate_kernel::config::MemoryText;
use toolgate_kernel::fold::World;
use toolgate_kernel::names::Family;
use toolgate_kernel::section::{FamilySpec, Home, Variable};
use toolgate_kernel::tool::SpecRefusal;
use toolgate_runtime::Pack;

pub use refinement::MUTATIONS_MAX;
pub use store::{CONTENT_CHARS_MAX, MEMORIES_MAX};

use crate::domain::{section, whole_and_parts};
use crate::text::LISTED_MAX;
use store::{Finder, Kind, MEMORY, Memory, WHOLE};

/// The section and the group of its tools.
const NAME: &str = "memory";

const TEXT: &str = "## Memory\n\n\
    `memory` keeps short texts for all later conversations. A journal entry fades after a week: \
    it can still be searched, and `recall` does not show it any more. A core memory stays. \
    `refinement` puts the memories in order: at most 10 changes, and all of them are taken back \
    when too much of the core would be lost. Finish with `complete`.";

/// The tools `memory` and `refinement`.
pub fn memory(text: MemoryText) -> Result<Pack, SpecRefusal> {
    let finder = Arc::new(Finder::default());
    let tools = vec![tools::tool(&finder)?, refinement::tool(&finder, text)?];
    let mut section = section(NAME, TEXT, |_| {
        let mut families = whole_and_parts(WHOLE, &[MEMORY])?;
        for family in [refinement::SESSION, refinement::STEPS] {
            families.push(FamilySpec::new(Family::parse(family)?, Home::Session));
        }
        Ok(families)
    })?;
    section.variables = vec![Variable { name: "core_memories", show: core_memories }];
    Ok(Pack::new(section, tools))
}

/// The newest core memories, one in a line, for a prompt.
fn core_memories(world: &World<'_>) -> String {
    let mut core: Vec<Memory> =
        store::kept(world.project).filter(|memory| memory.kind == Kind::Core).collect();
    core.sort_by(|a, b| b.saved_at.cmp(&a.saved_at).then_with(|| a.content.cmp(&b.content)));
    let lines: Vec<String> = core
        .iter()
        .take(LISTED_MAX)
        .map(|memory| {
            format!("- {}", memory.content.split_whitespace().collect::<Vec<_>>().join(" "))
        })
        .collect();
    match core.len().saturating_sub(LISTED_MAX) {
        _ if lines.is_empty() => "none".to_owned(),
        0 => lines.join("\n"),
        more => format!("{}\n- and {more} more", lines.join("\n")),
    }
}
