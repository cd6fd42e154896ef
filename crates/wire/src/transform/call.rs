//! Repairs calls that were read: blank arguments, and names in another spelling.

use toolgate_runtime::port::ReplyCall;

use super::granted::Granted;

/// Blank arguments of a tool that takes none. Where it takes some, the gate decides what is guessed.
pub(super) fn blank_arguments(call: &mut ReplyCall, granted: &Granted<'_>) -> Option<String> {
    if !call.args.trim().is_empty() || granted.takes_arguments(&call.name) {
        return None;
    }
    call.args = "{}".to_owned();
    Some("blank arguments became {}".to_owned())
}

/// A name that is right, or a declared alias, stays. Another one has to mean exactly one tool.
pub(super) fn name(call: &mut ReplyCall, granted: &Granted<'_>) -> Option<String> {
    if granted.has_exactly(&call.name) {
        return None;
    }
    let meant = granted.meant(&call.name)?.to_owned();
    let repair = format!("a name was read as {meant}");
    call.name = meant;
    Some(repair)
}
