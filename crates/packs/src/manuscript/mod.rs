//! Decides how an agent writes a manuscript: blocks in the state, shown by one file, `manuscript.md`.
//!
//! `block` says what it is made of, `order` where blocks stand, `render`, `marker` and `parse` how
//! the file looks, `take_in` what a person changed in it; `read`, `write` and `beats` are the tools.

mod beats;
mod block;
mod marker;
mod order;
mod parse;
mod read;
mod render;
mod take_in;
#[cfg(test)]
mod tests;
mod write;

use toolgate_kernel::fold::{State, World};
use toolgate_kernel::key::{Key, KeyRefusal};
use toolgate_kernel::names::{Family, NameRefusal, SectionName};
use toolgate_kernel::section::{FamilySpec, Home, Projection, Section, Variable};
use toolgate_kernel::tool::SpecRefusal;
use toolgate_runtime::Pack;

use crate::text::comma_list;

/// The section, and the family of the one key that holds the file's fingerprint.
const NAME: &str = "manuscript";

/// The file that shows the manuscript.
const PATH: &str = "manuscript.md";

const TEXT: &str = "## Manuscript\n\n\
    The manuscript is a list of named sections, with free text between them. A person reads it as \
    `manuscript.md` and may change it at any time.";

/// Which tools of the manuscript there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ManuscriptTools {
    /// The group `manuscript_read`: info, section, tail, search.
    pub read: bool,
    /// The group `manuscript_write`: append, create, replace, delete.
    pub write: bool,
    /// The group `beats`: storyline, chapter and beat.
    pub beats: bool,
}

impl Default for ManuscriptTools {
    /// Reading and writing, without beats.
    fn default() -> Self {
        Self { read: true, write: true, beats: false }
    }
}

/// The manuscript with the tools that were chosen.
pub fn manuscript(chosen: ManuscriptTools) -> Result<Pack, SpecRefusal> {
    let named = |source: NameRefusal| SpecRefusal::Name { tool: NAME.to_owned(), source };
    let mut section = Section::new(SectionName::parse(NAME).map_err(named)?);
    section.text = TEXT.to_owned();
    let family = |name: &str| {
        let family = Family::parse(name).map_err(named)?;
        Ok::<_, SpecRefusal>(FamilySpec::new(family, Home::Project))
    };
    let whole = Key::new(Family::parse(NAME).map_err(named)?, "").ok();
    section.families = vec![family(NAME)?];
    for parts in [block::SECTIONS, block::PASSAGES] {
        let family = family(parts)?;
        section.families.push(match &whole {
            Some(whole) => family.part_of(whole.clone()),
            None => family,
        });
    }
    section.projection = whole.map(|key| Projection {
        path: PATH,
        key,
        take_in: take_in::take_in,
        render: |project| render::render(&block::blocks(&project.state)).into_bytes(),
    });
    section.variables = vec![
        Variable { name: "total_words", show: total_words },
        Variable { name: "section_count", show: section_count },
        Variable { name: "section_names", show: section_names },
    ];
    let mut tools = Vec::new();
    if chosen.read {
        tools.extend(read::all()?);
    }
    if chosen.write {
        tools.extend(write::all()?);
    }
    if chosen.beats {
        tools.extend(beats::all()?);
    }
    Ok(Pack::new(section, tools))
}

/// A section with the line of `manuscript.md` on which its text begins.
pub(crate) struct PlacedSection {
    block: block::Block,
    /// The line, from one.
    pub(crate) line: usize,
}

impl PlacedSection {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        self.block.section().unwrap_or_default()
    }

    /// Its text.
    pub(crate) fn text(&self) -> &str {
        self.block.text()
    }

    /// Storyline, chapter and beat, when it is one.
    pub(crate) fn beat(&self) -> Option<(&str, &str, &str)> {
        self.block.beat()
    }
}

/// The sections of a state in the order of `manuscript.md`.
pub(crate) fn placed_sections(state: &State) -> Vec<PlacedSection> {
    let blocks = block::blocks(state);
    let named = render::lay_out(&blocks).filter(|placed| placed.block.section().is_some());
    named
        .map(|placed| PlacedSection { block: placed.block.clone(), line: placed.text_line() })
        .collect()
}

/// The key of the file's fingerprint.
fn manuscript_key() -> Result<Key, KeyRefusal> {
    Key::parse(NAME)
}

fn total_words(world: &World<'_>) -> String {
    block::total_words(&block::blocks(&world.project.state)).to_string()
}

fn section_count(world: &World<'_>) -> String {
    let sections = world.project.state.shelf(block::SECTIONS);
    sections.map_or(0, |shelf| shelf.len()).to_string()
}

fn section_names(world: &World<'_>) -> String {
    comma_list(block::section_names(&block::blocks(&world.project.state)))
}
