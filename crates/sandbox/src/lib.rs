//! Isolation of the programs that toolgate starts: which files they can open, what they can connect
//! to, and which privileges they keep (ADR 0030).
//!
//! The parent makes a [`SandboxPolicy`] of a [`SandboxRequest`] and starts itself again. That second
//! process, the *starter*, enforces the policy on itself while it has one thread, and becomes the
//! program. So every binary that starts programs must call [`init`] first in `main`.

mod denial;
mod error;
mod grants;
mod level;
#[cfg(target_os = "linux")]
mod linux;
mod policy;
mod prepare;
mod program;
mod starter;
mod system;

pub use denial::{Denial, explain_denial};
pub use error::SandboxError;
pub use level::{IsolationGap, IsolationLevel, KernelSupport};
pub use policy::{NetworkAccess, PathAccess, PathGrant, SandboxPolicy};
pub use prepare::{
    HomeAccess, PreparedProgram, ProgramStart, SandboxMode, SandboxRequest, closed_at_top,
};
pub use starter::{Starter, hide_process, init};
