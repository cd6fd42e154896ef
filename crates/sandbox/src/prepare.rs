//! Makes a policy of what a configuration grants, for one start of a program.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use crate::SandboxError;
use crate::grants::{GrantList, GrantOutcome, resolved};
use crate::level::{IsolationLevel, KernelSupport};
use crate::policy::{NetworkAccess, PathAccess, SandboxPolicy};
use crate::program::{around_file, find, install_folders, is_too_wide};
use crate::system::{ABOUT_COMPUTER, DEVICES, READABLE, SECRET};

/// Files and folders that are looked at for second names before a program starts.
const PROTECTED_FILES_MAX: usize = 20_000;

/// What is granted to a program, as it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxRequest {
    /// What happens where the system cannot isolate it.
    pub mode: SandboxMode,
    /// The project; relative paths are inside it.
    pub project: PathBuf,
    /// What may be read; `~/` is the home of the user.
    pub read: Vec<PathBuf>,
    /// What may be changed.
    pub write: Vec<PathBuf>,
    /// What it may connect to.
    pub network: NetworkAccess,
    /// Which home it sees.
    pub home: HomeAccess,
    /// The home of the user.
    pub user_home: Option<PathBuf>,
    /// A folder for this program alone, which is made when it is not there.
    pub private_folder: PathBuf,
    /// Whether it may use Unix sockets.
    pub unix_sockets: bool,
    /// What no program is given, be it there already or not: keys, logs, configurations.
    pub protected: Vec<PathBuf>,
    /// Files of its environment that it may read where they are there, such as certificates.
    pub extra_files: Vec<PathBuf>,
}

/// What happens where the system cannot isolate a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SandboxMode {
    /// What can be enforced is enforced.
    #[default]
    Auto,
    /// It is not started.
    Enforce,
    /// Nothing is enforced anywhere.
    Off,
}

/// Which home a program sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HomeAccess {
    /// A folder of its own.
    #[default]
    Private,
    /// That of the user, to read, without what is protected.
    Shared,
}

/// What is started.
#[derive(Debug, Clone, Copy)]
pub struct ProgramStart<'a> {
    /// The program, by name or by path.
    pub program: &'a Path,
    /// Its arguments.
    pub args: &'a [String],
    /// Where it runs.
    pub cwd: &'a Path,
    /// Its `PATH`.
    pub path: Option<&'a str>,
}

/// A program that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedProgram {
    /// Where it was found.
    pub program: PathBuf,
    /// What the starter enforces.
    pub policy: SandboxPolicy,
    /// How isolated it will be.
    pub level: IsolationLevel,
}

/// Variables that point into the private folder, and where.
const PRIVATE_VARIABLES: &[(&str, &str)] = &[
    ("HOME", ""),
    ("XDG_CACHE_HOME", ".cache"),
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
];
const TEMPORARY_VARIABLES: &[&str] = &["TMPDIR", "TMP", "TEMP"];
const TEMPORARY: &str = "tmp";

/// Managers of versions that look for themselves in the home, and how they are told where they are.
const VERSION_MANAGERS: &[(&str, &str)] = &[
    (".asdf", "ASDF_DATA_DIR"),
    (".local/share/mise", "MISE_DATA_DIR"),
    (".nodenv", "NODENV_ROOT"),
    (".pyenv", "PYENV_ROOT"),
    (".rbenv", "RBENV_ROOT"),
    (".volta", "VOLTA_HOME"),
];

impl SandboxRequest {
    /// The variables that the program is given in place of the user's.
    pub fn environment(&self) -> Vec<(String, String)> {
        if self.mode == SandboxMode::Off {
            return Vec::new();
        }
        let mut set = Vec::new();
        let mut add = |name: &str, path: &Path| {
            set.extend(path.to_str().map(|path| (name.to_owned(), path.to_owned())));
        };
        let temporary = self.private_folder.join(TEMPORARY);
        TEMPORARY_VARIABLES.iter().for_each(|name| add(name, &temporary));
        if self.home == HomeAccess::Private {
            for (name, inside) in PRIVATE_VARIABLES {
                let folder = if inside.is_empty() {
                    self.private_folder.clone()
                } else {
                    self.private_folder.join(inside)
                };
                add(name, &folder);
            }
            if let Some(home) = &self.user_home {
                let there = VERSION_MANAGERS.iter().map(|(name, key)| (home.join(name), key));
                there.filter(|(path, _)| path.is_dir()).for_each(|(path, key)| add(key, &path));
                // What `pip install --user` installed is found there.
                add("PYTHONUSERBASE", &home.join(".local"));
            }
        }
        set
    }

