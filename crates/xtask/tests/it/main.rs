//! Tidy: what the project promises about its own tree, as ordinary tests.
//!
//! Every test collects all its complaints before it fails, each with the file and what to do.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test that cannot look at the tree should fail loudly"
)]

mod clock;
mod code;
mod decisions;
mod documented;
mod forgotten;
mod headers;
mod hygiene;
mod imports;
mod kernel;
mod layers;
mod names;
mod pages;
mod paths;
mod size;
mod spawn;
mod tree;
mod unfinished;
mod whitespace;

/// Fails with all complaints at once.
fn report(what: &str, complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{what}:\n  {}\n", complaints.join("\n  "));
}
