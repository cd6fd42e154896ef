//! Makes what a configuration grants to the program of a server into a request to the sandbox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use toolgate_kernel::config::{
    AgentText, HomeConfig, NetworkConfig, NetworkWord, SandboxConfig, SandboxModeConfig,
    ServerText, masked_text,
};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::hidden::Hidden;
use toolgate_kernel::names::ServerName;
use toolgate_mcp::client::ProgramSandbox;
use toolgate_sandbox::{
    HomeAccess, KernelSupport, NetworkAccess, SandboxMode, SandboxRequest, Starter,
};

use crate::environment;
use crate::host::{config_folder, state_folder};
use crate::project::Place;

/// What all programs of a project have in common.
pub(crate) struct Isolation {
    /// The project, without symbolic links.
    pub(crate) project: PathBuf,
    user_home: Option<PathBuf>,
    homes: PathBuf,
    protected: Vec<PathBuf>,
    /// Of these, what a program may have that is granted to write the whole project: the log lies
    /// outside, and nothing that is left of toolgate in the project has authority.
    exposed: Vec<PathBuf>,
    support: KernelSupport,
}

impl Isolation {
    /// What holds in a project with this configuration.
    pub(crate) fn of(place: &Place, text: &AgentText) -> Result<Self> {
        let project = place.folder.canonicalize();
        let project = project.with_context(|| format!("{} is gone", place.folder.display()))?;
        let state = state_folder("homes of MCP servers")?;
        let name = Digest::of(project.as_os_str().as_encoded_bytes()).short();
        let user_home = environment::home();
        let mut protected = vec![
            config_folder("key")?,
            state.clone(),
            project.join(".toolgate"),
            project.join("toolgate.yaml"),
        ];
        // Another process of this user may work with other variables.
        let usual = [".config/toolgate", ".local/state/toolgate"];
        let usual = user_home.iter().flat_map(|home| usual.map(|folder| home.join(folder)));
        protected.extend(usual);
        protected.extend(place.config.as_ref().map(|config| absolute(config)).transpose()?);
        protected.extend(text.secret_files().into_iter().map(|path| project.join(path)));
        let log = place.log_home()?;
        let mut exposed = Vec::new();
        if log.pointer.is_some() {
            protected.push(log.folder);
            // A configuration with a literal secret is not given away.
            let (_, bytes) = place.config_bytes()?;
            let has_secret = masked_text(&bytes).is_none_or(|text| text.as_bytes() != bytes);
            if !has_secret {
                exposed = vec![project.join(".toolgate"), project.join("toolgate.yaml")];
            }
        }
        let homes = state.join("homes").join(name);
        let support = KernelSupport::probe();
        Ok(Self { project, user_home, homes, protected, exposed, support })
    }

    /// The sandbox of the program of a server.
    pub(crate) fn sandbox(&self, name: &ServerName, server: &ServerText) -> Result<ProgramSandbox> {
        let (starter, support) = (Starter::find()?, self.support);
        Ok(ProgramSandbox { starter, request: self.request(name, server), support })
    }

    /// What the program of a server is granted.
    pub(crate) fn request(&self, name: &ServerName, server: &ServerText) -> SandboxRequest {
        let config = server.sandbox.clone().unwrap_or_default();
        let mut read: Vec<PathBuf> = config.read.iter().map(PathBuf::from).collect();
        // A program can do little in a folder that it may not read. What is outside the project is
        // granted only where `read` says so.
        let inside = |cwd: &&String| {
            let real = self.project.join(cwd.as_str()).canonicalize();
            real.is_ok_and(|real| real.starts_with(&self.project))
        };
        read.extend(server.cwd.iter().filter(inside).map(PathBuf::from));
        let is_project = |path: &String| {
            let real = self.project.join(path).canonicalize();
            real.is_ok_and(|real| real == self.project)
        };
        let mut protected = self.protected.clone();
        if config.write.iter().any(is_project) {
            protected.retain(|path| !self.exposed.contains(path));
        }
        SandboxRequest {
            mode: match config.mode {
                SandboxModeConfig::Auto => SandboxMode::Auto,
                SandboxModeConfig::Enforce => SandboxMode::Enforce,
                SandboxModeConfig::Off => SandboxMode::Off,
            },
            project: self.project.clone(),
            read,
            write: config.write.iter().map(PathBuf::from).collect(),
            network: match &config.network {
                NetworkConfig::Word(NetworkWord::All) => NetworkAccess::All,
                NetworkConfig::Word(NetworkWord::None) => NetworkAccess::None,
                NetworkConfig::Ports(ports) => NetworkAccess::Ports(ports.clone()),
            },
            home: match config.home {
                HomeConfig::Private => HomeAccess::Private,
                HomeConfig::Shared => HomeAccess::Shared,
            },
            user_home: self.user_home.clone(),
            private_folder: self.homes.join(name.as_str()),
            unix_sockets: config.unix_sockets,
            protected,
            extra_files: files_of(&passed(&config)),
        }
    }

    /// The variables of a program in place of ours: those that are passed on, and its home.
    pub(crate) fn environment(
        &self,
        name: &ServerName,
        server: &ServerText,
    ) -> BTreeMap<String, Hidden> {
        let config = server.sandbox.clone().unwrap_or_default();
        // A proxy may have a password in its address.
        let passed = passed(&config).into_iter().map(|(name, value)| (name, Hidden::new(&value)));
        let own = self.request(name, server).environment();
        let own = own.into_iter().map(|(name, value)| (name, Hidden::open(&value)));
        passed.chain(own).collect()
    }
}

/// The variables of our environment that a program is given.
fn passed(config: &SandboxConfig) -> Vec<(String, String)> {
    let is_passed = |(name, _): &(String, String)| config.pass_env.contains(name);
    environment::all().into_iter().filter(is_passed).collect()
}

/// The files that variables name, such as certificates.
fn files_of(variables: &[(String, String)]) -> Vec<PathBuf> {
    let named = |(name, value): &(String, String)| {
        let path = PathBuf::from(value);
        let is_certificates = name == "SSL_CERT_DIR" && path.is_dir();
        (path.is_absolute() && (path.is_file() || is_certificates)).then_some(path)
    };
    variables.iter().filter_map(named).collect()
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("{} is not a path", path.display()))
}
