//! Decides which file's version is known without reading it: one we put in place ourselves.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use toolgate_kernel::digest::Digest;

use super::walk::{Stamp, same_content};

/// Most files whose version is remembered.
const KNOWN_MAX: usize = 64;

/// The files we put in place, as they were right after it.
///
/// A stamp alone does not prove that a content is unchanged: the clock of a file system is coarse,
/// and a change within one tick leaves no trace in it. So what others wrote is read every time. A
/// copy of ours got its date when it was staged, and a sync and an append to the log lie between
/// that and its being put in place, so whoever writes to it later leaves a later date.
#[derive(Default)]
pub(super) struct Known {
    files: Mutex<BTreeMap<String, (Stamp, Digest)>>,
}

impl Known {
    /// The version of a file that still looks as we left it.
    pub(super) fn version(&self, path: &str, now: Stamp) -> Option<Digest> {
        self.files().get(path).filter(|(stamp, _)| *stamp == now).map(|(_, version)| *version)
    }

    /// Remembers a file that was put in place, unless somebody wrote to it since it was staged.
    pub(super) fn placed(&self, path: &str, staged: Stamp, now: Stamp, version: Digest) {
        let mut files = self.files();
        files.remove(path);
        if !same_content(staged, now) {
            return;
        }
        if files.len() >= KNOWN_MAX {
            files.clear();
        }
        files.insert(path.to_owned(), (now, version));
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, (Stamp, Digest)>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
