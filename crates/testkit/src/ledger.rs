//! Decides what really reached the world: an append-only list outside the log.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// One effect on the world.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The key the world was asked to honour.
    pub key: String,
    /// The tool.
    pub tool: String,
    /// Hash of the arguments.
    pub args_hash: String,
}

/// The world: what side-effecting tools did to it, in memory or in a file that outlives a kill.
pub enum Ledger {
    /// In memory.
    Memory(Mutex<Vec<Entry>>),
    /// In a file, one line per effect, flushed to disk before the tool answers.
    File(PathBuf),
}

impl Default for Ledger {
    fn default() -> Self {
        Self::Memory(Mutex::new(Vec::new()))
    }
}

impl Ledger {
    /// Writes an effect down.
    pub fn write(&self, entry: Entry) -> std::io::Result<()> {
        match self {
            Self::Memory(entries) => {
                entries.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
                Ok(())
            }
            Self::File(path) => {
                let mut file = OpenOptions::new().create(true).append(true).open(path)?;
                writeln!(file, "{}\t{}\t{}", entry.key, entry.tool, entry.args_hash)?;
                file.sync_data()
            }
        }
    }

    /// Everything that was done.
    pub fn entries(&self) -> std::io::Result<Vec<Entry>> {
        match self {
            Self::Memory(entries) => {
                Ok(entries.lock().unwrap_or_else(PoisonError::into_inner).clone())
            }
            Self::File(path) if !path.exists() => Ok(Vec::new()),
            Self::File(path) => {
                let text = std::fs::read_to_string(path)?;
                let entry = |line: &str| {
                    let mut parts = line.split('\t').map(str::to_owned);
                    let (key, tool, args_hash) = (parts.next()?, parts.next()?, parts.next()?);
                    Some(Entry { key, tool, args_hash })
                };
                Ok(text.lines().filter_map(entry).collect())
            }
        }
    }
}
