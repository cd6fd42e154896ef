//! Finds protected files that have a second name: a hard link to one of them is that file, whatever
//! it is called.
//!
//! Only a file with several names can be one, so the search runs for those alone. A search that
//! cannot be finished is an error, and the file is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata};

use super::walk::{Identity, LAW, Root, identity, is_repository};

/// Most names that are looked at in one search.
const NAMES_MAX: usize = 500_000;

/// The protected files that have several names, by device and inode.
#[derive(Default)]
pub(super) struct ProtectedFiles {
    found: BTreeSet<(u64, u64)>,
    /// All other files with several names, as they were then.
    others: BTreeMap<(u64, u64), LinkState>,
    names: usize,
}

/// Changes whenever a file gets another name or loses one: when its inode changed, and how many
/// names it has.
type LinkState = (i64, i64, u64);

impl ProtectedFiles {
    /// Searches the project and the protected places outside it.
    pub(super) fn search(root: &Root) -> io::Result<Self> {
        let mut files = Self::default();
        files.below(&root.dir, root, Part::Top)?;
        for path in &root.more_law {
            files.kept(Path::new(path), root)?;
        }
        for place in &root.outside {
            files.outside(place, root)?;
        }
        Ok(files)
    }

    /// Whether a file is protected. The last search tells, unless the file is new or has other names
    /// since: a project may have very many files with several names.
    pub(super) fn is_one(root: &Root, found: &Metadata) -> io::Result<bool> {
        let mut searched = root.searched.lock().unwrap_or_else(PoisonError::into_inner);
        let before = identity(found).and_then(|identity| searched.others.get(&identity));
        if before.is_none_or(|before| Some(*before) != link_state(found)) {
            *searched = Self::search(root)?;
        }
        Ok(searched.contains(found))
    }

    pub(super) fn contains(&self, found: &Metadata) -> bool {
        identity(found).is_some_and(|identity| self.found.contains(&identity))
    }

    /// A file or a folder in the project that is kept from tools by its path.
    fn kept(&mut self, path: &Path, root: &Root) -> io::Result<()> {
        match present(root.dir.metadata(path))? {
            Some(found) if found.is_dir() => {
                self.below(&root.dir.open_dir(path)?, root, Part::Protected)
            }
            Some(found) => {
                self.take(&found);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A file or a folder outside the project, such as the one with the keys.
    fn outside(&mut self, place: &Path, root: &Root) -> io::Result<()> {
        match std::fs::metadata(place) {
            Ok(found) if found.is_dir() => {
                let folder = Dir::open_ambient_dir(place, ambient_authority())?;
                self.below(&folder, root, Part::Protected)
            }
            Ok(found) => {
                self.take(&Metadata::from_just_metadata(found));
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Looks at everything below a folder. Folders wait closed, because a process may have fewer
    /// open files than a project has folders.
    fn below(&mut self, top: &Dir, root: &Root, part: Part) -> io::Result<()> {
        let mut waiting = vec![(PathBuf::from("."), part)];
        while let Some((path, part)) = waiting.pop() {
            let Some(folder) = present(top.open_dir(&path))? else { continue };
            // Copies that wait to be put in place are linked there before they are removed here.
            if root.staging.is_some() && identity(&folder.dir_metadata()?) == root.staging {
                continue;
            }
            let part = match part {
                Part::Open if is_repository(&folder)? => Part::Protected,
                part @ (Part::Top | Part::Open | Part::Protected) => part,
            };
            for entry in folder.entries()? {
                let entry = entry?;
                self.count()?;
                let (name, kind) = (entry.file_name(), entry.file_type()?);
                let inner = part.inside(name.to_str().unwrap_or_default());
                let is_link_to_law = kind.is_symlink() && inner == Part::Protected;
                if kind.is_dir() || is_link_to_law {
                    waiting.push((path.join(&name), inner));
                }
                if kind.is_dir() {
                    continue;
                }
                // A link may lead out of its folder, as long as it stays in the project.
                if inner == Part::Protected
                    && let Some(found) = present(top.metadata(path.join(&name)))?
                {
                    self.take(&found);
                } else if inner != Part::Protected
                    && let Some(found) = present(folder.symlink_metadata(&name))?
                    && has_several_names(&found)
                    && let Some((identity, state)) = identity(&found).zip(link_state(&found))
                {
                    self.others.insert(identity, state);
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, found: &Metadata) {
        if has_several_names(found) {
            self.found.extend(identity(found));
        }
    }

    fn count(&mut self) -> io::Result<()> {
        self.names += 1;
        if self.names <= NAMES_MAX {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "has several names, and the project has more than {NAMES_MAX} files, so it cannot be \
             told whether one of them is protected; copy it to a file of its own"
        )))
    }
}

/// Which part of the project a folder belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The project folder itself.
    Top,
    /// A folder that tools may use.
    Open,
    /// A folder that no tool may use, or below one.
    Protected,
}

impl Part {
    /// What a name in this part belongs to. The names are compared as the kernel compares paths.
    fn inside(self, name: &str) -> Self {
        let bare = name.trim_end_matches(['.', ' ']).to_lowercase();
        match self {
            Self::Protected => Self::Protected,
            Self::Top if LAW.contains(&bare.as_str()) => Self::Protected,
            Self::Top | Self::Open if bare == ".git" => Self::Protected,
            Self::Top | Self::Open => Self::Open,
        }
    }
}

/// What is not there, or not there any more, is no error.
fn present<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
fn link_state(found: &Metadata) -> Option<LinkState> {
    use cap_std::fs::MetadataExt;
    Some((found.ctime(), found.ctime_nsec(), found.nlink()))
}

#[cfg(not(unix))]
fn link_state(_: &Metadata) -> Option<LinkState> {
    None
}

#[cfg(unix)]
pub(super) fn has_several_names(found: &Metadata) -> bool {
    use cap_std::fs::MetadataExt;
    found.is_file() && found.nlink() > 1
}

#[cfg(not(unix))]
pub(super) fn has_several_names(_: &Metadata) -> bool {
    false
}

/// The device and inode of a folder, to be known by.
pub(super) fn folder_identity(folder: &Dir) -> Identity {
    folder.dir_metadata().ok().and_then(|found| identity(&found))
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;

    use toolgate_runtime::port::{Files, FilesFault};

    use crate::folder::Folder;

    /// A project whose `.git` names another folder of the project has its repository there.
    #[test]
    fn a_hard_link_into_a_kept_folder_is_refused() {
        let project = tempfile::tempdir().unwrap();
        let at = |name: &str| project.path().join(name);
        fs::create_dir_all(at("repo.d/hooks")).unwrap();
        fs::create_dir_all(at(".toolgate/staging")).unwrap();
        for name in ["repo.d/config", "repo.d/hooks/pre-commit", "other.md"] {
            fs::write(at(name), "kept").unwrap();
        }
        for (name, target) in
            [("a.md", "repo.d/config"), ("b.md", "repo.d/hooks/pre-commit"), ("c.md", "other.md")]
        {
            fs::hard_link(at(target), at(name)).unwrap();
        }
        let folder = Folder::open(project.path(), at(".toolgate/staging")).unwrap();
        let folder = folder.keeping_from_tools("repo.d").keeping_from_tools("not there");
        for name in ["a.md", "b.md", "repo.d/config"] {
            let read = folder.read(name);
            assert!(matches!(read, Err(FilesFault::Outside { .. })), "{name}: {read:?}");
        }
        assert_eq!(folder.read("c.md").unwrap().as_deref(), Some(b"kept".as_slice()));
    }
}
