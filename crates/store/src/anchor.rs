//! Remembers the newest head of a log outside the project, so that an older copy of the
//! log is not taken for it.
//!
//! An anchor is written after each commit and never before it, so it is never newer than the log. It is
//! not flushed to the disk: one that is a little older is only weaker.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toolgate_kernel::credential::PersonKey;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::tree::LogId;

use crate::decision_copies::{CopiedDecision, DecisionCopies};

/// Bytes of one of the two slots that an anchor is written to in turn.
const SLOT_BYTES: usize = 4_096;

/// Bytes that a note has at most.
const NOTE_BYTES: usize = 300;

/// Hex digits of the digest that a slot begins with.
const DIGEST_BYTES: usize = 64;

/// What is remembered of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// Its newest signed head.
    pub note: String,
    /// How many commits that head covers.
    pub size: u64,
    /// The folder that the log lies in.
    pub folder: PathBuf,
    /// When the newest commit was made.
    pub at: Timestamp,
}

/// Where anchors are kept: outside every project, for this user alone.
#[derive(Debug, Clone)]
pub struct AnchorFolder {
    heads: PathBuf,
    folders: PathBuf,
    roots: PathBuf,
}

/// Writes the anchor of one log.
pub(crate) struct AnchorWriter {
    /// Where heads are written; absent while an older state of the log is not accepted yet.
    file: Option<File>,
    folder: PathBuf,
    copies: DecisionCopies,
}

impl AnchorFolder {
    /// Anchors below a folder, to be read. Nothing is made.
    pub fn at(state: &Path) -> Self {
        Self {
            heads: state.join("heads"),
            folders: state.join("folders"),
            roots: state.join("roots"),
        }
    }

    /// Anchors below a folder, which is made when it is not there.
    pub fn open(state: &Path) -> io::Result<Self> {
        let anchors = Self::at(state);
        for folder in [&anchors.heads, &anchors.folders, &anchors.roots] {
            private_folder(folder)?;
        }
        Ok(anchors)
    }

    /// The file that a log's anchor is kept in.
    pub fn file(&self, log: LogId) -> PathBuf {
        self.heads.join(log.to_string())
    }

    /// What is remembered of a log. A file of which neither slot can be read is an error.
    pub fn read(&self, log: LogId) -> io::Result<Option<Anchor>> {
        let mut bytes = Vec::new();
        let file = match File::open(self.file(log)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let limit = u64::try_from(2 * SLOT_BYTES).unwrap_or(u64::MAX);
        file.take(limit).read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            // It was made and never written.
            return Ok(None);
        }
        let slots = bytes.chunks(SLOT_BYTES).filter_map(read_slot);
        let newest = slots.max_by_key(|anchor| anchor.size);
        newest.map(Some).ok_or_else(|| io::Error::other("it is damaged"))
    }

