//! Models for toolgate. Each one answers a plan with a reply and knows nothing else.

pub mod script;
pub mod transform;
