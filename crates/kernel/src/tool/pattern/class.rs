//! Sets of characters in a pattern: `[a-z]`, `\d`, `.`.

use std::fmt::Write as _;

use super::escape::{self, Escape};
use super::translate::{Source, UnitMode};

/// `\d` of ECMA-262, in ASCII.
pub(super) const DIGITS: &[(u32, u32)] = &[(0x30, 0x39)];
/// `\w` of ECMA-262, in ASCII.
pub(super) const WORD: &[(u32, u32)] = &[(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)];
/// `\s` of ECMA-262: white space and line terminators.
pub(super) const SPACE: &[(u32, u32)] = &[
    (0x09, 0x0D),
    (0x20, 0x20),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
    (0xFEFF, 0xFEFF),
];
/// What `.` does not match.
const LINE_ENDS: &[(u32, u32)] = &[(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)];

/// One part of a set.
#[derive(Debug)]
enum Part {
    /// From one code point to another; halves of surrogate pairs among them.
    Range(u32, u32),
    /// A set of its own, such as `\D`.
    Set(ClassSet),
    /// A Unicode property in the words of the `regex` crate.
    Property(&'static str),
}

/// A set of characters, or of all but these.
#[derive(Debug)]
pub(super) struct ClassSet {
    parts: Vec<Part>,
    negated: bool,
}

impl ClassSet {
    pub(super) fn of(ranges: &[(u32, u32)], negated: bool) -> Self {
        Self { parts: ranges.iter().map(|(low, high)| Part::Range(*low, *high)).collect(), negated }
    }

    pub(super) fn property(name: &'static str, negated: bool) -> Self {
        Self { parts: vec![Part::Property(name)], negated }
    }

    /// No character at all, seen as one that could be half of one.
    pub(super) fn lone_surrogate() -> Self {
        Self::of(&[(0xD800, 0xDFFF)], false)
    }

    /// Whether it could match one of the two units of a character beyond U+FFFF.
    pub(super) fn sees_astral(&self) -> bool {
        self.negated
            || self.parts.iter().any(|part| match part {
                Part::Range(low, high) => *high > 0xFFFF || (*low <= 0xDFFF && *high >= 0xD800),
                Part::Set(set) => set.sees_astral(),
                Part::Property(_) => true,
            })
    }

    pub(super) fn write(&self, out: &mut String) {
        let mut inner = String::new();
        for part in &self.parts {
            match part {
                Part::Range(low, high) => write_range(&mut inner, *low, *high),
                Part::Set(set) => set.write(&mut inner),
                Part::Property(name) => {
                    inner.push_str(r"\p{");
                    inner.push_str(name);
                    inner.push('}');
                }
            }
        }
        // The `regex` crate has no way to write an empty set but as the opposite of everything.
        let (negated, inner) = match inner.is_empty() {
            true => (!self.negated, r"\x{0}-\x{10FFFF}"),
            false => (self.negated, inner.as_str()),
        };
        out.push_str(if negated { "[^" } else { "[" });
        out.push_str(inner);
        out.push(']');
    }
}

/// Writes a character so that it means itself, in a set and outside.
pub(super) fn write_char(out: &mut String, c: char) {
    // Writing to a text does not fail.
    let _ = write!(out, r"\x{{{:X}}}", u32::from(c));
}

/// Writes a range without halves of surrogate pairs, which no text has.
fn write_range(out: &mut String, low: u32, high: u32) {
    let low = if (0xD800..=0xDFFF).contains(&low) { 0xE000 } else { low };
    let high = if (0xD800..=0xDFFF).contains(&high) { 0xD7FF } else { high };
    let (Some(first), Some(last)) = (char::from_u32(low), char::from_u32(high)) else { return };
    if first <= last {
        write_char(out, first);
        out.push('-');
        write_char(out, last);
    }
}

/// `.`, which matches no line end.
pub(super) fn dot() -> ClassSet {
    ClassSet::of(LINE_ENDS, true)
}

/// A set in brackets, read after the first one. Only `\`, `]`, a first `^` and `-` between two
/// characters are syntax in it.
pub(super) fn bracketed(rest: &mut Source<'_>, mode: &mut UnitMode) -> Option<ClassSet> {
    let negated = rest.next_if_eq(&'^').is_some();
    let mut parts = Vec::new();
    loop {
        let c = rest.next()?;
        if c == ']' {
            return Some(ClassSet { parts, negated });
        }
        let first = member(c, rest, mode)?;
        if !is_range(rest) {
            parts.push(first);
            continue;
        }
        rest.next();
        let c = rest.next()?;
        let last = member(c, rest, mode)?;
        let (Part::Range(low, _), Part::Range(_, high)) = (first, last) else { return None };
        if low > high {
            return None;
        }
        parts.push(Part::Range(low, high));
    }
}

/// Whether a `-` follows that is not the last character of the set.
fn is_range(rest: &Source<'_>) -> bool {
    let mut ahead = rest.clone();
    ahead.next() == Some('-') && ahead.next() != Some(']')
}

fn member(c: char, rest: &mut Source<'_>, mode: &mut UnitMode) -> Option<Part> {
    if c != '\\' {
        return Some(Part::Range(c.into(), c.into()));
    }
    match escape::in_class(rest, mode)? {
        Escape::Char(point) => Some(Part::Range(point, point)),
        Escape::Set(set) => Some(Part::Set(set)),
        Escape::Boundary => None,
    }
}
