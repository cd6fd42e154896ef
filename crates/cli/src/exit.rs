//! Decides the exit code, so that scripts can tell what happened.

use std::process::ExitCode;

use toolgate_runtime::log::ReadFault;
use toolgate_runtime::port::StoreFault;
use toolgate_runtime::{DriveFault, OpenFault};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what it should.
    Done,
    /// The call was refused or failed, the run did not complete, the log is not sound.
    Failed,
    /// Wrong usage or configuration.
    Usage,
    /// The log cannot be written or read.
    Log,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            // What the system calls an input/output error.
            Exit::Log => 74,
        })
    }
}

/// The exit code of an error that ended a command.
pub(crate) fn of(error: &anyhow::Error) -> Exit {
    let is_log = error.chain().any(|cause| {
        cause.is::<StoreFault>()
            || cause.is::<ReadFault>()
            || matches!(
                cause.downcast_ref::<DriveFault>(),
                Some(DriveFault::Store(_) | DriveFault::Read(_))
            )
            || matches!(
                cause.downcast_ref::<OpenFault>(),
                Some(
                    OpenFault::Store(_)
                        | OpenFault::Read(_)
                        | OpenFault::Drive(DriveFault::Store(_) | DriveFault::Read(_))
                )
            )
            || cause.is::<toolgate_store::OpenFault>()
    });
    if is_log { Exit::Log } else { Exit::Usage }
}
