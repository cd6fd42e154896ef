//! Decides what the built-in tools do. A pack is a section of the prompt with its tools and state.

pub mod files;
pub mod manuscript;
pub mod notes;
pub mod phase;
pub mod planning;
mod text;
