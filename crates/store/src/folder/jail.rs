//! Decides which file a path reaches: inside the project, never its law, whatever links say.
//!
//! cap-std lets no path out of the project. What it does not know is that `.toolgate` and
//! `toolgate.yaml` are the law: a link inside the project may lead there. So links are resolved
//! first, the outcome is checked, and then the real path is walked one folder at a time.

use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use cap_std::fs::Metadata;
use sha2::{Digest as _, Sha256};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::path::project_path;
use toolgate_runtime::port::{FilesFault, Listed, Listing};

use super::known::Known;
use super::list;
use super::staging::Staging;
use super::walk::{Root, Spot, Stamp, Walk, identity, leads_elsewhere, stamp};
use super::{FILE_BYTES_MAX, unavailable};

/// What stands at a path; a link there is not followed.
pub(super) enum Found {
    /// Nothing; where the folder is there, this is the spot.
    Nothing(Option<Spot>),
    /// A plain file with this content.
    File { spot: Spot, version: Digest, stamp: Stamp },
    /// A folder, a link, a device.
    Other(Spot),
}

impl Found {
    /// The version of the content, where there is one.
    pub(super) fn version(&self) -> Option<Digest> {
        match self {
            Self::File { version, .. } => Some(*version),
            Self::Nothing(_) | Self::Other(_) => None,
        }
    }
}

/// The project folder as the only world there is.
pub(super) struct Jail {
    root: Root,
    pub(super) known: Known,
}

impl Jail {
    pub(super) fn new(root: Root) -> Self {
        Self { root, known: Known::default() }
    }

    /// Names one more file that is law.
    pub(super) fn add_law(&mut self, path: &str) {
        self.root.more_law.push(path.to_owned());
    }

    /// Names one more place outside the project whose files are law.
    pub(super) fn add_outside(&mut self, place: PathBuf) {
        self.root.outside.push(place);
    }

    /// The version of a file that we put in place and nobody has touched since.
    pub(super) fn known(&self, path: &str) -> Result<Option<Digest>, FilesFault> {
        let Some(spot) = self.spot(path, path)? else { return Ok(None) };
        let Ok(seen) = spot.folder.symlink_metadata(&spot.name) else { return Ok(None) };
        Ok(self.known.version(path, stamp(&seen)))
    }

    /// The plain files in a folder and below it.
    pub(super) fn list(&self, under: Option<&str>) -> Result<Option<Listing>, FilesFault> {
        let path = under.unwrap_or_default();
        let fault = |error: io::Error| fault(path, &error);
        let mut walk = Walk::from(&self.root).map_err(fault)?;
        let Some(under) = under else {
            return list::below(walk, &self.root, "").map(Some).map_err(fault);
        };
        checked(under, under)?;
        let Some(real) = present(self.root.dir.canonicalize(under)).map_err(fault)? else {
            return Ok(None);
        };
        let real = joined(under, &real, &[])?;
        if self.root.dir.metadata(&real).map_err(fault)?.is_file() {
            let Some(spot) = self.spot(under, &real)? else { return Ok(None) };
            let bytes =
                spot.open(&self.root).and_then(|file| file.metadata()).map_err(fault)?.len();
            let files = vec![Listed { path: under.to_owned(), bytes }];
            return Ok(Some(Listing { files, cut: false }));
        }
        walk.along(Path::new(&real)).map_err(fault)?;
        list::below(walk, &self.root, under).map(Some).map_err(fault)
    }

    /// The content of a file. A link is followed as long as it stays in the project.
    pub(super) fn read(&self, path: &str) -> Result<Option<Vec<u8>>, FilesFault> {
        checked(path, path)?;
        let fault = |error: io::Error| fault(path, &error);
        let Some(real) = present(self.root.dir.canonicalize(path)).map_err(fault)? else {
            return Ok(None);
        };
        let real = joined(path, &real, &[])?;
        one_path(path, path, &real)?;
        let Some(spot) = self.spot(path, &real)? else { return Ok(None) };
        let Some(file) = present(spot.open(&self.root)).map_err(fault)? else { return Ok(None) };
        let length = file.metadata().map_err(fault)?.len();
        let mut bytes =
            Vec::with_capacity(usize::try_from(length.min(FILE_BYTES_MAX)).unwrap_or(0));
        // The file may be too large, also because it grows while it is read.
        let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(fault)?;
        if u64::try_from(read).is_ok_and(|read| read <= FILE_BYTES_MAX) {
            Ok(Some(bytes))
        } else {
            Err(FilesFault::TooLarge { path: path.to_owned(), bytes_max: FILE_BYTES_MAX })
        }
    }

    /// What stands at a path.
    pub(super) fn look(&self, path: &str) -> Result<Found, FilesFault> {
        let fault = |error: io::Error| fault(path, &error);
        let Some(spot) = self.spot(path, path)? else { return Ok(Found::Nothing(None)) };
        let seen = present(spot.folder.symlink_metadata(&spot.name)).map_err(fault)?;
        let Some(seen) = seen else { return Ok(Found::Nothing(Some(spot))) };
        if !seen.is_file() {
            return Ok(Found::Other(spot));
        }
        if let Some(version) = self.known.version(path, stamp(&seen)) {
            return Ok(Found::File { spot, version, stamp: stamp(&seen) });
        }
        let mut file = spot.open(&self.root).map_err(fault)?;
        // A person's file may have any size, so it is not read into memory.
        let mut hasher = Hasher(Sha256::new());
        io::copy(&mut file, &mut hasher).map_err(fault)?;
        let version = Digest(hasher.0.finalize().into());
        Ok(Found::File { spot, version, stamp: stamp(&seen) })
    }

