//! Guesses from the last words of a program which path it missed, and which key grants it.

use std::path::Path;

use crate::policy::{PathAccess, SandboxPolicy};

/// What a program was probably refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The path, or what else it was.
    pub what: String,
    /// What to write in the configuration.
    pub advice: String,
}

/// How programs say that something was refused. Node does not find what it may not read.
const REFUSED: &[&str] = &[
    "permission denied",
    "eacces",
    "eperm",
    "operation not permitted",
    "access is denied",
    "cannot find module",
];

/// How they say that it was to be changed.
const CHANGES: &[&str] = &[
    "mkdir", "makedirs", "write", "creat", "unlink", "rename", "rmdir", "remove", "'w'", "save",
    "lock", "touch", "copyfile",
];

/// Words of programs that speak to a service of this computer over a Unix socket.
const SOCKETS: &[&str] = &[".sock", "docker daemon", "unix://", "unix socket", "af_unix"];

/// Finds the first path in the error output of a program that its sandbox does not grant.
pub fn explain_denial(stderr: &str, policy: &SandboxPolicy) -> Option<Denial> {
    for line in stderr.lines() {
        let small = line.to_lowercase();
        let refused = REFUSED.iter().any(|word| small.contains(word));
        let socket = SOCKETS.iter().any(|word| small.contains(word));
        if socket && !policy.unix_sockets && (refused || small.contains("connect")) {
            let what = "a Unix socket".to_owned();
            let advice = "write `unix_sockets: true` under `sandbox:`, and the path of the socket \
                          under `write:`. Whoever listens there then acts for it, so the isolation \
                          is only partial"
                .to_owned();
            return Some(Denial { what, advice });
        }
        if !refused {
            continue;
        }
        let change = CHANGES.iter().any(|word| small.contains(word));
        let denied = paths(line).find_map(|path| missing(path, change, policy));
        if let Some((path, key)) = denied {
            let advice = format!("write `{key}: [{path}]` under `sandbox:`, or a folder around it");
            return Some(Denial { what: path.to_owned(), advice });
        }
    }
    None
}

/// The absolute paths in a line, without quotes and punctuation around them.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let between = |c: char| c.is_whitespace() || "'\"`()[]<>,;".contains(c);
    let words = line.split(between).map(|word| word.trim_end_matches([':', '.']));
    words.filter(|word| word.starts_with('/') && word.len() > 1)
}

/// The key that would grant a path, where it is not granted.
fn missing<'p>(
    path: &'p str,
    change: bool,
    policy: &SandboxPolicy,
) -> Option<(&'p str, &'static str)> {
    let covering = policy.paths.iter().filter(|grant| Path::new(path).starts_with(&grant.path));
    let best = covering.map(|grant| grant.access).max();
    match best {
        Some(PathAccess::Write | PathAccess::Device) => None,
        Some(PathAccess::Read) => Some((path, "write")),
        Some(PathAccess::List) | None if change => Some((path, "write")),
        Some(PathAccess::List) | None => Some((path, "read")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::PathGrant;

    #[test]
    fn the_last_words_of_a_program_name_the_key_to_write() {
        let grant = |path: &str, access| PathGrant { path: path.into(), access };
        let policy = SandboxPolicy {
            paths: vec![
                grant("/usr", PathAccess::Read),
                grant("/srv/home", PathAccess::Write),
                grant("/srv/project", PathAccess::List),
            ],
            ..SandboxPolicy::default()
        };
        for (stderr, what, key) in [
            (
                "PermissionError: [Errno 13] Permission denied: '/srv/data/x.db'",
                "/srv/data/x.db",
                "read",
            ),
            (
                "Error: EACCES: permission denied, mkdir '/srv/project/out'",
                "/srv/project/out",
                "write",
            ),
            ("Error: EACCES: permission denied, open '/usr/x'", "/usr/x", "write"),
            (
                "node:fs\nx\nError: EACCES: permission denied, scandir '/srv/data'",
                "/srv/data",
                "read",
            ),
            (
                "Error [ERR_MODULE_NOT_FOUND]: Cannot find module '/srv/lib/x.js' imported from /srv/a.js",
                "/srv/lib/x.js",
                "read",
            ),
            ("cat: /srv/data: Permission denied", "/srv/data", "read"),
            (
                "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
                "a Unix socket",
                "unix_sockets: true",
            ),
            (
                "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.",
                "a Unix socket",
                "unix_sockets: true",
            ),
        ] {
            let denial = explain_denial(stderr, &policy).unwrap_or_else(|| panic!("{stderr}"));
            assert_eq!(denial.what, what, "{stderr}");
            assert!(denial.advice.contains(&format!("`{key}")), "{stderr}: {}", denial.advice);
        }
        for stderr in
            ["", "Traceback", "No such file: /srv/data", "Permission denied: '/srv/home/x'"]
        {
            assert_eq!(explain_denial(stderr, &policy), None, "{stderr}");
        }
    }
}
