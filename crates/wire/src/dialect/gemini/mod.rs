//! Decides how the generateContent API of Gemini is spoken.

mod decode;
mod encode;
mod gather;
#[cfg(test)]
mod tests;

pub(super) use decode::{cost, decode};
pub(super) use encode::{closing, frame, opening, turn};
pub(super) use gather::gather;

/// The dialect's name, as kept replies have it.
const NAME: &str = "gemini";

/// Where an answer counts what it cost.
pub(super) const COUNTS: &str = "usageMetadata";
