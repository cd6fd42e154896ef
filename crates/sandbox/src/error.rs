//! Says why a program is not started.

use std::path::PathBuf;

/// Why a program is not started, or not become. Nothing of it ran.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// The program that embeds this crate did not call [`crate::init`].
    #[error(
        "this program cannot start others: it must call `toolgate_sandbox::init` first in `main`"
    )]
    NotInitialized,
    /// The configuration demands isolation that this system does not have.
    #[error(
        "`sandbox.mode` is `enforce`, and this system cannot isolate it: {0}. Write `mode: auto` to \
         start it nevertheless"
    )]
    NotEnforceable(String),
    /// A granted path is not there.
    #[error("`sandbox.{key}` names {path}, which is not there", path = .path.display())]
    MissingPath {
        /// `read` or `write`.
        key: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// A path that is written relative to the project leads out of it.
    #[error(
        "`sandbox.{key}` names {path}, which leads out of the project to {target}. Write that path \
         out if you mean it", path = .path.display(), target = .target.display()
    )]
    LeavesProject {
        /// `read` or `write`.
        key: &'static str,
        /// The path as it is written.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// A granted path belongs to toolgate.
    #[error(
        "`sandbox.{key}` names {path}, which belongs to toolgate: keys, logs and configurations are \
         never given to a program", path = .path.display()
    )]
    ProtectedPath {
        /// `read` or `write`.
        key: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// A protected file can be reached by another name.
    #[error(
        "{path} has a second name (a hard link), which a program could use. Remove the other name, \
         or replace the file by a copy", path = .path.display()
    )]
    HardLink {
        /// The file.
        path: PathBuf,
    },
    /// The home of the program cannot be made.
    #[error("its home {path} cannot be made: {reason}", path = .path.display())]
    Home {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// The grants do not fit into an argument.
    #[error(
        "its sandbox has {paths} paths, which is too many: name folders that are smaller, or that do \
         not lie around toolgate's own"
    )]
    TooManyPaths {
        /// How many.
        paths: usize,
    },
    /// The policy cannot be read.
    #[error("the policy cannot be read: {0}")]
    Policy(String),
    /// The kernel did not take a rule.
    #[error("{what} cannot be enforced: {reason}")]
    Enforcement {
        /// What was to be enforced.
        what: &'static str,
        /// What the system says.
        reason: String,
    },
}
