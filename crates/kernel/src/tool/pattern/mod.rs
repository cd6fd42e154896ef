//! Compiles the patterns of schemas. A pattern means what `new RegExp(pattern, "u")` of ECMA-262
//! means by it, and is matched in linear time. One that cannot be translated exactly is refused.

mod class;
mod escape;
mod translate;

use std::fmt;

use regex::{Regex, RegexBuilder};

/// Largest compiled pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// A compiled pattern that is shown as it was written.
#[derive(Debug)]
pub(super) struct Pattern {
    source: String,
    regex: Regex,
}

impl Pattern {
    pub(super) fn compile(source: &str) -> Option<Self> {
        let translated = translate::translate(source)?;
        let regex = RegexBuilder::new(&translated).size_limit(PATTERN_BYTES_MAX).build().ok()?;
        Some(Self { source: source.to_owned(), regex })
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
