//! Decides what a pattern in a schema means: what ECMA-262 says, in linear time.

use std::fmt;

use regex::{Regex, RegexBuilder};

/// Largest compiled pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// What these stand for to everybody else who reads the schema; here they would match more.
const ECMA: &[(char, &str)] = &[
    ('d', "[0-9]"),
    ('D', "[^0-9]"),
    ('w', "[A-Za-z0-9_]"),
    ('W', "[^A-Za-z0-9_]"),
    ('s', r"[\t\n\x0B\x0C\r\x{FEFF}\x{2028}\x{2029}\p{Zs}]"),
    ('S', r"[^\t\n\x0B\x0C\r\x{FEFF}\x{2028}\x{2029}\p{Zs}]"),
];

/// A compiled pattern that is shown as it was written.
#[derive(Debug)]
pub(super) struct Pattern {
    source: String,
    regex: Regex,
}

impl Pattern {
    pub(super) fn compile(source: &str) -> Option<Self> {
        let regex = RegexBuilder::new(&translated(source)).size_limit(PATTERN_BYTES_MAX).build();
        Some(Self { source: source.to_owned(), regex: regex.ok()? })
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

fn translated(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 16);
    let mut in_class = false;
    let mut chars = source.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped) => match ECMA.iter().find(|(letter, _)| *letter == escaped) {
                    Some((_, class)) => out.push_str(class),
                    None => out.extend([c, escaped]),
                },
                None => out.push(c),
            },
            '.' if !in_class => out.push_str(r"[^\n\r\x{2028}\x{2029}]"),
            _ => {
                in_class = (in_class || c == '[') && c != ']';
                out.push(c);
            }
        }
    }
    out
}
