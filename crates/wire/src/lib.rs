//! Models for toolgate. Each one answers a plan with a reply and knows nothing else.

pub mod assemble;
mod breaker;
pub mod dialect;
pub mod http;
pub mod model;
mod retry;
pub mod script;
pub mod sse;
pub mod transform;
mod veil;
mod words;

pub use breaker::BreakerRules;
pub use retry::Retries;
