//! A user with a home, keys, a project and services, and the hostile program among them.

use std::collections::BTreeMap;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use toolgate_sandbox::{
    HomeAccess, KernelSupport, NetworkAccess, PreparedProgram, ProgramStart, SandboxMode,
    SandboxPolicy, SandboxRequest, Starter,
};

use crate::attempts::ATTEMPT;

/// What there is for a program to attack.
pub(crate) struct Stage {
    folder: tempfile::TempDir,
    /// Services of the user that listen.
    pub(crate) tcp: TcpListener,
    pub(crate) udp: UdpSocket,
    pub(crate) abstract_name: String,
    _services: [UnixListener; 2],
}

/// Whether programs can be isolated here; says so where they cannot.
pub(crate) fn is_supported() -> bool {
    let support = KernelSupport::probe();
    let supported = support.landlock_abi >= 6 && support.seccomp;
    if !supported {
        println!("skipped: this kernel cannot isolate programs ({support:?})");
    }
    supported
}

impl Stage {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path();
        for (path, text) in [
            ("me/.config/toolgate/host.key", "key"),
            ("me/.local/state/toolgate/heads/log", "head"),
            ("me/.local/state/toolgate/homes/other/file", "theirs"),
            ("me/.ssh/id", "key"),
            ("me/work/.toolgate/log.db", "log"),
            ("me/work/toolgate.yaml", "rules"),
            ("me/work/readme", "text"),
            ("me/work/src/main", "text"),
            ("me/work/out/old", "text"),
            ("me/work/secrets/token", "secret"),
            ("elsewhere/file", "text"),
        ] {
            std::fs::create_dir_all(top.join(path).parent().unwrap()).unwrap();
            std::fs::write(top.join(path), text).unwrap();
        }
        let abstract_name = format!("toolgate-test-{}", top.display());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let services = [
            UnixListener::bind(top.join("me/work/src/service.sock")).unwrap(),
            UnixListener::bind_addr(&address).unwrap(),
        ];
        Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            abstract_name,
            _services: services,
            folder,
        }
    }

    /// A path of the stage.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    /// What the program is granted when nothing is configured.
    pub(crate) fn request(&self) -> SandboxRequest {
        let at = |path: &str| self.at(path);
        SandboxRequest {
            mode: SandboxMode::Enforce,
            project: at("me/work"),
            read: vec![".".into()],
            write: Vec::new(),
            network: NetworkAccess::All,
            home: HomeAccess::Private,
            user_home: Some(at("me")),
            private_folder: at("me/.local/state/toolgate/homes/own"),
            unix_sockets: false,
            protected: vec![
                at("me/.config/toolgate"),
                at("me/.local/state/toolgate"),
                at("me/work/.toolgate"),
                at("me/work/toolgate.yaml"),
                at("me/work/secrets/token"),
            ],
            extra_files: Vec::new(),
        }
    }

    /// The policy for this binary as the hostile program.
    pub(crate) fn prepared(&self, request: &SandboxRequest) -> PreparedProgram {
        let program = std::env::current_exe().unwrap();
        let cwd = self.at("me/work");
        let start = ProgramStart { program: &program, args: &[], cwd: &cwd, path: None };
        request.prepare(&start, KernelSupport::probe()).unwrap().unwrap()
    }

    /// Lets the hostile program make attempts; what it says of each.
    pub(crate) fn attempt(
        &self,
        request: &SandboxRequest,
        attempts: &[String],
    ) -> BTreeMap<String, String> {
        self.attempt_under(&self.prepared(request).policy, request, attempts)
    }

    /// The same under a policy that no request would make.
    pub(crate) fn attempt_under(
        &self,
        policy: &SandboxPolicy,
        request: &SandboxRequest,
        attempts: &[String],
    ) -> BTreeMap<String, String> {
        let program = std::env::current_exe().unwrap();
        let arguments = Starter::arguments(policy, &program).unwrap();
        let mut command = Command::new(Starter::find().unwrap().path());
        command.args(arguments).arg(ATTEMPT).args(attempts);
        let ran = command
            .env_clear()
            .envs(request.environment())
            .current_dir(&request.private_folder)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let (out, err) = (String::from_utf8(ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{:?} {err}", ran.status);
        let out = out.unwrap();
        let lines = out.lines().filter_map(|line| line.rsplit_once(": "));
        lines.map(|(attempt, outcome)| (attempt.to_owned(), outcome.to_owned())).collect()
    }
}

/// A path as an argument of an attempt.
pub(crate) fn on(verb: &str, path: &Path) -> String {
    format!("{verb} {}", path.display())
}
