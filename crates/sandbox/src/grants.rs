//! Collects the paths a program may open, around those that no program may have.
//!
//! Landlock knows no exceptions inside a granted folder. So a folder that holds a protected path is
//! granted child by child; names that are made in it later are not granted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::SandboxError;
use crate::policy::{PathAccess, PathGrant};

/// Paths of one program at most; more do not fit into an argument anyway.
const PATHS_MAX: usize = 4_096;

/// What became of a path that was to be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GrantOutcome {
    /// It is granted.
    Granted,
    /// Its children are granted, those that are there now.
    ChildByChild,
    /// It is protected, or part of something that is.
    Protected,
}

/// The grants so far.
pub(crate) struct GrantList {
    protected: Vec<PathBuf>,
    grants: BTreeMap<PathBuf, PathAccess>,
}

impl GrantList {
    /// No grants, and what must not be among them.
    pub(crate) fn new(protected: &[PathBuf]) -> Self {
        let protected = protected.iter().map(|path| resolved(path)).collect();
        Self { protected, grants: BTreeMap::new() }
    }

    /// Grants a path that has no symbolic links in it.
    pub(crate) fn add(
        &mut self,
        path: &Path,
        access: PathAccess,
    ) -> Result<GrantOutcome, SandboxError> {
        if self.protected.iter().any(|kept| path.starts_with(kept)) {
            return Ok(GrantOutcome::Protected);
        }
        if !self.holds_protected(path) {
            self.insert(path, access)?;
            return Ok(GrantOutcome::Granted);
        }
        self.insert(path, PathAccess::List)?;
        let children = std::fs::read_dir(path).into_iter().flatten().flatten();
        for child in children {
            // A link is not followed: what it leads to is granted under its own name or not at all.
            if child.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                self.add(&child.path(), access)?;
            }
        }
        Ok(GrantOutcome::ChildByChild)
    }

    /// Grants a path that toolgate chose itself, inside a folder that is protected otherwise.
    pub(crate) fn add_own(&mut self, path: &Path, access: PathAccess) -> Result<(), SandboxError> {
        self.insert(path, access)
    }

    /// Whether a protected path lies beneath this one, be it there already or not.
    pub(crate) fn holds_protected(&self, path: &Path) -> bool {
        self.protected.iter().any(|kept| kept.starts_with(path))
    }

    /// All of them.
    pub(crate) fn into_paths(self) -> Vec<PathGrant> {
        self.grants.into_iter().map(|(path, access)| PathGrant { path, access }).collect()
    }

    fn insert(&mut self, path: &Path, access: PathAccess) -> Result<(), SandboxError> {
        // A name that is not text cannot be written into the policy, and is not granted.
        if path.to_str().is_none() {
            return Ok(());
        }
        let held = self.grants.entry(path.to_owned()).or_insert(access);
        *held = access.max(*held);
        let paths = self.grants.len();
        if paths > PATHS_MAX { Err(SandboxError::TooManyPaths { paths }) } else { Ok(()) }
    }
}

/// A path without symbolic links, as far as it is there.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|part| Some((part, part.canonicalize().ok()?)));
    match found {
        Some((part, real)) => match path.strip_prefix(part) {
            Ok(rest) if rest.as_os_str().is_empty() => real,
            Ok(rest) => real.join(rest),
            Err(_) => path.to_owned(),
        },
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(list: GrantList, top: &Path) -> Vec<(String, PathAccess)> {
        let short = |path: &Path| path.strip_prefix(top).unwrap().display().to_string();
        list.into_paths().into_iter().map(|grant| (short(&grant.path), grant.access)).collect()
    }

    #[test]
    fn a_folder_around_a_protected_path_is_granted_by_child() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        for name in ["src", "deep/inner", "deep/other", ".toolgate"] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        fs::write(top.join("toolgate.yaml"), "").unwrap();
        fs::write(top.join("readme"), "").unwrap();
        std::os::unix::fs::symlink(top.join(".toolgate"), top.join("link")).unwrap();
        // The last one is not there yet.
        let protected = [".toolgate", "toolgate.yaml", "deep/inner/key"].map(|name| top.join(name));
        let mut list = GrantList::new(&protected);
        assert_eq!(list.add(&top, PathAccess::Write).unwrap(), GrantOutcome::ChildByChild);
        let expected = [
            ("", PathAccess::List),
            ("deep", PathAccess::List),
            ("deep/inner", PathAccess::List),
            ("deep/other", PathAccess::Write),
            ("readme", PathAccess::Write),
            ("src", PathAccess::Write),
        ];
        assert_eq!(names(list, &top), expected.map(|(name, access)| (name.to_owned(), access)));
    }

    #[test]
    fn a_protected_path_and_what_is_in_it_is_never_granted() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("keys/deep")).unwrap();
        std::os::unix::fs::symlink(top.join("keys"), top.join("alias")).unwrap();
        // It is protected under its real name, however it was named.
        for named in ["keys", "alias", "alias/../keys"] {
            let mut list = GrantList::new(&[top.join(named)]);
            for path in ["keys", "keys/deep"] {
                let added = list.add(&top.join(path), PathAccess::Read).unwrap();
                assert_eq!(added, GrantOutcome::Protected, "{named} {path}");
            }
        }
    }

    #[test]
    fn the_wider_of_two_grants_counts() {
        let mut list = GrantList::new(&[]);
        for access in [PathAccess::Read, PathAccess::Write, PathAccess::List] {
            list.add(Path::new("/srv"), access).unwrap();
        }
        assert_eq!(names(list, Path::new("/")), [("srv".to_owned(), PathAccess::Write)]);
    }
}
