//! Decides how a project folder misbehaves in tests: somebody writes at the worst moment, or a file
//! cannot be put in place.

use std::sync::{Arc, Mutex};

use toolgate_kernel::digest::Digest;
use toolgate_runtime::port::{Files, FilesFault, Listing, Placed, StageTag};
use toolgate_testkit::Folder;

/// What happens when the next file is put in place.
pub(crate) enum Meddling {
    /// A person saves this a moment before.
    Edit(Vec<u8>),
    /// The file system says no, until further notice.
    Refuse,
}

/// A folder that is meddled with.
pub(crate) struct Meddled {
    pub(crate) folder: Folder,
    pub(crate) root: std::path::PathBuf,
    pub(crate) next: Arc<Mutex<Option<Meddling>>>,
}

impl Files for Meddled {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, FilesFault> {
        self.folder.read(path)
    }

    fn version(&self, path: &str) -> Result<Option<Digest>, FilesFault> {
        self.folder.version(path)
    }

    fn list(&self, under: Option<&str>) -> Result<Option<Listing>, FilesFault> {
        self.folder.list(under)
    }

    fn same_file(&self, one: &str, other: &str) -> Result<bool, FilesFault> {
        self.folder.same_file(one, other)
    }

    fn stage(
        &self,
        tag: &StageTag,
        path: &str,
        file: Option<(&[u8], Digest)>,
    ) -> Result<(), FilesFault> {
        self.folder.stage(tag, path, file)
    }

    fn place(
        &self,
        tag: &StageTag,
        path: &str,
        old: Option<Digest>,
        new: Option<Digest>,
    ) -> Result<Placed, FilesFault> {
        let mut next = self.next.lock().unwrap();
        match next.take() {
            Some(Meddling::Edit(content)) => {
                std::fs::write(self.root.join(path), content).unwrap();
            }
            Some(Meddling::Refuse) => {
                *next = Some(Meddling::Refuse);
                let (path, reason) = (path.to_owned(), "permission denied".to_owned());
                return Err(FilesFault::Unavailable { path, reason });
            }
            None => {}
        }
        self.folder.place(tag, path, old, new)
    }

    fn discard(&self, tag: &StageTag) -> Result<(), FilesFault> {
        self.folder.discard(tag)
    }

    fn set_aside(&self, tag: &StageTag) -> Result<(), FilesFault> {
        self.folder.set_aside(tag)
    }

    fn leftovers(&self) -> Result<Vec<StageTag>, FilesFault> {
        self.folder.leftovers()
    }
}
