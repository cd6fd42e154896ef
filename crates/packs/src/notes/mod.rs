//! Decides how an agent keeps notes: any JSON under a key, shared by all sessions of the project.

mod tools;

use toolgate_kernel::fold::{Shelf, World};
use toolgate_kernel::names::{Family, NameRefusal, SectionName};
use toolgate_kernel::section::{FamilySpec, Home, Section, Variable};
use toolgate_kernel::tool::SpecRefusal;
use toolgate_runtime::Pack;

use crate::text::comma_list;

/// The section and the group of its tools.
const NAME: &str = "notes";

/// The family of the notes: `note:<key>`.
const FAMILY: &str = "note";

const TEXT: &str = "## Notes\n\n\
    Notes are your memory: they stay when the conversation begins anew. `list_notes` shows the \
    keys and what kind of value each has, `read_notes` a value, `write_notes` keeps any JSON value \
    under a key, `delete_notes` forgets it.";

/// The four notes tools.
pub fn notes() -> Result<Pack, SpecRefusal> {
    let named = |source: NameRefusal| SpecRefusal::Name { tool: NAME.to_owned(), source };
    let mut section = Section::new(SectionName::parse(NAME).map_err(named)?);
    section.text = TEXT.to_owned();
    section.families = vec![FamilySpec::new(Family::parse(FAMILY).map_err(named)?, Home::Project)];
    section.variables = vec![Variable { name: "keys_text", show: keys_text }];
    Ok(Pack::new(section, tools::all()?))
}

/// The keys of all notes, for a prompt.
fn keys_text(world: &World<'_>) -> String {
    let shelf = world.project.state.shelf(FAMILY);
    comma_list(shelf.into_iter().flat_map(Shelf::iter).map(|(key, _)| key))
}
