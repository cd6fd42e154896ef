//! Decides how staged copies are kept: one durable file per changed file, named by its call.

use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::names::{CallId, SessionId};
use toolgate_runtime::port::StageTag;

use super::FILE_BYTES_MAX;
use super::walk::{Spot, Stamp, stamp, sync};

/// Whether a staged copy got to its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    /// It did.
    Done,
    /// Somebody else was quicker; nothing was moved.
    Late,
}

/// The folder of staged copies. No tool reaches it, so its names are our own.
pub(super) struct Staging {
    folder: Dir,
    /// The copy that was staged last, as it was left, and the version it has.
    last: Mutex<Option<(StageTag, Stamp, Digest)>>,
}

/// The file name of a staged copy.
pub(super) fn name(tag: &StageTag) -> String {
    format!("{}.{}.{}", tag.session, tag.call, tag.at)
}

/// The file name of a staged removal.
fn gone(tag: &StageTag) -> String {
    format!("{}.gone", name(tag))
}

/// The tag in a file name; `None` for names that are not ours.
fn tag(text: &str) -> Option<StageTag> {
    let text = text.strip_suffix(".gone").unwrap_or(text);
    let mut parts = text.split('.');
    let (session, call, at) = (parts.next()?, parts.next()?, parts.next()?);
    let session = SessionId::parse(session).ok()?;
    let call = CallId::try_from(call.to_owned()).ok()?;
    let tag = StageTag { session, call, at: at.parse().ok()? };
    (name(&tag) == text).then_some(tag)
}

impl Staging {
    /// Opens the folder, and makes it when it is not there.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(path)?;
        let folder = Dir::open_ambient_dir(path, ambient_authority())?;
        Ok(Self { folder, last: Mutex::default() })
    }

    /// The folder itself.
    pub(super) fn folder(&self) -> &Dir {
        &self.folder
    }

    /// Writes a staged copy in place of one with the same tag; durable once it returns.
    pub(super) fn put(&self, tag: &StageTag, copy: Option<(&[u8], Digest)>) -> io::Result<()> {
        self.forget(tag)?;
        let name = if copy.is_some() { name(tag) } else { gone(tag) };
        let mut file =
            self.folder.open_with(name, OpenOptions::new().write(true).create_new(true))?;
        let (content, version) = copy.unzip();
        file.write_all(content.unwrap_or_default())?;
        file.sync_all()?;
        let left = stamp(&file.metadata()?);
        *self.last() = version.map(|version| (tag.clone(), left, version));
        sync(&self.folder)
    }

    fn last(&self) -> MutexGuard<'_, Option<(StageTag, Stamp, Digest)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The version of a staged copy; `None` when there is none. A copy that still is as this
    /// process left it is not read again.
    pub(super) fn version(&self, tag: &StageTag, now: Option<Stamp>) -> io::Result<Option<Digest>> {
        if let (Some((last, left, version)), Some(now)) = (self.last().as_ref(), now)
            && last == tag
            && *left == now
        {
            return Ok(Some(*version));
        }
        let mut bytes = Vec::new();
        match self.folder.open(name(tag)) {
            Ok(file) => drop(file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        Ok(Some(Digest::of(&bytes)))
    }

    /// What tells a staged copy from a changed one.
    pub(super) fn stamp(&self, tag: &StageTag) -> io::Result<Option<Stamp>> {
        match self.folder.symlink_metadata(name(tag)) {
            Ok(found) => Ok(Some(stamp(&found))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Links a staged copy to a name that nobody has.
    pub(super) fn place_new(&self, tag: &StageTag, spot: &Spot) -> io::Result<Moved> {
        match self.folder.hard_link(name(tag), &spot.folder, &spot.name) {
            Ok(()) => Ok(Moved::Done),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Moved::Late),
            // Some file systems have no links. Renaming overwrites, but only by a hair's breadth.
            Err(_) => self.folder.rename(name(tag), &spot.folder, &spot.name).map(|()| Moved::Done),
        }
    }

    /// Moves a staged copy over a file, and keeps who may read, write and run it.
    pub(super) fn place_over(&self, tag: &StageTag, spot: &Spot, seen: Stamp) -> io::Result<Moved> {
        let now = spot.folder.symlink_metadata(&spot.name)?;
        if stamp(&now) != seen {
            return Ok(Moved::Late);
        }
        let rights = now.permissions();
        #[cfg(unix)]
        let rights = {
            use cap_std::fs::PermissionsExt;
            cap_std::fs::Permissions::from_mode(rights.mode() & 0o777)
        };
        self.folder.set_permissions(name(tag), rights)?;
        self.folder.rename(name(tag), &spot.folder, &spot.name).map(|()| Moved::Done)
    }

    /// Removes a staged copy, if there is one, so that it does not come back.
    pub(super) fn forget(&self, tag: &StageTag) -> io::Result<()> {
        let mut removed = false;
        for name in [name(tag), gone(tag)] {
            match self.folder.remove_file(name) {
                Ok(()) => removed = true,
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        // A copy that came back after a power cut would be placed once more, over later work.
        if removed { sync(&self.folder) } else { Ok(()) }
    }

    /// Gives a staged copy a name that is no tag, so that nothing places it any more.
    pub(super) fn set_aside(&self, tag: &StageTag) -> io::Result<()> {
        match self.folder.rename(name(tag), &self.folder, format!("{}.aside", name(tag))) {
            Ok(()) => sync(&self.folder),
            Err(error) if error.kind() == ErrorKind::NotFound => self.forget(tag),
            Err(error) => Err(error),
        }
    }

    /// The tags of all staged copies, in order.
    pub(super) fn tags(&self) -> io::Result<Vec<StageTag>> {
        let mut tags = Vec::new();
        for entry in self.folder.entries()? {
            tags.extend(entry?.file_name().to_str().and_then(tag));
        }
        tags.sort();
        tags.dedup();
        Ok(tags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_tags() {
        for text in ["s1.c7.0", "a-b_c.c12.31", "s1.c7.0.gone"] {
            let tag = tag(text).unwrap();
            assert!(name(&tag) == text || gone(&tag) == text);
        }
        for text in ["", "s1", "s1.c7", "s1.7.0", "S.c7.0", "s1.c07.0", "s1.c7.00", "s1.c7.0.tmp"] {
            assert_eq!(tag(text), None, "{text:?}");
        }
    }
}
