//! Regular expressions of `matches`: literal, compiled at load, linear in the text, and paid for.

use regex::{Regex, RegexBuilder, bytes};

use super::PATTERN_BYTES_MAX;
use super::fault::{EvaluationFault, ExpressionFault};
use super::meter::Meter;

/// How deep groups may be nested.
const GROUPS_MAX: u32 = 32;
const KIB: usize = 1024;

/// A compiled pattern and what a match with it costs.
#[derive(Clone)]
pub(super) struct Pattern {
    regex: Regex,
    /// Steps for each unit of text. A match takes up to text times pattern, so a pattern with
    /// large repetitions pays more for the same text.
    weight: usize,
}

impl Pattern {
    pub(super) fn compile(source: &str) -> Result<Pattern, ExpressionFault> {
        let mut builder = RegexBuilder::new(source);
        let built = builder.size_limit(PATTERN_BYTES_MAX).nest_limit(GROUPS_MAX).build();
        let regex = built.map_err(|error| refusal(source, &error))?;
        Ok(Pattern { regex, weight: weigh(source) })
    }

    pub(super) fn is_match(&self, meter: &mut Meter, text: &str) -> Result<bool, EvaluationFault> {
        meter.spend_text(text.len().saturating_mul(self.weight))?;
        Ok(self.regex.is_match(text))
    }
}

/// What a match costs, from the size of the pattern in KiB, rounded up to a power of two.
///
/// Unicode classes are left out: they make a program large, but not a match slow.
fn weigh(source: &str) -> usize {
    let mut plain = bytes::RegexBuilder::new(source);
    plain.unicode(false).nest_limit(GROUPS_MAX);
    let plain = sizes().find(|kib| plain.size_limit(kib * KIB).build().is_ok());
    // A pattern such as \p{L} has no plain form; its classes take 64 KiB, so its size counts less.
    let kib = plain.unwrap_or_else(|| {
        let mut full = RegexBuilder::new(source);
        let full = sizes().find(|kib| full.size_limit(kib * KIB).build().is_ok());
        full.map_or(PATTERN_BYTES_MAX / KIB, |kib| kib.div_ceil(32))
    });
    // Measured: on text made for it, 16 KiB of pattern take 3 µs a byte and 256 KiB take 20 µs.
    kib * kib.min(4)
}

fn sizes() -> impl Iterator<Item = usize> {
    (0..).map(|power| 1 << power).take_while(|kib| kib * KIB <= PATTERN_BYTES_MAX)
}

fn refusal(source: &str, error: &regex::Error) -> ExpressionFault {
    let pattern = source.to_owned();
    if matches!(error, regex::Error::CompiledTooBig(_)) {
        return ExpressionFault::PatternTooLarge { pattern };
    }
    // The last line names the fault; the lines before only draw the pattern again.
    let report = error.to_string();
    let last = report.lines().last().unwrap_or_default();
    let reason = last.strip_prefix("error: ").unwrap_or(last).to_owned();
    ExpressionFault::BadPattern { pattern, reason }
}
