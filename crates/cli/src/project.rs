//! Decides where a project is, and which configuration holds.

use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use toolgate_http::Transport;
use toolgate_kernel::agent::ConfigSource;
use toolgate_kernel::config::{
    AgentText, Checked, ConfigDifference, ConfigDigests, Finding, Mistake, Reading, Severity,
    masked_text, read,
};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::limits::Limits;
use toolgate_kernel::names::SessionId;
use toolgate_kernel::pin::Pins;
use toolgate_kernel::token_key::TokenKey;
use toolgate_packs::core_tools::ProjectSources;
use toolgate_packs::self_authoring::Reviewer;
use toolgate_packs::web::Web;
use toolgate_packs::{enabled_with, every};
use toolgate_runtime::memory::MemoryStore;
use toolgate_runtime::port::{Store, StoreFault};
use toolgate_runtime::{Crew, Pack, Resources, Runtime, Toolbox};
use toolgate_store::{
    Anchor, Folder, Handover, Hold, HoldFault, LogPointer, LogSetup, OpenFault, Rival, SqliteStore,
};

use crate::console;
use crate::credential::PersonName;
use crate::diagnose::{self, File};
use crate::environment::{self, Flags, Wary};
use crate::host::{
    Create, LogClock, SystemClock, anchors_to_read, config_folder, host_key, log_setup,
    state_folder,
};
use crate::machine_policy;
use crate::model;
use crate::prompts;
use crate::redaction::{self, redactor};
use crate::trust::TrustedAccess;

/// The agent that is used when there is no toolgate.yaml.
pub(crate) const OWN_AGENT: &str = include_str!("../demo/novel.yaml");

/// Where a command works, and who decides there.
#[derive(Clone)]
pub(crate) struct Place {
    /// The project folder.
    pub(crate) folder: PathBuf,
    /// Another configuration than the project's.
    pub(crate) config: Option<PathBuf>,
    /// The digest of a configuration that the command line says is trusted.
    pub(crate) operator: Option<Digest>,
    /// Another person than the user of this account.
    pub(crate) person: Option<PersonName>,
}

/// A configuration that was read once: what is run, and what its file says.
pub(crate) struct LoadedConfig {
    pub(crate) crew: Crew,
    /// With the settings of the command line and the environment.
    pub(crate) text: AgentText,
    /// As its file says it.
    pub(crate) file: AgentText,
    source: ConfigSource,
}

impl LoadedConfig {
    /// The digests of the file.
    pub(crate) fn digests(&self) -> ConfigDigests {
        self.source.digests
    }

    /// The text of the file without secrets.
    pub(crate) fn masked_text(&self) -> &str {
        &self.source.masked_text
    }
}

/// Where the log of a project is.
pub(crate) struct LogHome {
    /// The folder that it lies in.
    pub(crate) folder: PathBuf,
    /// The file in the project that names that folder, where it lies outside.
    pub(crate) pointer: Option<PathBuf>,
}

impl LogHome {
    /// The file of the log.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join("log.db")
    }

    /// The real path by which the log is known outside the project.
    pub(crate) fn known_folder(&self) -> Result<PathBuf> {
        let named = self.pointer.as_ref().unwrap_or(&self.folder);
        Ok(named.canonicalize()?)
    }
}

/// A log that was opened to be read.
pub(crate) struct Log {
    pub(crate) store: Arc<dyn Store>,
}

/// A project that was opened for work.
pub(crate) struct Opened {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) store: Arc<dyn Store>,
    /// Where it is written down which process has which session.
    held: PathBuf,
}

/// Says that calls will be refused soon, from 80 % of what the log may have.
fn warn_of_growth(bytes: u64, bytes_max: u64) {
    if bytes / 4 >= bytes_max / 5 {
        console::hint(&format!(
            "The log has {bytes} of {bytes_max} bytes (`limits.log_bytes_max`); calls are refused when \
             it is full. Raise the limit, or begin a new log: toolgate log restart"
        ));
    }
}

/// How often and when it is looked whether another process is through with that: ten seconds in all,
/// because reading a long session takes a moment.
const HANDOVER_LOOKS_MAX: u32 = 500;
const HANDOVER_LOOK: Duration = Duration::from_millis(20);

impl Opened {
    /// Waits until no other server is about to have a session and to claim it.
    pub(crate) async fn handover(&self, session: &SessionId) -> Result<Handover> {
        for _ in 0..HANDOVER_LOOKS_MAX {
            if let Some(handover) = Handover::take(&self.held, session)? {
                return Ok(handover);
            }
            tokio::time::sleep(HANDOVER_LOOK).await;
        }
        Err(HoldFault::ChangesHands { session: session.clone() }.into())
    }

