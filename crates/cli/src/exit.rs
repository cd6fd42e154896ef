//! Decides the exit code, so that scripts can tell what happened.

use std::process::ExitCode;

use toolgate_mcp::client::oauth::OauthFault;
use toolgate_mcp::server::stdio::Broken;
use toolgate_runtime::log::ReadFault;
use toolgate_runtime::port::StoreFault;
use toolgate_runtime::{DriveFault, OpenFault};
use toolgate_store::HoldFault;

use crate::command::NobodyAnswered;
use crate::credential::NotUnlocked;
use crate::machine_policy::MachinePolicyError;
use crate::person::Nobody;
use crate::trust::NotTrusted;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what it should.
    Done,
    /// The call was refused or failed, the run did not complete, the log is not sound.
    Failed,
    /// Wrong usage or configuration.
    Usage,
    /// A person's word is due before it can go on, and nobody is at a terminal.
    Waiting,
    /// The log cannot be written or read.
    Log,
    /// Somebody else is at work on the session.
    Busy,
    /// The configuration is not trusted, so nothing was started.
    NotTrusted,
    /// The person at the keyboard stopped it.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Waiting => 3,
            // What the system calls an input/output error.
            Exit::Log => 74,
            // What the system calls a passing failure.
            Exit::Busy => 75,
            // What the system calls an error of the configuration.
            Exit::NotTrusted => 78,
            // What a shell reports for Ctrl-C.
            Exit::Interrupted => 130,
        })
    }
}

/// The exit code of an error that ended a command.
pub(crate) fn of(error: &anyhow::Error) -> Exit {
    error.chain().find_map(of_cause).unwrap_or(Exit::Usage)
}

fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    if let Some(fault) = cause.downcast_ref::<StoreFault>() {
        return Some(of_store(fault));
    }
    if let Some(fault) = cause.downcast_ref::<ReadFault>() {
        return Some(of_read(fault));
    }
    if let Some(fault) = cause.downcast_ref::<DriveFault>() {
        return of_drive(fault);
    }
    if let Some(fault) = cause.downcast_ref::<OpenFault>() {
        return of_open(fault);
    }
    if let Some(fault) = cause.downcast_ref::<HoldFault>() {
        return Some(match fault {
            HoldFault::Held { .. }
            | HoldFault::ChangesHands { .. }
            | HoldFault::Lost { .. }
            | HoldFault::LetGo { .. } => Exit::Busy,
            HoldFault::Unreachable { .. } => Exit::Log,
        });
    }
    if cause.is::<NotTrusted>() || cause.is::<MachinePolicyError>() {
        return Some(Exit::NotTrusted);
    }
    if cause.is::<Nobody>() {
        return Some(Exit::Waiting);
    }
    if cause.is::<NotUnlocked>() || cause.is::<Broken>() || cause.is::<NobodyAnswered>() {
        return Some(Exit::Failed);
    }
    if let Some(fault) = cause.downcast_ref::<OauthFault>() {
        // The configuration has what is missing.
        let usage = matches!(fault, OauthFault::NoRegistration | OauthFault::MovedIssuer);
        return Some(if usage { Exit::Usage } else { Exit::Failed });
    }
    let unopened = cause.downcast_ref::<toolgate_store::OpenFault>()?;
    let locked = matches!(unopened, toolgate_store::OpenFault::Locked { .. });
    Some(if locked { Exit::Busy } else { Exit::Log })
}

fn of_open(fault: &OpenFault) -> Option<Exit> {
    match fault {
        OpenFault::Store(fault) => Some(of_store(fault)),
        OpenFault::Read(fault) => Some(of_read(fault)),
        OpenFault::Drive(fault) => of_drive(fault),
        OpenFault::Exists(_) => Some(Exit::Busy),
        OpenFault::Missing(_)
        | OpenFault::TooLong(_)
        | OpenFault::Pictures(_)
        | OpenFault::PhaseGone(_)
        | OpenFault::AgentGone(_)
        | OpenFault::Request(_)
        | OpenFault::Fork(_)
        | OpenFault::NoPhase => None,
    }
}

fn of_drive(fault: &DriveFault) -> Option<Exit> {
    match fault {
        DriveFault::Store(fault) => Some(of_store(fault)),
        DriveFault::Read(fault) => Some(of_read(fault)),
        DriveFault::Files(_) | DriveFault::Say(_) => Some(Exit::Log),
        DriveFault::Author(_)
        | DriveFault::Stopped
        | DriveFault::NoResult(_)
        | DriveFault::Ended
        | DriveFault::Change(_)
        | DriveFault::NotHere(_)
        | DriveFault::Supply(_)
        | DriveFault::Undo(_)
        | DriveFault::Request(_)
        | DriveFault::NoPhase(_) => None,
    }
}

fn of_read(fault: &ReadFault) -> Exit {
    match fault {
        ReadFault::Store(fault) => of_store(fault),
        ReadFault::Broken { .. }
        | ReadFault::Unsigned { .. }
        | ReadFault::Unfounded { .. }
        | ReadFault::OtherHistory { .. }
        | ReadFault::OtherProject { .. }
        | ReadFault::Unreadable { .. } => Exit::Log,
    }
}

fn of_store(fault: &StoreFault) -> Exit {
    match fault {
        StoreFault::Moved { .. } | StoreFault::Fenced { .. } => Exit::Busy,
        StoreFault::Unavailable(_) | StoreFault::TimedOut(_) | StoreFault::Damaged(_) => Exit::Log,
    }
}
