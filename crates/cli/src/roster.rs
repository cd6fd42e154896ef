//! Decides which tokens were made and which of them still hold: a file beside the log.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use toolgate_kernel::names::{PhaseName, SessionId};
use toolgate_kernel::time::Timestamp;
use toolgate_mcp::server::token::Roster;

/// Tokens that are remembered. Those that are over make room.
const TOKENS_MAX: usize = 1_000;

/// Bytes of the file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What is remembered of a token. The token itself is not.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Listed {
    pub(crate) id: String,
    pub(crate) session: SessionId,
    #[serde(default)]
    pub(crate) phase: Option<PhaseName>,
    pub(crate) created: Timestamp,
    pub(crate) expires: Timestamp,
    #[serde(default)]
    pub(crate) revoked: Option<Timestamp>,
}

#[derive(Default, Serialize, Deserialize)]
struct Tokens {
    version: u16,
    tokens: Vec<Listed>,
}

/// The file of a project.
pub(crate) struct TokenFile {
    path: PathBuf,
    seen: Mutex<Seen>,
}

/// The file as it was read last, with what tells whether it is another by now.
#[derive(Default)]
struct Seen {
    stamp: Option<(SystemTime, u64, u64)>,
    holding: Vec<String>,
}

impl TokenFile {
    /// The file in the folder of the log.
    pub(crate) fn beside(home: &Path) -> Self {
        Self { path: home.join("tokens.json"), seen: Mutex::default() }
    }

    /// Everything that is remembered, the oldest first.
    pub(crate) fn all(&self) -> Result<Vec<Listed>> {
        Ok(self.read()?.tokens)
    }

    fn read(&self) -> Result<Tokens> {
        let what = || format!("{} cannot be read", self.path.display());
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Tokens { version: 1, tokens: Vec::new() });
            }
            Err(error) => return Err(error).with_context(what),
        };
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).with_context(what)?;
        let tokens: Tokens = serde_json::from_slice(&bytes).with_context(what)?;
        ensure!(tokens.version == 1, "{} is of a later version", self.path.display());
        Ok(tokens)
    }

    /// Remembers a new token.
    pub(crate) fn add(&self, listed: Listed, now: Timestamp) -> Result<()> {
        self.change(|tokens| {
            if tokens.len() >= TOKENS_MAX {
                tokens.retain(|token| token.expires > now);
            }
            ensure!(tokens.len() < TOKENS_MAX, "there are {TOKENS_MAX} tokens; revoke some");
            tokens.push(listed);
            Ok(())
        })
    }

    /// Revokes a token for good.
    pub(crate) fn revoke(&self, id: &str, now: Timestamp) -> Result<Listed> {
        let unknown =
            format!("there is no token {id}; `toolgate token list` shows those there are");
        if !self.all()?.iter().any(|token| token.id == id) {
            bail!(unknown);
        }
        self.change(|tokens| {
            let token = tokens.iter_mut().find(|token| token.id == id).context(unknown)?;
            token.revoked.get_or_insert(now);
            Ok(token.clone())
        })
    }

    /// One change at a time, durable before it is said to be made.
    fn change<T>(&self, change: impl FnOnce(&mut Vec<Listed>) -> Result<T>) -> Result<T> {
        let what = || format!("{} cannot be written", self.path.display());
        let folder = self.path.parent().context("the tokens need a folder")?;
        let lock = private(&folder.join("tokens.lock")).with_context(what)?;
        lock.lock().with_context(what)?;
        let mut tokens = self.read()?;
        let changed = change(&mut tokens.tokens)?;
        let temporary = folder.join("tokens.json.new");
        let mut file = private(&temporary).with_context(what)?;
        file.set_len(0).with_context(what)?;
        file.write_all(&serde_json::to_vec_pretty(&tokens)?).with_context(what)?;
        file.sync_all().with_context(what)?;
        std::fs::rename(&temporary, &self.path).with_context(what)?;
        File::open(folder).and_then(|folder| folder.sync_all()).with_context(what)?;
        Ok(changed)
    }

    fn stamp(&self) -> Option<(SystemTime, u64, u64)> {
        let found = std::fs::metadata(&self.path).ok()?;
        #[cfg(unix)]
        let place = std::os::unix::fs::MetadataExt::ino(&found);
        #[cfg(not(unix))]
        let place = 0;
        Some((found.modified().ok()?, found.len(), place))
    }
}

/// A file for this user alone.
fn private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

impl Roster for TokenFile {
    /// Every change is another file, so a look at the folder tells whether there is news.
    fn holds(&self, id: &str) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = self.stamp();
        if stamp.is_none() {
            return false;
        }
        if seen.stamp != stamp {
            let Ok(tokens) = self.read() else { return false };
            let holding = tokens.tokens.into_iter().filter(|token| token.revoked.is_none());
            seen.holding = holding.map(|token| token.id).collect();
            seen.stamp = stamp;
        }
        seen.holding.iter().any(|known| known == id)
    }
}
