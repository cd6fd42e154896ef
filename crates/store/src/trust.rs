//! Keeps what people signed about the configuration of a folder, outside of that folder.
//!
//! What is read here proves nothing by itself: its signatures are checked where it is used.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toolgate_kernel::decision::{DecisionKind, SignedDecision};
use toolgate_kernel::digest::Digest;

use crate::anchor::private_folder;

/// Bytes of one file: the text of a configuration has at most 5 MiB.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Configuration files of one folder that are remembered.
const ENTRIES_MAX: usize = 20;

/// Statements about one configuration file.
const DECISIONS_MAX: usize = 20;

/// The only form of the file there is.
const VERSION: u16 = 1;

/// What people signed about one configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustEntry {
    /// The file: `toolgate.yaml`, or the path of another one.
    pub config: String,
    /// What was signed, by different people about the same digests.
    pub decisions: Vec<SignedDecision>,
    /// The text that was signed, without secrets, to show what changed since.
    pub text: String,
}

/// The file of one folder.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustFile {
    version: u16,
    /// The real path of the folder.
    folder: PathBuf,
    entries: Vec<TrustEntry>,
}

/// Where the trust in configurations is kept: outside every project, for this user alone.
#[derive(Debug, Clone)]
pub struct TrustFolder(PathBuf);

impl TrustFolder {
    /// Below the folder for the state of toolgate. Nothing is made.
    pub fn at(state: &Path) -> Self {
        Self(state.join("trust"))
    }

    /// The file about a folder, which is named by its real path.
    pub fn file(&self, folder: &Path) -> PathBuf {
        self.0.join(Digest::of(folder.as_os_str().as_encoded_bytes()).to_string())
    }

    /// What was signed about the configuration files of a folder. A file that cannot be read is an
    /// error, and so is one about another folder.
    pub fn read(&self, folder: &Path) -> io::Result<Vec<TrustEntry>> {
        let file = match File::open(self.file(folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            file => file?,
        };
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if u64::try_from(bytes.len()).is_ok_and(|len| len > FILE_BYTES_MAX) {
            return Err(io::Error::other("it is too large"));
        }
        let found: TrustFile = serde_json::from_slice(&bytes).map_err(io::Error::other)?;
        if found.version != VERSION {
            return Err(io::Error::other("it was made by a newer toolgate"));
        }
        if found.folder != folder {
            return Err(io::Error::other("it is about another folder"));
        }
        Ok(found.entries)
    }

    /// Remembers what was signed about a configuration file. Statements about other digests of the
    /// same file are replaced; those of other people about the same ones are kept.
    pub fn add(
        &self,
        folder: &Path,
        config: &str,
        signed: SignedDecision,
        text: &str,
    ) -> io::Result<()> {
        // A file that cannot be read any more is no reason to refuse a new signature.
        let mut entries = self.read(folder).unwrap_or_default();
        let mut decisions = match entries.iter().position(|entry| entry.config == config) {
            Some(at) => entries.remove(at).decisions,
            None => Vec::new(),
        };
        let (by, digests) = (signed.statement.by, trusted(&signed));
        decisions.retain(|other| trusted(other) == digests && other.statement.by != by);
        decisions.truncate(DECISIONS_MAX - 1);
        decisions.push(signed);
        entries.truncate(ENTRIES_MAX - 1);
        let (config, text) = (config.to_owned(), text.to_owned());
        entries.insert(0, TrustEntry { config, decisions, text });
        self.write(folder, entries)
    }

    /// Forgets what was signed about the configuration files of a folder. Tells whether there was
    /// anything.
    pub fn forget(&self, folder: &Path) -> io::Result<bool> {
        match std::fs::remove_file(self.file(folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true),
        }
    }

    fn write(&self, folder: &Path, entries: Vec<TrustEntry>) -> io::Result<()> {
        private_folder(&self.0)?;
        let file = TrustFile { version: VERSION, folder: folder.to_owned(), entries };
        // Made for its owner alone, as every temporary file is.
        let mut temporary = tempfile::NamedTempFile::new_in(&self.0)?;
        serde_json::to_writer_pretty(&mut temporary, &file)?;
        temporary.write_all(b"\n")?;
        temporary.as_file().sync_all()?;
        temporary.persist(self.file(folder))?;
        Ok(())
    }
}

/// The digests that a statement trusts.
fn trusted(signed: &SignedDecision) -> Option<(Digest, Digest)> {
    let DecisionKind::Trust { reach, gate, .. } = signed.statement.what else { return None };
    Some((reach, gate))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn signed(by: u8, gate: &str) -> SignedDecision {
        let (key, zero) = (format!("{by:02x}").repeat(32), "0".repeat(64));
        let statement = json!({
            "log": "0".repeat(32), "by": key, "role": "owner", "at": 0, "expires": 1,
            "nonce": "0".repeat(32), "shown": zero,
            "what": {"kind": "trust", "reach": zero, "gate": gate.repeat(64), "text": zero},
        });
        let signed = json!({"statement": statement, "signature": "0".repeat(128)});
        serde_json::from_value(signed).unwrap()
    }

    #[test]
    fn statements_of_several_people_stand_beside_each_other_until_the_file_changes() {
        let state = tempfile::tempdir().unwrap();
        let (trust, folder) = (TrustFolder::at(state.path()), Path::new("/a/project"));
        assert!(trust.read(folder).unwrap().is_empty());
        trust.add(folder, "toolgate.yaml", signed(1, "a"), "one").unwrap();
        trust.add(folder, "toolgate.yaml", signed(2, "a"), "one").unwrap();
        trust.add(folder, "toolgate.yaml", signed(1, "a"), "one").unwrap();
        trust.add(folder, "/other.yaml", signed(1, "c"), "two").unwrap();
        let entries = trust.read(folder).unwrap();
        assert_eq!(entries.len(), 2);
        let own = entries.iter().find(|entry| entry.config == "toolgate.yaml").unwrap();
        assert_eq!(own.decisions, [signed(2, "a"), signed(1, "a")]);
        trust.add(folder, "toolgate.yaml", signed(1, "b"), "three").unwrap();
        let entries = trust.read(folder).unwrap();
        assert_eq!(entries[0].decisions, [signed(1, "b")]);
        assert_eq!(entries[0].text, "three");
        assert!(trust.forget(folder).unwrap());
        assert!(!trust.forget(folder).unwrap());
        assert!(trust.read(folder).unwrap().is_empty());
    }

    #[test]
    fn a_file_about_another_folder_is_refused() {
        let state = tempfile::tempdir().unwrap();
        let (trust, folder) = (TrustFolder::at(state.path()), Path::new("/a/project"));
        trust.add(folder, "toolgate.yaml", signed(1, "a"), "one").unwrap();
        let other = Path::new("/another/project");
        std::fs::copy(trust.file(folder), trust.file(other)).unwrap();
        assert!(trust.read(other).unwrap_err().to_string().contains("another folder"));
        std::fs::write(trust.file(folder), "{}").unwrap();
        assert!(trust.read(folder).is_err());
        trust.add(folder, "toolgate.yaml", signed(1, "a"), "one").unwrap();
        assert_eq!(trust.read(folder).unwrap().len(), 1);
    }
}