    /// Whether two paths lead to one spot, or to one file under two names.
    pub(super) fn same_file(&self, one: &str, other: &str) -> Result<bool, FilesFault> {
        let (first, second) = (self.spot(one, one)?, self.spot(other, other)?);
        let (Some(first), Some(second)) = (first, second) else { return Ok(one == other) };
        let folder = |spot: &Spot| spot.folder.dir_metadata().map(|found| identity(&found));
        let file = |spot: &Spot| {
            let found = present(spot.folder.metadata(&spot.name));
            found.map(|found| found.and_then(|found| identity(&found)))
        };
        let fault = |error: io::Error| fault(one, &error);
        let same_folder = folder(&first).map_err(fault)? == folder(&second).map_err(fault)?;
        if same_folder && first.name.to_lowercase() == second.name.to_lowercase() {
            return Ok(true);
        }
        let (first, second) = (file(&first).map_err(fault)?, file(&second).map_err(fault)?);
        Ok(first.is_some() && first == second)
    }

    /// Refuses what could not be put in place later.
    pub(super) fn check_writable(&self, path: &str, staging: &Staging) -> Result<(), FilesFault> {
        let fault = |error: io::Error| fault(path, &error);
        let refused = |reason: &str| {
            let (path, reason) = (path.to_owned(), reason.to_owned());
            Err(FilesFault::Unavailable { path, reason })
        };
        let Some(spot) = self.spot(path, path)? else { return Ok(()) };
        let disk = |found: Metadata| identity(&found).map(|(disk, _)| disk);
        let here = spot.folder.dir_metadata().map(disk).map_err(fault)?;
        if here != staging.folder().dir_metadata().map(disk).map_err(fault)? {
            return refused("is on another file system than the project's staged copies");
        }
        let seen = present(spot.folder.symlink_metadata(&spot.name)).map_err(fault)?;
        match seen {
            None => Ok(()),
            Some(seen) if seen.is_symlink() => refused("is a link; write to what it names"),
            Some(_) => spot.open(&self.root).map(drop).map_err(fault),
        }
    }

    /// The spot of a path, if its folder is there.
    fn spot(&self, given: &str, path: &str) -> Result<Option<Spot>, FilesFault> {
        let way = self.way(given, path)?;
        if !way.missing.is_empty() {
            return Ok(None);
        }
        Ok(Some(way.walk.spot(way.name)))
    }

    /// The spot of a path, with the folders made that are not there.
    pub(super) fn make(&self, path: &str) -> Result<Spot, FilesFault> {
        let mut way = self.way(path, path)?;
        for name in way.missing {
            way.walk.make(name).map_err(|error| fault(path, &error))?;
        }
        Ok(way.walk.spot(way.name))
    }

    /// Walks to the folder of a path, as far as it is there, with every link on the way resolved.
    fn way<'a>(&self, given: &str, path: &'a str) -> Result<Way<'a>, FilesFault> {
        checked(given, path)?;
        let fault = |error: io::Error| fault(given, &error);
        let mut folders: Vec<&str> = path.split('/').collect();
        let name = folders.pop().unwrap_or_default();
        let mut missing = Vec::new();
        let real = loop {
            if folders.is_empty() {
                break PathBuf::new();
            }
            if let Some(real) =
                present(self.root.dir.canonicalize(folders.join("/"))).map_err(fault)?
            {
                break real;
            }
            missing.extend(folders.pop());
        };
        missing.reverse();
        // The law may be reached by way of a link, so it is looked for again.
        let one = joined(given, &real, &[missing.as_slice(), &[name]].concat())?;
        one_path(given, path, &one)?;
        let mut walk = Walk::from(&self.root).map_err(fault)?;
        walk.along(&real).map_err(fault)?;
        Ok(Way { walk, missing, name })
    }
}

/// A walk to the folder of a path, the folders that are missing, and the last name.
struct Way<'a> {
    walk: Walk,
    missing: Vec<&'a str>,
    name: &'a str,
}

/// What is not there is no error.
fn present<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Paths come in the one form the kernel gives them; anything else is no file of ours.
fn checked(given: &str, path: &str) -> Result<(), FilesFault> {
    match project_path(path, None) {
        Ok(normal) if normal == path => Ok(()),
        _ => Err(FilesFault::Outside { path: given.to_owned() }),
    }
}

/// A file has one path, the one without links: policies look at paths.
fn one_path(given: &str, path: &str, real: &str) -> Result<(), FilesFault> {
    if path == real {
        return Ok(());
    }
    let reason = format!("leads through a link; use {real}");
    Err(FilesFault::Unavailable { path: given.to_owned(), reason })
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

fn fault(path: &str, error: &io::Error) -> FilesFault {
    if leads_elsewhere(error) {
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
