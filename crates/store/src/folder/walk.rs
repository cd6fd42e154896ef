//! Decides how folders are entered: one at a time, and never through a link or into the law.

use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use cap_std::fs::{Dir, File, Metadata};

use super::protected::{ProtectedFiles, has_several_names};

/// The names of the law, whose files and folders are known by more than their names.
pub(super) const LAW: &[&str] = &[".toolgate", "toolgate.yaml", "toolgate.yml", ".git"];

/// A name in an open folder.
pub(super) struct Spot {
    pub(super) folder: Dir,
    pub(super) name: String,
}

/// Disk and number of a file or folder; the same for all its names. Unix only.
pub(super) type Identity = Option<(u64, u64)>;

/// What tells a file from itself before a change: which one, its length, when its content and
/// when anything about it was changed.
pub(super) type Stamp = (Identity, u64, Option<SystemTime>, Option<(i64, i64)>);

#[cfg(unix)]
pub(super) fn identity(found: &Metadata) -> Identity {
    use cap_std::fs::MetadataExt;
    Some((found.dev(), found.ino()))
}

#[cfg(not(unix))]
pub(super) fn identity(_: &Metadata) -> Identity {
    None
}

pub(super) fn stamp(found: &Metadata) -> Stamp {
    let modified = found.modified().ok().map(cap_std::time::SystemTime::into_std);
    (identity(found), found.len(), modified, changed(found))
}

#[cfg(unix)]
fn changed(found: &Metadata) -> Option<(i64, i64)> {
    use cap_std::fs::MetadataExt;
    Some((found.ctime(), found.ctime_nsec()))
}

#[cfg(not(unix))]
fn changed(_: &Metadata) -> Option<(i64, i64)> {
    None
}

/// Whether nobody wrote to a file between two stamps; moving it or giving it other rights is no
/// writing. Where files have no identity nothing is sure.
pub(super) fn same_content(before: Stamp, after: Stamp) -> bool {
    before.0.is_some() && (before.0, before.1, before.2) == (after.0, after.1, after.2)
}

/// The top of a project, and which files are law beside those with its own names.
pub(super) struct Root {
    pub(super) dir: Dir,
    pub(super) more_law: Vec<String>,
    /// Files and folders outside the project that no tool reaches, also not by a hard link.
    pub(super) outside: Vec<PathBuf>,
    /// The folder of staged copies, which may be linked into the project for a moment.
    pub(super) staging: Identity,
    /// What the last search for protected files found.
    pub(super) searched: Mutex<ProtectedFiles>,
}

/// The identities of the law.
fn law(root: &Root) -> Vec<Identity> {
    let names = LAW.iter().copied().chain(root.more_law.iter().map(String::as_str));
    let found = names.filter_map(|name| root.dir.metadata(name).ok());
    found.map(|found| identity(&found)).filter(Option::is_some).collect()
}

/// A way through the project, on which the law is known whatever other names it has: through
/// links, or in another case.
pub(super) struct Walk {
    law: Vec<Identity>,
    folder: Dir,
}

impl Walk {
    /// Starts at the top of the project.
    pub(super) fn from(root: &Root) -> io::Result<Self> {
        Ok(Self { law: law(root), folder: root.dir.try_clone()? })
    }

    /// Goes along a real path, which has no links.
    pub(super) fn along(&mut self, real: &Path) -> io::Result<()> {
        for part in real.components() {
            if let Component::Normal(name) = part {
                self.step(Path::new(name))?;
            }
        }
        Ok(())
    }

    /// Makes a folder, durably, and enters it; one that somebody else just made is as good.
    pub(super) fn make(&mut self, name: &str) -> io::Result<()> {
        match self.folder.create_dir(name) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => sync(&self.folder)?,
        }
        self.step(Path::new(name))
    }

    /// The folder where the walk has come to.
    pub(super) fn folder(&self) -> &Dir {
        &self.folder
    }

    /// Whether something is the law under another name.
    pub(super) fn is_law(&self, found: &Metadata) -> bool {
        self.law.contains(&identity(found))
    }

    /// Another walk that goes on from here, along a path without links.
    pub(super) fn further(&self, path: &Path) -> io::Result<Self> {
        let mut further = Self { law: self.law.clone(), folder: self.folder.try_clone()? };
        further.along(path).map(|()| further)
    }

    /// The spot of a name where the walk has come to.
    pub(super) fn spot(self, name: &str) -> Spot {
        Spot { folder: self.folder, name: name.to_owned() }
    }

    /// Enters a folder, and makes sure that it is what stands under that name: a link may have
    /// been put there a moment ago.
    fn step(&mut self, name: &Path) -> io::Result<()> {
        let next = self.folder.open_dir(name)?;
        let seen = self.folder.symlink_metadata(name)?;
        let entered = identity(&next.dir_metadata()?);
        let is_law = self.law.contains(&entered) || is_repository(&next)?;
        if !seen.is_dir() || identity(&seen) != entered || is_law {
            return Err(elsewhere());
        }
        self.folder = next;
        Ok(())
    }
}

impl Spot {
    /// Opens a plain file, and nothing that a link put in its place.
    pub(super) fn open(&self, root: &Root) -> io::Result<File> {
        // A pipe would wait for somebody to write into it; this looks before it opens.
        let seen = self.folder.symlink_metadata(&self.name)?;
        if !seen.is_file() {
            return Err(io::Error::other("is not a plain file"));
        }
        let file = self.folder.open(&self.name)?;
        let found = file.metadata()?;
        let opened = identity(&found);
        if has_several_names(&found) && ProtectedFiles::is_one(root, &found)? {
            return Err(elsewhere());
        }
        if opened != identity(&seen) || (opened.is_some() && law(root).contains(&opened)) {
            return Err(elsewhere());
        }
        Ok(file)
    }
}

/// Whether git would take a folder for a repository, and obey its configuration and its hooks: a
/// `.git` anywhere in the project may name it (ADR 0026). No tool can write a file called `HEAD`, so
/// none makes one.
pub(super) fn is_repository(folder: &Dir) -> io::Result<bool> {
    let found = |name: &str| match folder.symlink_metadata(name) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    if found("HEAD")?.is_none_or(|head| head.is_dir()) {
        return Ok(false);
    }
    Ok(found("objects")?.is_some() || found("refs")?.is_some() || found("commondir")?.is_some())
}

/// Makes the names in a folder durable.
pub(super) fn sync(folder: &Dir) -> io::Result<()> {
    if cfg!(unix) { folder.open(".")?.sync_all() } else { Ok(()) }
}

/// Like the error of cap-std for a path that leads out: a denial without a number of the system.
fn elsewhere() -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, "leads elsewhere")
}

/// Whether an error says that a path leads out of the project or into its law.
pub(super) fn leads_elsewhere(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}
