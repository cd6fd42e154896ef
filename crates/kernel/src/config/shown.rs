//! Bounds texts of a configuration for a person to read, and masks secrets in them.

use super::secret::{holds_secret, is_secret};

/// What is shown in place of a secret.
pub(super) const MASK: &str = "***";

/// Characters of one shown text.
const SHOWN_CHARS_MAX: usize = 120;

/// A text in one line and of bounded length.
pub(super) fn shown(text: &str) -> String {
    let line = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let mut line: String = line.take(SHOWN_CHARS_MAX + 1).collect();
    if let Some((end, _)) = line.char_indices().nth(SHOWN_CHARS_MAX) {
        line.truncate(end);
        line.push('…');
    }
    line
}

/// Arguments with a mask for what stands behind an option that sounds like a secret.
pub(super) fn masked_args(args: &[String]) -> Vec<String> {
    let mut hide = false;
    let mut out = Vec::with_capacity(args.len());
    for arg in args {
        let (option, value) = match arg.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (arg.as_str(), None),
        };
        let sounds = is_secret(option.trim_start_matches('-'));
        out.push(match value {
            _ if hide => MASK.to_owned(),
            Some(_) if sounds => format!("{option}={MASK}"),
            Some(_) | None => masked_address(arg),
        });
        hide = sounds && value.is_none() && option.starts_with('-');
    }
    out
}

/// A text; where it is an address with a password or a key in it, without these and without its
/// query.
pub(super) fn masked_address(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://").filter(|_| holds_secret(text)) else {
        return text.to_owned();
    };
    let (place, query) = match rest.find(['?', '#']) {
        Some(at) => (rest.get(..at).unwrap_or_default(), "?***"),
        None => (rest, ""),
    };
    let (authority, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{MASK}@{host}{path}{query}"),
        None => format!("{scheme}://{authority}{path}{query}"),
    }
}
