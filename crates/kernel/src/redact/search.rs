//! Searches a text for secrets, as it is and with its escapes taken away.

use std::borrow::Cow;
use std::ops::Range;

use aho_corasick::AhoCorasick;

use super::VIEWS_MAX;
use super::escapes::{ESCAPES, Escapes, decode};
use super::forms::{fold, folded};

/// What a look at a text found.
pub(super) enum Looked {
    Clean,
    Found(Vec<Range<usize>>),
    /// There are more escapes than are followed.
    TooDeep,
}

/// Where the secrets stand in a text, under whatever escapes.
pub(super) fn look(matcher: &AhoCorasick, text: &str) -> Looked {
    match is_clean(matcher, text) {
        None => Looked::TooDeep,
        Some(true) => Looked::Clean,
        Some(false) => find(matcher, text),
    }
}

/// Whether a text has no secret; nothing when it has too many escapes to be sure. Most texts have
/// none, so this keeps no places.
fn is_clean(matcher: &AhoCorasick, text: &str) -> Option<bool> {
    let mut views = vec![Cow::Borrowed(text.as_bytes())];
    // An escape may be cut by a line break.
    if text.contains('\n') {
        views.push(Cow::Owned(text.replace(['\n', '\r'], "").into_bytes()));
    }
    let mut at = 0;
    while let Some(view) = views.get(at) {
        if matcher.is_match(&folded(view)) {
            return Some(false);
        }
        let mut more = Vec::new();
        for escapes in ESCAPES {
            let mut next = Vec::with_capacity(view.len());
            if decode(view, *escapes, |bytes, _| next.extend_from_slice(bytes)) {
                more.push(next);
            }
        }
        for next in more {
            if !views.iter().any(|view| **view == *next) {
                views.push(Cow::Owned(next));
            }
        }
        if views.len() > VIEWS_MAX {
            return None;
        }
        at += 1;
    }
    Some(true)
}

fn find(matcher: &AhoCorasick, text: &str) -> Looked {
    let mut found = Vec::new();
    let mut views = vec![View::of(text), View::without_breaks(text)];
    let mut at = 0;
    while let Some(view) = views.get(at) {
        let folded = view.folded();
        for hit in matcher.find_overlapping_iter(&folded.bytes) {
            let (first, last) = (folded.spans.get(hit.start()), folded.spans.get(hit.end() - 1));
            if let (Some(first), Some(last)) = (first, last) {
                found.push(first.start..last.end);
            }
        }
        let more: Vec<View> = ESCAPES.iter().filter_map(|escapes| view.decoded(*escapes)).collect();
        for next in more {
            if !views.iter().any(|view| view.bytes == next.bytes) {
                views.push(next);
            }
        }
        if views.len() > VIEWS_MAX {
            return Looked::TooDeep;
        }
        at += 1;
    }
    Looked::Found(found)
}

/// Bytes with the place of each in the text they came from.
pub(super) struct View {
    pub(super) bytes: Vec<u8>,
    pub(super) spans: Vec<Range<usize>>,
}

impl View {
    pub(super) fn of(text: &str) -> Self {
        let mut view = Self { bytes: Vec::new(), spans: Vec::new() };
        // All bytes of a character have its place, so that no cut goes through one.
        for (at, c) in text.char_indices() {
            let mut utf8 = [0; 4];
            view.push(c.encode_utf8(&mut utf8).as_bytes(), at..at + c.len_utf8());
        }
        view
    }

    /// The text in one line.
    fn without_breaks(text: &str) -> Self {
        let mut view = Self { bytes: Vec::new(), spans: Vec::new() };
        for (at, c) in text.char_indices().filter(|(_, c)| !matches!(c, '\n' | '\r')) {
            let mut utf8 = [0; 4];
            view.push(c.encode_utf8(&mut utf8).as_bytes(), at..at + c.len_utf8());
        }
        view
    }

    fn push(&mut self, bytes: &[u8], span: Range<usize>) {
        self.bytes.extend_from_slice(bytes);
        self.spans.extend(bytes.iter().map(|_| span.clone()));
    }

    pub(super) fn folded(&self) -> Self {
        let mut view = Self { bytes: Vec::new(), spans: Vec::new() };
        for (byte, span) in self.bytes.iter().zip(&self.spans) {
            if let Some(byte) = fold(*byte) {
                view.push(&[byte], span.clone());
            }
        }
        view
    }

    /// The bytes with one level of escapes taken away; nothing when there is none.
    pub(super) fn decoded(&self, escapes: Escapes) -> Option<Self> {
        let mut view = Self { bytes: Vec::new(), spans: Vec::new() };
        let changed = decode(&self.bytes, escapes, |bytes, range| {
            let first = self.spans.get(range.start).map_or(0, |span| span.start);
            let last = self.spans.get(range.end - 1).map_or(0, |span| span.end);
            view.push(bytes, first..last);
        });
        changed.then_some(view)
    }
}
