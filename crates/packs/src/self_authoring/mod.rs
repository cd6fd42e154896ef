//! Decides what an agent may change of itself: its name and its prompts, and its model with a
//! person's yes. Which tools it may use is not among it.
//!
//! `tools` has what the model calls, `consent` the question about the model, `review` what another
//! model says of new prompts.

mod consent;
mod review;
mod tools;

pub use review::Reviewer;
pub use tools::self_authoring;

/// The section, the tool and its group.
const NAME: &str = "self_authoring";
