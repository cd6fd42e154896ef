//! Finds this user's host key, and the folder where the newest heads of logs are remembered.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use toolgate_kernel::time::Timestamp;
use toolgate_runtime::HostKey;
use toolgate_runtime::port::Clock;
use toolgate_store::{AnchorFolder, LogSetup};

use crate::environment;

/// What is kept in the state folder, in words.
const ANCHORS: &str = "record of the newest log";

/// Whether a key is made when there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Create {
    Yes,
    No,
}

/// What a log of a project is written with.
pub(crate) fn log_setup(project: &Path, create: Create) -> Result<LogSetup> {
    let (host, clock) = (Arc::new(host_key(project, create)?), Arc::new(SystemClock));
    Ok(LogSetup { host, clock, anchors: Some(anchors(project)?), pointer: None })
}

/// The key that signs the heads of this user's logs on this machine.
pub(crate) fn host_key(project: &Path, create: Create) -> Result<HostKey> {
    let path = own_folder(project, "key")?.join("host.key");
    let seed = key_bytes(&path, create)?;
    HostKey::from_seed(&seed).with_context(|| format!("{} is not a key", path.display()))
}

/// Where the newest heads of logs are remembered.
pub(crate) fn anchors(project: &Path) -> Result<AnchorFolder> {
    let folder = outside(project, state_folder(ANCHORS)?, ANCHORS, "XDG_STATE_HOME")?;
    for folder in [&folder, &folder.join("heads"), &folder.join("folders"), &folder.join("roots")] {
        close_to_others(folder)?;
    }
    let anchors = AnchorFolder::open(&folder);
    anchors.with_context(|| format!("{} cannot be made", folder.display()))
}

/// The same to compare a log with that is only read. Nothing is made; without a home there is none.
pub(crate) fn anchors_to_read() -> Option<AnchorFolder> {
    state_folder(ANCHORS).ok().map(|folder| AnchorFolder::at(&folder))
}

/// The folder for what belongs to this user and to no project. It must not lie where an agent's
/// tools can reach, and other users must not write there.
pub(crate) fn own_folder(project: &Path, what: &str) -> Result<PathBuf> {
    let folder = outside(project, config_folder(what)?, what, "XDG_CONFIG_HOME")?;
    close_to_others(&folder)?;
    Ok(folder)
}

/// The folder for what this user keeps about projects, which is made when it is not there. It must not
/// lie where an agent's tools can reach, and other users must not write there.
pub(crate) fn own_state_folder(project: &Path, what: &str) -> Result<PathBuf> {
    let folder = outside(project, state_folder(what)?, what, "XDG_STATE_HOME")?;
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let made = builder.recursive(true).create(&folder);
    made.with_context(|| format!("{} cannot be made", folder.display()))?;
    close_to_others(&folder)?;
    Ok(folder)
}

fn outside(project: &Path, path: PathBuf, what: &str, variable: &str) -> Result<PathBuf> {
    let project = project.canonicalize()?;
    // What is there of the path tells where the rest of it would be made.
    let there = path.ancestors().find_map(|part| part.canonicalize().ok());
    ensure!(
        there.is_none_or(|there| !there.starts_with(&project)),
        "the {what} in {} would lie inside the project; set {variable} to a folder outside it",
        path.display()
    );
    Ok(path)
}

pub(crate) fn config_folder(what: &str) -> Result<PathBuf> {
    user_folder("XDG_CONFIG_HOME", ".config", what)
}

pub(crate) fn state_folder(what: &str) -> Result<PathBuf> {
    user_folder("XDG_STATE_HOME", ".local/state", what)
}

fn user_folder(variable: &str, below_home: &str, what: &str) -> Result<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = match named {
        Some(folder) => folder,
        None => {
            let none = || format!("HOME is not set to a whole path; the {what} needs a home");
            environment::home().with_context(none)?.join(below_home)
        }
    };
    Ok(folder.join("toolgate"))
}

/// Keeps a folder for its owner alone. One that others may write is refused: what lies in it may be
/// theirs.
pub(crate) fn close_to_others(folder: &Path) -> Result<()> {
    #[cfg(unix)]
    if let Ok(found) = std::fs::metadata(folder) {
        use std::os::unix::fs::PermissionsExt;
        let mode = found.permissions().mode();
        ensure!(
            mode & 0o022 == 0,
            "{} can be written by other users, so the keys in it may be theirs; look at it, then run: \
             chmod 700 {}",
            folder.display(),
            folder.display()
        );
        if mode & 0o077 != 0 {
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))
                .with_context(|| format!("{} stays open to others", folder.display()))?;
        }
    }
    Ok(())
}

/// A key: 32 random bytes outside every project, for this user alone.
fn key_bytes(path: &Path, create: Create) -> Result<[u8; 32]> {
    check_mode(path)?;
    match std::fs::read(path) {
        Ok(bytes) => <[u8; 32]>::try_from(bytes.as_slice())
            .ok()
            .with_context(|| format!("{} is not a key: it must have 32 bytes", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => match create {
            Create::Yes => make_key(path),
            Create::No => bail!(
                "the key {} is missing; without it nothing can be added to this log, which can still \
                 be read. Put it back, or begin a new log that names this one with `toolgate log \
                 restart`",
                path.display()
            ),
        },
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

/// A secret that others can read is none.
pub(crate) fn check_mode(path: &Path) -> Result<()> {
    #[cfg(unix)]
    if let Ok(found) = std::fs::metadata(path) {
        let mode = std::os::unix::fs::PermissionsExt::mode(&found.permissions());
        ensure!(
            mode & 0o077 == 0,
            "{} can be read by others, so others may have copied it; if you do not know why, treat it as \
             stolen and make a new one. To go on with it, run: chmod 600 {}",
            path.display(),
            path.display()
        );
    }
    Ok(())
}

fn make_key(path: &Path) -> Result<[u8; 32]> {
    let context = || format!("{} cannot be made", path.display());
    let folder = path.parent().context("the key needs a folder")?;
    std::fs::create_dir_all(folder).with_context(context)?;
    close_to_others(folder)?;
    let bytes = environment::random()?;
    // Another process may make the key at the same moment: the first one wins.
    let temporary = folder.join(format!("host.key.{}", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&temporary).with_context(context)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    let linked = std::fs::hard_link(&temporary, path);
    std::fs::remove_file(&temporary)?;
    match linked {
        Ok(()) => Ok(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            key_bytes(path, Create::No)
        }
        Err(error) => Err(error).with_context(context),
    }
}

/// The clock on the wall.
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    // The one place where the clock is read.
    #[allow(clippy::disallowed_methods)]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Timestamp(since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX)))
    }
}

/// The clock of the sessions of a log: never before its newest commit, so that their deadlines and
/// rates do not begin anew when the clock is set back.
pub(crate) struct LogClock {
    not_before: Timestamp,
    opened: tokio::time::Instant,
}

impl LogClock {
    /// A clock that goes on from a moment at least.
    pub(crate) fn not_before(not_before: Timestamp) -> Self {
        Self { not_before, opened: tokio::time::Instant::now() }
    }
}

impl Clock for LogClock {
    fn now(&self) -> Timestamp {
        // It goes on also while the clock on the wall is behind.
        let elapsed = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        SystemClock.now().max(self.not_before.plus_ms(elapsed))
    }
}
