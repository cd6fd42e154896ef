//! Decides which file a path reaches: inside the project, never its law, whatever links say.
//!
//! cap-std lets no path out of the project. What it does not know is that `.toolgate` and
//! `toolgate.yaml` are the law: a link inside the project may lead there. So links are resolved
//! first, the outcome is checked, and then the real path is walked one folder at a time. Each
//! step makes sure that it opened what stands under that name, and not a link that was put there
//! a moment ago.

use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use cap_std::fs::{Dir, File, Metadata};
use sha2::{Digest as _, Sha256};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::path::project_path;
use toolgate_runtime::port::FilesFault;

use super::staging::Staging;
use super::{FILE_BYTES_MAX, unavailable};

/// The names of the law, whose files and folders are known by more than their names.
const LAW: &[&str] = &[".toolgate", "toolgate.yaml", "toolgate.yml"];

/// A name in an open folder.
pub(super) struct Spot {
    pub(super) folder: Dir,
    pub(super) name: String,
}

/// What is done about a folder that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Absent {
    /// It is made.
    Make,
    /// Then there is no such file either.
    Stop,
}

/// What stands under a name.
pub(super) enum Standing {
    /// Nothing.
    Nothing,
    /// A file with this content.
    File(Digest),
    /// A folder, a link, a device.
    Other,
}

impl Standing {
    /// The version of the content, where there is one.
    pub(super) fn version(self) -> Option<Digest> {
        match self {
            Self::File(version) => Some(version),
            Self::Nothing | Self::Other => None,
        }
    }
}

/// The project folder as the only world there is.
pub(super) struct Jail {
    root: Dir,
}

impl Jail {
    pub(super) fn new(root: Dir) -> Self {
        Self { root }
    }

    /// The content of a file. A link is followed as long as it stays in the project.
    pub(super) fn read(&self, path: &str) -> Result<Option<Vec<u8>>, FilesFault> {
        checked(path, path)?;
        let real = match self.root.canonicalize(path) {
            Ok(real) => joined(path, &real, &[])?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fault(path, &error)),
        };
        let Some(spot) = self.spot(&real, Absent::Stop).map_err(|fault| renamed(fault, path))?
        else {
            return Ok(None);
        };
        let too_large =
            || FilesFault::TooLarge { path: path.to_owned(), bytes_max: FILE_BYTES_MAX };
        let Some(file) = self.open(path, &spot)? else { return Ok(None) };
        let length = file.metadata().map_err(|error| fault(path, &error))?.len();
        if length > FILE_BYTES_MAX {
            return Err(too_large());
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
        // The file may grow while it is read.
        let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
        match read.map_err(|error| fault(path, &error))? {
            read if u64::try_from(read).is_ok_and(|read| read <= FILE_BYTES_MAX) => Ok(Some(bytes)),
            _ => Err(too_large()),
        }
    }

    /// What stands at a path; a link there is not followed.
    pub(super) fn standing(&self, path: &str) -> Result<Standing, FilesFault> {
        let Some(spot) = self.spot(path, Absent::Stop)? else { return Ok(Standing::Nothing) };
        match spot.folder.symlink_metadata(&spot.name) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Standing::Nothing),
            Err(error) => return Err(fault(path, &error)),
            Ok(found) if !found.is_file() => return Ok(Standing::Other),
            Ok(_) => {}
        }
        let Some(mut file) = self.open(path, &spot)? else { return Ok(Standing::Nothing) };
        // A person's file may have any size, so it is not read into memory.
        let mut hasher = Hasher(Sha256::new());
        io::copy(&mut file, &mut hasher).map_err(|error| fault(path, &error))?;
        Ok(Standing::File(Digest(hasher.0.finalize().into())))
    }

    /// Refuses what could not be put in place later.
    pub(super) fn check_writable(&self, path: &str, staging: &Staging) -> Result<(), FilesFault> {
        let refused = |reason: &str| FilesFault::Unavailable {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        let Some(spot) = self.spot(path, Absent::Stop)? else { return Ok(()) };
        let (here, there) = (spot.folder.dir_metadata(), staging.folder().dir_metadata());
        let disk = |found: io::Result<Metadata>| {
            found
                .map(|found| identity(&found).map(|(disk, _)| disk))
                .map_err(|error| fault(path, &error))
        };
        if disk(here)? != disk(there)? {
            return Err(refused("is on another file system than the project's staged copies"));
        }
        match spot.folder.symlink_metadata(&spot.name) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(fault(path, &error)),
            Ok(found) if found.is_symlink() => Err(refused("is a link; write to what it names")),
            Ok(found) if !found.is_file() => Err(refused("is not a plain file")),
            Ok(_) => self.open(path, &spot).map(drop),
        }
    }

    /// The folder of a path, with every link on the way resolved, and the last name in it.
    pub(super) fn spot(&self, path: &str, absent: Absent) -> Result<Option<Spot>, FilesFault> {
        checked(path, path)?;
        let names: Vec<&str> = path.split('/').collect();
        let Some((name, folders)) = names.split_last() else { return Ok(None) };
        let (real, missing) = self.resolved(path, folders)?;
        // The law may be reached by way of a link, so it is looked for again.
        joined(path, &real, &[missing, &[*name]].concat())?;
        let law = self.law();
        let mut folder = self.root.try_clone().map_err(|error| fault(path, &error))?;
        for part in real.components() {
            if let Component::Normal(part) = part {
                folder =
                    step(&folder, Path::new(part), &law).map_err(|error| fault(path, &error))?;
            }
        }
        if !missing.is_empty() && absent == Absent::Stop {
            return Ok(None);
        }
        for part in missing {
            make(&folder, part).map_err(|error| fault(path, &error))?;
            folder = step(&folder, Path::new(part), &law).map_err(|error| fault(path, &error))?;
        }
        Ok(Some(Spot { folder, name: (*name).to_owned() }))
    }

    /// The real path of as many folders as there are, and those that are missing.
    fn resolved<'a>(
        &self,
        path: &str,
        folders: &'a [&'a str],
    ) -> Result<(PathBuf, &'a [&'a str]), FilesFault> {
        for there in (1..=folders.len()).rev() {
            let (present, missing) = folders.split_at(there);
            match self.root.canonicalize(present.join("/")) {
                Ok(real) => return Ok((real, missing)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(fault(path, &error)),
            }
        }
        Ok((PathBuf::new(), folders))
    }

    /// Opens a plain file, and nothing that a link put in its place.
    fn open(&self, path: &str, spot: &Spot) -> Result<Option<File>, FilesFault> {
        let open = || {
            // A pipe would wait for somebody to write into it; this looks before it opens.
            let seen = spot.folder.symlink_metadata(&spot.name)?;
            if !seen.is_file() {
                return Err(io::Error::other("is not a plain file"));
            }
            let file = spot.folder.open(&spot.name)?;
            let opened = identity(&file.metadata()?);
            if opened != identity(&seen) || self.law().contains(&opened) {
                return Err(escape());
            }
            Ok(file)
        };
        match open() {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(fault(path, &error)),
        }
    }

    /// What the law is, whatever other names it has: through links, or in another case.
    fn law(&self) -> Vec<Identity> {
        let found = LAW.iter().filter_map(|name| self.root.metadata(name).ok());
        found.map(|found| identity(&found)).filter(Option::is_some).collect()
    }
}

