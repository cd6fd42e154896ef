//! Models for toolgate. Each one answers a plan with a reply and knows nothing else.

mod breaker;
pub mod http;
mod retry;
pub mod script;
mod veil;
mod words;

pub use breaker::BreakerRules;
pub use retry::{Dice, Retries};
