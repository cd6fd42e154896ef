//! Takes JSON and percent escapes away, level by level.

use std::ops::Range;

/// Which escapes are taken away at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Escapes {
    Json,
    Percent,
}

/// Both kinds. They are taken away one by one: what looks like one of them may be part of a secret.
pub(super) const ESCAPES: &[Escapes] = &[Escapes::Json, Escapes::Percent];

/// A text with one level of escapes taken away; nothing when there is none.
pub(super) fn decoded_text(text: &str, escapes: Escapes) -> Option<String> {
    let mut out = Vec::new();
    let changed = decode(text.as_bytes(), escapes, |bytes, _| out.extend_from_slice(bytes));
    changed.then(|| String::from_utf8(out).ok()).flatten()
}

/// Digits of a character in braces.
const BRACED_DIGITS_MAX: usize = 6;

/// Takes one level of escapes away, unit by unit. Whether there was any.
pub(super) fn decode(
    bytes: &[u8],
    escapes: Escapes,
    mut unit: impl FnMut(&[u8], Range<usize>),
) -> bool {
    let (mut at, mut changed) = (0, false);
    while let Some(byte) = bytes.get(at) {
        let rest = bytes.get(at..).unwrap_or_default();
        let mut utf8 = [0; 4];
        let escape = match (byte, escapes) {
            (b'\\', Escapes::Json) => json_escape(rest, &mut utf8),
            (b'%', Escapes::Percent) => hex_number(rest.get(1..3)).and_then(|byte| {
                utf8[0] = u8::try_from(byte).ok()?;
                Some((1, 3))
            }),
            _ => None,
        };
        match escape {
            Some((bytes, length)) => {
                unit(utf8.get(..bytes).unwrap_or_default(), at..at + length);
                changed = true;
                at += length;
            }
            None => {
                unit(&[*byte], at..at + 1);
                at += 1;
            }
        }
    }
    changed
}

/// What an escape stands for: how many bytes were written, and how long it is.
fn json_escape(text: &[u8], utf8: &mut [u8; 4]) -> Option<(usize, usize)> {
    let plain = match text.get(1)? {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 0x08,
        b'f' => 0x0c,
        b'u' => {
            let (c, length) = unicode_escape(text)?;
            return Some((c.encode_utf8(utf8).len(), length));
        }
        b'x' => {
            utf8[0] = u8::try_from(hex_number(text.get(2..4))?).ok()?;
            return Some((1, 4));
        }
        // Shells and Markdown write all signs so.
        other if other.is_ascii_punctuation() => *other,
        _ => return None,
    };
    utf8[0] = plain;
    Some((1, 2))
}

/// The character of `\uXXXX`, or of two halves of one, and the length of the escape.
fn unicode_escape(text: &[u8]) -> Option<(char, usize)> {
    if text.get(2) == Some(&b'{') {
        // `\u{73}`, as JavaScript and Rust write it.
        let rest = text.get(3..)?;
        let digits = rest.iter().take(BRACED_DIGITS_MAX + 1).position(|byte| *byte == b'}')?;
        let c = hex_number(rest.get(..digits)).and_then(char::from_u32)?;
        return (digits > 0).then_some((c, digits + 4));
    }
    let first = hex_number(text.get(2..6))?;
    if let Some(c) = char::from_u32(first) {
        return Some((c, 6));
    }
    let second = hex_number(text.get(6..)?.strip_prefix(b"\\u")?.get(..4))?;
    let halves = [u16::try_from(first).ok()?, u16::try_from(second).ok()?];
    Some((char::decode_utf16(halves).next()?.ok()?, 12))
}

fn hex_number(digits: Option<&[u8]>) -> Option<u32> {
    digits?.iter().try_fold(0, |number, digit| Some(number * 16 + char::from(*digit).to_digit(16)?))
}

/// Where an escape begins whose end has not come.
pub(super) fn unfinished_escape(bytes: &[u8]) -> Option<usize> {
    /// Bytes of the longest escape, two halves of a character.
    const ESCAPE_BYTES_MAX: usize = 12;
    let tail = bytes.len().saturating_sub(ESCAPE_BYTES_MAX);
    let start = (tail..bytes.len()).rfind(|at| matches!(bytes.get(*at), Some(b'\\' | b'%')))?;
    let after = bytes.get(start + 1..).unwrap_or_default();
    let is_hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    let is_first_half = |escape: &[u8]| {
        let number = hex_number(escape.get(2..6)).unwrap_or_default();
        escape.starts_with(b"\\u") && (0xd800..0xdc00).contains(&number)
    };
    let unfinished = match (bytes.get(start), after.split_first()) {
        (Some(b'%'), _) => after.len() < 2 && is_hex(after),
        (_, None) => true,
        (_, Some((b'u', [b'{', digits @ ..]))) => {
            digits.len() <= BRACED_DIGITS_MAX && is_hex(digits)
        }
        (_, Some((b'u', digits))) => {
            let escape = bytes.get(start..).unwrap_or_default();
            (digits.len() < 4 && is_hex(digits)) || (digits.len() == 4 && is_first_half(escape))
        }
        (_, Some((b'x', digits))) => digits.len() < 2 && is_hex(digits),
        _ => false,
    };
    if !unfinished {
        return None;
    }
    let before = start.checked_sub(6);
    let before = before.filter(|at| bytes.get(*at..start).is_some_and(is_first_half));
    let mut start = before.unwrap_or(start);
    // A run of backslashes is one escape at some depth.
    while start > 0 && bytes.get(start - 1) == Some(&b'\\') {
        start -= 1;
    }
    Some(start)
}
