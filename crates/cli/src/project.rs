//! Decides where a project is, which configuration holds, and where its key lives.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use toolgate_kernel::agent::Agent;
use toolgate_kernel::config::{AgentText, PackName};
use toolgate_kernel::seal::SigningKey;
use toolgate_kernel::time::Timestamp;
use toolgate_packs::planning::planning;
use toolgate_runtime::port::{Clock, Store};
use toolgate_runtime::{Crew, Pack, Runtime, Toolbox};
use toolgate_store::Folder;
use toolgate_store::SqliteStore;

/// The agent that is used when there is no toolgate.yaml.
const OWN_AGENT: &str = include_str!("../demo/agent.yaml");

/// Where a command works.
pub(crate) struct Place {
    /// The project folder.
    pub(crate) folder: PathBuf,
    /// Another configuration than the project's.
    pub(crate) config: Option<PathBuf>,
}

/// A project that was opened.
pub(crate) struct Opened {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) key: SigningKey,
}

impl Place {
    /// Opens the project's log; `create` makes it when it is not there yet.
    pub(crate) fn open(&self, create: Create) -> Result<Opened> {
        ensure!(self.folder.is_dir(), "{} is not a folder", self.folder.display());
        let home = self.folder.join(".toolgate");
        let log = home.join("log.db");
        if create == Create::No && !log.exists() {
            bail!("there is no log in {} yet; `toolgate run` begins one", self.folder.display());
        }
        let key = SigningKey::from_bytes(&self.key()?);
        let staged = home.join("staged");
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .recursive(true)
            .create(&staged)
            .with_context(|| format!("{} cannot be made", staged.display()))?;
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&log)?);
        let files = Arc::new(Folder::open(&self.folder, &staged)?);
        let runtime = Runtime::new(Arc::clone(&store), Arc::new(SystemClock), key.clone());
        Ok(Opened { runtime: Arc::new(runtime.with_files(files)), store, key })
    }

    /// The key, which must not lie where an agent's tools can reach.
    fn key(&self) -> Result<[u8; 32]> {
        let bytes = key_bytes()?;
        let (key, folder) = (key_path()?.canonicalize()?, self.folder.canonicalize()?);
        ensure!(
            !key.starts_with(&folder),
            "the key {} lies inside the project; set XDG_CONFIG_HOME to a folder outside it",
            key.display()
        );
        Ok(bytes)
    }

    /// The agent with its handlers.
    pub(crate) fn crew(&self) -> Result<Crew> {
        let (name, text) = self.config_text()?;
        let text: AgentText =
            serde_saphyr::from_str(&text).map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
        let packs = packs(&text)?;
        let sections = packs.iter().map(|pack| pack.section.clone()).collect();
        let agent: Agent =
            text.build(sections).with_context(|| format!("{name} cannot be used"))?;
        Ok(Crew::new(Arc::new(agent), Toolbox::of(&packs)))
    }

    fn config_text(&self) -> Result<(String, String)> {
        let own = self.folder.join("toolgate.yaml");
        let path = match &self.config {
            Some(path) => path.clone(),
            None if own.exists() => own,
            None => return Ok(("the built-in configuration".to_owned(), OWN_AGENT.to_owned())),
        };
        let name = path.display().to_string();
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("{name} cannot be read"))?;
        Ok((name, text))
    }
}

/// Whether a log is made when there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Create {
    Yes,
    No,
}

fn packs(text: &AgentText) -> Result<Vec<Pack>> {
    let mut packs = Vec::new();
    for name in text.packs.as_deref().unwrap_or(&[PackName::Planning]) {
        packs.push(match name {
            PackName::Planning => planning(text.planning.unwrap_or_default().strategy)?,
        });
    }
    Ok(packs)
}

/// The key that signs the log: 32 random bytes outside every project, for this user alone.
fn key_bytes() -> Result<[u8; 32]> {
    let path = key_path()?;
    check_mode(&path)?;
    match std::fs::read(&path) {
        Ok(bytes) => <[u8; 32]>::try_from(bytes.as_slice())
            .ok()
            .with_context(|| format!("{} is not a key: it must have 32 bytes", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => make_key(&path),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

/// A key that others can read is no key.
fn check_mode(path: &Path) -> Result<()> {
    #[cfg(unix)]
    if let Ok(found) = std::fs::metadata(path) {
        let mode = std::os::unix::fs::PermissionsExt::mode(&found.permissions());
        ensure!(
            mode & 0o077 == 0,
            "{} can be read by others; run: chmod 600 {}",
            path.display(),
            path.display()
        );
    }
    Ok(())
}

fn key_path() -> Result<PathBuf> {
    let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let config = match config {
        Some(config) => config,
        None => {
            let home = std::env::var_os("HOME").context("HOME is not set; the key needs a home")?;
            PathBuf::from(home).join(".config")
        }
    };
    Ok(config.join("toolgate").join("log.key"))
}

fn make_key(path: &Path) -> Result<[u8; 32]> {
    let context = || format!("{} cannot be made", path.display());
    let folder = path.parent().context("the key needs a folder")?;
    std::fs::create_dir_all(folder).with_context(context)?;
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    // Another process may make the key at the same moment: the first one wins.
    let temporary = folder.join(format!("log.key.{}", std::process::id()));
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
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => key_bytes(),
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

/// A runtime for async work, on this thread.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(work)
}
