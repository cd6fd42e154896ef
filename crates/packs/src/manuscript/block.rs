//! Decides what a manuscript is made of: named sections and free passages, each under its own key.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_kernel::fold::{Shelf, Slot, State};
use toolgate_kernel::key::{Key, KeyRefusal};
use toolgate_kernel::names::Family;

use crate::text::words;

/// The family of the sections: `section:<name>`.
pub(super) const SECTIONS: &str = "section";

/// The family of the passages: `passage:<number>`.
pub(super) const PASSAGES: &str = "passage";

/// What names a block.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    /// A section, or a beat: `storyline/chapter/beat`.
    Section(String),
    /// Text that stands in no section.
    Passage(String),
}

impl Name {
    /// The key of the block.
    pub(super) fn key(&self) -> Result<Key, KeyRefusal> {
        let (family, name) = match self {
            Self::Section(name) => (SECTIONS, name),
            Self::Passage(number) => (PASSAGES, number),
        };
        // A name may contain a colon; the family never does, so this reads back the same.
        Key::parse(&format!("{family}:{name}"))
    }
}

/// A block as it is kept.
#[derive(Serialize, Deserialize)]
pub(super) struct Kept<'a> {
    /// Its place: blocks stand in rising order.
    pub(super) at: u64,
    /// Its text, without outer line ends.
    pub(super) text: &'a str,
}

/// A block of the manuscript. Its text is shared with the state, not copied.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) name: Name,
    pub(super) at: u64,
    slot: Slot,
}

impl Block {
    fn new(name: Name, slot: Slot) -> Self {
        let at = slot.as_one().and_then(|value| value.get("at")).and_then(Value::as_u64);
        Self { name, at: at.unwrap_or(0), slot }
    }

    /// Its text.
    pub(super) fn text(&self) -> &str {
        kept_text(&self.slot)
    }

    /// Its name, when it is a section.
    pub(super) fn section(&self) -> Option<&str> {
        match &self.name {
            Name::Section(name) => Some(name),
            Name::Passage(_) => None,
        }
    }

    /// Storyline, chapter and beat, when it is one.
    pub(super) fn beat(&self) -> Option<(&str, &str, &str)> {
        self.section().and_then(beat)
    }
}

/// The text in the slot of a block.
pub(super) fn kept_text(slot: &Slot) -> &str {
    let text = slot.as_one().and_then(|value| value.get("text")).and_then(Value::as_str);
    text.unwrap_or_default()
}

/// The parts of a name that is a beat's: three, none of them blank or with spaces around it.
pub(super) fn beat(name: &str) -> Option<(&str, &str, &str)> {
    let mut parts = name.split('/');
    let three = (parts.next()?, parts.next()?, parts.next()?);
    let proper = |part: &str| !part.is_empty() && part.trim() == part;
    let all = proper(three.0) && proper(three.1) && proper(three.2);
    (all && parts.next().is_none()).then_some(three)
}

/// Sections and passages in the order in which they stand.
pub(super) fn ordered(
    sections: impl IntoIterator<Item = (String, Slot)>,
    passages: impl IntoIterator<Item = (String, Slot)>,
) -> Vec<Block> {
    let sections = sections.into_iter().map(|(name, slot)| Block::new(Name::Section(name), slot));
    let passages = passages.into_iter().map(|(name, slot)| Block::new(Name::Passage(name), slot));
    let mut blocks: Vec<Block> = sections.chain(passages).collect();
    blocks.sort_by(|a, b| (a.at, &a.name).cmp(&(b.at, &b.name)));
    blocks
}

/// The blocks of a state, in the order in which they stand.
pub(super) fn blocks(state: &State) -> Vec<Block> {
    let all = |family: &str| {
        let entries = state.shelf(family).into_iter().flat_map(Shelf::iter);
        entries.map(|(name, slot)| (name.to_owned(), slot.clone())).collect::<Vec<_>>()
    };
    ordered(all(SECTIONS), all(PASSAGES))
}

/// A number that no passage has.
pub(super) fn free_number(blocks: &[Block]) -> u64 {
    let numbers = blocks.iter().filter_map(|block| match &block.name {
        Name::Passage(number) => number.parse::<u64>().ok(),
        Name::Section(_) => None,
    });
    numbers.max().map_or(1, |last| last.saturating_add(1))
}

/// The names of the sections, in order.
pub(super) fn section_names(blocks: &[Block]) -> impl Iterator<Item = &str> {
    blocks.iter().filter_map(Block::section)
}

/// The words of all blocks.
pub(super) fn total_words(blocks: &[Block]) -> usize {
    blocks.iter().map(|block| words(block.text())).sum()
}

/// A text as it is kept: plain line ends, none of them outside.
pub(super) fn trimmed(text: &str) -> &str {
    text.trim_matches(['\n', '\r'])
}

/// A family by its name.
pub(super) fn family(name: &str) -> Result<Family, KeyRefusal> {
    Key::parse(name).map(|key| key.family().clone())
}