    /// Makes a policy for a start, and the private folder. `None` where there is no such program.
    pub fn prepare(
        &self,
        start: &ProgramStart<'_>,
        support: KernelSupport,
    ) -> Result<Option<PreparedProgram>, SandboxError> {
        let Some(program) = find(start.program, start.cwd, start.path) else { return Ok(None) };
        if self.mode == SandboxMode::Off {
            let level = IsolationLevel::None("`sandbox.mode` is `off`".to_owned());
            let policy = SandboxPolicy::default();
            return Ok(Some(PreparedProgram { program, policy, level }));
        }
        let level = support.level(&self.network, self.unix_sockets);
        if let (SandboxMode::Enforce, Some(missing)) = (self.mode, level.missing()) {
            return Err(SandboxError::NotEnforceable(missing));
        }
        let private = make_private(&self.private_folder)?;
        self.check_hard_links()?;
        let policy = SandboxPolicy {
            landlock_abi: support.landlock_abi,
            filter_calls: support.seccomp,
            drop_privileges: cfg!(target_os = "linux"),
            paths: self.paths(&program, start, &private)?,
            network: self.network.clone(),
            unix_sockets: self.unix_sockets,
            create_folders: vec![private.join(TEMPORARY)],
        };
        Ok(Some(PreparedProgram { program, policy, level }))
    }

    fn paths(
        &self,
        program: &Path,
        start: &ProgramStart<'_>,
        private: &Path,
    ) -> Result<Vec<crate::PathGrant>, SandboxError> {
        let home = self.user_home.as_deref();
        let home = home.and_then(|home| home.canonicalize().ok());
        let mut protected = self.protected.clone();
        protected.extend(SECRET.iter().map(PathBuf::from));
        let mut list = GrantList::new(&protected);
        let known = READABLE.iter().chain(ABOUT_COMPUTER).map(Path::new);
        let installed = install_folders(program, start.cwd, start.path, home.as_deref());
        let named = self.named_paths(start, home.as_deref());
        let wanted = known.map(Path::to_owned).chain(installed).chain(named);
        for path in wanted.chain(self.extra_files.iter().cloned()) {
            if let Ok(real) = path.canonicalize() {
                list.add(&real, PathAccess::Read)?;
            }
        }
        for device in DEVICES.iter().filter_map(|path| Path::new(path).canonicalize().ok()) {
            list.add_own(&device, PathAccess::Device)?;
        }
        if let (HomeAccess::Shared, Some(home)) = (self.home, &home) {
            list.add(home, PathAccess::Read)?;
        }
        let configured = [("read", &self.read, PathAccess::Read)];
        let configured = configured.into_iter().chain([("write", &self.write, PathAccess::Write)]);
        for (key, paths, access) in configured {
            for path in paths {
                let real = self.real(key, path)?;
                // A project that is the home, or a folder for everybody, is not meant as a whole.
                let whole = path == Path::new(".") && is_too_wide(&real, home.as_deref());
                if whole && access == PathAccess::Read {
                    continue;
                }
                if list.add(&real, access)? == GrantOutcome::Protected {
                    return Err(SandboxError::ProtectedPath { key, path: path.clone() });
                }
            }
        }
        list.add_own(private, PathAccess::Write)?;
        Ok(list.into_paths())
    }

    /// Where a configured path leads. One that is written relative to the project stays in it.
    fn real(&self, key: &'static str, path: &Path) -> Result<PathBuf, SandboxError> {
        let missing = || SandboxError::MissingPath { key, path: path.to_owned() };
        let (joined, relative) = self.joined(path);
        let real = joined.canonicalize().map_err(|_| missing())?;
        let project = self.project.canonicalize().map_err(|_| missing())?;
        let led_away = relative && !real.starts_with(&project) || self.is_led_away(&joined, &real);
        if led_away {
            let path = path.to_owned();
            return Err(SandboxError::LeavesProject { key, path, target: real });
        }
        Ok(real)
    }

