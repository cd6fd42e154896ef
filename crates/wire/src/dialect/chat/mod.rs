//! Decides how chat completions are spoken: OpenAI's, and those of every compatible server.

mod calls;
mod decode;
mod encode;
mod gather;
mod piece;
#[cfg(test)]
mod tests;

pub(super) use decode::{cost, decode};
pub(super) use encode::{closing, frame, opening, turn};
pub(super) use gather::gather;

/// The dialect's name, as kept replies have it.
const NAME: &str = "chat";

/// What a server may say of a call besides its name and arguments, and wants to see again: the
/// signatures of Gemini behind this dialect.
pub(super) const CALL_EXTRAS: &[&str] =
    &["extra_content", "signature", "thought_signature", "provider_specific_fields"];

/// Thoughts in one text. They are sent back beside calls, where servers ask for them; elsewhere
/// servers ignore them or refuse them.
const THOUGHTS: &[&str] = &["reasoning_content", "reasoning"];

/// Thoughts in parts with signatures, always sent back.
const DETAILS: &str = "reasoning_details";

/// Where a streamed choice says that words came after its finish. A call printed in them, or across
/// it, is not taken: the reply was over.
pub(crate) const LATE_WORDS: &str = "words_after_finish";
