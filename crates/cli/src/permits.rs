//! Decides where the tokens of MCP servers are kept: a file per server outside every project, for
//! this user alone, and whole at any moment.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use toolgate_kernel::digest::Digest;
use toolgate_mcp::client::oauth::{Pen, Permit, Permits};

use crate::host::{check_mode, own_folder};

/// Bytes of the file.
const FILE_BYTES_MAX: u64 = 128 << 10;

/// The file with the permit of one server.
pub(crate) struct PermitFile {
    path: PathBuf,
}

impl PermitFile {
    /// The file for the server at an address.
    pub(crate) fn of(project: &Path, url: &str) -> Result<Self> {
        let folder = own_folder(project, "tokens")?.join("mcp-tokens");
        Ok(Self { path: folder.join(format!("{}.json", Digest::of(url.as_bytes()))) })
    }

    /// Writes a permit; who reads meanwhile reads the one before.
    pub(crate) fn keep(&self, permit: &Permit) -> Result<()> {
        let what = || format!("{} cannot be written", self.path.display());
        let folder = self.path.parent().context("the tokens need a folder")?;
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(folder).with_context(what)?;
        let temporary = self.path.with_extension(format!("{}.new", std::process::id()));
        let mut file = own().truncate(true).open(&temporary).with_context(what)?;
        file.write_all(permit.written().as_bytes()).with_context(what)?;
        file.sync_all().with_context(what)?;
        std::fs::rename(&temporary, &self.path).with_context(what)?;
        File::open(folder).and_then(|folder| folder.sync_all()).with_context(what)
    }

    /// The permit, if there is one; a file that others can read is refused.
    pub(crate) fn kept(&self) -> Result<Option<Permit>> {
        let what = || format!("{} cannot be read", self.path.display());
        match std::fs::metadata(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            // Opening a pipe would wait for whoever writes into it.
            Ok(found) if !found.is_file() => bail!("{} is no file", self.path.display()),
            Ok(_) => {}
            Err(error) => return Err(error).with_context(what),
        }
        check_mode(&self.path)?;
        let mut text = String::new();
        let file = File::open(&self.path).with_context(what)?;
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).with_context(what)?;
        Ok(Permit::read(&text))
    }

    /// Forgets the permit; whether there was one.
    pub(crate) fn forget(&self) -> Result<bool> {
        match std::fs::remove_file(&self.path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => {
                Err(error).with_context(|| format!("{} cannot be removed", self.path.display()))
            }
        }
    }
}

/// How a file is opened that is this user's alone.
fn own() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

impl Permits for PermitFile {
    fn load(&self) -> Option<Permit> {
        match self.kept() {
            Ok(permit) => permit,
            Err(error) => {
                crate::console::hint(&format!("A token is not used: {error:#}."));
                None
            }
        }
    }

    fn save(&self, permit: &Permit) {
        // The call that needed it goes on; the next process has to renew again.
        if let Err(error) = self.keep(permit) {
            crate::console::hint(&format!("A new token is not kept: {error:#}."));
        }
    }

    fn pen(&self) -> Option<Pen> {
        // The file stays: whoever removed it would have a pen beside whoever waits for it.
        let Ok(file) = own().open(self.path.with_extension("lock")) else {
            // Where nothing can be written, nothing is kept, and nobody is in the way.
            return Some(Box::new(()));
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            Ok(()) | Err(TryLockError::Error(_)) => Some(Box::new(file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_changes_a_permit() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] =
            ["a.json", "b.json"].map(|name| PermitFile { path: folder.path().join(name) });
        let first = one.pen();
        assert!(first.is_some() && one.pen().is_none());
        assert!(two.pen().is_some(), "another server is free");
        drop(first);
        assert!(one.pen().is_some());
    }
}
