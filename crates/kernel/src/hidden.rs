//! Decides that a secret which was looked up is shown nowhere.

use std::fmt;
use std::sync::Arc;

/// A text that nobody sees: it is not shown in messages, logs or traces.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden {
    text: Arc<str>,
    open: bool,
}

impl Hidden {
    /// Hides a secret.
    pub fn new(secret: impl AsRef<str>) -> Self {
        Self { text: secret.as_ref().into(), open: false }
    }

    /// Something that is written down in the open, such as the name of an application. It is not
    /// printed, but a reply that has it in it is left as it is.
    pub fn open(text: impl AsRef<str>) -> Self {
        Self { open: true, ..Self::new(text) }
    }

    /// Whether a model may say it: it is written where anybody reads it.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// The text, for whoever sends it where it belongs.
    pub fn reveal(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret = Hidden::new("canary");
        assert!(!format!("{secret:?} {:?}", (&secret, 1)).contains("canary"));
        assert_eq!(secret.reveal(), "canary");
        assert!(Hidden::open("canary").is_open() && !secret.is_open());
    }
}
