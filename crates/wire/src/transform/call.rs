//! Decides what is mended in calls that were read: blank arguments, and names in another spelling.

use toolgate_kernel::config::Transform;
use toolgate_runtime::port::ReplyCall;

use super::granted::Granted;

/// Mends calls, and says in words what was mended.
pub(super) fn mend(
    transform: Transform,
    calls: &mut [ReplyCall],
    granted: &Granted<'_>,
) -> Vec<String> {
    let one = match transform {
        Transform::BlankArguments => blank_arguments,
        Transform::NormalizeNames => name,
        Transform::ContentNullIfBlank
        | Transform::ReasoningEmptyIfMissing
        | Transform::SignatureSkipIfMissing
        | Transform::StripDescriptions
        | Transform::FunctionCall
        | Transform::CallsToArray
        | Transform::ArgumentsToText
        | Transform::PrintedTags
        | Transform::PrintedHermes
        | Transform::PrintedLlama
        | Transform::PrintedMistral
        | Transform::PrintedDeepSeek
        | Transform::PrintedDomain
        | Transform::CompactEnvelope => return Vec::new(),
    };
    calls.iter_mut().filter_map(|call| one(call, granted)).collect()
}

fn blank_arguments(call: &mut ReplyCall, _: &Granted<'_>) -> Option<String> {
    if !call.args.trim().is_empty() {
        return None;
    }
    call.args = "{}".to_owned();
    Some("blank arguments became {}".to_owned())
}

/// A name that is right, or a declared alias, stays. Another one has to mean exactly one tool.
fn name(call: &mut ReplyCall, granted: &Granted<'_>) -> Option<String> {
    if granted.has_exactly(&call.name) {
        return None;
    }
    let meant = granted.meant(&call.name)?.to_owned();
    let repair = format!("a name was read as {meant}");
    call.name = meant;
    Some(repair)
}
