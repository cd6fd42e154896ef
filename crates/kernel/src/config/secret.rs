//! Decides how a secret is written down, and that it is shown nowhere.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// A secret: the word itself, or where to find it: `env:NAME`, `file:PATH`, or a text with
/// `${NAME}` in it. A literal is never printed and never logged; a reference is shown as it is
/// written, because a name or a path is no secret and decides what is read.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Secret(String);

/// What a serialised configuration has in place of a literal secret.
pub(super) const LITERAL: &str = "literal";

/// A part of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretPart<'a> {
    /// The word itself.
    Word(&'a str),
    /// A variable of the environment.
    Variable(&'a str),
    /// A file that holds nothing else.
    File(&'a str),
}

/// A secret that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretRefusal {
    /// The reference is not one.
    #[error("a secret is written as env:NAME, file:PATH or ${{NAME}}, or as the word itself")]
    Form,
    /// The variable is not there, or empty.
    #[error("the variable {0} is not set")]
    Variable(String),
    /// The file is not there, or empty.
    #[error("the file {0} cannot be read or is empty")]
    File(String),
}

impl Secret {
    /// A secret as somebody wrote it.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// What it is made of; refused when a reference is not one.
    pub fn parts(&self) -> Result<Vec<SecretPart<'_>>, SecretRefusal> {
        let text = self.0.as_str();
        if text.trim().is_empty() {
            return Err(SecretRefusal::Form);
        }
        if let Some(name) = text.strip_prefix("env:") {
            return variable(name).map(|part| vec![part]);
        }
        if let Some(path) = text.strip_prefix("file:") {
            let given = !path.trim().is_empty();
            return given.then(|| vec![SecretPart::File(path)]).ok_or(SecretRefusal::Form);
        }
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) = after.split_once('}').ok_or(SecretRefusal::Form)?;
            if !before.is_empty() {
                parts.push(SecretPart::Word(before));
            }
            parts.push(variable(name)?);
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(SecretPart::Word(rest));
        }
        Ok(parts)
    }

    /// The secret as it is written, with `mask` in place of every literal part. A text that is not a
    /// valid reference is a literal.
    pub(super) fn without_literals(&self, mask: &str) -> String {
        let Ok(parts) = self.parts() else { return mask.to_owned() };
        let whole = self.0.starts_with("env:") || self.0.starts_with("file:");
        let written = parts.into_iter().map(|part| match part {
            SecretPart::Word(_) => mask.to_owned(),
            SecretPart::Variable(_) | SecretPart::File(_) if whole => self.0.clone(),
            SecretPart::Variable(name) => format!("${{{name}}}"),
            SecretPart::File(path) => format!("file:{path}"),
        });
        written.collect()
    }

    /// Whether there is nothing to look up.
    pub(super) fn is_literal(&self) -> bool {
        let word = |part: &SecretPart<'_>| matches!(part, SecretPart::Word(_));
        self.parts().is_ok_and(|parts| parts.iter().all(word))
    }

    /// The text of the value of an environment variable with this name, where neither the name nor
    /// the text looks like a secret.
    pub(super) fn plain_variable(&self, name: &str) -> Option<&str> {
        let plain = self.is_literal() && !is_secret(name) && !holds_secret(&self.0);
        plain.then_some(self.0.as_str())
    }

    /// The secret itself; `look` finds variables and files. What is missing or empty is refused:
    /// nothing is ever sent in its place.
    pub fn resolve(
        &self,
        look: impl Fn(SecretPart<'_>) -> Option<String>,
    ) -> Result<String, SecretRefusal> {
        let mut out = String::new();
        for part in self.parts()? {
            let found = || look(part).map(|text| text.trim().to_owned()).filter(|t| !t.is_empty());
            match part {
                SecretPart::Word(word) => out.push_str(word),
                SecretPart::Variable(name) => {
                    out.push_str(&found().ok_or_else(|| SecretRefusal::Variable(name.to_owned()))?)
                }
                SecretPart::File(path) => {
                    out.push_str(&found().ok_or_else(|| SecretRefusal::File(path.to_owned()))?);
                }
            }
        }
        Ok(out)
    }
}

