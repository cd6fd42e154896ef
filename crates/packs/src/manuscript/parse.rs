//! Decides what a file says, however its markers were left: nothing that was written is lost.

use std::collections::{BTreeMap, BTreeSet};

use super::block::trimmed;
use super::marker::{Kind, Marker, Side, markers};
use crate::text::{NAME_BYTES_MAX, NAME_CHARS_MAX, unseen};

/// A part of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A section or a beat. No two have one name.
    Section { name: String, text: &'a str },
    /// Text outside of all sections.
    Free(&'a str),
}

/// The name of what was left without one.
const UNTITLED: &str = "untitled";

/// Longest part of a beat's name when the whole is too long, in characters and in bytes.
const PART_MAX: (usize, usize) = (NAME_CHARS_MAX / 3 - 1, NAME_BYTES_MAX / 3 - 1);

/// Reads a file and heals it.
///
/// A section without an end ends at the next marker or with the file. An end without a start is an
/// empty section. The second section of a name gets another name. What stands outside stays.
pub(super) fn parse(text: &str) -> Vec<Piece<'_>> {
    let mut reading = Reading::default();
    let mut from = 0;
    for marker in markers(text) {
        reading.text(text.get(from..marker.begin).unwrap_or_default());
        from = marker.end;
        reading.marker(&marker);
    }
    reading.text(text.get(from..).unwrap_or_default());
    reading.pieces
}

#[derive(Default)]
struct Reading<'a> {
    pieces: Vec<Piece<'a>>,
    /// The section that is open: its name in the file. It is the last piece.
    open: Option<String>,
    storyline: Option<String>,
    chapter: Option<String>,
    /// Names as they were written, to tell an end without a start.
    started: BTreeSet<String>,
    /// Names as they were given.
    given: BTreeSet<String>,
    /// The last number that was added to a name.
    last: BTreeMap<String, u64>,
}

impl<'a> Reading<'a> {
    /// Takes in what stands between two markers.
    fn text(&mut self, between: &'a str) {
        match (&self.open, self.pieces.last_mut()) {
            (Some(_), Some(Piece::Section { text, .. })) => *text = trimmed(between),
            _ if between.trim().is_empty() => {}
            _ => self.pieces.push(Piece::Free(trimmed(between))),
        }
    }

    fn marker(&mut self, marker: &Marker<'_>) {
        // Every marker ends the section that is open.
        let open = self.open.take();
        match (marker.kind, marker.side) {
            (Kind::Storyline, side) => {
                self.storyline = (side == Side::Start).then(|| part(marker.name));
                self.chapter = None;
            }
            (Kind::Chapter, side) => {
                self.chapter = (side == Side::Start).then(|| part(marker.name));
            }
            (Kind::Section | Kind::Beat, Side::Start) => {
                let name = self.name(marker);
                self.begin(&name);
                self.open = Some(name);
            }
            (Kind::Section | Kind::Beat, Side::End) => {
                let name = self.name(marker);
                let ends = marker.name.is_empty() || open.as_ref() == Some(&name);
                if !ends && !self.started.contains(&name) {
                    self.begin(&name);
                }
            }
        }
    }

    fn begin(&mut self, name: &str) {
        self.started.insert(name.to_owned());
        let mut given = name.to_owned();
        while self.given.contains(&given) {
            // Counting on from the last one, so that many of one name cost no more than few.
            let number = self.last.entry(name.to_owned()).or_insert(1);
            *number += 1;
            let suffix = format!(" ({number})");
            let room = (NAME_CHARS_MAX - suffix.len(), NAME_BYTES_MAX - suffix.len());
            given = format!("{}{suffix}", cut(name, room));
        }
        self.given.insert(given.clone());
        self.pieces.push(Piece::Section { name: given, text: "" });
    }

    /// The full name that a marker means.
    fn name(&self, marker: &Marker<'_>) -> String {
        if marker.kind != Kind::Beat {
            return clean(marker.name);
        }
        let untitled = || UNTITLED.to_owned();
        let storyline = self.storyline.clone().unwrap_or_else(untitled);
        let chapter = self.chapter.clone().unwrap_or_else(untitled);
        let parts = [storyline, chapter, part(marker.name)];
        let whole = parts.join("/");
        if whole.chars().count() <= NAME_CHARS_MAX && whole.len() <= NAME_BYTES_MAX {
            return whole;
        }
        let short = |part: &String| cut(part, PART_MAX).trim().to_owned();
        parts.iter().map(short).collect::<Vec<_>>().join("/")
    }
}

/// A name as a person wrote it, made one that can be kept.
fn clean(name: &str) -> String {
    let mut name: String = name.chars().filter(|c| !unseen(*c)).collect();
    if name.contains("<!--") {
        name.retain(|c| c != '<');
    }
    let name = cut(name.trim(), (NAME_CHARS_MAX, NAME_BYTES_MAX)).trim().to_owned();
    if name.is_empty() { UNTITLED.to_owned() } else { name }
}

/// One part of a beat's name, which has slashes only between its parts.
fn part(name: &str) -> String {
    clean(&name.replace('/', "-"))
}

/// The beginning of a name, in at most so many characters and bytes.
fn cut(name: &str, (chars_max, bytes_max): (usize, usize)) -> &str {
    let end = name.char_indices().nth(chars_max).map_or(name.len(), |(at, _)| at);
    name.get(..name.floor_char_boundary(end.min(bytes_max))).unwrap_or(name)
}
