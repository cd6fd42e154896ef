//! Decides what a project folder must do: read, stage durably, put in place, never overwrite blindly.

use toolgate_kernel::digest::Digest;
use toolgate_kernel::names::{CallId, SessionId};

/// Which staged copy of which call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StageTag {
    /// The session.
    pub session: SessionId,
    /// The call.
    pub call: CallId,
    /// Which of its files, from zero.
    pub at: usize,
}

/// What became of a staged copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    /// The file has its new content, now or already before.
    Done,
    /// The file has neither the old nor the new content; it was left alone.
    Conflict {
        /// What it has.
        found: Option<Digest>,
    },
}

/// One plain file of the project.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Its path, in the one form.
    pub path: String,
    /// How long it is.
    pub bytes: u64,
}

/// The plain files in a folder and below it, in the order of their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// The files. Links, hidden names and what is reserved are not among them.
    pub files: Vec<Listed>,
    /// Whether there are more than were looked at.
    pub cut: bool,
}

/// Why a file could not be reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilesFault {
    /// The path leads out of the folder, or to what is reserved.
    #[error("{path}: is not a file of this project")]
    Outside {
        /// The path.
        path: String,
    },
    /// The file is larger than may be read.
    #[error("{path}: has more than {bytes_max} bytes")]
    TooLarge {
        /// The path.
        path: String,
        /// The bound.
        bytes_max: u64,
    },
    /// The file system said no.
    #[error("{path}: {reason}")]
    Unavailable {
        /// The path.
        path: String,
        /// Why.
        reason: String,
    },
    /// There is no project folder.
    #[error("this session has no project folder")]
    None,
}

/// The files of a project. Paths are in the one form the kernel gives them.
pub trait Files: Send + Sync {
    /// The content of a file; `None` when there is no such file.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, FilesFault>;

    /// The version of a file's content; `None` when there is no such file.
    fn version(&self, path: &str) -> Result<Option<Digest>, FilesFault> {
        Ok(self.read(path)?.map(|content| Digest::of(&content)))
    }

    /// The plain files in a folder and below it, bounded; a file stands for itself, and nothing
    /// given means the whole project. `None` when there is no such folder.
    fn list(&self, under: Option<&str>) -> Result<Option<Listing>, FilesFault>;

    /// Whether two paths name one file, by way of links too.
    fn same_file(&self, one: &str, other: &str) -> Result<bool, FilesFault> {
        Ok(one == other)
    }

    /// Writes a durable copy beside the project's files, with the version its content has; `None`
    /// stages a removal.
    fn stage(
        &self,
        tag: &StageTag,
        path: &str,
        file: Option<(&[u8], Digest)>,
    ) -> Result<(), FilesFault>;

    /// Puts a staged copy in place, when the file still is what it was.
    fn place(
        &self,
        tag: &StageTag,
        path: &str,
        old: Option<Digest>,
        new: Option<Digest>,
    ) -> Result<Placed, FilesFault>;

    /// Forgets a staged copy.
    fn discard(&self, tag: &StageTag) -> Result<(), FilesFault>;

    /// Keeps a staged copy for a person to look at. It is never put in place again.
    fn set_aside(&self, tag: &StageTag) -> Result<(), FilesFault> {
        self.discard(tag)
    }

    /// The staged copies a crash left behind.
    fn leftovers(&self) -> Result<Vec<StageTag>, FilesFault>;
}

/// No files at all.
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &str) -> Result<Option<Vec<u8>>, FilesFault> {
        Err(FilesFault::None)
    }

    fn list(&self, _: Option<&str>) -> Result<Option<Listing>, FilesFault> {
        Err(FilesFault::None)
    }

    fn stage(&self, _: &StageTag, _: &str, _: Option<(&[u8], Digest)>) -> Result<(), FilesFault> {
        Err(FilesFault::None)
    }

    fn place(
        &self,
        _: &StageTag,
        _: &str,
        _: Option<Digest>,
        _: Option<Digest>,
    ) -> Result<Placed, FilesFault> {
        Err(FilesFault::None)
    }

    fn discard(&self, _: &StageTag) -> Result<(), FilesFault> {
        Ok(())
    }

    fn leftovers(&self) -> Result<Vec<StageTag>, FilesFault> {
        Ok(Vec::new())
    }
}
