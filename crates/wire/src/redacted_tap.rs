//! A stream sink behind which no secret is seen, though it comes piece by piece.

use std::sync::{Mutex, MutexGuard, PoisonError};

use toolgate_kernel::redact::{Redactor, StreamRedactor};
use toolgate_runtime::port::{Streamed, Tap};

/// Redacts words and thoughts on their way to another sink.
pub(crate) struct RedactedTap<'a> {
    redactor: &'a Redactor,
    tap: Tap<'a>,
    held: Mutex<HeldText>,
}

/// What may be the beginning of a secret and is not shown yet.
#[derive(Default)]
struct HeldText {
    words: StreamRedactor,
    thoughts: StreamRedactor,
}

impl<'a> RedactedTap<'a> {
    pub(crate) fn new(redactor: &'a Redactor, tap: Tap<'a>) -> Self {
        Self { redactor, tap, held: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, HeldText> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what can be shown of a piece.
    pub(crate) fn pass(&self, streamed: Streamed<'_>) {
        let mut held = self.held();
        match streamed {
            Streamed::Text(text) => {
                (self.tap)(Streamed::Text(&held.words.push(self.redactor, text)));
            }
            Streamed::Thought(text) => {
                (self.tap)(Streamed::Thought(&held.thoughts.push(self.redactor, text)));
            }
            Streamed::Call { name, bytes } => {
                (self.tap)(Streamed::Call { name: &self.redactor.redact(name), bytes });
            }
            // Text is held back after it was redacted.
            Streamed::Held(_)
            | Streamed::Freed(_)
            | Streamed::Counted(_)
            | Streamed::Waits { .. } => (self.tap)(streamed),
            Streamed::Again => {
                *held = HeldText::default();
                (self.tap)(Streamed::Again);
            }
        }
    }

    /// Shows the rest: nothing more comes.
    pub(crate) fn end(&self) {
        let HeldText { mut words, mut thoughts } = std::mem::take(&mut *self.held());
        let (words, thoughts) = (words.finish(self.redactor), thoughts.finish(self.redactor));
        if !thoughts.is_empty() {
            (self.tap)(Streamed::Thought(&thoughts));
        }
        if !words.is_empty() {
            (self.tap)(Streamed::Text(&words));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_kernel::hidden::Hidden;

    const KEY: &str = "sk-CANARY/0123+456789";

    #[test]
    fn a_secret_that_comes_in_pieces_is_not_shown() {
        let redactor = Redactor::new(&[Hidden::new(KEY)]);
        let text = format!("Your key is {KEY}, is it ä not? sk-CAN");
        for size in 1..text.len() {
            let shown = Mutex::new((String::new(), String::new()));
            let tap = |streamed: Streamed<'_>| match streamed {
                Streamed::Text(text) => shown.lock().unwrap().0.push_str(text),
                Streamed::Thought(text) => shown.lock().unwrap().1.push_str(text),
                Streamed::Call { name, .. } => assert!(!name.contains(KEY), "{name}"),
                Streamed::Held(_)
                | Streamed::Freed(_)
                | Streamed::Again
                | Streamed::Counted(_)
                | Streamed::Waits { .. } => {}
            };
            let redacted = RedactedTap::new(&redactor, &tap);
            let letters: Vec<char> = text.chars().collect();
            for piece in letters.chunks(size) {
                let piece: String = piece.iter().collect();
                redacted.pass(Streamed::Thought(&piece));
                redacted.pass(Streamed::Text(&piece));
            }
            redacted.pass(Streamed::Call { name: KEY, bytes: 3 });
            redacted.end();
            let wanted = "Your key is ***, is it ä not? sk-CAN".to_owned();
            assert_eq!(*shown.lock().unwrap(), (wanted.clone(), wanted), "{size}");
        }
    }
}