/// Opens the next folder of a real path, which is no link and not the law.
fn step(folder: &Dir, name: &Path, law: &[Identity]) -> io::Result<Dir> {
    let next = folder.open_dir(name)?;
    let (seen, opened) = (folder.symlink_metadata(name)?, identity(&next.dir_metadata()?));
    if !seen.is_dir() || identity(&seen) != opened || law.contains(&opened) {
        return Err(escape());
    }
    Ok(next)
}

/// Makes a folder durably; one that somebody else just made is as good.
fn make(folder: &Dir, name: &str) -> io::Result<()> {
    match folder.create_dir(name) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => sync(folder),
    }
}

/// Makes the names in a folder durable.
pub(super) fn sync(folder: &Dir) -> io::Result<()> {
    if cfg!(unix) { folder.open(".")?.sync_all() } else { Ok(()) }
}

/// Disk and number of a file or folder; the same for all its names. Unix only.
type Identity = Option<(u64, u64)>;

#[cfg(unix)]
fn identity(found: &Metadata) -> Identity {
    use cap_std::fs::MetadataExt;
    Some((found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Identity {
    None
}

/// Paths come in the one form the kernel gives them; anything else is no file of ours.
fn checked(given: &str, path: &str) -> Result<(), FilesFault> {
    match project_path(path, None) {
        Ok(normal) if normal == path => Ok(()),
        _ => Err(FilesFault::Outside { path: given.to_owned() }),
    }
}

/// A real path with more names, checked like one that was given.
fn joined(given: &str, real: &Path, more: &[&str]) -> Result<String, FilesFault> {
    let outside = || FilesFault::Outside { path: given.to_owned() };
    let mut names = Vec::new();
    for part in real.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => names.push(name.to_str().ok_or_else(outside)?),
            Component::Prefix(_) | Component::RootDir | Component::ParentDir => {
                return Err(outside());
            }
        }
    }
    names.extend(more);
    let path = names.join("/");
    checked(given, &path).map(|()| path)
}

/// A fault is told about the path that was asked for.
fn renamed(fault: FilesFault, path: &str) -> FilesFault {
    let path = path.to_owned();
    match fault {
        FilesFault::Outside { .. } => FilesFault::Outside { path },
        FilesFault::TooLarge { bytes_max, .. } => FilesFault::TooLarge { path, bytes_max },
        FilesFault::Unavailable { reason, .. } => FilesFault::Unavailable { path, reason },
        FilesFault::None => FilesFault::None,
    }
}

/// The error cap-std gives when a path leads out.
fn escape() -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, "leads elsewhere")
}

fn fault(path: &str, error: &io::Error) -> FilesFault {
    // A denial of the system has a number; one of cap-std or of ours has none.
    if error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
        return FilesFault::Outside { path: path.to_owned() };
    }
    unavailable(path, error)
}

/// Takes bytes in as they come.
struct Hasher(Sha256);

impl io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
