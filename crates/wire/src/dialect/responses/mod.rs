//! Decides how the Responses API of OpenAI is spoken. Nothing is stored with the provider.

mod decode;
mod encode;
mod gather;
mod items;

pub(super) use decode::{cost, decode};
pub(super) use encode::{closing, frame, opening, turn};
pub(super) use gather::gather;

/// The dialect's name, as kept replies have it.
const NAME: &str = "responses";
