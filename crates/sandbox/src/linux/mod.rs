//! Enforces a policy on the calling thread, which must be the only one of its process.

mod calls;
mod files;
mod privileges;

use crate::SandboxError;
use crate::level::KernelSupport;
use crate::policy::SandboxPolicy;

/// Asks the kernel what it can enforce.
pub(crate) fn probe() -> KernelSupport {
    KernelSupport { landlock_abi: files::supported_abi(), seccomp: calls::is_supported() }
}

/// Enforces a policy. What was enforced stays so, also for what the program starts.
pub(crate) fn enforce(policy: &SandboxPolicy) -> Result<(), SandboxError> {
    if policy.drop_privileges {
        privileges::drop_privileges()?;
    }
    if policy.landlock_abi > 0 {
        files::restrict(policy)?;
    }
    for folder in &policy.create_folders {
        // A program that wants a folder which cannot be made says so itself.
        let _ = std::fs::create_dir_all(folder);
    }
    // Last: the filter refuses some of what was needed before.
    if policy.filter_calls {
        calls::restrict(policy)?;
    }
    Ok(())
}
