//! Decides how the manuscript looks as a file: blocks between markers, with one blank line between.

use super::block::Block;
use crate::text::newlines;

/// Bytes that the markers of a block take beside its name, at most.
const MARKERS_BYTES: usize = 180;

/// The storyline and the chapter that are open.
type Open<'a> = Option<(&'a str, &'a str)>;

/// The manuscript as it is written to its file.
pub(super) fn render(blocks: &[Block]) -> String {
    let bytes = |block: &Block| {
        let name = block.section().map_or(0, str::len);
        block.text().len() + 4 * name + MARKERS_BYTES
    };
    let mut out = String::with_capacity(blocks.iter().map(bytes).sum());
    let mut open: Open<'_> = None;
    for (index, block) in blocks.iter().enumerate() {
        let beat = block.beat();
        let next = beat.map(|(storyline, chapter, _)| (storyline, chapter));
        close(&mut out, open, next);
        if index > 0 {
            out.push('\n');
        }
        begin(&mut out, open, next);
        match (beat, block.section()) {
            (Some((_, _, name)), _) => enclosed(&mut out, "BEAT", name, block.text()),
            (None, Some(name)) => enclosed(&mut out, "SECTION", name, block.text()),
            (None, None) => lines(&mut out, &[block.text()]),
        }
        open = next;
    }
    close(&mut out, open, None);
    out
}

/// Which lines of the file a block takes, its own markers included, counted from one.
pub(super) struct Placed<'a> {
    pub(super) block: &'a Block,
    pub(super) first: usize,
    pub(super) last: usize,
}

impl Placed<'_> {
    /// The line on which the text begins.
    pub(super) fn text_line(&self) -> usize {
        self.first + usize::from(self.block.section().is_some())
    }
}

/// Where the blocks stand in the file, without writing it.
pub(super) fn lay_out(blocks: &[Block]) -> impl Iterator<Item = Placed<'_>> {
    let mut open: Open<'_> = None;
    let mut line = 0;
    blocks.iter().enumerate().map(move |(index, block)| {
        let next = block.beat().map(|(storyline, chapter, _)| (storyline, chapter));
        let first = line + closing(open, next) + usize::from(index > 0) + opening(open, next) + 1;
        let markers = if block.section().is_some() { 2 } else { 0 };
        let last = first + newlines(block.text()) + markers;
        (open, line) = (next, last);
        Placed { block, first, last }
    })
}

/// How many lines the file has.
pub(super) fn total_lines(blocks: &[Block]) -> usize {
    let last = blocks.last().and_then(Block::beat);
    let closing = closing(last.map(|(storyline, chapter, _)| (storyline, chapter)), None);
    lay_out(blocks).last().map_or(0, |placed| placed.last + closing)
}

/// How many of chapter and storyline end.
fn closing(open: Open<'_>, next: Open<'_>) -> usize {
    match (open, next) {
        (None, _) => 0,
        (Some(open), Some(next)) if open == next => 0,
        (Some((storyline, _)), Some((same, _))) if storyline == same => 1,
        (Some(_), _) => 2,
    }
}

/// How many of storyline and chapter begin.
fn opening(open: Open<'_>, next: Open<'_>) -> usize {
    closing(next, open)
}

fn close(out: &mut String, open: Open<'_>, next: Open<'_>) {
    let Some((storyline, chapter)) = open else { return };
    let count = closing(open, next);
    if count > 0 {
        lines(out, &["<!-- END CHAPTER: ", chapter, " -->"]);
    }
    if count > 1 {
        lines(out, &["<!-- END STORYLINE: ", storyline, " -->"]);
    }
}

fn begin(out: &mut String, open: Open<'_>, next: Open<'_>) {
    let Some((storyline, chapter)) = next else { return };
    let count = opening(open, next);
    if count > 1 {
        lines(out, &["<!-- STORYLINE: ", storyline, " -->"]);
    }
    if count > 0 {
        lines(out, &["<!-- CHAPTER: ", chapter, " -->"]);
    }
}

fn enclosed(out: &mut String, kind: &str, name: &str, text: &str) {
    lines(out, &["<!-- ", kind, ": ", name, " -->"]);
    lines(out, &[text]);
    lines(out, &["<!-- END ", kind, ": ", name, " -->"]);
}

fn lines(out: &mut String, parts: &[&str]) {
    parts.iter().for_each(|part| out.push_str(part));
    out.push('\n');
}
