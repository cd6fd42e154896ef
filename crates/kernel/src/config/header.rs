//! Decides which headers can be sent as they are written down.

use super::secret::{Secret, SecretPart};

/// Headers that say how a request itself is written; nobody else sets them.
pub const OWN_HEADERS: &[&str] =
    &["host", "content-length", "content-type", "transfer-encoding", "connection", "upgrade"];

/// Whether this can be the name of a header: letters, digits and a few signs.
pub(super) fn is_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(legal)
}

/// Whether this can be sent in a header, as far as that is known before it is looked up: one line
/// of plain characters.
pub(super) fn is_value(secret: &Secret) -> bool {
    let parts = secret.parts().unwrap_or_default();
    let text: String = parts
        .iter()
        .map(|part| match part {
            SecretPart::Word(word) => word,
            SecretPart::Variable(_) | SecretPart::File(_) => "x",
        })
        .collect();
    text.trim().bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_a_plain_name_and_one_line() {
        for (name, legal) in [
            ("x-team", true),
            ("X_Team.2", true),
            ("", false),
            ("bad name", false),
            ("x:y", false),
            ("x\r\ny", false),
            ("größe", false),
        ] {
            assert_eq!(is_name(name), legal, "{name:?}");
        }
        for (value, legal) in [
            ("Bearer ${TOKEN}", true),
            ("env:TOKEN", true),
            ("file:key.txt", true),
            ("one line\n", true),
            ("two\nlines", false),
            ("two\n${TOKEN}", false),
            ("a\r\nx-other: b", false),
            ("größe", false),
        ] {
            assert_eq!(is_value(&Secret::new(value)), legal, "{value:?}");
        }
    }
}