    /// Whether a link leads from a path to another one, where a program could have made the link: below
    /// a folder that it may write.
    fn is_led_away(&self, path: &Path, real: &Path) -> bool {
        let Some(written) = without_dots(path) else { return true };
        let below = |folder: &PathBuf| {
            let folder = self.joined(folder).0.canonicalize().ok();
            let own = folder.filter(|folder| written != *folder);
            own.is_some_and(|folder| written.starts_with(folder))
        };
        written != real && self.write.iter().any(below)
    }

    /// Arguments that are paths: a folder is meant itself, and a file together with those beside it. A
    /// path in the project that leads out of it is not meant.
    fn named_paths(&self, start: &ProgramStart<'_>, home: Option<&Path>) -> Vec<PathBuf> {
        let project = self.project.canonicalize().unwrap_or_else(|_| self.project.clone());
        let granted = |arg: &String| {
            // `--root=/srv/data` names a path as well.
            let value =
                arg.split_once('=').filter(|_| arg.starts_with('-')).map(|(_, value)| value);
            let named = value.unwrap_or(arg);
            if named.is_empty() || named.starts_with('-') {
                return None;
            }
            let written = without_dots(&start.cwd.canonicalize().ok()?.join(named))?;
            let path = written.canonicalize().ok()?;
            let leaves = written.starts_with(&project) && !path.starts_with(&project);
            if leaves || self.is_led_away(&written, &path) {
                return None;
            }
            let found = path.metadata().ok()?;
            if found.is_file() {
                return around_file(&path, home);
            }
            let own_home = home == Some(path.as_path()) && written == path;
            (found.is_dir() && (own_home || !is_too_wide(&path, home))).then_some(path)
        };
        start.args.iter().filter_map(granted).collect()
    }

    /// A configured path in full, and whether it was written relative to the project.
    fn joined(&self, path: &Path) -> (PathBuf, bool) {
        match (path.strip_prefix("~"), &self.user_home) {
            (Ok(rest), Some(home)) => (home.join(rest), false),
            (Ok(_) | Err(_), _) => (self.project.join(path), path.is_relative()),
        }
    }

    /// A hard link is another name for the same file, which no rule about paths notices. A program
    /// cannot make one of a file that it may not open; this finds those that were there before.
    fn check_hard_links(&self) -> Result<(), SandboxError> {
        let mut due: Vec<PathBuf> = self.protected.iter().map(|path| resolved(path)).collect();
        let mut looked_at = 0_usize;
        while let Some(path) = due.pop() {
            looked_at += 1;
            let Ok(found) = path.symlink_metadata() else { continue };
            if found.is_file() && found.nlink() > 1 {
                return Err(SandboxError::HardLink { path });
            }
            // Homes of programs are their own, and hold many links.
            let is_homes = path.file_name().is_some_and(|name| name == "homes");
            if found.is_dir() && !is_homes && looked_at < PROTECTED_FILES_MAX {
                let inside = std::fs::read_dir(&path).into_iter().flatten().flatten();
                due.extend(inside.map(|entry| entry.path()));
            }
        }
        Ok(())
    }
}

/// The configured paths that are granted child by child, so that names made in them later are
/// refused until the program starts again.
pub fn closed_at_top<'r>(request: &'r SandboxRequest, paths: &'r [PathBuf]) -> Vec<&'r Path> {
    let list = GrantList::new(&request.protected);
    let is_closed = |path: &&PathBuf| {
        let real = request.joined(path).0.canonicalize();
        real.is_ok_and(|real| list.holds_protected(&real))
    };
    paths.iter().filter(is_closed).map(PathBuf::as_path).collect()
}

/// A path without `.` and `..`, with no link followed; none where it leads above the root.
fn without_dots(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                if !out.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => out.push(part),
        }
    }
    Some(out)
}

/// Makes the folder of one program, for this user alone.
fn make_private(folder: &Path) -> Result<PathBuf, SandboxError> {
    let failed = |reason: String| SandboxError::Home { path: folder.to_owned(), reason };
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(folder).map_err(|error| failed(error.to_string()))?;
    let found = folder.symlink_metadata().map_err(|error| failed(error.to_string()))?;
    if !found.is_dir() {
        return Err(failed("it is not a folder".to_owned()));
    }
    if found.uid() != rustix::process::getuid().as_raw() {
        return Err(failed("it belongs to another user".to_owned()));
    }
    if found.mode() & 0o077 != 0 {
        return Err(failed("others can open it; run chmod 700 on it".to_owned()));
    }
    folder.canonicalize().map_err(|error| failed(error.to_string()))
}
