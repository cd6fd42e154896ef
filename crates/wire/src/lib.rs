//! Models for toolgate. Each one answers a plan with a reply and knows nothing else.

pub mod answer;
pub mod assemble;
mod breaker;
pub mod dialect;
mod halves;
pub mod json_protocol;
mod lent;
pub mod model;
mod redacted_tap;
mod retry;
pub mod script;
pub mod transform;
mod words;

pub use breaker::BreakerRules;
pub use retry::Retries;
