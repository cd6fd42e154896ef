//! Compiles the patterns of schemas. A pattern means what `new RegExp(pattern, "u")` of ECMA-262
//! means by it, and is matched in linear time. One that cannot be translated exactly is refused.

mod class;
mod escape;
mod translate;

use std::fmt;

use regex::{Regex, RegexBuilder};

/// Sizes of compiled patterns. The engine does not tell the size of one, so the first bound that it
/// keeps counts; the last is that of the largest pattern.
const PATTERN_BYTES: &[usize] = &[16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Compiled patterns of one schema, all together.
pub(super) const SCHEMA_PATTERN_BYTES_MAX: usize = 8 << 20;

/// A compiled pattern that is shown as it was written.
#[derive(Debug)]
pub(super) struct Pattern {
    source: String,
    regex: Regex,
    bytes_max: usize,
}

impl Pattern {
    pub(super) fn compile(source: &str) -> Option<Self> {
        let translated = translate::translate(source)?;
        let build = |max: usize| RegexBuilder::new(&translated).size_limit(max).build().ok();
        let (regex, bytes_max) =
            PATTERN_BYTES.iter().find_map(|max| build(*max).map(|regex| (regex, *max)))?;
        Some(Self { source: source.to_owned(), regex, bytes_max })
    }

    /// How large it is at most.
    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
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
