//! The only fakes of the project, the scenario runner, and what the crash loop needs.

pub mod bent;
pub mod clock;
pub mod corpus;
pub mod crash;
pub mod everything;
pub mod fake;
pub mod flow_task;
pub mod forgery;
pub mod ledger;
pub mod mcp;
pub mod person;
pub mod scenario;
pub mod signer;
pub mod stage;
pub mod tool;
pub mod trace;
pub mod web;

/// A real project folder, for the tests of crates that may not know the store.
pub use toolgate_store::Folder;
