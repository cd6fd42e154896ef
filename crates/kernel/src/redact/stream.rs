//! Redacts text that comes piece by piece.

use std::fmt;

use super::{Matcher, REDACTED, Redactor};

/// Redacts text that comes piece by piece: what may be the beginning of a secret waits.
#[derive(Default)]
pub struct StreamRedactor {
    held: String,
    /// More came than may wait and still could be a secret: nothing more is shown.
    closed: bool,
}

impl fmt::Debug for StreamRedactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamRedactor({} bytes wait)", self.held.len())
    }
}

impl StreamRedactor {
    /// Bytes that wait at least, and how many may wait for each byte of the longest form.
    const HELD_BYTES: (usize, usize) = (4 << 10, 12);

    /// What can be shown once this piece has come.
    pub fn push(&mut self, redactor: &Redactor, piece: &str) -> String {
        let patterns = redactor.patterns();
        if self.closed {
            return String::new();
        }
        if matches!(patterns.matcher, Matcher::Empty) {
            return std::mem::take(&mut self.held) + piece;
        }
        self.held.push_str(piece);
        let waits = self.held.split_off(patterns.safe_end(&self.held));
        let ready = std::mem::replace(&mut self.held, waits);
        let mut shown = patterns.redacted(&ready).unwrap_or(ready);
        let (least, each) = Self::HELD_BYTES;
        if self.held.len() > least.max(patterns.longest().saturating_mul(each)) {
            self.held.clear();
            self.closed = true;
            shown.push_str(REDACTED);
        }
        shown
    }

    /// What is left once nothing follows.
    pub fn finish(&mut self, redactor: &Redactor) -> String {
        let held = std::mem::take(&mut self.held);
        redactor.redact(&held).into_owned()
    }
}