    /// Has a session and claims it, with nobody in between: of several that take one over, the last
    /// one to have it must be the last one to claim it, or nobody is left.
    pub(crate) async fn take<T, E: Into<anyhow::Error>>(
        &self,
        session: &SessionId,
        rival: Rival,
        claim: impl Future<Output = std::result::Result<T, E>>,
    ) -> Result<(T, Hold)> {
        let handover = self.handover(session).await?;
        let hold = self.hold(session, rival)?;
        let claimed = claim.await.map_err(Into::into)?;
        drop(handover);
        Ok((claimed, hold))
    }

    /// Where whoever has a session offers it over HTTP.
    pub(crate) fn offered_at(&self, session: &SessionId) -> Option<SocketAddr> {
        Hold::offered_at(&self.held, session)
    }

    /// Has a session for this process alone, so that nobody is taken by surprise.
    pub(crate) fn hold(&self, session: &SessionId, rival: Rival) -> Result<Hold> {
        Hold::take(&self.held, session, rival).map_err(|fault| {
            let told = fault.to_string();
            let held = matches!(fault, HoldFault::Held { .. });
            let error = anyhow::Error::new(fault);
            if !held {
                return error;
            }
            error.context(format!(
                "{told}; nothing was done.\n  Wait until it is through, or stop it.\n  \
                 How far it is:  toolgate sessions show {session}\n  \
                 Go on here:     add --take-over"
            ))
        })
    }
}

