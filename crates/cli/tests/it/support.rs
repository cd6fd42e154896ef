//! A project and a home of its own for each test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use toolgate_testkit::fake::{Fake, Fault, Play, Seen};
use toolgate_wire::script::ScriptText;

use crate::terminal::trusting;

pub(crate) struct Desk {
    folder: tempfile::TempDir,
}

pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("project")).unwrap();
        std::fs::create_dir(folder.path().join("home")).unwrap();
        Self { folder }
    }

    /// A project whose agent plans in two phases.
    pub(crate) fn planner() -> Self {
        let desk = Self::new();
        desk.write("toolgate.yaml", include_str!("../data/planner.yaml"));
        desk
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
        command.current_dir(self.project()).stdin(Stdio::null());
        command.env_clear().env("HOME", self.home()).env("USER", "ada");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let Output { status, stdout, stderr } = self.command().args(args).output().unwrap();
        Ran {
            code: status.code().unwrap_or(-1),
            out: String::from_utf8(stdout).unwrap(),
            err: String::from_utf8(stderr).unwrap(),
        }
    }

    /// The same, which must end well.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}\n{}{}", ran.out, ran.err);
        ran.out
    }

    /// Trusts the configuration as it is now, as the person of this home: at a terminal, with the code
    /// of the card and a key without a passphrase.
    pub(crate) fn trust(&self) {
        self.trust_with(&[]);
    }

    /// The same with further arguments.
    pub(crate) fn trust_with(&self, args: &[&str]) {
        let mut command = self.command();
        command.arg("trust").args(args);
        let seen = trusting(command);
        assert_eq!(seen.code, 0, "{}", seen.screen);
    }

    /// Writes the configuration and trusts it.
    pub(crate) fn write_trusted(&self, content: &str) {
        self.write("toolgate.yaml", content);
        self.trust();
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        std::fs::write(self.project().join(name), content).unwrap();
    }
}

/// A fake provider that runs beside the test.
pub(crate) struct Beside {
    pub(crate) fake: Fake,
    _runtime: tokio::runtime::Runtime,
}

impl Beside {
    pub(crate) fn playing(yaml: &str) -> Self {
        Self::slowly(yaml, 0)
    }

    /// One that takes its time before each answer.
    pub(crate) fn slowly(yaml: &str, delay_ms: u64) -> Self {
        Self::with(Play { delay_ms, ..Self::play(yaml) })
    }

    /// One whose requests meet these faults, one after another.
    pub(crate) fn failing(yaml: &str, faults: &[&str]) -> Self {
        let faults = faults.iter().map(|name| Fault::named(name).unwrap()).collect();
        Self::with(Play { faults, ..Self::play(yaml) })
    }

    fn play(yaml: &str) -> Play {
        let script: ScriptText = serde_saphyr::from_str(yaml).unwrap();
        Play { script, key: Some("sk-CANARY-01".to_owned()), ..Play::default() }
    }

    fn with(play: Play) -> Self {
        let builder = &mut tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        let fake = runtime.block_on(Fake::start(play)).unwrap();
        Self { fake, _runtime: runtime }
    }

    /// A configuration in which `m` is this fake.
    pub(crate) fn config(&self, provider: &str) -> String {
        format!(
            "models:\n  m: {{provider: {provider}, model: fake-1, base_url: \
             'http://127.0.0.1:{}', api_key: 'env:FAKE_KEY'}}\n",
            self.fake.port()
        )
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.fake.seen()
    }
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Waits until something is so, and not for ever.
pub(crate) fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    for _ in 0..500 {
        if is_there() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("{what} did not come");
}
