//! Drops capabilities, so that a program of root is no more than an owner of files.

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

use crate::SandboxError;

/// What a program of root keeps: files of other users, and low ports. Everything else would lead
/// around the other rules, such as CAP_PERFMON to the environment of any process.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// Drops all capabilities but [`KEPT`], for ever.
pub(super) fn drop_privileges() -> Result<(), SandboxError> {
    let failed = |error: rustix::io::Errno| SandboxError::Enforcement {
        what: "the drop of privileges",
        reason: error.to_string(),
    };
    // Without this, a program with the setuid bit would gain privileges again.
    set_no_new_privs(true).map_err(failed)?;
    let held = capabilities(None).map_err(failed)?;
    // Only who has CAP_SETPCAP may limit what is gained later; nobody else can gain anything now.
    if held.effective.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().difference(KEPT).iter() {
            // The kernel may know fewer of them than we do.
            if matches!(capability_is_in_bounding_set(capability), Ok(true)) {
                remove_capability_from_bounding_set(capability).map_err(failed)?;
            }
        }
    }
    clear_ambient_capability_set().map_err(failed)?;
    let kept = held.permitted.intersection(KEPT);
    let sets = CapabilitySets {
        effective: held.effective.intersection(KEPT),
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets).map_err(failed)?;
    let left = capabilities(None).map_err(failed)?;
    if KEPT.contains(left.permitted) {
        return Ok(());
    }
    let reason = "capabilities are left".to_owned();
    Err(SandboxError::Enforcement { what: "the drop of privileges", reason })
}
