//! Decides which headers can be sent as they are written down.

use super::secret::{Secret, SecretPart};

/// Headers that say how a request itself is written; nobody else sets them.
pub const OWN_HEADERS: &[&str] =
    &["host", "content-length", "content-type", "transfer-encoding", "connection", "upgrade"];

/// What the protocol itself sends to an MCP server, besides.
const OWN_SERVER_HEADERS: &[&str] = &[
    "accept",
    "mcp-session-id",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
    "last-event-id",
];

/// Whether a request to a model has this header by itself.
pub(super) fn is_own(name: &str) -> bool {
    OWN_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// Whether a request to an MCP server has this header by itself.
pub(super) fn is_own_of_server(name: &str) -> bool {
    is_own(name) || OWN_SERVER_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// Whether a header of this name can be written down for an MCP server.
pub fn is_server_header(name: &str) -> bool {
    is_name(name) && !is_own_of_server(name)
}

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
        for (name, model, server) in [
            ("Host", true, true),
            ("upgrade", true, true),
            ("Accept", false, true),
            ("mcp-session-id", false, true),
            ("x-team", false, false),
        ] {
            assert_eq!((is_own(name), is_own_of_server(name)), (model, server), "{name}");
            assert_eq!(is_server_header(name), !server, "{name}");
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
