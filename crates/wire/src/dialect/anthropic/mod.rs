//! Decides how the Messages API of Anthropic is spoken.

mod decode;
mod encode;
mod gather;
#[cfg(test)]
mod tests;

pub(super) use decode::{cost, decode};
pub(super) use encode::{OUTPUT_TOKENS, closing, enforced, frame, opening, thoughtless, turn};
pub(super) use gather::gather;

/// The dialect's name, as kept replies have it.
const NAME: &str = "anthropic";