impl Place {
    /// Opens the project's log to look at it. No secret is needed for that.
    pub(crate) fn log(&self) -> Result<Log> {
        let store = self.log_as_it_is()?;
        match self.compare_anchor() {
            // A copy can be read like the log that it is a copy of.
            Ok(_) | Err(OpenFault::Copied { .. }) => Ok(Log { store: Arc::new(store) }),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Compares the log with what is remembered of it outside the project, and says what that is.
    pub(crate) fn compare_anchor(&self) -> std::result::Result<Option<Anchor>, OpenFault> {
        let own = self.folder.join(".toolgate");
        let unreadable = |source| OpenFault::Unreachable { path: own.clone(), source };
        let pointer = LogPointer::read(&own).map_err(unreadable)?;
        let pointed = pointer.as_ref().map(|_| own.as_path());
        let path = pointer.as_ref().map_or(own.as_path(), |pointer| &pointer.target).join("log.db");
        match (anchors_to_read(), pointed) {
            (Some(anchors), pointed) => SqliteStore::compare(path, pointed, &anchors),
            (None, None) => Ok(None),
            // Nothing says that the log which it names belongs here.
            (None, Some(_)) => Err(OpenFault::ForeignPointer { pointer: own, path }),
        }
    }

    /// The same, whether or not it is the newest one.
    pub(crate) fn log_as_it_is(&self) -> Result<SqliteStore> {
        let log = self.log_path()?;
        if !log.exists() {
            // One that was there before is missed.
            self.compare_anchor()?;
            bail!("there is no log in {} yet; `toolgate run` begins one", self.folder.display());
        }
        Ok(SqliteStore::look(&log)?)
    }

    /// The file of the log.
    pub(crate) fn log_path(&self) -> Result<PathBuf> {
        Ok(self.home()?.join("log.db"))
    }

    /// What signs the tokens for clients of this log.
    pub(crate) fn token_key(&self) -> Result<TokenKey> {
        Ok(host_key(&self.folder, Create::No)?.token_key(self.log()?.store.log_id()))
    }

    /// The folder of the log.
    pub(crate) fn home(&self) -> Result<PathBuf> {
        Ok(self.log_home()?.folder)
    }

    /// Where the log is: in the project, or where the file in its place says.
    pub(crate) fn log_home(&self) -> Result<LogHome> {
        ensure!(self.folder.is_dir(), "{} is not a folder", self.folder.display());
        let home = self.folder.join(".toolgate");
        // What was approved in one project would count in another, and a lost log would not be missed.
        if home.is_symlink() {
            let fault = StoreFault::Unavailable(format!(
                "{} is a link, and a log lies in its own project; put the folder itself there",
                home.display()
            ));
            return Err(fault.into());
        }
        let unusable = |why: &str| {
            let why = format!("{}: {why}; remove it, or put the right one back", home.display());
            StoreFault::Unavailable(why)
        };
        let pointer = LogPointer::read(&home).map_err(|error| unusable(&error.to_string()))?;
        let Some(LogPointer { target }) = pointer else {
            return Ok(LogHome { folder: home, pointer: None });
        };
        let (project, real) = (self.folder.canonicalize()?, target.canonicalize());
        if real.as_ref().unwrap_or(&target).starts_with(&project) {
            return Err(unusable("it names a folder inside the project").into());
        }
        Ok(LogHome { folder: target, pointer: Some(home) })
    }

    /// Opens the project to write in its log, which is made when it is not there yet. Nothing that the
    /// configuration names can be reached.
    pub(crate) fn open(&self) -> Result<Opened> {
        self.opened(Resources::default())
    }

    /// Opens the project to run its agent.
    pub(crate) fn open_trusted(&self, access: &TrustedAccess, limits: &Limits) -> Result<Opened> {
        let opened = self.opened(resources(access)?)?;
        warn_of_growth(opened.store.bytes(), limits.log_bytes_max);
        // Also those that this command does not use itself: a client may send any of them.
        redaction::learn(access);
        Ok(opened)
    }

    fn opened(&self, resources: Resources) -> Result<Opened> {
        let LogHome { folder: home, pointer } = self.log_home()?;
        // A key that was lost cannot be made anew: the log it signed would count as another's.
        let create = if home.join("log.db").exists() { Create::No } else { Create::Yes };
        if create == Create::Yes {
            // Nothing is made in the place of a log that was lost.
            self.compare_anchor()?;
            if pointer.is_some() {
                let (path, source) = (home.join("log.db"), std::io::ErrorKind::NotFound.into());
                return Err(OpenFault::Unreachable { path, source }.into());
            }
        }
        let setup = LogSetup { pointer, ..log_setup(&self.folder, create)? };
        let staged = home.join("staged");
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .recursive(true)
            .create(&staged)
            .with_context(|| format!("{} cannot be made", staged.display()))?;
        let store = SqliteStore::open(home.join("log.db"), &setup)?;
        let clock = Arc::new(LogClock::not_before(store.newest_at()));
        let store: Arc<dyn Store> = Arc::new(store);
        let files = Arc::new(self.files(&staged)?);
        let runtime = Runtime::new(Arc::clone(&store), clock);
        let held = home.join("held");
        let runtime = runtime.with_files(files).with_resources(resources);
        let runtime = runtime.with_redactor(redactor());
        Ok(Opened { runtime: Arc::new(runtime), store, held })
    }

    /// Opens the project to look at it. Where there is no log yet, none is made; one that may not be
    /// written is read as it is.
    pub(crate) fn look(&self) -> Result<Opened> {
        let home = self.home()?;
        let Log { store } = if home.join("log.db").exists() {
            self.log()?
        } else {
            self.compare_anchor()?;
            Log { store: Arc::new(MemoryStore::new()) }
        };
        let runtime = Runtime::new(Arc::clone(&store), Arc::new(SystemClock));
        // Nothing is staged while somebody only looks, so the folder for it need not stay.
        // Nobody can guess its name and be there first.
        let name: [u8; 8] = environment::random()?;
        let name = u64::from_be_bytes(name);
        let staged = std::env::temp_dir().join(format!("toolgate-look-{name:016x}"));
        let files = Arc::new(self.files(&staged)?);
        std::fs::remove_dir(&staged).with_context(|| format!("{} stays", staged.display()))?;
        let runtime = Arc::new(runtime.with_files(files).with_redactor(redactor()));
        Ok(Opened { runtime, store, held: home.join("held") })
    }

    /// The project's files. The configuration in force and what its secrets are read from are law,
    /// whatever they are called.
    fn files(&self, staged: &Path) -> Result<Folder> {
        let mut folder = Folder::open(&self.folder, staged)?;
        let home = self.log_home()?;
        let log = home.pointer.is_some().then_some(home.folder);
        let own = [config_folder("key"), state_folder("state")].into_iter().flatten().chain(log);
        for own in own {
            folder = folder.keeping_outside_from_tools(own);
        }
        let top = self.folder.canonicalize()?;
        let reading = read(&self.config_bytes()?.1);
        let secrets = reading.text.secret_files().into_iter().map(|path| self.folder.join(path));
        for path in secrets.chain(self.config.clone()).chain(git_folders(&top)) {
            let Ok(path) = path.canonicalize() else { continue };
            folder = match path.strip_prefix(&top).map(Path::to_str) {
                Ok(Some(inside)) => folder.keeping_from_tools(inside),
                Ok(None) | Err(_) => folder.keeping_outside_from_tools(path),
            };
        }
        Ok(folder)
    }

    /// The agent with its handlers, to look at.
    pub(crate) fn crew(&self) -> Result<Crew> {
        Ok(self.crew_with(&Flags::default())?.0)
    }

    /// The same with what the command line says, and the settings that hold.
    pub(crate) fn crew_with(&self, flags: &Flags) -> Result<(Crew, AgentText)> {
        self.crew_as(flags, |_| {})
    }

    /// The same with a configuration that is read in another light.
    pub(crate) fn crew_as(
        &self,
        flags: &Flags,
        light: impl Fn(&mut AgentText),
    ) -> Result<(Crew, AgentText)> {
        let loaded = self.load(flags, light)?;
        Ok((loaded.crew, loaded.text))
    }

    /// The configuration, read once.
    pub(crate) fn load(
        &self,
        flags: &Flags,
        light: impl Fn(&mut AgentText),
    ) -> Result<LoadedConfig> {
        let (name, bytes) = self.config_bytes()?;
        let (checked, packs) = self.checked_as(read(&bytes), Some(flags), &light)?;
        if checked.agent().is_none() {
            let (alone, _) = self.checked_as(read(&bytes), None, &light)?;
            return Err(refused(&name, &checked, &alone, flags));
        }
        let text = checked.text.clone();
        let agent = checked.into_agent().context("the configuration makes no agent")?;
        // The file alone: what flags and variables fill in weakens nothing, and is recorded beside it.
        let file = read(&bytes).text;
        let digests = ConfigDigests::of(&file, &agent);
        let masked_text = masked_text(&bytes).context("the configuration cannot be read")?;
        let filled_in = ConfigDifference::between(&file, &text).changes.into_iter();
        let overrides = filled_in.filter_map(|change| Some((change.key, change.after?))).collect();
        let source = ConfigSource { digests, masked_text, overrides };
        let agent = Arc::new(agent.with_source(source.clone()));
        let mut crew = Crew::new(agent, Toolbox::of(&packs));
        crew.evidence = ProjectSources::configured(&file);
        Ok(LoadedConfig { crew, text, file, source })
    }

    /// Looks at a configuration by itself, beside the tools of servers that were ever seen.
    pub(crate) fn checked(&self, bytes: &[u8], pins: &Pins) -> Result<Checked> {
        let flags = Flags::default();
        Ok(self.checked_as(read(bytes).beside(pins), Some(&flags), |_| {})?.0)
    }

    /// Looks at a configuration, with the settings of the command line and the environment; without
    /// flags it is looked at alone.
    fn checked_as(
        &self,
        mut reading: Reading,
        flags: Option<&Flags>,
        light: impl Fn(&mut AgentText),
    ) -> Result<(Checked, Vec<Pack>)> {
        light(&mut reading.text);
        reading.text.machine_policies = machine_policy::policies()?;
        if let Some(flags) = flags {
            let file = std::mem::take(&mut reading.text.settings);
            let mut here = environment::settings()?.away_from(&file);
            let said = flags.settings().or(file);
            reading.text.settings = said.clone().or(here.clone());
            if reading.text.declared().is_some() {
                // Where a declared model is reached, and with which key, the file says.
                (here.base_url, here.api_key) = (None, None);
                reading.text.settings = said.or(here);
            }
        }
        let packs = enabled_with(&reading.text, &prompts::user_prompts(&reading.text))?;
        let sections = || packs.iter().map(|pack| pack.section.clone()).collect();
        let unknown = |checked: &Checked| {
            checked.findings.iter().any(|finding| finding.code == Mistake::UnknownName)
        };
        let alone = (!reading.refused()).then(|| reading.clone().check(sections()));
        let checked = match alone.filter(|checked| !unknown(checked)) {
            Some(checked) => checked,
            // Names that are missing are looked for in the packs that are not enabled.
            None => {
                let every: Vec<_> = every()?.into_iter().map(|pack| pack.section).collect();
                reading.among(&every).check(sections())
            }
        };
        Ok((checked, packs))
    }

    /// The configuration that holds, and how it is called.
    pub(crate) fn config_bytes(&self) -> Result<(String, Vec<u8>)> {
        ensure!(self.folder.is_dir(), "{} is not a folder", self.folder.display());
        let own = self.folder.join("toolgate.yaml");
        match &self.config {
            Some(path) => named(path),
            // A link that leads nowhere is a law that is missing, not one that was never made.
            None if own.symlink_metadata().is_ok() => named(&own),
            None if self.folder.join("toolgate.yml").symlink_metadata().is_ok() => {
                bail!("toolgate.yml is not read; call it toolgate.yaml, or use --config")
            }
            None => Ok(("the built-in configuration".to_owned(), OWN_AGENT.into())),
        }
    }
}

/// A model that must be relied on is measured before it can be, and for that it is trusted before.
pub(crate) fn to_be_measured(text: &mut AgentText) {
    let own = text.models.values_mut().filter_map(|model| model.tool_calling.as_mut());
    for calling in text.tool_calling.iter_mut().chain(own) {
        calling.allow_unreliable = Some(true);
    }
}

/// What calls may reach beside the project, where a pack asks for it: the web, and the model that looks
/// at new prompts. One that cannot be made is an error for the call that needs it.
fn resources(access: &TrustedAccess) -> Result<Resources> {
    let transport = Transport::new(environment::roots()?);
    let resources = Resources::default().with(Web(Arc::new(transport)));
    let own = access.file().self_authoring.as_ref();
    let Some(name) = own.and_then(|own| own.reviewer.as_deref()) else { return Ok(resources) };
    let reviewer = model::by_name(access, access.file(), name.trim());
    Ok(resources.with(Reviewer(reviewer.map_err(|error| format!("{error:#}")))))
}

/// Tells what is wrong with a configuration, and why nothing is done. What the file alone is free
/// of came from a flag or a variable, and is not blamed on it.
fn refused(name: &str, checked: &Checked, alone: &Checked, flags: &Flags) -> anyhow::Error {
    let file = File { name, source: checked.source() };
    let colour = diagnose::colour(&std::io::stderr());
    let own = |finding: &&Finding| alone.findings.iter().any(|f| f.message == finding.message);
    let errors = || checked.findings.iter().filter(|f| f.severity == Severity::Error);
    for finding in errors() {
        if own(&finding) {
            console::hint(&format!("{}\n", file.text(finding, colour)));
            continue;
        }
        console::hint(&format!("error: {}", console::visible(&finding.message)));
        if let Some(help) = &finding.help {
            console::hint(&format!("  help: {}", console::visible(help)));
        }
    }
    let s = |count: usize| if count == 1 { "" } else { "s" };
    match (errors().filter(own).count(), errors().count()) {
        (0, count) => anyhow!("{} cannot be used: {count} error{}", flags.whence(), s(count)),
        (_, count) => {
            anyhow!("{name} cannot be used: {count} error{}. Nothing of it is loaded", s(count))
        }
    }
}

/// The folders that git obeys in place of `.git`, where that is a file which names another one: for
/// worktrees, submodules and bare repositories (ADR 0026).
fn git_folders(top: &Path) -> Vec<PathBuf> {
    let pointed = |file: &Path, word: &str| {
        let text = String::from_utf8(bounded(file).ok()?).ok()?;
        let path = text.trim().strip_prefix(word)?.trim().to_owned();
        Some(file.parent()?.join(path))
    };
    let Some(folder) = pointed(&top.join(".git"), "gitdir:") else { return Vec::new() };
    let common = pointed(&folder.join("commondir"), "");
    std::iter::once(folder).chain(common).collect()
}

/// A file by its name. A `./` before it says nothing.
pub(crate) fn named(path: &Path) -> Result<(String, Vec<u8>)> {
    let name = path.strip_prefix("./").unwrap_or(path).display().to_string();
    let bytes = bounded(path).with_context(|| format!("{name} cannot be read"))?;
    Ok((name, bytes))
}

/// Largest file a person hands over: a configuration, a script or a picture.
const HANDED_BYTES_MAX: u64 = 5 << 20;

/// Reads a plain file of bearable size.
pub(crate) fn bounded(path: &Path) -> Result<Vec<u8>> {
    // A pipe would wait for somebody to write into it; this looks before it opens.
    ensure!(std::fs::metadata(path)?.is_file(), "it is not a plain file");
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path)?.take(HANDED_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    let fits = u64::try_from(read).is_ok_and(|read| read <= HANDED_BYTES_MAX);
    ensure!(fits, "it has more than {HANDED_BYTES_MAX} bytes");
    Ok(bytes)
}

/// A runtime for async work, on this thread.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(work);
    // Somebody may still wait for a line on stdin, which nobody will write.
    runtime.shutdown_background();
    done
}
