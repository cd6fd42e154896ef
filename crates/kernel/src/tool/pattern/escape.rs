//! Escapes in a pattern: what follows a backslash.

use super::class::{ClassSet, DIGITS, SPACE, WORD};
use super::translate::{Source, UnitMode};

/// What an escape stands for.
#[derive(Debug)]
pub(super) enum Escape {
    /// A code point, which may be half of a surrogate pair.
    Char(u32),
    /// A set of characters.
    Set(ClassSet),
    /// The begin or end of a word.
    Boundary,
}

/// Unicode properties by their names in ECMA-262, which are exact, and in the `regex` crate. Only
/// those are taken that both have in the same sense.
const PROPERTIES: &[(&str, &str)] = &[
    ("ASCII", "ASCII"),
    ("Alpha", "Alphabetic"),
    ("Alphabetic", "Alphabetic"),
    ("Any", "Any"),
    ("L", "L"),
    ("Letter", "L"),
    ("Ll", "Ll"),
    ("Lm", "Lm"),
    ("Lo", "Lo"),
    ("Lowercase", "Lowercase"),
    ("Lowercase_Letter", "Ll"),
    ("Lt", "Lt"),
    ("Lu", "Lu"),
    ("M", "M"),
    ("Mark", "M"),
    ("Mc", "Mc"),
    ("Me", "Me"),
    ("Mn", "Mn"),
    ("N", "N"),
    ("Nd", "Nd"),
    ("Nl", "Nl"),
    ("No", "No"),
    ("Decimal_Number", "Nd"),
    ("Number", "N"),
    ("P", "P"),
    ("Pc", "Pc"),
    ("Pd", "Pd"),
    ("Pe", "Pe"),
    ("Pf", "Pf"),
    ("Pi", "Pi"),
    ("Po", "Po"),
    ("Ps", "Ps"),
    ("Punctuation", "P"),
    ("S", "S"),
    ("Sc", "Sc"),
    ("Separator", "Z"),
    ("Sk", "Sk"),
    ("Sm", "Sm"),
    ("So", "So"),
    ("Symbol", "S"),
    ("Uppercase", "Uppercase"),
    ("Uppercase_Letter", "Lu"),
    ("White_Space", "White_Space"),
    ("Z", "Z"),
    ("Zl", "Zl"),
    ("Zp", "Zp"),
    ("Zs", "Zs"),
];

/// Scripts that are taken, by their names in both.
const SCRIPTS: &[(&str, &str)] = &[
    ("Arabic", "Script=Arabic"),
    ("Cyrillic", "Script=Cyrillic"),
    ("Devanagari", "Script=Devanagari"),
    ("Greek", "Script=Greek"),
    ("Han", "Script=Han"),
    ("Hangul", "Script=Hangul"),
    ("Hebrew", "Script=Hebrew"),
    ("Hiragana", "Script=Hiragana"),
    ("Katakana", "Script=Katakana"),
    ("Latin", "Script=Latin"),
    ("Thai", "Script=Thai"),
];

/// Properties that are no general categories, so that `gc=` may not stand before them.
const BINARY: &[&str] =
    &["ASCII", "Alpha", "Alphabetic", "Any", "Lowercase", "Uppercase", "White_Space"];

/// An escape outside of a class, read after the backslash.
pub(super) fn outside_class(rest: &mut Source<'_>, mode: &mut UnitMode) -> Option<Escape> {
    let c = rest.next()?;
    match c {
        'b' => Some(Escape::Boundary),
        // Engines disagree on whether `\B` holds between the two halves of a surrogate pair.
        'B' => None,
        _ => common(c, rest, mode),
    }
}

/// An escape in a class, where `\b` is a backspace and `\-` a dash.
pub(super) fn in_class(rest: &mut Source<'_>, mode: &mut UnitMode) -> Option<Escape> {
    let c = rest.next()?;
    match c {
        'b' => Some(Escape::Char(0x08)),
        '-' => Some(Escape::Char('-'.into())),
        _ => common(c, rest, mode),
    }
}

fn common(c: char, rest: &mut Source<'_>, mode: &mut UnitMode) -> Option<Escape> {
    let point = match c {
        'd' | 'D' => return Some(Escape::Set(ClassSet::of(DIGITS, c == 'D'))),
        'w' | 'W' => return Some(Escape::Set(ClassSet::of(WORD, c == 'W'))),
        's' | 'S' => return Some(Escape::Set(ClassSet::of(SPACE, c == 'S'))),
        'p' | 'P' => {
            return property(rest).map(|name| Escape::Set(ClassSet::property(name, c == 'P')));
        }
        't' => 0x09,
        'n' => 0x0A,
        'v' => 0x0B,
        'f' => 0x0C,
        'r' => 0x0D,
        // Octal escapes are refused.
        '0' if !rest.peek().is_some_and(char::is_ascii_digit) => 0,
        'c' => u32::from(rest.next_if(char::is_ascii_alphabetic)?) % 32,
        'x' => hex(rest, 2)?,
        'u' => unicode(rest, mode)?,
        '^' | '$' | '\\' | '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|'
        | '/' => c.into(),
        // A letter or digit may have a meaning there, `_` is a letter, and these have none.
        _ if c == ' ' || (c.is_ascii_punctuation() && c != '_') => {
            mode.needs_utf16 = true;
            c.into()
        }
        _ => return None,
    };
    Some(Escape::Char(point))
}

/// A property in braces, read after `\p`.
fn property(rest: &mut Source<'_>) -> Option<&'static str> {
    rest.next_if_eq(&'{')?;
    let mut name = String::new();
    loop {
        match rest.next()? {
            '}' => break,
            c => name.push(c),
        }
    }
    let find = |table: &'static [(&str, &str)], name: &str| {
        table.iter().find(|(known, _)| *known == name).map(|(_, ours)| *ours)
    };
    match name.split_once('=') {
        None => find(PROPERTIES, &name),
        Some(("gc" | "General_Category", value)) if !BINARY.contains(&value) => {
            find(PROPERTIES, value)
        }
        Some(("sc" | "Script", value)) => find(SCRIPTS, value),
        Some(_) => None,
    }
}

/// A code point, read after `\u`: `{1F600}`, four digits, or twice four that are a surrogate pair.
fn unicode(rest: &mut Source<'_>, mode: &mut UnitMode) -> Option<u32> {
    if rest.next_if_eq(&'{').is_some() {
        // Without the flag this is a repeated `u`.
        mode.sees_astral = true;
        return braced(rest);
    }
    let unit = hex(rest, 4)?;
    if !(0xD800..=0xDBFF).contains(&unit) {
        return Some(unit);
    }
    mode.sees_astral = true;
    let mut ahead = rest.clone();
    let escaped = ahead.next() == Some('\\') && ahead.next() == Some('u');
    match hex(&mut ahead, 4).filter(|low| escaped && (0xDC00..=0xDFFF).contains(low)) {
        Some(low) => {
            *rest = ahead;
            Some(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))
        }
        None => Some(unit),
    }
}

/// A code point in braces, with any number of zeros before it.
fn braced(rest: &mut Source<'_>) -> Option<u32> {
    let mut point = rest.next()?.to_digit(16)?;
    loop {
        match rest.next()? {
            '}' => return Some(point),
            c => point = (point << 4) | c.to_digit(16)?,
        }
        if point > 0x10_FFFF {
            return None;
        }
    }
}

fn hex(rest: &mut Source<'_>, digits: usize) -> Option<u32> {
    let mut number = 0;
    for _ in 0..digits {
        number = (number << 4) | rest.next()?.to_digit(16)?;
    }
    Some(number)
}
