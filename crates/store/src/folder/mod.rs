//! Decides how a project's files change: a durable copy first, then in place, never blindly.

mod jail;
mod staging;

use std::io;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use toolgate_kernel::digest::Digest;
use toolgate_runtime::port::{Files, FilesFault, Placed, StageTag};

use jail::{Absent, Jail, Spot, Standing};
use staging::Staging;

/// Largest file that is read or written, in bytes.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// A project folder.
///
/// Two things can happen between looking at a file and replacing it: nothing that was created
/// meanwhile is overwritten, but a change within those microseconds to a file that was there
/// before is not noticed.
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
        Ok(Self { jail: Jail::new(root), staging })
    }

    /// Puts a new content where the old one still stands.
    fn replace(
        &self,
        tag: &StageTag,
        path: &str,
        old: Option<Digest>,
        new: Digest,
    ) -> Result<Placed, FilesFault> {
        let unavailable = |error: io::Error| unavailable(path, &error);
        if self.staging.content(tag).map_err(unavailable)?.map(|bytes| Digest::of(&bytes))
            != Some(new)
        {
            let reason = "its staged copy is gone or damaged; write the file again".to_owned();
            return Err(FilesFault::Unavailable { path: path.to_owned(), reason });
        }
        let Some(spot) = self.jail.spot(path, Absent::Make)? else {
            return Err(FilesFault::Outside { path: path.to_owned() });
        };
        let placed = match old {
            None => self.staging.place_new(tag, &spot).map_err(unavailable)?,
            Some(_) => self.staging.place_over(tag, &spot).map(|()| true).map_err(unavailable)?,
        };
        if !placed {
            return Ok(Placed::Conflict { found: self.jail.standing(path)?.version() });
        }
        jail::sync(&spot.folder).map_err(unavailable)?;
        self.staging.forget(tag).map_err(unavailable)?;
        Ok(Placed::Done)
    }

    /// Removes a file.
    fn remove(&self, tag: &StageTag, path: &str) -> Result<Placed, FilesFault> {
        let unavailable = |error: io::Error| unavailable(path, &error);
        if let Some(Spot { folder, name }) = self.jail.spot(path, Absent::Stop)? {
            folder.remove_file(&name).map_err(unavailable)?;
            jail::sync(&folder).map_err(unavailable)?;
        }
        self.staging.forget(tag).map_err(unavailable)?;
        Ok(Placed::Done)
    }
}

impl Files for Folder {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, FilesFault> {
        self.jail.read(path)
    }

    fn stage(&self, tag: &StageTag, path: &str, content: Option<&[u8]>) -> Result<(), FilesFault> {
        // What could not be put in place later is refused now, while the call can still fail.
        self.jail.check_writable(path, &self.staging)?;
        let bytes = content.map_or(0, <[u8]>::len);
        if u64::try_from(bytes).is_ok_and(|bytes| bytes <= FILE_BYTES_MAX) {
            self.staging.put(tag, content).map_err(|error| unavailable(path, &error))
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
        let found = match self.jail.standing(path)? {
            Standing::Nothing => None,
            Standing::File(version) => Some(version),
            // Somebody put a folder or a link there; that is theirs to sort out.
            Standing::Other => return Ok(Placed::Conflict { found: None }),
        };
        if found == new {
            self.staging.forget(tag).map_err(|error| unavailable(path, &error))?;
            return Ok(Placed::Done);
        }
        if found != old {
            return Ok(Placed::Conflict { found });
        }
        match new {
            Some(new) => self.replace(tag, path, old, new),
            None => self.remove(tag, path),
        }
    }

    fn discard(&self, tag: &StageTag) -> Result<(), FilesFault> {
        self.staging.forget(tag).map_err(|error| unavailable(&staging::name(tag), &error))
    }

    fn leftovers(&self) -> Result<Vec<StageTag>, FilesFault> {
        self.staging.tags().map_err(|error| unavailable("staged copies", &error))
    }
}

fn unavailable(path: &str, error: &io::Error) -> FilesFault {
    FilesFault::Unavailable { path: path.to_owned(), reason: error.to_string() }
}
