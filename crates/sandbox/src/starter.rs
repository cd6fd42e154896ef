//! Starts this program again as the starter, which enforces a policy and becomes another program.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::SandboxError;
use crate::policy::SandboxPolicy;

/// The first argument of the starter.
const STARTER_ARGUMENT: &str = "__start-program";

/// What a shell reports for a program that could not be started.
const NOT_STARTED: u8 = 127;
/// What a shell reports for a program that must not be started.
const NOT_ENFORCED: u8 = 126;

static INITIALIZED: AtomicBool = AtomicBool::new(false);

/// This program, which can start others: its `main` called [`init`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Starter(PathBuf);

impl Starter {
    /// The starter of this process.
    pub fn find() -> Result<Self, SandboxError> {
        if !INITIALIZED.load(Ordering::Acquire) {
            return Err(SandboxError::NotInitialized);
        }
        // This leads here also when the file was replaced meanwhile.
        let own = PathBuf::from("/proc/self/exe");
        if own.exists() {
            return Ok(Self(own));
        }
        std::env::current_exe().map(Self).map_err(|_| SandboxError::NotInitialized)
    }

    /// What is executed.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The arguments that come before those of the program.
    pub fn arguments(
        policy: &SandboxPolicy,
        program: &Path,
    ) -> Result<[OsString; 3], SandboxError> {
        Ok([STARTER_ARGUMENT.into(), policy.to_argument()?.into(), program.into()])
    }
}

/// Becomes another program, when these arguments say so; to be called first in `main`, with the
/// arguments of the process, while there is one thread. It returns an exit code when the program
/// could not be isolated as demanded or could not be started, and nothing when the arguments are
/// for `main`.
pub fn init(mut args: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    args.next();
    let mut args = args.peekable();
    if args.peek().is_none_or(|first| first != STARTER_ARGUMENT) {
        INITIALIZED.store(true, Ordering::Release);
        return None;
    }
    args.next();
    let (Some(policy), Some(program)) = (args.next(), args.next()) else {
        return Some(refuse(NOT_ENFORCED, "the arguments of the starter are missing"));
    };
    let policy = policy.to_str().ok_or_else(|| SandboxError::Policy("it is not text".to_owned()));
    let enforced = policy.and_then(SandboxPolicy::from_argument).and_then(|policy| {
        leave_terminal()?;
        close_inherited_files()?;
        enforce(&policy)
    });
    match enforced {
        Ok(()) => {
            let failed = execute(&program, args);
            Some(refuse(NOT_STARTED, &format!("the program did not start: {}", failed.kind())))
        }
        Err(error) => Some(refuse(NOT_ENFORCED, &format!("the program is not started: {error}"))),
    }
}

fn refuse(code: u8, sentence: &str) -> ExitCode {
    // The parent reads it there; nothing else can be done where it does not.
    let _ = writeln!(std::io::stderr(), "error: {sentence}");
    ExitCode::from(code)
}

/// Makes this process invisible to other programs of the same user: they cannot read its memory,
/// environment or open files, and it leaves no memory dump.
#[cfg(target_os = "linux")]
pub fn hide_process() -> Result<(), SandboxError> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    let hidden = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    hidden.map_err(|error| SandboxError::Enforcement {
        what: "the protection of this process",
        reason: error.to_string(),
    })
}

/// Other systems have nothing like it.
#[cfg(not(target_os = "linux"))]
pub fn hide_process() -> Result<(), SandboxError> {
    Ok(())
}

/// A program in a session of its own has no terminal, so it cannot type there for the person.
fn leave_terminal() -> Result<(), SandboxError> {
    let left = rustix::process::setsid().map(drop);
    left.map_err(|error| SandboxError::Enforcement {
        what: "a session of its own",
        reason: error.to_string(),
    })
}

/// Files that somebody left open may lead to what the policy forbids. There is one thread, and
/// nothing else was opened yet.
#[cfg(target_os = "linux")]
fn close_inherited_files() -> Result<(), SandboxError> {
    let failed = |reason: String| SandboxError::Enforcement {
        what: "the closing of inherited files",
        reason,
    };
    let listed = std::fs::read_dir("/proc/self/fd").map_err(|error| failed(error.to_string()))?;
    let numbers: Vec<i32> = listed
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in numbers {
        match nix::unistd::close(number) {
            // The list itself is closed already.
            Ok(()) | Err(nix::errno::Errno::EBADF) => {}
            Err(error) => return Err(failed(error.to_string())),
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn close_inherited_files() -> Result<(), SandboxError> {
    Ok(())
}

#[cfg(target_os = "linux")]
fn enforce(policy: &SandboxPolicy) -> Result<(), SandboxError> {
    crate::linux::enforce(policy)
}

#[cfg(not(target_os = "linux"))]
fn enforce(policy: &SandboxPolicy) -> Result<(), SandboxError> {
    if policy.landlock_abi == 0 && !policy.filter_calls && !policy.drop_privileges {
        for folder in &policy.create_folders {
            let _ = std::fs::create_dir_all(folder);
        }
        return Ok(());
    }
    let reason = "programs can be isolated on Linux only".to_owned();
    Err(SandboxError::Enforcement { what: "the policy", reason })
}

#[cfg(unix)]
fn execute(program: &OsString, args: impl Iterator<Item = OsString>) -> std::io::Error {
    use std::os::unix::process::CommandExt;
    Command::new(program).args(args).exec()
}