fn variable(name: &str) -> Result<SecretPart<'_>, SecretRefusal> {
    let legal = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    legal.then_some(SecretPart::Variable(name)).ok_or(SecretRefusal::Form)
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.without_literals(LITERAL))
    }
}

/// Whether what stands under a key is kept out of everything that is shown.
pub(super) fn is_secret(key: &str) -> bool {
    const WORDS: &[&str] =
        &["token", "secret", "password", "authorization", "auth", "headers", "env"];
    let key = key.to_lowercase();
    let parts: Vec<&str> = key.split(['_', '-', '.']).collect();
    // `key` alone is also the name of a note.
    let is_key = parts.len() > 1 && parts.contains(&"key");
    is_key || key.contains("apikey") || WORDS.iter().any(|word| parts.contains(word))
}

/// Whether a text holds a secret by itself: its colon was forgotten, or it is an address with a
/// password, or with a key in its query.
pub(super) fn holds_secret(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let is_key = |word: &str| !word.contains('.') && is_secret(word);
    let forgotten = words.next().is_some_and(is_key) && words.next().is_some();
    let address = text.split_once("://").and_then(|(_, rest)| rest.split('/').next());
    let query = text.split_once("://").and_then(|(_, rest)| rest.split_once('?'));
    let mut asked = query.into_iter().flat_map(|(_, query)| query.split('&'));
    let names_one = |pair: &str| {
        let name = pair.split('=').next().unwrap_or_default();
        name.eq_ignore_ascii_case("key") || is_secret(name)
    };
    forgotten || address.is_some_and(|address| address.contains('@')) || asked.any(names_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_may_hold_a_secret_by_itself() {
        for text in [
            "api_key sk-CANARY",
            "http://ada:word@host/v1",
            "token abc",
            "https://host/v1?a=1&key=x",
            "https://host?api_key=x",
        ] {
            assert!(holds_secret(text), "{text}");
        }
        for text in [
            "http://host/a@b",
            "https://host/v1?api-version=1",
            "key?",
            "Keep the secret.",
            "api_key",
            "a note on tokens",
            "args.key == 1",
        ] {
            assert!(!holds_secret(text), "{text}");
        }
    }

    #[test]
    fn references_are_followed_and_nothing_is_made_up() {
        let look = |part: SecretPart<'_>| match part {
            SecretPart::Variable("SET") => Some("hush\n".to_owned()),
            SecretPart::File("key.txt") => Some("from file".to_owned()),
            SecretPart::Variable("BLANK") => Some(" ".to_owned()),
            SecretPart::Word(_) | SecretPart::Variable(_) | SecretPart::File(_) => None,
        };
        for (text, wanted) in [
            ("lm-studio", Some("lm-studio")),
            ("env:SET", Some("hush")),
            ("${SET}", Some("hush")),
            ("Bearer ${SET}!", Some("Bearer hush!")),
            ("file:key.txt", Some("from file")),
            ("${NOT_SET}", None),
            ("env:BLANK", None),
            ("file:gone", None),
            ("${SET", None),
            ("env:", None),
            ("${}", None),
            ("", None),
        ] {
            let found = Secret::new(text).resolve(look);
            assert_eq!(found.as_deref().ok(), wanted, "{text}: {found:?}");
        }
    }

    #[test]
    fn literals_are_never_shown() {
        let secret = Secret::new("sk-CANARY");
        assert!(!format!("{secret:?}").contains("CANARY"));
        for (text, shown) in [
            ("sk-CANARY", "literal"),
            ("env:NAME", "env:NAME"),
            ("file:~/key CANARY", "file:~/key CANARY"),
            ("${NAME}", "${NAME}"),
            ("Bearer CANARY ${NAME}CANARY", "literal${NAME}literal"),
            ("CANARY${", "literal"),
            ("env:not a name CANARY", "literal"),
            ("", "literal"),
        ] {
            assert_eq!(serde_json::to_value(Secret::new(text)).unwrap(), shown, "{text}");
        }
    }
}
