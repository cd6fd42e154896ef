//! Decides which file a path names: one form for policies and tools, inside the project only.

/// Why a path is refused. The model reads this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathRefusal {
    /// It leads out of the project folder.
    #[error("leads out of the project folder: use a path inside it")]
    Outside,
    /// It names the project's own law or log, or what git obeys.
    #[error("is reserved: no tool may reach it")]
    Reserved,
    /// It has characters that would show another name than they mean.
    #[error("contains the invisible or control character U+{0:04X}: leave it out")]
    Deceptive(u32),
    /// There is nothing in it, or too much.
    #[error("must name a file with at most 400 bytes")]
    Length,
}

/// Longest path, in bytes.
const PATH_BYTES_MAX: usize = 400;

/// Names at the top of a project that no tool reaches, in any case.
const RESERVED: &[&str] = &["toolgate.yaml", "toolgate.yml", ".toolgate"];

/// A name that no tool reaches anywhere: git runs what it finds there (ADR 0026).
const GIT: &str = ".git";

/// A file that no tool reaches anywhere: a folder with it, `objects` and `refs` is a repository, and
/// git obeys what stands beside it.
const GIT_HEAD: &str = "head";

/// The one form of a path inside the project: no leading slash, no `.`, no `..`.
///
/// With a mount point an absolute path must lie under it, component by component; without one a
/// leading slash means the project folder itself.
pub fn project_path(given: &str, mount: Option<&str>) -> Result<String, PathRefusal> {
    if is_plain(given) {
        return Ok(given.to_owned());
    }
    if let Some(bad) = given.chars().find(|c| deceptive(*c)) {
        return Err(PathRefusal::Deceptive(u32::from(bad)));
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in given.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop().ok_or(PathRefusal::Outside)?),
            name => parts.push(name),
        }
    }
    if let Some(mount) = mount.filter(|_| given.starts_with(['/', '\\'])) {
        let mount: Vec<&str> = mount.split('/').filter(|part| !part.is_empty()).collect();
        parts = parts.strip_prefix(mount.as_slice()).ok_or(PathRefusal::Outside)?.to_vec();
    }
    // Windows drive letters and alternate streams mean nothing good anywhere.
    if parts.iter().any(|part| part.contains(':')) {
        return Err(PathRefusal::Outside);
    }
    // Some file systems drop trailing dots and spaces, so a reserved name is compared without.
    let bare = |part: &&str| part.trim_end_matches(['.', ' ']).to_lowercase();
    let first = parts.first().map(bare);
    if first.is_some_and(|first| RESERVED.contains(&first.as_str()))
        || parts.iter().map(bare).any(|part| part == GIT)
        || parts.last().map(bare).is_some_and(|name| name == GIT_HEAD)
    {
        return Err(PathRefusal::Reserved);
    }
    let path = parts.join("/");
    if path.is_empty() || path.len() > PATH_BYTES_MAX {
        return Err(PathRefusal::Length);
    }
    Ok(path)
}

/// Whether a path is in its one form at a glance: common characters, and nothing to resolve.
pub(crate) fn is_plain(given: &str) -> bool {
    let common = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let begins = |text: &[u8], name: &str| {
        text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()))
    };
    let named = |part: &[u8]| {
        let is_git = begins(part, GIT) || begins(part, GIT_HEAD);
        part.iter().any(|byte| *byte != b'.') && part.iter().all(common) && !is_git
    };
    let reserved = |name: &&str| begins(given.as_bytes(), name);
    given.len() <= PATH_BYTES_MAX
        && given.as_bytes().split(|byte| *byte == b'/').all(named)
        && !RESERVED.iter().any(reserved)
}

/// Characters that make a name look like another one.
fn deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{feff}' | '\u{180e}' | '\u{2028}' | '\u{2029}')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_plain_is_the_form_itself() {
        for path in ["a", "src/main.rs", "notes/.a/b-c_d.md", "..a", "toolgate"] {
            assert!(is_plain(path), "{path}");
        }
        for path in [
            "",
            "/a",
            "a/",
            "a//b",
            ".",
            "a/..",
            "a\\b",
            "c:d",
            "é",
            "a b",
            "ToolGate.yaml/x",
            "a/.GIT/b",
        ] {
            assert!(!is_plain(path), "{path}");
        }
        assert!(!is_plain(&"a".repeat(401)));
    }

    #[test]
    fn one_file_has_one_path() {
        for path in
            [".gitignore", ".github/workflows/ci.yml", "a.git/b", "git/c", "head/a.md", "HEAD.md"]
        {
            assert_eq!(project_path(path, None).as_deref(), Ok(path));
        }
        for same in ["a/b.md", "/a/b.md", "./a//b.md", "a/x/../b.md", "a\\b.md"] {
            assert_eq!(project_path(same, None).as_deref(), Ok("a/b.md"), "{same}");
        }
        let mounted = |path| project_path(path, Some("/workspace/allowed"));
        assert_eq!(mounted("/workspace/allowed/x").as_deref(), Ok("x"));
        assert_eq!(mounted("x").as_deref(), Ok("x"));
        assert_eq!(mounted("/workspace/allowed_evil/x"), Err(PathRefusal::Outside));
        assert_eq!(mounted("/workspace/allowed\" /x"), Err(PathRefusal::Outside));
    }

    #[test]
    fn what_leads_elsewhere_is_refused() {
        let refused = [
            ("../../../../etc/passwd", PathRefusal::Outside),
            ("a/../../b", PathRefusal::Outside),
            ("C:/x", PathRefusal::Outside),
            ("toolgate.yaml", PathRefusal::Reserved),
            ("/TOOLGATE.yaml", PathRefusal::Reserved),
            ("x/../.toolgate/log.db", PathRefusal::Reserved),
            (".toolgate. /log.db", PathRefusal::Reserved),
            (".git", PathRefusal::Reserved),
            (".git/hooks/pre-commit", PathRefusal::Reserved),
            ("sub/.Git. /config", PathRefusal::Reserved),
            ("docs/HEAD", PathRefusal::Reserved),
            ("head", PathRefusal::Reserved),
            ("file\u{202e}txt.exe", PathRefusal::Deceptive(0x202e)),
            ("a\u{0}b", PathRefusal::Deceptive(0)),
            ("", PathRefusal::Length),
            ("/", PathRefusal::Length),
        ];
        for (path, refusal) in refused {
            assert_eq!(project_path(path, None), Err(refusal), "{path:?}");
        }
    }
}
