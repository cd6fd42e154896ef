//! Decides how a project's files change: a durable copy first, then in place, never blindly.

mod jail;
mod known;
mod list;
mod protected;
mod staging;
mod walk;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use toolgate_kernel::digest::Digest;
use toolgate_runtime::port::{Files, FilesFault, Listing, Placed, StageTag};

use jail::{Found, Jail};
use protected::folder_identity;
use staging::{Moved, Staging};
use walk::Root;

/// Largest file that is read or written, in bytes.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// A project folder.
///
/// A file that was created or changed while a new content is put in place is not overwritten. No
/// portable call compares and renames at once, so a change in the very instant of the rename to a
/// file that was there before can still be lost.
pub struct Folder {
    jail: Jail,
    staging: Staging,
}

/// Why a project folder cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum FolderFault {
    /// The project is not there.
    #[error("{path}: is no folder that can be opened; check its name and your rights")]
    Project {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The place for staged copies is not there and cannot be made.
    #[error("{path}: cannot hold staged copies; check that it is a folder you may write to")]
    Staging {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Folder {
    /// Opens a project, with a folder for staged copies on the same file system.
    ///
    /// The folder for staged copies is made when it is not there; it belongs into `.toolgate`,
    /// where no tool reaches it.
    pub fn open(project: impl AsRef<Path>, staging: impl AsRef<Path>) -> Result<Self, FolderFault> {
        let (project, staging) = (project.as_ref(), staging.as_ref());
        let root = Dir::open_ambient_dir(project, ambient_authority())
            .map_err(|source| FolderFault::Project { path: project.to_owned(), source })?;
        let staging = Staging::open(staging)
            .map_err(|source| FolderFault::Staging { path: staging.to_owned(), source })?;
        let (more_law, outside) = (Vec::new(), Vec::new());
        let root = Root {
            dir: root,
            more_law,
            outside,
            staging: folder_identity(staging.folder()),
            searched: Mutex::default(),
        };
        Ok(Self { jail: Jail::new(root), staging })
    }

    /// The same with one more file or folder outside the project, such as that of the keys, which no
    /// tool reaches by a hard link inside the project.
    pub fn keeping_outside_from_tools(mut self, place: impl Into<PathBuf>) -> Self {
        self.jail.add_outside(place.into());
        self
    }

    /// The same with one more file that no tool reaches, by its path in the project.
    pub fn keeping_from_tools(mut self, path: &str) -> Self {
        self.jail.add_law(path);
        self
    }

    /// Puts a new content where nothing or the old one still stands.
    fn replace(
        &self,
        tag: &StageTag,
        path: &str,
        found: Found,
        new: Digest,
    ) -> Result<Placed, FilesFault> {
        let unavailable = |error: io::Error| unavailable(path, &error);
        let copied = self.staging.stamp(tag).map_err(unavailable)?;
        if self.staging.version(tag, copied).map_err(unavailable)? != Some(new) {
            let reason = "its staged copy is gone or damaged; write the file again".to_owned();
            return Err(FilesFault::Unavailable { path: path.to_owned(), reason });
        }
        let (spot, seen) = match found {
            Found::File { spot, stamp, .. } => (spot, Some(stamp)),
            Found::Nothing(Some(spot)) | Found::Other(spot) => (spot, None),
            Found::Nothing(None) => (self.jail.make(path)?, None),
        };
        let moved = match seen {
            Some(stamp) => self.staging.place_over(tag, &spot, stamp),
            None => self.staging.place_new(tag, &spot),
        };
        if moved.map_err(unavailable)? == Moved::Late {
            return Ok(Placed::Conflict { found: self.jail.look(path)?.version() });
        }
        // A power cut may undo a rename, and then the staged copy is back and is placed again. A
        // link must last before the copy it came from is removed.
        if seen.is_none() {
            walk::sync(&spot.folder).map_err(unavailable)?;
        }
        let placed = self.forget(tag, path)?;
        if let (Some(copied), Ok(now)) = (copied, spot.folder.symlink_metadata(&spot.name)) {
            self.jail.known.placed(path, copied, walk::stamp(&now), new);
        }
        Ok(placed)
    }

    /// Removes a file.
    fn remove(&self, tag: &StageTag, path: &str, found: &Found) -> Result<Placed, FilesFault> {
        let unavailable = |error: io::Error| unavailable(path, &error);
        if let Found::File { spot, stamp, .. } = found {
            let now = spot.folder.symlink_metadata(&spot.name).map_err(unavailable)?;
            if walk::stamp(&now) != *stamp {
                return Ok(Placed::Conflict { found: self.jail.look(path)?.version() });
            }
            spot.folder.remove_file(&spot.name).map_err(unavailable)?;
            walk::sync(&spot.folder).map_err(unavailable)?;
        }
        self.forget(tag, path)
    }

    fn forget(&self, tag: &StageTag, path: &str) -> Result<Placed, FilesFault> {
        let forgotten = self.staging.forget(tag);
        forgotten.map(|()| Placed::Done).map_err(|error| unavailable(path, &error))
    }
}

impl Files for Folder {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, FilesFault> {
        self.jail.read(path)
    }

    fn version(&self, path: &str) -> Result<Option<Digest>, FilesFault> {
        if let Some(version) = self.jail.known(path)? {
            return Ok(Some(version));
        }
        Ok(self.read(path)?.map(|content| Digest::of(&content)))
    }

    fn same_file(&self, one: &str, other: &str) -> Result<bool, FilesFault> {
        self.jail.same_file(one, other)
    }

    fn list(&self, under: Option<&str>) -> Result<Option<Listing>, FilesFault> {
        self.jail.list(under)
    }

    fn stage(
        &self,
        tag: &StageTag,
        path: &str,
        file: Option<(&[u8], Digest)>,
    ) -> Result<(), FilesFault> {
        // What could not be put in place later is refused now, while the call can still fail.
        self.jail.check_writable(path, &self.staging)?;
        let bytes = file.map_or(0, |(content, _)| content.len());
        if u64::try_from(bytes).is_ok_and(|bytes| bytes <= FILE_BYTES_MAX) {
            self.staging.put(tag, file).map_err(|error| unavailable(path, &error))
        } else {
            Err(FilesFault::TooLarge { path: path.to_owned(), bytes_max: FILE_BYTES_MAX })
        }
    }

    fn place(
        &self,
        tag: &StageTag,
        path: &str,
        old: Option<Digest>,
        new: Option<Digest>,
    ) -> Result<Placed, FilesFault> {
        let found = self.jail.look(path)?;
        let version = found.version();
        // A folder or a link in its place is for whoever put it there to sort out.
        if matches!(found, Found::Other(_)) {
            return Ok(Placed::Conflict { found: None });
        }
        if version == new {
            return self.forget(tag, path);
        }
        if version != old {
            return Ok(Placed::Conflict { found: version });
        }
        match new {
            Some(new) => self.replace(tag, path, found, new),
            None => self.remove(tag, path, &found),
        }
    }

    fn discard(&self, tag: &StageTag) -> Result<(), FilesFault> {
        self.staging.forget(tag).map_err(|error| unavailable(&staging::name(tag), &error))
    }

    fn set_aside(&self, tag: &StageTag) -> Result<(), FilesFault> {
        self.staging.set_aside(tag).map_err(|error| unavailable(&staging::name(tag), &error))
    }

    fn leftovers(&self) -> Result<Vec<StageTag>, FilesFault> {
        self.staging.tags().map_err(|error| unavailable("staged copies", &error))
    }
}

fn unavailable(path: &str, error: &io::Error) -> FilesFault {
    FilesFault::Unavailable { path: path.to_owned(), reason: error.to_string() }
}