    /// The log that was last opened in a folder.
    pub fn log_in(&self, folder: &Path) -> io::Result<Option<LogId>> {
        match std::fs::read_to_string(self.folder_file(folder)) {
            Ok(text) => {
                let log = LogId::parse(text.trim());
                log.map(Some).map_err(|_| io::Error::other("it is damaged"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Remembers which log a folder has.
    pub fn set_log_in(&self, folder: &Path, log: LogId) -> io::Result<()> {
        if matches!(self.log_in(folder), Ok(Some(there)) if there == log) {
            return Ok(());
        }
        let path = self.folder_file(folder);
        let mut temporary = tempfile::NamedTempFile::new_in(&self.folders)?;
        temporary.write_all(log.to_string().as_bytes())?;
        // An empty file after a power cut would be taken for damage.
        temporary.as_file().sync_all()?;
        temporary.persist(&path)?;
        Ok(())
    }

    /// Forgets which log a folder had, for a new one that takes its place.
    pub fn release(&self, folder: &Path) -> io::Result<()> {
        match std::fs::remove_file(self.folder_file(folder)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The person who decided something first in a log, as it was seen here the first time.
    pub fn root_person(&self, log: LogId) -> io::Result<Option<PersonKey>> {
        match std::fs::read_to_string(self.roots.join(log.to_string())) {
            Ok(text) => {
                let key = PersonKey::try_from(text.trim().to_owned());
                key.map(Some).map_err(|_| io::Error::other("it is damaged"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Remembers the person who decided something first in a log.
    pub fn remember_root_person(&self, log: LogId, key: PersonKey) -> io::Result<()> {
        let mut temporary = tempfile::NamedTempFile::new_in(&self.roots)?;
        temporary.write_all(key.to_string().as_bytes())?;
        temporary.as_file().sync_all()?;
        temporary.persist(self.roots.join(log.to_string()))?;
        Ok(())
    }

    /// The copies of people's decisions in a log.
    pub(crate) fn copies(&self, log: LogId) -> DecisionCopies {
        DecisionCopies::at(self.heads.join(format!("{log}.decisions")))
    }

    /// Copies of people's decisions in a log, in the order of the log, as far as they are kept.
    pub fn decisions(&self, log: LogId) -> io::Result<Vec<CopiedDecision>> {
        self.copies(log).read()
    }

    /// Remembers a head in place of what was remembered, also an older one.
    pub fn replace(&self, log: LogId, anchor: &Anchor) -> io::Result<()> {
        let mut bytes = vec![b' '; 2 * SLOT_BYTES];
        let (first, second) = bytes.split_at_mut(SLOT_BYTES);
        let half = if anchor.size.is_multiple_of(2) { first } else { second };
        half.copy_from_slice(&slot(anchor)?);
        let mut temporary = tempfile::NamedTempFile::new_in(&self.heads)?;
        temporary.write_all(&bytes)?;
        temporary.as_file().sync_all()?;
        // A process that still has the file before open writes where nothing is read any more.
        temporary.persist(self.file(log))?;
        Ok(())
    }

    pub(crate) fn folder_file(&self, folder: &Path) -> PathBuf {
        self.folders.join(Digest::of(folder.as_os_str().as_encoded_bytes()).to_string())
    }

    pub(crate) fn writer(&self, log: LogId, folder: &Path) -> io::Result<AnchorWriter> {
        // What could never be written is told now, not passed over at each commit.
        let (note, folder) = ("x".repeat(NOTE_BYTES), folder.to_owned());
        slot(&Anchor { note, size: u64::MAX, folder: folder.clone(), at: Timestamp(i64::MAX) })?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = Some(options.open(self.file(log))?);
        Ok(AnchorWriter { file, folder, copies: self.copies(log) })
    }

    /// Writes copies of decisions and no heads: the log is an older one than what is remembered.
    pub(crate) fn writer_of_copies(&self, log: LogId, folder: &Path) -> AnchorWriter {
        AnchorWriter { file: None, folder: folder.to_owned(), copies: self.copies(log) }
    }
}

impl AnchorWriter {
    /// Remembers a head that was committed.
    pub(crate) fn write(&self, note: String, size: u64, at: Timestamp) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let slot = slot(&Anchor { note, size, folder: self.folder.clone(), at })?;
        // In turn, so that the one before stays whole while this one is written.
        let at = (size % 2).saturating_mul(u64::try_from(SLOT_BYTES).unwrap_or(0));
        write_at(file, &slot, at)
    }

    /// Copies decisions among records of the project stream that are about to be committed.
    pub(crate) fn copy<'a>(
        &self,
        rows: impl Iterator<Item = (u64, Digest, &'a [u8])>,
    ) -> io::Result<()> {
        self.copies.add(rows)
    }
}

/// An anchor as it is written, with its digest before it.
fn slot(anchor: &Anchor) -> io::Result<Vec<u8>> {
    // A path that is no UTF-8 cannot be written as JSON, and one that is too long does not fit.
    let json = serde_json::to_vec(anchor).map_err(io::Error::other)?;
    let mut slot = Digest::of(&json).to_string().into_bytes();
    slot.extend_from_slice(&json);
    if slot.len() > SLOT_BYTES {
        return Err(io::Error::other("the path of the project is too long to be remembered"));
    }
    slot.resize(SLOT_BYTES, b' ');
    Ok(slot)
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(not(unix))]
fn write_at(mut file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    use std::io::{Seek, SeekFrom, Write};
    file.seek(SeekFrom::Start(at))?;
    file.write_all(bytes)
}

fn read_slot(slot: &[u8]) -> Option<Anchor> {
    let (digest, json) = slot.split_at_checked(DIGEST_BYTES)?;
    let json = json.trim_ascii_end();
    let whole = Digest::of(json).to_string().as_bytes() == digest;
    whole.then(|| serde_json::from_slice(json).ok()).flatten()
}

/// Makes a folder that only its owner enters.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchors(state: &Path) -> (AnchorFolder, LogId) {
        (AnchorFolder::open(state).unwrap(), LogId::from_bytes([1; 16]))
    }

    #[test]
    fn the_newest_whole_slot_counts() {
        let state = tempfile::tempdir().unwrap();
        let (anchors, log) = anchors(state.path());
        assert_eq!(anchors.read(log).unwrap(), None);
        let writer = anchors.writer(log, Path::new("/project")).unwrap();
        assert_eq!(anchors.read(log).unwrap(), None, "made and not written");
        for size in [1, 2, 3] {
            writer.write(format!("note {size}"), size, Timestamp(0)).unwrap();
            assert_eq!(anchors.read(log).unwrap().unwrap().size, size);
        }
        // One slot is damaged: the other one, which is older, still counts.
        let path = anchors.file(log);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[SLOT_BYTES + 100] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(anchors.read(log).unwrap().unwrap().size, 2);
        bytes[100] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert!(anchors.read(log).is_err(), "neither can be read");
    }

    #[test]
    fn an_older_head_takes_the_place_of_a_newer_one_only_when_it_replaces_it() {
        let state = tempfile::tempdir().unwrap();
        let (anchors, log) = anchors(state.path());
        let writer = anchors.writer(log, Path::new("/project")).unwrap();
        writer.write("note 9".to_owned(), 9, Timestamp(0)).unwrap();
        writer.write("note 8".to_owned(), 8, Timestamp(0)).unwrap();
        assert_eq!(anchors.read(log).unwrap().unwrap().size, 9);
        for size in [4, 5] {
            let folder = PathBuf::from("/project");
            let anchor = Anchor { note: format!("note {size}"), size, folder, at: Timestamp(1) };
            anchors.replace(log, &anchor).unwrap();
            // What still has the file before open changes nothing.
            writer.write("note 10".to_owned(), 10, Timestamp(0)).unwrap();
            assert_eq!(anchors.read(log).unwrap(), Some(anchor));
        }
    }

    #[test]
    fn a_folder_knows_its_log() {
        let state = tempfile::tempdir().unwrap();
        let (anchors, log) = anchors(state.path());
        let folder = Path::new("/a/project");
        assert_eq!(anchors.log_in(folder).unwrap(), None);
        anchors.set_log_in(folder, log).unwrap();
        assert_eq!(anchors.log_in(folder).unwrap(), Some(log));
        assert_eq!(anchors.log_in(Path::new("/a/project2")).unwrap(), None);
    }

    #[test]
    fn a_path_that_does_not_fit_is_refused() {
        let state = tempfile::tempdir().unwrap();
        let (anchors, log) = anchors(state.path());
        let folder = PathBuf::from(format!("/{}", "x".repeat(SLOT_BYTES)));
        assert!(anchors.writer(log, &folder).is_err());
    }
}
