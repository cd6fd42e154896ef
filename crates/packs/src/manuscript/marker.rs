//! Decides what a marker is: a comment on one line that begins or ends a part, in any spelling.

/// What a marker begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A section.
    Section,
    /// A storyline.
    Storyline,
    /// A chapter of a storyline.
    Chapter,
    /// A beat of a chapter.
    Beat,
}

/// Which end of a part a marker stands at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// It begins here.
    Start,
    /// It ends here.
    End,
}

/// A marker with its place in the text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Marker<'a> {
    pub(super) kind: Kind,
    pub(super) side: Side,
    /// The name as it was written; empty when an end has none.
    pub(super) name: &'a str,
    pub(super) begin: usize,
    pub(super) end: usize,
}

/// Longest marker, in bytes. A longer comment is text.
const MARKER_BYTES_MAX: usize = 1_024;

const KINDS: &[(&str, Kind)] = &[
    ("section", Kind::Section),
    ("storyline", Kind::Storyline),
    ("chapter", Kind::Chapter),
    ("beat", Kind::Beat),
];

/// The markers of a text, in order.
pub(super) fn markers(text: &str) -> impl Iterator<Item = Marker<'_>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let begin = from + text.get(from..)?.find("<!--")?;
            let inner = begin + "<!--".len();
            // A marker ends on its own line and soon, so that odd text costs no more than its length.
            let limit = text.floor_char_boundary((inner + MARKER_BYTES_MAX).min(text.len()));
            let near = text.get(inner..limit)?;
            let line = near.split('\n').next().unwrap_or(near);
            from = inner;
            let Some(length) = line.find("-->") else { continue };
            let Some((side, kind, name)) = line.get(..length).and_then(read) else { continue };
            from = inner + length + "-->".len();
            return Some(Marker { kind, side, name, begin, end: from });
        }
    })
}

/// Reads what stands between the dashes.
fn read(inner: &str) -> Option<(Side, Kind, &str)> {
    let inner = inner.trim();
    let (side, rest) = match (word(inner, "start"), word(inner, "end")) {
        (Some(rest), _) => (Side::Start, rest),
        (None, Some(rest)) => (Side::End, rest),
        (None, None) => (Side::Start, inner),
    };
    let (kind, rest) = KINDS.iter().find_map(|(name, kind)| Some((*kind, prefix(rest, name)?)))?;
    let rest = rest.trim_start();
    match (rest.strip_prefix(':'), side) {
        (Some(name), _) => Some((side, kind, name.trim())),
        // An end without a name ends what is open.
        (None, Side::End) if rest.is_empty() => Some((side, kind, "")),
        (None, _) => None,
    }
}

/// What follows a word and the space after it.
fn word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let rest = prefix(text, word)?;
    let trimmed = rest.trim_start();
    (trimmed.len() < rest.len()).then_some(trimmed)
}

/// What follows some letters, in any case.
fn prefix<'a>(text: &'a str, letters: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(letters.len())?;
    head.eq_ignore_ascii_case(letters).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        use {Kind::*, Side::*};
        let table = [
            ("<!-- SECTION: A -->", Some((Start, Section, "A"))),
            ("<!--start section: A-->", Some((Start, Section, "A"))),
            ("<!--   Section :  A b   -->", Some((Start, Section, "A b"))),
            ("<!-- END SECTION: A -->", Some((End, Section, "A"))),
            ("<!--end   section:A-->", Some((End, Section, "A"))),
            ("<!-- end section -->", Some((End, Section, ""))),
            ("<!-- SECTION: -->", Some((Start, Section, ""))),
            ("<!-- CHAPTER: 1 -->", Some((Start, Chapter, "1"))),
            ("<!-- <!-- BEAT: x -->", Some((Start, Beat, "x"))),
            ("<!-- SECTION: a: b -->", Some((Start, Section, "a: b"))),
            ("<!-- SECTION A -->", None),
            ("<!-- SECTION: A", None),
            ("<!-- SECTION:\n A -->", None),
            ("<!-- ENDSECTION: A -->", None),
            ("<!-- sections: A -->", None),
            ("<!-- a comment -->", None),
            ("SECTION: A", None),
        ];
        for (text, expected) in table {
            let found = markers(text).next().map(|m| (m.side, m.kind, m.name));
            assert_eq!(found, expected, "{text}");
        }
    }
}
