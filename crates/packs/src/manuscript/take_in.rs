//! Decides what a person changed in the file: the fewest changes that make the state say the same.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::Change;
use toolgate_kernel::fold::Project;
use toolgate_kernel::key::{Key, KeyRefusal};
use toolgate_kernel::section::Shown;

use super::block::{Block, Name, blocks, free_number, trimmed};
use super::order::places;
use super::parse::{Piece, parse};
use super::render::render;
use super::{PATH, manuscript_key};

/// Largest file that is taken in, in bytes: what a project folder reads.
const FILE_BYTES_MAX: usize = 16 << 20;

/// What a person changed, from the file as the person left it. Blocks under the keys in `keep` were
/// written at the same moment and stay when they are not in the file.
pub(super) fn take_in(
    project: &Project,
    content: &[u8],
    keep: &[Key],
) -> Result<Vec<Change>, String> {
    if content.len() > FILE_BYTES_MAX {
        return Err(format!(
            "{PATH} has {} bytes; at most {FILE_BYTES_MAX} can be taken in. Make it shorter.",
            content.len()
        ));
    }
    let text = std::str::from_utf8(content)
        .map_err(|_| format!("{PATH} is not UTF-8 text; save it as UTF-8."))?;
    let key = manuscript_key().map_err(told)?;
    let shown = Shown { file: Digest::of(content), was: None };
    let text = plain(text);
    let mut before = blocks(&project.state);
    // Passages are known by their text, and one may begin like another; our own file says nothing
    // new, whatever it says.
    if render(&before) == text {
        return Ok(vec![put(key, json!(shown))]);
    }
    let pieces = parse(&text);
    before.retain(|block| !unseen(block, &pieces, keep));
    let mut changes = differences(&before, &pieces).map_err(told)?;
    // The file stays as the person left it; the next call that writes gives it its usual form.
    changes.push(put(key, json!(shown)));
    Ok(changes)
}

/// Whether a block was written at the same moment as the file, and the file does not have it.
fn unseen(block: &Block, pieces: &[Piece<'_>], keep: &[Key]) -> bool {
    let in_file = |name: &str| {
        pieces.iter().any(|piece| matches!(piece, Piece::Section { name: n, .. } if n == name))
    };
    let written = block.name.key().is_ok_and(|key| keep.contains(&key));
    written && !block.section().is_some_and(in_file)
}

fn told(refusal: KeyRefusal) -> String {
    refusal.to_string()
}

/// A text without the marks that some editors leave.
fn plain(text: &str) -> Cow<'_, str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

/// A block as it shall be, with the one it was.
struct Wanted<'a> {
    was: Option<&'a Block>,
    name: Option<Name>,
    text: &'a str,
}

fn differences(before: &[Block], pieces: &[Piece<'_>]) -> Result<Vec<Change>, KeyRefusal> {
    let sections: BTreeMap<&str, &Block> =
        before.iter().filter_map(|block| Some((block.section()?, block))).collect();
    let mut passages = Passages::new(before);
    let mut wanted: Vec<Wanted<'_>> = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Section { name, text } => {
                let was = sections.get(name.as_str()).copied();
                wanted.push(Wanted { was, name: Some(Name::Section(name.clone())), text });
            }
            Piece::Free(text) => passages.split(text, &mut wanted),
        }
    }
    // What is neither kept nor new was changed: a passage left over becomes the next new one.
    let mut left = passages.left.values().flatten().copied().collect::<Vec<_>>();
    left.sort_by_key(|block| std::cmp::Reverse(block.at));
    let mut number = free_number(before);
    for block in wanted.iter_mut().filter(|block| block.name.is_none()) {
        block.was = block.was.or_else(|| left.pop());
        block.name = block.was.map(|was| was.name.clone()).or_else(|| {
            number += 1;
            Some(Name::Passage((number - 1).to_string()))
        });
    }
    let present: Vec<Option<u64>> = wanted.iter().map(|w| w.was.map(|was| was.at)).collect();
    let stays: BTreeSet<&Name> = wanted.iter().filter_map(|w| w.name.as_ref()).collect();
    let mut changes = Vec::new();
    for gone in before.iter().filter(|block| !stays.contains(&block.name)) {
        changes.push(Change::Remove { key: gone.name.key()? });
    }
    for (block, at) in wanted.iter().zip(places(&present)) {
        let same = block.was.is_some_and(|was| was.at == at && was.text() == block.text);
        if let Some(name) = block.name.as_ref().filter(|_| !same) {
            changes.push(put(name.key()?, json!({ "at": at, "text": block.text })));
        }
    }
    Ok(changes)
}

fn put(key: Key, value: Value) -> Change {
    Change::Put { key, value, v: 1 }
}

/// The passages there were, by their first paragraph. In the file nothing tells where one ends and
/// the next begins, so they are known by their text.
struct Passages<'a> {
    left: BTreeMap<&'a str, Vec<&'a Block>>,
}

impl<'a> Passages<'a> {
    fn new(before: &'a [Block]) -> Self {
        let mut left: BTreeMap<&str, Vec<&Block>> = BTreeMap::new();
        for block in before.iter().filter(|block| block.section().is_none()) {
            left.entry(paragraph(block.text())).or_default().push(block);
        }
        Self { left }
    }

    /// Cuts free text where passages that were there begin and end.
    fn split(&mut self, text: &'a str, wanted: &mut Vec<Wanted<'a>>) {
        let mut new = |text: &'a str, was: Option<&'a Block>| {
            if !text.trim().is_empty() {
                wanted.push(Wanted { was, name: was.map(|was| was.name.clone()), text });
            }
        };
        let (mut unknown, mut at) = (0, 0);
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let Some(block) = self.starting(rest) else {
                at += paragraph(rest).len();
                at += text.get(at..).map_or(0, blank);
                continue;
            };
            new(trimmed(text.get(unknown..at).unwrap_or_default()), None);
            new(block.text(), Some(block));
            at += block.text().len();
            at += text.get(at..).map_or(0, blank);
            unknown = at;
        }
        new(trimmed(text.get(unknown..).unwrap_or_default()), None);
    }

    /// The longest passage that was there and stands at the beginning of a text.
    fn starting(&mut self, rest: &str) -> Option<&'a Block> {
        let candidates = self.left.get_mut(paragraph(rest))?;
        let stands = |block: &Block| {
            rest.strip_prefix(block.text())
                .is_some_and(|after| after.is_empty() || after.starts_with("\n\n"))
        };
        let fitting = candidates.iter().enumerate().filter(|(_, block)| stands(block));
        // Of passages that are equal the first one.
        let (index, _) = fitting.rev().max_by_key(|(_, block)| block.text().len())?;
        Some(candidates.remove(index))
    }
}

/// The beginning of a text up to the first blank line.
fn paragraph(text: &str) -> &str {
    text.split("\n\n").next().unwrap_or(text)
}

/// How many line ends a text begins with.
fn blank(text: &str) -> usize {
    text.len() - text.trim_start_matches('\n').len()
}
