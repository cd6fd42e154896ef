//! The redactor of this process: every secret that is looked up is removed from everything it says.

use std::sync::LazyLock;

use toolgate_kernel::config::{Secret, SecretPart};
use toolgate_kernel::hidden::Hidden;
use toolgate_kernel::redact::Redactor;

use crate::trust::TrustedAccess;

/// Secrets belong to the process: a model may repeat what an MCP server let slip.
static REDACTOR: LazyLock<Redactor> = LazyLock::new(Redactor::default);

pub(crate) fn redactor() -> Redactor {
    REDACTOR.clone()
}

/// Adds every secret of the configuration that can be looked up, for commands that only show.
pub(crate) fn learn(access: &TrustedAccess) {
    for (name, secret) in access.file().secrets() {
        // One that is not there now cannot be removed; the log has none of them anyway.
        if let Ok(found) = access.look_up(secret) {
            redactor().add(&[hidden(name, secret, &found)]);
        }
    }
}

/// A value of the configuration, looked up. One that is written down in the open is no secret, unless
/// its name says so or it has a password in it.
pub(crate) fn hidden(name: &str, secret: &Secret, found: &str) -> Hidden {
    let written = secret
        .parts()
        .is_ok_and(|parts| parts.iter().all(|part| matches!(part, SecretPart::Word(_))));
    match written && !names_a_secret(name) && !has_password(found) {
        true => Hidden::open(found),
        false => Hidden::new(found),
    }
}

fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    const WORDS: &[&str] = &[
        "auth",
        "cookie",
        "credential",
        "dsn",
        "jwt",
        "key",
        "pass",
        "pwd",
        "secret",
        "signature",
        "token",
        "webhook",
    ];
    WORDS.iter().any(|word| name.contains(word)) || name == "pin" || name.ends_with("_pin")
}

/// Whether a value is an address such as `postgres://user:password@host`, or a list such as
/// `Server=db;Password=…`.
fn has_password(value: &str) -> bool {
    let small = value.to_ascii_lowercase();
    if ["password=", "pwd=", "secret=", "accountkey=", "token="].iter().any(|it| small.contains(it))
    {
        return true;
    }
    let user = value.split_once("://").and_then(|(_, rest)| rest.split_once('@'));
    user.is_some_and(|(user, _)| user.contains(':') && !user.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_in_the_open_is_no_secret_unless_it_looks_like_one() {
        for (name, value, open) in [
            ("REGION", "eu-west-1", true),
            ("API_KEY", "abcdefgh", false),
            ("DATABASE_URL", "postgres://u:Hunter2@db/x", false),
            ("DATABASE_URL", "postgres://db/x:1@y", true),
            ("CONNECTION", "Server=db;Password=hunter2", false),
            ("X", "${SOME_VARIABLE}", false),
        ] {
            let secret = Secret::new(value);
            assert_eq!(hidden(name, &secret, value).is_open(), open, "{name} {value}");
        }
    }
}
