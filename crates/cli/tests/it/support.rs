//! A project and a home of its own for each test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

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

    pub(crate) fn write(&self, name: &str, content: &str) {
        std::fs::write(self.project().join(name), content).unwrap();
    }
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
