//! Decides what the built-in tools do. A pack is a section of the prompt with its tools and state.

pub mod catalogue;
pub mod core_tools;
pub mod domain;
pub mod files;
pub mod issues;
pub mod manuscript;
pub mod memory;
pub mod notes;
pub mod phase;
pub mod planning;
pub mod self_authoring;
pub mod tasks;
mod text;
pub mod web;
pub mod whiteboard;
pub mod workspace;

use toolgate_kernel::config::{AgentText, PackName};
use toolgate_kernel::tool::SpecRefusal;
use toolgate_runtime::Pack;

use catalogue::{IssueFamilies, UserPrompts};
use manuscript::ManuscriptTools;

/// The packs of a configuration, in the order of the prompt; a writer's when it names none.
pub fn enabled(text: &AgentText) -> Result<Vec<Pack>, SpecRefusal> {
    enabled_with(text, &UserPrompts::default())
}

/// The same with the user's own prompt file.
pub fn enabled_with(text: &AgentText, user: &UserPrompts) -> Result<Vec<Pack>, SpecRefusal> {
    let has = |name| text.packs.as_deref().unwrap_or(PackName::DEFAULT).contains(&name);
    let tools = ManuscriptTools {
        read: has(PackName::ManuscriptRead),
        write: has(PackName::ManuscriptWrite),
        beats: has(PackName::Beats),
    };
    let mut packs = Vec::new();
    if has(PackName::Notes) {
        packs.push(notes::notes()?);
    }
    if tools.read || tools.write || tools.beats {
        packs.push(manuscript::manuscript(tools)?);
    }
    if has(PackName::Phase) {
        packs.push(phase::phase()?);
    }
    if has(PackName::Files) {
        packs.push(files::files(text.files.unwrap_or_default())?);
    }
    if has(PackName::Planning) {
        packs.push(planning::planning(text.planning.unwrap_or_default().strategy)?);
    }
    if has(PackName::Tasks) {
        packs.push(tasks::tasks()?);
    }
    if has(PackName::Issues) {
        packs.push(issues::issues(&text.issues.clone().unwrap_or_default())?);
    }
    if has(PackName::Whiteboard) {
        packs.push(whiteboard::whiteboard()?);
    }
    if has(PackName::Memory) {
        packs.push(memory::memory(text.memory.unwrap_or_default())?);
    }
    if has(PackName::Web) {
        packs.push(web::web(&text.web.clone().unwrap_or_default())?);
    }
    if has(PackName::Workspace) {
        packs.push(workspace::workspace()?);
    }
    if has(PackName::SelfAuthoring) {
        packs.push(self_authoring::self_authoring(text)?);
    }
    if has(PackName::Catalogue) {
        let issues = match has(PackName::Issues) {
            true => IssueFamilies::OfPack,
            false => IssueFamilies::Own,
        };
        packs.push(catalogue::catalogue(text, user, issues)?);
    }
    Ok(packs)
}

/// All packs there are, to know their names.
pub fn every() -> Result<Vec<Pack>, SpecRefusal> {
    enabled(&AgentText { packs: Some(PackName::ALL.to_vec()), ..AgentText::default() })
}
